//! Runs long CPU work outside the threads that serve requests.
//!
//! The runtime has one thread per core, and each serves many requests. While one parses a body of 40 MB (a quarter of
//! a second for JSON, more for CSV), the others on its thread wait. Work that grows with a body or result therefore
//! runs on the blocking pool once it exceeds a number of bytes.
//!
//! The work needs a permit, and clients share the permits fairly. Work that has started runs to completion even if
//! its client disconnects. Until then it keeps its permit and its data, such as a body with its share of the server's
//! memory, so a client gains nothing by disconnecting.

use basalt_core::fair_share::{AcquireError, FairShare, Limits, WAITING_PER_IDENTITY};
use basalt_core::identity::Identity;
use tokio_util::task::TaskTracker;

use crate::error::RestError;

/// Work on this many bytes takes one or two milliseconds, less than moving it to another thread is worth.
const MAX_INLINE_BYTES: usize = 256 * 1024;

/// Whether work on this many bytes should use [`ClientCpu::run`].
pub(crate) const fn is_long(bytes: usize) -> bool {
    bytes > MAX_INLINE_BYTES
}

/// Permits for one kind of long work.
#[derive(Debug)]
pub(crate) struct CpuPermits {
    permits: FairShare,
    tracker: TaskTracker,
}

/// The permits, as available to one client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientCpu<'a> {
    cpu: &'a CpuPermits,
    identity: Identity,
}

impl CpuPermits {
    /// Creates `concurrency` permits; the work runs on `tracker`.
    pub(crate) fn new(concurrency: usize, tracker: &TaskTracker) -> Self {
        let limits = Limits {
            permits: concurrency,
            waiting_per_identity: WAITING_PER_IDENTITY,
            keeps_headroom: true,
            flood_share: None,
        };
        Self { permits: FairShare::new(limits), tracker: tracker.clone() }
    }

    /// The permits for work on behalf of `identity`.
    pub(crate) const fn for_identity(&self, identity: Identity) -> ClientCpu<'_> {
        ClientCpu { cpu: self, identity }
    }
}

impl ClientCpu<'_> {
    /// Runs `work` on another thread once it has a permit. A panic in it is propagated.
    ///
    /// # Errors
    /// Too much work of this client is already queued, or the runtime is shutting down.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RestError> {
        let permit = self.cpu.permits.acquire(self.identity).await.map_err(|error| match error {
            AcquireError::QueueFull => RestError::Busy,
            AcquireError::Closed => RestError::Internal("CPU permits are closed"),
        })?;
        let done = self.cpu.tracker.spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => RestError::Internal("the runtime shut down before the work was done"),
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
    async fn work_does_not_block_request_thread() {
        let (go, waits) = mpsc::channel();
        let permits = CpuPermits::new(1, &TaskTracker::new());
        let work = permits.for_identity(Identity::SERVER).run(move || {
            let released: Result<(), _> = waits.recv();
            (thread::current().id(), released.is_ok())
        });
        // On a single-threaded runtime, inline work would wait forever for the message sent below.
        let (done, ()) = tokio::join!(work, async { go.send(()).unwrap() });
        let (worker, is_released) = done.unwrap();
        assert!(is_released);
        assert_ne!(worker, thread::current().id());
    }

    #[tokio::test]
    async fn cancelled_request_keeps_permit_until_work_ends() {
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
            // The work starts, if it gets a permit, and its request is cancelled.
            assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err());
        }
        assert_eq!(permits.permits.load().free, 0);
        assert_eq!(tracker.len(), 2, "shutdown waits for started work");
        // Other kinds of work have their own permits.
        assert_eq!(CpuPermits::new(1, &tracker).for_identity(Identity::SERVER).run(|| 1).await.ok(), Some(1));
        drop(release);
        let first = permits.permits.acquire(Identity::SERVER).await;
        let second = permits.permits.acquire(Identity::SERVER).await;
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(begun.load(Ordering::SeqCst), 2, "queued work never starts");
    }

    #[tokio::test]
    #[should_panic(expected = "on purpose")]
    async fn panic_in_work_propagates_to_request() {
        let permits = CpuPermits::new(1, &TaskTracker::new());
        let _never: Result<(), _> = permits
            .for_identity(Identity::SERVER)
            .run(|| std::panic::resume_unwind(Box::new("on purpose")))
            .await;
    }
}
