//! One LISTEN connection per server, its notifications fanned out to whoever subscribes.
//!
//! Notifications are hints: they may be lost with the connection, which is why [`Event::Reconnected`] exists. On it
//! a subscriber does what it would do on any notification (rest reloads its schema cache).

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio_postgres::AsyncMessage;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::database::{Database, DriverConnection};
use crate::pg_error::{DriverError, with_cause};
use crate::random;
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
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// The fan-out. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events(broadcast::Sender<Event>);

impl Events {
    /// Starts listening on `channels` as `database`'s login, in a task of `tracker`, until `shutdown`. Reconnects
    /// for ever, pausing 0.2 s doubling to 32 s, with jitter.
    #[must_use]
    pub fn listen(
        database: Database,
        channels: Vec<String>,
        tracker: &TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        let (sender, _) = broadcast::channel(QUEUE);
        let events = sender.clone();
        tracker.spawn(async move {
            shutdown.run_until_cancelled(listen_for_ever(&database, &channels, &events)).await;
        });
        Self(sender)
    }

    /// Events from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}

#[expect(clippy::infinite_loop, reason = "ended from outside, by the shutdown token")]
async fn listen_for_ever(database: &Database, channels: &[String], events: &broadcast::Sender<Event>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match listen_once(database, channels, events, &mut pause).await {
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
    events: &broadcast::Sender<Event>,
    pause: &mut Duration,
) -> Result<(), DriverError> {
    let (client, connection) = database.connect_raw().await?;
    let mut reading = std::pin::pin!(read_notifications(connection, events));
    let statements: Vec<String> = channels
        .iter()
        .map(|channel| {
            let mut statement = "LISTEN ".to_owned();
            push_quoted(&mut statement, channel, '"');
            statement
        })
        .collect();
    let statements = statements.join("; ");
    let listen = client.batch_execute(&statements);
    tokio::select! {
        result = &mut reading => return result,
        listening = listen => listening?,
    }
    *pause = FIRST_PAUSE;
    // Nobody may be subscribed yet; then nobody has missed anything.
    let _no_subscribers = events.send(Event::Reconnected);
    let result = reading.await;
    drop(client);
    result
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
