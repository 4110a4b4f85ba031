//! Connection pools. Each pooled connection has its own bounded cache of prepared statements; a session keeps no
//! other state, so that any connection can serve any request.
//!
//! [`ServicePool`] is for services with their own login (auth as `supabase_auth_admin`), which need several round
//! trips in one transaction ([`ServicePool::begin`]) or no transaction at all ([`ServicePool::autocommit`]). Work on
//! behalf of a caller uses [`crate::session`] instead.

mod lease;
mod reach;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use basalt_core::error::with_cause;
use basalt_core::identity::Identity;
use basalt_core::memory::AnswerMemory;
use deadpool::managed::{self, RecycleError, RecycleResult};
use futures_util::future::BoxFuture;
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use tokio_util::task::TaskTracker;

use crate::database::Database;
use crate::error::SessionError;
use crate::pg_error::DriverError;
pub(crate) use lease::{Lease, Pool};

/// Default number of prepared statements per connection.
const STATEMENT_CACHE: usize = 256;

/// Configuration of a pool.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Name in metrics (`rest`, `auth`, `system`).
    pub name: &'static str,
    /// Maximum number of connections.
    pub size: usize,
    /// Maximum time that a request waits for a free connection.
    pub acquire_timeout: Duration,
    /// Maximum number of requests of one client that wait for a connection; further ones are rejected. `None` means
    /// no limit.
    pub waiting_per_client: Option<usize>,
    /// Whether to keep connections free for clients that use few ([`basalt_core::fair_share`]); for pools whose
    /// clients can make statements slow.
    pub keeps_headroom: bool,
    /// Maximum number of connections of one client that floods the pool while others use it
    /// ([`basalt_core::fair_share`]).
    pub flood_share: Option<usize>,
    /// Prepared statements kept per connection; the least recently used is closed first. With 0, request work
    /// prepares none and other work keeps one.
    pub statement_cache: usize,
    /// Maximum size of one row of a result, for request work only.
    pub row_bytes: usize,
    /// Memory budget for results of request work; `None` means no limit.
    pub answers: Option<AnswerMemory>,
    /// Limits the memory of the backends of request work.
    pub backend_limit: Option<BackendLimit>,
    /// Age after which a connection is replaced when next acquired, because its backend's caches grow.
    pub max_lifetime: Duration,
    /// Idle time after which a connection is closed when next acquired; `None` keeps it.
    pub idle_timeout: Option<Duration>,
}

impl PoolConfig {
    /// Default values: ten seconds to acquire, 256 statements, thirty minutes of lifetime (rest.md §4.5).
    #[must_use]
    pub const fn new(name: &'static str, size: usize) -> Self {
        Self {
            name,
            size,
            acquire_timeout: Duration::from_secs(10),
            waiting_per_client: None,
            keeps_headroom: false,
            flood_share: None,
            statement_cache: STATEMENT_CACHE,
            // PostgreSQL's limit on a value.
            row_bytes: 1 << 30,
            answers: None,
            backend_limit: None,
            max_lifetime: Duration::from_secs(1800),
            idle_timeout: None,
        }
    }
}

/// Limits the memory that a backend may use for received values (docs/decisions/0051).
#[derive(Clone)]
pub struct BackendLimit {
    /// Bytes of values that the initial limit of a backend allows.
    pub usual_bytes: usize,
    /// Sets the limit of the backend with this process id to this many bytes of values; called first with
    /// `usual_bytes`.
    pub set: Arc<dyn Fn(i32, usize) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl fmt::Debug for BackendLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendLimit").field("usual_bytes", &self.usual_bytes).finish_non_exhaustive()
    }
}

/// Maximum time for an abandoned statement to end after it was cancelled. It keeps its permit until then; otherwise
/// requests would start ever more backends on a server whose tables are locked.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// A pooled connection of a service's own login.
pub(crate) struct PooledConnection {
    client: Client,
    database: Database,
    tracker: TaskTracker,
    /// Locked for a lookup or insert only, never across an await.
    statements: Mutex<LruCache<Arc<str>, Statement>>,
}

impl PooledConnection {
    async fn prepared(&self, text: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements().get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        let kept = statement.clone();
        self.statements().put(Arc::from(text), kept);
        Ok(statement)
    }

    fn statements(&self) -> MutexGuard<'_, LruCache<Arc<str>, Statement>> {
        self.statements.lock()
    }
}

pub(crate) struct Manager {
    database: Database,
    tracker: TaskTracker,
    statement_cache: usize,
    max_lifetime: Duration,
}

impl managed::Manager for Manager {
    type Type = PooledConnection;
    type Error = DriverError;

    async fn create(&self) -> Result<PooledConnection, DriverError> {
        let client = self.database.connect().await?;
        let cached = NonZeroUsize::new(self.statement_cache).unwrap_or(NonZeroUsize::MIN);
        let statements = Mutex::new(LruCache::new(cached));
        let (database, tracker) = (self.database.clone(), self.tracker.clone());
        Ok(PooledConnection { client, database, tracker, statements })
    }

    async fn recycle(
        &self,
        connection: &mut PooledConnection,
        metrics: &managed::Metrics,
    ) -> RecycleResult<DriverError> {
        // State exists only within transactions, so an open connection is usable.
        if connection.client.is_closed() {
            return Err(RecycleError::message("closed"));
        }
        if metrics.age() > self.max_lifetime {
            return Err(RecycleError::message("old"));
        }
        Ok(())
    }
}

/// A pool for a service's own login. Cheap to clone.
#[derive(Clone)]
pub struct ServicePool {
    pool: Arc<Pool<Manager>>,
}

impl ServicePool {
    /// Creates a pool for the login of `database`; connections are opened on demand. `tracker` tracks statements
    /// being cancelled, so that a shutdown can wait for them.
    #[must_use]
    pub fn new(database: Database, config: PoolConfig, tracker: TaskTracker) -> Self {
        let (statement_cache, max_lifetime) = (config.statement_cache, config.max_lifetime);
        let manager = Manager { database, statement_cache, max_lifetime, tracker };
        Self { pool: Arc::new(Pool::new(manager, config)) }
    }

    /// Begins a transaction on behalf of the server; see [`ServicePool::begin_for`].
    ///
    /// # Errors
    /// As [`ServicePool::begin_for`].
    pub async fn begin(&self, deadline: Instant) -> Result<Tx, SessionError> {
        self.begin_for(Identity::SERVER, deadline).await
    }

    /// Begins a transaction (read committed, read write) on behalf of a client. Its statements complete before
    /// `deadline` or fail.
    ///
    /// # Errors
    /// No connection became free in time, too many requests of this client are waiting, or none could be opened.
    pub async fn begin_for(&self, identity: Identity, deadline: Instant) -> Result<Tx, SessionError> {
        let mut retried = false;
        loop {
            // Before BEGIN: dropping `tx` closes a connection that may have begun a transaction.
            let tx = Tx::new(self.pool.acquire(identity, deadline).await?, deadline, true);
            let lease = tx.lease()?;
            match tx.await_result(lease, lease.client.batch_execute("BEGIN")).await {
                Ok(()) => return Ok(tx),
                // The connection died while idle: no statement has run, and another connection may be alive.
                Err(SessionError::Unavailable(_)) if !retried => retried = true,
                Err(SessionError::Postgres(error)) if error.is_fatal && !retried => retried = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// Acquires a connection on behalf of the server; see [`ServicePool::autocommit_for`].
    ///
    /// # Errors
    /// As [`ServicePool::autocommit_for`].
    pub async fn autocommit(&self, deadline: Instant) -> Result<Tx, SessionError> {
        self.autocommit_for(Identity::SERVER, deadline).await
    }

    /// Acquires a connection on which each statement is its own transaction, which saves the round trips for BEGIN
    /// and COMMIT. For reads that need no common snapshot, and for changes that consist of one statement.
    ///
    /// On a connection that died while idle the first statement fails, where [`ServicePool::begin_for`] would acquire
    /// another one; use it only for statements that may be repeated.
    ///
    /// # Errors
    /// As [`ServicePool::begin_for`].
    pub async fn autocommit_for(&self, identity: Identity, deadline: Instant) -> Result<Tx, SessionError> {
        Ok(Tx::new(self.pool.acquire(identity, deadline).await?, deadline, false))
    }

    /// Rejects new transactions and closes idle connections, for shutdown.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Closes the idle connections, which are dead after the route to the database was lost.
    pub fn close_unused(&self) {
        self.pool.close_unused();
    }

    /// Whether the login can reach its database, as of at most a second ago. Sends at most one empty statement per
    /// second, however often it is called.
    pub async fn is_reachable(&self) -> bool {
        let probe = async |lease, deadline| {
            let tx = Tx::new(lease, deadline, false);
            let lease = tx.lease()?;
            tx.await_result(lease, lease.client.batch_execute("")).await?;
            tx.commit().await
        };
        self.pool.is_reachable(probe).await
    }

    /// Sets the gauges of the pool; called before metrics are exported.
    pub fn report(&self) {
        self.pool.report();
    }
}

/// A transaction of a [`ServicePool`]. It is rolled back if dropped without [`Tx::commit`]. If a statement is still
/// running then, the connection is closed rather than reused.
pub struct Tx {
    lease: Option<Lease<Manager>>,
    deadline: Instant,
    /// Whether BEGIN was sent; otherwise each statement is its own transaction.
    is_begun: bool,
    /// Whether a statement failed. COMMIT would then return the tag ROLLBACK without an error, which the driver does
    /// not expose.
    failed: AtomicBool,
    /// Number of statements sent and not completed.
    unanswered: AtomicUsize,
}

impl Tx {
    const fn new(lease: Lease<Manager>, deadline: Instant, is_begun: bool) -> Self {
        let (failed, unanswered) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { lease: Some(lease), deadline, is_begun, failed, unanswered }
    }

    fn lease(&self) -> Result<&Lease<Manager>, SessionError> {
        self.lease.as_ref().ok_or_else(|| SessionError::Unavailable("the transaction has ended".to_owned()))
    }

    /// Waits for `work` on the connection until the deadline.
    async fn await_result<T>(
        &self,
        lease: &Lease<Manager>,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, SessionError> {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let answered = tokio::time::timeout_at(self.deadline, work).await;
        // Not reached if this future is dropped; the statement then stays unanswered.
        if answered.is_ok() {
            self.unanswered.fetch_sub(1, Ordering::Relaxed);
        }
        let result = match answered {
            Ok(result) => result.map_err(|error| SessionError::from(DriverError::from(error))),
            Err(_elapsed) => Err(SessionError::Deadline),
        };
        if let Err(error) = &result {
            self.failed.store(true, Ordering::Relaxed);
            if matches!(error, SessionError::Postgres(error) if error.is_stale_statement()) {
                // It was prepared before the tables changed, and would fail for as long as the connection lives.
                lease.statements().clear();
            }
        }
        result
    }

    /// Runs a statement and returns its rows. Statements are prepared once per connection.
    ///
    /// # Errors
    /// PostgreSQL's error, a broken connection, or the deadline.
    pub async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, SessionError> {
        let lease = self.lease()?;
        let statement = self.await_result(lease, lease.prepared(sql)).await?;
        self.await_result(lease, lease.client.query(&statement, params)).await
    }

    /// Returns the first row, if any.
    ///
    /// # Errors
    /// As [`Tx::query`].
    pub async fn query_opt(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, SessionError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Returns the first row.
    ///
    /// # Errors
    /// As [`Tx::query`]; no row is [`SessionError::Unavailable`], because the statement must return one.
    pub async fn query_one(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, SessionError> {
        self.query_opt(sql, params)
            .await?
            .ok_or_else(|| SessionError::Unavailable("expected one row, got none".to_owned()))
    }

    /// Runs a statement and returns the number of affected rows.
    ///
    /// # Errors
    /// As [`Tx::query`].
    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, SessionError> {
        let lease = self.lease()?;
        let statement = self.await_result(lease, lease.prepared(sql)).await?;
        self.await_result(lease, lease.client.execute(&statement, params)).await
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// A statement failed earlier, a deferred constraint failed, or the response did not arrive, in which case the
    /// outcome is unknown.
    pub async fn commit(self) -> Result<(), SessionError> {
        if self.is_begun && self.failed.load(Ordering::Relaxed) {
            self.rollback().await;
            return Err(SessionError::Unavailable(
                "a statement of the transaction failed before COMMIT".to_owned(),
            ));
        }
        self.end("COMMIT").await
    }

    /// Rolls back and returns the connection to the pool. Dropping also rolls back, but closes the connection.
    pub async fn rollback(self) {
        // If ROLLBACK fails the connection is closed, which also rolls back.
        let _gone = self.end("ROLLBACK").await;
    }

    /// Commits on success and rolls back on failure. Rolling back keeps the connection, where dropping would close
    /// it.
    ///
    /// # Errors
    /// The error in `result`, or as [`Tx::commit`].
    pub async fn finish<T, E: From<SessionError>>(self, result: Result<T, E>) -> Result<T, E> {
        match result {
            Ok(value) => {
                self.commit().await?;
                Ok(value)
            }
            Err(error) => {
                self.rollback().await;
                Err(error)
            }
        }
    }

    async fn end(mut self, sql: &'static str) -> Result<(), SessionError> {
        let result = if self.is_begun {
            let lease = self.lease()?;
            self.await_result(lease, lease.client.batch_execute(sql)).await
        } else {
            Ok(())
        };
        if self.unanswered.load(Ordering::Relaxed) == 0 {
            // Returns the connection to the pool.
            drop(self.lease.take());
        }
        result
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        // A reused connection could deliver a late result or an open transaction to another request. Opening a new
        // one takes about a millisecond.
        let Some((connection, permit)) = self.lease.take().map(Lease::take) else { return };
        if self.unanswered.load(Ordering::Relaxed) == 0 || connection.client.is_closed() {
            return;
        }
        let tracker = connection.tracker.clone();
        // The server keeps running a statement until it has something to send to the closed connection.
        let Ok(runtime) = Handle::try_current() else { return };
        let cancel = async move {
            let _permit = permit;
            metrics::counter!("basalt_statements_cancelled_total").increment(1);
            let token = connection.client.cancel_token();
            let cancelled = token.cancel_query(connection.database.tls().clone());
            if let Ok(Err(error)) = tokio::time::timeout(CANCEL_LIMIT, cancelled).await {
                tracing::debug!(error = with_cause(&error), "cannot cancel a statement");
            }
        };
        tracker.spawn_on(cancel, &runtime);
    }
}
