//! `auth`: sign-ins compared with argon2 alone, refreshes, and REST latency during a burst of sign-ins.

mod hashing;
mod people;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use crate::auth::hashing::Hashes;
use crate::basalt::{self, Basalt};
use crate::http::{self, Load, Until};
use crate::options::UnderTest;
use crate::process::{self, Cpu};
use crate::report::{self, median, megabytes, rounded};
use crate::rest::workload::{AcceptEncoding, Workload};

/// Sign-ins compared with argon2 alone at the same parameters, refreshes, and REST while sign-ins saturate the hash threads.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Connections of the refreshes, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,64", value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: Vec<u16>,
    /// Connections that sign in continuously.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=120))]
    sign_ins: u16,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    #[command(flatten)]
    under_test: UnderTest,
    /// The output file.
    #[arg(long, default_value = "target/bench/auth.json")]
    json: PathBuf,
}

/// REST connections during the sign-ins: one, and enough to keep the server busy.
const REST_CONNECTIONS: [u16; 2] = [1, 8];

/// One measurement of requests.
struct Sample {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor seconds per second: server, PostgreSQL, this program.
    cores: [f64; 3],
}

impl Sample {
    fn new(load: &Load, cores: [f64; 3]) -> Self {
        Self { rate: load.rate(), p50_ms: load.quantile_ms(0.5), p99_ms: load.quantile_ms(0.99), cores }
    }
}

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.under_test.server;
    let work = basalt::work_folder(program)?;
    let circumstances = report::circumstances();
    let mut basalt = Basalt::start(program, work).await?;
    let server = basalt.running.pid();
    let idle = process::resident_bytes(server);
    let most = options.connections.iter().copied().max().unwrap_or(1).max(options.sign_ins);
    let cells = u64::from(options.under_test.rounds)
        * u64::try_from(2 + options.connections.len() + 2 * REST_CONNECTIONS.len())?;
    report::print(&format!(
        "{cells} measurements of {} s: about {} s",
        options.seconds,
        cells * (options.seconds + 1)
    ));
    let mut people = people::sign_up(basalt.port, most).await?;

    let time = Duration::from_secs(options.seconds);
    let mut hashes = Vec::new();
    let mut sign_ins = Vec::new();
    let mut refreshes: Vec<(u16, Sample)> = Vec::new();
    let mut rest: Vec<(u16, bool, Sample)> = Vec::new();
    for round in 1..=options.under_test.rounds {
        hashes.push(hashing::measure(time)?);
        let requests = people::sign_in_requests(&people);
        let connections = usize::from(options.sign_ins);
        let load = || http::load(basalt.port, Rc::clone(&requests), 200, connections, Until::Time(time));
        sign_ins.push(measured(server, load()).await?);
        for &connections in &options.connections {
            let measuring = people::refresh(basalt.port, &mut people, connections, time);
            refreshes.push((connections, measured(server, measuring).await?));
        }
        for connections in REST_CONNECTIONS {
            let requests = Rc::new(Workload::List.requests("/rest/v1", AcceptEncoding::Browser));
            let ask = || {
                let count = usize::from(connections);
                http::load(basalt.port, Rc::clone(&requests), 200, count, Until::Time(time))
            };
            rest.push((connections, false, measured(server, ask()).await?));
            let (alone, burst) = tokio::join!(measured(server, ask()), load());
            burst.context("the sign-ins beside REST")?;
            rest.push((connections, true, alone?));
        }
        basalt.running.check()?;
        report::print(&format!("round {round} of {} done", options.under_test.rounds));
    }
    let busy = process::resident_bytes(server);
    // Hash memory is released when no user signs in.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let rested = process::resident_bytes(server);

    let figures = report(options, &hashes, &sign_ins, &refreshes, &rest);
    report::print(&format!(
        "\nserver: {:.1} MB idle, {:.1} MB after the load, {:.1} MB after a pause",
        megabytes(idle),
        megabytes(busy),
        megabytes(rested)
    ));
    let figures = json!({
        "circumstances": circumstances,
        "seconds": options.seconds,
        "rounds": options.under_test.rounds,
        "postgresql": basalt.database_version,
        "resident_mb": {
            "idle": rounded(megabytes(idle)), "after": rounded(megabytes(busy)), "rested": rounded(megabytes(rested)),
        },
        "results": figures,
    });
    report::write(&options.json, &figures)
}

async fn measured(server: u32, load: impl Future<Output = Result<Load>>) -> Result<Sample> {
    let read = || [process::cpu(server), process::cpu(std::process::id())];
    let before = read();
    let load = load.await?;
    let after = read();
    let seconds = load.elapsed.as_secs_f64();
    let used = |of: fn(&Cpu) -> f64, index: usize| {
        let at = |cpus: &[Cpu; 2]| cpus.get(index).map_or(0.0, of);
        (at(&after) - at(&before)) / seconds
    };
    let cores = [used(|cpu| cpu.itself, 0), used(|cpu| cpu.below, 0), used(|cpu| cpu.itself, 1)];
    Ok(Sample::new(&load, cores))
}

/// Prints the table; the same for the JSON file.
fn report(
    options: &Options,
    hashes: &[Hashes],
    sign_ins: &[Sample],
    refreshes: &[(u16, Sample)],
    rest: &[(u16, bool, Sample)],
) -> Value {
    let of =
        |samples: &[&Sample], figure: fn(&Sample) -> f64| median(samples.iter().map(|sample| figure(sample)));
    let head =
        "                                      rate/s   p50 ms   p99 ms   cores: server  postgres  generator";
    report::print(&format!("\n{head}"));
    let line = |name: &str, samples: &[&Sample]| {
        report::print(&format!(
            "{name:<36}  {:>7.1}  {:>7.2}  {:>7.2}  {:>14.2}  {:>8.2}  {:>9.2}",
            of(samples, |sample| sample.rate),
            of(samples, |sample| sample.p50_ms),
            of(samples, |sample| sample.p99_ms),
            of(samples, |sample| sample.cores[0]),
            of(samples, |sample| sample.cores[1]),
            of(samples, |sample| sample.cores[2]),
        ));
        json!({
            "per_second": rounded(of(samples, |sample| sample.rate)),
            "p50_ms": rounded(of(samples, |sample| sample.p50_ms)),
            "p99_ms": rounded(of(samples, |sample| sample.p99_ms)),
        })
    };
    let hash_rate = median(hashes.iter().map(|hashes| hashes.rate));
    let hash_ms = median(hashes.iter().map(|hashes| hashes.cpu_ms));
    report::print(&format!("{:<36}  {hash_rate:>7.1}", "argon2 alone, all cores"));
    let all: Vec<&Sample> = sign_ins.iter().collect();
    let sign_in = line(&format!("sign-ins, {} connections", options.sign_ins), &all);
    let ratio = of(&all, |sample| sample.rate) / hash_rate;
    // CPU time per sign-in: unlike the ratio of rates, unaffected by other load on the machine.
    let cpu_ms = [0, 1].map(|whose| {
        median(
            all.iter()
                .map(|sample| sample.cores.get(whose).map_or(0.0, |cores| cores * 1000.0 / sample.rate)),
        )
    });
    let cpu_ratio = hash_ms / cpu_ms.iter().sum::<f64>();
    let mut refresh_rows = Vec::new();
    for &connections in &options.connections {
        let own: Vec<&Sample> =
            refreshes.iter().filter(|row| row.0 == connections).map(|row| &row.1).collect();
        refresh_rows.push(json!({
            "connections": connections, "figures": line(&format!("refreshes, {connections} connections"), &own)
        }));
    }
    let mut rest_rows = Vec::new();
    let mut slower = Vec::new();
    for connections in REST_CONNECTIONS {
        let own = |during: bool| -> Vec<&Sample> {
            rest.iter().filter(|row| row.0 == connections && row.1 == during).map(|row| &row.2).collect()
        };
        let (alone, during) = (own(false), own(true));
        let name = format!("REST, {connections} connections");
        let rows = (line(&name, &alone), line(&format!("{name}, and sign-ins"), &during));
        let factor = of(&during, |sample| sample.p99_ms) / of(&alone, |sample| sample.p99_ms);
        slower.push(format!("{factor:.2} at {connections}"));
        rest_rows.push(json!({
            "connections": connections, "alone": rows.0, "with_sign_ins": rows.1, "p99_ratio": rounded(factor)
        }));
    }
    report::print(&format!(
        "\nprocessor time of a hash alone {hash_ms:.1} ms; of a sign-in {:.1} ms here and {:.1} ms in PostgreSQL: {cpu_ratio:.2} of it \
         the hash",
        cpu_ms[0], cpu_ms[1]
    ));
    report::print(&format!(
        "sign-ins: {ratio:.2} of argon2 alone; p99 of REST meanwhile: × {}",
        slower.join(", × ")
    ));
    json!({
        "argon2_alone_per_second": rounded(hash_rate),
        "argon2_alone_cpu_ms": rounded(hash_ms),
        "sign_in": sign_in, "sign_in_ratio": rounded(ratio),
        "sign_in_cpu_ms": { "server": rounded(cpu_ms[0]), "postgresql": rounded(cpu_ms[1]) },
        "sign_in_cpu_ratio": rounded(cpu_ratio),
        "refresh": refresh_rows, "rest": rest_rows,
    })
}
