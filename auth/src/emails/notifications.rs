//! Notifications of changes to an account (auth.md §3.21). Each is disabled by default; the mailer checks the setting. Mail limits
//! do not apply, because a notification may be the owner's only warning. Users without an address get none.

use basalt_pg::pool::Tx;

use crate::emails::mailer::{Details, Email, Mailer, Profile};
use crate::error::AuthError;
use crate::templates::kind::EmailKind;

/// A change to an account, whose profile has the new values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AccountChange<'a> {
    /// The password was changed or removed.
    Password,
    /// The address was changed. The notification goes to the old one.
    Email {
        old: &'a str,
    },
    Phone {
        old: &'a str,
    },
    /// A sign-in method was added.
    IdentityLinked {
        provider: &'a str,
    },
    IdentityUnlinked {
        provider: &'a str,
    },
    /// A second factor was added.
    FactorEnrolled {
        factor_type: &'a str,
    },
    FactorUnenrolled {
        factor_type: &'a str,
    },
}

/// Notifies the account's owner of a change.
pub(crate) async fn notify(
    tx: &Tx,
    mailer: &Mailer,
    profile: Profile<'_>,
    change: AccountChange<'_>,
) -> Result<(), AuthError> {
    let none = Details::default();
    let (kind, details) = match change {
        AccountChange::Password => (EmailKind::PasswordChanged, none),
        AccountChange::Email { old } => {
            (EmailKind::EmailChanged, Details { old_email: old, new_email: profile.email, ..none })
        }
        AccountChange::Phone { old } => {
            (EmailKind::PhoneChanged, Details { old_phone: old, phone: profile.phone, ..none })
        }
        AccountChange::IdentityLinked { provider } => {
            (EmailKind::IdentityLinked, Details { provider, ..none })
        }
        AccountChange::IdentityUnlinked { provider } => {
            (EmailKind::IdentityUnlinked, Details { provider, ..none })
        }
        AccountChange::FactorEnrolled { factor_type } => {
            (EmailKind::MfaFactorEnrolled, Details { factor_type, ..none })
        }
        AccountChange::FactorUnenrolled { factor_type } => {
            (EmailKind::MfaFactorUnenrolled, Details { factor_type, ..none })
        }
    };
    let to = if let AccountChange::Email { old } = change { old } else { profile.email };
    if to.is_empty() || mailer.check_recipient(to).is_err() {
        return Ok(());
    }
    mailer.send(tx, &Email::notification(kind, profile, to, details)).await
}
