//! The replication stream: one logical replication slot per server, read for as long as the server runs.
//!
//! The slot is temporary and ends with its connection, so that a dead server does not retain write-ahead
//! log. Commits between the end of one stream and the slot of the next are unknown; this is a gap, after
//! which all subscribers rejoin and refetch.
//!
//! Creating a slot waits for all transactions running at that moment, so it happens in the background.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::random;
use basalt_pg::database::Database;
use basalt_pg::pg_error::DriverError;
use basalt_pg::pool::ServicePool;
use basalt_pg::replication::{Frame, Lsn, Replication, ReplicationStream};
use basalt_pg::session::SessionError;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::decoder::{self, Begin, DecodeError, Message, Relation};

/// Publication of the tables clients may subscribe to.
pub(super) const PUBLICATION: &str = "supabase_realtime";
/// Publication of `realtime.messages`.
pub(super) const MESSAGES_PUBLICATION: &str = "supabase_realtime_messages_publication";

/// Session settings that produce the text format filters and payloads expect.
pub(super) const SESSION_SETTINGS: [(&str, &str); 5] = [
    ("timezone", "UTC"),
    ("datestyle", "ISO"),
    ("intervalstyle", "postgres"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
];

/// Largest row change that is read; a larger one restarts the stream behind it.
const MESSAGE_BYTES: usize = 64 << 20;
const MIN_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(4);
/// Delay between attempts while the server rejects replication: an administrator has to change its
/// configuration.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// Minimum time between two acknowledgements of the position.
const ACKNOWLEDGE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between checks of the slot's lag.
const WATCH_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    /// The slot is being created, for the first time or again.
    Starting,
    /// Changes committed from now on are received.
    Running,
    /// The server rejects replication; contains the error and the remedy.
    Unavailable(Arc<str>),
}

/// Receives the decoded stream. The methods must not block.
pub(super) trait Consumer: Send {
    /// Start of a transaction; its changes follow.
    fn begin(&mut self, begin: Begin);
    /// Definition of a table for the changes that follow.
    fn relation(&mut self, relation: Relation);
    /// An undecoded row change of a table described before. `message` is a slice of a larger buffer.
    fn change(&mut self, relation: u32, message: Bytes);
    /// Tables were truncated. Subscribers receive nothing, as upstream.
    fn truncate(&mut self, relations: &[u32]);
    /// Changes were missed.
    fn gap(&mut self, reason: &'static str);
}

/// Why a stream ended.
enum End {
    Lost(DriverError),
    Malformed(DecodeError),
    /// PostgreSQL would soon invalidate the slot.
    Behind,
}

impl From<DriverError> for End {
    fn from(error: DriverError) -> Self {
        Self::Lost(error)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(DriverError::Postgres(error)) => write!(f, "{error}"),
            Self::Lost(DriverError::Connection(text)) => f.write_str(text),
            Self::Malformed(error) => write!(f, "{error}"),
            Self::Behind => f.write_str("the slot fell behind"),
        }
    }
}

/// Database to replicate from.
pub(super) struct Source {
    /// Connections of a login with REPLICATION.
    pub(super) database: Database,
    /// Pool of the same login, for queries.
    pub(super) pool: ServicePool,
}

/// Reads the stream into `consumer` until dropped, restarting it whenever it ends.
#[expect(clippy::infinite_loop, reason = "cancelled by the shutdown token")]
pub(super) async fn run(source: &Source, consumer: &mut dyn Consumer, state: &watch::Sender<StreamState>) {
    let mut pause = MIN_PAUSE;
    let mut has_run = false;
    loop {
        let mut runs = false;
        let end = stream_once(source, consumer, state, has_run, &mut runs).await;
        if runs {
            (has_run, pause) = (true, MIN_PAUSE);
        }
        match remedy_for(&end) {
            Some(remedy) => {
                let text: Arc<str> = format!("{end}; {remedy}").into();
                let before = state.send_replace(StreamState::Unavailable(Arc::clone(&text)));
                if before != StreamState::Unavailable(Arc::clone(&text)) {
                    tracing::warn!("cannot stream row changes: {text}");
                }
                sleep(REFUSED_PAUSE).await;
            }
            None => {
                tracing::info!(error = %end, "the stream of row changes ended; restarting it");
                state.send_replace(StreamState::Starting);
                let [jitter] = random::bytes::<1>();
                sleep(pause.mul_f64(0.75 + f64::from(jitter) / 512.0)).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}

/// What an administrator has to do; `None` if a retry may help.
fn remedy_for(end: &End) -> Option<&'static str> {
    let End::Lost(DriverError::Postgres(error)) = end else { return None };
    Some(match error.code.as_str() {
        "55000" if error.message.contains("wal_level") => {
            "set wal_level = logical in postgresql.conf and restart PostgreSQL"
        }
        "42501" => "grant the login REPLICATION: alter role … replication",
        "53400" => "raise max_replication_slots and restart PostgreSQL, or drop unused slots",
        "28000" => "allow replication connections for the login in pg_hba.conf",
        "08P01" => "connect to PostgreSQL directly: poolers do not support replication",
        "0A000" => "connect to a primary server that supports logical decoding",
        _ => return None,
    })
}

async fn stream_once(
    source: &Source,
    consumer: &mut dyn Consumer,
    state: &watch::Sender<StreamState>,
    is_again: bool,
    runs: &mut bool,
) -> End {
    let mut stream = None;
    let slot = format!("basalt_realtime_{:032x}", u128::from_be_bytes(random::bytes::<16>()));
    match open(source, &slot).await {
        Ok(opened) => {
            let opened = stream.insert(opened);
            *runs = true;
            if is_again {
                consumer.gap("stream");
            }
            state.send_replace(StreamState::Running);
            tracing::debug!(slot, "streaming row changes");
            tokio::select! {
                end = read(opened, consumer) => end,
                end = watch_slot(source, &slot) => end,
            }
        }
        Err(end) => end,
    }
}

async fn open(source: &Source, slot: &str) -> Result<ReplicationStream, End> {
    let options: Vec<String> =
        SESSION_SETTINGS.iter().map(|(name, value)| format!("-c {name}={value}")).collect();
    let database = source.database.with_options(&options.join(" "));
    let mut replication = Replication::connect(&database, MESSAGE_BYTES).await?;
    // A slot cannot use a publication created after it.
    prepare_publications(&mut replication).await?;
    replication
        .query(&format!("CREATE_REPLICATION_SLOT \"{slot}\" TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT"))
        .await?;
    let start = format!(
        "START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0 (proto_version '1', \
         publication_names '\"{PUBLICATION}\",\"{MESSAGES_PUBLICATION}\"')"
    );
    Ok(replication.start(&start).await?)
}

/// Creates the publications if the project has dropped them, and publishes stored generated columns where
/// PostgreSQL supports it (18). Without the privileges, starting the stream reports what is missing.
async fn prepare_publications(replication: &mut Replication) -> Result<(), End> {
    const QUERY: &str = "
        select p.pubname,
          current_setting('server_version_num')::integer >= 180000 and to_jsonb(p) ->> 'pubgencols' = 'n'
        from pg_catalog.pg_publication p
        where p.pubname in ('supabase_realtime', 'supabase_realtime_messages_publication')";
    let rows = replication.query(QUERY).await?;
    let has = |name: &str| rows.iter().any(|row| row.text(0) == Some(name));
    if !has(PUBLICATION) {
        replication.query("create publication supabase_realtime").await?;
    }
    if !has(MESSAGES_PUBLICATION) {
        const CREATE: &str = "
            create publication supabase_realtime_messages_publication for table realtime.messages
              with (publish = 'insert', publish_via_partition_root = true)";
        replication.query(CREATE).await?;
    }
    if rows.iter().any(|row| row.text(0) == Some(PUBLICATION) && row.text(1) == Some("t")) {
        const ALTER: &str = "alter publication supabase_realtime set (publish_generated_columns = stored)";
        if let Err(error) = replication.query(ALTER).await {
            tracing::debug!(?error, "could not publish generated columns");
        }
    }
    Ok(())
}

async fn read(stream: &mut ReplicationStream, consumer: &mut dyn Consumer) -> End {
    match read_to_end(stream, consumer).await {
        Ok(never) => match never {},
        Err(end) => end,
    }
}

async fn read_to_end(
    stream: &mut ReplicationStream,
    consumer: &mut dyn Consumer,
) -> Result<std::convert::Infallible, End> {
    let received = metrics::counter!("basalt_realtime_changes_received_total");
    let mut acknowledged_at = Instant::now();
    let mut position = Lsn::default();
    let mut in_transaction = false;
    loop {
        match stream.next().await? {
            Frame::Data { payload, .. } => {
                // Routed before decoding: most changes may belong to tables without subscribers.
                if let Some(relation) = decoder::changed_relation(&payload) {
                    received.increment(1);
                    consumer.change(relation, payload);
                    continue;
                }
                match decoder::decode(payload).map_err(End::Malformed)? {
                    Message::Begin(begin) => {
                        in_transaction = true;
                        consumer.begin(begin);
                    }
                    Message::Commit { end } => {
                        in_transaction = false;
                        position = position.max(Lsn(end));
                        if acknowledged_at.elapsed() >= ACKNOWLEDGE_INTERVAL {
                            stream.acknowledge(position);
                            acknowledged_at = Instant::now();
                        }
                    }
                    Message::Relation(relation) => consumer.relation(relation),
                    Message::Truncate { relations } => consumer.truncate(&relations),
                    Message::Change { .. } | Message::Other => {}
                }
            }
            Frame::KeepAlive { wal_end, wants_reply } => {
                // Everything before this position has been received, so its log can be discarded even if
                // none of it was relevant.
                if !in_transaction {
                    position = position.max(wal_end);
                }
                if wants_reply || acknowledged_at.elapsed() >= ACKNOWLEDGE_INTERVAL {
                    stream.acknowledge(position);
                    acknowledged_at = Instant::now();
                }
            }
        }
    }
}

/// Checks the slot periodically. Returns when it is so far behind that PostgreSQL would soon invalidate it.
async fn watch_slot(source: &Source, slot: &str) -> End {
    loop {
        sleep(WATCH_INTERVAL).await;
        match is_behind(source, slot).await {
            Ok(true) => {
                tracing::warn!(
                    "replication slot too far behind; restarting the stream, clients will resubscribe"
                );
                return End::Behind;
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "could not check the replication slot"),
        }
    }
}

async fn is_behind(source: &Source, slot: &str) -> Result<bool, SessionError> {
    /// Log retained by the slot, lag behind the acknowledged position, and the server's limit for retained
    /// log.
    const QUERY: &str = "
        select pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), s.restart_lsn)::bigint,
          pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), s.confirmed_flush_lsn)::bigint,
          (select setting::bigint * 1024 * 1024 from pg_catalog.pg_settings where name = 'max_slot_wal_keep_size')
        from pg_catalog.pg_replication_slots s
        where s.slot_name = $1 and s.restart_lsn is not null";
    let tx = source.pool.autocommit(Instant::now() + Duration::from_secs(10)).await?;
    let row = tx.query_opt(QUERY, &[&slot]).await?;
    tx.commit().await?;
    let Some(row) = row else { return Ok(false) };
    let number = |column: usize| row.try_get::<_, i64>(column).unwrap_or(0);
    let (held, behind, limit) = (number(0), number(1), number(2));
    #[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
    metrics::gauge!("basalt_realtime_slot_lag_bytes").set(held as f64);
    // Only our own lag counts: a long transaction also retains log, but a new slot would have to wait for
    // it, too.
    Ok(limit > 0 && behind > limit / 2)
}
