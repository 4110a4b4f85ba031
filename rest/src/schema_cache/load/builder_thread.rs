//! The thread that builds schema caches.
//!
//! Building the cache of a large catalog keeps a core busy for a while, so it must not run on a worker that serves
//! requests. All builds share one thread: glibc gives each thread its own arena and retains freed memory there, so
//! one thread per load would retain the memory of a whole cache in each arena.
//!
//! It runs at normal priority. At a lower one, a build on a busy machine waited five times longer than it ran, and
//! delayed the reload; requests are not affected more than by the backend that reads the catalog.

use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

type Job = Box<dyn FnOnce() + Send>;

/// Handle to the thread, which starts with the first job and ends when the handle is dropped.
pub struct BuilderThread {
    /// Locked only to send.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    tracker: TaskTracker,
}

impl BuilderThread {
    /// Creates the handle; jobs count as tasks of `tracker`.
    #[must_use]
    pub fn new(tracker: &TaskTracker) -> Self {
        Self { jobs: Mutex::new(None), tracker: tracker.clone() }
    }

    /// Runs `work` on the thread. `None` if the thread cannot be started or panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        let token = self.tracker.token();
        self.send(Box::new(move || {
            // The receiver may have been dropped at shutdown.
            let _gone = done.send(work());
            drop(token);
        }));
        result.await.ok()
    }

    fn send(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        // The thread has not started, or its last job panicked.
        let job = match &*jobs {
            None => job,
            Some(jobs) => match jobs.send(job) {
                Ok(()) => return,
                Err(mpsc::SendError(job)) => job,
            },
        };
        match start(job) {
            Ok(started) => *jobs = Some(started),
            Err(error) => tracing::warn!(%error, "cannot start the schema cache builder thread"),
        }
    }
}

fn start(first: Job) -> std::io::Result<mpsc::Sender<Job>> {
    let (jobs, queue) = mpsc::channel::<Job>();
    thread::Builder::new().name("schema-cache".to_owned()).spawn(move || {
        first();
        queue.into_iter().for_each(|job| job());
    })?;
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn jobs_share_a_thread_that_restarts_after_panic() {
        let builder = BuilderThread::new(&TaskTracker::new());
        let id = || thread::current().id();
        let first = builder.run(id).await;
        assert!(first.is_some());
        assert_eq!(builder.run(id).await, first);
        assert_eq!(builder.run(|| std::panic::resume_unwind(Box::new("on purpose"))).await, None::<()>);
        let mut next = None;
        while next.is_none() {
            next = builder.run(id).await;
        }
        assert_ne!(next, first);
    }
}
