//! What sign-ins by mail and by text message share (auth.md §3.9): the account of a new address, without a usable password, which
//! the hook must approve.

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::audit::{self, Action};
use crate::error::AuthError;
use crate::flows::sign_up::Contact;
use crate::origin::Origin;
use crate::state::{Approval, Auth};
use crate::users::create::{NewUser, create};
use crate::users::{self, Object, User, read_back};

/// A validated request for a code.
pub(crate) struct CodeSignIn {
    pub(crate) contact: Contact,
    /// Metadata of a new account.
    pub(crate) data: Object,
    pub(crate) may_create: bool,
}

impl CodeSignIn {
    /// Asks the hook about a new account.
    pub(super) async fn approve(&self, auth: &Auth, origin: &Origin) -> Result<Approval, AuthError> {
        let approval = Approval::new(auth);
        if !approval.is_required || !self.may_create || auth.config.disable_signup {
            return Ok(approval);
        }
        if self.contact.find(auth, origin).await?.is_some() {
            return Ok(approval);
        }
        auth.approve_new_user(origin, &self.new_user(auth, origin, approval.user_id)).await?;
        Ok(approval.given())
    }

    fn new_user<'a>(&'a self, auth: &'a Auth, origin: &'a Origin, id: Uuid) -> NewUser<'a> {
        NewUser {
            id,
            email: self.contact.email(),
            phone: self.contact.phone(),
            password_hash: Some(auth.hasher.random_hash()),
            user_metadata: self.data.clone(),
            is_sign_up: true,
            ..NewUser::new(auth.audience(origin), auth.config.default_role())
        }
    }

    /// Creates the account.
    pub(super) async fn create(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        approval: Approval,
        now: Timestamp,
    ) -> Result<User, AuthError> {
        let id = create(tx, self.new_user(auth, origin, approval.check()?), now).await?;
        read_back(tx, id).await
    }

    /// Confirms the account under autoconfirm, and records the sign-up. Returns the account.
    pub(super) async fn confirm_or_request(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        user: User,
        now: Timestamp,
    ) -> Result<User, AuthError> {
        let is_confirmed = self.contact.is_autoconfirmed(auth);
        let action = if is_confirmed { Action::UserSignedUp } else { Action::UserConfirmationRequested };
        let traits = audit::provider(self.contact.provider());
        auth.audit_log(&origin.client).record(tx, &user, action, traits, now).await?;
        if !is_confirmed {
            return Ok(user);
        }
        match &self.contact {
            Contact::Email(_) => users::confirm_email(tx, user.id, now).await?,
            Contact::Phone(_) => users::confirm_phone(tx, user.id, now).await?,
        }
        read_back(tx, user.id).await
    }
}
