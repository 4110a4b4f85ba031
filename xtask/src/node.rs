//! Node, npm and the packages of the lock file.
//!
//! Node 20 can install packages and start npm; the scripts run on Node 22, which the lock file includes as a package and npm puts first in
//! `PATH`. `npm ci` is skipped if the installed packages match the lock file, according to a copy inside `node_modules`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{run, ui};

/// The oldest Node version that can install the packages.
const MIN_MAJOR: u32 = 20;

const HOW_TO_GET: &str = "install Node 20 or newer with npm (for example, your system's packages `nodejs` and `npm`) and try again";

/// An npm command in the repository's root.
pub(crate) fn npm(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    // Disable npm's check for a newer version of itself.
    command.current_dir(root).env("NPM_CONFIG_UPDATE_NOTIFIER", "false").args(arguments);
    command
}

/// `npm run SCRIPT -w WORKSPACE -- ARGUMENTS`, without npm's headings.
pub(crate) fn script(root: &Path, workspace: &str, script: &str, arguments: &[String]) -> Command {
    let mut command = npm(root, &["run", "--silent", "--workspace", workspace, script, "--"]);
    command.args(arguments);
    command
}

/// Whether the installed packages match the lock file.
pub(crate) fn is_installed(root: &Path) -> bool {
    let (Ok(wanted), Ok(installed)) = (std::fs::read(lock_file(root)), std::fs::read(installed_lock(root)))
    else {
        return false;
    };
    wanted == installed
}

/// Installs the lock file's packages if necessary. With `quiet_log`, npm's output goes to this file instead of the terminal.
pub(crate) fn install(root: &Path, quiet_log: Option<&Path>) -> Result<()> {
    if is_installed(root) {
        return Ok(());
    }
    check()?;
    ui::note("npm ci: installing packages, including PostgreSQL and Node 22 (a few minutes the first time)");
    let mut command = npm(root, &["ci", "--no-audit", "--no-fund"]);
    if let Some(log) = quiet_log {
        let file = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        command.arg("--no-progress").stdout(file.try_clone()?).stderr(file);
    }
    run::run(&mut command).context(
        "npm cannot install the packages; check the network connection and free disk space, then try again \
         (`--ignore-scripts` must not be set: PostgreSQL's package creates library links in a script)",
    )?;
    std::fs::copy(lock_file(root), installed_lock(root))
        .context("cannot copy the lock file into node_modules")?;
    ui::note("npm ci: done");
    Ok(())
}

fn lock_file(root: &Path) -> PathBuf {
    root.join("package-lock.json")
}

// Inside node_modules, so that removing the folder removes it too.
fn installed_lock(root: &Path) -> PathBuf {
    root.join("node_modules/.basalt-installed-lock.json")
}

/// Checks that Node and npm are installed and new enough.
pub(crate) fn check() -> Result<()> {
    let Some(version) = run::output(Command::new("node").arg("--version")) else {
        bail!("Node was not found: {HOW_TO_GET}");
    };
    if major(&version).is_none_or(|major| major < MIN_MAJOR) {
        bail!("Node {version} is too old: {HOW_TO_GET}");
    }
    if run::output(Command::new("npm").arg("--version")).is_none() {
        bail!("Node {version} is installed without npm: {HOW_TO_GET}");
    }
    Ok(())
}

/// Checks that npm can reach its registry, by requesting the version of a small package.
pub(crate) fn check_registry(root: &Path) -> Result<()> {
    let arguments = ["view", "semver", "version", "--fetch-retries=0", "--fetch-timeout=10000"];
    if run::output(&mut npm(root, &arguments)).is_none() {
        bail!(
            "npm cannot reach its package registry: check the network connection and the proxy (`npm config get registry` \
             prints its address), then try again"
        );
    }
    Ok(())
}

fn major(version: &str) -> Option<u32> {
    version.trim_start_matches('v').split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_major_version() {
        assert_eq!(major("v20.20.2"), Some(20));
        assert_eq!(major("22.1.0"), Some(22));
        assert_eq!(major("?"), None);
    }
}
