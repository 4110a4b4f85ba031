//! Logs privileges that an API role lacks, each once, for the operator. REST has its own version (`rest::rights`),
//! which also names the GRANT statement: it knows how its request uses the table.

use std::collections::HashSet;
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::pg_error::PgError;

/// Maximum number of distinct messages logged.
const MAX_LOGGED: usize = 1024;

/// Logs that a request of `role` failed for a missing privilege, unless this was logged before. Rows rejected by a
/// policy are not logged: rejecting rows is the policy's purpose.
pub fn log_once(service: &'static str, role: &str, error: &PgError) {
    if is_first(service, role, error) {
        tracing::info!(
            "{} in a request of role {role} to {service}; if the role should have access, grant it the privilege",
            error.message
        );
    }
}

fn is_first(service: &'static str, role: &str, error: &PgError) -> bool {
    static LOGGED_MESSAGES: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    if error.code != "42501" || !error.message.starts_with("permission denied for ") {
        return false;
    }
    let mut logged = LOGGED_MESSAGES.lock();
    logged.len() < MAX_LOGGED && logged.insert(format!("{service} {role} {}", error.message))
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
