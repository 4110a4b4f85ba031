//! Tracks which transactions are visible to other sessions. A change is received before its transaction is
//! visible, because the log is flushed first: a lookup right away would miss the row, and the change would
//! be lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use basalt_pg::session::{SessionError, Sessions, Statement};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::visibility::scope;

/// Maximum time until a commit becomes visible: with synchronous replication it waits for a standby.
const VISIBLE_LIMIT: Duration = Duration::from_secs(60);
/// How long a snapshot is used. It is queried with the lower 32 bits of transaction ids, which repeat after
/// 2³² transactions.
pub(super) const SNAPSHOT_AGE: Duration = Duration::from_secs(600);

/// Recent transactions that may not be visible yet: more than commit within a few milliseconds.
const LAST_TRANSACTIONS: usize = 256;

/// A snapshot of finished transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// All transactions before this one are finished.
    min: u64,
    /// No transaction from this one on is finished.
    max: u64,
    /// Unfinished transactions in between.
    running: Vec<u64>,
}

impl Snapshot {
    /// Parses the text format of `pg_snapshot`, `10:20:10,14,15`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (min, max, running) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
        let running = running.split(',').filter(|xid| !xid.is_empty()).map(|xid| xid.parse().ok());
        Some(Self { min, max, running: running.collect::<Option<_>>()? })
    }

    /// Whether the transaction with these lower 32 bits is finished. It must be recent: at most 2³¹ away.
    pub(super) fn has(&self, xid: u32) -> bool {
        let epoch = self.max & !0xffff_ffff;
        let mut full = epoch | u64::from(xid);
        if full > self.max.saturating_add(1 << 31) {
            full = full.saturating_sub(1 << 32);
        } else if full.saturating_add(1 << 31) < self.max {
            full += 1 << 32;
        }
        full < self.min || (full < self.max && !self.running.contains(&full))
    }
}

pub(super) struct Snapshots {
    sessions: Sessions,
    /// Number of the last requested snapshot.
    next: AtomicU64,
    /// The latest snapshot; held only to read or replace it.
    last: Mutex<Option<Taken>>,
    /// Serializes queries: one result serves all waiting callers.
    taking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Taken {
    number: u64,
    at: Instant,
    snapshot: Arc<Snapshot>,
}

impl Snapshots {
    pub(super) fn new(sessions: Sessions) -> Self {
        Self {
            sessions,
            next: AtomicU64::new(0),
            last: Mutex::default(),
            taking: tokio::sync::Mutex::default(),
        }
    }

    fn last(&self) -> Option<Taken> {
        self.last.lock().clone()
    }

    fn is_known(&self, xid: u32) -> bool {
        self.last().is_some_and(|taken| taken.at.elapsed() < SNAPSHOT_AGE && taken.snapshot.has(xid))
    }

    /// A current snapshot. One query serves all callers that arrived before it started.
    ///
    /// # Errors
    /// PostgreSQL did not respond.
    pub(super) async fn take(&self) -> Result<Arc<Snapshot>, SessionError> {
        let before = self.next.load(Ordering::Acquire);
        let _guard = self.taking.lock().await;
        if let Some(taken) = self.last()
            && taken.number > before
        {
            return Ok(taken.snapshot);
        }
        let number = self.next.fetch_add(1, Ordering::AcqRel) + 1;
        let at = Instant::now();
        let text: Arc<str> = "select pg_catalog.pg_current_snapshot()::text".into();
        let answers =
            self.sessions.run(scope(Vec::new()), vec![Statement { text, params: Vec::new() }]).await?;
        let snapshot = answers.first().and_then(|rows| rows.first()?.text(0)).and_then(Snapshot::parse);
        let snapshot = Arc::new(snapshot.ok_or_else(|| SessionError::Unavailable("no snapshot".to_owned()))?);
        let taken = Taken { number, at, snapshot: Arc::clone(&snapshot) };
        *self.last.lock() = Some(taken);
        Ok(snapshot)
    }

    /// Waits until the transaction is visible to other sessions.
    pub(super) async fn wait_visible(&self, xid: u32) -> Result<(), SessionError> {
        const MIN_PAUSE: Duration = Duration::from_micros(500);
        const MAX_PAUSE: Duration = Duration::from_millis(20);
        let end = Instant::now() + VISIBLE_LIMIT;
        let mut pause = MIN_PAUSE;
        while !self.is_known(xid) && !self.take().await?.has(xid) {
            if Instant::now() > end {
                return Err(SessionError::Deadline);
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        Ok(())
    }
}

/// The transactions received last. A new subscriber does not receive their changes, so they must be visible
/// to it.
#[derive(Debug, Default)]
pub(super) struct LastTransactions(Mutex<VecDeque<u32>>);

impl LastTransactions {
    pub(super) fn add(&self, xid: u32) {
        let mut last = self.0.lock();
        if last.len() >= LAST_TRANSACTIONS {
            last.pop_front();
        }
        last.push_back(xid);
    }

    /// Called after a gap: the database may be another one, with other transaction ids.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(super) fn all(&self) -> Vec<u32> {
        self.0.lock().iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_contains_finished_transactions() {
        let snapshot = Snapshot::parse("10:20:10,14").unwrap();
        assert!(snapshot.has(9) && snapshot.has(11) && snapshot.has(19));
        assert!(!snapshot.has(10) && !snapshot.has(14) && !snapshot.has(20));
        assert!(Snapshot::parse("10:10:").unwrap().has(9));
        assert_eq!(Snapshot::parse("10:x:"), None);
    }

    #[test]
    fn handles_wraparound_of_transaction_ids() {
        let wrapped = Snapshot { min: (1 << 32) + 5, max: (1 << 32) + 5, running: Vec::new() };
        assert!(wrapped.has(u32::MAX) && wrapped.has(4) && !wrapped.has(5));
        let before = Snapshot { min: (1 << 32) - 2, max: (1 << 32) - 2, running: Vec::new() };
        assert!(before.has(u32::MAX - 2) && !before.has(3));
    }
}
