//! The worker of one table: plans batches in order (`planning.rs`), then evaluates them (`evaluate.rs`); [`super::order`] releases
//! the results.
//!
//! The next batch is planned while the previous one is evaluated, as long as that one uses a single connection: with many
//! subscribers to check, larger batches cost PostgreSQL less.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use basalt_core::memory::ByteBudget;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::catalog::Catalog;
use super::decoder::Relation;
use super::generated::Completion;
use super::order::{Sequencer, TableQueue};
use super::policies::RolePolicies;
use super::slow_lanes::SlowLanes;
use super::snapshots::Snapshots;
use super::subscriptions::Registry;
use super::visibility::{Evaluator, SessionError};

/// Dependencies shared by the workers of all tables.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) registry: Arc<Registry>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) evaluator: Arc<Evaluator>,
    pub(super) sequencer: Arc<Sequencer>,
    /// Budget of batches in slow lanes.
    pub(super) slow_memory: ByteBudget,
    pub(super) tracker: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

pub(super) struct Worker {
    pub(super) parts: Parts,
    pub(super) slow_lanes: SlowLanes,
    pub(super) completion: Completion,
    /// By role. Held briefly, never across an await.
    pub(super) policies: Mutex<HashMap<Arc<str>, Arc<RolePolicies>>>,
    /// Transactions that currently evaluate batches.
    transactions: AtomicUsize,
}

/// Processes the queue until it is closed and empty.
pub(super) async fn run(parts: Parts, queue: Arc<TableQueue>) {
    let worker = Arc::new(Worker {
        parts,
        slow_lanes: SlowLanes::default(),
        completion: Completion::default(),
        policies: Mutex::default(),
        transactions: AtomicUsize::new(0),
    });
    let mut evaluations = JoinSet::new();
    while let Some(items) = worker.parts.sequencer.next(&queue).await {
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
                let work = worker.partition(&plan);
                worker.transactions.fetch_add(work.transactions(), Ordering::Relaxed);
                let (worker, tracker) = (Arc::clone(&worker), &worker.parts.tracker);
                evaluations.spawn(tracker.track_future(async move {
                    let transactions = work.transactions();
                    worker.evaluate(&plan, work).await;
                    worker.transactions.fetch_sub(transactions, Ordering::Relaxed);
                }));
            }
            Ok(None) => {}
            Err(error) => worker.resync_table(relation.as_deref(), &error),
        }
        while worker.transactions.load(Ordering::Relaxed) > 1 && evaluations.join_next().await.is_some() {}
        while evaluations.try_join_next().is_some() {}
    }
    while evaluations.join_next().await.is_some() {}
    worker.parts.sequencer.remove_queue(&queue);
}

impl Worker {
    /// Makes the table's subscribers rejoin because a batch could not be planned.
    fn resync_table(&self, relation: Option<&Relation>, error: &SessionError) {
        let Some(relation) = relation else { return };
        let ended = self.parts.registry.gap_table(&relation.schema, &relation.name);
        metrics::counter!("basalt_realtime_resyncs_total", "reason" => "database").increment(1);
        tracing::info!(
            %error,
            "changes of {}.{} could not be evaluated; {ended} channels will rejoin",
            relation.schema,
            relation.name
        );
    }
}
