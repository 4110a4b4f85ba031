//! What all workers of this server share: the program, folders, limits, and what functions may not reach.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
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
    socket_dir: PathBuf,
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
        let socket_dir = socket_dir(&dir)?;
        Ok(Self {
            config,
            environment,
            modules,
            public_url: facts.public_url.clone(),
            project_dir: facts.project_dir.clone(),
            state_dir: facts.state_dir.clone(),
            bootstrap,
            socket_dir,
            denied_hosts,
        })
    }

    /// The socket of one worker.
    pub(crate) fn socket(&self, id: Uuid) -> PathBuf {
        self.socket_dir.join(socket_name(id))
    }

    /// What no function may read or write, wherever the state folder is.
    pub(crate) fn private_paths(&self) -> Vec<PathBuf> {
        let in_state = ["secrets.json", "postgres", "storage", "run"].map(|name| self.state_dir.join(name));
        in_state.into_iter().chain([self.config.dir.join(".env"), self.project_dir.join(".env")]).collect()
    }
}

/// Short, because the path of a socket is limited.
fn socket_name(id: Uuid) -> String {
    id.simple().to_string().chars().take(12).collect()
}

/// A folder for this process's sockets, in the state folder or, if Deno cannot open sockets there, in the folder for temporary files.
/// Removes those of servers that have ended.
fn socket_dir(dir: &Path) -> io::Result<PathBuf> {
    let sockets = dir.join("sockets");
    let longest = sockets.join("4294967295").join(socket_name(Uuid::nil()));
    let is_special = SPECIAL_FOLDERS.iter().any(|folder| dir.starts_with(folder));
    let sockets = if longest.as_os_str().len() <= SOCKET_PATH_BYTES && !is_special {
        sockets
    } else {
        std::env::temp_dir().join(format!("basalt-functions-{}", basalt_core::random::token(8)))
    };
    private_dir(&sockets)?;
    for entry in fs::read_dir(&sockets)?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if pid.is_none_or(|pid| test_kill_process(pid).is_err()) {
            let _removed = fs::remove_dir_all(entry.path());
        }
    }
    let own = sockets.join(std::process::id().to_string());
    private_dir(&own)?;
    Ok(own)
}

/// Creates a folder that only this user can enter.
fn private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}
