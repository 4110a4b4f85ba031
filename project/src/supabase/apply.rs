//! Applies what a database lacks of a project, under the lock.

use basalt_pg::migration_runner::MigrationSource;
use basalt_pg::pg_error::DriverError;
use basalt_pg::sql::Sql;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Client;

use super::files::{Files, Migration};
use super::plan::{Plan, State};
use super::script::{self, Actor};
use super::{BucketSettings, Failure, ServerValues, SupabaseOptions, SupabaseReport, history};
use crate::error::ProjectError;
use crate::folder::File;
use crate::migrate::{LOCK_KEY, WAITING};

/// The project's files, and how to apply them.
pub(super) struct Source<'a, P> {
    pub(super) files: &'a Files,
    pub(super) options: &'a SupabaseOptions,
    pub(super) progress: &'a mut P,
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
        Ok(Plan::make(self.files, &State::read(client).await?, self.options))
    }

    fn is_empty(plan: &Plan<'a>) -> bool {
        plan.is_empty()
    }

    async fn apply(&mut self, client: &mut Client, mut plan: Plan<'a>) -> Result<Plan<'a>, ProjectError> {
        let report = std::mem::take(&mut plan.report);
        let actor = Actor::read(client).await?;
        let mut run = Run { client, actor, is_strict: self.options.strict, report };
        run.prepare(&plan).await?;
        for secret in &plan.vault {
            run.vault(secret).await?;
        }
        if let Some(roles) = plan.roles {
            (self.progress)(&format!("applying {}", roles.path));
            if run.file(roles, Record::File).await? {
                run.report.applied.push(roles.path.clone());
            }
        }
        for migration in &plan.migrations {
            (self.progress)(&format!("applying {}", migration.path));
            run.migration(migration).await?;
        }
        for seed in &plan.seeds {
            (self.progress)(&format!("applying {}", seed.path));
            if run.file(seed, Record::Seed).await? {
                run.report.seeds.push(seed.path.clone());
            }
        }
        for seed in &plan.changed_seeds {
            const REHASH: &str = "update supabase_migrations.seed_files set hash = $2 where path = $1";
            run.client.execute(REHASH, &[&seed.path, &seed.sha256]).await?;
        }
        for bucket in &plan.buckets {
            run.bucket(bucket).await?;
        }
        plan.report = run.report;
        Ok(plan)
    }
}

/// Where a file is recorded.
#[derive(Clone, Copy)]
enum Record<'a> {
    Migration(&'a Migration),
    Seed,
    /// In `basalt.project_files` only.
    File,
}

struct Run<'a> {
    client: &'a mut Client,
    actor: Actor,
    is_strict: bool,
    report: SupabaseReport,
}

impl Run<'_> {
    /// Creates the lists of applied files; notes the seeds of a new database, so that they still run if the server is killed before;
    /// stores the settings that the project's SQL reads.
    async fn prepare(&mut self, plan: &Plan<'_>) -> Result<(), ProjectError> {
        const PENDING: &str = "
            insert into basalt.project_files (path, kind) values ($1, 'seed') on conflict (path) do nothing";
        const NET: &str = "
            do $$ begin
              if exists (select from pg_catalog.pg_available_extensions where name = 'pg_net') then
                create extension if not exists pg_net with schema extensions;
              end if;
            end $$";
        let transaction = self.client.transaction().await?;
        if plan.is_new && plan.uses_net && self.actor == Actor::Elevated {
            transaction.batch_execute(NET).await?;
        }
        transaction
            .batch_execute("select pg_catalog.set_config('role', basalt.project_owner()::text, true)")
            .await?;
        transaction.batch_execute(history::CREATE).await?;
        transaction.batch_execute("set local role none").await?;
        for seed in plan.seeds.iter().filter(|_| plan.is_new) {
            transaction.execute(PENDING, &[&seed.path]).await?;
        }
        if !plan.settings.is_empty() {
            let database: String =
                transaction.query_one("select pg_catalog.current_database()::text", &[]).await?.try_get(0)?;
            for (name, value) in &plan.settings {
                let (statement, _) = Sql::text("alter database ")
                    .then(Sql::ident(&database))
                    .then(Sql::text(" set app.settings."))
                    .then(Sql::ident(name))
                    .then(Sql::text(" = "))
                    .then(Sql::literal(value))
                    .render();
                transaction.batch_execute(&statement).await?;
            }
        }
        Ok(transaction.commit().await?)
    }

    async fn migration(&mut self, migration: &Migration) -> Result<(), ProjectError> {
        match &migration.file {
            Ok(file) => {
                if self.file(file, Record::Migration(migration)).await? {
                    self.report.applied.push(migration.path.clone());
                }
                Ok(())
            }
            Err(error) => {
                let error = ProjectError::Read {
                    file: migration.path.clone(),
                    source: std::io::Error::other(error.to_string()),
                };
                self.fail(Failure { error, is_partial: false })
            }
        }
    }

    /// Applies one file and records it in the same transaction. Returns whether it was applied.
    async fn file(&mut self, file: &File, record: Record<'_>) -> Result<bool, ProjectError> {
        let outcome = match script::run(self.client, self.actor, file).await {
            Ok(outcome) => outcome,
            Err(failure) => {
                self.fail(failure)?;
                return Ok(false);
            }
        };
        if let Err(error) = self.record(file, record, &outcome.statements).await {
            self.client.batch_execute("rollback").await?;
            let DriverError::Postgres(error) = DriverError::from(error) else {
                return Err(ProjectError::Connection("lost while recording a file".to_owned()));
            };
            self.fail(Failure { error: ProjectError::Postgres(error), is_partial: false })?;
            return Ok(false);
        }
        self.report.left_out.extend(outcome.left_out);
        Ok(true)
    }

    async fn record(
        &self,
        file: &File,
        record: Record<'_>,
        statements: &[String],
    ) -> Result<(), tokio_postgres::Error> {
        const FILE: &str = "
            insert into basalt.project_files as f (path, kind, sha256) values ($1, $2, $3)
            on conflict (path) do update set sha256 = excluded.sha256, applied_at = now()";
        const SEED: &str = "
            insert into supabase_migrations.seed_files (path, hash) values ($1, $2)
            on conflict (path) do update set hash = excluded.hash";
        match record {
            Record::Migration(migration) => {
                let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
                    [&migration.version, &migration.name, &statements];
                self.client.execute(history::INSERT, &parameters).await?;
            }
            Record::Seed => {
                self.client.execute(SEED, &[&file.path, &file.sha256]).await?;
            }
            Record::File => {}
        }
        self.client.execute(FILE, &[&file.path, &file.kind.as_sql(), &file.sha256]).await?;
        self.client.execute(history::FORGET_PROGRESS, &[&file.path]).await?;
        self.client.batch_execute("commit").await
    }

    async fn vault(&mut self, (name, secret): &(String, SecretString)) -> Result<(), ProjectError> {
        const FIND: &str = "select id::text from vault.secrets where name = $1";
        const UPDATE: &str = "select vault.update_secret($2::text::uuid, $1)";
        const CREATE: &str = "select vault.create_secret($1, $2)";
        let known = self.client.query_opt(FIND, &[name]).await?;
        let id = known.map(|row| row.try_get::<_, String>(0)).transpose()?;
        let (statement, target) = id.as_ref().map_or((CREATE, name), |id| (UPDATE, id));
        match self
            .client
            .query(statement, &[&secret.expose_secret(), target])
            .await
            .map_err(DriverError::from)
        {
            Ok(_) => {
                self.report.vault.push(name.clone());
                Ok(())
            }
            Err(DriverError::Postgres(error)) => {
                let error = ProjectError::Vault { name: name.clone(), error };
                self.fail(Failure { error, is_partial: false })
            }
            Err(DriverError::Connection(text)) => Err(ProjectError::Connection(text)),
        }
    }

    async fn bucket(&mut self, bucket: &BucketSettings) -> Result<(), ProjectError> {
        const UPSERT: &str = "
            insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types)
            values ($1, $1, $2, $3, $4)
            on conflict (id) do update set public = excluded.public, file_size_limit = excluded.file_size_limit,
              allowed_mime_types = excluded.allowed_mime_types, updated_at = now()";
        let BucketSettings { name, is_public, file_size_limit, allowed_mime_types } = bucket;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [name, is_public, file_size_limit, allowed_mime_types];
        match self.client.execute(UPSERT, &parameters).await.map_err(DriverError::from) {
            Ok(_) => {
                self.report.buckets.push(name.clone());
                Ok(())
            }
            Err(DriverError::Postgres(error)) => {
                let error = ProjectError::Bucket { name: name.clone(), error };
                self.fail(Failure { error, is_partial: false })
            }
            Err(DriverError::Connection(text)) => Err(ProjectError::Connection(text)),
        }
    }

    /// Notes a failure, or ends the run if it is strict or the connection is lost.
    fn fail(&mut self, failure: Failure) -> Result<(), ProjectError> {
        if let ProjectError::Connection(_) = failure.error {
            return Err(failure.error);
        }
        if self.is_strict {
            return Err(ProjectError::Strict { failure: failure.to_string() });
        }
        self.report.failed.push(failure);
        Ok(())
    }
}

impl ServerValues {
    /// The value of `app.settings.NAME`, if the name says what it holds.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix("supabase_").unwrap_or(name);
        Some(match name {
            "url" | "api_url" | "project_url" => self.url.clone(),
            "functions_url"
            | "functions_base_url"
            | "edge_functions_url"
            | "edge_function_url"
            | "edge_function_base_url" => format!("{}/functions/v1", self.url),
            "anon_key" => self.anon_key.expose_secret().to_owned(),
            "service_role_key" | "service_key" | "service_role" => {
                self.service_key.expose_secret().to_owned()
            }
            _ => return None,
        })
    }
}
