//! Descriptions of metrics, which each crate declares for its own: rows of docs/METRICS.md and `# HELP` lines of
//! `/metrics`.

/// How a metric's value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Monotonically increasing until the server restarts.
    Counter,
    /// The current value.
    Gauge,
    /// A distribution of measured values.
    Histogram,
}

impl Kind {
    /// The word after `# TYPE` in the exposition format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// When a metric first appears on `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// From the start, if its service is enabled.
    Always,
    /// After the first event.
    Happened,
}

/// Label names, each with a description of its possible values.
pub type Labels = &'static [(&'static str, &'static str)];

/// Description of one metric.
#[derive(Debug)]
pub struct Metric {
    /// Name, as on `/metrics`.
    pub name: &'static str,
    /// Metric type.
    pub kind: Kind,
    /// Labels and their values.
    pub labels: Labels,
    /// Unit of the value.
    pub unit: &'static str,
    /// When it first appears.
    pub shown: Shown,
    /// What the value measures.
    pub meaning: &'static str,
    /// Normal values, or what to do when it rises.
    pub advice: &'static str,
}

impl Metric {
    /// Builds an entry of a metric table.
    #[must_use]
    pub const fn new(
        name: &'static str,
        kind: Kind,
        labels: Labels,
        unit: &'static str,
        shown: Shown,
        meaning: &'static str,
        advice: &'static str,
    ) -> Self {
        Self { name, kind, labels, unit, shown, meaning, advice }
    }
}
