//! Scheduled backups and verifications: jobs of `pg::jobs`, one row per kind, so that of several servers one makes each. Starts the archive
//! of the log, and makes the backup that a new chain of it needs.

use std::sync::Arc;
use std::time::Duration;

use basalt_backup::archive::{self, Archive};
use basalt_backup::restore::{self, Moment};
use basalt_backup::runs::{self, Kind, Schedule};
use basalt_backup::{BackupError, BlobArchive, list_sets};
use basalt_core::clock::Clock;
use basalt_pg::database::Database;
use basalt_pg::jobs::{Completion, Done, Failure, Handler, Job, Metrics, Policy, Queue, Table, Worker};
use basalt_pg::listen::Event;
use basalt_pg::pool::ServicePool;
use basalt_storage::blobs::BlobStore;
use jiff::Timestamp;
use metrics::gauge;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Backups, Method, create_target};
use crate::config::Config;
use crate::secrets::Secrets;

/// How often the schedule is compared with the rows, and the gauges are set.
const INTERVAL: Duration = Duration::from_secs(15);
/// Pauses after a failed run.
const PAUSES: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1800)];
/// Time limit of a run. If its server is killed, the planner frees it.
const TIME_LIMIT: Duration = Duration::from_secs(12 * 3600);

static TABLE: Table = Table {
    name: "backup",
    table: "basalt.backup_jobs",
    channel: None,
    key: "kind",
    key_type: "text",
    owner: None,
    kind: "kind",
    columns: "schedule",
    listed: "schedule",
    order: "next_attempt_at",
    state: "case when next_attempt_at is null then 'unplanned' else 'planned' end",
    waiting: "next_attempt_at is not null",
    dead: "next_attempt_at is null",
    finished_at: "null::timestamptz",
    error: "last_error",
    outcome: None,
    on_claim: "",
    on_done: Completion::Repeat("due_at"),
    on_retry: "",
    // Planned again for its next time.
    on_dead: "next_attempt_at = null, attempts = 0",
    on_revive: "",
    failed_message: "a backup or its verification failed",
    dead_message: "a backup or its verification failed repeatedly; it runs again at its next time",
    metrics: Metrics {
        done: "basalt_backup_runs_total",
        failed: "basalt_backup_runs_failed_total",
        given_up: "basalt_backup_runs_given_up_total",
        waiting: "basalt_backup_jobs",
        dead: "basalt_backup_jobs_unplanned",
    },
};

/// What the scheduler needs from the server.
pub(crate) struct Dependencies<'a> {
    pub(crate) config: &'a Config,
    pub(crate) secrets: &'a Secrets,
    pub(crate) admin: &'a Database,
    pub(crate) pool: ServicePool,
    pub(crate) store: &'a BlobStore,
    pub(crate) events: broadcast::Receiver<Event>,
    pub(crate) tracker: &'a TaskTracker,
    pub(crate) shutdown: &'a CancellationToken,
}

/// Starts the tasks that `[backup]` asks for.
///
/// # Errors
/// The target cannot be opened, or `pg_dump` is missing.
pub(crate) async fn start(dependencies: Dependencies<'_>) -> Result<(), BackupError> {
    let Dependencies { config, secrets, admin, pool, store, events, tracker, shutdown } = dependencies;
    let archives = config.is_embedded() && config.backup.archives();
    if config.is_embedded() && !archives {
        let client = admin.connect().await?;
        archive::drop_slots(&client).await?;
    }
    if config.backup.target.is_none() {
        return Ok(());
    }
    let target = create_target(config, None)?;
    let blobs = BlobArchive::new(target.clone(), store.clone(), config.backup.transfers);
    store.watch(Arc::<BlobArchive>::clone(&blobs));
    let backups =
        Backups::new(config, secrets, admin, target.clone(), Some(Arc::clone(&blobs)), Method::Files).await?;
    let (chain, chains) = watch::channel(None);
    if archives {
        let archive = Archive {
            admin: admin.clone(),
            target,
            project_name: secrets.project_name(),
            blobs,
            interval: config.backup.archive_interval,
            max_kept_log: config.backup.max_kept_log,
            chain,
        };
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(archive.run()));
    }
    let policy =
        Policy { concurrency: 1, pauses: PAUSES.to_vec(), time_limit: TIME_LIMIT, retention: Vec::new() };
    let runner = Runner { backups: backups.clone() };
    let worker = Worker::new(Queue::new(pool, &TABLE, None), runner, policy, tracker.clone());
    tracker.spawn(worker.run(events, shutdown.clone()));
    let planner = Planner { backups, admin: admin.clone(), chains };
    tracker.spawn(shutdown.clone().run_until_cancelled_owned(planner.keep()));
    Ok(())
}

struct Runner {
    backups: Backups,
}

impl Runner {
    /// PostgreSQL's time, by which jobs are due: this machine's may be behind, and the same time would come again.
    async fn now(&self) -> Timestamp {
        let now = async { now(&self.backups.admin.connect().await?).await };
        now.await.unwrap_or_else(|_unreachable: BackupError| Clock::system().now())
    }
}

impl Handler for Runner {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let schedule: Option<String> = job.row.try_get("schedule").ok();
        let schedule: Option<Schedule> = schedule.and_then(|schedule| schedule.parse().ok());
        match job.key.as_str() {
            "verify" => {
                let plan = restore::plan(self.backups.target(), &Moment::Backup(None)).await;
                let plan = plan.map_err(|error| Failure::transient(error.to_string()))?;
                let verified = Box::pin(self.backups.verify(&plan, &|_| {})).await;
                let verified = verified.map_err(|error| Failure::transient(error.to_string()))?;
                tracing::info!(
                    backup = plan.manifest.id,
                    tables = verified.tables,
                    blobs = verified.blobs,
                    "backup verified"
                );
            }
            _ => {
                let manifest = Box::pin(self.backups.backup(&|_| {})).await;
                let manifest = manifest.map_err(|error| Failure::transient(error.to_string()))?;
                tracing::info!(backup = manifest.id, bytes = manifest.bytes(), "backup made");
            }
        }
        let now = self.now().await;
        // A schedule that was removed meanwhile: the planner deletes the row.
        let due_at = schedule.and_then(|schedule| schedule.next(now)).or(Some(Timestamp::MAX));
        Ok(Done { outcome: None, due_at })
    }
}

/// Keeps rows and gauges up to date.
struct Planner {
    backups: Backups,
    admin: Database,
    chains: watch::Receiver<Option<String>>,
}

impl Planner {
    async fn keep(mut self) {
        let mut has_failed = false;
        loop {
            match self.plan().await {
                Ok(()) => has_failed = false,
                Err(error) if !has_failed => {
                    has_failed = true;
                    tracing::warn!(%error, "cannot plan backups; retrying");
                }
                Err(error) => tracing::debug!(%error, "cannot plan backups"),
            }
            tokio::select! {
                () = sleep(INTERVAL) => {}
                // The sender is gone if nothing is archived.
                Ok(()) = self.chains.changed() => {}
            }
        }
    }

    async fn plan(&mut self) -> Result<(), BackupError> {
        let client = self.admin.connect().await?;
        let settings = &self.backups.config.backup;
        free(&client).await?;
        for (kind, schedule) in
            [(Kind::Backup, &settings.schedule), (Kind::Verify, &settings.verify_schedule)]
        {
            plan_kind(&client, kind, schedule.as_deref()).await?;
            report(&client, kind).await?;
        }
        drop(client);
        let chain = self.chains.borrow_and_update().clone();
        if let Some(chain) = chain
            && !self.has_backup(&chain).await?
        {
            match Box::pin(self.backups.backup(&|_| {})).await {
                Ok(manifest) => {
                    tracing::info!(backup = manifest.id, "backup made: the archived log begins with it");
                }
                // The other backup may be the one that is needed.
                Err(BackupError::Busy) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn has_backup(&self, chain: &str) -> Result<bool, BackupError> {
        let sets = list_sets(self.backups.target()).await?;
        let mut complete = sets.iter().filter_map(|set| set.manifest.as_ref()?.as_ref().ok());
        Ok(complete.any(|manifest| manifest.database.chain.as_deref() == Some(chain)))
    }
}

/// PostgreSQL's time.
async fn now(client: &Client) -> Result<Timestamp, BackupError> {
    Ok(client.query_one("select pg_catalog.clock_timestamp()", &[]).await?.try_get(0)?)
}

/// Writes the row of a kind if its schedule changed, or if the clock was set back since it was written; deletes it without a schedule.
async fn plan_kind(client: &Client, kind: Kind, schedule: Option<&str>) -> Result<(), BackupError> {
    const FORGET: &str = "delete from basalt.backup_jobs where kind = $1";
    const PLAN: &str = "
        insert into basalt.backup_jobs as j (kind, schedule, due_at, next_attempt_at) values ($1, $2, $3, $3)
        on conflict (kind) do update
          set schedule = excluded.schedule, due_at = excluded.due_at, next_attempt_at = excluded.next_attempt_at, attempts = 0
          where j.next_attempt_at is null
            or (j.attempts = 0 and (j.schedule <> excluded.schedule or j.next_attempt_at > excluded.next_attempt_at))";
    let next = schedule.and_then(|schedule| Some((schedule, schedule.parse::<Schedule>().ok()?)));
    let now = now(client).await?;
    let next = next.and_then(|(text, schedule)| Some((text, schedule.next(now)?)));
    let _rows = match next {
        Some((schedule, due_at)) => client.execute(PLAN, &[&kind.as_str(), &schedule, &due_at]).await?,
        None => client.execute(FORGET, &[&kind.as_str()]).await?,
    };
    Ok(())
}

/// Frees a run whose server is gone: its lease is far from its end, and nothing holds the lock of backups.
async fn free(client: &Client) -> Result<(), BackupError> {
    // Failed runs that wait for their next attempt are due sooner than two hours; a run takes the lock within a minute. A lease that ends later
    // than a new one would is from before the clock was set back.
    const FREE: &str = "
        update basalt.backup_jobs set next_attempt_at = null, attempts = 0
        where attempts > 0 and next_attempt_at > now() + interval '2 hours'
          and next_attempt_at not between now() + make_interval(secs => $1) - interval '60 s' and now() + make_interval(secs => $1)";
    if runs::lock(client).await.is_ok() {
        // As the worker computes it.
        let lease = TIME_LIMIT + TIME_LIMIT / 10;
        let _rows = client.execute(FREE, &[&lease.as_secs_f64()]).await?;
        runs::unlock(client).await?;
    }
    Ok(())
}

async fn report(client: &Client, kind: Kind) -> Result<(), BackupError> {
    let Some(last) = runs::last(client, kind).await? else { return Ok(()) };
    let kind = kind.as_str();
    if let Some(succeeded_at) = last.succeeded_at {
        gauge!("basalt_backup_last_success_seconds", "kind" => kind).set(succeeded_at.as_second() as f64);
    }
    gauge!("basalt_backup_last_run_failed", "kind" => kind).set(f64::from(u8::from(last.error.is_some())));
    Ok(())
}
