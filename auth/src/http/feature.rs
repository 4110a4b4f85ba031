//! Features that are not built yet, and what they answer meanwhile: as upstream does where an operator has switched
//! them off (auth.md §2, §3.15, §3.22). A change that builds one takes its line out here.

use http::StatusCode;

/// A feature that is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// SAML 2.0 single sign-on.
    Saml,
    /// The OAuth 2.1 server.
    OAuthServer,
    /// Passkeys.
    Passkeys,
    /// Generic OAuth2 and OIDC providers.
    CustomProviders,
    /// Sign-in with a wallet.
    Web3,
    /// Enrolling a second factor.
    Enroll(FactorType),
    /// Using a second factor.
    Verify(FactorType),
}

/// A kind of second factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorType {
    /// An authenticator app.
    Totp,
    /// A phone.
    Phone,
    /// A security key.
    WebAuthn,
    /// Codes on paper.
    RecoveryCodes,
}

impl FactorType {
    /// The type of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "totp" => Some(Self::Totp),
            "phone" => Some(Self::Phone),
            "webauthn" => Some(Self::WebAuthn),
            _ => None,
        }
    }
}

impl Feature {
    /// The sentence for people.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Saml => "SAML 2.0 is disabled",
            Self::OAuthServer => "OAuth server is disabled",
            Self::Passkeys => "Passkeys are disabled",
            Self::CustomProviders => "Custom OAuth providers are disabled",
            Self::Web3 => "Web3 provider is disabled",
            Self::Enroll(FactorType::Totp) => "MFA enroll is disabled for TOTP",
            Self::Enroll(FactorType::Phone) => "MFA enroll is disabled for Phone",
            Self::Enroll(FactorType::WebAuthn) => "MFA enroll is disabled for WebAuthn",
            Self::Enroll(FactorType::RecoveryCodes) => "MFA enroll is disabled for Recovery Codes",
            Self::Verify(FactorType::Totp) => "MFA verification is disabled for TOTP",
            Self::Verify(FactorType::Phone) => "MFA verification is disabled for Phone",
            Self::Verify(FactorType::WebAuthn) => "MFA verification is disabled for WebAuthn",
            Self::Verify(FactorType::RecoveryCodes) => "MFA verification is disabled for Recovery Codes",
        }
    }

    /// Status and code.
    pub(crate) const fn wire(self) -> (StatusCode, &'static str) {
        const GONE: StatusCode = StatusCode::NOT_FOUND;
        const REFUSED: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;
        match self {
            Self::Saml => (GONE, "saml_provider_disabled"),
            Self::OAuthServer | Self::CustomProviders => (GONE, "feature_disabled"),
            Self::Passkeys => (GONE, "passkey_disabled"),
            Self::Web3 => (REFUSED, "web3_provider_disabled"),
            Self::Enroll(FactorType::Totp) => (REFUSED, "mfa_totp_enroll_not_enabled"),
            Self::Enroll(FactorType::Phone) => (REFUSED, "mfa_phone_enroll_not_enabled"),
            Self::Enroll(FactorType::WebAuthn) => (REFUSED, "mfa_webauthn_enroll_not_enabled"),
            Self::Enroll(FactorType::RecoveryCodes) => (REFUSED, "mfa_recovery_codes_enroll_not_enabled"),
            Self::Verify(FactorType::Totp) => (REFUSED, "mfa_totp_verify_not_enabled"),
            Self::Verify(FactorType::Phone) => (REFUSED, "mfa_phone_verify_not_enabled"),
            Self::Verify(FactorType::WebAuthn) => (REFUSED, "mfa_webauthn_verify_not_enabled"),
            Self::Verify(FactorType::RecoveryCodes) => (REFUSED, "mfa_recovery_codes_verify_not_enabled"),
        }
    }
}
