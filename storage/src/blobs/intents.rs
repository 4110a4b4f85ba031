//! Intents: rows of `storage.blob_intents`, one per blob being written. An intent is committed before the
//! first byte is stored, and replaced by the object's row in one transaction, so that every blob belongs to
//! a row or an intent at any moment, including after a crash.
//!
//! An [`Intent`] keeps its row alive; dropped before [`Intent::done`], it turns the blob into garbage. That
//! is safe wherever the writer stopped, even if the outcome of the last COMMIT is unknown: a successful
//! COMMIT removed the intent's row, and a later one finds no row and must be rolled back ([`commit_step`]).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use basalt_pg::pool::ServicePool;
use basalt_pg::session::{SessionError, Statement};
use basalt_pg::sql::Param;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::BlobId;

/// Interval between heartbeats of active intents.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// An intent without a heartbeat for this long is abandoned.
pub(super) const ABANDONED_AFTER: Duration = Duration::from_secs(3600);
const STATEMENT_LIMIT: Duration = Duration::from_secs(10);
/// Most abandoned intents kept in memory while the database is unreachable; the sweeper finds the others.
const MAX_ABANDONED: usize = 10_000;

const TOUCH: &str = "update storage.blob_intents set heartbeat_at = now() where blob = any($1)";
const DISCARD: &str = "\
with gone as (delete from storage.blob_intents where blob = any($1) returning blob)
insert into storage.blob_garbage (blob, kind) select blob, 'intent' from gone on conflict (blob) do nothing";

/// Inserts the intent; must run as `service_role`.
#[must_use]
pub fn begin_step(blob: BlobId) -> Statement {
    step("insert into storage.blob_intents (blob) values ($1::uuid)", blob)
}

/// Deletes the intent, as `service_role`, in the transaction that assigns the blob to a row. If it returns
/// no row, the intent was swept, the blob may be deleted, and the transaction must be rolled back.
#[must_use]
pub fn commit_step(blob: BlobId) -> Statement {
    step("delete from storage.blob_intents where blob = $1::uuid returning blob", blob)
}

fn step(text: &'static str, blob: BlobId) -> Statement {
    Statement { text: Arc::from(text), params: vec![Param::from_display(blob)] }
}

/// The intents of this server's writers. Cheap to clone.
#[derive(Clone)]
pub struct Intents {
    pool: ServicePool,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Held briefly, never across an await.
    sets: Mutex<Sets>,
    abandoned: Notify,
}

#[derive(Default)]
struct Sets {
    alive: HashSet<Uuid>,
    abandoned: HashSet<Uuid>,
}

impl std::fmt::Debug for Intents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Intents")
    }
}

impl Intents {
    /// `pool` must act as the owner of schema `storage`.
    #[must_use]
    pub fn new(pool: ServicePool) -> Self {
        Self { pool, shared: Arc::default() }
    }

    /// Keeps `blob`'s intent alive from now on. Call before running [`begin_step`].
    pub fn keep(&self, blob: BlobId) -> Intent {
        let _new = self.shared.sets().alive.insert(blob.uuid());
        Intent { blob, shared: Arc::clone(&self.shared), is_done: false }
    }

    /// Sends heartbeats and discards abandoned intents until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let ended = tokio::select! {
                () = shutdown.cancelled() => true,
                () = self.shared.abandoned.notified() => false,
                _ = heartbeat.tick() => {
                    self.touch().await;
                    false
                }
            };
            self.discard().await;
            if ended {
                return;
            }
        }
    }

    async fn touch(&self) {
        let alive: Vec<Uuid> = self.shared.sets().alive.iter().copied().collect();
        if alive.is_empty() {
            return;
        }
        if let Err(error) = self.execute(TOUCH, &alive).await {
            tracing::warn!(%error, "could not update the heartbeats of uploads; retrying in a minute");
        }
    }

    /// On failure the next heartbeat retries.
    async fn discard(&self) {
        let abandoned: Vec<Uuid> = self.shared.sets().abandoned.drain().collect();
        if abandoned.is_empty() {
            return;
        }
        if let Err(error) = self.execute(DISCARD, &abandoned).await {
            tracing::info!(%error, "could not queue failed uploads for deletion; retrying in a minute");
            let mut sets = self.shared.sets();
            let room = MAX_ABANDONED.saturating_sub(sets.abandoned.len());
            sets.abandoned.extend(abandoned.into_iter().take(room));
        }
    }

    async fn execute(&self, sql: &str, blobs: &[Uuid]) -> Result<u64, SessionError> {
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let result = tx.execute(sql, &[&blobs]).await;
        tx.finish(result).await
    }
}

impl Shared {
    fn sets(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock()
    }
}

/// Keeps a blob's intent alive while the blob is being written.
#[must_use = "dropping it turns the blob into garbage"]
pub struct Intent {
    blob: BlobId,
    shared: Arc<Shared>,
    is_done: bool,
}

impl std::fmt::Debug for Intent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Intent({})", self.blob)
    }
}

impl Intent {
    /// The blob being written.
    #[must_use]
    pub const fn blob(&self) -> BlobId {
        self.blob
    }

    /// Ends the intent after a transaction with [`commit_step`] was committed: the blob belongs to a row.
    pub fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Intent {
    fn drop(&mut self) {
        let mut sets = self.shared.sets();
        let _was_alive = sets.alive.remove(&self.blob.uuid());
        if !self.is_done && sets.abandoned.len() < MAX_ABANDONED {
            let _new = sets.abandoned.insert(self.blob.uuid());
            drop(sets);
            self.shared.abandoned.notify_one();
        }
    }
}
