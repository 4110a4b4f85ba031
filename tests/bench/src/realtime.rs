//! `realtime`: row changes to many clients, broadcasts from one to many, and the memory of idle sockets.

mod changes;
mod clients;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::basalt::{self, Basalt};
use crate::options::UnderTest;
use crate::process;
use crate::report::{self, medians, rounded};
use changes::{Case, Pace, Policy, Watched};
use clients::{Receivers, Sender, Socket};

/// Open files of this process besides its sockets.
const OTHER_FILES: u64 = 200;

/// Row changes, broadcasts from one socket to many, and the memory of idle ones.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Clients that watch row changes, one run for each number and kind of policy; a change is visible to 100 of them, or to one if a column decides. `0` leaves changes out.
    #[arg(long, value_delimiter = ',', default_value = "100,500,2000")]
    watchers: Vec<u16>,
    /// Changes in one transaction, one measurement for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    per_transaction: Vec<u32>,
    /// Changes per second offered in a last measurement under row-level security, even if the server cannot keep up; 0 skips it.
    #[arg(long, default_value_t = 300)]
    offered: u32,
    /// Sockets that receive broadcasts; 0 leaves them out.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(0..=20_000))]
    receivers: u16,
    /// Broadcasts in flight: the next is sent when the first receiver has one.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    in_flight: u16,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Idle sockets with one channel each; 0 leaves them out.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(0..=20_000))]
    idle: u16,
    #[command(flatten)]
    under_test: UnderTest,
    /// The output file.
    #[arg(long, default_value = "target/bench/realtime.json")]
    json: PathBuf,
}

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.under_test.server;
    let work = basalt::work_folder(program)?;
    let circumstances = report::circumstances();
    let watchers = options.watchers.iter().copied().max().unwrap_or(0);
    open_files(u64::from(options.receivers.max(options.idle).max(watchers)) + OTHER_FILES)?;
    let basalt = Basalt::start(program, work).await?;
    // First, because memory left by a load would be counted.
    let idle = if options.idle == 0 { Value::Null } else { idle(options, &basalt).await? };
    let local = tokio::task::LocalSet::new();
    let changes = local.run_until(all_changes(options, &basalt)).await.context("row changes")?;
    let mut rounds = Vec::new();
    let broadcast_rounds = if options.receivers == 0 { 0 } else { options.under_test.rounds };
    for round in 1..=broadcast_rounds {
        let local = tokio::task::LocalSet::new();
        let figures = local.run_until(broadcasts(options, &basalt)).await.context("broadcasts")?;
        report::print(&format!("round {round} of {}: {figures}", options.under_test.rounds));
        rounds.push(figures);
    }
    let figures = json!({
        "circumstances": circumstances,
        "receivers": options.receivers,
        "in_flight": options.in_flight,
        "seconds": options.seconds,
        "idle": idle,
        "changes": changes,
        "broadcasts": medians(&rounds),
    });
    report::print(&serde_json::to_string_pretty(&figures)?);
    report::write(&options.json, &figures)
}

/// Every number of clients, kind of policy, and size of transactions.
async fn all_changes(options: &Options, basalt: &Basalt) -> Result<Vec<Value>> {
    let time = Duration::from_secs(options.seconds);
    let mut all = Vec::new();
    for clients in options.watchers.iter().copied().filter(|clients| *clients > 0) {
        for policy in Policy::ALL {
            let watched = Watched::join(basalt, clients, policy).await?;
            let busy = options.per_transaction.iter();
            let mut cases: Vec<Case> = busy
                .map(|per_transaction| Case { policy, per_transaction: *per_transaction, pace: Pace::Busy })
                .collect();
            if policy != Policy::None && options.offered > 0 {
                cases.push(Case { policy, per_transaction: 1, pace: Pace::PerSecond(options.offered) });
            }
            for case in cases {
                let mut rounds = Vec::new();
                for _ in 0..options.under_test.rounds {
                    rounds.push(watched.measure(case, time).await?);
                }
                all.push(medians(&rounds));
            }
        }
    }
    Ok(all)
}

/// Raises this process's limit of open files.
fn open_files(wanted: u64) -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    ensure!(
        maximum.is_none_or(|most| most >= wanted),
        "the system lets a process open fewer than {wanted} files"
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).context("the limit of open files")
}

async fn idle(options: &Options, basalt: &Basalt) -> Result<Value> {
    // What the first sockets make the server allocate once is not theirs.
    let warm = sockets(basalt, 100).await?;
    let before = process::resident_bytes(basalt.running.pid());
    let begun = Instant::now();
    let held = sockets(basalt, options.idle).await?;
    let took = begun.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = process::resident_bytes(basalt.running.pid());
    drop((warm, held));
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let each = (after.saturating_sub(before)) as f64 / f64::from(options.idle);
    let figures = json!({
        "sockets": options.idle,
        "bytes_each": rounded(each),
        "connected_and_joined_per_second": rounded(f64::from(options.idle) / took),
    });
    report::print(&format!("idle: {figures}"));
    // Close them before the next measurement.
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(figures)
}

/// Sockets that have joined a channel of their own.
async fn sockets(basalt: &Basalt, count: u16) -> Result<Vec<Socket>> {
    let mut sockets = Vec::new();
    for number in 0..count {
        let mut socket = Socket::open(basalt.port).await?;
        socket.join(&format!("realtime:idle-{number}")).await?;
        sockets.push(socket);
    }
    Ok(sockets)
}

async fn broadcasts(options: &Options, basalt: &Basalt) -> Result<Value> {
    let pid = basalt.running.pid();
    let receivers = Receivers::join(basalt.port, options.receivers).await?;
    let mut sender = Sender::join(basalt.port).await?;
    let mut latencies = Histogram::<u64>::new(3)?;
    let begun = Instant::now();
    let cpu = process::cpu(pid).itself;
    let mut sent = 0_u64;
    let end = begun + Duration::from_secs(options.seconds);
    while Instant::now() < end {
        if sent < receivers.slowest_sampled() + u64::from(options.in_flight) {
            sender.send(receivers.elapsed()).await?;
            sent += 1;
        } else {
            receivers.progress().await;
        }
    }
    receivers.until(sent).await?;
    let took = begun.elapsed().as_secs_f64();
    let cpu = process::cpu(pid).itself - cpu;
    receivers.latencies(&mut latencies)?;
    let delivered = receivers.delivered();
    ensure!(delivered == sent * u64::from(options.receivers), "{delivered} deliveries of {sent} broadcasts");
    let ms =
        |quantile: f64| Duration::from_micros(latencies.value_at_quantile(quantile)).as_secs_f64() * 1000.0;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let delivered = delivered as f64;
    Ok(json!({
        "deliveries_per_second": rounded(delivered / took),
        "p50_ms": rounded(ms(0.5)),
        "p95_ms": rounded(ms(0.95)),
        "p99_ms": rounded(ms(0.99)),
        "server_cpus": rounded(cpu / took),
    }))
}
