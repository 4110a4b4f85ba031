//! Everything at once, for long: 64 clients that read, embed, call, write, and leave, while the schema changes, PostgreSQL
//! is restarted and backends are ended. Four figures come of it: wrong answers, lost acknowledged writes, stuck
//! connections, and how the server's memory grows.
//!
//! Every answer is known beforehand, to the byte but for the order of keys; 503 and 504 are the only other ones allowed
//! ([`is_refusal`](crate::load::is_refusal)). A refused write may have happened or not, but never by halves or twice.

mod harm;
mod tally;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use tokio::task::JoinSet;

use self::tally::Tally;
use self::workers::{BATCH_ROWS, UPDATED, Worker};
use crate::load::{DATABASE_AWAY, Load, Outcome, changeable_project, stored};
use crate::overload::metric;

/// 64 connections in all.
const WRITERS: usize = 14;
const READERS: i64 = 14;
const EMBEDDERS: i64 = 8;
const CALLERS: i64 = 8;
const BULK_WRITERS: i64 = 4;
const COUNTERS: i64 = 2;
const LEAVERS: i64 = 8;
/// Memory grows to its level at first; from here on it may not grow any more.
const WARM_UP: f64 = 0.3;
/// No client waits longer for an answer, whatever happens.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);
/// Kinds of requests of which each has to be answered again and again.
const KINDS: [&str; 11] = [
    "list",
    "row",
    "counted page",
    "view made anew",
    "embedded list",
    "embedded row",
    "function made anew",
    "function that comes and goes",
    "update",
    "count",
    "bulk insert",
];

/// Ten minutes, or `BASALT_TEST_ENDURANCE_SECONDS`; from a minute on memory is held to 10 %, too.
#[tokio::test]
#[ignore = "cargo xtask nightly: ten minutes"]
async fn under_every_fault_answers_stay_right_and_nothing_is_lost() {
    let seconds: u64 =
        std::env::var("BASALT_TEST_ENDURANCE_SECONDS").map_or(600, |text| text.parse().unwrap());
    let project = changeable_project();
    let schema = include_str!("endurance/schema.sql");
    std::fs::write(project.path().join("migrations/0002_endurance.sql"), schema).unwrap();
    let builder = Basalt::builder()
        .embedded()
        .project(project.path())
        .config("database.pool_size", "10")
        .expect_log("PostgreSQL ended; restarting it")
        // Of a request that met a function being made anew, and ran again.
        .expect_log("cache lookup failed for function")
        .expect_log("was terminated by signal");
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    let tally = Arc::new(Tally::new());
    let load = Load::start(&server, WRITERS, 1);
    load.until_acknowledged(200).await;
    let mut workers = JoinSet::new();
    let worker = |number| Worker::new(&tally, &server, number);
    (0..READERS).for_each(|number| drop(workers.spawn(worker(number).read())));
    (0..EMBEDDERS).for_each(|number| drop(workers.spawn(worker(number).embed())));
    (0..CALLERS).for_each(|number| drop(workers.spawn(worker(number).call())));
    (0..BULK_WRITERS).for_each(|number| drop(workers.spawn(worker(number).bulk())));
    (0..COUNTERS).for_each(|number| drop(workers.spawn(worker(number).bump())));
    UPDATED.into_iter().for_each(|number| drop(workers.spawn(worker(number).update())));
    (0..LEAVERS).for_each(|number| drop(workers.spawn(worker(number).leave())));
    assert_eq!(WRITERS + workers.len(), 64);

    harm::harass(&server, &tally, Duration::from_secs(seconds)).await;
    tally.end();
    let outcome = load.stop().await;
    while let Some(worker) = workers.join_next().await {
        if let Err(error) = worker {
            tally.complain(format!("a client: {error}"));
        }
    }
    outcome.wrong.iter().for_each(|answer| tally.complain(format!("insert: {answer}")));
    if outcome.unanswered > 0 {
        tally.complain(format!("inserts without an answer of a living server: {}", outcome.unanswered));
    }
    // What was killed last may be recovering.
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    server.until(LONGEST_ANSWER, &read, |answer| answer.status == 200).await;
    judge_stored(&server, &tally, &outcome).await;
    judge_stuck(&server, &tally).await;
    judge_memory(&tally, seconds >= 60);
    for reason in ["stale", "catalog", "deadlock", "connection"] {
        let name = format!("basalt_transactions_repeated_total{{reason=\"{reason}\"}}");
        let repeated = metric(&server, &name).await;
        tally.find(format!("{repeated:>7}  transactions done once more: {reason}"), []);
    }
    let neglected = if seconds >= 60 { tally.neglected(&KINDS) } else { Vec::new() };
    tally.find(format!("{:>7}  kinds of requests neglected", neglected.len()), neglected);
    let slowest = tally.slowest();
    let is_slow = slowest > LONGEST_ANSWER;
    tally.find(
        format!("{slowest:.2?} for the slowest answer"),
        is_slow.then(|| "that is too slow".to_owned()),
    );
    let complaints = tally.complaints();
    assert!(complaints.is_empty() && tally.wrong() == 0, "{} wrong answers; {complaints:#?}", tally.wrong());
}

/// What was acknowledged is there, once and whole.
async fn judge_stored(server: &Basalt, tally: &Tally, outcome: &Outcome) {
    let ids = stored(server).await;
    let mut lost: Vec<_> =
        outcome.acknowledged.difference(&ids).map(|id| format!("lost: entry {id}")).collect();
    let batches = pairs(server, "batch_sizes", "batch", "size").await;
    let changes = pairs(server, "entries", "id", "changes").await;
    let totals = pairs(server, "counters", "id", "total").await;
    let mut torn = Vec::new();
    let (mut bulk_rows, mut counted, mut updates) = (0, 0, 0);
    tally.acknowledge(|all| {
        let missing = all.batches.iter().filter(|batch| !batches.contains_key(batch));
        lost.extend(missing.map(|batch| format!("lost: batch {batch}")));
        let halves = batches.iter().filter(|(_, rows)| **rows != BATCH_ROWS);
        torn.extend(halves.map(|(batch, rows)| format!("torn: batch {batch} has {rows} rows")));
        for (id, (acknowledged, sent)) in &all.changes {
            let now = changes.get(id).copied().unwrap_or(-1);
            if now < *acknowledged {
                lost.push(format!("lost: change {acknowledged} of row {id}, which has {now}"));
            } else if now > *sent {
                torn.push(format!("row {id} has change {now}, which nobody sent"));
            }
            updates += acknowledged;
        }
        for (id, (certain, possible)) in &all.bumps {
            let now = totals.get(id).copied().unwrap_or(-1);
            if now < *certain {
                lost.push(format!("lost: counter {id} was acknowledged {certain} times and has {now}"));
            } else if now > certain + possible {
                torn.push(format!(
                    "done twice: counter {id} was asked {} times and has {now}",
                    certain + possible
                ));
            }
            counted += certain;
        }
        bulk_rows = BATCH_ROWS * i64::try_from(all.batches.len()).unwrap();
    });
    let inserts = outcome.acknowledged.len();
    tally.find(
        format!(
            "{:>7}  lost of {inserts} acknowledged inserts ({} put off), {bulk_rows} rows in bulk, up to {updates} updates, {counted} counts",
            lost.len(),
            outcome.refused
        ),
        lost,
    );
    tally.find(format!("{:>7}  writes by halves or twice", torn.len()), torn);
    // As of every kind: refusals are quick, and say little by their share.
    if u64::try_from(inserts).unwrap() < tally.seconds() {
        tally.complain("inserts were hardly ever taken".to_owned());
    }
}

/// A column of numbers by another, read over the wire a page at a time.
async fn pairs(server: &Basalt, relation: &str, key: &str, value: &str) -> BTreeMap<i64, i64> {
    let mut pairs = BTreeMap::new();
    loop {
        let after = pairs.last_key_value().map_or(-1, |(key, _)| *key);
        // Those of the updaters, of all the entries.
        let condition = if relation == "entries" { "&id=lt.100" } else { "" };
        let path = format!(
            "/rest/v1/{relation}?select={key},{value}&{key}=gt.{after}&order={key}&limit=1000{condition}"
        );
        let rows = server.get(&path).apikey(server.service_key()).send().await.expect(200).json();
        let rows = rows.as_array().unwrap();
        pairs.extend(rows.iter().map(|row| (row[key].as_i64().unwrap(), row[value].as_i64().unwrap())));
        if rows.len() < 1000 {
            return pairs;
        }
    }
}

/// When no client asks any more, no connection of the pool is at work or in a transaction, and nothing is counted: neither
/// requests nor bytes of bodies and answers.
async fn judge_stuck(server: &Basalt, tally: &Tally) {
    let deadline = Instant::now() + Duration::from_secs(15);
    let stuck = loop {
        let mut stuck: Vec<String> = harm::backends(server).into_iter().map(|(_, title)| title).collect();
        stuck.retain(|title| !title.trim_end().ends_with("idle"));
        for what in ["requests_in_flight", "body_bytes_in_flight", "answer_bytes_in_flight"] {
            let held = metric(server, &format!("basalt_http_{what}")).await;
            if held > 0.0 {
                stuck.push(format!("{what} {held}"));
            }
        }
        if stuck.is_empty() || Instant::now() > deadline {
            break stuck;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    tally.find(
        format!("{:>7}  stuck connections", stuck.len()),
        stuck.into_iter().map(|what| format!("stuck: {what}")),
    );
}

fn judge_memory(tally: &Tally, is_bounded: bool) {
    let samples = tally.memory();
    let (first, last) = level(&samples);
    let highest = samples.iter().max().copied().unwrap_or_default();
    let grown =
        (is_bounded && last * 10 > first * 11).then(|| format!("memory grew from {first} kB to {last} kB"));
    tally
        .find(format!("RSS {first} kB after the warm-up, {last} kB at the end, {highest} kB at most"), grown);
}

/// Means of the samples right after the warm-up and of the last ones.
fn level(memory: &[u64]) -> (u64, u64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a small number"
    )]
    let from = (memory.len() as f64 * WARM_UP) as usize;
    let settled = &memory[from..];
    let window = (settled.len() / 5).max(1);
    let mean = |samples: &[u64]| samples.iter().sum::<u64>() / u64::try_from(samples.len()).unwrap();
    (mean(&settled[..window]), mean(&settled[settled.len() - window..]))
}
