//! PostgreSQL's settings: what must hold goes on the command line, what may be tuned into a file.
//!
//! Nothing overrides the command line, so our log format, ports and durability cannot be lost to an edited
//! `postgresql.conf`. The rest is `basalt.conf` in the data folder, written anew at each start and included by
//! `postgresql.conf`; `alter system` and later lines of `postgresql.conf` override it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::error::EmbeddedError;
use crate::log::LINE_PREFIX;

/// The port when none is configured: Supabase's local one.
pub(super) const FIRST_PORT: u16 = 54_322;
/// The last one tried.
const LAST_PORT: u16 = FIRST_PORT + 200;
/// `sun_path` holds 108 bytes with its closing zero.
pub(super) const SOCKET_PATH_BYTES: usize = 107;

/// The name of our file in the data folder.
pub(super) const FILE_NAME: &str = "basalt.conf";

/// `basalt.conf`.
pub(super) const FILE: &str = "\
# Written by basalt at each start. Change a setting with `alter system`, or below the include in postgresql.conf.
timezone = 'UTC'
log_timezone = 'UTC'
max_connections = 100
# A slot whose reader stays away must not fill the disk.
max_slot_wal_keep_size = '1GB'
max_wal_senders = 10
max_replication_slots = 10
# Compiling a plan costs more than the short statements of an API run.
jit = off
# Workers are no children of the backend, and its memory limit is not theirs.
max_parallel_workers_per_gather = 0
";

/// What the command line depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs<'a> {
    pub(super) major: u32,
    pub(super) run_dir: &'a Path,
    pub(super) extensions_dir: &'a Path,
    /// In the socket's name, too.
    pub(super) port: u16,
    /// Whether it also listens on the loopback address.
    pub(super) tcp: bool,
    /// False trades every guarantee for speed; tests only.
    pub(super) durable: bool,
    /// Settings of the caller, after ours.
    pub(super) extra: &'a [(String, String)],
}

/// The `-c name=value` pairs.
pub(super) fn command_line(inputs: &Inputs<'_>) -> Vec<String> {
    let switch = if inputs.durable { "on" } else { "off" };
    let mut settings: Vec<(&str, String)> = vec![
        ("listen_addresses", if inputs.tcp { "127.0.0.1" } else { "" }.to_owned()),
        ("port", inputs.port.to_string()),
        ("unix_socket_directories", quoted_list_item(inputs.run_dir)),
        ("unix_socket_permissions", "0700".to_owned()),
        ("wal_level", "logical".to_owned()),
        ("fsync", switch.to_owned()),
        ("full_page_writes", switch.to_owned()),
        ("synchronous_commit", switch.to_owned()),
        ("logging_collector", "off".to_owned()),
        ("log_destination", "stderr".to_owned()),
        ("log_line_prefix", LINE_PREFIX.to_owned()),
        ("lc_messages", "C".to_owned()),
        // Statements, parameters and row values must not reach the log.
        ("log_min_error_statement", "panic".to_owned()),
        ("log_statement", "none".to_owned()),
        ("log_error_verbosity", "terse".to_owned()),
        ("log_checkpoints", "off".to_owned()),
    ];
    if inputs.major >= 18 && !inputs.extensions_dir.to_string_lossy().contains(':') {
        let dir = inputs.extensions_dir.display();
        settings.push(("extension_control_path", format!("$system:{dir}")));
        settings.push(("dynamic_library_path", format!("$libdir:{dir}/lib")));
    }
    let ours = settings.into_iter().map(|(name, value)| format!("{name}={value}"));
    ours.chain(inputs.extra.iter().map(|(name, value)| format!("{name}={value}"))).collect()
}

/// `unix_socket_directories` is a list: a comma or blank in the path would split it.
fn quoted_list_item(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('"', "\"\""))
}

/// The configured port if it is free, else the first free one from [`FIRST_PORT`] on that is not below `from`.
pub(super) fn choose_port(configured: Option<u16>, from: u16) -> Result<u16, EmbeddedError> {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    match configured {
        Some(port) if free(&port) => Ok(port),
        Some(port) => Err(EmbeddedError::PortTaken { port }),
        None => (from.max(FIRST_PORT)..=LAST_PORT)
            .find(free)
            .ok_or(EmbeddedError::NoFreePort { first: FIRST_PORT, last: LAST_PORT }),
    }
}

/// Whether PostgreSQL's socket in `run_dir` has a name the kernel takes, for any port.
pub(super) fn socket_fits(run_dir: &Path) -> bool {
    run_dir.as_os_str().len() + "/.s.PGSQL.65535".len() <= SOCKET_PATH_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_refused_when_configured_and_skipped_when_not() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(matches!(choose_port(Some(port), 0), Err(EmbeddedError::PortTaken { .. })));
        let first = choose_port(None, 0).unwrap();
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        assert!(choose_port(None, 0).unwrap() > first);
    }

    #[test]
    fn socket_paths_are_measured_with_the_longest_port() {
        let fits = "/".repeat(SOCKET_PATH_BYTES - 15);
        assert!(socket_fits(Path::new(&fits)));
        assert!(!socket_fits(Path::new(&format!("{fits}x"))));
    }

    #[test]
    fn only_version_18_has_an_extension_path() {
        let line = |major| {
            let dir = Path::new("/x y/run");
            let inputs = Inputs {
                major,
                run_dir: dir,
                extensions_dir: dir,
                port: 1,
                tcp: true,
                durable: true,
                extra: &[],
            };
            command_line(&inputs).join("\n")
        };
        assert!(!line(17).contains("extension_control_path"));
        assert!(line(18).contains("extension_control_path=$system:/x y/run"));
        assert!(line(17).contains("unix_socket_directories=\"/x y/run\""));
        assert!(line(17).contains("fsync=on") && line(17).contains("wal_level=logical"));
    }
}
