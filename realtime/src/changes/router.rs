//! Routes each change to the worker of its table. Runs in the task that reads the stream, so nothing here
//! blocks.

use std::collections::HashMap;
use std::sync::Arc;

use basalt_core::memory::ByteBudget;
use bytes::Bytes;

use super::Position;
use super::batch::Item;
use super::decoder::{Begin, Relation};
use super::messages;
use super::order::TableQueue;
use super::permissions::ChangedTables;
use super::snapshots::LastTransactions;
use super::stream::Consumer;
use super::worker;
use super::{change_budget, reserve};

const MESSAGES: (&str, &str) = ("realtime", "messages");
/// Estimated size of a queued change without its message.
const ITEM_BYTES: usize = 128;

/// Dependencies of the router.
pub(super) struct Parts {
    pub(super) workers: worker::Parts,
    pub(super) messages: messages::Queue,
    pub(super) last: Arc<LastTransactions>,
    pub(super) changed: Arc<ChangedTables>,
    pub(super) queue_bytes: usize,
}

/// Routes for the tables the stream has described.
pub(super) struct Router {
    parts: Parts,
    routes: HashMap<u32, Route>,
    transaction: Option<Begin>,
    /// Position of the last change.
    position: Position,
    /// Memory of all queued changes.
    queued: ByteBudget,
}

struct Route {
    relation: Arc<Relation>,
    is_messages: bool,
    /// Registry version, and whether the table had subscribers in it.
    wanted: (u64, bool),
    queue: Option<Arc<TableQueue>>,
}

impl Drop for Route {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.close();
        }
    }
}

impl Router {
    #[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
    pub(super) fn new(parts: Parts) -> Self {
        metrics::gauge!("basalt_realtime_change_bytes_limit").set(parts.queue_bytes as f64);
        let queued = change_budget(parts.queue_bytes, metrics::gauge!("basalt_realtime_change_bytes"));
        Self { parts, routes: HashMap::new(), transaction: None, position: 0, queued }
    }
}

impl Consumer for Router {
    fn begin(&mut self, begin: Begin) {
        self.parts.last.add(begin.xid);
        self.transaction = Some(begin);
    }

    fn relation(&mut self, relation: Relation) {
        // Sent again after a change of the table's definition.
        self.parts.workers.catalog.invalidate_table(relation.oid);
        let is_messages = (relation.schema.as_str(), relation.name.as_str()) == MESSAGES;
        let queue = self.routes.remove(&relation.oid).and_then(|mut route| route.queue.take());
        let route = Route { is_messages, wanted: (u64::MAX, false), queue, relation: Arc::new(relation) };
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
        self.parts.changed.note(relation);
        let version = self.parts.workers.registry.version();
        if route.wanted.0 != version {
            let is_wanted = self.parts.workers.registry.wants(&route.relation.schema, &route.relation.name);
            route.wanted = (version, is_wanted);
        }
        if !route.wanted.1 {
            return;
        }
        let described = Arc::clone(&route.relation);
        let Some(share) = reserve(&self.queued, message.len() + ITEM_BYTES) else {
            // The table's subscribers rejoin; their queued changes are not evaluated any more.
            let ended = self.parts.workers.registry.gap_table(&described.schema, &described.name);
            tracing::warn!(
                "changes of {}.{} arrive faster than they can be evaluated; {ended} channels will rejoin",
                described.schema,
                described.name
            );
            metrics::counter!("basalt_realtime_resyncs_total", "reason" => "queue").increment(1);
            return;
        };
        self.position += 1;
        let item = Item {
            position: self.position,
            transaction,
            relation: Arc::clone(&described),
            // Copied: the slice would keep the whole receive buffer in memory.
            message: Bytes::copy_from_slice(&message),
            share,
        };
        let Some(route) = self.routes.get_mut(&relation) else { return };
        let queue = route.queue.get_or_insert_with(|| {
            let workers = &self.parts.workers;
            let queue = workers.sequencer.add_queue(&described.schema, &described.name);
            let working = worker::run(workers.clone(), Arc::clone(&queue));
            workers.tracker.spawn(workers.shutdown.clone().run_until_cancelled_owned(working));
            queue
        });
        queue.push(item);
    }

    fn truncate(&mut self, relations: &[u32]) {
        for relation in relations {
            self.parts.changed.note(*relation);
        }
    }

    fn gap(&mut self, reason: &'static str) {
        self.routes.clear();
        self.transaction = None;
        self.parts.last.clear();
        self.parts.workers.catalog.invalidate();
        self.parts.messages.gap();
        let ended = self.parts.workers.registry.gap();
        metrics::counter!("basalt_realtime_resyncs_total", "reason" => reason).increment(1);
        tracing::info!("row changes were missed; {ended} channels will rejoin");
    }
}
