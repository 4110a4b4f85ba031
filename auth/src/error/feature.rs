//! Features that are off, or not implemented. Both respond as upstream does when an operator has disabled them (auth.md §2,
//! §3.15, §3.22).

use http::StatusCode;

/// A disabled feature and its error.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: &'static str,
}

/// Types of second factors with the errors for enrolling and for using one.
const FACTORS: [(&str, Feature, Feature); 3] = [
    (
        "totp",
        refused("mfa_totp_enroll_not_enabled", "MFA enroll is disabled for TOTP"),
        refused("mfa_totp_verify_not_enabled", "MFA verification is disabled for TOTP"),
    ),
    (
        "phone",
        refused("mfa_phone_enroll_not_enabled", "MFA enroll is disabled for Phone"),
        refused("mfa_phone_verify_not_enabled", "MFA verification is disabled for Phone"),
    ),
    ("webauthn", Feature::WEBAUTHN_ENROLL, Feature::WEBAUTHN_VERIFY),
];

impl Feature {
    pub(crate) const SAML: Self = gone("saml_provider_disabled", "SAML 2.0 is disabled");
    pub(crate) const OAUTH_SERVER: Self = gone("feature_disabled", "OAuth server is disabled");
    pub(crate) const PASSKEYS: Self = gone("passkey_disabled", "Passkeys are disabled");
    pub(crate) const CUSTOM_PROVIDERS: Self = gone("feature_disabled", "Custom OAuth providers are disabled");
    pub(crate) const WEBAUTHN_ENROLL: Self =
        refused("mfa_webauthn_enroll_not_enabled", "MFA enroll is disabled for WebAuthn");
    pub(crate) const WEBAUTHN_VERIFY: Self =
        refused("mfa_webauthn_verify_not_enabled", "MFA verification is disabled for WebAuthn");
    pub(crate) const WEB3: Self = refused("web3_provider_disabled", "Web3 provider is disabled");
    pub(crate) const ENROLL_CODES: Self =
        refused("mfa_recovery_codes_enroll_not_enabled", "MFA enroll is disabled for Recovery Codes");
    pub(crate) const VERIFY_CODES: Self =
        refused("mfa_recovery_codes_verify_not_enabled", "MFA verification is disabled for Recovery Codes");

    /// The error for enrolling a factor; `None` for an unknown type.
    pub(crate) fn enroll(factor_type: &str) -> Option<Self> {
        FACTORS.iter().find(|(name, _, _)| *name == factor_type).map(|(_, enroll, _)| *enroll)
    }

    /// The error for using a factor. An unknown type, possible only after an import, gets that of the first type.
    pub(crate) fn verify(factor_type: &str) -> Self {
        let [(_, _, totp), ..] = FACTORS;
        FACTORS.iter().find(|(name, _, _)| *name == factor_type).map_or(totp, |(_, _, verify)| *verify)
    }
}

const fn gone(code: &'static str, message: &'static str) -> Feature {
    Feature { status: StatusCode::NOT_FOUND, code, message }
}

const fn refused(code: &'static str, message: &'static str) -> Feature {
    Feature { status: StatusCode::UNPROCESSABLE_ENTITY, code, message }
}
