//! Slow lanes: accounts whose policies or filters failed or exceeded their time budget on a table. Their
//! batches are evaluated on a separate connection, one at a time per lane, so that no other subscriber waits
//! for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use tokio::time::Instant;

/// Minimum time within budget before an account leaves its slow lane, and between two notifications of its
/// channels.
const MIN_DURATION: Duration = Duration::from_secs(60);
/// Lanes unused for this time are dropped.
const IDLE_LIMIT: Duration = Duration::from_secs(600);
/// Most batches waiting in one lane.
const MAX_WAITING: usize = 16;

/// Identifies a lane: what exceeded the budget, and whose account it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LaneKey {
    /// Policies of a user, or of a set of claims.
    Policies(Arc<str>),
    /// Filters of a user, or of a visitor.
    Filters(Arc<str>),
}

pub(super) struct SlowLane {
    /// When the account last exceeded its budget.
    since: Mutex<Instant>,
    notified: Mutex<Option<Instant>>,
    waiting: AtomicUsize,
    /// Held during an evaluation; batches get it in arrival order.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// Counts a batch as waiting until it is dropped.
pub(super) struct WaitingBatch(pub(super) Arc<SlowLane>);

impl Drop for WaitingBatch {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SlowLane {
    /// Adds a batch; `None` if too many are waiting.
    pub(super) fn enter(self: &Arc<Self>) -> Option<WaitingBatch> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        let entered = WaitingBatch(Arc::clone(self));
        (waiting <= MAX_WAITING).then_some(entered)
    }

    /// Whether the account's channels may be notified of a failure now.
    pub(super) fn may_notify(&self) -> bool {
        let mut notified = self.notified.lock();
        let may_notify = notified.is_none_or(|at| at.elapsed() > MIN_DURATION);
        if may_notify {
            *notified = Some(Instant::now());
        }
        may_notify
    }

    fn since(&self) -> MutexGuard<'_, Instant> {
        self.since.lock()
    }
}

/// The slow lanes of one table.
#[derive(Default)]
pub(super) struct SlowLanes(Mutex<HashMap<LaneKey, Arc<SlowLane>>>);

impl SlowLanes {
    pub(super) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    pub(super) fn get(&self, key: &LaneKey) -> Option<Arc<SlowLane>> {
        self.all().get(key).cloned()
    }

    /// Puts an account into its slow lane, or restarts its minimum time there.
    pub(super) fn demote(&self, key: &LaneKey) -> Arc<SlowLane> {
        let mut all = self.all();
        let now = Instant::now();
        all.retain(|_, lane| {
            lane.waiting.load(Ordering::Relaxed) > 0 || now.duration_since(*lane.since()) < IDLE_LIMIT
        });
        let lane = all.entry(key.clone()).or_insert_with(|| {
            Arc::new(SlowLane {
                since: Mutex::new(now),
                notified: Mutex::default(),
                waiting: AtomicUsize::new(0),
                turn: tokio::sync::Mutex::default(),
            })
        });
        *lane.since() = now;
        Arc::clone(lane)
    }

    /// Takes an account out of its slow lane once it has stayed within its budget long enough.
    pub(super) fn promote(&self, key: &LaneKey) {
        let mut all = self.all();
        if all.get(key).is_some_and(|lane| lane.since().elapsed() > MIN_DURATION) {
            all.remove(key);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<LaneKey, Arc<SlowLane>>> {
        self.0.lock()
    }
}
