//! Decides what to apply, from a project's files and the database's records. Pure.

use std::collections::HashMap;

use super::{MigrateOptions, Report};
use crate::error::ProjectError;
use crate::folder::{File, Files, Kind};

/// Kind and checksum by path; an entry without a checksum is a pending seed.
pub(super) type Applied = HashMap<String, (String, Option<String>)>;

/// The files to apply.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    pub(super) migrations: Vec<&'a File>,
    pub(super) policies: Vec<&'a File>,
    pub(super) seed: Option<&'a File>,
    /// Whether the database has none of this project's migrations.
    pub(super) is_new: bool,
    missing: Vec<String>,
}

impl<'a> Plan<'a> {
    /// # Errors
    /// A file was changed after being applied, or precedes an applied one.
    pub(super) fn make(
        files: &'a Files,
        applied: &Applied,
        options: &MigrateOptions,
    ) -> Result<Self, ProjectError> {
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

    /// Reapplies all policy files and nothing else.
    pub(super) fn for_policies(files: &'a Files) -> Self {
        Self { policies: files.policies.iter().collect(), ..Self::default() }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.migrations.is_empty() && self.policies.is_empty() && self.seed.is_none()
    }

    pub(super) fn into_report(self) -> Report {
        let paths = |files: &[&File]| files.iter().map(|file| file.path.clone()).collect();
        Report {
            migrations: paths(&self.migrations),
            policies: paths(&self.policies),
            seeded: self.seed.is_some(),
            missing: self.missing,
        }
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

    const NEVER: MigrateOptions = MigrateOptions { seed: false, seed_existing: false, adopt: false };
    const NEW: MigrateOptions = MigrateOptions { seed: true, seed_existing: false, adopt: false };
    const ONCE: MigrateOptions = MigrateOptions { seed: true, seed_existing: true, adopt: false };

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
    fn unchanged_project_has_nothing_to_do() {
        let files = files();
        assert!(plan(&files, &applied(&everything()), NEW).unwrap().is_empty());
    }

    #[test]
    fn any_change_reapplies_all_policies() {
        let mut files = files();
        let known = applied(&everything());
        files.policies[0].sha256 = "p2".to_owned();
        assert_eq!(plan(&files, &known, NEVER).unwrap().policies.len(), 2);
        let older = applied(&everything()[..1]);
        assert_eq!(plan(&files, &older, NEVER).unwrap().migrations.len(), 1);
    }

    #[test]
    fn changed_and_out_of_order_migrations_fail() {
        let files = files();
        let mut known = everything();
        known[0].2 = Some("other");
        let error = plan(&files, &applied(&known), NEVER).unwrap_err();
        assert!(matches!(error, ProjectError::Changed { file } if file == "migrations/0001_a.sql"));
        let error = plan(&files, &applied(&everything()[1..]), NEVER).unwrap_err();
        assert!(matches!(error, ProjectError::OutOfOrder { file, .. } if file == "migrations/0001_a.sql"));
    }

    #[test]
    fn seed_runs_once_even_after_a_crash() {
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
    fn missing_files_are_reported() {
        let files = files();
        let mut known = everything();
        known.push(("migrations/0003_c.sql", "migration", Some("c")));
        assert_eq!(plan(&files, &applied(&known), NEVER).unwrap().missing, ["migrations/0003_c.sql"]);
    }
}
