//! The ceiling: the same statements from pgbench, prepared and in one pipeline, on the same database.
//!
//! The statements are those PostgREST sends for the measured request (rest.md 3.16 and 3.17), which a server that finds
//! a better shape may pass, and leaner ones for the same answer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::basalt::Basalt;
use crate::rest::workload::{PEOPLE, RESPONSE_SETTINGS, Statements, Workload};
use crate::token;

/// When a run ends.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After this time, in whole seconds.
    Time(Duration),
    /// After this many transactions of each connection.
    Each(u64),
}

/// What pgbench reports.
pub(crate) struct Run {
    /// Transactions per second.
    pub(crate) rate: f64,
    /// Mean time of a transaction, in milliseconds.
    pub(crate) mean_ms: f64,
    /// How long it took, with connecting.
    pub(crate) seconds: f64,
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

/// Whose statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// PostgREST's: BEGIN, settings that come back as a row, one row with everything in it, COMMIT.
    Postgrest,
    /// Leaner ones, as Basalt sends them: one implicit transaction, settings without a row, rows as they are.
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

/// Parts an SQL text constant after each colon that pgbench would take for the start of a variable (`:8000`); PostgreSQL joins the parts when it plans.
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

/// One run with as many clients as connections, on one thread as our own generator.
pub(crate) async fn run(
    pgbench: &Path,
    script: &Path,
    basalt: &Basalt,
    connections: usize,
    until: Until,
) -> Result<Run> {
    let mut command = Command::new(pgbench);
    command.args([
        "-n",
        "-M",
        "prepared",
        "-h",
        &basalt.database_host,
        "-p",
        &basalt.database_port.to_string(),
    ]);
    command.args(["-U", "authenticator", "-c", &connections.to_string()]);
    match until {
        Until::Time(time) => command.args(["-T", &time.as_secs().max(1).to_string()]),
        Until::Each(count) => command.args(["-t", &count.to_string()]),
    };
    command.arg("-f").arg(script).arg("postgres").env("PGPASSWORD", token::role_password("authenticator"));
    let start = Instant::now();
    let output = tokio::task::spawn_blocking(move || command.output())
        .await?
        .context("pgbench could not be started")?;
    let seconds = start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let number = |prefix: &str| -> Option<f64> {
        text.lines().find_map(|line| line.strip_prefix(prefix))?.split_whitespace().next()?.parse().ok()
    };
    let rate = number("tps = ").context(
        "pgbench got no transaction through: the machine is too busy for so many connections in --seconds",
    )?;
    Ok(Run { rate, mean_ms: number("latency average = ").unwrap_or_default(), seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbench_finds_no_variable_in_json() {
        assert_eq!(
            without_variables(r#"{"a":"b:8000","n":1,"t":true}"#),
            r#"{"a":"b:' || '8000","n":' || '1,"t":' || 'true}"#
        );
    }
}
