//! Keeps the schema cache and the settings stored in the database up to date (rest.md §4.4, §4.5).
//!
//! The cache is loaded when the service starts, with retries until it succeeds, and reloaded on each notification or
//! signal. Those that arrive during a load or shortly after it share the next one ([`follow()`]). If a load fails,
//! the old cache stays in use.
//!
//! Notifications arrive with a delay, and on a database without our event triggers not at all. A request that names
//! an unknown object is therefore not rejected at once: it waits for a load in progress, and checks whether the
//! catalog has changed since the last one ([`load::fingerprint`]).

mod follow;
mod progress;
mod staleness;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use basalt_core::keys::Keys;
use basalt_pg::session::Sessions;
use parking_lot::Mutex as SyncMutex;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::config::{RestConfig, Stored};
use crate::metrics;
use crate::schema_cache::SchemaCache;
use crate::schema_cache::load::builder_thread::BuilderThread;
use crate::schema_cache::load::{self, LoadError, Loaded};
use crate::shape::Shapes;
pub(crate) use follow::follow;
use progress::Progress;
use staleness::Staleness;

/// Maximum time that a request waits for a load.
const MAX_LOAD_WAIT: Duration = Duration::from_secs(5);

/// Settings, the schemas they expose, and the keys that verify tokens, loaded together.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) config: RestConfig,
    pub(crate) cache: SchemaCache,
    pub(crate) keys: Arc<Keys>,
    /// Templates of requests planned against this cache under these settings.
    pub(crate) shapes: Shapes,
    /// Settings stored in the database that are in effect.
    accepted: HashMap<String, String>,
    warnings: Vec<String>,
    fingerprint: String,
    /// Whether rows arrived that the server cannot serialise as JSON.
    rows_failed: AtomicBool,
}

impl Snapshot {
    /// Whether flat reads may return rows for the server to serialise.
    pub(crate) fn delivers_rows(&self) -> bool {
        !self.rows_failed.load(Ordering::Relaxed)
    }

    /// Stops serialising rows in the server, after rows arrived that it cannot serialise: dates in another style, or
    /// a type that changed since the load. From now on plans have PostgreSQL build the JSON, so that no further
    /// request is run twice.
    pub(crate) fn disable_row_delivery(&self) {
        self.rows_failed.store(true, Ordering::Relaxed);
        self.shapes.clear();
    }
}

/// Configuration the server was started or reconfigured with.
pub(crate) struct Base {
    config: RestConfig,
    keys: Arc<Keys>,
}

/// State that a request works with: the loaded snapshot, or the configuration if there is none yet.
pub(crate) struct View {
    base: Arc<Base>,
    pub(crate) loaded: Option<Arc<Snapshot>>,
}

impl View {
    pub(crate) fn config(&self) -> &RestConfig {
        self.loaded.as_ref().map_or(&self.base.config, |loaded| &loaded.config)
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.loaded.as_ref().map_or(&self.base.keys, |loaded| &loaded.keys)
    }
}

/// Handle to the service's schema cache and settings, for other crates. Cheap to clone.
#[derive(Clone)]
pub struct RestHandle(Arc<Shared>);

struct Shared {
    base: ArcSwap<Base>,
    sessions: Sessions,
    current: ArcSwapOption<Snapshot>,
    builder: BuilderThread,
    tracker: TaskTracker,
    progress: Progress,
    /// Held during a load, so that loads do not overlap.
    load_lock: Mutex<()>,
    /// Notified when a request or a signal requires a load.
    reload_requested: Notify,
    /// Time of the next attempt after a failed load.
    next_attempt: SyncMutex<Option<Instant>>,
    staleness: Staleness,
}

impl Shared {
    /// Clears a pending reload request, because the load that starts now serves it.
    async fn clear_reload_request(&self) {
        tokio::select! {
            biased;
            () = self.reload_requested.notified() => {}
            () = std::future::ready(()) => {}
        }
    }

    fn set_next_attempt(&self, at: Option<Instant>) {
        *self.next_attempt.lock() = at;
    }
}

impl std::fmt::Debug for RestHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RestHandle(ready: {})", self.ready())
    }
}

impl RestHandle {
    pub(crate) fn new(
        config: RestConfig,
        keys: Arc<Keys>,
        sessions: Sessions,
        tracker: &TaskTracker,
    ) -> Self {
        Self(Arc::new(Shared {
            base: ArcSwap::from_pointee(Base { config, keys }),
            sessions,
            current: ArcSwapOption::empty(),
            builder: BuilderThread::new(tracker),
            tracker: tracker.clone(),
            progress: Progress::new(),
            load_lock: Mutex::new(()),
            reload_requested: Notify::new(),
            next_attempt: SyncMutex::new(None),
            staleness: Staleness::new(),
        }))
    }

    /// Whether a schema cache is loaded.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.0.current.load().is_some()
    }

    /// Reloads the schema cache and settings; when this returns, requests see the current schema.
    ///
    /// # Errors
    /// The load failed; the old cache stays in use.
    pub async fn reload(&self) -> Result<(), LoadError> {
        let _guard = self.0.load_lock.lock().await;
        self.load().await
    }

    /// Schedules a reload of schema cache and settings, as a notification does (SIGUSR1).
    pub fn request_reload(&self) {
        self.0.reload_requested.notify_one();
    }

    /// Replaces configuration and keys, and schedules a reload (SIGUSR2). Until it completes, the old ones stay in
    /// effect. Body limit, deadline and channel keep their initial values.
    pub fn reconfigure(&self, config: RestConfig, keys: Arc<Keys>) {
        self.0.base.store(Arc::new(Base { config, keys }));
        self.request_reload();
    }

    /// Settings in effect: those stored in the database applied over the configured ones.
    #[must_use]
    pub fn config(&self) -> RestConfig {
        let loaded = self.0.current.load();
        loaded.as_ref().map_or_else(|| self.0.base.load().config.clone(), |loaded| loaded.config.clone())
    }

    /// The schema cache as JSON for diagnostics, once it is loaded.
    #[must_use]
    pub fn schema_cache(&self) -> Option<serde_json::Value> {
        self.0.current.load().as_ref().map(|loaded| loaded.cache.describe())
    }

    /// CORS origins set in the database (`pgrst.server_cors_allowed_origins`), if any.
    #[must_use]
    pub fn cors_origins(&self) -> Option<Vec<String>> {
        self.0.current.load().as_ref().and_then(|snapshot| snapshot.config.cors_origins.clone())
    }

    /// State for a request; waits for the first load until it has succeeded or failed.
    pub(crate) async fn view(&self) -> View {
        if self.0.current.load().is_none() {
            self.0.progress.wait_for(1, Instant::now() + MAX_LOAD_WAIT).await;
        }
        View { base: self.0.base.load_full(), loaded: self.0.current.load_full() }
    }

    /// A snapshot newer than `seen`, if the schema has changed; for a request that names an unknown object.
    pub(crate) async fn newer(&self, seen: &Arc<Snapshot>, deadline: Instant) -> Option<Arc<Snapshot>> {
        let until = (Instant::now() + MAX_LOAD_WAIT).min(deadline);
        let progress = &self.0.progress;
        progress.wait_for(progress.started(), until).await;
        let begun = progress.started();
        if self.has_changed(until).await {
            // A notification or another request may have started a load meanwhile.
            if progress.started() == begun {
                self.request_reload();
            }
            progress.wait_for(begun + 1, until).await;
        }
        self.0.current.load_full().filter(|current| !Arc::ptr_eq(current, seen))
    }

    /// Whether the catalog has changed since the last load. If the check fails, it counts as unchanged.
    async fn has_changed(&self, until: Instant) -> bool {
        let check = async || load::fingerprint(&self.0.sessions).await.ok();
        let seen = tokio::time::timeout_at(until, self.0.staleness.check(check)).await.ok().flatten();
        let current = self.0.current.load();
        seen.is_some_and(|seen| current.as_ref().is_some_and(|current| current.fingerprint != seen))
    }

    /// Seconds until a failed load is retried, at least one.
    pub(crate) fn retry_after(&self) -> u64 {
        let next = *self.0.next_attempt.lock();
        let left = next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()));
        left.as_secs() + 1
    }

    /// Runs one load; the caller holds the lock.
    async fn load(&self) -> Result<(), LoadError> {
        self.0.progress.start();
        let loaded = self.load_snapshot().await;
        self.0.progress.end();
        loaded
    }

    async fn load_snapshot(&self) -> Result<(), LoadError> {
        let started = Instant::now();
        let base = self.0.base.load_full();
        let old = self.0.current.load_full();
        let before = old.as_ref().map(|old| old.accepted.clone()).unwrap_or_default();
        let result = load::load(&base.config, &before, &self.0.sessions, &self.0.builder).await;
        let label = if result.is_ok() { "ok" } else { "failed" };
        ::metrics::counter!(metrics::SCHEMA_LOADS, "result" => label).increment(1);
        let Loaded { stored, cache, fingerprint } = result?;
        let Stored { config, accepted, mut warnings } = stored;
        let keys = keys(&base, &config, old.as_deref(), &mut warnings);
        let reported = old.as_ref().map(|old| old.warnings.as_slice()).unwrap_or_default();
        for warning in warnings.iter().filter(|warning| !reported.contains(warning)) {
            tracing::warn!("{warning}");
        }
        let size = cache.size();
        ::metrics::histogram!(metrics::SCHEMA_LOAD_SECONDS).record(started.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a database has fewer than 2^52 relations")]
        ::metrics::gauge!(metrics::SCHEMA_RELATIONS).set(size.relations as f64);
        tracing::info!(
            relations = size.relations,
            relationships = size.relationships,
            routines = size.routines,
            duration_ms = started.elapsed().as_secs_f64() * 1000.0,
            "schema cache loaded"
        );
        let (shapes, rows_failed) = (Shapes::new(config.shape_cache), AtomicBool::new(false));
        let snapshot = Snapshot { config, cache, keys, shapes, accepted, warnings, fingerprint, rows_failed };
        self.0.current.store(Some(Arc::new(snapshot)));
        if let Some(old) = old {
            self.0.tracker.spawn(retire(old, self.0.tracker.clone()));
        }
        Ok(())
    }
}

/// Drops a replaced snapshot on the blocking pool once no request uses it. Freeing thousands of tables takes a while,
/// which should not delay the request that drops the last reference.
async fn retire(old: Arc<Snapshot>, tracker: TaskTracker) {
    const POLL_INTERVAL: Duration = Duration::from_millis(100);
    while Arc::strong_count(&old) > 1 {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    tracker.spawn_blocking(move || drop(old));
}

/// The configured keys, or those stored in the database. They are kept while the secret is unchanged, and so is their
/// cache of verified tokens.
fn keys(base: &Base, config: &RestConfig, old: Option<&Snapshot>, warnings: &mut Vec<String>) -> Arc<Keys> {
    let Some(secret) = config.jwt_secret.as_ref().filter(|secret| !secret.text.is_empty()) else {
        return Arc::clone(&base.keys);
    };
    if !base.keys.is_strict() {
        // Tokens issued by the other services would no longer be accepted here.
        let advice = "ignoring pgrst.jwt_secret in the database, which applies only with --only rest; set jwt.secret instead";
        warnings.push(advice.to_owned());
        return Arc::clone(&base.keys);
    }
    if let Some(old) = old.filter(|old| old.config.jwt_secret.as_ref() == Some(secret)) {
        return Arc::clone(&old.keys);
    }
    match secret.key_material().and_then(|material| Ok(Keys::new(material)?)) {
        Ok(keys) => Arc::new(keys),
        Err(problem) => {
            warnings.push(format!("pgrst.jwt_secret in the database: {problem}"));
            Arc::clone(&base.keys)
        }
    }
}
