//! Plans a batch: waits until its transactions are visible, completes its rows, finds the bindings that match, and reads what the
//! roles of their subscribers may see.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::EventKind;
use super::batch::{Batch, Item};
use super::catalog::{Privileges, Table};
use super::decoder::{Old, Relation, RowChange};
use super::plan::{self, Plan};
use super::subscriptions::{ChangeView, Identity, Match, Subscriber};
use super::visibility::SessionError;
use super::worker::Worker;

impl Worker {
    /// Plans the changes; `None` if they concern no subscriber.
    pub(super) async fn plan(&self, items: Vec<Item>) -> Result<Option<Plan>, SessionError> {
        let Some(mut relation) = items.first().map(|item| Arc::clone(&item.relation)) else {
            return Ok(None);
        };
        let mut batch = Batch::decode(items)?;
        if batch.changes.is_empty() {
            return Ok(None);
        }
        self.wait_visible(&batch).await?;
        let Some(table) = self.parts.catalog.table(relation.oid).await? else { return Ok(None) };
        let completed = self
            .completion
            .complete(self.parts.catalog.pool(), &table, &relation, &mut batch.changes)
            .await?;
        if let Some(completed) = completed {
            relation = completed;
        }
        let matches = self.matches(&table, &relation, &batch);
        let matched = matches.iter().map(Vec::len).sum::<usize>();
        if matched == 0 {
            return Ok(None);
        }
        metrics::counter!("basalt_realtime_changes_matched_total").increment(matched as u64);
        let identities = identities(&matches);
        let privileges = self.privileges(&table, &identities).await?;
        let Batch { changes, shares, .. } = batch;
        let plan =
            Plan::new(plan::Parts { table, relation, changes, shares, matches, privileges, identities });
        Ok((!plan.recipients.is_empty()).then_some(plan))
    }

    /// Waits until the batch's transactions are visible, so that a client can read what it is sent and the catalog is at least as
    /// new as the changes. Done even if no filter matches: otherwise the time until the next batch would reveal whether one did.
    async fn wait_visible(&self, batch: &Batch) -> Result<(), SessionError> {
        let mut transactions = batch.transactions.clone();
        transactions.dedup();
        for xid in transactions {
            self.parts.snapshots.wait_visible(xid).await?;
        }
        Ok(())
    }

    /// The bindings that match each change, as far as text decides about their filters.
    fn matches(&self, table: &Table, relation: &Relation, batch: &Batch) -> Vec<Vec<Match>> {
        let filterable = FilterableColumns::of_deleted_rows(table, relation);
        let views: Vec<ChangeView<'_>> = batch
            .changes
            .iter()
            .map(|change| ChangeView {
                relation,
                event: change.event(),
                row: change.row(),
                before: change.before(),
                filterable: match &change.row {
                    RowChange::Delete { old: Old::Key(_) } => Some(&filterable.with_key),
                    RowChange::Delete { old: Old::Full(_) } => filterable.with_full_row.as_deref(),
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
            found.retain(|found| !found.binding.subscriber.already_sees(*xid, now));
        }
        matches
    }

    /// Column privileges of every role among the subscribers.
    async fn privileges(
        &self,
        table: &Table,
        identities: &HashMap<u64, Arc<Identity>>,
    ) -> Result<HashMap<Arc<str>, Arc<Privileges>>, SessionError> {
        let mut privileges: HashMap<Arc<str>, Arc<Privileges>> = HashMap::new();
        for identity in identities.values() {
            if !privileges.contains_key(&identity.role) {
                let of_role = self.parts.catalog.privileges(table, &identity.role).await?;
                privileges.insert(Arc::clone(&identity.role), of_role);
            }
        }
        Ok(privileges)
    }
}

/// Current identities of the matching subscribers, by number.
fn identities(matches: &[Vec<Match>]) -> HashMap<u64, Arc<Identity>> {
    let mut identities: HashMap<u64, Arc<Identity>> = HashMap::new();
    for found in matches.iter().flatten() {
        let subscriber: &Arc<Subscriber> = &found.binding.subscriber;
        identities.entry(subscriber.number()).or_insert_with(|| subscriber.identity());
    }
    identities
}

/// Columns a filter of a DELETE may use, by position in the relation. On a table with policies these are columns of the primary key
/// only, because it is unknown who could see the deleted row.
struct FilterableColumns {
    /// If only the replica identity was streamed.
    with_key: Vec<bool>,
    /// If the complete row was streamed; `None` for all columns.
    with_full_row: Option<Vec<bool>>,
}

impl FilterableColumns {
    fn of_deleted_rows(table: &Table, relation: &Relation) -> Self {
        let key = table.key_positions();
        let is_key = |name: &str| table.column(name).is_some_and(|position| key.contains(&position));
        let columns = relation.columns.iter();
        let visible =
            columns.map(|column| !table.has_policies || is_key(&column.name)).collect::<Vec<bool>>();
        let with_key =
            visible.iter().zip(&relation.columns).map(|(visible, column)| *visible && column.is_key);
        Self { with_key: with_key.collect(), with_full_row: table.has_policies.then_some(visible) }
    }
}
