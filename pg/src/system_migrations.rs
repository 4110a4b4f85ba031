//! What must be in a database before any service can use it: roles, schemas, and each service's own tables. Each
//! service crate lists its [`SystemMigration`]s; [`apply`] brings a database up to date with all of them. The
//! application's own migrations are `basalt-project`'s.
//!
//! Two servers may start at once, on one database or on two databases of one cluster. On one database an advisory
//! lock lets the first do the work and the second find it done. Roles belong to the whole cluster, where advisory
//! locks do not reach: a superuser serialises role changes by a lock on `pg_authid`, which is one table for all
//! databases; another login loses the race with an error and tries again (`is_lost_race`).
//!
//! What lies outside the database (roles, memberships, rights on the database itself) is not in a dump and not in a copy of
//! a template, although the copy's list of applied migrations says that it was done. So that part has no version; its
//! script can be run again at any time, and runs whenever something is missing.

mod error;
mod logins;
mod row_security;
mod state;
mod steps;

use std::time::Duration;

use secrecy::SecretString;
use tokio_postgres::Client;

use crate::pg_error::{DriverError, PgError};
pub use error::MigrationError;
pub use row_security::unprotected_tables;
use state::State;
use steps::CLUSTER;
pub use steps::{Layout, MIGRATIONS, SystemMigration, sha256_hex};

/// What [`apply`] has to know besides the migrations.
#[derive(Debug, Default)]
pub struct MigrationSettings {
    /// Passwords of login roles, by role name: `authenticator`, `supabase_auth_admin`, `postgres`. A role that is a
    /// superuser, or the one we are connected as, keeps its own.
    pub passwords: Vec<(&'static str, SecretString)>,
    /// Decides the default privileges.
    pub layout: Layout,
}

/// What [`apply`] did and what the database did not let it do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// `service/name` of every step that ran, in order. Empty when there was nothing to do.
    pub applied: Vec<String>,
    /// Tables of services whose row-level security was off and is on again.
    pub protected: Vec<String>,
    /// Login roles whose password was set.
    pub passwords_set: Vec<&'static str>,
    /// Whether the connection's role is a superuser.
    pub is_superuser: bool,
    /// What is missing because the role lacks rights.
    pub limits: Vec<Limit>,
}

/// Something the connection's role may not do, for `doctor` and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What is missing.
    pub what: &'static str,
    /// What does not work because of it.
    pub cost: &'static str,
    /// The statement a superuser would run.
    pub remedy: &'static str,
}

/// "Basalt" as bytes, for `pg_advisory_lock`: the same number in every server of every release.
const LOCK_KEY: i64 = 0x4261_7361_6c74;
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// A lost race is over as soon as the winner has committed, so a few tries with doubling pauses reach two seconds.
const ATTEMPTS: u32 = 6;

/// Brings the database up to date: roles, core's schemas, then `sets` in order, then the passwords of the login
/// roles. Restores row-level security on the services' tables. With nothing to do this costs three round trips and takes
/// no lock.
///
/// # Errors
/// A migration fails (it is rolled back, those before it stay), an applied one was changed, or the database is out
/// of reach.
pub async fn apply(
    client: &mut Client,
    sets: &[&[SystemMigration]],
    settings: &MigrationSettings,
) -> Result<Report, MigrationError> {
    let script = settings.layout.script();
    let wanted: Vec<SystemMigration> =
        MIGRATIONS.iter().chain(sets.iter().copied().flatten()).chain(&script).copied().collect();

    let mut report = Report::default();
    let mut state = State::read(client).await?;
    check_known(&state, &wanted)?;
    let lacks_trigger = !state.missing_event_triggers().is_empty();
    if !pending(&state, &wanted)?.is_empty() || !state.is_cluster_complete() || lacks_trigger {
        lock(client).await?;
        let outcome = migrate(client, &wanted, &mut report).await;
        // The lock ends with the session as well; a failure here is no reason to hide the first one.
        let unlocked = unlock(client).await;
        outcome?;
        unlocked?;
        state = State::read(client).await?;
    }
    // A project that belongs to another server keeps what that server set up.
    if settings.layout != Layout::Untouched {
        report.protected = row_security::restore(client).await?;
    }
    let passwords = logins::set_passwords(client, &settings.passwords, state.is_superuser()).await?;
    report.passwords_set = passwords.set;
    report.is_superuser = state.is_superuser();
    report.limits = state.limits();
    if passwords.is_refused {
        report.limits.push(Limit {
            what: "the login of database.url may not set the passwords of the server's other logins",
            cost: "requests run only when database.authenticator_url names a login that works",
            remedy: "grant authenticator, supabase_auth_admin to <login> with admin option",
        });
    }
    Ok(report)
}

/// Whether a newer release has changed the database. Changes nothing; a database that no release has used is fine.
///
/// # Errors
/// [`MigrationError::Newer`], or the database is out of reach.
pub async fn check_release(client: &Client, sets: &[&[SystemMigration]]) -> Result<(), MigrationError> {
    let known: Vec<SystemMigration> =
        MIGRATIONS.iter().chain(sets.iter().copied().flatten()).copied().collect();
    check_known(&State::read(client).await?, &known)
}

fn check_known(state: &State, known: &[SystemMigration]) -> Result<(), MigrationError> {
    let unknown = state.unknown(known);
    if unknown.is_empty() { Ok(()) } else { Err(MigrationError::Newer(unknown)) }
}

/// Under the lock: the state is read again, because the server that held it before us may have done everything.
async fn migrate(
    client: &mut Client,
    wanted: &[SystemMigration],
    report: &mut Report,
) -> Result<(), MigrationError> {
    let state = State::read(client).await?;
    check_known(&state, wanted)?;
    if !state.is_cluster_complete() {
        run_with_retries(client, &CLUSTER, state.has_table()).await?;
        report.applied.push("cluster/roles".to_owned());
    }
    if !state.has_table() {
        client.batch_execute(state::TABLE).await?;
        record(client, &CLUSTER).await?;
    }
    for migration in pending(&state, wanted)?.into_iter().chain(state.missing_event_triggers()) {
        run_with_retries(client, &migration, true).await?;
        tracing::debug!(service = migration.service, name = migration.name, "system migration applied");
        report.applied.push(format!("{}/{}", migration.service, migration.name));
    }
    Ok(())
}

/// The migrations that this database lacks, in order.
fn pending(state: &State, wanted: &[SystemMigration]) -> Result<Vec<SystemMigration>, MigrationError> {
    let mut missing = Vec::new();
    for migration in wanted {
        match state.checksum_of(migration) {
            None => missing.push(*migration),
            Some(checksum) if checksum == migration.checksum() => {}
            Some(_) if migration.version == 0 => missing.push(*migration),
            Some(_) => {
                return Err(MigrationError::Changed {
                    service: migration.service,
                    version: migration.version,
                    name: migration.name,
                });
            }
        }
    }
    Ok(missing)
}

async fn run_with_retries(
    client: &mut Client,
    migration: &SystemMigration,
    has_table: bool,
) -> Result<(), MigrationError> {
    let mut attempt = 0;
    loop {
        match run(client, migration, has_table).await {
            Err(MigrationError::Failed { source, .. }) if attempt < ATTEMPTS && is_lost_race(&source) => {
                tokio::time::sleep(Duration::from_millis(30 << attempt)).await;
                attempt += 1;
            }
            other => return other,
        }
    }
}

/// Another database of the cluster changed the same role at the same moment: `duplicate key` on its name, `tuple
/// concurrently updated`, or a deadlock. The scripts ask before they create, so the next try finds it done.
fn is_lost_race(error: &PgError) -> bool {
    matches!(error.code.as_str(), "23505" | "42710" | "XX000" | "40P01" | "40001")
}

async fn run(
    client: &mut Client,
    migration: &SystemMigration,
    has_table: bool,
) -> Result<(), MigrationError> {
    let transaction = client.transaction().await?;
    // A time limit that the login role carries is meant for requests.
    transaction.batch_execute("set local search_path = ''; set local statement_timeout = 0").await?;
    if let Err(error) = transaction.batch_execute(migration.sql).await {
        return Err(failed(migration, error));
    }
    // The script may have taken another role; the list of migrations is ours alone.
    transaction.batch_execute("set local role none").await?;
    if has_table {
        record(&transaction, migration).await?;
    }
    transaction.commit().await.map_err(|error| failed(migration, error))
}

fn failed(migration: &SystemMigration, error: tokio_postgres::Error) -> MigrationError {
    match DriverError::from(error) {
        DriverError::Postgres(source) => MigrationError::Failed {
            service: migration.service,
            version: migration.version,
            name: migration.name,
            line: line_of(migration.sql, source.position),
            source,
        },
        DriverError::Connection(text) => MigrationError::Connection(text),
    }
}

/// The one-based line of a one-based character position.
#[must_use]
pub fn line_of(sql: &str, position: Option<u32>) -> usize {
    let before = usize::try_from(position.unwrap_or(1)).unwrap_or(1).saturating_sub(1);
    1 + sql.chars().take(before).filter(|&character| character == '\n').count()
}

async fn record<C: tokio_postgres::GenericClient>(
    client: &C,
    migration: &SystemMigration,
) -> Result<(), MigrationError> {
    let version = i32::try_from(migration.version).unwrap_or(i32::MAX);
    client
        .execute(state::RECORD, &[&migration.service, &version, &migration.name, &migration.checksum()])
        .await?;
    Ok(())
}

async fn lock(client: &Client) -> Result<(), MigrationError> {
    let wait = format!(
        "set lock_timeout = {}; select pg_catalog.pg_advisory_lock({LOCK_KEY}); reset lock_timeout",
        LOCK_WAIT.as_millis()
    );
    match client.batch_execute(&wait).await.map_err(MigrationError::from) {
        Err(MigrationError::Postgres(error)) if error.code == "55P03" => {
            client.batch_execute("reset lock_timeout").await?;
            Err(MigrationError::Busy)
        }
        other => other,
    }
}

async fn unlock(client: &Client) -> Result<(), MigrationError> {
    client.batch_execute(&format!("select pg_catalog.pg_advisory_unlock({LOCK_KEY})")).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::state::Applied;
    use super::*;

    #[test]
    fn positions_count_characters_and_lines_count_from_one() {
        assert_eq!(line_of("select 1", None), 1);
        assert_eq!(line_of("ä\nb\nc", Some(1)), 1);
        assert_eq!(line_of("ä\nb\nc", Some(3)), 2);
        assert_eq!(line_of("ä\nb\nc", Some(99)), 3);
    }

    #[test]
    fn a_changed_migration_is_named() {
        let mut applied = Applied::new();
        let record = state::Record { name: "schemas".to_owned(), checksum: "0".repeat(64) };
        applied.insert(("core".to_owned(), 1), record);
        let error = pending(&State::of(applied), MIGRATIONS).unwrap_err();
        assert!(error.to_string().contains("core/0001_schemas was changed"), "{error}");
    }
}
