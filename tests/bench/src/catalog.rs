//! `catalog`: a schema of thousands of tables: load time and memory of the schema cache, and the effect of reloads on requests (the
//! same reads without reloads and with continuous reloads).

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use tokio_postgres::Client;

use crate::basalt::{self, Basalt};
use crate::http::{self, Load, Until};
use crate::options::UnderTest;
use crate::process;
use crate::report::{self, median, megabytes, rounded};
use crate::rest::workload::{AcceptEncoding, Workload};

/// Tables made in one transaction: each takes some of PostgreSQL's locks until its end.
const BATCH: u32 = 100;
const LOADED: &str = "basalt_rest_schema_cache_load_duration_seconds";

/// Loading and reloading a large schema, and its effect on requests.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Tables, each with two foreign keys.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    tables: u32,
    /// Connections that read during the reloads.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    #[command(flatten)]
    under_test: UnderTest,
    /// The output file.
    #[arg(long, default_value = "target/bench/catalog.json")]
    json: PathBuf,
}

/// The server's load metrics so far.
#[derive(Clone, Copy, Debug)]
struct Loads {
    count: f64,
    seconds: f64,
}

/// One measurement.
struct Sample {
    p50_ms: f64,
    p99_ms: f64,
    rate: f64,
}

impl Sample {
    fn from_load(load: &Load) -> Self {
        Self { p50_ms: load.quantile_ms(0.5), p99_ms: load.quantile_ms(0.99), rate: load.rate() }
    }
}

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.under_test.server;
    let work = basalt::work_folder(program)?;
    let circumstances = report::circumstances();
    let mut basalt = Basalt::start(program, work).await?;
    let small = process::resident_bytes(basalt.running.pid());
    let database = basalt.database().await?;
    report::print(&format!("making {} tables", options.tables));
    make_tables(&database, options.tables).await?;
    drop(database);

    basalt.restart(program, work).await?;
    let first = loads(&basalt).await?;
    let server = basalt.running.pid();
    let loaded = process::resident_bytes(server);

    let time = Duration::from_secs(options.seconds);
    let requests = Rc::new(Workload::List.requests("/rest/v1", AcceptEncoding::Browser));
    let load = |time| {
        http::load(basalt.port, Rc::clone(&requests), 200, options.connections.into(), Until::Time(time))
    };
    load(Duration::from_secs(2)).await?;
    let (mut calm, mut disturbed, mut reloads) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=options.under_test.rounds {
        calm.push(Sample::from_load(&load(time).await?));
        let (measured, reloaded) = tokio::join!(load(time), reload(&basalt, time));
        disturbed.push(Sample::from_load(&measured?));
        reloads.push(reloaded?);
        report::print(&format!("round {round} of {} done", options.under_test.rounds));
    }
    // The previous cache is freed when no request uses it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let reloaded = process::resident_bytes(server);

    let of = |samples: &[Sample], figure: fn(&Sample) -> f64| median(samples.iter().map(figure));
    let figures = |samples: &[Sample]| {
        [
            of(samples, |sample| sample.rate),
            of(samples, |sample| sample.p50_ms),
            of(samples, |sample| sample.p99_ms),
        ]
    };
    let ([calm_rate, calm_p50, calm_p99], [rate, p50, p99]) = (figures(&calm), figures(&disturbed));
    let each = median(reloads.iter().map(|loads| loads.seconds / loads.count));
    let count: f64 = reloads.iter().map(|loads| loads.count).sum();
    let first_load = first.seconds / first.count;
    report::print(&format!(
        "\n{} tables with two foreign keys each\nfirst load {first_load:.2} s; reload under load {each:.2} s (median of {count:.0})\nserver {:.1} MB with {}, {:.1} MB with all, {:.1} MB after the reloads",
        options.tables,
        megabytes(small),
        "few tables",
        megabytes(loaded),
        megabytes(reloaded),
    ));
    report::print(&format!("\n{} connections       requests/s   p50 ms   p99 ms", options.connections));
    report::print(&format!("nothing reloads      {calm_rate:>10.0}  {calm_p50:>7.2}  {calm_p99:>7.2}"));
    report::print(&format!("always reloading     {rate:>10.0}  {p50:>7.2}  {p99:>7.2}"));
    report::print(&format!(
        "ratio                {:>10.2}  {:>7.2}  {:>7.2}",
        rate / calm_rate,
        p50 / calm_p50,
        p99 / calm_p99
    ));
    let shown = |[rate, p50, p99]: [f64; 3]| json!({"per_second": rounded(rate), "p50_ms": rounded(p50), "p99_ms": rounded(p99)});
    report::write(
        &options.json,
        &json!({
            "circumstances": circumstances,
            "postgresql": basalt.database_version,
            "tables": options.tables, "connections": options.connections, "seconds": options.seconds, "rounds": options.under_test.rounds,
            "first_load_s": rounded(first_load), "reload_s": rounded(each), "reloads": count,
            "resident_mb": {"few_tables": rounded(megabytes(small)), "first_load": rounded(megabytes(loaded)), "after_reloads": rounded(megabytes(reloaded))},
            "calm": shown(figures(&calm)), "reloading": shown(figures(&disturbed)),
            "p99_ratio": rounded(p99 / calm_p99),
        }),
    )
}

/// `catalog_N` refers to the table before it and to one half as far along.
async fn make_tables(database: &Client, count: u32) -> Result<()> {
    let triggers = ["pgrst_ddl_watch", "pgrst_drop_watch"];
    let all_triggers =
        |what: &str| triggers.map(|name| format!("alter event trigger {name} {what};")).concat();
    // Otherwise the schema would be read some fifty times over meanwhile.
    database.batch_execute(&all_triggers("disable")).await?;
    for batch in 0..count.div_ceil(BATCH) {
        let first = batch * BATCH;
        let tables: String = (first..count.min(first + BATCH)).map(table).collect();
        database.batch_execute(&format!("begin; {tables} commit")).await.context("cannot create a table")?;
    }
    database.batch_execute(&all_triggers("enable")).await?;
    database.batch_execute("analyze").await?;
    Ok(())
}

fn table(number: u32) -> String {
    let (before, half) = (number.saturating_sub(1), number / 2);
    format!(
        "create table public.catalog_{number} (id bigint generated by default as identity primary key, \
         name text not null, amount numeric(10,2) default 0, made_at timestamptz not null default now(), \
         before_id bigint references public.catalog_{before}, half_id bigint references public.catalog_{half});"
    )
}

/// Reloads the schema continuously.
async fn reload(basalt: &Basalt, time: Duration) -> Result<Loads> {
    const POLL: Duration = Duration::from_millis(25);
    let end = Instant::now() + time;
    let database = basalt.database().await?;
    let before = loads(basalt).await?;
    let mut now = before;
    while Instant::now() < end {
        database.batch_execute("notify pgrst, 'reload schema'").await?;
        let start = now;
        while now.count <= start.count {
            if Instant::now() > end + Duration::from_secs(60) {
                bail!("the schema is not reloaded");
            }
            tokio::time::sleep(POLL).await;
            now = loads(basalt).await?;
        }
    }
    Ok(Loads { count: now.count - before.count, seconds: now.seconds - before.seconds })
}

async fn loads(basalt: &Basalt) -> Result<Loads> {
    let request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let (_, metrics) = http::once(basalt.admin_port, request.as_bytes()).await?;
    let value = |suffix: &str| {
        let name = format!("{LOADED}_{suffix} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.and_then(|value| value.trim().parse::<f64>().ok()).with_context(|| format!("no metric {name}"))
    };
    Ok(Loads { count: value("count")?, seconds: value("sum")? })
}
