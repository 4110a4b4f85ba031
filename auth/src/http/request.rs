//! Extracting a request: client, deadline, audience, query and JSON body.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use basalt_core::service::{BodyError, ClientAddress, Deadline, read_body};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, header};
use http_body_util::Limited;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::AuthError;
use crate::origin::{Client, LinkHints, Origin};

/// Largest request body in bytes (auth.md §3.1).
pub(crate) const BODY_LIMIT: usize = 1_048_576;

/// Longest `User-Agent` stored with a session.
const USER_AGENT_BYTES: usize = 1024;

/// Nesting depth of a body; scalar values count as a level.
const MAX_DEPTH: usize = 100;

/// A request without its body.
pub(crate) struct RequestContext {
    pub(crate) origin: Origin,
    /// Decoded query. The first of equal names counts; values with NUL are ignored.
    query: HashMap<String, String>,
    pub(crate) headers: HeaderMap,
}

impl<S: Sync> FromRequestParts<S> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let mut query = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            // PostgreSQL rejects NUL in text, which would cause a 500; no stored value can match it anyway.
            if !value.contains('\0') {
                query.entry(name.into_owned()).or_insert_with(|| value.into_owned());
            }
        }
        // Without a gateway in front (a test), all requests come from one client.
        let address = parts
            .extensions
            .get::<ClientAddress>()
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.0);
        let deadline = parts
            .extensions
            .get::<Deadline>()
            .map_or_else(|| Instant::now() + Duration::from_secs(10), |deadline| deadline.at());
        Ok(Self::new(address, deadline, parts.headers.clone(), query))
    }
}

impl RequestContext {
    pub(crate) fn new(
        address: IpAddr,
        deadline: Instant,
        headers: HeaderMap,
        query: HashMap<String, String>,
    ) -> Self {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let filled = |name: &str| header(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let agent = header(header::USER_AGENT.as_str()).unwrap_or_default();
        let user_agent = agent.get(..agent.len().min(USER_AGENT_BYTES)).unwrap_or_default().to_owned();
        let named = || query.get("redirect_to").filter(|value| !value.is_empty()).cloned();
        let links = LinkHints {
            redirect_to: filled("redirect_to").or_else(named),
            referer: header(header::REFERER.as_str()).map(str::to_owned),
            forwarded_host: header("x-forwarded-host").map(str::to_owned),
        };
        let audience = filled("x-jwt-aud");
        let origin = Origin { client: Client { address, user_agent }, deadline, audience, links };
        Self { origin, query, headers }
    }

    /// The client's address.
    pub(crate) const fn address(&self) -> IpAddr {
        self.origin.client.address
    }

    /// A query parameter; an empty one counts as absent.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All parameters, sorted by name.
    pub(crate) fn sorted_query(&self) -> Vec<(&str, &str)> {
        let mut pairs: Vec<_> =
            self.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        pairs.sort_unstable();
        pairs
    }
}

/// Reads a body of at most [`BODY_LIMIT`] bytes.
pub(crate) async fn read_bytes(body: Body) -> Result<Bytes, AuthError> {
    let bytes = read_body(Body::new(Limited::new(body, BODY_LIMIT)), None).await;
    bytes.map_err(|error| match error {
        BodyError::TooLarge => AuthError::BodyTooLarge(BODY_LIMIT),
        BodyError::Disconnected(reason) => AuthError::BadJson(reason),
    })
}

/// Parses a JSON object. Unknown fields are ignored, the last of equal names counts, and `null` means absent.
///
/// # Errors
/// The body is too large, is not a JSON object, or has a field of another type.
pub(crate) async fn read_json<T: DeserializeOwned>(body: Body) -> Result<T, AuthError> {
    let bytes = read_bytes(body).await?;
    parse_json(&bytes)
}

/// As [`read_json`], for routes with an optional body.
///
/// # Errors
/// As [`read_json`].
pub(crate) async fn read_json_or_default<T: DeserializeOwned + Default>(body: Body) -> Result<T, AuthError> {
    let bytes = read_bytes(body).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse_json(&bytes) }
}

/// Parses a body; see [`read_json`].
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, AuthError> {
    let bad = |reason: String| AuthError::BadJson(reason);
    if bytes.is_empty() {
        return Err(bad("unexpected end of JSON input".to_owned()));
    }
    // Via `Value`: a struct would reject repeated names and accept an array.
    let value: Value = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    if !value.is_object() {
        return Err(bad("the body must be a JSON object".to_owned()));
    }
    if let Some(reason) = unstorable(&value, MAX_DEPTH) {
        return Err(bad(reason.to_owned()));
    }
    serde_json::from_value(value).map_err(|error| bad(error.to_string()))
}

/// Why a value cannot be stored. PostgreSQL rejects NUL in text; and metadata is parsed again within rows and tokens, where
/// serde_json's limit is 128 levels.
fn unstorable(value: &Value, levels: usize) -> Option<&'static str> {
    const NUL: &str = "strings must not contain \\u0000";
    let Some(levels) = levels.checked_sub(1) else {
        return Some("values must not nest deeper than 100 levels");
    };
    match value {
        Value::String(text) => text.contains('\0').then_some(NUL),
        Value::Array(items) => items.iter().find_map(|item| unstorable(item, levels)),
        Value::Object(fields) => {
            fields.iter().find_map(
                |(name, value)| {
                    if name.contains('\0') { Some(NUL) } else { unstorable(value, levels) }
                },
            )
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        email: Option<String>,
    }

    async fn read(body: &str) -> Result<Sample, String> {
        read_json(Body::from(body.to_owned())).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn parses_bodies_leniently() {
        let sample = |email: Option<&str>| Ok(Sample { email: email.map(str::to_owned) });
        assert_eq!(read(r#"{"email":"a","other":{}}"#).await, sample(Some("a")));
        assert_eq!(read(r#"{"email":null}"#).await, sample(None));
        assert_eq!(read(r#"{"email":"a","email":"b"}"#).await, sample(Some("b")));
    }

    #[tokio::test]
    async fn non_objects_are_bad_json() {
        for body in ["", "[]", "null", "{", r#"{"email":5}"#, r#"{"email":"a\u0000"}"#] {
            let message = read(body).await.unwrap_err();
            assert!(message.starts_with("Could not parse request body as JSON: "), "{body}: {message}");
        }
    }

    #[tokio::test]
    async fn too_large_body_has_its_own_error() {
        let body = format!(r#"{{"email":"{}"}}"#, "x".repeat(BODY_LIMIT));
        assert_eq!(read(&body).await.unwrap_err(), "Request body too large (max 1048576 bytes)");
    }
}
