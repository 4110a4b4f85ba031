#![doc = include_str!("../README.md")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::service::{BodyMode, Cors, Handler, Service};
use basalt_pg::system_migrations::SystemMigration;
use http::StatusCode;

pub mod built_in;
mod config;
mod error;
mod gate;
mod invoke;
mod metrics;
mod registry;
pub mod secrets;

pub use config::{FunctionSettings, FunctionsConfig};
pub use error::render as render_fault;

use registry::Registry;

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

/// The limit for TypeScript functions (functions.md 3.4); built-in ones accept less.
const BODY_LIMIT: usize = 50 * 1024 * 1024;

/// State shared by all requests.
pub(crate) struct Functions {
    pub(crate) registry: Registry,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
}

/// A warning for each TypeScript function of the project, which this release cannot run.
#[must_use]
pub fn functions_that_cannot_run(config: &FunctionsConfig) -> Vec<String> {
    registry::unable_to_run(&config.dir, &config.each)
}

/// The service at `/functions/v1`, with the project's functions and the named `built_in` ones.
#[must_use]
pub fn service(
    config: &FunctionsConfig,
    built_in: Vec<(&'static str, Handler)>,
    keys: Arc<Keys>,
    clock: Clock,
) -> Service {
    let registry = Registry::new(built_in, &config.dir, &config.each);
    let functions = Arc::new(Functions { registry: registry.clone(), keys, clock });
    Service {
        name: "functions",
        prefix: "/functions/v1",
        router: Router::new().fallback(invoke::invoke).with_state(functions),
        bodies: |_| BodyMode::Streamed,
        body_limit: BODY_LIMIT,
        // Time to the first byte of the response (functions.md 3.4).
        deadline: Duration::from_secs(150),
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
