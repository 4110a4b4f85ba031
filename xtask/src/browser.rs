//! Finds Chromium for the browser tests, or installs it as root. The tests are never skipped.
//!
//! Prefers Chromium's headless shell to the full browser: the same engine without windows runs the tests in two thirds of the time.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{run, ui};

/// Retries, because mirrors fail occasionally, and waits for the lock, because a machine that has just started may be updating itself.
const INSTALL: &str = "apt-get -o Acquire::Retries=3 update && \
                       apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install -y chromium-headless-shell";
const HEADLESS: &[&str] = &["chromium-headless-shell"];
const FULL: &[&str] = &["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// The path of a working Chromium; installs Debian's headless shell if there is none and this user is root.
pub(crate) fn chromium() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CHROMIUM").map(PathBuf::from) {
        return if starts(&path) {
            Ok(path)
        } else {
            bail!("{} from CHROMIUM does not start", path.display())
        };
    }
    if let Some(path) = find(HEADLESS) {
        return Ok(path);
    }
    let installed = install();
    match find(HEADLESS).or_else(|| find(FULL)) {
        Some(path) => Ok(path),
        None => installed.and_then(|()| {
            bail!("Chromium was installed but does not start; try `chromium-headless-shell --version`")
        }),
    }
}

fn install() -> Result<()> {
    if run::output(Command::new("apt-get").arg("--version")).is_none() {
        bail!("Chromium was not found; install it, or set CHROMIUM=/path/to/chromium");
    }
    if run::output(Command::new("id").arg("-u")).as_deref() != Some("0") {
        bail!(
            "Chromium was not found, and installing it requires root. Run this once:\n\n    sudo apt-get install -y chromium-headless-shell\n"
        );
    }
    ui::note(&format!("installing Chromium's headless shell: {INSTALL}"));
    run::run(Command::new("sh").args(["-c", INSTALL]).env("DEBIAN_FRONTEND", "noninteractive"))
        .context("cannot install Chromium; check the network connection, or set CHROMIUM")
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from("/usr/bin")).chain(std::env::split_paths(&path));
    let candidates = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    candidates.filter(|candidate| candidate.is_file()).find(|candidate| starts(candidate))
}

// Ubuntu has a placeholder package of this name; only a real Chromium prints its version.
fn starts(chromium: &Path) -> bool {
    run::output(Command::new(chromium).arg("--version")).is_some()
}
