//! Sends a request of the database and receives its response: the guard of addresses, this server's own API, limits.

use std::collections::HashSet;
use std::time::Duration;

use basalt_core::http_client::{Answer, HttpClient, HttpError, Outgoing, Reach};
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::Url;

use super::target::{OwnServer, Target};
use crate::ExtensionsConfig;

/// Paths whose refusal is remembered, so that it is logged once.
const REFUSED_PATHS: usize = 100;
/// Headers that belong to the connection, not to the request.
const CONNECTION_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "keep-alive",
];

/// The HTTP clients of requests from the database.
pub(crate) struct Outbound {
    own_server: OwnServer,
    outside: HttpClient,
    own: HttpClient,
    max_response: usize,
    refused: Mutex<HashSet<String>>,
}

/// A request of the database.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
}

/// The reason for a missing response.
pub(super) struct NoResponse {
    pub(super) is_timeout: bool,
    pub(super) message: String,
}

impl NoResponse {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { is_timeout: false, message: message.into() }
    }
}

impl Outbound {
    pub(crate) fn new(own_server: OwnServer, config: &ExtensionsConfig) -> Self {
        let reach = if config.net_private_addresses { Reach::Anywhere } else { Reach::Public };
        Self {
            own_server,
            outside: HttpClient::new(reach),
            own: HttpClient::new(Reach::Anywhere),
            max_response: config.net_max_response,
            refused: Mutex::default(),
        }
    }

    pub(super) async fn send(&self, request: Request) -> Result<Answer, NoResponse> {
        let Request { method, url, headers, body, timeout } = request;
        let limit = self.max_response;
        let deadline = Instant::now() + timeout;
        let answered = match self.own_server.target(&url) {
            Target::Outside => {
                self.outside.send(Outgoing { method, url: &url, headers, body, limit }, deadline).await
            }
            Target::Own(own) => {
                let answered =
                    self.own.send(Outgoing { method, url: &own, headers, body, limit }, deadline).await;
                if let Ok(answer) = &answered {
                    self.warn_of_refusal(&own, answer.status);
                }
                answered
            }
            Target::Refused => {
                return Err(NoResponse::new(
                    "only the API of this server can be called: /rest/v1/, /functions/v1/ and so on",
                ));
            }
        };
        answered.map_err(|error| match error {
            HttpError::Deadline => NoResponse {
                is_timeout: true,
                message: format!("Timeout of {} ms reached. Total time: {} ms", timeout.as_millis(), timeout.as_millis()),
            },
            HttpError::NotPublic => NoResponse::new(
                "the host has no public address; set extensions.net_private_addresses to reach this machine and private networks",
            ),
            HttpError::TooLarge(_) | HttpError::Url | HttpError::Connection(_) => NoResponse::new(error.to_string()),
        })
    }

    /// Projects keep API keys in SQL, and those of a hosted project are not valid here.
    fn warn_of_refusal(&self, url: &Url, status: StatusCode) {
        if status != StatusCode::UNAUTHORIZED {
            return;
        }
        let mut refused = self.refused.lock();
        if refused.len() < REFUSED_PATHS && refused.insert(url.path().to_owned()) {
            tracing::warn!(
                path = url.path(),
                "this server refused a request from its database (401): the key in the SQL belongs to another project; \
                 use the keys of `basalt keys`"
            );
        }
    }
}

pub(super) fn parse_url(url: &str) -> Result<Url, NoResponse> {
    url.trim().parse().map_err(|error| NoResponse::new(format!("the URL is not valid: {error}")))
}

pub(super) fn parse_method(method: &str) -> Result<Method, NoResponse> {
    let parsed = method.parse().ok().filter(|method| *method != Method::CONNECT);
    parsed.ok_or_else(|| NoResponse::new("the method is not valid"))
}

/// A header of a request; `None` if it belongs to the connection.
pub(super) fn parse_header(name: &str, text: &str) -> Result<Option<(HeaderName, HeaderValue)>, NoResponse> {
    let invalid = || NoResponse::new(format!("the header {name} is not valid"));
    let parsed: HeaderName = name.parse().map_err(|_| invalid())?;
    if CONNECTION_HEADERS.contains(&parsed.as_str()) {
        return Ok(None);
    }
    let value = HeaderValue::from_str(text.trim()).map_err(|_| invalid())?;
    Ok(Some((parsed, value)))
}

/// The headers in a JSON object.
pub(super) fn parse_headers(headers: &Value) -> Result<HeaderMap, NoResponse> {
    let mut parsed = HeaderMap::new();
    let Value::Object(headers) = headers else { return Ok(parsed) };
    for (name, value) in headers {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null => continue,
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        };
        if let Some((name, value)) = parse_header(name, &text)? {
            let _before = parsed.insert(name, value);
        }
    }
    Ok(parsed)
}

pub(super) fn headers_of(headers: &HeaderMap) -> Value {
    let pairs = headers.iter().map(|(name, value)| (name.as_str().to_owned(), Value::String(text_of(value))));
    Value::Object(pairs.collect::<Map<_, _>>())
}

pub(super) fn text_of(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// The body of a response. PostgreSQL's text cannot contain NUL.
pub(super) fn text_of_body(body: &[u8]) -> String {
    String::from_utf8_lossy(body).replace('\0', "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_of_the_connection_are_dropped() {
        let headers = json!({"Authorization": "Bearer x", "Host": "evil", "Content-Length": 3, "X-Number": 1, "X-Null": null});
        let parsed = parse_headers(&headers).ok().unwrap();
        assert_eq!(headers_of(&parsed), json!({"authorization": "Bearer x", "x-number": "1"}));
        assert!(parse_headers(&json!({"a b": "x"})).is_err());
        assert!(parse_headers(&json!({"x": "a\r\nb: c"})).is_err());
    }
}
