//! The tests' S3-compatible server: moto, a Python package, installed with pinned dependencies below `target`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::run::Running;
use crate::server::{free_port, status};
use crate::{run, ui};

/// The bucket of a [`Moto`].
const BUCKET: &str = "objects";
const START_TIMEOUT: Duration = Duration::from_secs(60);

const HOW_TO_GET: &str = "cannot install moto, the S3 server of the tests; it requires Python 3.10 or newer with venv (`sudo apt-get install -y python3-venv`) \
                          and the network";

/// Installs moto, unless the pinned versions are already installed.
pub(crate) fn install(root: &Path) -> Result<()> {
    let wanted = root.join("tests/kit/moto-requirements.txt");
    let dir = root.join("target/moto");
    let installed = dir.join("requirements.txt");
    let same =
        |a: &PathBuf, b: &PathBuf| matches!((std::fs::read(a), std::fs::read(b)), (Ok(a), Ok(b)) if a == b);
    if same(&wanted, &installed) {
        return Ok(());
    }
    ui::note("moto: installing the S3 server of the tests (a minute the first time)");
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

/// A running moto with one bucket.
pub(crate) struct Moto {
    _running: Running,
    port: u16,
}

impl Moto {
    /// Starts moto, which must be installed.
    pub(crate) fn start(root: &Path) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(root.join("target/moto/bin/python"));
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let running = Running::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        let deadline = Instant::now() + START_TIMEOUT;
        while status(port, "PUT", &format!("/{BUCKET}")) != Some(200) {
            if Instant::now() > deadline {
                bail!("moto did not create a bucket within {} s", START_TIMEOUT.as_secs());
            }
            run::pause(Duration::from_millis(100));
        }
        Ok(Self { _running: running, port })
    }

    /// The settings of a server that uses this store.
    pub(crate) fn settings(&self) -> [(&'static str, String); 5] {
        [
            ("BASALT_STORAGE_BACKEND", "s3".to_owned()),
            ("BASALT_STORAGE_S3_ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("BASALT_STORAGE_S3_BUCKET", BUCKET.to_owned()),
            ("BASALT_STORAGE_S3_ACCESS_KEY_ID", "id".to_owned()),
            ("BASALT_STORAGE_S3_SECRET_ACCESS_KEY", "secret".to_owned()),
        ]
    }
}
