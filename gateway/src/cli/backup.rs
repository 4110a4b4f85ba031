//! `basalt backup …`: makes, lists, verifies and deletes backups, with or without a running server.

use std::io::{self, Write};

use basalt_backup::restore::{self, Moment};
use basalt_backup::{BlobArchive, Manifest, list_sets, prune, reach};
use basalt_core::clock::Clock;
use basalt_storage::blobs::BlobStore;
use clap::{Args, Subcommand};
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::command_database::CommandDatabase;
use super::terminal::{table, time};
use crate::backup::{self, Backups, Method};
use crate::banner::Console;
use crate::config::Config;

/// `basalt backup` and its subcommands.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct BackupArguments {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    #[command(flatten)]
    target: TargetArgument,
    /// Makes a logical dump of the database instead of copying its files, to move to another major version of PostgreSQL.
    #[arg(long)]
    dump: bool,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Lists the backups.
    List(List),
    /// Restores a backup to a scratch folder, starts PostgreSQL there, and compares rows and hashes.
    Verify(Verify),
    /// Deletes what `backup.retention` no longer requires. The server does this after each backup.
    Prune(TargetArgument),
}

#[derive(Debug, Args)]
struct TargetArgument {
    /// A folder or `s3://bucket/prefix` [default: backup.target].
    #[arg(long, value_name = "TARGET")]
    to: Option<String>,
}

#[derive(Debug, Args)]
struct List {
    /// A folder or `s3://bucket/prefix` [default: backup.target].
    #[arg(long, value_name = "TARGET")]
    from: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Verify {
    /// The backup [default: the newest complete one].
    #[arg(value_name = "BACKUP")]
    id: Option<String>,
    /// A folder or `s3://bucket/prefix` [default: backup.target].
    #[arg(long, value_name = "TARGET")]
    from: Option<String>,
}

/// Runs `basalt backup`.
pub(super) async fn run(config: &Config, arguments: &BackupArguments) -> anyhow::Result<()> {
    match &arguments.command {
        None => make(config, arguments).await,
        Some(BackupCommand::List(list)) => self::list(config, list).await,
        Some(BackupCommand::Verify(verify)) => self::verify(config, verify).await,
        Some(BackupCommand::Prune(target)) => self::prune(config, target).await,
    }
}

async fn make(config: &Config, arguments: &BackupArguments) -> anyhow::Result<()> {
    let target = backup::create_target(config, arguments.target.to.as_deref())?;
    let method = if arguments.dump { Method::Dump } else { Method::Files };
    let database = CommandDatabase::open_as_it_is(config).await?;
    let made = async {
        let store = BlobStore::open(&config.storage, TaskTracker::new()).await?;
        let blobs = BlobArchive::new(target.clone(), store, config.backup.transfers);
        let backups =
            Backups::new(config, &database.secrets, database.admin(), target.clone(), Some(blobs), method)
                .await?;
        let console = Console::new(false);
        backups.backup(&|line| console.progress(line)).await
    };
    let made = Box::pin(made).await;
    database.close().await;
    let manifest = made?;
    let mut out = io::stdout();
    writeln!(out, "backup {} is complete in {}", manifest.id, target.name())?;
    if config.backup.passphrase.is_none() {
        writeln!(
            io::stderr(),
            "Its secrets are encrypted with the server's master key: keep a copy of it elsewhere, or set backup.passphrase."
        )?;
    }
    if !config.is_embedded() {
        writeln!(
            io::stderr(),
            "For point-in-time recovery of an external PostgreSQL, archive its log with its own tools (pgBackRest, WAL-G, or the provider's)."
        )?;
    }
    Ok(())
}

async fn list(config: &Config, list: &List) -> anyhow::Result<()> {
    let target = backup::open_target(config, list.from.as_deref())?;
    let sets = list_sets(&target).await?;
    let mut out = io::stdout();
    if list.json {
        let sets: Vec<_> = sets
            .iter()
            .map(|set| match &set.manifest {
                Some(Ok(manifest)) => json!({ "id": set.id, "state": "complete", "manifest": manifest }),
                Some(Err(problem)) => json!({ "id": set.id, "state": "damaged", "problem": problem }),
                None => json!({ "id": set.id, "state": "incomplete" }),
            })
            .collect();
        writeln!(out, "{:#}", json!({ "target": target.name(), "backups": sets }))?;
        return Ok(());
    }
    let mut rows = Vec::new();
    for set in &sets {
        rows.push(match &set.manifest {
            Some(Ok(manifest)) => row(manifest),
            Some(Err(_)) => vec![set.id.clone(), "damaged".to_owned()],
            None => vec![set.id.clone(), "incomplete".to_owned()],
        });
    }
    out.write_all(
        table(&["BACKUP", "STATE", "CONTAINS (UTC)", "BYTES", "OBJECTS", "BASALT"], &rows).as_bytes(),
    )?;
    let newest = sets.iter().rev().find_map(|set| set.manifest.as_ref()?.as_ref().ok());
    if let Some(chain) = newest.and_then(|manifest| manifest.database.chain.as_deref())
        && let Some(reach) = reach(&target, chain).await?
    {
        writeln!(out, "The archived log reaches until {} UTC.", reach.at.strftime("%Y-%m-%d %H:%M:%S"))?;
    }
    Ok(())
}

fn row(manifest: &Manifest) -> Vec<String> {
    vec![
        manifest.id.clone(),
        "complete".to_owned(),
        time(Some(manifest.database_at)),
        manifest.bytes().to_string(),
        manifest.blobs.map_or_else(|| "-".to_owned(), |blobs| blobs.to_string()),
        manifest.basalt.clone(),
    ]
}

async fn verify(config: &Config, verify: &Verify) -> anyhow::Result<()> {
    let target = backup::open_target(config, verify.from.as_deref())?;
    let plan = restore::plan(&target, &Moment::Backup(verify.id.clone())).await?;
    let database = CommandDatabase::open_as_it_is(config).await?;
    let verified = async {
        let backups =
            Backups::new(config, &database.secrets, database.admin(), target, None, Method::Files).await?;
        let console = Console::new(false);
        anyhow::Ok(backups.verify(&plan, &|line| console.progress(line)).await?)
    };
    let verified = Box::pin(verified).await;
    database.close().await;
    let verified = verified?;
    writeln!(
        io::stdout(),
        "backup {} restores: {} tables, {} objects, {} bytes read",
        plan.manifest.id,
        verified.tables,
        verified.blobs,
        verified.bytes
    )?;
    Ok(())
}

async fn prune(config: &Config, target: &TargetArgument) -> anyhow::Result<()> {
    let target = backup::open_target(config, target.to.as_deref())?;
    let pruned = prune::run(&target, config.backup.retention, Clock::system().now()).await?;
    writeln!(
        io::stdout(),
        "{} backups, {} pieces of the log and {} objects deleted",
        pruned.sets,
        pruned.pieces,
        pruned.blobs
    )?;
    Ok(())
}
