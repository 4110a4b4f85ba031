//! A project in Supabase's layout, a folder `supabase/` as its CLI makes it: migrations, `roles.sql`, seeds, and the buckets of `config.toml`.
//!
//! Differences from Basalt's layout ([`crate::Project::migrate`]): any name that starts with digits is a migration, files run with the rights of
//! a superuser (`supabase/script.rs`), a file that fails does not stop the others, and the list of applied versions is
//! `supabase_migrations.schema_migrations`, which Supabase's CLI reads and writes too. Reading `config.toml` is the gateway's part: it maps most
//! keys to settings of the services, and passes on the rest as [`SupabaseSettings`].

mod apply;
mod files;
pub mod history;
mod plan;
mod script;

use std::fmt;
use std::path::PathBuf;

use secrecy::SecretString;
use tokio_postgres::Client;

use crate::error::ProjectError;
use crate::{Project, ProjectLayout};
use basalt_pg::migration_runner;
pub use files::SeedPatterns;

/// The folder's name.
pub const FOLDER: &str = "supabase";

/// The part of `config.toml` that concerns the project's files.
#[derive(Debug, Clone)]
pub struct SupabaseSettings {
    /// `project_id`.
    pub project_id: Option<String>,
    /// `[api] auto_expose_new_tables`: whether the API roles may use new tables in `public`.
    pub exposes_new_tables: bool,
    /// `[db.migrations] enabled`.
    pub has_migrations: bool,
    /// `[db.seed] sql_paths`, empty if seeds are off.
    pub seeds: SeedPatterns,
    /// `[storage.buckets.*]`.
    pub buckets: Vec<BucketSettings>,
    /// `[storage.buckets.*] objects_path`.
    pub bucket_files: Vec<BucketFiles>,
    /// `[db.vault]`: name and secret.
    pub vault: Vec<(String, SecretString)>,
}

/// A folder whose files belong into a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketFiles {
    /// The bucket's name.
    pub bucket: String,
    /// The folder.
    pub folder: PathBuf,
}

impl Default for SupabaseSettings {
    fn default() -> Self {
        Self {
            project_id: None,
            exposes_new_tables: true,
            has_migrations: true,
            seeds: SeedPatterns::default(),
            buckets: Vec::new(),
            bucket_files: Vec::new(),
            vault: Vec::new(),
        }
    }
}

/// `[storage.buckets.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketSettings {
    /// The bucket's id and name.
    pub name: String,
    /// `public`.
    pub is_public: bool,
    /// `file_size_limit` in bytes.
    pub file_size_limit: Option<i64>,
    /// `allowed_mime_types`.
    pub allowed_mime_types: Option<Vec<String>>,
}

/// Values that a project's SQL reads as `current_setting('app.settings.…')`.
#[derive(Debug, Clone)]
pub struct ServerValues {
    /// The server's public URL, without a trailing slash.
    pub url: String,
    /// The API key of visitors.
    pub anon_key: SecretString,
    /// The API key that bypasses policies.
    pub service_key: SecretString,
}

/// What to do besides migrations.
#[derive(Debug, Clone)]
pub struct SupabaseOptions {
    /// From `config.toml`.
    pub settings: SupabaseSettings,
    /// Stop at the first file that fails.
    pub strict: bool,
    /// Run seeds on a new database; for development.
    pub seed: bool,
    /// With `seed`: also run seeds that have not run on a database that is not new; for `migrate --seed`.
    pub seed_existing: bool,
    /// Set in the database under the names that the project's files use; `None` sets none.
    pub server: Option<ServerValues>,
}

/// A file that was not applied.
#[derive(Debug)]
pub struct Failure {
    /// The error, with file, line and statement.
    pub error: ProjectError,
    /// Whether the file had committed statements before: it contains COMMIT, or statements that cannot run in a transaction.
    pub is_partial: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if self.is_partial {
            f.write_str("\n  statements before the file's last COMMIT stay applied")?;
        }
        Ok(())
    }
}

/// What was applied, and what was not.
#[derive(Debug, Default)]
pub struct SupabaseReport {
    /// Applied now, relative to the project.
    pub applied: Vec<String>,
    /// The number of migrations that were applied before.
    pub up_to_date: usize,
    /// Files that are not migrations or seeds, with the reason.
    pub skipped: Vec<(String, String)>,
    /// Files that failed; the next start tries them again.
    pub failed: Vec<Failure>,
    /// Migrations and seeds whose text changed after they were applied; they are not applied again.
    pub changed: Vec<String>,
    /// Versions in the database's history without a file.
    pub unknown_versions: Vec<String>,
    /// Seeds that ran now.
    pub seeds: Vec<String>,
    /// Buckets of `config.toml` that were created or changed now.
    pub buckets: Vec<String>,
    /// Secrets of `[db.vault]` that were created or changed now.
    pub vault: Vec<String>,
    /// Names under `app.settings` that the project's SQL reads and that no value is known for.
    pub unset: Vec<String>,
    /// Statements that were left out, with file, line and reason.
    pub left_out: Vec<String>,
}

impl SupabaseReport {
    /// The report for the operator, one line for each fact.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        const MOST: usize = 10;
        let mut lines = vec![format!(
            "{FOLDER}/: {} of {} migrations applied ({} now), {} skipped, {} failed",
            self.up_to_date + self.applied_migrations(),
            self.up_to_date + self.applied_migrations() + self.failed.len(),
            self.applied_migrations(),
            self.skipped.len(),
            self.failed.len()
        )];
        let mut list = |title: &str, items: &[String]| {
            if items.is_empty() {
                return;
            }
            let shown = items.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = items.len().saturating_sub(MOST);
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.push(format!("{title}: {shown}{rest}"));
        };
        let skipped: Vec<String> =
            self.skipped.iter().map(|(file, reason)| format!("{file} ({reason})")).collect();
        list("skipped", &skipped);
        list("changed after being applied, and not applied again", &self.changed);
        list("applied to this database, but not in the folder", &self.unknown_versions);
        list("seeds run", &self.seeds);
        list("buckets of config.toml created or changed", &self.buckets);
        list("secrets of the vault created or changed", &self.vault);
        list("statements left out", &self.left_out);
        let unset: Vec<String> = self.unset.iter().map(|name| format!("app.settings.{name}")).collect();
        list("settings that the SQL reads and that have no value (alter database postgres set …)", &unset);
        lines
    }

    fn applied_migrations(&self) -> usize {
        self.applied.iter().filter(|file| *file != files::ROLES).count()
    }
}

/// Version, name and path of each migration, in order.
pub(crate) fn migrations(dir: &std::path::Path) -> Result<Vec<(String, String, String)>, ProjectError> {
    let files = files::Files::read(dir, &SupabaseSettings::default())?;
    Ok(files.migrations.into_iter().map(|file| (file.version, file.name, file.path)).collect())
}

/// An extension that a file creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionUse {
    /// The extension's name.
    pub name: String,
    /// The first file that creates it.
    pub file: String,
    /// The statement's line.
    pub line: usize,
}

impl Project {
    /// The extensions that the project's migrations create, each with the first statement that does. Statements inside of DO blocks and
    /// functions are not found.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn supabase_extensions(
        &self,
        settings: &SupabaseSettings,
    ) -> Result<Vec<ExtensionUse>, ProjectError> {
        let files = files::Files::read(self.dir(), settings)?;
        let migrations = files.migrations.iter().filter_map(|migration| migration.file.as_ref().ok());
        let mut uses: Vec<ExtensionUse> = Vec::new();
        for file in files.roles.iter().chain(migrations) {
            for statement in crate::split::split(&file.sql) {
                let [create, extension] = statement.first_words();
                if (create.as_str(), extension.as_str()) != ("create", "extension") {
                    continue;
                }
                let Some(name) = script::extension_name(statement.text) else { continue };
                if uses.iter().all(|used| used.name != name) {
                    uses.push(ExtensionUse { name, file: file.path.clone(), line: statement.line });
                }
            }
        }
        Ok(uses)
    }

    /// Applies a project in Supabase's layout: `roles.sql` and migrations in order, seeds, buckets. Calls `progress` with a short message before
    /// each file. `client` is an admin connection after the system migrations; its session settings are reset.
    ///
    /// # Errors
    /// The connection breaks, another server holds the lock, or a file failed and `strict` is set. Otherwise files that fail are in the report.
    pub async fn apply_supabase(
        &self,
        client: &mut Client,
        options: &SupabaseOptions,
        mut progress: impl FnMut(&str) + Send,
    ) -> Result<SupabaseReport, ProjectError> {
        self.require(ProjectLayout::Supabase)?;
        let files = files::Files::read(self.dir(), &options.settings)?;
        let mut source = apply::Source { files: &files, options, progress: &mut progress };
        Ok(migration_runner::run(client, &mut source).await?.report)
    }

    /// The number of applied migrations, and of those that the next start would apply. Read-only; the database may be new.
    ///
    /// # Errors
    /// The folder cannot be read, or the connection breaks.
    pub async fn check_supabase(
        &self,
        client: &Client,
        settings: &SupabaseSettings,
    ) -> Result<(usize, usize), ProjectError> {
        let files = files::Files::read(self.dir(), settings)?;
        let state = plan::State::read(client).await?;
        let new = files.migrations.iter().filter(|file| !state.has(file)).count();
        Ok((files.migrations.len() - new, new))
    }

    fn require(&self, layout: ProjectLayout) -> Result<(), ProjectError> {
        if self.layout() == layout {
            return Ok(());
        }
        let message = match layout {
            ProjectLayout::Supabase => {
                "has no folder supabase/; this command is for projects in Supabase's layout"
            }
            ProjectLayout::Basalt => {
                "is in Supabase's layout; this command is for projects with migrations/NNNN_name.sql"
            }
        };
        Err(ProjectError::WrongLayout { dir: self.dir().to_owned(), message })
    }
}
