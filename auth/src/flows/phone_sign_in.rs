//! Sign-in by text message (auth.md §3.9): a code for an existing account, or for a new one without a usable password.

use basalt_pg::pool::Tx;
use uuid::Uuid;

use crate::audit::{self, Action};
use crate::database;
use crate::error::AuthError;
use crate::flows::code_sms::CodeSms;
use crate::origin::Origin;
use crate::sms::{Channel, SmsKind};
use crate::state::{Approval, Auth};
use crate::users::create::{NewUser, create};
use crate::users::{self, Object, User, read_back};

/// A validated request.
pub(crate) struct PhoneSignIn {
    /// Digits only.
    pub(crate) phone: String,
    /// Metadata of a new account.
    pub(crate) data: Object,
    pub(crate) channel: Channel,
    pub(crate) may_create: bool,
}

impl PhoneSignIn {
    /// Sends the code and returns the message's id, if the provider has one.
    pub(crate) async fn run(&self, auth: &Auth, origin: &Origin) -> Result<Option<String>, AuthError> {
        let padding = auth.response_times.start();
        let asked = async {
            let approval = self.approve(auth, origin).await?;
            match self.ask(auth, origin, approval).await {
                // A concurrent request took the number.
                Err(error) if error.is_taken_address() => self.ask(auth, origin, approval).await,
                asked => asked,
            }
        };
        let asked = asked.await;
        padding.wait().await;
        asked
    }

    /// Asks the hook about a new account.
    async fn approve(&self, auth: &Auth, origin: &Origin) -> Result<Approval, AuthError> {
        let approval = Approval::new(auth);
        if !approval.is_required || !self.may_create || auth.config.disable_signup {
            return Ok(approval);
        }
        let tx = auth.begin(origin).await?;
        let found = users::find_by_phone(&tx, &self.phone, auth.audience(origin)).await;
        if database::finish(tx, found).await?.is_some() {
            return Ok(approval);
        }
        auth.approve_new_user(origin, &self.new_user(auth, origin, approval.user_id)).await?;
        Ok(approval.given())
    }

    fn new_user<'a>(&'a self, auth: &'a Auth, origin: &'a Origin, id: Uuid) -> NewUser<'a> {
        NewUser {
            id,
            phone: Some(&self.phone),
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
        approval: Approval,
    ) -> Result<Option<String>, AuthError> {
        // Without sign-up, the error for an unknown number reveals accounts anyway, and comes before errors of the provider.
        let mut sms = if self.may_create && !auth.config.disable_signup {
            CodeSms::about_number(auth, origin, self.channel, &self.phone, SmsKind::Confirmation)?
        } else {
            CodeSms::new(auth, origin, self.channel)
        };
        let tx = auth.begin(origin).await?;
        let asked = async {
            match users::lock_by_phone(&tx, &self.phone, auth.audience(origin)).await? {
                Some(user) => {
                    let action = Action::UserRecoveryRequested;
                    auth.audit_log(&origin.client).record(&tx, &user, action, None, sms.now).await?;
                    sms.confirmation(&tx, &user).await
                }
                None if !self.may_create => Err(AuthError::OtpDisabled),
                None if auth.config.disable_signup => Err(AuthError::SignupDisabled),
                None => {
                    let user = self.create(auth, origin, &tx, approval, &sms).await?;
                    sms.first_confirmation(&tx, &user).await.map_err(AuthError::signing_up)
                }
            }
        }
        .await;
        database::finish(tx, asked).await?;
        sms.deliver().await
    }

    /// Creates the account. Under autoconfirm it is confirmed at once, else by the code.
    async fn create(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        approval: Approval,
        sms: &CodeSms<'_>,
    ) -> Result<User, AuthError> {
        let id = create(tx, self.new_user(auth, origin, approval.check()?), sms.now).await?;
        let is_confirmed = auth.config.sms_autoconfirm;
        if is_confirmed {
            users::confirm_phone(tx, id, sms.now).await?;
        }
        let user = read_back(tx, id).await?;
        let action = if is_confirmed { Action::UserSignedUp } else { Action::UserConfirmationRequested };
        let traits = audit::provider("phone");
        auth.audit_log(&origin.client).record(tx, &user, action, traits, sms.now).await?;
        Ok(user)
    }
}
