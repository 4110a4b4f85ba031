//! What PostgreSQL said went wrong. The only file that reads the driver's error fields; services map
//! [`PgError::code`] to their own wire shapes.

use std::io;

use basalt_core::error::with_cause;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorResponseBody;
use tokio_postgres::error::{DbError, ErrorPosition, Severity};

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
    /// The function of PostgreSQL's that reported it: the one word about an error that no locale translates.
    pub routine: Option<String>,
    /// It came up inside of something that the statement called: a function, a trigger, or the reading of a parameter. A parallel
    /// worker is not such a thing: it runs a part of the statement itself.
    pub is_nested: bool,
    /// True for `FATAL` and `PANIC`: the connection is gone.
    pub is_fatal: bool,
    /// False when the statement's text or parameters were refused: nothing of it was done then. True where that is not known.
    pub has_run: bool,
}

impl PgError {
    /// True when the SQLSTATE belongs to this two-character class.
    #[must_use]
    pub fn is_class(&self, class: &str) -> bool {
        self.code.starts_with(class)
    }

    /// The prepared statement no longer fits the schema, or the server has forgotten it. Preparing anew helps.
    #[must_use]
    pub fn is_stale_statement(&self) -> bool {
        // `0A000` has a hundred meanings. The message tells this one, but only in English.
        let is_result_type = || {
            self.routine.as_deref() == Some("RevalidateCachedQuery")
                || self.message.starts_with("cached plan must not change result type")
        };
        (self.code == "0A000" && is_result_type()) || self.code == "26000"
    }

    /// The statement looked something up by its name and, a moment later, not by the number that this had given: it was
    /// dropped, or made anew, in between. Tables are locked from the look-up on; functions, types, schemas and whatever
    /// else a statement mentions are not. The transaction failed, and the next one sees the catalog as it is now.
    ///
    /// What marks these errors is the **number**: an error with a name says that the statement names what does not exist, and
    /// that is the answer. PostgreSQL words them as internal errors (`XX000`, never translated), or with the code of the
    /// missing object and `OID 123` in the text, in every language.
    ///
    /// Left out on purpose:
    /// - `tuple concurrently updated` or `deleted` (`XX000`): two requests that change the schema at once. Which change is
    ///   to come last is for their callers to say, as with `40001` and `40P01`, which are not repeated for writes either.
    /// - `could not find …`, `catalog is missing …`, `unexpected …` and all else of class XX: a damaged catalog, or a bug.
    ///   Neither gets better by asking five times, and both should be seen.
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

    /// The server is going down, came down or is not up yet: a retry after a moment may work.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.is_class("08") || matches!(self.code.as_str(), "57P01" | "57P02" | "57P03" | "57P05" | "53300")
    }

    /// The statement itself is too long, too deep or too wide for PostgreSQL, or a value in it is: class 54, or more memory
    /// than a value may have, where no function or trigger that it called ran into the limit, nor an answer into ours, which has
    /// no routine.
    #[must_use]
    pub fn exceeds_limit(&self) -> bool {
        (self.is_class("54") || self.exceeds_allocation())
            && (!self.has_run || !self.is_nested && self.routine.is_some())
    }

    /// PostgreSQL refused to allocate a gigabyte or more at once, as the tables of a regular expression may need: patterns of
    /// which one repetition contains another. The message is an internal one, which is never translated.
    fn exceeds_allocation(&self) -> bool {
        // A damaged value has a length below zero, which is shown as a size that no computer has. That is a server's fault.
        const LARGEST: u64 = 1 << 48;
        let size = self.message.strip_prefix("invalid memory alloc request size ");
        let size = size.and_then(|size| size.parse::<u64>().ok());
        self.code == "XX000" && size.is_some_and(|size| size < LARGEST)
    }

    /// The login may not take on the role that was asked for. So says PostgreSQL, too, of every role where the login itself was
    /// dropped under its connection. The function is the one that words all refusals of a setting's check.
    pub(crate) fn refuses_role(&self) -> bool {
        self.code == "42501" && self.routine.as_deref() == Some("call_string_check_hook")
    }

    /// What an operator can do about a login that the server refuses; `None` where waiting helps.
    #[must_use]
    pub fn login_remedy(&self) -> Option<&'static str> {
        Some(match self.code.as_str() {
            "28P01" => {
                "check the password in the URL; the roles whose passwords derive from server.master_key get theirs again \
                 when basalt starts"
            }
            // The message is translated; the routine's name is not.
            "28000" if self.routine.as_deref() == Some("ClientAuthentication") => {
                "let a line of the server's pg_hba.conf admit this user from this address to this database, and have the \
                 server read it again: select pg_reload_conf()"
            }
            "28000" => "check the user in the URL: it has to exist and to have LOGIN (alter role … login)",
            "3D000" => "create the database, or correct its name in the URL",
            "42501" => "give the user the right to connect: grant connect on database … to …",
            "55000" => "let the database take connections: alter database … allow_connections true",
            "53300" => {
                "raise the limit (max_connections, or that of the role or the database), or lower database.pool_size"
            }
            _ => return None,
        })
    }

    /// The connection was closed for reasons that are not the request's. Class 25 is: a role's `transaction_timeout` and
    /// `idle_in_transaction_session_timeout` end the connection as well.
    pub(crate) fn is_outage(&self) -> bool {
        self.is_fatal && !self.is_class("25")
    }

    /// From the fields of the message itself. Unknown fields are skipped, as the protocol asks.
    pub(crate) fn from_fields(body: &ErrorResponseBody) -> io::Result<Self> {
        let mut error = Self::of("XX000", "");
        let mut fields = body.fields();
        while let Some(field) = fields.next()? {
            let text = || bounded(field.value_bytes());
            match field.type_() {
                // The severity that is never translated; poolers send the other one alone.
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

    /// An answer that we refuse to take, in the words PostgreSQL has for its own limit.
    pub(crate) fn answer_too_large(limit_bytes: usize) -> Self {
        let mut error = Self::of("54000", "the answer is too large");
        error.detail = Some(format!("A row of it has more than {limit_bytes} bytes."));
        let hint = "Ask for fewer rows (limit) or columns (select), or raise database.max_row_bytes.";
        error.hint = Some(hint.to_owned());
        error
    }

    /// A statement for which the protocol has no room; it was not sent.
    pub(crate) fn unsendable(detail: &str) -> Self {
        let mut error = Self::of("54000", "the request is too large for the database");
        error.has_run = false;
        error.detail = Some(detail.to_owned());
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
            routine: None,
            is_nested: false,
            is_fatal: false,
            has_run: true,
        }
    }
}

/// Whether an error's context names more than the process that ran a part of the statement.
fn is_nested(context: &str) -> bool {
    context != "parallel worker"
}

/// A field of an error, cut off at a limit: it may repeat a value as long as a request's body, and errors are not counted as
/// answers' memory is.
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

/// A driver's error: one that PostgreSQL sent, or a failed connection.
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
        // As a server set up in German says it.
        let mut german = error("0A000", "gecachter Plan darf den Ergebnistyp nicht ändern");
        assert!(!german.is_stale_statement());
        german.routine = Some("RevalidateCachedQuery".to_owned());
        assert!(german.is_stale_statement());
    }

    #[test]
    fn what_is_missed_by_its_number_was_there_a_moment_ago() {
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
    fn a_missing_name_a_lost_race_of_writers_and_damage_are_answers() {
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
    fn memory_that_a_request_needs_is_told_from_damage() {
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
    fn parallel_workers_run_a_part_of_the_statement_itself() {
        assert!(!is_nested("parallel worker"));
        assert!(is_nested("SQL function \"f\" statement 1\nparallel worker"));
    }

    #[test]
    fn a_server_going_down_is_unavailable_and_a_timeout_is_not() {
        assert!(error("57P01", "terminating connection").is_unavailable());
        assert!(error("08006", "connection failure").is_unavailable());
        assert!(!error("57014", "canceling statement").is_unavailable());
    }
}
