//! PostgreSQL's settings: mandatory ones on the command line, tunable ones in a file.
//!
//! The command line takes precedence, so an edited `postgresql.conf` cannot change our log format, ports and durability. The
//! rest is in `basalt.conf` in the data folder, which is rewritten at each start and included by `postgresql.conf`;
//! `alter system` and later lines of `postgresql.conf` override it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::error::EmbeddedError;
use crate::log::LINE_PREFIX;

/// The default port, the same as Supabase's local one.
pub(super) const FIRST_PORT: u16 = 54_322;
/// The last port that is tried.
const LAST_PORT: u16 = FIRST_PORT + 200;
/// `sun_path` has 108 bytes including the final NUL.
pub(super) const SOCKET_PATH_BYTES: usize = 107;

/// The name of our file in the data folder.
pub(super) const FILE_NAME: &str = "basalt.conf";

/// The part of `basalt.conf` that every PostgreSQL gets.
const FILE: &str = "\
# Written by Basalt at each start. Change a setting with `alter system`, or below the include in postgresql.conf.
timezone = 'UTC'
log_timezone = 'UTC'
max_connections = 100
# A slot without a reader must not fill the disk.
max_slot_wal_keep_size = '1GB'
max_wal_senders = 10
max_replication_slots = 10
# For the short statements of an API, compiling a plan takes longer than running it.
jit = off
# A backend's memory limit does not apply to its parallel workers.
max_parallel_workers_per_gather = 0
";

/// The content of `basalt.conf`. `has_stat_statements`: whether this PostgreSQL ships the library.
pub(super) fn file(has_stat_statements: bool) -> String {
    let preload = if has_stat_statements { "shared_preload_libraries = 'pg_stat_statements'\n" } else { "" };
    format!("{FILE}{preload}")
}

/// The inputs of the command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs<'a> {
    pub(super) major: u32,
    pub(super) run_dir: &'a Path,
    pub(super) extensions_dir: &'a Path,
    /// Also part of the socket's name.
    pub(super) port: u16,
    /// Whether to listen on the loopback address too.
    pub(super) tcp: bool,
    /// False disables durability in exchange for speed; for tests only.
    pub(super) durable: bool,
    /// Additional settings, after ours.
    pub(super) extra: &'a [(String, String)],
}

/// The values of the `-c name=value` arguments.
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
        // Statements, parameters and row values must not appear in the log.
        ("log_min_error_statement", "panic".to_owned()),
        ("log_statement", "none".to_owned()),
        ("log_error_verbosity", "terse".to_owned()),
        ("log_checkpoints", "off".to_owned()),
    ];
    if inputs.major >= 18 && !inputs.extensions_dir.to_string_lossy().contains(':') {
        let dir = inputs.extensions_dir.display();
        // Ours first: some of them replace control files of the system (`extensions`).
        settings.push(("extension_control_path", format!("{dir}:$system")));
        settings.push(("dynamic_library_path", format!("$libdir:{dir}/lib")));
    }
    let ours = settings.into_iter().map(|(name, value)| format!("{name}={value}"));
    ours.chain(inputs.extra.iter().map(|(name, value)| format!("{name}={value}"))).collect()
}

/// Quotes a path for `unix_socket_directories`, a list that a comma or blank would split.
fn quoted_list_item(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('"', "\"\""))
}

/// The configured port if it is free, else the first free one that is at least [`FIRST_PORT`] and `from`.
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

/// Whether the path of PostgreSQL's socket in `run_dir` is short enough for the kernel, for any port.
pub(super) fn socket_fits(run_dir: &Path) -> bool {
    run_dir.as_os_str().len() + "/.s.PGSQL.65535".len() <= SOCKET_PATH_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_in_use_is_error_or_skipped() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(matches!(choose_port(Some(port), 0), Err(EmbeddedError::PortTaken { .. })));
        let first = choose_port(None, 0).unwrap();
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        assert!(choose_port(None, 0).unwrap() > first);
    }

    #[test]
    fn socket_path_limit_assumes_longest_port() {
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
        assert!(line(18).contains("extension_control_path=/x y/run:$system"));
        assert!(line(17).contains("unix_socket_directories=\"/x y/run\""));
        assert!(line(17).contains("fsync=on") && line(17).contains("wal_level=logical"));
    }
}
