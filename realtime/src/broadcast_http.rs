//! Broadcasts over HTTP (realtime.md 3.10.1): a batch of messages, or a single message whose payload is the
//! body.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use basalt_core::service::{ClientAddress, read_body};
use basalt_pg::request_settings::headers_json;
use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, CONTENT_TYPE, ORIGIN};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::Realtime;
use crate::authorization::{Caller, Extension, PolicyError};
use crate::error::{json_response, message};
use crate::frames::{Content, Encoding, Fanout, broadcast_object};
use crate::metrics;
use crate::token::{Client, Token, TokenFault};
use crate::topic_key::TopicKey;

const X_RATE_ROLLING: HeaderName = HeaderName::from_static("x-rate-rolling");
const X_RATE_LIMIT: HeaderName = HeaderName::from_static("x-rate-limit");
const X_RATE_LIMIT_REMAINING: HeaderName = HeaderName::from_static("x-rate-limit-remaining");
const APIKEY: HeaderName = HeaderName::from_static("apikey");
/// Added to the payload limit, for the envelope around the payload.
const PAYLOAD_ALLOWANCE: usize = 500;
/// Most messages in one batch.
const MAX_MESSAGES: usize = 10_000;

/// The error response is boxed because it is much larger than the success values.
type HandlerResult<T> = Result<T, Box<Response>>;

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow, default)]
    messages: Option<Vec<HashMap<String, &'a RawValue>>>,
}

/// A validated message of a batch.
struct ValidMessage {
    topic: String,
    is_private: bool,
    content: Content,
}

/// `POST /api/broadcast`.
pub(crate) async fn batch(State(realtime): State<Arc<Realtime>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let sent = async {
        let token = authenticate(&realtime, &parts)?;
        let body = read_body(body, parts.extensions.get::<BodyLease>()).await;
        let body = body.map_err(|error| bad_request(&error.to_string()))?;
        send_batch(&realtime, &parts, token, &body).await
    };
    let answer = sent.await.unwrap_or_else(|refusal| *refusal);
    with_headers(&realtime, &parts, answer)
}

async fn send_batch(
    realtime: &Realtime,
    parts: &Parts,
    token: Token,
    body: &[u8],
) -> HandlerResult<Response> {
    let batch: Batch<'_> =
        serde_json::from_slice(body).map_err(|_| bad_request("the body is not a JSON batch"))?;
    let messages = batch.messages.filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| unprocessable(&json!({ "messages": ["can't be blank"] })))?;
    let too_many = "Too many messages to broadcast, please reduce the batch size";
    let (left, _limit) = realtime.limits.events.left();
    let room = usize::try_from(left.saturating_mul(10)).unwrap_or(MAX_MESSAGES).min(MAX_MESSAGES);
    if messages.len() > room {
        return Err(Box::new(message(StatusCode::TOO_MANY_REQUESTS, too_many)));
    }
    let max_bytes = realtime.config.max_payload_size + PAYLOAD_ALLOWANCE;
    let (mut ready, mut errors, mut is_refused) = (Vec::new(), Vec::new(), false);
    for raw_message in &messages {
        match read_message(raw_message, max_bytes) {
            Ok(message) => {
                ready.push(message);
                errors.push(Value::Object(Map::new()));
            }
            Err(fault) => {
                is_refused = true;
                errors.push(Value::Object(fault));
            }
        }
    }
    if is_refused {
        return Err(unprocessable(&json!({ "messages": errors })));
    }
    // Upstream sends the public messages first.
    ready.sort_by_key(|message| message.is_private);
    let headers: Arc<str> = headers_json(&parts.headers).into();
    let mut allowed: HashMap<String, bool> = HashMap::new();
    for ValidMessage { topic, is_private, content } in ready {
        if is_private {
            let is_allowed = match allowed.get(&topic) {
                Some(is_allowed) => *is_allowed,
                None => {
                    let caller = Caller {
                        token: token.clone(),
                        topic: topic.as_str().into(),
                        headers: Arc::clone(&headers),
                        presence_key: "".into(),
                        address: address(parts),
                    };
                    // Messages to topics the caller may not write to are skipped silently, as upstream does.
                    let is_allowed = realtime
                        .authorization
                        .may_write(&caller, Extension::Broadcast)
                        .await
                        .unwrap_or(false);
                    allowed.insert(topic.clone(), is_allowed);
                    is_allowed
                }
            };
            if !is_allowed {
                continue;
            }
        }
        send(realtime, &TopicKey::new(&topic, is_private), &content);
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Validation errors of a message, by field.
type FieldErrors = Map<String, Value>;

fn read_message(
    raw_message: &HashMap<String, &RawValue>,
    max_bytes: usize,
) -> Result<ValidMessage, FieldErrors> {
    let mut errors = FieldErrors::new();
    let mut text = |name: &str, is_required: bool| {
        let read =
            raw_message.get(name).map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap_or_default());
        match read {
            Some(Value::String(text)) if !text.is_empty() => return Some(text),
            None | Some(Value::Null) | Some(Value::String(_)) => {
                if is_required {
                    errors.insert(name.to_owned(), json!(["can't be blank"]));
                }
            }
            Some(_) => {
                errors.insert(name.to_owned(), json!(["is invalid"]));
            }
        }
        None
    };
    let (topic, event) = (text("topic", true), text("event", true));
    let id = text("id", false);
    let mut meta = None;
    if let Some(id) = id {
        match Uuid::try_parse(&id) {
            Ok(id) => meta = Some(format!("{{\"id\":\"{id}\"}}")),
            Err(_) => {
                errors.insert("id".to_owned(), json!(["is invalid"]));
            }
        }
    }
    let payload = raw_message.get("payload").map(|raw| raw.get()).filter(|text| *text != "null");
    match payload {
        None => {
            errors.insert("payload".to_owned(), json!(["can't be blank"]));
        }
        Some(payload) if !payload.starts_with('{') => {
            errors.insert("payload".to_owned(), json!(["is invalid"]));
        }
        Some(payload) if payload.len() > max_bytes => {
            errors.insert("payload".to_owned(), json!(["Payload size exceeds tenant limit"]));
        }
        Some(_) => {}
    }
    let is_private = match raw_message.get("private").map_or("false", |raw| raw.get()) {
        "true" | "\"true\"" => true,
        "false" | "\"false\"" | "null" => false,
        _ => {
            errors.insert("private".to_owned(), json!(["is invalid"]));
            false
        }
    };
    match (topic, event, payload) {
        (Some(topic), Some(event), Some(payload)) if errors.is_empty() => {
            let object = broadcast_object(&event, payload, meta.as_deref());
            let content = Content::Text { event: "broadcast", payload: Bytes::from(object) };
            Ok(ValidMessage { topic, is_private, content })
        }
        _ => Err(errors),
    }
}

/// `POST /api/broadcast/{topic}/events/{event}`.
pub(crate) async fn one(
    State(realtime): State<Arc<Realtime>>,
    Path((topic, event)): Path<(String, String)>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let sent = async {
        let token = authenticate(&realtime, &parts)?;
        let encoding = encoding(&parts)?;
        let is_private = parameter(&parts, "private") == Some(Cow::Borrowed("true"));
        let persists = [parameter(&parts, "persist"), parameter(&parts, "persist[ttl]")];
        if !is_private && persists.iter().flatten().any(|value| value != "false") {
            return Err(unprocessable(&json!({ "persist": ["can only be used on private channels"] })));
        }
        let body = read_body(body, parts.extensions.get::<BodyLease>()).await;
        let body = body.map_err(|error| bad_request(&error.to_string()))?;
        let payload = payload(encoding, body)?;
        if payload.len() > realtime.config.max_payload_size + PAYLOAD_ALLOWANCE {
            return Err(unprocessable(&json!({ "payload": ["Payload size exceeds tenant limit"] })));
        }
        if is_private {
            let headers = headers_json(&parts.headers).into();
            let (topic, address) = (topic.as_str().into(), address(&parts));
            let caller = Caller { token, topic, headers, presence_key: "".into(), address };
            let may_write = realtime.authorization.may_write(&caller, Extension::Broadcast).await;
            if !may_write.map_err(|error| policy_error_response(&error))? {
                return Err(Box::new(message(StatusCode::FORBIDDEN, "Unauthorized")));
            }
        }
        let content = Content::User { event: event.into(), encoding, meta: None, payload };
        send(&realtime, &TopicKey::new(&topic, is_private), &content);
        Ok(StatusCode::ACCEPTED.into_response())
    };
    let answer = sent.await.unwrap_or_else(|refusal| *refusal);
    with_headers(&realtime, &parts, answer)
}

/// The last value of a query parameter.
fn parameter<'a>(parts: &'a Parts, name: &str) -> Option<Cow<'a, str>> {
    let decoded = |text: &'a str| percent_encoding::percent_decode_str(text).decode_utf8_lossy();
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .rfind(|(key, _)| decoded(key) == name)
        .map(|(_, value)| decoded(value))
}

fn address(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ClientAddress>().map(|client| client.0)
}

fn encoding(parts: &Parts) -> HandlerResult<Encoding> {
    let Some(content_type) = parts.headers.get(CONTENT_TYPE) else { return Ok(Encoding::Json) };
    let media = content_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        Ok(Encoding::Json)
    } else if media.eq_ignore_ascii_case("application/octet-stream") {
        Ok(Encoding::Binary)
    } else {
        let text = "Unsupported Media Type. Use application/json or application/octet-stream";
        Err(Box::new(json_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, &json!({ "error": text }))))
    }
}

fn payload(encoding: Encoding, body: Bytes) -> HandlerResult<Bytes> {
    if encoding == Encoding::Binary {
        return Ok(body);
    }
    if body.is_empty() {
        return Ok(Bytes::from_static(b"{}"));
    }
    let raw: &RawValue = serde_json::from_slice(&body).map_err(|_| bad_request("the body is not JSON"))?;
    // Upstream's framework wraps payloads that are not objects.
    if raw.get().starts_with('{') { Ok(body) } else { Ok(format!("{{\"_json\":{}}}", raw.get()).into()) }
}

fn send(realtime: &Realtime, key: &TopicKey, content: &Content) {
    let fanout = Fanout::new(key.full_name(), content.clone());
    let count = realtime.hub.broadcast(key, &fanout, content, None);
    realtime.limits.events.take(count + 1);
    metrics::count_broadcasts("http", 1);
}

/// Checks the rate limit, then the token from `Authorization` or the header `apikey`.
fn authenticate(realtime: &Realtime, parts: &Parts) -> HandlerResult<Token> {
    if !realtime.limits.events.has_room() {
        return Err(Box::new(message(StatusCode::TOO_MANY_REQUESTS, "Too many requests")));
    }
    let header = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = header(AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let token = bearer.or_else(|| header(APIKEY)).unwrap_or_default();
    realtime.tokens.verify(token, Client::from_extensions(&parts.extensions)).map_err(|fault| {
        let text =
            if fault == TokenFault::Secret { fault.handshake_text() } else { "Unauthorized".to_owned() };
        Box::new(message(StatusCode::UNAUTHORIZED, &text))
    })
}

fn policy_error_response(error: &PolicyError) -> Box<Response> {
    let (status, text) = match error {
        PolicyError::Refused => (StatusCode::UNPROCESSABLE_ENTITY, "RLS policy error"),
        PolicyError::Cancelled => (StatusCode::UNPROCESSABLE_ENTITY, "Query canceled"),
        PolicyError::MissingPartition => (StatusCode::UNPROCESSABLE_ENTITY, "Missing messages partition"),
        PolicyError::Unreachable => (StatusCode::UNPROCESSABLE_ENTITY, "Tenant database unavailable"),
        PolicyError::PoolExhausted => (StatusCode::TOO_MANY_REQUESTS, "Connection pool exhausted"),
    };
    Box::new(message(status, text))
}

fn bad_request(text: &str) -> Box<Response> {
    Box::new(message(StatusCode::BAD_REQUEST, text))
}

fn unprocessable(errors: &Value) -> Box<Response> {
    Box::new(json_response(StatusCode::UNPROCESSABLE_ENTITY, &json!({ "errors": errors })))
}

/// Adds the rate headers (average, limit and remainder, in events per second), and the CORS header that
/// upstream sends even without `Origin`. With `Origin`, the gateway answers according to
/// `server.cors_origins`.
fn with_headers(realtime: &Realtime, parts: &Parts, mut answer: Response) -> Response {
    let (left, limit) = realtime.limits.events.left();
    let headers = answer.headers_mut();
    if !parts.headers.contains_key(ORIGIN) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    }
    headers.insert(X_RATE_ROLLING, HeaderValue::from(limit.saturating_sub(left)));
    headers.insert(X_RATE_LIMIT, HeaderValue::from(limit));
    headers.insert(X_RATE_LIMIT_REMAINING, HeaderValue::from(left));
    answer
}
