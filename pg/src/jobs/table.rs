//! What a use says about its table.

/// A table of jobs. Besides the columns that are named here it has `attempts integer`, `created_at` and `next_attempt_at`
/// (both `timestamptz`): when a waiting row is due, or how long its lease runs.
///
/// Conditions, expressions and assignments are SQL over the table's columns without placeholders. An assignment that is
/// empty changes nothing; `attempts`, `next_attempt_at` and the columns `error` and `outcome` are set besides.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The job's name, in the log.
    pub name: &'static str,
    /// The table with its schema.
    pub table: &'static str,
    /// The channel that is notified when there are new rows, if any.
    pub channel: Option<&'static str>,
    /// The primary key's column.
    pub key: &'static str,
    /// Its type.
    pub key_type: &'static str,
    /// The column that says whose row it is, where servers of several projects share the table.
    pub owner: Option<&'static str>,
    /// What a job is about: an expression of type text with few values.
    pub kind: &'static str,
    /// What the handler needs: columns or named expressions.
    pub columns: &'static str,
    /// What an operator sees of a job besides its state: columns or named expressions.
    pub listed: &'static str,
    /// Which of the due rows are taken first.
    pub order: &'static str,
    /// The row's state, for the list: an expression of type text.
    pub state: &'static str,
    /// Condition: to be run, now or later, or being run.
    pub waiting: &'static str,
    /// Condition: given up, and can be tried again.
    pub dead: &'static str,
    /// When the job ended, for the list: an expression.
    pub finished_at: &'static str,
    /// The column for the last failure.
    pub error: &'static str,
    /// The column for [`Done::outcome`](super::Done::outcome), if any.
    pub outcome: Option<&'static str>,
    /// Assignments when an attempt begins.
    pub on_claim: &'static str,
    /// What becomes of a row that is done.
    pub on_done: Completion,
    /// Assignments when an attempt has failed and another one follows.
    pub on_retry: &'static str,
    /// Assignments when a job is given up; the row must no longer be `waiting`.
    pub on_dead: &'static str,
    /// Assignments when an operator asks for further attempts; the row must be `waiting` then.
    pub on_revive: &'static str,
    /// The log's message when an attempt has failed.
    pub failed_message: &'static str,
    /// The log's message when a job is given up.
    pub dead_message: &'static str,
    /// The names of its metrics.
    pub metrics: Metrics,
}

/// What becomes of a row that is done.
#[derive(Debug, Clone, Copy)]
pub enum Completion {
    /// It goes.
    Delete,
    /// It stays with these assignments; it must no longer be `waiting`.
    Set(&'static str),
}

/// Names of metrics, which have the job's name in them: the label `job` belongs to Prometheus. The counters have the label
/// `kind`.
#[derive(Debug, Clone, Copy)]
pub struct Metrics {
    /// Counter: jobs done.
    pub done: &'static str,
    /// Counter: attempts that failed.
    pub failed: &'static str,
    /// Counter: jobs given up.
    pub given_up: &'static str,
    /// Gauge: rows that wait.
    pub waiting: &'static str,
    /// Gauge: rows that were given up and can be tried again.
    pub dead: &'static str,
}
