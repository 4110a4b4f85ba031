//! Backups of this server's project: what `basalt backup`, the scheduler and the automatic backup before an upgrade have in common.
//! `basalt_backup` copies and unpacks; this module provides the server's parts and starts PostgreSQL on what was unpacked.

pub(crate) mod scheduler;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use basalt_backup::create::Source;
use basalt_backup::restore::{self, Plan};
use basalt_backup::runs::Kind;
use basalt_backup::{
    BackupError, BlobArchive, DatabaseKind, Dump, Load, Manifest, SealKey, Target, prune, runs,
};
use basalt_core::clock::Clock;
use basalt_pg::database::Database;
use basalt_postgres::{Embedded, EmbeddedConfig, EmbeddedError, SUPERUSER};
use basalt_storage::Backend;
use basalt_storage::blobs::{BlobError, BlobStore};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::SecretString;
use tokio_postgres::Client;
use tokio_util::task::TaskTracker;

use crate::cli::db::without_password;
use crate::config::Config;
use crate::database_setup::{self, SetupError};
use crate::secrets::Secrets;

/// Replay of a long log takes as long as it takes.
const RECOVERY_LIMIT: Duration = Duration::from_secs(24 * 3600);
/// In the state folder: a restore has begun and not ended.
pub(crate) const INCOMPLETE: &str = "restore.incomplete";
/// In the state folder: where the automatic backup before an upgrade goes if there is no target.
const BEFORE_UPGRADE: &str = "before-upgrade";
/// How long automatic backups before an upgrade are kept there, besides the newest.
const KEEP_BEFORE_UPGRADE: Duration = Duration::from_secs(24 * 3600);

/// Why a backup cannot be restored or verified.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    /// The backup, or its target.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// PostgreSQL does not start on the restored data.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The restored database cannot be reached.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The objects cannot be written.
    #[error("objects: {0}")]
    Blobs(#[from] BlobError),
    /// The restored data is not what was backed up.
    #[error("the restored data differs from the backup: {}", .0.join("; "))]
    Different(Vec<String>),
    /// The archive ends before the requested moment.
    #[error("{0}")]
    Gap(String),
}

/// How the database is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// As the files of an embedded PostgreSQL. An external one is dumped.
    Files,
    /// As a logical dump, which another major version can load.
    Dump,
}

/// The backups of a project. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Backups {
    target: Target,
    blobs: Option<Arc<BlobArchive>>,
    admin: Database,
    key: SealKey,
    project_name: String,
    /// For a scratch cluster.
    embedded: EmbeddedConfig,
    config: Arc<Config>,
    dump: Option<Dump>,
}

impl Backups {
    /// The backups in `target` of the database behind `admin`.
    pub(crate) async fn new(
        config: &Config,
        secrets: &Secrets,
        admin: &Database,
        target: Target,
        blobs: Option<Arc<BlobArchive>>,
        method: Method,
    ) -> Result<Self, BackupError> {
        let embedded = database_setup::embedded_config(config, secrets);
        let dump = match method {
            Method::Files if config.is_embedded() => None,
            Method::Files | Method::Dump => Some(dump(config, admin).await?),
        };
        Ok(Self {
            target,
            blobs,
            admin: admin.clone(),
            key: seal_key(config, secrets),
            project_name: secrets.project_name(),
            embedded,
            config: Arc::new(config.clone()),
            dump,
        })
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// Makes a backup and deletes what the retention allows; both are recorded.
    pub(crate) async fn backup(
        &self,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Manifest, BackupError> {
        let client = self.admin.connect().await?;
        let source = self.source().await?;
        let run = Box::pin(basalt_backup::create::run(&source, progress));
        let manifest =
            runs::record(&client, Kind::Backup, run, |manifest| (manifest.id.clone(), manifest.bytes()))
                .await?;
        let pruned = prune::run(&self.target, self.config.backup.retention, Clock::system().now()).await?;
        if pruned != prune::Pruned::default() {
            tracing::debug!(
                sets = pruned.sets,
                pieces = pruned.pieces,
                blobs = pruned.blobs,
                "old backups deleted"
            );
        }
        Ok(manifest)
    }

    async fn source(&self) -> Result<Source, BackupError> {
        let config = Arc::clone(&self.config);
        let target = self.target.name().to_owned();
        let (secrets, project) = tokio::task::spawn_blocking(move || files(&config, &target)).await??;
        Ok(Source {
            admin: self.admin.clone(),
            target: self.target.clone(),
            blobs: self.blobs.clone(),
            key: self.key.clone(),
            project_name: self.project_name.clone(),
            secrets,
            project: Some(project),
            release: env!("CARGO_PKG_VERSION"),
            dump: self.dump.clone(),
        })
    }

    /// Restores a backup to a scratch folder, starts PostgreSQL there, and compares rows and hashes; recorded.
    pub(crate) async fn verify(
        &self,
        plan: &Plan,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Verified, RestoreError> {
        let client = self.admin.connect().await.map_err(BackupError::from)?;
        let mut failure = None;
        let run = async {
            match Box::pin(self.verify_now(plan, progress)).await {
                Ok(verified) => Ok(verified),
                Err(RestoreError::Backup(error)) => Err(error),
                Err(error) => {
                    let text = error.to_string();
                    failure = Some(error);
                    Err(BackupError::Failed(text))
                }
            }
        };
        let id = plan.manifest.id.clone();
        let verified = runs::record(&client, Kind::Verify, run, |verified| (id, verified.bytes)).await;
        match (verified, failure) {
            (_, Some(error)) => Err(error),
            (verified, None) => Ok(verified?),
        }
    }

    async fn verify_now(
        &self,
        plan: &Plan,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Verified, RestoreError> {
        progress("opening secrets and project files");
        let _opened = restore::open_sealed(&self.target, &plan.manifest, vec![self.key.clone()]).await?;
        let scratch = Scratch::create(&self.config.server.state_dir, &plan.manifest.id)?;
        let mut embedded = self.embedded.clone();
        // Without this, the scratch cluster would unpack the embedded programs again.
        let (_version, bin_dir) = Embedded::find_programs(&embedded).await?;
        embedded.bin_dir = Some(bin_dir).filter(|dir| dir.exists());
        embedded.state_dir.clone_from(&scratch.0);
        embedded.data_dir = scratch.0.join("postgres");
        embedded.port = None;
        embedded.remote = None;
        let restored = Box::pin(restore_cluster(&self.target, plan, embedded, progress)).await?;
        let verified = self.compare(plan, &restored, progress).await;
        restored.stop_and_remove().await?;
        verified
    }

    async fn compare(
        &self,
        plan: &Plan,
        restored: &RestoredCluster,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Verified, RestoreError> {
        progress("comparing rows and objects");
        let differences = restore::compare_rows(&restored.client, plan).await?;
        if !differences.is_empty() {
            return Err(RestoreError::Different(differences));
        }
        let mut verified =
            Verified { tables: plan.manifest.rows.len(), blobs: 0, bytes: plan.manifest.bytes() };
        if plan.manifest.blobs.is_some() {
            let needed = basalt_backup::create::references(&restored.client).await?;
            let transfers = self.config.backup.transfers;
            let (blobs, bytes) = restore::copy_blobs(&self.target, Some(needed), None, transfers).await?;
            verified.blobs = blobs;
            verified.bytes += bytes;
        }
        Ok(verified)
    }
}

/// What a verification compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verified {
    pub(crate) tables: usize,
    pub(crate) blobs: u64,
    pub(crate) bytes: u64,
}

/// Opens the configured target, or `name`. Creates a folder that does not exist.
pub(crate) fn create_target(config: &Config, name: Option<&str>) -> Result<Target, BackupError> {
    let (name, base) = target_name(config, name)?;
    Target::create(&name, &base, &config.backup.s3)
}

/// Opens the configured target, or `name`, to read from it.
pub(crate) fn open_target(config: &Config, name: Option<&str>) -> Result<Target, BackupError> {
    let (name, base) = target_name(config, name)?;
    Target::open(&name, &base, &config.backup.s3)
}

/// The target's name, and the folder where a relative one starts: as for other settings, but the working directory for arguments.
fn target_name(config: &Config, name: Option<&str>) -> Result<(String, PathBuf), BackupError> {
    match (name, &config.backup.target) {
        (Some(name), _) => Ok((name.to_owned(), PathBuf::from("."))),
        (None, Some(name)) => Ok((name.clone(), config.project.dir.clone())),
        (None, None) => Err(BackupError::Target(
            "is not set: name a folder with --to, or set backup.target to a folder or s3://bucket/prefix"
                .to_owned(),
        )),
    }
}

/// What encrypts the secrets of new backups.
pub(crate) fn seal_key(config: &Config, secrets: &Secrets) -> SealKey {
    match &config.backup.passphrase {
        Some(passphrase) => SealKey::Passphrase(passphrase.clone()),
        None => SealKey::MasterKey(secrets.master_key().clone()),
    }
}

/// `secrets.json`, and the packed project.
fn files(config: &Config, target: &str) -> Result<(Option<Vec<u8>>, Vec<u8>), BackupError> {
    let path = crate::secrets::file_path(&config.server.state_dir);
    let secrets = match fs::read(&path) {
        Ok(content) => Some(content),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(BackupError::Failed(format!("cannot read {}: {error}", path.display()))),
    };
    let mut excluded =
        vec![config.server.state_dir.clone(), config.database.data_dir.clone(), PathBuf::from(target)];
    if config.storage.backend == Backend::File {
        excluded.push(config.storage.dir.clone());
    }
    Ok((secrets, basalt_backup::pack_project(&config.project.dir, &excluded)?))
}

/// How to dump a database.
async fn dump(config: &Config, admin: &Database) -> Result<Dump, BackupError> {
    let client = admin.connect().await?;
    let version: String = client.query_one("show server_version_num", &[]).await?.try_get(0)?;
    let major = version.parse::<u32>().unwrap_or_default() / 10_000;
    let program = async |name| {
        let found = database_setup::client_program(config, name, major).await;
        found.map_err(|error| BackupError::Failed(format!("a dump needs {name}: {error}")))
    };
    let url = match &config.database.url {
        Some(url) => without_password(url.expose_secret()),
        None => url_of(admin.config()),
    };
    let database = basalt_backup::Connection { url, password: password_of(admin.config()) };
    Ok(Dump { pg_dump: program("pg_dump").await?, pg_dumpall: program("pg_dumpall").await?, database })
}

/// The URL of an embedded PostgreSQL's socket, without the password.
fn url_of(config: &tokio_postgres::Config) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut url = format!("postgresql:///{}?", encoded(config.get_dbname().unwrap_or("postgres")));
    if let Some(tokio_postgres::config::Host::Unix(dir)) = config.get_hosts().first() {
        url.push_str(&format!("host={}&", encoded(&dir.to_string_lossy())));
    }
    if let Some(port) = config.get_ports().first() {
        url.push_str(&format!("port={port}&"));
    }
    url + "user=" + &encoded(config.get_user().unwrap_or(SUPERUSER))
}

fn password_of(config: &tokio_postgres::Config) -> Option<SecretString> {
    config.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned().into())
}

/// A scratch folder, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn create(state_dir: &Path, id: &str) -> Result<Self, BackupError> {
        let dir = state_dir.join(format!("verify-{id}"));
        let failed =
            |error| BackupError::Failed(format!("cannot use the scratch folder {}: {error}", dir.display()));
        // Left by a verification that was killed.
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(failed)?;
        }
        fs::create_dir_all(&dir).map_err(failed)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(dir = %self.0.display(), %error, "cannot remove a scratch folder");
        }
    }
}

/// A restored cluster that is running.
pub(crate) struct RestoredCluster {
    pub(crate) embedded: Embedded,
    pub(crate) client: Client,
    /// What the operator should know.
    pub(crate) notes: Vec<String>,
}

impl RestoredCluster {
    /// Stops PostgreSQL and deletes its data, which may be elsewhere than configured.
    async fn stop_and_remove(self) -> Result<(), BackupError> {
        drop(self.client);
        self.embedded.stop().await;
        let data_dir = self.embedded.data_dir().to_path_buf();
        drop(self.embedded);
        let removed = fs::remove_dir_all(&data_dir);
        removed.map_err(|error| BackupError::Failed(format!("cannot remove {}: {error}", data_dir.display())))
    }
}

/// Unpacks the cluster of a backup, replays the archived log if wanted, and starts PostgreSQL on the result.
pub(crate) async fn restore_cluster(
    target: &Target,
    plan: &Plan,
    mut embedded: EmbeddedConfig,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<RestoredCluster, RestoreError> {
    embedded.start_limit = RECOVERY_LIMIT;
    let (version, bin_dir) = Embedded::find_programs(&embedded).await?;
    let major = |version: &str| version.split('.').next().unwrap_or_default().to_owned();
    let made_by = &plan.manifest.postgres;
    if plan.manifest.database.kind == DatabaseKind::Dump {
        return restore_dump(target, plan, embedded, &major(&version), progress).await;
    }
    if major(&version) != major(made_by) {
        return Err(RestoreError::Gap(format!(
            "the backup is of PostgreSQL {made_by}, but the programs in {} are version {version}: set database.bin_dir to a PostgreSQL {}",
            bin_dir.display(),
            major(made_by)
        )));
    }
    progress("unpacking the database");
    let mut unpacked = None;
    let installed = Embedded::install(
        embedded.clone(),
        |line| progress(line),
        async |dir: &Path| {
            unpacked = Some(restore::unpack_cluster(target, plan, dir).await?);
            Ok::<(), BackupError>(())
        },
    )
    .await?;
    installed?;
    let (settings, gap) = unpacked.unwrap_or_default();
    if plan.replay.is_some() {
        progress("replaying the archived log");
    }
    let embedded = start_recovered(embedded, settings, plan, gap.as_deref(), progress).await?;
    let client = database_setup::connect(&Database::new(embedded.connect_config())).await;
    let client = match client {
        Ok(client) => client,
        Err(error) => {
            embedded.stop().await;
            return Err(error.into());
        }
    };
    let reaches_end = plan.replay.as_ref().is_some_and(|replay| replay.until.is_none());
    let notes = gap.filter(|_| reaches_end).map(|gap| format!("{gap}; everything before it was restored"));
    Ok(RestoredCluster { embedded, client, notes: notes.into_iter().collect() })
}

/// Creates a cluster with the installed programs and loads a dump into it.
async fn restore_dump(
    target: &Target,
    plan: &Plan,
    embedded: EmbeddedConfig,
    major: &str,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<RestoredCluster, RestoreError> {
    let pg_restore =
        Embedded::client_program(&embedded, "pg_restore", major.parse().unwrap_or_default()).await?;
    let scratch = embedded.state_dir.clone();
    let embedded = Embedded::start(embedded, |line| progress(line)).await?;
    let config = embedded.connect_config();
    let loaded = async {
        let client = database_setup::connect(&Database::new(config.clone())).await?;
        progress("loading the dump");
        let database = basalt_backup::Connection { url: url_of(&config), password: password_of(&config) };
        Load { pg_restore, database, scratch }.run(target, &plan.manifest, &client).await?;
        let notes = finish_roles(&client).await?;
        Ok::<_, RestoreError>((client, notes))
    };
    match Box::pin(loaded).await {
        Ok((client, notes)) => Ok(RestoredCluster { embedded, client, notes }),
        Err(error) => {
            embedded.stop().await;
            Err(error)
        }
    }
}

/// Makes the roles of a dump those of an embedded PostgreSQL. Returns what the operator has to do.
async fn finish_roles(client: &Client) -> Result<Vec<String>, BackupError> {
    // On an external PostgreSQL, `postgres` can be the first superuser.
    const DEMOTE_OWNER: &str = "
        do $$ begin
          if exists (select from pg_catalog.pg_roles where rolname = 'postgres') then alter role postgres nosuperuser; end if;
        end $$";
    const WITHOUT_PASSWORD: &str = "
        select pg_catalog.string_agg(pg_catalog.quote_ident(rolname), ', ' order by rolname) from pg_catalog.pg_authid
        where rolcanlogin and rolpassword is null and rolname <> all ($1)";
    client.batch_execute(DEMOTE_OWNER).await?;
    let own: Vec<&str> = database_setup::LOGINS.into_iter().chain([SUPERUSER]).collect();
    let without: Option<String> = client.query_one(WITHOUT_PASSWORD, &[&own]).await?.try_get(0)?;
    let note = |roles| {
        format!("a dump contains no passwords: set those of these roles with ALTER ROLE … PASSWORD: {roles}")
    };
    Ok(without.map(note).into_iter().collect())
}

/// Starts PostgreSQL, which replays its log first. If nothing was committed after the requested moment, the log ends before PostgreSQL can
/// see that it was reached; the archive's reach then proves that nothing is missing.
async fn start_recovered(
    embedded: EmbeddedConfig,
    settings: Vec<(String, String)>,
    plan: &Plan,
    gap: Option<&str>,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<Embedded, RestoreError> {
    const NOT_REACHED: &str = "recovery ended before configured recovery target was reached";
    const TARGET: &str = "recovery_target_time";
    let usual = embedded.settings.clone();
    let with = |settings: Vec<(String, String)>| {
        let settings = usual.iter().cloned().chain(settings).collect();
        EmbeddedConfig { settings, ..embedded.clone() }
    };
    let started = Embedded::start(with(settings.clone()), |line| progress(line)).await;
    match started {
        Err(EmbeddedError::Start { reason }) if reason.contains(NOT_REACHED) => {
            if let Some(gap) = gap {
                let until = plan.replay.as_ref().and_then(|replay| replay.until);
                let until = until.map(|until| until.to_string()).unwrap_or_default();
                return Err(RestoreError::Gap(format!("cannot restore {until}: {gap}")));
            }
            let settings = settings.into_iter().filter(|(name, _)| name != TARGET).collect();
            Ok(Embedded::start(with(settings), |line| progress(line)).await?)
        }
        started => Ok(started?),
    }
}

/// Makes the automatic backup before system migrations change an existing embedded database: to the target, or, without objects, which
/// migrations do not change, to the state folder.
pub(crate) async fn before_upgrade(
    config: &Config,
    secrets: &Secrets,
    admin: &Database,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<(), BackupError> {
    progress("making a backup before the upgrade");
    let (target, blobs) = if config.backup.target.is_some() {
        let target = create_target(config, None)?;
        let store = BlobStore::open(&config.storage, TaskTracker::new()).await?;
        (target.clone(), Some(BlobArchive::new(target, store, config.backup.transfers)))
    } else {
        let dir = config.server.state_dir.join(BEFORE_UPGRADE);
        (Target::create(&dir.to_string_lossy(), Path::new("."), &config.backup.s3)?, None)
    };
    let is_local = blobs.is_none();
    if is_local {
        // A service manager restarts a server whose upgrade fails, again and again.
        prune::keep_first_and_newest(&target).await?;
    }
    let backups = Backups::new(config, secrets, admin, target.clone(), blobs, Method::Files).await?;
    let source = backups.source().await?;
    let manifest = Box::pin(basalt_backup::create::run(&source, &|_| {})).await?;
    if is_local {
        let _pruned = prune::run(&target, KEEP_BEFORE_UPGRADE, Clock::system().now()).await?;
    }
    progress(&format!("backup {} is in {}", manifest.id, target.name()));
    Ok(())
}

/// The configured state folder holds a restore that did not complete.
pub(crate) fn check_complete(config: &Config) -> anyhow::Result<()> {
    let state_dir = &config.server.state_dir;
    if state_dir.join(INCOMPLETE).exists() {
        anyhow::bail!(
            "the restore into {} did not complete: remove the folder and run `basalt restore` again",
            state_dir.parent().unwrap_or(state_dir).display()
        );
    }
    Ok(())
}
