//! One LISTEN connection per server, whose notifications are sent to all subscribers.
//!
//! Notifications are hints: they may be lost with the connection, which [`Event::Reconnected`] reports. A subscriber
//! handles it like any notification (rest reloads its schema cache).
//!
//! The connection also shows whether the database is reachable ([`Events::is_connected`], for `/ready`). It is mostly
//! idle, and a silent link (a lost route, a dead host) does not close a connection. A heartbeat therefore runs every
//! few seconds, and a missing response counts as a lost connection.

use std::future::poll_fn;
use std::time::Duration;

use basalt_core::error::with_cause;
use basalt_core::random;
use tokio::sync::{broadcast, watch};
use tokio_postgres::AsyncMessage;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::database::{Database, DriverConnection};
use crate::pg_error::DriverError;
use crate::sql::push_quoted;

/// An event of the LISTEN connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `NOTIFY channel, 'payload'`.
    Notify {
        /// Channel name.
        channel: String,
        /// Payload, possibly empty.
        payload: String,
    },
    /// The connection is listening, for the first time or again; notifications may have been missed.
    Reconnected,
}

/// Notifications queued for a slow subscriber. If more arrive, it receives `Lagged` and treats that like
/// `Reconnected`.
const QUEUE_LENGTH: usize = 64;
const MIN_BACKOFF: Duration = Duration::from_millis(200);
/// `/ready` fails until the next attempt succeeds, although requests may already be served.
const MAX_BACKOFF: Duration = Duration::from_secs(4);
/// Interval of the heartbeat, and maximum time for its response.
const HEARTBEAT: Duration = Duration::from_secs(5);
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Subscription source for notifications. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    sender: broadcast::Sender<Event>,
    is_connected: watch::Receiver<bool>,
}

/// Senders used by the listening task.
struct Publisher {
    events: broadcast::Sender<Event>,
    is_connected: watch::Sender<bool>,
}

impl Events {
    /// Starts listening on `channels` with the login of `database`, in a task of `tracker`, until `shutdown`. After a
    /// failure it reconnects with a backoff from 0.2 s to 4 s, with jitter.
    #[must_use]
    pub fn listen(
        database: Database,
        channels: Vec<String>,
        tracker: &TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        let (sender, _) = broadcast::channel(QUEUE_LENGTH);
        let (connected, is_connected) = watch::channel(false);
        let publisher = Publisher { events: sender.clone(), is_connected: connected };
        tracker.spawn(async move {
            shutdown.run_until_cancelled(listen_and_reconnect(&database, &channels, &publisher)).await;
        });
        Self { sender, is_connected }
    }

    /// Whether the database answered the last heartbeat, at most about ten seconds ago. A database that rejects
    /// LISTEN (a standby) counts as connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        *self.is_connected.borrow()
    }

    /// Waits until the connection to the database is lost; false if the listening task has ended.
    pub async fn lost(&mut self) -> bool {
        self.is_connected.wait_for(|is_connected| *is_connected).await.is_ok()
            && self.is_connected.wait_for(|is_connected| !*is_connected).await.is_ok()
    }

    /// Subscribes to events from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}

#[expect(clippy::infinite_loop, reason = "the caller cancels it by the shutdown token")]
async fn listen_and_reconnect(database: &Database, channels: &[String], publisher: &Publisher) {
    let mut backoff = MIN_BACKOFF;
    loop {
        let ended = listen_once(database, channels, publisher, &mut backoff).await;
        // A server that rejects a statement is reachable.
        let is_reachable = matches!(&ended, Err(DriverError::Postgres(error)) if !error.is_fatal);
        publisher.is_connected.send_replace(is_reachable && *publisher.is_connected.borrow());
        match ended {
            Ok(()) => tracing::info!("LISTEN connection closed; reconnecting"),
            Err(DriverError::Connection(error)) => {
                tracing::info!(error, "LISTEN connection lost; reconnecting")
            }
            Err(DriverError::Postgres(error)) => tracing::info!(%error, "LISTEN rejected; reconnecting"),
        }
        let [jitter] = random::bytes::<1>();
        tokio::time::sleep(backoff.mul_f64(0.75 + f64::from(jitter) / 512.0)).await;
        backoff = (backoff * 2).min(MAX_BACKOFF);
    }
}

async fn listen_once(
    database: &Database,
    channels: &[String],
    publisher: &Publisher,
    backoff: &mut Duration,
) -> Result<(), DriverError> {
    // The driver has no timeout for a server that accepts the connection but does not respond.
    let silent = |_elapsed| DriverError::Connection("the database does not answer".to_owned());
    let connecting = tokio::time::timeout(CONNECT_LIMIT, database.connect_raw());
    let (client, connection) = connecting.await.map_err(silent)??;
    publisher.is_connected.send_replace(true);
    let mut reading = std::pin::pin!(read_notifications(connection, &publisher.events));
    let statements: Vec<String> = channels
        .iter()
        .map(|channel| {
            let mut statement = "LISTEN ".to_owned();
            push_quoted(&mut statement, channel, '"');
            statement
        })
        .collect();
    let statements = statements.join("; ");
    let listen = tokio::time::timeout(HEARTBEAT_LIMIT, client.batch_execute(&statements));
    tokio::select! {
        result = &mut reading => return result,
        listening = listen => listening.map_err(silent)??,
    }
    *backoff = MIN_BACKOFF;
    // Fails without subscribers, who would have missed nothing.
    let _no_subscribers = publisher.events.send(Event::Reconnected);
    loop {
        let heartbeat = async {
            tokio::time::sleep(HEARTBEAT).await;
            // Repeats the same statement, so that `pg_stat_activity` keeps showing the purpose of the connection.
            tokio::time::timeout(HEARTBEAT_LIMIT, client.batch_execute(&statements)).await
        };
        tokio::select! {
            result = &mut reading => return result,
            answered = heartbeat => answered.map_err(silent)??,
        }
    }
}

async fn read_notifications(
    mut connection: DriverConnection,
    events: &broadcast::Sender<Event>,
) -> Result<(), DriverError> {
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message? {
            AsyncMessage::Notification(notification) => {
                let _no_subscribers = events.send(Event::Notify {
                    channel: notification.channel().to_owned(),
                    payload: notification.payload().to_owned(),
                });
            }
            AsyncMessage::Notice(notice) => tracing::debug!(notice = with_cause(&notice), "notice"),
            _ => {}
        }
    }
    Ok(())
}
