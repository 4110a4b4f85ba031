//! Why a transaction did not happen: the error of [`crate::pool`] and [`crate::session`].

use crate::pg_error::{DriverError, PgError};

/// Why a transaction did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// PostgreSQL refused a statement, the settings, or the commit.
    #[error(transparent)]
    Postgres(Box<PgError>),
    /// No pooled connection in time.
    #[error("no database connection became free in time")]
    PoolTimeout,
    /// No connection could be opened: the driver's or the server's text. Nothing was asked of the database.
    #[error("the database is unavailable: {0}")]
    Unreachable(String),
    /// The connection broke: the driver's text. It is unknown whether a write happened.
    #[error("the database connection broke: {0}")]
    Unavailable(String),
    /// The deadline passed, and the server was asked to stop. A write may have happened all the same: the answer, not the
    /// work, may have been late. One that was to be checked did not.
    #[error("the deadline passed before the database answered")]
    Deadline,
}

impl SessionError {
    /// What the server says as it closes a connection is about that, and not about the request: `57P01` says so by its
    /// code, `57P05`, or the `40001` of a standby that has to catch up, do not.
    pub(crate) fn of_the_connection(self) -> Self {
        match &self {
            Self::Postgres(error) if error.is_outage() && error.code != "57P01" => {
                Self::Unavailable(error.to_string())
            }
            Self::Postgres(_)
            | Self::PoolTimeout
            | Self::Unreachable(_)
            | Self::Unavailable(_)
            | Self::Deadline => self,
        }
    }

    pub(crate) fn unreachable(error: DriverError) -> Self {
        match error {
            DriverError::Postgres(error) => Self::Unreachable(error.to_string()),
            DriverError::Connection(text) => Self::Unreachable(text),
        }
    }
}

impl From<DriverError> for SessionError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Postgres(error) => Self::Postgres(error),
            DriverError::Connection(text) => Self::Unavailable(text),
        }
    }
}
