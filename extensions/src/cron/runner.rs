//! Runs one job: as its owner, on a connection of its own, recorded in `cron.job_run_details`.

use std::time::Duration;

use basalt_pg::database::Database;
use basalt_pg::jobs::{Done, Failure, Handler, Job};
use basalt_pg::pg_error::DriverError;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use futures_util::{TryStreamExt, pin_mut};
use jiff::Timestamp;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, SimpleQueryMessage};

use super::schedule::Schedule;

/// Longest `return_message`, in characters.
const MESSAGE_CHARS: usize = 2000;
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// The owner of every job; the trigger of `cron.job` enforces it.
const OWNER: &str = "postgres";

/// A backend notices that its server has died.
const OPTIONS: &str = "-c client_connection_check_interval=2000";

const BEGIN: &str = "
insert into cron.job_run_details (jobid, database, username, command, status, start_time)
select jobid, database, username, command, 'starting', clock_timestamp()
from cron.job where jobid = $1 and active and database = current_database()
returning runid, username, command";

const RUNNING: &str = "
with planned as (update basalt.cron_schedule set backend_pid = $2 where jobid = $3)
update cron.job_run_details set status = 'running', job_pid = $2 where runid = $1";

const END: &str = "
with ended as (
  update cron.job_run_details set status = $2, return_message = $3, end_time = clock_timestamp() where runid = $1)
select clock_timestamp()";

const TERMINATE: &str = "
select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where pid = $1 and usename = $2";

pub(crate) struct Runner {
    pool: ServicePool,
    login: Database,
    limit: Duration,
}

/// The end of a run.
struct Ended {
    is_success: bool,
    message: String,
}

impl Handler for Runner {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let read = |error: tokio_postgres::Error| Failure::permanent(error.to_string());
        let due: Timestamp = job.row.try_get("due_at").map_err(read)?;
        let schedule: String = job.row.try_get("schedule").map_err(read)?;
        let id: i64 = job.key.parse().map_err(|_| Failure::permanent("the key is not a number"))?;
        let finished = self.run_once(id).await.map_err(|error| Failure::transient(error.to_string()))?;
        let next = |now| schedule.parse::<Schedule>().ok()?.next(due, now);
        Ok(Done { due_at: finished.and_then(next), ..Done::default() })
    }
}

impl Runner {
    pub(super) fn new(pool: ServicePool, login: &Database, limit: Duration) -> Self {
        Self { pool, login: login.with_options(OPTIONS), limit }
    }

    /// Returns when the run ended, or `None` if the job no longer exists.
    async fn run_once(&self, id: i64) -> Result<Option<Timestamp>, SessionError> {
        let Some(row) = self.statement(BEGIN, &[&id]).await? else { return Ok(None) };
        let cell = |error: tokio_postgres::Error| SessionError::Unavailable(error.to_string());
        let run: i64 = row.try_get(0).map_err(cell)?;
        let (username, command): (String, String) =
            (row.try_get(1).map_err(cell)?, row.try_get(2).map_err(cell)?);
        let ended = if username == OWNER {
            self.execute(id, run, &command).await?
        } else {
            Ended::failed(&format!(
                "ERROR:  role {username} cannot own a cron job on this server; use {OWNER}"
            ))
        };
        let status = if ended.is_success { "succeeded" } else { "failed" };
        let row = self.statement(END, &[&run, &status, &ended.message]).await?;
        Ok(row.and_then(|row| row.try_get(0).ok()))
    }

    async fn execute(&self, id: i64, run: i64, command: &str) -> Result<Ended, SessionError> {
        let client = match self.login.connect().await {
            Ok(client) => client,
            Err(error) => return Ok(Ended::failed(&format!("connection failed: {error}"))),
        };
        let row = client.query_one("select pg_catalog.pg_backend_pid()", &[]).await;
        let pid: i32 = match row.and_then(|row| row.try_get(0)) {
            Ok(pid) => pid,
            Err(error) => return Ok(Ended::failed(&format!("connection failed: {error}"))),
        };
        let _updated = self.statement(RUNNING, &[&run, &pid, &id]).await?;
        match timeout(self.limit, run_command(&client, command)).await {
            Ok(ended) => Ok(ended),
            Err(_elapsed) => {
                // Not a cancel request: the command could catch it and go on.
                let _terminated = self.statement(TERMINATE, &[&pid, &OWNER]).await?;
                let limit = self.limit.as_secs();
                Ok(Ended::failed(&format!(
                    "ERROR:  terminated after {limit} s (extensions.cron_max_run_time)"
                )))
            }
        }
    }

    /// Runs a statement of ours, and returns its first row.
    async fn statement(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, SessionError> {
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let rows = tx.query(sql, params).await;
        Ok(tx.finish(rows).await?.into_iter().next())
    }
}

impl Ended {
    fn failed(message: &str) -> Self {
        let message = message.chars().take(MESSAGE_CHARS).collect();
        Self { is_success: false, message }
    }
}

/// Runs the statements of a command. Rows are counted and dropped, so that a large result needs no memory.
async fn run_command(client: &Client, command: &str) -> Ended {
    let counted = async {
        let messages = client.simple_query_raw(command).await?;
        pin_mut!(messages);
        let mut count = 0;
        while let Some(message) = messages.try_next().await? {
            if let SimpleQueryMessage::CommandComplete(rows) = message {
                count = rows;
            }
        }
        Ok::<_, tokio_postgres::Error>(count)
    };
    match counted.await.map_err(DriverError::from) {
        Ok(count) => {
            Ended { is_success: true, message: format!("{count} row{}", if count == 1 { "" } else { "s" }) }
        }
        Err(DriverError::Postgres(error)) => Ended::failed(&format!("ERROR:  {}", error.message)),
        Err(DriverError::Connection(text)) => Ended::failed(&format!("connection lost: {text}")),
    }
}
