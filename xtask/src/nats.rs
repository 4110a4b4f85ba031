//! The NATS of the tests: Debian's package, unpacked below `target` where it is not installed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{run, ui};

const HOW_TO_GET: &str = "nats-server, over which the tests' servers talk, could not be had; install it: `sudo apt-get install -y nats-server`";

/// Unpacks it into `target/nats`, unless there is one.
pub(crate) fn install(root: &Path) -> Result<()> {
    let dir = root.join("target/nats");
    let is_there = |program: &Path| {
        let asked =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    if is_there(Path::new("nats-server")) || is_there(&dir.join("usr/sbin/nats-server")) {
        return Ok(());
    }
    ui::note("nats-server: what servers talk over in tests");
    std::fs::create_dir_all(&dir)?;
    let download = || run::run(Command::new("apt-get").args(["download", "nats-server"]).current_dir(&dir));
    if download().is_err() {
        // A bare machine has no list of packages yet.
        run::run(Command::new("apt-get").args(["-o", "Acquire::Retries=3", "update"])).context(HOW_TO_GET)?;
        download().context(HOW_TO_GET)?;
    }
    let package = std::fs::read_dir(&dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let Some(package) = package else { bail!(HOW_TO_GET) };
    run::run(Command::new("dpkg").arg("-x").arg(&package).arg(&dir)).context(HOW_TO_GET)?;
    std::fs::remove_file(package)?;
    Ok(())
}
