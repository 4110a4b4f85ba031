//! Customers whose user was deleted: a job ends their subscriptions and checkout sessions at Stripe, so that they do not pay for a deleted
//! account (functions.md 5.26). A trigger of the app stores them in the transaction that deletes the user.

use std::sync::Arc;
use std::time::Duration;

use basalt_pg::jobs::{
    Completion, Done, Failure, Handler, Job, Metrics, Policy, Queue, Retention, Table, Worker,
};
use basalt_pg::pool::ServicePool;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::{BACKGROUND, Form, Stripe};
use super::error::StripeError;
use super::objects::{self, SubscriptionStatus};
use super::sync::escape_id;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Time limit of one attempt: several calls of three seconds each.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(60);
/// Lists of a hundred subscriptions per attempt.
const MAX_LISTS: usize = 10;

static TABLE: Table = Table {
    name: "former customers",
    table: "functions.former_customers",
    channel: None,
    key: "customer",
    key_type: "text",
    owner: None,
    kind: "case when livemode then 'live' else 'test' end",
    columns: "livemode",
    listed: "livemode",
    order: "next_attempt_at",
    state: "case when done_at is not null then 'done' when next_attempt_at is null then 'dead' else 'waiting' end",
    waiting: "done_at is null and next_attempt_at is not null",
    dead: "done_at is null and next_attempt_at is null",
    finished_at: "done_at",
    error: "error_message",
    outcome: Some("outcome"),
    on_claim: "",
    on_done: Completion::Set("done_at = now(), next_attempt_at = null, error_message = null"),
    on_retry: "",
    on_dead: "next_attempt_at = null",
    on_revive: "",
    failed_message: "cannot end the subscriptions of a deleted user at Stripe",
    dead_message: "cannot end the subscriptions of a deleted user at Stripe after the last attempt: end them in Stripe's dashboard",
    metrics: Metrics {
        done: "basalt_stripe_former_customers_done_total",
        failed: "basalt_stripe_former_customers_failed_total",
        given_up: "basalt_stripe_former_customers_dead_total",
        waiting: "basalt_stripe_former_customers_waiting",
        dead: "basalt_stripe_former_customers_dead",
    },
};

/// Starts the worker in `tracker`, until `shutdown`.
pub(crate) fn start(
    pool: ServicePool,
    stripe: Arc<Stripe>,
    tracker: &TaskTracker,
    shutdown: CancellationToken,
) {
    let mut pauses = vec![Duration::from_secs(30), Duration::from_secs(300), HOUR, 6 * HOUR];
    pauses.extend([DAY; 7]);
    // Stripe may send events of a customer for a month.
    let retention = vec![Retention { rows: "done_at is not null", since: "done_at", keep: 90 * DAY }];
    let policy = Policy { concurrency: 1, pauses, time_limit: ATTEMPT_LIMIT, retention };
    let worker =
        Worker::new(Queue::new(pool, &TABLE, None), SubscriptionEnder { stripe }, policy, tracker.clone());
    // The worker only polls: every few seconds is often enough.
    let (_, events) = broadcast::channel(1);
    tracker.spawn(worker.run(events, shutdown));
}

/// Ends everything of a former customer at Stripe.
struct SubscriptionEnder {
    stripe: Arc<Stripe>,
}

impl Handler for SubscriptionEnder {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let is_live: bool =
            job.row.try_get("livemode").map_err(|error| Failure::transient(error.to_string()))?;
        let ended = self.end(&job.key, is_live).await;
        let outcome = ended.map_err(|error| Failure::transient(error.sentence()))?;
        Ok(Done { outcome: Some(outcome), ..Done::default() })
    }
}

impl SubscriptionEnder {
    async fn end(&self, customer: &str, is_live: bool) -> Result<String, StripeError> {
        match (self.stripe.access()?.is_live(), is_live) {
            // Test customers do not pay.
            (true, false) => return Ok("nothing ended: the customer belongs to test mode".to_owned()),
            (false, true) => {
                return Err(StripeError::Unreachable("the key does not belong to live mode".to_owned()));
            }
            (true, true) | (false, false) => {}
        }
        let customer = escape_id(customer);
        // Sessions first: one that is being paid at this moment creates a subscription, which the list below includes.
        let sessions = format!("checkout/sessions?customer={customer}&status=open&limit=100");
        let mut expired = 0;
        for id in self.listed(&sessions).await? {
            let path = format!("checkout/sessions/{}/expire", escape_id(&id));
            match self.stripe.post_once(&path, Form::default()).await {
                Ok(_) => expired += 1,
                // The session is already complete or expired.
                Err(StripeError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let subscriptions = format!("subscriptions?customer={customer}&limit=100");
        let mut canceled = 0;
        for _ in 0..MAX_LISTS {
            let active = self.listed(&subscriptions).await?;
            if active.is_empty() {
                return Ok(format!("ended {canceled} subscriptions and {expired} checkout sessions"));
            }
            for id in active {
                match self.stripe.delete(&format!("subscriptions/{}", escape_id(&id)), BACKGROUND).await {
                    Ok(_) => canceled += 1,
                    Err(error) if error.is_missing() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Err(StripeError::Unreachable("it keeps listing further subscriptions".to_owned()))
    }

    /// Ids of objects in a list that have not ended; empty if Stripe does not have the customer.
    async fn listed(&self, path: &str) -> Result<Vec<String>, StripeError> {
        self.stripe.pace().await;
        let list = match self.stripe.get(path, BACKGROUND).await {
            Ok(list) => list,
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let data = list.get("data").and_then(Value::as_array);
        let data = data.ok_or_else(|| StripeError::Unreachable("its response is not a list".to_owned()))?;
        let is_active = |object: &&Value| {
            let status = object.get("status").and_then(Value::as_str).and_then(SubscriptionStatus::parse);
            !status.is_some_and(SubscriptionStatus::has_ended)
        };
        Ok(data.iter().filter(is_active).filter_map(|object| objects::id(object.get("id"))).collect())
    }
}
