//! Transactions of a request: statements as the caller, subject to policies, and statements as
//! `service_role`, in one batch and one round trip (storage.md §4.7, §4.8).

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use basalt_core::identity::Identity;
use basalt_core::service::{ClientAddress, Deadline};
use basalt_pg::missing_grants;
use basalt_pg::request_settings::headers_json;
use basalt_pg::session::{Access, Answers, End, Isolation, Row, Scope, SessionError, Sessions, Statement};
use basalt_pg::sql::Param;
use http::request::Parts;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::error::StorageError;
use crate::operation::Operation;

/// Time limit of a statement.
const STATEMENT_TIMEOUT: &str = "30s";
const SEARCH_PATH: &str = "storage, public, extensions";

/// Request data that SQL can read.
#[derive(Debug, Clone)]
pub(crate) struct RequestSettings {
    address: Option<IpAddr>,
    method: String,
    path: String,
    headers: String,
}

impl RequestSettings {
    /// Takes the path without the service's prefix, as policies of Supabase projects expect.
    pub(crate) fn from_parts(parts: &Parts) -> Self {
        Self {
            address: parts.extensions.get::<ClientAddress>().map(|address| address.0),
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            headers: headers_json(&parts.headers),
        }
    }

    /// Identity used for fair sharing of the server.
    pub(crate) fn identity(&self, caller: &Caller) -> Identity {
        Identity::new(caller.subject.as_deref(), &caller.role, self.address)
    }
}

/// Deadline of the request's first database step; later ones use [`Deadline::renewed`].
pub(crate) fn deadline(parts: &Parts) -> Deadline {
    let given = parts.extensions.get::<Deadline>();
    given.copied().unwrap_or_else(|| Deadline::new(Instant::now(), crate::DEADLINE))
}

/// Runs batches. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    sessions: Sessions,
}

impl Database {
    pub(crate) const fn new(sessions: Sessions) -> Self {
        Self { sessions }
    }

    /// Starts an empty batch that runs as `caller`.
    pub(crate) fn batch(&self, request: &RequestSettings, operation: Operation, caller: &Caller) -> Batch {
        let mut settings: Vec<(Cow<'static, str>, String)> = Vec::with_capacity(12);
        let mut set = |name: &'static str, value: &str| settings.push((name.into(), value.to_owned()));
        set("search_path", SEARCH_PATH);
        set("statement_timeout", STATEMENT_TIMEOUT);
        set("request.method", &request.method);
        set("request.path", &request.path);
        set("request.headers", &request.headers);
        set("storage.operation", operation.0);
        // Allows deleting rows; triggers of this schema queue their blobs as garbage.
        set("storage.allow_delete_query", "true");
        for (name, value) in identity(caller) {
            set(name, value);
        }
        let identity = request.identity(caller);
        let (sessions, role) = (self.sessions.clone(), caller.role.clone());
        Batch { sessions, identity, role, settings, steps: Vec::new(), savepoints: false }
    }
}

fn identity(caller: &Caller) -> [(&'static str, &str); 5] {
    [
        ("role", &caller.role),
        ("request.jwt.claims", &caller.claims),
        ("request.jwt.claim.sub", caller.subject.as_deref().unwrap_or_default()),
        ("request.jwt.claim.role", &caller.role),
        ("request.jwt", &caller.token),
    ]
}

/// A transaction being assembled.
#[derive(Debug)]
#[must_use = "nothing happens until it is run"]
pub(crate) struct Batch {
    sessions: Sessions,
    identity: Identity,
    /// Role of the caller subject to policies; for the log.
    role: String,
    settings: Vec<(Cow<'static, str>, String)>,
    steps: Vec<Statement>,
    savepoints: bool,
}

/// Index of a statement, to access its rows in [`Rows`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step(usize);

impl Batch {
    pub(crate) fn query(&mut self, text: impl Into<Arc<str>>, params: impl Into<Vec<Param>>) -> Step {
        self.push(Statement { text: text.into(), params: params.into() })
    }

    pub(crate) fn push(&mut self, statement: Statement) -> Step {
        self.steps.push(statement);
        Step(self.steps.len() - 1)
    }

    /// Runs the following statements as `caller`.
    pub(crate) fn act_as(&mut self, caller: &Caller) {
        if !caller.is_service() {
            self.role.clone_from(&caller.role);
        }
        let params: Vec<Param> = identity(caller)
            .into_iter()
            .flat_map(|(name, value)| [Param::from(name), Param::from(value)])
            .collect();
        let text = "select pg_catalog.set_config($1, $2, true), pg_catalog.set_config($3, $4, true), \
                    pg_catalog.set_config($5, $6, true), pg_catalog.set_config($7, $8, true), \
                    pg_catalog.set_config($9, $10, true)";
        let _step = self.query(text, params);
    }

    /// Starts a section that [`Batch::undo`] rolls back. A failing statement still aborts the complete
    /// transaction.
    pub(crate) fn savepoint(&mut self) {
        self.savepoints = true;
        let _step = self.query("savepoint probe", []);
    }

    /// Rolls back to [`Batch::savepoint`], including identity changes.
    pub(crate) fn undo(&mut self) {
        let _step = self.query("rollback to savepoint probe", []);
    }

    /// Runs the batch read-only.
    ///
    /// # Errors
    /// The first failing statement's error.
    pub(crate) async fn read(self, deadline: Deadline) -> Result<Rows, StorageError> {
        let (role, sessions, scope, steps) = self.into_parts(Access::ReadOnly, deadline);
        rows(&role, sessions.run(scope, steps).await)
    }

    /// Runs the batch and commits.
    ///
    /// # Errors
    /// The first failing statement's error; nothing was committed.
    pub(crate) async fn commit(self, deadline: Deadline) -> Result<Rows, StorageError> {
        let (role, sessions, scope, steps) = self.into_parts(Access::ReadWrite, deadline);
        rows(&role, sessions.run(scope, steps).await)
    }

    /// Runs the batch and rolls back: a permission check.
    ///
    /// # Errors
    /// The first failing statement's error.
    pub(crate) async fn roll_back(self, deadline: Deadline) -> Result<Rows, StorageError> {
        let (role, sessions, scope, steps) = self.into_parts(Access::ReadWrite, deadline);
        rows(&role, sessions.run_rolled_back(scope, steps).await)
    }

    /// Runs the batch and commits if `commits` returns true for its rows. Costs a second round trip.
    ///
    /// # Errors
    /// The first failing statement's error; nothing was committed.
    pub(crate) async fn commit_if(
        self,
        deadline: Deadline,
        commits: impl FnOnce(&Rows) -> bool + Send + 'static,
    ) -> Result<Rows, StorageError> {
        let (role, sessions, scope, steps) = self.into_parts(Access::ReadWrite, deadline);
        let check = move |answers: &[Vec<Row>]| {
            // Cloning rows is cheap: they share their bytes.
            if commits(&Rows(answers.to_vec())) { End::Commit } else { End::Rollback }
        };
        rows(&role, sessions.run_checked(scope, steps, check).await)
    }

    fn into_parts(self, access: Access, deadline: Deadline) -> (String, Sessions, Scope, Vec<Statement>) {
        let scope = Scope {
            identity: self.identity,
            access,
            isolation: Isolation::ReadCommitted,
            settings: self.settings,
            // Policies may call functions that prepare statements.
            may_prepare: true,
            savepoints: self.savepoints,
            room_for_values: false,
            deadline: deadline.at(),
        };
        (self.role, self.sessions, scope, self.steps)
    }
}

fn rows(role: &str, result: Result<Answers, SessionError>) -> Result<Rows, StorageError> {
    result.map(Rows).map_err(|error| {
        if let SessionError::Postgres(error) = &error {
            missing_grants::log_once("storage", role, error);
        }
        StorageError::from_session(&error)
    })
}

/// The rows of each statement of a batch.
#[derive(Debug, Clone)]
pub(crate) struct Rows(Answers);

impl Rows {
    pub(crate) fn all(&self, step: Step) -> &[Row] {
        self.0.get(step.0).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn first(&self, step: Step) -> Option<&Row> {
        self.all(step).first()
    }
}
