//! Fast checks for requirements that a long build would otherwise fail on.

use std::fs::{self, File, TryLockError};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{dev, node, run};

/// The default port of `basalt serve`.
const DEFAULT_PORT: u16 = 8000;

/// The build that follows the checks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// The server for `dev`.
    Server,
    /// Everything that `test` compiles.
    Tests,
}

impl Build {
    /// Disk space in GiB that a first build needs.
    fn disk_gib(self) -> u64 {
        match self {
            Self::Server => 4,
            Self::Tests => 10,
        }
    }

    /// The build's folder in Cargo's target folder.
    fn folder(self) -> &'static str {
        match self {
            Self::Server => dev::PROFILE,
            Self::Tests => "debug",
        }
    }
}

/// Checks Node, a C compiler, disk space and, before a first build, the package registry.
///
/// # Errors
/// The first missing requirement, with the command that installs it.
pub(crate) fn check(root: &Path, build: Build) -> Result<()> {
    node::check()?;
    check_compiler()?;
    check_disk(root, build)?;
    if node::is_installed(root) { Ok(()) } else { node::check_registry(root) }
}

/// Checks that `basalt serve` can start with these arguments: its port and data folder are not in use.
pub(crate) fn check_server(root: &Path, arguments: &[String]) -> Result<()> {
    let is_given = |name: &str| arguments.iter().any(|argument| argument.starts_with(name));
    if !is_given("--data")
        && std::env::var_os("BASALT_SERVER_STATE_DIR").is_none()
        && is_locked(&root.join(".basalt/postgres.lock"))
    {
        let pid = fs::read_to_string(root.join(".basalt/postgres.lock")).unwrap_or_default();
        bail!(
            "Basalt already runs in this folder (pid {pid}): use it, stop it with `kill {pid}`, or start a second server with \
             `cargo xtask dev -- --data .basalt-2 --port 8001`",
            pid = pid.trim()
        );
    }
    let port = port(arguments);
    if port != 0 && TcpListener::bind(("127.0.0.1", port)).is_err() {
        bail!(
            "port {port} is in use: stop the program that listens there (`ss -ltnp 'sport = :{port}'` shows it), or choose \
             another port with `cargo xtask dev -- --port {}`",
            port.wrapping_add(1)
        );
    }
    Ok(())
}

fn check_compiler() -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    if run::output(Command::new(&compiler).arg("--version")).is_none() {
        bail!(
            "no C compiler was found (`{}`), which the crypto library needs: run `sudo apt-get install -y build-essential`",
            compiler.display()
        );
    }
    Ok(())
}

fn check_disk(root: &Path, build: Build) -> Result<()> {
    let target = dev::target(root);
    if target.join(build.folder()).is_dir() {
        // After an earlier build, the remaining space requirement is unknown.
        return Ok(());
    }
    let existing = target.ancestors().find(|folder| folder.is_dir()).unwrap_or(root);
    let Some(free_gib) =
        run::output(Command::new("df").arg("-Pk").arg(existing)).and_then(|text| free_gib(&text))
    else {
        return Ok(());
    };
    let needed = build.disk_gib();
    if free_gib < needed {
        bail!(
            "the first build needs {needed} GiB, but {} has only {free_gib} GiB free: free some space, or set CARGO_TARGET_DIR to a \
             folder on another disk",
            existing.display()
        );
    }
    Ok(())
}

/// The free space in the output of `df -Pk`.
fn free_gib(text: &str) -> Option<u64> {
    let available: u64 = text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(available / (1024 * 1024))
}

/// The port that `basalt serve` will listen on.
fn port(arguments: &[String]) -> u16 {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix("--port") {
            Some("") => arguments.next().map(String::as_str),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        if let Some(port) = value.and_then(|value| value.parse().ok()) {
            return port;
        }
    }
    let configured = std::env::var_os("BASALT_SERVER_PORT");
    configured.and_then(|port| port.to_str()?.parse().ok()).unwrap_or(DEFAULT_PORT)
}

/// Whether a process holds the lock of this file.
fn is_locked(path: &Path) -> bool {
    // A shared lock, released at once, so that it cannot prevent a server from starting.
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_free_space_from_df() {
        let text = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 1000 1 5242880 1% /\n";
        assert_eq!(free_gib(text), Some(5));
        assert_eq!(free_gib("df: cannot find it"), None);
    }

    #[test]
    fn port_comes_from_the_arguments() {
        let port = |arguments: &[&str]| {
            super::port(&arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(port(&["--data", "x", "--port", "8123"]), 8123);
        assert_eq!(port(&["--port=8124"]), 8124);
    }

    #[test]
    fn port_in_use_is_reported_with_a_remedy() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let folder = std::env::temp_dir();
        let error = check_server(&folder, &[format!("--port={port}")]).unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} is in use")) && error.contains("--port"), "{error}");
    }

    #[test]
    fn running_server_is_reported() {
        let folder = std::env::temp_dir().join(format!("xtask-preflight-{}", std::process::id()));
        fs::create_dir_all(folder.join(".basalt")).unwrap();
        let lock = folder.join(".basalt/postgres.lock");
        fs::write(&lock, "4711\n").unwrap();
        let file = File::open(&lock).unwrap();
        file.lock().unwrap();
        let error = check_server(&folder, &[]).unwrap_err().to_string();
        drop(file);
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.contains("pid 4711") && error.contains("already runs"), "{error}");
    }
}
