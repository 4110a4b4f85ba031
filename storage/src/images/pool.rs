//! Where images are made: on threads that block, as many as half of the cores, so that a burst of images leaves requests
//! cores of their own. While others wait, a free thread goes to the client that has the fewest; a client that has too many
//! requests waiting is refused.
//!
//! A request holds a [`QueueSlot`] from its wait on, and a permit from the moment it reads the source. A client that leaves
//! before its image is begun costs nothing more; an image that has begun is made to its end, and kept for the next request.

use std::num::NonZeroUsize;
use std::sync::Arc;

use basalt_core::fair_share::{FairPermit, FairShare, Limits};
use basalt_core::identity::Identity;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::metrics::{self, Gauge};

/// How many clients may fill their queues before the next request of any client is refused.
const FULL_QUEUES: usize = 16;

/// Why there is no image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PoolError {
    /// As many requests as may wait are waiting already.
    #[error("too many images are waiting to be made")]
    Full,
    /// A decoder or an encoder panicked.
    #[error("making the image failed")]
    Panicked,
}

/// The threads and the queues before them.
#[derive(Debug)]
pub(super) struct Pool {
    admitted: Arc<Semaphore>,
    threads: FairShare,
    in_use: Gauge,
    tracker: TaskTracker,
}

impl Pool {
    /// With room for `queue` requests of each client that wait. `tracker` knows of what runs.
    pub(super) fn new(queue: usize, tracker: TaskTracker) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Self::with_threads((cores / 2).max(1), queue, tracker)
    }

    fn with_threads(threads: usize, queue: usize, tracker: TaskTracker) -> Self {
        let limit = threads.saturating_add(queue.saturating_mul(FULL_QUEUES));
        // An image takes seconds at most: a newcomer is served soon without threads that are kept free for it.
        let limits = Limits {
            permits: threads,
            waiting_per_identity: queue,
            keeps_headroom: false,
            flood_share: None,
        };
        Self {
            admitted: Arc::new(Semaphore::new(limit)),
            threads: FairShare::new(limits),
            in_use: metrics::images(limit),
            tracker,
        }
    }

    /// A place in the queue of a client.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn slot(&self, client: Identity) -> Result<QueueSlot<'_>, PoolError> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| PoolError::Full)?;
        Ok(QueueSlot { pool: self, client, counted: Counted::new(admitted, self.in_use.clone()) })
    }

    /// Work with files, which does not take long.
    pub(super) async fn blocking(&self, work: impl FnOnce() + Send + 'static) {
        // A panic is in the log.
        let _done = self.tracker.spawn_blocking(work).await;
    }
}

/// A place in the queue of a client.
#[derive(Debug)]
pub(super) struct QueueSlot<'a> {
    pool: &'a Pool,
    client: Identity,
    counted: Counted,
}

impl QueueSlot<'_> {
    /// Waits for a thread.
    ///
    /// # Errors
    /// The client's queue is full.
    pub(super) async fn permit(&self) -> Result<FairPermit, PoolError> {
        self.pool.threads.acquire(self.client).await.map_err(|_| PoolError::Full)
    }

    /// Does the work, to its end even if its caller has left.
    ///
    /// # Errors
    /// It panicked.
    pub(super) async fn run<T: Send + 'static>(
        self,
        permit: FairPermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let Self { pool, counted, .. } = self;
        let done = pool.tracker.spawn_blocking(move || {
            let start = Instant::now();
            let result = work();
            metrics::made(start.elapsed());
            drop((counted, permit));
            result
        });
        done.await.map_err(|_| PoolError::Panicked)
    }
}

/// A permit that the gauge counts.
#[derive(Debug)]
struct Counted {
    in_use: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Counted {
    fn new(permit: OwnedSemaphorePermit, in_use: Gauge) -> Self {
        in_use.increment(1.0);
        Self { in_use, _permit: permit }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.in_use.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn client(name: &str) -> Identity {
        Identity::new(Some(name), "authenticated", None)
    }

    #[tokio::test]
    async fn a_full_queue_refuses_its_client_and_no_other() {
        let pool = Pool::with_threads(1, 1, TaskTracker::new());
        let (greedy, other) = (client("greedy"), client("other"));
        let first = pool.slot(greedy).unwrap();
        let permit = first.permit().await.unwrap();
        let second = pool.slot(greedy).unwrap();
        let mut waits = Box::pin(second.permit());
        // It waits for the only thread.
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
        let third = pool.slot(greedy).unwrap();
        assert!(matches!(third.permit().await, Err(PoolError::Full)));
        let others = pool.slot(other).unwrap();
        let mut others = Box::pin(others.permit());
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut others).await.is_err());
        // A client that leaves gives its place back.
        drop(waits);
        let mut waits = Box::pin(third.permit());
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
        assert_eq!(first.run(permit, || 1).await, Ok(1));
        // The other client asked later and has no thread.
        let permit = others.await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
        drop(permit);
        assert!(waits.await.is_ok());
    }

    #[tokio::test]
    async fn what_has_begun_is_finished_and_counts_until_then() {
        let pool = Pool::with_threads(1, 0, TaskTracker::new());
        let (begin, begun) = mpsc::channel();
        let (finish, finished) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let slot = pool.slot(client("a")).unwrap();
        let permit = slot.permit().await.unwrap();
        let work = slot.run(permit, move || {
            begin.send(()).unwrap();
            finished.recv().unwrap();
            tell.send(()).unwrap();
        });
        // The client leaves.
        assert!(tokio::time::timeout(Duration::from_millis(10), work).await.is_err());
        begun.recv().unwrap();
        assert_eq!(pool.slot(client("b")).err(), Some(PoolError::Full));
        finish.send(()).unwrap();
        told.recv().unwrap();
        pool.tracker.close();
        pool.tracker.wait().await;
        assert!(pool.slot(client("b")).is_ok());
    }

    #[tokio::test]
    async fn a_panic_gives_the_thread_back() {
        let pool = Pool::with_threads(1, 0, TaskTracker::new());
        let slot = pool.slot(client("a")).unwrap();
        let permit = slot.permit().await.unwrap();
        assert_eq!(slot.run(permit, || panic!("as a bug would")).await, Err::<(), _>(PoolError::Panicked));
        assert!(pool.slot(client("a")).unwrap().permit().await.is_ok());
    }
}
