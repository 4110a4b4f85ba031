//! Broadcasts rows inserted into `realtime.messages` by `realtime.send` and similar functions (realtime.md
//! 3.10).
//!
//! Rows missed because the stream was down or the queue full are read from the table afterwards. The ids of
//! the newest rows are kept to avoid broadcasting them twice.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::decoder::{self, Message, Relation, RowChange};
use super::{MessagePayload, MessageSink};

/// Most rows waiting to be broadcast.
const QUEUE: usize = 1024;
/// Number of ids kept.
const KEPT_IDS: usize = 8192;
/// Rows are timestamped when their transaction starts; it may commit this much later.
const OVERLAP: Duration = Duration::from_secs(30);
/// Most rows read after a gap.
const MAX_MISSED: i64 = 5000;

/// Receives rows from the stream.
pub(super) struct Queue {
    rows: mpsc::Sender<(Arc<Relation>, Bytes)>,
    missed: Arc<Missed>,
}

#[derive(Default)]
struct Missed {
    is_due: AtomicBool,
    notify: Notify,
}

impl Queue {
    /// Queues a row change of the table.
    pub(super) fn push(&self, relation: &Arc<Relation>, message: &Bytes) {
        if self.rows.try_send((Arc::clone(relation), Bytes::copy_from_slice(message))).is_err() {
            self.gap();
        }
    }

    /// Reports that rows were missed.
    pub(super) fn gap(&self) {
        self.missed.is_due.store(true, Ordering::Release);
        self.missed.notify.notify_one();
    }
}

/// Starts broadcasting to `sink`.
pub(super) fn start(
    sink: Arc<dyn MessageSink>,
    pool: ServicePool,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) -> Queue {
    let (rows, receiver) = mpsc::channel(QUEUE);
    let missed = Arc::new(Missed::default());
    let since = Clock::system().now();
    let broadcaster = Broadcaster {
        sink,
        pool,
        missed: Arc::clone(&missed),
        since,
        seen: HashSet::new(),
        order: VecDeque::new(),
    };
    tracker.spawn(shutdown.clone().run_until_cancelled_owned(broadcaster.run(receiver)));
    Queue { rows, missed }
}

struct Broadcaster {
    sink: Arc<dyn MessageSink>,
    pool: ServicePool,
    missed: Arc<Missed>,
    /// When the newest row was received, or when the server started.
    since: Timestamp,
    seen: HashSet<Uuid>,
    order: VecDeque<Uuid>,
}

/// The columns of a row that matter for broadcasting.
struct Row {
    id: Uuid,
    topic: Option<String>,
    event: Option<String>,
    is_private: Option<bool>,
    payload: Option<String>,
    bytes: Option<Vec<u8>>,
    is_skipped: bool,
}

impl Broadcaster {
    async fn run(mut self, mut rows: mpsc::Receiver<(Arc<Relation>, Bytes)>) {
        loop {
            let row = tokio::select! {
                biased;
                row = rows.recv() => row,
                () = self.missed.notify.notified() => {
                    // Rows of the new stream may be broadcast before missed ones: none is lost, and order is
                    // only guaranteed within one sender's transaction.
                    if self.missed.is_due.swap(false, Ordering::AcqRel)
                        && let Err(error) = self.catch_up().await
                    {
                        tracing::info!(%error, "could not read missed messages; retrying");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        self.missed.is_due.store(true, Ordering::Release);
                        self.missed.notify.notify_one();
                    }
                    continue;
                }
            };
            let Some((relation, message)) = row else { return };
            if let Some(row) = read(&relation, message) {
                self.since = self.since.max(Clock::system().now());
                self.broadcast(row);
            }
        }
    }

    fn broadcast(&mut self, row: Row) {
        if !self.seen.insert(row.id) {
            return;
        }
        self.order.push_back(row.id);
        if self.order.len() > KEPT_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        let Row {
            id,
            topic: Some(topic),
            event: Some(event),
            is_private: Some(private),
            payload,
            bytes,
            is_skipped: false,
        } = row
        else {
            return;
        };
        match (payload, bytes) {
            (Some(payload), _) => {
                self.sink.message(&topic, private, &event, MessagePayload::Json(payload.into()), id);
            }
            (None, Some(bytes)) => {
                self.sink.message(&topic, private, &event, MessagePayload::Binary(bytes.into()), id);
            }
            (None, None) => {}
        }
    }

    /// Broadcasts rows of the table that were not seen in the stream.
    async fn catch_up(&mut self) -> Result<(), SessionError> {
        const QUERY: &str = "
            select id, topic, event, private, payload::text, binary_payload, skip_broadcast
            from realtime.messages
            where inserted_at > (to_timestamp($1) at time zone 'utc')
            order by inserted_at limit $2";
        let since = self.since.checked_sub(OVERLAP).unwrap_or(self.since);
        // Without a row seen yet, start at the server's start: earlier rows must not be broadcast.
        let since = if self.seen.is_empty() { self.since } else { since };
        #[expect(clippy::cast_precision_loss, reason = "microsecond precision is not needed")]
        let seconds = since.as_microsecond() as f64 / 1e6;
        let tx = self.pool.autocommit(Instant::now() + Duration::from_secs(10)).await?;
        let rows = tx.query(QUERY, &[&seconds, &MAX_MISSED]).await?;
        tx.commit().await?;
        for row in rows {
            let read = || -> Result<Row, tokio_postgres::Error> {
                Ok(Row {
                    id: row.try_get(0)?,
                    topic: row.try_get(1)?,
                    event: row.try_get(2)?,
                    is_private: row.try_get(3)?,
                    payload: row.try_get(4)?,
                    bytes: row.try_get(5)?,
                    is_skipped: row.try_get::<_, Option<bool>>(6)?.unwrap_or_default(),
                })
            };
            if let Ok(row) = read() {
                self.broadcast(row);
            }
        }
        Ok(())
    }
}

/// Decodes a row of the stream; `None` if it is not an insert or has no id.
fn read(relation: &Relation, message: Bytes) -> Option<Row> {
    let Ok(Message::Change { relation: _, change: RowChange::Insert { new } }) = decoder::decode(message)
    else {
        return None;
    };
    let text = |name: &str| {
        let index = relation.columns.iter().position(|column| column.name == name)?;
        new.get(index)?.text()
    };
    let is_true = |name: &str| text(name).map(|text| text == "t");
    let bytes = |text: &str| hex::decode(text.strip_prefix("\\x")?).ok();
    Some(Row {
        id: text("id")?.parse().ok()?,
        topic: text("topic").map(str::to_owned),
        event: text("event").map(str::to_owned),
        is_private: is_true("private"),
        payload: text("payload").map(str::to_owned),
        bytes: text("binary_payload").and_then(bytes),
        is_skipped: is_true("skip_broadcast").unwrap_or_default(),
    })
}
