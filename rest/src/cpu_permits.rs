//! Work that takes long, off the threads that serve requests.
//!
//! The runtime has a thread for each core, and each serves many requests: while one reads a body of 40 MB, a quarter of a
//! second for JSON and more for CSV, the others on its thread wait. So work that grows with a body or an answer is done on
//! the blocking pool, once there are more bytes than a thread may well be kept busy with.
//!
//! The work needs a permit; clients share them fairly, and no request waits longer than it may take. Work that has begun comes
//! to its end though its client has left. It keeps its permit and what it was given until then, such as a body with its
//! share of the server's memory: a client gains neither by leaving.

use basalt_core::fair_share::{AcquireError, FairShare, Limits, WAITING_PER_IDENTITY};
use basalt_core::identity::Identity;
use tokio_util::task::TaskTracker;

use crate::error::RestError;

/// Up to so many bytes take a thread of the runtime a millisecond or two, which is less than the way to another thread
/// and back is worth.
const SHORT_BYTES: usize = 256 * 1024;

/// Whether what is done with so many bytes should be done by [`ClientCpu::run`].
pub(crate) const fn is_long(bytes: usize) -> bool {
    bytes > SHORT_BYTES
}

/// How much work of one kind is done at a time.
#[derive(Debug)]
pub(crate) struct CpuPermits {
    permits: FairShare,
    tracker: TaskTracker,
}

/// The permits as one client gets them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientCpu<'a> {
    cpu: &'a CpuPermits,
    identity: Identity,
}

impl CpuPermits {
    /// So many at a time, as tasks of `tracker`.
    pub(crate) fn new(at_a_time: usize, tracker: &TaskTracker) -> Self {
        let limits = Limits {
            permits: at_a_time,
            waiting_per_identity: WAITING_PER_IDENTITY,
            keeps_headroom: true,
            flood_share: None,
        };
        Self { permits: FairShare::new(limits), tracker: tracker.clone() }
    }

    /// The permits for work of `identity`.
    pub(crate) const fn for_identity(&self, identity: Identity) -> ClientCpu<'_> {
        ClientCpu { cpu: self, identity }
    }
}

impl ClientCpu<'_> {
    /// Does `work` on another thread, when there is a permit for it. A panic in it is a panic here.
    ///
    /// # Errors
    /// Too much work of this client waits, or the runtime ends.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RestError> {
        let permit = self.cpu.permits.acquire(self.identity).await.map_err(|error| match error {
            AcquireError::QueueFull => RestError::Busy,
            AcquireError::Closed => RestError::Internal("the permits for long work are closed"),
        })?;
        let done = self.cpu.tracker.spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => RestError::Internal("the server stopped before a long work was done"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_thread_of_the_request_is_free_meanwhile() {
        let (go, waits) = mpsc::channel();
        let permits = CpuPermits::new(1, &TaskTracker::new());
        let work = permits.for_identity(Identity::SERVER).run(move || {
            let released: Result<(), _> = waits.recv();
            (thread::current().id(), released.is_ok())
        });
        // On a runtime of one thread: done there, it would wait for ever for what comes after it.
        let (done, ()) = tokio::join!(work, async { go.send(()).unwrap() });
        let (worker, is_released) = done.unwrap();
        assert!(is_released);
        assert_ne!(worker, thread::current().id());
    }

    #[tokio::test]
    async fn work_that_has_begun_keeps_its_permit_when_its_request_is_gone() {
        let tracker = TaskTracker::new();
        let permits = CpuPermits::new(2, &tracker);
        let begun = Arc::new(AtomicUsize::new(0));
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        for _ in 0..5 {
            let (begun, released) = (Arc::clone(&begun), Arc::clone(&released));
            let work = permits.for_identity(Identity::SERVER).run(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let _end = released.lock().map(|released| released.recv());
            });
            // It begins, if there is a permit, and is given up.
            assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err());
        }
        assert_eq!(permits.permits.load().free, 0);
        assert_eq!(tracker.len(), 2, "the service waits for what has begun");
        // Other work has permits of its own.
        assert_eq!(CpuPermits::new(1, &tracker).for_identity(Identity::SERVER).run(|| 1).await.ok(), Some(1));
        drop(release);
        let first = permits.permits.acquire(Identity::SERVER).await;
        let second = permits.permits.acquire(Identity::SERVER).await;
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(begun.load(Ordering::SeqCst), 2, "those that waited for a permit never began");
    }

    #[tokio::test]
    #[should_panic(expected = "on purpose")]
    async fn a_panic_is_the_requests_own() {
        let permits = CpuPermits::new(1, &TaskTracker::new());
        let _never: Result<(), _> = permits
            .for_identity(Identity::SERVER)
            .run(|| std::panic::resume_unwind(Box::new("on purpose")))
            .await;
    }
}
