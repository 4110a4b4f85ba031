//! Description of a job table, as its user declares it.

/// A job table. Besides the columns named here it has `attempts integer`, `created_at` and `next_attempt_at` (both
/// `timestamptz`): when a waiting row is due, or when its lease expires.
///
/// Conditions, expressions and assignments are SQL over the table's columns without placeholders. An empty assignment
/// changes nothing; `attempts`, `next_attempt_at` and the columns `error` and `outcome` are set automatically.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Name of the job in the log.
    pub name: &'static str,
    /// Schema-qualified table name.
    pub table: &'static str,
    /// Channel that is notified of new rows, if any.
    pub channel: Option<&'static str>,
    /// Primary key column.
    pub key: &'static str,
    /// Type of the primary key.
    pub key_type: &'static str,
    /// Column with the owning project, if servers of several projects share the table.
    pub owner: Option<&'static str>,
    /// Category of a job: an expression of type text with few distinct values.
    pub kind: &'static str,
    /// Columns or named expressions that the handler needs.
    pub columns: &'static str,
    /// Columns or named expressions that are listed besides the job's state.
    pub listed: &'static str,
    /// Order in which due rows are claimed.
    pub order: &'static str,
    /// State of a row for the listing: an expression of type text.
    pub state: &'static str,
    /// Condition: the job is due, scheduled or running.
    pub waiting: &'static str,
    /// Condition: the job was given up and can be retried.
    pub dead: &'static str,
    /// When the job ended, for the listing: an expression.
    pub finished_at: &'static str,
    /// Column for the last failure.
    pub error: &'static str,
    /// Column for [`Done::outcome`](super::Done::outcome), if any.
    pub outcome: Option<&'static str>,
    /// Assignments at the start of an attempt.
    pub on_claim: &'static str,
    /// What happens to a row when its job is done.
    pub on_done: Completion,
    /// Assignments after a failed attempt that will be retried.
    pub on_retry: &'static str,
    /// Assignments when a job is given up; the row must no longer be `waiting` afterwards.
    pub on_dead: &'static str,
    /// Assignments when an operator retries a job; the row must be `waiting` afterwards.
    pub on_revive: &'static str,
    /// Log message for a failed attempt.
    pub failed_message: &'static str,
    /// Log message for a job that is given up.
    pub dead_message: &'static str,
    /// Names of the job's metrics.
    pub metrics: Metrics,
}

/// What happens to a row when its job is done.
#[derive(Debug, Clone, Copy)]
pub enum Completion {
    /// The row is deleted.
    Delete,
    /// The row stays, with these assignments; it must no longer be `waiting` afterwards.
    Set(&'static str),
    /// The job is periodic: the row stays and is due again at [`Done::due_at`](super::Done::due_at), with a fresh set of
    /// attempts. The column keeps that time while the next run moves `next_attempt_at`.
    Repeat(&'static str),
}

/// Metric names, which contain the job's name because Prometheus reserves the label `job`. The counters have the
/// label `kind`.
#[derive(Debug, Clone, Copy)]
pub struct Metrics {
    /// Counter of completed jobs.
    pub done: &'static str,
    /// Counter of failed attempts.
    pub failed: &'static str,
    /// Counter of jobs given up.
    pub given_up: &'static str,
    /// Gauge of waiting rows.
    pub waiting: &'static str,
    /// Gauge of dead rows that can be retried.
    pub dead: &'static str,
}
