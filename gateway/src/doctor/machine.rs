//! This machine: secrets and their folder, disk space, ports, the built app, PostgreSQL's programs.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use secrecy::SecretString;
use tokio::net::TcpListener;

use super::Report;
use crate::config::Config;
use crate::database_setup;
use crate::probe::{self, address};
use crate::running;
use crate::secrets::Secrets;
use basalt_http::open_files;
use basalt_postgres::{Embedded, EmbeddedConfig, EmbeddedError};

const MIB: u64 = 1024 * 1024;
/// A new cluster takes about 40 MiB and its journal grows to 1 GiB before it is recycled.
const COMFORTABLE: u64 = 2048 * MIB;
const LEAST: u64 = 200 * MIB;

/// Looks at the state folder; the secrets when there are any and they are whole.
pub(super) fn secrets(config: &Config, report: &mut Report) -> Option<Secrets> {
    let subject = "secrets";
    let dir = &config.server.state_dir;
    let Ok(metadata) = std::fs::metadata(dir) else {
        let parent = existing_parent(dir);
        match writable(parent) {
            Ok(()) => {
                report.ok(subject, format!("none yet; the first start makes them in {}", dir.display()))
            }
            Err(error) => report.fail(
                subject,
                format!(
                    "cannot create {} ({error}): give {} to the user that runs Basalt, or use --data",
                    dir.display(),
                    parent.display()
                ),
            ),
        }
        return None;
    };
    if !metadata.is_dir() {
        report.fail(subject, format!("{} is no folder: move it, or use --data", dir.display()));
        return None;
    }
    if let Err(error) = writable(dir) {
        report.fail(
            subject,
            format!(
                "cannot write to {} ({error}): give it to the user that runs Basalt, or use --data",
                dir.display()
            ),
        );
    }
    // The group may pass through: where PostgreSQL runs as another user, its socket and data lie below.
    if metadata.permissions().mode() & 0o067 != 0 {
        report.warn(subject, format!("other users can look into {0}: run chmod 700 {0}", dir.display()));
    }
    let is_new = !config.is_embedded() || !Embedded::has_cluster(dir, &config.database.data_dir);
    if is_new && !dir.join("secrets.json").exists() {
        report.ok(subject, "none yet; the first start makes them");
        return None;
    }
    match Secrets::load(config) {
        Ok(secrets) => {
            report.ok(subject, format!("whole, in {}", dir.display()));
            Some(secrets)
        }
        Err(error) => {
            report.fail(subject, error.to_string());
            None
        }
    }
}

fn existing_parent(path: &Path) -> &Path {
    path.ancestors().skip(1).find(|ancestor| ancestor.exists()).unwrap_or(path)
}

/// Tries, because rights alone do not tell: root, read-only file systems, access lists.
fn writable(dir: &Path) -> std::io::Result<()> {
    let probe = dir.join(format!(".basalt-doctor-{}", basalt_core::random::token(8)));
    std::fs::OpenOptions::new().write(true).create_new(true).open(&probe)?;
    std::fs::remove_file(probe)
}

pub(super) fn disk_space(config: &Config, report: &mut Report) {
    let subject = "disk";
    let dir = if config.is_embedded() { &config.database.data_dir } else { &config.server.state_dir };
    let existing = if dir.exists() { dir } else { existing_parent(dir) };
    let Ok(space) = rustix::fs::statvfs(existing) else {
        report.warn(subject, format!("cannot read the free space at {}", existing.display()));
        return;
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let text = format!("{} MiB free at {}", free / MIB, existing.display());
    if free < LEAST {
        report.fail(
            subject,
            format!("{text}: PostgreSQL stops when the disk is full; free some, or use --data"),
        );
    } else if free < COMFORTABLE {
        report.warn(subject, format!("{text}: PostgreSQL's journal alone may grow to 1 GiB"));
    } else if space.f_files > 0 && space.f_favail < 1000 {
        report.fail(subject, format!("{text}, but no inodes: delete small files"));
    } else {
        report.ok(subject, text);
    }
}

pub(super) fn open_files(config: &Config, report: &mut Report) {
    let subject = "open files";
    let wanted = config.server.max_connections;
    let fit = open_files::room_for(wanted, config.database.connections(), open_files::most());
    if fit < wanted {
        report.warn(
            subject,
            format!(
                "the system allows for {fit} connections at once, server.max_connections is {wanted}: raise ulimit -n (LimitNOFILE \
                 of systemd), or lower the setting"
            ),
        );
    } else {
        report.ok(subject, format!("enough for {wanted} connections"));
    }
}

pub(super) async fn ports(config: &Config, report: &mut Report) {
    let server = &config.server;
    if server.unix_socket.is_none() {
        port("port", "server.port (--port)", address(&server.host), server.port, report).await;
    }
    if let Some(admin) = server.admin_port {
        port("admin port", "server.admin_port", address(&server.admin_host), admin, report).await;
    }
}

async fn port(subject: &'static str, setting: &str, host: IpAddr, port: u16, report: &mut Report) {
    let address = SocketAddr::new(host, port);
    match TcpListener::bind(address).await {
        Ok(_free) => report.ok(subject, format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            if is_basalt(address).await {
                report.ok(subject, format!("a Basalt answers at {address}"));
            } else {
                report.fail(
                    subject,
                    format!(
                        "{address} is taken by another program (`ss -ltnp 'sport = :{port}'` names it): stop that one, or set {setting}"
                    ),
                );
            }
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => report.fail(
            subject,
            format!(
                "this user may not listen on {address}: take a port above 1023 ({setting}), with a proxy in front, or run \
                 `setcap cap_net_bind_service=+ep` on the program"
            ),
        ),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            report.fail(subject, format!("{host} is no address of this machine: set server.host to 127.0.0.1 or 0.0.0.0"));
        }
        Err(error) => report.fail(subject, format!("cannot listen on {address}: {error}")),
    }
}

/// Whether our own `/health` answers there.
async fn is_basalt(address: SocketAddr) -> bool {
    probe::get(address, "/health").await.is_some_and(|answer| answer.contains(r#"{"status":"ok"}"#))
}

/// Whether clients are told apart behind a proxy. What a running server has met counts most; without one, only TLS proves that there is a proxy.
pub(super) fn proxy(config: &Config, report: &mut Report) {
    const SUBJECT: &str = "proxy";
    const COST: &str = "all clients count as one address, so that one of them uses up the rate limits of all";
    let trusted = &config.server.trusted_proxies;
    let met = running::read(&config.server.state_dir).and_then(|note| note.untrusted_proxy);
    match met {
        Some(proxy) if trusted.iter().any(|range| range.contains(proxy)) => {
            report.warn(SUBJECT, format!("restart the server: it does not trust the proxy at {proxy} yet"));
        }
        Some(proxy) => report.fail(
            SUBJECT,
            format!("requests come through a proxy at {proxy} that is not trusted: {COST}; add {proxy} to server.trusted_proxies"),
        ),
        None if !config.server.public_url.is_https() => {}
        None if trusted.is_empty() => report.fail(
            SUBJECT,
            format!(
                "server.public_url is https, which takes a proxy in front, and no proxy is trusted: {COST}; set server.trusted_proxies to its address, as \
                 Basalt sees it"
            ),
        ),
        None => report.ok(SUBJECT, "server.trusted_proxies is set"),
    }
}

pub(super) fn app(config: &Config, report: &mut Report) {
    let Some(dir) = &config.server.app_dir else { return };
    if dir.join("index.html").is_file() {
        report.ok("app", format!("built, in {}", dir.display()));
    } else {
        // Many projects have their app elsewhere.
        let text = format!(
            "none: {} has no index.html, and / shows a page about the API; to serve an app, set server.app_dir (this repository's: `cargo xtask dev`)",
            dir.display()
        );
        report.ok("app", text);
    }
}

/// The PostgreSQL that a start would take.
pub(super) async fn programs(config: &Config, secrets: Option<&Secrets>, report: &mut Report) {
    let subject = "postgresql";
    let wanted = match secrets {
        Some(secrets) => database_setup::embedded_config(config, secrets),
        // Only the places count here; before the first start there is no password.
        None => EmbeddedConfig {
            data_dir: config.database.data_dir.clone(),
            project_dir: config.project.dir.clone(),
            bin_dir: config.database.bin_dir.clone(),
            port: config.database.port,
            ..EmbeddedConfig::new(&config.server.state_dir, SecretString::default())
        },
    };
    match Embedded::find_programs(&wanted).await {
        Ok((version, dir)) => report.ok(subject, format!("{version} in {}", dir.display())),
        Err(error) => report.fail(subject, error.to_string()),
    }
    match Embedded::check_data(&wanted).await {
        Ok((dir, Some(version))) => report.ok("data", format!("PostgreSQL {version}, in {}", dir.display())),
        Ok((dir, None)) => {
            report.ok("data", format!("none yet; the first start makes them in {}", dir.display()))
        }
        // Said above.
        Err(
            EmbeddedError::NotFound { .. }
            | EmbeddedError::BadBinDir { .. }
            | EmbeddedError::Broken { .. }
            | EmbeddedError::TooOld { .. },
        ) => {}
        Err(error) => report.fail("data", error.to_string()),
    }
    match Embedded::check_memory_limit(&wanted).await {
        Ok(()) => report.ok("memory", "what one request may take in PostgreSQL is limited"),
        Err(error) => report.warn(
            "memory",
            format!(
                "one request may take all of this machine's memory, because PostgreSQL's backends cannot be limited ({error}): \
                 install util-linux (its program prlimit), or give this program CAP_SYS_RESOURCE"
            ),
        ),
    }
    if let Some(port) = config.database.port
        && Embedded::running(&wanted).is_none()
    {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        if let Err(error) = TcpListener::bind(address).await {
            report.fail(
                "database port",
                format!("cannot listen on {address} ({error}): choose another database.port, or leave it unset to take a free one"),
            );
        }
    }
}
