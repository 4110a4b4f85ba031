#![doc = include_str!("../README.md")]

pub mod auth;
mod client_cpu;
pub mod config;
pub mod error;
mod execute;
mod handler;
pub mod metrics;
pub mod openapi;
pub mod parse;
pub mod plan;
mod prepare;
mod reload;
pub mod request;
mod response;
mod rights;
pub mod rows;
pub mod schema_cache;
pub mod shape;
pub mod statement;
pub mod suggest;

use std::sync::Arc;
use std::thread::available_parallelism;

use axum::Router;
use axum::extract::State as Extract;
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::service::{BodyMode, Cors, Handler, Service};
use basalt_pg::listen::Event;
use basalt_pg::session::Sessions;
use http::StatusCode;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use config::RestConfig;
pub use reload::RestHandle;

/// Builds the service and starts loading its schema cache.
///
/// The returned handler is equivalent to the service's router. The gateway calls it directly: a router with a single
/// route costs two clones of boxed services and a boxed future per request.
///
/// `events` carries notifications on `rest.channel`; the task that receives them stops with `shutdown`. All tasks of
/// the service run on `tracker`. Requests that arrive before the first load wait for it.
pub fn service(
    config: RestConfig,
    sessions: Sessions,
    keys: Arc<Keys>,
    events: broadcast::Receiver<Event>,
    clock: Clock,
    tracker: &TaskTracker,
    shutdown: CancellationToken,
) -> (Service, RestHandle, Handler) {
    let (body_limit, deadline) = (config.max_body_bytes, config.timeout);
    let handle = RestHandle::new(config, keys, sessions.clone(), tracker);
    tracker.spawn(reload::follow(handle.clone(), events, shutdown));
    let state = Arc::new(handler::State {
        handle: handle.clone(),
        sessions,
        clock,
        cpu: client_cpu::pool("rest-cpu", available_parallelism().map_or(1, usize::from), tracker),
        documents: client_cpu::pool("rest-openapi", 1, tracker),
    });
    let handler: Handler = {
        let state = Arc::clone(&state);
        Arc::new(move |request| Box::pin(handler::handle(Extract(Arc::clone(&state)), request)))
    };
    let router = Router::new().fallback(handler::handle).with_state(state);
    let service = Service {
        name: "rest",
        prefix: "/rest/v1",
        router,
        bodies: |_| BodyMode::Buffered,
        body_limit,
        deadline,
        compresses: true,
        cors: Cors {
            methods: "GET, POST, PATCH, PUT, DELETE, OPTIONS, HEAD",
            expose: "Content-Encoding, Content-Location, Content-Range, Content-Type, Date, Location, Server, \
                     Transfer-Encoding, Range-Unit, Retry-After, Preference-Applied, Proxy-Status, \
                     Basalt-Truncated",
            preflight_status: StatusCode::OK,
        },
        own_preflight: None,
        renderer: |_| Box::new(error::fault),
    };
    (service, handle, handler)
}
