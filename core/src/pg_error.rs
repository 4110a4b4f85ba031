//! What PostgreSQL said went wrong. The only file that reads the driver's error fields; services map
//! [`PgError::code`] to their own wire shapes.

use std::io;

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;
use tokio_postgres::error::{DbError, ErrorPosition};

/// An error reported by PostgreSQL, field by field as it sent them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgError {
    /// SQLSTATE, five characters.
    pub code: String,
    /// Primary message.
    pub message: String,
    /// `DETAIL`.
    pub detail: Option<String>,
    /// `HINT`.
    pub hint: Option<String>,
    /// Name of the violated constraint, for integrity errors.
    pub constraint: Option<String>,
    /// Table the error is about.
    pub table: Option<String>,
    /// Schema of that table.
    pub schema: Option<String>,
    /// One-based character position in the statement, when it points into the text that was sent.
    pub position: Option<u32>,
    /// True for `FATAL` and `PANIC`: the connection is gone.
    pub is_fatal: bool,
}

impl PgError {
    /// True when the SQLSTATE belongs to this two-character class.
    #[must_use]
    pub fn is_class(&self, class: &str) -> bool {
        self.code.starts_with(class)
    }

    /// The statement was refused only because an earlier one of its transaction failed.
    #[must_use]
    pub fn is_echo(&self) -> bool {
        self.code == "25P02"
    }

    /// The prepared statement no longer fits the schema, or the server has forgotten it. Preparing anew helps.
    #[must_use]
    pub fn is_stale_statement(&self) -> bool {
        (self.code == "0A000" && self.message.starts_with("cached plan must not change result type"))
            || self.code == "26000"
    }

    /// The server is going down, came down or is not up yet: a retry after a moment may work.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.is_class("08") || matches!(self.code.as_str(), "57P01" | "57P02" | "57P03" | "57P05" | "53300")
    }

    /// From the fields of the message itself. Unknown fields are skipped, as the protocol asks.
    pub(crate) fn from_fields(body: &ErrorResponseBody) -> io::Result<Self> {
        let mut error = Self::of("XX000", "");
        let mut fields = body.fields();
        while let Some(field) = fields.next()? {
            let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // The severity that is never translated.
                b'V' => error.is_fatal = matches!(field.value_bytes(), b"FATAL" | b"PANIC"),
                b'C' => error.code = text(),
                b'M' => error.message = text(),
                b'D' => error.detail = Some(text()),
                b'H' => error.hint = Some(text()),
                b'n' => error.constraint = Some(text()),
                b't' => error.table = Some(text()),
                b's' => error.schema = Some(text()),
                b'P' => error.position = text().parse().ok(),
                _ => {}
            }
        }
        Ok(error)
    }

    /// An answer that we refuse to take, in the words PostgreSQL has for its own limit.
    pub(crate) fn answer_too_large(limit_bytes: usize) -> Self {
        let mut error = Self::of("54000", "the answer is too large");
        error.detail = Some(format!("A row of it has more than {limit_bytes} bytes."));
        let hint = "Ask for fewer rows (limit) or columns (select), or raise database.max_row_bytes.";
        error.hint = Some(hint.to_owned());
        error
    }

    /// There is no memory for the answer now; nothing was done.
    pub(crate) fn busy() -> Self {
        let mut error = Self::of("53000", "The server is busy");
        error.hint = Some("Nothing was done. Try again after the seconds in Retry-After.".to_owned());
        error
    }

    fn of(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
            detail: None,
            hint: None,
            constraint: None,
            table: None,
            schema: None,
            position: None,
            is_fatal: false,
        }
    }
}

impl From<&DbError> for PgError {
    fn from(error: &DbError) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            code: error.code().code().to_owned(),
            message: error.message().to_owned(),
            detail: owned(error.detail()),
            hint: owned(error.hint()),
            constraint: owned(error.constraint()),
            table: owned(error.table()),
            schema: owned(error.schema()),
            position: match error.position() {
                Some(ErrorPosition::Original(position)) => Some(*position),
                Some(ErrorPosition::Internal { .. }) | None => None,
            },
            is_fatal: matches!(error.severity(), "FATAL" | "PANIC"),
        }
    }
}

impl std::fmt::Display for PgError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.code)
    }
}

impl std::error::Error for PgError {}

/// What the driver's error was: the database's own words, or a failed connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The server answered with an error.
    #[error(transparent)]
    Postgres(Box<PgError>),
    /// The connection broke, could not be made, or the driver gave up; the driver's text.
    #[error("{0}")]
    Connection(String),
}

impl From<tokio_postgres::Error> for DriverError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db_error) => Self::Postgres(Box::new(PgError::from(db_error))),
            None => Self::Connection(with_cause(&error)),
        }
    }
}

/// The error's text with its causes: the driver's own text ("error connecting to server") leaves out the reason.
#[must_use]
pub fn with_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str, message: &str) -> PgError {
        PgError::of(code, message)
    }

    #[test]
    fn only_the_result_type_change_makes_0a000_stale() {
        assert!(error("0A000", "cached plan must not change result type").is_stale_statement());
        assert!(!error("0A000", "cannot insert into view").is_stale_statement());
        assert!(error("26000", "prepared statement \"s1\" does not exist").is_stale_statement());
    }

    #[test]
    fn a_server_going_down_is_unavailable_and_a_timeout_is_not() {
        assert!(error("57P01", "terminating connection").is_unavailable());
        assert!(error("08006", "connection failure").is_unavailable());
        assert!(!error("57014", "canceling statement").is_unavailable());
    }
}
