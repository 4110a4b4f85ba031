//! The registered functions: built-in ones, and those in the project's folder. A project's function replaces a built-in one
//! of the same name.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use axum::response::IntoResponse as _;
use basalt_core::service::Handler;
use futures_util::FutureExt as _;

use crate::config::{FunctionSettings, is_name};
use crate::error::GateError;

/// A registered function.
#[derive(Clone)]
pub(crate) struct Function {
    /// The name, also used as the metrics label.
    pub(crate) name: Arc<str>,
    /// Whether callers need a valid token.
    pub(crate) verify_jwt: bool,
    /// Whether the function handles preflights itself.
    pub(crate) answers_preflights: bool,
    /// Runs the function. The request's path is `/NAME/…`.
    pub(crate) run: Handler,
}

/// The functions by name.
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<HashMap<Arc<str>, Function>>);

impl Registry {
    /// `built_in` are the server's own functions. `dir` is the project's folder of functions; each subfolder with an `index.ts` is a
    /// function.
    pub(crate) fn new(
        built_in: impl IntoIterator<Item = (&'static str, Handler)>,
        dir: &Path,
        settings: &[FunctionSettings],
    ) -> Self {
        let mut functions = HashMap::new();
        let settings_of = |name: &str| {
            let section = settings.iter().find(|section| section.name == name).cloned();
            section.unwrap_or_else(|| FunctionSettings::new(name.to_owned()))
        };
        for (name, run) in built_in {
            let settings = settings_of(name);
            // Built-in functions authenticate callers themselves: errors have the app's format, and an API key is not a user.
            let function = Function {
                name: name.into(),
                verify_jwt: false,
                answers_preflights: settings.answers_preflights,
                run,
            };
            functions.insert(Arc::clone(&function.name), (function, settings.is_enabled));
        }
        for (name, settings) in in_folder(dir, settings) {
            if functions.contains_key(name.as_str()) {
                tracing::info!(function = name, "the project's function replaces the built-in one");
            }
            let function = Function {
                name: name.as_str().into(),
                verify_jwt: settings.verify_jwt,
                answers_preflights: settings.answers_preflights,
                run: without_runtime(),
            };
            if settings.is_enabled {
                tracing::warn!("{}", cannot_run(dir, &name));
            }
            functions.insert(Arc::clone(&function.name), (function, settings.is_enabled));
        }
        let enabled = functions.into_iter().filter_map(|(name, (function, is_enabled))| {
            if !is_enabled {
                tracing::info!("Skipped serving Function: {name}");
            }
            is_enabled.then_some((name, function))
        });
        Self(Arc::new(enabled.collect()))
    }

    /// The function for a path `/NAME/…`.
    pub(crate) fn find(&self, path: &str) -> Option<&Function> {
        let name = path.strip_prefix('/')?.split('/').next()?;
        self.0.get(name)
    }
}

/// A message for the log and `doctor` for each enabled TypeScript function.
pub(crate) fn unable_to_run(dir: &Path, settings: &[FunctionSettings]) -> Vec<String> {
    let functions = in_folder(dir, settings);
    functions
        .into_iter()
        .filter(|(_, settings)| settings.is_enabled)
        .map(|(name, _)| cannot_run(dir, &name))
        .collect()
}

fn cannot_run(dir: &Path, name: &str) -> String {
    let file = dir.join(name).join("index.ts");
    format!(
        "{} is a TypeScript function: this release cannot run it, and calls return 503 BOOT_ERROR",
        file.display()
    )
}

/// The functions in the folder with their settings, by name.
fn in_folder(dir: &Path, settings: &[FunctionSettings]) -> Vec<(String, FunctionSettings)> {
    let mut names = names_in(dir);
    names.sort_unstable();
    let with_settings = |name: String| {
        let section = settings.iter().find(|section| section.name == name).cloned();
        let settings = section.unwrap_or_else(|| FunctionSettings::new(name.clone()));
        (name, settings)
    };
    names.into_iter().map(with_settings).collect()
}

fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let function = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        (is_name(&name) && entry.path().join("index.ts").is_file()).then_some(name)
    };
    entries.flatten().filter_map(function).collect()
}

/// This release has no TypeScript runtime: the function is registered but cannot be started.
fn without_runtime() -> Handler {
    Arc::new(|_request| async { GateError::Boot.into_response() }.boxed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_names_only() {
        for name in ["a", "create-checkout-session", "A_1"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "1a", "_shared", ".git", "a.b", "a/b", "ä"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
