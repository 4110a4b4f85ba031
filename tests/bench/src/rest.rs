//! `rest`: reads and writes under row-level security, compared with pgbench and the available peers.

mod bulk;
pub(crate) mod sample;
pub(crate) mod workload;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use crate::basalt::{self, Basalt};
use crate::http::Until;
use crate::peer::{self, Peer};
use crate::process::{self, Cpu};
use crate::report::{self, megabytes, rounded};
use crate::{http, pgbench};
use sample::{Sample, Subject};
use workload::{AcceptEncoding, Workload};

/// Reads and writes under row-level security, compared with pgbench, PostgREST and postrust.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What is measured.
    #[arg(long, value_delimiter = ',', default_values_t = Workload::ALL.map(Workload::name).map(str::to_owned))]
    workloads: Vec<String>,
    /// Connections, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,64", value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: Vec<u16>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// The number of runs, bulk included; medians are reported.
    #[arg(long, alias = "rounds", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// What requests say about compressed responses.
    #[arg(long, value_enum, default_value_t = AcceptEncoding::Browser)]
    accept_encoding: AcceptEncoding,
    /// The server under test.
    #[arg(long, default_value = "target/release/basalt")]
    server: PathBuf,
    /// The output file.
    #[arg(long, default_value = "target/bench/rest.json")]
    json: PathBuf,
    /// Measures without PostgREST.
    #[arg(long)]
    without_postgrest: bool,
    /// The program of postrust, another peer; `cargo install postrust-server` brings it. Looked for in PATH.
    #[arg(long)]
    postrust: Option<PathBuf>,
    /// Leaves out what takes long or much memory: 100,000 inserts, bulk inserts, the long read, the 50 MB body.
    #[arg(long)]
    without_bulk: bool,
}

/// Connections that the pools of all contenders open at most, with some to spare.
const POOLS: u16 = 100;

/// What pgbench runs, by the name of the reference.
const SHAPES: [(&str, pgbench::Shape); 2] =
    [(sample::PGBENCH, pgbench::Shape::Postgrest), (sample::LEAN, pgbench::Shape::Lean)];

/// A server for the same requests on the same database.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    /// Of its paths.
    pub(crate) prefix: &'static str,
    pub(crate) pid: u32,
}

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let workloads = options.workloads.iter().map(|name| name.parse()).collect::<Result<Vec<Workload>>>()?;
    let work = basalt::work_folder(&options.server)?;
    let pgbench = pgbench::find()?;
    let circumstances = report::circumstances();

    let start = Instant::now();
    let mut basalt = Basalt::start(&options.server, work).await?;
    let started = start.elapsed();
    let most = options.connections.iter().max().copied().unwrap_or_default();
    basalt.allow_connections(most.saturating_add(POOLS), &options.server, work).await?;
    let server = basalt.running.pid();
    let idle = process::resident_bytes(server);
    let peers = start_peers(options, &basalt, work).await?;
    let mut contenders =
        vec![Contender { name: sample::BASALT, port: basalt.port, prefix: "/rest/v1", pid: server }];
    contenders.extend(peers.iter().map(|peer| Contender {
        name: peer.name,
        port: peer.port,
        prefix: peer.prefix,
        pid: peer.running.pid(),
    }));

    announce(options, workloads.len() * (contenders.len() + SHAPES.len()))?;
    let time = Duration::from_secs(options.seconds);
    let script = work.join("rest.pgbench.sql");
    let mut samples = Vec::new();
    let mut bulks = Vec::new();
    let (ours, others) = contenders.split_first().context("no server is measured")?;
    for run in 1..=options.runs {
        for &workload in &workloads {
            for &connections in &options.connections {
                let subject = Subject { run, workload, connections };
                samples.push(measure(subject, ours, server, options).await.with_context(|| workload.name())?);
                basalt.running.check()?;
                // Directly after ours, because a shared machine's speed changes within half a minute.
                for (name, shape) in SHAPES {
                    pgbench::script(&script, workload, shape)?;
                    let run = pgbench::run(&pgbench, &script, &basalt, connections, time).await?;
                    samples.push(Sample::of_pgbench(subject, name, &run));
                }
                for peer in others {
                    match measure(subject, peer, server, options).await {
                        Ok(sample) => samples.push(sample),
                        // A peer may not support every workload.
                        Err(error) => {
                            let why = format!("{error:#}");
                            let why = why.lines().next().unwrap_or_default();
                            report::print(&format!("{} without {}: {why}", workload.name(), peer.name));
                        }
                    }
                }
            }
        }
        report::print(&format!("run {run} of {} done", options.runs));
    }
    let busy = process::resident_bytes(server);
    let peers_busy: serde_json::Map<_, _> = contenders
        .iter()
        .skip(1)
        .map(|peer| (peer.name.to_owned(), rounded(megabytes(process::resident_bytes(peer.pid)))))
        .collect();

    for &workload in &workloads {
        sample::print_table(workload, &options.connections, &contenders, &samples);
    }
    sample::print_summary(&workloads, &options.connections, &contenders, &samples);
    report::print(&format!(
        "\nserver: ready after {:.2} s (new data folder), {:.1} MB at rest, {:.1} MB after the load",
        started.as_secs_f64(),
        megabytes(idle),
        megabytes(busy)
    ));
    if !options.without_bulk {
        for _ in 0..options.runs {
            bulks.push(bulk::run(&basalt, &contenders, &pgbench, work).await?);
        }
        if options.runs > 1 {
            report::print(&format!("\nbulk, medians: {}", report::medians(&bulks)));
        }
    }

    let rows = workloads.iter().flat_map(|&workload| {
        let samples = &samples;
        options.connections.iter().map(move |&connections| sample::row(samples, workload, connections))
    });
    let figures = json!({
        "circumstances": circumstances,
        "accept_encoding": format!("{:?}", options.accept_encoding).to_lowercase(),
        "seconds": options.seconds,
        "runs": options.runs,
        "postgresql": basalt.database_version,
        "database_host": if basalt.database_host.starts_with('/') { "unix socket" } else { "loopback" },
        "started_s": rounded(started.as_secs_f64()),
        "resident_mb": {
            "basalt_idle": rounded(megabytes(idle)), "basalt_after": rounded(megabytes(busy)), "peers_after": peers_busy,
        },
        "results": rows.collect::<Vec<_>>(),
        "bulk": report::medians(&bulks),
        "samples": samples.iter().map(Sample::to_json).collect::<Vec<_>>(),
    });
    report::write(&options.json, &figures)
}

async fn start_peers(options: &Options, basalt: &Basalt, work: &Path) -> Result<Vec<Peer>> {
    let mut peers = Vec::new();
    if !options.without_postgrest {
        peers.push(Peer::postgrest(&peer::fetch_postgrest(work)?, basalt, work).await?);
    }
    match options.postrust.clone().or_else(peer::find_postrust) {
        Some(program) => peers.push(Peer::postrust(&program, basalt, work).await?),
        None => report::print("postrust is not installed; measuring without it"),
    }
    Ok(peers)
}

fn announce(options: &Options, each: usize) -> Result<()> {
    let cells = u64::from(options.runs) * u64::try_from(options.connections.len() * each)?;
    report::print(&format!(
        "{cells} measurements of {} s, warm-up included: about {} s",
        options.seconds,
        cells * (options.seconds + 1)
    ));
    Ok(())
}

/// `database` is the process above PostgreSQL, which all contenders use.
async fn measure(
    subject: Subject,
    contender: &Contender,
    database: u32,
    options: &Options,
) -> Result<Sample> {
    let Subject { workload, connections, .. } = subject;
    check(workload, contender).await?;
    let requests = Rc::new(workload.requests(contender.prefix, options.accept_encoding));
    let load = |time| {
        let requests = Rc::clone(&requests);
        http::load(contender.port, requests, workload.status(), connections.into(), Until::Time(time))
    };
    load(Duration::from_secs(1)).await?;
    let read = || -> [Cpu; 3] {
        [process::cpu(contender.pid), process::cpu(database), process::cpu(std::process::id())]
    };
    let before = read();
    let measured = load(Duration::from_secs(options.seconds)).await?;
    let after = read();
    Ok(Sample::of_load(subject, contender.name, &measured, before, after))
}

/// Checks that every server returns the same rows before timing.
async fn check(workload: Workload, contender: &Contender) -> Result<()> {
    let requests = workload.requests(contender.prefix, AcceptEncoding::None);
    let first = requests.first().context("no request")?;
    let (status, response) = http::once(contender.port, first).await?;
    let missing = workload.expected().iter().find(|(text, count)| response.matches(text).count() != *count);
    if status != workload.status() || missing.is_some() {
        bail!("a response with status {status} and without {missing:?}:\n{response}");
    }
    Ok(())
}
