//! The pools of all functions, and what they share: places for workers, starts at the same time, the supervisors' tasks.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::host::Host;
use super::journal::Journal;
use super::pool::Pool;
use super::source::Source;
use super::worker::{BootFailed, Process, Worker};

/// How often a start that waits for a place ends an idle worker of another function.
const EVICTION_INTERVAL: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct Runtime {
    host: Host,
    pools: ArcSwap<HashMap<Arc<str>, Arc<Pool>>>,
    slots: Arc<Semaphore>,
    /// More starts than processors at the same time only delay each other.
    boots: Semaphore,
    workers_per_function: usize,
    journal: Journal,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Runtime {
    pub(crate) fn new(
        host: Host,
        journal: Journal,
        tracker: TaskTracker,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        // Read once: the number of processors costs a dozen system calls, and every request needs it.
        let processors = available_parallelism().map_or(1, std::num::NonZero::get);
        let slots = host.config.max_workers.unwrap_or(4 * processors);
        Arc::new(Self {
            pools: ArcSwap::default(),
            slots: Arc::new(Semaphore::new(slots)),
            boots: Semaphore::new(processors),
            workers_per_function: host.config.workers_per_function.unwrap_or(processors),
            host,
            journal,
            tracker,
            shutdown,
        })
    }

    pub(crate) const fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) const fn workers_per_function(&self) -> usize {
        self.workers_per_function
    }

    /// Whether a worker can start without another one's end.
    pub(crate) fn has_slots(&self) -> bool {
        self.slots.available_permits() > 0
    }

    pub(crate) fn spawn(&self, task: impl Future<Output: Send + 'static> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// The pool of a function, if it is one of [`Runtime::replace`].
    pub(crate) fn pool(&self, name: &str) -> Option<Arc<Pool>> {
        self.pools.load().get(name).cloned()
    }

    /// Serves these functions from now on. The pools of functions that are named in `changed` get new workers.
    pub(crate) fn replace(self: &Arc<Self>, sources: Vec<Source>, is_changed: impl Fn(&str) -> bool) {
        let before = self.pools.load_full();
        let pools = sources.into_iter().map(|source| {
            let pool = match before.get(source.name()) {
                Some(pool) => {
                    if is_changed(source.name()) {
                        pool.reload(source);
                    }
                    Arc::clone(pool)
                }
                None => Pool::new(Arc::clone(self), source),
            };
            (Arc::clone(&pool.function), pool)
        });
        let pools: HashMap<_, _> = pools.collect();
        for (name, pool) in &*before {
            if !pools.contains_key(name) {
                pool.close();
            }
        }
        self.pools.store(Arc::new(pools));
    }

    /// A place for a new worker, for which the worker that has been idle for longest ends. `None` if all workers are busy for
    /// `functions.queue_timeout`, or the server stops.
    pub(crate) async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let deadline = Instant::now() + self.host.config.queue_timeout;
        while Instant::now() < deadline && !self.shutdown.is_cancelled() {
            if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
                return Some(slot);
            }
            let pools = self.pools.load_full();
            let idlest = pools.values().filter_map(|pool| pool.idlest()).min_by_key(|(since, _)| *since);
            if let Some((_, worker)) = idlest {
                worker.retire();
            }
            if let Ok(Ok(slot)) = timeout(EVICTION_INTERVAL, Arc::clone(&self.slots).acquire_owned()).await {
                return Some(slot);
            }
        }
        None
    }

    pub(crate) async fn boot(
        &self,
        source: &Source,
        version: &str,
        slot: OwnedSemaphorePermit,
    ) -> Result<(Arc<Worker>, Process), BootFailed> {
        let booted = async {
            let _turn = self.boots.acquire().await;
            Worker::boot(&self.host, source, version, self.journal.clone(), &self.tracker, slot).await
        };
        self.shutdown.run_until_cancelled(booted).await.unwrap_or(Err(BootFailed))
    }

    pub(crate) async fn supervise(&self, worker: &Arc<Worker>, process: Process) {
        worker.supervise(&self.host, process, &self.shutdown).await;
    }
}
