#![doc = include_str!("../README.md")]

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use basalt_core::service::{BodyMode, Cors, Fault, Service};
use basalt_core::system_migrations::SystemMigration;
use http::{Method, StatusCode};

mod config;
mod error;

pub use config::{FunctionsConfig, StripeConfig};

/// Schema `functions`. The app's tables that its functions use are the project's, not ours.
pub const MIGRATIONS: &[SystemMigration] = &[SystemMigration::new(
    "functions",
    1,
    "runtime_secrets",
    include_str!("../migrations/0001_runtime_secrets.sql"),
)];

/// functions.md 3.4, for TypeScript functions; built-in ones read less.
const BODY_LIMIT: usize = 50 * 1024 * 1024;

/// The service at `/functions/v1`.
#[must_use]
pub fn service() -> Service {
    Service {
        name: "functions",
        prefix: "/functions/v1",
        router: Router::new().fallback(invoke),
        bodies: |_| BodyMode::Buffered,
        body_limit: BODY_LIMIT,
        // functions.md 3.4: to the first byte of the answer.
        deadline: Duration::from_secs(150),
        compresses: false,
        cors: Cors {
            methods: "GET, POST, PUT, PATCH, DELETE, OPTIONS",
            expose: "sb-error-code, sb-request-id, x-sb-edge-region, x-relay-error, content-disposition, retry-after",
            preflight_status: StatusCode::NO_CONTENT,
        },
        own_preflight: None,
        renderer: |_| Box::new(error::render),
    }
}

async fn invoke(request: Request) -> Response {
    let fault = match *request.method() {
        Method::GET
        | Method::HEAD
        | Method::POST
        | Method::PUT
        | Method::PATCH
        | Method::DELETE
        | Method::OPTIONS => Fault::NotFound,
        _ => Fault::MethodNotAllowed,
    };
    error::render(fault)
}
