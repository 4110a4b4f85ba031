//! Removes what failed uploads left behind. Abandoned intents become garbage, and their partial blobs with
//! them. Expired resumable uploads are deleted; their parts become garbage. Partial blobs without an intent
//! (the intent's commit was lost in a power failure, or a backup was restored) are removed directly.

use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::intents::ABANDONED_AFTER;
use super::{BlobError, BlobId, BlobStore};

const INTERVAL: Duration = Duration::from_secs(3600);
/// Delay after a failure.
const RETRY: Duration = Duration::from_secs(60);
const STATEMENT_LIMIT: Duration = Duration::from_secs(30);

/// Why a sweep failed.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] SessionError),
    /// The blob store failed.
    #[error(transparent)]
    Blobs(#[from] BlobError),
}

/// Counts of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Abandoned intents turned into garbage.
    pub intents: u64,
    /// Expired resumable uploads.
    pub uploads: u64,
    /// Removed partial blobs.
    pub partial_uploads: u64,
}

/// A partial blob: a file not renamed yet, or an S3 upload not completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IncompleteUpload {
    pub(super) blob: BlobId,
    /// Suffix of the file, or id of the S3 upload.
    pub(super) mark: String,
    pub(super) started_at: Timestamp,
}

/// Sweeps immediately and then every hour until `shutdown`.
pub(crate) async fn run(pool: ServicePool, store: BlobStore, clock: Clock, shutdown: CancellationToken) {
    loop {
        let pause = match sweep(&pool, &store, &clock, ABANDONED_AFTER).await {
            Ok(swept) => {
                if swept != Swept::default() {
                    let Swept { intents, uploads, partial_uploads } = swept;
                    tracing::info!(intents, uploads, partial_uploads, "cleaned up after failed uploads");
                }
                INTERVAL
            }
            Err(error) => {
                tracing::info!(%error, "could not clean up after failed uploads; retrying in a minute");
                RETRY
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(pause) => {}
        }
    }
}

/// Cleans up what has been inactive for `age`.
///
/// # Errors
/// The database or the store failed; completed steps are not undone.
pub async fn sweep(
    pool: &ServicePool,
    store: &BlobStore,
    clock: &Clock,
    age: Duration,
) -> Result<Swept, SweepError> {
    const DISCARD: &str = "\
with gone as (
  delete from storage.blob_intents where heartbeat_at <= now() - make_interval(secs => $1) returning blob)
insert into storage.blob_garbage (blob, kind) select blob, 'intent' from gone on conflict (blob) do nothing";
    const EXPIRE: &str = "delete from storage.tus_uploads where expires_at <= now()";
    const KEPT: &str = "select blob from storage.blob_intents where blob = any($1)";
    let tx = pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
    let intents = tx.execute(DISCARD, &[&age.as_secs_f64()]).await;
    let intents = tx.finish(intents).await?;
    let tx = pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
    let uploads = tx.execute(EXPIRE, &[]).await;
    let uploads = tx.finish(uploads).await?;
    let mut swept = Swept { intents, uploads, partial_uploads: 0 };

    let since = SignedDuration::try_from(age).ok().and_then(|age| clock.now().checked_sub(age).ok());
    let since = since.unwrap_or(Timestamp::MIN);
    let mut partial_uploads = store.partial_uploads().await?;
    partial_uploads.retain(|partial| partial.started_at <= since);
    if partial_uploads.is_empty() {
        return Ok(swept);
    }
    let blobs: Vec<Uuid> = partial_uploads.iter().map(|partial| partial.blob.uuid()).collect();
    let tx = pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
    let kept = tx.query(KEPT, &[&blobs]).await;
    let kept: Vec<Uuid> = tx.finish(kept).await?.iter().filter_map(|row| row.try_get(0).ok()).collect();
    for partial in partial_uploads {
        if !kept.contains(&partial.blob.uuid()) {
            store.remove_partial(&partial).await?;
            swept.partial_uploads += 1;
        }
    }
    Ok(swept)
}
