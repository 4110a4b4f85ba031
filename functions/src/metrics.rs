//! This service's metrics. Labels have a closed set of values: the names in the registry.

use std::time::Duration;

use http::StatusCode;
use metrics::{Counter, Histogram};

use crate::deno::Usage;

/// The metrics of one function's calls. Each call needs them, and a lookup by name and labels costs more than the rest of the bookkeeping.
#[derive(Clone)]
pub(crate) struct CallMetrics {
    /// By status: 2xx, 3xx, 4xx, 5xx.
    requests: [Counter; 4],
    duration: Histogram,
    refused: Counter,
}

impl CallMetrics {
    pub(crate) fn new(function: &str) -> Self {
        let name = || function.to_owned();
        let requests = ["2xx", "3xx", "4xx", "5xx"].map(
            |class| metrics::counter!("basalt_functions_requests_total", "function" => name(), "status" => class),
        );
        Self {
            requests,
            duration: metrics::histogram!("basalt_functions_duration_seconds", "function" => name()),
            refused: metrics::counter!("basalt_functions_refused_total", "function" => name()),
        }
    }

    /// The function was called.
    pub(crate) fn called(&self, status: StatusCode, took: Duration) {
        let [success, redirect, client, server] = &self.requests;
        let counter = match status.as_u16() / 100 {
            1 | 2 => success,
            3 => redirect,
            4 => client,
            _ => server,
        };
        counter.increment(1);
        self.duration.record(took.as_secs_f64());
    }

    /// A call was rejected because of its token.
    pub(crate) fn refused(&self) {
        self.refused.increment(1);
    }
}

/// How long requests of a function wait for a worker.
pub(crate) fn queue_wait(function: &str) -> Histogram {
    metrics::histogram!("basalt_functions_queue_seconds", "function" => function.to_owned())
}

/// A worker started in this time.
pub(crate) fn cold_start(function: &str, took: Duration) {
    metrics::histogram!("basalt_functions_cold_start_seconds", "function" => function.to_owned())
        .record(took.as_secs_f64());
}

/// The number of a function's workers changed.
pub(crate) fn workers(function: &str, difference: f64) {
    metrics::gauge!("basalt_functions_workers", "function" => function.to_owned()).increment(difference);
}

/// A worker ended; `cause` is `retired`, `crash`, `memory`, `cpu` or `wall_clock`.
pub(crate) fn worker_ended(function: &str, cause: &'static str) {
    metrics::counter!("basalt_functions_worker_ends_total", "function" => function.to_owned(), "cause" => cause)
        .increment(1);
}

/// What a worker uses now, and what was recorded before.
#[expect(clippy::cast_precision_loss, reason = "memory of a process is exact in an f64")]
pub(crate) fn worker_usage(function: &str, now: Usage, before: Usage) {
    let memory = metrics::gauge!("basalt_functions_worker_memory_bytes", "function" => function.to_owned());
    memory.increment(now.resident_bytes as f64 - before.resident_bytes as f64);
    let cpu = now.cpu.saturating_sub(before.cpu).as_millis();
    metrics::counter!("basalt_functions_worker_cpu_milliseconds_total", "function" => function.to_owned())
        .increment(u64::try_from(cpu).unwrap_or(0));
}

/// Messages of a function were dropped.
pub(crate) fn dropped_messages(function: &str, count: u64) {
    metrics::counter!("basalt_functions_dropped_messages_total", "function" => function.to_owned())
        .increment(count);
}
