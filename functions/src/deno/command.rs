//! The command line of a worker: its permissions, and how its imports are resolved (functions.md 3.10.2).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;
use uuid::Uuid;

use super::host::{Host, TEMPORARY};
use super::modules::option_list as list;
use super::source::{Imports, Source};

/// The variable for the bootstrap script, and those that Deno itself adds. The script removes them, and those of [`Modules`], before the
/// function runs.
///
/// [`Modules`]: super::modules::Modules
const ADDED: [&str; 3] = ["BASALT_WORKER", "PATH", "DENO_NODE_SHIM_ACTIVE"];

/// Characters of one message of `console`, and messages in a window of time (functions.md 3.4).
pub(crate) const MESSAGE_CHARS: usize = 10_000;
pub(crate) const MESSAGES: u32 = 100;
pub(crate) const MESSAGE_WINDOW_MS: u32 = 10_000;

/// The command that runs a function on a socket.
pub(crate) fn worker(host: &Host, source: &Source, version: &str, id: Uuid, socket: &Path) -> Command {
    let mut command = host.modules.command("run", source);
    command.arg("--no-prompt");
    command.args(["--allow-env", "--allow-sys=hostname", "--allow-net"]);
    // An empty list would deny everything.
    if !host.denied_hosts.is_empty() {
        command.arg(list("--deny-net=", host.denied_hosts.iter().map(OsString::from)));
    }
    command.arg(list("--allow-read=", readable(host, source, socket)));
    command.arg(list("--allow-write=", [socket.into(), TEMPORARY.into()]));
    let private = host.private_paths();
    command.arg(list("--deny-read=", private.iter().map(OsString::from)));
    // The code, too: a project and its state may be in the folder for temporary files.
    let code = [host.config.dir.clone(), source.dir().to_path_buf()];
    let denied = private.iter().chain(&code).map(OsString::from);
    command.arg(list("--deny-write=", denied.chain(host.shared_code().map(PathBuf::into_os_string))));
    if host.modules.is_development {
        command.arg("--allow-import");
    }
    command.arg(format!("--v8-flags=--max-old-space-size={}", host.config.memory_mb));
    command.arg("--preload").arg(&host.bootstrap).arg(&source.entry);
    // `get_envs` has what `Modules` set.
    let of_modules = command.as_std().get_envs().map(|(name, _)| name.to_string_lossy().into_owned());
    let internal: Vec<String> = of_modules.chain(ADDED.map(str::to_owned)).collect();
    let settings = json!({
        "socket": socket,
        "publicUrl": host.public_url,
        "internal": internal,
        "maxMessageChars": MESSAGE_CHARS,
        "maxMessages": MESSAGES,
        "windowMs": MESSAGE_WINDOW_MS,
    });
    command.envs(host.environment.variables(&host.config, source, id, version));
    command.env("BASALT_WORKER", settings.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command
}

fn readable(host: &Host, source: &Source, socket: &Path) -> Vec<OsString> {
    let mut paths: Vec<PathBuf> = vec![
        socket.to_path_buf(),
        host.config.dir.clone(),
        source.dir().to_path_buf(),
        host.modules.cache_dir.clone(),
        TEMPORARY.into(),
    ];
    if let Imports::Package(modules) = &source.imports {
        paths.push(modules.clone());
    }
    // A pattern's folder, because Deno knows no patterns.
    for pattern in &source.settings.static_files {
        let path = host.config.base_dir().join(pattern);
        paths.push(match path.file_name() {
            Some(name) if name.to_string_lossy().contains('*') => {
                path.parent().map_or_else(|| path.clone(), Path::to_path_buf)
            }
            _ => path,
        });
    }
    paths.into_iter().map(PathBuf::into_os_string).collect()
}
