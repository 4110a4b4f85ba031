//! Samples and their output.

use serde_json::{Value, json};

use super::Contender;
use super::workload::Workload;
use crate::http::{self, Load};
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

/// Times the rate of any peer.
const LEAST_TO_PEERS: f64 = 2.0;
/// The 99th percentile to the median.
const MOST_SPREAD: f64 = 3.0;

/// What a sample is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The first is 1.
    pub(crate) run: u16,
    pub(crate) workload: Workload,
    pub(crate) connections: u16,
}

/// One contender in one run with one workload at one number of connections.
pub(crate) struct Sample {
    subject: Subject,
    contender: &'static str,
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor seconds per second: of the server, of PostgreSQL, of the generator. Of pgbench PostgreSQL's only.
    cores: [f64; 3],
}

impl Sample {
    pub(crate) fn of_pgbench(subject: Subject, contender: &'static str, run: &pgbench::Run) -> Self {
        Self {
            subject,
            contender,
            rate: run.rate,
            p50_ms: http::milliseconds(&run.times, 0.5),
            p99_ms: http::milliseconds(&run.times, 0.99),
            cores: [0.0, run.database_cores, f64::NAN],
        }
    }

    /// Processor milliseconds of each request: of the server, and of PostgreSQL.
    fn each_ms(&self) -> [f64; 2] {
        [self.cores[0], self.cores[1]].map(|cores| cores * 1e3 / self.rate)
    }

    /// `before` and `after`: readings of the server, of the process above PostgreSQL, and of ourselves.
    pub(crate) fn of_load(
        subject: Subject,
        contender: &'static str,
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
            subject,
            contender,
            rate: load.rate(),
            p50_ms: load.quantile_ms(0.5),
            p99_ms: load.quantile_ms(0.99),
            cores: [server.0, database.1, generator.0],
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "run": self.subject.run, "workload": self.subject.workload.name(), "contender": self.contender,
            "connections": self.subject.connections, "per_second": rounded(self.rate), "p50_ms": rounded(self.p50_ms), "p99_ms": rounded(self.p99_ms),
        })
    }
}

/// The runs of one workload at one number of connections.
#[derive(Clone, Copy)]
struct Cell<'a> {
    samples: &'a [Sample],
    workload: Workload,
    connections: u16,
}

impl<'a> Cell<'a> {
    fn of_contender(self, contender: &str) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            sample.contender == contender
                && sample.subject.connections == self.connections
                && sample.subject.workload == self.workload
        })
    }

    /// The median of a figure over the runs; not a number for a contender that did not run.
    fn median(self, contender: &str, figure: impl Fn(&Sample) -> f64) -> f64 {
        median(self.of_contender(contender).map(figure))
    }

    fn rate(self, contender: &str) -> f64 {
        self.median(contender, |sample| sample.rate)
    }

    /// Of our rate to theirs: the median of the ratios of each run, in which both were measured moments apart.
    fn ratio(self, contender: &str) -> f64 {
        median(self.of_contender(contender).filter_map(|theirs| {
            let ours = self.of_contender(BASALT).find(|ours| ours.subject == theirs.subject)?;
            Some(ours.rate / theirs.rate)
        }))
    }

    /// The 99th percentile to the median of a contender's times.
    fn spread(self, contender: &str) -> f64 {
        self.median(contender, |sample| sample.p99_ms / sample.p50_ms)
    }

    fn described(self, contender: &str) -> Value {
        let figure = |figure: fn(&Sample) -> f64| rounded(self.median(contender, figure));
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

    fn pgbench(self, contender: &str) -> Value {
        json!({
            "per_second": rounded(self.rate(contender)),
            "p50_ms": rounded(self.median(contender, |sample| sample.p50_ms)),
            "p99_ms": rounded(self.median(contender, |sample| sample.p99_ms)),
            "cpu_ms_per_transaction": rounded(self.median(contender, |sample| sample.each_ms()[1])),
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
        "p99_to_p50": rounded(cell.spread(BASALT)),
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
        let ours = |figure: fn(&Sample) -> f64| cell.median(BASALT, figure);
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
            let (rate, ratio) = (shown(cell.rate(peer), 0), shown(cell.ratio(peer), 2));
            line.push_str(&format!("  {rate:>12}  {ratio:>6}"));
        }
        let [server, postgres, generator] =
            [ours(|sample| sample.cores[0]), ours(|sample| sample.cores[1]), ours(|sample| sample.cores[2])];
        line.push_str(&format!("  {server:>14.2}  {postgres:>8.2}  {generator:>9.2}"));
        let [server, postgres] = [ours(|sample| sample.each_ms()[0]), ours(|sample| sample.each_ms()[1])];
        let [pgbench, lean] = [PGBENCH, LEAN].map(|name| cell.median(name, |sample| sample.each_ms()[1]));
        line.push_str(&format!("  {server:>20.3}  {postgres:>8.3}  {pgbench:>10.3}  {lean:>7.3}"));
        report::print(&line);
    }
}

/// With this many digits; a dash for NaN.
fn shown(figure: f64, digits: usize) -> String {
    if figure.is_nan() { "-".to_owned() } else { format!("{figure:.digits$}") }
}

/// All cells with their targets (DESIGN §9), one per line; a missed target has a `!`.
pub(crate) fn print_summary(
    workloads: &[Workload],
    connections: &[u16],
    contenders: &[Contender],
    samples: &[Sample],
) {
    let peers: Vec<&str> = contenders.iter().skip(1).map(|contender| contender.name).collect();
    let mut head = "\nratios      connections    pgbench   aim".to_owned();
    for peer in &peers {
        head.push_str(&format!("  {peer:>10}"));
    }
    head.push_str("   aim   p99/p50   aim   of pgbench");
    report::print(&head);
    for &workload in workloads {
        for &connections in connections {
            let cell = Cell { samples, workload, connections };
            let mark = |missed: bool| if missed { '!' } else { ' ' };
            let (least, ratio) = (workload.least_ratio(), cell.ratio(PGBENCH));
            let mut line = format!(
                "{:<10}  {connections:>11}  {ratio:>8.2} {} {least:>4.2}",
                workload.name(),
                mark(ratio < least)
            );
            for peer in &peers {
                let ratio = cell.ratio(peer);
                line.push_str(&format!("  {:>8} {}", shown(ratio, 1), mark(ratio < LEAST_TO_PEERS)));
            }
            let spread = cell.spread(BASALT);
            line.push_str(&format!(
                "  {LEAST_TO_PEERS:>4.1}  {spread:>8.1} {}  {MOST_SPREAD:>3.1}  {:>11.1}",
                mark(spread > MOST_SPREAD),
                cell.spread(PGBENCH)
            ));
            report::print(&line);
        }
    }
}
