//! Row changes, from PostgreSQL's write-ahead log to the subscribers that may see them.
//!
//! ```text
//! stream.rs            one replication stream per server; decoder.rs parses its messages
//! router.rs            numbers each change and queues it for its table, if a channel watches that table
//! worker.rs            one per table: takes batches (batch.rs), matches and plans them (planning.rs, subscriptions.rs,
//!                      filter.rs, plan.rs), evaluates them
//! evaluate.rs          policies, then filters on visible rows; what exceeds its budget goes to a slow lane
//!                      (slow_lanes.rs, slow_evaluation.rs)
//! order.rs             releases decided changes to each channel in commit order, across tables (outbox.rs: those of one channel)
//! subscribe.rs         validates the filters of a join
//! catalog.rs           tables, keys, column privileges;  types.rs: values as JSON and in SQL
//! policies.rs          policies that are evaluated on the streamed row, without a query
//! snapshots.rs         waits until a commit is visible;  visibility.rs runs lookups and filters as subscribers
//! generated.rs         stored generated columns, which PostgreSQL before 18 does not replicate
//! payload.rs           the JSON of a change, once per set of columns
//! messages.rs          rows of realtime.messages;  permissions.rs: changes that affect their policies
//! ```
//!
//! A slow policy or filter delays only its own subscribers. Every queue is bounded; a channel that exceeds a
//! bound has missed changes, and its client rejoins.

mod batch;
mod catalog;
pub mod decoder;
mod evaluate;
pub mod filter;
mod generated;
mod identity;
mod messages;
mod order;
mod outbox;
mod payload;
mod permissions;
mod plan;
mod planning;
pub mod policies;
mod router;
mod slow_evaluation;
mod slow_lanes;
mod snapshots;
mod stream;
mod subscribe;
mod subscriptions;
pub mod types;
mod visibility;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use basalt_core::claims::Claims;
use basalt_core::convert::saturating;
use basalt_core::identity::Identity;
use basalt_core::memory::{BudgetRules, ByteBudget, ByteShare};
use basalt_pg::database::Database;
use basalt_pg::listen::Events;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::{SessionError, Sessions};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use metrics::Gauge;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use catalog::Catalog;
use order::Sequencer;
use permissions::ChangedTables;
use router::Router;
use snapshots::{LastTransactions, Snapshots};
use stream::{Source, StreamState};
use subscriptions::Registry;
use visibility::Evaluator;

/// LISTEN channel on which the database reports changed definitions, privileges and publications.
pub const CHANNEL: &str = "basalt_realtime";

/// How long a join waits for the stream to start. Clients wait ten seconds for a reply.
const START_LIMIT: Duration = Duration::from_secs(8);
/// How long a join waits for commits that were received but are not visible yet, because they wait for a
/// standby.
const VISIBLE_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for validating a join's bindings.
const CHECK_LIMIT: Duration = Duration::from_secs(8);
/// 1/N of `queue_bytes` is available for held changes and for batches in slow lanes.
const HELD_FRACTION: usize = 4;
/// How long a channel waits for the report that messages from the database can be received (realtime.md
/// 3.5).
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Changes a binding subscribes to.
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
    /// Parses the event name, ignoring case; anything unknown means all.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.to_ascii_uppercase().as_str() {
            "INSERT" => Self::Insert,
            "UPDATE" => Self::Update,
            "DELETE" => Self::Delete,
            _ => Self::All,
        }
    }

    /// The name used in events.
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
    /// Id chosen by the channel; never 0.
    pub id: u64,
    /// Kind of changes.
    pub event: EventKind,
    /// Schema name, or `*`.
    pub schema: String,
    /// Table name; `None` and `*` mean every published table of the schema.
    pub table: Option<String>,
    /// Conditions, unparsed.
    pub filter: Option<String>,
    /// Selected columns; `None` for all.
    pub select: Option<Vec<String>>,
}

/// A channel's side of a subscription.
#[derive(Clone)]
pub struct Subscriber {
    /// Claims of a verified token; they decide which rows are visible.
    pub claims: Arc<Claims>,
    /// Receives the changes.
    pub sink: Arc<dyn ChangeSink>,
    /// Identifies the client if the claims have no `sub`: subscribers with one visitor share a time budget
    /// for filters.
    pub visitor: Arc<str>,
}

/// Sequence number of a change in the stream.
pub(crate) type Position = u64;

/// A change, encoded for sending.
#[derive(Clone, Debug)]
pub struct EncodedChange {
    /// The JSON object `data` (realtime.md 3.7).
    pub data: Bytes,
}

/// Receives the changes of one channel. The methods must not block.
pub trait ChangeSink: Send + Sync {
    /// A change that matches the bindings `ids` of the channel and that its claims may see.
    fn change(&self, change: &EncodedChange, ids: &[u64]);
    /// Changes were missed. The subscription has ended: the channel closes and its client rejoins.
    fn gap(&self);
    /// A change could not be evaluated for this subscriber; `message` may be sent to the client.
    fn failed(&self, message: &str);
}

/// Payload of a stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessagePayload {
    /// JSON text.
    Json(Bytes),
    /// Binary payload.
    Binary(Bytes),
}

/// Receives rows of `realtime.messages`.
pub trait MessageSink: Send + Sync {
    /// Broadcasts one message. Must not block.
    fn message(&self, topic: &str, private: bool, event: &str, payload: MessagePayload, id: Uuid);
}

/// Learns of changes that may affect the permissions of private channels.
pub trait PermissionSink: Send + Sync {
    /// Permissions evaluated before this call may be outdated. Completes when the next report may follow.
    fn permissions_changed(&self) -> BoxFuture<'_, ()>;
}

/// Why a subscription was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// An invalid binding, in the words of upstream's error messages (realtime.md 3.5).
    #[error("{0}")]
    Rejected(String),
    /// Row changes are temporarily unavailable.
    #[error("{0}")]
    Unavailable(String),
}

/// Keeps a channel's bindings registered until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    entry: Arc<subscriptions::Subscriber>,
    registry: Arc<Registry>,
}

impl Subscription {
    /// Applies the claims of a new token to all further changes.
    pub fn set_claims(&self, claims: &Arc<Claims>) {
        self.registry.set_claims(&self.entry, claims);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.registry.remove(&self.entry);
    }
}

/// Everything [`Changes::start`] needs.
pub struct Dependencies {
    /// Connections of a login with REPLICATION.
    pub admin: Database,
    /// Pool of the same login, for queries.
    pub system: ServicePool,
    /// Sessions of the login that assumes callers' roles.
    pub sessions: Sessions,
    /// LISTEN notifications, including those on [`CHANNEL`].
    pub events: Events,
    /// Receives rows of `realtime.messages`.
    pub messages: Arc<dyn MessageSink>,
    /// Learns of changes that may affect the permissions of private channels.
    pub permissions: Arc<dyn PermissionSink>,
    /// Memory for changes that wait for evaluation, in bytes.
    pub queue_bytes: usize,
    /// Concurrent transactions that evaluate policies and filters.
    pub checks: usize,
    /// Tracks every spawned task.
    pub tracker: TaskTracker,
    /// Cancelled on shutdown.
    pub shutdown: CancellationToken,
}

/// Row changes for subscribers. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    registry: Arc<Registry>,
    catalog: Arc<Catalog>,
    evaluator: Arc<Evaluator>,
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
    /// Starts the replication stream and its consumers as tasks of the tracker.
    #[must_use]
    pub fn start(dependencies: Dependencies) -> Self {
        let Dependencies {
            admin,
            system,
            sessions,
            events,
            messages,
            permissions,
            queue_bytes,
            checks,
            tracker,
            shutdown,
        } = dependencies;
        let registry = Arc::new(Registry::default());
        let catalog = Arc::new(Catalog::new(system.clone()));
        let snapshots = Arc::new(Snapshots::new(sessions.clone()));
        let evaluator = Arc::new(Evaluator::new(sessions, checks));
        let slow_memory =
            change_budget(queue_bytes / HELD_FRACTION, metrics::gauge!("basalt_realtime_change_bytes_aside"));
        let last = Arc::new(LastTransactions::default());
        let changed = Arc::new(ChangedTables::default());
        let (sender, state) = watch::channel(StreamState::Starting);
        let mut router = Router::new(router::Parts {
            workers: worker::Parts {
                registry: Arc::clone(&registry),
                catalog: Arc::clone(&catalog),
                snapshots: Arc::clone(&snapshots),
                evaluator: Arc::clone(&evaluator),
                sequencer: Arc::new(Sequencer::new(slow_memory.clone())),
                slow_memory,
                tracker: tracker.clone(),
                shutdown: shutdown.clone(),
            },
            messages: messages::start(messages, system.clone(), &tracker, &shutdown),
            last: Arc::clone(&last),
            changed: Arc::clone(&changed),
            queue_bytes,
        });
        let source = Source { database: admin, pool: system };
        let streaming = async move { stream::run(&source, &mut router, &sender).await };
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(streaming));
        let watch = permissions::Watch {
            changed,
            last: Arc::clone(&last),
            catalog: Arc::clone(&catalog),
            snapshots: Arc::clone(&snapshots),
            sink: permissions,
        };
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(watch.run()));
        let watched = Arc::clone(&catalog);
        tracker.spawn(shutdown.run_until_cancelled_owned(async move {
            watched.invalidate_on_events(events.subscribe()).await
        }));
        Self { registry, catalog, evaluator, snapshots, last, state }
    }

    /// Validates the bindings as the caller's role, then registers all or none. Changes committed after this
    /// returns are delivered; changes committed before the call are not, because the client can read them.
    ///
    /// # Errors
    /// A binding is invalid, or the stream did not start in time.
    pub async fn subscribe(
        &self,
        subscriber: Subscriber,
        bindings: Vec<Binding>,
    ) -> Result<Subscription, SubscribeError> {
        self.wait_for_stream().await?;
        let check = subscribe::check(&self.catalog, &self.evaluator, &subscriber.claims, &bindings);
        let checked = match tokio::time::timeout(CHECK_LIMIT, check).await {
            Ok(checked) => checked?,
            Err(_elapsed) => return Err(subscribe::unavailable(SessionError::Deadline)),
        };
        let before = self.snapshots.take().await.map_err(subscribe::unavailable)?;
        // From here on a gap reaches this subscriber.
        let entry = self.registry.add(&subscriber, checked, before);
        let subscription = Subscription { entry, registry: Arc::clone(&self.registry) };
        // Changes received before registration are not delivered, so the client must be able to read them:
        // wait until they are visible.
        let seen = async {
            for xid in self.last.all() {
                self.snapshots.wait_visible(xid).await?;
            }
            Ok::<(), SessionError>(())
        };
        match tokio::time::timeout(VISIBLE_LIMIT, seen).await {
            Ok(seen) => seen.map_err(subscribe::unavailable)?,
            Err(_elapsed) => return Err(subscribe::unavailable(SessionError::Deadline)),
        }
        // The stream may have ended meanwhile. The next one starts by reporting a gap to everyone registered
        // by then.
        self.wait_for_stream().await?;
        Ok(subscription)
    }

    /// Waits up to a minute until rows of `realtime.messages` are received. Returns whether they are.
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

/// A limit on the bytes of waiting changes.
fn change_budget(limit: usize, gauge: Gauge) -> ByteBudget {
    let rules = BudgetRules { waiting_per_identity: 0, keeps_headroom: false, serves_larger_alone: false };
    ByteBudget::new(saturating(limit), rules, gauge)
}

/// Reserves memory for changes, which come from the replication stream and not from a client.
fn reserve(budget: &ByteBudget, bytes: usize) -> Option<ByteShare> {
    budget.try_take(Identity::SERVER, bytes)
}
