//! A running PostgreSQL server: start, wait until it accepts connections, stop.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use secrecy::{ExposeSecret, SecretString};
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::account::Account;
use crate::binaries::Binaries;
use crate::cluster::Cluster;
use crate::data_dirs::DataDirs;
use crate::error::EmbeddedError;
use crate::log::{Tail, forward};
use crate::{SUPERUSER, leftover, settings};

/// Interval between two reads of `postmaster.pid`.
const READY_POLL: Duration = Duration::from_millis(3);
/// Interval of progress messages during a slow start.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(3);
/// Fast shutdown: sessions end at once, then a checkpoint runs.
const FAST_LIMIT: Duration = Duration::from_secs(60);
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(5);

/// The parameters of a start, also used for restarts.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) binaries: Binaries,
    pub(super) account: Account,
    pub(super) dirs: DataDirs,
    pub(super) port: u16,
    /// False once another program has taken the port while PostgreSQL was down.
    pub(super) tcp: bool,
    pub(super) password: SecretString,
    pub(super) durable: bool,
    pub(super) extra: Vec<(String, String)>,
    pub(super) start_limit: Duration,
}

/// The running postmasters of this process. The mutex is held only for a copy.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Signals every PostgreSQL of this process to shut down, without waiting; for a program that exits at once.
pub fn interrupt_all() {
    for pid in RUNNING.lock().iter() {
        interrupt(*pid);
    }
}

fn interrupt(pid: Pid) {
    if let Err(error) = kill_process(pid, Signal::INT) {
        tracing::debug!(%error, "cannot signal PostgreSQL");
    }
}

/// An entry of [`RUNNING`], removed on drop.
#[derive(Debug)]
struct Registered(Pid);

impl Registered {
    fn new(pid: Pid) -> Self {
        RUNNING.lock().push(pid);
        Self(pid)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        RUNNING.lock().retain(|pid| *pid != self.0);
    }
}

/// A started server.
#[derive(Debug)]
pub(super) struct Postmaster {
    child: Child,
    /// `None` once the process has been waited for, because its pid may then be reused.
    registered: Option<Registered>,
    tail: Tail,
    /// Ends when the last process holding the pipe ends.
    reader: JoinHandle<()>,
}

impl Launch {
    pub(super) fn cluster(&self) -> Cluster<'_> {
        Cluster {
            data_dir: &self.dirs.data_dir,
            binaries: &self.binaries,
            account: &self.account,
            durable: self.durable,
        }
    }

    /// Connection settings over the socket.
    pub(super) fn connect_config(&self) -> tokio_postgres::Config {
        connect_config(&self.dirs.run_dir, self.port, &self.password)
    }

    /// Starts the server and waits until it accepts connections with our password. Stops processes of an earlier run first.
    pub(super) async fn start(
        &self,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Postmaster, EmbeddedError> {
        leftover::end_all(&self.dirs.data_dir, progress).await?;
        let mut postmaster = self.spawn()?;
        match self.ready(&mut postmaster, progress).await {
            Ok(()) => Ok(postmaster),
            Err(error) => {
                postmaster.stop().await;
                Err(error)
            }
        }
    }

    fn spawn(&self) -> Result<Postmaster, EmbeddedError> {
        self.remove_stale_socket();
        let inputs = settings::Inputs {
            major: self.binaries.major,
            run_dir: &self.dirs.run_dir,
            extensions_dir: &self.dirs.extensions_dir,
            port: self.port,
            tcp: self.tcp,
            durable: self.durable,
            extra: &self.extra,
        };
        let mut command = self.cluster().command("postgres");
        command.arg("-D").arg(&self.dirs.data_dir);
        for setting in settings::command_line(&inputs) {
            command.arg("-c").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let program = self.binaries.program("postgres");
        let mut child = command.spawn().map_err(|source| {
            if source.kind() == io::ErrorKind::PermissionDenied {
                let account = self.account.describe();
                return EmbeddedError::Permission { account, action: "run", path: program.clone() };
            }
            EmbeddedError::io("run", &program, source)
        })?;
        let tail = Tail::default();
        let stderr = child.stderr.take();
        let reading = tail.clone();
        let reader = tokio::spawn(async move {
            if let Some(stderr) = stderr {
                forward(stderr, reading).await;
            }
        });
        let registered = pid_of(&child).map(Registered::new);
        Ok(Postmaster { child, registered, tail, reader })
    }

    /// Removes a stale socket: PostgreSQL treats the pid in a stale `.s.PGSQL.PORT.lock` as a live server if any process has it.
    ///
    /// The port was free a moment ago and the folder is ours, so no live server uses this socket.
    fn remove_stale_socket(&self) {
        for suffix in ["", ".lock"] {
            let path = self.dirs.run_dir.join(format!(".s.PGSQL.{}{suffix}", self.port));
            match fs::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "cannot remove a stale socket")
                }
            }
        }
    }

    async fn ready(
        &self,
        postmaster: &mut Postmaster,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), EmbeddedError> {
        let started = Instant::now();
        let mut reported = started;
        let pid_file = self.dirs.data_dir.join("postmaster.pid");
        let config = self.connect_config();
        loop {
            if let Some(status) = postmaster.child.try_wait().ok().flatten() {
                postmaster.registered = None;
                return Err(self.failure(postmaster, status).await);
            }
            if is_recorded_ready(&pid_file) {
                match timeout(PROGRESS_INTERVAL, config.connect(NoTls)).await {
                    Ok(Ok(_)) => return Ok(()),
                    Ok(Err(error)) if is_password_error(&error) => {
                        let data_dir = self.dirs.data_dir.clone();
                        return Err(EmbeddedError::OtherPassword { data_dir });
                    }
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "PostgreSQL is ready but rejected the connection")
                    }
                    Err(_) => tracing::debug!("PostgreSQL is ready but did not respond"),
                }
            }
            if started.elapsed() > self.start_limit {
                let reason = format!("not ready after {} s", self.start_limit.as_secs());
                return Err(EmbeddedError::Start { reason });
            }
            if reported.elapsed() > PROGRESS_INTERVAL {
                reported = Instant::now();
                progress("waiting for PostgreSQL (after a crash it replays its log first)");
            }
            sleep(READY_POLL).await;
        }
    }

    /// The error for a server that ended during its start.
    async fn failure(&self, postmaster: &mut Postmaster, status: ExitStatus) -> EmbeddedError {
        // The reason may still be in the pipe.
        if timeout(Duration::from_secs(1), &mut postmaster.reader).await.is_err() {
            tracing::debug!("another process still holds PostgreSQL's log open");
        }
        let account = self.account.describe();
        let output = postmaster.tail.text();
        EmbeddedError::from_output(&output, &self.dirs.data_dir, &account, self.port).unwrap_or_else(|| {
            EmbeddedError::Start { reason: format!("{} ({status})", postmaster.tail.reason()) }
        })
    }
}

impl Postmaster {
    /// The pid for signals from outside the supervisor; `None` once the process has been waited for.
    pub(super) fn pid(&self) -> Option<Pid> {
        pid_of(&self.child)
    }

    /// Waits for the process to end and describes how it ended.
    pub(super) async fn ended(&mut self) -> String {
        let ended = self.child.wait().await;
        self.registered = None;
        match ended {
            Ok(status) => format!("{status}"),
            Err(error) => error.to_string(),
        }
    }

    /// Fast shutdown, then immediate shutdown, then SIGKILL.
    pub(super) async fn stop(&mut self) {
        for (signal, limit) in
            [(Signal::INT, FAST_LIMIT), (Signal::QUIT, IMMEDIATE_LIMIT), (Signal::KILL, IMMEDIATE_LIMIT)]
        {
            let Some(pid) = self.pid() else { return };
            if let Err(error) = kill_process(pid, signal) {
                tracing::debug!(%error, "cannot signal PostgreSQL");
            }
            match timeout(limit, self.child.wait()).await {
                Ok(Ok(status)) => {
                    self.registered = None;
                    tracing::debug!(%status, "PostgreSQL has stopped");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(%error, "cannot wait for PostgreSQL"),
                Err(_) => tracing::warn!(
                    limit_s = limit.as_secs(),
                    "PostgreSQL did not stop in time; sending a stronger signal"
                ),
            }
        }
    }
}

impl Drop for Postmaster {
    /// Stops the server if the start is cancelled.
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            interrupt(pid);
        }
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw)
}

/// Connection settings of the superuser over the socket in `run_dir`.
fn connect_config(run_dir: &Path, port: u16, password: &SecretString) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    config
        .host_path(run_dir)
        .port(port)
        .user(SUPERUSER)
        .password(password.expose_secret())
        .dbname("postgres")
        .application_name("basalt");
    config
}

/// Connection settings of the server recorded in `postmaster.pid`, if it is ready.
pub(super) fn recorded(data_dir: &Path, password: &SecretString) -> Option<tokio_postgres::Config> {
    let text = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    // Lines: pid, data folder, start time, port, socket folder, listen address, shared memory, state.
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let (port, run_dir, state) = (lines.get(3)?, lines.get(4)?, lines.get(7)?);
    (*state == "ready").then_some(())?;
    Some(connect_config(Path::new(run_dir), port.parse().ok()?, password))
}

/// Whether the eighth line of `postmaster.pid`, the server's state, is `ready`.
fn is_recorded_ready(pid_file: &Path) -> bool {
    fs::read_to_string(pid_file)
        .is_ok_and(|text| text.lines().nth(7).is_some_and(|state| state.trim() == "ready"))
}

fn is_password_error(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::INVALID_PASSWORD || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
    })
}
