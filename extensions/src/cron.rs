//! pg_cron: the planner keeps `basalt.cron_schedule` in step with `cron.job`, and a worker of `basalt_pg::jobs` claims
//! what is due and runs it (decision 0126).

mod planner;
mod runner;
mod schedule;

use std::sync::Arc;

use basalt_pg::database::Database;
use basalt_pg::jobs::{Completion, Metrics, Policy, Queue, Table, Worker};
use basalt_pg::pool::ServicePool;
use std::time::Duration;
use tokio_util::task::TaskTracker;

use crate::ExtensionsConfig;
pub(crate) use planner::Planner;
use runner::Runner;

/// Notified by a trigger of `cron.job`.
pub(crate) const CHANGED: &str = "basalt_cron";
/// Notified by the planner.
pub(crate) const PLANNED: &str = "basalt_planned";

/// Time for connecting and recording, in addition to the run.
const MARGIN: Duration = Duration::from_secs(60);

static TABLE: Table = Table {
    name: "cron",
    table: "basalt.cron_schedule",
    channel: Some(PLANNED),
    key: "jobid",
    key_type: "bigint",
    owner: None,
    kind: "'job'::text",
    columns: "schedule, due_at",
    listed: "schedule",
    order: "next_attempt_at",
    state: "case when next_attempt_at is null then 'unplanned' else 'planned' end",
    waiting: "next_attempt_at is not null",
    dead: "next_attempt_at is null",
    finished_at: "null::timestamptz",
    error: "last_error",
    outcome: None,
    on_claim: "backend_pid = null",
    on_done: Completion::Repeat("due_at"),
    on_retry: "",
    // The planner plans it again.
    on_dead: "next_attempt_at = null, attempts = 0",
    on_revive: "",
    failed_message: "a run of a cron job could not be made",
    dead_message: "a run of a cron job was lost; the job runs again at its next time",
    metrics: Metrics {
        done: "basalt_cron_runs_total",
        failed: "basalt_cron_runs_failed_total",
        given_up: "basalt_cron_runs_lost_total",
        waiting: "basalt_cron_jobs",
        dead: "basalt_cron_jobs_unplanned",
    },
};

fn time_limit(config: &ExtensionsConfig) -> Duration {
    config.cron_max_run_time.saturating_add(MARGIN)
}

/// The worker that runs due jobs with `login`.
pub(crate) fn worker(
    pool: ServicePool,
    login: &Database,
    config: &ExtensionsConfig,
    tracker: TaskTracker,
) -> Arc<Worker<Runner>> {
    let policy = Policy {
        concurrency: config.cron_concurrency,
        // A run is never repeated: the job runs again at its next time.
        pauses: Vec::new(),
        time_limit: time_limit(config),
        retention: Vec::new(),
    };
    let runner = Runner::new(pool.clone(), login, config.cron_max_run_time);
    Worker::new(Queue::new(pool, &TABLE, None), runner, policy, tracker)
}
