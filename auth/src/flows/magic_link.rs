//! Sign-in by mail (auth.md §3.9): a magic link for a confirmed account. Any other address gets an account without a usable
//! password and a confirmation mail, whose link also signs in.
//!
//! No password is hashed, so that all cases take the same time.

use basalt_pg::pool::Tx;
use uuid::Uuid;

use crate::audit::{self, Action};
use crate::codes::challenge::Challenge;
use crate::database;
use crate::error::AuthError;
use crate::flows::code_emails::CodeEmails;
use crate::origin::Origin;
use crate::state::{Approval, Auth};
use crate::users::create::{NewUser, create};
use crate::users::{self, Object, User, read_back};

/// A validated request.
pub(crate) struct MagicLink {
    /// Normalised as accounts store it.
    pub(crate) email: String,
    /// Metadata of a new account.
    pub(crate) data: Object,
    pub(crate) challenge: Option<Challenge>,
    pub(crate) may_create: bool,
}

impl MagicLink {
    pub(crate) async fn run(&self, auth: &Auth, origin: &Origin) -> Result<(), AuthError> {
        let emails = || CodeEmails::about_address(auth, origin, self.challenge.clone());
        let first = emails()?;
        let padding = auth.response_times.start();
        let asked = async {
            let approved = self.approve(auth, origin).await?;
            match self.ask(auth, origin, first, approved).await {
                // A concurrent request took the address.
                Err(error) if error.is_taken_address() => self.ask(auth, origin, emails()?, approved).await,
                asked => asked,
            }
        };
        let asked = Box::pin(asked).await;
        padding.wait().await;
        asked
    }

    /// Asks the hook about a new account.
    async fn approve(&self, auth: &Auth, origin: &Origin) -> Result<Approval, AuthError> {
        let approval = Approval::new(auth);
        if !approval.is_required || !self.may_create || auth.config.disable_signup {
            return Ok(approval);
        }
        let audience = auth.audience(origin);
        let tx = auth.begin(origin).await?;
        let found = users::find_by_email(&tx, &self.email, audience).await;
        if database::finish(tx, found).await?.is_some() {
            return Ok(approval);
        }
        auth.approve_new_user(origin, &self.new_user(auth, origin, approval.user_id)).await?;
        Ok(approval.given())
    }

    fn new_user<'a>(&'a self, auth: &'a Auth, origin: &'a Origin, id: Uuid) -> NewUser<'a> {
        NewUser {
            id,
            email: Some(&self.email),
            password_hash: Some(auth.hasher.random_hash()),
            user_metadata: self.data.clone(),
            is_sign_up: true,
            ..NewUser::new(auth.audience(origin), auth.config.default_role())
        }
    }

    async fn ask(
        &self,
        auth: &Auth,
        origin: &Origin,
        mut emails: CodeEmails<'_>,
        approval: Approval,
    ) -> Result<(), AuthError> {
        let audience = auth.audience(origin);
        let tx = auth.begin(origin).await?;
        let asked = async {
            let found = users::lock_by_email(&tx, &self.email, audience).await?;
            match found {
                Some(user) if user.email_confirmed_at.is_some() => {
                    self.sign_in(auth, origin, &tx, &user, &mut emails).await
                }
                None if !self.may_create => Err(AuthError::OtpDisabled),
                _ if auth.config.disable_signup => Err(AuthError::SignupDisabled),
                found => self.sign_up(auth, origin, &tx, found, approval, &mut emails).await,
            }
        }
        .await;
        database::finish(tx, asked).await?;
        emails.deliver().await
    }

    async fn sign_in(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        user: &User,
        emails: &mut CodeEmails<'_>,
    ) -> Result<(), AuthError> {
        let action = Action::UserRecoveryRequested;
        auth.audit_log(&origin.client).record(tx, user, action, None, emails.now).await?;
        emails.magic_link(tx, user).await
    }

    /// Creates the account. Under autoconfirm it is confirmed at once, else by the mail.
    async fn sign_up(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        found: Option<User>,
        approval: Approval,
        emails: &mut CodeEmails<'_>,
    ) -> Result<(), AuthError> {
        let now = emails.now;
        let user = match found {
            Some(user) => user,
            None => {
                let new = self.new_user(auth, origin, approval.check()?);
                let id = create(tx, new, now).await?;
                read_back(tx, id).await?
            }
        };
        let traits = audit::provider("email");
        if !auth.config.mailer_autoconfirm {
            let action = Action::UserConfirmationRequested;
            auth.audit_log(&origin.client).record(tx, &user, action, traits, now).await?;
            return emails.confirmation(tx, &user).await.map_err(AuthError::signing_up);
        }
        auth.audit_log(&origin.client).record(tx, &user, Action::UserSignedUp, traits, now).await?;
        users::confirm_email(tx, user.id, now).await?;
        let user = read_back(tx, user.id).await?;
        self.sign_in(auth, origin, tx, &user, emails).await
    }
}
