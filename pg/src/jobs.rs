//! What happens after a commit: a row in a table is a job, and a worker runs it once the transaction that wrote the row has
//! committed. Mail is sent this way; blobs are to be deleted and Stripe's events applied this way.
//!
//! A use brings a [`Table`] and a [`Handler`]; [`Worker`] does the rest. It claims due rows with `for update skip locked`
//! and moves their next attempt ahead of the longest attempt: a lease. Several servers share one table and never run a job
//! twice on purpose. A server that dies in an attempt leaves a lease that runs out, and the job runs again: handlers must
//! bear that. The handler runs outside of any transaction.
//!
//! Times are PostgreSQL's: the servers' clocks need not agree. The SQL is in `jobs/queue.rs`.

mod queue;
mod table;
mod worker;

use std::time::Duration;

use tokio_postgres::Row;

pub use queue::{Listed, ListedJob, Queue, RetrySelection};
pub use table::{Completion, Metrics, Table};
pub use worker::{Outcome, Worker};

/// Runs the jobs of one table.
pub trait Handler: Send + Sync + 'static {
    /// One attempt. It is dropped when it takes longer than [`Policy::time_limit`], and a panic counts as a failure that
    /// may pass.
    ///
    /// # Errors
    /// The job is not done: see [`Failure`].
    fn run(&self, job: &Job) -> impl Future<Output = Result<Done, Failure>> + Send;

    /// Lets go of what the handler holds (connections), after the last attempt.
    fn close(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// A claimed row.
#[derive(Debug)]
pub struct Job {
    /// The row's key, as text.
    pub key: String,
    /// What the job is about: the label of its metrics.
    pub kind: String,
    /// Counts from 1.
    pub attempt: u32,
    /// [`Table::columns`].
    pub row: Row,
    /// When other workers may take the row: with the attempt's number, it names this claim.
    lease: jiff::Timestamp,
}

/// The job is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// How it ended, for [`Table::outcome`].
    pub outcome: Option<String>,
}

/// The job is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether another attempt may succeed.
    pub is_transient: bool,
    /// What happened, for the log: no personal data.
    pub reason: String,
    /// The same with what only an operator may see, for the row.
    pub detail: String,
}

impl Failure {
    /// A failure that may pass: the job runs again after a pause.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { is_transient: true, detail: reason.clone(), reason }
    }

    /// A failure that will not pass: the job becomes a dead letter.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self { is_transient: false, ..Self::transient(reason) }
    }
}

/// How persistent a worker is.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Attempts at once.
    pub concurrency: usize,
    /// The longest pause after each failed attempt; half of it is jitter's. The attempt after the last pause is the last.
    pub pauses: Vec<Duration>,
    /// How long one attempt may take.
    pub time_limit: Duration,
    /// What is deleted, and when.
    pub retention: Vec<Retention>,
}

/// Rows that are deleted some time after they have ended.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Which: a condition.
    pub rows: &'static str,
    /// The column with the time from which `keep` counts.
    pub since: &'static str,
    /// How long they are kept.
    pub keep: Duration,
}

/// Pauses between `attempts`: `first`, doubled each time up to `longest`.
#[must_use]
pub fn doubling(first: Duration, longest: Duration, attempts: u32) -> Vec<Duration> {
    let double = |pause: &Duration| Some(pause.saturating_mul(2).min(longest));
    std::iter::successors(Some(first.min(longest)), double)
        .take(attempts.saturating_sub(1) as usize)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = |pauses: Vec<Duration>| pauses.iter().map(Duration::as_secs).collect::<Vec<_>>();
        let hour = Duration::from_secs(3600);
        assert_eq!(seconds(doubling(Duration::from_secs(1000), hour, 5)), [1000, 2000, 3600, 3600]);
        assert_eq!(seconds(doubling(Duration::from_secs(1), hour, 1)), [] as [u64; 0]);
        assert_eq!(seconds(doubling(hour * 2, hour, 2)), [3600]);
        assert_eq!(doubling(Duration::from_secs(1), hour, 1000).len(), 999);
    }
}
