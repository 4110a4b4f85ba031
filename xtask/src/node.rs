//! Node, npm and the packages of the lock file.
//!
//! Node 20 is enough to install and to start npm; the scripts themselves run on Node 22, which the lock file brings as a package and npm puts first
//! in their `PATH`. `npm ci` is skipped while the installed tree belongs to this very lock file, which is known from a copy kept inside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{run, ui};

/// The oldest Node that can install.
const OLDEST: u32 = 20;

const HOW_TO_GET: &str = "install Node 20 or newer with npm (for instance the packages `nodejs` and `npm` of your system) and try again";

/// An npm command in the repository's top folder.
pub(crate) fn npm(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    // npm would otherwise look for a newer version of itself after the work is done, and say so.
    command.current_dir(root).env("NPM_CONFIG_UPDATE_NOTIFIER", "false").args(arguments);
    command
}

/// `npm run SCRIPT -w WORKSPACE -- ARGUMENTS`, without npm's own headings.
pub(crate) fn script(root: &Path, workspace: &str, script: &str, arguments: &[String]) -> Command {
    let mut command = npm(root, &["run", "--silent", "--workspace", workspace, script, "--"]);
    command.args(arguments);
    command
}

/// Whether the installed packages are those of the lock file.
pub(crate) fn is_installed(root: &Path) -> bool {
    let (Ok(wanted), Ok(installed)) = (std::fs::read(lock_file(root)), std::fs::read(installed_lock(root)))
    else {
        return false;
    };
    wanted == installed
}

/// Installs the lock file's packages unless they are there. `quiet_log` takes npm's output instead of the terminal.
pub(crate) fn install(root: &Path, quiet_log: Option<&Path>) -> Result<()> {
    if is_installed(root) {
        return Ok(());
    }
    check()?;
    ui::note(
        "npm ci: packages of the lock file, PostgreSQL and Node 22 among them (a few minutes the first time)",
    );
    let mut command = npm(root, &["ci", "--no-audit", "--no-fund"]);
    if let Some(log) = quiet_log {
        let file =
            std::fs::File::create(log).with_context(|| format!("could not write {}", log.display()))?;
        command.arg("--no-progress").stdout(file.try_clone()?).stderr(file);
    }
    run::run(&mut command).context(
        "npm could not install the packages; check the network connection and free disk space, then try again \
         (`--ignore-scripts` must not be set: PostgreSQL's package makes its library links in a script)",
    )?;
    std::fs::copy(lock_file(root), installed_lock(root))
        .context("could not mark node_modules as installed")?;
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

/// That Node and npm are installed and new enough.
pub(crate) fn check() -> Result<()> {
    let Some(version) = run::output(Command::new("node").arg("--version")) else {
        bail!("Node was not found: {HOW_TO_GET}");
    };
    if major(&version).is_none_or(|major| major < OLDEST) {
        bail!("Node {version} is too old: {HOW_TO_GET}");
    }
    if run::output(Command::new("npm").arg("--version")).is_none() {
        bail!("npm was not found beside Node {version}: {HOW_TO_GET}");
    }
    Ok(())
}

/// That npm reaches its registry, by asking for the version of one small package.
pub(crate) fn check_registry(root: &Path) -> Result<()> {
    let arguments = ["view", "semver", "version", "--fetch-retries=0", "--fetch-timeout=10000"];
    if run::output(&mut npm(root, &arguments)).is_none() {
        bail!(
            "npm cannot reach its package registry: check the network connection and the proxy (`npm config get registry` \
             prints the address), then try again"
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
    fn the_major_version_is_read_from_what_node_prints() {
        assert_eq!(major("v20.20.2"), Some(20));
        assert_eq!(major("22.1.0"), Some(22));
        assert_eq!(major("?"), None);
    }
}
