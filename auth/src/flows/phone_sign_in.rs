//! Sign-in by text message (auth.md §3.9): a code for an existing account, or for a new one without a usable password.

use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::flows::code_sign_in::CodeSignIn;
use crate::flows::code_sms::CodeSms;
use crate::flows::sign_up::Contact;
use crate::origin::Origin;
use crate::sms::{Channel, SmsKind};
use crate::state::{Approval, Auth};
use crate::users::{self, Object};

/// A validated request.
pub(crate) struct PhoneSignIn {
    sign_in: CodeSignIn,
    /// Digits only.
    phone: String,
    channel: Channel,
}

impl PhoneSignIn {
    /// `data` is the metadata of a new account.
    pub(crate) fn new(phone: String, data: Object, channel: Channel, may_create: bool) -> Self {
        let sign_in = CodeSignIn { contact: Contact::Phone(phone.clone()), data, may_create };
        Self { sign_in, phone, channel }
    }

    /// Sends the code and returns the message's id, if the provider has one.
    pub(crate) async fn run(&self, auth: &Auth, origin: &Origin) -> Result<Option<String>, AuthError> {
        let padding = auth.response_times.start();
        let sent = async {
            let approval = self.sign_in.approve(auth, origin).await?;
            match self.send(auth, origin, approval).await {
                // A concurrent request took the number.
                Err(error) if error.is_taken_address() => self.send(auth, origin, approval).await,
                sent => sent,
            }
        };
        let sent = sent.await;
        padding.wait().await;
        sent
    }

    async fn send(
        &self,
        auth: &Auth,
        origin: &Origin,
        approval: Approval,
    ) -> Result<Option<String>, AuthError> {
        let CodeSignIn { may_create, .. } = self.sign_in;
        // Without sign-up, the error for an unknown number reveals accounts anyway, and comes before errors of the provider.
        let mut sms = if may_create && !auth.config.disable_signup {
            CodeSms::about_number(auth, origin, self.channel, &self.phone, SmsKind::Confirmation)?
        } else {
            CodeSms::new(auth, origin, self.channel)
        };
        let tx = auth.begin(origin).await?;
        let sent = async {
            match users::lock_by_phone(&tx, &self.phone, auth.audience(origin)).await? {
                Some(user) => {
                    let action = Action::UserRecoveryRequested;
                    auth.audit_log(&origin.client).record(&tx, &user, action, None, sms.now).await?;
                    sms.confirmation(&tx, &user).await
                }
                None if !may_create => Err(AuthError::OtpDisabled),
                None if auth.config.disable_signup => Err(AuthError::SignupDisabled),
                None => {
                    let user = self.sign_in.create(auth, origin, &tx, approval, sms.now).await?;
                    let user = self.sign_in.confirm_or_request(auth, origin, &tx, user, sms.now).await?;
                    sms.first_confirmation(&tx, &user).await.map_err(AuthError::signing_up)
                }
            }
        }
        .await;
        database::finish(tx, sent).await?;
        auth.notify_user_created(origin, approval.user_id).await?;
        sms.deliver().await
    }
}
