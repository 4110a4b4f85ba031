//! Brings a database up to a project's files: migrations in order and once, policies when something is new, the seed on
//! a new database. Several servers may start at once: the first takes an advisory lock, the others find it done.
//!
//! Each file is one transaction, its record included, run as the project's owner (`basalt.project_owner()`: role
//! `postgres`), so that objects belong to it and default privileges hold. The policy files are one transaction
//! together: at no moment is a table open or closed by halves.

use std::collections::HashMap;
use std::time::Duration;

use basalt_core::pg_error::DriverError;
use tokio_postgres::{Client, Transaction};

use crate::error::{ProjectError, StatementError};
use crate::folder::{File, Files, Kind};
use crate::{Project, statements};

/// What to do besides migrations and policies. `seed.sql` never runs twice on one database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrateOptions {
    /// Run `seed.sql` on a database that this project is applied to for the first time: development.
    pub seed: bool,
    /// With `seed`: also on a database that is not new any more, unless it has run before: `migrate --seed`.
    pub seed_existing: bool,
}

/// What was done. All empty when there was nothing to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Applied migrations, relative paths, in order.
    pub migrations: Vec<String>,
    /// Policy files that ran: all of them, or none.
    pub policies: Vec<String>,
    /// Whether the seed ran.
    pub seeded: bool,
    /// Files that were applied to this database once and are not in the folder: an older checkout, or a deletion,
    /// which undoes nothing.
    pub missing: Vec<String>,
}

/// "BasaltPr" as bytes; core's system migrations have another.
const LOCK_KEY: i64 = 0x4261_7361_6c74_5072;
const LOCK_WAIT: Duration = Duration::from_secs(60);

const HISTORY: &str = "
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (
  version text primary key,
  name text,
  statements text[]
)";

/// One statement for each policy of a table.
const POLICIES: &str = "
select format('drop policy %I on %I.%I', p.polname, n.nspname, c.relname)
from pg_catalog.pg_policy p
join pg_catalog.pg_class c on c.oid = p.polrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = $2";

/// File by path; `None` is a seed that waits for its turn.
type Applied = HashMap<String, (String, Option<String>)>;

impl Project {
    /// Applies what is new. `progress` hears a few words before each step. `client` is an admin connection after core's system migrations. Of its settings only the
    /// defaults survive.
    ///
    /// # Errors
    /// A file cannot be read, is misnamed, was changed after it had been applied, or PostgreSQL refuses a statement.
    /// Files applied before the faulty one stay applied.
    pub async fn migrate(
        &self,
        client: &mut Client,
        options: &MigrateOptions,
        mut progress: impl FnMut(&str) + Send,
    ) -> Result<Report, ProjectError> {
        let files = Files::read(&self.dir)?;
        let plan = Plan::make(&files, &read_applied(client).await?, options)?;
        if plan.is_empty() {
            return Ok(plan.report(&[], &[], false));
        }
        lock(client, &mut progress).await?;
        let outcome = apply(client, &files, options, &mut progress).await;
        // The lock ends with the session as well; a failure here must not hide the first one. A file may have left
        // session settings behind (`set search_path …` in a dump).
        let cleaned = client
            .batch_execute(&format!(
                "reset role; reset all; select pg_catalog.pg_advisory_unlock({LOCK_KEY})"
            ))
            .await;
        let report = outcome?;
        cleaned?;
        Ok(report)
    }
}

/// What is to be done, found out without touching anything.
#[derive(Debug, Default)]
struct Plan<'a> {
    migrations: Vec<&'a File>,
    policies: Vec<&'a File>,
    seed: Option<&'a File>,
    /// The database has none of this project's migrations yet.
    is_new: bool,
    missing: Vec<String>,
}

impl<'a> Plan<'a> {
    fn make(files: &'a Files, applied: &Applied, options: &MigrateOptions) -> Result<Self, ProjectError> {
        let mut plan = Self { is_new: applied.is_empty(), ..Self::default() };
        for file in &files.migrations {
            match applied.get(&file.path) {
                None => plan.migrations.push(file),
                Some((_, Some(sha256))) if *sha256 == file.sha256 => {
                    if let Some(skipped) = plan.migrations.first() {
                        return Err(ProjectError::OutOfOrder {
                            file: skipped.path.clone(),
                            applied: file.path.clone(),
                        });
                    }
                }
                Some(_) => return Err(ProjectError::Changed { file: file.path.clone() }),
            }
        }
        let is_changed = |file: &File| {
            applied.get(&file.path).is_none_or(|(_, sha256)| sha256.as_deref() != Some(file.sha256.as_str()))
        };
        if !plan.migrations.is_empty() || files.policies.iter().any(is_changed) {
            plan.policies = files.policies.iter().collect();
        }
        if let Some(seed) = &files.seed {
            let is_due = match applied.get(&seed.path) {
                Some((_, Some(_))) => false,
                Some((_, None)) => true,
                None => plan.is_new || options.seed_existing,
            };
            plan.seed = (options.seed && is_due).then_some(seed);
        }
        let known: Vec<&str> =
            files.migrations.iter().chain(&files.policies).map(|file| file.path.as_str()).collect();
        plan.missing = applied
            .iter()
            .filter(|(path, (kind, _))| kind != Kind::Seed.as_sql() && !known.contains(&path.as_str()))
            .map(|(path, _)| path.clone())
            .collect();
        plan.missing.sort_unstable();
        Ok(plan)
    }

    const fn is_empty(&self) -> bool {
        self.migrations.is_empty() && self.policies.is_empty() && self.seed.is_none()
    }

    fn report(self, migrations: &[&File], policies: &[&File], seeded: bool) -> Report {
        let paths = |files: &[&File]| files.iter().map(|file| file.path.clone()).collect();
        Report { migrations: paths(migrations), policies: paths(policies), seeded, missing: self.missing }
    }
}

/// Under the lock: what was applied is read again, because whoever held it before may have done everything.
async fn apply(
    client: &mut Client,
    files: &Files,
    options: &MigrateOptions,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<Report, ProjectError> {
    let plan = Plan::make(files, &read_applied(client).await?, options)?;
    let owner: String = client.query_one("select basalt.project_owner()::text", &[]).await?.try_get(0)?;

    for (index, file) in plan.migrations.iter().enumerate() {
        progress(&format!("applying {}", file.path));
        let transaction = begin(client, &owner).await?;
        if index == 0 {
            transaction.batch_execute(HISTORY).await?;
        }
        let statements = statements::run(&transaction, &file.path, &file.sql).await?;
        settle(&transaction, file, statements.len()).await?;
        become_admin(&transaction).await?;
        let (version, name) = file.version_and_name();
        transaction
            .execute(
                "insert into supabase_migrations.schema_migrations (version, name, statements) values ($1, $2, $3)",
                &[&version, &name, &statements],
            )
            .await?;
        record(&transaction, file).await?;
        if let (true, Some(seed)) = (plan.is_new && index == 0, plan.seed) {
            // A server that dies before the seed has run finds here that it is still to come.
            transaction
                .execute(
                    "insert into basalt.project_files (path, kind) values ($1, $2)",
                    &[&seed.path, &seed.kind.as_sql()],
                )
                .await?;
        }
        transaction.commit().await?;
    }
    if !plan.policies.is_empty() {
        progress(&format!("applying {} policy files", plan.policies.len()));
        apply_policies(client, &owner, &plan.policies).await?;
    }
    if let Some(seed) = plan.seed {
        progress(&format!("applying {}", seed.path));
        let transaction = begin(client, &owner).await?;
        let count = statements::run(&transaction, &seed.path, &seed.sql).await?.len();
        settle(&transaction, seed, count).await?;
        become_admin(&transaction).await?;
        record(&transaction, seed).await?;
        transaction.commit().await?;
    }
    let (migrations, policies, seeded) =
        (plan.migrations.clone(), plan.policies.clone(), plan.seed.is_some());
    Ok(plan.report(&migrations, &policies, seeded))
}

/// All policy files in one transaction. What a file no longer says is gone: its table's policies are dropped first.
async fn apply_policies(client: &mut Client, owner: &str, files: &[&File]) -> Result<(), ProjectError> {
    let transaction = begin(client, owner).await?;
    for file in files {
        let (schema, table) = file.stem().split_once('.').unwrap_or(("public", file.stem()));
        for row in transaction.query(POLICIES, &[&schema, &table]).await? {
            let drop: String = row.try_get(0)?;
            transaction.batch_execute(&drop).await.map_err(|error| refused(file, 1, 1, error))?;
        }
        let count = statements::run(&transaction, &file.path, &file.sql).await?.len();
        settle(&transaction, file, count).await?;
    }
    become_admin(&transaction).await?;
    for file in files {
        record(&transaction, file).await?;
    }
    // Event triggers say so as well, but only a superuser can have them.
    transaction.batch_execute("notify pgrst, 'reload schema'").await?;
    transaction.commit().await?;
    Ok(())
}

async fn read_applied(client: &Client) -> Result<Applied, ProjectError> {
    let rows = client.query("select path, kind, sha256 from basalt.project_files", &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?)))).collect()
}

/// A transaction as the project's owner, with the search path that upstream gives to role `postgres`.
async fn begin<'a>(client: &'a mut Client, owner: &str) -> Result<Transaction<'a>, ProjectError> {
    // What the file before set for the session must not reach this one.
    client.batch_execute("reset role; reset all").await?;
    let transaction = client.transaction().await?;
    transaction
        .execute(
            "select set_config('role', $1, true), set_config('statement_timeout', '0', true),
               set_config('search_path', '\"$user\", public, extensions', true)",
            &[&owner],
        )
        .await?;
    Ok(transaction)
}

/// Back to the connection's own role, for our records.
async fn become_admin(transaction: &Transaction<'_>) -> Result<(), ProjectError> {
    Ok(transaction.batch_execute("set local role none").await?)
}

async fn record(transaction: &Transaction<'_>, file: &File) -> Result<(), ProjectError> {
    transaction
        .execute(
            "insert into basalt.project_files as f (path, kind, sha256) values ($1, $2, $3)
             on conflict (path) do update set sha256 = excluded.sha256, applied_at = now()",
            &[&file.path, &file.kind.as_sql(), &file.sha256],
        )
        .await?;
    Ok(())
}

/// Lets deferred constraints speak while the error can still be laid at the file's door.
async fn settle(transaction: &Transaction<'_>, file: &File, count: usize) -> Result<(), ProjectError> {
    let last_line = file.sql.trim_end().lines().count();
    transaction
        .batch_execute("set constraints all immediate")
        .await
        .map_err(|error| refused(file, last_line, count, error))
}

fn refused(file: &File, line: usize, statement: usize, error: tokio_postgres::Error) -> ProjectError {
    match DriverError::from(error) {
        DriverError::Postgres(error) => ProjectError::Statement(Box::new(StatementError {
            file: file.path.clone(),
            line,
            statement,
            error: *error,
        })),
        DriverError::Connection(text) => ProjectError::Connection(text),
    }
}

async fn lock(client: &Client, progress: &mut (impl FnMut(&str) + Send)) -> Result<(), ProjectError> {
    let taken: bool =
        client.query_one("select pg_catalog.pg_try_advisory_lock($1)", &[&LOCK_KEY]).await?.try_get(0)?;
    if taken {
        return Ok(());
    }
    progress("waiting for another server, which is applying the project to this database");
    let wait = format!(
        "set lock_timeout = {}; select pg_catalog.pg_advisory_lock({LOCK_KEY}); reset lock_timeout",
        LOCK_WAIT.as_millis()
    );
    match client.batch_execute(&wait).await.map_err(ProjectError::from) {
        Err(ProjectError::Postgres(error)) if error.code == "55P03" => {
            client.batch_execute("reset lock_timeout").await?;
            Err(ProjectError::Busy)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, kind: Kind, sql: &str) -> File {
        File { path: path.to_owned(), kind, sql: sql.to_owned(), sha256: sql.to_owned() }
    }

    fn files() -> Files {
        Files {
            migrations: vec![
                file("migrations/0001_a.sql", Kind::Migration, "a"),
                file("migrations/0002_b.sql", Kind::Migration, "b"),
            ],
            policies: vec![
                file("policies/t.sql", Kind::Policy, "p"),
                file("policies/u.sql", Kind::Policy, "q"),
            ],
            seed: Some(file("seed.sql", Kind::Seed, "s")),
        }
    }

    fn applied(entries: &[(&str, &str, Option<&str>)]) -> Applied {
        let own = |text: &str| text.to_owned();
        entries.iter().map(|(path, kind, sha)| (own(path), (own(kind), sha.map(own)))).collect()
    }

    const NEVER: MigrateOptions = MigrateOptions { seed: false, seed_existing: false };
    const NEW: MigrateOptions = MigrateOptions { seed: true, seed_existing: false };
    const ONCE: MigrateOptions = MigrateOptions { seed: true, seed_existing: true };

    fn plan<'a>(
        files: &'a Files,
        applied: &Applied,
        options: MigrateOptions,
    ) -> Result<Plan<'a>, ProjectError> {
        Plan::make(files, applied, &options)
    }

    fn everything() -> Vec<(&'static str, &'static str, Option<&'static str>)> {
        vec![
            ("migrations/0001_a.sql", "migration", Some("a")),
            ("migrations/0002_b.sql", "migration", Some("b")),
            ("policies/t.sql", "policy", Some("p")),
            ("policies/u.sql", "policy", Some("q")),
        ]
    }

    #[test]
    fn an_unchanged_project_has_nothing_to_do() {
        let files = files();
        assert!(plan(&files, &applied(&everything()), NEW).unwrap().is_empty());
    }

    #[test]
    fn one_changed_policy_runs_them_all_and_a_new_migration_does_too() {
        let mut files = files();
        let known = applied(&everything());
        files.policies[0].sha256 = "p2".to_owned();
        assert_eq!(plan(&files, &known, NEVER).unwrap().policies.len(), 2);
        let older = applied(&everything()[..1]);
        assert_eq!(plan(&files, &older, NEVER).unwrap().migrations.len(), 1);
    }

    #[test]
    fn a_changed_migration_and_a_late_one_are_named() {
        let files = files();
        let mut known = everything();
        known[0].2 = Some("other");
        let error = plan(&files, &applied(&known), NEVER).unwrap_err();
        assert!(matches!(error, ProjectError::Changed { file } if file == "migrations/0001_a.sql"));
        let error = plan(&files, &applied(&everything()[1..]), NEVER).unwrap_err();
        assert!(matches!(error, ProjectError::OutOfOrder { file, .. } if file == "migrations/0001_a.sql"));
    }

    #[test]
    fn the_seed_runs_once_and_survives_a_crash_before_it() {
        let files = files();
        let mut known = everything();
        let due = |known: &[_], options| plan(&files, &applied(known), options).unwrap().seed.is_some();
        assert!(due(&[], NEW) && due(&[], ONCE) && !due(&[], NEVER));
        assert!(!due(&known, NEW) && due(&known, ONCE));
        known.push(("seed.sql", "seed", None));
        assert!(due(&known, NEW));
        known.pop();
        known.push(("seed.sql", "seed", Some("an older seed")));
        assert!(!due(&known, NEW) && !due(&known, ONCE));
    }

    #[test]
    fn files_that_are_gone_are_reported() {
        let files = files();
        let mut known = everything();
        known.push(("migrations/0003_c.sql", "migration", Some("c")));
        assert_eq!(plan(&files, &applied(&known), NEVER).unwrap().missing, ["migrations/0003_c.sql"]);
    }
}
