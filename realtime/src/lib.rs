#![doc = include_str!("../README.md")]

use std::time::Duration;

use axum::Router;
use basalt_core::service::{BodyMode, Cors, Fault, Service};
use basalt_core::system_migrations::SystemMigration;
use http::StatusCode;

mod error;
pub mod partitions;

/// Schema `realtime` and its publications.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new("realtime", 1, "messages", include_str!("../migrations/0001_messages.sql")),
    SystemMigration::new("realtime", 2, "functions", include_str!("../migrations/0002_functions.sql")),
    SystemMigration::new("realtime", 3, "subscription", include_str!("../migrations/0003_subscription.sql")),
];

/// realtime.md 3.14: HTTP bodies.
const BODY_LIMIT: usize = 8_000_000;

/// The service at `/realtime/v1`.
#[must_use]
pub fn service() -> Service {
    Service {
        name: "realtime",
        prefix: "/realtime/v1",
        router: Router::new().fallback(|| async { error::render(Fault::NotFound) }),
        bodies: |_| BodyMode::Buffered,
        body_limit: BODY_LIMIT,
        // Of the HTTP routes; a socket lives as long as it is used.
        deadline: Duration::from_secs(15),
        compresses: true,
        cors: Cors {
            methods: "POST, OPTIONS",
            expose: "x-rate-rolling, x-rate-limit, x-rate-limit-remaining",
            preflight_status: StatusCode::NO_CONTENT,
        },
        own_preflight: None,
        renderer: |_| Box::new(error::render),
    }
}
