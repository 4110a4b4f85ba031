//! `rest`: one read of 20 rows under row-level security.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::basalt::Basalt;
use crate::peer::{self, Postgrest};
use crate::process::{self, Cpu};
use crate::report::{self, median, rounded};
use crate::{http, pgbench, token};

/// People in `bench/project`.
pub(crate) const PEOPLE: u64 = 64;
/// Rows of one answer.
pub(crate) const ROWS: usize = 20;
/// What is selected.
pub(crate) const COLUMNS: [&str; 5] = ["id", "title", "amount", "done", "created_at"];

/// One read of 20 rows under row-level security, beside pgbench and PostgREST.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Connections, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,64", value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: Vec<u16>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// The server under test.
    #[arg(long, default_value = "target/release/basalt")]
    server: PathBuf,
    /// Where the figures go.
    #[arg(long, default_value = "target/bench/rest.json")]
    json: PathBuf,
    /// Measures without PostgREST.
    #[arg(long)]
    without_postgrest: bool,
}

/// One contender at one number of connections in one round.
struct Sample {
    contender: &'static str,
    connections: u16,
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor seconds per second: of the server, of PostgreSQL, of the generator.
    cpu: [f64; 3],
}

const BASALT: &str = "basalt";
const POSTGREST: &str = "postgrest";
const PGBENCH: &str = "pgbench";

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    ensure!(
        options.server.is_file(),
        "{} is not there; `cargo build --release -p basalt` builds it",
        options.server.display()
    );
    let work = Path::new("target/bench");
    std::fs::create_dir_all(work)
        .context("could not make target/bench; run this in the repository's top folder")?;
    let pgbench = pgbench::find()?;
    let script = work.join("rest.pgbench.sql");
    pgbench::script(&script)?;
    let program = if options.without_postgrest { None } else { Some(peer::fetch(work)?) };
    let circumstances = report::circumstances();

    let start = Instant::now();
    let mut basalt = Basalt::start(&options.server, work).await?;
    let started = start.elapsed();
    let idle = process::resident_bytes(basalt.running.pid());
    let postgrest = match &program {
        Some(program) => Some(Postgrest::start(program, &basalt, work).await?),
        None => None,
    };
    let requests = Rc::new(requests("/rest/v1/entries"));
    check(basalt.port, &requests).await.context("basalt")?;
    let peer_requests = Rc::new(self::requests("/entries"));
    if let Some(postgrest) = &postgrest {
        check(postgrest.port, &peer_requests).await.context("PostgREST")?;
    }

    let contenders = 2 + u64::from(postgrest.is_some());
    let cells = u64::from(options.rounds) * u64::try_from(options.connections.len())? * contenders;
    report::print(&format!(
        "{cells} measurements of {} s, warm-up included: about {} s",
        options.seconds,
        cells * (options.seconds + 1)
    ));

    let time = Duration::from_secs(options.seconds);
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        for &connections in &options.connections {
            let pid = basalt.running.pid();
            samples.push(measure(BASALT, basalt.port, &requests, connections, time, pid, pid).await?);
            basalt.running.check()?;
            if let Some(postgrest) = &postgrest {
                let peer = postgrest.running.pid();
                samples.push(
                    measure(POSTGREST, postgrest.port, &peer_requests, connections, time, peer, pid).await?,
                );
            }
            let run = pgbench::run(&pgbench, &script, &basalt, connections.into(), time).await?;
            samples.push(Sample {
                contender: PGBENCH,
                connections,
                rate: run.rate,
                p50_ms: run.mean_ms,
                p99_ms: f64::NAN,
                cpu: [f64::NAN; 3],
            });
        }
        report::print(&format!("round {round} of {} done", options.rounds));
    }
    let busy = process::resident_bytes(basalt.running.pid());
    let peer_busy = postgrest.as_ref().map(|postgrest| process::resident_bytes(postgrest.running.pid()));

    print_table(options, &samples);
    report::print(&format!(
        "\nserver: ready after {:.2} s (new data folder), {:.1} MB at rest, {:.1} MB after the load",
        started.as_secs_f64(),
        megabytes(idle),
        megabytes(busy)
    ));
    let figures = json!({
        "workload": format!("GET of {ROWS} rows of 5 columns under RLS, newest first, as one of {PEOPLE} signed-in people"),
        "circumstances": circumstances,
        "seconds": options.seconds,
        "rounds": options.rounds,
        "postgresql": basalt.database_version,
        "database_host": if basalt.database_host.starts_with('/') { "unix socket" } else { "loopback" },
        "started_s": rounded(started.as_secs_f64()),
        "resident_mb": {
            "basalt_idle": rounded(megabytes(idle)), "basalt_after": rounded(megabytes(busy)),
            "postgrest_after": peer_busy.map(megabytes).map(rounded),
        },
        "results": options.connections.iter().map(|&connections| row(&samples, connections)).collect::<Vec<_>>(),
        "samples": samples.iter().map(Sample::to_json).collect::<Vec<_>>(),
    });
    report::write(&options.json, &figures)
}

/// One request per person, ready to send.
fn requests(path: &str) -> Vec<Vec<u8>> {
    let key = token::anon_key();
    let query = format!("select={}&order=created_at.desc&limit={ROWS}", COLUMNS.join(","));
    let people = (1..=PEOPLE).map(|number| token::sign(&token::claims(&token::person_id(number))));
    people
        .map(|token| {
            format!(
                "GET {path}?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\napikey: {key}\r\nAuthorization: Bearer {token}\r\n\
                 Accept-Profile: public\r\nAccept: */*\r\nX-Client-Info: supabase-js-node/2.119.1\r\n\r\n"
            )
            .into_bytes()
        })
        .collect()
}

/// Both servers must answer the same question with the same rows before anything is timed.
async fn check(port: u16, requests: &[Vec<u8>]) -> Result<()> {
    let first = requests.first().context("no request")?;
    let (status, answer) = http::once(port, first).await?;
    let rows = answer.matches("\"title\":\"Entry ").count();
    let foreign = answer.matches(" of person ").count() - answer.matches(" of person 1\"").count();
    if status != 200 || rows != ROWS || foreign != 0 {
        bail!("{rows} rows, {foreign} of them another person's, with status {status}:\n{answer}");
    }
    Ok(())
}

/// `server` is whom the processor time of a request goes to, `database` the process above PostgreSQL.
async fn measure(
    contender: &'static str,
    port: u16,
    requests: &Rc<Vec<Vec<u8>>>,
    connections: u16,
    time: Duration,
    server: u32,
    database: u32,
) -> Result<Sample> {
    http::load(port, Rc::clone(requests), connections.into(), Duration::from_secs(1))
        .await
        .context(contender)?;
    let read =
        || -> [Cpu; 3] { [process::cpu(server), process::cpu(database), process::cpu(std::process::id())] };
    let before = read();
    let load = http::load(port, Rc::clone(requests), connections.into(), time).await.context(contender)?;
    let after = read();
    let share = |from: f64, to: f64| (to - from) / load.elapsed.as_secs_f64();
    let [server, database, generator] = [0, 1, 2].map(|index: usize| {
        let pair = before.get(index).zip(after.get(index));
        pair.map_or((0.0, 0.0), |(a, b)| (share(a.itself, b.itself), share(a.below, b.below)))
    });
    let milliseconds = |nanoseconds: u64| Duration::from_nanos(nanoseconds).as_secs_f64() * 1e3;
    Ok(Sample {
        contender,
        connections,
        rate: load.rate(),
        p50_ms: milliseconds(load.times.value_at_quantile(0.5)),
        p99_ms: milliseconds(load.times.value_at_quantile(0.99)),
        cpu: [server.0, database.1, generator.0],
    })
}

impl Sample {
    fn to_json(&self) -> Value {
        json!({
            "contender": self.contender, "connections": self.connections, "per_second": rounded(self.rate),
            "p50_ms": rounded(self.p50_ms), "p99_ms": rounded(self.p99_ms),
        })
    }
}

/// The median of a figure over the rounds.
fn of(samples: &[Sample], contender: &str, connections: u16, figure: impl Fn(&Sample) -> f64) -> f64 {
    let chosen =
        samples.iter().filter(|sample| sample.contender == contender && sample.connections == connections);
    median(chosen.map(figure))
}

fn row(samples: &[Sample], connections: u16) -> Value {
    let contender = |name: &str| {
        let figure = |figure: fn(&Sample) -> f64| rounded(of(samples, name, connections, figure));
        json!({
            "per_second": figure(|sample| sample.rate), "p50_ms": figure(|sample| sample.p50_ms), "p99_ms": figure(|sample| sample.p99_ms),
            "cores": {
                "server": figure(|sample| sample.cpu[0]), "postgresql": figure(|sample| sample.cpu[1]), "generator": figure(|sample| sample.cpu[2]),
            },
        })
    };
    let rate = |name: &str| of(samples, name, connections, |sample| sample.rate);
    json!({
        "connections": connections,
        "basalt": contender(BASALT),
        "postgrest": contender(POSTGREST),
        "pgbench": {"per_second": rounded(rate(PGBENCH)), "mean_ms": rounded(of(samples, PGBENCH, connections, |sample| sample.p50_ms))},
        "ratio_to_pgbench": rounded(rate(BASALT) / rate(PGBENCH)),
        "ratio_to_postgrest": rounded(rate(BASALT) / rate(POSTGREST)),
        "p99_to_p50": rounded(of(samples, BASALT, connections, |sample| sample.p99_ms / sample.p50_ms)),
    })
}

fn print_table(options: &Options, samples: &[Sample]) {
    report::print(
        "\nconnections   basalt/s   p50 ms   p99 ms   p99/p50   pgbench/s   ratio   postgrest/s   ratio   cores: server  postgres  generator",
    );
    for &connections in &options.connections {
        let figure =
            |contender: &str, figure: fn(&Sample) -> f64| of(samples, contender, connections, figure);
        let rate = |contender: &str| figure(contender, |sample| sample.rate);
        report::print(&format!(
            "{connections:>11}  {:>9.0}  {:>7.2}  {:>7.2}  {:>8.1}  {:>10.0}  {:>6.2}  {:>12.0}  {:>6.2}  {:>14.2}  {:>8.2}  {:>9.2}",
            rate(BASALT),
            figure(BASALT, |sample| sample.p50_ms),
            figure(BASALT, |sample| sample.p99_ms),
            figure(BASALT, |sample| sample.p99_ms / sample.p50_ms),
            rate(PGBENCH),
            rate(BASALT) / rate(PGBENCH),
            rate(POSTGREST),
            rate(BASALT) / rate(POSTGREST),
            figure(BASALT, |sample| sample.cpu[0]),
            figure(BASALT, |sample| sample.cpu[1]),
            figure(BASALT, |sample| sample.cpu[2]),
        ));
    }
}

fn megabytes(bytes: u64) -> f64 {
    Duration::from_micros(bytes).as_secs_f64()
}
