//! nginx with the same files on the same disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::http;
use crate::process::{Running, free_port};

/// Where Debian puts it, which is not in everybody's `PATH`.
const USUAL: &str = "/usr/sbin/nginx";

/// A running nginx, with its files in `root`.
pub(super) struct Nginx {
    /// It ends with this.
    _running: Running,
    pub(super) port: u16,
    pub(super) root: PathBuf,
}

impl Nginx {
    /// Starts it, if it is installed.
    pub(super) async fn start(folder: &Path) -> Result<Option<Self>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join("nginx"));
        let Some(program) = found.chain([USUAL.into()]).find(|program| program.is_file()) else {
            return Ok(None);
        };
        let folder = std::path::absolute(folder.join("nginx"))?;
        let root = folder.join("files");
        std::fs::create_dir_all(&root)?;
        let port = free_port()?;
        let configuration = folder.join("nginx.conf");
        std::fs::write(&configuration, text(&folder, &root, port))?;
        let log = folder.join("nginx.log");
        let mut command = Command::new(program);
        command.arg("-p").arg(&folder).arg("-c").arg(&configuration).arg("-e").arg(&log);
        let mut running = Running::start("nginx", &mut command, &log)?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while http::status(port, "/").await.is_none() {
            running.check().with_context(|| format!("see {}", log.display()))?;
            if Instant::now() > deadline {
                bail!("nginx did not answer in time; see {}", log.display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Some(Self { _running: running, port, root }))
    }
}

/// As its package has it, without a log of requests: ours has none either.
fn text(folder: &Path, root: &Path, port: u16) -> String {
    // As root it would drop its privileges and could not read the files.
    let folder = folder.display();
    let root = root.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("  {name}_temp_path {folder}/{name};\n"))
        .collect();
    let user = if is_root() { "user root;\n" } else { "" };
    format!(
        "daemon off;\n{user}worker_processes auto;\npid {folder}/pid;\nevents {{ worker_connections 768; }}\n\
         http {{\n{temporary}  sendfile on;\n  tcp_nopush on;\n  access_log off;\n  keepalive_requests 1000000;\n\
         default_type text/plain;\n  server {{ listen 127.0.0.1:{port}; root {root}; }}\n}}\n"
    )
}

fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(1) == Some("0"))
}
