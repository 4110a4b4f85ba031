//! The PostgreSQL that an executable carries (decision 0155): `cargo xtask dist` appends a tar archive, compressed with xz, and a
//! [`Trailer`]. The archive has the folders `bin`, `lib` and `share`.
//!
//! It is unpacked once, into a folder of the state folder that is named after its hash. The folder appears in one step, so that an
//! interrupted unpacking leaves nothing to repair.

mod trailer;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use lzma_rust2::XzReader;

use crate::binaries::major_of;
use crate::data_dirs::sync_folder;
use crate::error::EmbeddedError;
use crate::owner::beside;
pub(crate) use trailer::Trailer;

/// In the state folder: contains one folder per unpacked archive.
const FOLDER: &str = "programs";
/// Held while the folder changes: a command and a server may start at the same time.
const LOCK_FILE: &str = ".lock";

/// The archive of an executable.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    executable: PathBuf,
    trailer: Trailer,
}

impl Archive {
    /// The archive that this program carries, if any.
    pub(crate) fn of_this_program() -> Option<Self> {
        // On Linux this link works even after an upgrade has replaced the file.
        let link = PathBuf::from("/proc/self/exe");
        let executable = if link.exists() { link } else { std::env::current_exe().ok()? };
        Self::find_in(executable)
    }

    fn find_in(executable: PathBuf) -> Option<Self> {
        let mut file = File::open(&executable).ok()?;
        let length = i64::try_from(Trailer::BYTES).ok()?;
        let mut bytes = [0; Trailer::BYTES];
        file.seek(SeekFrom::End(-length)).and_then(|_| file.read_exact(&mut bytes)).ok()?;
        Some(Self { executable, trailer: Trailer::from_bytes(&bytes)? })
    }

    /// PostgreSQL's version, such as `18.4`.
    pub(crate) fn version(&self) -> &str {
        &self.trailer.version
    }

    /// Its major version.
    pub(crate) fn major(&self) -> u32 {
        major_of(self.version())
    }

    /// The folder of the unpacked programs, which may not exist yet.
    pub(crate) fn bin_dir(&self, state_dir: &Path) -> PathBuf {
        state_dir.join(FOLDER).join(self.name()).join("bin")
    }

    /// Whether the archive has been unpacked.
    pub(crate) fn is_unpacked(&self, state_dir: &Path) -> bool {
        self.bin_dir(state_dir).is_dir()
    }

    fn name(&self) -> String {
        let hash: String = self.trailer.sha256.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("postgresql-{}-{hash}", self.version())
    }

    /// Verifies and unpacks the archive, unless that has been done. Returns the folder of the programs. Takes about a second.
    pub(crate) fn unpack(&self, state_dir: &Path) -> Result<PathBuf, EmbeddedError> {
        let bin_dir = self.bin_dir(state_dir);
        if bin_dir.is_dir() {
            return Ok(bin_dir);
        }
        let folder = state_dir.join(FOLDER);
        let _lock = lock(&folder)?;
        let target = folder.join(self.name());
        if target.is_dir() {
            return Ok(bin_dir);
        }
        let fresh = beside(&target, ".new");
        remove(&fresh)?;
        let mut file = self.verified()?;
        let failed = |source| EmbeddedError::io("unpack PostgreSQL into", &fresh, source);
        file.seek(SeekFrom::Start(self.trailer.offset)).map_err(failed)?;
        let compressed = BufReader::with_capacity(1 << 16, file.take(self.trailer.length));
        let mut archive = tar::Archive::new(XzReader::new(compressed, false));
        archive.set_preserve_mtime(false);
        fs::create_dir(&fresh).and_then(|()| archive.unpack(&fresh)).map_err(failed)?;
        // Before the rename: after a power failure, the folder must be missing or complete.
        File::open(&fresh).and_then(|dir| Ok(rustix::fs::syncfs(dir)?)).map_err(failed)?;
        // PostgreSQL may run as another user; nothing in the folder is secret.
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        fs::rename(&fresh, &target).map_err(failed)?;
        sync_folder(&folder)?;
        Ok(bin_dir)
    }

    /// Removes what earlier releases with the same major version unpacked. Those of other major versions stay, because an upgrade
    /// needs them. No server may be running on this state folder.
    pub(crate) fn remove_older(&self, state_dir: &Path) -> Result<(), EmbeddedError> {
        let folder = state_dir.join(FOLDER);
        let _lock = lock(&folder)?;
        let entries = fs::read_dir(&folder).map_err(|source| EmbeddedError::io("read", &folder, source))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let version = name.to_str().and_then(|name| name.strip_prefix("postgresql-"));
            if version.is_some_and(|version| major_of(version) == self.major())
                && name.to_str() != Some(&self.name())
            {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }

    /// The executable, once the hash of the archive has been checked.
    fn verified(&self) -> Result<File, EmbeddedError> {
        let failed = |source| EmbeddedError::io("read", &self.executable, source);
        let mut file = File::open(&self.executable).map_err(failed)?;
        file.seek(SeekFrom::Start(self.trailer.offset)).map_err(failed)?;
        let mut hash = Context::new(&SHA256);
        let mut rest = (&mut file).take(self.trailer.length);
        let mut buffer = vec![0; 1 << 16];
        loop {
            match rest.read(&mut buffer).map_err(failed)? {
                0 => break,
                count => hash.update(buffer.get(..count).unwrap_or_default()),
            }
        }
        if hash.finish().as_ref() == self.trailer.sha256 {
            Ok(file)
        } else {
            Err(EmbeddedError::DamagedArchive)
        }
    }
}

/// Waits for the exclusive lock of the folder, which it creates if necessary. Blocks.
fn lock(folder: &Path) -> Result<File, EmbeddedError> {
    let failed = |source| EmbeddedError::io("create the folder", folder, source);
    fs::create_dir_all(folder).map_err(failed)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let path = folder.join(LOCK_FILE);
    let lock = || {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        file.lock()?;
        Ok(file)
    };
    lock().map_err(|source| EmbeddedError::io("lock", &path, source))
}

fn remove(dir: &Path) -> Result<(), EmbeddedError> {
    match fs::remove_dir_all(dir) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(EmbeddedError::io("remove", dir, source))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bin/postgres`, a script that prints a version.
    const ARCHIVE: &[u8] = include_bytes!("archive/test.tar.xz");

    /// An executable that carries `archive` as version 18.4; the trailer describes [`ARCHIVE`].
    fn executable(dir: &Path, archive: &[u8]) -> PathBuf {
        let program = b"\x7fELF, and so on".as_slice();
        let sha256 = aws_lc_rs::digest::digest(&SHA256, ARCHIVE).as_ref().try_into().unwrap();
        let trailer = Trailer {
            offset: program.len().try_into().unwrap(),
            length: ARCHIVE.len().try_into().unwrap(),
            sha256,
            version: "18.4".to_owned(),
        };
        let path = dir.join("basalt");
        fs::write(&path, [program, archive, &trailer.to_bytes()].concat()).unwrap();
        path
    }

    #[test]
    fn archive_is_unpacked_once_and_older_ones_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::find_in(executable(dir.path(), ARCHIVE)).unwrap();
        assert_eq!((archive.version(), archive.major()), ("18.4", 18));
        let state = dir.path().join("state");
        assert!(!archive.is_unpacked(&state));
        // What a killed process leaves.
        let leftover = state.join(FOLDER).join(format!("{}.new", archive.name()));
        fs::create_dir_all(leftover.join("bin")).unwrap();
        let bin_dir = archive.unpack(&state).unwrap();
        let program = bin_dir.join("postgres");
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(archive.is_unpacked(&state) && !leftover.exists());
        fs::write(bin_dir.join("mark"), "").unwrap();
        assert_eq!(archive.unpack(&state).unwrap(), bin_dir);
        assert!(bin_dir.join("mark").exists(), "unpacked again");

        for name in ["postgresql-18.3-00", "postgresql-17.9-00", "postgresql-18.4-00.new"] {
            fs::create_dir(state.join(FOLDER).join(name)).unwrap();
        }
        archive.remove_older(&state).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(state.join(FOLDER)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, [LOCK_FILE, "postgresql-17.9-00", &archive.name()]);
    }

    #[test]
    fn damaged_archive_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let mut damaged = ARCHIVE.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let archive = Archive::find_in(executable(dir.path(), &damaged)).unwrap();
        let error = archive.unpack(dir.path()).unwrap_err();
        assert!(matches!(error, EmbeddedError::DamagedArchive), "{error}");
        assert!(!archive.is_unpacked(dir.path()));
    }

    #[test]
    fn ordinary_executable_carries_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for content in [vec![], vec![b'x'; 20], vec![b'x'; 2 * Trailer::BYTES]] {
            let path = dir.path().join("program");
            fs::write(&path, content).unwrap();
            assert!(Archive::find_in(path).is_none());
        }
        assert!(Archive::of_this_program().is_none());
    }
}
