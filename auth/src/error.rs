//! Errors and their wire format (auth.md §3.1). No other module defines statuses, codes or error bodies. [`mod@wire`] has status
//! and code, [`mod@render`] the bodies, and [`mod@cause`] the conversions from other errors.
//!
//! An error's `Display` text is the message that clients compare, so it is part of the contract. The body depends on the
//! request's `X-Supabase-Api-Version`, so an error is passed to [`mod@render`] in the response's extensions. SQL and causes
//! stay in the variants and are only logged.

mod cause;
pub(crate) mod feature;
mod render;
mod wire;

use std::borrow::Cow;
use std::time::Duration;

use basalt_core::keys::KeyError;
use basalt_pg::pg_error::PgError;
use basalt_pg::session::SessionError;
use uuid::Uuid;

use crate::hook_types::error::HookError;
use crate::passwords::policy::Weakness;
pub(crate) use cause::TakenAddress;
use feature::Feature;
pub(crate) use render::{ApiVersion, RenderContext, not_found, render, render_fault};

/// Every error of the service. The contract fixes the messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    // The request itself.
    /// The body is not a JSON object with the expected fields.
    #[error("Could not parse request body as JSON: {0}")]
    BadJson(String),
    /// The body exceeds the limit, in bytes.
    #[error("Request body too large (max {0} bytes)")]
    BodyTooLarge(usize),
    /// A parameter is invalid; the text says why.
    #[error("{0}")]
    Validation(Cow<'static, str>),
    /// Too many requests from an address, or wrong passwords for an account.
    #[error("Request rate limit reached")]
    RateLimited {
        /// Time until the next request is accepted.
        retry_after: Duration,
    },
    /// The user received a mail of this kind too recently.
    #[error("For security purposes, you can only request this after {seconds} seconds.")]
    MailTooSoon {
        /// Whole seconds left.
        seconds: i64,
    },
    /// The server-wide limit on mails is exhausted.
    #[error("email rate limit exceeded")]
    MailLimit {
        /// Time until the next mail can be sent.
        retry_after: Duration,
    },
    /// The address is not on the list of authorised recipients.
    #[error("Email address {0:?} cannot be used as it is not authorized")]
    EmailNotAuthorized(String),
    /// The request exceeded its deadline.
    #[error("Processing this request timed out, please retry after a moment.")]
    Timeout,
    /// The client sends its body too slowly.
    #[error("The request body came too slowly")]
    SlowBody,

    // The bearer.
    /// There is no bearer token.
    #[error("This endpoint requires a valid Bearer token")]
    NoBearer,
    /// Invalid signature, algorithm, key or time claim.
    #[error("invalid JWT: unable to parse or verify signature, {0}")]
    BadJwt(String),
    /// No `sub` claim: an API key was used as a user's token.
    #[error("invalid claim: missing sub claim")]
    NoSub,
    /// `sub` is not a UUID.
    #[error("invalid claim: sub claim must be a UUID")]
    SubNotUuid,
    /// `session_id` is not a UUID.
    #[error("invalid claim: session_id claim must be a UUID")]
    SessionIdNotUuid,
    /// The token's user was deleted.
    #[error("User from sub claim in JWT does not exist")]
    NoSuchSub,
    /// The token's session has ended.
    #[error("Session from session_id claim in JWT does not exist")]
    NoSuchSession,
    /// The token's user is banned.
    #[error("User is banned")]
    BannedBearer,
    /// The token's role is not an admin role.
    #[error("User not allowed")]
    NotAdmin,

    // Sign-up and sign-in.
    /// Sign-up is disabled.
    #[error("Signups not allowed for this instance")]
    SignupDisabled,
    /// The password breaks the policy.
    #[error("{}", .0.message)]
    WeakPassword(Weakness),
    /// Sign-up by e-mail is disabled.
    #[error("Email signups are disabled")]
    EmailSignupsDisabled,
    /// Sign-up by phone is disabled.
    #[error("Phone signups are disabled")]
    PhoneSignupsDisabled,
    /// Sign-in by e-mail is disabled.
    #[error("Email logins are disabled")]
    EmailLoginsDisabled,
    /// Sign-in by phone is disabled.
    #[error("Phone logins are disabled")]
    PhoneLoginsDisabled,
    /// E-mail is disabled, for routes that send mail; sign-in has the same message with another status.
    #[error("Email logins are disabled")]
    MailRoutesDisabled,
    /// Phone is disabled, for routes that send messages.
    #[error("Phone logins are disabled")]
    MessageRoutesDisabled,
    /// Magic links are disabled.
    #[error("Login with magic link is disabled")]
    MagicLinkDisabled,
    /// Phone is disabled, or no SMS provider is configured.
    #[error("Unsupported phone provider")]
    UnsupportedPhoneProvider,
    /// A code for an unknown address with `create_user: false`.
    #[error("Signups not allowed for otp")]
    OtpDisabled,
    /// Reauthentication with an unconfirmed address.
    #[error("Please verify your email first.")]
    VerifyEmailFirst,
    /// Reauthentication with an unconfirmed number.
    #[error("Please verify your phone first.")]
    VerifyPhoneFirst,
    /// Anonymous sign-in is disabled.
    #[error("Anonymous sign-ins are disabled")]
    AnonymousDisabled,
    /// The address belongs to another user.
    #[error("User already registered")]
    UserAlreadyExists,
    /// `grant_type` is missing or unknown.
    #[error("unsupported_grant_type")]
    UnsupportedGrant,
    /// Unknown user, no password, or a wrong one; indistinguishable on purpose.
    #[error("Invalid login credentials")]
    InvalidCredentials,
    /// Correct password, but the user is banned.
    #[error("User is banned")]
    SignInBanned,
    /// Correct password, but the address is not confirmed.
    #[error("Email not confirmed")]
    EmailNotConfirmed,
    /// The text message was not sent.
    #[error("Error sending {kind} OTP to provider: {reason}")]
    SmsSendFailed {
        /// The kind of message.
        kind: &'static str,
        /// The provider's reason.
        reason: String,
    },
    /// The user received a text message of this kind too recently.
    #[error("For security purposes, you can only request this after {seconds} seconds.")]
    SmsTooSoon {
        /// Whole seconds left.
        seconds: i64,
    },
    /// A limit on text messages is exhausted: that of the server, the country or the number.
    #[error("SMS rate limit exceeded")]
    SmsLimit {
        /// Time until the next message can be sent.
        retry_after: Duration,
    },
    /// Correct password, but the number is not confirmed.
    #[error("Phone not confirmed")]
    PhoneNotConfirmed,

    // Refresh.
    /// Unknown token, or not signed with the session's key.
    #[error("Invalid Refresh Token: Refresh Token Not Found")]
    RefreshTokenNotFound,
    /// Reuse outside the interval, which ended the session.
    #[error("Invalid Refresh Token: Already Used")]
    RefreshTokenAlreadyUsed,
    /// An imported token without a session.
    #[error("Invalid Refresh Token: No Valid Session Found")]
    NoValidSession,
    /// A session limit was reached; the text is empty or names the limit in brackets after a space.
    #[error("Invalid Refresh Token: Session Expired{0}")]
    SessionExpired(&'static str),
    /// The user is banned.
    #[error("Invalid Refresh Token: User Banned")]
    RefreshBanned,
    /// The session belongs to an OAuth client, which uses another endpoint.
    #[error("Invalid client for this refresh token")]
    OAuthClientSession,

    // Codes, links and flows.
    /// A typed code is wrong or expired, or belongs to no user.
    #[error("Token has expired or is invalid")]
    OtpExpired,
    /// A link's code is used up, expired or unknown.
    #[error("Email link is invalid or has expired")]
    LinkExpired,
    /// Correct code, but the user is banned.
    #[error("User is banned")]
    VerifyBanned,
    /// Invalid address at `/verify`.
    #[error("Invalid email format")]
    VerifyEmailFormat,
    /// No PKCE flow has this authorization code.
    #[error("invalid flow state, no valid flow state found")]
    FlowStateNotFound,
    /// The authorization code was issued too long ago.
    #[error("invalid flow state, flow state has expired")]
    FlowStateExpired,
    /// The verifier does not match the challenge.
    #[error("code challenge does not match previously saved code verifier")]
    BadCodeVerifier,

    // Changing a user.
    /// `app_metadata` from a normal user.
    #[error("Updating app_metadata requires admin privileges")]
    AppMetadataNeedsAdmin,
    /// The user has a verified factor, but the session is aal1.
    #[error("AAL2 session is required to update email or password when MFA is enabled.")]
    InsufficientAal,
    /// Password for an account without an address.
    #[error("Updating password of an anonymous user without an email or phone is not allowed")]
    AnonymousPassword,
    /// A single sign-on account.
    #[error("Updating email, phone, password of a SSO account only possible via SSO")]
    SsoManaged,
    /// The new address belongs to another user.
    #[error("A user with this email address has already been registered")]
    EmailExists,
    /// The new number belongs to another user.
    #[error("A user with this phone number has already been registered")]
    PhoneExists,
    /// The session is older than a day, and there is no nonce.
    #[error("Password update requires reauthentication")]
    ReauthenticationNeeded,
    /// The nonce is wrong or expired.
    #[error("Nonce has expired or is invalid")]
    ReauthenticationNotValid,
    /// `current_password` is required but missing.
    #[error("Current password required when setting new password.")]
    CurrentPasswordRequired,
    /// `current_password` is wrong.
    #[error("Current password required when setting new password.")]
    CurrentPasswordInvalid,
    /// The new password is the old one.
    #[error("New password should be different from the old password.")]
    SamePassword,

    // Admins.
    /// A token bound to a session that has ended.
    #[error("Session is no longer valid")]
    AdminSessionExpired,
    /// The user in the path does not exist.
    #[error("User not found")]
    UserNotFound,
    /// Link for an unknown address.
    #[error("User with this email not found")]
    NoUserWithEmail,
    /// The user id in the path is not a UUID.
    #[error("user_id must be an UUID")]
    UserIdNotUuid,
    /// The new user's number belongs to another user.
    #[error("Phone number already registered by another user")]
    PhoneRegistered,
    /// The session id in the path is not a UUID.
    #[error("session_id must be an UUID")]
    SessionPathNotUuid,
    /// The user has no such session.
    #[error("Session not found")]
    SessionNotFound,
    /// The identity id in the path is not a UUID.
    #[error("identity_id must be an UUID")]
    IdentityIdNotUuid,
    /// Manual linking is disabled.
    #[error("Manual linking is disabled")]
    ManualLinkingDisabled,
    /// The token has another audience.
    #[error("Token audience doesn't match request audience")]
    UnexpectedAudience,
    /// The last identity cannot be removed.
    #[error("User must have at least 1 identity after unlinking")]
    SingleIdentity,
    /// The user has no such identity.
    #[error("Identity doesn't exist")]
    IdentityNotFound,
    /// The feature is not available.
    #[error("{}", .0.message)]
    SwitchedOff(Feature),
    /// Anonymous users cannot enroll factors.
    #[error("Anonymous user not allowed to perform these actions")]
    AnonymousRefused,
    /// The factor id in the path is not a UUID.
    #[error("factor_id must be an UUID")]
    FactorIdNotUuid,
    /// The user has no such factor.
    #[error("Factor not found")]
    FactorNotFound,
    /// Another factor of the user has the name.
    #[error("A factor with the friendly name {0:?} for this user already exists")]
    FactorNameTaken(String),
    /// The user has too many factors.
    #[error("Maximum number of verified factors reached, unenroll to continue")]
    TooManyFactors,
    /// Enrolling another factor requires an aal2 session.
    #[error("AAL2 required to enroll a new factor")]
    EnrollNeedsAal2,
    /// The factor has no such challenge.
    #[error("MFA factor with the provided challenge ID not found")]
    ChallengeNotFound,
    /// The challenge was created from another address, or was used.
    #[error("Challenge and verify IP addresses mismatch.")]
    ChallengeMismatch,
    /// The challenge has expired.
    #[error("MFA challenge {0} has expired, verify against another challenge or create a new challenge.")]
    ChallengeExpired(Uuid),
    /// The code is wrong, or was used before.
    #[error("Invalid TOTP code entered")]
    WrongTotpCode,
    /// The recovery code is wrong, or was used before.
    #[error("Invalid recovery code entered")]
    WrongRecoveryCode,
    /// Too many wrong recovery codes.
    #[error("Too many failed recovery code attempts, try again later")]
    RecoveryCodesLocked {
        /// Time until the next attempt is accepted.
        retry_after: Duration,
    },
    /// Recovery codes cannot be the only factor.
    #[error("Recovery codes require another verified factor")]
    RecoveryCodesAlone,
    /// The user has recovery codes already.
    #[error("Recovery codes already exist, regenerate them to replace the existing codes")]
    RecoveryCodesExist,
    /// Removing a verified factor requires an aal2 session.
    #[error("AAL2 required to unenroll verified factor")]
    FactorNeedsAal2,
    /// The code of a text message is wrong, or was used before.
    #[error("Invalid MFA Phone code entered")]
    WrongPhoneCode,
    /// The user has a verified factor with this number.
    #[error("A verified phone factor already exists, unenroll the existing factor to continue")]
    PhoneFactorExists,

    // Hooks and captchas.
    /// A hook rejected the request or does not work.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// A hook rejected a sign-in with a password.
    #[error("{0}")]
    PasswordRejected(String),
    /// A hook rejected the code of a second factor.
    #[error("{0}")]
    FactorRejected(String),
    /// The captcha's token is missing or was refused; the text says why.
    #[error("captcha protection: request disallowed ({0})")]
    CaptchaFailed(String),
    /// The captcha service does not work; the reason is for the log.
    #[error("captcha verification process failed")]
    CaptchaUnavailable(String),

    // External providers.
    /// The provider is unavailable, rejected the code, or responded with something else; the reason is for the log.
    #[error("Unable to exchange external code: {provider} did not confirm the sign-in")]
    ProviderFailed {
        /// The provider's name or issuer.
        provider: String,
        /// What happened.
        reason: String,
    },
    /// The provider did not report an e-mail address.
    #[error("Error getting user email from external provider")]
    NoExternalEmail,
    /// The callback lacks a parameter, or the provider reported an error.
    #[error("{0}")]
    BadOAuthCallback(String),
    /// The `state` is invalid, unknown, expired, or belongs to another browser.
    #[error("{0}")]
    BadOAuthState(&'static str),
    /// The `state` was used before.
    #[error("State has already been used")]
    OAuthStateUsed,
    /// The provider did not verify the address; a confirmation was sent if there is one.
    #[error("{0}")]
    ExternalEmailUnverified(String),
    /// Accounts differ only in the case of their address.
    #[error("Multiple accounts with the same email address in the same linking domain detected: default")]
    SeveralAccounts,
    /// The identity belongs to this user already.
    #[error("Identity is already linked")]
    IdentityLinked,
    /// The identity belongs to another user.
    #[error("Identity is already linked to another user")]
    IdentityLinkedElsewhere,
    /// The ID token was issued for another client; the text lists its audiences.
    #[error("Unacceptable audience in id_token: [{0}]")]
    UnacceptableAudience(String),
    /// The ID token's nonce differs from that of the request.
    #[error("Nonces mismatch")]
    NonceMismatch,
    /// An OAuth error of the grants `id_token` and `web3`.
    #[error("{0}")]
    InvalidRequest(&'static str),
    // WebAuthn.
    /// As `WebAuthnFailed`, for a second factor.
    #[error("WebAuthn verification failed")]
    WrongWebAuthnResponse,
    /// The authenticator's response is invalid: wrong challenge, origin, relying party, signature or counter.
    #[error("WebAuthn verification failed")]
    WebAuthnFailed,
    /// The challenge is unknown, or was answered before.
    #[error("WebAuthn challenge not found")]
    WebAuthnChallengeNotFound,
    /// The challenge was not answered in time.
    #[error("WebAuthn challenge has expired")]
    WebAuthnChallengeExpired,
    /// The user has no passkey with this id.
    #[error("WebAuthn credential not found")]
    WebAuthnCredentialNotFound,
    /// The credential is registered already.
    #[error("WebAuthn credential already exists")]
    WebAuthnCredentialExists,
    /// The user has the maximum number of passkeys.
    #[error("Maximum number of passkeys reached, delete one to continue")]
    TooManyPasskeys,
    // Custom providers.
    /// No custom provider has this identifier.
    #[error("Custom OAuth provider not found")]
    CustomProviderNotFound,
    /// Another custom provider has the identifier.
    #[error("A custom OAuth provider with this identifier already exists")]
    CustomProviderExists,
    /// `auth.custom_oauth_max_providers` is reached.
    #[error("Maximum number of custom OAuth/OIDC providers reached")]
    TooManyCustomProviders,
    // The OAuth server.
    /// An error of OAuth 2.1: its code and the description.
    #[error("{description}")]
    OAuth {
        /// The code.
        code: OAuthCode,
        /// What is wrong.
        description: Cow<'static, str>,
    },
    /// No client has this id.
    #[error("OAuth client not found")]
    OAuthClientNotFound,
    /// No pending request has this id: it has expired, or belongs to another user.
    #[error("OAuth authorization not found")]
    OAuthAuthorizationNotFound,
    /// The user has decided about the request before.
    #[error("OAuth authorization has already been decided")]
    OAuthAuthorizationDecided,
    /// The user has not granted anything to the client.
    #[error("OAuth consent not found")]
    OAuthConsentNotFound,
    /// Clients cannot register themselves.
    #[error("Dynamic client registration is not enabled")]
    RegistrationDisabled,
    /// The session belongs to an OAuth client, which acts for the user but does not manage the account.
    #[error("OAuth clients cannot manage the user's account")]
    ClientSessionRefused,
    /// The issuer's provider is disabled.
    #[error("Provider (issuer \"{0}\") is not enabled")]
    IssuerDisabled(String),
    /// Unsupported blockchain.
    #[error("Unsupported chain")]
    UnsupportedChain,
    /// The remaining address belongs to another user.
    #[error("Unable to unlink identity due to email conflict")]
    IdentityEmailConflict,
    /// The imported password hash is not supported.
    #[error("Error creating user")]
    CreatingUser,
    /// Inserting an admin's new user failed.
    #[error("Database error creating new user")]
    InsertingUser(#[source] Box<PgError>),
    /// Deleting a user failed, usually because of a foreign key in the project's schema.
    #[error("Database error deleting user")]
    DeletingUser(#[source] Box<PgError>),

    // The command line.
    /// `--admin`, but the project has no table for administrators.
    #[error(
        "the table public.user_roles does not exist: apply the project's migrations first (basalt migrate)"
    )]
    NoUserRoles,

    // The server and the database.
    /// The queue of password hashes is full.
    #[error("The server is busy, please retry after a moment.")]
    Overloaded,
    /// Inserting a user failed, usually in a trigger of the project.
    #[error("Database error saving new user")]
    SavingUser(#[source] Box<PgError>),
    /// Updating a user failed.
    #[error("Error updating user")]
    UpdatingUser(#[source] Box<PgError>),
    /// A query failed.
    #[error("Database error querying schema")]
    Querying(#[source] Box<PgError>),
    /// The database is unreachable or overloaded.
    #[error("The database is unavailable, please retry after a moment.")]
    DatabaseUnavailable(#[source] SessionError),
    /// Another statement failed.
    #[error("Unexpected failure, please check server logs for more information")]
    Database(#[source] Box<PgError>),
    /// Signing a token failed.
    #[error("Unexpected failure, please check server logs for more information")]
    Signing(#[source] KeyError),
    /// A bug or an inconsistent database; the text is for the log.
    #[error("Unexpected failure, please check server logs for more information")]
    Internal(String),
}

/// A code of OAuth 2.1 (RFC 6749 §5.2, RFC 8707).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OAuthCode {
    /// A parameter is missing or invalid.
    InvalidRequest,
    /// The client is unknown or has not authenticated.
    InvalidClient,
    /// The code or refresh token is invalid.
    InvalidGrant,
    /// The scope is unknown or was not granted.
    InvalidScope,
    /// The resource is invalid.
    InvalidTarget,
    /// The client may not use the grant.
    UnauthorizedClient,
    /// The grant is unknown.
    UnsupportedGrantType,
}

impl AuthError {
    /// A [`Self::Validation`] with a static text.
    pub(crate) const fn validation(text: &'static str) -> Self {
        Self::Validation(Cow::Borrowed(text))
    }

    /// Turns the rejection of a refresh token into the error that OAuth defines for it. Server errors stay.
    pub(crate) fn invalid_grant(self) -> Self {
        if self.wire().0 == http::StatusCode::BAD_REQUEST {
            Self::OAuth { code: OAuthCode::InvalidGrant, description: Cow::Owned(self.to_string()) }
        } else {
            self
        }
    }

    /// A [`Self::OAuth`] with a static description.
    pub(crate) const fn oauth(code: OAuthCode, description: &'static str) -> Self {
        Self::OAuth { code, description: Cow::Borrowed(description) }
    }
}
