//! A limited number of permits, shared fairly between identities.
//!
//! A released permit goes to the waiting identity that holds the fewest; among equals, to the one that has waited
//! longest for its turn. So while others wait, no identity exceeds its share. Within an identity, requests are served
//! in order.
//!
//! Running work cannot be interrupted, so a fair queue alone does not help a newcomer: one client with many slow
//! requests could hold every permit when it arrives. [`Limits::keeps_headroom`] prevents that: an identity gets
//! another permit only while it holds fewer than twice the number of free ones. A single identity gets two thirds of
//! the permits, two identities get two fifths each, and so on, down to one permit each.
//!
//! Many short requests slow others down as well: two thirds of the connections keep more backends busy than there are
//! processors. So an identity that requests more permits than exist holds at most [`Limits::flood_share`] while others
//! are active (docs/decisions/0118).
//!
//! A request may need several permits at once, for example one per kilobyte of a buffer. It gets all of them or
//! waits, and no identity that holds at least as many as its own is served before it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::identity::Identity;

/// Maximum number of requests of one client that wait for a database connection, or for a permit for long work. Far
/// below `server.max_requests`, so that one client's queue cannot make the server reject other clients.
pub const WAITING_PER_IDENTITY: usize = 512;

/// The number of permits and the rules for sharing them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of permits initially available.
    pub permits: usize,
    /// Maximum number of waiting requests per identity; more are rejected.
    pub waiting_per_identity: usize,
    /// Whether some permits are kept free for identities that hold few. For work that may take long; has no effect
    /// with one or two permits.
    pub keeps_headroom: bool,
    /// Maximum number of permits of an identity that holds and waits for more than [`Limits::permits`] in total, while
    /// another identity waits or has made a request within the last second. `None` means no limit.
    pub flood_share: Option<usize>,
}

/// How long an identity counts as active after its last request.
const ACTIVE_FOR: Duration = Duration::from_secs(1);

/// Why no permit was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// The identity has reached its limit of waiting requests.
    #[error("too many requests of this client are waiting")]
    QueueFull,
    /// [`FairShare::close`] was called.
    #[error("closed")]
    Closed,
}

/// State of a [`FairShare`], for gauges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Number of free permits.
    pub free: usize,
    /// Number of waiting requests.
    pub waiting: usize,
    /// Number of identities with waiting requests.
    pub waiting_identities: usize,
}

/// A pool of permits and its queue. Cheap to clone.
#[derive(Clone)]
pub struct FairShare {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    /// Locked for a few look-ups, never across an await. Permits and senders are dropped after unlocking, because
    /// their destructors lock it again.
    state: Mutex<State>,
}

struct State {
    free: usize,
    waiting: usize,
    is_closed: bool,
    /// Identities that hold permits or wait.
    identities: HashMap<Identity, Usage>,
    /// Waiting identities in the order of service: permits held, then turn.
    queue: BTreeSet<(usize, u64, Identity)>,
    /// The next turn or waiter number.
    next_number: u64,
    /// The identity of the last request, and the last different one. Only used with [`Limits::flood_share`].
    recent: [Option<(Identity, Instant)>; 2],
}

#[derive(Default)]
struct Usage {
    held: usize,
    turn: u64,
    /// In the order of their numbers.
    waiters: VecDeque<Waiter>,
}

struct Waiter {
    number: u64,
    permits: usize,
    grant: oneshot::Sender<FairPermit>,
}

/// The right to one unit of the resource, or to several that were acquired together; returned when dropped.
pub struct FairPermit {
    /// `None` once the permit has been returned.
    shared: Option<Arc<Shared>>,
    identity: Identity,
    permits: usize,
}

impl fmt::Debug for FairShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FairShare({:?}, {:?})", self.shared.limits, self.load())
    }
}

impl fmt::Debug for FairPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FairPermit({:?}, {})", self.identity, self.permits)
    }
}

impl FairShare {
    /// Creates a pool in which all permits are free.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let state = State {
            free: limits.permits,
            waiting: 0,
            is_closed: false,
            identities: HashMap::new(),
            queue: BTreeSet::new(),
            next_number: 0,
            recent: [None; 2],
        };
        Self { shared: Arc::new(Shared { limits, state: Mutex::new(state) }) }
    }

    /// Waits for `identity`'s turn and returns a permit. Dropping the future leaves the queue; the caller sets the
    /// deadline.
    ///
    /// # Errors
    /// The identity's queue is full, or the pool is closed.
    pub async fn acquire(&self, identity: Identity) -> Result<FairPermit, AcquireError> {
        self.acquire_many(identity, 1).await
    }

    /// Like [`FairShare::acquire`], for several permits at once. A request for more permits than exist waits for
    /// ever.
    ///
    /// # Errors
    /// Those of [`FairShare::acquire`].
    pub async fn acquire_many(&self, identity: Identity, permits: usize) -> Result<FairPermit, AcquireError> {
        let (granted, _slot) = match self.acquire_or_queue(identity, permits)? {
            Acquired::Now(permit) => return Ok(permit),
            Acquired::Queued(granted, slot) => (granted, slot),
        };
        granted.await.map_err(|_dropped| AcquireError::Closed)
    }

    /// Returns a permit if `identity` may have one immediately.
    #[must_use]
    pub fn try_acquire(&self, identity: Identity) -> Option<FairPermit> {
        self.try_acquire_many(identity, 1)
    }

    /// Returns `permits` permits if `identity` may have all of them immediately.
    #[must_use]
    pub fn try_acquire_many(&self, identity: Identity, permits: usize) -> Option<FairPermit> {
        let is_taken = self.shared.lock().take(identity, permits, &self.shared.limits);
        is_taken.then(|| self.permit(identity, permits))
    }

    /// Adds a permit, for example one that [`FairPermit::forget`] removed.
    pub fn add_permit(&self) {
        self.shared.lock().free += 1;
        serve(&self.shared, None);
    }

    /// Fails all waiting and future requests. Permits that are held stay valid.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        state.queue.clear();
        state.waiting = 0;
        let mut waiters = VecDeque::new();
        state.identities.retain(|_, usage| {
            waiters.append(&mut usage.waiters);
            usage.held > 0
        });
        drop(state);
        drop(waiters);
    }

    /// Counts free permits and waiting requests.
    #[must_use]
    pub fn load(&self) -> Load {
        let state = self.shared.lock();
        Load { free: state.free, waiting: state.waiting, waiting_identities: state.queue.len() }
    }

    fn acquire_or_queue(&self, identity: Identity, permits: usize) -> Result<Acquired, AcquireError> {
        let mut state = self.shared.lock();
        if state.is_closed {
            return Err(AcquireError::Closed);
        }
        if state.take(identity, permits, &self.shared.limits) {
            drop(state);
            return Ok(Acquired::Now(self.permit(identity, permits)));
        }
        let (grant, granted) = oneshot::channel();
        let number = state.enqueue(identity, permits, grant, &self.shared.limits)?;
        drop(state);
        if self.shared.limits.flood_share.is_some() {
            // The identity may be held back from now on, and no longer block those behind it.
            serve(&self.shared, None);
        }
        Ok(Acquired::Queued(granted, QueueSlot { shared: Arc::clone(&self.shared), identity, number }))
    }

    fn permit(&self, identity: Identity, permits: usize) -> FairPermit {
        FairPermit { shared: Some(Arc::clone(&self.shared)), identity, permits }
    }
}

enum Acquired {
    Now(FairPermit),
    Queued(oneshot::Receiver<FairPermit>, QueueSlot),
}

/// A position in the queue; given up when dropped. A permit granted in the meantime is in the channel, and is
/// returned when the channel is dropped.
struct QueueSlot {
    shared: Arc<Shared>,
    identity: Identity,
    number: u64,
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let waiter = self.shared.lock().leave(self.identity, self.number);
        // The lock has been released here.
        if waiter.is_some_and(|waiter| waiter.permits > 1 || self.shared.limits.flood_share.is_some()) {
            // Others may have waited only because this request needed more permits than were free, and its identity only
            // because it had this many requests.
            serve(&self.shared, None);
        }
    }
}

impl FairPermit {
    /// The number of permits acquired together.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.permits
    }

    /// Adds the permits of `other`, which must be from the same pool and for the same identity.
    pub fn merge(&mut self, mut other: Self) {
        other.shared = None;
        self.permits += other.permits;
    }

    /// Removes the permit from the pool until [`FairShare::add_permit`].
    pub fn forget(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.lock().decrease_held(self.identity, self.permits);
            // The identity holds fewer permits now and may be next.
            serve(&shared, None);
        }
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            serve(&shared, Some((self.identity, self.permits)));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Takes back `returned`, then grants permits until no waiting identity may have what it waits for.
fn serve(shared: &Arc<Shared>, mut returned: Option<(Identity, usize)>) {
    loop {
        let mut state = shared.lock();
        if let Some((identity, permits)) = returned.take() {
            state.free += permits;
            state.decrease_held(identity, permits);
        }
        let Some((identity, permits, grant)) = state.next_grant(&shared.limits) else { return };
        drop(state);
        let permit = FairPermit { shared: Some(Arc::clone(shared)), identity, permits };
        if let Err(mut unwanted) = grant.send(permit) {
            // The waiter has left. Clear the permit, because dropping it would recurse into this function once per
            // waiter that left.
            unwanted.shared = None;
            returned = Some((identity, permits));
        }
    }
}

impl State {
    /// Takes permits if the identity may have them now and no waiting identity takes precedence.
    fn take(&mut self, identity: Identity, permits: usize, limits: &Limits) -> bool {
        if self.is_closed {
            return false;
        }
        if limits.flood_share.is_some() {
            self.note_request(identity);
        }
        let free = self.free;
        let fewest_waiting = self.next_in_queue(limits).map(|(held, ..)| held);
        let (held, waiting) = match self.identities.get(&identity) {
            Some(usage) => (usage.held, usage.waiters.len()),
            None => (0, 0),
        };
        let may_take = fewest_waiting.is_none_or(|fewest| held < fewest)
            && may_take(held, permits, free, limits)
            && !self.is_held_back(identity, held, waiting + 1, limits);
        if may_take {
            self.identities.entry(identity).or_default().held += permits;
            self.free -= permits;
        }
        may_take
    }

    fn note_request(&mut self, identity: Identity) {
        let now = Instant::now();
        match &mut self.recent[0] {
            Some((last, at)) if *last == identity => *at = now,
            _ => self.recent = [Some((identity, now)), self.recent[0]],
        }
    }

    /// Whether the identity floods the queue and holds its share ([`Limits::flood_share`]). `waiting` counts its requests
    /// without a permit.
    fn is_held_back(&self, identity: Identity, held: usize, waiting: usize, limits: &Limits) -> bool {
        limits.flood_share.is_some_and(|share| held >= share)
            && held + waiting > limits.permits
            && self.is_shared_with_others(identity)
    }

    fn is_shared_with_others(&self, identity: Identity) -> bool {
        // At most one of two waiting identities is this one.
        self.queue.iter().take(2).any(|(.., waiting)| *waiting != identity)
            || self.recent.iter().flatten().any(|(other, at)| *other != identity && at.elapsed() < ACTIVE_FOR)
    }

    /// The waiting identity to serve next: the one with the fewest permits that is not held back.
    fn next_in_queue(&self, limits: &Limits) -> Option<(usize, u64, Identity)> {
        let is_held_back = |(held, _, identity): &(usize, u64, Identity)| {
            let waiting = self.identities.get(identity).map_or(0, |usage| usage.waiters.len());
            self.is_held_back(*identity, *held, waiting, limits)
        };
        self.queue.iter().find(|entry| !is_held_back(entry)).copied()
    }

    fn enqueue(
        &mut self,
        identity: Identity,
        permits: usize,
        grant: oneshot::Sender<FairPermit>,
        limits: &Limits,
    ) -> Result<u64, AcquireError> {
        let number = self.next_number;
        let usage = self.identities.entry(identity).or_default();
        if usage.waiters.len() >= limits.waiting_per_identity {
            if usage.held == 0 && usage.waiters.is_empty() {
                self.identities.remove(&identity);
            }
            return Err(AcquireError::QueueFull);
        }
        if usage.waiters.is_empty() {
            usage.turn = number;
            self.queue.insert((usage.held, number, identity));
        }
        usage.waiters.push_back(Waiter { number, permits, grant });
        self.next_number += 1;
        self.waiting += 1;
        Ok(number)
    }

    /// Removes a waiter that has not been served.
    fn leave(&mut self, identity: Identity, number: u64) -> Option<Waiter> {
        let Entry::Occupied(mut entry) = self.identities.entry(identity) else { return None };
        let usage = entry.get_mut();
        let index = usage.waiters.binary_search_by_key(&number, |waiter| waiter.number).ok()?;
        let waiter = usage.waiters.remove(index);
        self.waiting -= 1;
        if usage.waiters.is_empty() {
            self.queue.remove(&(usage.held, usage.turn, identity));
            if usage.held == 0 {
                entry.remove();
            }
        }
        waiter
    }

    fn decrease_held(&mut self, identity: Identity, permits: usize) {
        let Entry::Occupied(mut entry) = self.identities.entry(identity) else { return };
        let usage = entry.get_mut();
        if !usage.waiters.is_empty() {
            self.queue.remove(&(usage.held, usage.turn, identity));
            self.queue.insert((usage.held.saturating_sub(permits), usage.turn, identity));
        }
        usage.held = usage.held.saturating_sub(permits);
        if usage.held == 0 && usage.waiters.is_empty() {
            entry.remove();
        }
    }

    /// Takes permits for the next waiter, if there are enough. If the identity that holds the fewest may not have
    /// another one, none may; if it needs more than are free, the others wait with it.
    fn next_grant(&mut self, limits: &Limits) -> Option<(Identity, usize, oneshot::Sender<FairPermit>)> {
        let (held, turn, identity) = self.next_in_queue(limits)?;
        let usage = self.identities.get_mut(&identity)?;
        if !may_take(held, usage.waiters.front()?.permits, self.free, limits) {
            return None;
        }
        let waiter = usage.waiters.pop_front()?;
        self.queue.remove(&(held, turn, identity));
        usage.held += waiter.permits;
        self.free -= waiter.permits;
        self.waiting -= 1;
        if !usage.waiters.is_empty() {
            usage.turn = self.next_number;
            self.next_number += 1;
            self.queue.insert((usage.held, usage.turn, identity));
        }
        Some((identity, waiter.permits, waiter.grant))
    }
}

const fn may_take(held: usize, permits: usize, free: usize, limits: &Limits) -> bool {
    free >= permits && (!limits.keeps_headroom || held < 2 * free)
}

#[cfg(test)]
mod tests;
