//! Runs steps in order, with their time, test counts and a summary.

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::count::{Tally, failed_test};
use crate::ui;

/// Kinds of tests in the summary.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rust,
    Policies,
    App,
    Conformance,
    Browser,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Rust, Self::Policies, Self::App, Self::Conformance, Self::Browser];

    fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Policies => "policies",
            Self::App => "app units",
            Self::Conformance => "conformance",
            Self::Browser => "browser",
        }
    }
}

/// A step's test counts and failed tests.
#[derive(Default)]
pub(super) struct Tallies {
    counted: RefCell<Vec<(Kind, Tally)>>,
    failed: RefCell<Vec<String>>,
}

impl Tallies {
    pub(super) fn add(&self, kind: Kind, tally: Tally) {
        self.counted.borrow_mut().push((kind, tally));
    }

    /// Reads a line of test output. The summary repeats the names of failed tests, because CI may show only the end of the log.
    pub(super) fn read(&self, line: &str) {
        let Some(test) = failed_test(line) else { return };
        let mut failed = self.failed.borrow_mut();
        if !failed.iter().any(|known| known == test) {
            failed.push(test.to_owned());
        }
    }
}

struct Step {
    name: &'static str,
    /// `None` if the step was not run.
    result: Option<Result<(), String>>,
    time: Duration,
    tallies: Vec<(Kind, Tally)>,
    failed_tests: Vec<String>,
}

/// The steps of a run, and their results.
pub(super) struct Suite<'a> {
    root: &'a Path,
    keep_going: bool,
    steps: Vec<Step>,
}

impl<'a> Suite<'a> {
    pub(super) fn new(root: &'a Path, keep_going: bool) -> Result<Self> {
        let folder = root.join("target/xtask");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { root, keep_going, steps: Vec::new() })
    }

    /// Runs a step without tests.
    pub(super) fn step(&mut self, name: &'static str, work: impl FnOnce(&Path) -> Result<()>) {
        self.counted(name, |root, _| work(root));
    }

    /// Runs a step that counts tests.
    pub(super) fn counted(&mut self, name: &'static str, work: impl FnOnce(&Path, &Tallies) -> Result<()>) {
        if !self.keep_going && self.steps.iter().any(Step::failed) {
            let (tallies, failed_tests) = (Vec::new(), Vec::new());
            self.steps.push(Step { name, result: None, time: Duration::ZERO, tallies, failed_tests });
            return;
        }
        ui::note(name);
        let start = Instant::now();
        let tallies = Tallies::default();
        let result = work(self.root, &tallies).map_err(|error| format!("{error:#}"));
        let time = start.elapsed();
        match &result {
            Ok(()) => ui::note(&format!("{name}: passed in {}", ui::duration(time))),
            Err(error) => {
                ui::note(&format!("{name}: FAILED after {}", ui::duration(time)));
                ui::error(error);
            }
        }
        let (tallies, failed_tests) = (tallies.counted.into_inner(), tallies.failed.into_inner());
        self.steps.push(Step { name, result: Some(result), time, tallies, failed_tests });
    }

    /// Prints the summary. CI parses the last line; a failed step without failed tests counts as one failure.
    pub(super) fn finish(self) -> Result<ExitCode> {
        ui::print("");
        for step in &self.steps {
            let result = match &step.result {
                Some(Ok(())) => "passed",
                Some(Err(_)) => "FAILED",
                None => "not run",
            };
            ui::print(&format!(
                "{:<16} {:<8} {:>14}  {}",
                step.name,
                result,
                ui::duration(step.time),
                step.counts()
            ));
        }
        ui::print("");
        let mut total = Tally::default();
        for kind in Kind::ALL {
            let mut sum = Tally::default();
            let tallies =
                self.steps.iter().flat_map(|step| &step.tallies).filter(|(other, _)| *other == kind);
            tallies.for_each(|(_, tally)| sum += *tally);
            if sum != Tally::default() {
                let Tally { passed, failed, skipped } = sum;
                ui::print(&format!(
                    "{:<16} {passed} passed, {failed} failed, {skipped} skipped",
                    kind.name()
                ));
            }
            total += sum;
        }
        total.failed += self.steps.iter().map(Step::failures_not_counted).sum::<u64>();
        for step in &self.steps {
            if let Some(Err(error)) = &step.result {
                ui::print(&format!("{} failed: {error}", step.name));
            }
            for test in &step.failed_tests {
                ui::print(&format!("    {test}"));
            }
        }
        ui::print(&format!("total time: {}", ui::duration(ui::elapsed())));
        ui::print(&format!("{} passed, {} failed", total.passed, total.failed));
        Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Step {
    fn failed(&self) -> bool {
        matches!(self.result, Some(Err(_)))
    }

    fn failures_not_counted(&self) -> u64 {
        u64::from(self.failed() && self.tallies.iter().all(|(_, tally)| tally.failed == 0))
    }

    fn counts(&self) -> String {
        let counted = self.tallies.iter().filter(|(_, tally)| *tally != Tally::default());
        let parts: Vec<String> =
            counted.map(|(kind, tally)| format!("{} {}", tally.passed + tally.failed, kind.name())).collect();
        parts.join(", ")
    }
}
