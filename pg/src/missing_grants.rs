//! Privileges that a role of the API lacks are logged for the operator, each once. REST does this itself, with the statement that grants
//! them (`rest::rights`): it knows what its request does with a table.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::pg_error::PgError;

/// So many are logged.
const LOGGED: usize = 1024;

/// Logs that a request of `role` met a missing privilege, unless that was logged before. Rows that policies refuse are not
/// meant: that is what policies are for.
pub fn log_once(service: &'static str, role: &str, error: &PgError) {
    if is_first(service, role, error) {
        tracing::info!(
            "{} in a request of role {role} to {service}; if the role should have access, grant it the privilege",
            error.message
        );
    }
}

fn is_first(service: &'static str, role: &str, error: &PgError) -> bool {
    static MET: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    if error.code != "42501" || !error.message.starts_with("permission denied for ") {
        return false;
    }
    let mut met = MET.lock().unwrap_or_else(PoisonError::into_inner);
    met.len() < LOGGED && met.insert(format!("{service} {role} {}", error.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_privilege_is_logged_once() {
        let refused = |message: &str| {
            let mut error = PgError::answer_too_large(0);
            (error.code, error.message) = ("42501".to_owned(), message.to_owned());
            error
        };
        let denied = refused("permission denied for table secrets");
        assert!(is_first("storage", "anon", &denied));
        assert!(!is_first("storage", "anon", &denied));
        assert!(is_first("storage", "authenticated", &denied));
        assert!(is_first("realtime", "anon", &denied));
        let by_policy = refused("new row violates row-level security policy for table \"objects\"");
        assert!(!is_first("storage", "anon", &by_policy));
    }
}
