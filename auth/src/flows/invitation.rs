//! Invitations (auth.md §3.12): the invited account. The caller sends a mail or returns a link.

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::audit::{self, Action, AuditLog};
use crate::error::AuthError;
use crate::users::create::{NewUser, create};
use crate::users::{self, Object, User, read_back};

/// A person to invite.
pub(crate) struct Invitee<'a> {
    /// Normalised as accounts store it.
    pub(crate) email: String,
    pub(crate) audience: &'a str,
    /// Metadata of a new account.
    pub(crate) data: Object,
    pub(crate) now: Timestamp,
    /// Of a new account.
    pub(crate) id: Uuid,
}

impl Invitee<'_> {
    /// The account to create, unless there is one.
    pub(crate) fn new_user<'a>(&'a self, default_role: &'a str) -> NewUser<'a> {
        NewUser {
            id: self.id,
            email: Some(&self.email),
            user_metadata: self.data.clone(),
            ..NewUser::new(self.audience, default_role)
        }
    }

    /// Finds or creates the account and marks it as invited.
    ///
    /// # Errors
    /// A confirmed account has the address, or the database fails.
    pub(crate) async fn invite(
        &self,
        tx: &Tx,
        default_role: &str,
        audit_log: AuditLog,
        actor: &User,
    ) -> Result<User, AuthError> {
        let user = match users::lock_by_email(tx, &self.email, self.audience).await? {
            Some(user) if user.email_confirmed_at.is_some() => return Err(AuthError::EmailExists),
            Some(user) => user,
            None => {
                let created = create(tx, self.new_user(default_role), self.now).await;
                let id = created.map_err(|error| error.map_taken_address(AuthError::EmailExists))?;
                read_back(tx, id).await?
            }
        };
        users::set_invited(tx, user.id, self.now).await?;
        let traits = audit::about(&user);
        audit_log.record(tx, actor, Action::UserInvited, traits, self.now).await?;
        read_back(tx, user.id).await
    }
}
