//! Garbage collection: jobs in `storage.blob_garbage` that delete blobs no row refers to. Triggers insert
//! them in the transaction that deletes the row (storage/migrations/0004_blobs.sql).

use std::sync::Arc;
use std::time::Duration;

use basalt_pg::jobs::{self, Completion, Done, Failure, Handler, Job, Metrics, Policy, Queue, Table, Worker};
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{BlobId, BlobStore};
use crate::images::Images;

const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

static TABLE: Table = Table {
    name: "blob deletion",
    table: "storage.blob_garbage",
    // Jobs are never due immediately.
    channel: None,
    key: "blob",
    key_type: "uuid",
    owner: None,
    kind: "kind",
    columns: "kind as left_by",
    listed: "kind as left_by",
    order: "next_attempt_at",
    state: "case when given_up_at is null then 'queued' else 'dead' end",
    waiting: "given_up_at is null",
    dead: "given_up_at is not null",
    finished_at: "given_up_at",
    error: "last_error",
    outcome: None,
    on_claim: "",
    on_done: Completion::Delete,
    on_retry: "",
    on_dead: "given_up_at = now()",
    on_revive: "given_up_at = null",
    failed_message: "could not delete a blob",
    dead_message: "giving up deleting a blob; it stays in the store, with its row in storage.blob_garbage",
    metrics: Metrics {
        done: "basalt_storage_blobs_deleted_total",
        failed: "basalt_storage_blob_deletions_failed_total",
        given_up: "basalt_storage_blob_deletions_given_up_total",
        waiting: "basalt_storage_blob_deletions_waiting",
        dead: "basalt_storage_blob_deletions_given_up",
    },
};

/// Concurrent deletions.
const CONCURRENCY: usize = 4;
/// Enough for an outage of a day.
const ATTEMPTS: u32 = 40;
const MIN_PAUSE: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_secs(3600);
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Deletes blobs that no row refers to.
pub(crate) struct Collector {
    pool: ServicePool,
    store: BlobStore,
    images: Arc<Images>,
}

/// Job queue; `pool` must act as the owner of schema `storage`.
fn queue(pool: ServicePool) -> Queue {
    Queue::new(pool, &TABLE, None)
}

/// Creates the worker that deletes due blobs; attempts run as tasks of `tracker`.
pub(crate) fn worker(
    pool: ServicePool,
    store: BlobStore,
    images: Arc<Images>,
    tracker: TaskTracker,
) -> Arc<Worker<Collector>> {
    let policy = Policy {
        concurrency: CONCURRENCY,
        pauses: jobs::doubling(MIN_PAUSE, MAX_PAUSE, ATTEMPTS),
        time_limit: TIME_LIMIT,
        retention: Vec::new(),
    };
    let collector = Collector { pool: pool.clone(), store, images };
    Worker::new(queue(pool), collector, policy, tracker)
}

impl Handler for Collector {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let blob = BlobId::parse(&job.key).ok_or_else(|| Failure::permanent("invalid blob name"))?;
        let unknown = |error: SessionError| Failure::transient(error.to_string());
        // Rows copied in SQL may share a blob; deleting the last of them queues it again.
        if is_in_use(&self.pool, blob).await.map_err(unknown)? {
            return Ok(Done::default());
        }
        let deleted = match job.kind.as_str() {
            "intent" => self.store.discard(blob).await,
            _ => self.store.delete(blob).await,
        };
        deleted.map_err(|error| Failure::transient(error.to_string()))?;
        // Only this server's cached variants can be removed.
        self.images.purge(blob).await;
        Ok(Done::default())
    }
}

/// Whether a row or a running upload refers to `blob`.
pub(super) async fn is_in_use(pool: &ServicePool, blob: BlobId) -> Result<bool, SessionError> {
    const IS_IN_USE: &str = "\
select exists (select from storage.blob_references r where r.version = $1::uuid::text)
  or exists (select from storage.blob_intents i where i.blob = $1)";
    let tx = pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
    let row = tx.query_one(IS_IN_USE, &[&blob.uuid()]).await;
    let row = tx.finish(row).await?;
    row.try_get(0).map_err(|error| SessionError::Unavailable(error.to_string()))
}
