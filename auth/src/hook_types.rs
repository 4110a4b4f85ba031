//! What settings, errors and [`crate::hooks`] share: the kinds of hooks, their addresses and secrets, and how they fail.

pub(crate) mod error;
mod secret;
mod uri;

pub(crate) use secret::Secret;
pub(crate) use uri::HookUri;

/// Largest answer of a hook, in bytes.
pub(crate) const ANSWER_BYTES: usize = 204_800;

/// The event that a hook is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookKind {
    /// An access token is issued; the hook changes its claims.
    CustomAccessToken,
    /// A user is about to be created.
    BeforeUserCreated,
    /// A user was created.
    AfterUserCreated,
    /// A password was compared.
    PasswordVerificationAttempt,
    /// The code of a second factor was compared.
    MfaVerificationAttempt,
    /// A text message is to be sent.
    SendSms,
    /// A mail is to be sent.
    SendEmail,
}

impl HookKind {
    /// `metadata.name` of the input, and the label of metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::CustomAccessToken => "customize-access-token",
            Self::BeforeUserCreated => "before-user-created",
            Self::AfterUserCreated => "after-user-created",
            Self::PasswordVerificationAttempt => "password-verification",
            Self::MfaVerificationAttempt => "mfa-verification",
            Self::SendSms => "send-sms",
            Self::SendEmail => "send-email",
        }
    }
}

/// What is wrong with the address of a hook, or with the secrets of an HTTP hook, if anything.
#[must_use]
pub fn hook_fault(uri: &str, secrets: &str) -> Option<String> {
    let parsed = HookUri::parse(uri).and_then(|uri| match uri {
        HookUri::Function { .. } => Ok(()),
        HookUri::Http(_) => Secret::parse_all(secrets).map(|_secrets| ()),
    });
    parsed.err()
}
