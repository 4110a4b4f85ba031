//! Releases the changes of each channel in commit order, although tables are evaluated in parallel.
//!
//! The router numbers changes in stream order. Planning a batch of a table opens the batch for every channel
//! it concerns, at the position of the channel's first change in it; deciding the batch for a channel closes
//! it there. A change is released once it precedes every batch open for its channel and every unplanned
//! change of the channel's tables. Channels that a slow policy or filter does not concern have no open batch
//! and do not wait for it.
//!
//! Decided changes that wait are limited in number per channel and in bytes for all channels.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use basalt_core::memory::{ByteBudget, ByteShare};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;

use super::batch::Item;
use super::subscriptions::Subscriber;
use super::{ChangeSink, EncodedChange, reserve};

/// Most decided changes a channel may hold.
const MAX_HELD: usize = 4096;
/// Estimated size of a held change without its JSON, which channels share.
const HELD_BYTES: usize = 160;

/// Sequence number of a change in the stream.
pub(super) type Position = u64;

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

    /// Waits for the next batch, up to `max` changes with the same table definition. `None` once the queue
    /// is closed and empty.
    pub(super) async fn next(&self, max: usize) -> Option<Vec<Item>> {
        loop {
            {
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

/// A change encoded for one set of columns.
pub(super) struct Encoded {
    pub(super) change: EncodedChange,
    /// Reserved when the first channel holds the change.
    held: OnceLock<ByteShare>,
}

impl Encoded {
    pub(super) const fn new(change: EncodedChange) -> Self {
        Self { change, held: OnceLock::new() }
    }
}

/// A change to be sent to a channel.
pub(super) struct Outgoing {
    /// Position in the stream, and index among the frames the channel gets for that change.
    pub(super) at: (Position, usize),
    pub(super) encoded: Arc<Encoded>,
    pub(super) ids: Vec<u64>,
}

/// Outcome of a batch for one channel.
pub(super) struct Decided {
    pub(super) subscriber: Arc<Subscriber>,
    /// Position at which the batch was opened.
    pub(super) first: Position,
    pub(super) changes: Vec<Outgoing>,
}

/// A channel exceeded its limit for held changes.
struct Overflow;

struct Held {
    encoded: Arc<Encoded>,
    ids: Vec<u64>,
    _share: ByteShare,
}

/// Open batches of a channel, and changes held because of them.
#[derive(Default)]
pub(super) struct Outbox {
    /// Start positions of undecided batches.
    open: Vec<Position>,
    held: BTreeMap<(Position, usize), Held>,
    has_ended: bool,
}

impl Outbox {
    /// Opens a batch that concerns the channel from this position on.
    pub(super) fn open(&mut self, first: Position) {
        if !self.has_ended {
            self.open.push(first);
        }
    }

    /// The subscription has ended: nothing more is sent.
    pub(super) fn end(&mut self) {
        *self = Self { has_ended: true, ..Self::default() };
    }

    /// Closes a batch. Returns whether changes are held. `unplanned` is the position of the first unplanned
    /// change.
    fn decide(
        &mut self,
        first: Position,
        changes: Vec<Outgoing>,
        unplanned: Position,
        sink: &dyn ChangeSink,
        memory: &ByteBudget,
    ) -> Result<bool, Overflow> {
        if self.has_ended {
            return Ok(false);
        }
        if let Some(index) = self.open.iter().position(|open| *open == first) {
            self.open.swap_remove(index);
        }
        let bound = self.bound(unplanned);
        for outgoing in changes {
            if self.held.is_empty() && outgoing.at.0 < bound {
                sink.change(&outgoing.encoded.change, &outgoing.ids);
            } else {
                self.hold(outgoing, memory)?;
            }
        }
        self.release(bound, sink);
        Ok(!self.held.is_empty())
    }

    fn hold(&mut self, outgoing: Outgoing, memory: &ByteBudget) -> Result<(), Overflow> {
        let Outgoing { at, encoded, ids } = outgoing;
        if self.held.len() >= MAX_HELD {
            return Err(Overflow);
        }
        if encoded.held.get().is_none() {
            let share = reserve(memory, encoded.change.data.len()).ok_or(Overflow)?;
            // Another channel may have set it first.
            drop(encoded.held.set(share));
        }
        let share = reserve(memory, HELD_BYTES + size_of_val(&*ids)).ok_or(Overflow)?;
        self.held.insert(at, Held { encoded, ids, _share: share });
        Ok(())
    }

    fn bound(&self, unplanned: Position) -> Position {
        self.open.iter().copied().min().map_or(unplanned, |open| open.min(unplanned))
    }

    fn release(&mut self, bound: Position, sink: &dyn ChangeSink) {
        while let Some(entry) = self.held.first_entry() {
            if entry.key().0 >= bound {
                return;
            }
            let Held { encoded, ids, _share } = entry.remove();
            sink.change(&encoded.change, &ids);
        }
    }
}

/// Queues of all tables, and the channels that hold changes.
pub(super) struct Sequencer {
    queues: RwLock<Vec<Arc<TableQueue>>>,
    /// Channels by number. Held briefly; outboxes are not locked meanwhile.
    holding: Mutex<HashMap<u64, Arc<Subscriber>>>,
    memory: ByteBudget,
}

impl Sequencer {
    /// `memory` limits what all channels hold.
    pub(super) fn new(memory: ByteBudget) -> Self {
        Self { queues: RwLock::default(), holding: Mutex::default(), memory }
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

    /// Marks the current batch as planned: it is now open for all channels it concerns.
    pub(super) fn planned(&self, queue: &TableQueue) {
        queue.state().planning = None;
        self.release_holding();
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
            let bound = outbox.bound(bound);
            outbox.release(bound, &*subscriber.sink);
            // While the outbox is locked: a change held later adds the channel again.
            if outbox.held.is_empty() {
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
