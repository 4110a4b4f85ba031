//! The report and the verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::explained::{RARE, STANDING, rules, single};
use super::known::KNOWN;
use super::response::{Exchange, Response, View};

/// How many differences the test's own output shows; the report has them all.
const SHOWN: usize = 25;

/// Of one configuration.
#[derive(Debug, Default)]
struct Figures {
    sent: usize,
    equal: usize,
    explained: usize,
    known: usize,
}

/// A difference without an explanation.
struct Difference<'a> {
    exchange: &'a Exchange,
    expected: View,
    actual: View,
    /// What kind it is, for grouping.
    kind: String,
}

/// Compares everything, prints the summary and panics unless all is as it should be.
pub(crate) fn judge(exchanges: &[Exchange]) {
    let (mut equal, mut explained) = (0, 0);
    let mut figures: BTreeMap<&str, Figures> = BTreeMap::new();
    let mut differences = Vec::new();
    let mut lines: BTreeSet<&str> = BTreeSet::new();
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    // For looking over what a rule lets through.
    let watched = std::env::var_os("BASALT_TEST_DIFFERENTIAL_RULES").and_then(|text| text.into_string().ok());
    let watched = watched.unwrap_or_default();
    let mut seen = String::new();
    for exchange in exchanges {
        if (exchange.postgrest.status, exchange.basalt.status) == (0, 0) {
            // What takes for ever does so on both sides.
            equal += 1;
            let figure = figures.entry(exchange.configuration).or_default();
            figure.sent += 1;
            figure.equal += 1;
            continue;
        }
        let mut expected = View::from_response(&exchange.postgrest);
        let mut actual = View::from_response(&exchange.basalt);
        for rule in STANDING {
            if (rule.apply)(&exchange.case, &mut expected, &mut actual) {
                *used.entry(rule.name).or_default() += 1;
            }
        }
        let mut needed = Vec::new();
        let line = single::find(&exchange.case, &actual);
        for rule in rules() {
            if expected == actual {
                break;
            }
            if (rule.apply)(&exchange.case, &mut expected, &mut actual) {
                needed.push(rule.name);
            }
        }
        if let Some(rule) = needed.iter().find(|name| watched.split(',').any(|rule| rule == **name)) {
            let (theirs, ours) = (View::from_response(&exchange.postgrest).shown(), actual.shown());
            let place = &exchange.case.place;
            let _ok = writeln!(
                seen,
                "```\n[{place}] {rule}\n{}\nexpected {theirs}\nanswered {ours}\n```",
                exchange.case.shown()
            );
        }
        if needed.last() == Some(&"single") {
            lines.extend(line);
        }
        for rule in &needed {
            *used.entry(rule).or_default() += 1;
        }
        let malformed = framing_fault(exchange);
        let figure = figures.entry(exchange.configuration).or_default();
        figure.sent += 1;
        if expected == actual && malformed.is_none() {
            if needed.is_empty() {
                equal += 1;
                figure.equal += 1;
            } else {
                explained += 1;
                figure.explained += 1;
            }
            continue;
        }
        let kind = malformed.unwrap_or_else(|| kind_of(&expected, &actual));
        differences.push(Difference { exchange, expected, actual, kind });
    }
    let known: BTreeMap<&str, &str> = KNOWN.iter().copied().collect();
    let (known_ones, unexplained): (Vec<_>, Vec<_>) = differences
        .into_iter()
        .partition(|difference| known.contains_key(difference.exchange.case.place.as_str()));
    let still_wrong: BTreeSet<&str> =
        known_ones.iter().map(|difference| difference.exchange.case.place.as_str()).collect();
    let mended: Vec<_> = known.keys().filter(|place| !still_wrong.contains(*place)).collect();
    let idle: Vec<_> = rules()
        .chain(STANDING)
        .map(|rule| rule.name)
        .filter(|name| !used.contains_key(name) && !RARE.contains(name))
        .collect();

    let idle_lines: Vec<_> = single::all().filter(|line| !lines.contains(line)).collect();

    let summary = format!(
        "differential: {} requests sent, {equal} equal, {explained} explained, {} known, {} unexplained",
        exchanges.len(),
        known_ones.len(),
        unexplained.len()
    );
    for difference in &known_ones {
        figures.entry(difference.exchange.configuration).or_default().known += 1;
    }
    let mut report = written(&summary, &figures, &used, &known_ones, &unexplained);
    if !seen.is_empty() {
        let _ok = write!(report, "\n## Looked over\n\n{seen}");
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("differential.md");
    std::fs::write(&file, report).expect("the folder for test output can be written to");
    println!("{summary}; report: {}", file.display());

    let mut faults = String::new();
    for difference in unexplained.iter().take(SHOWN) {
        let _ok = writeln!(faults, "\n{}", shown(difference));
    }
    if unexplained.len() > SHOWN {
        let _ok = writeln!(faults, "\n… and {} more in {}", unexplained.len() - SHOWN, file.display());
    }
    assert!(unexplained.is_empty(), "{summary}\n{faults}");
    assert!(mended.is_empty(), "fixed; remove from known.rs: {mended:?}");
    assert!(idle_lines.is_empty(), "unused lines in explained/single.rs: {idle_lines:#?}");
    assert!(idle.is_empty(), "unused rules: {idle:?}");
}

/// A framing error, which no comparison shows because PostgREST 12 never sends a length.
fn framing_fault(exchange: &Exchange) -> Option<String> {
    let Response { status, headers, body, .. } = &exchange.basalt;
    let header = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let fault = match *status {
        0 => Some("no response"),
        204 if header("content-length").is_some() || header("content-type").is_some() => {
            Some("204 with Content-Length or Content-Type")
        }
        204 => None,
        _ if exchange.case.method == "HEAD" => header("content-length").map(|_| "Content-Length on HEAD"),
        _ if body.is_empty() && header("content-length") != Some("0") => {
            Some("an empty body without Content-Length: 0")
        }
        _ => None,
    };
    fault.map(str::to_owned)
}

/// What differs, without the particulars.
fn kind_of(expected: &View, actual: &View) -> String {
    let mut parts = Vec::new();
    if expected.status != actual.status {
        let code = |view: &View| if view.status >= 300 { view.error("code") } else { String::new() };
        parts.push(format!(
            "status {} {} → {} {}",
            expected.status,
            code(expected),
            actual.status,
            code(actual)
        ));
        return parts.join(", ");
    }
    if expected.reason != actual.reason {
        parts.push("reason phrase".to_owned());
    }
    let names: BTreeSet<&String> = expected.headers.keys().chain(actual.headers.keys()).collect();
    for name in names {
        if expected.headers.get(name) != actual.headers.get(name) {
            parts.push(format!("header {name}"));
        }
    }
    if expected.body != actual.body {
        let (theirs, ours) = (expected.json(), actual.json());
        if expected.status >= 300 && theirs.is_object() && ours.is_object() {
            for key in ["code", "message", "details", "hint"] {
                if theirs.get(key) != ours.get(key) {
                    parts.push(format!("{} {key}", expected.error("code")));
                }
            }
        } else {
            parts.push("body".to_owned());
        }
    }
    parts.join(", ")
}

fn shown(difference: &Difference<'_>) -> String {
    format!(
        "[{}] {}\n{}\nexpected {}\nanswered {}",
        difference.exchange.case.place,
        difference.kind,
        difference.exchange.case.shown(),
        difference.expected.shown(),
        difference.actual.shown()
    )
}

fn written(
    summary: &str,
    figures: &BTreeMap<&str, Figures>,
    used: &BTreeMap<&str, usize>,
    known: &[Difference<'_>],
    unexplained: &[Difference<'_>],
) -> String {
    let mut text = format!(
        "# {summary}\n\n| configuration | sent | equal | explained | known | unexplained |\n|---|---|---|---|---|---|\n"
    );
    for (configuration, Figures { sent, equal, explained, known }) in figures {
        let left = sent - equal - explained - known;
        let _ok = writeln!(text, "| {configuration} | {sent} | {equal} | {explained} | {known} | {left} |");
    }
    text.push_str("\n## Explanations used\n\n");
    for rule in STANDING.iter().chain(rules()) {
        let times = used.get(rule.name).copied().unwrap_or_default();
        let _ok = writeln!(text, "- {times} × {}: {}", rule.name, rule.reason);
    }
    for (title, differences) in [("Unexplained", unexplained), ("Known", known)] {
        let mut groups: BTreeMap<&str, Vec<&Difference<'_>>> = BTreeMap::new();
        for difference in differences {
            groups.entry(&difference.kind).or_default().push(difference);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
        let _ok = writeln!(text, "\n## {title}\n");
        for (kind, members) in &groups {
            let _ok = writeln!(text, "- {} × {kind}", members.len());
        }
        for (kind, members) in groups {
            let _ok = writeln!(text, "\n### {} × {kind}\n", members.len());
            for difference in members {
                let _ok = writeln!(text, "```\n{}\n```", shown(difference));
            }
        }
    }
    text
}
