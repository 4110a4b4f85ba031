//! Hands each change to the worker of its table. Runs in the task that reads the stream, so nothing here waits.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::catalog::Catalog;
use super::decoder::{Begin, Relation};
use super::messages;
use super::stream::Consumer;
use super::subscriptions::Registry;
use super::visibility::Judge;
use super::worker::{self, Item};

const MESSAGES: (&str, &str) = ("realtime", "messages");
/// What a change costs beside its bytes.
const ITEM_BYTES: usize = 128;
/// Transactions that may have arrived and be invisible yet: as many as commit within some milliseconds.
const LAST_TRANSACTIONS: usize = 256;

/// The transactions that arrived last. Whoever subscribes was not told of them, so they have to be visible to it.
#[derive(Debug, Default)]
pub(super) struct LastTransactions(Mutex<VecDeque<u32>>);

impl LastTransactions {
    fn add(&self, xid: u32) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= LAST_TRANSACTIONS {
            last.pop_front();
        }
        last.push_back(xid);
    }

    /// After a gap the database may be another one, whose ids begin elsewhere.
    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn all(&self) -> Vec<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

/// What the router works with.
pub(super) struct Parts {
    pub(super) registry: Arc<Registry>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) judge: Arc<Judge>,
    pub(super) messages: messages::Queue,
    pub(super) last: Arc<LastTransactions>,
    pub(super) queue_bytes: usize,
    pub(super) tracker: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

/// Routes of the tables that the stream has described.
pub(super) struct Router {
    parts: Parts,
    routes: HashMap<u32, Route>,
    transaction: Option<Begin>,
    /// Of everything that waits.
    queued: Arc<AtomicUsize>,
}

struct Route {
    relation: Arc<Relation>,
    is_messages: bool,
    /// Whether it was wanted, and as of which version of the registry.
    wanted: (u64, bool),
    worker: Option<mpsc::UnboundedSender<Item>>,
}

/// A part of what may wait, given back when the change is done.
pub(super) struct Share {
    queued: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Router {
    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    pub(super) fn new(parts: Parts) -> Self {
        metrics::gauge!("basalt_realtime_change_bytes_limit").set(parts.queue_bytes as f64);
        Self { parts, routes: HashMap::new(), transaction: None, queued: Arc::default() }
    }

    /// Takes room for a change; `None` when there is none.
    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    fn take(&self, bytes: usize) -> Option<Share> {
        let bytes = bytes + ITEM_BYTES;
        let queued = self.queued.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let share = Share { queued: Arc::clone(&self.queued), bytes };
        metrics::gauge!("basalt_realtime_change_bytes").set(queued as f64);
        (queued <= self.parts.queue_bytes).then_some(share)
    }
}

impl Consumer for Router {
    fn begin(&mut self, begin: Begin) {
        self.parts.last.add(begin.xid);
        self.transaction = Some(begin);
    }

    fn relation(&mut self, relation: Relation) {
        // Sent again because something about the table has changed.
        self.parts.catalog.invalidate_table(relation.oid);
        let is_messages = (relation.schema.as_str(), relation.name.as_str()) == MESSAGES;
        let worker = self.routes.remove(&relation.oid).and_then(|route| route.worker);
        let route = Route { is_messages, wanted: (u64::MAX, false), worker, relation: Arc::new(relation) };
        self.routes.insert(route.relation.oid, route);
    }

    fn change(&mut self, relation: u32, message: Bytes) {
        let (Some(transaction), Some(route)) = (self.transaction, self.routes.get_mut(&relation)) else {
            return;
        };
        if route.is_messages {
            self.parts.messages.push(&route.relation, &message);
            return;
        }
        let version = self.parts.registry.version();
        if route.wanted.0 != version {
            route.wanted = (version, self.parts.registry.wants(&route.relation.schema, &route.relation.name));
        }
        if !route.wanted.1 {
            return;
        }
        let described = Arc::clone(&route.relation);
        let Some(share) = self.take(message.len()) else {
            // Who listens to this table comes again; what waits for it is for nobody then.
            let ended = self.parts.registry.gap_table(&described.schema, &described.name);
            tracing::warn!(
                "changes of {}.{} come faster than they can be judged; {ended} channels join again",
                described.schema,
                described.name
            );
            metrics::counter!("basalt_realtime_resyncs_total", "reason" => "queue").increment(1);
            return;
        };
        let item = Item {
            transaction,
            relation: described,
            // A copy: what came with it in one buffer may be of no interest, and would stay in memory.
            message: Bytes::copy_from_slice(&message),
            share,
        };
        let Some(route) = self.routes.get_mut(&relation) else { return };
        let item = match &route.worker {
            Some(worker) => match worker.send(item) {
                Ok(()) => return,
                Err(unsent) => unsent.0,
            },
            None => item,
        };
        let Parts { registry, catalog, judge, tracker, shutdown, .. } = &self.parts;
        let parts = worker::Parts {
            registry: Arc::clone(registry),
            catalog: Arc::clone(catalog),
            judge: Arc::clone(judge),
        };
        #[expect(clippy::disallowed_methods, reason = "bounded in bytes, by the shares of its items")]
        let (sender, receiver) = mpsc::unbounded_channel();
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(worker::run(parts, receiver)));
        let _received = sender.send(item);
        route.worker = Some(sender);
    }

    fn gap(&mut self, reason: &'static str) {
        self.routes.clear();
        self.transaction = None;
        self.parts.last.clear();
        self.parts.catalog.invalidate();
        self.parts.messages.gap();
        let ended = self.parts.registry.gap();
        metrics::counter!("basalt_realtime_resyncs_total", "reason" => reason).increment(1);
        tracing::info!("row changes were missed; {ended} channels join again");
    }
}
