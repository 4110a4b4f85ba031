//! Dedicated threads for password hashes: one fewer than there are cores (decision 0032) and, on Linux, with lower priority, so
//! that a burst of sign-ins leaves a core to requests.
//!
//! Each thread keeps the memory of its last argon2 hash for a while: allocating 19 MiB again costs a third of a hash.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use argon2::Block;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio_util::task::TaskTracker;

use super::HashError;

/// Increment of the nice value. A competing thread with nice 0 gets about 90 % of a core.
const NICE_INCREMENT: i32 = 10;
/// How long an idle thread keeps its memory.
const MEMORY_IDLE_LIMIT: Duration = Duration::from_secs(10);
/// Minimum capacity in blocks. From 32 MiB on glibc maps memory directly and returns it to the system when freed; smaller
/// allocations may stay in its heap. Untouched pages use no memory.
const RETURNED_BLOCKS: usize = 33 * 1024;

/// argon2's working memory, kept between hashes.
#[derive(Default)]
pub(super) struct Memory(Vec<Block>);

impl Memory {
    /// At least `count` blocks with arbitrary content: argon2 overwrites them before reading.
    pub(super) fn blocks(&mut self, count: usize) -> &mut [Block] {
        if self.0.len() < count {
            // Reallocated rather than grown, which would copy the old content.
            self.0 = Vec::new();
            self.0 = Vec::with_capacity(count.max(RETURNED_BLOCKS));
            self.0.resize(count, Block::new());
        }
        &mut self.0
    }
}

type Job = Box<dyn FnOnce(&mut Memory) + Send>;

/// A handle to the threads, which stop when the last handle is dropped or closed. The queue is bounded by [`super::Hasher`]'s
/// permits.
#[derive(Clone)]
pub(super) struct Threads(Arc<Handle>);

/// Closes the queue when dropped.
struct Handle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Blocks a thread keeps.
    kept_blocks: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Threads {
    /// Starts `count` threads that keep up to `kept_blocks` each; `tracker` waits for them.
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

    /// Stops the threads after the queued jobs.
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
        self.queue.lock()
    }

    fn work(&self) {
        // `nice` applies to the calling thread only on Linux; elsewhere it applies to the process.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(NICE_INCREMENT) {
            tracing::debug!(%error, "cannot lower the priority of password hashing threads");
        }
        let mut memory = Memory::default();
        while let Some(job) = self.next(&mut memory) {
            // If a job panics, its caller sees a dropped channel.
            if catch_unwind(AssertUnwindSafe(|| job(&mut memory))).is_err()
                || memory.0.len() > self.kept_blocks
            {
                memory = Memory::default();
            }
        }
    }

    /// Waits for a job; `None` when closed. Frees memory that was idle too long.
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
            let remaining = MEMORY_IDLE_LIMIT.saturating_sub(idle_since.elapsed());
            if remaining.is_zero() {
                *memory = Memory::default();
            }
            if memory.0.is_empty() {
                self.changed.wait(&mut queue);
            } else {
                self.changed.wait_for(&mut queue, remaining);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn threads_survive_panics_and_stop_with_the_handle() {
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
    async fn close_stops_threads_after_queued_jobs() {
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
