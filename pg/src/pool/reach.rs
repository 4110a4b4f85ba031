//! Whether a pool's login can reach its database, for `/ready`, which load balancers poll constantly.
//!
//! The check uses what a request would get now: a pooled connection, or a new one if none is idle, has to answer.
//! However many callers there are, only one of them checks, at most once a second; the others wait for its result. A
//! pool whose connections are all in use says nothing about the database, so the last result stands.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::error::SessionError;

/// How long a result is valid.
const FRESH: Duration = Duration::from_secs(1);

/// The last result, locked during a check.
#[derive(Default)]
pub(super) struct Reach(Mutex<Option<Found>>);

#[derive(Clone, Copy)]
struct Found {
    at: Instant,
    is_reachable: bool,
}

/// The last result, locked: other callers wait for the result of a check.
pub(super) struct Known<'a>(MutexGuard<'a, Option<Found>>);

impl Reach {
    pub(super) async fn lock(&self) -> Known<'_> {
        Known(self.0.lock().await)
    }
}

impl Known<'_> {
    /// The result, if it is valid.
    pub(super) fn recent(&self) -> Option<bool> {
        self.0.filter(|found| found.at.elapsed() < FRESH).map(|found| found.is_reachable)
    }

    /// Records the outcome of a check and returns whether the database is reachable. `None` keeps the last result.
    pub(super) fn record(&mut self, pool: &'static str, outcome: Option<Result<(), SessionError>>) -> bool {
        let before = self.0.is_none_or(|found| found.is_reachable);
        let is_reachable = match outcome {
            None => before,
            Some(Ok(())) => true,
            Some(Err(error)) => {
                if before {
                    tracing::warn!(pool, "not ready: {error}");
                }
                false
            }
        };
        if is_reachable && !before {
            tracing::info!(pool, "the database is reachable again");
        }
        *self.0 = Some(Found { at: Instant::now(), is_reachable });
        is_reachable
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use basalt_core::identity::Identity;
    use deadpool::managed::{self, RecycleResult};

    use super::*;
    use crate::pg_error::DriverError;
    use crate::pool::lease::ANSWER_LIMIT;
    use crate::pool::{Pool, PoolConfig};

    /// A database that can be switched off, and counts probes.
    struct Server {
        is_there: AtomicBool,
        probes: AtomicUsize,
    }

    struct Manager;

    impl managed::Manager for Manager {
        type Type = ();
        type Error = DriverError;

        async fn create(&self) -> Result<(), DriverError> {
            Ok(())
        }

        async fn recycle(&self, (): &mut (), _: &managed::Metrics) -> RecycleResult<DriverError> {
            Ok(())
        }
    }

    async fn ask(pool: &Pool<Manager>, server: &Server) -> bool {
        let probe = async |_lease, _deadline| {
            server.probes.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(30)).await;
            let is_there = server.is_there.load(Ordering::Relaxed);
            if is_there { Ok(()) } else { Err(SessionError::Unavailable("gone".to_owned())) }
        };
        pool.is_reachable(probe).await
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_probe_per_second() {
        let pool = Pool::new(Manager, PoolConfig::new("test", 2));
        let server = Server { is_there: AtomicBool::new(true), probes: AtomicUsize::new(0) };
        for round in 1..4 {
            for _ in 0..3 {
                let crowd = futures_util::future::join_all((0..50).map(|_| ask(&pool, &server))).await;
                assert!(crowd.into_iter().all(|is_reachable| is_reachable == (round != 2)));
            }
            assert_eq!(server.probes.load(Ordering::Relaxed), round);
            server.is_there.store(round == 2, Ordering::Relaxed);
            tokio::time::sleep(FRESH).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_pool_keeps_its_result_and_a_silent_database_fails() {
        let pool = Pool::new(Manager, PoolConfig::new("test", 1));
        let server = Server { is_there: AtomicBool::new(true), probes: AtomicUsize::new(0) };
        for is_there in [true, false] {
            server.is_there.store(is_there, Ordering::Relaxed);
            assert_eq!(ask(&pool, &server).await, is_there);
            let at_work = pool
                .acquire(Identity::SERVER, Instant::now() + FRESH)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
            tokio::time::sleep(FRESH).await;
            assert_eq!(ask(&pool, &server).await, is_there);
            drop(at_work);
            tokio::time::sleep(FRESH).await;
        }
        assert_eq!(server.probes.load(Ordering::Relaxed), 2);
        let begun = Instant::now();
        let silent = async |_lease, _deadline| std::future::pending().await;
        assert!(!pool.is_reachable(silent).await);
        assert_eq!(begun.elapsed(), ANSWER_LIMIT);
    }
}
