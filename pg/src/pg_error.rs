//! Errors reported by PostgreSQL. Only this file reads the driver's error fields; services map [`PgError::code`] to
//! their own responses.

use std::io;

use basalt_core::error::with_cause;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;
use tokio_postgres::error::{DbError, ErrorPosition, Severity};

/// An error reported by PostgreSQL, with its fields as sent.
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
    /// Table that the error refers to.
    pub table: Option<String>,
    /// Schema of that table.
    pub schema: Option<String>,
    /// One-based character position in the statement, if it refers to the text that was sent.
    pub position: Option<u32>,
    /// Function in PostgreSQL's source that reported the error; the only identification that is never translated.
    pub routine: Option<String>,
    /// Whether the error occurred inside something that the statement called: a function, a trigger, or the parsing
    /// of a parameter. A parallel worker does not count, because it runs part of the statement itself.
    pub is_nested: bool,
    /// Whether the error closed the connection (`FATAL` or `PANIC`).
    pub is_fatal: bool,
    /// False if the statement's text or parameters were rejected, so that it did not run. True if unknown.
    pub has_run: bool,
}

impl PgError {
    /// Whether the SQLSTATE belongs to this two-character class.
    #[must_use]
    pub fn is_class(&self, class: &str) -> bool {
        self.code.starts_with(class)
    }

    /// Whether the prepared statement no longer matches the schema, or the server no longer has it. Preparing it
    /// again helps.
    #[must_use]
    pub fn is_stale_statement(&self) -> bool {
        // `0A000` has a hundred meanings; only the message identifies this one, and only in English.
        let is_result_type = || {
            self.routine.as_deref() == Some("RevalidateCachedQuery")
                || self.message.starts_with("cached plan must not change result type")
        };
        (self.code == "0A000" && is_result_type()) || self.code == "26000"
    }

    /// Whether an object that the statement had looked up by name was dropped or replaced before it was accessed by
    /// oid. Tables are locked from the lookup on; functions, types, schemas and other objects in a statement are not.
    /// The transaction failed, and the next one sees the current catalog.
    ///
    /// These errors are recognised by the **oid** in the message: an error with a name means that the object named by
    /// the statement does not exist, which is the correct result. PostgreSQL reports them as internal errors
    /// (`XX000`, never translated), or with the code of the missing object and `OID 123` in the text, in every
    /// language.
    ///
    /// Deliberately not included:
    /// - `tuple concurrently updated` or `deleted` (`XX000`): two requests changed the schema concurrently. Their
    ///   callers must decide which change applies last, as with `40001` and `40P01`, which are not retried for writes
    ///   either.
    /// - `could not find …`, `catalog is missing …`, `unexpected …` and everything else in class XX: a damaged
    ///   catalog or a bug. Retries do not help, and operators should see the error.
    #[must_use]
    pub fn met_changing_catalog(&self) -> bool {
        match self.code.as_str() {
            "XX000" => {
                ["cache lookup failed for ", "could not open relation with OID "]
                    .iter()
                    .any(|words| self.message.starts_with(words))
                    && self.message.bytes().any(|byte| byte.is_ascii_digit())
            }
            // Undefined table, function, type (or other object), column, schema.
            "42P01" | "42883" | "42704" | "42703" | "3F000" => {
                let after = self.message.split_once("OID ").map_or("", |(_, after)| after);
                after.starts_with(|c: char| c.is_ascii_digit()) && !self.message.contains('"')
            }
            _ => false,
        }
    }

    /// Whether the server is shutting down, has crashed or is not ready yet, so that a retry may succeed.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.is_class("08") || matches!(self.code.as_str(), "57P01" | "57P02" | "57P03" | "57P05" | "53300")
    }

    /// Whether the statement or a value in it is too long, too deep or too wide for PostgreSQL: class 54, or an
    /// oversized memory allocation. Excludes limits reached inside a called function or trigger, and results that
    /// exceed our own limit, which have no routine.
    #[must_use]
    pub fn exceeds_limit(&self) -> bool {
        (self.is_class("54") || self.exceeds_allocation())
            && (!self.has_run || !self.is_nested && self.routine.is_some())
    }

    /// Whether PostgreSQL refused to allocate a gigabyte or more at once, as the tables of a regular expression with
    /// nested repetitions may need. The message is internal and never translated.
    fn exceeds_allocation(&self) -> bool {
        // A damaged value has a negative length, displayed as an impossibly large size. That is a server error.
        const MAX_REQUESTED_BYTES: u64 = 1 << 48;
        let size = self.message.strip_prefix("invalid memory alloc request size ");
        let size = size.and_then(|size| size.parse::<u64>().ok());
        self.code == "XX000" && size.is_some_and(|size| size < MAX_REQUESTED_BYTES)
    }

    /// Whether the login may not assume the requested role. PostgreSQL also reports this for every role once the
    /// login itself was dropped. The routine is common to all failed checks of a setting.
    pub(crate) fn refuses_role(&self) -> bool {
        self.code == "42501" && self.routine.as_deref() == Some("call_string_check_hook")
    }

    /// Remedy for a login rejected by the server, for the operator; `None` if waiting helps.
    #[must_use]
    pub fn login_remedy(&self) -> Option<&'static str> {
        Some(match self.code.as_str() {
            "28P01" => {
                "check the password in the URL; passwords derived from server.master_key are set again \
                 when basalt starts"
            }
            // The message is translated; the routine's name is not.
            "28000" if self.routine.as_deref() == Some("ClientAuthentication") => {
                "add a line to the server's pg_hba.conf that admits this user from this address to this database, and \
                 reload it: select pg_reload_conf()"
            }
            "28000" => "check the user in the URL: it must exist and have LOGIN (alter role … login)",
            "3D000" => "create the database or correct its name in the URL",
            "42501" => "grant the user permission to connect: grant connect on database … to …",
            "55000" => "allow connections to the database: alter database … allow_connections true",
            "53300" => {
                "raise the limit (max_connections, or that of the role or database) or lower database.pool_size"
            }
            _ => return None,
        })
    }

    /// Whether the connection was closed for reasons unrelated to the request. Class 25 is related: a role's
    /// `transaction_timeout` and `idle_in_transaction_session_timeout` also close the connection.
    pub(crate) fn is_outage(&self) -> bool {
        self.is_fatal && !self.is_class("25")
    }

    /// Parses the fields of an error message. Unknown fields are skipped, as the protocol requires.
    pub(crate) fn from_fields(body: &ErrorResponseBody) -> io::Result<Self> {
        let mut error = Self::new("XX000", "");
        let mut fields = body.fields();
        while let Some(field) = fields.next()? {
            let text = || bounded(field.value_bytes());
            match field.type_() {
                // `V` is the severity that is never translated; poolers send only `S`.
                b'V' | b'S' => error.is_fatal |= matches!(field.value_bytes(), b"FATAL" | b"PANIC"),
                b'C' => error.code = text(),
                b'M' => error.message = text(),
                b'D' => error.detail = Some(text()),
                b'H' => error.hint = Some(text()),
                b'n' => error.constraint = Some(text()),
                b't' => error.table = Some(text()),
                b's' => error.schema = Some(text()),
                b'P' => error.position = text().parse().ok(),
                b'R' => error.routine = Some(text()),
                b'W' => error.is_nested = is_nested(&text()),
                _ => {}
            }
        }
        if error.code == "53200" && error.hint.is_none() {
            let hint =
                "The request needs too much memory; ask for fewer rows (limit) or less nesting (select).";
            error.hint = Some(hint.to_owned());
        }
        Ok(error)
    }

    /// Error for a result that exceeds our limit, worded like PostgreSQL's own limit.
    pub(crate) fn answer_too_large(limit_bytes: usize) -> Self {
        let mut error = Self::new("54000", "the answer is too large");
        error.detail = Some(format!("A row of it has more than {limit_bytes} bytes."));
        let hint = "Ask for fewer rows (limit) or columns (select), or raise database.max_row_bytes.";
        error.hint = Some(hint.to_owned());
        error
    }

    /// Error for a statement too large for the protocol; it was not sent.
    pub(crate) fn unsendable(detail: &str) -> Self {
        let mut error = Self::new("54000", "the request is too large for the database");
        error.has_run = false;
        error.detail = Some(detail.to_owned());
        error
    }

    /// Error for a result for which no memory is available; nothing was done.
    pub(crate) fn busy() -> Self {
        let mut error = Self::new("53000", "The server is busy");
        error.hint = Some("Nothing was done. Try again after the seconds in Retry-After.".to_owned());
        error
    }

    fn new(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
            detail: None,
            hint: None,
            constraint: None,
            table: None,
            schema: None,
            position: None,
            routine: None,
            is_nested: false,
            is_fatal: false,
            has_run: true,
        }
    }
}

/// Whether the context names more than a parallel worker, which runs part of the statement itself.
fn is_nested(context: &str) -> bool {
    context != "parallel worker"
}

/// Text of a field, truncated at a limit: it may repeat a value as long as a request body, and errors are not charged
/// to the response memory.
fn bounded(field: &[u8]) -> String {
    const LIMIT: usize = 256 * 1024;
    match field.get(..LIMIT) {
        Some(beginning) => format!("{}…", String::from_utf8_lossy(beginning)),
        None => String::from_utf8_lossy(field).into_owned(),
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
            routine: owned(error.routine()),
            is_nested: error.where_().is_some_and(is_nested),
            is_fatal: error
                .parsed_severity()
                .is_some_and(|severity| matches!(severity, Severity::Fatal | Severity::Panic)),
            has_run: true,
        }
    }
}

impl std::fmt::Display for PgError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.code)
    }
}

impl std::error::Error for PgError {}

/// A driver error: an error sent by PostgreSQL, or a failed connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The server reported an error.
    #[error(transparent)]
    Postgres(Box<PgError>),
    /// The connection broke or could not be opened, or the driver failed; contains the driver's text.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str, message: &str) -> PgError {
        PgError::new(code, message)
    }

    #[test]
    fn only_changed_result_type_makes_0a000_stale() {
        assert!(error("0A000", "cached plan must not change result type").is_stale_statement());
        assert!(!error("0A000", "cannot insert into view").is_stale_statement());
        assert!(error("26000", "prepared statement \"s1\" does not exist").is_stale_statement());
        // The message of a server with German locale.
        let mut german = error("0A000", "gecachter Plan darf den Ergebnistyp nicht ändern");
        assert!(!german.is_stale_statement());
        german.routine = Some("RevalidateCachedQuery".to_owned());
        assert!(german.is_stale_statement());
    }

    #[test]
    fn error_with_oid_means_changed_catalog() {
        for (code, message) in [
            ("XX000", "cache lookup failed for function 16714"),
            ("XX000", "cache lookup failed for relation 16396"),
            ("XX000", "cache lookup failed for type 16396"),
            ("XX000", "cache lookup failed for attribute 3 of relation 16396"),
            ("XX000", "could not open relation with OID 16396"),
            ("42P01", "relation with OID 16396 does not exist"),
            ("42883", "function with OID 16714 does not exist"),
            ("42883", "Funktion mit OID 16714 existiert nicht"),
            ("42704", "type with OID 16396 does not exist"),
            ("42704", "le type d'OID 16396 n'existe pas"),
            ("42703", "attribute 3 of relation with OID 16396 does not exist"),
            ("3F000", "schema with OID 16396 does not exist"),
        ] {
            assert!(error(code, message).met_changing_catalog(), "{code} {message}");
            assert!(!error(code, message).is_stale_statement(), "{code} {message}");
        }
    }

    #[test]
    fn error_with_name_or_damage_is_not_changed_catalog() {
        for (code, message) in [
            ("42P01", "relation \"public.entries\" does not exist"),
            ("42P01", "relation \"with OID 5\" does not exist"),
            ("42883", "function public.answer() does not exist"),
            ("42704", "type \"OID 5\" does not exist"),
            ("42703", "column entries.extra does not exist"),
            ("3F000", "schema \"x\" does not exist"),
            ("XX000", "tuple concurrently updated"),
            ("XX000", "tuple concurrently deleted"),
            ("XX000", "could not find tuple for opclass 16396"),
            ("XX000", "pg_attribute catalog is missing 1 attribute(s) for relation OID 16396"),
            ("XX000", "unexpected table_lock_mode: 4"),
            ("XX001", "could not read block 0 in file \"base/5/16396\""),
            ("XX002", "index \"pg_class_oid_index\" is not a btree"),
            ("40001", "could not serialize access due to concurrent update"),
            ("40P01", "deadlock detected"),
            ("P0001", "cache lookup failed for function 16714"),
            ("57014", "canceling statement due to statement timeout"),
        ] {
            assert!(!error(code, message).met_changing_catalog(), "{code} {message}");
        }
    }

    #[test]
    fn oversized_allocation_differs_from_damage() {
        let refused = |size: &str| {
            let message = format!("invalid memory alloc request size {size}");
            PgError { routine: Some("palloc_extended".to_owned()), ..error("XX000", &message) }
        };
        assert!(refused("1073741824").exceeds_limit());
        assert!(refused("260000000000").exceeds_limit());
        for damaged in ["18446744073709551613", "9223372036854775807", ""] {
            assert!(!refused(damaged).exceeds_limit(), "{damaged}");
        }
        assert!(!PgError { is_nested: true, ..refused("1073741824") }.exceeds_limit());
        assert!(!PgError { code: "P0001".to_owned(), ..refused("1073741824") }.exceeds_limit());
    }

    #[test]
    fn parallel_worker_is_not_nested() {
        assert!(!is_nested("parallel worker"));
        assert!(is_nested("SQL function \"f\" statement 1\nparallel worker"));
    }

    #[test]
    fn shutdown_is_unavailable_but_timeout_is_not() {
        assert!(error("57P01", "terminating connection").is_unavailable());
        assert!(error("08006", "connection failure").is_unavailable());
        assert!(!error("57014", "canceling statement").is_unavailable());
    }
}
