//! Messages through Twilio, or a service with the same API.

use std::time::Duration;

use basalt_core::http_client::{HttpClient, Outgoing, Reach};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;
use url::form_urlencoded::Serializer;

use super::{Channel, Message};
use crate::config::AuthConfig;
use crate::config::secret::SecretSetting;

const TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_BYTES: usize = 64 * 1024;
/// Longest reason of Twilio's that is passed on.
const REASON_CHARS: usize = 200;

pub(super) struct Twilio {
    client: HttpClient,
    base: String,
    account_sid: String,
    auth_token: SecretSetting,
    /// A sender's number, or the id of a messaging service (`MG…`).
    sender: String,
    /// The template that WhatsApp requires; empty for none.
    content_sid: String,
}

impl Twilio {
    pub(super) fn new(config: &AuthConfig) -> Self {
        Self {
            // The operator configured the address.
            client: HttpClient::new(Reach::Anywhere),
            base: config.sms_twilio_url.trim_end_matches('/').to_owned(),
            account_sid: config.sms_twilio_account_sid.clone(),
            auth_token: config.sms_twilio_auth_token.clone().unwrap_or_default(),
            sender: config.sms_twilio_message_service_sid.clone(),
            content_sid: config.sms_twilio_content_sid.clone(),
        }
    }

    /// What is missing in the settings. Not checked at the start: projects configure the secrets only in production.
    pub(super) fn missing_setting(&self) -> Option<&'static str> {
        if self.account_sid.is_empty() {
            Some("missing Twilio account SID")
        } else if self.auth_token.expose().is_empty() {
            Some("missing Twilio auth token")
        } else if self.sender.is_empty() {
            Some("missing Twilio message service SID or Twilio phone number")
        } else {
            None
        }
    }

    /// Sends a message and returns its id.
    ///
    /// # Errors
    /// The reason, for the client.
    pub(super) async fn send(
        &self,
        message: &Message<'_>,
        deadline: Instant,
    ) -> Result<Option<String>, String> {
        if let Some(missing) = self.missing_setting() {
            return Err(missing.to_owned());
        }
        let url = format!("{}/2010-04-01/Accounts/{}/Messages.json", self.base, self.account_sid);
        let url = Url::parse(&url).map_err(|_error| "auth.sms_twilio_url is not a URL".to_owned())?;
        let login = STANDARD.encode(format!("{}:{}", self.account_sid, self.auth_token.expose()));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let login = HeaderValue::from_str(&format!("Basic {login}"));
        headers
            .insert(header::AUTHORIZATION, login.map_err(|_error| "invalid Twilio credentials".to_owned())?);
        let body = Bytes::from(self.form(message));
        let request = Outgoing { method: Method::POST, url: &url, headers, body, limit: ANSWER_BYTES };
        let deadline = deadline.min(Instant::now() + TIMEOUT);
        let answer = self.client.send(request, deadline).await.map_err(|error| error.to_string())?;
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |name: &str| body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if answer.status.is_success() && !matches!(text("status"), Some("failed" | "undelivered")) {
            return Ok(text("sid").map(str::to_owned));
        }
        let reason = text("message").or_else(|| text("error_message"));
        let reason = reason.map(|reason| reason.chars().take(REASON_CHARS).collect());
        Err(reason
            .unwrap_or_else(|| format!("the provider responded with status {}", answer.status.as_u16())))
    }

    fn form(&self, message: &Message<'_>) -> String {
        let mut form = Serializer::new(String::new());
        let to = format!("+{}", message.phone);
        let is_service = self.sender.starts_with("MG");
        match message.channel {
            Channel::Sms => form.append_pair("To", &to),
            Channel::WhatsApp => form.append_pair("To", &format!("whatsapp:{to}")),
        };
        match message.channel {
            _ if is_service => form.append_pair("MessagingServiceSid", &self.sender),
            Channel::Sms => form.append_pair("From", &self.sender),
            Channel::WhatsApp => form.append_pair("From", &format!("whatsapp:{}", self.sender)),
        };
        if message.channel == Channel::WhatsApp && !self.content_sid.is_empty() {
            let variables = serde_json::json!({ "1": message.code });
            form.append_pair("ContentSid", &self.content_sid)
                .append_pair("ContentVariables", &variables.to_string());
        } else {
            form.append_pair("Body", message.text);
        }
        form.finish()
    }
}
