//! One worker: a Deno process that serves one function on a unix socket. This module starts it, keeps its limits, and ends it.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use basalt_core::random;
use http::{Method, Request};
use parking_lot::Mutex;
use tokio::process::{Child, ChildStdin};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::command;
use super::connections::Connections;
use super::host::Host;
use super::journal::Journal;
use super::limits::{self, Limit, Usage, limit_of};
use super::output::{self, Logger, Report};
use super::source::Source;
use crate::metrics;

/// How often limits are checked.
const TICK: Duration = Duration::from_millis(250);
/// How often the state of an idle worker is requested, and how long the response may take.
const HEALTH_INTERVAL: Duration = Duration::from_secs(15);
const HEALTH_LIMIT: Duration = Duration::from_secs(5);
/// Processor time to start in.
const BOOT_CPU: Duration = Duration::from_secs(20);
/// How long a worker may take to end after it was asked to.
const EXIT_LIMIT: Duration = Duration::from_secs(2);
/// How long tasks given to `waitUntil` may run when the server stops. The server waits 10 s for all of its tasks.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(7);

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It exceeded a limit.
    Limit(Limit),
    /// It ended by itself, or stopped responding.
    Crashed,
    /// The supervisor ended it: idle, replaced, or the server stops.
    Retired,
}

impl End {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Limit(limit) => limit.as_str(),
            Self::Crashed => "crash",
            Self::Retired => "retired",
        }
    }
}

/// Why a worker did not start. The log has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BootFailed;

impl BootFailed {
    /// Logs why a function did not start. It is not an error if the function was removed meanwhile: its folder is the
    /// working directory of the new process, which then fails with one message or another.
    fn logged(source: &Source, message: &str) -> Self {
        let function = source.name();
        if source.entry.exists() {
            tracing::error!(%function, "{message}");
        } else {
            tracing::info!(%function, "the function was removed while it started");
        }
        Self
    }
}

/// A worker that has started.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: Uuid,
    function: Arc<str>,
    pid: u32,
    pub(crate) connections: Arc<Connections>,
    started: Instant,
    in_flight: AtomicUsize,
    /// Requests that have ended.
    finished: AtomicU64,
    /// Promises given to `waitUntil` that have not settled.
    pending: AtomicUsize,
    is_retiring: AtomicBool,
    last_used: Mutex<Instant>,
    end: watch::Receiver<Option<End>>,
    /// Wakes the supervisor before its next tick.
    wake: mpsc::Sender<()>,
}

/// What the supervisor of a started worker owns.
pub(crate) struct Process {
    child: Child,
    /// The worker exits when this is closed, which also happens if the server is killed.
    stdin: Option<ChildStdin>,
    ended: watch::Sender<Option<End>>,
    wake: mpsc::Receiver<()>,
    logger: Logger,
    /// The worker's place among all workers.
    _slot: OwnedSemaphorePermit,
}

impl Worker {
    /// Starts a process and waits until the function accepts requests.
    pub(crate) async fn boot(
        host: &Host,
        source: &Source,
        version: &str,
        journal: Journal,
        tracker: &TaskTracker,
        slot: OwnedSemaphorePermit,
    ) -> Result<(Arc<Self>, Process), BootFailed> {
        let function: Arc<str> = source.name().into();
        let id = random::uuid();
        let socket = host.socket(id);
        let started = Instant::now();
        let spawned = command::worker(host, source, version, id, &socket).spawn();
        let mut child = spawned.map_err(|error| {
            let program = host.modules.program.display();
            BootFailed::logged(source, &format!("cannot start {program}: {error}"))
        })?;
        let pid = child.id().unwrap_or_default();
        let limited = limits::limit_cpu(pid, BOOT_CPU)
            .and_then(|()| limits::limit_descriptors(pid))
            .and_then(|()| limits::lower_priority(pid));
        if let Err(error) = limited {
            tracing::warn!(%function, "cannot limit a worker: {error}");
        }
        let logger = Logger::new(Arc::clone(&function), id, journal);
        let (reports, mut reported) = mpsc::channel(64);
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            // A full queue only delays the count of pending tasks until the next report.
            let report = move |report| drop(reports.try_send(report));
            tracker.spawn(output::read_output(stdout, logger.clone(), report));
            tracker.spawn(output::read_errors(stderr, logger.clone()));
        }
        let stdin = child.stdin.take();
        let listening = async {
            while let Some(report) = reported.recv().await {
                if report == Report::Listening {
                    return true;
                }
            }
            false
        };
        let is_listening = timeout(host.config.boot_timeout, listening).await;
        if is_listening != Ok(true) {
            let reason = match is_listening {
                Err(_elapsed) => format!("it did not listen within {} s", host.config.boot_timeout.as_secs()),
                Ok(_) => match timeout(EXIT_LIMIT, child.wait()).await {
                    Ok(Ok(status)) => format!("it ended with {status}"),
                    Ok(Err(_)) | Err(_) => "it closed its output".to_owned(),
                },
            };
            let _killed = child.kill().await;
            // The readers finish after the process has ended.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let last = logger.last_error();
            let hint = if last.is_empty() { String::new() } else { format!(": {last}") };
            let message = format!("the function failed to start, because {reason}{hint}");
            return Err(BootFailed::logged(source, &message));
        }
        set_running_limits(host, &function, pid);
        metrics::cold_start(&function, started.elapsed());
        let (ended, end) = watch::channel(None);
        let (wake, woken) = mpsc::channel(1);
        let worker = Arc::new(Self {
            id,
            function,
            pid,
            connections: Connections::new(socket, tracker.clone()),
            started,
            in_flight: AtomicUsize::new(0),
            finished: AtomicU64::new(0),
            pending: AtomicUsize::new(0),
            is_retiring: AtomicBool::new(false),
            last_used: Mutex::new(Instant::now()),
            end,
            wake,
        });
        let counted = Arc::clone(&worker);
        tracker.spawn(async move {
            while let Some(report) = reported.recv().await {
                if let Report::Pending(count) = report {
                    counted.pending.store(count, Ordering::SeqCst);
                }
            }
        });
        Ok((worker, Process { child, stdin, ended, wake: woken, logger, _slot: slot }))
    }

    /// Counts a request, unless the worker gets no more. A worker that sees no request in flight after it was marked as retiring
    /// cannot miss one, because the count comes before the check.
    pub(crate) fn try_enter(&self) -> bool {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        if self.is_retiring() {
            self.in_flight.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Ends what [`Worker::try_enter`] began.
    pub(crate) fn leave(&self) {
        *self.last_used.lock() = Instant::now();
        self.finished.fetch_add(1, Ordering::Relaxed);
        let before = self.in_flight.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.is_retiring() {
            let _full = self.wake.try_send(());
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Whether it has served or serves a request.
    pub(crate) fn is_used(&self) -> bool {
        self.in_flight() > 0 || self.finished.load(Ordering::Relaxed) > 0
    }

    /// Whether it serves nothing, and since when.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.in_flight() == 0 && self.pending.load(Ordering::SeqCst) == 0;
        is_idle.then(|| *self.last_used.lock())
    }

    pub(crate) fn is_retiring(&self) -> bool {
        self.is_retiring.load(Ordering::SeqCst)
    }

    /// Sends it no more requests. It ends when its requests and background tasks have.
    pub(crate) fn retire(&self) {
        self.is_retiring.store(true, Ordering::SeqCst);
        let _full = self.wake.try_send(());
    }

    /// How it ended, within a limit of time; `None` if it still runs.
    pub(crate) async fn ended(&self, limit: Duration) -> Option<End> {
        let mut end = self.end.clone();
        let ended = timeout(limit, end.wait_for(Option::is_some)).await;
        ended.ok().and_then(Result::ok).and_then(|end| *end)
    }

    /// Keeps the worker's limits until it ends.
    pub(crate) async fn supervise(
        self: &Arc<Self>,
        host: &Host,
        process: Process,
        shutdown: &CancellationToken,
    ) {
        let Process { mut child, stdin, ended, mut wake, logger, _slot } = process;
        let stopped = tokio::select! {
            status = child.wait() => {
                let status = status.ok();
                let end = status.and_then(limit_of).map_or(End::Crashed, End::Limit);
                self.report_exit(end, status, &logger);
                end
            }
            end = self.watch_limits(host, &mut wake, shutdown) => {
                self.stop(&mut child, stdin, end).await;
                end
            }
        };
        self.is_retiring.store(true, Ordering::SeqCst);
        metrics::worker_ended(&self.function, stopped.as_str());
        ended.send_replace(Some(stopped));
        let _removed = tokio::fs::remove_file(host.socket(self.id)).await;
    }

    /// Returns when the worker has to end.
    async fn watch_limits(
        &self,
        host: &Host,
        wake: &mut mpsc::Receiver<()>,
        shutdown: &CancellationToken,
    ) -> End {
        let config = &host.config;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewed = self.finished.load(Ordering::Relaxed);
        let mut counted = Usage::default();
        let mut is_warned = false;
        let mut next_health_check = Instant::now() + HEALTH_INTERVAL;
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                _ = wake.recv() => {}
                () = shutdown.cancelled() => {
                    self.is_retiring.store(true, Ordering::SeqCst);
                    let _elapsed = timeout(SHUTDOWN_LIMIT, self.settle("termination")).await;
                    return End::Retired;
                }
            }
            let age = self.started.elapsed();
            if age >= config.wall_clock {
                return End::Limit(Limit::WallClock);
            }
            if age >= config.wall_clock.mul_f32(0.9) && !std::mem::replace(&mut is_warned, true) {
                let _elapsed = timeout(TICK, self.announce_end("wall_clock")).await;
            }
            let usage = limits::usage(self.pid).unwrap_or(counted);
            metrics::worker_usage(&self.function, usage, counted);
            counted = usage;
            // Every finished request renews the budget of processor time.
            let finished = self.finished.load(Ordering::Relaxed);
            if finished != renewed {
                renewed = finished;
                let _gone = limits::limit_cpu(self.pid, usage.cpu + config.cpu_limit);
            }
            let is_large = usage.resident_bytes > resident_at_half(config.memory_mb);
            let is_idle_for_long = self.idle_since().is_some_and(|since| since.elapsed() >= config.keep_warm);
            if age >= config.wall_clock / 2 || is_large || is_idle_for_long {
                self.is_retiring.store(true, Ordering::SeqCst);
            }
            if self.is_retiring() && self.idle_since().is_some() {
                let _elapsed = timeout(EXIT_LIMIT, self.announce_end("early_drop")).await;
                return End::Retired;
            }
            if Instant::now() >= next_health_check && self.in_flight() == 0 {
                next_health_check = Instant::now() + HEALTH_INTERVAL;
                let is_healthy = timeout(HEALTH_LIMIT, self.control(Method::GET, "/_worker/state", "")).await;
                if is_healthy != Ok(true) {
                    tracing::warn!(function = %self.function, execution_id = %self.id, "a worker does not respond; ending it");
                    return End::Crashed;
                }
            }
        }
    }

    /// Returns when the worker serves nothing and its background tasks have settled.
    async fn settle(&self, reason: &str) {
        self.announce_end(reason).await;
        while self.idle_since().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Fires `beforeunload` in the function.
    async fn announce_end(&self, reason: &str) {
        let _is_announced = self.control(Method::POST, "/_worker/drain", reason).await;
    }

    async fn control(&self, method: Method, path: &str, reason: &str) -> bool {
        let request = Request::builder().method(method).uri(path).header("host", "worker");
        let Ok(request) = request.header("x-worker-reason", reason).body(Body::empty()) else { return false };
        match self.connections.send(request).await {
            Ok((response, _connection)) => response.status().is_success(),
            Err(_) => false,
        }
    }

    /// Ends the process: by the end of its input if it may end in peace, else by a signal.
    async fn stop(&self, child: &mut Child, stdin: Option<ChildStdin>, end: End) {
        drop(stdin);
        if end == End::Retired && timeout(EXIT_LIMIT, child.wait()).await.is_ok() {
            return;
        }
        if let End::Limit(limit) = end {
            let (function, execution_id) = (&*self.function, self.id);
            tracing::warn!(
                target: "basalt::functions", function, %execution_id,
                "the worker was ended at its limit of {}", limit.as_str()
            );
        }
        let _ended = child.kill().await;
    }

    fn report_exit(&self, end: End, status: Option<ExitStatus>, logger: &Logger) {
        let (function, execution_id) = (&*self.function, self.id);
        let requests = self.in_flight();
        let status = status.map_or_else(|| "an unknown status".to_owned(), |status| status.to_string());
        match end {
            End::Limit(limit) => tracing::warn!(
                target: "basalt::functions", function, %execution_id, requests,
                "the worker exceeded its limit of {} and ended with {status}", limit.as_str()
            ),
            End::Crashed | End::Retired => tracing::error!(
                target: "basalt::functions", function, %execution_id, requests,
                "the worker ended with {status}: {}", logger.last_error()
            ),
        }
    }
}

/// Resident memory at which a worker gets no more requests: Deno itself, and half of what the function may use.
const fn resident_at_half(memory_mb: u64) -> u64 {
    const DENO_BYTES: u64 = 64 << 20;
    DENO_BYTES + (memory_mb << 20) / 2
}

/// Replaces the limits of the start.
fn set_running_limits(host: &Host, function: &str, pid: u32) {
    let Some(usage) = limits::usage(pid) else { return };
    let limited = limits::limit_cpu(pid, usage.cpu + host.config.cpu_limit)
        .and_then(|()| limits::limit_data(pid, usage.data_bytes + (host.config.memory_mb << 20)));
    if let Err(error) = limited {
        tracing::warn!(function, "cannot limit a worker: {error}");
    }
}
