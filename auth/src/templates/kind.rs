//! The kinds of e-mails, and what their names are in settings, links and metrics.

/// What an e-mail is about. Two kinds may share a template: both e-mails of an e-mail change are `email_change`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EmailKind {
    /// Finishes a sign-up.
    Confirmation,
    /// Invites a person without an account.
    Invite,
    /// Signs in without a password.
    MagicLink,
    /// Lets the user choose a new password.
    Recovery,
    /// Asks the present address about its replacement.
    EmailChangeCurrent,
    /// Asks the new address.
    EmailChangeNew,
    /// Carries a nonce; no link.
    Reauthentication,
    /// Tells that the password is another.
    PasswordChanged,
    /// Tells that the address is another; goes to the old one.
    EmailChanged,
    /// Tells that the phone number is another.
    PhoneChanged,
    /// Tells of a linked provider.
    IdentityLinked,
    /// Tells of an unlinked provider.
    IdentityUnlinked,
    /// Tells of an enrolled factor.
    MfaFactorEnrolled,
    /// Tells of a removed factor.
    MfaFactorUnenrolled,
}

impl EmailKind {
    pub(crate) const ALL: [Self; 14] = [
        Self::Confirmation,
        Self::Invite,
        Self::MagicLink,
        Self::Recovery,
        Self::EmailChangeCurrent,
        Self::EmailChangeNew,
        Self::Reauthentication,
        Self::PasswordChanged,
        Self::EmailChanged,
        Self::PhoneChanged,
        Self::IdentityLinked,
        Self::IdentityUnlinked,
        Self::MfaFactorEnrolled,
        Self::MfaFactorUnenrolled,
    ];

    /// The name in settings (`auth.mailer_templates_<name>`), metrics and the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Confirmation => "confirmation",
            Self::Invite => "invite",
            Self::MagicLink => "magic_link",
            Self::Recovery => "recovery",
            Self::EmailChangeCurrent | Self::EmailChangeNew => "email_change",
            Self::Reauthentication => "reauthentication",
            Self::PasswordChanged => "password_changed",
            Self::EmailChanged => "email_changed",
            Self::PhoneChanged => "phone_changed",
            Self::IdentityLinked => "identity_linked",
            Self::IdentityUnlinked => "identity_unlinked",
            Self::MfaFactorEnrolled => "mfa_factor_enrolled",
            Self::MfaFactorUnenrolled => "mfa_factor_unenrolled",
        }
    }

    /// `type` in the link, as `/verify` takes it; `None` where the e-mail has no link (auth.md §3.21).
    pub(crate) const fn verification_type(self) -> Option<&'static str> {
        match self {
            Self::Confirmation => Some("signup"),
            Self::Invite => Some("invite"),
            Self::MagicLink => Some("magiclink"),
            Self::Recovery => Some("recovery"),
            Self::EmailChangeCurrent | Self::EmailChangeNew => Some("email_change"),
            Self::Reauthentication
            | Self::PasswordChanged
            | Self::EmailChanged
            | Self::PhoneChanged
            | Self::IdentityLinked
            | Self::IdentityUnlinked
            | Self::MfaFactorEnrolled
            | Self::MfaFactorUnenrolled => None,
        }
    }
}
