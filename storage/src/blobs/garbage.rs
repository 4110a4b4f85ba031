//! The garbage: jobs of `storage.blob_garbage`, which delete blobs whose rows are gone. Triggers write them, in the transaction
//! that takes the row away (storage/migrations/0004_blobs.sql).

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
    // Nothing is due at once.
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
    failed_message: "a blob was not deleted",
    dead_message: "the deletion of a blob was given up; the blob is kept, and its row in storage.blob_garbage",
    metrics: Metrics {
        done: "basalt_storage_blobs_deleted_total",
        failed: "basalt_storage_blob_deletions_failed_total",
        given_up: "basalt_storage_blob_deletions_given_up_total",
        waiting: "basalt_storage_blob_deletions_waiting",
        dead: "basalt_storage_blob_deletions_given_up",
    },
};

/// Deletions at once.
const CONCURRENCY: usize = 4;
/// A store that is away for a day costs nothing but room.
const ATTEMPTS: u32 = 40;
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Deletes blobs to which no row refers.
pub(crate) struct Collector {
    pool: ServicePool,
    store: BlobStore,
    images: Arc<Images>,
}

/// The garbage as jobs of `pool`'s login, which acts as the owner of schema `storage`.
fn queue(pool: ServicePool) -> Queue {
    Queue::new(pool, &TABLE, None)
}

/// A worker that deletes what is due; its attempts are tasks of `tracker`.
pub(crate) fn worker(
    pool: ServicePool,
    store: BlobStore,
    images: Arc<Images>,
    tracker: TaskTracker,
) -> Arc<Worker<Collector>> {
    let policy = Policy {
        concurrency: CONCURRENCY,
        pauses: jobs::doubling(FIRST_PAUSE, LONGEST_PAUSE, ATTEMPTS),
        time_limit: TIME_LIMIT,
        retention: Vec::new(),
    };
    let collector = Collector { pool: pool.clone(), store, images };
    Worker::new(queue(pool), collector, policy, tracker)
}

impl Handler for Collector {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let blob = BlobId::parse(&job.key).ok_or_else(|| Failure::permanent("this is no blob's name"))?;
        let unknown = |error: SessionError| Failure::transient(error.to_string());
        // Rows copied in SQL share a blob; the last of them to go leaves it to the garbage again.
        if is_in_use(&self.pool, blob).await.map_err(unknown)? {
            return Ok(Done::default());
        }
        let deleted = match job.kind.as_str() {
            "intent" => self.store.discard(blob).await,
            _ => self.store.delete(blob).await,
        };
        deleted.map_err(|error| Failure::transient(error.to_string()))?;
        // What was made of an image goes with it, as far as this server made it.
        self.images.purge(blob).await;
        Ok(Done::default())
    }
}

/// Whether a row refers to `blob`, or a writer does.
pub(super) async fn is_in_use(pool: &ServicePool, blob: BlobId) -> Result<bool, SessionError> {
    const IS_IN_USE: &str = "\
select exists (select from storage.blob_references r where r.version = $1::uuid::text)
  or exists (select from storage.blob_intents i where i.blob = $1)";
    let tx = pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
    let row = tx.query_one(IS_IN_USE, &[&blob.uuid()]).await;
    let row = tx.finish(row).await?;
    row.try_get(0).map_err(|error| SessionError::Unavailable(error.to_string()))
}
