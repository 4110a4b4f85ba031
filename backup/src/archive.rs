//! Archives the log of the embedded PostgreSQL continuously, as a standby would receive it (decision 0161): over the replication protocol,
//! from a physical slot that keeps the log until it is archived. The slot's name contains the chain's id, so a restored or copied cluster,
//! which has no slot, begins a chain of its own.
//!
//! While the target is unreachable, PostgreSQL keeps the log up to `backup.max_kept_log`. Beyond that it invalidates the slot; the archive
//! then begins a new chain, which a new backup has to start.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::random;
use basalt_pg::database::Database;
use basalt_pg::replication::{Frame, Lsn, Replication, ReplicationStream};
use bytes::Bytes;
use jiff::Timestamp;
use metrics::{counter, gauge};
use object_store::path::Path;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_postgres::Client;

use crate::base;
use crate::blobs::BlobArchive;
use crate::error::BackupError;
use crate::target::Target;
use crate::wal::{self, Reach, SEGMENT_BYTES, SLOT_PREFIX};

/// Pauses after failures.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often a lasting failure is logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(300);
/// Time limit of a statement.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30);
/// The server sends at least a keep-alive in this time.
const SILENCE_LIMIT: Duration = Duration::from_secs(90);

/// What the archive needs.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The system's login.
    pub admin: Database,
    /// Where the log goes.
    pub target: Target,
    /// The project's name, which the target must belong to.
    pub project_name: String,
    /// The copies of stored objects.
    pub blobs: Arc<BlobArchive>,
    /// `backup.archive_interval`.
    pub interval: Duration,
    /// `backup.max_kept_log`.
    pub max_kept_log: u64,
    /// The current chain, for the scheduler: a chain without a backup needs one.
    pub chain: watch::Sender<Option<String>>,
}

/// What identifies a chain, for people.
#[derive(Serialize)]
struct ChainNote {
    system_identifier: String,
    timeline: u32,
    start_lsn: String,
    created_at: Timestamp,
}

/// The slot of a chain.
struct Slot {
    chain: String,
    restart_lsn: Lsn,
}

impl Archive {
    /// Archives until cancelled.
    #[expect(clippy::infinite_loop, reason = "the server cancels it")]
    pub async fn run(self) {
        let mut pause = FIRST_PAUSE;
        let mut failing: Option<Instant> = None;
        let mut reported: Option<Instant> = None;
        counter!("basalt_backup_archive_failures_total").absolute(0);
        loop {
            let began = Instant::now();
            let error = match self.follow().await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            counter!("basalt_backup_archive_failures_total").increment(1);
            if began.elapsed() > LONGEST_PAUSE {
                (pause, failing) = (FIRST_PAUSE, None);
            }
            let since = *failing.get_or_insert(began);
            if reported.is_none_or(|reported| reported.elapsed() > REPORT_INTERVAL) {
                reported = Some(Instant::now());
                tracing::warn!(
                    "cannot archive the log: {error}; retrying. PostgreSQL keeps the log meanwhile, up to backup.max_kept_log"
                );
            }
            self.alarm(since).await;
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// Logs an error once more than half of the kept log is used.
    async fn alarm(&self, since: Instant) {
        let Ok(client) = self.admin.connect().await else { return };
        let Ok(Some((waiting, status))) = waiting(&client).await else { return };
        gauge!("basalt_backup_log_waiting_bytes").set(waiting as f64);
        if waiting > self.max_kept_log / 2 || status == "lost" {
            tracing::error!(
                waiting_bytes = waiting,
                limit_bytes = self.max_kept_log,
                failing_s = since.elapsed().as_secs(),
                "the log cannot be archived to {}: at the limit PostgreSQL discards it, and point-in-time recovery has a gap until the next \
                 backup. Make the target reachable, or raise backup.max_kept_log",
                self.target.name()
            );
        }
    }

    async fn follow(&self) -> Result<std::convert::Infallible, BackupError> {
        self.target.claim(&self.project_name).await?;
        let client = self.admin.connect().await?;
        let mut connection = Replication::connect(&self.admin, base::MESSAGE_BYTES).await?;
        let (system_identifier, timeline) = base::identify(&mut connection).await?;
        let slot = slot(&client, &mut connection).await?;
        let start = wal::segment_start(slot.restart_lsn);
        let note = ChainNote {
            system_identifier,
            timeline,
            start_lsn: start.to_string(),
            created_at: crate::create::now(&client).await?,
        };
        let text =
            serde_json::to_vec_pretty(&note).map_err(|error| BackupError::Failed(error.to_string()))?;
        let _is_new =
            self.target.put_new(&format!("{}/chain.json", wal::chain_dir(&slot.chain)), text.into()).await?;
        self.chain.send_replace(Some(slot.chain.clone()));
        let command = format!(
            "START_REPLICATION SLOT {SLOT_PREFIX}{} PHYSICAL {start} TIMELINE {timeline}",
            slot.chain
        );
        let mut follower = Follower {
            archive: self,
            chain: slot.chain,
            timeline,
            stream: connection.start(&command).await?,
            segment: start,
            bytes: Vec::new(),
            stored: 0,
            pieces: Vec::new(),
        };
        let mut ticker = interval(self.interval);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut mark: Option<Reach> = None;
        loop {
            tokio::select! {
                frame = timeout(SILENCE_LIMIT, follower.stream.next()) => {
                    let frame = frame.map_err(|_elapsed| BackupError::Postgres("the replication stream is silent".to_owned()))?;
                    follower.receive(frame?).await?;
                }
                _ = ticker.tick(), if mark.is_none() => mark = Some(position(&client).await?),
            }
            if let Some(reach) = mark.take_if(|reach| reach.lsn <= follower.received()) {
                follower.store_piece().await?;
                self.blobs.copy_new().await?;
                self.target.put_json(&wal::reach_name(&follower.chain), &reach).await?;
                gauge!("basalt_backup_archived_at_seconds").set(reach.at.as_second() as f64);
                let waiting = waiting(&client).await?.map_or(0, |(bytes, _)| bytes);
                gauge!("basalt_backup_log_waiting_bytes").set(waiting as f64);
            }
        }
    }
}

/// The state of a stream: one segment in memory.
struct Follower<'a> {
    archive: &'a Archive,
    chain: String,
    timeline: u32,
    stream: ReplicationStream,
    /// Start of the current segment.
    segment: Lsn,
    /// Its bytes so far.
    bytes: Vec<u8>,
    /// How many of them are stored.
    stored: usize,
    /// The stored pieces, which the complete segment replaces.
    pieces: Vec<Path>,
}

impl Follower<'_> {
    fn received(&self) -> Lsn {
        Lsn(self.segment.0 + self.bytes.len() as u64)
    }

    async fn receive(&mut self, frame: Frame) -> Result<(), BackupError> {
        match frame {
            Frame::Data { start, mut payload, .. } => {
                if start != self.received() {
                    return Err(BackupError::Postgres(format!(
                        "the log continues at {start}, not {}",
                        self.received()
                    )));
                }
                while !payload.is_empty() {
                    let room = usize::try_from(SEGMENT_BYTES).unwrap_or(usize::MAX) - self.bytes.len();
                    let part = payload.split_to(room.min(payload.len()));
                    self.bytes.extend_from_slice(&part);
                    if self.bytes.len() as u64 == SEGMENT_BYTES {
                        self.complete_segment().await?;
                    }
                }
            }
            Frame::KeepAlive { wants_reply: true, .. } => {
                self.stream.acknowledge(Lsn(self.segment.0 + self.stored as u64));
            }
            Frame::KeepAlive { .. } => {}
        }
        Ok(())
    }

    /// Stores what is new in the current segment.
    async fn store_piece(&mut self) -> Result<(), BackupError> {
        let new = self.bytes.get(self.stored..).unwrap_or_default();
        if !new.is_empty() {
            let name = wal::segment_name(self.timeline, self.segment);
            let new = Bytes::copy_from_slice(new);
            let piece = wal::store(&self.archive.target, &self.chain, &name, self.stored, new).await?;
            self.pieces.push(piece);
            self.stored = self.bytes.len();
        }
        self.stream.acknowledge(Lsn(self.segment.0 + self.stored as u64));
        Ok(())
    }

    /// Stores the complete segment as one piece, then deletes the pieces it replaces.
    async fn complete_segment(&mut self) -> Result<(), BackupError> {
        let name = wal::segment_name(self.timeline, self.segment);
        let complete = Bytes::from(std::mem::take(&mut self.bytes));
        let target = &self.archive.target;
        let stored = wal::store(target, &self.chain, &name, 0, complete).await?;
        let dir = format!("{}/{name}", wal::chain_dir(&self.chain));
        // Includes those of an earlier run.
        for object in target.list(&dir).await? {
            if object.location != stored {
                target.delete(&object.location).await?;
            }
        }
        self.pieces.clear();
        self.stored = 0;
        self.segment = Lsn(self.segment.0 + SEGMENT_BYTES);
        self.stream.acknowledge(self.segment);
        Ok(())
    }
}

/// The slot of the current chain; makes a new one if there is none, or if PostgreSQL has discarded its log.
async fn slot(client: &Client, connection: &mut Replication) -> Result<Slot, BackupError> {
    const SLOTS: &str = "
        select slot_name::text, restart_lsn::text, coalesce(wal_status, 'lost') from pg_catalog.pg_replication_slots
        where slot_type = 'physical' and starts_with(slot_name::text, $1) order by slot_name";
    let mut found = None;
    for row in client.query(SLOTS, &[&SLOT_PREFIX]).await? {
        let (name, restart_lsn, status): (String, Option<String>, String) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let restart_lsn = restart_lsn.and_then(|lsn| lsn.parse().ok());
        let chain = name.strip_prefix(SLOT_PREFIX).unwrap_or_default().to_owned();
        match restart_lsn.filter(|_| status != "lost" && found.is_none()) {
            Some(restart_lsn) => found = Some(Slot { chain, restart_lsn }),
            None => {
                tracing::error!(
                    chain,
                    "the log was discarded before it was archived: point-in-time recovery has a gap until the next backup, which starts now"
                );
                let _rows =
                    client.execute("select pg_catalog.pg_drop_replication_slot($1)", &[&name]).await?;
            }
        }
    }
    if let Some(slot) = found {
        return Ok(slot);
    }
    let chain = hex::encode(random::bytes::<8>());
    let name = format!("{SLOT_PREFIX}{chain}");
    let _row = connection.query(&format!("CREATE_REPLICATION_SLOT {name} PHYSICAL RESERVE_WAL")).await?;
    let row = client
        .query_one(
            "select restart_lsn::text from pg_catalog.pg_replication_slots where slot_name = $1::text",
            &[&name],
        )
        .await?;
    let restart_lsn: String = row.try_get(0)?;
    let restart_lsn =
        restart_lsn.parse().map_err(|()| BackupError::Postgres("the new slot has no position".to_owned()))?;
    Ok(Slot { chain, restart_lsn })
}

/// PostgreSQL's time, and the end of what was durable then: everything acknowledged before that time.
async fn position(client: &Client) -> Result<Reach, BackupError> {
    const POSITION: &str = "select pg_catalog.clock_timestamp(), pg_catalog.pg_current_wal_flush_lsn()::text";
    let queried = timeout(STATEMENT_LIMIT, client.query_one(POSITION, &[]));
    let row = queried.await.map_err(|_elapsed| BackupError::Postgres("no response in time".to_owned()))??;
    let (at, lsn): (Timestamp, String) = (row.try_get(0)?, row.try_get(1)?);
    let lsn = lsn.parse().map_err(|()| BackupError::Postgres("invalid position in the log".to_owned()))?;
    Ok(Reach { at, lsn })
}

/// Bytes of the log that wait for the archive, and the state of the slot; `None` without a slot.
///
/// # Errors
/// The database failed.
pub async fn waiting(client: &Client) -> Result<Option<(u64, String)>, BackupError> {
    const WAITING: &str = "
        select pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)::bigint, coalesce(wal_status, 'lost')
        from pg_catalog.pg_replication_slots
        where slot_type = 'physical' and starts_with(slot_name::text, $1) order by slot_name limit 1";
    let queried = timeout(STATEMENT_LIMIT, client.query_opt(WAITING, &[&SLOT_PREFIX]));
    let row = queried.await.map_err(|_elapsed| BackupError::Postgres("no response in time".to_owned()))??;
    let Some(row) = row else { return Ok(None) };
    let bytes: Option<i64> = row.try_get(0)?;
    Ok(Some((bytes.unwrap_or_default().unsigned_abs(), row.try_get(1)?)))
}

/// Removes the archive's slots, so that PostgreSQL does not keep its log for an archive that was switched off.
///
/// # Errors
/// The database failed.
pub async fn drop_slots(client: &Client) -> Result<(), BackupError> {
    const DROP: &str = "
        select pg_catalog.pg_drop_replication_slot(slot_name) from pg_catalog.pg_replication_slots
        where slot_type = 'physical' and not active and starts_with(slot_name::text, $1)";
    let _rows = client.query(DROP, &[&SLOT_PREFIX]).await?;
    Ok(())
}
