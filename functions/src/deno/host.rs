//! What all workers of this server share: the program, folders, limits, and what functions may not reach.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, geteuid, test_kill_process};
use tempfile::TempDir;
use uuid::Uuid;

use super::environment::Environment;
use super::modules::Modules;
use crate::config::FunctionsConfig;
use crate::typescript::ServerFacts;

const BOOTSTRAP: &str = include_str!("bootstrap.js");
/// The longest path of a unix socket on every system is 104 bytes, with the final NUL.
const SOCKET_PATH_BYTES: usize = 103;
/// Folders in which Deno opens nothing, whatever its permissions are.
const SPECIAL_FOLDERS: [&str; 3] = ["/dev", "/proc", "/sys"];
/// The folder that every function may read and write. A socket in it could be opened, or replaced, by all functions.
pub(super) const TEMPORARY: &str = "/tmp";
/// Folders for sockets if they cannot be in the state folder, after `XDG_RUNTIME_DIR`.
const SOCKET_FOLDERS: [&str; 2] = ["/run", "/var/tmp"];
/// Start of the name of such a folder, before the server's pid.
const SOCKET_FOLDER_PREFIX: &str = "basalt-functions-";

/// See the module.
pub(crate) struct Host {
    pub(crate) config: FunctionsConfig,
    pub(crate) environment: Environment,
    pub(crate) modules: Modules,
    pub(crate) public_url: String,
    pub(crate) project_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    /// The script that runs before each function.
    pub(crate) bootstrap: PathBuf,
    /// The folder of this process's sockets.
    sockets: SocketFolder,
    /// Where PostgreSQL's data and socket are.
    database_dirs: Vec<PathBuf>,
    /// `functions.deny_net` and what the server adds.
    pub(crate) denied_hosts: Vec<String>,
}

impl Host {
    /// Creates the folders and writes the bootstrap script.
    pub(crate) fn new(
        config: FunctionsConfig,
        environment: Environment,
        modules: Modules,
        facts: &ServerFacts,
        denied_hosts: Vec<String>,
    ) -> io::Result<Self> {
        let dir = facts.state_dir.join("functions");
        private_dir(&dir)?;
        private_dir(&modules.cache_dir)?;
        // A name per content: servers of two releases may share the folder.
        let bootstrap = dir.join(format!("bootstrap-{}.js", super::watch::hash_of(BOOTSTRAP)));
        if fs::read_to_string(&bootstrap).ok().as_deref() != Some(BOOTSTRAP) {
            fs::write(&bootstrap, BOOTSTRAP)?;
        }
        let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let fallbacks = runtime_dir.into_iter().chain(SOCKET_FOLDERS.map(PathBuf::from));
        let sockets = SocketFolder::create(&dir, fallbacks)?;
        Ok(Self {
            config,
            environment,
            modules,
            public_url: facts.public_url.clone(),
            project_dir: facts.project_dir.clone(),
            state_dir: facts.state_dir.clone(),
            bootstrap,
            sockets,
            database_dirs: facts.database_dirs.clone(),
            denied_hosts,
        })
    }

    /// The socket of one worker.
    pub(crate) fn socket(&self, id: Uuid) -> PathBuf {
        self.sockets.path.join(socket_name(id))
    }

    /// What no function may read or write, wherever the state folder is.
    pub(crate) fn private_paths(&self) -> Vec<PathBuf> {
        let in_state = ["secrets.json", "postgres", "storage", "run"].map(|name| self.state_dir.join(name));
        let files = [self.config.dir.join(".env"), self.project_dir.join(".env")];
        in_state.into_iter().chain(files).chain(self.database_dirs.iter().cloned()).collect()
    }

    /// What no function may write, because all workers run it.
    pub(crate) fn shared_code(&self) -> [PathBuf; 2] {
        [self.bootstrap.clone(), self.modules.cache_dir.clone()]
    }
}

/// Short, because the path of a socket is limited.
fn socket_name(id: Uuid) -> String {
    id.simple().to_string().chars().take(12).collect()
}

/// A folder for this process's sockets, which only this user can enter. Each worker may open its own socket in it, and no other.
struct SocketFolder {
    path: PathBuf,
    /// Removes a folder outside the state folder.
    _removal: Option<TempDir>,
}

impl SocketFolder {
    /// In the state folder or, if its path is too long or workers may open everything there, in the first of `fallbacks` that can be
    /// used.
    fn create(dir: &Path, fallbacks: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let sockets = dir.join("sockets");
        if is_usable(&sockets.join("4294967295")) {
            private_dir(&sockets)?;
            remove_abandoned(&sockets, |name| name.parse().ok())?;
            let path = sockets.join(std::process::id().to_string());
            private_dir(&path)?;
            return Ok(Self { path, _removal: None });
        }
        let own = fallbacks.into_iter().find_map(|folder| {
            let folder = folder.canonicalize().ok()?;
            if let Err(error) = remove_abandoned(&folder, pid_in_name) {
                tracing::debug!(folder = %folder.display(), %error, "cannot remove the sockets of servers that were killed");
            }
            // A random name: in a world-writable folder, another user could have created a fixed one.
            let own = tempfile::Builder::new()
                .prefix(&format!("{SOCKET_FOLDER_PREFIX}{}-", std::process::id()))
                .permissions(fs::Permissions::from_mode(0o700))
                .tempdir_in(folder)
                .ok()?;
            is_usable(own.path()).then_some(own)
        });
        let Some(own) = own else {
            return Err(io::Error::other(format!(
                "no folder for the sockets of workers: {} is too long or inside {TEMPORARY}; set XDG_RUNTIME_DIR to a private folder \
                 with a short path outside {TEMPORARY}",
                sockets.display()
            )));
        };
        Ok(Self { path: own.path().to_path_buf(), _removal: Some(own) })
    }
}

/// Whether workers can open sockets in this folder, and only those that their permissions name.
fn is_usable(folder: &Path) -> bool {
    let longest = folder.join(socket_name(Uuid::nil()));
    let temporary = [PathBuf::from(TEMPORARY), resolved(Path::new(TEMPORARY))];
    let resolved = resolved(folder);
    let is_inside = |parent: &Path| folder.starts_with(parent) || resolved.starts_with(parent);
    longest.as_os_str().len() <= SOCKET_PATH_BYTES
        && !SPECIAL_FOLDERS.iter().any(|parent| is_inside(Path::new(parent)))
        && !temporary.iter().any(|parent| is_inside(parent))
}

/// The path without symbolic links in the part that exists.
fn resolved(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|parent| Some((parent, parent.canonicalize().ok()?)));
    let rest = existing.as_ref().and_then(|(parent, _)| path.strip_prefix(parent).ok());
    match (&existing, rest) {
        (Some((_, canonical)), Some(rest)) => canonical.join(rest),
        _ => path.to_path_buf(),
    }
}

/// The pid in the name of a folder outside the state folder; `None` for folders of other programs.
fn pid_in_name(name: &str) -> Option<i32> {
    name.strip_prefix(SOCKET_FOLDER_PREFIX)?.split_once('-')?.0.parse().ok()
}

/// Removes this user's folders whose server has ended. `pid_of` returns the server's pid from the folder's name.
fn remove_abandoned(parent: &Path, pid_of: impl Fn(&str) -> Option<i32>) -> io::Result<()> {
    let user = geteuid().as_raw();
    for entry in fs::read_dir(parent)?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(&pid_of).and_then(Pid::from_raw) else {
            continue;
        };
        // The metadata of a symbolic link is its own.
        let is_own = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
        if is_own && test_kill_process(pid).is_err() {
            let _removed = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Creates a folder that only this user can enter.
fn private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_outside_the_folder_of_all_functions() {
        let state = tempfile::tempdir_in(TEMPORARY).unwrap();
        let outside = tempfile::tempdir_in("/var/tmp").unwrap();
        let fallbacks = [state.path().to_path_buf(), outside.path().to_path_buf()];
        let sockets = SocketFolder::create(state.path(), fallbacks.clone()).unwrap();
        assert!(sockets.path.starts_with(outside.path()), "{}", sockets.path.display());
        let mode = fs::metadata(&sockets.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        // A symbolic link does not bypass the check.
        let link = outside.path().join("link");
        std::os::unix::fs::symlink(state.path(), &link).unwrap();
        assert!(SocketFolder::create(&link, [link.clone()]).is_err());
        let path = sockets.path.clone();
        drop(sockets);
        assert!(!path.exists(), "the folder is removed with the server");
        // The state folder of most servers.
        let sockets = SocketFolder::create(outside.path(), fallbacks).unwrap();
        assert!(sockets.path.starts_with(outside.path().join("sockets")), "{}", sockets.path.display());
    }

    #[test]
    fn start_removes_the_sockets_of_killed_servers() {
        let state = tempfile::tempdir_in(TEMPORARY).unwrap();
        let fallback = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let folder = |name: String| {
            let path = fallback.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("0123456789ab"), "").unwrap();
            path
        };
        let of_killed = folder(format!("{SOCKET_FOLDER_PREFIX}{}-a1B2c3", ended.id()));
        let of_running = folder(format!("{SOCKET_FOLDER_PREFIX}{}-a1B2c3", std::process::id()));
        let others = [folder(format!("{SOCKET_FOLDER_PREFIX}a1B2c3")), folder(ended.id().to_string())];
        let link = fallback.path().join(format!("{SOCKET_FOLDER_PREFIX}{}-link", ended.id()));
        std::os::unix::fs::symlink(&of_running, &link).unwrap();
        let sockets = SocketFolder::create(state.path(), [fallback.path().to_path_buf()]).unwrap();
        assert!(!of_killed.exists(), "the folder of a killed server remains");
        for kept in others.iter().chain([&of_running, &link, &sockets.path]) {
            assert!(kept.exists(), "{} was removed", kept.display());
        }
        // In the state folder, the name is the pid.
        let own = fallback.path().join("sockets").join(ended.id().to_string());
        fs::create_dir_all(&own).unwrap();
        let _sockets = SocketFolder::create(fallback.path(), []).unwrap();
        assert!(!own.exists(), "the folder of a killed server remains");
    }

    #[test]
    fn no_folder_for_sockets_names_the_remedy() {
        let state = tempfile::tempdir_in(TEMPORARY).unwrap();
        let error = SocketFolder::create(state.path(), []).map(|sockets| sockets.path).unwrap_err();
        assert!(error.to_string().contains("set XDG_RUNTIME_DIR"), "{error}");
    }
}
