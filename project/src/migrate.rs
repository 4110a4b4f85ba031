//! Applies a project to a database: migrations in order and once, policies if a file is new or changed, the seed on a
//! new database. Several servers may start at once: the first takes an advisory lock, and the others find the work done.
//!
//! [`mod@plan`] decides what to apply. Each file runs in one transaction together with its record, as the project's owner (`basalt.project_owner()`, the
//! role `postgres`), so that objects belong to it and default privileges apply. All policy files share one transaction, so
//! that no table is ever left with only some of its policies.

mod plan;

use basalt_pg::migration_runner::{self, MigrationSource};
use basalt_pg::pg_error::DriverError;
use tokio_postgres::{Client, Transaction};

use crate::error::{ProjectError, StatementError};
use crate::folder::{File, Files};
use crate::{Project, statements};
use plan::{Applied, Plan};

/// What to do besides migrations and policies. `seed.sql` never runs twice on one database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrateOptions {
    /// Run `seed.sql` on a database without any of the project's migrations; for development.
    pub seed: bool,
    /// With `seed`: also run it on a database that is not new, unless it has run there before; for `migrate --seed`.
    pub seed_existing: bool,
    /// Record migrations that another tool has applied instead of failing; for `migrate --adopt`.
    pub adopt: bool,
}

/// What was applied. Empty if there was nothing to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Applied migrations as relative paths, in order.
    pub migrations: Vec<String>,
    /// Applied policy files: all of them, or none.
    pub policies: Vec<String>,
    /// Whether the seed ran.
    pub seeded: bool,
    /// Files that were applied to this database earlier and are missing in the folder: the checkout is older, or they were
    /// deleted, which undoes nothing.
    pub missing: Vec<String>,
}

/// "BasaltPr" as bytes; the system migrations use another key.
pub(crate) const LOCK_KEY: i64 = 0x4261_7361_6c74_5072;

pub(crate) const WAITING: &str = "waiting for another server, which is applying the project to this database";

const HISTORY: &str = "
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (
  version text primary key,
  name text,
  statements text[]
)";

/// Generates a DROP POLICY statement for each policy of a table.
const POLICIES: &str = "
select format('drop policy %I on %I.%I', p.polname, n.nspname, c.relname)
from pg_catalog.pg_policy p
join pg_catalog.pg_class c on c.oid = p.polrelid
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = $2";

impl Project {
    /// Applies new files. Calls `progress` with a short message before each step. `client` is an admin connection after the
    /// system migrations; its session settings are reset.
    ///
    /// # Errors
    /// A file cannot be read, has an invalid name, was changed after being applied, or PostgreSQL rejects a statement.
    /// Files applied before the faulty one stay applied.
    pub async fn migrate(
        &self,
        client: &mut Client,
        options: &MigrateOptions,
        mut progress: impl FnMut(&str) + Send,
    ) -> Result<Report, ProjectError> {
        let files = Files::read(&self.dir)?;
        let source = Source { files: &files, options, policies_only: false, progress: &mut progress };
        source.run(client).await
    }

    /// The number of applied migrations, and of those that the next start would apply. Read-only; the database may be new.
    ///
    /// # Errors
    /// The errors that [`Project::migrate`] finds before its first statement.
    pub async fn check(&self, client: &Client) -> Result<(usize, usize), ProjectError> {
        const HAS_RECORDS: &str = "select pg_catalog.to_regclass('basalt.project_files') is not null";
        let files = Files::read(&self.dir)?;
        let has_records: bool = client.query_one(HAS_RECORDS, &[]).await?.try_get(0)?;
        let applied = if has_records { read_applied(client).await? } else { Applied::new() };
        let plan = Plan::make(&files, &applied, &MigrateOptions::default())?;
        reject_applied(&applied_elsewhere(client, &plan).await?)?;
        Ok((files.migrations.len() - plan.migrations.len(), plan.migrations.len()))
    }

    /// Applies all policy files, changed or not, which reverts manual changes in the database. `progress`
    /// as in [`Project::migrate`]. Returns the files.
    ///
    /// # Errors
    /// As for [`Project::migrate`]; nothing is changed then.
    pub async fn apply_policies(
        &self,
        client: &mut Client,
        mut progress: impl FnMut(&str) + Send,
    ) -> Result<Vec<String>, ProjectError> {
        let files = Files::read(&self.dir)?;
        let options = MigrateOptions::default();
        let source =
            Source { files: &files, options: &options, policies_only: true, progress: &mut progress };
        Ok(source.run(client).await?.policies)
    }
}

struct Source<'a, P> {
    files: &'a Files,
    options: &'a MigrateOptions,
    /// Reapply all policy files and nothing else.
    policies_only: bool,
    progress: &'a mut P,
}

impl<P: FnMut(&str) + Send> Source<'_, P> {
    async fn run(mut self, client: &mut Client) -> Result<Report, ProjectError> {
        Ok(migration_runner::run(client, &mut self).await?.into_report())
    }
}

impl<'a, P: FnMut(&str) + Send> MigrationSource for Source<'a, P> {
    type Plan = Plan<'a>;
    type Error = ProjectError;

    const LOCK_KEY: i64 = LOCK_KEY;
    const BUSY: ProjectError = ProjectError::Busy;

    fn waiting(&mut self) {
        (self.progress)(WAITING);
    }

    async fn plan(&mut self, client: &Client) -> Result<Plan<'a>, ProjectError> {
        if self.policies_only {
            return Ok(Plan::for_policies(self.files));
        }
        Plan::make(self.files, &read_applied(client).await?, self.options)
    }

    fn is_empty(plan: &Plan<'a>) -> bool {
        plan.is_empty()
    }

    async fn apply(&mut self, client: &mut Client, mut plan: Plan<'a>) -> Result<Plan<'a>, ProjectError> {
        let elsewhere = applied_elsewhere(client, &plan).await?;
        if !self.options.adopt {
            reject_applied(&elsewhere)?;
        } else if !elsewhere.is_empty() {
            let transaction = client.transaction().await?;
            for file in &elsewhere {
                record(&transaction, file).await?;
            }
            transaction.commit().await?;
            (self.progress)(&format!(
                "recorded {} migrations that another tool has applied",
                elsewhere.len()
            ));
            plan = self.plan(client).await?;
        }
        let owner: String = client.query_one("select basalt.project_owner()::text", &[]).await?.try_get(0)?;

        for (index, file) in plan.migrations.iter().enumerate() {
            (self.progress)(&format!("applying {}", file.path));
            let transaction = begin(client, &owner).await?;
            if index == 0 {
                transaction.batch_execute(HISTORY).await?;
            }
            let statements = statements::run(&transaction, &file.path, &file.sql).await?;
            check_constraints(&transaction, file, statements.len()).await?;
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
                // Recorded as pending, so that it still runs if the server crashes before the seed.
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
            (self.progress)(&format!("applying {} policy files", plan.policies.len()));
            apply_policies(client, &owner, &plan.policies).await?;
        }
        if let Some(seed) = plan.seed {
            (self.progress)(&format!("applying {}", seed.path));
            let transaction = begin(client, &owner).await?;
            let count = statements::run(&transaction, &seed.path, &seed.sql).await?.len();
            check_constraints(&transaction, seed, count).await?;
            become_admin(&transaction).await?;
            record(&transaction, seed).await?;
            transaction.commit().await?;
        }
        Ok(plan)
    }
}

fn reject_applied(elsewhere: &[&File]) -> Result<(), ProjectError> {
    if elsewhere.is_empty() {
        return Ok(());
    }
    let files = elsewhere.iter().map(|file| file.path.clone()).collect();
    Err(ProjectError::AppliedElsewhere { files })
}

/// New migrations whose versions the database already has. Other tools record what they apply in `supabase_migrations.schema_migrations` only.
async fn applied_elsewhere<'a>(client: &Client, plan: &Plan<'a>) -> Result<Vec<&'a File>, ProjectError> {
    const HAS_HISTORY: &str =
        "select pg_catalog.to_regclass('supabase_migrations.schema_migrations') is not null";
    const VERSIONS: &str =
        "select version from supabase_migrations.schema_migrations where version = any($1)";
    let has_history: bool = client.query_one(HAS_HISTORY, &[]).await?.try_get(0)?;
    if plan.migrations.is_empty() || !has_history {
        return Ok(Vec::new());
    }
    let versions: Vec<&str> = plan.migrations.iter().map(|file| file.version_and_name().0).collect();
    let mut recorded: Vec<String> = Vec::new();
    for row in client.query(VERSIONS, &[&versions]).await? {
        recorded.push(row.try_get(0)?);
    }
    let files: Vec<&'a File> = plan
        .migrations
        .iter()
        .copied()
        .filter(|file| recorded.iter().any(|version| version == file.version_and_name().0))
        .collect();
    Ok(files)
}

/// Applies all policy files in one transaction.
async fn apply_policies(client: &mut Client, owner: &str, files: &[&File]) -> Result<(), ProjectError> {
    let transaction = begin(client, owner).await?;
    for file in files {
        run_policy_file(&transaction, file).await?;
    }
    become_admin(&transaction).await?;
    for file in files {
        record(&transaction, file).await?;
    }
    // Event triggers do this as well, but only a superuser can create them.
    transaction.batch_execute("notify pgrst, 'reload schema'").await?;
    transaction.commit().await?;
    Ok(())
}

/// The table of a policy file, as `schema.table`.
pub(crate) fn policy_table(file: &File) -> String {
    let (schema, table) = file.stem().split_once('.').unwrap_or(("public", file.stem()));
    format!("{schema}.{table}")
}

/// The name of a table's policy file, without `.sql`.
pub(crate) fn policy_stem(table: &str) -> &str {
    table.strip_prefix("public.").unwrap_or(table)
}

/// Applies a policy file. Drops the table's policies first, so that policies removed from the file disappear.
pub(crate) async fn run_policy_file(transaction: &Transaction<'_>, file: &File) -> Result<(), ProjectError> {
    let table = policy_table(file);
    let (schema, table) = table.split_once('.').unwrap_or_default();
    for row in transaction.query(POLICIES, &[&schema, &table]).await? {
        let drop: String = row.try_get(0)?;
        transaction.batch_execute(&drop).await.map_err(|error| statement_error(file, 1, 1, error))?;
    }
    let count = statements::run(transaction, &file.path, &file.sql).await?.len();
    check_constraints(transaction, file, count).await
}

async fn read_applied(client: &Client) -> Result<Applied, ProjectError> {
    let rows = client.query("select path, kind, sha256 from basalt.project_files", &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?)))).collect()
}

/// Begins a transaction as the project's owner, with the search path that Supabase gives the role `postgres`.
pub(crate) async fn begin<'a>(client: &'a mut Client, owner: &str) -> Result<Transaction<'a>, ProjectError> {
    // Undo session settings of the previous file.
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

/// Switches back to the connection's own role, to write our records.
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

/// Checks deferred constraints now, so that an error can be attributed to this file.
async fn check_constraints(
    transaction: &Transaction<'_>,
    file: &File,
    count: usize,
) -> Result<(), ProjectError> {
    let last_line = file.sql.trim_end().lines().count();
    transaction
        .batch_execute("set constraints all immediate")
        .await
        .map_err(|error| statement_error(file, last_line, count, error))
}

fn statement_error(file: &File, line: usize, statement: usize, error: tokio_postgres::Error) -> ProjectError {
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
