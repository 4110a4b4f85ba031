//! The ACME server of the tests: Pebble, by Let's Encrypt's authors, built from Go's module proxy.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{run, ui};

/// The programs' modules; Go checks their hashes with its checksum database.
const MODULES: [&str; 2] = [
    "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1",
    "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.1",
];

/// Builds Pebble into `target/pebble/bin`, unless it is there. Without Go, the test prints why it does nothing.
pub(crate) fn install(root: &Path) -> Result<()> {
    let dir = root.join("target/pebble");
    if ["pebble", "pebble-challtestsrv"].iter().all(|program| dir.join("bin").join(program).exists()) {
        return Ok(());
    }
    if run::output(Command::new("go").arg("version")).is_none() {
        ui::note(
            "Go is not installed, so the test with an ACME server is skipped; to run it, `sudo apt-get install -y golang-go`",
        );
        return Ok(());
    }
    ui::note("Pebble: building the ACME server of the tests");
    std::fs::create_dir_all(&dir)?;
    let mut go = Command::new("go");
    go.args(["install", "-trimpath"]).args(MODULES).env("GOBIN", dir.join("bin"));
    run::run(&mut go).context("cannot build Pebble; this requires Go 1.23 or newer and the network")?;
    Ok(())
}
