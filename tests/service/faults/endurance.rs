//! Endurance: 64 clients read, embed, call, write and disconnect while the schema changes, PostgreSQL restarts and backends
//! are terminated. Four results: wrong responses, lost acknowledged writes, stuck connections, and memory growth.
//!
//! The content of every successful response is known in advance; otherwise only 503 and 504 are allowed
//! ([`is_refusal`](crate::load::is_refusal)). A write with such a response may have been committed, but never partially or twice.

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
/// Memory grows during warm-up; after this time it must stay constant.
const WARM_UP: f64 = 0.3;
/// The longest allowed response time.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);
/// Kinds of requests that must each succeed regularly.
const KINDS: [&str; 11] = [
    "list",
    "row",
    "counted page",
    "replaced view",
    "embedded list",
    "embedded row",
    "replaced function",
    "dropped and recreated function",
    "update",
    "count",
    "bulk insert",
];

/// Ten minutes, or `BASALT_TEST_ENDURANCE_SECONDS`; from one minute on, memory may grow by at most 10 %.
#[tokio::test]
#[ignore = "cargo xtask nightly: ten minutes"]
async fn responses_stay_correct_under_all_faults() {
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
        // From a request that met a function being replaced and was retried.
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
    outcome.wrong.iter().for_each(|response| tally.complain(format!("insert: {response}")));
    if outcome.unanswered > 0 {
        tally.complain(format!("inserts without a response from a running server: {}", outcome.unanswered));
    }
    // PostgreSQL may still be recovering from the last kill.
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    server.until(LONGEST_ANSWER, &read, |response| response.status == 200).await;
    judge_stored(&server, &tally, &outcome).await;
    judge_stuck(&server, &tally).await;
    judge_memory(&tally, seconds >= 60);
    for reason in ["stale", "catalog", "deadlock", "connection"] {
        let name = format!("basalt_transactions_repeated_total{{reason=\"{reason}\"}}");
        let repeated = metric(&server, &name).await;
        tally.find(format!("{repeated:>7}  transactions retried: {reason}"), []);
    }
    let neglected = if seconds >= 60 { tally.neglected(&KINDS) } else { Vec::new() };
    tally.find(format!("{:>7}  kinds of requests that rarely succeeded", neglected.len()), neglected);
    let slowest = tally.slowest();
    let is_slow = slowest > LONGEST_ANSWER;
    tally.find(
        format!("{slowest:.2?} for the slowest response"),
        is_slow.then(|| "the slowest response is too slow".to_owned()),
    );
    let complaints = tally.complaints();
    assert!(
        complaints.is_empty() && tally.wrong() == 0,
        "{} wrong responses; {complaints:#?}",
        tally.wrong()
    );
}

/// Checks that every acknowledged write is stored once and completely.
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
                torn.push(format!("row {id} has change {now}, which no client sent"));
            }
            updates += acknowledged;
        }
        for (id, (certain, possible)) in &all.bumps {
            let now = totals.get(id).copied().unwrap_or(-1);
            if now < *certain {
                lost.push(format!("lost: counter {id} was acknowledged {certain} times and has {now}"));
            } else if now > certain + possible {
                torn.push(format!(
                    "applied twice: counter {id} got {} requests and has {now}",
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
    tally.find(format!("{:>7}  partial or duplicate writes", torn.len()), torn);
    // An absolute number: errors are fast, so their share means little.
    if u64::try_from(inserts).unwrap() < tally.seconds() {
        tally.complain("inserts rarely succeeded".to_owned());
    }
}

/// Two integer columns as key and value, read through the API in pages.
async fn pairs(server: &Basalt, relation: &str, key: &str, value: &str) -> BTreeMap<i64, i64> {
    let mut pairs = BTreeMap::new();
    loop {
        let after = pairs.last_key_value().map_or(-1, |(key, _)| *key);
        // Only the rows of the updaters.
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

/// Checks that, without clients, no pool connection is active or in a transaction, and that the gauges for requests, body bytes
/// and response bytes are zero.
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

/// The mean of the first samples after the warm-up, and of the last samples.
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
