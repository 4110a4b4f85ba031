//! The threads that compute password hashes, apart from those that answer requests. They are one fewer than the cores
//! (decision 0032) and, on Linux, of lower priority: a burst of sign-ins leaves requests a core.
//!
//! Each thread keeps the memory of its last argon2 hash for a while: getting 19 MiB anew from the system costs a third
//! of the hash itself.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argon2::Block;
use tokio_util::task::TaskTracker;

use super::HashError;

/// Steps of `nice`: a thread of priority 0 that wants a core gets about nine tenths of it.
const LOWER_BY: i32 = 10;
/// How long unused memory is kept.
const KEPT: Duration = Duration::from_secs(10);
/// From 32 MiB on glibc always takes memory from the system and gives it back at once; it may keep smaller pieces for
/// itself. Untouched pages cost nothing.
const RETURNED_BLOCKS: usize = 33 * 1024;

/// Blocks that argon2 works on, kept between hashes.
#[derive(Default)]
pub(super) struct Memory(Vec<Block>);

impl Memory {
    /// At least `count` blocks with any content: argon2 fills them before it reads.
    pub(super) fn blocks(&mut self, count: usize) -> &mut [Block] {
        if self.0.len() < count {
            // Not grown: that would copy content that argon2 does not need.
            self.0 = Vec::new();
            self.0 = Vec::with_capacity(count.max(RETURNED_BLOCKS));
            self.0.resize(count, Block::new());
        }
        &mut self.0
    }
}

type Job = Box<dyn FnOnce(&mut Memory) + Send>;

/// A handle to the threads; they end with the last one, or when it closes. The queue has no bound of its own: each job
/// carries a permit of [`super::Hasher`].
#[derive(Clone)]
pub(super) struct Threads(Arc<Handle>);

/// Closes the queue when dropped.
struct Handle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Blocks a thread may keep.
    kept_blocks: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Threads {
    /// Starts `count` threads that keep up to `kept_blocks` each. `tracker` waits for them.
    pub(super) fn start(count: usize, kept_blocks: usize, tracker: &TaskTracker) -> Result<Self, HashError> {
        let shared = Arc::new(Shared { kept_blocks, ..Shared::default() });
        let threads = Self(Arc::new(Handle(Arc::clone(&shared))));
        for _ in 0..count {
            let (shared, token) = (Arc::clone(&shared), tracker.token());
            std::thread::Builder::new()
                .name("password-hash".to_owned())
                .spawn(move || {
                    shared.work();
                    drop(token);
                })
                .map_err(|_error| HashError::Failed)?;
        }
        Ok(threads)
    }

    pub(super) fn send(&self, job: Job) {
        let Handle(shared) = &*self.0;
        shared.queue().jobs.push_back(job);
        shared.changed.notify_one();
    }

    /// Ends the threads after the jobs that wait.
    pub(super) fn close(&self) {
        self.0.close();
    }
}

impl Handle {
    fn close(&self) {
        self.0.queue().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Never held while hashing.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        // `nice` is about the calling thread on Linux only; elsewhere it is about the whole process.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(LOWER_BY) {
            tracing::debug!(%error, "password hashes run at the priority of requests");
        }
        let mut memory = Memory::default();
        while let Some(job) = self.next(&mut memory) {
            // The caller of a job that panics sees its answer dropped.
            if catch_unwind(AssertUnwindSafe(|| job(&mut memory))).is_err()
                || memory.0.len() > self.kept_blocks
            {
                memory = Memory::default();
            }
        }
    }

    /// The next job; `None` at the end. Gives back memory that was not used for a while.
    fn next(&self, memory: &mut Memory) -> Option<Job> {
        let idle_since = Instant::now();
        let mut queue = self.queue();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            let keeps_for = KEPT.saturating_sub(idle_since.elapsed());
            if keeps_for.is_zero() {
                *memory = Memory::default();
            }
            queue = if memory.0.is_empty() {
                self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
            } else {
                let woken = self.changed.wait_timeout(queue, keeps_for);
                woken.map_or_else(|error| error.into_inner().0, |woken| woken.0)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn threads_outlive_a_panic_and_end_with_the_handle() {
        let tracker = TaskTracker::new();
        let threads = Threads::start(2, 1, &tracker).unwrap();
        threads.send(Box::new(|_memory| panic!("as a bug would")));
        threads.send(Box::new(|_memory| panic!("as a bug would")));
        let (done, begun) = channel();
        threads.send(Box::new(move |_memory| done.send(()).unwrap()));
        tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
        drop(threads);
        tracker.close();
        tracker.wait().await;
    }

    #[tokio::test]
    async fn closing_ends_the_threads_after_the_jobs_that_wait() {
        let tracker = TaskTracker::new();
        let threads = Threads::start(1, 1, &tracker).unwrap();
        let (done, begun) = channel();
        threads.send(Box::new(move |_memory| done.send(()).unwrap()));
        threads.close();
        tracker.close();
        tracker.wait().await;
        assert_eq!(begun.try_recv(), Ok(()));
    }
}
