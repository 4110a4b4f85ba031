//! The threads that compute password hashes, apart from those that answer requests and below them: where the system
//! lets a thread lower its own priority, a burst of sign-ins takes what the others leave, all of it if they leave all.
//!
//! Each thread keeps the memory of its last argon2 hash for a while: getting 19 MiB anew from the system costs a tenth
//! of the hash itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use argon2::Block;

use super::HashError;

/// Steps of `nice`: a thread of priority 0 that wants a core gets about nine tenths of it.
const LOWER_BY: i32 = 10;
/// How long unused memory is kept.
const KEPT: Duration = Duration::from_secs(10);

/// Blocks that argon2 works on, kept between hashes.
#[derive(Default)]
pub(super) struct Memory(Vec<Block>);

impl Memory {
    /// At least `count` blocks, whatever they hold: argon2 fills them before it reads.
    pub(super) fn blocks(&mut self, count: usize) -> &mut [Block] {
        if self.0.len() < count {
            // Not resized: that would copy what nobody needs.
            self.0 = vec![Block::new(); count];
        }
        &mut self.0
    }
}

type Job = Box<dyn FnOnce(&mut Memory) + Send>;

/// A handle to the threads; they end with the last one. The queue has no bound of its own: each job carries a permit
/// of [`super::Hasher`].
#[derive(Clone)]
pub(super) struct Threads(Sender<Job>);

impl Threads {
    /// Starts `count` threads that keep up to `kept_blocks` each.
    pub(super) fn start(count: usize, kept_blocks: usize) -> Result<Self, HashError> {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..count {
            let jobs = Arc::clone(&receiver);
            std::thread::Builder::new()
                .name("password-hash".to_owned())
                .spawn(move || work(&jobs, kept_blocks))
                .map_err(|_error| HashError::Failed)?;
        }
        Ok(Self(sender))
    }

    pub(super) fn send(&self, job: Job) -> Result<(), HashError> {
        self.0.send(job).map_err(|_ended| HashError::Failed)
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, kept_blocks: usize) {
    // On Linux of this thread alone, elsewhere of the process or refused: only where it is known is it asked for.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(LOWER_BY) {
        tracing::debug!(%error, "password hashes run at the priority of requests");
    }
    let mut memory = Memory::default();
    while let Some(job) = next(jobs, &mut memory) {
        // Whoever waits for a job that panicked sees its answer dropped.
        if catch_unwind(AssertUnwindSafe(|| job(&mut memory))).is_err() || memory.0.len() > kept_blocks {
            memory = Memory::default();
        }
    }
}

/// The next job; `None` at the end. Memory that nobody uses is given back meanwhile.
fn next(jobs: &Mutex<Receiver<Job>>, memory: &mut Memory) -> Option<Job> {
    // The one that holds the lock waits for a job, the others for the lock.
    let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
    if !memory.0.is_empty() {
        match jobs.recv_timeout(KEPT) {
            Ok(job) => return Some(job),
            Err(RecvTimeoutError::Timeout) => *memory = Memory::default(),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    jobs.recv().ok()
}
