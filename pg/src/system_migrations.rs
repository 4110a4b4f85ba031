//! The database objects that must exist before any service can run: roles, schemas, and each service's own tables.
//! Each service crate lists its [`SystemMigration`]s; [`apply`] brings a database up to date with all of them. The
//! application's own migrations belong to `basalt-project`.
//!
//! Two servers may start at once, on one database or on two databases of one cluster. On one database an advisory
//! lock lets the first do the work and the second find it done. Roles belong to the whole cluster, which advisory
//! locks do not cover: a superuser serialises role changes by locking `pg_authid`, a table shared by all databases;
//! any other login loses the race with an error and retries (`is_lost_race`).
//!
//! Objects outside the database (roles, memberships, rights on the database itself) are missing from dumps and from
//! copies of a template, although the copied list of applied migrations includes them. That part therefore has no
//! version: its script is idempotent and runs whenever something is missing.

mod error;
mod logins;
mod row_security;
mod state;
mod steps;

use std::time::Duration;

use secrecy::SecretString;
use tokio_postgres::Client;

use crate::migration_runner::{self, MigrationSource};
use crate::pg_error::{DriverError, PgError};
use basalt_core::convert::saturating;
pub use error::MigrationError;
pub use row_security::{MissingGrant, displaced_tables, missing_grants, restore_grants, unprotected_tables};
use state::State;
use steps::CLUSTER;
pub use steps::{Layout, MIGRATIONS, SystemMigration, sha256_hex};

/// Settings of [`apply`] other than the migrations.
#[derive(Debug, Default)]
pub struct MigrationSettings {
    /// Passwords of login roles by role name: `authenticator`, `supabase_auth_admin`, `postgres`. Superusers and the
    /// connection's own role keep theirs.
    pub passwords: Vec<(&'static str, SecretString)>,
    /// Determines the default privileges.
    pub layout: Layout,
}

/// What [`apply`] changed, and what it lacked the rights to change.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// `service/name` of every migration that ran, in order. Empty if the database was up to date.
    pub applied: Vec<String>,
    /// Service tables on which row-level security was off and has been enabled again.
    pub protected: Vec<String>,
    /// Service tables that belonged to another role and were given back to their schema's owner.
    pub returned: Vec<String>,
    /// Grants of the services that were missing and exist again.
    pub granted: Vec<MissingGrant>,
    /// Login roles whose password was changed.
    pub passwords_set: Vec<&'static str>,
    /// Whether the connection's role is a superuser.
    pub is_superuser: bool,
    /// Features that are unavailable because the role lacks rights.
    pub limits: Vec<Limit>,
}

/// A missing right and its effect, for `doctor` and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The missing right.
    pub what: &'static str,
    /// The effect on users.
    pub cost: &'static str,
    /// The statement a superuser can run to grant it.
    pub remedy: &'static str,
}

/// "Basalt" in ASCII, for `pg_advisory_lock`. Must be the same number in every release.
const LOCK_KEY: i64 = 0x4261_7361_6c74;
/// A lost race is over once the winner has committed; six retries with doubling pauses cover two seconds.
const ATTEMPTS: u32 = 6;

/// Brings the database up to date: roles, this crate's schemas, then `sets` in order, then the passwords of the login
/// roles. Restores row-level security on the services' tables. If the database is up to date, this costs a few round
/// trips and takes no lock.
///
/// # Errors
/// A migration failed (it is rolled back, earlier ones stay), an applied migration was changed, or the database is
/// unreachable.
pub async fn apply(
    client: &mut Client,
    sets: &[&[SystemMigration]],
    settings: &MigrationSettings,
) -> Result<Report, MigrationError> {
    let script = settings.layout.script();
    let wanted: Vec<SystemMigration> =
        MIGRATIONS.iter().chain(sets.iter().copied().flatten()).chain(&script).copied().collect();

    let mut report = Report::default();
    // Before the migrations, which may revoke some of them.
    if settings.layout != Layout::Untouched {
        report.granted = restore_grants(client).await?;
    }
    let mut source = Source { wanted: &wanted, applied: &mut report.applied };
    let state = migration_runner::run(client, &mut source).await?.state;
    // A project that belongs to another server keeps that server's setup.
    if settings.layout != Layout::Untouched {
        let restored = row_security::restore(client).await?;
        report.protected = restored.unprotected;
        report.returned = restored.displaced;
        if !report.applied.is_empty() {
            row_security::record_grants(client).await?;
        }
    }
    let passwords = logins::set_passwords(client, &settings.passwords, state.is_superuser()).await?;
    report.passwords_set = passwords.set;
    report.is_superuser = state.is_superuser();
    report.limits = state.limits();
    if passwords.is_refused {
        report.limits.push(Limit {
            what: "the login of database.url cannot set the passwords of the server's other logins",
            cost: "requests fail unless database.authenticator_url names a working login",
            remedy: "grant authenticator, supabase_auth_admin to <login> with admin option",
        });
    }
    Ok(report)
}

/// Checks that no newer release has changed the database. Read-only; a database that no release has used passes.
///
/// # Errors
/// [`MigrationError::Newer`], or the database is unreachable.
pub async fn check_release(client: &Client, sets: &[&[SystemMigration]]) -> Result<(), MigrationError> {
    let known: Vec<SystemMigration> =
        MIGRATIONS.iter().chain(sets.iter().copied().flatten()).copied().collect();
    check_known(&State::read(client).await?, &known)
}

/// The migrations that [`apply`] would run on a database that a release has used, as `service/name`. Read-only; empty for a new database.
///
/// # Errors
/// [`MigrationError::Newer`], an applied migration was changed, or the database is unreachable.
pub async fn missing_migrations(
    client: &Client,
    sets: &[&[SystemMigration]],
) -> Result<Vec<String>, MigrationError> {
    let known: Vec<SystemMigration> =
        MIGRATIONS.iter().chain(sets.iter().copied().flatten()).copied().collect();
    let state = State::read(client).await?;
    check_known(&state, &known)?;
    if !state.has_table() {
        return Ok(Vec::new());
    }
    let missing = pending(&state, &known)?;
    Ok(missing.iter().map(|migration| format!("{}/{}", migration.service, migration.name)).collect())
}

fn check_known(state: &State, known: &[SystemMigration]) -> Result<(), MigrationError> {
    let unknown = state.unknown(known);
    if unknown.is_empty() { Ok(()) } else { Err(MigrationError::Newer(unknown)) }
}

struct Source<'a> {
    wanted: &'a [SystemMigration],
    /// As in [`Report::applied`].
    applied: &'a mut Vec<String>,
}

struct Plan {
    state: State,
    missing: Vec<SystemMigration>,
}

impl MigrationSource for Source<'_> {
    type Plan = Plan;
    type Error = MigrationError;

    const LOCK_KEY: i64 = LOCK_KEY;
    const BUSY: MigrationError = MigrationError::Busy;

    async fn plan(&mut self, client: &Client) -> Result<Plan, MigrationError> {
        let state = State::read(client).await?;
        check_known(&state, self.wanted)?;
        let mut missing = pending(&state, self.wanted)?;
        missing.extend(state.missing_event_triggers());
        Ok(Plan { state, missing })
    }

    fn is_empty(plan: &Plan) -> bool {
        plan.missing.is_empty() && plan.state.is_cluster_complete()
    }

    async fn apply(&mut self, client: &mut Client, plan: Plan) -> Result<Plan, MigrationError> {
        if !plan.state.is_cluster_complete() {
            run_with_retries(client, &CLUSTER, plan.state.has_table()).await?;
            self.applied.push("cluster/roles".to_owned());
        }
        if !plan.state.has_table() {
            client.batch_execute(state::TABLE).await?;
            record(client, &CLUSTER).await?;
        }
        for migration in &plan.missing {
            run_with_retries(client, migration, true).await?;
            tracing::debug!(service = migration.service, name = migration.name, "system migration applied");
            self.applied.push(format!("{}/{}", migration.service, migration.name));
        }
        Ok(Plan { state: State::read(client).await?, missing: plan.missing })
    }
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

/// Executes statements that a server that starts at the same moment executes, too, with the same effect.
async fn execute_with_retries(client: &Client, statements: &str) -> Result<(), MigrationError> {
    let mut attempt = 0;
    loop {
        match client.batch_execute(statements).await.map_err(MigrationError::from) {
            Err(MigrationError::Postgres(error)) if attempt < ATTEMPTS && is_lost_race(&error) => {
                tokio::time::sleep(Duration::from_millis(30 << attempt)).await;
                attempt += 1;
            }
            other => return other,
        }
    }
}

/// Whether another database of the cluster changed the same role concurrently: `duplicate key` on its name, `tuple
/// concurrently updated`, or a deadlock. The scripts check before they create, so a retry finds the work done.
fn is_lost_race(error: &PgError) -> bool {
    matches!(error.code.as_str(), "23505" | "42710" | "XX000" | "40P01" | "40001")
}

async fn run(
    client: &mut Client,
    migration: &SystemMigration,
    has_table: bool,
) -> Result<(), MigrationError> {
    let transaction = client.transaction().await?;
    // The login role may carry a statement timeout, which is meant for requests.
    transaction.batch_execute("set local search_path = ''; set local statement_timeout = 0").await?;
    if let Err(error) = transaction.batch_execute(migration.sql).await {
        return Err(failed(migration, error));
    }
    // The script may have switched roles, but only the connection's own role may write the list of migrations.
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

/// Converts a one-based character position into a one-based line number.
#[must_use]
pub fn line_of(sql: &str, position: Option<u32>) -> usize {
    let before = usize::try_from(position.unwrap_or(1)).unwrap_or(1).saturating_sub(1);
    1 + sql.chars().take(before).filter(|&character| character == '\n').count()
}

async fn record<C: tokio_postgres::GenericClient>(
    client: &C,
    migration: &SystemMigration,
) -> Result<(), MigrationError> {
    let version = saturating::<i32>(migration.version);
    client
        .execute(state::RECORD, &[&migration.service, &version, &migration.name, &migration.checksum()])
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::state::Applied;
    use super::*;

    #[test]
    fn line_numbers_are_one_based_and_count_characters() {
        assert_eq!(line_of("select 1", None), 1);
        assert_eq!(line_of("ä\nb\nc", Some(1)), 1);
        assert_eq!(line_of("ä\nb\nc", Some(3)), 2);
        assert_eq!(line_of("ä\nb\nc", Some(99)), 3);
    }

    #[test]
    fn the_error_names_a_changed_migration() {
        let mut applied = Applied::new();
        let record = state::Record { name: "schemas".to_owned(), checksum: "0".repeat(64) };
        applied.insert(("core".to_owned(), 1), record);
        let error = pending(&State::with_applied(applied), MIGRATIONS).unwrap_err();
        assert!(error.to_string().contains("core/0001_schemas was changed"), "{error}");
    }
}
