//! One transaction on one connection. See the head of [`crate::session`] for the rules.

use std::sync::{Arc, LazyLock};

use futures_util::TryStreamExt;
use futures_util::future::{join, join_all};
use tokio_postgres::{Row, Statement as Prepared};

use crate::pg_error::DriverError;
use crate::pool::{PooledConnection, StatementKey};
use crate::session::{Access, Answers, End, Isolation, Scope, SessionError, Statement, Work};
use crate::sql::Param;

/// Runs the work. On every way out but a broken connection the transaction is over and the connection is clean.
pub(super) async fn run(connection: &PooledConnection, work: &mut Work) -> Result<Answers, SessionError> {
    let settings = settings_statement(connection, &work.scope).await?;
    let cached: Vec<Option<Prepared>> =
        work.steps.iter().map(|step| connection.cached(&key(work.scope_key, step))).collect();
    let result = match cached.into_iter().collect::<Option<Vec<Prepared>>>() {
        Some(prepared) => run_prepared(connection, work, &settings, &prepared).await,
        None => run_preparing(connection, work, &settings).await,
    };
    if let Err(SessionError::Postgres(error)) = &result
        && error.is_stale_statement()
    {
        // Whatever changed the schema has probably changed it for the other statements too.
        connection.forget_all();
    }
    result
}

/// Everything is prepared: one flush, unless the end waits for a check.
async fn run_prepared(
    connection: &PooledConnection,
    work: &mut Work,
    settings: &Prepared,
    prepared: &[Prepared],
) -> Result<Answers, SessionError> {
    let client = &connection.client;
    let begin = client.batch_execute(begin_text(&work.scope));
    let set = query(connection, settings, settings_params(&work.scope));
    let steps = join_all(
        work.steps.iter().zip(prepared).map(|(step, statement)| query_step(connection, statement, step)),
    );
    if work.check.is_some() {
        let ((begun, set), answers) = join(join(begin, set), steps).await;
        return finish_checked(connection, work, begun, set, answers).await;
    }
    let end = client.batch_execute(end_text(work.end));
    // All are queued in this order by the first poll; answers come back in the same order.
    let ((begun, set), (answers, ended)) = join(join(begin, set), join(steps, end)).await;
    begun.map_err(driver)?;
    set?;
    let answers = answers.into_iter().collect::<Result<Answers, SessionError>>()?;
    ended.map_err(driver)?;
    Ok(answers)
}

/// Something must be parsed first: inside the transaction, after the role is set, because parsing checks USAGE on
/// schemas, which the NOINHERIT login role lacks. One more round trip, once per connection.
async fn run_preparing(
    connection: &PooledConnection,
    work: &mut Work,
    settings: &Prepared,
) -> Result<Answers, SessionError> {
    let begin = connection.client.batch_execute(begin_text(&work.scope));
    let set = query(connection, settings, settings_params(&work.scope));
    let prepare = join_all(work.steps.iter().map(|step| connection.prepared(key(work.scope_key, step))));
    let ((begun, set), prepared) = join(join(begin, set), prepare).await;
    let prepared = begun.map_err(driver).and(set.map(drop)).and_then(|()| {
        prepared.into_iter().collect::<Result<Vec<Prepared>, DriverError>>().map_err(SessionError::from)
    });
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => return Err(roll_back(connection, failure).await),
    };
    let steps = join_all(
        work.steps.iter().zip(&prepared).map(|(step, statement)| query_step(connection, statement, step)),
    );
    if work.check.is_some() {
        let answers = steps.await;
        return finish_checked(connection, work, Ok(()), Ok(Vec::new()), answers).await;
    }
    let (answers, ended) = join(steps, connection.client.batch_execute(end_text(work.end))).await;
    let answers = answers.into_iter().collect::<Result<Answers, SessionError>>()?;
    ended.map_err(driver)?;
    Ok(answers)
}

async fn finish_checked(
    connection: &PooledConnection,
    work: &mut Work,
    begun: Result<(), tokio_postgres::Error>,
    set: Result<Vec<Row>, SessionError>,
    answers: Vec<Result<Vec<Row>, SessionError>>,
) -> Result<Answers, SessionError> {
    let answers = begun
        .map_err(driver)
        .and(set.map(drop))
        .and_then(|()| answers.into_iter().collect::<Result<Answers, SessionError>>());
    let answers = match answers {
        Ok(answers) => answers,
        Err(failure) => return Err(roll_back(connection, failure).await),
    };
    let end = work.check.take().map_or(work.end, |check| check(&answers));
    connection.client.batch_execute(end_text(end)).await.map_err(driver)?;
    Ok(answers)
}

/// Ends an aborted transaction and gives back why it was aborted; a failing ROLLBACK means a broken connection.
async fn roll_back(connection: &PooledConnection, failure: SessionError) -> SessionError {
    match connection.client.batch_execute(end_text(End::Rollback)).await {
        Ok(()) => failure,
        Err(error) => match failure {
            SessionError::Postgres(_) => failure,
            SessionError::PoolTimeout
            | SessionError::Unreachable(_)
            | SessionError::Unavailable(_)
            | SessionError::Deadline => driver(error),
        },
    }
}

async fn query_step(
    connection: &PooledConnection,
    prepared: &Prepared,
    step: &Statement,
) -> Result<Vec<Row>, SessionError> {
    query(connection, prepared, step.params.iter()).await
}

async fn query<P>(
    connection: &PooledConnection,
    prepared: &Prepared,
    params: P,
) -> Result<Vec<Row>, SessionError>
where
    P: IntoIterator,
    P::Item: tokio_postgres::types::BorrowToSql,
    P::IntoIter: ExactSizeIterator,
{
    let rows = connection.client.query_raw(prepared, params).await.map_err(driver)?;
    rows.try_collect().await.map_err(driver)
}

/// Prepared once per connection and number of settings.
async fn settings_statement(connection: &PooledConnection, scope: &Scope) -> Result<Prepared, SessionError> {
    let key = StatementKey { scope: 0, text: settings_text(scope.settings.len()) };
    Ok(connection.prepared(key).await?)
}

/// `select set_config($1,$2,true), …`, made once for each number of settings that requests usually have.
fn settings_text(count: usize) -> Arc<str> {
    const USUAL: usize = 32;
    static TEXTS: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| (0..USUAL).map(make_settings_text).collect());
    TEXTS.get(count).map_or_else(|| make_settings_text(count), Arc::clone)
}

fn make_settings_text(count: usize) -> Arc<str> {
    let calls = (0..count)
        .map(|index| format!("pg_catalog.set_config(${}, ${}, true)", 2 * index + 1, 2 * index + 2));
    Arc::from(format!("select {}", calls.collect::<Vec<_>>().join(", ")))
}

fn settings_params(scope: &Scope) -> Vec<Param> {
    scope
        .settings
        .iter()
        .flat_map(|(name, value)| [Param::from(name.as_ref()), Param::from(value.as_str())])
        .collect()
}

fn key(scope_key: u64, step: &Statement) -> StatementKey {
    StatementKey { scope: scope_key, text: Arc::clone(&step.text) }
}

fn driver(error: tokio_postgres::Error) -> SessionError {
    SessionError::from(DriverError::from(error))
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
    }
}
