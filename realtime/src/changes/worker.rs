//! The changes of one table, in batches: matched, judged, encoded and delivered in order.
//!
//! A subscriber whose policies fail or take too long is a suspect: its changes go on a slow lane of its own, so that the other
//! subscribers of the table do not wait for it. The slow lane is bounded; what does not fit is a gap for the suspects.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::catalog::{Catalog, Rights, Table};
use super::decoder::{self, Begin, Message, Relation, Value};
use super::filter::Test;
use super::generated;
use super::payload::{self, Change, Layout};
use super::router::Share;
use super::subscriptions::{Bound, Identity, Match, Registry, Subscriber, View};
use super::visibility::{self, Judge, SessionError};
use super::{EncodedChange, EventKind};

/// Changes of one batch.
const BATCH: usize = 256;
/// Batches that wait on the slow lane.
const SLOW_BATCHES: usize = 16;
/// How long a suspect is one.
const SUSPICION: Duration = Duration::from_secs(60);

const NO_KEY: &str = "Error 400: Bad Request, no primary key";
const UNAUTHORIZED: &str = "Error 401: Unauthorized";

/// A row change as it came.
pub(super) struct Item {
    pub(super) transaction: Begin,
    pub(super) relation: Arc<Relation>,
    pub(super) message: Bytes,
    pub(super) share: Share,
}

/// What workers work with.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) registry: Arc<Registry>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) judge: Arc<Judge>,
}

/// Subscribers whose policies failed, by the address of their claims, which the value keeps.
type Suspects = Arc<Mutex<HashMap<usize, (Arc<Identity>, Instant)>>>;

/// One change to one subscriber.
struct Delivery {
    subscriber: Arc<Subscriber>,
    identity: Arc<Identity>,
    ids: Vec<u64>,
    /// Which columns, by place among the masks.
    mask: usize,
    told: Told,
}

enum Told {
    /// It may see the row in any case.
    Change,
    /// It does if it may see the row with this key.
    IfVisible(usize),
    /// Why it is not told more.
    Error(&'static str),
}

/// A batch that is ready to be judged.
struct Plan {
    table: Arc<Table>,
    relation: Arc<Relation>,
    changes: Vec<Change>,
    deliveries: Vec<Vec<Delivery>>,
    masks: Vec<Vec<bool>>,
    keys: Vec<Vec<String>>,
    _shares: Vec<Share>,
}

/// Works until the sender is gone.
pub(super) async fn run(parts: Parts, mut items: mpsc::UnboundedReceiver<Item>) {
    let (slow, slow_jobs) = mpsc::channel(SLOW_BATCHES);
    let worker = Worker { parts, suspects: Suspects::default(), whole: Mutex::default() };
    let fast = async {
        let mut next = None;
        loop {
            let first = match next.take() {
                Some(item) => Some(item),
                None => items.recv().await,
            };
            let Some(first) = first else { break };
            let mut batch = vec![first];
            while batch.len() < BATCH {
                let Ok(item) = items.try_recv() else { break };
                if batch.first().is_some_and(|first| !Arc::ptr_eq(&first.relation, &item.relation)) {
                    next = Some(item);
                    break;
                }
                batch.push(item);
            }
            worker.work(batch, &slow).await;
        }
        drop(slow);
    };
    tokio::join!(fast, worker.work_slowly(slow_jobs));
}

struct Worker {
    parts: Parts,
    suspects: Suspects,
    /// The definition that was found to have all columns. Held to read or replace it only.
    whole: Mutex<Option<Arc<Relation>>>,
}

impl Worker {
    async fn work(&self, items: Vec<Item>, slow: &mpsc::Sender<Arc<Plan>>) {
        let Some(relation) = items.first().map(|item| Arc::clone(&item.relation)) else { return };
        metrics::counter!("basalt_realtime_change_batches_total").increment(1);
        metrics::counter!("basalt_realtime_changes_batched_total").increment(items.len() as u64);
        let plan = match self.plan(&relation, items).await {
            Ok(Some(plan)) => Arc::new(plan),
            Ok(None) => return,
            Err(error) => return self.lose(&relation, &error),
        };
        let suspects = self.suspects(slow);
        if !suspects.is_empty() {
            let concerns = |delivery: &Delivery| suspects.contains(&Arc::as_ptr(&delivery.identity).addr());
            if plan.deliveries.iter().flatten().any(concerns) && slow.try_send(Arc::clone(&plan)).is_err() {
                let behind: Vec<_> =
                    plan.deliveries.iter().flatten().filter(|delivery| concerns(delivery)).collect();
                let behind: Vec<_> = behind.iter().map(|delivery| Arc::clone(&delivery.subscriber)).collect();
                self.parts.registry.gap_subscribers(&behind);
                metrics::counter!("basalt_realtime_resyncs_total", "reason" => "policy").increment(1);
            }
        }
        let is_mine = |identity: &Arc<Identity>| !suspects.contains(&Arc::as_ptr(identity).addr());
        if let Err(error) = self.finish(&plan, &is_mine).await {
            self.lose(&relation, &error);
        }
    }

    /// The slow lane.
    async fn work_slowly(&self, mut plans: mpsc::Receiver<Arc<Plan>>) {
        while let Some(plan) = plans.recv().await {
            let suspects: HashSet<usize> = self.suspicion().keys().copied().collect();
            let is_mine = |identity: &Arc<Identity>| suspects.contains(&Arc::as_ptr(identity).addr());
            if self.finish(&plan, &is_mine).await.is_err() {
                let lost = plan.deliveries.iter().flatten().filter(|delivery| is_mine(&delivery.identity));
                let lost: Vec<_> = lost.map(|delivery| Arc::clone(&delivery.subscriber)).collect();
                self.parts.registry.gap_subscribers(&lost);
                metrics::counter!("basalt_realtime_resyncs_total", "reason" => "policy").increment(1);
            }
        }
    }

    fn suspicion(&self) -> std::sync::MutexGuard<'_, HashMap<usize, (Arc<Identity>, Instant)>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those who are suspects now. Nobody is acquitted while the slow lane has work: order would be lost.
    fn suspects(&self, slow: &mpsc::Sender<Arc<Plan>>) -> HashSet<usize> {
        let mut suspects = self.suspicion();
        if slow.capacity() == slow.max_capacity() {
            suspects.retain(|_, (_, since)| since.elapsed() < SUSPICION);
        }
        suspects.keys().copied().collect()
    }

    /// The changes of the batch could not be judged: all who listen to the table come again.
    fn lose(&self, relation: &Relation, error: &SessionError) {
        let ended = self.parts.registry.gap_table(&relation.schema, &relation.name);
        metrics::counter!("basalt_realtime_resyncs_total", "reason" => "database").increment(1);
        tracing::info!(
            %error,
            "changes of {}.{} could not be judged; {ended} channels join again",
            relation.schema,
            relation.name
        );
    }

    /// Who may be told of what; `None` when nobody is.
    async fn plan(&self, relation: &Arc<Relation>, items: Vec<Item>) -> Result<Option<Plan>, SessionError> {
        let (mut changes, mut shares) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        let mut transactions = Vec::new();
        for item in items {
            let bytes = item.message.len();
            match decoder::decode(item.message) {
                Ok(Message::Change { relation: _, change: row }) => {
                    let committed_micros = item.transaction.committed_micros;
                    changes.push(Change { row, committed_micros, bytes });
                    shares.push(item.share);
                    transactions.push(item.transaction.xid);
                }
                Ok(_) => {}
                Err(error) => return Err(SessionError::Unavailable(error.to_string())),
            }
        }
        let whole = self.with_generated(relation, &mut changes, &transactions).await?;
        let relation = whole.as_ref().unwrap_or(relation);
        let views: Vec<View<'_>> = changes
            .iter()
            .map(|change| View {
                relation,
                event: change.event(),
                row: change.row(),
                before: change.before(),
                is_key_only: change.is_key_only(),
            })
            .collect();
        let (mut matches, outdated) = self.parts.registry.matches(&views);
        if !outdated.is_empty() {
            self.parts.registry.gap_subscribers(&outdated);
            metrics::counter!("basalt_realtime_resyncs_total", "reason" => "definition").increment(1);
        }
        let now = Instant::now();
        for (found, xid) in matches.iter_mut().zip(&transactions) {
            found.retain(|found| !found.bound.subscriber.is_younger_than(*xid, now));
        }
        if matches.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        // What is told can be read by then, and the catalog is at least as new as the changes.
        transactions.dedup();
        for xid in transactions {
            self.parts.judge.wait_visible(xid).await?;
        }
        let Some(table) = self.parts.catalog.table(relation.oid).await? else { return Ok(None) };
        self.ask_conditions(&views, &mut matches).await?;
        drop(views);
        let matched = matches.iter().map(Vec::len).sum::<usize>();
        metrics::counter!("basalt_realtime_changes_matched_total").increment(matched as u64);
        let plan = Plan {
            table,
            relation: Arc::clone(relation),
            changes,
            deliveries: Vec::new(),
            masks: Vec::new(),
            keys: Vec::new(),
            _shares: shares,
        };
        self.address(plan, matches).await.map(Some)
    }

    /// Adds the columns that PostgreSQL has not streamed; the definition with them.
    async fn with_generated(
        &self,
        relation: &Arc<Relation>,
        changes: &mut [Change],
        transactions: &[u32],
    ) -> Result<Option<Arc<Relation>>, SessionError> {
        let Parts { catalog, judge, .. } = &self.parts;
        if self.whole().as_ref().is_some_and(|whole| Arc::ptr_eq(whole, relation)) {
            return Ok(None);
        }
        // The catalog must be at least as new as the changes, here as well.
        for xid in transactions {
            judge.wait_visible(*xid).await?;
        }
        let Some(table) = catalog.table(relation.oid).await? else { return Ok(None) };
        let missing = generated::missing(&table, relation);
        if missing.is_empty() {
            *self.whole() = Some(Arc::clone(relation));
            return Ok(None);
        }
        generated::add(catalog.pool(), &table, relation, &missing, changes).await.map(Some)
    }

    fn whole(&self) -> std::sync::MutexGuard<'_, Option<Arc<Relation>>> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has PostgreSQL judge the conditions that text alone does not decide, and drops the matches that fail.
    async fn ask_conditions(
        &self,
        views: &[View<'_>],
        matches: &mut [Vec<Match>],
    ) -> Result<(), SessionError> {
        if matches.iter().flatten().all(|found| found.asks.is_empty()) {
            return Ok(());
        }
        // One statement for each condition of a role; equal conditions of many subscribers are one.
        let mut questions: Vec<(Arc<str>, Test, Vec<usize>)> = Vec::new();
        let mut refusals: HashMap<usize, String> = HashMap::new();
        let question_of = |questions: &[(Arc<str>, Test, Vec<usize>)], role: &Arc<str>, test: &Test| {
            questions.iter().position(|(known, other, _)| known == role && other == test)
        };
        for (change, found) in matches.iter().enumerate() {
            for found in found {
                let role = Arc::clone(&found.bound.subscriber.identity().role);
                for test in found.asks.iter().filter_map(|ask| found.bound.tests.get(*ask)) {
                    match question_of(&questions, &role, test).and_then(|at| questions.get_mut(at)) {
                        Some((_, _, changes)) if changes.last() != Some(&change) => changes.push(change),
                        Some(_) => {}
                        None => questions.push((Arc::clone(&role), test.clone(), vec![change])),
                    }
                }
            }
        }
        let mut passing: HashSet<(usize, usize)> = HashSet::new();
        for (number, (role, test, changes)) in questions.iter().enumerate() {
            let value = |change: &usize| {
                let view = views.get(*change)?;
                let place = view.relation.columns.iter().position(|column| column.name == *test.column)?;
                view.value(place)?
            };
            let valued: Vec<(usize, &str)> =
                changes.iter().filter_map(|change| Some((*change, value(change)?))).collect();
            let values: Vec<&str> = valued.iter().map(|(_, value)| *value).collect();
            match self.parts.judge.passing(role, test, &values).await {
                Ok(places) => {
                    passing.extend(places.iter().filter_map(|place| Some((number, valued.get(*place)?.0))));
                }
                Err(SessionError::Postgres(error)) if !error.is_fatal && !error.is_unavailable() => {
                    refusals.insert(number, error.message.clone());
                }
                Err(error) => return Err(error),
            }
        }
        for (change, found) in matches.iter_mut().enumerate() {
            found.retain(|found| {
                let role = Arc::clone(&found.bound.subscriber.identity().role);
                found.asks.iter().filter_map(|ask| found.bound.tests.get(*ask)).all(|test| {
                    let Some(number) = question_of(&questions, &role, test) else { return false };
                    if let Some(message) = refusals.get(&number) {
                        found.bound.subscriber.sink.failed(message);
                    }
                    passing.contains(&(number, change))
                })
            });
        }
        Ok(())
    }

    /// Who gets which columns of which change, and on what condition.
    async fn address(&self, mut plan: Plan, matches: Vec<Vec<Match>>) -> Result<Plan, SessionError> {
        let mut rights: HashMap<Arc<str>, Arc<Rights>> = HashMap::new();
        let mut masks: HashMap<(Arc<str>, Option<usize>), usize> = HashMap::new();
        let mut keys: HashMap<Vec<String>, usize> = HashMap::new();
        let table = Arc::clone(&plan.table);
        for (number, found) in matches.into_iter().enumerate() {
            let mut deliveries: Vec<Delivery> = Vec::with_capacity(found.len());
            let mut key = None;
            for Match { bound, .. } in found {
                let identity = bound.subscriber.identity();
                let readable = match rights.get(&identity.role) {
                    Some(rights) => Arc::clone(rights),
                    None => {
                        let read = self.parts.catalog.rights(&table, &identity.role).await?;
                        rights.insert(Arc::clone(&identity.role), Arc::clone(&read));
                        read
                    }
                };
                // A new token may have brought another role.
                if !may_test(&bound, &table, &readable) {
                    continue;
                }
                let select = bound.select.as_ref();
                let selected = select.map(|select| select.as_ptr().addr());
                let mask = *masks.entry((Arc::clone(&identity.role), selected)).or_insert_with(|| {
                    plan.masks.push(mask(&table, &readable, select.map(|select| &**select)));
                    plan.masks.len() - 1
                });
                let Some(change) = plan.changes.get(number) else { continue };
                let told = told(&table, &readable, change, || {
                    *key.get_or_insert_with(|| {
                        let values = key_of(&table, &plan.relation, change)?;
                        let next = keys.len();
                        Some(*keys.entry(values).or_insert(next))
                    })
                });
                let Some(told) = told else { continue };
                match deliveries.last_mut() {
                    Some(last)
                        if last.subscriber.number() == bound.subscriber.number() && last.mask == mask =>
                    {
                        last.ids.push(bound.id);
                    }
                    _ => deliveries.push(Delivery {
                        subscriber: Arc::clone(&bound.subscriber),
                        identity,
                        ids: vec![bound.id],
                        mask,
                        told,
                    }),
                }
            }
            plan.deliveries.push(deliveries);
        }
        let mut ordered: Vec<(Vec<String>, usize)> = keys.into_iter().collect();
        ordered.sort_by_key(|(_, place)| *place);
        plan.keys = ordered.into_iter().map(|(key, _)| key).collect();
        Ok(plan)
    }

    /// Judges the part of the batch that `is_mine` names, and delivers it.
    async fn finish(
        &self,
        plan: &Plan,
        is_mine: &(dyn Fn(&Arc<Identity>) -> bool + Sync),
    ) -> Result<(), SessionError> {
        let asked = plan.deliveries.iter().flatten().filter(|delivery| is_mine(&delivery.identity));
        let asked = asked.filter_map(|delivery| match delivery.told {
            Told::IfVisible(key) => Some((&delivery.identity, key)),
            Told::Change | Told::Error(_) => None,
        });
        let mut visible: HashSet<(usize, usize)> = HashSet::new();
        let roles = visibility::by_role(asked);
        let groups = roles.iter().map(|(role, questions)| async move {
            let answers = self.parts.judge.visible(&plan.table, &plan.keys, role, questions).await?;
            Ok::<_, SessionError>((questions, answers))
        });
        for group in futures_util::future::join_all(groups).await {
            let (questions, answers) = group?;
            for (question, answer) in questions.iter().zip(answers) {
                let who = Arc::as_ptr(&question.identity).addr();
                visible.extend(answer.visible.into_iter().map(|key| (who, key)));
                if let Some(failure) = answer.failure {
                    self.suspect(plan, &question.identity, &failure.message);
                }
            }
        }
        self.deliver(plan, is_mine, &visible);
        Ok(())
    }

    fn deliver(
        &self,
        plan: &Plan,
        is_mine: &(dyn Fn(&Arc<Identity>) -> bool + Sync),
        visible: &HashSet<(usize, usize)>,
    ) {
        let layout = Layout::new(&plan.table, &plan.relation);
        let mut delivered = 0_u64;
        for (change, deliveries) in plan.changes.iter().zip(&plan.deliveries) {
            let mut encoded: Vec<Option<EncodedChange>> = vec![None; plan.masks.len()];
            for delivery in deliveries.iter().filter(|delivery| is_mine(&delivery.identity)) {
                let who = Arc::as_ptr(&delivery.identity).addr();
                match delivery.told {
                    Told::IfVisible(key) if !visible.contains(&(who, key)) => continue,
                    Told::IfVisible(_) | Told::Change => {
                        let (Some(slot), Some(mask)) =
                            (encoded.get_mut(delivery.mask), plan.masks.get(delivery.mask))
                        else {
                            continue;
                        };
                        let change = slot.get_or_insert_with(|| payload::encode(change, &layout, mask));
                        delivery.subscriber.sink.change(change, &delivery.ids);
                    }
                    Told::Error(error) => {
                        let change = payload::encode_error(change, &layout, error);
                        delivery.subscriber.sink.change(&change, &delivery.ids);
                    }
                }
                delivered += 1;
            }
        }
        metrics::counter!("basalt_realtime_changes_delivered_total").increment(delivered);
    }

    /// A policy failed for these claims: those who have them are told, once in a while.
    fn suspect(&self, plan: &Plan, identity: &Arc<Identity>, message: &str) {
        let address = Arc::as_ptr(identity).addr();
        let is_new = {
            let mut suspects = self.suspicion();
            let is_new = suspects.get(&address).is_none_or(|(_, since)| since.elapsed() > SUSPICION);
            if is_new {
                suspects.insert(address, (Arc::clone(identity), Instant::now()));
            }
            is_new
        };
        if !is_new {
            return;
        }
        let Plan { relation, .. } = plan;
        tracing::info!(
            role = %identity.role,
            error = message,
            "a policy of {}.{} failed while a change was judged",
            relation.schema,
            relation.name
        );
        let text = format!("Changes of {}.{} cannot be judged: {message}", relation.schema, relation.name);
        let mut told = HashSet::new();
        for delivery in plan.deliveries.iter().flatten() {
            if Arc::ptr_eq(&delivery.identity, identity) && told.insert(delivery.subscriber.number()) {
                delivery.subscriber.sink.failed(&text);
            }
        }
    }
}

/// A condition tells about its column: who may not read the column has none on it.
fn may_test(bound: &Bound, table: &Table, rights: &Rights) -> bool {
    bound.tests.iter().all(|test| {
        let column = table.column(&test.column);
        column.is_some_and(|column| rights.columns.get(column).copied().unwrap_or_default())
    })
}

/// Columns that are selected, the key among them in any case, and readable.
fn mask(table: &Table, rights: &Rights, select: Option<&[String]>) -> Vec<bool> {
    let keys = table.key_places();
    let selected = |place: usize, name: &String| {
        select.is_none_or(|select| select.contains(name)) || keys.contains(&place)
    };
    let columns = table.columns.iter().enumerate().zip(&rights.columns);
    columns.map(|((place, column), is_readable)| *is_readable && selected(place, &column.name)).collect()
}

/// On what condition a change is told; `None` when its row cannot be named.
fn told(
    table: &Table,
    rights: &Rights,
    change: &Change,
    key: impl FnOnce() -> Option<usize>,
) -> Option<Told> {
    if change.event() == EventKind::Delete {
        return Some(Told::Change);
    }
    if table.key.is_empty() {
        return Some(Told::Error(NO_KEY));
    }
    if !table.key.iter().all(|place| rights.columns.get(*place).copied().unwrap_or_default()) {
        return Some(Told::Error(UNAUTHORIZED));
    }
    if !table.has_policies {
        return Some(Told::Change);
    }
    key().map(Told::IfVisible)
}

/// The key of a new row.
pub(super) fn key_of(table: &Table, relation: &Relation, change: &Change) -> Option<Vec<String>> {
    let text = |place: &usize| {
        let column = table.columns.get(*place)?;
        let place = relation.columns.iter().position(|known| known.name == column.name)?;
        match change.row().get(place)? {
            Value::Unchanged => change.before()?.get(place)?.text().map(str::to_owned),
            value @ (Value::Null | Value::Text(_)) => value.text().map(str::to_owned),
        }
    };
    table.key.iter().map(text).collect()
}
