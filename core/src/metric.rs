//! What a crate says about the metrics that it sets: rows of docs/METRICS.md and of the `# HELP` lines of `/metrics`.

/// How a metric's value changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows until the server restarts.
    Counter,
    /// The current value.
    Gauge,
    /// A distribution of measured values.
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

/// When a metric appears on `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// From the start, where its service runs.
    Always,
    /// After the first event.
    Happened,
}

/// Names of labels with the values that each can have, in words.
pub type Labels = &'static [(&'static str, &'static str)];

/// One row.
#[derive(Debug)]
pub struct Metric {
    /// As on `/metrics`.
    pub name: &'static str,
    /// How its value changes.
    pub kind: Kind,
    /// Its labels.
    pub labels: Labels,
    /// What is counted or measured.
    pub unit: &'static str,
    /// When it appears.
    pub shown: Shown,
    /// What its value means.
    pub meaning: &'static str,
    /// What to do when it rises, or which value is normal.
    pub advice: &'static str,
}

impl Metric {
    /// A row.
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
