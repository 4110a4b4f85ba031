//! Decides what to apply, from the files and the database's records.

use std::collections::{BTreeMap, BTreeSet};

use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Client;

use super::files::{Files, Migration};
use super::{BucketSettings, SupabaseOptions, SupabaseReport, history};
use crate::error::ProjectError;
use crate::folder::File;

/// What a database has of a project.
#[derive(Debug, Default)]
pub(super) struct State {
    versions: BTreeSet<String>,
    /// Checksums of the files that this server applied; without one it is a seed that is still to run.
    records: BTreeMap<String, Option<String>>,
    seeds: BTreeMap<String, String>,
    buckets: Vec<BucketSettings>,
    /// Name and value of the vault's secrets; `None` without a vault.
    vault: Option<BTreeMap<String, SecretString>>,
    /// `app.settings.*` of the database.
    settings: BTreeMap<String, String>,
}

impl State {
    pub(super) async fn read(client: &Client) -> Result<Self, ProjectError> {
        const RECORDS: &str = "select path, sha256 from basalt.project_files where path like 'supabase/%'";
        const HAS_RECORDS: &str = "select pg_catalog.to_regclass('basalt.project_files') is not null";
        const BUCKETS: &str = "
            select id, coalesce(public, false), file_size_limit, allowed_mime_types from storage.buckets";
        const HAS_BUCKETS: &str = "select pg_catalog.to_regclass('storage.buckets') is not null";
        const HAS_VAULT: &str = "select pg_catalog.to_regclass('vault.decrypted_secrets') is not null";
        const VAULT: &str =
            "select name, decrypted_secret from vault.decrypted_secrets where name is not null limit 10000";
        const SETTINGS: &str = "
            select pg_catalog.unnest(s.setconfig) from pg_catalog.pg_db_role_setting s
            join pg_catalog.pg_database d on d.oid = s.setdatabase
            where d.datname = pg_catalog.current_database() and s.setrole = 0";
        let mut state = Self {
            versions: history::versions(client).await?.into_iter().map(|(version, _)| version).collect(),
            seeds: history::seeds(client).await?.into_iter().collect(),
            ..Self::default()
        };
        if client.query_one(HAS_RECORDS, &[]).await?.try_get(0)? {
            for row in client.query(RECORDS, &[]).await? {
                state.records.insert(row.try_get(0)?, row.try_get(1)?);
            }
        }
        if client.query_one(HAS_BUCKETS, &[]).await?.try_get(0)? {
            for row in client.query(BUCKETS, &[]).await? {
                state.buckets.push(BucketSettings {
                    name: row.try_get(0)?,
                    is_public: row.try_get(1)?,
                    file_size_limit: row.try_get(2)?,
                    allowed_mime_types: row.try_get(3)?,
                });
            }
        }
        if client.query_one(HAS_VAULT, &[]).await?.try_get(0)? {
            let mut vault = BTreeMap::new();
            for row in client.query(VAULT, &[]).await? {
                vault
                    .insert(row.try_get(0)?, row.try_get::<_, Option<String>>(1)?.unwrap_or_default().into());
            }
            state.vault = Some(vault);
        }
        for row in client.query(SETTINGS, &[]).await? {
            let setting: String = row.try_get(0)?;
            if let Some((name, value)) =
                setting.strip_prefix("app.settings.").and_then(|rest| rest.split_once('='))
            {
                state.settings.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(state)
    }

    /// Whether the migration is applied, whichever tool applied it.
    pub(super) fn has(&self, migration: &Migration) -> bool {
        self.versions.contains(&migration.version)
    }

    fn is_new(&self) -> bool {
        self.versions.is_empty() && self.records.is_empty()
    }
}

/// What to apply.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    pub(super) roles: Option<&'a File>,
    pub(super) migrations: Vec<&'a Migration>,
    pub(super) seeds: Vec<&'a File>,
    /// Seeds that ran and whose text has changed: only their hashes are updated.
    pub(super) changed_seeds: Vec<&'a File>,
    pub(super) buckets: Vec<&'a BucketSettings>,
    /// Secrets of the vault: name and value.
    pub(super) vault: Vec<&'a (String, SecretString)>,
    /// Name below `app.settings`, and value.
    pub(super) settings: Vec<(String, String)>,
    /// Whether the database has nothing of this project yet.
    pub(super) is_new: bool,
    /// Whether a file sends requests through pg_net, which Supabase's local stack has from the start.
    pub(super) uses_net: bool,
    /// What is known before the plan is applied, and afterwards what was applied.
    pub(super) report: SupabaseReport,
}

impl<'a> Plan<'a> {
    pub(super) fn make(files: &'a Files, state: &State, options: &'a SupabaseOptions) -> Self {
        let mut report = SupabaseReport { skipped: files.skipped.clone(), ..SupabaseReport::default() };
        let mut plan = Self { is_new: state.is_new(), ..Self::default() };
        if state.versions.is_empty() {
            plan.roles = files.roles.as_ref().filter(|file| !state.records.contains_key(&file.path));
        }
        for migration in &files.migrations {
            if !state.has(migration) {
                plan.migrations.push(migration);
                continue;
            }
            report.up_to_date += 1;
            let applied = state.records.get(&migration.path).and_then(Option::as_ref);
            if let (Ok(file), Some(sha256)) = (&migration.file, applied)
                && file.sha256 != *sha256
            {
                report.changed.push(migration.path.clone());
            }
        }
        let known: BTreeSet<&str> =
            files.migrations.iter().map(|migration| migration.version.as_str()).collect();
        report.unknown_versions =
            state.versions.iter().filter(|version| !known.contains(version.as_str())).cloned().collect();
        for seed in files.seeds.iter().filter(|_| options.seed) {
            match state.seeds.get(&seed.path) {
                Some(hash) if *hash == seed.sha256 => {}
                Some(_) => plan.changed_seeds.push(seed),
                None => {
                    let is_pending = state.records.get(&seed.path).is_some_and(Option::is_none);
                    if plan.is_new || is_pending || options.seed_existing {
                        plan.seeds.push(seed);
                    }
                }
            }
        }
        report.changed.extend(plan.changed_seeds.iter().map(|seed| seed.path.clone()));
        if let Some(vault) = &state.vault {
            let is_same = |name: &String, secret: &SecretString| {
                vault.get(name).is_some_and(|current| current.expose_secret() == secret.expose_secret())
            };
            plan.vault =
                options.settings.vault.iter().filter(|(name, secret)| !is_same(name, secret)).collect();
        }
        plan.buckets =
            options.settings.buckets.iter().filter(|bucket| !state.buckets.contains(bucket)).collect();
        let migrations = plan.migrations.iter().filter_map(|migration| migration.file.as_ref().ok());
        plan.uses_net =
            migrations.chain(plan.seeds.iter().copied()).any(|file| file.sql.contains("net.http_"));
        plan.choose_settings(files, state, options, &mut report);
        plan.report = report;
        plan
    }

    /// The settings that the files read, with the values of this server. A file that sets one itself knows better.
    fn choose_settings(
        &mut self,
        files: &Files,
        state: &State,
        options: &SupabaseOptions,
        report: &mut SupabaseReport,
    ) {
        let Some(server) = &options.server else { return };
        let migrations = files.migrations.iter().filter_map(|migration| migration.file.as_ref().ok());
        let mut read = BTreeSet::new();
        let mut set = BTreeSet::new();
        for file in migrations.chain(&files.seeds) {
            collect_names(&file.sql, &mut read, &mut set);
        }
        for name in read.difference(&set) {
            match server.value(name) {
                Some(value) if state.settings.get(name) == Some(&value) => {}
                Some(value) => self.settings.push((name.clone(), value)),
                None if state.settings.contains_key(name) => {}
                None => report.unset.push(name.clone()),
            }
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.roles.is_none()
            && self.migrations.is_empty()
            && self.seeds.is_empty()
            && self.changed_seeds.is_empty()
            && self.buckets.is_empty()
            && self.vault.is_empty()
            && self.settings.is_empty()
    }
}

/// Maximum number of names under `app.settings` that are collected.
const MAX_NAMES: usize = 100;

/// Collects the names that `sql` uses under `app.settings`: those that it reads, and those that it sets.
fn collect_names(sql: &str, read: &mut BTreeSet<String>, set: &mut BTreeSet<String>) {
    const PREFIX: &str = "app.settings.";
    for (at, _) in sql.match_indices(PREFIX) {
        let rest = sql.get(at + PREFIX.len()..).unwrap_or_default();
        let name: String = rest
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .take(64)
            .collect::<String>()
            .to_ascii_lowercase();
        if name.is_empty() || read.len() >= MAX_NAMES {
            continue;
        }
        let before: String =
            sql.get(..at).unwrap_or_default().chars().rev().take_while(|c| !c.is_whitespace()).collect();
        let word_before = sql
            .get(..at - before.len())
            .unwrap_or_default()
            .split_whitespace()
            .next_back()
            .unwrap_or_default();
        // `alter database postgres set app.settings.x` and `set "app.settings.x"`, but not `current_setting('app.settings.x')`.
        if word_before.eq_ignore_ascii_case("set") && !before.contains('(') {
            set.insert(name);
        } else {
            read.insert(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supabase::ServerValues;

    #[test]
    fn names_that_files_read_and_set_are_told_apart() {
        let (mut read, mut set) = (BTreeSet::new(), BTreeSet::new());
        collect_names(
            "select current_setting('app.settings.supabase_url', true) || current_setting( 'app.settings.Key');
             alter database postgres set \"app.settings.own\" = 'x'; set app.settings.local to 'y'; app.settings.",
            &mut read,
            &mut set,
        );
        assert_eq!(read.into_iter().collect::<Vec<_>>(), ["key", "supabase_url"]);
        assert_eq!(set.into_iter().collect::<Vec<_>>(), ["local", "own"]);
    }

    #[test]
    fn values_follow_the_names_that_projects_use() {
        let server = ServerValues {
            url: "http://localhost:8000".to_owned(),
            anon_key: "anon".to_owned().into(),
            service_key: "service".to_owned().into(),
        };
        for (name, value) in [
            ("supabase_url", Some("http://localhost:8000")),
            ("url", Some("http://localhost:8000")),
            ("functions_url", Some("http://localhost:8000/functions/v1")),
            ("service_role_key", Some("service")),
            ("supabase_anon_key", Some("anon")),
            ("jwt_secret", None),
            ("webhook_url", None),
        ] {
            assert_eq!(server.value(name).as_deref(), value, "{name}");
        }
    }
}
