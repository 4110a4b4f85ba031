//! A limited number of permits, shared between identities.
//!
//! A permit that becomes free goes to the waiting identity that holds the fewest; among equals, to the one whose turn is
//! oldest. So while others wait, no identity grows beyond its share. Within an identity, requests are served in order.
//!
//! Work that has started cannot be taken back, so a fair queue alone does not help the first request of a newcomer: one
//! client with many slow requests would hold every permit when it arrives. [`Limits::keeps_headroom`] prevents that: an
//! identity gets another permit only while it holds fewer than twice the free ones. One identity alone gets two thirds of
//! the permits, two get two fifths each, and so on, until there is one permit for each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

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
}

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
    grant: oneshot::Sender<FairPermit>,
}

/// The right to one unit of the resource; returned when dropped.
pub struct FairPermit {
    /// `None` once returned.
    shared: Option<Arc<Shared>>,
    identity: Identity,
}

impl fmt::Debug for FairShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FairShare({:?}, {:?})", self.shared.limits, self.load())
    }
}

impl fmt::Debug for FairPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FairPermit({:?})", self.identity)
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
        };
        Self { shared: Arc::new(Shared { limits, state: Mutex::new(state) }) }
    }

    /// A permit for `identity`, in its turn. Dropping the future gives up the place in the queue; the caller sets the
    /// deadline.
    ///
    /// # Errors
    /// The queue of this identity is full, or there are no permits any more.
    pub async fn acquire(&self, identity: Identity) -> Result<FairPermit, AcquireError> {
        let (granted, _slot) = match self.acquire_or_queue(identity)? {
            Acquired::Now(permit) => return Ok(permit),
            Acquired::Queued(granted, slot) => (granted, slot),
        };
        granted.await.map_err(|_dropped| AcquireError::Closed)
    }

    /// A permit for `identity`, if it may have one now.
    #[must_use]
    pub fn try_acquire(&self, identity: Identity) -> Option<FairPermit> {
        self.shared.lock().take(identity, &self.shared.limits).then(|| self.permit(identity))
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

    fn acquire_or_queue(&self, identity: Identity) -> Result<Acquired, AcquireError> {
        let mut state = self.shared.lock();
        if state.is_closed {
            return Err(AcquireError::Closed);
        }
        if state.take(identity, &self.shared.limits) {
            drop(state);
            return Ok(Acquired::Now(self.permit(identity)));
        }
        let (grant, granted) = oneshot::channel();
        let number = state.enqueue(identity, grant, &self.shared.limits)?;
        drop(state);
        Ok(Acquired::Queued(granted, QueueSlot { shared: Arc::clone(&self.shared), identity, number }))
    }

    fn permit(&self, identity: Identity) -> FairPermit {
        FairPermit { shared: Some(Arc::clone(&self.shared)), identity }
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
        drop(waiter);
    }
}

impl FairPermit {
    /// Removes the permit: there is one fewer until [`FairShare::add_permit`].
    pub fn forget(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.lock().decrease_held(self.identity);
            // The identity may be due for another, now that it holds fewer.
            serve(&shared, None);
        }
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            serve(&shared, Some(self.identity));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes back the permit of `returned`, if any, and grants permits until no waiting identity may have one.
fn serve(shared: &Arc<Shared>, mut returned: Option<Identity>) {
    loop {
        let mut state = shared.lock();
        if let Some(identity) = returned.take() {
            state.free += 1;
            state.decrease_held(identity);
        }
        let Some((identity, grant)) = state.next_grant(&shared.limits) else { return };
        drop(state);
        let permit = FairPermit { shared: Some(Arc::clone(shared)), identity };
        if let Err(mut unwanted) = grant.send(permit) {
            // The waiter has left. Emptied, because dropping the permit would come back here, once for each that left.
            unwanted.shared = None;
            returned = Some(identity);
        }
    }
}

impl State {
    /// Takes a permit if the identity may have one now. An identity that may has no older request waiting: that one would have
    /// been served.
    fn take(&mut self, identity: Identity, limits: &Limits) -> bool {
        if self.is_closed {
            return false;
        }
        let free = self.free;
        let usage = self.identities.entry(identity);
        let held = match &usage {
            Entry::Occupied(usage) => usage.get().held,
            Entry::Vacant(_) => 0,
        };
        let may_take = may_take(held, free, limits);
        if may_take {
            usage.or_default().held += 1;
            self.free -= 1;
        }
        may_take
    }

    fn enqueue(
        &mut self,
        identity: Identity,
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
        usage.waiters.push_back(Waiter { number, grant });
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

    fn decrease_held(&mut self, identity: Identity) {
        let Entry::Occupied(mut entry) = self.identities.entry(identity) else { return };
        let usage = entry.get_mut();
        if !usage.waiters.is_empty() {
            self.queue.remove(&(usage.held, usage.turn, identity));
            self.queue.insert((usage.held.saturating_sub(1), usage.turn, identity));
        }
        usage.held = usage.held.saturating_sub(1);
        if usage.held == 0 && usage.waiters.is_empty() {
            entry.remove();
        }
    }

    /// Takes a permit for the waiter to be served next, if there is one for it. When the identity that holds the fewest may not
    /// have one, no other may.
    fn next_grant(&mut self, limits: &Limits) -> Option<(Identity, oneshot::Sender<FairPermit>)> {
        let &(held, turn, identity) = self.queue.first()?;
        if !may_take(held, self.free, limits) {
            return None;
        }
        let usage = self.identities.get_mut(&identity)?;
        let waiter = usage.waiters.pop_front()?;
        self.queue.remove(&(held, turn, identity));
        usage.held += 1;
        self.free -= 1;
        self.waiting -= 1;
        if !usage.waiters.is_empty() {
            usage.turn = self.next_number;
            self.next_number += 1;
            self.queue.insert((usage.held, usage.turn, identity));
        }
        Some((identity, waiter.grant))
    }
}

const fn may_take(held: usize, free: usize, limits: &Limits) -> bool {
    free > 0 && (!limits.keeps_headroom || held < 2 * free)
}

#[cfg(test)]
mod tests;
