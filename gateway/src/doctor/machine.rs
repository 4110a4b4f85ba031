//! Checks of this machine: secrets and their folder, disk space, ports, the built app, PostgreSQL's programs.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use basalt_core::clock::Clock;
use basalt_http::tls::Identity;
use tokio::net::TcpListener;

use super::Report;
use crate::config::Config;
use crate::database_setup;
use crate::probe::{self, address};
use crate::running;
use crate::secrets::Secrets;
use basalt_http::open_files;
use basalt_postgres::{Embedded, EmbeddedError};

const MIB: u64 = 1024 * 1024;
/// A new cluster takes about 40 MiB, and its write-ahead log grows to 1 GiB before segments are recycled.
const RECOMMENDED_BYTES: u64 = 2048 * MIB;
const MIN_BYTES: u64 = 200 * MIB;

/// Checks the state folder; returns the secrets if they exist and are valid.
pub(super) fn secrets(config: &Config, report: &mut Report) -> Option<Secrets> {
    let subject = "secrets";
    let dir = &config.server.state_dir;
    let Ok(metadata) = std::fs::metadata(dir) else {
        let parent = existing_parent(dir);
        match writable(parent) {
            Ok(()) => {
                report.ok(subject, format!("none yet; the first start creates them in {}", dir.display()))
            }
            Err(error) => report.fail(
                subject,
                format!(
                    "cannot create {} ({error}): make the user that runs Basalt the owner of {}, or use --data",
                    dir.display(),
                    parent.display()
                ),
            ),
        }
        return None;
    };
    if !metadata.is_dir() {
        report.fail(subject, format!("{} is not a folder: move it, or use --data", dir.display()));
        return None;
    }
    if let Err(error) = writable(dir) {
        report.fail(
            subject,
            format!(
                "cannot write to {} ({error}): make the user that runs Basalt its owner, or use --data",
                dir.display()
            ),
        );
    }
    // The group may have the execute bit: if PostgreSQL runs as another user, its socket and data are below this folder.
    if metadata.permissions().mode() & 0o067 != 0 {
        report.warn(subject, format!("other users can read {0}: run chmod 700 {0}", dir.display()));
    }
    let is_new = !config.is_embedded() || !Embedded::has_cluster(dir, &config.database.data_dir);
    if is_new && !dir.join("secrets.json").exists() {
        report.ok(subject, "none yet; the first start creates them");
        return None;
    }
    match Secrets::load(config) {
        Ok(secrets) => {
            report.ok(subject, format!("valid, in {}", dir.display()));
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

/// Creates a file, because permission bits do not cover root, read-only file systems and access control lists.
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
        report.warn(subject, format!("cannot determine the free space at {}", existing.display()));
        return;
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let text = format!("{} MiB free at {}", free / MIB, existing.display());
    if free < MIN_BYTES {
        report.fail(
            subject,
            format!("{text}: PostgreSQL stops when the disk is full: free some space, or use --data"),
        );
    } else if free < RECOMMENDED_BYTES {
        report.warn(subject, format!("{text}: PostgreSQL's write-ahead log alone may grow to 1 GiB"));
    } else if space.f_files > 0 && space.f_favail < 1000 {
        report.fail(subject, format!("{text}, but no free inodes: delete small files"));
    } else {
        report.ok(subject, text);
    }
}

pub(super) fn open_files(config: &Config, report: &mut Report) {
    let subject = "open files";
    let wanted = config.server.max_connections;
    let fit = open_files::connections_within(wanted, config.database.connections(), open_files::most());
    if fit < wanted {
        report.warn(
            subject,
            format!(
                "the limit on open files allows {fit} connections at once, but server.max_connections is {wanted}: raise it (ulimit -n, or \
                 systemd's LimitNOFILE), or lower the setting"
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
                report.ok(subject, format!("a Basalt server is running at {address}"));
            } else {
                report.fail(
                    subject,
                    format!(
                        "{address} is in use by another program (`ss -ltnp 'sport = :{port}'` shows which): stop it, or change {setting}"
                    ),
                );
            }
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => report.fail(
            subject,
            format!(
                "this user cannot listen on {address}: use a port above 1023 ({setting}) behind a proxy, or run \
                 `setcap cap_net_bind_service=+ep` on the program"
            ),
        ),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            report.fail(subject, format!("{host} is not an address of this machine: set server.host to 127.0.0.1 or 0.0.0.0"));
        }
        Err(error) => report.fail(subject, format!("cannot listen on {address}: {error}")),
    }
}

/// Whether a Basalt server responds to `/health` at this address.
async fn is_basalt(address: SocketAddr) -> bool {
    probe::get(address, "/health").await.is_some_and(|answer| answer.contains(r#"{"status":"ok"}"#))
}

/// Whether client addresses are known behind a proxy. Prefers what a running server has observed; otherwise only an https `public_url` implies a proxy.
pub(super) fn proxy(config: &Config, report: &mut Report) {
    const SUBJECT: &str = "proxy";
    const COST: &str = "all clients share one address, so one client can use up the rate limits of all";
    let trusted = &config.server.trusted_proxies;
    let observed = running::read(&config.server.state_dir).and_then(|note| note.untrusted_proxy);
    match observed {
        Some(proxy) if trusted.iter().any(|range| range.contains(proxy)) => {
            report.warn(SUBJECT, format!("restart the server so that it trusts the proxy at {proxy}"));
        }
        Some(proxy) => report.fail(
            SUBJECT,
            format!("requests arrive through an untrusted proxy at {proxy}: {COST}; add {proxy} to server.trusted_proxies"),
        ),
        None if !config.server.public_url.is_https() || config.server.has_tls() => {}
        None if trusted.is_empty() => report.fail(
            SUBJECT,
            format!(
                "server.public_url is https, but this server has no certificate, and no proxy is trusted: {COST}; set server.trusted_proxies to the \
                 address of the proxy in front as seen by Basalt, or use server.acme_domains"
            ),
        ),
        None => report.ok(SUBJECT, "server.trusted_proxies is set"),
    }
}

/// Whether the certificate in the configured files can be used, and for how long.
pub(super) fn tls(config: &Config, clock: &Clock, report: &mut Report) {
    const SUBJECT: &str = "tls";
    const RENEW_DAYS: i64 = 14;
    const SECONDS_PER_DAY: i64 = 86_400;
    let server = &config.server;
    if !server.acme_domains.is_empty() && server.port != 443 {
        report.warn(
            SUBJECT,
            format!(
                "the ACME server connects to port 443 of each domain: forward it to port {}, or set server.port to 443",
                server.port
            ),
        );
    }
    let (Some(certificate), Some(key)) = (&server.tls_certificate, &server.tls_key) else { return };
    match Identity::from_files(certificate, key) {
        Err(error) => report.fail(SUBJECT, error.to_string()),
        Ok(identity) => {
            let days = identity.not_after().saturating_sub(clock.unix_seconds()) / SECONDS_PER_DAY;
            if days < 0 {
                report.fail(
                    SUBJECT,
                    format!("the certificate in {} has expired: renew it", certificate.display()),
                );
            } else if days < RENEW_DAYS {
                report.warn(
                    SUBJECT,
                    format!("the certificate in {} expires in {days} days", certificate.display()),
                );
            } else {
                report.ok(
                    SUBJECT,
                    format!("the certificate in {} is valid for {days} days", certificate.display()),
                );
            }
        }
    }
}

pub(super) fn app(config: &Config, report: &mut Report) {
    let Some(dir) = &config.server.app_dir else { return };
    if dir.join("index.html").is_file() {
        report.ok("app", format!("built, in {}", dir.display()));
    } else {
        // A project may serve its app elsewhere, so this is not a warning.
        let text = format!(
            "none: {} has no index.html, so / shows a page about the API; to serve an app, set server.app_dir (in this repository, run `cargo xtask dev`)",
            dir.display()
        );
        report.ok("app", text);
    }
}

/// Checks the PostgreSQL that the next start would use.
pub(super) async fn programs(config: &Config, secrets: Option<&Secrets>, report: &mut Report) {
    let subject = "postgresql";
    let wanted = match secrets {
        Some(secrets) => database_setup::embedded_config(config, secrets),
        // The checks use only the paths; there is no password before the first start.
        None => database_setup::paths_of_programs(config),
    };
    match Embedded::find_programs(&wanted).await {
        Ok((version, dir)) => report.ok(subject, format!("{version} in {}", dir.display())),
        Err(error) => report.fail(subject, error.to_string()),
    }
    match Embedded::check_data(&wanted).await {
        Ok((dir, Some(version))) => report.ok("data", format!("PostgreSQL {version}, in {}", dir.display())),
        Ok((dir, None)) => {
            report.ok("data", format!("none yet; the first start creates it in {}", dir.display()))
        }
        // Reported above.
        Err(
            EmbeddedError::NotFound { .. }
            | EmbeddedError::BadBinDir { .. }
            | EmbeddedError::Broken { .. }
            | EmbeddedError::TooOld { .. },
        ) => {}
        Err(error) => report.fail("data", error.to_string()),
    }
    match Embedded::check_memory_limit(&wanted).await {
        Ok(()) => report.ok("memory", "PostgreSQL's memory per request is limited"),
        Err(error) => report.warn(
            "memory",
            format!(
                "one request can use all memory of this machine, because PostgreSQL's backends cannot be limited ({error}): \
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
                format!("cannot listen on {address} ({error}): choose another database.port, or leave it unset to use a free port"),
            );
        }
    }
}
