//! Runs the migrations of one source: the services' ([`crate::system_migrations`]) or the project's (`basalt-project`).

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// How long to wait for another server that is migrating the same database.
pub const LOCK_WAIT: Duration = Duration::from_secs(60);

/// One kind of migrations, and how to find out which of them a database lacks.
pub trait MigrationSource {
    /// What to apply.
    type Plan: Send;
    /// Why planning or applying failed.
    type Error: From<tokio_postgres::Error> + Send;

    /// Key of the advisory lock. Must be the same number in every release.
    const LOCK_KEY: i64;
    /// Another server has held the lock for [`LOCK_WAIT`].
    const BUSY: Self::Error;

    /// Called once before waiting for another server.
    fn waiting(&mut self) {}

    /// Compares the migrations with the database. Changes nothing.
    fn plan(&mut self, client: &Client) -> impl Future<Output = Result<Self::Plan, Self::Error>> + Send;

    /// Whether the database is up to date.
    fn is_empty(plan: &Self::Plan) -> bool;

    /// Applies a plan and returns what was applied. Migrations before a failed one stay applied.
    fn apply(
        &mut self,
        client: &mut Client,
        plan: Self::Plan,
    ) -> impl Future<Output = Result<Self::Plan, Self::Error>> + Send;
}

/// Brings a database up to date with `source` and returns what was applied. Takes the lock only if the database lacks
/// something, and then plans again: another server may have done the work in the meantime. Resets session settings,
/// because a migration may have changed them.
///
/// # Errors
/// The source's errors, [`MigrationSource::BUSY`], or the connection was lost.
pub async fn run<S: MigrationSource + Send>(
    client: &mut Client,
    source: &mut S,
) -> Result<S::Plan, S::Error> {
    let plan = source.plan(client).await?;
    if S::is_empty(&plan) {
        return Ok(plan);
    }
    lock(client, source).await?;
    let applied = match source.plan(client).await {
        Ok(plan) => source.apply(client, plan).await,
        Err(error) => Err(error),
    };
    let unlock = format!("reset role; reset all; select pg_catalog.pg_advisory_unlock({})", S::LOCK_KEY);
    // The lock also ends with the session, so a failure here must not hide the first error.
    let unlocked = client.batch_execute(&unlock).await;
    let applied = applied?;
    unlocked?;
    Ok(applied)
}

async fn lock<S: MigrationSource>(client: &Client, source: &mut S) -> Result<(), S::Error> {
    const TRY_LOCK: &str = "select pg_catalog.pg_try_advisory_lock($1)";
    if client.query_one(TRY_LOCK, &[&S::LOCK_KEY]).await?.try_get(0)? {
        return Ok(());
    }
    source.waiting();
    let wait = format!(
        "set lock_timeout = {}; select pg_catalog.pg_advisory_lock({}); reset lock_timeout",
        LOCK_WAIT.as_millis(),
        S::LOCK_KEY
    );
    match client.batch_execute(&wait).await {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            client.batch_execute("reset lock_timeout").await?;
            Err(S::BUSY)
        }
        other => Ok(other?),
    }
}
