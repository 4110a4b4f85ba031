//! Connections of one login, shared fairly between clients.
//!
//! deadpool keeps the connections. A request first takes a permit, of which there are as many as connections allowed
//! ([`basalt_core::fair_share`] decides which client is next). When the server accepts fewer (`53300`), the pool withholds
//! permits until it accepts more. Without permits, each refused request would retry by itself, start a backend in
//! vain each time, and never get a returned connection: deadpool hands those to its own queue.

use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use basalt_core::fair_share::{AcquireError, FairPermit, FairShare, Limits};
use basalt_core::identity::Identity;
use deadpool::managed::{self, Object, PoolError};
use metrics::Counter;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::PoolConfig;
use super::reach::Reach;
use crate::error::SessionError;
use crate::pg_error::{DriverError, PgError};

/// How long a permit is withheld before it is restored. Each restored permit costs one refused connection while the
/// server is still full.
const RESTORE_PAUSE: Duration = Duration::from_millis(250);

/// How long to wait for a permit, and then for the database. Load balancers give up after about a second, which has
/// the same effect as a failed check; a loaded machine may take longer for a login.
const PERMIT_LIMIT: Duration = Duration::from_secs(1);
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// A pool of connections of one login.
pub(crate) struct Pool<M: managed::Manager> {
    inner: managed::Pool<M>,
    config: PoolConfig,
    permits: FairShare,
    /// Number of withheld permits; only changed while holding `size_changed`.
    withheld: AtomicUsize,
    /// When `withheld` last changed; never held across an await.
    size_changed: Mutex<Instant>,
    /// When idle connections were last closed; never held across an await.
    looked_for_idle: Mutex<Instant>,
    timeouts: Counter,
    /// Requests rejected because their client had too many waiting.
    refused: Counter,
    reach: Reach,
    /// Whether the login was refused at the last attempt.
    is_refused: AtomicBool,
}

/// A leased connection of a [`Pool`]; returned when dropped.
pub(crate) struct Lease<M: managed::Manager> {
    // Dropped first, so that the next owner of the permit finds the connection in the pool.
    object: Object<M>,
    permit: Permit,
}

/// The right to use one connection of a pool; returned when dropped.
pub(crate) type Permit = FairPermit;

impl<M: managed::Manager> Lease<M> {
    /// Removes the connection from the pool. Its permit is released when the second value is dropped.
    pub(crate) fn take(self) -> (M::Type, Permit) {
        (Object::take(self.object), self.permit)
    }
}

impl<M: managed::Manager> Deref for Lease<M> {
    type Target = M::Type;

    fn deref(&self) -> &M::Type {
        &self.object
    }
}

impl<M: managed::Manager> DerefMut for Lease<M> {
    fn deref_mut(&mut self) -> &mut M::Type {
        &mut self.object
    }
}

impl<M: managed::Manager<Error = DriverError>> Pool<M> {
    pub(crate) fn new(manager: M, config: PoolConfig) -> Self {
        let size = config.size.max(1);
        let inner = managed::Pool::builder(manager)
            .max_size(size)
            .runtime(deadpool::Runtime::Tokio1)
            // Prefers the connection used last: its backend's caches are warm, and a quiet server keeps few
            // connections in use.
            .queue_mode(managed::QueueMode::Lifo)
            .build()
            .unwrap_or_else(|error| unreachable!("the pool has a runtime: {error}"));
        let limit = |name: &'static str, limit: f64| metrics::gauge!(name, "pool" => config.name).set(limit);
        limit("basalt_pool_connections_limit", size as f64);
        limit("basalt_pool_wait_seconds_limit", config.acquire_timeout.as_secs_f64());
        if let Some(waiting) = config.waiting_per_client {
            limit("basalt_pool_waiting_per_client_limit", waiting as f64);
        }
        let limits = Limits {
            permits: size,
            waiting_per_identity: config.waiting_per_client.unwrap_or(usize::MAX),
            keeps_headroom: config.keeps_headroom,
            flood_share: config.flood_share,
        };
        Self {
            inner,
            permits: FairShare::new(limits),
            withheld: AtomicUsize::new(0),
            size_changed: Mutex::new(Instant::now()),
            looked_for_idle: Mutex::new(Instant::now()),
            timeouts: metrics::counter!("basalt_pool_timeouts_total", "pool" => config.name),
            refused: metrics::counter!("basalt_pool_refused_total", "pool" => config.name),
            reach: Reach::default(),
            is_refused: AtomicBool::new(false),
            config,
        }
    }

    /// Updates the gauges before a metrics scrape, so that no request has to.
    pub(crate) fn report(&self) {
        let status = self.inner.status();
        let gauge = |name: &'static str, count: usize| {
            metrics::gauge!(name, "pool" => self.config.name).set(count as f64);
        };
        gauge("basalt_pool_connections", status.size);
        gauge("basalt_pool_available", status.available);
        let load = self.permits.load();
        // Requests waiting for a permit, and those whose connection is being opened.
        gauge("basalt_pool_waiting", load.waiting + status.waiting);
        gauge("basalt_pool_waiting_clients", load.waiting_identities);
    }

    /// Leases a connection for `identity`, waiting until the acquire timeout or `deadline`, whichever comes first.
    pub(crate) async fn acquire(
        &self,
        identity: Identity,
        deadline: Instant,
    ) -> Result<Lease<M>, SessionError> {
        self.close_idle();
        let limit = deadline.min(Instant::now() + self.config.acquire_timeout);
        match tokio::time::timeout_at(limit, self.lease(identity)).await {
            Ok(result) => result,
            Err(_elapsed) => {
                self.timeouts.increment(1);
                Err(SessionError::PoolTimeout)
            }
        }
    }

    async fn lease(&self, identity: Identity) -> Result<Lease<M>, SessionError> {
        loop {
            let permit = self.acquire_permit(identity).await.map_err(|error| match error {
                AcquireError::QueueFull => {
                    self.refused.increment(1);
                    SessionError::QueueFull
                }
                AcquireError::Closed => Self::failed(PoolError::Closed),
            })?;
            if let Some(lease) = self.connect(permit).await.map_err(Self::failed)? {
                return Ok(lease);
            }
        }
    }

    /// Connects with the permit; `None` if the server accepts no connection besides those in use.
    async fn connect(&self, permit: Permit) -> Result<Option<Lease<M>>, PoolError<DriverError>> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the only caller of get: everyone else goes through permits"
        )]
        let taken = self.inner.get().await;
        match taken {
            Ok(object) => {
                self.note_login(None);
                Ok(Some(Lease { object, permit }))
            }
            Err(PoolError::Backend(DriverError::Postgres(error))) => {
                // If no other connection is in use, there is none to wait for.
                if error.code == "53300" && self.shrink(permit).is_ok() {
                    return Ok(None);
                }
                self.note_login(Some(&error));
                Err(PoolError::Backend(DriverError::Postgres(error)))
            }
            Err(error) => Err(error),
        }
    }

    fn failed(error: PoolError<DriverError>) -> SessionError {
        match error {
            PoolError::Backend(error) => SessionError::unreachable(error),
            other @ (PoolError::Timeout(_)
            | PoolError::Closed
            | PoolError::NoRuntimeSpecified
            | PoolError::PostCreateHook(_)) => SessionError::Unreachable(other.to_string()),
        }
    }

    /// Logs once how an operator can fix a refused login; requests log only the refusal.
    fn note_login(&self, refused: Option<&PgError>) {
        let remedy = refused.and_then(PgError::login_remedy);
        // Read before the swap, because every request runs this.
        if self.is_refused.load(Ordering::Relaxed) == remedy.is_some() {
            return;
        }
        let was_refused = self.is_refused.swap(remedy.is_some(), Ordering::Relaxed);
        match (refused, remedy) {
            (Some(error), Some(remedy)) if !was_refused => {
                let pool = self.config.name;
                tracing::warn!(pool, remedy, "the database is unavailable: it rejects the login: {error}");
            }
            (None, _) if was_refused => {
                tracing::info!(pool = self.config.name, "the database accepts the login again");
            }
            _ => {}
        }
    }

    /// Waits for `identity`'s turn and returns a permit.
    async fn acquire_permit(&self, identity: Identity) -> Result<Permit, AcquireError> {
        self.restore();
        let mut permit = pin!(self.permits.acquire(identity));
        while self.withheld.load(Ordering::Relaxed) > 0 {
            if let Ok(permit) = tokio::time::timeout(RESTORE_PAUSE, &mut permit).await {
                return permit;
            }
            self.restore();
        }
        permit.await
    }

    /// Withholds the permit, unless it is the last one.
    fn shrink(&self, permit: Permit) -> Result<(), Permit> {
        let mut changed = self.size_changed.lock();
        let withheld = self.withheld.load(Ordering::Relaxed) + 1;
        if withheld >= self.config.size.max(1) {
            return Err(permit);
        }
        permit.forget();
        self.withheld.store(withheld, Ordering::Relaxed);
        *changed = Instant::now();
        Ok(())
    }

    /// Restores one permit that has been withheld long enough.
    fn restore(&self) {
        if self.withheld.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut changed = self.size_changed.lock();
        let withheld = self.withheld.load(Ordering::Relaxed);
        if withheld > 0 && changed.elapsed() >= RESTORE_PAUSE {
            self.withheld.store(withheld - 1, Ordering::Relaxed);
            self.permits.add_permit();
            *changed = Instant::now();
        }
    }

    fn close_idle(&self) {
        const INTERVAL: Duration = Duration::from_secs(5);
        let Some(limit) = self.config.idle_timeout else { return };
        let Some(mut looked) = self.looked_for_idle.try_lock() else { return };
        if looked.elapsed() < INTERVAL.min(limit) {
            return;
        }
        *looked = Instant::now();
        drop(looked);
        self.inner.retain(|_, metrics| metrics.last_used() < limit);
    }

    /// Whether a connection passes `probe`, or did so within the last second.
    pub(crate) async fn is_reachable(
        &self,
        probe: impl AsyncFnOnce(Lease<M>, Instant) -> Result<(), SessionError>,
    ) -> bool {
        let mut known = self.reach.lock().await;
        if let Some(is_reachable) = known.recent() {
            return is_reachable;
        }
        let outcome = self.check(probe).await;
        known.record(self.config.name, outcome)
    }

    /// `None` if all connections are in use.
    async fn check(
        &self,
        probe: impl AsyncFnOnce(Lease<M>, Instant) -> Result<(), SessionError>,
    ) -> Option<Result<(), SessionError>> {
        loop {
            let Ok(permit) =
                tokio::time::timeout(PERMIT_LIMIT, self.acquire_permit(Identity::SERVER)).await.ok()?
            else {
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

    /// Closes the connections that are not in use, so that the next leases open new ones.
    pub(crate) fn close_unused(&self) {
        self.inner.retain(|_, _| false);
    }

    /// Rejects new leases and closes idle connections.
    pub(crate) fn close(&self) {
        self.inner.close();
        self.permits.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deadpool::managed::RecycleResult;

    use super::*;
    use crate::pg_error::PgError;

    /// A server that accepts a limited number of connections.
    struct Server {
        free: AtomicUsize,
        attempts: AtomicUsize,
    }

    struct Connection(Arc<Server>);

    impl Drop for Connection {
        fn drop(&mut self) {
            self.0.free.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Manager(Arc<Server>);

    impl managed::Manager for Manager {
        type Type = Connection;
        type Error = DriverError;

        async fn create(&self) -> Result<Connection, DriverError> {
            self.0.attempts.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
            let free =
                self.0.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1));
            if free.is_ok() {
                return Ok(Connection(Arc::clone(&self.0)));
            }
            let mut error = PgError::busy();
            error.code = "53300".to_owned();
            Err(DriverError::Postgres(Box::new(error)))
        }

        async fn recycle(&self, _: &mut Connection, _: &managed::Metrics) -> RecycleResult<DriverError> {
            Ok(())
        }
    }

    fn pool(size: usize, free: usize) -> (Arc<Pool<Manager>>, Arc<Server>) {
        let server = Arc::new(Server { free: AtomicUsize::new(free), attempts: AtomicUsize::new(0) });
        (Arc::new(Pool::new(Manager(Arc::clone(&server)), PoolConfig::new("test", size))), server)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(2)
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_server_starves_no_request_and_sees_few_attempts() {
        let (pool, server) = pool(10, 3);
        let longest = Arc::new(AtomicUsize::new(0));
        let work = (0..30).map(|_| {
            let (pool, longest) = (Arc::clone(&pool), Arc::clone(&longest));
            async move {
                for _ in 0..20 {
                    let begun = Instant::now();
                    let lease = pool
                        .acquire(Identity::SERVER, soon())
                        .await
                        .unwrap_or_else(|error| panic!("{error}"));
                    let waited = usize::try_from(begun.elapsed().as_millis()).unwrap();
                    longest.fetch_max(waited, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    drop(lease);
                }
            }
        });
        let begun = Instant::now();
        futures_util::future::join_all(work).await;
        // 600 times 50 ms on three connections take ten seconds.
        assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
        assert!(longest.load(Ordering::Relaxed) < 1000, "{longest:?} ms");
        let attempts = server.attempts.load(Ordering::Relaxed);
        assert!(attempts < 80, "{attempts} connections tried");
        // The server accepts more connections again.
        server.free.store(100, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut leases = Vec::new();
        for _ in 0..10 {
            leases
                .push(pool.acquire(Identity::SERVER, soon()).await.unwrap_or_else(|error| panic!("{error}")));
            tokio::time::sleep(RESTORE_PAUSE).await;
        }
        assert!(
            matches!(pool.acquire(Identity::SERVER, soon()).await, Err(SessionError::PoolTimeout)),
            "an eleventh lease must time out"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_any_connection_requests_fail_at_once() {
        let (pool, _server) = pool(4, 0);
        let begun = Instant::now();
        let attempts = (0..8).map(|_| pool.acquire(Identity::SERVER, soon()));
        for taken in futures_util::future::join_all(attempts).await {
            assert!(matches!(taken, Err(SessionError::Unreachable(_))));
        }
        assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_request_gets_a_connection_once_one_is_free() {
        let (pool, server) = pool(4, 1);
        let first = pool.acquire(Identity::SERVER, soon()).await.unwrap_or_else(|error| panic!("{error}"));
        let waiting = pool.acquire(Identity::SERVER, soon());
        let grow = async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            server.free.store(5, Ordering::Relaxed);
        };
        let (second, ()) = tokio::join!(waiting, grow);
        assert!(second.is_ok(), "the second request must get a connection while the first is held");
        drop((first, second));
        assert_eq!(pool.permits.load().waiting, 0);
    }
}
