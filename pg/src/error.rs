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
    /// As many requests of this client wait for a connection as may.
    #[error("too many requests of this client wait for a database connection")]
    QueueFull,
    /// No connection could be opened: the driver's or the server's text. No statement was sent.
    #[error("the database is unavailable: {0}")]
    Unreachable(String),
    /// The connection broke: the driver's text. It is unknown whether a write happened.
    #[error("the database connection broke: {0}")]
    Unavailable(String),
    /// The deadline passed, and the statement was cancelled. A write may have happened all the same: the answer, not the work,
    /// may have been late. A checked transaction was not committed.
    #[error("the deadline passed before the database answered")]
    Deadline,
}

impl SessionError {
    /// An error with which the server closes the connection is about the connection, not about the request: the code `57P01`
    /// says so, `57P05` or the `40001` of a standby that has to catch up do not.
    pub(crate) fn of_the_connection(self) -> Self {
        match &self {
            Self::Postgres(error) if error.is_outage() && error.code != "57P01" => {
                Self::Unavailable(error.to_string())
            }
            Self::Postgres(_)
            | Self::PoolTimeout
            | Self::QueueFull
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
