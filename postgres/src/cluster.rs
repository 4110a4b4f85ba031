//! The data folder: initialised once, checked at each start.
//!
//! `initdb` works in a sibling folder that is renamed when complete, so that a crash leaves either no cluster or
//! a complete one; the next start removes an incomplete sibling. The caller holds the folder's lock.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use secrecy::{ExposeSecret, SecretString};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::account::Account;
use crate::binaries::Binaries;
use crate::data_dirs::sync_folder;
use crate::error::EmbeddedError;
use crate::owner::beside;
use crate::{SUPERUSER, extensions, leftover, settings};

/// A cluster, with the programs and the account that work on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster<'a> {
    pub(super) data_dir: &'a Path,
    pub(super) binaries: &'a Binaries,
    pub(super) account: &'a Account,
    pub(super) durable: bool,
}

impl Cluster<'_> {
    /// Ensures that a cluster of our version exists; returns whether it is new.
    pub(super) async fn ensure(
        &self,
        password: &SecretString,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> Result<bool, EmbeddedError> {
        self.sweep().await?;
        let exists = check(self.data_dir, self.binaries)?.is_some();
        if !exists {
            progress(&format!(
                "initialising PostgreSQL {} in {}",
                self.binaries.version,
                self.data_dir.display()
            ));
            self.initialise(password).await?;
        }
        self.write_settings(self.data_dir)?;
        Ok(!exists)
    }

    /// Creates the cluster from files that `fill` writes.
    pub(super) async fn install<E>(
        &self,
        fill: impl AsyncFnOnce(&Path) -> Result<(), E>,
    ) -> Result<Result<(), E>, EmbeddedError> {
        self.sweep().await?;
        if fs::symlink_metadata(self.data_dir).is_ok() {
            return Err(EmbeddedError::Exists { data_dir: self.data_dir.to_path_buf() });
        }
        let fresh = self.fresh_dir();
        let failed = |source| EmbeddedError::io("create", &fresh, source);
        fs::create_dir(&fresh).map_err(failed)?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o700)).map_err(failed)?;
        if let Err(error) = fill(&fresh).await {
            fs::remove_dir_all(&fresh).map_err(|source| EmbeddedError::io("remove", &fresh, source))?;
            return Ok(Err(error));
        }
        // The copied folder may have had other permissions.
        fs::set_permissions(&fresh, Permissions::from_mode(0o700)).map_err(failed)?;
        self.give_tree(&fresh)?;
        let folder = fs::File::open(&fresh).map_err(failed)?;
        tokio::task::spawn_blocking(move || rustix::fs::syncfs(&folder))
            .await
            .map_err(|error| failed(std::io::Error::other(error)))?
            .map_err(|error| failed(error.into()))?;
        check(&fresh, self.binaries)?;
        fs::rename(&fresh, self.data_dir)
            .map_err(|source| EmbeddedError::io("create", self.data_dir, source))?;
        sync_folder(self.data_dir.parent().unwrap_or(Path::new("/")))?;
        Ok(Ok(()))
    }

    /// Makes the account the owner of a folder and everything in it.
    fn give_tree(&self, path: &Path) -> Result<(), EmbeddedError> {
        self.account.give(path)?;
        let failed = |source| EmbeddedError::io("read", path, source);
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_dir() {
                self.give_tree(&entry.path())?;
            } else {
                self.account.give(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes the remains of an interrupted initialisation, after killing its processes, which could still be writing.
    async fn sweep(&self) -> Result<(), EmbeddedError> {
        let fresh = self.fresh_dir();
        for path in [fresh.clone(), self.password_file()] {
            if path.is_dir() {
                leftover::kill_all(&fresh).await?;
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            }
            .or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
            .map_err(|source| EmbeddedError::io("remove", &path, source))?;
        }
        Ok(())
    }

    fn fresh_dir(&self) -> PathBuf {
        beside(self.data_dir, ".new")
    }

    fn password_file(&self) -> PathBuf {
        beside(self.data_dir, ".new.password")
    }

    async fn initialise(&self, password: &SecretString) -> Result<(), EmbeddedError> {
        let fresh = self.fresh_dir();
        let failed = |source| EmbeddedError::io("create", &fresh, source);
        fs::create_dir(&fresh).map_err(failed)?;
        fs::set_permissions(&fresh, Permissions::from_mode(0o700)).map_err(failed)?;
        self.account.give(&fresh)?;
        let password_file = self.password_file();
        write_private(&password_file, password.expose_secret().as_bytes())?;
        self.account.give(&password_file)?;

        let mut outcome = self.run_initdb(&fresh, &password_file, self.locale()).await;
        if matches!(&outcome, Err(EmbeddedError::Initdb { output }) if output.contains("locale")) {
            // The system lacks C.UTF-8, as a minimal one does. PostgreSQL 17 and later have their own.
            outcome = self.run_initdb(&fresh, &password_file, self.locale_of_minimal_systems()).await;
        }
        let removed = fs::remove_file(&password_file);
        outcome?;
        removed.map_err(|source| EmbeddedError::io("remove", &password_file, source))?;

        self.include_our_settings(&fresh)?;
        fs::rename(&fresh, self.data_dir)
            .map_err(|source| EmbeddedError::io("create", self.data_dir, source))?;
        sync_folder(self.data_dir.parent().unwrap_or(Path::new("/")))
    }

    /// The same order on a system without C.UTF-8.
    fn locale_of_minimal_systems(&self) -> &'static [&'static str] {
        if self.binaries.major >= 17 {
            &["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        } else {
            &["--locale=C"]
        }
    }

    /// Sorting by code point in UTF-8, which is the same on every system and for every version of the C library.
    fn locale(&self) -> &'static [&'static str] {
        if self.binaries.major >= 17 {
            &["--locale-provider=builtin", "--locale=C.UTF-8"]
        } else {
            &["--locale=C.UTF-8"]
        }
    }

    async fn run_initdb(
        &self,
        into: &Path,
        password_file: &Path,
        locale: &[&str],
    ) -> Result<(), EmbeddedError> {
        let mut command = self.command("initdb");
        command.arg("-D").arg(into).args(["-U", SUPERUSER, "-E", "UTF8", "-A", "scram-sha-256"]);
        command.args(locale).arg("--pwfile").arg(password_file);
        if !self.durable {
            command.arg("--no-sync");
        }
        let program = self.binaries.program("initdb");
        let output = command
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|source| EmbeddedError::io("run", &program, source))?;
        if output.status.success() {
            return Ok(());
        }
        let text = last_lines(&output);
        Err(EmbeddedError::from_output(&text, self.data_dir, &self.account.describe(), 0)
            .unwrap_or(EmbeddedError::Initdb { output: text }))
    }

    fn include_our_settings(&self, data_dir: &Path) -> Result<(), EmbeddedError> {
        let path = data_dir.join("postgresql.conf");
        let line = format!(
            "\n# Basalt's settings; later lines and `alter system` override them.\ninclude_if_exists = '{}'\n",
            settings::FILE_NAME
        );
        OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(|source| EmbeddedError::io("write", &path, source))
    }

    /// Writes `basalt.conf` if its content has changed.
    fn write_settings(&self, data_dir: &Path) -> Result<(), EmbeddedError> {
        let path = data_dir.join(settings::FILE_NAME);
        let content = settings::file(extensions::has_library(self.binaries, "pg_stat_statements"));
        if fs::read_to_string(&path).is_ok_and(|text| text == content) {
            return Ok(());
        }
        let fresh = beside(&path, ".new");
        fs::remove_file(&fresh).or_else(|error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                Ok(())
            } else {
                Err(EmbeddedError::io("remove", &fresh, error))
            }
        })?;
        write_private(&fresh, content.as_bytes())?;
        self.account.give(&fresh)?;
        fs::rename(&fresh, &path).map_err(|source| EmbeddedError::io("write", &path, source))
    }

    /// Sets the superuser's password without the current one, in single-user mode.
    pub(super) async fn set_password(&self, password: &SecretString) -> Result<(), EmbeddedError> {
        let rejected =
            |reason: String| EmbeddedError::Password { data_dir: self.data_dir.to_path_buf(), reason };
        let mut command = self.command("postgres");
        command.args(["--single", "-D"]).arg(self.data_dir);
        command.args([
            "-c",
            "log_min_error_statement=panic",
            "-c",
            "log_statement=none",
            "-c",
            "lc_messages=C",
        ]);
        command.arg("postgres").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let program = self.binaries.program("postgres");
        let failed = |source| EmbeddedError::io("run", &program, source);
        let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
        let literal = password.expose_secret().replace('\'', "''");
        let statement = format!("alter role {SUPERUSER} superuser login password '{literal}'\n");
        if let Some(mut stdin) = child.stdin.take() {
            // If the program ended early, its output below contains the reason.
            if let Err(error) = stdin.write_all(statement.as_bytes()).await {
                tracing::debug!(%error, "single-user mode closed its input");
            }
        }
        let output = child.wait_with_output().await.map_err(failed)?;
        let text = last_lines(&output);
        // The exit code does not reflect errors in a statement.
        if output.status.success() && !text.contains("ERROR:") && !text.contains("FATAL:") {
            return Ok(());
        }
        Err(rejected(text))
    }

    /// A command that runs a program of this PostgreSQL as the account, isolated from the terminal's signals and our environment.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.program(program));
        command.env_clear().process_group(0).current_dir("/");
        // The environment may contain secrets, and PG* variables change the programs' behaviour.
        for name in ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        self.account.apply(&mut command);
        command
    }
}

/// The major version of the data in the folder, if the programs support it; `None` if there is no data yet.
pub(super) fn check(data_dir: &Path, binaries: &Binaries) -> Result<Option<String>, EmbeddedError> {
    match fs::read_to_string(data_dir.join("PG_VERSION")) {
        Ok(version) if version.trim() == binaries.major.to_string() => Ok(Some(version.trim().to_owned())),
        Ok(version) => Err(EmbeddedError::WrongVersion {
            data_dir: data_dir.to_path_buf(),
            needed: version.trim().to_owned(),
            bin_dir: binaries.bin_dir.clone(),
            found: binaries.version.clone(),
            hint: String::new(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if fs::read_dir(data_dir).is_ok_and(|mut entries| entries.next().is_some()) {
                return Err(EmbeddedError::NotACluster { data_dir: data_dir.to_path_buf() });
            }
            Ok(None)
        }
        Err(error) => Err(EmbeddedError::io("read", data_dir, error)),
    }
}

/// Creates a file that only its owner can read.
fn write_private(path: &Path, content: &[u8]) -> Result<(), EmbeddedError> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .map_err(|source| EmbeddedError::io("write", path, source))
}

/// The last lines of a program's output, for an error message.
fn last_lines(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let start = lines.len().saturating_sub(6);
    let text = lines.get(start..).unwrap_or_default().join("; ");
    if text.is_empty() { output.status.to_string() } else { text }
}
