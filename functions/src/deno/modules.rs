//! How the modules that functions import are resolved, downloaded and kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::source::{Imports, Source};

/// Time for the downloads of one function.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(120);
/// Characters of an error that are shown.
const ERROR_CHARS: usize = 2000;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Modules {
    /// The Deno program.
    pub(crate) program: PathBuf,
    /// `DENO_DIR`: downloaded modules, and what V8 compiled.
    pub(crate) cache_dir: PathBuf,
    /// Variables that choose registries and proxies.
    pub(crate) registry: Vec<(String, String)>,
    /// Whether modules that are not in the cache are downloaded.
    pub(crate) is_development: bool,
}

impl Modules {
    /// A command with the options that all have in common, in an environment that is otherwise empty.
    pub(crate) fn command(&self, verb: &str, source: &Source) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(verb).env_clear().current_dir(source.dir());
        command.env("DENO_DIR", &self.cache_dir).env("NO_COLOR", "1").env("DENO_NO_UPDATE_CHECK", "1");
        // An operator's proxy may have a certificate of its own authority.
        command.env("DENO_TLS_CA_STORE", "system,mozilla");
        command.envs(self.registry.iter().map(|(name, value)| (name, value)));
        match &source.lock {
            Some(lock) => {
                command.arg(option("--lock=", lock)).arg("--frozen");
            }
            None => {
                command.arg("--no-lock");
            }
        }
        if !self.is_development {
            command.arg("--cached-only");
        }
        // Without these, Deno uses whatever `deno.json` or `package.json` a folder above has: the app's, for example.
        match &source.imports {
            Imports::Config(path) => command.arg(option("--config=", path)),
            Imports::Map(path) => command.arg(option("--import-map=", path)).arg("--no-config"),
            Imports::Package(_) | Imports::None => command.arg("--no-config"),
        };
        match &source.imports {
            Imports::Package(_) => command.arg("--node-modules-dir=manual"),
            Imports::Config(_) | Imports::Map(_) | Imports::None => {
                command.arg("--node-modules-dir=none").env("DENO_NO_PACKAGE_JSON", "1")
            }
        };
        command
    }

    /// Loads all modules that the function imports; in production only from the cache.
    ///
    /// # Errors
    /// Deno's error, which names the module and the host.
    pub(crate) async fn load(&self, source: &Source) -> Result<(), String> {
        let mut command = self.command("cache", source);
        if self.is_development {
            command.arg("--allow-import");
        }
        let command = command.arg(&source.entry).stdin(Stdio::null()).kill_on_drop(true);
        match timeout(DOWNLOAD_LIMIT, command.output()).await {
            Err(_elapsed) => {
                Err(format!("its modules were not loaded within {} s", DOWNLOAD_LIMIT.as_secs()))
            }
            Ok(Err(error)) => Err(format!("cannot run {}: {error}", self.program.display())),
            Ok(Ok(output)) if output.status.success() => Ok(()),
            Ok(Ok(output)) => {
                let text = String::from_utf8_lossy(&output.stderr);
                let is_error = |line: &&str| !line.starts_with("Download ") && !line.trim().is_empty();
                let lines =
                    text.lines().filter(is_error).take_while(|line| !line.starts_with("Stack backtrace"));
                let text = lines.collect::<Vec<_>>().join("\n");
                Err(text.trim_start_matches("error: ").chars().take(ERROR_CHARS).collect())
            }
        }
    }
}

fn option(name: &str, path: &Path) -> OsString {
    let mut text = OsString::from(name);
    text.push(path);
    text
}

/// An option with a list. Deno separates values by commas, and reads two as one of the value.
pub(crate) fn option_list(name: &str, values: impl IntoIterator<Item = OsString>) -> OsString {
    let values: Vec<String> =
        values.into_iter().map(|value| value.to_string_lossy().replace(',', ",,")).collect();
    format!("{name}{}", values.join(",")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_paths_are_doubled() {
        let values = ["/a,b".into(), "/c".into()];
        assert_eq!(option_list("--allow-read=", values), OsString::from("--allow-read=/a,,b,/c"));
    }
}
