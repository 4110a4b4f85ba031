//! The kinds of e-mails, with their names in settings, links and metrics.

/// The kind of an e-mail. Both e-mails of an e-mail change share the template `email_change`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EmailKind {
    /// Confirms a sign-up.
    Confirmation,
    /// Invites a new user.
    Invite,
    /// Signs in without a password.
    MagicLink,
    /// Lets the user choose a new password.
    Recovery,
    /// Confirms an e-mail change at the current address.
    EmailChangeCurrent,
    /// Confirms an e-mail change at the new address.
    EmailChangeNew,
    /// Contains a nonce and no link.
    Reauthentication,
    /// Notifies of a changed password.
    PasswordChanged,
    /// Notifies the old address of a changed address.
    EmailChanged,
    /// Notifies of a changed phone number.
    PhoneChanged,
    /// Notifies of a linked provider.
    IdentityLinked,
    /// Notifies of an unlinked provider.
    IdentityUnlinked,
    /// Notifies of an enrolled factor.
    MfaFactorEnrolled,
    /// Notifies of a removed factor.
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

    /// `type` in the link to `/verify`; `None` if the e-mail has no link (auth.md §3.21).
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
