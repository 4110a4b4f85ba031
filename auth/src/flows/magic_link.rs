//! Sign-in by mail (auth.md §3.9): a magic link for a confirmed account. Any other address gets an account without a usable
//! password and a confirmation mail, whose link also signs in.
//!
//! No password is hashed, so that all cases take the same time.

use basalt_pg::pool::Tx;

use crate::audit::Action;
use crate::codes::challenge::Challenge;
use crate::database;
use crate::error::AuthError;
use crate::flows::code_emails::CodeEmails;
use crate::flows::code_sign_in::CodeSignIn;
use crate::flows::sign_up::Contact;
use crate::origin::Origin;
use crate::state::{Approval, Auth};
use crate::users::{self, Object, User};

/// A validated request.
pub(crate) struct MagicLink {
    sign_in: CodeSignIn,
    /// Normalised as accounts store it.
    email: String,
    challenge: Option<Challenge>,
}

impl MagicLink {
    /// `data` is the metadata of a new account.
    pub(crate) fn new(email: String, data: Object, challenge: Option<Challenge>, may_create: bool) -> Self {
        let sign_in = CodeSignIn { contact: Contact::Email(email.clone()), data, may_create };
        Self { sign_in, email, challenge }
    }

    /// Sends the mail.
    pub(crate) async fn run(&self, auth: &Auth, origin: &Origin) -> Result<(), AuthError> {
        let emails = || CodeEmails::about_address(auth, origin, self.challenge.clone());
        let first = emails()?;
        let padding = auth.response_times.start();
        let sent = async {
            let approval = self.sign_in.approve(auth, origin).await?;
            match self.send(auth, origin, first, approval).await {
                // A concurrent request took the address.
                Err(error) if error.is_taken_address() => self.send(auth, origin, emails()?, approval).await,
                sent => sent,
            }
        };
        let sent = Box::pin(sent).await;
        padding.wait().await;
        sent
    }

    async fn send(
        &self,
        auth: &Auth,
        origin: &Origin,
        mut emails: CodeEmails<'_>,
        approval: Approval,
    ) -> Result<(), AuthError> {
        let audience = auth.audience(origin);
        let tx = auth.begin(origin).await?;
        let sent = async {
            let found = users::lock_by_email(&tx, &self.email, audience).await?;
            match found {
                Some(user) if user.email_confirmed_at.is_some() => {
                    mail_link(auth, origin, &tx, &user, &mut emails).await
                }
                None if !self.sign_in.may_create => Err(AuthError::OtpDisabled),
                _ if auth.config.disable_signup => Err(AuthError::SignupDisabled),
                found => self.sign_up(auth, origin, &tx, found, approval, &mut emails).await,
            }
        }
        .await;
        database::finish(tx, sent).await?;
        auth.notify_user_created(origin, approval.user_id).await?;
        emails.deliver().await
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
            None => self.sign_in.create(auth, origin, tx, approval, now).await?,
        };
        let user = self.sign_in.confirm_or_request(auth, origin, tx, user, now).await?;
        if auth.config.mailer_autoconfirm {
            mail_link(auth, origin, tx, &user, emails).await
        } else {
            emails.confirmation(tx, &user).await.map_err(AuthError::signing_up)
        }
    }
}

async fn mail_link(
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
