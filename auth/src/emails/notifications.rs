//! Notifications of changes to an account (auth.md §3.21). Each is disabled by default; the mailer checks the setting. Mail limits
//! do not apply, because a notification may be the owner's only warning. Users without an address get none.

use basalt_pg::pool::Tx;

use crate::emails::mailer::{Details, Email, Mailer, Profile};
use crate::error::AuthError;
use crate::templates::kind::EmailKind;

/// The password was changed or removed.
pub(crate) async fn password_changed(
    tx: &Tx,
    mailer: &Mailer,
    profile: Profile<'_>,
) -> Result<(), AuthError> {
    send(tx, mailer, EmailKind::PasswordChanged, profile, profile.email, Details::default()).await
}

/// The address was changed; `profile` has the new one. Sent to the old address.
pub(crate) async fn email_changed(
    tx: &Tx,
    mailer: &Mailer,
    profile: Profile<'_>,
    old_email: &str,
) -> Result<(), AuthError> {
    let details = Details { old_email, new_email: profile.email, ..Details::default() };
    send(tx, mailer, EmailKind::EmailChanged, profile, old_email, details).await
}

/// The phone number was changed; `profile` has the new one.
pub(crate) async fn phone_changed(
    tx: &Tx,
    mailer: &Mailer,
    profile: Profile<'_>,
    old_phone: &str,
) -> Result<(), AuthError> {
    let details = Details { old_phone, phone: profile.phone, ..Details::default() };
    send(tx, mailer, EmailKind::PhoneChanged, profile, profile.email, details).await
}

/// A sign-in method was added.
pub(crate) async fn identity_linked(
    tx: &Tx,
    mailer: &Mailer,
    profile: Profile<'_>,
    provider: &str,
) -> Result<(), AuthError> {
    let details = Details { provider, ..Details::default() };
    send(tx, mailer, EmailKind::IdentityLinked, profile, profile.email, details).await
}

/// A sign-in method was removed.
pub(crate) async fn identity_unlinked(
    tx: &Tx,
    mailer: &Mailer,
    profile: Profile<'_>,
    provider: &str,
) -> Result<(), AuthError> {
    let details = Details { provider, ..Details::default() };
    send(tx, mailer, EmailKind::IdentityUnlinked, profile, profile.email, details).await
}

/// A second factor was added.
pub(crate) async fn factor_enrolled(
    tx: &Tx,
    mailer: &Mailer,
    profile: Profile<'_>,
    factor_type: &str,
) -> Result<(), AuthError> {
    let details = Details { factor_type, ..Details::default() };
    send(tx, mailer, EmailKind::MfaFactorEnrolled, profile, profile.email, details).await
}

/// A second factor was removed.
pub(crate) async fn factor_unenrolled(
    tx: &Tx,
    mailer: &Mailer,
    profile: Profile<'_>,
    factor_type: &str,
) -> Result<(), AuthError> {
    let details = Details { factor_type, ..Details::default() };
    send(tx, mailer, EmailKind::MfaFactorUnenrolled, profile, profile.email, details).await
}

async fn send(
    tx: &Tx,
    mailer: &Mailer,
    kind: EmailKind,
    profile: Profile<'_>,
    to: &str,
    details: Details<'_>,
) -> Result<(), AuthError> {
    if to.is_empty() || mailer.check_recipient(to).is_err() {
        return Ok(());
    }
    mailer.send(tx, &Email::notification(kind, profile, to, details)).await
}
