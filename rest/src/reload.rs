//! Keeping the schema cache and the settings of the database current (rest.md §4.4, §4.5).
//!
//! One load when the service starts, retried until it succeeds; then one per notification or signal, where those that
//! arrive during a load or shortly after it share the next one. A load that fails leaves the old cache in use.
//!
//! The surprise: a request that names something unknown is not refused at once. While a load is due it waits for that;
//! otherwise it asks the catalog whether anything has changed since the last one ([`load::fingerprint`]), because
//! notifications come a moment late, and on a database without our event triggers not at all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use basalt_core::keys::Keys;
use basalt_core::listen::Event;
use basalt_core::session::Sessions;
use tokio::sync::{Mutex, Notify, broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::{RestConfig, Stored};
use crate::metrics;
use crate::schema_cache::SchemaCache;
use crate::schema_cache::load::aside::Aside;
use crate::schema_cache::load::{self, LoadError, Loaded};
use crate::shape::Shapes;

/// Loads start at least this far apart.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long the first load waits for the listener.
const LISTENER_PATIENCE: Duration = Duration::from_millis(500);
/// How long a request waits for a load.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);
/// Looks at the catalog that requests for unknown names may cause: so many at once, and so many a second.
const LOOKS: f64 = 10.0;

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
    /// Builds schema caches.
    aside: Aside,
    loading: watch::Sender<Loading>,
    /// One load at a time; held across it.
    turn: Mutex<()>,
    /// Somebody asked for a load.
    asked: Notify,
    /// When a failed load is repeated. Held to read or write.
    next_attempt: SyncMutex<Option<Instant>>,
    /// Looks that are left, and when that was. Held to count.
    looks: SyncMutex<(f64, Instant)>,
}

/// What those wait for who want to know of a change. Under one change after the other there is always a load due.
#[derive(Clone, Copy, Debug)]
struct Loading {
    /// Loads under way or due.
    due: usize,
    /// Loads that have begun, one after the other.
    begun: u64,
    /// The last of them that has brought a cache.
    over: u64,
}

impl std::fmt::Debug for RestHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RestHandle(ready: {})", self.ready())
    }
}

impl RestHandle {
    pub(crate) fn new(config: RestConfig, keys: Arc<Keys>, sessions: Sessions) -> Self {
        Self(Arc::new(Shared {
            base: ArcSwap::from_pointee(Base { config, keys }),
            sessions,
            current: ArcSwapOption::empty(),
            aside: Aside::default(),
            // The first load is due from the start.
            loading: watch::Sender::new(Loading { due: 1, begun: 0, over: 0 }),
            turn: Mutex::new(()),
            asked: Notify::new(),
            next_attempt: SyncMutex::new(None),
            looks: SyncMutex::new((LOOKS, Instant::now())),
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
        let _due = Due::new(self);
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

    /// What a request works with; waits for the first load if that is under way.
    pub(crate) async fn view(&self) -> View {
        if self.0.current.load().is_none() && self.is_loading() {
            let _in_time = self.settled(Instant::now() + PATIENCE).await;
        }
        View { base: self.0.base.load_full(), loaded: self.0.current.load_full() }
    }

    /// Something newer than `seen`, should the schema have changed since; for a request that names what is unknown.
    pub(crate) async fn newer(&self, seen: &Arc<Snapshot>, deadline: Instant) -> Option<Arc<Snapshot>> {
        let until = (Instant::now() + PATIENCE).min(deadline);
        let is_loaded = self.is_loading() && self.settled(until).await;
        let known = self.0.current.load_full()?;
        let newer = |known: Arc<Snapshot>| (!Arc::ptr_eq(&known, seen)).then_some(known);
        if is_loaded || !self.may_look() {
            return newer(known);
        }
        let fingerprint = match load::fingerprint(&self.0.sessions).await {
            Ok(fingerprint) if fingerprint != known.fingerprint => fingerprint,
            // Whoever cannot look answers by what is known.
            Ok(_) | Err(_) => return newer(known),
        };
        let _due = Due::new(self);
        let reloaded = async {
            let _turn = self.0.turn.lock().await;
            let current = self.0.current.load_full();
            // Somebody else may have loaded meanwhile.
            if current.is_none_or(|current| current.fingerprint != fingerprint)
                && let Err(error) = self.load().await
            {
                tracing::warn!(%error, "the schema cache could not be loaded for a request");
            }
        };
        // Longer than that nobody waits; the notification, if one comes, brings the load about again.
        let _elapsed = tokio::time::timeout_at(until, reloaded).await;
        newer(self.0.current.load_full()?)
    }

    /// Seconds until a failed load is repeated, at least one.
    pub(crate) fn retry_after(&self) -> u64 {
        let next = *self.0.next_attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let left = next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()));
        left.as_secs() + 1
    }

    fn is_loading(&self) -> bool {
        self.0.loading.borrow().due > 0
    }

    /// Waits until no load is under way or due, or one is over that began after this, at most until `until`. Whether
    /// there was such a load: nobody need look for changes then.
    async fn settled(&self, until: Instant) -> bool {
        let mut loading = self.0.loading.subscribe();
        let begun = loading.borrow().begun;
        let is_over = |loading: &Loading| loading.due == 0 || loading.over > begun;
        // The sender lives in this handle, so the only other way out is the timeout: then we go on with what is there.
        let settled = tokio::time::timeout_at(until, loading.wait_for(is_over)).await;
        matches!(settled, Ok(Ok(loading)) if loading.over > begun)
    }

    /// Misspelled names must not keep the catalog busy.
    fn may_look(&self) -> bool {
        let mut looks = self.0.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, at) = *looks;
        let now = Instant::now();
        let left = (left + LOOKS * now.duration_since(at).as_secs_f64()).min(LOOKS);
        let may = left >= 1.0;
        *looks = (if may { left - 1.0 } else { left }, now);
        may
    }

    /// One load; whoever calls has the turn.
    async fn load(&self) -> Result<(), LoadError> {
        self.0.loading.send_modify(|loading| loading.begun += 1);
        let loaded = self.load_now().await;
        if loaded.is_ok() {
            self.0.loading.send_modify(|loading| loading.over = loading.begun);
        }
        loaded
    }

    async fn load_now(&self) -> Result<(), LoadError> {
        let started = Instant::now();
        let base = self.0.base.load_full();
        let old = self.0.current.load_full();
        let before = old.as_ref().map(|old| old.accepted.clone()).unwrap_or_default();
        let result = load::load(&base.config, &before, &self.0.sessions, &self.0.aside).await;
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
        let shapes = Shapes::new(config.shape_cache_bytes);
        let snapshot = Snapshot { config, cache, keys, shapes, accepted, complaints, fingerprint };
        self.0.current.store(Some(Arc::new(snapshot)));
        if let Some(old) = old {
            tokio::spawn(retire(old));
        }
        Ok(())
    }
}

/// Drops what is no longer current once no request uses it, where that holds nobody up: to take thousands of tables apart
/// takes a while, and whoever drops the last reference does it.
async fn retire(old: Arc<Snapshot>) {
    const LOOK: Duration = Duration::from_millis(100);
    while Arc::strong_count(&old) > 1 {
        tokio::time::sleep(LOOK).await;
    }
    // The task that waits for it is nobody's.
    let _dropped = tokio::task::spawn_blocking(move || drop(old)).await;
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

/// A load that is due; over when dropped, even if the load was given up.
struct Due<'a>(&'a RestHandle);

impl<'a> Due<'a> {
    fn new(handle: &'a RestHandle) -> Self {
        handle.0.loading.send_modify(|loading| loading.due += 1);
        Self(handle)
    }

    /// The load that is due from the start.
    const fn first(handle: &'a RestHandle) -> Self {
        Self(handle)
    }
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        self.0.0.loading.send_modify(|loading| loading.due = loading.due.saturating_sub(1));
    }
}

/// Loads, then follows `events` until `shutdown`.
pub(crate) async fn follow(
    handle: RestHandle,
    events: broadcast::Receiver<Event>,
    shutdown: CancellationToken,
) {
    shutdown.run_until_cancelled(Box::pin(follow_for_ever(&handle, events))).await;
}

#[expect(clippy::infinite_loop, reason = "the caller ends it by its shutdown token")]
async fn follow_for_ever(handle: &RestHandle, mut events: broadcast::Receiver<Event>) {
    let mut due = Some(Due::first(handle));
    // The listener's first word is that it listens. A load that starts after that misses nothing; one that starts
    // before would have to be repeated.
    let _unheard = tokio::time::timeout(LISTENER_PATIENCE, events.recv()).await;
    let mut pause = FIRST_PAUSE;
    let mut open = true;
    loop {
        // Everything that is waiting is answered by the load that starts now.
        while events.try_recv().is_ok() {}
        let started = Instant::now();
        let loaded = {
            let _turn = handle.0.turn.lock().await;
            handle.load().await
        };
        due.take();
        let retry_in = match loaded {
            Ok(()) => {
                pause = FIRST_PAUSE;
                None
            }
            Err(error) => {
                let kept = if handle.ready() { "; the old schema cache stays in use" } else { "" };
                tracing::warn!(%error, "the schema cache could not be loaded{kept}; trying again in {pause:?}");
                let retry_in = pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
                Some(retry_in)
            }
        };
        let next_attempt = retry_in.map(|pause| Instant::now() + pause);
        *handle.0.next_attempt.lock().unwrap_or_else(PoisonError::into_inner) = next_attempt;
        wait_for_reason(handle, &mut events, next_attempt, &mut open).await;
        due = Some(Due::new(handle));
        tokio::time::sleep_until(started + DEBOUNCE).await;
    }
}

/// Returns when a load is wanted: by a notification or a signal, after a lost connection, or because the last one
/// failed.
async fn wait_for_reason(
    handle: &RestHandle,
    events: &mut broadcast::Receiver<Event>,
    next_attempt: Option<Instant>,
    open: &mut bool,
) {
    let retry = async {
        match next_attempt {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(retry);
    loop {
        tokio::select! {
            event = events.recv(), if *open => match event {
                Ok(event) if wants_reload(&event, &handle.0.base.load().config.channel) => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // Nobody listens any more: only calls of `reload` and retries are left.
                Err(broadcast::error::RecvError::Closed) => *open = false,
            },
            () = handle.0.asked.notified() => return,
            () = &mut retry => return,
        }
    }
}

fn wants_reload(event: &Event, ours: &str) -> bool {
    match event {
        Event::Reconnected => true,
        Event::Notify { channel, payload } => {
            channel == ours && matches!(payload.as_str(), "" | "reload schema" | "reload config")
        }
    }
}
