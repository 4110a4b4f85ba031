//! Reads the files of a project and checks their names.

use std::io::ErrorKind;
use std::path::Path;

use basalt_pg::system_migrations::sha256_hex;

use crate::error::ProjectError;

/// The kind of a file, stored in `basalt.project_files.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Migration,
    Policy,
    Seed,
}

impl Kind {
    pub(crate) const fn as_sql(self) -> &'static str {
        match self {
            Self::Migration => "migration",
            Self::Policy => "policy",
            Self::Seed => "seed",
        }
    }
}

/// One SQL file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Relative to the project, with forward slashes on every system.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) sql: String,
    pub(crate) sha256: String,
}

impl File {
    /// `0003` and `plans` of `migrations/0003_plans.sql`; for other names, the stem and an empty name.
    pub(crate) fn version_and_name(&self) -> (&str, &str) {
        let stem = self.stem();
        stem.split_once('_').unwrap_or((stem, ""))
    }

    /// The file's name without folder and `.sql`.
    pub(crate) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.strip_suffix(".sql").unwrap_or(name)
    }
}

/// All SQL files of a project.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    /// Sorted by number.
    pub(crate) migrations: Vec<File>,
    /// Sorted by name.
    pub(crate) policies: Vec<File>,
    pub(crate) seed: Option<File>,
}

impl Files {
    pub(crate) fn read(dir: &Path) -> Result<Self, ProjectError> {
        let mut migrations = read_folder(dir, "migrations", Kind::Migration)?;
        for file in &migrations {
            check_migration_name(file)?;
        }
        // Sorted numerically: 10000 comes after 9999.
        migrations.sort_by_key(number);
        for pair in migrations.windows(2) {
            if let [first, second] = pair
                && number(first) == number(second)
            {
                return Err(ProjectError::SameNumber {
                    first: first.path.clone(),
                    second: second.path.clone(),
                });
            }
        }
        let policies = read_folder(dir, "policies", Kind::Policy)?;
        let seed = match read_file(dir, "seed.sql", Kind::Seed) {
            Ok(file) => Some(file),
            Err(ProjectError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self { migrations, policies, seed })
    }
}

/// A sort key for the version: its digits without leading zeros, longer numbers last.
fn number(file: &File) -> (usize, String) {
    let digits = file.version_and_name().0.trim_start_matches('0').to_owned();
    (digits.len(), digits)
}

fn check_migration_name(file: &File) -> Result<(), ProjectError> {
    let (version, name) = file.version_and_name();
    let is_fine = version.len() >= 4
        && version.bytes().all(|byte| byte.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_fine {
        return Ok(());
    }
    Err(ProjectError::Name {
        file: file.path.clone(),
        rule: "a migration is named NNNN_name.sql: four digits or more, then lower-case letters, digits and _",
    })
}

/// The `.sql` files directly in a folder, sorted by name; none if the folder does not exist.
fn read_folder(dir: &Path, folder: &str, kind: Kind) -> Result<Vec<File>, ProjectError> {
    let names = sql_files(dir, folder)?;
    names.iter().map(|name| read_file(dir, &format!("{folder}/{name}"), kind)).collect()
}

/// The names of the `.sql` files directly in a folder, in byte order; none if the folder does not exist.
pub(crate) fn sql_files(dir: &Path, folder: &str) -> Result<Vec<String>, ProjectError> {
    let unreadable = |source| ProjectError::Read { file: folder.to_owned(), source };
    let entries = match std::fs::read_dir(dir.join(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        // Follows symbolic links, because a shared migration may be one.
        let is_file = entry.path().is_file();
        let name = entry.file_name();
        match name.to_str() {
            Some(name) if is_file && name.ends_with(".sql") && !name.starts_with('.') => {
                names.push(name.to_owned())
            }
            Some(_) | None => {}
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Maximum size of a SQL file: far beyond what a project contains, but bounded.
const MAX_FILE_BYTES: u64 = 64 << 20;

pub(crate) fn read_file(dir: &Path, path: &str, kind: Kind) -> Result<File, ProjectError> {
    let read = || {
        let path = dir.join(path);
        if std::fs::metadata(&path)?.len() > MAX_FILE_BYTES {
            return Err(std::io::Error::new(ErrorKind::FileTooLarge, "the file is larger than 64 MiB"));
        }
        let bytes = std::fs::read(path)?;
        String::from_utf8(bytes)
            .map_err(|_| std::io::Error::new(ErrorKind::InvalidData, "the file is not UTF-8 text"))
    };
    let sql = read().map_err(|source| ProjectError::Read { file: path.to_owned(), source })?;
    // Some editors start a file with a byte order mark, which PostgreSQL rejects as a syntax error; and a checkout with
    // CRLF must not count as a changed migration.
    let sql = sql.strip_prefix('\u{feff}').unwrap_or(&sql).replace("\r\n", "\n");
    let sha256 = sha256_hex(sql.as_bytes());
    Ok(File { path: path.to_owned(), kind, sql, sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File { path: path.to_owned(), kind: Kind::Migration, sql: String::new(), sha256: String::new() }
    }

    #[test]
    fn accepts_valid_migration_names_only() {
        for good in ["migrations/0001_a.sql", "migrations/20250118093000_add_x2.sql"] {
            check_migration_name(&file(good)).unwrap();
        }
        for bad in ["001_a", "0001-a", "0001_", "0001", "add_x", "0001_A", "0001_a b"] {
            check_migration_name(&file(&format!("migrations/{bad}.sql"))).unwrap_err();
        }
    }

    #[test]
    fn migrations_sort_by_number() {
        assert!(number(&file("migrations/9999_z.sql")) < number(&file("migrations/10000_a.sql")));
        assert_eq!(number(&file("migrations/00001_z.sql")), number(&file("migrations/0001_a.sql")));
    }
}
