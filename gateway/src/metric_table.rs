//! Every metric there is: what `/metrics` says about itself (`# HELP`) and docs/METRICS.md. The metrics are set where
//! things happen, in all crates; a metric that is not in this table fails the tests, and so does a line here that no
//! code sets.

mod bounds;
#[cfg(test)]
#[cfg(feature = "planning")]
mod document;
mod table;

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub use basalt_core::metric::{Kind, Metric, Shown};
pub use bounds::BOUNDS;

use crate::built_in::built_in;

/// All of them, in the order of docs/METRICS.md.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    table::METRICS.iter().chain(built_in().map_or(&[][..], |built_in| built_in.metrics()))
}

/// A bound and where it is seen.
#[derive(Debug)]
pub struct Bound {
    /// What it is on.
    pub what: &'static str,
    /// The setting, or the number that no setting changes.
    pub setting: &'static str,
    /// The metric of the limit, or `-`.
    pub limit: &'static str,
    /// The metric of what is in use, or `-`.
    pub in_use: &'static str,
    /// What happens beyond it.
    pub beyond: &'static str,
    /// The metric that counts that, or `-`.
    pub counted: &'static str,
}

/// Says what each metric is, to the recorder in force.
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
