//! `stripe-webhook`: takes Stripe's events, and those that an administrator sends again (functions.md 3.17, 3.18).
//!
//! 200 says that the event is stored; most are applied by then. What cannot be stored, or fails for now, is refused, so that
//! Stripe sends it again.

use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse as _;
use basalt_core::jobs::Outcome;
use http::request::Parts;
use http::{HeaderName, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{Answer, Caller, Refusal, is_email, ok, read};
use crate::Functions;
use crate::metrics;
use crate::stripe::inbox::{ReplayError, Stored};
use crate::stripe::processor::{Replay, STRIPE, UNUSABLE};
use crate::stripe::signature::{Forged, is_empty, verify};

/// Invoices with many lines reach some hundred KB.
const BODY_BYTES: usize = 1024 * 1024;
const SIGNATURE: HeaderName = HeaderName::from_static("stripe-signature");
const REPLAY: HeaderName = HeaderName::from_static("x-webhook-replay");
/// The name of the secret that signs.
pub(crate) const SECRET_NAME: &str = "STRIPE_WEBHOOK_SECRET";

pub(crate) async fn stripe_webhook(functions: Arc<Functions>, parts: Parts, body: Body) -> Answer {
    let is_replay = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"true");
    if parts.headers.get(&REPLAY).is_some_and(is_replay) {
        return replay(functions, parts, body).await;
    }
    let bytes = match read(&parts, body, BODY_BYTES).await {
        Ok(bytes) => bytes,
        Err(response) => return Ok(response),
    };
    let secrets = known_secrets(&functions);
    if secrets.is_empty() {
        metrics::webhook("no_secret");
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "Webhook secret is not configured"));
    }
    let header = parts.headers.get(&SIGNATURE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let Some(header) = header else {
        metrics::webhook("unsigned");
        return Err(Refusal::bad_request("Missing stripe-signature header"));
    };
    if let Err(forged) = verify(&header, &bytes, &secrets, functions.clock.unix_seconds()) {
        metrics::webhook("forged");
        tracing::info!(?forged, "a webhook was refused: is stripe.webhook_secret that of this endpoint?");
        return Err(Refusal::bad_request(match forged {
            Forged::Signature => "Webhook signature verification failed",
            Forged::Time => "Webhook timestamp outside the tolerance zone",
        }));
    }
    let event: Value = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    if event.get("object").and_then(Value::as_str) == Some("v2.core.event") {
        metrics::webhook("ignored");
        return ok(&json!({"received": true, "ignored": true}));
    }
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    let id = text("id").filter(|id| id.starts_with("evt_") && id.len() <= 255).ok_or_else(invalid)?;
    let kind = text("type").filter(|kind| !kind.is_empty() && kind.len() <= 255).ok_or_else(invalid)?;
    match functions.inbox()?.store(id, kind, &event).await {
        Ok(Some(stored)) => {
            let id = id.to_owned();
            // Not held while the event is processed: there may be many, of 1 MiB each.
            drop((bytes, event));
            process(&functions, &id, stored).await
        }
        Ok(None) => {
            metrics::webhook("overloaded");
            Err(Refusal::unavailable())
        }
        Err(error) => {
            metrics::webhook("not_stored");
            // PostgreSQL stores no NUL in a text.
            let is_text = matches!(&error, basalt_core::session::SessionError::Postgres(error) if matches!(error.code.as_str(), "22021" | "22P05"));
            if is_text { Err(invalid()) } else { Err(Refusal::from(error)) }
        }
    }
}

/// Has a stored event processed, and answers with what came of it.
async fn process(functions: &Functions, id: &str, stored: Stored) -> Answer {
    let known = match stored {
        Stored::New => {
            metrics::webhook("stored");
            None
        }
        Stored::Known(status) => {
            metrics::webhook("repeated");
            Some(status)
        }
    };
    let duplicate =
        |status: &str| ok(&json!({"received": true, "id": id, "status": status, "duplicate": true}));
    if let Some(status @ "processed") = known.as_deref() {
        return duplicate(status);
    }
    match functions.inbox()?.process(id).await {
        Some(Outcome::Done(_)) => ok(&json!({"received": true, "id": id, "status": "processed"})),
        // To send it again would not help.
        Some(Outcome::Retry(_, failure) | Outcome::Dead(failure)) if failure.reason == UNUSABLE => {
            ok(&json!({"received": true, "id": id, "status": "failed", "message": failure.detail}))
        }
        Some(Outcome::Retry(..) | Outcome::Dead(_)) => {
            let body = json!({"error": "Processing failed, will be retried", "id": id});
            Ok((StatusCode::INTERNAL_SERVER_ERROR, axum::Json(body)).into_response())
        }
        None if known.is_some() => duplicate("pending"),
        None => ok(&json!({"received": true, "id": id, "status": "pending"})),
    }
}

fn invalid() -> Refusal {
    Refusal::bad_request("Invalid payload")
}

/// All that are known: the endpoint's secret may be in the configuration, in the database, or in both while it is rolled.
fn known_secrets(functions: &Functions) -> Vec<SecretString> {
    let mut secrets: Vec<SecretString> = functions.webhook_secret.iter().cloned().collect();
    secrets.extend(functions.secrets.all(SECRET_NAME));
    secrets.extend(functions.stripe.access().ok().and_then(|access| access.webhook_secret));
    // An earlier release accepted an empty one.
    secrets.retain(|secret| !is_empty(secret));
    secrets
}

async fn replay(functions: Arc<Functions>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::admin(&functions, &parts).await?;
    let bytes = match read(&parts, body, BODY_BYTES).await {
        Ok(bytes) => bytes,
        Err(response) => return Ok(response),
    };
    let body: Value =
        serde_json::from_slice(&bytes).map_err(|_| Refusal::bad_request("Invalid request body"))?;
    let id = body.get("id").and_then(Value::as_str).unwrap_or_default();
    let hints = Hints(body.get("replay_metadata").unwrap_or(&Value::Null)).read(caller.id)?;
    functions.rates.replay.take(caller.id.to_string())?;
    functions.audit(caller.id, "replay", "webhook_events", id).await?;
    match functions.inbox()?.replay(id, &hints).await {
        Ok(()) => ok(&json!({
            "success": true, "message": "Webhook event replayed successfully", "id": id, "status": "processed",
        })),
        Err(ReplayError::NotFound) => Err(Refusal::not_found("Webhook event not found")),
        Err(ReplayError::Processed) => Err(Refusal::conflict("Only failed events can be replayed")),
        Err(ReplayError::Busy) => Err(Refusal::conflict("This event is being processed")),
        Err(ReplayError::Failed(failure)) => {
            let status = match failure.reason.as_str() {
                UNUSABLE => StatusCode::UNPROCESSABLE_ENTITY,
                STRIPE => StatusCode::BAD_GATEWAY,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            Ok(Refusal::new(status, failure.detail).into_response())
        }
        Err(ReplayError::TooSlow) => {
            Err(Refusal::new(StatusCode::BAD_GATEWAY, "The replay takes long and goes on in the background"))
        }
        Err(ReplayError::Database(error)) => Err(error.into()),
    }
}

/// `replay_metadata`.
struct Hints<'a>(&'a Value);

impl Hints<'_> {
    fn read(&self, by: uuid::Uuid) -> Result<Replay, Refusal> {
        Ok(Replay {
            by,
            customer_email: self.hint("customer_email", is_email)?,
            customer_id: self.hint("customer_id", |id| is_id(id, "cus_"))?,
            subscription_id: self.hint("subscription_id", |id| is_id(id, "sub_"))?,
            price_id: self.hint("price_id", |id| is_id(id, "price_"))?,
        })
    }

    fn hint(&self, name: &str, fits: impl Fn(&str) -> bool) -> Result<Option<String>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) if fits(text) => Ok(Some(text.clone())),
            Some(_) => Err(Refusal::bad_request("Invalid replay_metadata")),
        }
    }
}

/// `^PREFIX[A-Za-z0-9_]{1,250}$`
pub(super) fn is_id(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (1..=250).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
