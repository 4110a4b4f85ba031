//! The thread that builds schema caches.
//!
//! A large catalog keeps a core busy for a while, which must not be a worker that answers requests. It is the same thread
//! each time: glibc gives threads arenas of their own and keeps in them what was freed, so that a thread per load left the
//! memory of a whole cache behind in one arena after the other.
//!
//! It has the priority of the others. With less it waited five times as long as it worked on a busy machine, and a
//! reload with it; requests notice no more of it than of the backend that reads the catalog.

use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

type Job = Box<dyn FnOnce() + Send>;

/// The thread, which starts with its first work and ends with this.
pub struct BuilderThread {
    /// Held to send.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    tracker: TaskTracker,
}

impl BuilderThread {
    /// Its work counts as tasks of `tracker`.
    #[must_use]
    pub fn new(tracker: &TaskTracker) -> Self {
        Self { jobs: Mutex::new(None), tracker: tracker.clone() }
    }

    /// Does `work` there. `None` when the thread cannot be started, or panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        let token = self.tracker.token();
        self.send(Box::new(move || {
            // The task that waited may be gone with the server.
            let _gone = done.send(work());
            drop(token);
        }));
        result.await.ok()
    }

    fn send(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // There is none yet, or its last job panicked.
        let job = match &*jobs {
            None => job,
            Some(jobs) => match jobs.send(job) {
                Ok(()) => return,
                Err(mpsc::SendError(job)) => job,
            },
        };
        match start(job) {
            Ok(started) => *jobs = Some(started),
            Err(error) => tracing::warn!(%error, "cannot start the thread that builds the schema cache"),
        }
    }
}

fn start(first: Job) -> std::io::Result<mpsc::Sender<Job>> {
    let (jobs, todo) = mpsc::channel::<Job>();
    thread::Builder::new().name("schema-cache".to_owned()).spawn(move || {
        first();
        todo.into_iter().for_each(|job| job());
    })?;
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_thread_does_everything_and_is_replaced_when_it_panics() {
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
