//! Bytes in memory that count against a limit for as long as they live.
//!
//! A [`ByteBudget`] is a limit shared fairly by many holders; a [`ByteShare`] is the part that one of them holds. A share
//! can be owned by `Bytes` ([`ByteLease`]): a body that outlives its request, or a response that a slow client has not
//! read, counts until its last slice is dropped.
//!
//! | budget | holder | without memory |
//! |---|---|---|
//! | `server.body_memory` | the body of a request ([`BodyLease`]) | waits for `server.body_wait`; growing fails immediately |
//! | `server.answer_memory` | the rows of a response ([`ResponseReservation`]) | fails immediately, except after a write |
//! | `storage.upload_memory` | a buffer of an upload | is smaller, or waits |
//! | `realtime.change_memory` | a row change | the subscriptions that lag behind resync |

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use metrics::{Counter, Gauge};
use parking_lot::{Mutex, MutexGuard};

use crate::convert::saturating;
use crate::fair_share::{AcquireError, FairPermit, FairShare, Limits};
use crate::identity::Identity;

/// Bodies, responses and buffers up to this size are free; their number is limited, and thereby their sum.
pub const FREE_BYTES: usize = 64 * 1024;

/// How a budget is shared.
#[derive(Clone, Copy, Debug)]
pub struct BudgetRules {
    /// Maximum number of waiting requests per identity.
    pub waiting_per_identity: usize,
    /// See [`Limits::keeps_headroom`].
    pub keeps_headroom: bool,
    /// Whether a holder that needs more than the whole budget gets all of it. Otherwise it gets nothing.
    pub serves_larger_alone: bool,
}

/// A limit on bytes in memory. Cheap to clone.
#[derive(Clone)]
pub struct ByteBudget(Arc<Budget>);

struct Budget {
    limit: usize,
    rules: BudgetRules,
    /// One permit for each byte.
    permits: FairShare,
    /// Bytes held beyond the limit.
    forced: AtomicUsize,
    gauge: Gauge,
}

impl fmt::Debug for ByteBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteBudget({} of {} bytes)", self.in_use(), self.limit())
    }
}

impl ByteBudget {
    /// Creates a budget of `limit` bytes. `gauge` shows the bytes in use.
    #[must_use]
    pub fn new(limit: u64, rules: BudgetRules, gauge: Gauge) -> Self {
        let limit = saturating(limit);
        let BudgetRules { waiting_per_identity, keeps_headroom, .. } = rules;
        let limits = Limits { permits: limit, waiting_per_identity, keeps_headroom, flood_share: None };
        let permits = FairShare::new(limits);
        Self(Arc::new(Budget { limit, rules, permits, forced: AtomicUsize::new(0), gauge }))
    }

    /// The limit in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        saturating(self.0.limit)
    }

    /// Bytes in use; more than the limit after [`ByteShare::force_to`].
    #[must_use]
    pub fn in_use(&self) -> u64 {
        saturating(self.0.in_use())
    }

    /// An empty share for `identity`.
    #[must_use]
    pub fn empty_share(&self, identity: Identity) -> ByteShare {
        ByteShare { budget: Arc::clone(&self.0), identity, permit: None, forced: 0 }
    }

    /// A share of `bytes` for `identity`, if they are available immediately.
    #[must_use]
    pub fn try_take(&self, identity: Identity, bytes: usize) -> Option<ByteShare> {
        let mut share = self.empty_share(identity);
        share.try_grow_to(bytes).then_some(share)
    }

    /// Waits for a share of `bytes` for `identity`. The caller sets the deadline, and must not hold a share that only its
    /// own progress releases: two such callers would deadlock.
    ///
    /// # Errors
    /// The identity's queue is full, or `bytes` exceeds the budget ([`BudgetRules::serves_larger_alone`]).
    pub async fn take(&self, identity: Identity, bytes: usize) -> Result<ByteShare, AcquireError> {
        let mut share = self.empty_share(identity);
        let bytes = share.missing(bytes).ok_or(AcquireError::QueueFull)?;
        share.add(self.0.permits.acquire_many(identity, bytes).await?);
        Ok(share)
    }
}

impl Budget {
    fn in_use(&self) -> usize {
        let held = self.limit.saturating_sub(self.permits.load().free);
        held.saturating_add(self.forced.load(Ordering::Relaxed))
    }
}

/// The part of a budget that one holder has; released when dropped.
pub struct ByteShare {
    budget: Arc<Budget>,
    identity: Identity,
    permit: Option<FairPermit>,
    /// Bytes held beyond the limit.
    forced: usize,
}

impl fmt::Debug for ByteShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByteShare({} bytes)", self.bytes())
    }
}

impl Drop for ByteShare {
    fn drop(&mut self) {
        self.budget.forced.fetch_sub(self.forced, Ordering::Relaxed);
        self.budget.gauge.decrement(as_gauge(self.bytes()));
    }
}

impl ByteShare {
    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.permit.as_ref().map_or(0, FairPermit::count).saturating_add(self.forced)
    }

    /// Adds `more` bytes if they are available immediately.
    pub fn try_grow(&mut self, more: usize) -> bool {
        self.try_grow_to(self.bytes().saturating_add(more))
    }

    /// Grows to at least `bytes` if they are available immediately.
    pub fn try_grow_to(&mut self, bytes: usize) -> bool {
        let Some(missing) = self.missing(bytes) else { return false };
        if missing == 0 {
            return true;
        }
        let budget = &self.budget;
        // Released bytes first make up for those held beyond the limit.
        let is_exceeded = budget.forced.load(Ordering::Relaxed) > 0;
        if is_exceeded && budget.in_use().saturating_add(missing) > budget.limit {
            return false;
        }
        let permit = budget.permits.try_acquire_many(self.identity, missing);
        let is_taken = permit.is_some();
        permit.into_iter().for_each(|permit| self.add(permit));
        is_taken
    }

    /// Grows to at least `bytes`, even beyond the limit.
    pub fn force_to(&mut self, bytes: usize) {
        if self.try_grow_to(bytes) {
            return;
        }
        let missing = bytes.saturating_sub(self.bytes());
        self.budget.forced.fetch_add(missing, Ordering::Relaxed);
        self.budget.gauge.increment(as_gauge(missing));
        self.forced += missing;
    }

    /// How many bytes a share of `bytes` lacks, or one of the whole budget if it is smaller; `None` if that is not allowed.
    fn missing(&self, bytes: usize) -> Option<usize> {
        let Budget { limit, rules, .. } = *self.budget;
        if bytes > limit && !rules.serves_larger_alone {
            return None;
        }
        Some(bytes.min(limit).saturating_sub(self.bytes()))
    }

    fn add(&mut self, permit: FairPermit) {
        self.budget.gauge.increment(as_gauge(permit.count()));
        match &mut self.permit {
            Some(held) => held.merge(permit),
            None => self.permit = Some(permit),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "memory is less than 2^52 bytes")]
const fn as_gauge(bytes: usize) -> f64 {
    bytes as f64
}

/// A share that is released with the last clone and the last of the bytes returned by [`ByteLease::keep`].
#[derive(Clone, Debug)]
pub struct ByteLease(Arc<Mutex<ByteShare>>);

/// The memory of a request's body; a request extension set by the gateway.
pub type BodyLease = ByteLease;

impl From<ByteShare> for ByteLease {
    fn from(share: ByteShare) -> Self {
        Self(Arc::new(Mutex::new(share)))
    }
}

impl ByteLease {
    /// Locks the share, to grow it.
    pub fn share(&self) -> MutexGuard<'_, ByteShare> {
        self.0.lock()
    }

    /// Adds `more` bytes; false if they are not available immediately.
    #[must_use]
    pub fn grow(&self, more: usize) -> bool {
        self.share().try_grow(more)
    }

    /// An empty lease on the same budget, for a buffer with its own lifetime.
    #[must_use]
    pub fn fresh(&self) -> Self {
        let share = self.share();
        ByteBudget(Arc::clone(&share.budget)).empty_share(share.identity).into()
    }

    /// Returns the same bytes without copying. They also keep the lease alive.
    #[must_use]
    pub fn keep(&self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Owned { bytes, _owner: self.clone() })
    }

    /// Like [`ByteLease::keep`], and counts all of `bytes`: a response may be slightly longer than its rows, and does not
    /// fail for that.
    #[must_use]
    pub fn keep_counted(&self, bytes: Bytes) -> Bytes {
        self.share().force_to(bytes.len());
        self.keep(bytes)
    }
}

struct Owned {
    bytes: Bytes,
    _owner: ByteLease,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The budget of all responses. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AnswerMemory {
    budget: ByteBudget,
    refused: Counter,
}

impl AnswerMemory {
    /// Creates a budget of `limit` bytes. `refused` counts responses that failed for lack of memory.
    #[must_use]
    pub fn new(limit: u64, refused: Counter) -> Self {
        let rules =
            BudgetRules { waiting_per_identity: 0, keeps_headroom: false, serves_larger_alone: false };
        Self { budget: ByteBudget::new(limit, rules, Gauge::noop()), refused }
    }

    /// The budget.
    #[must_use]
    pub const fn budget(&self) -> &ByteBudget {
        &self.budget
    }

    /// Returns the same bytes without copying; they count until the last slice is dropped. `None` without memory.
    #[must_use]
    pub fn keep(&self, bytes: Bytes) -> Option<Bytes> {
        if bytes.len() <= FREE_BYTES {
            return Some(bytes);
        }
        let Some(share) = self.budget.try_take(Identity::SERVER, bytes.len()) else {
            self.refused.increment(1);
            return None;
        };
        Some(ByteLease::from(share).keep(bytes))
    }
}

/// The memory of one response's rows as they arrive.
#[derive(Debug, Default)]
pub struct ResponseReservation {
    bytes: usize,
    lease: Option<ByteLease>,
}

impl ResponseReservation {
    /// Reserves `more` bytes on top of those received; with `anyway`, even beyond the limit.
    pub fn has_room(&mut self, more: usize, memory: &AnswerMemory, anyway: bool) -> bool {
        let total = self.bytes.saturating_add(more);
        if total <= FREE_BYTES {
            return true;
        }
        let lease = self.lease.get_or_insert_with(|| memory.budget.empty_share(Identity::SERVER).into());
        let mut share = lease.share();
        // Large steps, so that not every row locks the budget.
        if share.bytes() >= total || share.try_grow_to(total.next_multiple_of(FREE_BYTES)) {
            return true;
        }
        if anyway {
            share.force_to(total);
            return true;
        }
        let has_room = share.try_grow_to(total);
        if !has_room {
            memory.refused.increment(1);
        }
        has_room
    }

    /// Counts `more` received bytes and returns their lease.
    pub fn add(&mut self, more: usize) -> Option<ByteLease> {
        self.bytes = self.bytes.saturating_add(more);
        self.lease.clone()
    }
}

#[cfg(test)]
mod tests;
