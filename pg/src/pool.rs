//! Connection pools. Each pooled connection has its own bounded cache of prepared statements; nothing else is kept in a
//! session, so that any connection can serve any request.
//!
//! [`ServicePool`] is for services with a login of their own (auth as `supabase_auth_admin`) that need several
//! round trips in one transaction ([`ServicePool::begin`]), or none at all ([`ServicePool::autocommit`]). Work in a
//! caller's name goes through [`crate::session`] instead.

mod lease;
mod reach;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use basalt_core::error::with_cause;
use basalt_core::identity::Identity;
use basalt_core::memory::AnswerMemory;
use deadpool::managed::{self, RecycleError, RecycleResult};
use futures_util::future::BoxFuture;
use lru::LruCache;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use tokio_util::task::TaskTracker;

use crate::database::Database;
use crate::error::SessionError;
use crate::pg_error::DriverError;
pub(crate) use lease::{Lease, Pool};

/// Prepared statements kept per connection unless configured otherwise.
const STATEMENT_CACHE: usize = 256;

/// How a pool behaves.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Name in metrics (`rest`, `auth`, `system`).
    pub name: &'static str,
    /// Connections at most.
    pub size: usize,
    /// How long a request waits for a free connection.
    pub acquire_timeout: Duration,
    /// Requests of one client that may wait for a connection; more are refused. `None` sets no limit.
    pub waiting_per_client: Option<usize>,
    /// Whether connections stay free for clients that use few ([`basalt_core::fair_share`]): where a client can make statements slow.
    pub keeps_headroom: bool,
    /// Connections that one client holds at most while it floods the pool and others use it ([`basalt_core::fair_share`]).
    pub flood_share: Option<usize>,
    /// Prepared statements kept per connection; the least recently used is closed first. With 0, request work prepares
    /// none and other work keeps one.
    pub statement_cache: usize,
    /// Bytes one row of an answer may have; of request work only.
    pub row_bytes: usize,
    /// Where answers of request work are counted; `None` sets no limit.
    pub answers: Option<AnswerMemory>,
    /// Limits the memory of the backends of request work.
    pub backend_limit: Option<BackendLimit>,
    /// A connection older than this is replaced when it is next taken (memory of its backend's caches).
    pub max_lifetime: Duration,
    /// A connection that was not used for this long is closed at the next request for one; `None` keeps it.
    pub idle_timeout: Option<Duration>,
}

impl PoolConfig {
    /// Usual values: ten seconds to acquire, 256 statements, thirty minutes (rest.md §4.5).
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
            // PostgreSQL builds no larger value.
            row_bytes: 1 << 30,
            answers: None,
            backend_limit: None,
            max_lifetime: Duration::from_secs(1800),
            idle_timeout: None,
        }
    }
}

/// Limits what a backend may take by what it is sent (docs/decisions/0051).
#[derive(Clone)]
pub struct BackendLimit {
    /// With the limit that each new backend gets, it takes this many bytes of values.
    pub usual_bytes: usize,
    /// Gets a backend's process id and how many bytes of values it is to take; the first time with `usual_bytes`.
    pub set: Arc<dyn Fn(i32, usize) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl fmt::Debug for BackendLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendLimit").field("usual_bytes", &self.usual_bytes).finish_non_exhaustive()
    }
}

/// How long an abandoned statement may take to end once it was cancelled. Until then it keeps its permit: otherwise requests
/// would start ever more backends on a server whose tables are locked.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// One pooled connection of a service's own login.
pub(crate) struct PooledConnection {
    client: Client,
    database: Database,
    tracker: TaskTracker,
    /// Held for a look-up or an insert only, never across an await.
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

    fn statements(&self) -> std::sync::MutexGuard<'_, LruCache<Arc<str>, Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
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
        // State lives in transactions only, so a connection is usable while its link is open.
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
    /// A pool of `database`'s login; connections are made when first needed. `tracker` knows of every statement that is
    /// being cancelled, so that a shutdown can wait for them.
    #[must_use]
    pub fn new(database: Database, config: PoolConfig, tracker: TaskTracker) -> Self {
        let (statement_cache, max_lifetime) = (config.statement_cache, config.max_lifetime);
        let manager = Manager { database, statement_cache, max_lifetime, tracker };
        Self { pool: Arc::new(Pool::new(manager, config)) }
    }

    /// Begins a transaction of the server's own, as [`ServicePool::begin_for`].
    ///
    /// # Errors
    /// As [`ServicePool::begin_for`].
    pub async fn begin(&self, deadline: Instant) -> Result<Tx, SessionError> {
        self.begin_for(Identity::SERVER, deadline).await
    }

    /// Begins a transaction (read committed, read write) on behalf of a client. Its statements are answered before `deadline`
    /// or fail.
    ///
    /// # Errors
    /// No connection in time, too many requests of this client wait for one, or none could be opened.
    pub async fn begin_for(&self, identity: Identity, deadline: Instant) -> Result<Tx, SessionError> {
        let mut retried = false;
        loop {
            // Before BEGIN: dropping `tx` closes a connection that may have begun a transaction.
            let tx = Tx::new(self.pool.acquire(identity, deadline).await?, deadline, true);
            let lease = tx.lease()?;
            match tx.answer(lease, lease.client.batch_execute("BEGIN")).await {
                Ok(()) => return Ok(tx),
                // The connection died while idle: no statement has run, and another connection may be alive.
                Err(SessionError::Unavailable(_)) if !retried => retried = true,
                Err(SessionError::Postgres(error)) if error.is_fatal && !retried => retried = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// A connection for work of the server's own, as [`ServicePool::autocommit_for`].
    ///
    /// # Errors
    /// As [`ServicePool::autocommit_for`].
    pub async fn autocommit(&self, deadline: Instant) -> Result<Tx, SessionError> {
        self.autocommit_for(Identity::SERVER, deadline).await
    }

    /// A connection on which each statement is a transaction of its own: neither BEGIN nor COMMIT costs a round trip.
    /// For reads that need no common snapshot, and for changes that are one statement.
    ///
    /// A connection that died while idle fails its first statement, where [`ServicePool::begin_for`] would take another:
    /// only what may be repeated should be asked here.
    ///
    /// # Errors
    /// As [`ServicePool::begin_for`].
    pub async fn autocommit_for(&self, identity: Identity, deadline: Instant) -> Result<Tx, SessionError> {
        Ok(Tx::new(self.pool.acquire(identity, deadline).await?, deadline, false))
    }

    /// Refuses new transactions and closes idle connections; for shutdown.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Closes the connections that are not in use: they are dead where the route to the database was lost.
    pub fn close_unused(&self) {
        self.pool.close_unused();
    }

    /// Whether the login reaches its database, as of a second ago at most. The database gets one empty statement a second at
    /// most, however often this is called.
    pub async fn is_reachable(&self) -> bool {
        let ask = async |lease, deadline| {
            let tx = Tx::new(lease, deadline, false);
            let lease = tx.lease()?;
            tx.answer(lease, lease.client.batch_execute("")).await?;
            tx.commit().await
        };
        self.pool.is_reachable(ask).await
    }

    /// Sets the gauges of the pool; called before metrics are shown.
    pub fn report(&self) {
        self.pool.report();
    }
}

/// A transaction of a [`ServicePool`]. Dropped without [`Tx::commit`] it is rolled back, and so is a transaction
/// whose statement was left running: its connection is closed rather than reused.
pub struct Tx {
    lease: Option<Lease<Manager>>,
    deadline: Instant,
    /// BEGIN was sent; otherwise each statement stands alone.
    is_begun: bool,
    /// A statement failed. COMMIT would then answer ROLLBACK without an error, a tag the driver does not show.
    failed: AtomicBool,
    /// Statements that were sent and are not answered yet.
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
    async fn answer<T>(
        &self,
        lease: &Lease<Manager>,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, SessionError> {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let answered = tokio::time::timeout_at(self.deadline, work).await;
        // Not reached when this future is dropped: then the statement stays unanswered.
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
                // Prepared before the tables changed: it would fail for as long as the connection lives.
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
        let statement = self.answer(lease, lease.prepared(sql)).await?;
        self.answer(lease, lease.client.query(&statement, params)).await
    }

    /// The first row, if any.
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

    /// The first row.
    ///
    /// # Errors
    /// As [`Tx::query`]; no row is [`SessionError::Unavailable`], because the statement promised one.
    pub async fn query_one(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, SessionError> {
        self.query_opt(sql, params).await?.ok_or_else(|| {
            SessionError::Unavailable("a statement that always gives a row gave none".to_owned())
        })
    }

    /// Runs a statement and returns the number of rows it touched.
    ///
    /// # Errors
    /// As [`Tx::query`].
    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, SessionError> {
        let lease = self.lease()?;
        let statement = self.answer(lease, lease.prepared(sql)).await?;
        self.answer(lease, lease.client.execute(&statement, params)).await
    }

    /// Makes the transaction's changes durable.
    ///
    /// # Errors
    /// A statement of it failed earlier, a deferred constraint failed, or the answer did not arrive: then it is
    /// unknown whether they are.
    pub async fn commit(self) -> Result<(), SessionError> {
        if self.is_begun && self.failed.load(Ordering::Relaxed) {
            self.rollback().await;
            return Err(SessionError::Unavailable("the transaction had failed before COMMIT".to_owned()));
        }
        self.end("COMMIT").await
    }

    /// Undoes the changes and returns the connection to the pool. Dropping also undoes them but closes the connection.
    pub async fn rollback(self) {
        // A failed ROLLBACK has closed the connection, which rolls back as well.
        let _gone = self.end("ROLLBACK").await;
    }

    /// Commits after success; after failure rolls back, which keeps the connection where dropping would close it.
    ///
    /// # Errors
    /// `result`'s, or as [`Tx::commit`].
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
            self.answer(lease, lease.client.batch_execute(sql)).await
        } else {
            Ok(())
        };
        if self.unanswered.load(Ordering::Relaxed) == 0 {
            // Back to the pool.
            drop(self.lease.take());
        }
        result
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        // Reused, the connection could hand a late answer or an open transaction to another request. A new one costs about a
        // millisecond.
        let Some((connection, permit)) = self.lease.take().map(Lease::take) else { return };
        if self.unanswered.load(Ordering::Relaxed) == 0 || connection.client.is_closed() {
            return;
        }
        let tracker = connection.tracker.clone();
        // The server goes on with a statement until it has something to send to the closed connection.
        let Ok(runtime) = Handle::try_current() else { return };
        let cancel = async move {
            let _permit = permit;
            metrics::counter!("basalt_statements_cancelled_total").increment(1);
            let token = connection.client.cancel_token();
            let asked = token.cancel_query(connection.database.tls().clone());
            if let Ok(Err(error)) = tokio::time::timeout(CANCEL_LIMIT, asked).await {
                tracing::debug!(error = with_cause(&error), "a statement could not be cancelled");
            }
        };
        tracker.spawn_on(cancel, &runtime);
    }
}
