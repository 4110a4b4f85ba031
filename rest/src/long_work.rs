//! Work that takes long, off the threads that serve requests.
//!
//! The runtime has a thread for each core, and each serves many requests: while one reads a body of 40 MB, a quarter of a
//! second for JSON and more for CSV, the others on its thread wait. So whatever grows with a body or an answer is done on
//! a thread of the blocking pool, once there are more bytes than a thread may well be kept busy with.
//!
//! As many at a time as there are cores; the rest wait for their turn, in order, and no longer than their requests may
//! take. The surprise: work that has begun comes to its end though its client has left. What it was given, a body with
//! its share of the server's memory among it, lives as long, and so does its turn: nobody gets more of either by leaving.

use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use tokio::sync::Semaphore;

use crate::error::RestError;

/// Up to so many bytes take a thread of the runtime a millisecond or two, which is less than the way to another thread
/// and back is worth.
const SHORT_BYTES: usize = 256 * 1024;

/// One for the process: the cores are those of all its servers.
static CORES: LazyLock<Turns> = LazyLock::new(|| Turns::new(available_parallelism().map_or(1, usize::from)));

/// Whether what is done with so many bytes should be done by [`run`].
pub(crate) const fn is_long(bytes: usize) -> bool {
    bytes > SHORT_BYTES
}

/// Does `work` on another thread, when a core is free for it. A panic in it is a panic here.
///
/// # Errors
/// The runtime ends.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RestError> {
    CORES.run(work).await
}

/// How much work of one kind is done at a time.
#[derive(Debug)]
pub(crate) struct Turns(Arc<Semaphore>);

impl Turns {
    /// So many at a time.
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_a_time)))
    }

    /// Does `work` on another thread, when it is its turn. A panic in it is a panic here.
    ///
    /// # Errors
    /// The runtime ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RestError> {
        let turn = Arc::clone(&self.0).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
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
        let work = run(move || {
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
    async fn work_that_was_begun_keeps_its_turn_when_nobody_waits_for_it() {
        let turns = Turns::new(2);
        let begun = Arc::new(AtomicUsize::new(0));
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        for _ in 0..5 {
            let (begun, released) = (Arc::clone(&begun), Arc::clone(&released));
            let work = turns.run(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let _end = released.lock().map(|released| released.recv());
            });
            // It begins, if it is its turn, and is given up.
            assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err());
        }
        assert_eq!(turns.0.available_permits(), 0);
        // Others have turns of their own.
        assert_eq!(Turns::new(1).run(|| 1).await.ok(), Some(1));
        drop(release);
        let _both = turns.0.acquire_many(2).await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 2, "those that waited for their turn never began");
    }

    #[tokio::test]
    #[should_panic(expected = "on purpose")]
    async fn a_panic_is_the_requests_own() {
        let _never: Result<(), _> = run(|| std::panic::resume_unwind(Box::new("on purpose"))).await;
    }
}
