//! Releases the changes of each channel in commit order, although tables are evaluated in parallel.
//!
//! The router numbers changes in stream order. Planning a batch of a table opens the batch for every channel
//! it concerns, at the position of the channel's first change in it; deciding the batch for a channel closes
//! it there. A change is released once it precedes every batch open for its channel and every unplanned
//! change of the channel's tables. Channels that a slow policy or filter does not concern have no open batch
//! and do not wait for it.
//!
//! Decided changes that wait are limited in number per channel and in bytes for all channels. Before a channel reaches its
//! limit, those of its tables that are ahead of the others pause: a large transaction over several tables is then delivered
//! at the pace of the slowest. Deadlock is impossible, because the table with the earliest unplanned change never pauses for
//! another table's unplanned change, and evaluations under way do not depend on pauses.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use basalt_core::memory::ByteBudget;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Position;
use super::batch::Item;
use super::outbox::{MAX_PLANNED, Outgoing, Overflow};
use super::subscriptions::Subscriber;

/// Most changes in one batch.
const BATCH: usize = 256;
/// The same with a hundred busy tables or more.
const SMALL_BATCH: usize = 16;
/// How often a paused table checks again without progress: a channel may have ended, or a batch moved to a slow lane.
const PAUSE_CHECK: Duration = Duration::from_millis(20);

/// Unplanned changes of one table.
pub(super) struct TableQueue {
    schema: String,
    name: String,
    /// Held briefly, never across an await.
    state: Mutex<QueueState>,
    filled: Notify,
}

#[derive(Default)]
struct QueueState {
    items: VecDeque<Item>,
    /// Position of the first change in the batch being planned.
    planning: Option<Position>,
    is_closed: bool,
}

impl TableQueue {
    pub(super) fn push(&self, item: Item) {
        self.state().items.push_back(item);
        self.filled.notify_one();
    }

    /// No more changes will be pushed.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.filled.notify_one();
    }

    /// Waits for the next batch, up to `max()` changes with the same table definition. `None` once the queue
    /// is closed and empty.
    async fn next(&self, max: impl Fn() -> usize) -> Option<Vec<Item>> {
        loop {
            {
                let max = max();
                let mut state = self.state();
                if let Some(first) = state.items.front() {
                    let (position, relation) = (first.position, Arc::clone(&first.relation));
                    let same = state.items.iter().take(max);
                    let count = same.take_while(|item| Arc::ptr_eq(&item.relation, &relation)).count();
                    state.planning = Some(position);
                    return Some(state.items.drain(..count).collect());
                }
                if state.is_closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Position of the first unplanned change.
    fn unplanned(&self) -> Option<Position> {
        let state = self.state();
        state.planning.or_else(|| state.items.front().map(|item| item.position))
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }
}

/// Outcome of a batch for one channel.
pub(super) struct Decided {
    pub(super) subscriber: Arc<Subscriber>,
    /// Position at which the batch was opened.
    pub(super) first: Position,
    pub(super) changes: Vec<Outgoing>,
}

/// Queues of all tables, and the channels that hold changes.
pub(super) struct Sequencer {
    queues: RwLock<Vec<Arc<TableQueue>>>,
    /// Channels by number. Held briefly; outboxes are not locked meanwhile.
    holding: Mutex<HashMap<u64, Arc<Subscriber>>>,
    memory: ByteBudget,
    /// Wakes paused tables after a batch was planned or decided.
    progress: Notify,
}

impl Sequencer {
    /// `memory` limits what all channels hold.
    pub(super) fn new(memory: ByteBudget) -> Self {
        Self { queues: RwLock::default(), holding: Mutex::default(), memory, progress: Notify::new() }
    }

    /// Adds the queue of a table.
    pub(super) fn add_queue(&self, schema: &str, name: &str) -> Arc<TableQueue> {
        let queue = Arc::new(TableQueue {
            schema: schema.to_owned(),
            name: name.to_owned(),
            state: Mutex::default(),
            filled: Notify::new(),
        });
        self.queues.write().push(Arc::clone(&queue));
        queue
    }

    /// Removes a queue that is closed and empty.
    pub(super) fn remove_queue(&self, queue: &Arc<TableQueue>) {
        let mut queues = self.queues.write();
        queues.retain(|known| !Arc::ptr_eq(known, queue));
    }

    /// Waits for the table's next batch, and then while one of its channels holds too many changes because of slower
    /// tables. `None` once the queue is closed and empty.
    pub(super) async fn next(&self, queue: &TableQueue) -> Option<Vec<Item>> {
        let items = queue.next(|| self.batch_limit()).await?;
        let next = items.first().map_or(Position::MAX, |item| item.position);
        loop {
            // Registered before the check: progress in between must not be missed.
            let progress = self.progress.notified();
            if !self.must_pause(queue, next) {
                return Some(items);
            }
            drop(timeout(PAUSE_CHECK, progress).await);
        }
    }

    /// Most changes of a batch: one batch of each table must fit into a channel's outbox.
    fn batch_limit(&self) -> usize {
        let busy = self.unplanned().len().max(1);
        (MAX_PLANNED / busy).clamp(SMALL_BATCH, BATCH)
    }

    /// Whether little memory for held changes is left.
    fn is_scarce(&self) -> bool {
        self.memory.in_use() > self.memory.limit() / 2
    }

    fn must_pause(&self, queue: &TableQueue, next: Position) -> bool {
        let holding: Vec<Arc<Subscriber>> = self.holding().values().cloned().collect();
        if holding.is_empty() {
            return false;
        }
        let unplanned = self.unplanned();
        let mut concerned =
            holding.iter().filter(|subscriber| subscriber.watches(&queue.schema, &queue.name));
        concerned.any(|subscriber| {
            let bound = release_bound(&unplanned, subscriber);
            subscriber.outbox().must_pause(next, bound, self.is_scarce())
        })
    }

    /// Marks the current batch as planned: it is now open for all channels it concerns.
    pub(super) fn planned(&self, queue: &TableQueue) {
        queue.state().planning = None;
        self.release_holding();
        self.progress.notify_waiters();
    }

    /// Closes batches. Returns the channels that exceeded their limit.
    pub(super) fn decide(&self, all: Vec<Decided>) -> Vec<Arc<Subscriber>> {
        // Read before deciding, which is safe: later changes have higher positions.
        let unplanned = self.unplanned();
        let (mut overflowed, mut is_held) = (Vec::new(), false);
        for Decided { subscriber, first, changes } in all {
            let bound = release_bound(&unplanned, &subscriber);
            let outcome = subscriber.outbox().decide(first, changes, bound, &*subscriber.sink, &self.memory);
            match outcome {
                Ok(false) => {}
                Ok(true) => {
                    is_held = true;
                    self.holding().insert(subscriber.number(), subscriber);
                }
                Err(Overflow) => overflowed.push(subscriber),
            }
        }
        if is_held || self.is_holding() {
            // A table may have been planned before the channel was added to those that hold changes.
            self.release_holding();
            self.progress.notify_waiters();
        }
        overflowed
    }

    fn is_holding(&self) -> bool {
        !self.holding().is_empty()
    }

    fn release_holding(&self) {
        let holding: Vec<Arc<Subscriber>> = self.holding().values().cloned().collect();
        if holding.is_empty() {
            return;
        }
        let unplanned = self.unplanned();
        for subscriber in holding {
            let bound = release_bound(&unplanned, &subscriber);
            let mut outbox = subscriber.outbox();
            outbox.release_before(bound, &*subscriber.sink);
            // While the outbox is locked: a change held later adds the channel again.
            if !outbox.is_holding() {
                self.holding().remove(&subscriber.number());
            }
        }
    }

    fn unplanned(&self) -> Vec<(Arc<TableQueue>, Position)> {
        let queues = self.queues.read();
        queues.iter().filter_map(|queue| Some((Arc::clone(queue), queue.unplanned()?))).collect()
    }

    fn holding(&self) -> MutexGuard<'_, HashMap<u64, Arc<Subscriber>>> {
        self.holding.lock()
    }
}

/// Position of the first unplanned change in the tables the subscriber watches.
fn release_bound(unplanned: &[(Arc<TableQueue>, Position)], subscriber: &Subscriber) -> Position {
    let watched = unplanned.iter().filter(|(queue, _)| subscriber.watches(&queue.schema, &queue.name));
    watched.map(|(_, position)| *position).min().unwrap_or(Position::MAX)
}
