#![doc = include_str!("../README.md")]

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use basalt_core::service::{BodyMode, Cors, Service};
use basalt_core::system_migrations::SystemMigration;
use http::StatusCode;

mod config;
mod error;

pub use config::{Backend, S3Config, StorageConfig};

/// Schema `storage`: tables, functions, triggers, grants.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new("storage", 1, "tables", include_str!("../migrations/0001_tables.sql")),
    SystemMigration::new("storage", 2, "functions", include_str!("../migrations/0002_functions.sql")),
    SystemMigration::new("storage", 3, "triggers", include_str!("../migrations/0003_triggers.sql")),
];

/// Form fields and boundaries that a multipart upload carries besides the object.
const MULTIPART_ALLOWANCE: u64 = 64 * 1024;

/// The service at `/storage/v1`.
#[must_use]
pub fn service(config: &StorageConfig) -> Service {
    Service {
        name: "storage",
        prefix: "/storage/v1",
        router: Router::new().fallback(unknown_route),
        bodies: |_| BodyMode::Buffered,
        body_limit: usize::try_from(config.max_file_size.saturating_add(MULTIPART_ALLOWANCE))
            .unwrap_or(usize::MAX),
        // storage.md 4.7 gives statements 30 s; the rest is the client's upload.
        deadline: Duration::from_secs(120),
        compresses: false,
        cors: Cors {
            methods: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
            expose: "etag, content-range, content-length, content-disposition, accept-ranges, last-modified, \
                     location, upload-offset, upload-length, upload-expires, tus-resumable, tus-version, \
                     tus-extension, tus-max-size",
            preflight_status: StatusCode::NO_CONTENT,
        },
        own_preflight: None,
        renderer: |_| Box::new(error::render),
    }
}

async fn unknown_route(request: Request) -> Response {
    error::unknown_route(request.method(), request.uri())
}
