//! The inbox of webhooks: an event is stored once, then applied by a job that the request starts and waits for (functions.md 3.17.2). If the
//! server crashes in between, the job is due again, or its lease expires.

use std::sync::Arc;
use std::time::Duration;

use basalt_pg::jobs::{Completion, Failure, Metrics, Outcome, Policy, Queue, Retention, Table, Worker};
use basalt_pg::listen::Event;
use basalt_pg::session::SessionError;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::billing::Billing;
use super::client::Stripe;
use super::processor::{FailureReason, Processor, Replay};
use crate::STATEMENT_LIMIT;

/// Deliveries stored concurrently, and how long others wait for a permit.
const STORE_PERMITS: usize = 64;
const PERMIT_WAIT: Duration = Duration::from_secs(5);
/// Events processed concurrently.
const CONCURRENCY: usize = 4;
/// How long a delivery waits for one of these slots; in a burst, the response is sent before the event is processed.
const SLOT_WAIT: Duration = Duration::from_millis(500);
/// How long a delivery waits in total.
const DELIVERY_WAIT: Duration = Duration::from_secs(8);
/// Time limit of one attempt; the lease is slightly longer.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long an administrator's replay request waits for the result.
const REPLAY_WAIT: Duration = Duration::from_secs(20);
static TABLE: Table = Table {
    name: "stripe events",
    table: "public.webhook_events",
    channel: None,
    key: "id",
    key_type: "text",
    owner: None,
    kind: "event_type",
    columns: "payload, created_at, outcome",
    listed: "source, event_type",
    order: "event_created_at nulls first, created_at",
    state: "status",
    waiting: "status in ('pending', 'failed') and next_attempt_at is not null",
    dead: "status = 'failed' and next_attempt_at is null",
    finished_at: "processed_at",
    error: "error_message",
    outcome: Some("outcome"),
    on_claim: "status = 'pending'",
    on_done: Completion::Set(
        "status = 'processed', processed_at = now(), next_attempt_at = null, error_message = null",
    ),
    on_retry: "status = 'failed'",
    on_dead: "status = 'failed', next_attempt_at = null",
    on_revive: "status = 'pending'",
    failed_message: "cannot apply a Stripe event",
    dead_message: "abandoned a Stripe event after the last attempt; an administrator can replay it",
    metrics: Metrics {
        done: "basalt_stripe_events_processed_total",
        failed: "basalt_stripe_events_failed_total",
        given_up: "basalt_stripe_events_dead_total",
        waiting: "basalt_stripe_events_waiting",
        dead: "basalt_stripe_events_dead",
    },
};

/// The status of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventStatus {
    /// Waiting for its first or next attempt.
    Pending,
    /// Applied or ignored.
    Processed,
    /// The last attempt failed.
    Failed,
}

impl EventStatus {
    /// The value in the table and on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processed => "processed",
            Self::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Processed, Self::Failed].into_iter().find(|status| status.as_str() == text)
    }
}

/// What the inbox already had when an event was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    /// No row; the event is new.
    New,
    /// A row. Its status is `pending` if the event had failed, because it is retried at once.
    Known(EventStatus),
}

/// Why a replay did not start, or how it failed.
#[derive(Debug)]
pub(crate) enum ReplayError {
    /// No such event.
    NotFound,
    /// The event has already been processed.
    Processed,
    /// The event is being processed.
    Busy,
    /// The event failed again.
    Failed(Failure),
    /// Processing continues in the background.
    TooSlow,
    /// The database failed.
    Database(SessionError),
}

impl From<SessionError> for ReplayError {
    fn from(error: SessionError) -> Self {
        Self::Database(error)
    }
}

/// The inbox of Stripe's events.
pub(crate) struct Inbox {
    billing: Billing,
    worker: Arc<Worker<Processor>>,
    /// Wakes the worker of this server.
    wake: broadcast::Sender<Event>,
    permits: Semaphore,
}

impl Inbox {
    /// Starts the worker in `tracker`, until `shutdown`.
    pub(crate) fn start(
        billing: Billing,
        stripe: Arc<Stripe>,
        tracker: &TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        let pauses = [30, 120, 600, 3600, 6 * 3600, 24 * 3600].map(Duration::from_secs).to_vec();
        let retention = vec![
            Retention { rows: "status = 'processed'", since: "processed_at", keep: 90 * DAY },
            Retention {
                rows: "status = 'failed' and next_attempt_at is null",
                since: "created_at",
                keep: 365 * DAY,
            },
        ];
        let policy = Policy { concurrency: CONCURRENCY, pauses, time_limit: ATTEMPT_LIMIT, retention };
        let queue = Queue::new(billing.pool.clone(), &TABLE, None);
        let processor = Processor { billing: billing.clone(), stripe };
        let worker = Worker::new(queue, processor, policy, tracker.clone());
        let (wake, events) = broadcast::channel(16);
        tracker.spawn(Arc::clone(&worker).run(events, shutdown));
        Self { billing, worker, wake, permits: Semaphore::new(STORE_PERMITS) }
    }

    /// Stores an event unless it is already stored. `None` if too many deliveries are being stored.
    pub(crate) async fn store(
        &self,
        id: &str,
        kind: &str,
        payload: &Value,
    ) -> Result<Option<Stored>, SessionError> {
        // Retry a failed event that Stripe sends again; do not change a processed or pending one.
        const STORE: &str = "\
with stored as (
  insert into public.webhook_events (id, source, event_type, payload, event_created_at, next_attempt_at)
  values ($1, 'stripe', $2, $3, $4, now())
  on conflict (id) do nothing
  returning id),
revived as (
  update public.webhook_events set status = 'pending', attempts = 0, next_attempt_at = now()
  where id = $1 and status = 'failed' and not exists (select from stored)
  returning id)
select exists (select from stored), exists (select from revived),
  (select status from public.webhook_events where id = $1)";
        let Ok(Ok(_permit)) = timeout(PERMIT_WAIT, self.permits.acquire()).await else { return Ok(None) };
        let created = payload.get("created").and_then(Value::as_i64);
        let created = created.and_then(|created| Timestamp::from_second(created).ok());
        let tx = self.billing.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let row = tx.query_one(STORE, &[&id, &kind, payload, &created]).await;
        let row = tx.finish(row).await?;
        let is = |column| row.try_get::<_, bool>(column).unwrap_or(false);
        let (is_new, is_revived) = (is(0), is(1));
        let status = || EventStatus::parse(row.try_get::<_, Option<&str>>(2).ok().flatten()?);
        Ok(Some(match (is_new, is_revived) {
            (true, _) => Stored::New,
            (false, true) => Stored::Known(EventStatus::Pending),
            // Another delivery of the event is being stored at this moment.
            (false, false) => Stored::Known(status().unwrap_or(EventStatus::Pending)),
        }))
    }

    /// Processes a stored event that is due. `None` if it got no slot or takes too long; the worker then continues with it.
    pub(crate) async fn process(&self, id: &str) -> Option<Outcome> {
        if let Ok(Ok(Some(outcome))) = timeout(DELIVERY_WAIT, self.worker.run_in_turn(id, SLOT_WAIT)).await {
            return Some(outcome);
        }
        // A local wake-up instead of NOTIFY: a burst of webhooks would flood every listener of the database. If this server crashes, another
        // server's worker finds the row by polling.
        let _listening = self.wake.send(Event::Reconnected);
        None
    }

    /// Processes a failed event again with an administrator's hints, and waits for the result.
    pub(crate) async fn replay(&self, id: &str, replay: &Replay) -> Result<(), ReplayError> {
        const BEGIN: &str = "\
update public.webhook_events set status = 'pending', attempts = 0, next_attempt_at = now(), outcome = $2
where id = $1 and status = 'failed'";
        let outcome = replay.to_outcome();
        let tx = self.billing.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let begun = tx.execute(BEGIN, &[&id, &outcome]).await;
        if tx.finish(begun).await? == 0 {
            return Err(match self.status(id).await?.map(|(status, _)| status) {
                None => ReplayError::NotFound,
                Some(EventStatus::Processed) => ReplayError::Processed,
                Some(EventStatus::Pending | EventStatus::Failed) => ReplayError::Busy,
            });
        }
        let deadline = Instant::now() + REPLAY_WAIT;
        match timeout(REPLAY_WAIT, self.worker.run_now(id)).await {
            Ok(Ok(Some(Outcome::Done(_)))) => return Ok(()),
            Ok(Ok(Some(Outcome::Retry(_, failure) | Outcome::Dead(failure)))) => {
                return Err(ReplayError::Failed(failure));
            }
            Ok(Err(error)) => return Err(error.into()),
            // Another worker holds the lease.
            Ok(Ok(None)) | Err(_) => {}
        }
        while Instant::now() < deadline {
            match self.status(id).await? {
                Some((EventStatus::Processed, _)) => return Ok(()),
                Some((EventStatus::Failed, error)) => {
                    // The row has the message but not the reason; Stripe is the most likely one.
                    let detail = error.unwrap_or_default();
                    return Err(ReplayError::Failed(FailureReason::Stripe.failure(detail)));
                }
                Some((EventStatus::Pending, _)) | None => sleep(Duration::from_millis(100)).await,
            }
        }
        Err(ReplayError::TooSlow)
    }

    async fn status(&self, id: &str) -> Result<Option<(EventStatus, Option<String>)>, SessionError> {
        const STATUS: &str = "select status, error_message from public.webhook_events where id = $1";
        let tx = self.billing.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let row = tx.query_opt(STATUS, &[&id]).await;
        let row = tx.finish(row).await?;
        Ok(row.and_then(|row| Some((EventStatus::parse(row.try_get(0).ok()?)?, row.try_get(1).ok()?))))
    }
}
