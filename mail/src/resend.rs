//! Sends a mail through Resend's API (functions.md 3.21), checks accounts, and classifies errors as transient or permanent.

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
    domains: Url,
    /// `mail.from`.
    from: String,
}

#[derive(Deserialize)]
struct Sent {
    id: String,
}

#[derive(Deserialize)]
struct Domains {
    data: Vec<Domain>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Deserialize)]
struct Domain {
    name: String,
    status: String,
}

/// Why an account cannot send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountFault {
    /// Resend rejects the key; with its message.
    Key(String),
    /// The sender's domain is not verified.
    Domain(String),
    /// Resend gave no verdict.
    Unknown(String),
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
        let endpoint = |name: &str| {
            let url = format!("{}/{name}", base.trim_end_matches('/'));
            url.parse().map_err(|error| format!("{url} is not a URL: {error}"))
        };
        let (emails, domains) = (endpoint("emails")?, endpoint("domains")?);
        Ok(Self { client: HttpClient::new(reach), emails, domains, from: from.to_owned() })
    }

    /// Checks key and sender without sending a mail: Resend lists the account's domains. A key that may only send is accepted as it is.
    ///
    /// # Errors
    /// The account cannot send, or Resend cannot be asked.
    pub async fn check(&self, account: &ResendAccount) -> Result<(), AccountFault> {
        let authorization = bearer(account).map_err(|failure| AccountFault::Key(failure.detail))?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, authorization);
        let request = Request {
            method: Method::GET,
            url: &self.domains,
            headers,
            body: String::new().into(),
            limit: RESPONSE_BYTES,
        };
        match self.client.send(request, Instant::now() + LIMIT).await {
            Ok(answer) => verdict(&answer, &account.from_email),
            Err(error) => Err(AccountFault::Unknown(format!("cannot reach Resend: {error}"))),
        }
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
        let name = content.author.as_ref().map_or(&account.from_name, |author| &author.sender_name);
        let from = sender(address, name).map_err(Failure::permanent)?;
        let mut body = json!({
            "from": from.to_string(),
            "to": [to],
            "subject": content.subject,
            "html": content.html,
            "text": content.text,
            "tags": [{"name": "kind", "value": kind}],
        });
        if let (Some(author), Some(body)) = (&content.author, body.as_object_mut()) {
            body.insert("reply_to".to_owned(), author.reply_to.clone().into());
        }
        if let (Some(url), Some(body)) = (&content.unsubscribe_url, body.as_object_mut()) {
            let headers = json!({
                "List-Unsubscribe": format!("<{url}>"),
                "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            });
            body.insert("headers".to_owned(), headers);
        }
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer(account)?);
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

fn bearer(account: &ResendAccount) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::try_from(format!("Bearer {}", account.api_key.expose_secret()));
    let mut value =
        value.map_err(|_invalid| Failure::permanent("the Resend API key contains invalid characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What the list of domains says about an account.
fn verdict(answer: &Answer, from_email: &str) -> Result<(), AccountFault> {
    /// Resend's own domain, from which a new account may send to itself.
    const TRIAL_DOMAIN: &str = "resend.dev";
    if !answer.status.is_success() {
        let ErrorBody { name, .. } = serde_json::from_slice(&answer.body).unwrap_or_default();
        let failure = failure(answer);
        return match (answer.status.as_u16(), name.as_str()) {
            (_, "restricted_api_key") => Ok(()),
            (429, _) => Err(AccountFault::Unknown(failure.reason)),
            (status, _) if status >= 500 => Err(AccountFault::Unknown(failure.reason)),
            _ => Err(AccountFault::Key(failure.detail)),
        };
    }
    let Ok(Domains { data, has_more }) = serde_json::from_slice(&answer.body) else {
        return Err(AccountFault::Unknown("Resend returned an unexpected response".to_owned()));
    };
    let wanted = from_email.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let is_verified =
        |domain: &Domain| domain.status == "verified" && domain.name.eq_ignore_ascii_case(&wanted);
    if wanted == TRIAL_DOMAIN || has_more || data.iter().any(is_verified) {
        Ok(())
    } else {
        Err(AccountFault::Domain(wanted))
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
    fn account_is_judged_by_its_domains() {
        let answer = |status: u16, body: &str| Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.to_owned().into(),
        };
        let listed = answer(
            200,
            r#"{"object":"list","data":[{"name":"Example.org","status":"verified"},{"name":"new.org","status":"pending"}]}"#,
        );
        assert_eq!(verdict(&listed, "plans@example.org"), Ok(()));
        assert_eq!(verdict(&listed, "onboarding@resend.dev"), Ok(()));
        for domain in ["new.org", "mail.example.org"] {
            assert_eq!(
                verdict(&listed, &format!("a@{domain}")),
                Err(AccountFault::Domain(domain.to_owned()))
            );
        }
        assert_eq!(verdict(&answer(200, r#"{"data":[],"has_more":true}"#), "a@example.org"), Ok(()));
        let error = |status, name: &str| {
            let body = format!(r#"{{"statusCode":{status},"name":"{name}","message":"API key is invalid"}}"#);
            verdict(&answer(status, &body), "a@example.org")
        };
        assert_eq!(error(401, "restricted_api_key"), Ok(()));
        for (status, name) in [(401, "validation_error"), (403, "invalid_api_key"), (400, "validation_error")]
        {
            assert_eq!(error(status, name), Err(AccountFault::Key("API key is invalid".to_owned())));
        }
        for (status, name) in [(429, "rate_limit_exceeded"), (500, "application_error"), (503, "x")] {
            assert!(matches!(error(status, name), Err(AccountFault::Unknown(_))), "{status}");
        }
        assert!(matches!(verdict(&answer(200, "<html>"), "a@b.org"), Err(AccountFault::Unknown(_))));
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
