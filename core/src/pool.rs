//! Connection pools. Each pooled connection carries its own bounded cache of prepared statements; nothing else is
//! kept in a session, so that any connection can serve any request.
//!
//! [`ServicePool`] is for services with a login of their own (auth as `supabase_auth_admin`) that need several
//! round trips in one transaction ([`ServicePool::begin`]), or none at all ([`ServicePool::autocommit`]). Work in a
//! caller's name goes through [`crate::session`] instead.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool::managed::{self, Object, PoolError, RecycleError, RecycleResult};
use lru::LruCache;
use metrics::Gauge;
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use crate::database::Database;
use crate::memory::AnswerMemory;
use crate::pg_error::DriverError;
use crate::session::SessionError;

/// Prepared statements kept per connection unless configured otherwise.
const STATEMENT_CACHE: NonZeroUsize = match NonZeroUsize::new(256) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};

/// How a pool behaves.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Name in metrics (`rest`, `auth`, `system`).
    pub name: &'static str,
    /// Connections at most.
    pub size: usize,
    /// How long a request waits for a free connection.
    pub acquire_timeout: Duration,
    /// Prepared statements kept per connection; the least recently used is closed first.
    pub statement_cache: NonZeroUsize,
    /// Bytes one row of an answer may have; of request work only.
    pub row_bytes: usize,
    /// Where answers of request work are counted; `None` takes whatever comes.
    pub answers: Option<AnswerMemory>,
    /// A connection older than this is replaced when it is next taken (memory of its backend's caches).
    pub max_lifetime: Duration,
    /// A connection that nobody used for this long is closed when the pool is next asked for one; `None` keeps it.
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
            statement_cache: STATEMENT_CACHE,
            // PostgreSQL builds no larger value.
            row_bytes: 1 << 30,
            answers: None,
            max_lifetime: Duration::from_secs(1800),
            idle_timeout: None,
        }
    }
}

/// One pooled connection of a service's own login.
pub(crate) struct PooledConnection {
    client: Client,
    /// Held for a look-up or an insert only, never across an await.
    statements: Mutex<LruCache<Arc<str>, Statement>>,
}

impl PooledConnection {
    async fn prepared(&self, text: &str) -> Result<Statement, DriverError> {
        if let Some(statement) = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        let kept = statement.clone();
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).put(Arc::from(text), kept);
        Ok(statement)
    }
}

pub(crate) struct Manager {
    database: Database,
    statement_cache: NonZeroUsize,
    max_lifetime: Duration,
}

impl managed::Manager for Manager {
    type Type = PooledConnection;
    type Error = DriverError;

    async fn create(&self) -> Result<PooledConnection, DriverError> {
        let client = self.database.connect().await?;
        Ok(PooledConnection { client, statements: Mutex::new(LruCache::new(self.statement_cache)) })
    }

    async fn recycle(
        &self,
        connection: &mut PooledConnection,
        metrics: &managed::Metrics,
    ) -> RecycleResult<DriverError> {
        // State lives in transactions only, so an open link is all that is asked of a connection.
        if connection.client.is_closed() {
            return Err(RecycleError::message("closed"));
        }
        if metrics.age() > self.max_lifetime {
            return Err(RecycleError::message("old"));
        }
        Ok(())
    }
}

/// A pool of connections of one login.
pub(crate) struct Pool<M: managed::Manager> {
    inner: managed::Pool<M>,
    config: PoolConfig,
    /// When idle connections were last looked for; never held across an await.
    looked_for_idle: Mutex<Instant>,
    // Looked up once: by name and label that costs as much as a small statement.
    connections: Gauge,
    available: Gauge,
}

impl<M: managed::Manager<Error = DriverError>> Pool<M> {
    pub(crate) fn new(manager: M, config: PoolConfig) -> Self {
        let inner = managed::Pool::builder(manager)
            .max_size(config.size.max(1))
            .runtime(deadpool::Runtime::Tokio1)
            // The connection used last: its backend's caches are warm, and a quiet server uses few of them.
            .queue_mode(managed::QueueMode::Lifo)
            .build()
            .unwrap_or_else(|error| unreachable!("the pool has a runtime: {error}"));
        metrics::gauge!("basalt_pool_connections_limit", "pool" => config.name).set(config.size as f64);
        Self {
            inner,
            connections: metrics::gauge!("basalt_pool_connections", "pool" => config.name),
            available: metrics::gauge!("basalt_pool_available", "pool" => config.name),
            looked_for_idle: Mutex::new(Instant::now()),
            config,
        }
    }

    /// A connection, waited for until the acquire timeout or `deadline`, whichever is first.
    pub(crate) async fn acquire(&self, deadline: Instant) -> Result<Object<M>, SessionError> {
        self.close_idle();
        let limit = deadline.min(Instant::now() + self.config.acquire_timeout);
        let taken = tokio::time::timeout_at(limit, self.take()).await;
        let status = self.inner.status();
        self.connections.set(status.size as f64);
        self.available.set(status.available as f64);
        match taken {
            Ok(Ok(lease)) => Ok(lease),
            Ok(Err(PoolError::Backend(error))) => Err(SessionError::unreachable(error)),
            Ok(Err(error)) => Err(SessionError::Unreachable(error.to_string())),
            Err(_elapsed) => {
                metrics::counter!("basalt_pool_timeouts_total", "pool" => self.config.name).increment(1);
                Err(SessionError::PoolTimeout)
            }
        }
    }

    /// A connection. Where the server has no room for another one (`53300`), one of those that there are, in its turn: a
    /// pool that is larger than the server allows for works as a smaller one.
    async fn take(&self) -> Result<Object<M>, PoolError<DriverError>> {
        const PAUSE: Duration = Duration::from_millis(25);
        loop {
            #[expect(clippy::disallowed_methods, reason = "the one place that takes connections")]
            let taken = self.inner.get().await;
            match taken {
                Err(PoolError::Backend(DriverError::Postgres(error)))
                    if error.code == "53300" && self.inner.status().size > 0 => {}
                taken => return taken,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn close_idle(&self) {
        const INTERVAL: Duration = Duration::from_secs(5);
        let Some(limit) = self.config.idle_timeout else { return };
        let Ok(mut looked) = self.looked_for_idle.try_lock() else { return };
        if looked.elapsed() < INTERVAL.min(limit) {
            return;
        }
        *looked = Instant::now();
        drop(looked);
        self.inner.retain(|_, metrics| metrics.last_used() < limit);
    }

    /// Closes the connections that nobody has taken, so that the next ones are new.
    pub(crate) fn close_unused(&self) {
        self.inner.retain(|_, _| false);
    }

    /// Refuses new leases and lets idle connections go.
    pub(crate) fn close(&self) {
        self.inner.close();
    }
}

/// A pool for a service's own login. Cheap to clone.
#[derive(Clone)]
pub struct ServicePool {
    pool: Arc<Pool<Manager>>,
}

type Lease = Object<Manager>;

impl ServicePool {
    /// A pool of `database`'s login; connections are made when first needed.
    #[must_use]
    pub fn new(database: Database, config: PoolConfig) -> Self {
        let (statement_cache, max_lifetime) = (config.statement_cache, config.max_lifetime);
        Self { pool: Arc::new(Pool::new(Manager { database, statement_cache, max_lifetime }, config)) }
    }

    /// Begins a transaction (read committed, read write). Its statements are answered before `deadline` or fail.
    ///
    /// # Errors
    /// No connection in time, or none to be had.
    pub async fn begin(&self, deadline: Instant) -> Result<Tx, SessionError> {
        let mut retried = false;
        loop {
            let lease = self.pool.acquire(deadline).await?;
            match within(deadline, lease.client.batch_execute("BEGIN")).await {
                Ok(()) => return Ok(Tx::new(lease, deadline, true)),
                // The connection died while idle: nothing was asked of it yet, another one may live.
                Err(SessionError::Unavailable(_)) if !retried => retried = true,
                Err(SessionError::Postgres(error)) if error.is_fatal && !retried => retried = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// A connection on which each statement is a transaction of its own: neither BEGIN nor COMMIT costs a round trip.
    /// For reads that need no common snapshot, and for changes that are one statement.
    ///
    /// A connection that died while idle fails its first statement, where [`ServicePool::begin`] would take another:
    /// only what may be repeated should be asked here.
    ///
    /// # Errors
    /// No connection became free before `deadline`, or none could be opened.
    pub async fn autocommit(&self, deadline: Instant) -> Result<Tx, SessionError> {
        Ok(Tx::new(self.pool.acquire(deadline).await?, deadline, false))
    }

    /// Refuses new transactions and closes idle connections; for shutdown.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Closes the connections that are not in use: where the route to the database was lost, they lead nowhere.
    pub fn close_unused(&self) {
        self.pool.close_unused();
    }
}

/// A transaction of a [`ServicePool`]. Dropped without [`Tx::commit`] it is rolled back, and so is a transaction
/// whose statement was left running: its connection is closed rather than reused.
pub struct Tx {
    lease: Option<Lease>,
    deadline: Instant,
    /// BEGIN was sent; otherwise each statement stands alone.
    is_begun: bool,
    /// A statement failed. COMMIT would then answer ROLLBACK without an error, a tag the driver does not show.
    failed: AtomicBool,
}

impl Tx {
    const fn new(lease: Lease, deadline: Instant, is_begun: bool) -> Self {
        Self { lease: Some(lease), deadline, is_begun, failed: AtomicBool::new(false) }
    }

    fn lease(&self) -> Result<&Lease, SessionError> {
        self.lease.as_ref().ok_or_else(|| SessionError::Unavailable("the transaction has ended".to_owned()))
    }

    async fn statement(&self, lease: &Lease, sql: &str) -> Result<Statement, SessionError> {
        let prepared = tokio::time::timeout_at(self.deadline, lease.prepared(sql)).await;
        self.noting_failure(
            prepared.map_or(Err(SessionError::Deadline), |result| result.map_err(SessionError::from)),
        )
    }

    fn noting_failure<T>(&self, result: Result<T, SessionError>) -> Result<T, SessionError> {
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Runs a statement and returns its rows. Statements are prepared once per connection.
    ///
    /// # Errors
    /// PostgreSQL's error, a broken connection, or the deadline.
    pub async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, SessionError> {
        let lease = self.lease()?;
        let statement = self.statement(lease, sql).await?;
        self.noting_failure(within(self.deadline, lease.client.query(&statement, params)).await)
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
        let statement = self.statement(lease, sql).await?;
        self.noting_failure(within(self.deadline, lease.client.execute(&statement, params)).await)
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

    /// Gives the changes up and the connection back. Dropping does the same at the price of the connection.
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
        let Some(lease) = self.lease.take() else { return Ok(()) };
        if !self.is_begun {
            // A statement that reached the deadline may still be running.
            if Instant::now() >= self.deadline {
                drop(Object::take(lease));
            }
            return Ok(());
        }
        let result = within(self.deadline, lease.client.batch_execute(sql)).await;
        if matches!(result, Err(SessionError::Deadline)) {
            drop(Object::take(lease));
        }
        result
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // A statement may still be running (the caller was dropped in the middle of one): only a closed
            // connection is certain not to hand its answer to somebody else. A new one costs about a millisecond.
            drop(Object::take(lease));
        }
    }
}

async fn within<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, SessionError> {
    match tokio::time::timeout_at(deadline, work).await {
        Ok(result) => result.map_err(|error| SessionError::from(DriverError::from(error))),
        Err(_elapsed) => Err(SessionError::Deadline),
    }
}
