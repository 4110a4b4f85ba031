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

type Job = Box<dyn FnOnce() + Send>;

/// The thread, once there was something to do. It ends with this.
#[derive(Default)]
pub struct Aside(Mutex<Option<mpsc::Sender<Job>>>);

impl Aside {
    /// Does `work` there. `None` when the thread could not be had, or fell.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        self.send(Box::new(move || {
            // Who waited is gone with the server.
            let _gone = done.send(work());
        }));
        result.await.ok()
    }

    fn send(&self, job: Job) {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // There is none yet, or its last job was its end.
        let job = match &*jobs {
            None => job,
            Some(jobs) => match jobs.send(job) {
                Ok(()) => return,
                Err(mpsc::SendError(job)) => job,
            },
        };
        match start(job) {
            Ok(started) => *jobs = Some(started),
            Err(error) => tracing::warn!(%error, "there is no thread to build the schema cache on"),
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
    async fn one_thread_does_everything_and_is_replaced_when_it_falls() {
        let aside = Aside::default();
        let id = || thread::current().id();
        let first = aside.run(id).await;
        assert!(first.is_some());
        assert_eq!(aside.run(id).await, first);
        assert_eq!(aside.run(|| std::panic::resume_unwind(Box::new("on purpose"))).await, None::<()>);
        let mut next = None;
        while next.is_none() {
            next = aside.run(id).await;
        }
        assert_ne!(next, first);
    }
}
