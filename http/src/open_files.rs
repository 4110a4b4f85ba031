//! How many files, and so connections, the system lets this process open. Systems come with a soft limit of 1024 for
//! the sake of programs that use `select`, and a hard one far above: we raise the first to the second. Where that is too
//! little for `server.max_connections`, the server accepts fewer connections, because without files it cannot reach its
//! database; newcomers wait, as they do at the configured limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are no connections of clients: those of the app, logs, sockets to listen on.
const OTHERS: u64 = 128;

/// Raises the soft limit to the hard one; what holds then, `None` for no limit.
pub fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files stays");
            current
        }
    }
}

/// The limit that [`raise`] would reach.
pub fn most() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// How many of `wanted` connections of clients fit into `limit`, beside `database` connections to PostgreSQL, each of
/// which may need another one to be cancelled by.
pub fn room_for(wanted: usize, database: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return wanted };
    let database = u64::try_from(database).unwrap_or(u64::MAX).saturating_mul(2);
    let room = limit.saturating_sub(OTHERS).saturating_sub(database);
    // However little there is, something has to be served.
    let room = usize::try_from(room.max(limit / 4).max(1)).unwrap_or(usize::MAX);
    wanted.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_what_the_system_allows() {
        assert_eq!(room_for(16_384, 20, None), 16_384);
        assert_eq!(room_for(16_384, 20, Some(20_000)), 16_384);
        assert_eq!(room_for(16_384, 20, Some(1024)), 1024 - 128 - 40);
        assert_eq!(room_for(100, 20, Some(1024)), 100);
        assert_eq!(room_for(16_384, 500, Some(256)), 64);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        assert_eq!(raise(), most());
        assert_eq!(getrlimit(Resource::Nofile).current, most());
    }
}
