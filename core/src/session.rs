//! Role sessions: the only way to PostgreSQL for request work.
//!
//! One request is one transaction and, once its statements are prepared on the connection, one flush: BEGIN, one
//! `select set_config(..)` for role, claims and settings, the statements and COMMIT are queued before the first
//! answer is read. The rules that keep such a pipeline honest (DESIGN §3), since the driver ends every message
//! with its own Sync and a failed one does not skip those after it:
//!
//! - The first error in order is the answer; later ones are echoes. A request is committed only when every part
//!   **and** COMMIT came back without error.
//! - BEGIN travels as a simple query: it depends on no prepared statement, so nothing behind it can run outside a
//!   transaction.
//! - A statement that is not prepared yet is parsed inside the transaction, after the role is set.
//! - A stale statement (`0A000`, `26000`) committed nothing: it is prepared anew and the request runs once more.
//! - The work runs in a task of its own, owned by a tracker: a client that leaves cannot drop half a pipeline into
//!   the pool. Reads are then cancelled; writes run to their end.
//! - After a cancel the connection goes back only when the cancel request's connection has closed and the pipeline
//!   has answered, within a second; else it is discarded: a late cancel would strike the next request.

mod pipeline;

use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::Object;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::database::Database;
use crate::pg_error::{DriverError, PgError};
use crate::pool::{Lease, Pool, PoolConfig};
use crate::sql::{Param, Sql};

/// A statement with its values.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Text with `$1…`; the key under which it is prepared.
    pub text: Arc<str>,
    /// One value per placeholder.
    pub params: Vec<Param>,
}

impl From<&Sql> for Statement {
    fn from(sql: &Sql) -> Self {
        let (text, params) = sql.render();
        Self { text: text.into(), params }
    }
}

impl From<Sql> for Statement {
    fn from(sql: Sql) -> Self {
        Self::from(&sql)
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
#[derive(Clone, Debug)]
pub struct Scope {
    /// Read or write.
    pub access: Access,
    /// Isolation level.
    pub isolation: Isolation,
    /// Settings, local to the transaction, set in this order by one statement. `role` is one of them; so is
    /// `search_path`.
    pub settings: Vec<(Cow<'static, str>, String)>,
    /// When the work is cancelled.
    pub deadline: Instant,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Make it durable.
    Commit,
    /// Undo it.
    Rollback,
}

/// Why a transaction did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// PostgreSQL refused a statement, the settings, or the commit.
    #[error(transparent)]
    Postgres(Box<PgError>),
    /// No pooled connection in time.
    #[error("no database connection became free in time")]
    PoolTimeout,
    /// No connection could be opened: the driver's or the server's text. Nothing was asked of the database.
    #[error("the database is unavailable: {0}")]
    Unreachable(String),
    /// The connection broke: the driver's text. It is unknown whether a write happened.
    #[error("the database connection broke: {0}")]
    Unavailable(String),
    /// The deadline passed; the statement was cancelled.
    #[error("the deadline passed before the database answered")]
    Deadline,
}

impl SessionError {
    pub(crate) fn unreachable(error: DriverError) -> Self {
        match error {
            DriverError::Postgres(error) => Self::Unreachable(error.to_string()),
            DriverError::Connection(text) => Self::Unreachable(text),
        }
    }
}

impl From<DriverError> for SessionError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Postgres(error) => Self::Postgres(error),
            DriverError::Connection(text) => Self::Unavailable(text),
        }
    }
}

/// One vector of rows per statement, in order.
pub type Answers = Vec<Vec<Row>>;

pub(crate) type Check = Box<dyn FnOnce(&[Vec<Row>]) -> End + Send>;

pub(crate) struct Work {
    pub(crate) scope: Scope,
    pub(crate) scope_key: u64,
    pub(crate) steps: Vec<Statement>,
    pub(crate) end: End,
    pub(crate) check: Option<Check>,
}

/// How long a cancelled connection may take to become clean again.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The pool of the login that takes on callers' roles. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    pool: Pool,
    tracker: TaskTracker,
    hasher: std::hash::RandomState,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.pool.database().describe())
    }
}

impl Sessions {
    /// Sessions of `database`'s login (`authenticator`). The database work of each request is a task of `tracker`,
    /// so that a shutdown can wait for it.
    #[must_use]
    pub fn new(database: Database, config: PoolConfig, tracker: TaskTracker) -> Self {
        Self { pool: Pool::new(database, config), tracker, hasher: std::hash::RandomState::new() }
    }

    /// Runs `steps` in one transaction under `scope` and commits.
    ///
    /// Dropping the returned future cancels a read; a write runs to its end.
    ///
    /// # Errors
    /// The first error in order: of BEGIN, the settings, the steps, COMMIT; or no connection; or the deadline.
    /// Nothing was committed then, except where [`SessionError::Unavailable`] says that it is unknown.
    pub async fn run(&self, scope: Scope, steps: Vec<Statement>) -> Result<Answers, SessionError> {
        self.spawn(scope, steps, End::Commit, None).await
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
        self.spawn(scope, steps, End::Rollback, None).await
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
        self.spawn(scope, steps, End::Commit, Some(Box::new(check))).await
    }

    /// Refuses new work and closes idle connections; for shutdown.
    pub fn close(&self) {
        self.pool.close();
    }

    /// The login's address, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        self.pool.database().describe()
    }

    async fn spawn(
        &self,
        scope: Scope,
        steps: Vec<Statement>,
        end: End,
        check: Option<Check>,
    ) -> Result<Answers, SessionError> {
        let access = scope.access;
        let scope_key = self.scope_key(&scope);
        let (answer, answered) = oneshot::channel();
        let client_left = CancellationToken::new();
        let task = {
            let (pool, client_left) = (self.pool.clone(), client_left.clone());
            let work = Work { scope, scope_key, steps, end, check };
            async move {
                // The receiver may be gone: then nobody waits for the answer.
                let _unheard = answer.send(perform(&pool, work, &client_left).await);
            }
        };
        self.tracker.spawn(task);
        let _cancel_reads = (access == Access::ReadOnly).then(|| client_left.drop_guard());
        answered
            .await
            .unwrap_or_else(|_closed| Err(SessionError::Unavailable("the server is stopping".to_owned())))
    }

    /// Statements are kept per role and search path.
    fn scope_key(&self, scope: &Scope) -> u64 {
        let mut key = 0_u64;
        for (name, value) in &scope.settings {
            if matches!(name.as_ref(), "role" | "search_path") {
                key = key.rotate_left(1) ^ self.hasher.hash_one((name, value));
            }
        }
        key
    }
}

/// Takes a connection and runs the pipeline on it, once more where that is known to be safe.
async fn perform(
    pool: &Pool,
    mut work: Work,
    client_left: &CancellationToken,
) -> Result<Answers, SessionError> {
    let mut again = true;
    loop {
        let lease = tokio::select! {
            lease = pool.acquire(work.scope.deadline) => lease?,
            () = client_left.cancelled() => return Err(SessionError::Deadline),
        };
        let failure = match drive(pool, lease, &mut work, client_left).await {
            Ok(answers) => return Ok(answers),
            Err(failure) => failure,
        };
        let may_repeat = match &failure {
            SessionError::Postgres(error) => error.is_stale_statement(),
            // A read has no effect to double: a connection that died (a restart, a failover) is worth one more try.
            SessionError::Unavailable(_) => work.scope.access == Access::ReadOnly,
            SessionError::Unreachable(_) | SessionError::PoolTimeout | SessionError::Deadline => false,
        };
        if !(may_repeat && std::mem::take(&mut again)) {
            return Err(failure);
        }
    }
}

/// One attempt on one connection, under the deadline and the client's presence.
async fn drive(
    pool: &Pool,
    lease: Lease,
    work: &mut Work,
    client_left: &CancellationToken,
) -> Result<Answers, SessionError> {
    let deadline = work.scope.deadline;
    let mut outcome = None;
    {
        let running = pipeline::run(&lease, work);
        tokio::pin!(running);
        tokio::select! {
            biased;
            result = &mut running => outcome = Some(result),
            () = tokio::time::sleep_until(deadline) => {}
            () = client_left.cancelled() => {}
        }
        if outcome.is_none() {
            metrics::counter!("basalt_statements_cancelled_total").increment(1);
            let cleaned = tokio::time::timeout(CANCEL_GRACE, async {
                let (cancelled, _answers) =
                    tokio::join!(pool.database().cancel(&lease.cancel_token), &mut running);
                matches!(cancelled, Ok(true))
            });
            if cleaned.await.unwrap_or(false) {
                return Err(SessionError::Deadline);
            }
        }
    }
    match outcome {
        Some(result) => {
            let broken = matches!(&result, Err(SessionError::Unavailable(_)));
            if broken || lease.client.is_closed() {
                drop(Object::take(lease));
            }
            result
        }
        None => {
            drop(Object::take(lease));
            Err(SessionError::Deadline)
        }
    }
}
