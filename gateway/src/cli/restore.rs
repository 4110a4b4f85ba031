//! `basalt restore`: makes a new project folder from a backup. Nothing is restored over existing data, and nothing that was not completely
//! restored starts: a marker in the state folder is removed last.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use basalt_backup::restore::{self, Moment, Plan};
use basalt_backup::{SealKey, Target};
use basalt_storage::blobs::BlobStore;
use basalt_storage::{Backend, StorageConfig};
use clap::Args;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use tokio_util::task::TaskTracker;

use crate::backup::{self, INCOMPLETE, RestoredCluster, restore_cluster};
use crate::banner::Console;
use crate::config::{CommandLine, Config};
use crate::database_setup;
use crate::secrets::{self, Secrets};

/// Arguments of `basalt restore`.
#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The backups: a folder, or `s3://bucket/prefix` with the settings of `[backup.s3]`.
    from: String,
    /// The new project folder, which must not exist or be empty.
    into: PathBuf,
    /// The backup to restore [default: the newest complete one].
    #[arg(long, value_name = "BACKUP")]
    backup: Option<String>,
    /// Restores the state at this time, `2026-11-25 14:03` or `2026-11-25 14:03:20.5` in UTC (or with an offset: `2026-11-25T14:03+01:00`), from
    /// the archived log; `latest` restores everything in it.
    #[arg(long, value_name = "TIME", value_parser = parse_moment, conflicts_with = "backup")]
    at: Option<Moment>,
    /// Restores only database and objects, if the passphrase is lost. `basalt secrets reset` then makes new secrets.
    #[arg(long)]
    without_secrets: bool,
}

fn parse_moment(text: &str) -> Result<Moment, String> {
    if text == "latest" {
        return Ok(Moment::Latest);
    }
    let at = text.parse::<Timestamp>().ok().or_else(|| {
        let civil: DateTime = text.trim().parse().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    });
    at.map(Moment::At)
        .ok_or_else(|| "expected a time such as \"2026-11-25 14:03\" (UTC), or latest".to_owned())
}

/// Runs `basalt restore` with the configuration of the working directory, which only names the store's credentials.
pub(super) async fn run(config: &Config, arguments: &Restore) -> anyhow::Result<()> {
    let console = Console::new(false);
    let progress = |line: &str| console.progress(line);
    let target = backup::open_target(config, Some(&arguments.from))?;
    let moment = arguments.at.clone().unwrap_or_else(|| Moment::Backup(arguments.backup.clone()));
    let plan = restore::plan(&target, &moment).await?;
    progress(&format!("restoring backup {} of {}", plan.manifest.id, plan.manifest.database_at));
    let folder = NewFolder::create(&arguments.into)?;
    if !arguments.without_secrets {
        write_files(config, &target, &plan, &folder).await?;
    }
    let restored_config = folder.config()?;
    let notes = if arguments.without_secrets {
        restore_without_secrets(&restored_config, &target, &plan, &folder).await?
    } else {
        restore_all(&restored_config, &target, &plan, &folder, &progress).await?
    };
    folder.complete()?;
    let mut out = io::stdout();
    writeln!(out, "restored into {}", folder.root.display())?;
    for note in notes.iter().chain(&folder.notes(&restored_config)) {
        writeln!(out, "Note: {note}")?;
    }
    let next = if arguments.without_secrets { "secrets reset" } else { "serve" };
    writeln!(out, "Next: basalt {next} --project {0} --data {0}/.basalt", folder.root.display())?;
    Ok(())
}

/// Decrypts and writes `secrets.json` and the project's files.
async fn write_files(
    config: &Config,
    target: &Target,
    plan: &Plan,
    folder: &NewFolder,
) -> anyhow::Result<()> {
    let mut keys: Vec<SealKey> = Vec::new();
    keys.extend(config.backup.passphrase.clone().map(SealKey::Passphrase));
    keys.extend(config.server.master_key.clone().map(SealKey::MasterKey));
    // On the same machine, the secrets may still exist.
    if let Some(key) = secrets::stored_master_key(&config.server.state_dir) {
        keys.push(SealKey::MasterKey(key));
    }
    let (secrets, project) = restore::open_sealed(target, &plan.manifest, keys).await?;
    if let Some(project) = project {
        restore::unpack_project(project, &folder.root).await?;
    }
    if let Some(secrets) = secrets {
        write_private(&secrets::file_path(&folder.state_dir), &secrets)?;
    }
    Ok(())
}

async fn restore_all(
    config: &Config,
    target: &Target,
    plan: &Plan,
    folder: &NewFolder,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> anyhow::Result<Vec<String>> {
    let secrets = Secrets::load_or_generate(config)?;
    let mut embedded = database_setup::embedded_config(config, &secrets);
    embedded.state_dir.clone_from(&folder.state_dir);
    embedded.data_dir = folder.state_dir.join("postgres");
    embedded.port = None;
    embedded.remote = None;
    let restored = Box::pin(restore_cluster(target, plan, embedded, progress)).await?;
    let checked = check_and_copy(config, target, plan, folder, &restored, progress).await;
    let RestoredCluster { embedded, client, mut notes } = restored;
    drop(client);
    embedded.stop().await;
    notes.extend(checked?);
    Ok(notes)
}

/// Compares rows, and copies the objects that rows refer to.
async fn check_and_copy(
    config: &Config,
    target: &Target,
    plan: &Plan,
    folder: &NewFolder,
    restored: &RestoredCluster,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> anyhow::Result<Option<String>> {
    let differences = restore::compare_rows(&restored.client, plan).await?;
    if !differences.is_empty() {
        return Err(backup::RestoreError::Different(differences).into());
    }
    if plan.manifest.blobs.is_none() {
        return Ok(Some(
            "this backup was made before an upgrade and contains no objects: copy them from the previous folder's .basalt/storage".to_owned(),
        ));
    }
    progress("copying objects");
    let needed = basalt_backup::create::references(&restored.client).await?;
    let store = folder.store(config).await?;
    let _copied = restore::copy_blobs(target, Some(needed), Some(&store), config.backup.transfers).await?;
    Ok(None)
}

/// Unpacks the database without starting it, and copies every object in the target.
async fn restore_without_secrets(
    config: &Config,
    target: &Target,
    plan: &Plan,
    folder: &NewFolder,
) -> anyhow::Result<Vec<String>> {
    if plan.replay.is_some() {
        anyhow::bail!("--without-secrets restores a backup as it is; it cannot be combined with --at");
    }
    let mut embedded =
        basalt_postgres::EmbeddedConfig::new(&folder.state_dir, secrecy::SecretString::default());
    embedded.bin_dir.clone_from(&config.database.bin_dir);
    embedded.project_dir.clone_from(&config.project.dir);
    let installed = basalt_postgres::Embedded::install(
        embedded,
        |_| {},
        async |dir: &Path| restore::unpack_cluster(target, plan, dir).await.map(|_| ()),
    );
    installed.await??;
    let store = folder.store(config).await?;
    let _copied = restore::copy_blobs(target, None, Some(&store), config.backup.transfers).await?;
    Ok(vec!["the project's files were not restored: copy them into the folder".to_owned()])
}

/// The folder that is being restored into.
struct NewFolder {
    root: PathBuf,
    state_dir: PathBuf,
}

impl NewFolder {
    /// Creates the folder, with the marker that keeps it from being used.
    fn create(into: &Path) -> anyhow::Result<Self> {
        let refuse = || {
            anyhow::anyhow!(
                "{} exists and is not empty; nothing is restored over existing data: name a new folder",
                into.display()
            )
        };
        match fs::read_dir(into).map(|mut entries| entries.next().is_some()) {
            Ok(true) => return Err(refuse()),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(refuse()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", into.display())),
        }
        let root = into.canonicalize().with_context(|| format!("cannot open {}", into.display()))?;
        let state_dir = root.join(".basalt");
        DirBuilder::new().mode(0o700).create(&state_dir).map_err(|_exists| refuse())?;
        write_private(&state_dir.join(INCOMPLETE), b"a restore into this folder has not completed\n")?;
        Ok(Self { root, state_dir })
    }

    /// The configuration of the restored project.
    fn config(&self) -> anyhow::Result<Config> {
        let command_line = CommandLine {
            only: None,
            project: Some(self.root.to_string_lossy().into_owned()),
            port: None,
            data: Some(self.state_dir.to_string_lossy().into_owned()),
            db_port: None,
            postgrest_file: None,
            is_strict: false,
        };
        Ok(Config::load(&command_line)?)
    }

    async fn store(&self, config: &Config) -> anyhow::Result<BlobStore> {
        let storage = StorageConfig {
            backend: Backend::File,
            dir: self.state_dir.join("storage"),
            ..config.storage.clone()
        };
        Ok(BlobStore::open(&storage, TaskTracker::new()).await?)
    }

    /// Settings of the restored project that lead elsewhere than this folder.
    fn notes(&self, config: &Config) -> Vec<String> {
        let mut notes = Vec::new();
        if config.database.data_dir != self.state_dir.join("postgres") {
            notes.push(format!(
                "database.data_dir names {}: change it to {} before the first start, or it is not used",
                config.database.data_dir.display(),
                self.state_dir.join("postgres").display()
            ));
        }
        if config.storage.backend == Backend::S3 || config.storage.dir != self.state_dir.join("storage") {
            notes.push(format!(
                "the [storage] settings lead to another store: set storage.backend = \"file\" and storage.dir to {} before the first start",
                self.state_dir.join("storage").display()
            ));
        }
        if config.database.url.is_some() {
            notes.push("database.url is set: unset it to use the restored database".to_owned());
        }
        notes
    }

    /// Removes the marker: from now on the folder can be used.
    fn complete(&self) -> anyhow::Result<()> {
        fs::File::open(&self.state_dir).and_then(|dir| dir.sync_all())?;
        fs::remove_file(self.state_dir.join(INCOMPLETE))?;
        fs::File::open(&self.state_dir).and_then(|dir| dir.sync_all())?;
        Ok(())
    }
}

fn write_private(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_utc_unless_they_have_an_offset() {
        let at = |text: &str| match parse_moment(text) {
            Ok(Moment::At(at)) => at.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(at("2026-11-25 14:03"), "2026-11-25T14:03:00Z");
        assert_eq!(at("2026-11-25 14:03:20.5"), "2026-11-25T14:03:20.5Z");
        assert_eq!(at("2026-11-25T14:03:00+01:00"), "2026-11-25T13:03:00Z");
        assert_eq!(parse_moment("latest"), Ok(Moment::Latest));
        assert!(parse_moment("yesterday").is_err());
    }
}
