//! Role sessions: the only way to PostgreSQL for request work.
//!
//! One request is one transaction and one flush: settings, statements and end are written together, with one Sync, by
//! the small client in `crate::wire`, and the answer is read in the request's own task. What keeps that honest
//! (DESIGN §3):
//!
//! - The server skips what follows an error, so the first error is the only one. Nothing is committed unless the Sync
//!   comes back without one: deferred constraints fail there.
//! - BEGIN and COMMIT are sent only where they say more than the Sync does: another isolation level, a rollback, or an
//!   end that waits for a check. A read-only transaction becomes one by its first setting.
//! - A statement that is not prepared yet is parsed where it stands: after the role is set, because parsing checks USAGE
//!   on schemas, which the NOINHERIT login role lacks. It costs no round trip.
//! - A stale statement (`0A000`, `26000`) committed nothing: all connections prepare anew, and the request runs once more;
//!   a few times more, should the schema go on changing. So does one that met the catalog between two states
//!   ([`PgError::met_changing_catalog`]), after a moment, and a read that PostgreSQL ended for a deadlock (`40P01`). Its
//!   deadline stays what it was, and the caller has seen nothing of the first try: answers leave this module whole.
//!   What a function did outside of its transaction (`nextval`) is done twice, as it is whenever a caller tries again.
//! - A client that leaves must not drop half an exchange into the pool: dropping the future hands connection and
//!   exchange to a task of the tracker. Reads are cancelled there; writes run to their end, or to their deadline.
//! - After a cancel the connection goes back only when the cancel request's connection has closed and the server was
//!   ready again, within a second; else it is discarded: a late cancel would strike the next request.
//! - Nothing of a request is there for the next: the session is reset, in the same write; at the end of the transaction of a read
//!   that cannot PREPARE, behind every other one. A connection whose reset fails is closed.

mod attempt;
mod exchange;
mod retry;

use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use basalt_core::identity::Identity;
use basalt_core::memory::AnswerMemory;
use bytes::Bytes;
use deadpool::managed::{self, RecycleError, RecycleResult};
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

/// A statement with its values.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Text with `$1…`; the key under which it is prepared.
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

/// Transaction isolation level.
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

/// What a transaction runs under.
#[derive(Clone)]
pub struct Scope {
    /// Whose share of the connections it takes.
    pub identity: Identity,
    /// Read or write.
    pub access: Access,
    /// Isolation level.
    pub isolation: Isolation,
    /// Settings, local to the transaction, set in this order by one statement. `role` is one of them; so is
    /// `search_path`.
    pub settings: Vec<(Cow<'static, str>, String)>,
    /// It runs code that may PREPARE: a function that the caller names, or one in a policy, a view or a trigger.
    pub may_prepare: bool,
    /// The statements use savepoints, which PostgreSQL has only between BEGIN and COMMIT.
    pub savepoints: bool,
    /// The backend may take more memory than usual where it is to take large values (docs/decisions/0051).
    pub room_for_values: bool,
    /// When the work is cancelled.
    pub deadline: Instant,
}

impl fmt::Debug for Scope {
    /// Claims and headers, the bearer among them, are values of settings: those never reach a log (STYLE 7.6).
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
    /// Make it durable.
    Commit,
    /// Undo it.
    Rollback,
    /// Undo it, once deferred constraints were looked at: what breaks one is an error, as at COMMIT.
    RollbackChecked,
}

/// One vector of rows per statement, in order.
pub type Answers = Vec<Vec<Row>>;

/// What [`Sessions::run_until_error`] got: the answers of the statements before the first error, and that error.
#[derive(Debug, Default)]
pub struct Partial {
    /// One vector of rows per statement that ran.
    pub answers: Answers,
    /// Why the next one did not. Nothing was committed then.
    pub failure: Option<Box<PgError>>,
}

type Check = Box<dyn FnOnce(&[Vec<Row>]) -> End + Send>;

struct Work {
    scope: Scope,
    scope_key: u64,
    steps: Vec<Statement>,
    end: End,
    check: Option<Check>,
    /// Gets the answers of a transaction that fails.
    kept: Option<Arc<Mutex<Answers>>>,
}

struct Manager {
    database: Database,
    limits: Limits,
    backend_limit: Option<BackendLimit>,
    max_lifetime: Duration,
}

impl managed::Manager for Manager {
    // Boxed: the pool moves it about a dozen times for each lease.
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
        // Usually over by now. Sending before would run a request in a session whose reset fails.
        if !connection.has_been_reset().await {
            return Err(RecycleError::message("not reset"));
        }
        if !connection.has_login().await {
            return Err(RecycleError::message("its login was dropped"));
        }
        Ok(())
    }
}

/// The pool of the login that takes on callers' roles. Cheap to clone.
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
    /// Statements prepared before it changed are not to be used: the schema has.
    epoch: AtomicU64,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.shared.description)
    }
}

impl Sessions {
    /// Sessions of `database`'s login (`authenticator`). `tracker` knows of every exchange with the database, so that a
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

    /// Counts an answer that was made elsewhere as one of the database, until its last clone is dropped.
    ///
    /// # Errors
    /// There is no room for it now.
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
    /// Dropping the returned future cancels a read; a write runs to its end, unless it was still waiting for a
    /// connection.
    ///
    /// # Errors
    /// The first error in order: of BEGIN, the settings, the steps, COMMIT; or no connection; or the deadline.
    /// Nothing was committed then, except where [`SessionError::Unavailable`] and [`SessionError::Deadline`] say that it is
    /// unknown.
    pub async fn run(&self, scope: Scope, steps: Vec<Statement>) -> Result<Answers, SessionError> {
        self.perform(scope, steps, End::Commit, None, None).await
    }

    /// As [`Sessions::run`], for reads: an error of a statement does not discard the answers of those before it.
    ///
    /// # Errors
    /// Those of [`Sessions::run`] that are not about one statement: PostgreSQL is not reachable, or the deadline has passed.
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
                let answers = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
                Ok(Partial { answers, failure: Some(error) })
            }
            Err(error) => Err(error),
        }
    }

    /// As [`Sessions::run`], but undone at the end whatever the statements answer.
    ///
    /// # Errors
    /// As [`Sessions::run`].
    pub async fn run_rolled_back(
        &self,
        scope: Scope,
        steps: Vec<Statement>,
    ) -> Result<Answers, SessionError> {
        self.perform(scope, steps, End::Rollback, None, None).await
    }

    /// Runs `steps`, shows their rows to `check` and ends the transaction as it says. COMMIT is held back for it,
    /// which costs a second round trip.
    ///
    /// # Errors
    /// As [`Sessions::run`].
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

    /// Refuses new work and closes idle connections; for shutdown.
    pub fn close(&self) {
        self.shared.pool.close();
    }

    /// Closes the connections that are not in use: where the route to the database was lost, a request that took one would wait
    /// for an answer until its deadline.
    pub fn close_unused(&self) {
        self.shared.pool.close_unused();
    }

    /// Whether the login reaches its database, as of a second ago at most. The database gets one Sync a second at most, however
    /// often this is called.
    pub async fn is_reachable(&self) -> bool {
        let ask = async |lease, deadline| {
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
        self.shared.pool.is_reachable(ask).await
    }

    /// Sets the gauges of the pool; called before metrics are shown.
    pub fn report(&self) {
        self.shared.pool.report();
    }

    /// The login's address, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        self.shared.description.clone()
    }

    /// Takes a connection and runs the exchange on it, once more where that is known to be safe.
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
            // `None` while the attempt is under way, and after its check.
            let returned = attempt.into_work();
            let retry = if returned.is_some() { failures.note(&failure, access) } else { None };
            let may_repeat = match retry {
                None => false,
                Some(Retry::Connection | Retry::Deadlock | Retry::Login) => true,
                Some(Retry::Stale) => {
                    // The next connection may have prepared it before the change as well.
                    self.shared.epoch.fetch_add(1, Ordering::Relaxed);
                    true
                }
                // This connection has dropped the statement. Callers can provoke this with numbers of their own, so other
                // connections keep theirs.
                Some(Retry::Catalog(pause)) => pause_until(deadline, pause).await,
            };
            match returned {
                Some(returned) if may_repeat => {
                    let reason = retry.map_or("", Retry::label);
                    // Seldom enough to look the counter up each time.
                    metrics::counter!("basalt_transactions_repeated_total", "reason" => reason).increment(1);
                    work = returned;
                }
                _ if access == Access::ReadWrite
                    && self.is_refused_by_standby(&failure, identity, deadline).await =>
                {
                    // The address may lead to the primary by now.
                    self.shared.pool.close_unused();
                    let text = "the server is a standby, which takes no writes";
                    return Err(SessionError::Unreachable(text.to_owned()));
                }
                _ => return Err(failure.of_the_connection()),
            }
        }
    }

    /// Lets a backend take more memory where it is to take this many bytes of values. No other request gets that backend: what
    /// it keeps of the memory goes with it.
    async fn make_room(&self, lease: &mut Lease<Manager>, bytes: usize, deadline: Instant) {
        let Some(limit) = &self.shared.backend_limit else { return };
        if bytes <= limit.usual_bytes {
            return;
        }
        // The connection is retired first: the client may leave meanwhile.
        if let Some(backend) = lease.retire() {
            let _elapsed = tokio::time::timeout_at(deadline, (limit.set)(backend, bytes)).await;
        }
    }

    /// Whether a write failed because the server is not the primary: for the client that is an outage, and not its
    /// mistake. Functions raise these codes for reasons of their own, so the server is asked.
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

    /// Statements are kept per role and search path.
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

/// Waits, if there is time for that before `deadline`.
async fn pause_until(deadline: Instant, pause: Duration) -> bool {
    let end = Instant::now() + pause;
    if end >= deadline {
        return false;
    }
    tokio::time::sleep_until(end).await;
    true
}
