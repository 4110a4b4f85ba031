//! The threads that compute password hashes, apart from those that answer requests and below them: where the system
//! lets a thread lower its own priority, a burst of sign-ins takes what the others leave, all of it if they leave all.
//! Where the threads are as many as the cores, one pauses while other requests come in ([`Foreground`]), until somebody
//! has waited for a hash for [`PATIENCE`].
//!
//! Each thread keeps the memory of its last argon2 hash for a while: getting 19 MiB anew from the system costs a third
//! of the hash itself.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argon2::Block;
use basalt_core::foreground::Foreground;

use super::HashError;

/// Steps of `nice`: a thread of priority 0 that wants a core gets about nine tenths of it.
const LOWER_BY: i32 = 10;
/// How long unused memory is kept.
const KEPT: Duration = Duration::from_secs(10);
/// How long other requests hold a thread back.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a thread that is held back looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// From 32 MiB on glibc always takes memory from the system, and gives it back at once; what is smaller it may keep for
/// itself. Pages that nobody touches cost nothing.
const RETURNED_BLOCKS: usize = 33 * 1024;

/// Blocks that argon2 works on, kept between hashes.
#[derive(Default)]
pub(super) struct Memory(Vec<Block>);

impl Memory {
    /// At least `count` blocks, whatever they hold: argon2 fills them before it reads.
    pub(super) fn blocks(&mut self, count: usize) -> &mut [Block] {
        if self.0.len() < count {
            // Not grown: that would copy what nobody needs.
            self.0 = Vec::new();
            self.0 = Vec::with_capacity(count.max(RETURNED_BLOCKS));
            self.0.resize(count, Block::new());
        }
        &mut self.0
    }
}

type Job = Box<dyn FnOnce(&mut Memory) + Send>;

/// A handle to the threads; they end with the last one. The queue has no bound of its own: each job carries a permit
/// of [`super::Hasher`].
#[derive(Clone)]
pub(super) struct Threads(Arc<Open>);

/// Closes the queue when dropped.
struct Open(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Whether other requests come in.
    others_ask: Box<dyn Fn() -> bool + Send + Sync>,
    /// How many may run then.
    beside_others: usize,
    /// How long the rest is held back.
    patience: Duration,
    /// Blocks a thread may keep.
    kept_blocks: usize,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Instant, Job)>,
    running: usize,
    is_closed: bool,
}

impl Threads {
    /// Starts `count` threads that keep up to `kept_blocks` each.
    pub(super) fn start(count: usize, kept_blocks: usize, foreground: Foreground) -> Result<Self, HashError> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        // A single core is shared by priority alone.
        let beside_others = count.min(cores.saturating_sub(1)).max(1);
        let others_ask = Box::new(move || foreground.is_active());
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let shared = Shared { queue, changed, others_ask, beside_others, patience: PATIENCE, kept_blocks };
        Self::start_with(count, shared)
    }

    fn start_with(count: usize, shared: Shared) -> Result<Self, HashError> {
        let shared = Arc::new(shared);
        let threads = Self(Arc::new(Open(Arc::clone(&shared))));
        for _ in 0..count {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("password-hash".to_owned())
                .spawn(move || shared.work())
                .map_err(|_error| HashError::Failed)?;
        }
        Ok(threads)
    }

    pub(super) fn send(&self, job: Job) {
        let Open(shared) = &*self.0;
        shared.queue().jobs.push_back((Instant::now(), job));
        shared.changed.notify_one();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// Never held while hashing.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        // On Linux of this thread alone, elsewhere of the process or refused: only where it is known is it asked for.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(LOWER_BY) {
            tracing::debug!(%error, "password hashes run at the priority of requests");
        }
        let mut memory = Memory::default();
        while let Some(job) = self.next(&mut memory) {
            // Whoever waits for a job that panicked sees its answer dropped.
            if catch_unwind(AssertUnwindSafe(|| job(&mut memory))).is_err()
                || memory.0.len() > self.kept_blocks
            {
                memory = Memory::default();
            }
            self.queue().running -= 1;
        }
    }

    /// The next job; `None` at the end. Memory that was not used for a while is given back meanwhile.
    fn next(&self, memory: &mut Memory) -> Option<Job> {
        let idle_since = Instant::now();
        let mut queue = self.queue();
        loop {
            let is_waiting = match queue.jobs.front() {
                Some((since, _job)) if self.may_begin(queue.running, *since) => {
                    queue.running += 1;
                    return queue.jobs.pop_front().map(|(_since, job)| job);
                }
                Some(_) => true,
                None if queue.is_closed => return None,
                None => false,
            };
            let keeps_for = KEPT.saturating_sub(idle_since.elapsed());
            if !memory.0.is_empty() && keeps_for.is_zero() {
                *memory = Memory::default();
            }
            let limit =
                if is_waiting { Some(LOOK_AGAIN) } else { (!memory.0.is_empty()).then_some(keeps_for) };
            queue = match limit {
                Some(limit) => self
                    .changed
                    .wait_timeout(queue, limit)
                    .map_or_else(|error| error.into_inner().0, |woken| woken.0),
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Whether a hash that was asked for at `since` may begin beside `running` others.
    fn may_begin(&self, running: usize, since: Instant) -> bool {
        running < self.beside_others || since.elapsed() >= self.patience || !(self.others_ask)()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// For what has to happen, however slow the machine.
    const LIMIT: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3600);

    /// Threads of which one may run while others ask.
    fn threads(count: usize, patience: Duration, others_ask: &Arc<AtomicBool>) -> Threads {
        let others_ask = Arc::clone(others_ask);
        let others_ask = Box::new(move || others_ask.load(Ordering::Relaxed));
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let shared = Shared { queue, changed, others_ask, beside_others: 1, patience, kept_blocks: 1 };
        Threads::start_with(count, shared).unwrap()
    }

    /// Asks for something that ends when the sender is dropped; says when it begins.
    fn occupy(threads: &Threads) -> (Receiver<Instant>, Sender<()>) {
        let ((begins, begun), (end, ends)) = (channel(), channel::<()>());
        threads.send(Box::new(move |_memory| {
            begins.send(Instant::now()).unwrap();
            let _ended = ends.recv();
        }));
        (begun, end)
    }

    #[test]
    fn a_core_is_left_to_others_until_somebody_has_waited_too_long() {
        let patience = Duration::from_millis(200);
        let threads = threads(2, patience, &Arc::new(AtomicBool::new(true)));
        let (first, _end_first) = occupy(&threads);
        first.recv_timeout(LIMIT).unwrap();
        let asked = Instant::now();
        let (second, _end_second) = occupy(&threads);
        assert!(second.recv_timeout(LIMIT).unwrap() >= asked + patience);
    }

    #[test]
    fn all_cores_are_taken_once_nobody_else_asks() {
        let others_ask = Arc::new(AtomicBool::new(true));
        let threads = threads(2, HOUR, &others_ask);
        let (first, _end_first) = occupy(&threads);
        first.recv_timeout(LIMIT).unwrap();
        let (second, _end_second) = occupy(&threads);
        let quiet = Instant::now();
        others_ask.store(false, Ordering::Relaxed);
        assert!(second.recv_timeout(LIMIT).unwrap() >= quiet);
    }

    #[test]
    fn who_waits_gets_the_place_of_who_ends() {
        let threads = threads(2, HOUR, &Arc::new(AtomicBool::new(true)));
        let (first, end_first) = occupy(&threads);
        first.recv_timeout(LIMIT).unwrap();
        let (second, _end_second) = occupy(&threads);
        let ended = Instant::now();
        drop(end_first);
        assert!(second.recv_timeout(LIMIT).unwrap() >= ended);
    }

    #[test]
    fn a_thread_outlives_a_panic_and_ends_with_the_handle() {
        let threads = threads(1, HOUR, &Arc::default());
        threads.send(Box::new(|_memory| panic!("as a bug would")));
        let (begun, end) = occupy(&threads);
        begun.recv_timeout(LIMIT).unwrap();
        let Threads(open) = &threads;
        let shared = Arc::downgrade(&open.0);
        drop((threads, end));
        let dropped = Instant::now();
        while shared.strong_count() > 0 {
            assert!(dropped.elapsed() < LIMIT, "the thread goes on");
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}
