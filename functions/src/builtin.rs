//! The functions of the planning app, and the rules they have in common (functions.md 3.11): JSON in and out, a failure is
//! `{"error": "<sentence for a user>"}`.

mod caller;
mod checkout;
mod invite_member;
mod portal;
mod stripe_webhook;
mod subscription;
mod template;
mod test_email;
mod urls;
mod webhook_secret;

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::Hold;
use basalt_core::service::{BodyError, Fault, Handler, read_body};
use basalt_core::session::SessionError;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Limited;
use serde_json::{Map, Value, json};

use crate::Functions;
use crate::error;
pub(crate) use caller::Caller;
pub(crate) use stripe_webhook::SECRET_NAME;

/// Most bytes of a JSON body, and how deep it may be.
const BODY_BYTES: usize = 64 * 1024;
const DEPTH: usize = 16;

/// What a built-in function answers.
pub(crate) type Answer = Result<Response, Refusal>;

/// Each with its name.
pub(crate) fn all(functions: &Weak<Functions>) -> Vec<(&'static str, Handler)> {
    vec![
        ("create-checkout-session", handler(functions, checkout::create_checkout_session)),
        ("create-portal-session", handler(functions, portal::create_portal_session)),
        ("cancel-subscription", handler(functions, subscription::cancel_subscription)),
        ("reactivate-subscription", handler(functions, subscription::reactivate_subscription)),
        ("set-webhook-secret", handler(functions, webhook_secret::set_webhook_secret)),
        ("stripe-webhook", handler(functions, stripe_webhook::stripe_webhook)),
        ("invite-member", handler(functions, invite_member::invite_member)),
        ("test-email", handler(functions, test_email::test_email)),
    ]
}

/// Makes a function of a Rust one that answers POST.
fn handler<F, A>(functions: &Weak<Functions>, run: F) -> Handler
where
    F: Fn(Arc<Functions>, Parts, Body) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    // The registry is part of what `functions` holds: a strong pointer would keep both for ever.
    let functions = Weak::clone(functions);
    Arc::new(move |request: Request<Body>| {
        let functions = functions.upgrade();
        async move {
            let Some(functions) = functions else { return error::render(Fault::Overloaded) };
            match *request.method() {
                Method::POST => {}
                Method::OPTIONS => {
                    let allow = [(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"))];
                    return (StatusCode::NO_CONTENT, allow).into_response();
                }
                _ => return Refusal::method().into_response(),
            }
            let (parts, body) = request.into_parts();
            run(functions, parts, body).await.unwrap_or_else(IntoResponse::into_response)
        }
        .boxed()
    })
}

/// A failure, as a user reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: Cow<'static, str>,
    pub(crate) code: Option<&'static str>,
    pub(crate) retry_after: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into(), code: None, retry_after: None }
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn forbidden(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(crate) fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    pub(crate) fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn with_retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn too_many(retry_after: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests. Try again later.")
            .with_retry_after(retry_after)
    }

    pub(crate) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed")
    }

    pub(crate) fn not_authenticated() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Not authenticated")
    }

    pub(crate) fn unavailable() -> Self {
        let message = "The service is not available at the moment. Please try again.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message).with_retry_after(1)
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong. Please try again.")
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        match &error {
            // What is referenced is the caller's account, which was deleted a moment ago.
            SessionError::Postgres(inner) if inner.code == "23503" => Self::not_authenticated(),
            SessionError::Postgres(inner) if !inner.is_unavailable() => {
                tracing::error!(%error, "a built-in function's statement failed");
                Self::internal()
            }
            SessionError::Postgres(_)
            | SessionError::PoolTimeout
            | SessionError::QueueFull
            | SessionError::Unreachable(_)
            | SessionError::Unavailable(_)
            | SessionError::Deadline => {
                tracing::warn!(%error, "a built-in function could not reach the database");
                Self::unavailable()
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = json!({"error": self.message});
        if let (Some(code), Some(body)) = (self.code, body.as_object_mut()) {
            body.insert("code".to_owned(), code.into());
        }
        let mut response = (self.status, axum::Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        }
        response
    }
}

/// 200 with a JSON body.
pub(crate) fn ok(body: &Value) -> Answer {
    Ok(axum::Json(body).into_response())
}

/// Reads a whole body of at most `limit` bytes; `Err` is the answer.
pub(crate) async fn read(parts: &Parts, body: Body, limit: usize) -> Result<Bytes, Response> {
    let hold = parts.extensions.get::<Hold>().map(Hold::fresh);
    let read = read_body(Body::new(Limited::new(body, limit)), hold.as_ref()).await;
    read.map_err(|error| match error {
        BodyError::TooLarge => error::render(Fault::BodyTooLarge { limit }),
        BodyError::Disconnected(_) => Refusal::bad_request("Invalid request body").into_response(),
    })
}

/// The fields of a JSON object.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads the body. `Ok(Err(…))` is the answer to one that is too long, which has the form of the server's own.
    pub(crate) async fn read(parts: &Parts, body: Body) -> Result<Result<Self, Response>, Refusal> {
        let bytes = match read(parts, body, BODY_BYTES).await {
            Ok(bytes) => bytes,
            Err(response) => return Ok(Err(response)),
        };
        let refused = || Refusal::bad_request("Invalid request body");
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| refused())?;
        match value {
            Value::Object(fields) if is_shallow(&fields) => Ok(Ok(Self(fields))),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => Err(refused()),
        }
    }

    /// Whether a field is there, and not null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// A field's text without the white space around it.
    ///
    /// # Errors
    /// It is missing, blank or no text.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.optional(name).ok_or_else(|| Refusal::bad_request(format!("{name} is required")))
    }

    /// The same; `None` where it is missing, blank or no text.
    pub(crate) fn optional(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    }
}

fn is_shallow(fields: &Map<String, Value>) -> bool {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }
    fields.values().all(|value| depth(value) < DEPTH)
}

/// The fields of a request, or an early return with what the caller gets.
macro_rules! fields {
    ($parts:expr, $body:expr) => {
        match $crate::builtin::Fields::read($parts, $body).await? {
            Ok(fields) => fields,
            Err(response) => return Ok(response),
        }
    };
}
pub(crate) use fields;

/// One `@`, no spaces, control characters, commas or angle brackets, a dot in the domain, 254 characters at most.
pub(crate) fn is_email(text: &str) -> bool {
    let is_plain = |character: char| {
        !character.is_whitespace() && !character.is_control() && !matches!(character, ',' | '<' | '>')
    };
    let Some((local, domain)) = text.split_once('@') else { return false };
    text.len() <= 254
        && text.chars().all(is_plain)
        && !local.is_empty()
        && !domain.contains('@')
        && domain.split('.').count() > 1
        && domain.split('.').all(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain() {
        for address in ["ada@example.org", "ada+x@mail.example.org", "\"a\"@example.org"] {
            assert!(is_email(address), "{address}");
        }
        for address in [
            "",
            "ada",
            "@example.org",
            "ada@",
            "ada@example",
            "ada@.org",
            "a@b@example.org",
            "a b@example.org",
            "a,b@example.org",
            "<ada@example.org>",
            "ada@example.org\n",
            &format!("{}@example.org", "a".repeat(250)),
        ] {
            assert!(!is_email(address), "{address}");
        }
    }

    #[test]
    fn a_deep_body_is_refused() {
        let nested = |depth: usize| {
            let text = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
            serde_json::from_str::<Map<String, Value>>(&text).unwrap()
        };
        assert!(is_shallow(&nested(15)));
        assert!(!is_shallow(&nested(16)));
    }
}
