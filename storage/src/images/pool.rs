//! Runs transformations on half as many blocking threads as there are cores, so that a burst of images
//! leaves processors for requests. While requests wait, a free thread goes to the client using the fewest; a
//! client with too many waiting requests is rejected.
//!
//! A request holds a [`QueueSlot`] while waiting, and a permit from reading the source on. If the client
//! disconnects before the transformation starts, nothing more is done; once started it is completed and
//! cached for the next request.

use std::num::NonZeroUsize;
use std::sync::Arc;

use basalt_core::fair_share::{FairPermit, FairShare, Limits};
use basalt_core::identity::Identity;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::metrics::{self, Gauge};

/// Number of full client queues after which requests of every client are rejected.
const FULL_QUEUES: usize = 16;

/// Why a transformation did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PoolError {
    /// The queue is full.
    #[error("too many image transformations are queued")]
    Full,
    /// A decoder or encoder panicked.
    #[error("image transformation panicked")]
    Panicked,
}

/// The threads and their queue.
#[derive(Debug)]
pub(super) struct Pool {
    admitted: Arc<Semaphore>,
    threads: FairShare,
    in_use: Gauge,
    tracker: TaskTracker,
}

impl Pool {
    /// Allows `queue` waiting requests per client. `tracker` tracks the running tasks.
    pub(super) fn new(queue: usize, tracker: TaskTracker) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Self::with_threads((cores / 2).max(1), queue, tracker)
    }

    fn with_threads(threads: usize, queue: usize, tracker: TaskTracker) -> Self {
        let limit = threads.saturating_add(queue.saturating_mul(FULL_QUEUES));
        // Transformations take seconds at most, so new clients get a thread soon without reserved ones.
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

    /// Takes a slot in the client's queue.
    ///
    /// # Errors
    /// The server-wide limit is reached.
    pub(super) fn slot(&self, client: Identity) -> Result<QueueSlot<'_>, PoolError> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| PoolError::Full)?;
        Ok(QueueSlot { pool: self, client, counted: Counted::new(admitted, self.in_use.clone()) })
    }

    /// Runs short file operations on a blocking thread.
    pub(super) async fn blocking(&self, work: impl FnOnce() + Send + 'static) {
        // A panic is logged.
        let _done = self.tracker.spawn_blocking(work).await;
    }
}

/// A slot in a client's queue.
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

    /// Runs the work, to completion even if the caller is dropped.
    ///
    /// # Errors
    /// The work panicked.
    pub(super) async fn run<T: Send + 'static>(
        self,
        permit: FairPermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let Self { pool, counted, .. } = self;
        let done = pool.tracker.spawn_blocking(move || {
            let start = Instant::now();
            let result = work();
            metrics::record_duration(start.elapsed());
            drop((counted, permit));
            result
        });
        done.await.map_err(|_| PoolError::Panicked)
    }
}

/// A permit counted by the gauge.
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
    async fn full_queue_rejects_only_its_client() {
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
        // A client that disconnects frees its slot.
        drop(waits);
        let mut waits = Box::pin(third.permit());
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
        assert_eq!(first.run(permit, || 1).await, Ok(1));
        // The other client requested a thread later, but holds none.
        let permit = others.await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
        drop(permit);
        assert!(waits.await.is_ok());
    }

    #[tokio::test]
    async fn started_work_is_completed_and_counted() {
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
        // The client disconnects.
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
    async fn panic_releases_the_thread() {
        let pool = Pool::with_threads(1, 0, TaskTracker::new());
        let slot = pool.slot(client("a")).unwrap();
        let permit = slot.permit().await.unwrap();
        assert_eq!(slot.run(permit, || panic!("as a bug would")).await, Err::<(), _>(PoolError::Panicked));
        assert!(pool.slot(client("a")).unwrap().permit().await.is_ok());
    }
}
