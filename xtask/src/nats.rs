//! The tests' NATS server: Debian's package, unpacked below `target` unless it is installed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{run, ui};

const HOW_TO_GET: &str = "cannot download nats-server, which connects the servers in tests; install it with `sudo apt-get install -y nats-server`";

/// Unpacks the package into `target/nats`, unless a NATS server is already available.
pub(crate) fn install(root: &Path) -> Result<()> {
    let dir = root.join("target/nats");
    let works = |program: &Path| {
        let status =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if works(Path::new("nats-server")) || works(&dir.join("usr/sbin/nats-server")) {
        return Ok(());
    }
    ui::note("nats-server: downloading the message bus of the tests");
    std::fs::create_dir_all(&dir)?;
    let download = || run::run(Command::new("apt-get").args(["download", "nats-server"]).current_dir(&dir));
    if download().is_err() {
        // A fresh machine has no package lists yet.
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
