//! Limit on open files, and thereby on connections. Systems set a soft limit of 1024 for programs that use `select`,
//! and a much higher hard limit; the server raises the soft limit to the hard one. If that is too low for
//! `server.max_connections`, the server accepts fewer connections, because it also needs files to reach its database.
//! Further clients wait, as they do at the configured limit.

use basalt_core::convert::saturating;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files other than client connections: those of the app, logs, listening sockets.
const OTHER_FILES: u64 = 128;

/// Raises the soft limit to the hard one, and returns the resulting limit; `None` means unlimited.
pub fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit on open files");
            current
        }
    }
}

/// The limit that [`raise`] would set.
pub fn most() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// Number of client connections, at most `wanted`, that fit into `limit` besides `database` connections to
/// PostgreSQL. Each of those may need another connection to cancel its query.
pub fn connections_within(wanted: usize, database: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return wanted };
    let database = saturating::<u64>(database).saturating_mul(2);
    let room = limit.saturating_sub(OTHER_FILES).saturating_sub(database);
    // Even with a very low limit, some connections must be served.
    let room = saturating::<usize>(room.max(limit / 4).max(1));
    wanted.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_bounded_by_file_limit() {
        assert_eq!(connections_within(16_384, 20, None), 16_384);
        assert_eq!(connections_within(16_384, 20, Some(20_000)), 16_384);
        assert_eq!(connections_within(16_384, 20, Some(1024)), 1024 - 128 - 40);
        assert_eq!(connections_within(100, 20, Some(1024)), 100);
        assert_eq!(connections_within(16_384, 500, Some(256)), 64);
    }

    #[test]
    fn soft_limit_is_raised_to_hard_limit() {
        assert_eq!(raise(), most());
        assert_eq!(getrlimit(Resource::Nofile).current, most());
    }
}
