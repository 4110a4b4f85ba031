//! The app's functions and their common rules (functions.md 3.11): JSON requests and responses; a failure is
//! `{"error": "<message for the user>"}`.

mod caller;
mod check_price;
mod checkout;
mod invite_member;
mod mail_settings;
mod portal;
mod stop_mails;
mod stripe_webhook;
mod subscription;
mod template;
mod test_email;
mod urls;
mod webhook_secret;

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use basalt_core::service::{BodyError, Fault, Handler, read_body};
use basalt_functions::render_fault;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Limited;
use serde_json::{Map, Value};

use crate::app::App;
use crate::refusal::Refusal;
use caller::Caller;

/// The secret that verifies Stripe's signatures.
pub(crate) const WEBHOOK_SECRET: &str = "STRIPE_WEBHOOK_SECRET";

/// Limits on a JSON body.
const BODY_BYTES: usize = 64 * 1024;
const MAX_DEPTH: usize = 16;

/// The result of a function.
type Answer = Result<Response, Refusal>;

/// The functions with their names.
pub(crate) fn all(app: &Arc<App>) -> Vec<(&'static str, Handler)> {
    vec![
        ("check-price", handler(app, check_price::check_price)),
        ("create-checkout-session", handler(app, checkout::create_checkout_session)),
        ("create-portal-session", handler(app, portal::create_portal_session)),
        ("cancel-subscription", handler(app, subscription::cancel_subscription)),
        ("reactivate-subscription", handler(app, subscription::reactivate_subscription)),
        ("set-webhook-secret", handler(app, webhook_secret::set_webhook_secret)),
        ("stripe-webhook", handler(app, stripe_webhook::stripe_webhook)),
        ("invite-member", handler(app, invite_member::invite_member)),
        ("test-email", handler(app, test_email::test_email)),
        ("test-mail-key", handler(app, mail_settings::test_mail_key)),
        ("retry-mails", handler(app, mail_settings::retry_mails)),
        ("stop-mails", stop_mails::stop_mails(app)),
    ]
}

/// Wraps a function so that it only receives POST requests.
fn handler<F, A>(app: &Arc<App>, run: F) -> Handler
where
    F: Fn(Arc<App>, Parts, Body) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let app = Arc::clone(app);
    Arc::new(move |request: Request<Body>| {
        let app = Arc::clone(&app);
        async move {
            match *request.method() {
                Method::POST => {}
                Method::OPTIONS => {
                    let allow = [(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"))];
                    return (StatusCode::NO_CONTENT, allow).into_response();
                }
                _ => return Refusal::method().into_response(),
            }
            let (parts, body) = request.into_parts();
            run(app, parts, body).await.unwrap_or_else(IntoResponse::into_response)
        }
        .boxed()
    })
}

/// 200 with a JSON body.
fn ok(body: &Value) -> Answer {
    Ok(axum::Json(body).into_response())
}

/// Reads a body of at most `limit` bytes; `Err` is the response to a larger or incomplete body.
async fn read(parts: &Parts, body: Body, limit: usize) -> Result<Bytes, Response> {
    let lease = parts.extensions.get::<BodyLease>().map(BodyLease::fresh);
    let read = read_body(Body::new(Limited::new(body, limit)), lease.as_ref()).await;
    read.map_err(|error| match error {
        BodyError::TooLarge => render_fault(Fault::BodyTooLarge { limit }),
        BodyError::Disconnected(_) => Refusal::bad_request("Invalid request body").into_response(),
    })
}

/// The fields of a JSON object.
struct Fields(Map<String, Value>);

impl Fields {
    /// Reads the body. `Ok(Err(…))` is the response to a body that is too large; it has the server's own error format.
    async fn read(parts: &Parts, body: Body) -> Result<Result<Self, Response>, Refusal> {
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

    /// Whether a field is present and not null.
    fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// A string field, trimmed.
    ///
    /// # Errors
    /// The field is missing, blank or not a string.
    fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.optional(name).ok_or_else(|| Refusal::bad_request(format!("{name} is required")))
    }

    /// A string field, trimmed; `None` if it is missing, blank or not a string.
    fn optional(&self, name: &str) -> Option<&str> {
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
    fields.values().all(|value| depth(value) < MAX_DEPTH)
}

/// The fields of a request; returns early with the response to an invalid body.
macro_rules! fields {
    ($parts:expr, $body:expr) => {
        match $crate::functions::Fields::read($parts, $body).await? {
            Ok(fields) => fields,
            Err(response) => return Ok(response),
        }
    };
}
use fields;

/// One `@`, no spaces, control characters, commas or angle brackets, a dot in the domain, at most 254 characters.
fn is_email(text: &str) -> bool {
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
    fn accepts_plain_addresses_only() {
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
    fn rejects_deeply_nested_body() {
        let nested = |depth: usize| {
            let text = format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
            serde_json::from_str::<Map<String, Value>>(&text).unwrap()
        };
        assert!(is_shallow(&nested(15)));
        assert!(!is_shallow(&nested(16)));
    }
}
