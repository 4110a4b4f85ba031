#![doc = include_str!("../README.md")]

mod account;
mod archive;
mod binaries;
mod cluster;
mod data_dirs;
mod error;
mod extensions;
mod leftover;
mod log;
mod memory_limit;
mod owner;
mod postmaster;
mod remote;
mod settings;
mod supervisor;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::process::{Signal, kill_process};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use account::Account;
use archive::Archive;
use binaries::{Binaries, Search};
use data_dirs::{DataDirs, Requested};
pub use error::EmbeddedError;
pub use extensions::ExtensionKind;
pub use memory_limit::MemoryLimit;
use owner::OwnerLock;
pub use postmaster::interrupt_all;
use postmaster::{Launch, Postmaster};
pub use remote::Remote;
use supervisor::PidSlot;
pub use supervisor::State;

/// The role that `initdb` creates: for system work, never for requests (DESIGN section 12).
pub const SUPERUSER: &str = "supabase_admin";

/// Location of data and programs if PostgreSQL's user cannot reach the configured one.
const FALLBACK_DIR: &str = "/var/lib/basalt";
/// Crash recovery replays at most the log since the last checkpoint, which takes far less than this.
const START_LIMIT: Duration = Duration::from_secs(600);
/// Debian's layout: one folder per major version.
const SYSTEM_DIR: &str = "/usr/lib/postgresql";

/// Configuration of the embedded PostgreSQL. Relative paths are resolved against the working directory.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// `server.state_dir`: socket, extensions, and the record of where the data is.
    pub state_dir: PathBuf,
    /// `database.data_dir`.
    pub data_dir: PathBuf,
    /// `project.dir`: the search for `node_modules` starts here and goes up.
    pub project_dir: PathBuf,
    /// `database.bin_dir`.
    pub bin_dir: Option<PathBuf>,
    /// `database.port`; `None` uses 54322 or the next free port.
    pub port: Option<u16>,
    /// The password of the role [`SUPERUSER`].
    pub password: SecretString,
    /// Additional settings for PostgreSQL's command line.
    pub settings: Vec<(String, String)>,
    /// False disables all durability after a crash in exchange for speed; for tests only.
    pub durable: bool,
    /// Location of data and programs if PostgreSQL's user cannot reach the configured one: `/var/lib/basalt`.
    pub fallback_dir: PathBuf,
    /// The key of the extension `supabase_vault`, which is kept outside the database; `None` leaves vault without one.
    pub vault_key: Option<SecretString>,
    /// Access from other machines.
    pub remote: Option<Remote>,
    /// How long a start may take: after a crash, or with a restored cluster, PostgreSQL replays its log first.
    pub start_limit: Duration,
}

impl EmbeddedConfig {
    /// The default configuration below `state_dir`.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>, password: SecretString) -> Self {
        let state_dir = state_dir.into();
        Self {
            data_dir: state_dir.join("postgres"),
            state_dir,
            project_dir: PathBuf::from("."),
            bin_dir: None,
            port: None,
            password,
            settings: Vec::new(),
            durable: true,
            fallback_dir: PathBuf::from(FALLBACK_DIR),
            vault_key: None,
            remote: None,
            start_limit: START_LIMIT,
        }
    }
}

/// A supervised PostgreSQL. Call [`stop`](Self::stop) to stop it; dropping it only sends the signal.
#[derive(Debug)]
pub struct Embedded {
    launch: Launch,
    notices: Vec<String>,
    is_new: bool,
    state: watch::Receiver<State>,
    stop: CancellationToken,
    tasks: TaskTracker,
    pid: PidSlot,
    /// Held until the server has stopped.
    _owner: OwnerLock,
}

impl Embedded {
    /// Finds PostgreSQL, initialises the cluster if necessary, starts the server, and returns when it accepts connections.
    ///
    /// Calls `progress` with a short message before each step that takes time.
    ///
    /// # Errors
    /// [`EmbeddedError`], whose message names the remedy.
    pub async fn start(
        config: EmbeddedConfig,
        mut progress: impl FnMut(&str) + Send,
    ) -> Result<Self, EmbeddedError> {
        let progress: &mut (dyn FnMut(&str) + Send) = &mut progress;
        let configured_port = config.port;
        let state_dir = config.state_dir.clone();
        let Prepared { mut launch, owner, notices, is_new } = prepare(config, progress).await?;
        // Before choosing the port, because a leftover server may still hold it.
        leftover::end_all(&launch.dirs.data_dir, progress).await?;
        if let Some(archive) = Archive::of_this_program()
            && let Err(error) = archive.remove_older(&state_dir)
        {
            tracing::warn!("cannot remove an earlier release's PostgreSQL: {error}");
        }
        progress(&format!("starting PostgreSQL {}", launch.binaries.version));
        let postmaster = start_on_free_port(&mut launch, configured_port, progress).await?;

        let (sender, state) = watch::channel(State::Ready);
        let (stop, tasks, pid) = (CancellationToken::new(), TaskTracker::new(), PidSlot::default());
        pid.set(postmaster.pid());
        tasks.spawn(supervisor::keep(launch.clone(), postmaster, sender, stop.clone(), pid.clone()));
        tasks.close();
        Ok(Self { launch, notices, is_new, state, stop, tasks, pid, _owner: owner })
    }

    /// Sets the password of [`SUPERUSER`] without the current one, in single-user mode.
    ///
    /// # Errors
    /// As for a start; also if a server is running on the data or single-user mode fails.
    pub async fn reset_password(
        config: EmbeddedConfig,
        mut progress: impl FnMut(&str) + Send,
    ) -> Result<(), EmbeddedError> {
        let progress: &mut (dyn FnMut(&str) + Send) = &mut progress;
        let Prepared { launch, owner: _owner, .. } = prepare(config, progress).await?;
        leftover::end_all(&launch.dirs.data_dir, progress).await?;
        progress("resetting the superuser's password");
        launch.cluster().set_password(&launch.password).await
    }

    /// Creates the cluster from a copy of another one: `fill` writes its files into the empty folder that it gets. The folder gets its name
    /// once it is complete and durable; until then, the data folder does not exist.
    ///
    /// # Errors
    /// As for a start; also if the data folder exists. The inner result is that of `fill`.
    pub async fn install<E>(
        config: EmbeddedConfig,
        mut progress: impl FnMut(&str) + Send,
        fill: impl AsyncFnOnce(&Path) -> Result<(), E>,
    ) -> Result<Result<(), E>, EmbeddedError> {
        let progress: &mut (dyn FnMut(&str) + Send) = &mut progress;
        let Prepared { launch, owner: _owner, .. } = locate(config, progress).await?;
        launch.cluster().install(fill).await
    }

    /// The current location of the data: `data_dir`, or its replacement.
    #[must_use]
    pub fn current_data_dir(state_dir: &Path, data_dir: &Path) -> PathBuf {
        data_dirs::current_data_dir(state_dir, data_dir)
    }

    /// Whether the data folder contains a cluster.
    #[must_use]
    pub fn has_cluster(state_dir: &Path, data_dir: &Path) -> bool {
        Self::current_data_dir(state_dir, data_dir).join("PG_VERSION").exists()
    }

    /// Version and folder of the programs that [`Embedded::start`] would use. Starts nothing.
    ///
    /// # Errors
    /// As for a start: no PostgreSQL was found, or the one found does not run or is too old.
    pub async fn find_programs(config: &EmbeddedConfig) -> Result<(String, PathBuf), EmbeddedError> {
        let found = find_without_unpacking(&absolute(config.clone())?).await?;
        Ok((found.version, found.bin_dir))
    }

    /// The extensions that a server with this configuration can create. Unpacks the programs that this executable carries.
    ///
    /// # Errors
    /// No PostgreSQL was found.
    pub async fn available_extensions(
        config: &EmbeddedConfig,
    ) -> Result<BTreeMap<String, ExtensionKind>, EmbeddedError> {
        let config = absolute(config.clone())?;
        let path = std::env::var_os("PATH");
        let mut search = search_for(&config, path.as_deref());
        if search.configured.is_none() {
            search.carried = unpack_archive(&config.state_dir, &mut |_| {}).await?;
        }
        let found = Binaries::find(&search).await?;
        Ok(extensions::available(&found, &search.roots))
    }

    /// The client program `name`, such as `pg_dump`, of at least the major version `oldest`: from `database.bin_dir`, from the archive
    /// that this executable carries (unpacking it if necessary), from `pg-clients/MAJOR` near the executable, from `PATH`, or from the
    /// system's packages.
    ///
    /// # Errors
    /// None was found, or the archive cannot be unpacked.
    pub async fn client_program(
        config: &EmbeddedConfig,
        name: &str,
        oldest: u32,
    ) -> Result<PathBuf, EmbeddedError> {
        let config = absolute(config.clone())?;
        let path = std::env::var_os("PATH");
        let carried = unpack_archive(&config.state_dir, &mut |_| {}).await?;
        let search = Search { carried, ..search_for(&config, path.as_deref()) };
        binaries::find_client(&search, name, oldest).await
    }

    /// Checks that the programs a start would use can work on the data folder. Read-only. Returns the folder, and the major version
    /// of its data if there is any.
    ///
    /// # Errors
    /// The data belongs to another major version, or the folder contains other files.
    pub async fn check_data(config: &EmbeddedConfig) -> Result<(PathBuf, Option<String>), EmbeddedError> {
        let config = absolute(config.clone())?;
        let binaries = find_without_unpacking(&config).await?;
        let data_dir = data_dirs::current_data_dir(&config.state_dir, &config.data_dir);
        match cluster::check(&data_dir, &binaries) {
            Ok(version) => Ok((data_dir, version)),
            Err(error) => {
                let path = std::env::var_os("PATH");
                Err(with_matching_version(error, &search_for(&config, path.as_deref())).await)
            }
        }
    }

    /// Connection settings of the PostgreSQL that another process runs on this configuration's data, if any.
    #[must_use]
    pub fn running(config: &EmbeddedConfig) -> Option<tokio_postgres::Config> {
        let data_dir = data_dirs::current_data_dir(&config.state_dir, &config.data_dir);
        owner::is_owned(&data_dir).then(|| postmaster::recorded(&data_dir, &config.password)).flatten()
    }

    /// Stops PostgreSQL, starting with a fast shutdown, and returns when it has ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }

    /// Waits until PostgreSQL has ended on this configuration's data, for at most the 20 s of a fast shutdown. For a start that
    /// was cancelled, whose PostgreSQL is only signalled.
    pub async fn until_ended(config: &EmbeddedConfig) {
        let data_dir = data_dirs::current_data_dir(&config.state_dir, &config.data_dir);
        if !owner::is_owned(&data_dir) {
            leftover::until_ended(&data_dir).await;
        }
    }

    /// The folder of the socket.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        &self.launch.dirs.run_dir
    }

    /// The loopback port, which is also part of the socket's name.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.launch.port
    }

    /// The data folder in use, which may differ from the configured one.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.launch.dirs.data_dir
    }

    /// The folder on the extension path of PostgreSQL 18: control files in `extension/`, libraries in `lib/`.
    #[must_use]
    pub fn extensions_dir(&self) -> &Path {
        &self.launch.dirs.extensions_dir
    }

    /// The password of [`SUPERUSER`].
    #[must_use]
    pub fn superuser_password(&self) -> &SecretString {
        &self.launch.password
    }

    /// The server's version, such as `18.4`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.launch.binaries.version
    }

    /// The folder of its programs.
    #[must_use]
    pub fn bin_dir(&self) -> &Path {
        &self.launch.binaries.bin_dir
    }

    /// Whether this start created the cluster.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Messages for the banner: the user that PostgreSQL runs as, and a changed location of the data with the reason.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The handle that limits the memory of backends.
    #[must_use]
    pub fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::new(self.launch.account.clone())
    }

    /// Checks whether the memory of backends can be limited on this machine.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub async fn check_memory_limit(config: &EmbeddedConfig) -> std::io::Result<()> {
        let data_dir = data_dirs::current_data_dir(&config.state_dir, &config.data_dir);
        MemoryLimit::new(Account::choose(&data_dir)).check().await
    }

    /// The current state and its changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Connection settings of [`SUPERUSER`] over the socket, to the database `postgres`.
    #[must_use]
    pub fn connect_config(&self) -> tokio_postgres::Config {
        self.launch.connect_config()
    }

    /// A connection URL over the socket for `role`.
    #[must_use]
    pub fn connection_string(&self, role: &str, password: &SecretString, database: &str) -> SecretString {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        SecretString::from(format!(
            "postgresql://{}:{}@{}:{}/{}",
            encode(role),
            encode(password.expose_secret()),
            encode(&self.socket_dir().to_string_lossy()),
            self.port(),
            encode(database),
        ))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.cancel();
        // The supervisor may not run again, because the runtime may be shutting down.
        if let Some(pid) = self.pid.get()
            && let Err(error) = kill_process(pid, Signal::INT)
        {
            tracing::debug!(%error, "cannot signal PostgreSQL");
        }
    }
}

/// Everything needed for a start, with the data folder locked.
struct Prepared {
    launch: Launch,
    owner: OwnerLock,
    notices: Vec<String>,
    is_new: bool,
}

/// Finds programs and folders, and initialises the cluster if necessary.
async fn prepare(
    config: EmbeddedConfig,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Prepared, EmbeddedError> {
    let paths = config.clone();
    let mut prepared = locate(config, progress).await?;
    match prepared.launch.cluster().ensure(&prepared.launch.password, progress).await {
        Ok(is_new) => {
            prepared.is_new = is_new;
            Ok(prepared)
        }
        Err(error) => {
            let path = std::env::var_os("PATH");
            Err(with_matching_version(error, &search_for(&paths, path.as_deref())).await)
        }
    }
}

/// Finds programs and folders, and locks the data folder.
async fn locate(
    config: EmbeddedConfig,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Prepared, EmbeddedError> {
    let mut notices = Vec::new();
    let config = absolute(config)?;
    let path = std::env::var_os("PATH");
    let mut search = search_for(&config, path.as_deref());
    if search.configured.is_none() {
        search.carried = unpack_archive(&config.state_dir, progress).await?;
    }
    let found = Binaries::find(&search).await?;
    let account = Account::choose(&config.data_dir);
    let requested = Requested {
        state_dir: &config.state_dir,
        data_dir: &config.data_dir,
        fallback_dir: &config.fallback_dir,
        temp_dir: &std::env::temp_dir(),
    };
    let dirs = DataDirs::prepare(&requested, &account, &mut notices)?;
    // The data may be in another location than configured, and root runs PostgreSQL as the owner of the data.
    let account = Account::choose(&dirs.data_dir);
    account.give(&dirs.run_dir)?;
    if notices.is_empty() && account != Account::Own {
        notices.push(format!("PostgreSQL runs as {}, because it refuses to run as root", account.describe()));
    }
    let owner = OwnerLock::acquire(&dirs.data_dir)?;
    let binaries =
        data_dirs::reachable_binaries(found, &account, &config.fallback_dir, progress, &mut notices).await?;
    extensions::unpack(&dirs, &binaries, &search.roots)?;
    if let Some(key) = &config.vault_key {
        extensions::write_vault_key(&dirs.run_dir, key, &account)?;
    }
    let mut extra = config.settings.clone();
    if let Some(remote) = &config.remote {
        remote.write_files(&dirs, &account)?;
        extra.extend(remote.settings(&dirs));
    }
    let launch = Launch {
        binaries,
        account,
        dirs,
        port: 0,
        tcp: true,
        password: config.password.clone(),
        durable: config.durable,
        extra,
        start_limit: config.start_limit,
    };
    Ok(Prepared { launch, owner, notices, is_new: false })
}

/// Starts on the configured port, or on the first free one. Retries with the next port, because another program may bind
/// a free port before PostgreSQL does.
async fn start_on_free_port(
    launch: &mut Launch,
    configured: Option<u16>,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Postmaster, EmbeddedError> {
    let mut from = settings::FIRST_PORT;
    loop {
        launch.port = settings::choose_port(configured, from)?;
        match launch.start(progress).await {
            Err(EmbeddedError::PortTaken { port }) if configured.is_none() => from = port.saturating_add(1),
            outcome => return outcome,
        }
    }
}

fn absolute(mut config: EmbeddedConfig) -> Result<EmbeddedConfig, EmbeddedError> {
    let paths =
        [&mut config.state_dir, &mut config.data_dir, &mut config.project_dir, &mut config.fallback_dir];
    for path in paths.into_iter().chain(config.bin_dir.as_mut()) {
        *path = std::path::absolute(&*path).map_err(|source| EmbeddedError::io("resolve", path, source))?;
    }
    Ok(config)
}

/// The search path for programs: `database.bin_dir`, npm packages of the project, `PATH`, the system's folder.
fn search_for<'a>(config: &'a EmbeddedConfig, path: Option<&'a OsStr>) -> Search<'a> {
    Search {
        configured: config.bin_dir.as_deref(),
        carried: None,
        roots: search_roots(&config.project_dir),
        path,
        system: Path::new(SYSTEM_DIR),
    }
}

/// The folder of the programs that this executable carries, unpacked if necessary; `None` if it carries none.
async fn unpack_archive(
    state_dir: &Path,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Option<PathBuf>, EmbeddedError> {
    let Some(archive) = Archive::of_this_program() else { return Ok(None) };
    if !archive.is_unpacked(state_dir) {
        progress(&format!("unpacking PostgreSQL {} (once)", archive.version()));
    }
    let (state, failed_in) = (state_dir.to_path_buf(), state_dir.to_path_buf());
    tokio::task::spawn_blocking(move || archive.unpack(&state))
        .await
        .map_err(|error| {
            EmbeddedError::io("unpack PostgreSQL into", &failed_in, std::io::Error::other(error))
        })?
        .map(Some)
}

/// The programs that a start would use. An archive that is not unpacked yet stays so.
async fn find_without_unpacking(config: &EmbeddedConfig) -> Result<Binaries, EmbeddedError> {
    let path = std::env::var_os("PATH");
    let mut search = search_for(config, path.as_deref());
    if let Some(archive) = Archive::of_this_program().filter(|_| search.configured.is_none()) {
        let bin_dir = archive.bin_dir(&config.state_dir);
        if !archive.is_unpacked(&config.state_dir) {
            let (version, major) = (archive.version().to_owned(), archive.major());
            return Ok(Binaries { bin_dir, version, major });
        }
        search.carried = Some(bin_dir);
    }
    Binaries::find(&search).await
}

/// Folders that may contain `node_modules`: the project, the working directory, and the executable's folder.
fn search_roots(project_dir: &Path) -> Vec<PathBuf> {
    let mut roots = vec![project_dir.to_path_buf()];
    roots.extend(std::env::current_dir());
    roots.extend(std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf)));
    roots
}

/// Adds to a version error a found PostgreSQL that matches the data, if there is one.
async fn with_matching_version(mut error: EmbeddedError, search: &Search<'_>) -> EmbeddedError {
    if let EmbeddedError::WrongVersion { needed, hint, .. } = &mut error {
        let everywhere = Search { configured: None, ..search.clone() };
        if let Some(dir) = Binaries::find_major(&everywhere, needed).await {
            *hint = format!(" ({} has one)", dir.display());
        }
    }
    error
}
