//! `stripe-webhook`: receives Stripe's events, and replays events that an administrator selects (functions.md 3.17, 3.18).
//!
//! 200 means that the event is stored; usually it has been applied too. An event that cannot be stored, or fails temporarily, gets an error
//! status, so that Stripe sends it again.

use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse as _;
use basalt_pg::jobs::Outcome;
use http::request::Parts;
use http::{HeaderName, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{Answer, Caller, WEBHOOK_SECRET, is_email, ok, read};
use crate::app::App;
use crate::metrics;
use crate::refusal::Refusal;
use crate::stripe::inbox::{EventStatus, ReplayError, Stored};
use crate::stripe::processor::{FailureReason, Replay};
use crate::stripe::signature::{SignatureError, is_empty, verify};

/// Invoices with many lines reach some hundred KB.
const BODY_BYTES: usize = 1024 * 1024;
const SIGNATURE: HeaderName = HeaderName::from_static("stripe-signature");
const REPLAY: HeaderName = HeaderName::from_static("x-webhook-replay");

pub(crate) async fn stripe_webhook(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let is_replay = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"true");
    if parts.headers.get(&REPLAY).is_some_and(is_replay) {
        return replay(app, parts, body).await;
    }
    let bytes = match read(&parts, body, BODY_BYTES).await {
        Ok(bytes) => bytes,
        Err(response) => return Ok(response),
    };
    let secrets = known_secrets(&app);
    if secrets.is_empty() {
        metrics::webhook("no_secret");
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "Webhook secret is not configured"));
    }
    let header = parts.headers.get(&SIGNATURE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let Some(header) = header else {
        metrics::webhook("unsigned");
        return Err(Refusal::bad_request("Missing stripe-signature header"));
    };
    if let Err(error) = verify(&header, &bytes, &secrets, app.clock.unix_seconds()) {
        metrics::webhook("forged");
        tracing::info!(
            ?error,
            "webhook signature invalid; check that stripe.webhook_secret belongs to this endpoint"
        );
        return Err(Refusal::bad_request(match error {
            SignatureError::NoMatch => "Webhook signature verification failed",
            SignatureError::Time => "Webhook timestamp outside the tolerance zone",
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
    match app.inbox.store(id, kind, &event).await {
        Ok(Some(stored)) => {
            let id = id.to_owned();
            // Free the memory before processing: there may be many deliveries of up to 1 MiB.
            drop((bytes, event));
            process(&app, &id, stored).await
        }
        Ok(None) => {
            metrics::webhook("overloaded");
            Err(Refusal::unavailable())
        }
        Err(error) => {
            metrics::webhook("not_stored");
            // PostgreSQL rejects NUL in text.
            let is_text = matches!(&error, basalt_pg::session::SessionError::Postgres(error) if matches!(error.code.as_str(), "22021" | "22P05"));
            if is_text { Err(invalid()) } else { Err(Refusal::from(error)) }
        }
    }
}

/// Processes a stored event and responds with the result.
async fn process(app: &App, id: &str, stored: Stored) -> Answer {
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
    let duplicate = |status: EventStatus| {
        ok(&json!({"received": true, "id": id, "status": status.as_str(), "duplicate": true}))
    };
    if known == Some(EventStatus::Processed) {
        return duplicate(EventStatus::Processed);
    }
    match app.inbox.process(id).await {
        Some(Outcome::Done(_)) => ok(&json!({"received": true, "id": id, "status": "processed"})),
        // Stripe should not send it again, because that would not help.
        Some(Outcome::Retry(_, failure) | Outcome::Dead(failure))
            if FailureReason::from_failure(&failure) == Some(FailureReason::Unusable) =>
        {
            ok(&json!({"received": true, "id": id, "status": "failed", "message": failure.detail}))
        }
        Some(Outcome::Retry(..) | Outcome::Dead(_)) => {
            let body = json!({"error": "Processing failed, will be retried", "id": id});
            Ok((StatusCode::INTERNAL_SERVER_ERROR, axum::Json(body)).into_response())
        }
        None if known.is_some() => duplicate(EventStatus::Pending),
        None => ok(&json!({"received": true, "id": id, "status": "pending"})),
    }
}

fn invalid() -> Refusal {
    Refusal::bad_request("Invalid payload")
}

/// The endpoint's secrets, from the configuration and the database; both are valid while the secret is being rolled.
fn known_secrets(app: &App) -> Vec<SecretString> {
    let mut secrets: Vec<SecretString> = app.webhook_secret.iter().cloned().collect();
    secrets.extend(app.secrets.all(WEBHOOK_SECRET));
    // An earlier release accepted an empty secret.
    secrets.retain(|secret| !is_empty(secret));
    secrets
}

async fn replay(app: Arc<App>, parts: Parts, body: Body) -> Answer {
    let caller = Caller::admin(&app, &parts).await?;
    let bytes = match read(&parts, body, BODY_BYTES).await {
        Ok(bytes) => bytes,
        Err(response) => return Ok(response),
    };
    let body: Value =
        serde_json::from_slice(&bytes).map_err(|_| Refusal::bad_request("Invalid request body"))?;
    let id = body.get("id").and_then(Value::as_str).unwrap_or_default();
    let hints = ReplayHints(body.get("replay_metadata").unwrap_or(&Value::Null)).read(caller.id)?;
    app.rates.replay.take(caller.id.to_string())?;
    app.audit(caller.id, "replay", "webhook_events", id).await?;
    match app.inbox.replay(id, &hints).await {
        Ok(()) => ok(&json!({
            "success": true, "message": "Webhook event replayed successfully", "id": id, "status": "processed",
        })),
        Err(ReplayError::NotFound) => Err(Refusal::not_found("Webhook event not found")),
        Err(ReplayError::Processed) => Err(Refusal::conflict("Only failed events can be replayed")),
        Err(ReplayError::Busy) => Err(Refusal::conflict("This event is being processed")),
        Err(ReplayError::Failed(failure)) => {
            let status = match FailureReason::from_failure(&failure) {
                Some(FailureReason::Unusable) => StatusCode::UNPROCESSABLE_ENTITY,
                Some(FailureReason::Stripe) => StatusCode::BAD_GATEWAY,
                Some(FailureReason::Database) | None => StatusCode::INTERNAL_SERVER_ERROR,
            };
            Ok(Refusal::new(status, failure.detail).into_response())
        }
        Err(ReplayError::TooSlow) => {
            Err(Refusal::new(StatusCode::BAD_GATEWAY, "The replay continues in the background"))
        }
        Err(ReplayError::Database(error)) => Err(error.into()),
    }
}

struct ReplayHints<'a>(&'a Value);

impl ReplayHints<'_> {
    fn read(&self, by: uuid::Uuid) -> Result<Replay, Refusal> {
        Ok(Replay {
            by,
            customer_email: self.hint("customer_email", is_email)?,
            customer_id: self.hint("customer_id", |id| is_id(id, "cus_"))?,
            subscription_id: self.hint("subscription_id", |id| is_id(id, "sub_"))?,
            price_id: self.hint("price_id", |id| is_id(id, "price_"))?,
        })
    }

    fn hint(&self, name: &str, is_valid: impl Fn(&str) -> bool) -> Result<Option<String>, Refusal> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) if is_valid(text) => Ok(Some(text.clone())),
            Some(_) => Err(Refusal::bad_request("Invalid replay_metadata")),
        }
    }
}

/// Whether the id matches `^PREFIX[A-Za-z0-9_]{1,250}$`.
pub(super) fn is_id(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (1..=250).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
