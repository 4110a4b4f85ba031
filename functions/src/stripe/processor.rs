//! What an event of the inbox comes to (functions.md 3.17.3): the handler of its jobs.

use std::sync::Arc;

use basalt_core::jobs::{Done, Failure, Handler, Job};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::billing::{Billing, Candidates};
use super::client::Stripe;
use super::objects::{self, subscription_of_invoice, user_in};
use super::sync::{Subject, SyncError, sync};

/// The reason of a failure that only a replay, or what comes later, can mend.
pub(crate) const UNUSABLE: &str = "the event cannot be applied";
/// The reason of a failure that is Stripe's.
pub(crate) const STRIPE: &str = "Stripe did not answer";
const DATABASE: &str = "the database failed";

/// Longest sentence in a row.
const SENTENCE_CHARS: usize = 500;

/// Types of events by what they are about (functions.md 3.17.3). Stripe lists at most twenty at once.
const OF_SUBSCRIPTIONS: [&str; 8] = [
    "customer.subscription.created",
    "customer.subscription.updated",
    "customer.subscription.deleted",
    "customer.subscription.paused",
    "customer.subscription.resumed",
    "customer.subscription.pending_update_applied",
    "customer.subscription.pending_update_expired",
    "customer.subscription.trial_will_end",
];
const OF_SESSIONS: [&str; 3] = [
    "checkout.session.completed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.async_payment_failed",
];
const OF_INVOICES: [&str; 4] = [
    "invoice.paid",
    "invoice.payment_failed",
    "invoice.payment_action_required",
    "invoice.marked_uncollectible",
];
const CUSTOMER_DELETED: &str = "customer.deleted";

/// The types of events that have an effect.
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    OF_SUBSCRIPTIONS.into_iter().chain(OF_SESSIONS).chain(OF_INVOICES).chain([CUSTOMER_DELETED])
}

/// What an administrator adds to an event that is processed again. It waits in the row's `outcome`.
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

/// Begins the `outcome` of an event that is being replayed.
const REPLAY: &str = "replay ";

impl Replay {
    /// As it waits in the row.
    pub(crate) fn to_outcome(&self) -> String {
        format!("{REPLAY}{}", serde_json::to_string(self).unwrap_or_default())
    }

    fn of_outcome(outcome: Option<&str>) -> Option<Self> {
        serde_json::from_str(outcome?.strip_prefix(REPLAY)?).ok()
    }
}

/// Runs the jobs of the inbox.
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
        let replay = Replay::of_outcome(outcome.as_deref());
        let done = self.process(&job.key, &payload, arrived, replay.as_ref()).await;
        let outcome = done.map_err(|error| failure(&error))?;
        let outcome = match replay {
            Some(replay) => format!("{outcome}; replayed by {} ({})", replay.by, replay.to_outcome()),
            None => outcome,
        };
        Ok(Done { outcome: Some(outcome) })
    }
}

fn failure(error: &SyncError) -> Failure {
    let (reason, detail) = match error {
        SyncError::Database(error) => (DATABASE, error.to_string()),
        SyncError::Stripe(sentence) => (STRIPE, sentence.clone()),
        SyncError::Unusable(sentence) => (UNUSABLE, sentence.clone()),
    };
    // All are tried again: what is missing today may arrive with a later event.
    Failure {
        is_transient: true,
        reason: reason.to_owned(),
        detail: detail.chars().take(SENTENCE_CHARS).collect(),
    }
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
        let nothing = Value::Null;
        let object = payload.pointer("/data/object").unwrap_or(&nothing);
        let hinted = || replay.and_then(|replay| replay.subscription_id.clone());
        let mut subject = Subject { event: Some(event), ..Subject::default() };
        let subscription = match kind {
            kind if OF_SUBSCRIPTIONS.contains(&kind) => {
                let created = payload.get("created").and_then(Value::as_i64);
                let created = created.and_then(|created| Timestamp::from_second(created).ok());
                subject.snapshot = Some((object, created));
                subject.is_deleted = kind == "customer.subscription.deleted";
                objects::id(object.get("id"))
            }
            kind if OF_SESSIONS.contains(&kind) => {
                if object.get("mode").and_then(Value::as_str) != Some("subscription") {
                    return Ok("ignored: no subscription".to_owned());
                }
                subject.in_session = self.user_of_session(object, is_live).await?;
                objects::id(object.get("subscription"))
            }
            "checkout.session.expired" => return Ok("noted".to_owned()),
            kind if OF_INVOICES.contains(&kind) => subscription_of_invoice(object),
            CUSTOMER_DELETED => {
                let Some(customer) = objects::id(object.get("id")) else {
                    return Err(SyncError::Unusable("The event has no customer".to_owned()));
                };
                self.billing.forget_customer(&customer).await?;
                return Ok("applied".to_owned());
            }
            _ => return Ok("ignored".to_owned()),
        };
        let Some(subscription) = subscription.or_else(hinted) else {
            return match kind.starts_with("invoice.") || kind.starts_with("checkout.") {
                true => Ok("ignored: no subscription".to_owned()),
                false => Err(SyncError::Unusable("The event has no subscription".to_owned())),
            };
        };
        subject.subscription = subscription;
        match replay {
            None => subject.arrived = Some(arrived),
            Some(replay) => subject.named = self.user_of_replay(replay).await?,
        }
        sync(&self.billing, &self.stripe, &subject).await.map(|synced| synced.as_str().to_owned())
    }

    /// The user of a checkout session, whose customer is noted as theirs.
    async fn user_of_session(&self, session: &Value, is_live: bool) -> Result<Option<Uuid>, SyncError> {
        let reference = session.get("client_reference_id").and_then(Value::as_str);
        let reference =
            reference.and_then(|reference| Uuid::parse_str(reference).ok()).or_else(|| user_in(session));
        let customer = objects::id(session.get("customer"));
        let candidates =
            Candidates { customer: customer.as_deref(), in_session: reference, ..Candidates::default() };
        let user = self.billing.owner(&candidates).await?;
        if let (Some(user), Some(customer)) = (user, customer) {
            self.billing.keep_customer(user, is_live, &customer).await?;
        }
        Ok(user)
    }

    /// The user whom the hints name: by the customer, else by a confirmed address.
    async fn user_of_replay(&self, replay: &Replay) -> Result<Option<Uuid>, SyncError> {
        let candidates = Candidates { customer: replay.customer_id.as_deref(), ..Candidates::default() };
        let by_customer = self.billing.owner(&candidates).await?;
        match (by_customer, &replay.customer_email) {
            (None, Some(email)) => Ok(self.billing.account_of(email).await?),
            (by_customer, _) => Ok(by_customer),
        }
    }
}
