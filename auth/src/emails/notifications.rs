//! E-mails that tell a user what has been done to their account (auth.md §3.21), each off unless asked for: the mailer
//! knows. They go out whatever the limits on mails say, because they warn an owner who did not do it; and only to people
//! who have an address.

use basalt_core::pool::Tx;

use crate::emails::mailer::{Details, Email, Mailer};
use crate::error::AuthError;
use crate::templates::kind::EmailKind;
use crate::users::User;

/// The password is another, or gone.
pub(crate) async fn password_changed(tx: &Tx, mailer: &Mailer, user: &User) -> Result<(), AuthError> {
    send(tx, mailer, EmailKind::PasswordChanged, user, &user.email, Details::default()).await
}

/// The address is another: `user` has the new one already, the old one is told.
pub(crate) async fn email_changed(
    tx: &Tx,
    mailer: &Mailer,
    user: &User,
    old_email: &str,
) -> Result<(), AuthError> {
    let details = Details { old_email, new_email: &user.email, ..Details::default() };
    send(tx, mailer, EmailKind::EmailChanged, user, old_email, details).await
}

/// The number is another: `user` has the new one already.
pub(crate) async fn phone_changed(
    tx: &Tx,
    mailer: &Mailer,
    user: &User,
    old_phone: &str,
) -> Result<(), AuthError> {
    let details = Details { old_phone, phone: &user.phone, ..Details::default() };
    send(tx, mailer, EmailKind::PhoneChanged, user, &user.email, details).await
}

/// A way of signing in is gone.
pub(crate) async fn identity_unlinked(
    tx: &Tx,
    mailer: &Mailer,
    user: &User,
    provider: &str,
) -> Result<(), AuthError> {
    let details = Details { provider, ..Details::default() };
    send(tx, mailer, EmailKind::IdentityUnlinked, user, &user.email, details).await
}

async fn send(
    tx: &Tx,
    mailer: &Mailer,
    kind: EmailKind,
    user: &User,
    to: &str,
    details: Details<'_>,
) -> Result<(), AuthError> {
    if to.is_empty() || mailer.check_recipient(to).is_err() {
        return Ok(());
    }
    mailer.send(tx, &Email::notification(kind, user, to, details)).await
}
