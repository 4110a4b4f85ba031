//! Which failed transactions are retried (docs/decisions/0017): a few times, those that are known to have changed
//! nothing.

use std::time::Duration;

use crate::session::{Access, SessionError};

/// How many attempts may fail on a stale statement before the error is returned.
const STALE_ATTEMPTS: u32 = 5;
/// How many attempts may fail on a catalog change in progress. A migration may make many changes in a row, and each
/// attempt may meet another one.
const CATALOG_ATTEMPTS: u32 = 7;
/// The first pause after a catalog error: the other transaction's change has not reached all backends yet. Doubles
/// each time.
const CATALOG_PAUSE: Duration = Duration::from_millis(2);
/// How many attempts of a read may be aborted because of a deadlock.
const DEADLOCK_ATTEMPTS: u32 = 3;

/// Failures of one transaction so far, by cause.
#[derive(Default)]
pub(super) struct Failures {
    stale: u32,
    catalog: u32,
    deadlock: u32,
    connection: u32,
    login: u32,
}

/// Why a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// The statement was prepared for an earlier schema.
    Stale,
    /// A catalog change was in progress; retry after this pause.
    Catalog(Duration),
    /// PostgreSQL aborted the transaction to resolve a deadlock.
    Deadlock,
    /// The connection ended; another one may work.
    Connection,
    /// The login may not assume the role, or was dropped; the pool finds out which.
    Login,
}

impl Retry {
    /// The `reason` label of `basalt_transactions_repeated_total`.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Catalog(_) => "catalog",
            Self::Deadlock => "deadlock",
            Self::Connection => "connection",
            Self::Login => "login",
        }
    }
}

impl Failures {
    /// Counts a failure of a transaction whose results the caller has not seen; returns the reason to retry it, if
    /// any.
    pub(super) fn note(&mut self, failure: &SessionError, access: Access) -> Option<Retry> {
        match failure {
            SessionError::Postgres(error) if error.is_stale_statement() => {
                self.stale += 1;
                (self.stale < STALE_ATTEMPTS).then_some(Retry::Stale)
            }
            SessionError::Postgres(error) if error.met_changing_catalog() => {
                self.catalog += 1;
                let pause = CATALOG_PAUSE * (1 << (self.catalog - 1));
                (self.catalog < CATALOG_ATTEMPTS).then_some(Retry::Catalog(pause))
            }
            // Reads lock no rows, so the deadlock came from a schema change that locked the same tables in another
            // order, or from a function's advisory locks.
            SessionError::Postgres(error) if error.code == "40P01" && access == Access::ReadOnly => {
                self.deadlock += 1;
                (self.deadlock < DEADLOCK_ATTEMPTS).then_some(Retry::Deadlock)
            }
            // The role is set first, so nothing ran or was committed, unless a function switched roles.
            SessionError::Postgres(error) if error.refuses_role() => {
                self.login += 1;
                (self.login == 1).then_some(Retry::Login)
            }
            // PostgreSQL ends idle sessions with this code, so the session had not read our command.
            SessionError::Postgres(error) if error.is_fatal && error.code == "57P05" => self.connection(),
            // A read has no side effects: when its connection dies (a restart, a failover), one retry is safe.
            SessionError::Postgres(error) if error.is_outage() && access == Access::ReadOnly => {
                self.connection()
            }
            SessionError::Unavailable(_) if access == Access::ReadOnly => self.connection(),
            SessionError::Postgres(_)
            | SessionError::Unavailable(_)
            | SessionError::PoolTimeout
            | SessionError::QueueFull
            | SessionError::Unreachable(_)
            | SessionError::Deadline => None,
        }
    }

    fn connection(&mut self) -> Option<Retry> {
        self.connection += 1;
        (self.connection == 1).then_some(Retry::Connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg_error::PgError;

    fn tries(failure: &SessionError, access: Access) -> usize {
        let mut failures = Failures::default();
        std::iter::repeat_with(|| failures.note(failure, access)).take_while(Option::is_some).count()
    }

    fn postgres(code: &str, message: &str, is_fatal: bool) -> SessionError {
        let mut error = PgError::busy();
        error.code = code.to_owned();
        error.message = message.to_owned();
        error.is_fatal = is_fatal;
        SessionError::Postgres(Box::new(error))
    }

    #[test]
    fn failures_without_side_effects_are_retried() {
        for (failure, reads, writes) in [
            (postgres("26000", "", false), 4, 4),
            (postgres("0A000", "cached plan must not change result type", false), 4, 4),
            (postgres("XX000", "cache lookup failed for function 1", false), 6, 6),
            (postgres("57P05", "", true), 1, 1),
            (postgres("57P01", "", true), 1, 0),
            (postgres("40001", "", true), 1, 0),
            (SessionError::Unavailable(String::new()), 1, 0),
            // The role's own transaction timeout.
            (postgres("25P04", "", true), 0, 0),
            (postgres("40001", "", false), 0, 0),
            (postgres("40P01", "", false), 2, 0),
            (postgres("57P01", "", false), 0, 0),
            (postgres("57P05", "", false), 0, 0),
            (postgres("53200", "", false), 0, 0),
            (SessionError::Unreachable(String::new()), 0, 0),
            (SessionError::PoolTimeout, 0, 0),
            (SessionError::QueueFull, 0, 0),
            (SessionError::Deadline, 0, 0),
        ] {
            assert_eq!(tries(&failure, Access::ReadOnly), reads, "{failure:?}");
            assert_eq!(tries(&failure, Access::ReadWrite), writes, "{failure:?}");
        }
    }

    #[test]
    fn a_refused_role_is_retried_once() {
        let mut error = PgError::busy();
        error.code = "42501".to_owned();
        for (routine, again) in [("call_string_check_hook", 1), ("aclcheck_error", 0)] {
            error.routine = Some(routine.to_owned());
            let failure = SessionError::Postgres(Box::new(error.clone()));
            assert_eq!(tries(&failure, Access::ReadWrite), again);
            assert_eq!(tries(&failure, Access::ReadOnly), again);
        }
    }

    #[test]
    fn catalog_pauses_add_up_to_126_ms() {
        let failure = postgres("XX000", "cache lookup failed for function 1", false);
        let mut failures = Failures::default();
        let pauses = std::iter::from_fn(|| match failures.note(&failure, Access::ReadOnly)? {
            Retry::Catalog(pause) => Some(pause),
            Retry::Stale | Retry::Deadlock | Retry::Connection | Retry::Login => None,
        });
        assert_eq!(pauses.sum::<Duration>(), Duration::from_millis(126));
    }
}
