//! Row changes for channels: from PostgreSQL's log to the subscribers that may see them.
//!
//! ```text
//! stream.rs        one replication stream per server; decoder.rs reads its messages
//! router.rs        numbers each change and queues it for its table, if a channel watches that table
//! worker.rs        one per table: takes batches, matches them (subscriptions.rs, filter.rs), makes plans (plan.rs)
//! evaluate.rs      policies, then filters of visible rows; what exceeds its budget goes aside (suspects.rs, aside.rs)
//! order.rs         releases what is decided to each channel in commit order, across tables
//! subscribe.rs     checks filters when a channel joins
//! catalog.rs       tables, keys, rights of roles;  types.rs what values look like as JSON and in SQL
//! snapshots.rs     waits until a commit is visible;  visibility.rs runs lookups and filters as subscribers
//! generated.rs     columns that PostgreSQL before 18 does not stream
//! payload.rs       the JSON of a change, once for each set of columns
//! messages.rs      rows of realtime.messages;  memory.rs bounds in bytes
//! ```
//!
//! A slow policy or filter delays the channels of its own subscribers. What waits is bounded; channels that exceed a bound have
//! missed changes, and their clients join again.

mod aside;
mod catalog;
pub mod decoder;
mod evaluate;
pub mod filter;
mod generated;
mod memory;
mod messages;
mod order;
mod payload;
mod plan;
mod router;
mod snapshots;
mod stream;
mod subscribe;
mod subscriptions;
mod suspects;
pub mod types;
mod visibility;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use basalt_core::claims::Claims;
use basalt_pg::database::Database;
use basalt_pg::listen::Events;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::{SessionError, Sessions};
use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use catalog::Catalog;
use memory::ChangeMemory;
use order::Sequencer;
use router::{LastTransactions, Router};
use snapshots::Snapshots;
use stream::{Source, StreamState};
use subscriptions::Registry;
use visibility::Judge;

/// The channel on which the database tells that definitions, rights or publications have changed.
pub const CHANNEL: &str = "basalt_realtime";

/// How long a join waits for the stream. Clients wait ten seconds for an answer.
const START_LIMIT: Duration = Duration::from_secs(8);
/// And for commits that have arrived and are not visible yet, because they wait for a standby.
const SEEN_LIMIT: Duration = Duration::from_secs(5);
/// For the checks of a join's bindings.
const CHECK_LIMIT: Duration = Duration::from_secs(8);
/// Part of `queue_bytes` that channels may hold until earlier changes are decided, and that may wait for suspects.
const ASIDE_PART: usize = 4;
/// How long a channel waits that wants to be told when messages of the database arrive (realtime.md 3.5).
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Which changes a binding wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `*`
    All,
    /// `INSERT`
    Insert,
    /// `UPDATE`
    Update,
    /// `DELETE`
    Delete,
}

impl EventKind {
    /// As clients write it, in any case; everything else means all.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.to_ascii_uppercase().as_str() {
            "INSERT" => Self::Insert,
            "UPDATE" => Self::Update,
            "DELETE" => Self::Delete,
            _ => Self::All,
        }
    }

    /// As events carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "*",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// One element of a channel's `postgres_changes`.
#[derive(Clone, Debug)]
pub struct Binding {
    /// What the channel calls it; never 0.
    pub id: u64,
    /// Changes that it wants.
    pub event: EventKind,
    /// Schema, or `*`.
    pub schema: String,
    /// Table; `None` and `*` are every published table of the schema.
    pub table: Option<String>,
    /// Conditions as they were written.
    pub filter: Option<String>,
    /// Columns, if not all.
    pub select: Option<Vec<String>>,
}

/// Who listens.
#[derive(Clone)]
pub struct Subscriber {
    /// Of a verified token.
    pub claims: Arc<Claims>,
    /// Where changes go.
    pub sink: Arc<dyn ChangeSink>,
    /// Names the client where the claims name no user: subscribers of one visitor share its time budget for filters.
    pub visitor: Arc<str>,
}

/// A change as a channel sends it on.
#[derive(Clone, Debug)]
pub struct EncodedChange {
    /// The JSON object `data` (realtime.md 3.7).
    pub data: Bytes,
}

/// Takes the changes of one channel. None of these may wait.
pub trait ChangeSink: Send + Sync {
    /// A change that the bindings `ids` of the channel want and its claims may see.
    fn change(&self, change: &EncodedChange, ids: &[u64]);
    /// Changes were missed. The subscription is over: the channel ends and its client joins again.
    fn gap(&self);
    /// A change could not be judged for this subscriber.
    fn failed(&self, message: &str);
}

/// What a stored message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessagePayload {
    /// JSON text.
    Json(Bytes),
    /// Bytes.
    Binary(Bytes),
}

/// Takes rows of `realtime.messages`.
pub trait MessageSink: Send + Sync {
    /// Broadcasts one. Must not wait.
    fn message(&self, topic: &str, private: bool, event: &str, payload: MessagePayload, id: Uuid);
}

/// Why a channel gets no changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The client's mistake, in the words that upstream's clients know (realtime.md 3.5).
    #[error("{0}")]
    Rejected(String),
    /// Changes cannot be had now.
    #[error("{0}")]
    Unavailable(String),
}

/// A channel's bindings, as long as this lives.
#[derive(Debug)]
pub struct Subscription {
    entry: Arc<subscriptions::Subscriber>,
    registry: Arc<Registry>,
}

impl Subscription {
    /// After a new token of the same channel: its claims decide from now on.
    pub fn set_claims(&self, claims: &Arc<Claims>) {
        self.registry.set_claims(&self.entry, claims);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.registry.remove(&self.entry);
    }
}

/// What the changes need.
pub struct Dependencies {
    /// A login that may replicate: the system's.
    pub admin: Database,
    /// The same, for statements.
    pub system: ServicePool,
    /// The login that takes on callers' roles.
    pub sessions: Sessions,
    /// Notifications, [`CHANNEL`] among them.
    pub events: Events,
    /// Where rows of `realtime.messages` go.
    pub messages: Arc<dyn MessageSink>,
    /// What may wait to be judged, in bytes.
    pub queue_bytes: usize,
    /// Batches that ask PostgreSQL at a time.
    pub checks: usize,
    /// Every task.
    pub tracker: TaskTracker,
    /// Their end.
    pub shutdown: CancellationToken,
}

/// Row changes for subscribers. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    registry: Arc<Registry>,
    catalog: Arc<Catalog>,
    judge: Arc<Judge>,
    snapshots: Arc<Snapshots>,
    last: Arc<LastTransactions>,
    state: watch::Receiver<StreamState>,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Changes({:?})", *self.state.borrow())
    }
}

impl Changes {
    /// Begins to stream, in tasks of the tracker.
    #[must_use]
    pub fn start(dependencies: Dependencies) -> Self {
        let Dependencies {
            admin,
            system,
            sessions,
            events,
            messages,
            queue_bytes,
            checks,
            tracker,
            shutdown,
        } = dependencies;
        let registry = Arc::new(Registry::default());
        let catalog = Arc::new(Catalog::new(system.clone()));
        let snapshots = Arc::new(Snapshots::new(sessions.clone()));
        let judge = Arc::new(Judge::new(sessions, checks));
        let aside = ChangeMemory::new(queue_bytes / ASIDE_PART, "basalt_realtime_change_bytes_aside");
        let last = Arc::new(LastTransactions::default());
        let (sender, state) = watch::channel(StreamState::Starting);
        let mut router = Router::new(router::Parts {
            workers: worker::Parts {
                registry: Arc::clone(&registry),
                catalog: Arc::clone(&catalog),
                snapshots: Arc::clone(&snapshots),
                judge: Arc::clone(&judge),
                sequencer: Arc::new(Sequencer::new(Arc::clone(&aside))),
                aside,
                tracker: tracker.clone(),
                shutdown: shutdown.clone(),
            },
            messages: messages::start(messages, system.clone(), &tracker, &shutdown),
            last: Arc::clone(&last),
            queue_bytes,
        });
        let source = Source { database: admin, pool: system };
        let streaming = async move { stream::run(&source, &mut router, &sender).await };
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(streaming));
        let kept = Arc::clone(&catalog);
        tracker.spawn(shutdown.run_until_cancelled_owned(async move { kept.keep(events.subscribe()).await }));
        Self { registry, catalog, judge, snapshots, last, state }
    }

    /// Checks the bindings as the caller's role and registers all of them or none. What is committed after this has returned is
    /// delivered; what was committed before it was called can be read, and is not.
    ///
    /// # Errors
    /// A binding that cannot be, or no stream within a few seconds.
    pub async fn subscribe(
        &self,
        who: Subscriber,
        bindings: Vec<Binding>,
    ) -> Result<Subscription, SubscribeError> {
        self.wait_for_stream().await?;
        let check = subscribe::check(&self.catalog, &self.judge, &who.claims, &bindings);
        let checked = match tokio::time::timeout(CHECK_LIMIT, check).await {
            Ok(checked) => checked?,
            Err(_elapsed) => return Err(subscribe::unavailable(SessionError::Deadline)),
        };
        let before = self.snapshots.take().await.map_err(subscribe::unavailable)?;
        // A gap from now on reaches this subscriber.
        let entry = self.registry.add(&who, checked, before);
        let subscription = Subscription { entry, registry: Arc::clone(&self.registry) };
        // What arrived until now was not for it: its client has to see it when it reads.
        let seen = async {
            for xid in self.last.all() {
                self.snapshots.wait_visible(xid).await?;
            }
            Ok::<(), SessionError>(())
        };
        match tokio::time::timeout(SEEN_LIMIT, seen).await {
            Ok(seen) => seen.map_err(subscribe::unavailable)?,
            Err(_elapsed) => return Err(subscribe::unavailable(SessionError::Deadline)),
        }
        // The stream may have ended meanwhile. What the next one brings begins with a gap for those who are registered by then.
        self.wait_for_stream().await?;
        Ok(subscription)
    }

    /// Waits until rows of `realtime.messages` arrive; whether they do within a minute.
    pub async fn wait_until_streamed(&self) -> bool {
        let mut state = self.state.clone();
        let runs = state.wait_for(|state| *state == StreamState::Running);
        matches!(tokio::time::timeout(READY_LIMIT, runs).await, Ok(Ok(_)))
    }

    async fn wait_for_stream(&self) -> Result<(), SubscribeError> {
        let mut state = self.state.clone();
        let decided = state.wait_for(|state| !matches!(state, StreamState::Starting));
        let unavailable = |text: &str| Err(SubscribeError::Unavailable(text.to_owned()));
        match tokio::time::timeout(START_LIMIT, decided).await {
            Ok(Ok(state)) => match &*state {
                StreamState::Unavailable(text) => {
                    unavailable(&format!("Row changes cannot be streamed: {text}"))
                }
                StreamState::Starting | StreamState::Running => Ok(()),
            },
            Ok(Err(_stopped)) => unavailable("Realtime is restarting, please standby"),
            Err(_elapsed) => unavailable(
                "Row changes are not streamed yet: the replication slot waits for transactions that are under way",
            ),
        }
    }
}
