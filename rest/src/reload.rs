//! Keeping the schema cache and the settings of the database current (rest.md §4.4, §4.5).
//!
//! One load when the service starts, retried until it succeeds; then one per notification or signal, where those that
//! arrive during a load or shortly after it share the next one ([`follow()`]). A load that fails leaves the old cache in
//! use.
//!
//! Notifications come a moment late, and on a database without our event triggers not at all. So a request that names
//! something unknown is not refused at once: it waits for a load that is under way, and asks the catalog whether
//! anything has changed since the last one ([`load::fingerprint`]).

mod follow;
mod progress;
mod staleness;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use basalt_core::keys::Keys;
use basalt_pg::session::Sessions;
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

/// How long a request waits for a load.
const PATIENCE: Duration = Duration::from_secs(5);

/// What belongs together: settings, the schemas they expose, the keys they verify with.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) config: RestConfig,
    pub(crate) cache: SchemaCache,
    pub(crate) keys: Arc<Keys>,
    /// Of requests that were planned against this cache, under these settings.
    pub(crate) shapes: Shapes,
    /// Settings of the database that are in use.
    accepted: HashMap<String, String>,
    complaints: Vec<String>,
    fingerprint: String,
    /// Rows came that this server cannot write as JSON.
    rows_failed: AtomicBool,
}

impl Snapshot {
    /// Whether flat reads may be rows that we write as JSON ourselves.
    pub(crate) fn delivers_rows(&self) -> bool {
        !self.rows_failed.load(Ordering::Relaxed)
    }

    /// Rows came that this server cannot write: dates in another style, a type that changed since the load. From now on
    /// plans leave the writing to PostgreSQL, so that nothing is read twice again.
    pub(crate) fn deliver_no_more_rows(&self) {
        self.rows_failed.store(true, Ordering::Relaxed);
        self.shapes.clear();
    }
}

/// What the server was configured with.
pub(crate) struct Base {
    config: RestConfig,
    keys: Arc<Keys>,
}

/// What a request works with: what is loaded, else what was configured.
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

/// The service's schema cache and settings, for those outside it. Cheap to clone.
#[derive(Clone)]
pub struct RestHandle(Arc<Shared>);

struct Shared {
    base: ArcSwap<Base>,
    sessions: Sessions,
    current: ArcSwapOption<Snapshot>,
    builder: BuilderThread,
    tracker: TaskTracker,
    progress: Progress,
    /// One load at a time; held across it.
    turn: Mutex<()>,
    /// A request or a signal asked for a load.
    asked: Notify,
    /// When a failed load is repeated. Held to read or write.
    next_attempt: SyncMutex<Option<Instant>>,
    staleness: Staleness,
}

impl Shared {
    /// The load that begins now is the one that was asked for.
    async fn forget_asked(&self) {
        tokio::select! {
            biased;
            () = self.asked.notified() => {}
            () = std::future::ready(()) => {}
        }
    }

    fn set_next_attempt(&self, at: Option<Instant>) {
        *self.next_attempt.lock().unwrap_or_else(PoisonError::into_inner) = at;
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
            turn: Mutex::new(()),
            asked: Notify::new(),
            next_attempt: SyncMutex::new(None),
            staleness: Staleness::new(),
        }))
    }

    /// Whether a schema cache is loaded.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.0.current.load().is_some()
    }

    /// Loads schema cache and settings now; when this returns, requests see the schema as it is.
    ///
    /// # Errors
    /// The load failed; the old cache stays in use.
    pub async fn reload(&self) -> Result<(), LoadError> {
        let _turn = self.0.turn.lock().await;
        self.load().await
    }

    /// Has schema cache and settings loaded soon, as a notification does: for a signal (SIGUSR1).
    pub fn ask_reload(&self) {
        self.0.asked.notify_one();
    }

    /// Takes another configuration and other keys, and has everything loaded under them soon: for a signal (SIGUSR2).
    /// Until that has happened the old ones count. Body limit, deadline and channel stay as they were at the start.
    pub fn reconfigure(&self, config: RestConfig, keys: Arc<Keys>) {
        self.0.base.store(Arc::new(Base { config, keys }));
        self.ask_reload();
    }

    /// The settings in force: those of the database over the configured ones.
    #[must_use]
    pub fn config(&self) -> RestConfig {
        let loaded = self.0.current.load();
        loaded.as_ref().map_or_else(|| self.0.base.load().config.clone(), |loaded| loaded.config.clone())
    }

    /// The schema cache as JSON for people, once there is one.
    #[must_use]
    pub fn schema_cache(&self) -> Option<serde_json::Value> {
        self.0.current.load().as_ref().map(|loaded| loaded.cache.describe())
    }

    /// The origins that the database allows pages of to call us, where it says so
    /// (`pgrst.server_cors_allowed_origins`).
    #[must_use]
    pub fn cors_origins(&self) -> Option<Vec<String>> {
        self.0.current.load().as_ref().and_then(|snapshot| snapshot.config.cors_origins.clone())
    }

    /// What a request works with; waits for the first load until that has succeeded or failed.
    pub(crate) async fn view(&self) -> View {
        if self.0.current.load().is_none() {
            self.0.progress.over(1, Instant::now() + PATIENCE).await;
        }
        View { base: self.0.base.load_full(), loaded: self.0.current.load_full() }
    }

    /// Something newer than `seen`, should the schema have changed since; for a request that names what is unknown.
    pub(crate) async fn newer(&self, seen: &Arc<Snapshot>, deadline: Instant) -> Option<Arc<Snapshot>> {
        let until = (Instant::now() + PATIENCE).min(deadline);
        let progress = &self.0.progress;
        progress.over(progress.begun(), until).await;
        let begun = progress.begun();
        if self.has_changed(until).await {
            // A notification or another request may have started one meanwhile.
            if progress.begun() == begun {
                self.ask_reload();
            }
            progress.over(begun + 1, until).await;
        }
        self.0.current.load_full().filter(|current| !Arc::ptr_eq(current, seen))
    }

    /// Whether the catalog is another than that of the last load. Without an answer, what is known counts.
    async fn has_changed(&self, until: Instant) -> bool {
        let check = async || load::fingerprint(&self.0.sessions).await.ok();
        let seen = tokio::time::timeout_at(until, self.0.staleness.ask(check)).await.ok().flatten();
        let current = self.0.current.load();
        seen.is_some_and(|seen| current.as_ref().is_some_and(|current| current.fingerprint != seen))
    }

    /// Seconds until a failed load is repeated, at least one.
    pub(crate) fn retry_after(&self) -> u64 {
        let next = *self.0.next_attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let left = next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()));
        left.as_secs() + 1
    }

    /// One load; the caller has the turn.
    async fn load(&self) -> Result<(), LoadError> {
        self.0.progress.begin();
        let loaded = self.load_now().await;
        self.0.progress.end();
        loaded
    }

    async fn load_now(&self) -> Result<(), LoadError> {
        let started = Instant::now();
        let base = self.0.base.load_full();
        let old = self.0.current.load_full();
        let before = old.as_ref().map(|old| old.accepted.clone()).unwrap_or_default();
        let result = load::load(&base.config, &before, &self.0.sessions, &self.0.builder).await;
        let label = if result.is_ok() { "ok" } else { "failed" };
        ::metrics::counter!(metrics::SCHEMA_LOADS, "result" => label).increment(1);
        let Loaded { stored, cache, fingerprint } = result?;
        let Stored { config, accepted, mut complaints } = stored;
        let keys = keys(&base, &config, old.as_deref(), &mut complaints);
        let known = old.as_ref().map(|old| old.complaints.as_slice()).unwrap_or_default();
        for complaint in complaints.iter().filter(|complaint| !known.contains(complaint)) {
            tracing::warn!("{complaint}");
        }
        let size = cache.size();
        ::metrics::histogram!(metrics::SCHEMA_LOAD_SECONDS).record(started.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "no database has 2^52 relations")]
        ::metrics::gauge!(metrics::SCHEMA_RELATIONS).set(size.relations as f64);
        tracing::info!(
            relations = size.relations,
            relationships = size.relationships,
            routines = size.routines,
            duration_ms = started.elapsed().as_secs_f64() * 1000.0,
            "schema cache loaded"
        );
        let (shapes, rows_failed) = (Shapes::new(config.shape_cache), AtomicBool::new(false));
        let snapshot =
            Snapshot { config, cache, keys, shapes, accepted, complaints, fingerprint, rows_failed };
        self.0.current.store(Some(Arc::new(snapshot)));
        if let Some(old) = old {
            self.0.tracker.spawn(retire(old, self.0.tracker.clone()));
        }
        Ok(())
    }
}

/// Drops a snapshot that is no longer current once no request uses it, and on the blocking pool: to take thousands of
/// tables apart takes a while, which the request that drops the last reference should not spend.
async fn retire(old: Arc<Snapshot>, tracker: TaskTracker) {
    const LOOK: Duration = Duration::from_millis(100);
    while Arc::strong_count(&old) > 1 {
        tokio::time::sleep(LOOK).await;
    }
    tracker.spawn_blocking(move || drop(old));
}

/// The configured keys, or those of the database. They are kept while the secret is the same, and with them the tokens
/// they have verified.
fn keys(base: &Base, config: &RestConfig, old: Option<&Snapshot>, complaints: &mut Vec<String>) -> Arc<Keys> {
    let Some(secret) = config.jwt_secret.as_ref().filter(|secret| !secret.text.is_empty()) else {
        return Arc::clone(&base.keys);
    };
    if !base.keys.is_strict() {
        // The other services' tokens would no longer be accepted here.
        let advice = "pgrst.jwt_secret in the database counts only with --only rest: set jwt.secret instead";
        complaints.push(advice.to_owned());
        return Arc::clone(&base.keys);
    }
    if let Some(old) = old.filter(|old| old.config.jwt_secret.as_ref() == Some(secret)) {
        return Arc::clone(&old.keys);
    }
    match secret.key_material().and_then(|material| Ok(Keys::new(material)?)) {
        Ok(keys) => Arc::new(keys),
        Err(problem) => {
            complaints.push(format!("pgrst.jwt_secret in the database: {problem}"));
            Arc::clone(&base.keys)
        }
    }
}
