//! The worker of one table: plans batches in order (`planning.rs`), then evaluates them (`evaluate.rs`); [`super::order`] releases
//! the results.
//!
//! The next batch is planned while the previous one is evaluated, as long as that one uses a single connection: with many
//! subscribers to check, larger batches cost PostgreSQL less.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::EventKind;
use super::catalog::{Catalog, Rights, Table};
use super::decoder::{self, Begin, Message, Old, Relation, RowChange};
use super::generated;
use super::memory::{ChangeMemory, MemoryShare};
use super::order::{Position, Sequencer, TableQueue};
use super::payload::Change;
use super::plan::{self, Plan};
use super::snapshots::Snapshots;
use super::subscriptions::{Identity, Match, Registry, Subscriber, View};
use super::suspects::Suspects;
use super::visibility::{Judge, SessionError};

/// Most changes in one batch.
const BATCH: usize = 256;

/// A row change from the stream.
pub(super) struct Item {
    pub(super) position: Position,
    pub(super) transaction: Begin,
    pub(super) relation: Arc<Relation>,
    pub(super) message: Bytes,
    pub(super) share: MemoryShare,
}

/// What the workers of all tables share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) registry: Arc<Registry>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) judge: Arc<Judge>,
    pub(super) sequencer: Arc<Sequencer>,
    /// For batches that are evaluated aside.
    pub(super) aside: Arc<ChangeMemory>,
    pub(super) tracker: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

/// Works until the queue is closed and empty.
pub(super) async fn run(parts: Parts, queue: Arc<TableQueue>) {
    let worker = Arc::new(Worker {
        parts,
        suspects: Suspects::default(),
        transactions: AtomicUsize::new(0),
        complete: Mutex::default(),
    });
    let mut evaluations = JoinSet::new();
    while let Some(items) = queue.next(BATCH).await {
        let relation = items.first().map(|item| Arc::clone(&item.relation));
        metrics::counter!("basalt_realtime_change_batches_total").increment(1);
        metrics::counter!("basalt_realtime_changes_batched_total").increment(items.len() as u64);
        let planned = worker.plan(items).await;
        if let Ok(Some(plan)) = &planned {
            plan.open();
        }
        worker.parts.sequencer.planned(&queue);
        match planned {
            Ok(Some(plan)) => {
                let plan = Arc::new(plan);
                let work = worker.divide(&plan);
                worker.transactions.fetch_add(work.transactions(), Ordering::Relaxed);
                let (worker, tracker) = (Arc::clone(&worker), &worker.parts.tracker);
                evaluations.spawn(tracker.track_future(async move {
                    let transactions = work.transactions();
                    worker.evaluate(&plan, work).await;
                    worker.transactions.fetch_sub(transactions, Ordering::Relaxed);
                }));
            }
            Ok(None) => {}
            Err(error) => worker.lose_table(relation.as_deref(), &error),
        }
        while worker.transactions.load(Ordering::Relaxed) > 1 && evaluations.join_next().await.is_some() {}
        while evaluations.try_join_next().is_some() {}
    }
    while evaluations.join_next().await.is_some() {}
    worker.parts.sequencer.remove_queue(&queue);
}

pub(super) struct Worker {
    pub(super) parts: Parts,
    pub(super) suspects: Suspects,
    /// That evaluate batches now.
    transactions: AtomicUsize,
    /// The definition that was found to have all columns. Held to read or replace it only.
    complete: Mutex<Option<Arc<Relation>>>,
}

impl Worker {
    /// No change of the batch could be planned: the table's subscribers join again.
    fn lose_table(&self, relation: Option<&Relation>, error: &SessionError) {
        let Some(relation) = relation else { return };
        let ended = self.parts.registry.gap_table(&relation.schema, &relation.name);
        metrics::counter!("basalt_realtime_resyncs_total", "reason" => "database").increment(1);
        tracing::info!(
            %error,
            "changes of {}.{} could not be evaluated; {ended} channels join again",
            relation.schema,
            relation.name
        );
    }

    /// Whom the changes concern; `None` when they concern nobody.
    async fn plan(&self, items: Vec<Item>) -> Result<Option<Plan>, SessionError> {
        let Some(mut relation) = items.first().map(|item| Arc::clone(&item.relation)) else {
            return Ok(None);
        };
        let mut batch = Batch::decode(items)?;
        if batch.changes.is_empty() {
            return Ok(None);
        }
        // What is sent can be read by then, and the catalog is at least as new as the changes. Also where no filter matches:
        // otherwise the time that the next batch takes would reveal whether one did.
        let mut transactions = batch.transactions.clone();
        transactions.dedup();
        for xid in transactions {
            self.parts.snapshots.wait_visible(xid).await?;
        }
        let Some(table) = self.parts.catalog.table(relation.oid).await? else { return Ok(None) };
        if let Some(complete) = self.with_generated(&table, &relation, &mut batch.changes).await? {
            relation = complete;
        }
        let matches = self.matches(&table, &relation, &batch);
        let matched = matches.iter().map(Vec::len).sum::<usize>();
        if matched == 0 {
            return Ok(None);
        }
        metrics::counter!("basalt_realtime_changes_matched_total").increment(matched as u64);
        let mut identities: HashMap<u64, Arc<Identity>> = HashMap::new();
        for found in matches.iter().flatten() {
            let subscriber: &Arc<Subscriber> = &found.bound.subscriber;
            identities.entry(subscriber.number()).or_insert_with(|| subscriber.identity());
        }
        let mut rights: HashMap<Arc<str>, Arc<Rights>> = HashMap::new();
        for identity in identities.values() {
            if !rights.contains_key(&identity.role) {
                let read = self.parts.catalog.rights(&table, &identity.role).await?;
                rights.insert(Arc::clone(&identity.role), read);
            }
        }
        let Batch { changes, shares, .. } = batch;
        let plan = Plan::new(plan::Parts { table, relation, changes, shares, matches, rights, identities });
        Ok((!plan.addressees.is_empty()).then_some(plan))
    }

    /// Bindings for each change, as far as text decides about their filters.
    fn matches(&self, table: &Table, relation: &Relation, batch: &Batch) -> Vec<Vec<Match>> {
        let (of_key, of_full) = known_of_deleted(table, relation);
        let views: Vec<View<'_>> = batch
            .changes
            .iter()
            .map(|change| View {
                relation,
                event: change.event(),
                row: change.row(),
                before: change.before(),
                known: match &change.row {
                    RowChange::Delete { old: Old::Key(_) } => Some(&of_key),
                    RowChange::Delete { old: Old::Full(_) } => of_full.as_deref(),
                    RowChange::Insert { .. } | RowChange::Update { .. } => None,
                },
                is_error: table.key.is_empty() && change.event() != EventKind::Delete,
            })
            .collect();
        let (mut matches, outdated) = self.parts.registry.matches(&views);
        if !outdated.is_empty() {
            self.parts.registry.gap_subscribers(&outdated);
            metrics::counter!("basalt_realtime_resyncs_total", "reason" => "definition").increment(1);
        }
        let now = Instant::now();
        for (found, xid) in matches.iter_mut().zip(&batch.transactions) {
            found.retain(|found| !found.bound.subscriber.is_younger_than(*xid, now));
        }
        matches
    }

    /// Adds the columns that PostgreSQL has not streamed; the definition with them.
    async fn with_generated(
        &self,
        table: &Table,
        relation: &Arc<Relation>,
        changes: &mut [Change],
    ) -> Result<Option<Arc<Relation>>, SessionError> {
        if self.complete().as_ref().is_some_and(|complete| Arc::ptr_eq(complete, relation)) {
            return Ok(None);
        }
        let missing = generated::missing(table, relation);
        if missing.is_empty() {
            *self.complete() = Some(Arc::clone(relation));
            return Ok(None);
        }
        generated::add(self.parts.catalog.pool(), table, relation, &missing, changes).await.map(Some)
    }

    fn complete(&self) -> MutexGuard<'_, Option<Arc<Relation>>> {
        self.complete.lock()
    }
}

/// Columns that a filter of a DELETE may look at, by place: where only the identity of the row is streamed, and where all of it is.
/// Under policies nobody knows who was allowed to see the row, so these are columns of the primary key.
fn known_of_deleted(table: &Table, relation: &Relation) -> (Vec<bool>, Option<Vec<bool>>) {
    let key = table.key_places();
    let is_key = |name: &str| table.column(name).is_some_and(|place| key.contains(&place));
    let columns = relation.columns.iter();
    let visible = columns.map(|column| !table.has_policies || is_key(&column.name)).collect::<Vec<bool>>();
    let of_key = visible.iter().zip(&relation.columns).map(|(visible, column)| *visible && column.is_key);
    (of_key.collect(), table.has_policies.then_some(visible))
}

/// Changes with their transactions, place by place.
struct Batch {
    changes: Vec<Change>,
    transactions: Vec<u32>,
    shares: Vec<MemoryShare>,
}

impl Batch {
    fn decode(items: Vec<Item>) -> Result<Self, SessionError> {
        let mut batch = Self {
            changes: Vec::with_capacity(items.len()),
            transactions: Vec::with_capacity(items.len()),
            shares: Vec::with_capacity(items.len()),
        };
        for Item { position, transaction, relation: _, message, share } in items {
            let bytes = message.len();
            match decoder::decode(message) {
                Ok(Message::Change { relation: _, change: row }) => {
                    let committed_micros = transaction.committed_micros;
                    batch.changes.push(Change { row, committed_micros, position, bytes });
                    batch.transactions.push(transaction.xid);
                    batch.shares.push(share);
                }
                Ok(_) => {}
                Err(error) => return Err(SessionError::Unavailable(error.to_string())),
            }
        }
        Ok(batch)
    }
}
