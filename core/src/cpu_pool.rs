//! Runs CPU-bound work on a bounded number of dedicated threads, shared fairly between identities.
//!
//! The runtime has one thread per core, and each serves many requests. While one parses a body of 40 MB, decodes an
//! image or hashes a password, the others on its thread wait. Such work runs here instead: a request takes a
//! [`QueueSlot`], waits for a permit in the queue of its identity ([`crate::fair_share`]), and runs.
//!
//! A request that is cancelled while it waits leaves the queue. Work that has started runs to completion. Until then it
//! keeps its slot, its permit and its data, such as a body with its share of the server's memory, so a client gains
//! nothing by disconnecting.

mod threads;

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use crate::fair_share::{FairPermit, FairShare, Limits};
use crate::identity::Identity;
use threads::Threads;

/// Limits of a [`CpuPool`].
#[derive(Clone, Copy, Debug)]
pub struct CpuPoolLimits {
    /// Maximum number of jobs that run at the same time.
    pub threads: usize,
    /// Maximum number of waiting requests.
    pub waiting: usize,
    /// Maximum number of waiting requests per identity.
    pub waiting_per_identity: usize,
    /// See [`Limits::keeps_headroom`].
    pub keeps_headroom: bool,
}

/// Scheduling priority of a pool's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// The priority of the threads that serve requests.
    Normal,
    /// Lower: a competing request gets about 90 % of a core. Linux only.
    Low,
}

/// Why work was not done.
#[derive(Debug, thiserror::Error)]
pub enum CpuPoolError {
    /// A limit of waiting requests is reached.
    #[error("too many requests are waiting for a thread")]
    QueueFull,
    /// The work panicked; contains the panic's payload.
    #[error("the work panicked")]
    Panicked(Box<dyn Any + Send>),
    /// The operating system refused to start a thread.
    #[error("cannot start a thread: {0}")]
    NoThread(#[from] io::Error),
}

/// Threads and their queue. Each thread keeps an `S` between jobs, such as a large buffer, until a job panics or the
/// thread ends: after ten idle seconds, or when the pool is dropped.
pub struct CpuPool<S = ()> {
    admitted: Arc<Semaphore>,
    in_use: Gauge,
    permits: FairShare,
    threads: Threads<S>,
    tracker: TaskTracker,
}

impl<S> fmt::Debug for CpuPool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuPool({:?})", self.permits)
    }
}

impl<S: Default + 'static> CpuPool<S> {
    /// Creates a pool whose threads are called `name`. `in_use` counts waiting and running requests; `tracker` tracks the
    /// running ones.
    #[must_use]
    pub fn new(
        name: &'static str,
        limits: CpuPoolLimits,
        priority: Priority,
        in_use: Gauge,
        tracker: &TaskTracker,
    ) -> Self {
        let CpuPoolLimits { threads, waiting, waiting_per_identity, keeps_headroom } = limits;
        let admitted = threads.saturating_add(waiting).min(Semaphore::MAX_PERMITS);
        let limits = Limits { permits: threads, waiting_per_identity, keeps_headroom, flood_share: None };
        Self {
            admitted: Arc::new(Semaphore::new(admitted)),
            in_use,
            permits: FairShare::new(limits),
            threads: Threads::new(name, threads, priority),
            tracker: tracker.clone(),
        }
    }

    /// Takes a slot in the queue of `identity`.
    ///
    /// # Errors
    /// [`CpuPoolLimits::waiting`] is reached.
    pub fn slot(&self, identity: Identity) -> Result<QueueSlot<'_, S>, CpuPoolError> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| CpuPoolError::QueueFull)?;
        self.in_use.increment(1.0);
        let admission = Admission { in_use: self.in_use.clone(), _permit: admitted };
        Ok(QueueSlot { pool: self, identity, admission })
    }

    /// Takes a slot, waits for a permit and runs the work.
    ///
    /// # Errors
    /// See [`CpuPoolError`].
    pub async fn run<T: Send + 'static>(
        &self,
        identity: Identity,
        work: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, CpuPoolError> {
        let slot = self.slot(identity)?;
        let permit = slot.permit().await?;
        slot.run(permit, work).await
    }
}

/// A slot in the queue of an identity.
#[derive(Debug)]
pub struct QueueSlot<'a, S = ()> {
    pool: &'a CpuPool<S>,
    identity: Identity,
    admission: Admission,
}

impl<S: Default + 'static> QueueSlot<'_, S> {
    /// Waits for a thread. The caller sets the deadline.
    ///
    /// # Errors
    /// [`CpuPoolLimits::waiting_per_identity`] is reached.
    pub async fn permit(&self) -> Result<FairPermit, CpuPoolError> {
        self.pool.permits.acquire(self.identity).await.map_err(|_| CpuPoolError::QueueFull)
    }

    /// Runs the work, to completion even if the caller is dropped.
    ///
    /// # Errors
    /// The work panicked, or no thread could be started.
    pub async fn run<T: Send + 'static>(
        self,
        permit: FairPermit,
        work: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, CpuPoolError> {
        let Self { pool, admission, .. } = self;
        let token = pool.tracker.token();
        let (result, received) = oneshot::channel();
        pool.threads.send(Box::new(move |state| {
            let done = catch_unwind(AssertUnwindSafe(|| work(state)));
            if done.is_err() {
                *state = S::default();
            }
            // Before the result, whose receiver may take the next slot immediately.
            drop((admission, permit));
            drop(result.send(done));
            drop(token);
        }))?;
        let done = received.await.unwrap_or_else(|dropped| Err(Box::new(dropped)));
        done.map_err(CpuPoolError::Panicked)
    }
}

/// The right to wait or run, counted by the gauge.
#[derive(Debug)]
struct Admission {
    in_use: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.in_use.decrement(1.0);
    }
}

#[cfg(test)]
mod tests;
