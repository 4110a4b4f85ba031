//! Reads the files of a folder `supabase/`.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::{FOLDER, SupabaseSettings};
use crate::error::ProjectError;
use crate::folder::{self, File, Kind};

/// Runs before the migrations of a new database.
pub(super) const ROLES: &str = "supabase/roles.sql";

/// Maximum number of seeds that the patterns of `config.toml` may match.
const MAX_SEEDS: usize = 1000;

/// `[db.seed] sql_paths`: glob patterns relative to `supabase/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedPatterns(pub Vec<String>);

impl Default for SeedPatterns {
    fn default() -> Self {
        Self(vec!["./seed.sql".to_owned()])
    }
}

/// A migration with the version under which it is recorded.
#[derive(Debug)]
pub(super) struct Migration {
    /// Its number, or its whole stem if an earlier file has the same number.
    pub(super) version: String,
    pub(super) name: String,
    /// The file, or why it cannot be read.
    pub(super) file: Result<File, ProjectError>,
    /// Relative to the project.
    pub(super) path: String,
}

/// The files of a project.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) roles: Option<File>,
    /// In the order of their names, as bytes.
    pub(super) migrations: Vec<Migration>,
    pub(super) seeds: Vec<File>,
    /// Files that are neither, with the reason.
    pub(super) skipped: Vec<(String, String)>,
}

impl Files {
    pub(super) fn read(dir: &Path, settings: &SupabaseSettings) -> Result<Self, ProjectError> {
        let mut files = Self::default();
        if dir.join(ROLES).is_file() {
            files.roles = Some(folder::read_file(dir, ROLES, Kind::Migration)?);
        }
        if settings.has_migrations {
            files.read_migrations(dir)?;
        }
        files.read_seeds(dir, &settings.seeds);
        Ok(files)
    }

    fn read_migrations(&mut self, dir: &Path) -> Result<(), ProjectError> {
        let folder = format!("{FOLDER}/migrations");
        let mut versions = BTreeSet::new();
        for name in folder::sql_files(dir, &folder)? {
            let path = format!("{folder}/{name}");
            let stem = name.strip_suffix(".sql").unwrap_or(&name);
            let Some((number, name)) = number_and_name(stem) else {
                self.skipped.push((path, "its name does not start with a number".to_owned()));
                continue;
            };
            let is_first = versions.insert(number.to_owned());
            self.migrations.push(Migration {
                version: if is_first { number } else { stem }.to_owned(),
                name: name.to_owned(),
                file: folder::read_file(dir, &path, Kind::Migration),
                path,
            });
        }
        if let Ok(entries) = std::fs::read_dir(dir.join(&folder)) {
            let folders = entries.flatten().filter(|entry| entry.path().is_dir());
            self.skipped.extend(folders.map(|entry| {
                let path = format!("{folder}/{}/", entry.file_name().to_string_lossy());
                (path, "subfolders hold no migrations".to_owned())
            }));
        }
        Ok(())
    }

    fn read_seeds(&mut self, dir: &Path, patterns: &SeedPatterns) {
        for pattern in &patterns.0 {
            match matching(dir, pattern) {
                Ok(paths) => {
                    for path in paths {
                        if self.seeds.len() >= MAX_SEEDS {
                            self.skipped.push((path, format!("more than {MAX_SEEDS} seeds")));
                            return;
                        }
                        if self.seeds.iter().any(|seed| seed.path == path) {
                            continue;
                        }
                        match folder::read_file(dir, &path, Kind::Seed) {
                            Ok(file) => self.seeds.push(file),
                            Err(error) => self.skipped.push((path, error.to_string())),
                        }
                    }
                }
                Err(reason) => self.skipped.push((format!("{FOLDER}/{pattern}"), reason)),
            }
        }
    }
}

/// Splits `20250118_add-x` into number and name. An older generation of an app builder writes `<number>-<uuid>`; its host applied those.
fn number_and_name(stem: &str) -> Option<(&str, &str)> {
    let digits = stem.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = stem.split_at_checked(digits)?;
    let name = rest.strip_prefix(['_', '-'])?;
    (!number.is_empty()).then_some((number, name))
}

/// The files that a pattern matches, relative to the project, in order. A missing `seed.sql` matches nothing.
fn matching(dir: &Path, pattern: &str) -> Result<Vec<String>, String> {
    let relative = Path::new(pattern);
    let leaves = relative
        .components()
        .any(|part| matches!(part, Component::ParentDir | Component::RootDir | Component::Prefix(_)));
    if leaves {
        return Err("a seed must lie below supabase/".to_owned());
    }
    let supabase = dir.join(FOLDER);
    let full = format!("{}/{pattern}", glob::Pattern::escape(&supabase.to_string_lossy()));
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::default() };
    let paths = glob::glob_with(&full, options).map_err(|error| format!("invalid pattern: {error}"))?;
    let mut found = Vec::new();
    for path in paths.flatten().filter(|path| path.is_file()).take(MAX_SEEDS + 1) {
        let Ok(path) = path.strip_prefix(dir) else { continue };
        // Removes `.` components.
        let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        found.push(parts.join("/"));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_any_name_after_the_digits() {
        assert_eq!(number_and_name("20250118_add-x"), Some(("20250118", "add-x")));
        assert_eq!(number_and_name("001_"), Some(("001", "")));
        assert_eq!(number_and_name("20250118093000-0a-b"), Some(("20250118093000", "0a-b")));
        assert_eq!(number_and_name("add_x"), None);
        assert_eq!(number_and_name("20250118"), None);
        assert_eq!(number_and_name("20ä_x"), None);
    }

    #[test]
    fn patterns_match_below_the_folder_only() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("supabase/seeds/deep")).unwrap();
        for name in ["seed.sql", "seeds/b.sql", "seeds/a.sql", "seeds/deep/c.sql", "seeds/notes.md"] {
            std::fs::write(dir.path().join("supabase").join(name), "").unwrap();
        }
        let found = |pattern| matching(dir.path(), pattern).unwrap();
        assert_eq!(found("./seed.sql"), ["supabase/seed.sql"]);
        assert_eq!(found("seeds/*.sql"), ["supabase/seeds/a.sql", "supabase/seeds/b.sql"]);
        assert_eq!(found("missing.sql"), [""; 0]);
        for pattern in ["../x.sql", "/etc/*", "a/../../x", "[", "***"] {
            matching(dir.path(), pattern).unwrap_err();
        }
    }
}
