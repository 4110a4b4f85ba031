//! Why a database could not be brought up to date.

use crate::pg_error::{DriverError, PgError};

/// Why a database could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// An applied migration is not the one in this binary.
    #[error(
        "system migration {service}/{version:04}_{name} was changed after it had been applied to this database; \
         start the release that applied it, or restore a backup"
    )]
    Changed {
        /// The service it belongs to.
        service: &'static str,
        /// Its number.
        version: u32,
        /// Its name.
        name: &'static str,
    },
    /// A newer release, or a build with more features, has changed the database.
    #[error(
        "this database was used by a newer release of Basalt, or by one built with more features, whose system migrations this one does not know \
         ({}); nothing was changed. Start that release, or restore a backup from before it",
        .0.join(", ")
    )]
    Newer(
        /// As `service/0001_name`.
        Vec<String>,
    ),
    /// A statement of a migration failed; nothing of that migration was kept.
    #[error("system migration {service}/{version:04}_{name}, line {line}: {source}")]
    Failed {
        /// The service it belongs to.
        service: &'static str,
        /// Its number.
        version: u32,
        /// Its name.
        name: &'static str,
        /// One-based line of its file; 1 when PostgreSQL did not say.
        line: usize,
        /// PostgreSQL's answer.
        source: Box<PgError>,
    },
    /// Another server holds the lock for longer than a migration takes.
    #[error("another server has been migrating this database for over {} s; try again when it is done", super::LOCK_WAIT.as_secs())]
    Busy,
    /// A query of our own failed.
    #[error("reading the state of the database: {0}")]
    Postgres(#[source] Box<PgError>),
    /// The connection broke; the driver's text.
    #[error("the connection to the database broke: {0}")]
    Connection(String),
}

impl MigrationError {
    /// The SQLSTATE, where it was PostgreSQL that refused.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Failed { source, .. } | Self::Postgres(source) => Some(&source.code),
            Self::Changed { .. } | Self::Newer(_) | Self::Busy | Self::Connection(_) => None,
        }
    }
}

impl From<tokio_postgres::Error> for MigrationError {
    fn from(error: tokio_postgres::Error) -> Self {
        match DriverError::from(error) {
            DriverError::Postgres(error) => Self::Postgres(error),
            DriverError::Connection(text) => Self::Connection(text),
        }
    }
}
