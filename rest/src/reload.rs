//! Keeping the schema cache current (rest.md §4.4).
//!
//! One load when the service starts, retried until it succeeds; then one per notification, where those that arrive
//! during a load or shortly after it share the next one. A load that fails leaves the old cache in use.
//!
//! The surprise: a request that names something unknown while a load is under way waits for that load and is planned
//! again, because the likeliest reason is the DDL that caused it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use basalt_core::listen::Event;
use basalt_core::session::Sessions;
use tokio::sync::{Mutex, broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::RestConfig;
use crate::metrics;
use crate::schema_cache::SchemaCache;
use crate::schema_cache::load::{self, LoadError, Loaded};

/// Channel of `NOTIFY pgrst`.
const CHANNEL: &str = "pgrst";
/// Notifications that come closer together than this share a load.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long the first load waits for the listener.
const LISTENER_PATIENCE: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// Configuration and cache that belong together.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) config: RestConfig,
    pub(crate) cache: SchemaCache,
}

/// The service's schema cache, for those outside it. Cheap to clone.
#[derive(Clone)]
pub struct RestHandle(Arc<Shared>);

struct Shared {
    base: RestConfig,
    sessions: Sessions,
    current: ArcSwapOption<Snapshot>,
    /// Loads under way or due. Waiters look for zero.
    loading: watch::Sender<usize>,
    /// One load at a time; held across it.
    turn: Mutex<()>,
}

impl std::fmt::Debug for RestHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RestHandle(ready: {})", self.ready())
    }
}

impl RestHandle {
    pub(crate) fn new(base: RestConfig, sessions: Sessions) -> Self {
        Self(Arc::new(Shared {
            base,
            sessions,
            current: ArcSwapOption::empty(),
            // The first load is due from the start.
            loading: watch::Sender::new(1),
            turn: Mutex::new(()),
        }))
    }

    /// Whether a schema cache is loaded.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.0.current.load().is_some()
    }

    /// Loads the schema cache now; when this returns, requests see the schema as it is.
    ///
    /// # Errors
    /// The load failed; the old cache stays in use.
    pub async fn reload(&self) -> Result<(), LoadError> {
        let _due = Due::new(self);
        self.load().await
    }

    pub(crate) fn base(&self) -> &RestConfig {
        &self.0.base
    }

    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.0.current.load_full()
    }

    pub(crate) fn is_loading(&self) -> bool {
        *self.0.loading.borrow() > 0
    }

    /// Waits until no load is under way or due, at most until `until`.
    pub(crate) async fn settled(&self, until: Instant) {
        let mut loading = self.0.loading.subscribe();
        // The sender lives in this handle, so the only other way out is the timeout: then we go on with what is there.
        let _elapsed = tokio::time::timeout_at(until, loading.wait_for(|due| *due == 0)).await;
    }

    async fn load(&self) -> Result<(), LoadError> {
        let _turn = self.0.turn.lock().await;
        let started = Instant::now();
        let result = load::load(&self.0.base, &self.0.sessions).await;
        let label = if result.is_ok() { "ok" } else { "failed" };
        ::metrics::counter!(metrics::SCHEMA_LOADS, "result" => label).increment(1);
        let Loaded { config, complaints, cache } = result?;
        for complaint in complaints {
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
        self.0.current.store(Some(Arc::new(Snapshot { config, cache })));
        Ok(())
    }
}

/// A load that is due; over when dropped, even if the load was given up.
struct Due<'a>(&'a RestHandle);

impl<'a> Due<'a> {
    fn new(handle: &'a RestHandle) -> Self {
        handle.0.loading.send_modify(|due| *due += 1);
        Self(handle)
    }

    /// The load that is due from the start.
    const fn first(handle: &'a RestHandle) -> Self {
        Self(handle)
    }
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        self.0.0.loading.send_modify(|due| *due = due.saturating_sub(1));
    }
}

/// Loads, then follows `events` until `shutdown`.
pub(crate) async fn follow(
    handle: RestHandle,
    events: broadcast::Receiver<Event>,
    shutdown: CancellationToken,
) {
    shutdown.run_until_cancelled(follow_for_ever(&handle, events)).await;
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
        let loaded = handle.load().await;
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
        wait_for_reason(&mut events, retry_in, &mut open).await;
        due = Some(Due::new(handle));
        tokio::time::sleep(DEBOUNCE).await;
    }
}

/// Returns when a load is wanted: by a notification, after a lost connection, or because the last one failed.
async fn wait_for_reason(
    events: &mut broadcast::Receiver<Event>,
    retry_in: Option<Duration>,
    open: &mut bool,
) {
    let retry = async {
        match retry_in {
            Some(pause) => tokio::time::sleep(pause).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(retry);
    loop {
        tokio::select! {
            event = events.recv(), if *open => match event {
                Ok(event) if wants_reload(&event) => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                // Nobody listens any more: only calls of `reload` and retries are left.
                Err(broadcast::error::RecvError::Closed) => *open = false,
            },
            () = &mut retry => return,
        }
    }
}

fn wants_reload(event: &Event) -> bool {
    match event {
        Event::Reconnected => true,
        Event::Notify { channel, payload } => {
            channel == CHANNEL && matches!(payload.as_str(), "" | "reload schema" | "reload config")
        }
    }
}
