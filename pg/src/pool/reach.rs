//! Whether a pool's login can reach its database, for `/ready`, which load balancers poll constantly.
//!
//! The check uses what a request would get now: a pooled connection, or a new one if none is idle, has to answer.
//! However many callers there are, only one of them checks, at most once a second; the others wait for its result. A
//! pool whose connections are all in use says nothing about the database, so the last result stands.

use std::time::Duration;

use basalt_core::identity::Identity;
use deadpool::managed::{self, PoolError};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Pool;
use super::lease::Lease;
use crate::error::SessionError;
use crate::pg_error::DriverError;

/// How long a result is valid.
const FRESH: Duration = Duration::from_secs(1);
/// How long to wait for a permit, and then for the database. Load balancers give up after about a second, which has
/// the same effect as a failed check; a loaded machine may take longer for a login.
const PERMIT_LIMIT: Duration = Duration::from_secs(1);
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// The last result, locked during a check.
#[derive(Default)]
pub(super) struct Reach(Mutex<Option<Found>>);

#[derive(Clone, Copy)]
struct Found {
    at: Instant,
    is_reachable: bool,
}

impl<M: managed::Manager<Error = DriverError>> Pool<M> {
    /// Whether a connection passes `probe`, or did so within the last second.
    pub(crate) async fn is_reachable(
        &self,
        probe: impl AsyncFnOnce(Lease<M>, Instant) -> Result<(), SessionError>,
    ) -> bool {
        // Held during the check, so that other callers wait for its result.
        let mut known = self.reach.0.lock().await;
        if let Some(found) = known.filter(|found| found.at.elapsed() < FRESH) {
            return found.is_reachable;
        }
        let before = known.is_none_or(|found| found.is_reachable);
        let is_reachable = match self.check(probe).await {
            None => before,
            Some(Ok(())) => true,
            Some(Err(error)) => {
                if before {
                    tracing::warn!(pool = self.config.name, "not ready: {error}");
                }
                false
            }
        };
        if is_reachable && !before {
            tracing::info!(pool = self.config.name, "the database is reachable again");
        }
        *known = Some(Found { at: Instant::now(), is_reachable });
        is_reachable
    }

    /// `None` if all connections are in use.
    async fn check(
        &self,
        probe: impl AsyncFnOnce(Lease<M>, Instant) -> Result<(), SessionError>,
    ) -> Option<Result<(), SessionError>> {
        loop {
            let Ok(permit) = timeout(PERMIT_LIMIT, self.acquire_permit(Identity::SERVER)).await.ok()? else {
                return Some(Err(Self::failed(PoolError::Closed)));
            };
            let deadline = Instant::now() + ANSWER_LIMIT;
            let silent = || Some(Err(SessionError::Unreachable("no response".to_owned())));
            let lease = match tokio::time::timeout_at(deadline, self.connect(permit)).await {
                Ok(Ok(Some(lease))) => lease,
                // The server is full; like a request, wait for a connection in use.
                Ok(Ok(None)) => continue,
                Ok(Err(error)) => return Some(Err(Self::failed(error))),
                Err(_elapsed) => return silent(),
            };
            return match tokio::time::timeout_at(deadline, probe(lease, deadline)).await {
                Ok(Err(SessionError::Deadline)) | Err(_) => silent(),
                Ok(answered) => Some(answered),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use deadpool::managed::RecycleResult;

    use super::*;
    use crate::pool::PoolConfig;

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
