#![doc = include_str!("../README.md")]
// Stripe's objects have many fields, and `json!` recurses once per token.
#![recursion_limit = "512"]

mod api;
mod billing;
mod cards;
mod control;
mod error;
mod json;
mod log;
mod pages;
mod params;
mod plan_prices;
mod prices;
mod server;
mod state;
mod state_file;
#[cfg(test)]
mod tests;
mod webhooks;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use basalt_core::clock::Clock;
use http::Request;
use parking_lot::{Mutex, MutexGuard};
use secrecy::SecretString;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

pub use plan_prices::PlanPrices;
pub use prices::{FixedPrices, Interval, Price, Prices};
pub use server::serve;

use state::State;
use webhooks::Outgoing;

/// Maximum body of a request to the API, a page or a control route.
const BODY_LIMIT: usize = 256 * 1024;

/// Configuration of the double.
pub struct Config {
    /// Address of the router, such as `http://localhost:12111`, used in links to the hosted pages.
    pub base_url: Url,
    /// The webhook endpoint, over plain HTTP; `None` sends no webhooks.
    pub endpoint: Option<Url>,
    /// The secret that signs webhooks (`whsec_…`), also configured at the receiver.
    pub webhook_secret: SecretString,
    /// The available prices.
    pub prices: Arc<dyn Prices>,
    /// The file that stores the state across restarts; `None` keeps it in memory only.
    pub state_file: Option<PathBuf>,
}

/// The Stripe double. Clones share the same state.
#[derive(Clone)]
pub struct Double(Arc<Shared>);

struct Shared {
    config: Config,
    clock: Clock,
    /// Held for short, synchronous work only; never across an `.await`.
    inner: Mutex<Inner>,
    /// Signals new deliveries.
    wake: Notify,
    /// Counts finished deliveries, for callers that wait for one.
    delivered: watch::Sender<u64>,
}

/// The state guarded by the mutex.
#[derive(Default)]
struct Inner {
    state: State,
    outgoing: Outgoing,
    idempotency: api::idempotency::Keys,
    faults: Vec<control::Fault>,
    requests: log::Log<control::RequestRecord>,
    /// Id and idempotency key of the current call, for its events.
    caller: Option<(String, Option<String>)>,
    /// Incremented by each change of `state`.
    version: u64,
}

impl Double {
    /// A double that reads its state file, if it has one.
    /// Creates a double; reads its state file, if it has one.
    pub fn new(config: Config) -> Self {
        let state = config.state_file.as_deref().map(state_file::read).unwrap_or_default();
        let inner = Inner { state, ..Inner::default() };
        Self(Arc::new(Shared {
            config,
            clock: Clock::system(),
            inner: Mutex::new(inner),
            wake: Notify::new(),
            delivered: watch::Sender::new(0),
        }))
    }

    /// The router of the API, the pages and the control routes, without the mount point.
    pub fn router(&self) -> Router {
        let double = self.clone();
        Router::new().fallback(move |request: Request<Body>| {
            let double = double.clone();
            async move { double.answer(request).await }
        })
    }

    /// Delivers webhooks, expires sessions, renews subscriptions as time passes, and writes the state file, until
    /// `shutdown`. Nothing is sent unless this runs.
    pub async fn run(self, shutdown: CancellationToken) {
        tokio::join!(
            webhooks::deliver(&self, &shutdown),
            billing::tick(&self, &shutdown),
            state_file::keep(&self, &shutdown)
        );
        state_file::write_now(&self).await;
    }

    async fn answer(&self, request: Request<Body>) -> Response {
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match segments.as_slice() {
            ["v1", rest @ ..] => api::answer(self, request, rest).await,
            ["_control", rest @ ..] => control::answer(self, request, rest).await,
            rest => pages::answer(self, request, rest).await,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock()
    }

    /// Runs `work` on the state at the double's time, then wakes the delivery task.
    fn with<T>(&self, work: impl FnOnce(&mut Inner, i64) -> T) -> T {
        let mut inner = self.lock();
        let now = self.now(&inner);
        let result = work(&mut inner, now);
        inner.version += 1;
        drop(inner);
        self.0.wake.notify_one();
        result
    }

    /// Unix seconds: the machine's clock plus the offset set by tests.
    fn now(&self, inner: &Inner) -> i64 {
        self.0.clock.unix_seconds().saturating_add(inner.state.clock_offset)
    }

    /// The mount point's address without a trailing slash.
    fn base(&self) -> &str {
        self.0.config.base_url.as_str().trim_end_matches('/')
    }

    /// The mount point's path without a trailing slash, the prefix of links in pages.
    fn base_path(&self) -> &str {
        self.0.config.base_url.path().trim_end_matches('/')
    }
}

/// The body, at most [`BODY_LIMIT`]; `None` if it is longer or incomplete.
async fn body(request: Request<Body>) -> Option<bytes::Bytes> {
    axum::body::to_bytes(request.into_body(), BODY_LIMIT).await.ok()
}

/// Generates an id such as `cus_…`, with letters and digits like Stripe's.
fn new_id(prefix: &str) -> String {
    let mut id = prefix.to_owned();
    let length = prefix.len() + 24;
    while id.len() < length {
        id.extend(basalt_core::random::token(32).chars().filter(char::is_ascii_alphanumeric));
    }
    id.truncate(length);
    id
}
