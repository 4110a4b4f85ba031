//! A limited number of permits, shared between identities.
//!
//! A permit that becomes free goes to the waiting identity that holds the fewest; among equals, to the one whose turn is
//! oldest. So while others wait, no identity grows beyond its share. Within an identity, requests are served in order.
//!
//! Work that has started cannot be taken back, so a fair queue alone does not help the first request of a newcomer: one
//! client with many slow requests would hold every permit when it arrives. [`Limits::keeps_headroom`] prevents that: an
//! identity gets another permit only while it holds fewer than twice the free ones. One identity alone gets two thirds of
//! the permits, two get two fifths each, and so on, until there is one permit for each.
//!
//! Many short requests slow others down as well: two thirds of the connections are more busy backends than there are
//! processors. So an identity that requests more permits than exist holds no more than [`Limits::flood_share`] while others
//! are active (docs/decisions/0118).
//!
//! A request may need several permits at once, such as one for each kilobyte of a buffer. It gets all of them or waits, and
//! no identity that holds as many as its own is served before it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::identity::Identity;

/// Requests of one client that may wait for database connections, or for permits for long work. Far below
/// `server.max_requests`, so that one client's queue cannot make the server refuse the others.
pub const WAITING_PER_IDENTITY: usize = 512;

/// How many permits there are, and how they are shared.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Permits at the start.
    pub permits: usize,
    /// Requests of one identity that may wait; more are refused.
    pub waiting_per_identity: usize,
    /// Whether permits stay free for identities that hold few. For work that may take long; with one or two permits it has
    /// no effect.
    pub keeps_headroom: bool,
    /// Permits held at most by an identity that holds and waits for more than [`Limits::permits`], while another identity
    /// waits or has made a request within the last second. `None` sets no limit.
    pub flood_share: Option<usize>,
}

/// How long an identity counts as active after its last request.
const ACTIVE_FOR: Duration = Duration::from_secs(1);

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// The identity has as many requests waiting as it may.
    #[error("too many requests of this client are waiting")]
    QueueFull,
    /// [`FairShare::close`] was called.
    #[error("closed")]
    Closed,
}

/// State of a [`FairShare`], for gauges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Permits not held.
    pub free: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Identities with requests that wait.
    pub waiting_identities: usize,
}

/// Permits and their queue. Cheap to clone.
#[derive(Clone)]
pub struct FairShare {
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    /// Held for a few look-ups, never across an await. Permits and senders are dropped outside: both come back here.
    state: Mutex<State>,
}

struct State {
    free: usize,
    waiting: usize,
    is_closed: bool,
    /// Identities that hold or wait.
    identities: HashMap<Identity, Usage>,
    /// Identities that wait, the next to be served first: permits held, then age of the turn.
    queue: BTreeSet<(usize, u64, Identity)>,
    /// Numbers turns and waiters.
    next_number: u64,
    /// The last request's identity, and the last different one. Kept with [`Limits::flood_share`] only.
    recent: [Option<(Identity, Instant)>; 2],
}

#[derive(Default)]
struct Usage {
    held: usize,
    turn: u64,
    /// In order of their numbers.
    waiters: VecDeque<Waiter>,
}

struct Waiter {
    number: u64,
    permits: usize,
    grant: oneshot::Sender<FairPermit>,
}

/// The right to one unit of the resource, or to as many as were acquired together; returned when dropped.
pub struct FairPermit {
    /// `None` once returned.
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
    /// With all permits free.
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

    /// A permit for `identity`, in its turn. Dropping the future gives up the place in the queue; the caller sets the
    /// deadline.
    ///
    /// # Errors
    /// The queue of this identity is full, or there are no permits any more.
    pub async fn acquire(&self, identity: Identity) -> Result<FairPermit, AcquireError> {
        self.acquire_many(identity, 1).await
    }

    /// The same for several permits at once. More than there are would wait for ever.
    ///
    /// # Errors
    /// As [`FairShare::acquire`].
    pub async fn acquire_many(&self, identity: Identity, permits: usize) -> Result<FairPermit, AcquireError> {
        let (granted, _slot) = match self.acquire_or_queue(identity, permits)? {
            Acquired::Now(permit) => return Ok(permit),
            Acquired::Queued(granted, slot) => (granted, slot),
        };
        granted.await.map_err(|_dropped| AcquireError::Closed)
    }

    /// A permit for `identity`, if it may have one now.
    #[must_use]
    pub fn try_acquire(&self, identity: Identity) -> Option<FairPermit> {
        self.try_acquire_many(identity, 1)
    }

    /// Several permits for `identity`, if it may have all of them now.
    #[must_use]
    pub fn try_acquire_many(&self, identity: Identity, permits: usize) -> Option<FairPermit> {
        let is_taken = self.shared.lock().take(identity, permits, &self.shared.limits);
        is_taken.then(|| self.permit(identity, permits))
    }

    /// Adds a permit, such as one that [`FairPermit::forget`] removed.
    pub fn add_permit(&self) {
        self.shared.lock().free += 1;
        serve(&self.shared, None);
    }

    /// Fails all that wait and all that come. Permits that are held stay valid.
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

    /// What is free and what waits.
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

/// A place in the queue; given up when dropped. A permit that was granted meanwhile is in the channel, and is returned with it.
struct QueueSlot {
    shared: Arc<Shared>,
    identity: Identity,
    number: u64,
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let waiter = self.shared.lock().leave(self.identity, self.number);
        // After the lock is released.
        if waiter.is_some_and(|waiter| waiter.permits > 1) {
            // Others may have waited only because this one needed more than was free.
            serve(&self.shared, None);
        }
    }
}

impl FairPermit {
    /// Removes the permit: there is one fewer until [`FairShare::add_permit`].
    pub fn forget(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.lock().decrease_held(self.identity, self.permits);
            // The identity may be due for another, now that it holds fewer.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes back the permits of `returned`, if any, and grants permits until no waiting identity may have what it waits for.
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
            // The waiter has left. Emptied, because dropping the permit would come back here, once for each that left.
            unwanted.shared = None;
            returned = Some((identity, permits));
        }
    }
}

impl State {
    /// Takes permits if the identity may have them now, and nobody waits who is to be served before it.
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

    /// Whether the identity floods the queue and has its share ([`Limits::flood_share`]). `waiting` counts its requests that
    /// hold no permit.
    fn is_held_back(&self, identity: Identity, held: usize, waiting: usize, limits: &Limits) -> bool {
        limits.flood_share.is_some_and(|share| held >= share)
            && held + waiting > limits.permits
            && self.is_shared_with_others(identity)
    }

    fn is_shared_with_others(&self, identity: Identity) -> bool {
        // Of two that wait, one is another.
        self.queue.iter().take(2).any(|(.., waiting)| *waiting != identity)
            || self.recent.iter().flatten().any(|(other, at)| *other != identity && at.elapsed() < ACTIVE_FOR)
    }

    /// The waiting identity to be served next: of those that are not held back, the one with the fewest permits.
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

    /// Removes a waiter that was not served.
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

    /// Takes permits for the waiter to be served next, if there are enough for it. When the identity that holds the fewest may
    /// not have another, no other may; when it needs more than are free, the others wait with it.
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
