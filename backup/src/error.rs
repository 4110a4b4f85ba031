//! Errors of backups and restores. Operators read them on the command line and in the log; no HTTP client does.

use std::io;
use std::path::Path;

use basalt_pg::pg_error::DriverError;
use basalt_storage::blobs::BlobError;

/// Why a backup or a restore failed. Each message names the cause, and the remedy if there is one.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// `backup.target` cannot be used.
    #[error("backup target {0}")]
    Target(String),
    /// The target does not respond, is full, or rejects the request.
    #[error("cannot {action} {name} in {target}: {reason}")]
    Store {
        /// The action, as a verb.
        action: &'static str,
        /// The object.
        name: String,
        /// The target.
        target: String,
        /// The store's error.
        reason: String,
    },
    /// A stored file is missing, has another size or another hash.
    #[error("{name} in {target} is damaged: {problem}. Use another backup (`basalt backup list`)")]
    Damaged {
        /// The object.
        name: String,
        /// The target.
        target: String,
        /// What is wrong.
        problem: String,
    },
    /// No complete backup meets the request.
    #[error("{0}")]
    NoBackup(String),
    /// The sealed files cannot be opened.
    #[error("{0}")]
    Sealed(String),
    /// A file of this machine cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// The action, as a verb.
        action: &'static str,
        /// The path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// PostgreSQL failed.
    #[error("PostgreSQL: {0}")]
    Postgres(String),
    /// The server's blob store failed.
    #[error("objects: {0}")]
    Blobs(#[from] BlobError),
    /// Another backup of this database is running.
    #[error("another backup of this database is running; wait for it to end")]
    Busy,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl BackupError {
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { action, path: path.display().to_string(), source }
    }
}

impl From<DriverError> for BackupError {
    fn from(error: DriverError) -> Self {
        Self::Postgres(error.to_string())
    }
}

impl From<tokio_postgres::Error> for BackupError {
    fn from(error: tokio_postgres::Error) -> Self {
        DriverError::from(error).into()
    }
}

impl From<tokio::task::JoinError> for BackupError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Failed(format!("a background task ended: {error}"))
    }
}
