//! Counts requests, outcomes and injected faults. Printed on drop, so that one failure does not hide the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use basalt_testkit::Response;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::load::is_refusal;

/// The number of complaints kept as text; further ones are only counted.
const KEPT: usize = 20;

/// The outcome of one request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    /// 503 or 504: the database is unavailable. A write may have been committed anyway.
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

/// Acknowledged writes, and writes that may have been committed.
#[derive(Default)]
pub(crate) struct Acknowledged {
    pub(crate) batches: BTreeSet<i64>,
    /// Per updated row: the last acknowledged value, and the last sent value.
    pub(crate) changes: BTreeMap<i64, (i64, i64)>,
    /// Per counter: acknowledged increments, and further possible ones.
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
        self.counts.lock()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Records the response to a request of this kind sent at `begun`; `check` tests the body of a response with
    /// `status` (null if it has no body).
    pub(crate) async fn judge(
        &self,
        kind: &'static str,
        begun: Instant,
        response: Result<Response, String>,
        status: u16,
        check: impl FnOnce(&Value) -> bool,
    ) -> Verdict {
        let complaint = match &response {
            Ok(response) if is_refusal(response) => {
                let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
                let reason =
                    format!("{} {}", response.status.as_u16(), body["code"].as_str().unwrap_or_default());
                self.note(kind, begun, |kind| *kind.put_off.entry(reason).or_default() += 1);
                tokio::time::sleep(Duration::from_millis(10)).await;
                return Verdict::PutOff;
            }
            Ok(response) => {
                let body = match response.body.as_ref() {
                    [] => Some(Value::Null),
                    body => serde_json::from_slice(body).ok(),
                };
                if response.status == status && body.as_ref().is_some_and(check) {
                    self.note(kind, begun, |kind| kind.right += 1);
                    return Verdict::Right;
                }
                format!("{kind}: {} {}", response.status, response.text())
            }
            Err(error) => format!("{kind}: no response: {error}"),
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

    /// Records a wrong response.
    pub(crate) fn complain(&self, text: String) {
        let mut counts = self.counts();
        counts.wrong += 1;
        if counts.complaints.len() < KEPT {
            counts.complaints.push(text);
        }
    }

    /// Records an injected fault.
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

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }

    /// Records a result and its faults.
    pub(crate) fn find(&self, figure: impl Into<String>, faults: impl IntoIterator<Item = String>) {
        let mut counts = self.counts();
        counts.findings.push(figure.into());
        counts.complaints.extend(faults);
    }

    /// Kinds of requests with less than one success per second: a server that only returns errors would otherwise pass. Their
    /// share means little, because errors are fast and clients retry.
    pub(crate) fn neglected(&self, kinds: &[&'static str]) -> Vec<String> {
        let (seconds, counts) = (self.seconds(), self.counts());
        let neglected =
            kinds.iter().filter(|name| counts.kinds.get(*name).is_none_or(|kind| kind.right < seconds));
        neglected.map(|name| format!("{name}: rarely succeeded")).collect()
    }

    /// The longest response time.
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
    #[expect(clippy::print_stdout, reason = "the test reports its results")]
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
        println!("  {:>7}  wrong responses", counts.wrong);
        for finding in &counts.findings {
            println!("  {finding}");
        }
        for complaint in &counts.complaints {
            println!("  ! {complaint}");
        }
    }
}
