//! The worker: claims jobs, runs them and records the results until shutdown.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::random;
use futures_util::FutureExt as _;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Done, Failure, Handler, Job, Policy, Queue, Table};
use crate::error::SessionError;
use crate::listen::Event;
use basalt_core::convert::saturating;

/// How often to look for jobs without a notification, which a pooler in front of PostgreSQL swallows.
const POLL: Duration = Duration::from_secs(5);
/// How often to delete old rows.
const CLEAN: Duration = Duration::from_secs(600);
/// How long running attempts may take to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(5);
/// The first pause after a database failure; doubles up to [`LONGEST_OUTAGE_PAUSE`].
const FIRST_OUTAGE_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_OUTAGE_PAUSE: Duration = Duration::from_secs(30);

/// Runs the jobs of one table.
pub struct Worker<H> {
    queue: Queue,
    handler: H,
    policy: Policy,
    /// How long a claimed row is unavailable to other workers.
    lease: Duration,
    /// One permit per concurrent attempt.
    permits: Arc<Semaphore>,
    /// Notified when an attempt has ended.
    ended: Notify,
    /// Tracks all attempts.
    tracker: TaskTracker,
    /// Cancelled when running attempts must stop.
    cut_off: CancellationToken,
}

impl<H> std::fmt::Debug for Worker<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The job is done.
    Done(Done),
    /// The job will be retried after this pause.
    Retry(Duration, Failure),
    /// The job was given up.
    Dead(Failure),
}

impl<H: Handler> Worker<H> {
    /// Creates a worker; it is idle until [`Worker::run`] is called.
    #[must_use]
    pub fn new(queue: Queue, handler: H, policy: Policy, tracker: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            // The lease already runs while the claim's answer is in flight, hence the margin.
            lease: policy.time_limit + policy.time_limit / 10,
            permits: Arc::new(Semaphore::new(policy.concurrency.max(1))),
            ended: Notify::new(),
            cut_off: CancellationToken::new(),
            queue,
            handler,
            policy,
            tracker,
        })
    }

    /// The handler that runs the jobs.
    pub const fn handler(&self) -> &H {
        &self.handler
    }

    /// Works until `shutdown`, then gives running attempts a moment to finish; the leases of the others expire.
    /// `events` wake the worker.
    pub async fn run(self: Arc<Self>, mut events: Receiver<Event>, shutdown: CancellationToken) {
        let too_late = async {
            shutdown.cancelled().await;
            sleep(DRAIN).await;
        };
        tokio::select! {
            // Boxed because it is large and lives as long as the server.
            () = Box::pin(self.work(&mut events, &shutdown)) => {}
            () = too_late => {
                tracing::info!(job = self.table().name, "stopping running attempts; they will be repeated");
            }
        }
        self.cut_off.cancel();
        self.handler.close().await;
    }

    /// Runs this job now if it is due, for a request that responds with the outcome. Dropping the future does not
    /// stop the attempt. `None` if the job is not due, another worker has claimed it, or the server is stopping.
    ///
    /// # Errors
    /// The database failed before the attempt began.
    pub async fn run_now(self: &Arc<Self>, key: &str) -> Result<Option<Outcome>, SessionError> {
        self.run_one(key, None).await
    }

    /// Like [`Worker::run_now`], but counts against [`Policy::concurrency`]: also `None` if no permit becomes
    /// available within `patience`.
    ///
    /// # Errors
    /// Those of [`Worker::run_now`].
    pub async fn run_in_turn(
        self: &Arc<Self>,
        key: &str,
        patience: Duration,
    ) -> Result<Option<Outcome>, SessionError> {
        let permit = timeout(patience, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Ok(None) };
        self.run_one(key, Some(permit)).await
    }

    async fn run_one(
        self: &Arc<Self>,
        key: &str,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Option<Outcome>, SessionError> {
        let Some(job) = self.queue.claim_one(key, self.lease).await? else { return Ok(None) };
        let attempt = self.tracker.spawn(Arc::clone(self).attempt(job, permit));
        Ok(attempt.await.ok().flatten())
    }

    fn table(&self) -> &'static Table {
        self.queue.table()
    }

    /// Starts attempts until `shutdown`, then waits for the running ones.
    async fn work(self: &Arc<Self>, events: &mut Receiver<Event>, shutdown: &CancellationToken) {
        let mut outage_pause = Duration::ZERO;
        let (mut counted, mut cleaned) = (Due::every(POLL), Due::every(CLEAN));
        while !shutdown.is_cancelled() {
            let pause = match self.start_due().await {
                Ok(pause) => {
                    outage_pause = Duration::ZERO;
                    pause
                }
                Err(error) => {
                    tracing::info!(job = self.table().name, %error, "cannot claim due jobs; retrying");
                    outage_pause = (outage_pause * 2).clamp(FIRST_OUTAGE_PAUSE, LONGEST_OUTAGE_PAUSE);
                    outage_pause
                }
            };
            if outage_pause.is_zero() {
                counted.run_if_due(async || self.count().await).await;
                cleaned.run_if_due(async || self.queue.clean(&self.policy.retention).await).await;
            }
            tokio::select! {
                () = wait_for_event(events, self.table().channel) => {}
                () = self.ended.notified() => {}
                () = sleep(pause) => {}
                () = shutdown.cancelled() => {}
            }
        }
        let all = saturating::<u32>(self.policy.concurrency.max(1));
        let _ended = self.permits.acquire_many(all).await;
    }

    /// Claims and starts as many due jobs as there are free permits. Returns when to look again.
    async fn start_due(self: &Arc<Self>) -> Result<Duration, SessionError> {
        // Permits are taken before the claim: a claimed job must not wait for one while its lease runs.
        let take = || Arc::clone(&self.permits).try_acquire_owned().ok();
        let mut free: Vec<_> = std::iter::from_fn(take).collect();
        if free.is_empty() {
            return Ok(POLL);
        }
        let jobs = self.queue.claim(free.len(), self.lease).await?;
        let is_full = jobs.len() == free.len();
        for job in jobs {
            self.tracker.spawn(Arc::clone(self).attempt(job, free.pop()));
        }
        drop(free);
        if is_full {
            // There may be more jobs; look again when an attempt ends.
            return Ok(POLL);
        }
        let next = self.queue.next_due().await?;
        // The next event may be a lease about to expire, so wait at least 10 ms.
        Ok(next.map_or(POLL, |next| next.clamp(Duration::from_millis(10), POLL)))
    }

    async fn count(&self) -> Result<(), SessionError> {
        let counts = self.queue.count().await?;
        metrics::gauge!(self.table().metrics.waiting).set(counts.waiting as f64);
        metrics::gauge!(self.table().metrics.dead).set(counts.dead as f64);
        Ok(())
    }

    /// Runs one attempt and records its result; `None` if it was cut off.
    async fn attempt(self: Arc<Self>, job: Job, permit: Option<OwnedSemaphorePermit>) -> Option<Outcome> {
        let attempt = async {
            let outcome = self.perform(&job).await;
            self.note(&job, &outcome);
            self.mark(&job, &outcome).await;
            outcome
        };
        let outcome = self.cut_off.run_until_cancelled(attempt).await;
        drop(permit);
        self.ended.notify_one();
        outcome
    }

    async fn perform(&self, job: &Job) -> Outcome {
        let pauses = &self.policy.pauses;
        // The server died during the last attempt, and the job may have caused it.
        if job.attempt as usize > pauses.len() + 1 {
            return Outcome::Dead(Failure::permanent("the last attempt did not come to an end"));
        }
        let attempt = AssertUnwindSafe(self.handler.run(job)).catch_unwind();
        let failure = match timeout(self.policy.time_limit, attempt).await {
            Ok(Ok(Ok(done))) => return Outcome::Done(done),
            Ok(Ok(Err(failure))) => failure,
            Ok(Err(_panic)) => Failure::transient("handler panicked"),
            Err(_elapsed) => Failure::transient(format!("attempt exceeded {:?}", self.policy.time_limit)),
        };
        match pauses.get((job.attempt as usize).saturating_sub(1)) {
            Some(pause) if failure.is_transient => Outcome::Retry(jittered(*pause), failure),
            _ => Outcome::Dead(failure),
        }
    }

    fn note(&self, job: &Job, outcome: &Outcome) {
        let Job { key, kind, attempt, .. } = job;
        let Table { name, failed_message, dead_message, metrics, .. } = self.table();
        let count = |counter: &'static str| metrics::counter!(counter, "kind" => kind.clone()).increment(1);
        match outcome {
            Outcome::Done(_) => count(metrics.done),
            Outcome::Retry(pause, Failure { reason, .. }) => {
                count(metrics.failed);
                let retry_s = pause.as_secs();
                tracing::warn!(job = name, key, kind, attempt, reason, retry_s, "{failed_message}");
            }
            Outcome::Dead(Failure { reason, .. }) => {
                count(metrics.failed);
                count(metrics.given_up);
                tracing::warn!(job = name, key, kind, attempt, reason, "{dead_message}");
            }
        }
    }

    /// Records the result of an attempt. Retried several times, because a job whose result is lost runs again.
    async fn mark(&self, job: &Job, outcome: &Outcome) {
        const TRIES: u32 = 6;
        let Job { key, attempt, .. } = job;
        let name = self.table().name;
        let mut pause = Duration::from_millis(100);
        for tried in 1..=TRIES {
            let marked = match outcome {
                Outcome::Done(done) => self.queue.mark_done(job, done).await,
                Outcome::Retry(pause, failure) => self.queue.mark_retry(job, *pause, failure).await,
                Outcome::Dead(failure) => self.queue.mark_dead(job, failure).await,
            };
            match marked {
                Ok(true) => return,
                // Also reached if the first write succeeded but its answer was lost.
                Ok(false) => {
                    tracing::debug!(
                        job = name,
                        key,
                        attempt,
                        "the claim is no longer valid; result not recorded"
                    );
                    return;
                }
                Err(error) if tried == TRIES => {
                    tracing::warn!(job = name, key, attempt, %error, "cannot record the result of an attempt; it will be repeated");
                }
                Err(_not_yet) => {
                    sleep(pause).await;
                    pause *= 3;
                }
            }
        }
    }
}

/// A periodic task.
struct Due {
    interval: Duration,
    done: Option<Instant>,
}

impl Due {
    const fn every(interval: Duration) -> Self {
        Self { interval, done: None }
    }

    /// Runs `work` if it is due. If it fails, it stays due.
    async fn run_if_due(&mut self, work: impl AsyncFnOnce() -> Result<(), SessionError>) {
        if self.done.is_none_or(|at| at.elapsed() >= self.interval) && work().await.is_ok() {
            self.done = Some(Instant::now());
        }
    }
}

/// Returns when there may be new rows.
async fn wait_for_event(events: &mut Receiver<Event>, own: Option<&str>) {
    loop {
        match events.recv().await {
            Ok(Event::Notify { channel, .. }) if own != Some(channel.as_str()) => {}
            Ok(Event::Notify { .. } | Event::Reconnected) | Err(RecvError::Lagged(_)) => return,
            // There are no more notifications; only polling remains.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// A random duration between half of `pause` and all of it, so that jobs that failed together are not retried
/// together.
fn jittered(pause: Duration) -> Duration {
    let [jitter] = random::bytes::<1>();
    pause.mul_f64(0.5 + f64::from(jitter) / 510.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_pause_is_jitter() {
        let hour = Duration::from_secs(3600);
        for _ in 0..100 {
            let pause = jittered(hour);
            assert!(pause <= hour && pause >= hour / 2, "{pause:?}");
        }
    }
}
