//! One LISTEN connection per server; its notifications go to all subscribers.
//!
//! Notifications are hints: they may be lost with the connection, which is why [`Event::Reconnected`] exists. On it
//! a subscriber does what it would do on any notification (rest reloads its schema cache).
//!
//! The connection also tells whether the database is there ([`Events::is_connected`], for `/ready`). It is idle most of the
//! time, and a link that goes silent (a lost route, a dead host) does not end a connection: so a heartbeat asks the server
//! every few seconds, and a missing answer counts as a lost connection.

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

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `NOTIFY channel, 'payload'`.
    Notify {
        /// Channel name.
        channel: String,
        /// Payload, possibly empty.
        payload: String,
    },
    /// The connection is listening, for the first time or again: notifications may have been missed.
    Reconnected,
}

/// Notifications waiting for one slow subscriber; when more arrive it sees `Lagged` and treats it as `Reconnected`.
const QUEUE: usize = 64;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// `/ready` says no until the next attempt succeeds, although requests may be served already.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// How often the server is asked whether it is still there, and how long it may take to answer.
const HEARTBEAT: Duration = Duration::from_secs(5);
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(5);
/// How long connecting may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The notifications. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events {
    sender: broadcast::Sender<Event>,
    is_connected: watch::Receiver<bool>,
}

/// Where the listening task publishes.
struct Outlets {
    events: broadcast::Sender<Event>,
    is_connected: watch::Sender<bool>,
}

impl Events {
    /// Starts listening on `channels` as `database`'s login, in a task of `tracker`, until `shutdown`. Reconnects
    /// until then, after pauses of 0.2 s doubling to 4 s, with jitter.
    #[must_use]
    pub fn listen(
        database: Database,
        channels: Vec<String>,
        tracker: &TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        let (sender, _) = broadcast::channel(QUEUE);
        let (connected, is_connected) = watch::channel(false);
        let outlets = Outlets { events: sender.clone(), is_connected: connected };
        tracker.spawn(async move {
            shutdown.run_until_cancelled(listen_and_reconnect(&database, &channels, &outlets)).await;
        });
        Self { sender, is_connected }
    }

    /// Whether the database answered the last heartbeat, at most about ten seconds ago. One that refuses LISTEN (a standby)
    /// counts as there.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        *self.is_connected.borrow()
    }

    /// Waits until a connection to the database is lost; false when the listening task has ended.
    pub async fn lost(&mut self) -> bool {
        self.is_connected.wait_for(|is_connected| *is_connected).await.is_ok()
            && self.is_connected.wait_for(|is_connected| !*is_connected).await.is_ok()
    }

    /// Events from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
}

#[expect(clippy::infinite_loop, reason = "ended from outside, by the shutdown token")]
async fn listen_and_reconnect(database: &Database, channels: &[String], outlets: &Outlets) {
    let mut pause = FIRST_PAUSE;
    loop {
        let ended = listen_once(database, channels, outlets, &mut pause).await;
        // A server that refuses a statement is there.
        let is_there = matches!(&ended, Err(DriverError::Postgres(error)) if !error.is_fatal);
        outlets.is_connected.send_replace(is_there && *outlets.is_connected.borrow());
        match ended {
            Ok(()) => tracing::info!("the LISTEN connection was closed; reconnecting"),
            Err(DriverError::Connection(error)) => {
                tracing::info!(error, "LISTEN connection lost; reconnecting")
            }
            Err(DriverError::Postgres(error)) => tracing::info!(%error, "LISTEN refused; reconnecting"),
        }
        let [jitter] = random::bytes::<1>();
        tokio::time::sleep(pause.mul_f64(0.75 + f64::from(jitter) / 512.0)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn listen_once(
    database: &Database,
    channels: &[String],
    outlets: &Outlets,
    pause: &mut Duration,
) -> Result<(), DriverError> {
    // The driver has no limit for a server that accepts the connection and stays silent.
    let silent = |_elapsed| DriverError::Connection("the database does not answer".to_owned());
    let connecting = tokio::time::timeout(CONNECT_LIMIT, database.connect_raw());
    let (client, connection) = connecting.await.map_err(silent)??;
    outlets.is_connected.send_replace(true);
    let mut reading = std::pin::pin!(read_notifications(connection, &outlets.events));
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
    *pause = FIRST_PAUSE;
    // It fails when there are no subscribers, who would then have missed nothing.
    let _no_subscribers = outlets.events.send(Event::Reconnected);
    loop {
        let heartbeat = async {
            tokio::time::sleep(HEARTBEAT).await;
            // The same statement again, so that `pg_stat_activity` keeps showing what the connection is for.
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
