//! Plans a batch: waits until its transactions are visible, completes its rows, finds the bindings that match, and reads what the
//! roles of their subscribers may see.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::EventKind;
use super::batch::{Batch, Item};
use super::catalog::{Privileges, Table};
use super::decoder::{Old, Relation, RowChange};
use super::identity::Identity;
use super::payload::Change;
use super::plan::{self, Plan};
use super::policies::{BoundPolicies, RolePolicies, Row, SubselectResults, Visibility};
use super::subscriptions::{BySubscriber, ChangeView, Match, Subscriber};
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
        // Policies are judged for all subscribers; without them only those that match are needed.
        let mut identities = if table.has_policies {
            self.parts.registry.identities(&relation.schema, &relation.name)
        } else {
            BySubscriber::default()
        };
        let matches = {
            let filterable = FilterableColumns::of_deleted_rows(&table, &relation);
            let views = change_views(&table, &relation, &batch, &filterable);
            let judge = self.judge(&table, &views, &identities).await;
            let matches = self.matches(&batch, &judge);
            judge.count_decisions();
            matches
        };
        let matched = matches.iter().map(Vec::len).sum::<usize>();
        if matched == 0 {
            return Ok(None);
        }
        metrics::counter!("basalt_realtime_changes_matched_total").increment(matched as u64);
        // Without policies all; else those that have joined meanwhile.
        for found in matches.iter().flatten() {
            let subscriber = &found.binding.subscriber;
            identities.entry(subscriber.number()).or_insert_with(|| subscriber.identity());
        }
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
    fn matches(&self, batch: &Batch, judge: &Judge<'_>) -> Vec<Vec<Match>> {
        let views = judge.views;

        let judge = |subscriber: &Subscriber, number: usize| judge.judge(subscriber, number);
        let (mut matches, outdated) = self.parts.registry.matches(views, judge);
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

    /// Judges by the policies of the subscribers' roles. They are read again for every batch, because nothing
    /// announces all changes of what they depend on. Without a result PostgreSQL evaluates them.
    async fn judge<'a>(
        &self,
        table: &Table,
        views: &'a [ChangeView<'a>],
        identities: &'a BySubscriber<Arc<Identity>>,
    ) -> Judge<'a> {
        let has_policies = table.has_policies;
        let mut judge = Judge {
            views,
            roles: HashMap::new(),
            identities,
            bound: BySubscriber::default(),
            has_policies,
            decided: Cell::default(),
            undecided: Cell::default(),
        };
        let has_new_rows = views.iter().any(|view| view.event != EventKind::Delete);
        if !table.has_policies || table.key.is_empty() || !has_new_rows {
            return judge;
        }
        let roles: HashSet<&Arc<str>> = identities.values().map(|identity| &identity.role).collect();
        let read = roles.into_iter().map(async |role| {
            let policies = self.policies(table, role).await?;
            let is_applicable = views.first().is_some_and(|view| policies.applies_to(view.relation));
            is_applicable.then(|| (Arc::clone(role), policies))
        });
        for (role, policies) in join_all(read).await.into_iter().flatten() {
            let of_role = identities.iter().filter(|(_, identity)| identity.role == role);
            let bound =
                of_role.map(|(number, identity)| (*number, policies.bind(identity, identities.len())));
            let bound: BySubscriber<Arc<BoundPolicies>> = bound.collect();
            let rows: Vec<Row<'a>> = views
                .iter()
                .map(|view| policies.row(view.relation, |position| view.new_value(position)))
                .collect();
            let results = policies.find(self.parts.catalog.pool(), &rows, bound.values()).await;
            judge.bound.extend(bound);
            judge.roles.insert(role, (rows, results));
        }
        judge
    }

    /// The policies of a role, compiled again if they have changed.
    async fn policies(&self, table: &Table, role: &Arc<str>) -> Option<Arc<RolePolicies>> {
        let known = self.policies.lock().get(role).map(Arc::clone);
        if let Some(known) = known.filter(|known| known.are_left_to_postgres()) {
            return Some(known);
        }
        let text = match self.parts.evaluator.read_policies(role, table.oid).await {
            Ok(text) => text?,
            Err(error) => {
                tracing::debug!(%error, "could not read the policies of {}.{}", table.schema, table.name);
                return None;
            }
        };
        let mut known = self.policies.lock();
        if let Some(policies) = known.get(role)
            && policies.is_supported()
            && policies.is_compiled_from(&text)
        {
            return Some(Arc::clone(policies));
        }
        let policies = Arc::new(RolePolicies::compile(table.oid, text));
        known.insert(Arc::clone(role), Arc::clone(&policies));
        Some(policies)
    }

    /// Column privileges of every role among the subscribers.
    async fn privileges(
        &self,
        table: &Table,
        identities: &BySubscriber<Arc<Identity>>,
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

/// Judges the changes of a batch by the policies of the subscribers' roles.
struct Judge<'a> {
    views: &'a [ChangeView<'a>],
    /// By role: the values that its policies read from each change, and what their sub-selects find.
    roles: HashMap<Arc<str>, (Vec<Row<'a>>, SubselectResults)>,
    identities: &'a BySubscriber<Arc<Identity>>,
    /// By subscriber.
    bound: BySubscriber<Arc<BoundPolicies>>,
    has_policies: bool,
    /// Decisions made here and left to PostgreSQL.
    decided: Cell<u64>,
    undecided: Cell<u64>,
}

impl Judge<'_> {
    fn judge(&self, subscriber: &Subscriber, number: usize) -> Visibility {
        if !self.has_policies || self.views.get(number).is_none_or(|view| view.event == EventKind::Delete) {
            return Visibility::Unknown;
        }
        let judge = || {
            let bound = self.bound.get(&subscriber.number())?;
            let (rows, results) = self.roles.get(&self.identities.get(&subscriber.number())?.role)?;
            Some(bound.judge(number, rows.get(number)?, results))
        };
        let visibility = judge().unwrap_or(Visibility::Unknown);
        let count = if visibility == Visibility::Unknown { &self.undecided } else { &self.decided };
        count.set(count.get() + 1);
        visibility
    }

    fn count_decisions(&self) {
        for (by, count) in [("server", &self.decided), ("postgres", &self.undecided)] {
            if count.get() > 0 {
                metrics::counter!("basalt_realtime_visibility_decisions_total", "by" => by)
                    .increment(count.get());
            }
        }
    }
}

/// The changes, as matching sees them.
fn change_views<'a>(
    table: &Table,
    relation: &'a Relation,
    batch: &'a Batch,
    filterable: &'a FilterableColumns,
) -> Vec<ChangeView<'a>> {
    let view = |change: &'a Change| ChangeView {
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
    };
    batch.changes.iter().map(view).collect()
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
