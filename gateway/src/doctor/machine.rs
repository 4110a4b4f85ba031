//! This machine: secrets and their folder, disk space, ports, the built app, PostgreSQL's programs.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Report;
use crate::config::{Config, ListenHost, Mode};
use crate::database_setup;
use crate::secrets::Secrets;
use basalt_http::open_files;
use basalt_postgres::{Embedded, EmbeddedConfig};

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

/// An address by which to try; what a name stands for is found out at the start.
const fn address(host: &ListenHost) -> IpAddr {
    match host {
        ListenHost::Address(address) => *address,
        ListenHost::Everywhere | ListenHost::Name(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ListenHost::EveryIpv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
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
    let local = match address.ip() {
        ip if !ip.is_unspecified() => address,
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
    };
    let ask = async {
        let mut stream = TcpStream::connect(local).await?;
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        stream.take(4096).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).contains(r#"{"status":"ok"}"#))
    };
    matches!(tokio::time::timeout(Duration::from_secs(2), ask).await, Ok(Ok(true)))
}

pub(super) fn app(config: &Config, report: &mut Report) {
    let Some(dir) = &config.server.app_dir else { return };
    if dir.join("index.html").is_file() {
        report.ok("app", format!("built, in {}", dir.display()));
    } else {
        let text = format!(
            "not built: {} has no index.html; run `cargo xtask dev`, or set server.app_dir to \"\"",
            dir.display()
        );
        // Without its app a production server shows people an error page; a developer may run the API alone.
        if config.mode == Mode::Production { report.fail("app", text) } else { report.warn("app", text) }
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
