//! In development, applies new and changed files of the project as soon as they are written. REST's schema cache follows by itself, because DDL
//! sends a notification.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use basalt_core::keys::ApiKeys;
use basalt_pg::database::Database;

use crate::banner::Console;
use crate::config::Config;
use crate::database_setup::{self, Options, Seed};

/// How often the folders are read. Cheaper than a watch of the system in every way that matters here: a few hundred files take a millisecond.
const INTERVAL: Duration = Duration::from_secs(1);

/// The files of the watched folders: path, size, and time of the last change in seconds and nanoseconds.
type Listing = Vec<(PathBuf, u64, i64, i64)>;

/// Watches until it is cancelled.
pub(crate) async fn watch(config: Config, api_keys: ApiKeys, admin: Database, console: Console) {
    let folders = folders(&config);
    let list = || {
        let folders = folders.clone();
        tokio::task::spawn_blocking(move || listing(&folders))
    };
    let Ok(mut applied) = list().await else { return };
    let mut seen = applied.clone();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Ok(now) = list().await else { return };
        // A file that is still being written changes between two looks.
        let is_stable = now == seen;
        seen.clone_from(&now);
        if now == applied || !is_stable {
            continue;
        }
        applied = now;
        // A removed project changes nothing until the next start, which reports it.
        if !config.project.dir.is_dir() {
            continue;
        }
        if let Err(error) = apply(&config, &api_keys, &admin, console).await {
            tracing::warn!("a change in the project folder was not applied: {error}");
        }
    }
}

async fn apply(
    config: &Config,
    api_keys: &ApiKeys,
    admin: &Database,
    console: Console,
) -> Result<(), database_setup::SetupError> {
    let options = Options { seed: Seed::No, adopt: false };
    let mut client = database_setup::connect(admin).await?;
    database_setup::apply_project(&mut client, config, api_keys, &options, &mut |line| console.progress(line))
        .await
}

fn folders(config: &Config) -> Vec<PathBuf> {
    let dir = &config.project.dir;
    if config.project.supabase.is_some() {
        vec![dir.join("supabase/migrations")]
    } else {
        vec![dir.join("migrations"), dir.join("policies")]
    }
}

fn listing(folders: &[PathBuf]) -> Listing {
    let is_sql = |path: &Path| path.extension().is_some_and(|extension| extension == "sql");
    let mut files: Listing = folders
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten())
        .filter(|entry| is_sql(&entry.path()))
        .filter_map(|entry| {
            let metadata = std::fs::metadata(entry.path()).ok()?;
            Some((entry.path(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
        })
        .collect();
    files.sort_unstable();
    files
}
