//! Role sessions: the only way request work reaches PostgreSQL.
//!
//! One request is one transaction and one flush: settings, statements and the transaction's end are written together,
//! followed by one Sync, by the small client in `crate::wire`; the request's own task reads the response. The
//! invariants (DESIGN §3):
//!
//! - The server skips everything after an error, so the first error is the only one. Nothing is committed unless the
//!   Sync completes without an error: deferred constraints fail there.
//! - BEGIN and COMMIT are sent only when the Sync alone is not enough: another isolation level, a rollback, or an end
//!   that depends on a check. A read-only transaction becomes one through its first setting.
//! - A statement that is not prepared yet is parsed in place, after the role is set: parsing checks USAGE on schemas,
//!   which the NOINHERIT login role lacks. This costs no round trip.
//! - A stale statement (`0A000`, `26000`) committed nothing: all connections prepare anew and the request is retried,
//!   a few times if the schema keeps changing. The same goes, after a short pause, for a request that met a catalog
//!   change in progress ([`PgError::met_changing_catalog`]) and for a read that PostgreSQL aborted because of a
//!   deadlock (`40P01`). The deadline does not move, and the caller sees nothing of the first attempt: only complete
//!   answers leave this module. Side effects outside the transaction (`nextval`) happen twice, as they do whenever a
//!   caller retries.
//! - A client that disconnects must not leave half an exchange in the pool: dropping the future hands connection and
//!   exchange to a task of the tracker. Reads are cancelled there; writes run to completion or to their deadline.
//! - After a cancel, the connection returns to the pool only if the cancel request's connection has closed and the
//!   server is ready again within a second. Otherwise it is discarded: a late cancel would hit the next request.
//! - No state of a request reaches the next one: the session is reset in the same write, at the end of the
//!   transaction for a read that cannot PREPARE, after it for everything else. A connection whose reset fails is
//!   closed.

mod attempt;
mod exchange;
mod retry;

use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use basalt_core::identity::Identity;
use basalt_core::memory::AnswerMemory;
use bytes::Bytes;
use deadpool::managed::{self, RecycleError, RecycleResult};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::database::Database;
pub use crate::error::SessionError;
use crate::pg_error::{DriverError, PgError};
use crate::pool::{BackendLimit, Lease, Pool, PoolConfig};
use crate::sql::{Param, Sql};
pub use crate::wire::{Column, Row};
use crate::wire::{Connection, Limits, StatementMetrics};
use attempt::Attempt;
use retry::{Failures, Retry};

/// A statement and its parameters.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Text with `$1…`; also the key under which it is prepared.
    pub text: Arc<str>,
    /// One value per placeholder.
    pub params: Vec<Param>,
}

impl From<Sql> for Statement {
    fn from(sql: Sql) -> Self {
        let (text, params) = sql.render();
        Self { text: text.into(), params }
    }
}

/// Whether a transaction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `READ ONLY`; cancelled when the client leaves.
    ReadOnly,
    /// `READ WRITE`; runs to its end when the client leaves.
    ReadWrite,
}

/// Transaction isolation level. The default is PostgreSQL's, `READ COMMITTED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// `READ COMMITTED`, PostgreSQL's default.
    #[default]
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`.
    Serializable,
}

/// How a transaction runs: for whom, with which rights and settings, and for how long.
#[derive(Clone)]
pub struct Scope {
    /// Whose share of the connections the transaction takes.
    pub identity: Identity,
    /// Whether the transaction may write.
    pub access: Access,
    /// Isolation level, sent only if it is not the default.
    pub isolation: Isolation,
    /// Transaction-local settings, applied in this order by one statement. They include `role` and `search_path`.
    pub settings: Vec<(Cow<'static, str>, String)>,
    /// Whether the statements run code that may PREPARE: a function the caller names, or one in a policy, a view or a
    /// trigger.
    pub may_prepare: bool,
    /// Whether the statements use savepoints, which PostgreSQL allows only between BEGIN and COMMIT.
    pub savepoints: bool,
    /// Whether the backend's memory limit may be raised for large parameters (docs/decisions/0051).
    pub room_for_values: bool,
    /// When the transaction is cancelled.
    pub deadline: Instant,
}

impl fmt::Debug for Scope {
    /// Omits the values of settings: they include claims and headers, with the bearer token, which must not reach a
    /// log (STYLE 7.6).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            identity,
            access,
            isolation,
            settings,
            may_prepare,
            savepoints,
            room_for_values,
            deadline,
        } = self;
        let names: Vec<&str> = settings.iter().map(|(name, _)| name.as_ref()).collect();
        let mut scope = f.debug_struct("Scope");
        scope.field("identity", identity).field("access", access).field("isolation", isolation);
        scope
            .field("settings", &names)
            .field("may_prepare", may_prepare)
            .field("savepoints", savepoints)
            .field("room_for_values", room_for_values)
            .field("deadline", deadline)
            .finish()
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Commits the transaction.
    Commit,
    /// Rolls the transaction back.
    Rollback,
    /// Checks deferred constraints, then rolls back: a violation is an error, as it is at COMMIT.
    RollbackChecked,
}

/// The rows of each statement, in statement order.
pub type Answers = Vec<Vec<Row>>;

/// The result of [`Sessions::run_until_error`]: the answers of the statements before the first error, and that error.
#[derive(Debug, Default)]
pub struct Partial {
    /// The rows of each statement that succeeded.
    pub answers: Answers,
    /// Why the next statement failed. If set, nothing was committed.
    pub failure: Option<Box<PgError>>,
}

type Check = Box<dyn FnOnce(&[Vec<Row>]) -> End + Send>;

struct Work {
    scope: Scope,
    scope_key: u64,
    steps: Vec<Statement>,
    end: End,
    check: Option<Check>,
    /// Receives the answers of a transaction that fails.
    kept: Option<Arc<Mutex<Answers>>>,
}

struct Manager {
    database: Database,
    limits: Limits,
    backend_limit: Option<BackendLimit>,
    max_lifetime: Duration,
}

impl managed::Manager for Manager {
    // Boxed because the pool moves it about a dozen times per lease.
    type Type = Box<Connection>;
    type Error = DriverError;

    async fn create(&self) -> Result<Box<Connection>, DriverError> {
        let mut connection = Box::new(Connection::open(&self.database, &self.limits).await?);
        if let Some(limit) = &self.backend_limit {
            (limit.set)(connection.backend().await?, limit.usual_bytes).await;
        }
        Ok(connection)
    }

    async fn recycle(
        &self,
        connection: &mut Box<Connection>,
        metrics: &managed::Metrics,
    ) -> RecycleResult<DriverError> {
        if !connection.is_alive() {
            return Err(RecycleError::message("closed"));
        }
        if metrics.age() > self.max_lifetime {
            return Err(RecycleError::message("old"));
        }
        // Usually complete by now. Sending without waiting would run a request in a session whose reset failed.
        if !connection.wait_for_reset().await {
            return Err(RecycleError::message("not reset"));
        }
        if !connection.has_login().await {
            return Err(RecycleError::message("its login was dropped"));
        }
        Ok(())
    }
}

/// The connection pool of the login that assumes callers' roles. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Pool<Manager>,
    answers: Option<AnswerMemory>,
    backend_limit: Option<BackendLimit>,
    description: String,
    tracker: TaskTracker,
    hasher: std::hash::RandomState,
    /// Incremented when the schema changes: statements prepared in an earlier epoch are not reused.
    epoch: AtomicU64,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.shared.description)
    }
}

impl Sessions {
    /// Sessions of `database`'s login (`authenticator`). `tracker` tracks every exchange with the database, so that a
    /// shutdown can wait for them.
    #[must_use]
    pub fn new(database: Database, config: PoolConfig, tracker: TaskTracker) -> Self {
        let description = database.describe();
        let limit = |name: &'static str, limit: usize| {
            metrics::gauge!(name, "pool" => config.name).set(limit as f64);
        };
        limit("basalt_pool_statements_limit", config.statement_cache);
        limit("basalt_pool_row_bytes_limit", config.row_bytes);
        let limits = Limits {
            statements: config.statement_cache,
            statement_metrics: StatementMetrics::new(config.name),
            message_bytes: config.row_bytes,
            answers: config.answers.clone(),
        };
        let answers = config.answers.clone();
        let backend_limit = config.backend_limit.clone();
        let max_lifetime = config.max_lifetime;
        let manager = Manager { database, limits, backend_limit: backend_limit.clone(), max_lifetime };
        let pool = Pool::new(manager, config);
        Self {
            shared: Arc::new(Shared {
                pool,
                answers,
                backend_limit,
                description,
                tracker,
                hasher: std::hash::RandomState::new(),
                epoch: AtomicU64::new(0),
            }),
        }
    }

    /// Charges an answer that was built elsewhere to the budget for database answers, until its last clone is
    /// dropped.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub fn count_answer(&self, answer: Bytes) -> Result<Bytes, SessionError> {
        match &self.shared.answers {
            Some(memory) => {
                memory.keep(answer).ok_or_else(|| SessionError::Postgres(Box::new(PgError::busy())))
            }
            None => Ok(answer),
        }
    }

    /// Runs `steps` in one transaction under `scope` and commits.
    ///
    /// Dropping the returned future cancels a read. A write runs to completion, unless it was still waiting for a
    /// connection.
    ///
    /// # Errors
    /// The first error of BEGIN, the settings, the steps or COMMIT; no connection; or the deadline. In all cases
    /// nothing was committed, except where [`SessionError::Unavailable`] and [`SessionError::Deadline`] document that
    /// it is unknown.
    pub async fn run(&self, scope: Scope, steps: Vec<Statement>) -> Result<Answers, SessionError> {
        self.perform(scope, steps, End::Commit, None, None).await
    }

    /// Like [`Sessions::run`], for reads: an error of a statement does not discard the answers of the statements
    /// before it.
    ///
    /// # Errors
    /// Those of [`Sessions::run`] that do not concern a single statement: PostgreSQL is unreachable, or the deadline
    /// has passed.
    pub async fn run_until_error(
        &self,
        scope: Scope,
        steps: Vec<Statement>,
    ) -> Result<Partial, SessionError> {
        let kept = Arc::new(Mutex::new(Answers::new()));
        let outcome = self.perform(scope, steps, End::Commit, None, Some(Arc::clone(&kept))).await;
        match outcome {
            Ok(answers) => Ok(Partial { answers, failure: None }),
            Err(SessionError::Postgres(error)) if !error.is_fatal && !error.is_unavailable() => {
                let answers = std::mem::take(&mut *kept.lock());
                Ok(Partial { answers, failure: Some(error) })
            }
            Err(error) => Err(error),
        }
    }

    /// Like [`Sessions::run`], but always rolls back.
    ///
    /// # Errors
    /// Those of [`Sessions::run`].
    pub async fn run_rolled_back(
        &self,
        scope: Scope,
        steps: Vec<Statement>,
    ) -> Result<Answers, SessionError> {
        self.perform(scope, steps, End::Rollback, None, None).await
    }

    /// Runs `steps`, passes their rows to `check` and ends the transaction as it decides. Waiting for the check costs
    /// a second round trip.
    ///
    /// # Errors
    /// Those of [`Sessions::run`].
    pub async fn run_checked<F>(
        &self,
        scope: Scope,
        steps: Vec<Statement>,
        check: F,
    ) -> Result<Answers, SessionError>
    where
        F: FnOnce(&[Vec<Row>]) -> End + Send + 'static,
    {
        self.perform(scope, steps, End::Commit, Some(Box::new(check)), None).await
    }

    /// Rejects new work and closes idle connections; for shutdown.
    pub fn close(&self) {
        self.shared.pool.close();
    }

    /// Closes the connections that are not in use. When the route to the database is lost, a request on such a
    /// connection would wait for its deadline.
    pub fn close_unused(&self) {
        self.shared.pool.close_unused();
    }

    /// Whether the login can reach its database. The result is at most one second old: the database receives at most
    /// one Sync per second, however often this is called.
    pub async fn is_reachable(&self) -> bool {
        let probe = async |lease, deadline| {
            let scope = Scope {
                identity: Identity::SERVER,
                access: Access::ReadWrite,
                isolation: Isolation::default(),
                settings: Vec::new(),
                may_prepare: false,
                savepoints: false,
                room_for_values: false,
                deadline,
            };
            let work =
                Work { scope, scope_key: 0, steps: Vec::new(), end: End::Commit, check: None, kept: None };
            Attempt::new(lease, work, &self.shared.tracker).run().await.map(drop)
        };
        self.shared.pool.is_reachable(probe).await
    }

    /// Updates the pool's gauges; called before each metrics scrape.
    pub fn report(&self) {
        self.shared.pool.report();
    }

    /// `host:port/database`, for messages; no credentials.
    #[must_use]
    pub fn describe(&self) -> String {
        self.shared.description.clone()
    }

    /// Acquires a connection and runs the exchange on it, repeatedly if a retry is known to be safe.
    async fn perform(
        &self,
        scope: Scope,
        steps: Vec<Statement>,
        end: End,
        check: Option<Check>,
        kept: Option<Arc<Mutex<Answers>>>,
    ) -> Result<Answers, SessionError> {
        let (deadline, access, identity) = (scope.deadline, scope.access, scope.identity);
        let scope_key = self.scope_key(&scope);
        let bytes = if scope.room_for_values { value_bytes(&steps) } else { 0 };
        let mut work = Work { scope, scope_key, steps, end, check, kept };
        let mut failures = Failures::default();
        loop {
            let mut lease = self.shared.pool.acquire(identity, deadline).await?;
            lease.enter_epoch(self.shared.epoch.load(Ordering::Relaxed));
            self.make_room(&mut lease, bytes, deadline).await;
            let mut attempt = Attempt::new(lease, work, &self.shared.tracker);
            let failure = match attempt.run().await {
                Ok(answers) => return Ok(answers),
                Err(failure) => failure,
            };
            // `None` if the exchange did not complete, or if its check has run.
            let returned = attempt.into_work();
            let retry = if returned.is_some() { failures.note(&failure, access) } else { None };
            let may_repeat = match retry {
                None => false,
                Some(Retry::Connection | Retry::Deadlock | Retry::Login) => true,
                Some(Retry::Stale) => {
                    // Other connections may have prepared the statement before the change, too.
                    self.shared.epoch.fetch_add(1, Ordering::Relaxed);
                    true
                }
                // This connection has already dropped the statement. Callers can provoke this error with object ids
                // of their own choice, so the other connections keep theirs.
                Some(Retry::Catalog(pause)) => pause_until(deadline, pause).await,
            };
            match returned {
                Some(returned) if may_repeat => {
                    let reason = retry.map_or("", Retry::label);
                    // Rare enough to look the counter up each time.
                    metrics::counter!("basalt_transactions_repeated_total", "reason" => reason).increment(1);
                    work = returned;
                }
                _ if access == Access::ReadWrite
                    && self.is_refused_by_standby(&failure, identity, deadline).await =>
                {
                    // By now the address may resolve to the primary.
                    self.shared.pool.close_unused();
                    let text = "the server is a standby and accepts no writes";
                    return Err(SessionError::Unreachable(text.to_owned()));
                }
                _ => return Err(failure.into_connection_error()),
            }
        }
    }

    /// Raises the backend's memory limit if it is about to receive more than the usual number of value bytes. The
    /// backend is retired: no other request gets it, and the memory it retains is freed with it.
    async fn make_room(&self, lease: &mut Lease<Manager>, bytes: usize, deadline: Instant) {
        let Some(limit) = &self.shared.backend_limit else { return };
        if bytes <= limit.usual_bytes {
            return;
        }
        // Retired first: the client may disconnect during the await.
        if let Some(backend) = lease.retire() {
            let _elapsed = tokio::time::timeout_at(deadline, (limit.set)(backend, bytes)).await;
        }
    }

    /// Whether a write failed because the server is a standby, which is an outage rather than the client's mistake.
    /// Functions can raise these error codes themselves, so the server is queried.
    async fn is_refused_by_standby(
        &self,
        failure: &SessionError,
        identity: Identity,
        deadline: Instant,
    ) -> bool {
        let is_suspect = matches!(failure, SessionError::Postgres(error) if matches!(error.code.as_str(), "25006" | "0A000"));
        if !is_suspect {
            return false;
        }
        let scope = Scope {
            identity,
            access: Access::ReadOnly,
            isolation: Isolation::default(),
            settings: Vec::new(),
            may_prepare: false,
            savepoints: false,
            room_for_values: false,
            deadline,
        };
        let text = Arc::from("select pg_catalog.pg_is_in_recovery()");
        let steps = vec![Statement { text, params: Vec::new() }];
        let work = Work { scope, scope_key: 0, steps, end: End::Commit, check: None, kept: None };
        let Ok(lease) = self.shared.pool.acquire(identity, deadline).await else { return false };
        let answers = Attempt::new(lease, work, &self.shared.tracker).run().await.unwrap_or_default();
        answers.first().and_then(|rows| rows.first()?.text(0)) == Some("t")
    }

    /// Prepared statements are cached per role and search path.
    fn scope_key(&self, scope: &Scope) -> u64 {
        let mut key = 0_u64;
        for (name, value) in &scope.settings {
            if matches!(name.as_ref(), "role" | "search_path") {
                key = key.rotate_left(1) ^ self.shared.hasher.hash_one((name, value));
            }
        }
        key
    }
}

fn value_bytes(steps: &[Statement]) -> usize {
    let values = steps.iter().flat_map(|step| &step.params).filter_map(|param| param.0.as_ref());
    values.map(Bytes::len).sum()
}

/// Sleeps for `pause`, unless that would exceed `deadline`; returns whether it slept.
async fn pause_until(deadline: Instant, pause: Duration) -> bool {
    let end = Instant::now() + pause;
    if end >= deadline {
        return false;
    }
    tokio::time::sleep_until(end).await;
    true
}
