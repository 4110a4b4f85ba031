//! Sends a mail through Resend's API (functions.md 3.21) and classifies its errors as transient or permanent.

use std::time::Duration;

use basalt_core::http_client::{Answer, HttpClient, HttpError, Outgoing as Request, Reach};
use basalt_pg::jobs::Failure;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use url::Url;

use crate::Content;
use crate::smtp::sender;

/// Time limit of one call.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest response body.
const RESPONSE_BYTES: usize = 64 * 1024;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A Resend account.
#[derive(Clone, Debug)]
pub struct ResendAccount {
    /// `re_…`.
    pub api_key: SecretString,
    /// Sender's address; if empty, `mail.from` is used.
    pub from_email: String,
    /// Sender's name; may be empty.
    pub from_name: String,
}

/// Loads the account, if one is configured. Called for each mail: an administrator can change it at any time.
pub type FindAccount =
    Box<dyn Fn() -> BoxFuture<'static, Result<Option<ResendAccount>, String>> + Send + Sync>;

/// Resend's API.
#[derive(Clone, Debug)]
pub struct Resend {
    client: HttpClient,
    emails: Url,
    /// `mail.from`.
    from: String,
}

#[derive(Deserialize)]
struct Sent {
    id: String,
}

#[derive(Deserialize, Default)]
struct ErrorBody {
    #[serde(default)]
    name: String,
    #[serde(default)]
    message: String,
}

impl Resend {
    /// `base` overrides Resend's URL. `from` is the sender if an account has none.
    ///
    /// # Errors
    /// `base` is not a URL to which paths can be appended.
    pub fn new(base: Option<&Url>, from: &str) -> Result<Self, String> {
        let (base, reach) = match base {
            Some(base) => (base.as_str(), Reach::Anywhere),
            None => ("https://api.resend.com", Reach::Public),
        };
        let emails = format!("{}/emails", base.trim_end_matches('/'));
        let emails = emails.parse().map_err(|error| format!("{emails} is not a URL: {error}"))?;
        Ok(Self { client: HttpClient::new(reach), emails, from: from.to_owned() })
    }

    /// Sends a mail and returns Resend's id for it.
    pub(crate) async fn send(
        &self,
        account: &ResendAccount,
        kind: &str,
        to: &str,
        content: &Content,
        idempotency_key: &str,
    ) -> Result<String, Failure> {
        let address = if account.from_email.is_empty() { &self.from } else { &account.from_email };
        let from = sender(address, &account.from_name).map_err(Failure::permanent)?;
        let body = json!({
            "from": from.to_string(),
            "to": [to],
            "subject": content.subject,
            "html": content.html,
            "text": content.text,
            "tags": [{"name": "kind", "value": kind}],
        });
        let mut headers = HeaderMap::new();
        let secret = |text: String| {
            let value = HeaderValue::try_from(text);
            value.map_err(|_invalid| Failure::permanent("the Resend API key contains invalid characters"))
        };
        let mut bearer = secret(format!("Bearer {}", account.api_key.expose_secret()))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(key) = HeaderValue::try_from(idempotency_key) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let request = Request {
            method: Method::POST,
            url: &self.emails,
            headers,
            body: body.to_string().into(),
            limit: RESPONSE_BYTES,
        };
        match self.client.send(request, Instant::now() + LIMIT).await {
            Ok(answer) if answer.status.is_success() => serde_json::from_slice::<Sent>(&answer.body)
                .map(|sent| sent.id)
                // Accepted nevertheless; a retry would get the same response.
                .or_else(|_no_id| Ok(String::new())),
            Ok(answer) => Err(failure(&answer)),
            Err(error @ (HttpError::Url | HttpError::NotPublic)) => {
                Err(Failure::permanent(format!("cannot reach Resend: {error}")))
            }
            Err(error) => Err(Failure::transient(format!("cannot reach Resend: {error}"))),
        }
    }
}

fn failure(answer: &Answer) -> Failure {
    let status = answer.status.as_u16();
    let ErrorBody { name, message } = serde_json::from_slice(&answer.body).unwrap_or_default();
    let is_transient = match (status, name.as_str()) {
        (429, name) => !name.ends_with("quota_exceeded"),
        (409, name) => name != "invalid_idempotent_request",
        _ => status >= 500,
    };
    // The name comes from a fixed list and can be logged; the message may repeat addresses.
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let shown = if is_name { name } else { "no error name".to_owned() };
    let hint = match status {
        401 | 403 => ": check the key and the domain in the e-mail settings",
        _ => "",
    };
    let reason = format!("Resend returned {status} ({shown}){hint}");
    let message: String = message.chars().filter(|char| !char.is_control()).take(300).collect();
    let detail = if message.is_empty() { reason.clone() } else { message };
    Failure { is_transient, reason, detail }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn transient(status: u16, name: &str) -> bool {
        let body = format!(r#"{{"statusCode":{status},"name":"{name}","message":"No"}}"#);
        let status = StatusCode::from_u16(status).unwrap();
        failure(&Answer { status, headers: HeaderMap::new(), body: body.into() }).is_transient
    }

    #[test]
    fn transient_errors_are_retried() {
        for (status, name) in [
            (409, "concurrent_idempotent_requests"),
            (409, "resource_locked"),
            (429, "rate_limit_exceeded"),
            (500, "application_error"),
            (503, "service_unavailable"),
        ] {
            assert!(transient(status, name), "{status} {name}");
        }
        for (status, name) in [
            (400, "validation_error"),
            (401, "missing_api_key"),
            (403, "validation_error"),
            (403, "suspended_api_key"),
            (404, "not_found"),
            (409, "invalid_idempotent_request"),
            (422, "invalid_parameter"),
            (429, "daily_quota_exceeded"),
            (429, "monthly_quota_exceeded"),
        ] {
            assert!(!transient(status, name), "{status} {name}");
        }
    }

    #[test]
    fn logged_reason_does_not_quote_the_provider() {
        let body = r#"{"statusCode":403,"name":"validation_error","message":"ada@example.org is not verified\u0007"}"#;
        let answer = Answer { status: StatusCode::FORBIDDEN, headers: HeaderMap::new(), body: body.into() };
        let failure = failure(&answer);
        assert_eq!(failure.detail, "ada@example.org is not verified");
        assert!(!failure.reason.contains("ada@"), "{}", failure.reason);
    }
}
