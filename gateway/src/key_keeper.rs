//! Keeps a running server's keys in sync with the database: reloads them at every notification, and every few seconds in
//! case a notification was lost. While the database is unavailable, the last known keys stay in use.
//!
//! Any login can send a notification, so it is only a hint, and a burst of notifications causes one reload.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_pg::key_store::{CHANNEL, KeyStore, KeyStoreError};
use basalt_pg::listen::Event;
use basalt_pg::session::SessionError;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

/// Interval of reloads without a notification.
const INTERVAL: Duration = Duration::from_secs(5);
/// Minimum time between two reloads.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// Interval at which the last use of each key is stored.
const USAGE_INTERVAL: Duration = Duration::from_secs(60);

/// Applies the database's keys to the running server.
pub struct KeyKeeper {
    store: KeyStore,
    keys: Arc<Keys>,
    clock: Clock,
    /// The version of the applied keys.
    version: Vec<u8>,
    is_away: bool,
}

impl KeyKeeper {
    /// `keys` is shared with every service.
    #[must_use]
    pub const fn new(store: KeyStore, keys: Arc<Keys>, clock: Clock) -> Self {
        Self { store, keys, clock, version: Vec::new(), is_away: false }
    }

    /// Reloads the keys once.
    ///
    /// # Errors
    /// The database failed, or a key is invalid; the keys then stay unchanged.
    pub async fn refresh(&mut self) -> Result<(), KeyStoreError> {
        let stored = self.store.read().await?;
        let version = stored.version();
        if version != self.version {
            self.keys.update(&stored, self.clock.unix_seconds())?;
            self.version = version;
            tracing::debug!("keys reloaded");
        }
        Ok(())
    }

    /// Loads the keys for the first time, before the first request. Retries, because the database may be busy after its start.
    ///
    /// # Errors
    /// The database is unavailable for half a minute, or a key is invalid.
    pub async fn start(&mut self) -> Result<(), KeyStoreError> {
        const TIMEOUT: Duration = Duration::from_secs(30);
        const PAUSE: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.refresh().await {
                Err(KeyStoreError::Database(error)) if is_transient(&error) && Instant::now() < deadline => {
                    sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Follows the database until the server stops.
    pub async fn keep(mut self, mut events: Receiver<Event>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stored_usage = Instant::now();
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Ok(Event::Notify { channel, .. }) if channel != CHANNEL => continue,
                    Ok(Event::Notify { .. } | Event::Reconnected) | Err(RecvError::Lagged(_)) => {}
                    // The listener has stopped because the server is shutting down.
                    Err(RecvError::Closed) => sleep(INTERVAL).await,
                },
                _ = ticks.tick() => {}
            }
            self.refresh_and_log().await;
            if stored_usage.elapsed() >= USAGE_INTERVAL {
                stored_usage = Instant::now();
                self.store_usage().await;
            }
            sleep(MIN_PAUSE).await;
        }
    }

    async fn refresh_and_log(&mut self) {
        match self.refresh().await {
            Ok(()) => self.is_away = false,
            Err(KeyStoreError::Database(error)) => {
                // The pools log the same outage, so log it once here.
                if !self.is_away {
                    tracing::info!(%error, "cannot reload keys; keeping the current ones");
                }
                self.is_away = true;
            }
            Err(error) => tracing::error!(%error, "invalid keys in the database; keeping the current ones"),
        }
    }

    async fn store_usage(&self) {
        let uses = self.keys.take_uses();
        if !uses.is_empty()
            && let Err(error) = self.store.note_uses(&uses).await
        {
            // Last-use times are informational, and the next use stores them again.
            tracing::debug!(%error, "cannot store the usage of keys");
        }
    }
}

/// Whether the error is transient, so that a retry may succeed.
fn is_transient(error: &SessionError) -> bool {
    match error {
        SessionError::Postgres(error) => error.is_unavailable(),
        SessionError::PoolTimeout
        | SessionError::QueueFull
        | SessionError::Deadline
        | SessionError::Unreachable(_)
        | SessionError::Unavailable(_) => true,
    }
}
