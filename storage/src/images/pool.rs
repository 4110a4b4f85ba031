//! Where images are made: on threads that block, as many as half of the cores, so that a burst of images leaves requests
//! cores of their own. Who finds the queue full is refused.
//!
//! A request holds a [`Place`] from its wait on, and a [`Turn`] from the moment it reads the source. A client that leaves
//! before its image is begun costs nothing more; an image that has begun is made to its end, and kept for the next request.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::metrics::{self, Gauge};

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

/// The threads and the queue before them.
#[derive(Debug)]
pub(super) struct Pool {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
    in_use: Gauge,
    tracker: TaskTracker,
}

impl Pool {
    /// With room for `queue` requests that wait. `tracker` knows of what runs.
    pub(super) fn new(queue: usize, tracker: TaskTracker) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        Self::with_threads((cores / 2).max(1), queue, tracker)
    }

    fn with_threads(threads: usize, queue: usize, tracker: TaskTracker) -> Self {
        let limit = threads.saturating_add(queue);
        Self {
            admitted: Arc::new(Semaphore::new(limit)),
            running: Arc::new(Semaphore::new(threads)),
            in_use: metrics::images(limit),
            tracker,
        }
    }

    /// A place in the queue.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn place(&self) -> Result<Place<'_>, PoolError> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| PoolError::Full)?;
        Ok(Place { pool: self, counted: Counted::new(admitted, self.in_use.clone()) })
    }

    /// Work with files, which does not take long.
    pub(super) async fn blocking(&self, work: impl FnOnce() + Send + 'static) {
        // A panic is in the log.
        let _done = self.tracker.spawn_blocking(work).await;
    }
}

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pool: &'a Pool,
    counted: Counted,
}

impl<'a> Place<'a> {
    /// Waits for a thread.
    ///
    /// # Errors
    /// None: the semaphore is never closed.
    pub(super) async fn turn(self) -> Result<Turn<'a>, PoolError> {
        let running = Arc::clone(&self.pool.running);
        let running = running.acquire_owned().await.map_err(|_| PoolError::Full)?;
        Ok(Turn { place: self, running })
    }
}

/// A thread that is free for this request.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    place: Place<'a>,
    running: OwnedSemaphorePermit,
}

impl Turn<'_> {
    /// Does the work, to its end even if its caller has left.
    ///
    /// # Errors
    /// It panicked.
    pub(super) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let Self { place: Place { pool, counted }, running } = self;
        let done = pool.tracker.spawn_blocking(move || {
            let start = Instant::now();
            let result = work();
            metrics::made(start.elapsed());
            drop((counted, running));
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

    #[tokio::test]
    async fn a_full_queue_refuses_and_a_client_that_leaves_gives_its_place_back() {
        let pool = Pool::with_threads(1, 1, TaskTracker::new());
        let first = pool.place().unwrap().turn().await.unwrap();
        let mut second = Box::pin(pool.place().unwrap().turn());
        // It waits for the only thread.
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut second).await.is_err());
        assert_eq!(pool.place().unwrap_err(), PoolError::Full);
        drop(second);
        let third = pool.place().unwrap();
        assert_eq!(first.run(|| 1).await, Ok(1));
        assert_eq!(third.turn().await.unwrap().run(|| 3).await, Ok(3));
    }

    #[tokio::test]
    async fn what_has_begun_is_finished_and_counts_until_then() {
        let pool = Pool::with_threads(1, 0, TaskTracker::new());
        let (begin, begun) = mpsc::channel();
        let (finish, finished) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let turn = pool.place().unwrap().turn().await.unwrap();
        let work = turn.run(move || {
            begin.send(()).unwrap();
            finished.recv().unwrap();
            tell.send(()).unwrap();
        });
        // The client leaves.
        assert!(tokio::time::timeout(Duration::from_millis(10), work).await.is_err());
        begun.recv().unwrap();
        assert_eq!(pool.place().unwrap_err(), PoolError::Full);
        finish.send(()).unwrap();
        told.recv().unwrap();
        pool.tracker.close();
        pool.tracker.wait().await;
        assert!(pool.place().is_ok());
    }

    #[tokio::test]
    async fn a_panic_gives_the_place_back() {
        let pool = Pool::with_threads(1, 0, TaskTracker::new());
        let turn = pool.place().unwrap().turn().await.unwrap();
        assert_eq!(turn.run(|| panic!("as a bug would")).await, Err::<(), _>(PoolError::Panicked));
        assert!(pool.place().is_ok());
    }
}
