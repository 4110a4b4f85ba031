#![doc = include_str!("../README.md")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::service::{BodyMode, Cors, Renderer, Service};
use basalt_pg::listen::Event;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::Sessions;
use basalt_pg::system_migrations::SystemMigration;
use http::StatusCode;
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub mod blobs;
mod buckets;
mod caller;
mod cdn;
mod config;
mod database;
mod error;
mod health;
mod images;
mod json_body;
mod lower_hex;
mod names;
mod objects;
mod operation;
pub mod s3;
mod tus;
mod url_token;

pub use config::{Backend, ImagesConfig, S3Config, S3ProtocolConfig, StorageConfig};

use blobs::intents::Intents;
use blobs::{BlobStore, garbage, sweeper};
use caller::Callers;
use database::Database;
use error::StorageError;
use images::Images;

/// SQL migrations of schema `storage`: tables, functions, triggers, grants.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new("storage", 1, "tables", include_str!("../migrations/0001_tables.sql")),
    SystemMigration::new("storage", 2, "functions", include_str!("../migrations/0002_functions.sql")),
    SystemMigration::new("storage", 3, "triggers", include_str!("../migrations/0003_triggers.sql")),
    SystemMigration::new("storage", 4, "blobs", include_str!("../migrations/0004_blobs.sql")),
    SystemMigration::new("storage", 5, "listing", include_str!("../migrations/0005_listing.sql")),
    SystemMigration::new("storage", 6, "tus", include_str!("../migrations/0006_tus.sql")),
    SystemMigration::new(
        "storage",
        7,
        "unfinished_uploads",
        include_str!("../migrations/0007_unfinished_uploads.sql"),
    ),
];

/// A statement may take 30 s (storage.md §4.7), and a request may need several.
const DEADLINE: Duration = Duration::from_secs(120);

/// Everything [`service`] needs from the gateway.
pub struct Dependencies {
    /// Sessions of the login that assumes callers' roles.
    pub sessions: Sessions,
    /// Pool that acts as the owner of schema `storage`, for background work.
    pub system: ServicePool,
    /// Store for the bytes of objects.
    pub blobs: BlobStore,
    /// LISTEN notifications that wake workers.
    pub events: Receiver<Event>,
    /// Verifies and signs tokens.
    pub keys: Arc<Keys>,
    /// Current time.
    pub clock: Clock,
    /// `server.public_url` without a trailing slash.
    pub public_url: String,
    /// Whether `public_url` is only reachable from this machine.
    pub is_public_url_local: bool,
    /// Tracks every task the service spawns.
    pub tracker: TaskTracker,
    /// Cancelled on shutdown.
    pub shutdown: CancellationToken,
}

/// State shared by all requests.
pub(crate) struct Storage {
    pub(crate) config: StorageConfig,
    pub(crate) database: Database,
    pub(crate) callers: Callers,
    pub(crate) blobs: BlobStore,
    pub(crate) intents: Intents,
    /// Locks of resumable uploads.
    pub(crate) uploads: tus::Locks,
    pub(crate) images: Arc<Images>,
    pub(crate) public_url: String,
    /// Whether `public_url` is only reachable from this machine.
    pub(crate) is_public_url_local: bool,
    pub(crate) tracker: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

/// Builds the service at `/storage/v1` and starts its background tasks.
#[must_use]
pub fn service(config: StorageConfig, dependencies: Dependencies) -> Service {
    let Dependencies {
        sessions,
        system,
        blobs,
        events,
        keys,
        clock,
        public_url,
        is_public_url_local,
        tracker,
        shutdown,
    } = dependencies;
    let intents = Intents::new(system.clone());
    tracker.spawn(intents.clone().run(shutdown.clone()));
    let images = Arc::new(Images::new(&config, tracker.clone()));
    let collector = garbage::worker(system.clone(), blobs.clone(), Arc::clone(&images), tracker.clone());
    tracker.spawn(collector.run(events, shutdown.clone()));
    tracker.spawn(sweeper::run(system.clone(), blobs.clone(), clock.clone(), shutdown.clone()));
    let storage = Arc::new(Storage {
        config,
        database: Database::new(sessions),
        callers: Callers { keys, clock },
        blobs,
        intents,
        uploads: tus::Locks::default(),
        images,
        public_url,
        is_public_url_local,
        tracker,
        shutdown,
    });
    Service {
        name: "storage",
        prefix: "/storage/v1",
        // Keys may contain empty segments and encoded slashes, and route keywords may be bucket names
        // (storage.md §2, §5.1), so each area parses its paths itself.
        router: Router::new().fallback(handle).with_state(storage),
        bodies: body_mode,
        body_limit: json_body::MAX_BYTES,
        deadline: DEADLINE,
        compresses: false,
        cors: Cors {
            methods: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
            expose: "etag, content-range, content-length, content-disposition, accept-ranges, last-modified, \
                     location, upload-offset, upload-length, upload-expires, tus-resumable, tus-version, \
                     tus-extension, tus-max-size",
            preflight_status: StatusCode::NO_CONTENT,
        },
        own_preflight: None,
        renderer,
    }
}

/// First segment of the path.
fn area(request: &Request) -> &str {
    request.uri().path().split('/').nth(1).unwrap_or_default()
}

/// Bodies that become objects are streamed.
fn body_mode(request: &Request) -> BodyMode {
    match area(request) {
        "object" => objects::body_mode(request),
        "s3" => s3::body_mode(request),
        "upload" => BodyMode::Streamed,
        _ => BodyMode::Buffered,
    }
}

fn renderer(request: &Request) -> Renderer {
    match area(request) {
        "s3" => Box::new(s3::render),
        _ => Box::new(|fault| error::from_fault(fault).into_response()),
    }
}

async fn handle(State(storage): State<Arc<Storage>>, request: Request) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let answer = match area(&request) {
        "object" => objects::handle(&storage, request).await,
        "bucket" => buckets::handle(&storage, request).await,
        "s3" => Ok(s3::handle(&storage, request).await),
        "upload" => tus::handle(&storage, request).await,
        "cdn" => cdn::handle(&storage, request).await,
        "render" => images::render(&storage, request).await,
        "health" | "status" | "version" => health::handle(&storage, request).await,
        _ => Err(StorageError::unknown_route(&method, &uri)),
    };
    drop(storage);
    answer.unwrap_or_else(IntoResponse::into_response)
}
