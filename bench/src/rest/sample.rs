//! What was measured, and how it is shown.

use serde_json::{Value, json};

use super::Contender;
use super::workload::Workload;
use crate::http::Load;
use crate::pgbench;
use crate::process::Cpu;
use crate::report::{self, median, rounded};

pub(crate) const BASALT: &str = "basalt";
pub(crate) const POSTGREST: &str = "postgrest";
pub(crate) const POSTRUST: &str = "postrust";
/// With PostgREST's statements.
pub(crate) const PGBENCH: &str = "pgbench";
/// With leaner ones.
pub(crate) const LEAN: &str = "pgbench_lean";

/// One contender with one workload at one number of connections in one round.
pub(crate) struct Sample {
    workload: Workload,
    contender: &'static str,
    connections: u16,
    rate: f64,
    p50_ms: f64,
    /// Not a number where pgbench does not tell it.
    p99_ms: f64,
    /// Processor seconds per second: of the server, of PostgreSQL, of the generator. Of pgbench PostgreSQL's only.
    cores: [f64; 3],
}

impl Sample {
    /// `database_seconds` is what PostgreSQL worked meanwhile.
    pub(crate) fn of_pgbench(
        workload: Workload,
        contender: &'static str,
        connections: u16,
        run: &pgbench::Run,
        database_seconds: f64,
    ) -> Self {
        let (rate, p50_ms) = (run.rate, run.mean_ms);
        let cores = [0.0, database_seconds / run.seconds, f64::NAN];
        Self { workload, contender, connections, rate, p50_ms, p99_ms: f64::NAN, cores }
    }

    /// Processor milliseconds of each request: of the server, and of PostgreSQL.
    fn each_ms(&self) -> [f64; 2] {
        [self.cores[0], self.cores[1]].map(|cores| cores * 1e3 / self.rate)
    }

    /// `before` and `after`: readings of the server, of the process above PostgreSQL, and of ourselves.
    pub(crate) fn of_load(
        workload: Workload,
        contender: &'static str,
        connections: u16,
        load: &Load,
        before: [Cpu; 3],
        after: [Cpu; 3],
    ) -> Self {
        let share = |from: f64, to: f64| (to - from) / load.elapsed.as_secs_f64();
        let [server, database, generator] = [0, 1, 2].map(|index: usize| {
            let pair = before.get(index).zip(after.get(index));
            pair.map_or((0.0, 0.0), |(a, b)| (share(a.itself, b.itself), share(a.below, b.below)))
        });
        Self {
            workload,
            contender,
            connections,
            rate: load.rate(),
            p50_ms: load.quantile_ms(0.5),
            p99_ms: load.quantile_ms(0.99),
            cores: [server.0, database.1, generator.0],
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "workload": self.workload.name(), "contender": self.contender, "connections": self.connections,
            "per_second": rounded(self.rate), "p50_ms": rounded(self.p50_ms), "p99_ms": rounded(self.p99_ms),
        })
    }
}

/// The rounds of one workload at one number of connections.
struct Cell<'a> {
    samples: &'a [Sample],
    workload: Workload,
    connections: u16,
}

impl Cell<'_> {
    /// The median of a figure over the rounds; zero for a contender that did not run.
    fn of(&self, contender: &str, figure: impl Fn(&Sample) -> f64) -> f64 {
        let chosen = self.samples.iter().filter(|sample| {
            sample.contender == contender
                && sample.connections == self.connections
                && sample.workload == self.workload
        });
        median(chosen.map(figure))
    }

    fn rate(&self, contender: &str) -> f64 {
        self.of(contender, |sample| sample.rate)
    }

    /// Of our rate to theirs.
    fn ratio(&self, contender: &str) -> f64 {
        self.rate(BASALT) / self.rate(contender)
    }

    fn described(&self, contender: &str) -> Value {
        let figure = |figure: fn(&Sample) -> f64| rounded(self.of(contender, figure));
        json!({
            "per_second": figure(|sample| sample.rate), "p50_ms": figure(|sample| sample.p50_ms), "p99_ms": figure(|sample| sample.p99_ms),
            "cores": {
                "server": figure(|sample| sample.cores[0]), "postgresql": figure(|sample| sample.cores[1]), "generator": figure(|sample| sample.cores[2]),
            },
            "cpu_ms_per_request": {
                "server": figure(|sample| sample.each_ms()[0]), "postgresql": figure(|sample| sample.each_ms()[1]),
            },
        })
    }

    fn pgbench(&self, contender: &str) -> Value {
        json!({
            "per_second": rounded(self.rate(contender)),
            "mean_ms": rounded(self.of(contender, |sample| sample.p50_ms)),
            "cpu_ms_per_transaction": rounded(self.of(contender, |sample| sample.each_ms()[1])),
        })
    }
}

/// One line of the JSON file.
pub(crate) fn row(samples: &[Sample], workload: Workload, connections: u16) -> Value {
    let cell = Cell { samples, workload, connections };
    json!({
        "workload": workload.name(),
        "connections": connections,
        "basalt": cell.described(BASALT),
        "postgrest": cell.described(POSTGREST),
        "postrust": cell.described(POSTRUST),
        "pgbench": cell.pgbench(PGBENCH),
        "pgbench_lean": cell.pgbench(LEAN),
        "ratio_to_pgbench": rounded(cell.ratio(PGBENCH)),
        "ratio_to_pgbench_lean": rounded(cell.ratio(LEAN)),
        "ratio_to_postgrest": rounded(cell.ratio(POSTGREST)),
        "ratio_to_postrust": rounded(cell.ratio(POSTRUST)),
        "p99_to_p50": rounded(cell.of(BASALT, |sample| sample.p99_ms / sample.p50_ms)),
    })
}

/// One workload, a line for each number of connections.
pub(crate) fn print_table(
    workload: Workload,
    connections: &[u16],
    contenders: &[Contender],
    samples: &[Sample],
) {
    report::print(&format!("\n{}: {}", workload.name(), workload.describe()));
    let mut head =
        "connections   basalt/s   p50 ms   p99 ms   pgbench/s   ratio      lean/s   ratio".to_owned();
    let peers: Vec<&str> = contenders.iter().skip(1).map(|contender| contender.name).collect();
    for peer in &peers {
        head.push_str(&format!("  {:>12}   ratio", format!("{peer}/s")));
    }
    head.push_str(
        "   cores: server  postgres  generator   CPU ms each: server  postgres  of pgbench  of lean",
    );
    report::print(&head);
    for &connections in connections {
        let cell = Cell { samples, workload, connections };
        let ours = |figure: fn(&Sample) -> f64| cell.of(BASALT, figure);
        let mut line = format!(
            "{connections:>11}  {:>9.0}  {:>7.2}  {:>7.2}  {:>10.0}  {:>6.2}  {:>10.0}  {:>6.2}",
            cell.rate(BASALT),
            ours(|sample| sample.p50_ms),
            ours(|sample| sample.p99_ms),
            cell.rate(PGBENCH),
            cell.ratio(PGBENCH),
            cell.rate(LEAN),
            cell.ratio(LEAN),
        );
        for peer in &peers {
            line.push_str(&format!("  {:>12.0}  {:>6.2}", cell.rate(peer), cell.ratio(peer)));
        }
        let [server, postgres, generator] =
            [ours(|sample| sample.cores[0]), ours(|sample| sample.cores[1]), ours(|sample| sample.cores[2])];
        line.push_str(&format!("  {server:>14.2}  {postgres:>8.2}  {generator:>9.2}"));
        let [server, postgres] = [ours(|sample| sample.each_ms()[0]), ours(|sample| sample.each_ms()[1])];
        let [pgbench, lean] = [PGBENCH, LEAN].map(|name| cell.of(name, |sample| sample.each_ms()[1]));
        line.push_str(&format!("  {server:>20.3}  {postgres:>8.3}  {pgbench:>10.3}  {lean:>7.3}"));
        report::print(&line);
    }
}
