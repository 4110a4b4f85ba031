//! The threads of a pool. The runtime's blocking threads do not suffice, because a priority applies to a thread, and they
//! also run other work.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Priority;

/// An idle thread ends after this time and drops its state.
const MAX_IDLE: Duration = Duration::from_secs(10);
/// Increment of the nice value for [`Priority::Low`].
#[cfg(target_os = "linux")]
const NICE_INCREMENT: i32 = 10;

/// Must not panic.
type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Threads that are started when needed and end when this is dropped.
pub(super) struct Threads<S>(Arc<Shared<S>>);

struct Shared<S> {
    name: &'static str,
    max_threads: usize,
    priority: Priority,
    /// Never locked while a job runs.
    queue: Mutex<Queue<S>>,
    changed: Condvar,
}

struct Queue<S> {
    /// Bounded by the permits of the pool.
    jobs: VecDeque<Job<S>>,
    started: usize,
    idle: usize,
    is_closed: bool,
}

impl<S> Drop for Threads<S> {
    fn drop(&mut self) {
        self.0.queue.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl<S: Default + 'static> Threads<S> {
    pub(super) fn new(name: &'static str, max_threads: usize, priority: Priority) -> Self {
        let queue = Queue { jobs: VecDeque::new(), started: 0, idle: 0, is_closed: false };
        let changed = Condvar::new();
        Self(Arc::new(Shared { name, max_threads, priority, queue: Mutex::new(queue), changed }))
    }

    /// Gives the job to an idle thread, or to a new one.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn send(&self, job: Job<S>) -> io::Result<()> {
        let Self(shared) = self;
        let mut queue = shared.queue.lock();
        if queue.jobs.len() >= queue.idle && queue.started < shared.max_threads {
            let worker = Arc::clone(shared);
            thread::Builder::new().name(shared.name.to_owned()).spawn(move || worker.work())?;
            queue.started += 1;
        }
        queue.jobs.push_back(job);
        drop(queue);
        shared.changed.notify_one();
        Ok(())
    }
}

impl<S: Default> Shared<S> {
    fn work(&self) {
        // Only on Linux does `nice` apply to the calling thread instead of the process.
        #[cfg(target_os = "linux")]
        if self.priority == Priority::Low
            && let Err(error) = rustix::process::nice(NICE_INCREMENT)
        {
            tracing::debug!(%error, thread = self.name, "cannot lower the priority");
        }
        let mut state = S::default();
        while let Some(job) = self.next() {
            job(&mut state);
        }
    }

    /// Waits for a job; `None` ends the thread.
    fn next(&self) -> Option<Job<S>> {
        let mut queue = self.queue.lock();
        let mut is_expired = false;
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_closed || is_expired {
                queue.started -= 1;
                return None;
            }
            queue.idle += 1;
            is_expired = self.changed.wait_for(&mut queue, MAX_IDLE).timed_out();
            queue.idle -= 1;
        }
    }
}
