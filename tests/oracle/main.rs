//! The oracle: sends the same requests to PostgREST 12.0.2 and `basalt serve --only rest` on one database.
//!
//! Status, every header and the body of each response are compared. Differences that the contract requires, because PostgREST
//! changed since 12.0.2 or because we extend it, are listed one by one in [`explained`]; any other difference fails the test.
//! [`known`] lists open bugs, so that neither a new difference nor a fixed one goes unnoticed.
//!
//! A rule does not permit arbitrary differences. It turns PostgREST 12's response into the one that the contract requires, which
//! must equal ours exactly.
//!
//! Requests come from `requests/*.http` (notation: see [`case`]) and from [`generator`]. All differences are reported in
//! `target/tmp/differential.md`; to review what a rule accepts, set `BASALT_TEST_DIFFERENTIAL_RULES` to its name.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its results"
)]

mod case;
mod configurations;
mod connection;
mod dice;
mod explained;
mod generator;
mod known;
mod model;
mod report;
mod response;
mod servers;

use std::collections::BTreeMap;

use basalt_testkit::{Cluster, TestDatabase};
use tokio::task::JoinSet;

use case::Case;
use configurations::{BAZAAR, CAPPED, COMMITTED, Configuration, OPEN, OTHERS, STRICT, Schema};
use generator::Generator;
use model::Model;
use response::Exchange;
use servers::Pair;

/// Enough to combine each pair of grammar rules several times, in under a minute.
const GENERATED: usize = 2400;

/// The requests for one configuration.
struct Run {
    configuration: &'static Configuration,
    cases: Vec<Case>,
    /// The number of generated requests.
    generated: usize,
    /// Generate only writes.
    writes: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_match_postgrest() {
    let open = case::read_all(&[
        ("select", include_str!("requests/select.http")),
        ("filter", include_str!("requests/filter.http")),
        ("order", include_str!("requests/order.http")),
        ("embed", include_str!("requests/embed.http")),
        ("write", include_str!("requests/write.http")),
        ("rpc", include_str!("requests/rpc.http")),
        ("protocol", include_str!("requests/protocol.http")),
    ]);
    let strict = case::read_all(&[("strict", include_str!("requests/strict.http"))]);
    let bazaar = case::read_all(&[("bazaar", include_str!("requests/bazaar.http"))]);
    let everywhere = include_str!("requests/everywhere.http");
    let count = variable("BASALT_TEST_DIFFERENTIAL_REQUESTS", GENERATED);

    let mut runs = vec![
        Run { configuration: &OPEN, cases: open, generated: count / 4, writes: false },
        Run { configuration: &BAZAAR, cases: bazaar, generated: count / 2, writes: false },
        Run { configuration: &CAPPED, cases: Vec::new(), generated: count / 8, writes: false },
        Run { configuration: &STRICT, cases: strict, generated: 0, writes: false },
    ];
    runs.extend(COMMITTED.iter().map(|configuration| Run {
        configuration,
        cases: Vec::new(),
        generated: count / 8,
        writes: true,
    }));
    runs.extend(OTHERS.iter().map(|configuration| Run {
        configuration,
        cases: case::read_all(&[(configuration.name, everywhere)]),
        generated: 0,
        writes: false,
    }));
    report::judge(&ask_all(runs).await);
}

/// A number from the environment, for longer runs and other seeds.
fn variable(name: &str, otherwise: usize) -> usize {
    let text = std::env::var_os(name).and_then(|text| text.into_string().ok());
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Two configurations at a time: each has two servers.
async fn ask_all(runs: Vec<Run>) -> Vec<Exchange> {
    let mut bases = BTreeMap::new();
    for schema in [Schema::Harbour, Schema::Bazaar] {
        let database = Cluster::get().await.empty_database().await;
        let _roles = database.admin_sql(include_str!("roles.sql")).await;
        let _rows = database.admin_sql(schema.sql()).await;
        let _old = bases.insert(schema.name(), database);
    }
    let bases = std::sync::Arc::new(bases);
    let runs = std::sync::Arc::new(std::sync::Mutex::new(runs.into_iter().enumerate()));
    let mut lanes = JoinSet::new();
    for _ in 0..2 {
        let (bases, runs) = (std::sync::Arc::clone(&bases), std::sync::Arc::clone(&runs));
        let _lane = lanes.spawn(async move {
            let mut responses = Vec::new();
            loop {
                let next = runs.lock().expect("no thread panicked").next();
                let Some((index, run)) = next else { return responses };
                let base = &bases[run.configuration.schema.name()];
                responses.push((index, ask(run, base).await));
            }
        });
    }
    let mut responses: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
    responses.sort_by_key(|(index, _)| *index);
    responses.into_iter().flat_map(|(_, exchanges)| exchanges).collect()
}

/// Sends all requests to both servers: reads concurrently, then writes sequentially.
async fn ask(run: Run, base: &TestDatabase) -> Vec<Exchange> {
    let Run { configuration, mut cases, generated, writes } = run;
    let pair = Pair::start(configuration, base).await;
    let mut exchanges = Vec::new();
    if generated > 0 {
        let mut model = Model::read(&pair.database, configuration.schema.name()).await;
        exchanges = pair.ask_reads(model.probes()).await;
        model.learn(&exchanges);
        let seed = variable("BASALT_TEST_DIFFERENTIAL_SEED", 1202) as u64;
        let mut generator = Generator::new(&model, configuration.name, seed);
        cases.extend(if writes { generator.writes(generated) } else { generator.cases(generated) });
        if writes {
            // The generated requests are the same for every configuration.
            exchanges.clear();
        }
    }
    for case in &mut cases {
        case.schema = configuration.first_schema();
    }
    let (writes, reads): (Vec<_>, Vec<_>) = cases.into_iter().partition(Case::is_write);
    exchanges.extend(pair.ask_reads(reads).await);
    exchanges.extend(pair.ask_writes(writes).await);
    pair.stop().await;
    exchanges
}
