//! Bytes that count against a bound for as long as they live: the owner of a share travels inside the `Bytes`. So a body
//! that outlives its request, or an answer that a slow client has not read, counts until its last slice is dropped.
//!
//! [`BodyLease`] is for the body of a request: the gateway takes the share of a buffered body, a service that of what it buffers
//! of a streamed one. [`AnswerMemory`] bounds what all answers take together, from the moment PostgreSQL announces a row
//! until the client has it. An answer that finds no room is refused at once, unless it tells of a write: the write has
//! happened by then.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use metrics::Counter;

use crate::convert::saturating;

/// Answers up to this many bytes are free; their number is bounded, and so their sum.
const FREE_BYTES: usize = 64 * 1024;

/// What a request's body holds of the server's memory until it is dropped.
pub trait BodyMemory: Send + Sync {
    /// Holds `more` bytes from now on, if there is room.
    fn grow(&self, more: usize) -> bool;

    /// An empty share of the same memory.
    fn fresh(&self) -> BodyLease;
}

/// Keeps the share of a request's body alive; a request extension of the gateway's.
#[derive(Clone)]
pub struct BodyLease {
    share: Arc<dyn BodyMemory>,
}

impl fmt::Debug for BodyLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}

impl BodyLease {
    /// Holds `share` until the last clone and the last of the bytes given to [`BodyLease::keep`] are gone.
    pub fn new(share: impl BodyMemory + 'static) -> Self {
        Self { share: Arc::new(share) }
    }

    /// Makes room for `more` bytes, of what is made of the body; false if there is none.
    #[must_use]
    pub fn grow(&self, more: usize) -> bool {
        self.share.grow(more)
    }

    /// An empty share of the same memory, for a buffer with a life of its own.
    #[must_use]
    pub fn fresh(&self) -> Self {
        self.share.fresh()
    }

    /// The same bytes, not copied, which hold it too.
    #[must_use]
    pub fn keep(&self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Owned { bytes, _owner: self.clone() })
    }
}

struct Owned<T> {
    bytes: Bytes,
    _owner: T,
}

impl<T> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What all answers together may take. Cheap to clone.
#[derive(Clone)]
pub struct AnswerMemory(Arc<Memory>);

struct Memory {
    limit: u64,
    in_use: AtomicU64,
    refused: Counter,
}

impl fmt::Debug for AnswerMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnswerMemory({} of {} bytes)", self.in_use(), self.limit())
    }
}

impl AnswerMemory {
    /// Room for `limit` bytes. `refused` counts answers that found none.
    #[must_use]
    pub fn new(limit: u64, refused: Counter) -> Self {
        Self(Arc::new(Memory { limit, in_use: AtomicU64::new(0), refused }))
    }

    /// The bound, in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// The same bytes, not copied, which are counted until the last of them is dropped; `None` if there is no room.
    #[must_use]
    pub fn keep(&self, bytes: Bytes) -> Option<Bytes> {
        if bytes.len() <= FREE_BYTES {
            return Some(bytes);
        }
        let share = AnswerShare::empty(self);
        share.grow_to(saturating(bytes.len())).then(|| Bytes::from_owner(Owned { bytes, _owner: share }))
    }

    /// Bytes taken now; more than the limit where answers about writes found no room.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.0.in_use.load(Ordering::Relaxed)
    }
}

/// What one answer holds; given back with the last clone and the last of its bytes.
#[derive(Clone)]
pub struct AnswerShare(Arc<Share>);

struct Share {
    memory: AnswerMemory,
    bytes: AtomicU64,
}

impl fmt::Debug for AnswerShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnswerShare({} bytes)", self.0.bytes.load(Ordering::Relaxed))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.0.in_use.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

impl AnswerShare {
    fn empty(memory: &AnswerMemory) -> Self {
        Self(Arc::new(Share { memory: memory.clone(), bytes: AtomicU64::new(0) }))
    }

    /// Holds at least `bytes` from now on, if there is room.
    fn grow_to(&self, bytes: u64) -> bool {
        let memory = &*self.0.memory.0;
        let missing = bytes.saturating_sub(self.0.bytes.load(Ordering::Relaxed));
        let taken = memory.in_use.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |in_use| {
            in_use.checked_add(missing).filter(|total| *total <= memory.limit)
        });
        if taken.is_ok() {
            self.0.bytes.fetch_add(missing, Ordering::Relaxed);
        } else {
            memory.refused.increment(1);
        }
        taken.is_ok()
    }

    /// Holds at least `bytes` from now on, room or not.
    fn force_to(&self, bytes: u64) {
        let missing = bytes.saturating_sub(self.0.bytes.load(Ordering::Relaxed));
        self.0.memory.0.in_use.fetch_add(missing, Ordering::Relaxed);
        self.0.bytes.fetch_add(missing, Ordering::Relaxed);
    }

    /// The same bytes, not copied, which hold the share too. For an answer that was made of rows: it may be somewhat
    /// longer than they were, and is not refused for that.
    #[must_use]
    pub fn keep(&self, bytes: Bytes) -> Bytes {
        self.force_to(saturating(bytes.len()));
        Bytes::from_owner(Owned { bytes, _owner: self.clone() })
    }
}

/// What the rows of one answer take, as they come.
#[derive(Debug, Default)]
pub struct ResponseReservation {
    bytes: usize,
    share: Option<AnswerShare>,
}

impl ResponseReservation {
    /// Makes room for `more` bytes on top of those that are here. Where `anyway`, there always is room.
    pub fn has_room(&mut self, more: usize, memory: &AnswerMemory, anyway: bool) -> bool {
        let total = self.bytes.saturating_add(more);
        if total <= FREE_BYTES {
            return true;
        }
        let share = self.share.get_or_insert_with(|| AnswerShare::empty(memory));
        if anyway {
            share.force_to(saturating(total));
            return true;
        }
        share.grow_to(saturating(total))
    }

    /// `more` bytes are here; what holds their share.
    pub fn add(&mut self, more: usize) -> Option<AnswerShare> {
        self.bytes = self.bytes.saturating_add(more);
        self.share.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl BodyMemory for Arc<usize> {
        fn grow(&self, more: usize) -> bool {
            more < **self
        }

        fn fresh(&self) -> BodyLease {
            BodyLease::new(Arc::clone(self))
        }
    }

    fn memory(limit: u64) -> AnswerMemory {
        AnswerMemory::new(limit, Counter::noop())
    }

    #[test]
    fn what_was_made_here_counts_too() {
        let memory = memory(100_000);
        let small = memory.keep(Bytes::from(vec![1; FREE_BYTES])).unwrap();
        let large = memory.keep(Bytes::from(vec![1; 80_000])).unwrap();
        assert_eq!((small.len(), memory.in_use()), (FREE_BYTES, 80_000));
        assert_eq!(memory.keep(large.slice(..70_000)), None);
        drop(large);
        assert_eq!(memory.in_use(), 0);
    }

    #[test]
    fn a_share_lives_as_long_as_any_of_its_bytes() {
        let memory = memory(200_000);
        let mut intake = ResponseReservation::default();
        assert!(intake.has_room(50_000, &memory, false));
        assert!(intake.add(50_000).is_none(), "small answers are free");
        assert!(intake.has_room(50_000, &memory, false));
        let share = intake.add(50_000).unwrap();
        assert_eq!(memory.in_use(), 100_000);
        // Asked again while the same row comes in pieces.
        assert!(intake.has_room(20_000, &memory, false) && intake.has_room(20_000, &memory, false));
        assert_eq!(memory.in_use(), 120_000);
        let body = share.keep(Bytes::from(vec![1; 130_000]));
        drop((intake, share));
        assert_eq!(memory.in_use(), 130_000);
        let last = body.slice(129_999..);
        drop(body);
        assert_eq!((memory.in_use(), last.len()), (130_000, 1));
        drop(last);
        assert_eq!(memory.in_use(), 0);
    }

    #[test]
    fn what_finds_no_room_is_refused_unless_it_has_to_be_taken() {
        let memory = memory(100_000);
        let (mut first, mut second) = (ResponseReservation::default(), ResponseReservation::default());
        assert!(first.has_room(90_000, &memory, false));
        assert!(!second.has_room(70_000, &memory, false));
        assert_eq!(memory.in_use(), 90_000, "a refused one takes nothing");
        assert!(second.has_room(70_000, &memory, true));
        assert_eq!(memory.in_use(), 160_000);
        drop(second);
        assert!(first.has_room(100_000, &memory, false));
        assert!(!first.has_room(100_001, &memory, false));
        drop(first);
        assert_eq!(memory.in_use(), 0);
    }

    #[test]
    fn a_hold_ends_with_the_last_slice() {
        let witness = Arc::new(10_usize);
        let hold = BodyLease::new(Arc::clone(&witness));
        assert!(hold.grow(9) && !hold.grow(10));
        let bytes = hold.keep(Bytes::from_static(b"abc"));
        drop(hold);
        let slice = bytes.slice(1..2);
        drop(bytes);
        assert_eq!((Arc::strong_count(&witness), slice.as_ref()), (2, b"b".as_slice()));
        drop(slice);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
