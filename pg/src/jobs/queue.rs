//! The SQL of a job table: claiming, recording results, listing and retrying.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{Completion, Done, Failure, Job, Retention, Table};
use crate::error::SessionError;
use crate::pool::ServicePool;
use basalt_core::convert::saturating;

/// Time limit of one statement.
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// A job table in a database. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    pool: ServicePool,
    table: &'static Table,
    /// The value of [`Table::owner`] in this server's rows.
    owner: Option<Arc<str>>,
    statements: Arc<Statements>,
}

/// A job, as shown to an operator.
#[derive(Debug)]
pub struct ListedJob {
    /// Primary key of the row, as text.
    pub key: String,
    /// Category of the job.
    pub kind: String,
    /// The value of [`Table::state`].
    pub state: String,
    /// When the row was inserted.
    pub created_at: Timestamp,
    /// Attempts since the row was inserted or last revived.
    pub attempts: i32,
    /// When the next attempt is due; only set while the job is waiting.
    pub next_attempt_at: Option<Timestamp>,
    /// When the job ended.
    pub finished_at: Option<Timestamp>,
    /// Details of the last failure.
    pub last_error: Option<String>,
    /// The columns selected by [`Table::listed`].
    pub row: Row,
}

/// A page of jobs, newest first.
#[derive(Debug)]
pub struct Listed {
    /// At most `limit` jobs.
    pub jobs: Vec<ListedJob>,
    /// Number of jobs in the requested states.
    pub total: i64,
    /// Number of jobs in these states that belong to other owners.
    pub of_others: i64,
}

/// Which jobs to retry.
#[derive(Debug, Clone, Copy)]
pub enum RetrySelection<'a> {
    /// All dead jobs.
    Dead,
    /// The jobs with these keys, dead or waiting.
    Keys(&'a [String]),
}

/// Numbers of waiting and dead jobs.
pub(super) struct Counts {
    pub(super) waiting: i64,
    pub(super) dead: i64,
}

struct Statements {
    claim_due: String,
    claim_one: String,
    next_due: String,
    count: String,
    done: String,
    retry: String,
    dead: String,
    revive: String,
    list: String,
    count_listed: String,
}

impl Statements {
    /// Assembled from the table's own literals; all values are parameters.
    fn new(table: &Table) -> Self {
        let Table { table: name, key, key_type, kind, columns, order, state, waiting, dead, error, .. } =
            table;
        // The parameter must appear in the text in both cases.
        let own = |number: u8| match table.owner {
            Some(column) => format!("{column} = ${number}::text"),
            None => format!("${number}::text is null"),
        };
        let and = |assignments: &str| {
            if assignments.is_empty() { String::new() } else { format!(", {assignments}") }
        };
        let claim = |condition: &str| {
            format!(
                "\
with due as (
  select {key} as due_key from {name}
  where {waiting} and {own} and next_attempt_at <= now() {condition}
  order by {order}
  limit $1
  for update skip locked)
update {name}
set attempts = attempts + 1, next_attempt_at = now() + make_interval(secs => $2){on_claim}
from due
where {key} = due_key
returning {key}::text as job_key, {kind} as job_kind, attempts as job_attempt, next_attempt_at as job_lease, {columns}",
                own = own(3),
                on_claim = and(table.on_claim),
            )
        };
        // Matches only this claim: neither another worker's, nor an earlier one of a job that was revived.
        let claimed = format!(
            "where {key} = $1::text::{key_type} and attempts = $2 and next_attempt_at = $3 and {waiting}"
        );
        let done = match (table.on_done, table.outcome) {
            (Completion::Delete, _) => format!("delete from {name} {claimed}"),
            // Without a time the job is given up.
            (Completion::Repeat(due), _) => {
                format!(
                    "update {name} set attempts = 0, next_attempt_at = $4, {due} = coalesce($4, {due}) {claimed}"
                )
            }
            (Completion::Set(done), None) => format!("update {name} set {done} {claimed}"),
            (Completion::Set(done), Some(outcome)) => {
                format!("update {name} set {done}, {outcome} = $4 {claimed}")
            }
        };
        Self {
            claim_due: claim(""),
            claim_one: claim(&format!("and {key} = $4::text::{key_type}")),
            next_due: format!(
                "\
select extract(epoch from min(next_attempt_at) - clock_timestamp())::float8
from {name}
where {waiting} and {own}",
                own = own(1)
            ),
            count: format!(
                "\
select count(*) filter (where {waiting}), count(*) filter (where {dead})
from {name}
where ({waiting} or {dead}) and {own}",
                own = own(1)
            ),
            done,
            retry: format!(
                "\
update {name}
set next_attempt_at = now() + make_interval(secs => $4), {error} = $5{on_retry} {claimed}",
                on_retry = and(table.on_retry)
            ),
            dead: format!("update {name} set {error} = $4{} {claimed}", and(table.on_dead)),
            revive: format!(
                "\
update {name}
set attempts = 0, next_attempt_at = now(){on_revive}
where {own} and case
  when $2::text[] is null then {dead} else {key} = any($2::text[]::{key_type}[]) and ({dead} or {waiting}) end
returning {key}::text",
                own = own(1),
                on_revive = and(table.on_revive),
            ),
            list: format!(
                "\
select {key}::text as job_key, {kind} as job_kind, {state} as job_state, created_at as job_created_at,
  attempts as job_attempts, case when {waiting} then next_attempt_at end as job_next_attempt_at,
  {finished_at} as job_finished_at, {error} as job_error, {listed}
from {name}
where {state} = any($2) and {own}
order by created_at desc, {key} desc
limit $3",
                finished_at = table.finished_at,
                listed = table.listed,
                own = own(1),
            ),
            count_listed: format!(
                "\
select count(*) filter (where {own}), count(*) filter (where not {own}) from {name} where {state} = any($2)",
                own = own(1)
            ),
        }
    }
}

impl Queue {
    /// A queue of the rows of `table` that belong to `owner`. The login of `pool` must be able to read and change
    /// them.
    #[must_use]
    pub fn new(pool: ServicePool, table: &'static Table, owner: Option<&str>) -> Self {
        let statements = Arc::new(Statements::new(table));
        Self { pool, table, owner: owner.map(Arc::from), statements }
    }

    pub(super) const fn table(&self) -> &'static Table {
        self.table
    }

    /// Claims up to `limit` due jobs for the duration of `lease`.
    pub(super) async fn claim(&self, limit: usize, lease: Duration) -> Result<Vec<Job>, SessionError> {
        let limit = saturating::<i64>(limit);
        let rows =
            self.query(&self.statements.claim_due, &[&limit, &lease.as_secs_f64(), &self.owner()]).await?;
        rows.into_iter().map(job).collect()
    }

    /// Claims this job, if it is due.
    pub(super) async fn claim_one(&self, key: &str, lease: Duration) -> Result<Option<Job>, SessionError> {
        let params: [&(dyn ToSql + Sync); 4] = [&1_i64, &lease.as_secs_f64(), &self.owner(), &key];
        let rows = self.query(&self.statements.claim_one, &params).await?;
        rows.into_iter().next().map(job).transpose()
    }

    /// Time until the next job is due or its lease expires.
    pub(super) async fn next_due(&self) -> Result<Option<Duration>, SessionError> {
        let rows = self.query(&self.statements.next_due, &[&self.owner()]).await?;
        let seconds: Option<f64> = rows.first().and_then(|row| row.try_get(0).ok()).flatten();
        Ok(seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }

    pub(super) async fn count(&self) -> Result<Counts, SessionError> {
        let rows = self.query(&self.statements.count, &[&self.owner()]).await?;
        Ok(Counts { waiting: number(rows.first(), 0), dead: number(rows.first(), 1) })
    }

    /// Records success. Returns false if the claim is no longer valid.
    pub(super) async fn mark_done(&self, job: &Job, done: &Done) -> Result<bool, SessionError> {
        match (self.table.on_done, self.table.outcome) {
            (Completion::Set(_), Some(_)) => self.mark(&self.statements.done, job, &[&done.outcome]).await,
            (Completion::Repeat(_), _) => self.mark(&self.statements.done, job, &[&done.due_at]).await,
            (Completion::Set(_), None) | (Completion::Delete, _) => {
                self.mark(&self.statements.done, job, &[]).await
            }
        }
    }

    /// Records a failure and schedules the next attempt. Returns false if the claim is no longer valid.
    pub(super) async fn mark_retry(
        &self,
        job: &Job,
        pause: Duration,
        failure: &Failure,
    ) -> Result<bool, SessionError> {
        self.mark(&self.statements.retry, job, &[&pause.as_secs_f64(), &failure.detail]).await
    }

    /// Records a failure and gives the job up. Returns false if the claim is no longer valid.
    pub(super) async fn mark_dead(&self, job: &Job, failure: &Failure) -> Result<bool, SessionError> {
        self.mark(&self.statements.dead, job, &[&failure.detail]).await
    }

    async fn mark(
        &self,
        statement: &str,
        job: &Job,
        further: &[&(dyn ToSql + Sync)],
    ) -> Result<bool, SessionError> {
        let attempt = saturating::<i32>(job.attempt);
        let claim: [&(dyn ToSql + Sync); 3] = [&job.key, &attempt, &job.lease];
        let params: Vec<_> = claim.into_iter().chain(further.iter().copied()).collect();
        Ok(self.execute(statement, &params).await? > 0)
    }

    /// Deletes rows whose `retention` has passed.
    ///
    /// # Errors
    /// The database failed.
    pub async fn clean(&self, retention: &[Retention]) -> Result<(), SessionError> {
        for Retention { rows, since, keep } in retention {
            let name = self.table.table;
            let own = match self.table.owner {
                Some(column) => format!("{column} = $2::text"),
                None => "$2::text is null".to_owned(),
            };
            let clean = format!(
                "delete from {name} where {rows} and {since} < now() - make_interval(secs => $1) and {own}"
            );
            self.execute(&clean, &[&keep.as_secs_f64(), &self.owner()]).await?;
        }
        Ok(())
    }

    /// Lists the newest `limit` jobs in these states.
    ///
    /// # Errors
    /// The database failed.
    pub async fn list(&self, states: &[&str], limit: i64) -> Result<Listed, SessionError> {
        let rows = self.query(&self.statements.list, &[&self.owner(), &states, &limit]).await?;
        let counts = self.query(&self.statements.count_listed, &[&self.owner(), &states]).await?;
        Ok(Listed {
            jobs: rows.into_iter().map(listed).collect::<Result<_, _>>()?,
            total: number(counts.first(), 0),
            of_others: number(counts.first(), 1),
        })
    }

    /// Makes jobs due now with a fresh set of attempts, and returns their keys. If one of several keys belongs to no
    /// waiting or dead job, nothing changes and the inner `Err` lists those keys.
    ///
    /// A job that is running at this moment may run twice.
    ///
    /// # Errors
    /// The database failed.
    pub async fn retry(
        &self,
        which: RetrySelection<'_>,
    ) -> Result<Result<Vec<String>, Vec<String>>, SessionError> {
        let keys = match which {
            RetrySelection::Dead => None,
            RetrySelection::Keys(keys) => Some(keys),
        };
        let tx = self.pool.begin(Instant::now() + STATEMENT_LIMIT).await?;
        let revived = async {
            let rows = tx.query(&self.statements.revive, &[&self.owner(), &keys]).await?;
            // Wakes the workers of all servers at COMMIT.
            if let Some(channel) = self.table.channel.filter(|_| !rows.is_empty()) {
                let _notified = tx.query("select pg_catalog.pg_notify($1, '')", &[&channel]).await?;
            }
            rows.iter().map(|row| column(row, 0)).collect::<Result<Vec<String>, SessionError>>()
        };
        let revived = match revived.await {
            Ok(revived) => revived,
            Err(error) => return tx.finish(Err(error)).await,
        };
        let missing = |key: &&String| !revived.contains(key);
        let missing: Vec<String> = keys.unwrap_or_default().iter().filter(missing).cloned().collect();
        if missing.is_empty() {
            tx.commit().await?;
            return Ok(Ok(revived));
        }
        tx.rollback().await;
        Ok(Err(missing))
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Each statement here is a transaction of its own. The callers repeat it if the connection died.
    async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, SessionError> {
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let result = tx.query(sql, params).await;
        tx.finish(result).await
    }

    async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, SessionError> {
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let result = tx.execute(sql, params).await;
        tx.finish(result).await
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({})", self.table.table)
    }
}

fn job(row: Row) -> Result<Job, SessionError> {
    let attempt: i32 = column(&row, "job_attempt")?;
    Ok(Job {
        key: column(&row, "job_key")?,
        kind: column(&row, "job_kind")?,
        attempt: u32::try_from(attempt).unwrap_or_default(),
        lease: column(&row, "job_lease")?,
        row,
    })
}

fn listed(row: Row) -> Result<ListedJob, SessionError> {
    Ok(ListedJob {
        key: column(&row, "job_key")?,
        kind: column(&row, "job_kind")?,
        state: column(&row, "job_state")?,
        created_at: column(&row, "job_created_at")?,
        attempts: column(&row, "job_attempts")?,
        next_attempt_at: column(&row, "job_next_attempt_at")?,
        finished_at: column(&row, "job_finished_at")?,
        last_error: column(&row, "job_error")?,
        row,
    })
}

fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    name: impl tokio_postgres::row::RowIndex + std::fmt::Display,
) -> Result<T, SessionError> {
    row.try_get(name).map_err(|error| SessionError::Unavailable(error.to_string()))
}

fn number(row: Option<&Row>, index: usize) -> i64 {
    row.and_then(|row| row.try_get(index).ok()).unwrap_or_default()
}
