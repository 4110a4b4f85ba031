//! Every metric there is: what `/metrics` says about itself (`# HELP`) and docs/METRICS.md. The metrics are set where
//! things happen, in all crates; a metric that is not in this table fails the tests, and so does a line here that no
//! code sets.

mod bounds;
#[cfg(test)]
mod document;
mod table;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub use bounds::BOUNDS;
pub use table::METRICS;

/// What its value does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the server starts anew.
    Counter,
    /// What is now.
    Gauge,
    /// How many took how long.
    Histogram,
}

impl Kind {
    /// As after `# TYPE`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// When it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// From the start, of the service that it is about.
    Always,
    /// Once it has happened.
    Happened,
}

/// One line of the table.
#[derive(Debug)]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// What its value does.
    pub kind: Kind,
    /// Names of its labels with the words they may have.
    pub labels: &'static [(&'static str, &'static str)],
    /// What is counted or measured.
    pub unit: &'static str,
    /// When it is there.
    pub shown: Shown,
    /// What it tells.
    pub meaning: &'static str,
    /// What to do when it rises, or what it should be like.
    pub advice: &'static str,
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
    for metric in METRICS {
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
