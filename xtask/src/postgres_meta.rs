//! Supabase's type generator, the npm package `@supabase/postgres-meta`, installed below `target` because only one test needs it.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{node, run, ui};

const FOLDER: &str = "target/postgres-meta";

/// Installs it, unless the packages of this lock file are already installed.
pub(crate) fn install(root: &Path) -> Result<()> {
    let (wanted, dir) = (root.join("tests/postgres-meta"), root.join(FOLDER));
    let installed = dir.join("node_modules/.installed-lock.json");
    let lock = std::fs::read(wanted.join("package-lock.json"))?;
    if std::fs::read(&installed).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    ui::note(
        "postgres-meta: installing Supabase's type generator for a comparison test (a minute the first time)",
    );
    std::fs::create_dir_all(&dir)?;
    for file in ["package.json", "package-lock.json"] {
        let _bytes = std::fs::copy(wanted.join(file), dir.join(file))?;
    }
    let mut command =
        node::npm(root, &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", FOLDER]);
    run::run(&mut command).context("npm cannot install postgres-meta; check the network connection")?;
    std::fs::write(&installed, lock)?;
    Ok(())
}
