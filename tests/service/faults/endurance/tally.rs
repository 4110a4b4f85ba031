//! What was asked, what came of it, and what was done to the server meanwhile. Printed when the test is over, however it
//! ends: one failure must not hide the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use basalt_testkit::Response;
use serde_json::Value;

use crate::load::is_refusal;

/// Complaints that are kept word for word; the others are counted.
const KEPT: usize = 20;

/// What became of one request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    /// 503 or 504: the database is away. A write may have happened all the same.
    PutOff,
    Wrong,
}

#[derive(Default)]
struct Kind {
    right: u64,
    /// By status and code.
    put_off: BTreeMap<String, u64>,
    slowest: Duration,
}

/// What was acknowledged, and what may have happened without that.
#[derive(Default)]
pub(crate) struct Acknowledged {
    pub(crate) batches: BTreeSet<i64>,
    /// Per row that is updated: the value acknowledged last, and the one sent last.
    pub(crate) changes: BTreeMap<i64, (i64, i64)>,
    /// Per counter: how often it was certainly counted up, and how often it may have been on top of that.
    pub(crate) bumps: BTreeMap<i64, (i64, i64)>,
}

#[derive(Default)]
struct Counts {
    kinds: BTreeMap<&'static str, Kind>,
    faults: BTreeMap<&'static str, u64>,
    wrong: u64,
    complaints: Vec<String>,
    findings: Vec<String>,
    acknowledged: Acknowledged,
    memory_kilobytes: Vec<u64>,
}

/// Shared by all workers.
pub(crate) struct Tally {
    begun: Instant,
    over: AtomicBool,
    counts: Mutex<Counts>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), over: AtomicBool::new(false), counts: Mutex::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Judges the answer to a request of this kind that was sent at `begun`; `check` looks at the body of one with
    /// `status` (null when it has none).
    pub(crate) async fn judge(
        &self,
        kind: &'static str,
        begun: Instant,
        answer: Result<Response, String>,
        status: u16,
        check: impl FnOnce(&Value) -> bool,
    ) -> Verdict {
        let complaint = match &answer {
            Ok(answer) if is_refusal(answer) => {
                let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                let reason =
                    format!("{} {}", answer.status.as_u16(), body["code"].as_str().unwrap_or_default());
                self.note(kind, begun, |kind| *kind.put_off.entry(reason).or_default() += 1);
                tokio::time::sleep(Duration::from_millis(10)).await;
                return Verdict::PutOff;
            }
            Ok(answer) => {
                let body = match answer.body.as_ref() {
                    [] => Some(Value::Null),
                    body => serde_json::from_slice(body).ok(),
                };
                if answer.status == status && body.as_ref().is_some_and(check) {
                    self.note(kind, begun, |kind| kind.right += 1);
                    return Verdict::Right;
                }
                format!("{kind}: {} {}", answer.status, answer.text())
            }
            Err(error) => format!("{kind}: no answer: {error}"),
        };
        self.complain(complaint);
        Verdict::Wrong
    }

    fn note(&self, kind: &'static str, begun: Instant, count: impl FnOnce(&mut Kind)) {
        let mut counts = self.counts();
        let kind = counts.kinds.entry(kind).or_default();
        kind.slowest = kind.slowest.max(begun.elapsed());
        count(kind);
    }

    /// A wrong answer.
    pub(crate) fn complain(&self, text: String) {
        let mut counts = self.counts();
        counts.wrong += 1;
        if counts.complaints.len() < KEPT {
            counts.complaints.push(text);
        }
    }

    /// Something was done to the server.
    pub(crate) fn harm(&self, what: &'static str) {
        *self.counts().faults.entry(what).or_default() += 1;
    }

    pub(crate) fn acknowledge(&self, note: impl FnOnce(&mut Acknowledged)) {
        note(&mut self.counts().acknowledged);
    }

    pub(crate) fn sample_memory(&self, kilobytes: u64) {
        self.counts().memory_kilobytes.push(kilobytes);
    }

    pub(crate) fn memory(&self) -> Vec<u64> {
        self.counts().memory_kilobytes.clone()
    }

    /// Since the load began.
    pub(crate) fn seconds(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }

    /// One of the figures at the end: what it is, and what is wrong about it.
    pub(crate) fn find(&self, figure: impl Into<String>, faults: impl IntoIterator<Item = String>) {
        let mut counts = self.counts();
        counts.findings.push(figure.into());
        counts.complaints.extend(faults);
    }

    /// Kinds of requests that were answered less than once a second: a server that only ever refuses is never wrong. Their
    /// share says little, because refusals are quick, and a client that is refused asks again.
    pub(crate) fn neglected(&self, kinds: &[&'static str]) -> Vec<String> {
        let (seconds, counts) = (self.seconds(), self.counts());
        let neglected =
            kinds.iter().filter(|name| counts.kinds.get(*name).is_none_or(|kind| kind.right < seconds));
        neglected.map(|name| format!("{name}: hardly ever answered")).collect()
    }

    /// The longest time a client waited for an answer.
    pub(crate) fn slowest(&self) -> Duration {
        self.counts().kinds.values().map(|kind| kind.slowest).max().unwrap_or_default()
    }

    pub(crate) fn wrong(&self) -> u64 {
        self.counts().wrong
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        self.counts().complaints.clone()
    }
}

impl Drop for Tally {
    #[expect(clippy::print_stdout, reason = "the figures are what the long run is for")]
    fn drop(&mut self) {
        let elapsed = self.seconds();
        let counts = self.counts();
        println!("endurance, {elapsed} s");
        for (what, count) in &counts.faults {
            println!("  {count:>7}  {what}");
        }
        for (name, kind) in &counts.kinds {
            let put_off: Vec<_> =
                kind.put_off.iter().map(|(reason, count)| format!("{count} times {reason}")).collect();
            println!(
                "  {:>7}  {name}: right; put off: {}; slowest {:.2} s",
                kind.right,
                put_off.join(", "),
                kind.slowest.as_secs_f64()
            );
        }
        println!("  {:>7}  wrong answers", counts.wrong);
        for finding in &counts.findings {
            println!("  {finding}");
        }
        for complaint in &counts.complaints {
            println!("  ! {complaint}");
        }
    }
}
