//! `basalt storage …`: compares stored blobs with their rows, with or without a running server.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::settings::Value;
use basalt_core::settings::kinds::read_time;
use basalt_storage::blobs::BlobStore;
use basalt_storage::blobs::reconcile::{Findings, Reconciler};
use clap::{Args, Subcommand};
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::command_database::CommandDatabase;
use super::terminal::table;
use crate::config::Config;

/// The subcommands of `basalt storage`.
#[derive(Debug, Subcommand)]
pub(super) enum StorageCommand {
    /// Finds rows without a blob, and blobs without a row. Changes nothing. Exits with 1 if a row has no blob.
    Check(Check),
    /// Deletes blobs without a row and the remains of failed uploads. A running server does most of this itself.
    Gc(Gc),
}

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Minimum age of a blob without a row to be reported: a younger one may belong to an upload in progress.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = parse_time)]
    older_than: Duration,
    /// Maximum number of lines of each kind.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Prints JSON, without a limit.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Gc {
    /// Minimum age of a blob to be deleted. Less than an hour may break uploads in progress.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = parse_time)]
    older_than: Duration,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    read_time(&Value::Bare(text.to_owned()))
        .ok_or_else(|| "expected a duration such as 90m, 24h or 7d".to_owned())
}

/// Runs `basalt storage`.
pub(super) async fn run(config: &Config, command: &StorageCommand) -> anyhow::Result<ExitCode> {
    let mut database = CommandDatabase::open(config).await?;
    let done = async {
        let blobs = BlobStore::open(&config.storage, TaskTracker::new()).await?;
        let reconciler = Reconciler::new(database.storage_pool(), blobs, Clock::system());
        match command {
            StorageCommand::Check(check) => self::check(&reconciler, check).await,
            StorageCommand::Gc(gc) => self::gc(&reconciler, gc).await,
        }
    };
    let done = Box::pin(done).await;
    database.close().await;
    done
}

async fn check(reconciler: &Reconciler, check: &Check) -> anyhow::Result<ExitCode> {
    let findings = reconciler.check(check.older_than).await?;
    let mut out = io::stdout();
    if check.json {
        writeln!(out, "{:#}", as_json(&findings))?;
    } else {
        show(&findings, check.limit, &mut out)?;
    }
    Ok(if findings.missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(findings: &Findings, limit: usize, out: &mut impl Write) -> io::Result<()> {
    let Findings { blobs, bytes, missing, orphans } = findings;
    writeln!(out, "{blobs} blobs with rows, {bytes} bytes")?;
    writeln!(out, "{} rows without a blob", missing.len())?;
    if !missing.is_empty() {
        let row = |missing: &basalt_storage::blobs::reconcile::Missing| {
            let version = missing.version.clone().unwrap_or_else(|| "-".to_owned());
            // Keep each row on one line: an object's key may contain any character.
            vec![missing.holder.escape_debug().to_string(), version]
        };
        let rows: Vec<Vec<String>> = missing.iter().take(limit).map(row).collect();
        out.write_all(table(&["ROW", "VERSION"], &rows).as_bytes())?;
    }
    writeln!(out, "{} blobs without a row", orphans.len())?;
    if !orphans.is_empty() {
        let rows: Vec<Vec<String>> = orphans
            .iter()
            .take(limit)
            .map(|orphan| vec![orphan.blob.to_string(), orphan.size.to_string()])
            .collect();
        out.write_all(table(&["BLOB", "BYTES"], &rows).as_bytes())?;
        writeln!(io::stderr(), "`basalt storage gc` deletes them.")?;
    }
    Ok(())
}

fn as_json(findings: &Findings) -> serde_json::Value {
    let missing: Vec<_> = findings
        .missing
        .iter()
        .map(|missing| json!({ "row": missing.holder, "version": missing.version }))
        .collect();
    let orphans: Vec<_> = findings
        .orphans
        .iter()
        .map(|orphan| json!({ "blob": orphan.blob.to_string(), "bytes": orphan.size }))
        .collect();
    json!({
        "blobs": findings.blobs,
        "bytes": findings.bytes,
        "rows_without_blob": missing,
        "blobs_without_row": orphans,
    })
}

async fn gc(reconciler: &Reconciler, gc: &Gc) -> anyhow::Result<ExitCode> {
    let collected = reconciler.collect(gc.older_than).await?;
    writeln!(
        io::stdout(),
        "{} uploads abandoned, {} incomplete uploads removed, {} blobs deleted",
        collected.swept.intents,
        collected.swept.partial_uploads,
        collected.blobs
    )?;
    Ok(ExitCode::SUCCESS)
}
