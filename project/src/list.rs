//! The project's migrations beside those that a database has, and corrections of the database's list.

use std::collections::BTreeMap;
use std::path::Path;

use tokio_postgres::Client;

use crate::error::ProjectError;
use crate::folder::{self, File, Files, Kind};
use crate::supabase::{self, history};
use crate::{Project, ProjectLayout};

/// A migration of the folder, of the database, or of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMigration {
    /// Its number.
    pub version: String,
    /// The rest of its name; empty if only the database has it and does not know the name.
    pub name: String,
    /// Whether the folder has it.
    pub has_file: bool,
    /// Whether the database's list has it.
    pub is_applied: bool,
}

/// A migration file.
struct Local {
    version: String,
    name: String,
    file: Option<File>,
}

impl Project {
    /// Makes an empty migration; `now` is the time in seconds since 1970. Returns its path relative to the project.
    ///
    /// # Errors
    /// The name contains other characters than letters, digits, `-` and `_`; the file cannot be created.
    pub fn new_migration(&self, name: &str, now: i64) -> Result<String, ProjectError> {
        let name = name.trim().replace([' ', '-'], "_").to_lowercase();
        let is_fine = !name.is_empty()
            && name.len() <= 100
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_fine {
            return Err(ProjectError::Name { file: name, rule: "use letters, digits and _" });
        }
        let (folder, version) = match self.layout() {
            ProjectLayout::Supabase => ("supabase/migrations", timestamp(now)),
            ProjectLayout::Basalt => {
                let files = Files::read(self.dir())?;
                let last = files.migrations.last().map_or("0000", |file| file.version_and_name().0);
                let next = last.parse::<u64>().map_or(1, |number| number.saturating_add(1));
                ("migrations", format!("{next:0width$}", width = last.len().max(4)))
            }
        };
        let path = format!("{folder}/{version}_{name}.sql");
        let create = || {
            std::fs::create_dir_all(self.dir().join(folder))?;
            std::fs::File::create_new(self.dir().join(&path))
        };
        create().map_err(|source| ProjectError::Read { file: path.clone(), source })?;
        Ok(path)
    }

    /// The migrations of the folder and of the database, in order.
    ///
    /// # Errors
    /// The folder cannot be read, or the connection breaks.
    pub async fn list_migrations(&self, client: &Client) -> Result<Vec<ListedMigration>, ProjectError> {
        let mut applied: BTreeMap<String, Option<String>> =
            history::versions(client).await?.into_iter().collect();
        let mut list: Vec<ListedMigration> = self
            .local()?
            .into_iter()
            .map(|Local { version, name, .. }| ListedMigration {
                is_applied: applied.remove(&version).is_some(),
                has_file: true,
                version,
                name,
            })
            .collect();
        list.extend(applied.into_iter().map(|(version, name)| ListedMigration {
            version,
            name: name.unwrap_or_default(),
            has_file: false,
            is_applied: true,
        }));
        list.sort_by(|a, b| a.version.cmp(&b.version));
        Ok(list)
    }

    /// Adds versions to the database's list of applied migrations, or removes them, without running SQL of the project.
    ///
    /// # Errors
    /// A version that is to be added has no file, or the connection breaks; then nothing is changed.
    pub async fn repair_migrations(
        &self,
        client: &mut Client,
        versions: &[String],
        is_applied: bool,
    ) -> Result<(), ProjectError> {
        const INSERT: &str = "
            insert into supabase_migrations.schema_migrations (version, name) values ($1, $2)
            on conflict (version) do nothing";
        const DELETE: &str = "delete from supabase_migrations.schema_migrations where version = $1";
        const RECORD: &str = "
            insert into basalt.project_files as f (path, kind, sha256) values ($1, 'migration', $2)
            on conflict (path) do update set sha256 = excluded.sha256, applied_at = now()";
        const FORGET: &str = "delete from basalt.project_files where path = $1";
        let local = self.local()?;
        let transaction = client.transaction().await?;
        transaction.batch_execute(history::CREATE).await?;
        for version in versions {
            let found = local.iter().find(|migration| migration.version == *version);
            let file = found.and_then(|migration| migration.file.as_ref());
            if is_applied {
                let Some(found) = found else {
                    return Err(ProjectError::NoVersion { version: version.clone() });
                };
                transaction.execute(INSERT, &[version, &found.name]).await?;
                if let Some(file) = file {
                    transaction.execute(RECORD, &[&file.path, &file.sha256]).await?;
                }
            } else {
                transaction.execute(DELETE, &[version]).await?;
                if let Some(file) = file {
                    transaction.execute(FORGET, &[&file.path]).await?;
                }
            }
        }
        Ok(transaction.commit().await?)
    }

    fn local(&self) -> Result<Vec<Local>, ProjectError> {
        match self.layout() {
            ProjectLayout::Supabase => {
                let files = supabase::migrations(self.dir())?;
                Ok(files
                    .into_iter()
                    .map(|(version, name, path)| Local { file: read(self.dir(), &path), version, name })
                    .collect())
            }
            ProjectLayout::Basalt => {
                let files = Files::read(self.dir())?;
                Ok(files
                    .migrations
                    .into_iter()
                    .map(|file| {
                        let (version, name) = file.version_and_name();
                        Local { version: version.to_owned(), name: name.to_owned(), file: Some(file) }
                    })
                    .collect())
            }
        }
    }
}

fn read(dir: &Path, path: &str) -> Option<File> {
    folder::read_file(dir, path, Kind::Migration).ok()
}

/// `20250118093000` in UTC.
fn timestamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map(|time| time.strftime("%Y%m%d%H%M%S").to_string())
        .unwrap_or_default()
}
