//! Work that happens after a commit: a row in a table is a job, and a worker runs it once the transaction that wrote
//! the row has committed. Mail is sent this way.
//!
//! Each use supplies a [`Table`] and a [`Handler`]; [`Worker`] does the rest. It claims due rows with `for update
//! skip locked` and moves their next attempt beyond the longest possible attempt, which acts as a lease. Several
//! servers can share a table. If a server dies during an attempt, its lease expires and the job runs again, so
//! handlers must be idempotent. Handlers run outside of any transaction.
//!
//! All times are PostgreSQL's, so the servers' clocks need not agree. The SQL is in `jobs/queue.rs`.

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
    /// Makes one attempt. The future is dropped after [`Policy::time_limit`]; a panic counts as a transient failure.
    ///
    /// # Errors
    /// The job is not done: see [`Failure`].
    fn run(&self, job: &Job) -> impl Future<Output = Result<Done, Failure>> + Send;

    /// Releases the handler's resources, such as connections, after the last attempt.
    fn close(&self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// A claimed row.
#[derive(Debug)]
pub struct Job {
    /// Primary key of the row, as text.
    pub key: String,
    /// Category of the job: the `kind` label of its metrics.
    pub kind: String,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// The columns selected by [`Table::columns`].
    pub row: Row,
    /// When other workers may claim the row. Together with the attempt number, it identifies this claim.
    lease: jiff::Timestamp,
}

/// Result of a successful attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Value for the column [`Table::outcome`].
    pub outcome: Option<String>,
    /// When a periodic job is due again; required by [`Completion::Repeat`].
    pub due_at: Option<jiff::Timestamp>,
}

/// Result of a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether another attempt may succeed.
    pub is_transient: bool,
    /// What happened, for the log. Must not contain personal data.
    pub reason: String,
    /// What happened, for the row, including details only an operator may see.
    pub detail: String,
}

impl Failure {
    /// A failure that another attempt may get past: the job is retried after a pause.
    #[must_use]
    pub fn transient(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { is_transient: true, detail: reason.clone(), reason }
    }

    /// A failure that will recur: the job becomes a dead letter.
    #[must_use]
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self { is_transient: false, ..Self::transient(reason) }
    }
}

/// Concurrency, retries and retention of a worker.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Maximum number of concurrent attempts.
    pub concurrency: usize,
    /// Maximum pause after each failed attempt; up to half of it is jitter. The attempt after the last pause is the
    /// final one.
    pub pauses: Vec<Duration>,
    /// Time limit of one attempt.
    pub time_limit: Duration,
    /// Which rows are deleted, and when.
    pub retention: Vec<Retention>,
}

/// Rows that are deleted some time after they have ended.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// SQL condition that selects the rows.
    pub rows: &'static str,
    /// The timestamp column from which `keep` is measured.
    pub since: &'static str,
    /// How long the rows are kept.
    pub keep: Duration,
}

/// The pauses between `attempts` attempts: `first`, doubled each time up to `longest`.
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
