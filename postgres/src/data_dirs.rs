//! Locations of the data, the socket and the programs.
//!
//! Usually they are below the state folder. If root starts the server in a folder that PostgreSQL's user cannot enter
//! (`/root` has mode 0700), data and programs go below `/var/lib/basalt` instead, and a notice says so. The state folder
//! then contains `postgres.location`, so that a moved project finds its data again. A copied project does not use the
//! original's data, because the data records where it came from.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::error::EmbeddedError;
use crate::settings::socket_fits;

/// In the state folder: names the folder below `/var/lib/basalt` that replaces it.
const LOCATION_FILE: &str = "postgres.location";
/// In the replacement folder: the data folder that it replaces.
const ORIGIN_FILE: &str = "origin";

/// Existing folders with the right permissions; only the data folder may be missing.
#[derive(Clone, Debug)]
pub(super) struct DataDirs {
    pub(super) data_dir: PathBuf,
    pub(super) run_dir: PathBuf,
    pub(super) extensions_dir: PathBuf,
}

/// The configured paths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requested<'a> {
    pub(super) state_dir: &'a Path,
    pub(super) data_dir: &'a Path,
    pub(super) fallback_dir: &'a Path,
    pub(super) temp_dir: &'a Path,
}

impl DataDirs {
    /// Creates the folders that `account` needs, or finds their replacements.
    pub(super) fn prepare(
        requested: &Requested<'_>,
        account: &Account,
        notices: &mut Vec<String>,
    ) -> Result<Self, EmbeddedError> {
        let state_dir = create_dir(requested.state_dir)?;
        let wanted_data = canonical_data_dir(requested.data_dir)?;
        let data_parent = wanted_data.parent().unwrap_or(Path::new("/")).to_path_buf();
        let state_closed = closed_to(account, &state_dir, &state_dir)?;
        let data_closed = closed_to(account, &data_parent, &state_dir)?;
        let replacement = if state_closed.is_some() || data_closed.is_some() {
            Some(replacement_for(&state_dir, &wanted_data, requested.fallback_dir)?)
        } else {
            None
        };
        let data_dir = match (&replacement, data_closed) {
            (Some(home), Some(closed)) => {
                notices.push(format!(
                    "the data is in {}, because PostgreSQL runs as {}, which cannot enter {}",
                    home.join("postgres").display(),
                    account.describe(),
                    closed.display()
                ));
                home.join("postgres")
            }
            _ => wanted_data,
        };
        let home = match (&replacement, state_closed) {
            (Some(home), Some(_)) => home,
            _ => &state_dir,
        };
        let run_dir = private_run_dir(home, &data_dir, account, requested.temp_dir)?;
        let extensions_dir = home.join("extensions");
        create_dir(&extensions_dir.join("extension"))?;
        create_dir(&extensions_dir.join("lib"))?;
        Ok(Self { data_dir, run_dir, extensions_dir })
    }
}

/// The current location of the data, without creating or changing anything.
pub(super) fn current_data_dir(state_dir: &Path, data_dir: &Path) -> PathBuf {
    let here = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_path_buf());
    if here.join("PG_VERSION").exists() {
        return here;
    }
    let moved = fs::read_to_string(state_dir.join(LOCATION_FILE)).map(|home| PathBuf::from(home.trim()));
    moved.map_or(here, |home| home.join("postgres"))
}

/// Creates the folder and its parents if necessary, and returns its canonical path.
fn create_dir(dir: &Path) -> Result<PathBuf, EmbeddedError> {
    fs::create_dir_all(dir)
        .and_then(|()| dir.canonicalize())
        .map_err(|source| EmbeddedError::io("create the folder", dir, source))
}

/// The canonical path of the data folder, which may not exist yet.
fn canonical_data_dir(dir: &Path) -> Result<PathBuf, EmbeddedError> {
    if let Ok(existing) = dir.canonicalize() {
        return Ok(existing);
    }
    let parent = create_dir(dir.parent().unwrap_or(Path::new("/")))?;
    Ok(parent.join(dir.file_name().unwrap_or_default()))
}

/// The folder that keeps `account` from reaching `dir`, if any.
///
/// If only the state folder itself is closed, grants its group the execute bit: its files have mode 0600.
fn closed_to(account: &Account, dir: &Path, state_dir: &Path) -> Result<Option<PathBuf>, EmbeddedError> {
    let blocked =
        |dir: &Path| account.blocked_at(dir).map_err(|source| EmbeddedError::io("look up", dir, source));
    let closed = blocked(dir)?;
    let Account::Other { gid, .. } = account else { return Ok(closed) };
    if closed.as_deref() != Some(state_dir) {
        return Ok(closed);
    }
    let failed = |source| EmbeddedError::io("open up the folder", state_dir, source);
    let mode = fs::metadata(state_dir).map_err(failed)?.mode();
    std::os::unix::fs::chown(state_dir, None, Some(*gid)).map_err(failed)?;
    fs::set_permissions(state_dir, Permissions::from_mode((mode & 0o7777) | 0o010)).map_err(failed)?;
    blocked(dir)
}

/// The folder below `fallback` that replaces `state_dir`, created if necessary.
fn replacement_for(state_dir: &Path, data_dir: &Path, fallback: &Path) -> Result<PathBuf, EmbeddedError> {
    let fallback = create_dir(fallback)?;
    open_to_all(&fallback)?;
    let location = state_dir.join(LOCATION_FILE);
    let recorded = fs::read_to_string(&location).ok().map(|text| PathBuf::from(text.trim()));
    let adopted = recorded.filter(|home| home.starts_with(&fallback) && home.is_dir()).filter(|home| {
        let origin = fs::read_to_string(home.join(ORIGIN_FILE)).unwrap_or_default();
        let origin = Path::new(origin.trim());
        // The original still exists elsewhere, so this state folder is a copy.
        origin == data_dir || !origin.parent().is_some_and(Path::exists)
    });
    let home = match adopted {
        Some(home) => home,
        None => create_dir(&fallback.join(replacement_name(state_dir, data_dir)))?,
    };
    open_to_all(&home)?;
    let origin = home.join(ORIGIN_FILE);
    fs::write(&origin, format!("{}\n", data_dir.display()))
        .map_err(|source| EmbeddedError::io("write", &origin, source))?;
    fs::write(&location, format!("{}\n", home.display()))
        .map_err(|source| EmbeddedError::io("write", &location, source))?;
    Ok(home)
}

/// `/srv/shop/.basalt` becomes `shop-` and a hash of the data folder's path.
fn replacement_name(state_dir: &Path, data_dir: &Path) -> String {
    let project = state_dir.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let project: String =
        project.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    format!("{project}-{:016x}", fnv1a(data_dir.as_os_str().as_encoded_bytes()))
}

/// Programs that `account` can run: the found ones, or copies below `fallback`.
pub(super) async fn reachable_binaries(
    binaries: Binaries,
    account: &Account,
    fallback: &Path,
    progress: &mut (dyn FnMut(&str) + Send),
    notices: &mut Vec<String>,
) -> Result<Binaries, EmbeddedError> {
    if *account == Account::Own || Binaries::probe(&binaries.bin_dir, account).await.is_ok() {
        return Ok(binaries);
    }
    let Some(prefix) = binaries.bin_dir.parent().map(Path::to_path_buf) else { return Ok(binaries) };
    let fallback = create_dir(fallback)?;
    open_to_all(&fallback)?;
    let copy = fallback.join(format!("postgresql-{}-{:016x}", binaries.version, fingerprint(&binaries)?));
    if !copy.is_dir() {
        progress(&format!(
            "copying PostgreSQL to {}, where {} can run it",
            copy.display(),
            account.describe()
        ));
        let (from, to) = (prefix.clone(), copy.clone());
        tokio::task::spawn_blocking(move || copy_programs(&from, &to))
            .await
            .map_err(|error| EmbeddedError::io("copy", &prefix, std::io::Error::other(error)))??;
    }
    notices.push(format!(
        "PostgreSQL's programs were copied to {}, because {} cannot enter {}",
        copy.display(),
        account.describe(),
        prefix.display()
    ));
    Binaries::probe(&copy.join("bin"), account).await
}

/// A hash of the programs' path, size and modification time.
fn fingerprint(binaries: &Binaries) -> Result<u64, EmbeddedError> {
    let program = binaries.program("postgres");
    let meta = fs::metadata(&program).map_err(|source| EmbeddedError::io("look up", &program, source))?;
    Ok(fnv1a(format!("{}|{}|{}", program.display(), meta.size(), meta.mtime()).as_bytes()))
}

/// Copies `bin`, `lib` and `share` into a sibling of `to`, then renames it.
fn copy_programs(from: &Path, to: &Path) -> Result<(), EmbeddedError> {
    let parent = to.parent().unwrap_or(Path::new("/"));
    let fresh = tempfile_beside(to);
    for part in ["bin", "lib", "share"] {
        let source = from.join(part);
        if source.is_dir() {
            copy_tree(&source, &fresh.join(part))?;
        }
    }
    open_to_all(&fresh)?;
    match fs::rename(&fresh, to) {
        Ok(()) => {}
        // Another Basalt process copied the same programs in the meantime.
        Err(_) if to.is_dir() => {
            fs::remove_dir_all(&fresh).map_err(|source| EmbeddedError::io("remove", &fresh, source))?;
        }
        Err(source) => return Err(EmbeddedError::io("create", to, source)),
    }
    sync_folder(parent)
}

fn tempfile_beside(path: &Path) -> PathBuf {
    super::owner::beside(path, &format!(".{}", std::process::id()))
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), EmbeddedError> {
    let failed = |source| EmbeddedError::io("copy", from, source);
    fs::create_dir_all(to).map_err(|source| EmbeddedError::io("create the folder", to, source))?;
    open_to_all(to)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&source).map_err(failed)?;
            if !target.is_symlink() {
                std::os::unix::fs::symlink(link, &target)
                    .map_err(|source| EmbeddedError::io("create the link", &target, source))?;
            }
        } else {
            fs::copy(&source, &target).map_err(|cause| EmbeddedError::io("copy", &source, cause))?;
            let mode = fs::metadata(&source).map_err(failed)?.mode();
            let mode = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
            fs::set_permissions(&target, Permissions::from_mode(mode))
                .map_err(|source| EmbeddedError::io("open up", &target, source))?;
        }
    }
    Ok(())
}

/// Makes the folder readable by everyone: nothing in it is secret, and root's umask is often 077.
fn open_to_all(dir: &Path) -> Result<(), EmbeddedError> {
    fs::set_permissions(dir, Permissions::from_mode(0o755))
        .map_err(|source| EmbeddedError::io("open up the folder", dir, source))
}

/// A 0700 folder of `account` for the socket: `HOME/run` if the socket's path fits, else in the temporary folder.
fn private_run_dir(
    home: &Path,
    data_dir: &Path,
    account: &Account,
    temp_dir: &Path,
) -> Result<PathBuf, EmbeddedError> {
    let mut run_dir = home.join("run");
    if !socket_fits(&run_dir) {
        let name = format!("basalt-{:016x}", fnv1a(data_dir.as_os_str().as_encoded_bytes()));
        let temp = temp_dir.canonicalize().unwrap_or_else(|_| PathBuf::from("/tmp"));
        let closed = !matches!(account.blocked_at(&temp), Ok(None)) || !socket_fits(&temp.join(&name));
        run_dir = if closed { Path::new("/tmp").join(name) } else { temp.join(name) };
    }
    let failed = |source| EmbeddedError::io("prepare the socket folder", &run_dir, source);
    match fs::create_dir(&run_dir) {
        Ok(()) => account.give(&run_dir)?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    // In a world-writable folder, another user may have created a folder of this name.
    let meta = fs::symlink_metadata(&run_dir).map_err(failed)?;
    if !meta.is_dir() || (meta.uid() != account.uid() && meta.uid() != Account::Own.uid()) {
        return Err(EmbeddedError::Permission {
            account: account.describe(),
            action: "use as its socket folder",
            path: run_dir,
        });
    }
    account.give(&run_dir)?;
    fs::set_permissions(&run_dir, Permissions::from_mode(0o700)).map_err(failed)?;
    Ok(run_dir)
}

/// Syncs the folder, so that a rename in it survives a power failure.
pub(super) fn sync_folder(dir: &Path) -> Result<(), EmbeddedError> {
    fs::File::open(dir)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| EmbeddedError::io("write the folder", dir, source))
}

/// FNV-1a: names must be stable across builds, which the standard hasher does not guarantee.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested<'a>(state: &'a Path, data: &'a Path, fallback: &'a Path) -> Requested<'a> {
        Requested { state_dir: state, data_dir: data, fallback_dir: fallback, temp_dir: Path::new("/tmp") }
    }

    #[test]
    fn own_folders_are_below_the_state_folder() {
        let dir = tempfile::Builder::new().prefix("b").tempdir_in("/tmp").unwrap();
        let state = dir.path().canonicalize().unwrap().join("state");
        let data = state.join("postgres");
        let mut notices = Vec::new();
        let dirs =
            DataDirs::prepare(&requested(&state, &data, Path::new("/nowhere")), &Account::Own, &mut notices)
                .unwrap();
        assert_eq!((dirs.data_dir, dirs.run_dir.clone()), (data, state.join("run")));
        assert_eq!(fs::metadata(dirs.run_dir).unwrap().mode() & 0o777, 0o700);
        assert!(notices.is_empty());
    }

    #[test]
    fn a_long_path_moves_only_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("x".repeat(90));
        let data = state.join("postgres");
        let dirs = DataDirs::prepare(
            &requested(&state, &data, Path::new("/nowhere")),
            &Account::Own,
            &mut Vec::new(),
        )
        .unwrap();
        assert!(socket_fits(&dirs.run_dir), "{}", dirs.run_dir.display());
        assert!(!dirs.run_dir.starts_with(dir.path()));
        fs::remove_dir(dirs.run_dir).unwrap();
    }

    #[test]
    fn a_moved_project_keeps_its_data_and_a_copied_one_gets_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let fallback = dir.path().join("var");
        let state = |project: &str| create_dir(&dir.path().join(project).join(".basalt")).unwrap();
        let first = state("first");
        let home = replacement_for(&first, &first.join("postgres"), &fallback).unwrap();
        assert_eq!(replacement_for(&first, &first.join("postgres"), &fallback).unwrap(), home);

        let copy = state("copy");
        fs::copy(first.join(LOCATION_FILE), copy.join(LOCATION_FILE)).unwrap();
        assert_ne!(replacement_for(&copy, &copy.join("postgres"), &fallback).unwrap(), home);

        fs::rename(dir.path().join("first"), dir.path().join("moved")).unwrap();
        let moved = state("moved");
        assert_eq!(replacement_for(&moved, &moved.join("postgres"), &fallback).unwrap(), home);
        assert_eq!(
            fs::read_to_string(home.join(ORIGIN_FILE)).unwrap().trim(),
            moved.join("postgres").to_str().unwrap()
        );
    }

    #[test]
    fn copied_programs_keep_links_and_are_readable() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("native");
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::create_dir_all(from.join("lib")).unwrap();
        fs::write(from.join("bin/postgres"), "x").unwrap();
        fs::set_permissions(from.join("bin/postgres"), Permissions::from_mode(0o700)).unwrap();
        fs::write(from.join("lib/a.so.1"), "y").unwrap();
        std::os::unix::fs::symlink("a.so.1", from.join("lib/a.so")).unwrap();
        let to = dir.path().join("copy");
        copy_programs(&from, &to).unwrap();
        copy_programs(&from, &to).unwrap_or(()); // a concurrent copy that loses the race
        assert_eq!(fs::metadata(to.join("bin/postgres")).unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(to.join("lib/a.so")).unwrap().mode() & 0o777, 0o644);
        assert!(to.join("lib/a.so").is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "a partial copy remains");
    }
}
