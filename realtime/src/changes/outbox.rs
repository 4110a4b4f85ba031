//! Changes of one channel that are decided but may not be sent yet, because earlier ones are undecided.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use basalt_core::memory::{ByteBudget, ByteShare};

use super::{ChangeSink, EncodedChange, Position, reserve};

/// Most decided changes a channel may hold.
const MAX_HELD: usize = 4096;
/// Held and undecided changes from which on the channel's faster tables pause.
const PAUSE_AT: usize = 1024;
/// Most changes that all tables may plan at a time. A channel that watches them all can hold these and [`PAUSE_AT`].
pub(super) const MAX_PLANNED: usize = 2048;
/// Estimated size of a held change without its JSON, which channels share.
const HELD_BYTES: usize = 160;

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

/// A channel exceeded its limit for held changes.
pub(super) struct Overflow;

struct Held {
    encoded: Arc<Encoded>,
    ids: Vec<u64>,
    _share: ByteShare,
}

/// An undecided batch.
struct OpenBatch {
    /// Position of the channel's first change in it.
    first: Position,
    /// Changes that may be sent to the channel.
    changes: usize,
    /// Whether it is in a slow lane.
    is_slow: bool,
}

/// Open batches of a channel, and changes held because of them.
#[derive(Default)]
pub(super) struct Outbox {
    open: Vec<OpenBatch>,
    held: BTreeMap<(Position, usize), Held>,
    has_ended: bool,
}

impl Outbox {
    /// Opens a batch with this many changes that concern the channel, from `first` on.
    pub(super) fn open(&mut self, first: Position, changes: usize) {
        if !self.has_ended {
            self.open.push(OpenBatch { first, changes, is_slow: false });
        }
    }

    /// Records that an open batch was moved to a slow lane.
    pub(super) fn mark_slow(&mut self, first: Position) {
        if let Some(batch) = self.open.iter_mut().find(|batch| batch.first == first) {
            batch.is_slow = true;
        }
    }

    /// Whether a table whose next change is at `next` has to pause for the channel: it holds many changes (any, if
    /// memory is scarce) until earlier work is done. Work in a slow lane does not count: the table's other subscribers
    /// must not wait for it.
    pub(super) fn must_pause(&self, next: Position, unplanned: Position, is_scarce: bool) -> bool {
        let undecided: usize = self.open.iter().map(|batch| batch.changes).sum();
        let is_full = self.held.len() + undecided >= PAUSE_AT;
        if self.held.is_empty() || !(is_full || is_scarce) {
            return false;
        }
        let bound = self.bound(unplanned);
        bound < next && !self.open.iter().any(|batch| batch.is_slow && batch.first == bound)
    }

    /// The subscription has ended: nothing more is sent.
    pub(super) fn end(&mut self) {
        *self = Self { has_ended: true, ..Self::default() };
    }

    /// Closes a batch. Returns whether changes are held. `unplanned` is the position of the first unplanned
    /// change.
    pub(super) fn decide(
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
        if let Some(index) = self.open.iter().position(|batch| batch.first == first) {
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

    /// Sends what precedes the open batches and `unplanned`.
    pub(super) fn release_before(&mut self, unplanned: Position, sink: &dyn ChangeSink) {
        self.release(self.bound(unplanned), sink);
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    fn bound(&self, unplanned: Position) -> Position {
        self.open.iter().map(|batch| batch.first).min().map_or(unplanned, |open| open.min(unplanned))
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
