//! The workers of one function: which of them gets a request, when another starts, and what a request gets if none can.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ::metrics::Histogram;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::exchange::{self, Lease};
use super::runtime::Runtime;
use super::source::Source;
use super::worker::{End, Worker};
use super::{connections::SendError, watch as files};
use crate::config::Policy;
use crate::error::WorkerError;
use crate::metrics;

/// Requests in flight at which another worker starts: a worker has one thread.
const BUSY: usize = 16;
/// Requests in flight of one worker. Further ones wait.
const MAX_IN_FLIGHT: usize = 256;
/// After so many failed starts within the time, calls fail for the pause without a new attempt.
const FAILURES: usize = 3;
const FAILURE_WINDOW: Duration = Duration::from_secs(30);
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Workers that a request is offered to, if they end before it is sent.
const ATTEMPTS: usize = 4;
/// How long to wait for the exit status of a worker that closed a connection.
const STATUS_LIMIT: Duration = Duration::from_secs(3);

/// See the module.
pub(crate) struct Pool {
    pub(crate) function: Arc<str>,
    pub(crate) runtime: Arc<Runtime>,
    source: Mutex<Arc<Source>>,
    state: Mutex<State>,
    queue_wait: Histogram,
    /// Counts changes of the state, to wake waiting requests.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    workers: Vec<Arc<Worker>>,
    /// Starts in progress, including those that wait for a place.
    starting: usize,
    /// Incremented when the function's files change: earlier workers get no more requests.
    generation: u64,
    /// Number of failed starts.
    failed: u64,
    recent_failures: VecDeque<Instant>,
    paused_until: Option<Instant>,
    last_call: Option<Instant>,
}

/// What a request can do now.
enum Choice {
    Worker(Lease),
    Wait,
    Failed,
}

impl Pool {
    pub(crate) fn new(runtime: Arc<Runtime>, source: Source) -> Arc<Self> {
        Arc::new(Self {
            function: source.name().into(),
            queue_wait: metrics::queue_wait(source.name()),
            runtime,
            source: Mutex::new(Arc::new(source)),
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Calls the function.
    pub(crate) async fn call(self: Arc<Self>, mut request: Request<Body>) -> Result<Response, WorkerError> {
        let upload = exchange::prepare(&mut request, &self.runtime.host().config);
        for _ in 0..ATTEMPTS {
            let waiting = Instant::now();
            let lease = self.lease().await?;
            self.queue_wait.record(waiting.elapsed().as_secs_f64());
            match lease.worker().connections.send(request).await {
                Ok((response, connection)) => {
                    return Ok(exchange::respond(response, connection, lease, upload, &self.runtime));
                }
                Err(SendError::Unsent(unsent)) => {
                    lease.worker().retire();
                    request = *unsent;
                }
                Err(SendError::Broken(error)) => {
                    if let Some(limit) = upload.exceeded() {
                        return Err(WorkerError::BodyTooLarge { limit });
                    }
                    tracing::debug!(%error, function = %self.function, "a worker closed the connection of a request");
                    return Err(match lease.worker().ended(STATUS_LIMIT).await {
                        Some(End::Limit(_)) => WorkerError::Limit,
                        Some(End::Crashed | End::Retired) | None => WorkerError::Crashed,
                    });
                }
            }
        }
        Err(WorkerError::Exhausted)
    }

    /// Waits for a worker. While the first one starts, the wait has the limit of starts.
    async fn lease(self: &Arc<Self>) -> Result<Lease, WorkerError> {
        let config = &self.runtime.host().config;
        let started = Instant::now();
        let failed_before = self.state.lock().failed;
        let mut changes = None;
        loop {
            match self.choose(failed_before) {
                Choice::Worker(lease) => return Ok(lease),
                Choice::Failed => return Err(WorkerError::Boot),
                Choice::Wait => {}
            }
            // Most requests find a worker at once. The others choose again after they subscribed, so that they miss no change.
            let Some(changes) = &mut changes else {
                changes = Some(self.changes.subscribe());
                continue;
            };
            let is_booting = self.state.lock().workers.is_empty() && self.runtime.has_slots();
            let limit =
                if is_booting { config.queue_timeout.max(config.boot_timeout) } else { config.queue_timeout };
            if timeout_at(started + limit, changes.changed()).await.is_err() {
                return Err(WorkerError::Exhausted);
            }
        }
    }

    fn choose(self: &Arc<Self>, failed_before: u64) -> Choice {
        let config = &self.runtime.host().config;
        let mut state = self.state.lock();
        state.last_call = Some(Instant::now());
        if state.paused_until.is_some_and(|until| Instant::now() < until) {
            return Choice::Failed;
        }
        let is_oneshot = config.policy == Policy::Oneshot;
        let is_closed = |worker: &Worker| worker.is_retiring() || (is_oneshot && worker.is_used());
        let usable = state.workers.iter().filter(|worker| !is_closed(worker));
        let Some(worker) = usable.min_by_key(|worker| worker.in_flight()).cloned() else {
            if state.failed > failed_before {
                return Choice::Failed;
            }
            if state.starting == 0 || is_oneshot {
                self.start(&mut state);
            }
            return Choice::Wait;
        };
        let in_flight = worker.in_flight();
        let has_room = state.workers.len() < self.runtime.workers_per_function();
        if in_flight >= BUSY && state.starting == 0 && has_room && self.runtime.has_slots() {
            self.start(&mut state);
        }
        if in_flight >= MAX_IN_FLIGHT || !worker.try_enter() {
            return Choice::Wait;
        }
        if is_oneshot {
            worker.retire();
        }
        Choice::Worker(Lease::new(worker, Arc::clone(self)))
    }

    /// Starts a worker in the background.
    fn start(self: &Arc<Self>, state: &mut State) {
        state.starting += 1;
        let (pool, generation) = (Arc::clone(self), state.generation);
        self.runtime.spawn(async move { pool.boot(generation).await });
    }

    async fn boot(self: Arc<Self>, generation: u64) {
        let source = Arc::clone(&self.source.lock());
        let booted = match self.runtime.slot().await {
            Some(slot) => {
                let version = files::fingerprint(source.dir());
                self.runtime.boot(&source, &version, slot).await.map(Some)
            }
            // The server is busy with other functions, which is not this function's fault.
            None => Ok(None),
        };
        let started = {
            let mut state = self.state.lock();
            state.starting -= 1;
            let is_current = state.generation == generation;
            match booted {
                Ok(Some((worker, process))) => {
                    if is_current {
                        state.workers.push(Arc::clone(&worker));
                    } else {
                        worker.retire();
                    }
                    Some((worker, process))
                }
                Ok(None) => None,
                Err(_failed) => {
                    if is_current {
                        state.record_failure();
                    }
                    None
                }
            }
        };
        self.notify();
        let Some((worker, process)) = started else { return };
        metrics::workers(&self.function, 1.0);
        self.runtime.supervise(&worker, process).await;
        metrics::workers(&self.function, -1.0);
        self.state.lock().workers.retain(|other| other.id != worker.id);
        self.notify();
    }

    /// Wakes waiting requests.
    pub(crate) fn notify(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Replaces the function's files: the workers finish what they serve, and the next request gets a new one. A function that was
    /// called lately gets it before the request.
    pub(crate) fn reload(self: &Arc<Self>, source: Source) {
        *self.source.lock() = Arc::new(source);
        let mut state = self.state.lock();
        state.generation += 1;
        state.failed = 0;
        state.recent_failures.clear();
        state.paused_until = None;
        for worker in &state.workers {
            worker.retire();
        }
        let is_warm =
            state.last_call.is_some_and(|last| last.elapsed() < self.runtime.host().config.keep_warm);
        if is_warm && self.runtime.has_slots() {
            self.start(&mut state);
        }
        drop(state);
        self.notify();
    }

    /// Ends the workers, because the function was removed.
    pub(crate) fn close(&self) {
        for worker in &self.state.lock().workers {
            worker.retire();
        }
    }

    /// The worker that has been idle for longest, and since when.
    pub(crate) fn idlest(&self) -> Option<(Instant, Arc<Worker>)> {
        let state = self.state.lock();
        let idle = state.workers.iter().filter(|worker| !worker.is_retiring());
        idle.filter_map(|worker| Some((worker.idle_since()?, Arc::clone(worker))))
            .min_by_key(|(since, _)| *since)
    }
}

impl State {
    fn record_failure(&mut self) {
        self.failed += 1;
        let now = Instant::now();
        self.recent_failures.push_back(now);
        while self.recent_failures.front().is_some_and(|first| now - *first > FAILURE_WINDOW) {
            self.recent_failures.pop_front();
        }
        if self.recent_failures.len() >= FAILURES {
            self.recent_failures.clear();
            self.paused_until = Some(now + FAILURE_PAUSE);
        }
    }
}
