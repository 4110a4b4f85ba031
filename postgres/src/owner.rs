//! Ensures that only one server uses a data folder, with an exclusive lock on a file beside it.
//!
//! The kernel releases the lock when the process ends, so nothing needs to be cleaned up after a crash.
//! The file is never deleted: otherwise two servers could lock two different files of the same name.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::EmbeddedError;

/// Exclusive access to a data folder, released on drop.
#[derive(Debug)]
pub(super) struct OwnerLock {
    file: File,
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that another thread has forked keeps a copy of it, and the lock with
        // it, until it executes its program.
        let _released = self.file.unlock();
    }
}

impl OwnerLock {
    /// Takes the lock; the error names the current owner.
    pub(super) fn acquire(data_dir: &Path) -> Result<Self, EmbeddedError> {
        let path = lock_path(data_dir);
        let failed = |source| EmbeddedError::io("open the lock file", &path, source);
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false) // it may contain the owner's pid
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Best effort: the owner may have taken the lock but not written its pid yet.
                let known = file.read_to_string(&mut pid).is_ok() && !pid.trim().is_empty();
                let owner = if known { format!("pid {}", pid.trim()) } else { "pid unknown".to_owned() };
                return Err(EmbeddedError::InUse { data_dir: data_dir.to_path_buf(), owner });
            }
            Err(TryLockError::Error(source)) => return Err(EmbeddedError::io("lock", &path, source)),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { file })
    }
}

/// Whether a server holds the lock of `data_dir`; false if that cannot be determined.
pub(super) fn is_owned(data_dir: &Path) -> bool {
    // A shared lock, so that two concurrent checks do not take each other for the owner.
    let Ok(file) = File::open(lock_path(data_dir)) else { return false };
    let attempt = file.try_lock_shared();
    // As on drop of an [`OwnerLock`].
    let _released = file.unlock();
    matches!(attempt, Err(TryLockError::WouldBlock))
}

/// The path of the lock file: `postgres.lock` for `postgres`.
fn lock_path(data_dir: &Path) -> PathBuf {
    beside(data_dir, ".lock")
}

/// The sibling of `path` whose name has `suffix` appended.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn second_owner_gets_pid_of_first() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("postgres");
        let first = OwnerLock::acquire(&data).unwrap();
        let refusal = OwnerLock::acquire(&data).unwrap_err().to_string();
        assert!(refusal.contains(&format!("pid {}", std::process::id())), "{refusal}");
        assert!(is_owned(&data));
        let mode = lock_path(&data).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "the state folder's group may traverse it");
        // What a forked process has of the file until it executes its program.
        let copy = first.file.try_clone().unwrap();
        drop(first);
        assert!(!is_owned(&data));
        let _second = OwnerLock::acquire(&data).unwrap();
        drop(copy);
        assert!(is_owned(&data));
    }

    #[test]
    fn siblings_keep_the_whole_name() {
        assert_eq!(beside(Path::new("/x/postgres.v1"), ".new"), Path::new("/x/postgres.v1.new"));
    }
}
