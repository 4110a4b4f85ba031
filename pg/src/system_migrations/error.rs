//! The error of [`super::apply`].

use crate::pg_error::{DriverError, PgError};

/// Why a database could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The checksum of an applied migration differs from the one in this binary.
    #[error(
        "system migration {service}/{version:04}_{name} was changed after it had been applied to this database; \
         start the release that applied it, or restore a backup"
    )]
    Changed {
        /// Service of the migration.
        service: &'static str,
        /// Version of the migration.
        version: u32,
        /// Name of the migration.
        name: &'static str,
    },
    /// A newer release, or a build with more features, has changed the database.
    #[error(
        "this database was used by a newer release of Basalt, or by a build with more features: this build does not know the system migrations \
         {}. Nothing was changed. Start that release, or restore an earlier backup",
        .0.join(", ")
    )]
    Newer(
        /// Unknown migrations, as `service/0001_name`.
        Vec<String>,
    ),
    /// A statement of a migration failed; the migration was rolled back.
    #[error("system migration {service}/{version:04}_{name}, line {line}: {source}")]
    Failed {
        /// Service of the migration.
        service: &'static str,
        /// Version of the migration.
        version: u32,
        /// Name of the migration.
        name: &'static str,
        /// One-based line in the migration's file; 1 if PostgreSQL reported no position.
        line: usize,
        /// PostgreSQL's error.
        source: Box<PgError>,
    },
    /// Another server has held the lock for longer than a migration takes.
    #[error("another server has been migrating this database for over {} s; retry when it has finished", crate::migration_runner::LOCK_WAIT.as_secs())]
    Busy,
    /// A query of [`super::apply`] itself failed.
    #[error("cannot read the state of the database: {0}")]
    Postgres(#[source] Box<PgError>),
    /// The connection was lost; contains the driver's message.
    #[error("the connection to the database was lost: {0}")]
    Connection(String),
}

impl MigrationError {
    /// The SQLSTATE, if the error came from PostgreSQL.
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
