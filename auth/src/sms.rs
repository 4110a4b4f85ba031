//! Text messages (auth.md §3.21): the provider, the template, and the fixed codes of test numbers. Limits are in
//! [`crate::limits::sms_rate`]; [`crate::flows::code_sms`] issues the codes.

mod twilio;

use basalt_core::html;
use basalt_mail::{Destination, Message as Mail, Outbox};
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use crate::config::AuthConfig;
use crate::error::AuthError;
use crate::templates::TextTemplate;
use twilio::Twilio;

/// `message_id` of messages to test numbers, which are not sent.
pub(crate) const TEST_MESSAGE_ID: &str = "test-otp";

/// How a message reaches the phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Sms,
    WhatsApp,
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SmsKind {
    Confirmation,
    PhoneChange,
    Reauthentication,
    /// Second factor.
    Mfa,
}

impl SmsKind {
    /// In error messages, and `sms_type` of the hook.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Confirmation => "confirmation",
            Self::PhoneChange => "phone_change",
            Self::Reauthentication => "reauthentication",
            Self::Mfa => "mfa",
        }
    }
}

/// A message to send. No `Debug`, so that no log can show the code.
pub(crate) struct Message<'a> {
    /// Digits only.
    pub(crate) phone: &'a str,
    pub(crate) code: &'a str,
    pub(crate) text: &'a str,
    pub(crate) channel: Channel,
}

/// A service that delivers text messages.
enum Provider {
    /// The development mailbox.
    Mailbox(Outbox),
    Twilio(Twilio),
    /// A provider that this server does not support, or none.
    Missing(String),
}

/// Text messages of this server.
pub(crate) struct Sms {
    provider: Provider,
    template: TextTemplate,
    mfa_template: TextTemplate,
    test_codes: Vec<(String, String)>,
    test_codes_end: Option<Timestamp>,
}

impl Sms {
    pub(crate) fn new(config: &AuthConfig, outbox: &Outbox) -> Self {
        let provider = match config.sms_provider.as_str() {
            "" if outbox.destination() == Destination::Mailbox => Provider::Mailbox(outbox.clone()),
            "" => Provider::Missing("no SMS provider is configured".to_owned()),
            "twilio" => Provider::Twilio(Twilio::new(config)),
            other => Provider::Missing(format!("the SMS provider {other} is not supported")),
        };
        let digits = |phone: &str| phone.trim_start_matches('+').replace(' ', "");
        Self {
            provider,
            template: TextTemplate::new(&config.sms_template),
            mfa_template: TextTemplate::new(&config.mfa_phone_template),
            test_codes: config
                .sms_test_otp
                .iter()
                .map(|(phone, code)| (digits(phone), code.clone()))
                .collect(),
            test_codes_end: config.sms_test_otp_valid_until,
        }
    }

    /// Whether messages can be sent through WhatsApp.
    pub(crate) const fn has_whatsapp(&self) -> bool {
        matches!(self.provider, Provider::Twilio(_))
    }

    /// Whether messages go to the development mailbox.
    pub(crate) const fn is_mailbox(&self) -> bool {
        matches!(self.provider, Provider::Mailbox(_))
    }

    /// Why no message can be sent, as far as the settings show.
    pub(crate) fn missing_setting(&self) -> Option<&str> {
        match &self.provider {
            Provider::Mailbox(_) => None,
            Provider::Twilio(twilio) => twilio.missing_setting(),
            Provider::Missing(reason) => Some(reason),
        }
    }

    /// The fixed code of a test number.
    pub(crate) fn test_code(&self, phone: &str, now: Timestamp) -> Option<&str> {
        if self.test_codes_end.is_some_and(|end| now >= end) {
            return None;
        }
        self.test_codes.iter().find(|(number, _)| number == phone).map(|(_, code)| code.as_str())
    }

    /// The text of a message.
    pub(crate) fn text(&self, kind: SmsKind, code: &str) -> String {
        let template = match kind {
            SmsKind::Confirmation | SmsKind::PhoneChange | SmsKind::Reauthentication => &self.template,
            SmsKind::Mfa => &self.mfa_template,
        };
        template.render(&json!({ "Code": code, "Token": code }))
    }

    /// Puts the message into the development mailbox, in the transaction that stores its code. `false` if the provider is
    /// another one: then send it with [`Self::send`], after the commit.
    pub(crate) async fn deliver_to_mailbox(&self, tx: &Tx, message: &Message<'_>) -> Result<bool, AuthError> {
        let Provider::Mailbox(outbox) = &self.provider else { return Ok(false) };
        let mail = Mail {
            kind: "sms",
            to: format!("+{}", message.phone),
            subject: "Text message".to_owned(),
            html: format!("<p>{}</p>", html::escape(message.text)),
            text: message.text.to_owned(),
            idempotency_key: None,
            author: None,
            unsubscribe_url: None,
        };
        outbox.enqueue(tx, &mail).await?;
        Ok(true)
    }

    /// Sends a message through the provider, and returns the provider's id of it.
    ///
    /// # Errors
    /// The reason, for the client.
    pub(crate) async fn send(
        &self,
        message: &Message<'_>,
        deadline: Instant,
    ) -> Result<Option<String>, String> {
        match &self.provider {
            Provider::Mailbox(_) => Ok(None),
            Provider::Twilio(twilio) => Box::pin(twilio.send(message, deadline)).await,
            Provider::Missing(reason) => Err(reason.clone()),
        }
    }
}
