#![doc = include_str!("../README.md")]

use axum::Router;
use axum::extract::Request;
use basalt_core::clock::Clock;
use basalt_core::convert::saturating;
use basalt_core::keys::Keys;
use basalt_core::service::{BodyMode, Cors, Handler, Service};
use basalt_pg::system_migrations::SystemMigration;
use http::StatusCode;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub mod built_in;
mod config;
mod deno;
mod error;
mod gate;
mod invoke;
mod metrics;
mod registry;
pub mod secrets;
mod typescript;

pub use config::{FunctionSettings, FunctionsConfig, Policy, Variables, is_name};
pub use error::render as render_fault;
pub use typescript::{Dependencies, Inspected, ServerFacts, inspect};

use registry::Registry;
use typescript::TypeScript;

/// Migrations of schema `functions`. Versions 3 to 5 were released under this service's name and now belong to `basalt-planning`, so
/// the next version here is 6.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new(
        "functions",
        1,
        "runtime_secrets",
        include_str!("../migrations/0001_runtime_secrets.sql"),
    ),
    SystemMigration::new("functions", 2, "built_in", include_str!("../migrations/0002_built_in.sql")),
];

/// State shared by all requests.
pub(crate) struct Functions {
    pub(crate) registry: Registry,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
    /// `functions.allow_html`.
    pub(crate) allows_html: bool,
}

/// The current file of functions' messages in the state folder, one JSON object per line, and the file before it.
#[must_use]
pub fn message_files(state_dir: &Path) -> [PathBuf; 2] {
    deno::journal::files(state_dir)
}

/// The service at `/functions/v1`, with the project's functions and the named `built_in` ones.
#[must_use]
pub fn service(
    config: &FunctionsConfig,
    built_in: Vec<(&'static str, Handler)>,
    dependencies: Dependencies,
) -> Service {
    let registry = Registry::new(built_in, config);
    let typescript = Arc::new(TypeScript::new(config, &dependencies));
    let sources = typescript.sources();
    if let Some(problem) = typescript.problem() {
        for source in sources.iter().filter(|source| source.settings.is_enabled) {
            tracing::warn!(
                "{} cannot run, and calls return 503 BOOT_ERROR: {problem}",
                source.entry.display()
            );
        }
    }
    registry.log_differences(&sources);
    registry.set_typescript(&typescript, &sources);
    let Dependencies { keys, clock, secrets, facts, tracker, shutdown } = dependencies;
    if facts.is_development {
        let watch = Arc::clone(&typescript).watch(registry.clone());
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(watch));
    } else if typescript.problem().is_none() {
        let check = typescript::warn_of_problems(config.clone(), facts);
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(check));
    }
    tracker.spawn(shutdown.run_until_cancelled_owned(typescript.follow_secrets(secrets)));
    let functions = Functions { registry: registry.clone(), keys, clock, allows_html: config.allow_html };
    Service {
        name: "functions",
        prefix: "/functions/v1",
        router: Router::new().fallback(invoke::invoke).with_state(Arc::new(functions)),
        bodies: |_| BodyMode::Streamed,
        body_limit: saturating(config.max_body_bytes),
        // Time to the first byte of the response (functions.md 3.4).
        deadline: config.idle_timeout,
        compresses: false,
        cors: Cors {
            methods: invoke::METHODS,
            expose: "sb-error-code, sb-request-id, x-sb-edge-region, x-relay-error, content-disposition, retry-after",
            preflight_status: StatusCode::NO_CONTENT,
        },
        own_preflight: Some(Box::new(move |request: &Request| {
            registry.find(request.uri().path()).is_some_and(|function| function.answers_preflights)
        })),
        renderer: |_| Box::new(error::render),
    }
}
