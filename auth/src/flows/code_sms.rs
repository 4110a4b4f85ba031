//! Text messages with a code; all but those of second factors are sent here, like mails in [`super::code_emails`]. In the caller's
//! transaction this issues the code. After the commit, [`CodeSms::deliver`] gives the message to the hook or the provider; if that
//! fails, the code is revoked, so that the user can try again at once.
//!
//! The caller must have locked the user in the same transaction.

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::codes::one_time::{self, CodeSettings, FlowType, IssuedCode, Revocation, TokenType};
use crate::error::AuthError;
use crate::flows::code_emails::{revoke, seconds_left};
use crate::hook_types::HookKind;
use crate::limits::sms_rate::SmsReservation;
use crate::origin::Origin;
use crate::sms::{Channel, Message, SmsKind, TEST_MESSAGE_ID};
use crate::state::Auth;
use crate::users::{self, Account, User, row_missing};

/// The text messages of one request; at most one is sent.
pub(crate) struct CodeSms<'a> {
    auth: &'a Auth,
    origin: &'a Origin,
    channel: Channel,
    reservation: Option<SmsReservation<'a>>,
    pending: Option<Pending>,
    message_id: Option<String>,
    pub(crate) now: Timestamp,
}

/// A message whose code was issued.
struct Pending {
    kind: SmsKind,
    phone: String,
    code: String,
    /// For the hook.
    account: Option<Account>,
    revocation: Revocation,
}

impl<'a> CodeSms<'a> {
    /// For requests about a known account.
    pub(crate) fn new(auth: &'a Auth, origin: &'a Origin, channel: Channel) -> Self {
        let now = auth.now();
        Self { auth, origin, channel, reservation: None, pending: None, message_id: None, now }
    }

    /// For requests about a number that may have no account: reserves a message in advance.
    ///
    /// # Errors
    /// A limit is exhausted, or no message can be sent.
    pub(crate) fn about_number(
        auth: &'a Auth,
        origin: &'a Origin,
        channel: Channel,
        phone: &str,
        kind: SmsKind,
    ) -> Result<Self, AuthError> {
        let mut sms = Self::new(auth, origin, channel);
        sms.reserve(phone, kind)?;
        Ok(sms)
    }

    fn reserve(&mut self, phone: &str, kind: SmsKind) -> Result<(), AuthError> {
        let auth = self.auth;
        if self.reservation.is_none() && auth.sms.test_code(phone, self.now).is_none() {
            check_sendable(auth, phone, kind)?;
            self.reservation = Some(auth.sms_rates.reserve(phone)?);
        }
        Ok(())
    }

    /// Sends the code that confirms the number of an account, or signs in to it.
    pub(crate) async fn confirmation(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        let last = user.confirmation_sent_at;
        self.issue(tx, user, SmsKind::Confirmation, TokenType::Confirmation, &user.phone, last).await
    }

    /// As [`Self::confirmation`], for an account that this request creates. If the message cannot be sent, the account is
    /// deleted.
    pub(crate) async fn first_confirmation(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.confirmation(tx, user).await?;
        if let Some(pending) = &mut self.pending {
            pending.revocation.deletes_user = true;
        }
        Ok(())
    }

    /// Sends the code that confirms a new number.
    pub(crate) async fn phone_change(&mut self, tx: &Tx, user: &User, phone: &str) -> Result<(), AuthError> {
        users::request_phone_change(tx, user.id, phone, self.now).await?;
        let last = user.phone_change_sent_at;
        self.issue(tx, user, SmsKind::PhoneChange, TokenType::PhoneChange, phone, last).await
    }

    /// Sends a reauthentication nonce.
    pub(crate) async fn reauthentication(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        let (kind, last) = (SmsKind::Reauthentication, user.reauthentication_sent_at);
        self.issue(tx, user, kind, TokenType::Reauthentication, &user.phone, last).await
    }

    async fn issue(
        &mut self,
        tx: &Tx,
        user: &User,
        kind: SmsKind,
        token_type: TokenType,
        phone: &str,
        last: Option<Timestamp>,
    ) -> Result<(), AuthError> {
        check_frequency(last, self.auth.config.sms_max_frequency, self.now)?;
        self.reserve(phone, kind)?;
        let settings = CodeSettings::new(&self.auth.config);
        let test_code = self.auth.sms.test_code(phone, self.now).map(str::to_owned);
        let is_test = test_code.is_some();
        let code = test_code.unwrap_or_else(|| settings.new_code(phone));
        let (flow, now) = (FlowType::Implicit, self.now);
        let IssuedCode { code, hash } =
            one_time::store(tx, user.id, token_type, phone, code, flow, now).await?;
        if is_test {
            self.message_id = Some(TEST_MESSAGE_ID.to_owned());
            return Ok(());
        }
        let account = account_for_hook(self.auth, tx, user.id).await?;
        let is_hook = account.is_some();
        let pending = Pending {
            kind,
            phone: phone.to_owned(),
            code,
            account,
            revocation: Revocation {
                user_id: user.id,
                token_type,
                hash,
                sent_before: last,
                deletes_user: false,
            },
        };
        let text = self.auth.sms.text(kind, &pending.code);
        let message = Message { phone, code: &pending.code, text: &text, channel: self.channel };
        if is_hook || !self.auth.sms.deliver_to_mailbox(tx, &message).await? {
            self.pending = Some(pending);
        }
        Ok(())
    }

    /// Sends the message, and returns its id; call it after the commit.
    ///
    /// # Errors
    /// The hook or the provider rejects the message. Its code is revoked.
    pub(crate) async fn deliver(self) -> Result<Option<String>, AuthError> {
        let Self { auth, origin, channel, reservation, pending, message_id, now } = self;
        let was_issued = pending.is_some() || auth.sms.is_mailbox();
        if let Some(reservation) = reservation.filter(|_reservation| was_issued) {
            reservation.spend();
        }
        let Some(Pending { kind, phone, code, account, revocation }) = pending else { return Ok(message_id) };
        let message = OutgoingSms { kind, phone: &phone, code: &code, channel, account: account.as_ref() };
        match message.send(auth, origin, now).await {
            Ok(id) => Ok(id),
            Err(error) => {
                Box::pin(revoke(auth, origin, &[revocation])).await?;
                Err(error)
            }
        }
    }
}

/// A message for the hook or the provider. No transaction may be open while it is sent.
pub(crate) struct OutgoingSms<'a> {
    pub(crate) kind: SmsKind,
    pub(crate) phone: &'a str,
    pub(crate) code: &'a str,
    pub(crate) channel: Channel,
    /// If the hook is enabled.
    pub(crate) account: Option<&'a Account>,
}

impl OutgoingSms<'_> {
    /// # Errors
    /// The hook or the provider rejects the message.
    pub(crate) async fn send(
        &self,
        auth: &Auth,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<Option<String>, AuthError> {
        let Self { kind, phone, code, channel, account } = *self;
        if let Some(account) = account {
            let sms = json!({ "otp": code, "sms_type": kind.name(), "phone": phone });
            return auth.hooks.send_sms(origin, now, account, sms).await.map(|()| None);
        }
        let text = auth.sms.text(kind, code);
        let message = Message { phone, code, text: &text, channel };
        let sent = auth.sms.send(&message, origin.deadline).await;
        crate::metrics::sms_sent(kind.name(), if sent.is_ok() { "ok" } else { "failed" });
        sent.map_err(|reason| AuthError::SmsSendFailed { kind: kind.name(), reason })
    }
}

/// The user as the hook sees it; `None` if the hook is disabled.
pub(crate) async fn account_for_hook(auth: &Auth, tx: &Tx, id: Uuid) -> Result<Option<Account>, AuthError> {
    if !auth.hooks.is_enabled(HookKind::SendSms) {
        return Ok(None);
    }
    Ok(Some(users::account(tx, id).await?.ok_or_else(row_missing)?))
}

/// Whether a message to this number can be sent, as far as the settings show.
pub(crate) fn check_sendable(auth: &Auth, phone: &str, kind: SmsKind) -> Result<(), AuthError> {
    let failed = |reason: &str| AuthError::SmsSendFailed { kind: kind.name(), reason: reason.to_owned() };
    let prefixes = &auth.config.sms_allowed_prefixes;
    let is_allowed = |prefix: &String| phone.starts_with(prefix.trim_start_matches('+'));
    if !prefixes.is_empty() && !prefixes.iter().any(is_allowed) {
        return Err(failed("messages to this country are not allowed"));
    }
    if auth.hooks.is_enabled(HookKind::SendSms) {
        return Ok(());
    }
    auth.sms.missing_setting().map_or(Ok(()), |reason| Err(failed(reason)))
}

/// At most one message of a kind per user and interval.
pub(crate) fn check_frequency(
    last: Option<Timestamp>,
    interval_seconds: u64,
    now: Timestamp,
) -> Result<(), AuthError> {
    let left = seconds_left(last, interval_seconds, now);
    left.map_or(Ok(()), |seconds| Err(AuthError::SmsTooSoon { seconds }))
}
