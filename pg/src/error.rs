//! The error of [`crate::pool`] and [`crate::session`].

use crate::pg_error::{DriverError, PgError};

/// Reason why a transaction failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// PostgreSQL rejected a statement, a setting, or the commit.
    #[error(transparent)]
    Postgres(Box<PgError>),
    /// No pooled connection became free in time.
    #[error("no database connection became free in time")]
    PoolTimeout,
    /// Too many requests of this client are already waiting for a connection.
    #[error("too many requests of this client are waiting for a database connection")]
    QueueFull,
    /// No connection could be opened; contains the driver's or the server's text. No statement was sent.
    #[error("the database is unavailable: {0}")]
    Unreachable(String),
    /// The connection broke; contains the driver's text. Whether a write happened is unknown.
    #[error("the database connection broke: {0}")]
    Unavailable(String),
    /// The deadline passed and the statement was cancelled. A write may have happened, because only its response may
    /// be late. A checked transaction was not committed.
    #[error("the deadline passed before the database answered")]
    Deadline,
}

impl SessionError {
    /// Converts an error that closes the connection, and so concerns the connection rather than the request. `57P01`
    /// shows that by its code; `57P05`, or `40001` from a standby that has to catch up, do not.
    pub(crate) fn into_connection_error(self) -> Self {
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
