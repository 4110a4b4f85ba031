//! Keeps `basalt.cron_schedule` in step with `cron.job`: plans new and changed jobs, forgets removed ones, and frees
//! jobs whose run was lost with its server.

use std::time::Duration;

use basalt_core::convert::saturating;
use basalt_pg::listen::Event;
use basalt_pg::pool::{ServicePool, Tx};
use basalt_pg::session::SessionError;
use jiff::Timestamp;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep};

use super::schedule::Schedule;
use super::{CHANGED, PLANNED};
use crate::ExtensionsConfig;

/// How often to look without a notification.
const POLL: Duration = Duration::from_secs(5);
/// How often to delete old rows of `cron.job_run_details`.
const CLEAN: Duration = Duration::from_secs(600);
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// The real pg_cron has its own scheduler.
const IS_EMULATED: &str = "select to_regprocedure('cron.basalt_check_schedule(text)') is not null";

const FORGET_ALL: &str = "delete from basalt.cron_schedule";

/// Frees jobs whose backend is gone. $1: seconds of a lease. The server that made the run records its end within
/// seconds, hence the margins.
const FREE: &str = "
update basalt.cron_schedule s
set next_attempt_at = null, attempts = 0, backend_pid = null
where attempts > 0
  and next_attempt_at < now() + make_interval(secs => $1)
    - case when backend_pid is null then interval '60 s' else interval '10 s' end
  and not exists (select from pg_catalog.pg_stat_activity a where a.pid = s.backend_pid)";

const FAIL_LOST_RUNS: &str = "
update cron.job_run_details d
set status = 'failed', return_message = 'server restarted', end_time = clock_timestamp()
where status in ('starting', 'running') and start_time < now() - interval '60 s'
  and not exists (select from pg_catalog.pg_stat_activity a where a.pid = d.job_pid)";

const FORGET: &str = "
delete from basalt.cron_schedule s where not exists (select from cron.job j where j.jobid = s.jobid and j.active)";

/// $1: whether to skip runs that were missed while no server ran.
const UNPLANNED: &str = "
select j.jobid, j.schedule, clock_timestamp()
from cron.job j left join basalt.cron_schedule s using (jobid)
where j.active
  and (s.jobid is null or s.next_attempt_at is null
    or (s.attempts = 0 and (s.schedule <> j.schedule or ($1 and s.next_attempt_at < now() - interval '1 minute'))))";

/// The condition is repeated, because another server may have planned the job meanwhile.
const PLAN: &str = "
insert into basalt.cron_schedule as s (jobid, schedule, due_at, next_attempt_at)
select jobid, schedule, due_at, due_at from unnest($2::bigint[], $3::text[], $4::timestamptz[]) as p (jobid, schedule, due_at)
on conflict (jobid) do update
  set schedule = excluded.schedule, due_at = excluded.due_at, next_attempt_at = excluded.next_attempt_at, attempts = 0,
    last_error = null
  where s.next_attempt_at is null
    or (s.attempts = 0 and (s.schedule <> excluded.schedule or ($1 and s.next_attempt_at < now() - interval '1 minute')))";

const CLEAN_DETAILS: &str =
    "delete from cron.job_run_details where end_time < now() - make_interval(secs => $1)";

pub(crate) struct Planner {
    pool: ServicePool,
    lease: Duration,
    retention: Duration,
}

impl Planner {
    pub(crate) fn new(pool: ServicePool, config: &ExtensionsConfig) -> Self {
        let limit = super::time_limit(config);
        // As the worker computes it.
        Self { pool, lease: limit + limit / 10, retention: config.cron_retention }
    }

    /// Plans at the start, after each change of `cron.job`, and every few seconds.
    pub(crate) async fn keep(self, mut events: Receiver<Event>) {
        let (mut is_start, mut cleaned) = (true, None::<Instant>);
        loop {
            let cleans = cleaned.is_none_or(|at| at.elapsed() >= CLEAN);
            match self.plan(is_start, cleans).await {
                Ok(()) => {
                    is_start = false;
                    if cleans {
                        cleaned = Some(Instant::now());
                    }
                }
                Err(error) => tracing::info!(%error, "cannot plan cron jobs; retrying"),
            }
            tokio::select! {
                () = wait_for_change(&mut events) => {}
                () = sleep(POLL) => {}
            }
        }
    }

    async fn plan(&self, is_start: bool, cleans: bool) -> Result<(), SessionError> {
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let planned = self.plan_with(&tx, is_start, cleans).await;
        tx.finish(planned).await
    }

    async fn plan_with(&self, tx: &Tx, is_start: bool, cleans: bool) -> Result<(), SessionError> {
        let is_emulated = tx.query_one(IS_EMULATED, &[]).await?.try_get(0).unwrap_or(false);
        if !is_emulated {
            tx.execute(FORGET_ALL, &[]).await?;
            return Ok(());
        }
        tx.execute(FREE, &[&self.lease.as_secs_f64()]).await?;
        tx.execute(FAIL_LOST_RUNS, &[]).await?;
        tx.execute(FORGET, &[]).await?;
        if cleans {
            tx.execute(CLEAN_DETAILS, &[&self.retention.as_secs_f64()]).await?;
        }
        let (mut jobs, mut schedules, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for row in tx.query(UNPLANNED, &[&is_start]).await? {
            let (Ok(job), Ok(text), Ok(now)) =
                (row.try_get::<_, i64>(0), row.try_get::<_, String>(1), row.try_get::<_, Timestamp>(2))
            else {
                continue;
            };
            // A date that does not exist has no time; the job stays unplanned.
            let Some(time) = text.parse::<Schedule>().ok().and_then(|schedule| schedule.first(now)) else {
                tracing::debug!(job, schedule = text, "the schedule of a cron job has no next time");
                continue;
            };
            jobs.push(job);
            schedules.push(text);
            times.push(time);
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let count = saturating::<u64>(jobs.len());
        tx.execute(PLAN, &[&is_start, &jobs, &schedules, &times]).await?;
        tracing::debug!(count, "planned cron jobs");
        tx.query("select pg_catalog.pg_notify($1, '')", &[&PLANNED]).await?;
        Ok(())
    }
}

async fn wait_for_change(events: &mut Receiver<Event>) {
    loop {
        match events.recv().await {
            Ok(Event::Notify { channel, .. }) if channel != CHANGED => {}
            Ok(Event::Notify { .. } | Event::Reconnected) | Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
