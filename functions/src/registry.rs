//! The registered functions: built-in ones, and those of the project. A project's function replaces a built-in one of the same name.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use basalt_core::service::Handler;

use crate::config::{FunctionSettings, FunctionsConfig};
use crate::deno::source::Source;
use crate::metrics::CallMetrics;
use crate::typescript::TypeScript;

/// A registered function.
#[derive(Clone)]
pub(crate) struct Function {
    /// The name, also used as the metrics label.
    pub(crate) name: Arc<str>,
    /// Whether callers need a valid token.
    pub(crate) verify_jwt: bool,
    /// Whether the function handles preflights itself.
    pub(crate) answers_preflights: bool,
    /// Counts its calls.
    pub(crate) metrics: CallMetrics,
    /// Runs the function. The request's path is `/NAME/…`.
    pub(crate) run: Handler,
}

type Functions = HashMap<Arc<str>, Function>;

/// The functions by name. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Registry {
    built_in: Arc<Functions>,
    functions: Arc<ArcSwap<Functions>>,
}

impl Registry {
    /// Registers the server's own functions.
    pub(crate) fn new(
        built_in: impl IntoIterator<Item = (&'static str, Handler)>,
        config: &FunctionsConfig,
    ) -> Self {
        let mut functions = HashMap::new();
        for (name, run) in built_in {
            let section = config.each.iter().find(|section| section.name == name).cloned();
            let settings = section.unwrap_or_else(|| FunctionSettings::new(name.to_owned()));
            if !settings.is_enabled {
                tracing::info!("Skipped serving Function: {name}");
                continue;
            }
            // Built-in functions authenticate callers themselves: errors have the app's format, and an API key is not a user.
            let answers_preflights = settings.answers_preflights;
            let metrics = CallMetrics::new(name);
            let function =
                Function { name: name.into(), verify_jwt: false, answers_preflights, metrics, run };
            functions.insert(Arc::clone(&function.name), function);
        }
        let built_in = Arc::new(functions);
        Self { functions: Arc::new(ArcSwap::new(Arc::clone(&built_in))), built_in }
    }

    /// Registers the project's functions in place of those of the last call.
    pub(crate) fn set_typescript(&self, typescript: &TypeScript, sources: &[Source]) {
        let mut functions = Functions::clone(&self.built_in);
        for Source { settings, .. } in sources {
            let name: Arc<str> = settings.name.as_str().into();
            if !settings.is_enabled {
                functions.remove(&name);
                continue;
            }
            let function = Function {
                name: Arc::clone(&name),
                verify_jwt: settings.verify_jwt,
                answers_preflights: settings.answers_preflights,
                metrics: CallMetrics::new(&name),
                run: typescript.handler(&name),
            };
            functions.insert(name, function);
        }
        self.functions.store(Arc::new(functions));
    }

    /// Logs which of these functions are disabled, and which replace a built-in one.
    pub(crate) fn log_differences(&self, sources: &[Source]) {
        for Source { settings, .. } in sources {
            let name = settings.name.as_str();
            if !settings.is_enabled {
                tracing::info!("Skipped serving Function: {name}");
            } else if self.built_in.contains_key(name) {
                tracing::info!(function = name, "the project's function replaces the built-in one");
            }
        }
    }

    /// The function for a path `/NAME/…`.
    pub(crate) fn find(&self, path: &str) -> Option<Function> {
        let name = path.strip_prefix('/')?.split('/').next()?;
        self.functions.load().get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::is_name;

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
