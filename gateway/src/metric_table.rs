//! The table of all metrics, for the `# HELP` lines of `/metrics` and for docs/METRICS.md. Metrics are recorded in all
//! crates; the tests fail for a metric that is missing here, and for a line that no code records.

mod bounds;
#[cfg(test)]
#[cfg(feature = "planning")]
mod document;
mod table;

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub use basalt_core::metric::{Kind, Metric, Shown};
pub use bounds::BOUNDS;

use crate::built_in::built_in;

/// All metrics, in the order of docs/METRICS.md.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    table::METRICS.iter().chain(built_in().map_or(&[][..], |built_in| built_in.metrics()))
}

/// A limit on a resource, and the metrics that show it.
#[derive(Debug)]
pub struct Bound {
    /// The limited resource.
    pub what: &'static str,
    /// The setting, or the fixed number.
    pub setting: &'static str,
    /// The metric of the limit, or `-`.
    pub limit: &'static str,
    /// The metric of current usage, or `-`.
    pub in_use: &'static str,
    /// What happens beyond it.
    pub beyond: &'static str,
    /// The metric that counts such events, or `-`.
    pub counted: &'static str,
}

/// Registers unit and description of each metric with the installed recorder.
pub(crate) fn describe() {
    for metric in metrics() {
        let unit = match metric.unit {
            "bytes" => Unit::Bytes,
            "seconds" => Unit::Seconds,
            _ => Unit::Count,
        };
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, unit, metric.meaning),
            Kind::Gauge => describe_gauge!(metric.name, unit, metric.meaning),
            Kind::Histogram => describe_histogram!(metric.name, unit, metric.meaning),
        }
    }
}
