//! One transaction on one connection, step by step. The rules are in the module docs of [`crate::session`].

use std::sync::{Arc, LazyLock};

use crate::pg_error::{DriverError, PgError};
use crate::session::{Access, Answers, End, Isolation, Scope, SessionError, Statement, Work};
use crate::wire::{Connection, Outcome, StatementKey, Value};

/// Progress of an exchange. Every await in [`Exchange::run`] can be dropped and resumed, because all state is here
/// and in the connection.
enum Stage {
    /// Nothing has been sent.
    Waiting,
    /// BEGIN (if needed), settings and statements have been sent, and the end unless a check decides on it.
    Running,
    /// The end that the check chose has been sent.
    Ending,
    /// ROLLBACK has been sent after a failure.
    Undoing,
}

/// A transaction and its results so far.
pub(super) struct Exchange {
    pub(super) work: Work,
    stage: Stage,
    answers: Answers,
    failure: Option<Box<PgError>>,
    /// Whether the check has run, which it may do only once.
    is_decided: bool,
}

impl Exchange {
    pub(super) const fn new(work: Work) -> Self {
        Self { work, stage: Stage::Waiting, answers: Vec::new(), failure: None, is_decided: false }
    }

    /// Whether anything may have reached the server.
    pub(super) const fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::Waiting)
    }

    /// Returns the work if it can be run again from the beginning: not after its check has run.
    pub(super) fn into_work(self) -> Option<Work> {
        (!self.is_decided).then_some(self.work)
    }

    /// Marks the exchange as abandoned by the caller. If COMMIT has not been sent, the transaction is rolled back: a
    /// cancelled statement may still have completed, although the caller got an error.
    pub(super) fn give_up(&mut self) {
        self.work.check = None;
        self.work.end = End::Rollback;
    }

    /// Runs the exchange to completion. The future may be dropped and the call repeated with the same connection.
    pub(super) async fn run(&mut self, connection: &mut Connection) -> Result<Answers, SessionError> {
        loop {
            if matches!(self.stage, Stage::Waiting) {
                // Set before sending: a partially written batch must not count as unsent.
                self.stage = Stage::Running;
                self.send(connection)?;
            }
            let Outcome { answers, failure, in_transaction } = connection.answers().await?;
            if self.failure.is_none() {
                self.failure = failure;
            }
            if matches!(self.stage, Stage::Waiting | Stage::Running) {
                self.answers = answers;
            }
            match self.stage {
                Stage::Waiting | Stage::Running if self.failure.is_none() => {
                    if !in_transaction {
                        break;
                    }
                    let end = self.work.check.take().map_or(self.work.end, |check| check(&self.answers));
                    self.stage = Stage::Ending;
                    self.is_decided = true;
                    connection.open_simple(end_text(end));
                }
                // A deferred constraint may have failed, and the transaction is still open.
                Stage::Waiting | Stage::Running | Stage::Ending if in_transaction => {
                    self.stage = Stage::Undoing;
                    connection.open_simple(end_text(End::Rollback));
                }
                Stage::Waiting | Stage::Running | Stage::Ending | Stage::Undoing => break,
            }
        }
        match self.failure.take() {
            None => Ok(std::mem::take(&mut self.answers)),
            Some(error) => {
                if let Some(kept) = &self.work.kept {
                    *kept.lock() = std::mem::take(&mut self.answers);
                }
                Err(SessionError::Postgres(error))
            }
        }
    }

    /// Writes the transaction, up to the check if there is one, into the connection's buffer.
    fn send(&self, connection: &mut Connection) -> Result<(), DriverError> {
        let Work { scope, scope_key, steps, end, check, kept: _ } = &self.work;
        let commits = scope.access == Access::ReadWrite && *end == End::Commit && check.is_none();
        connection.open_batch(commits);
        // Without BEGIN, the Sync commits. The connection's defaults match those of a plain BEGIN.
        let is_implicit = scope.isolation == Isolation::ReadCommitted
            && !scope.savepoints
            && *end == End::Commit
            && check.is_none();
        let plain = |connection: &mut Connection, text: &'static str| {
            connection.execute(StatementKey { scope: 0, text: text.into() }, [].into_iter(), false)
        };
        if !is_implicit {
            plain(connection, begin_text(scope))?;
        }
        let read_only =
            (is_implicit && scope.access == Access::ReadOnly).then_some(("transaction_read_only", "on"));
        set(connection, scope, read_only)?;
        for Statement { text, params } in steps {
            let key = StatementKey { scope: *scope_key, text: Arc::clone(text) };
            connection.execute(key, params.iter().map(Value::from), true)?;
        }
        if !is_implicit && check.is_none() {
            plain(connection, end_text(*end))?;
        }
        match (is_implicit, scope.access) {
            (true, Access::ReadOnly) if !scope.may_prepare => connection.reset_and_sync(),
            (true, Access::ReadOnly | Access::ReadWrite) => connection.sync_and_reset(scope.may_prepare),
            (false, _) => connection.sync(),
        }
        Ok(())
    }
}

/// Applies all settings in one statement, which is prepared once per connection and number of settings.
fn set(
    connection: &mut Connection,
    scope: &Scope,
    first: Option<(&'static str, &'static str)>,
) -> Result<(), DriverError> {
    let given = scope.settings.iter().map(|(name, value)| (name.as_ref(), value.as_str()));
    let settings: Vec<(&str, &str)> = first.into_iter().chain(given).collect();
    if settings.is_empty() {
        return Ok(());
    }
    let count = settings.len();
    let values = (0..2 * count).map(|index| {
        let (name, value) = settings.get(index / 2).copied().unwrap_or_default();
        Value::from(if index % 2 == 0 { name } else { value })
    });
    connection.execute(StatementKey { scope: 0, text: settings_text(count) }, values, false)
}

/// `select where set_config($1,$2,true) is null or …`, cached for the usual numbers of settings.
fn settings_text(count: usize) -> Arc<str> {
    const USUAL: usize = 32;
    static TEXTS: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| (0..USUAL).map(make_settings_text).collect());
    TEXTS.get(count).map_or_else(|| make_settings_text(count), Arc::clone)
}

/// The conditions are never true: OR evaluates all of them in order, and no row sends the claims and headers back.
fn make_settings_text(count: usize) -> Arc<str> {
    let calls = (0..count)
        .map(|index| format!("pg_catalog.set_config(${}, ${}, true) is null", 2 * index + 1, 2 * index + 2));
    Arc::from(format!("select where {}", calls.collect::<Vec<_>>().join(" or ")))
}

const fn begin_text(scope: &Scope) -> &'static str {
    match (scope.isolation, scope.access) {
        (Isolation::ReadCommitted, Access::ReadOnly) => "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
        (Isolation::ReadCommitted, Access::ReadWrite) => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        (Isolation::RepeatableRead, Access::ReadOnly) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        (Isolation::RepeatableRead, Access::ReadWrite) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE",
        (Isolation::Serializable, Access::ReadOnly) => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        (Isolation::Serializable, Access::ReadWrite) => "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE",
    }
}

const fn end_text(end: End) -> &'static str {
    match end {
        End::Commit => "COMMIT",
        End::Rollback => "ROLLBACK",
        End::RollbackChecked => "SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK",
    }
}
