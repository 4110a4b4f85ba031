//! The upper bound: the same statements from pgbench, prepared and pipelined, on the same database.
//!
//! The statements are those PostgREST sends for the measured request (rest.md 3.16 and 3.17), which a server that finds
//! a better shape may pass, and leaner ones for the same answer.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;

use crate::basalt::Basalt;
use crate::rest::workload::{BARE_INSERT, PEOPLE, RESPONSE_SETTINGS, Statements, Workload};
use crate::{http, process, token};

/// The warm-up of a run, as for our own generator. 32 more connections need a second more: each connects to its own backend, which
/// first fills its caches.
const WARM_UP: Duration = Duration::from_secs(1);

/// The share of transactions whose times are logged. Logging all would cost pgbench up to a tenth of its rate.
const SAMPLING_RATE: &str = "0.1";

/// The login role of requests.
pub(crate) const REQUESTS: &str = "authenticator";

/// The login role that bypasses policies.
pub(crate) const OWNER: &str = "supabase_admin";

/// The result of a run after its warm-up.
pub(crate) struct Run {
    /// Transactions per second.
    pub(crate) rate: f64,
    /// Nanoseconds of the sampled transactions.
    pub(crate) times: Histogram<u64>,
    /// Processor seconds per second of PostgreSQL.
    pub(crate) database_cores: f64,
}

/// pgbench from `PATH` or the newest of Debian's.
pub(crate) fn find() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut versions: Vec<PathBuf> =
            versions.flatten().map(|version| version.path().join("bin")).collect();
        versions.sort();
        folders.extend(versions.into_iter().rev());
    }
    let found = folders.into_iter().map(|folder| folder.join("pgbench")).find(|program| program.is_file());
    found.context(
        "pgbench was not found; `sudo apt-get install -y postgresql` brings it (its server need not run)",
    )
}

/// Which statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// PostgREST's: BEGIN, settings returned as a row, one row with the whole result, COMMIT.
    Postgrest,
    /// Leaner ones, as Basalt sends them: one implicit transaction, settings without a result, plain rows.
    Lean,
}

/// Writes the script of a workload.
pub(crate) fn script(file: &Path, workload: Workload, shape: Shape) -> Result<()> {
    let claims = without_variables(&token::claims("PERSON").to_string())
        .replace("PERSON", "00000000-0000-4000-8000-' || lpad(:person::text, 12, '0') || '");
    let Statements { access, method, path, main, rows } = workload.statements();
    let settings = [
        ("search_path", r#""public", "extensions""#),
        ("role", "authenticated"),
        ("request.jwt.claims", &claims),
        ("request.method", method),
        ("request.path", path),
        ("request.headers", r#"{"host":"127.0.0.1","accept":"application/json"}"#),
        ("request.cookies", "{}"),
    ];
    let set = |(name, value): &(&str, &str)| format!("set_config('{name}', '{value}', true)");
    let statements = match shape {
        Shape::Postgrest => {
            let settings: Vec<String> = settings.iter().map(set).collect();
            let settings = settings.join(", ");
            format!("begin isolation level read committed {access};\nselect {settings};\n{main};\ncommit;")
        }
        Shape::Lean => {
            let read_only = (access == "read only").then_some(("transaction_read_only", "on"));
            let settings: Vec<String> = read_only.iter().chain(&settings).map(set).collect();
            let settings = settings.join(" is null or ");
            let main = rows.map_or(main, |rows| format!("{rows};\nselect {RESPONSE_SETTINGS}"));
            format!("select where {settings} is null;\n{main};")
        }
    };
    let script = format!(
        "\\set person random(1, {PEOPLE})\n\\set id (:person - 1) * 200 + random(1, 200)\n\
         \\startpipeline\n{statements}\n\\endpipeline\n"
    );
    std::fs::write(file, script).with_context(|| format!("could not write {}", file.display()))
}

/// Writes the script of a minimal insert: one statement, without settings and policies.
pub(crate) fn bare_insert(file: &Path) -> Result<()> {
    std::fs::write(file, format!("{BARE_INSERT};\n"))
        .with_context(|| format!("could not write {}", file.display()))
}

/// Splits an SQL string constant after each colon that pgbench would treat as a variable (`:8000`); PostgreSQL joins the parts at plan time.
fn without_variables(text: &str) -> String {
    let mut parted = String::with_capacity(text.len() + 64);
    let mut before = ' ';
    for character in text.chars() {
        if before == ':' && (character.is_ascii_alphanumeric() || character == '_') {
            parted.push_str("' || '");
        }
        parted.push(character);
        before = character;
    }
    parted
}

/// The last `time` of a run, after a warm-up, of as many clients as connections, on one thread as our own generator.
pub(crate) async fn run(
    pgbench: &Path,
    script: &Path,
    basalt: &Basalt,
    connections: u16,
    time: Duration,
) -> Result<Run> {
    let warm_up = WARM_UP + WARM_UP * u32::from(connections) / 32;
    let log = script.with_extension("log");
    let mut command = command(pgbench, script, basalt, REQUESTS, connections.into());
    command.args(["-T", &(warm_up + time).as_secs().max(1).to_string()]);
    command.args(["-P", "1", "-l", "--sampling-rate", SAMPLING_RATE, "--log-prefix"]).arg(&log);
    let ended = tokio::task::spawn_blocking(move || output(command));
    tokio::time::sleep(warm_up).await;
    let (start, before) = (Instant::now(), process::cpu(basalt.running.pid()).below);
    // Read before the backends exit: exited ones that are not yet reaped would be missing.
    tokio::time::sleep(time.mul_f64(0.9)).await;
    let worked = process::cpu(basalt.running.pid()).below - before;
    let database_cores = worked / start.elapsed().as_secs_f64();
    let progress = String::from_utf8(ended.await??.stderr)?;
    let times = last_of(&take(&log)?, time)?;
    Ok(Run { rate: rate_after(&progress, warm_up)?, times, database_cores })
}

/// The seconds that `each` transactions of each of `login`'s connections take, without connecting.
pub(crate) async fn seconds_of(
    pgbench: &Path,
    script: &Path,
    basalt: &Basalt,
    login: &str,
    connections: u32,
    each: u32,
) -> Result<f64> {
    let mut command = command(pgbench, script, basalt, login, usize::try_from(connections)?);
    command.args(["-t", &each.to_string()]);
    let text = String::from_utf8(tokio::task::spawn_blocking(move || output(command)).await??.stdout)?;
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split_whitespace().next());
    let rate: f64 = rate.context("pgbench reported no rate")?.parse()?;
    Ok(f64::from(connections * each) / rate)
}

fn command(pgbench: &Path, script: &Path, basalt: &Basalt, login: &str, connections: usize) -> Command {
    let mut command = Command::new(pgbench);
    command.args(["-n", "-M", "prepared", "-h", &basalt.database_host]);
    command.args(["-p", &basalt.database_port.to_string(), "-U", login]);
    command.args(["-c", &connections.to_string(), "-f"]).arg(script).arg("-d").arg("postgres");
    command.env("PGPASSWORD", token::role_password(login));
    command
}

fn output(mut command: Command) -> Result<Output> {
    let output = command.output().context("pgbench could not be started")?;
    ensure!(output.status.success(), "pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

/// The mean of the rates reported each second after the warm-up: `progress: 2.0 s, 3456.7 tps, lat …`.
fn rate_after(progress: &str, warm_up: Duration) -> Result<f64> {
    let seconds = progress.lines().filter_map(|line| {
        let (time, rest) = line.strip_prefix("progress: ")?.split_once(" s, ")?;
        let rate: f64 = rest.split_once(" tps")?.0.parse().ok()?;
        // A line reports the second that ends at its time.
        (time.parse::<f64>().ok()? > warm_up.as_secs_f64() + 0.5).then_some(rate)
    });
    let rates: Vec<f64> = seconds.collect();
    let count = u32::try_from(rates.len())?;
    ensure!(count > 0 && rates.iter().sum::<f64>() > 0.0, "pgbench reported no rate: --seconds is too short");
    Ok(rates.iter().sum::<f64>() / f64::from(count))
}

/// Reads and deletes the transaction log, which pgbench names after its pid.
fn take(prefix: &Path) -> Result<String> {
    let name = prefix.file_name().and_then(|name| name.to_str()).context("the log needs a name")?;
    let folder = prefix.parent().context("the log needs a folder")?;
    let mut text = String::new();
    for file in std::fs::read_dir(folder)?.flatten() {
        if file.file_name().to_str().is_some_and(|file| file.starts_with(&format!("{name}."))) {
            text.push_str(&std::fs::read_to_string(file.path())?);
            std::fs::remove_file(file.path())?;
        }
    }
    Ok(text)
}

/// The transaction times in the last part of a log, which must start earlier.
///
/// A line is `client transaction microseconds script epoch-seconds epoch-microseconds`.
fn last_of(log: &str, part: Duration) -> Result<Histogram<u64>> {
    let transactions = log.lines().map(|line| {
        let fields: Vec<u64> = line.split(' ').map_while(|field| field.parse().ok()).collect();
        let [_, _, took, _, seconds, micros] = fields.as_slice() else {
            bail!("invalid line in pgbench's log: {line}");
        };
        Ok((Duration::from_secs(*seconds) + Duration::from_micros(*micros), *took))
    });
    let transactions = transactions.collect::<Result<Vec<_>>>()?;
    let ends = || transactions.iter().map(|(end, _)| *end);
    let from = ends().max().unwrap_or_default().saturating_sub(part);
    ensure!(
        ends().min().is_some_and(|first| first <= from),
        "pgbench did not start in time: the machine is too busy for this many connections in --seconds"
    );
    let mut times = http::histogram()?;
    for (_, took) in transactions.iter().filter(|(end, _)| *end > from) {
        times.record(took * 1_000)?;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons_in_json_are_not_pgbench_variables() {
        assert_eq!(
            without_variables(r#"{"a":"b:8000","n":1,"t":true}"#),
            r#"{"a":"b:' || '8000","n":' || '1,"t":' || 'true}"#
        );
    }
    #[test]
    fn rate_excludes_the_warm_up() {
        let progress = "pgbench (18)\nprogress: 1.0 s, 10.0 tps, lat 1 ms\nprogress: 2.0 s, 100.5 tps, lat 1 ms\n\
                        progress: 3.0 s, 200.5 tps, lat 1 ms\n";
        assert!((rate_after(progress, Duration::from_secs(1)).unwrap() - 150.5).abs() < 1e-9);
        assert!(rate_after(progress, Duration::from_secs(3)).is_err());
    }

    #[test]
    fn only_the_last_part_of_the_log_is_used() {
        let log = "0 1 900 0 100 0\n1 1 500 0 101 0\n0 2 2000 0 101 500000\n1 2 700 0 102 0\n";
        let times = last_of(log, Duration::from_secs(1)).unwrap();
        assert_eq!((times.len(), times.max() / 10_000), (2, 200));
        assert!(last_of(log, Duration::from_secs(3)).is_err());
        assert!(last_of("0 1 failed 0 100 0", WARM_UP).is_err());
        assert!(last_of("", WARM_UP).is_err());
    }
}
