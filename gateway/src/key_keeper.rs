//! Keeps the keys of a running server as the database has them: read again at every notification, and every few
//! seconds in case one was lost. While the database is away the last known keys hold.
//!
//! Any login may send a notification, so it is only a hint, and a burst of them causes one read.

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

/// How old a change may get that no notification told.
const INTERVAL: Duration = Duration::from_secs(5);
/// From one read to the next.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
/// How often uses of keys are written down.
const USES_INTERVAL: Duration = Duration::from_secs(60);

/// Puts the database's keys into force.
pub struct KeyKeeper {
    store: KeyStore,
    keys: Arc<Keys>,
    clock: Clock,
    /// What is in force.
    version: Vec<u8>,
    is_away: bool,
}

impl KeyKeeper {
    /// `keys` are those that every service has.
    #[must_use]
    pub const fn new(store: KeyStore, keys: Arc<Keys>, clock: Clock) -> Self {
        Self { store, keys, clock, version: Vec::new(), is_away: false }
    }

    /// Reads the keys once.
    ///
    /// # Errors
    /// The database failed, or a key cannot be used; then everything stays as it was.
    pub async fn refresh(&mut self) -> Result<(), KeyStoreError> {
        let stored = self.store.read().await?;
        let version = stored.version();
        if version != self.version {
            self.keys.update(&stored, self.clock.unix_seconds())?;
            self.version = version;
            tracing::debug!("the keys were read again");
        }
        Ok(())
    }

    /// The first read, before the first request: patient, because the database was there a moment ago and may be busy.
    ///
    /// # Errors
    /// The database is away for half a minute, or a key cannot be used.
    pub async fn start(&mut self) -> Result<(), KeyStoreError> {
        const PATIENCE: Duration = Duration::from_secs(30);
        const PAUSE: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.refresh().await {
                Err(KeyStoreError::Database(error)) if is_passing(&error) && Instant::now() < deadline => {
                    sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Follows the database, for ever.
    pub async fn keep(mut self, mut events: Receiver<Event>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut wrote_uses = Instant::now();
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Ok(Event::Notify { channel, .. }) if channel != CHANNEL => continue,
                    Ok(Event::Notify { .. } | Event::Reconnected) | Err(RecvError::Lagged(_)) => {}
                    // The listener has ended: the server is about to stop.
                    Err(RecvError::Closed) => sleep(INTERVAL).await,
                },
                _ = ticks.tick() => {}
            }
            self.refresh_or_say().await;
            if wrote_uses.elapsed() >= USES_INTERVAL {
                wrote_uses = Instant::now();
                self.write_uses().await;
            }
            sleep(LEAST_PAUSE).await;
        }
    }

    async fn refresh_or_say(&mut self) {
        match self.refresh().await {
            Ok(()) => self.is_away = false,
            Err(KeyStoreError::Database(error)) => {
                // The pools say it loudly enough; once is plenty.
                if !self.is_away {
                    tracing::info!(%error, "the keys cannot be read; those known hold");
                }
                self.is_away = true;
            }
            Err(error) => tracing::error!(%error, "the keys stay as they were"),
        }
    }

    async fn write_uses(&self) {
        let uses = self.keys.take_uses();
        if !uses.is_empty()
            && let Err(error) = self.store.note_uses(&uses).await
        {
            // A hint for people who tidy up; the next use tells again.
            tracing::debug!(%error, "uses of keys were not written down");
        }
    }
}

/// Whether the same may work in a moment.
fn is_passing(error: &SessionError) -> bool {
    match error {
        SessionError::Postgres(error) => error.is_unavailable(),
        SessionError::PoolTimeout
        | SessionError::QueueFull
        | SessionError::Deadline
        | SessionError::Unreachable(_)
        | SessionError::Unavailable(_) => true,
    }
}
