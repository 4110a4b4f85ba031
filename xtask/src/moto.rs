//! The S3-compatible server of the tests: moto, a Python package, with all its packages at fixed versions in a folder of its own below `target`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{run, ui};

const HOW_TO_GET: &str = "moto, the S3 server of the tests, could not be installed; it needs Python 3.10 or newer with venv (`sudo apt-get install -y python3-venv`) \
                          and the network";

/// Installs it, unless these very versions are there.
pub(crate) fn install(root: &Path) -> Result<()> {
    let wanted = root.join("tests/kit/moto-requirements.txt");
    let dir = root.join("target/moto");
    let installed = dir.join("requirements.txt");
    let same =
        |a: &PathBuf, b: &PathBuf| matches!((std::fs::read(a), std::fs::read(b)), (Ok(a), Ok(b)) if a == b);
    if same(&wanted, &installed) {
        return Ok(());
    }
    ui::note("moto: the S3 server of the tests (a minute the first time)");
    run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir)).context(HOW_TO_GET)?;
    let mut pip = Command::new(dir.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--requirement",
    ])
    .arg(&wanted);
    run::run(&mut pip).context(HOW_TO_GET)?;
    let _bytes = std::fs::copy(&wanted, &installed)?;
    Ok(())
}
