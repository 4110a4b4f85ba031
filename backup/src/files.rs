//! The project's files as one compressed archive.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::error::BackupError;

/// Most bytes of a project's files.
const MAX_BYTES: u64 = 256 << 20;
/// Folders that other programs recreate.
const SKIPPED: [&str; 4] = [".git", "node_modules", "target", ".basalt"];

/// Packs the files of a project folder, without `excluded` (the state folder, for example), `.git`, `node_modules` and `target`.
/// Blocks on disk I/O.
///
/// # Errors
/// A file cannot be read, or the files are too large.
pub fn pack_project(dir: &Path, excluded: &[PathBuf]) -> Result<Vec<u8>, BackupError> {
    let excluded: Vec<PathBuf> = excluded.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let dir = dir.canonicalize().map_err(|source| BackupError::file("open", dir, source))?;
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    archive.follow_symlinks(false);
    let mut left = MAX_BYTES;
    add_folder(&mut archive, &dir, &dir, &excluded, &mut left)?;
    let failed = |source| BackupError::file("pack", &dir, source);
    archive.into_inner().and_then(GzEncoder::finish).map_err(failed)
}

fn add_folder(
    archive: &mut tar::Builder<GzEncoder<Vec<u8>>>,
    root: &Path,
    dir: &Path,
    excluded: &[PathBuf],
    left: &mut u64,
) -> Result<(), BackupError> {
    let entries = fs::read_dir(dir).map_err(|source| BackupError::file("read", dir, source))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    for path in paths {
        let failed = |source| BackupError::file("pack", &path, source);
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let is_skipped =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| SKIPPED.contains(&name));
        if is_skipped || excluded.contains(&path) {
            continue;
        }
        let name = path.strip_prefix(root).unwrap_or(&path);
        if metadata.is_dir() {
            archive.append_path_with_name(&path, name).map_err(failed)?;
            add_folder(archive, root, &path, excluded, left)?;
        } else if metadata.is_file() || metadata.is_symlink() {
            *left = left.checked_sub(metadata.len()).ok_or_else(|| {
                BackupError::Failed(format!(
                    "the project folder {} has more than {} MiB: move large files out of it, or into storage",
                    root.display(),
                    MAX_BYTES >> 20
                ))
            })?;
            archive.append_path_with_name(&path, name).map_err(failed)?;
        }
    }
    Ok(())
}

/// Unpacks what [`pack_project`] packed into an existing folder. Blocks on disk I/O.
pub(crate) fn unpack_project(packed: &[u8], into: &Path) -> Result<(), BackupError> {
    let failed = |source: io::Error| BackupError::file("unpack into", into, source);
    // Twice the limit, for the headers.
    let mut archive = tar::Archive::new(GzDecoder::new(packed).take(MAX_BYTES * 2));
    archive.set_preserve_permissions(true);
    archive.set_overwrite(false);
    archive.unpack(into).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_unpacks_without_state() {
        let (from, into) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for dir in ["migrations", "state/postgres", "node_modules/x", ".git"] {
            fs::create_dir_all(from.path().join(dir)).unwrap();
        }
        for file in ["basalt.toml", "migrations/0001_a.sql", "state/secrets.json", "node_modules/x/y", ".env"]
        {
            fs::write(from.path().join(file), file).unwrap();
        }
        std::os::unix::fs::symlink("basalt.toml", from.path().join("link")).unwrap();
        let packed = pack_project(from.path(), &[from.path().join("state")]).unwrap();
        unpack_project(&packed, into.path()).unwrap();
        let read = |name: &str| fs::read_to_string(into.path().join(name)).ok();
        assert_eq!(read("migrations/0001_a.sql").as_deref(), Some("migrations/0001_a.sql"));
        assert_eq!(read("link").as_deref(), Some("basalt.toml"));
        assert_eq!(read(".env").as_deref(), Some(".env"));
        for name in ["state", "node_modules", ".git"] {
            assert!(!into.path().join(name).exists(), "{name}");
        }
    }
}
