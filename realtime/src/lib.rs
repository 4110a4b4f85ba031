#![doc = include_str!("../README.md")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use axum::routing::{any, get, post};
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::service::{BodyMode, Cors, Fault, Service};
use basalt_pg::database::Database;
use basalt_pg::listen::Events;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::Sessions;
use basalt_pg::system_migrations::SystemMigration;
use http::StatusCode;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod authorization;
mod broadcast_http;
mod bus;
pub mod changes;
mod channels;
mod config;
mod error;
mod frames;
mod handshake;
mod hub;
mod join;
mod limits;
mod metered;
mod metrics;
mod nats;
pub mod partitions;
mod presence;
mod queue;
mod quota;
mod socket;
mod token;
mod topic_key;

pub use config::RealtimeConfig;

use authorization::Authorization;
use changes::Changes;
use hub::Hub;
use limits::Limits;
use metered::Receiving;
use nats::Nats;
use token::Tokens;

/// SQL migrations of schema `realtime` and its publications.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new("realtime", 1, "messages", include_str!("../migrations/0001_messages.sql")),
    SystemMigration::new("realtime", 2, "functions", include_str!("../migrations/0002_functions.sql")),
    SystemMigration::new("realtime", 3, "subscription", include_str!("../migrations/0003_subscription.sql")),
    SystemMigration::new(
        "realtime",
        4,
        "definition_watch",
        include_str!("../migrations/0004_definition_watch.sql"),
    ),
];

/// Maximum size of an HTTP request body (realtime.md 3.14).
const BODY_LIMIT: usize = 8_000_000;

/// Concurrent visibility checks for row changes. Fewer than the pool has, so that joins and broadcasts still
/// get connections.
const CHECKS: usize = 4;

/// Everything [`service`] needs from the gateway.
pub struct Dependencies {
    /// Sessions of the login that assumes callers' roles; policies are evaluated in them.
    pub sessions: Sessions,
    /// Connections of the system login, which may replicate.
    pub admin: Database,
    /// Pool of the system login.
    pub system: ServicePool,
    /// LISTEN notifications, including those on [`changes::CHANNEL`].
    pub events: Events,
    /// Verifies tokens and API keys.
    pub keys: Arc<Keys>,
    /// Current time, for the expiry of tokens.
    pub clock: Clock,
    /// Identifies the project. Servers of one project share it; it separates projects that use the same
    /// NATS.
    pub project: String,
    /// Tracks every task the service spawns.
    pub tracker: TaskTracker,
    /// Cancelled on shutdown; the service's tasks then end.
    pub shutdown: CancellationToken,
}

/// State shared by all sockets.
pub(crate) struct Realtime {
    pub(crate) config: RealtimeConfig,
    pub(crate) tokens: Tokens,
    pub(crate) authorization: Authorization,
    pub(crate) hub: Hub,
    pub(crate) changes: Changes,
    pub(crate) limits: Limits,
    pub(crate) receiving: Receiving,
    pub(crate) sockets: Sockets,
    pub(crate) tracker: TaskTracker,
}

/// Builds the service at `/realtime/v1` and starts its background tasks.
#[must_use]
pub fn service(config: RealtimeConfig, dependencies: Dependencies) -> Service {
    let Dependencies { sessions, admin, system, events, keys, clock, project, tracker, shutdown } =
        dependencies;
    metrics::register(config.max_concurrent_users);
    tracker.spawn(partitions::keep(admin.clone(), shutdown.clone()));
    let hub = hub(&config, project, &tracker, shutdown.clone());
    let changes = Changes::start(changes::Dependencies {
        admin,
        system,
        sessions: sessions.clone(),
        events,
        messages: Arc::new(hub.clone()),
        permissions: Arc::new(hub.clone()),
        queue_bytes: config.change_memory,
        checks: CHECKS,
        tracker: tracker.clone(),
        shutdown,
    });
    let realtime = Arc::new(Realtime {
        limits: Limits::new(&config),
        config,
        tokens: Tokens { keys, clock },
        authorization: Authorization::new(sessions),
        hub,
        changes,
        receiving: Receiving::default(),
        sockets: Sockets::default(),
        tracker,
    });
    let router = Router::new()
        .route("/websocket", any(handshake::handle))
        .route("/api/broadcast", post(broadcast_http::batch).fallback(not_found))
        .route("/api/broadcast/{topic}/events/{event}", post(broadcast_http::one).fallback(not_found))
        .route("/api/ping", get(ping).fallback(not_found))
        .fallback(not_found)
        .with_state(realtime);
    Service {
        name: "realtime",
        prefix: "/realtime/v1",
        router,
        bodies: |_| BodyMode::Buffered,
        body_limit: BODY_LIMIT,
        // Applies to the HTTP routes only; a socket has no deadline.
        deadline: Duration::from_secs(15),
        compresses: false,
        cors: Cors {
            methods: "POST, OPTIONS",
            expose: "x-rate-rolling, x-rate-limit, x-rate-limit-remaining",
            preflight_status: StatusCode::NO_CONTENT,
        },
        own_preflight: None,
        renderer: |_| Box::new(error::render),
    }
}

/// The hub, connected to NATS if `realtime.nats_url` is set.
fn hub(config: &RealtimeConfig, project: String, tracker: &TaskTracker, shutdown: CancellationToken) -> Hub {
    let Some(urls) = config.nats_url.clone() else { return Hub::new(Arc::new(bus::Alone), tracker.clone()) };
    let (nats, sent) = Nats::new();
    let hub = Hub::new(Arc::<Nats>::clone(&nats), tracker.clone());
    tracker.spawn(nats::run(nats, hub.clone(), sent, urls, project, shutdown));
    hub
}

async fn not_found() -> Response {
    error::render(Fault::NotFound)
}

async fn ping() -> Response {
    error::json_response(StatusCode::OK, &json!({ "message": "Success" }))
}

/// Number of open sockets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sockets(Arc<AtomicU32>);

impl Sockets {
    /// Counts a socket until the guard is dropped.
    pub(crate) fn enter(&self) -> SocketGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        SocketGuard(Arc::clone(&self.0))
    }
}

/// Keeps one socket counted.
#[derive(Debug)]
pub(crate) struct SocketGuard(Arc<AtomicU32>);

impl SocketGuard {
    /// Number of other open sockets.
    pub(crate) fn others(&self) -> u32 {
        self.0.load(Ordering::Relaxed).saturating_sub(1)
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
