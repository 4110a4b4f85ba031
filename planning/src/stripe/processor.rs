//! Handles the inbox's jobs: applies an event (functions.md 3.17.3).

use std::sync::Arc;

use basalt_pg::jobs::{Done, Failure, Handler, Job};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::billing::{Billing, OwnerCandidates};
use super::client::Stripe;
use super::objects::{self, subscription_of_invoice, user_in};
use super::sync::{SyncError, SyncTarget, sync};

/// Why an event was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// The event cannot be applied; only a replay or a later event can help.
    Unusable,
    /// Stripe failed or did not respond.
    Stripe,
    /// The database failed.
    Database,
}

impl FailureReason {
    /// The text in the log.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unusable => "the event cannot be applied",
            Self::Stripe => "Stripe did not respond",
            Self::Database => "the database failed",
        }
    }

    /// The reason of a failed job; `None` for failures of the worker itself, such as a timeout.
    pub(crate) fn from_failure(failure: &Failure) -> Option<Self> {
        [Self::Unusable, Self::Stripe, Self::Database]
            .into_iter()
            .find(|reason| reason.as_str() == failure.reason)
    }

    /// The failure of a job. Every failure is retried, because a later event may bring what is missing.
    pub(crate) fn failure(self, detail: String) -> Failure {
        Failure { detail, ..Failure::transient(self.as_str()) }
    }
}

/// Longest error message in a row.
const MESSAGE_CHARS: usize = 500;

/// The event types by object (functions.md 3.17.3). Stripe lists at most twenty types per request.
const SUBSCRIPTION_EVENTS: [&str; 8] = [
    "customer.subscription.created",
    "customer.subscription.updated",
    "customer.subscription.deleted",
    "customer.subscription.paused",
    "customer.subscription.resumed",
    "customer.subscription.pending_update_applied",
    "customer.subscription.pending_update_expired",
    "customer.subscription.trial_will_end",
];
const SESSION_EVENTS: [&str; 3] = [
    "checkout.session.completed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.async_payment_failed",
];
const INVOICE_EVENTS: [&str; 4] = [
    "invoice.paid",
    "invoice.payment_failed",
    "invoice.payment_action_required",
    "invoice.marked_uncollectible",
];
const CUSTOMER_DELETED: &str = "customer.deleted";

/// The event types that have an effect.
pub(crate) fn event_types() -> impl Iterator<Item = &'static str> {
    SUBSCRIPTION_EVENTS.into_iter().chain(SESSION_EVENTS).chain(INVOICE_EVENTS).chain([CUSTOMER_DELETED])
}

/// An administrator's hints for a replayed event, stored in the row's `outcome` until the event is processed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Replay {
    /// The administrator.
    pub(crate) by: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) customer_email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) customer_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subscription_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) price_id: Option<String>,
}

/// The prefix of `outcome` while an event is being replayed.
const REPLAY: &str = "replay ";

impl Replay {
    /// The text stored in `outcome`.
    pub(crate) fn to_outcome(&self) -> String {
        format!("{REPLAY}{}", serde_json::to_string(self).unwrap_or_default())
    }

    fn from_outcome(outcome: Option<&str>) -> Option<Self> {
        serde_json::from_str(outcome?.strip_prefix(REPLAY)?).ok()
    }
}

/// Applies events to the payment tables.
pub(crate) struct Processor {
    pub(crate) billing: Billing,
    pub(crate) stripe: Arc<Stripe>,
}

impl Handler for Processor {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let unreadable = |error: tokio_postgres::Error| Failure::transient(error.to_string());
        let payload: Value = job.row.try_get("payload").map_err(unreadable)?;
        let arrived: Timestamp = job.row.try_get("created_at").map_err(unreadable)?;
        let outcome: Option<String> = job.row.try_get("outcome").map_err(unreadable)?;
        let replay = Replay::from_outcome(outcome.as_deref());
        let done = self.process(&job.key, &payload, arrived, replay.as_ref()).await;
        let outcome = done.map_err(|error| failure(&error))?;
        let outcome = match replay {
            Some(replay) => format!("{outcome}; replayed by {} ({})", replay.by, replay.to_outcome()),
            None => outcome,
        };
        Ok(Done { outcome: Some(outcome), ..Done::default() })
    }
}

fn failure(error: &SyncError) -> Failure {
    let (reason, detail) = match error {
        SyncError::Database(error) => (FailureReason::Database, error.to_string()),
        SyncError::Stripe(sentence) => (FailureReason::Stripe, sentence.clone()),
        SyncError::Unusable(sentence) => (FailureReason::Unusable, sentence.clone()),
    };
    reason.failure(detail.chars().take(MESSAGE_CHARS).collect())
}

impl Processor {
    async fn process(
        &self,
        event: &str,
        payload: &Value,
        arrived: Timestamp,
        replay: Option<&Replay>,
    ) -> Result<String, SyncError> {
        let is_live = payload.get("livemode").and_then(Value::as_bool).unwrap_or(false);
        let access = self.stripe.access().map_err(|error| SyncError::Stripe(error.sentence()))?;
        if is_live != access.is_live() {
            return Ok("ignored: other mode".to_owned());
        }
        let kind = payload.get("type").and_then(Value::as_str).unwrap_or_default();
        let null = Value::Null;
        let object = payload.pointer("/data/object").unwrap_or(&null);
        let hint = || replay.and_then(|replay| replay.subscription_id.clone());
        let mut target = SyncTarget { event: Some(event), ..SyncTarget::default() };
        let subscription = match kind {
            kind if SUBSCRIPTION_EVENTS.contains(&kind) => {
                let created = payload.get("created").and_then(Value::as_i64);
                let created = created.and_then(|created| Timestamp::from_second(created).ok());
                target.snapshot = Some((object, created));
                target.is_deleted = kind == "customer.subscription.deleted";
                objects::id(object.get("id"))
            }
            kind if SESSION_EVENTS.contains(&kind) => {
                if object.get("mode").and_then(Value::as_str) != Some("subscription") {
                    return Ok("ignored: no subscription".to_owned());
                }
                target.in_session = self.user_of_session(object, is_live).await?;
                objects::id(object.get("subscription"))
            }
            "checkout.session.expired" => return Ok("noted".to_owned()),
            kind if INVOICE_EVENTS.contains(&kind) => subscription_of_invoice(object),
            CUSTOMER_DELETED => {
                let Some(customer) = objects::id(object.get("id")) else {
                    return Err(SyncError::Unusable("The event has no customer".to_owned()));
                };
                self.billing.forget_customer(&customer).await?;
                return Ok("applied".to_owned());
            }
            _ => return Ok("ignored".to_owned()),
        };
        let Some(subscription) = subscription.or_else(hint) else {
            return match kind.starts_with("invoice.") || kind.starts_with("checkout.") {
                true => Ok("ignored: no subscription".to_owned()),
                false => Err(SyncError::Unusable("The event has no subscription".to_owned())),
            };
        };
        target.subscription = subscription;
        match replay {
            None => target.arrived = Some(arrived),
            Some(replay) => target.named = self.user_of_replay(replay).await?,
        }
        sync(&self.billing, &self.stripe, &target).await.map(|synced| synced.as_str().to_owned())
    }

    /// The user of a checkout session. Also stores the session's customer as the user's.
    async fn user_of_session(&self, session: &Value, is_live: bool) -> Result<Option<Uuid>, SyncError> {
        let reference = session.get("client_reference_id").and_then(Value::as_str);
        let reference =
            reference.and_then(|reference| Uuid::parse_str(reference).ok()).or_else(|| user_in(session));
        let customer = objects::id(session.get("customer"));
        let candidates = OwnerCandidates {
            customer: customer.as_deref(),
            in_session: reference,
            ..OwnerCandidates::default()
        };
        let user = self.billing.owner(&candidates).await?;
        if let (Some(user), Some(customer)) = (user, customer) {
            self.billing.store_customer(user, is_live, &customer).await?;
        }
        Ok(user)
    }

    /// The user named by the hints: by customer, else by confirmed address.
    async fn user_of_replay(&self, replay: &Replay) -> Result<Option<Uuid>, SyncError> {
        let candidates =
            OwnerCandidates { customer: replay.customer_id.as_deref(), ..OwnerCandidates::default() };
        let by_customer = self.billing.owner(&candidates).await?;
        match (by_customer, &replay.customer_email) {
            (None, Some(email)) => Ok(self.billing.account_of(email).await?),
            (by_customer, _) => Ok(by_customer),
        }
    }
}
