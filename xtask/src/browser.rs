//! Chromium for the browser tests: found, or installed as root, or asked for. Never skipped.
//!
//! Chromium's headless shell is taken before the whole browser: the same engine without its windows runs the tests in two thirds of the time.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{run, ui};

/// A machine that has just started may be at its own updates, and mirrors have bad moments.
const INSTALL: &str = "apt-get -o Acquire::Retries=3 update && \
                       apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 install -y chromium-headless-shell";
const HEADLESS: &[&str] = &["chromium-headless-shell"];
const WHOLE: &[&str] = &["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// The path of a Chromium that starts; installs Debian's headless shell when there is none and we may.
pub(crate) fn chromium() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("CHROMIUM").map(PathBuf::from) {
        return if starts(&path) {
            Ok(path)
        } else {
            bail!("CHROMIUM names {}, which does not start", path.display())
        };
    }
    if let Some(path) = find(HEADLESS) {
        return Ok(path);
    }
    let installed = install();
    match find(HEADLESS).or_else(|| find(WHOLE)) {
        Some(path) => Ok(path),
        None => installed.and_then(|()| {
            bail!("Chromium was installed but does not start; try `chromium-headless-shell --version`")
        }),
    }
}

fn install() -> Result<()> {
    if run::output(Command::new("apt-get").arg("--version")).is_none() {
        bail!("Chromium was not found; install it, or name it with CHROMIUM=/path/to/chromium");
    }
    if run::output(Command::new("id").arg("-u")).as_deref() != Some("0") {
        bail!(
            "Chromium was not found, and installing it needs root. Run this once:\n\n    sudo apt-get install -y chromium-headless-shell\n"
        );
    }
    ui::note(&format!("Chromium's headless shell is missing: {INSTALL}"));
    run::run(Command::new("sh").args(["-c", INSTALL]).env("DEBIAN_FRONTEND", "noninteractive"))
        .context("Chromium could not be installed; check the network connection, or name one with CHROMIUM")
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(PathBuf::from("/usr/bin")).chain(std::env::split_paths(&path));
    let candidates = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    candidates.filter(|candidate| candidate.is_file()).find(|candidate| starts(candidate))
}

// Ubuntu has a package of this name that holds only a note; asking for the version tells them apart.
fn starts(chromium: &Path) -> bool {
    run::output(Command::new(chromium).arg("--version")).is_some()
}
