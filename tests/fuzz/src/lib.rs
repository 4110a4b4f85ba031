#![doc = include_str!("../README.md")]
#![expect(clippy::panic, reason = "a target reports a finding by panicking")]

pub mod corpus;
mod grammar;
mod payload;
mod realtime;
mod request;
mod s3;
mod statement_text;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name on the command line and in `corpus/`.
    pub name: &'static str,
    /// Reads one input.
    ///
    /// # Panics
    /// If the input violates a property.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "query", run: grammar::query },
    Target { name: "select", run: grammar::select },
    Target { name: "filter", run: grammar::filter },
    Target { name: "logic", run: grammar::logic },
    Target { name: "order", run: grammar::order },
    Target { name: "columns", run: grammar::columns },
    Target { name: "prefer", run: grammar::prefer },
    Target { name: "range", run: grammar::range },
    Target { name: "accept", run: grammar::accept },
    Target { name: "csv", run: payload::csv },
    Target { name: "json", run: payload::json },
    Target { name: "form", run: payload::form },
    Target { name: "request", run: request::request },
    Target { name: "chunked", run: s3::chunked },
    Target { name: "signature", run: s3::signature },
    Target { name: "replication", run: realtime::replication },
    Target { name: "condition", run: realtime::condition },
];

/// The target with this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
