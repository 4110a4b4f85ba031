//! Status, code and `Retry-After` of each error (auth.md §3.1). The bodies are [`mod@super::render`].

use http::StatusCode;

use super::{AuthError, OAuthCode};
use crate::hook_types::error::HookError;

impl AuthError {
    /// Status and code. No `_` arm: a new variant must choose its own.
    pub(super) fn wire(&self) -> (StatusCode, &'static str) {
        const BAD: StatusCode = StatusCode::BAD_REQUEST;
        const DENIED: StatusCode = StatusCode::FORBIDDEN;
        const REFUSED: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;
        const BROKEN: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
        match self {
            Self::BadJson(_) => (BAD, "bad_json"),
            Self::BodyTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "request_entity_too_large"),
            Self::Validation(_) => (BAD, "validation_failed"),
            Self::RateLimited { .. } => (StatusCode::TOO_MANY_REQUESTS, "over_request_rate_limit"),
            Self::MailTooSoon { .. } | Self::MailLimit { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "over_email_send_rate_limit")
            }
            Self::EmailNotAuthorized(_) => (BAD, "email_address_not_authorized"),
            Self::Timeout => (StatusCode::GATEWAY_TIMEOUT, "request_timeout"),
            Self::SlowBody => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            Self::NoBearer => (StatusCode::UNAUTHORIZED, "no_authorization"),
            Self::BadJwt(_) | Self::NoSub | Self::SessionIdNotUuid => (DENIED, "bad_jwt"),
            Self::SubNotUuid => (BAD, "bad_jwt"),
            Self::NoSuchSub => (DENIED, "user_not_found"),
            Self::NoSuchSession => (DENIED, "session_not_found"),
            Self::BannedBearer => (DENIED, "user_banned"),
            Self::NotAdmin | Self::AppMetadataNeedsAdmin => (DENIED, "not_admin"),
            Self::SignupDisabled => (REFUSED, "signup_disabled"),
            Self::WeakPassword(_) => (REFUSED, "weak_password"),
            Self::EmailSignupsDisabled => (BAD, "email_provider_disabled"),
            Self::PhoneSignupsDisabled => (BAD, "phone_provider_disabled"),
            Self::EmailLoginsDisabled | Self::MagicLinkDisabled => (REFUSED, "email_provider_disabled"),
            Self::MailRoutesDisabled => (BAD, "email_provider_disabled"),
            Self::MessageRoutesDisabled | Self::UnsupportedPhoneProvider => (BAD, "phone_provider_disabled"),
            Self::OtpDisabled => (REFUSED, "otp_disabled"),
            Self::VerifyEmailFirst => (REFUSED, "email_not_confirmed"),
            Self::VerifyPhoneFirst => (REFUSED, "phone_not_confirmed"),
            Self::PhoneLoginsDisabled => (REFUSED, "phone_provider_disabled"),
            Self::AnonymousDisabled => (REFUSED, "anonymous_provider_disabled"),
            Self::SmsSendFailed { .. } => (REFUSED, "sms_send_failed"),
            Self::SmsTooSoon { .. } | Self::SmsLimit { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "over_sms_send_rate_limit")
            }
            Self::UserAlreadyExists => (REFUSED, "user_already_exists"),
            Self::UnsupportedGrant | Self::InvalidCredentials => (BAD, "invalid_credentials"),
            Self::SignInBanned | Self::RefreshBanned => (BAD, "user_banned"),
            Self::EmailNotConfirmed => (BAD, "email_not_confirmed"),
            Self::PhoneNotConfirmed => (BAD, "phone_not_confirmed"),
            Self::RefreshTokenNotFound => (BAD, "refresh_token_not_found"),
            Self::RefreshTokenAlreadyUsed => (BAD, "refresh_token_already_used"),
            Self::NoValidSession => (BAD, "session_not_found"),
            Self::SessionExpired(_) => (BAD, "session_expired"),
            Self::OAuthClientSession | Self::OAuth { code: OAuthCode::InvalidClient, .. } => {
                (BAD, "invalid_client")
            }
            Self::OtpExpired | Self::LinkExpired => (DENIED, "otp_expired"),
            Self::VerifyBanned => (DENIED, "user_banned"),
            Self::VerifyEmailFormat => (REFUSED, "validation_failed"),
            Self::FlowStateNotFound => (StatusCode::NOT_FOUND, "flow_state_not_found"),
            Self::FlowStateExpired => (REFUSED, "flow_state_expired"),
            Self::BadCodeVerifier => (BAD, "bad_code_verifier"),
            Self::InsufficientAal => (StatusCode::UNAUTHORIZED, "insufficient_aal"),
            Self::AnonymousPassword => (REFUSED, "validation_failed"),
            Self::SsoManaged => (REFUSED, "user_sso_managed"),
            Self::EmailExists => (REFUSED, "email_exists"),
            Self::PhoneExists | Self::PhoneRegistered => (REFUSED, "phone_exists"),
            Self::AdminSessionExpired => (DENIED, "session_expired"),
            Self::UserNotFound | Self::NoUserWithEmail => (StatusCode::NOT_FOUND, "user_not_found"),
            Self::UserIdNotUuid | Self::SessionPathNotUuid | Self::IdentityIdNotUuid => {
                (StatusCode::NOT_FOUND, "validation_failed")
            }
            Self::SessionNotFound => (StatusCode::NOT_FOUND, "session_not_found"),
            Self::SwitchedOff(feature) => (feature.status, feature.code),
            Self::AnonymousRefused => (DENIED, "no_authorization"),
            Self::FactorIdNotUuid => (StatusCode::NOT_FOUND, "validation_failed"),
            Self::FactorNotFound => (StatusCode::NOT_FOUND, "mfa_factor_not_found"),
            Self::FactorNeedsAal2 => (REFUSED, "insufficient_aal"),
            Self::EnrollNeedsAal2 => (DENIED, "insufficient_aal"),
            Self::FactorNameTaken(_) => (REFUSED, "mfa_factor_name_conflict"),
            Self::TooManyFactors => (REFUSED, "too_many_enrolled_mfa_factors"),
            Self::ChallengeNotFound => (REFUSED, "mfa_factor_not_found"),
            Self::ChallengeMismatch => (REFUSED, "mfa_ip_address_mismatch"),
            Self::ChallengeExpired(_) => (REFUSED, "mfa_challenge_expired"),
            Self::WrongTotpCode
            | Self::WrongPhoneCode
            | Self::WrongWebAuthnResponse
            | Self::WrongRecoveryCode => (REFUSED, "mfa_verification_failed"),
            Self::RecoveryCodesLocked { .. } => (StatusCode::TOO_MANY_REQUESTS, "mfa_recovery_codes_locked"),
            Self::RecoveryCodesAlone => (REFUSED, "mfa_recovery_codes_sole_factor"),
            Self::PhoneFactorExists | Self::RecoveryCodesExist => (REFUSED, "mfa_verified_factor_exists"),
            Self::PasswordRejected(_) => (BAD, "invalid_credentials"),
            Self::FactorRejected(_) => (DENIED, "mfa_verification_rejected"),
            Self::CaptchaFailed(_) => (BAD, "captcha_failed"),
            Self::Hook(error) => match error {
                HookError::Rejected { status: StatusCode::INTERNAL_SERVER_ERROR, .. }
                | HookError::Failed { .. } => (BROKEN, "unexpected_failure"),
                HookError::Rejected { status, .. } => (*status, "unknown"),
                HookError::Timeout(_) => (REFUSED, "hook_timeout"),
                HookError::Unreachable(_) => (REFUSED, "hook_timeout_after_retry"),
                HookError::TooLarge => (REFUSED, "hook_payload_over_size_limit"),
                HookError::ContentType(_) => (BAD, "hook_payload_invalid_content_type"),
            },
            Self::InvalidRequest(_)
            | Self::UnacceptableAudience(_)
            | Self::OAuth { code: OAuthCode::InvalidRequest, .. } => (BAD, "invalid_request"),
            Self::NonceMismatch => (BAD, "invalid_nonce"),
            Self::ProviderFailed { .. } | Self::NoExternalEmail | Self::SeveralAccounts => {
                (BROKEN, "unexpected_failure")
            }
            Self::BadOAuthCallback(_) => (BAD, "bad_oauth_callback"),
            Self::BadOAuthState(_) => (BAD, "bad_oauth_state"),
            Self::OAuthStateUsed => (BAD, "flow_state_already_used"),
            Self::ExternalEmailUnverified(_) => (DENIED, "provider_email_needs_verification"),
            Self::IdentityLinked | Self::IdentityLinkedElsewhere => (REFUSED, "identity_already_exists"),
            Self::OAuth { code: OAuthCode::InvalidGrant, .. } => (BAD, "invalid_grant"),
            Self::OAuth { code: OAuthCode::InvalidScope, .. } => (BAD, "invalid_scope"),
            Self::OAuth { code: OAuthCode::InvalidTarget, .. } => (BAD, "invalid_target"),
            Self::OAuth { code: OAuthCode::UnauthorizedClient, .. } => (BAD, "unauthorized_client"),
            Self::OAuth { code: OAuthCode::UnsupportedGrantType, .. } => (BAD, "unsupported_grant_type"),
            Self::WebAuthnFailed => (BAD, "webauthn_verification_failed"),
            Self::WebAuthnChallengeNotFound => (BAD, "webauthn_challenge_not_found"),
            Self::WebAuthnChallengeExpired => (BAD, "webauthn_challenge_expired"),
            Self::WebAuthnCredentialNotFound => (StatusCode::NOT_FOUND, "webauthn_credential_not_found"),
            Self::WebAuthnCredentialExists => (REFUSED, "webauthn_credential_exists"),
            Self::TooManyPasskeys => (REFUSED, "too_many_passkeys"),
            Self::CustomProviderNotFound => (StatusCode::NOT_FOUND, "custom_provider_not_found"),
            Self::CustomProviderExists => (BAD, "conflict"),
            Self::TooManyCustomProviders => (BAD, "over_custom_provider_quota"),
            Self::OAuthClientNotFound => (StatusCode::NOT_FOUND, "oauth_client_not_found"),
            Self::OAuthAuthorizationNotFound => (StatusCode::NOT_FOUND, "oauth_authorization_not_found"),
            Self::OAuthAuthorizationDecided => (BAD, "validation_failed"),
            Self::OAuthConsentNotFound => (StatusCode::NOT_FOUND, "oauth_consent_not_found"),
            Self::RegistrationDisabled => (DENIED, "oauth_dynamic_client_registration_disabled"),
            Self::ClientSessionRefused => (DENIED, "insufficient_scope"),
            Self::IssuerDisabled(_) => (BAD, "provider_disabled"),
            Self::UnsupportedChain => (BAD, "web3_unsupported_chain"),
            Self::ManualLinkingDisabled => (StatusCode::NOT_FOUND, "manual_linking_disabled"),
            Self::UnexpectedAudience => (DENIED, "unexpected_audience"),
            Self::SingleIdentity => (REFUSED, "single_identity_not_deletable"),
            Self::IdentityNotFound => (REFUSED, "identity_not_found"),
            Self::IdentityEmailConflict => (REFUSED, "email_conflict_identity_not_deletable"),
            Self::ReauthenticationNeeded => (BAD, "reauthentication_needed"),
            Self::ReauthenticationNotValid => (REFUSED, "reauthentication_not_valid"),
            Self::CurrentPasswordRequired => (BAD, "current_password_required"),
            Self::CurrentPasswordInvalid => (BAD, "current_password_invalid"),
            Self::SamePassword => (REFUSED, "same_password"),
            Self::Overloaded | Self::DatabaseUnavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unexpected_failure")
            }
            Self::SavingUser(_)
            | Self::UpdatingUser(_)
            | Self::InsertingUser(_)
            | Self::DeletingUser(_)
            | Self::CreatingUser
            | Self::Querying(_)
            | Self::CaptchaUnavailable(_)
            | Self::Database(_)
            | Self::Signing(_)
            | Self::NoUserRoles
            | Self::Internal(_) => (BROKEN, "unexpected_failure"),
        }
    }

    /// The stable code, as in `x-sb-error-code`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.wire().1
    }

    /// Seconds after which a retry may succeed; `None` if it cannot.
    pub(super) fn retry_after(&self) -> Option<u64> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "a retry does not help with the others")]
        match self {
            Self::RateLimited { retry_after }
            | Self::RecoveryCodesLocked { retry_after }
            | Self::MailLimit { retry_after }
            | Self::SmsLimit { retry_after } => Some(retry_after.as_secs().saturating_add(1)),
            Self::MailTooSoon { seconds } | Self::SmsTooSoon { seconds } => u64::try_from(*seconds).ok(),
            Self::Overloaded | Self::DatabaseUnavailable(_) | Self::Timeout => Some(1),
            _ => None,
        }
    }
}
