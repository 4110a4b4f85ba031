//! Registry of subscriptions. It is searched for every change, so bindings are indexed by table, and those
//! with an equality filter also by its value.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use basalt_core::claims::Claims;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::Instant;

use super::decoder::{Relation, Tuple, Value};
use super::filter::{Operand, Operator, Test, Verdict};
use super::order::Outbox;
use super::snapshots::{SNAPSHOT_AGE, Snapshot};
use super::{ChangeSink, EventKind};

/// Claims that decide what a subscriber sees. Equal claims share one instance, so that policies are
/// evaluated once for them.
#[derive(Debug)]
pub(super) struct Identity {
    /// As the token has them.
    pub(super) claims: Arc<Claims>,
    pub(super) role: Arc<str>,
    /// Role and `sub`; all tokens of a user share a time budget.
    user: Option<Arc<str>>,
}

impl Identity {
    fn new(claims: &Arc<Claims>) -> Self {
        let role = claims.role().unwrap_or_default();
        let user = claims.sub().map(|sub| format!("user {role} {sub}").into());
        Self { claims: Arc::clone(claims), role: role.into(), user }
    }

    /// Key of the time budget for policies.
    pub(super) fn account(&self) -> Arc<str> {
        self.user.clone().unwrap_or_else(|| self.claims.as_text().into())
    }
}

/// A channel's subscription.
pub(super) struct Subscriber {
    number: u64,
    pub(super) sink: Arc<dyn ChangeSink>,
    /// Held to read or replace it only.
    identity: Mutex<Arc<Identity>>,
    bindings: Vec<IndexKey>,
    visitor: Arc<str>,
    /// Locked while changes are sent, to keep their order; never across an await.
    outbox: Mutex<Outbox>,
    /// When it subscribed, with the transactions finished by then: their changes are not delivered, because
    /// the client can read them.
    since: (Instant, Arc<Snapshot>),
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscriber({})", self.number)
    }
}

impl Subscriber {
    pub(super) fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.identity.lock())
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock()
    }

    /// Whether a binding covers this table.
    pub(super) fn watches(&self, schema: &str, table: &str) -> bool {
        self.bindings.iter().any(|place| match &place.scope {
            Target::Table(known_schema, known) => **known_schema == *schema && **known == *table,
            Target::Schema(known) => **known == *schema,
            Target::All => true,
        })
    }

    /// Key of the time budget for filters: the user, or the visitor if there is no user.
    pub(super) fn account(&self, identity: &Identity) -> Arc<str> {
        identity.user.as_ref().map_or_else(|| Arc::clone(&self.visitor), Arc::clone)
    }

    /// Whether a transaction was over when it subscribed. `now` is passed in, because it is asked for each change.
    pub(super) fn is_younger_than(&self, xid: u32, now: Instant) -> bool {
        let (at, snapshot) = &self.since;
        now.duration_since(*at) < SNAPSHOT_AGE && snapshot.has(xid)
    }
}

/// Position of a binding in the index.
#[derive(Clone, Debug)]
struct IndexKey {
    scope: Target,
    /// Column and value of an equality condition.
    value: Option<(Arc<str>, Arc<str>)>,
}

/// The tables a binding covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// One table: schema and name.
    Table(Arc<str>, Arc<str>),
    /// All published tables of a schema.
    Schema(Arc<str>),
    /// All published tables.
    All,
}

/// A validated binding.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) id: u64,
    pub(super) event: EventKind,
    pub(super) target: Target,
    pub(super) tests: Vec<Test>,
    /// Selected columns; `None` for all.
    pub(super) select: Option<Arc<[String]>>,
}

/// A registered binding.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) id: u64,
    pub(super) event: EventKind,
    pub(super) tests: Vec<Test>,
    pub(super) select: Option<Arc<[String]>>,
    pub(super) subscriber: Arc<Subscriber>,
}

type Bindings = HashMap<(u64, usize), Arc<Bound>>;

/// The bindings of one target.
#[derive(Default)]
struct Index {
    plain: Bindings,
    by_value: HashMap<Arc<str>, HashMap<Arc<str>, Bindings>>,
}

impl Index {
    fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.by_value.is_empty()
    }

    fn insert(&mut self, at: (u64, usize), value: Option<&(Arc<str>, Arc<str>)>, bound: Arc<Bound>) {
        let bindings = match value {
            None => &mut self.plain,
            Some((column, value)) => {
                let values = self.by_value.entry(Arc::clone(column)).or_default();
                values.entry(Arc::clone(value)).or_default()
            }
        };
        bindings.insert(at, bound);
    }

    fn remove(&mut self, at: (u64, usize), value: Option<&(Arc<str>, Arc<str>)>) {
        let Some((column, value)) = value else {
            self.plain.remove(&at);
            return;
        };
        let Some(values) = self.by_value.get_mut(column) else { return };
        if let Some(bindings) = values.get_mut(value) {
            bindings.remove(&at);
            if bindings.is_empty() {
                values.remove(value);
            }
        }
        if values.is_empty() {
            self.by_value.remove(column);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Bound>> {
        let valued = self.by_value.values().flat_map(HashMap::values).flat_map(HashMap::values);
        self.plain.values().chain(valued)
    }
}

#[derive(Default)]
struct Inner {
    tables: HashMap<Arc<str>, HashMap<Arc<str>, Index>>,
    schemas: HashMap<Arc<str>, Index>,
    all: Index,
    subscribers: HashMap<u64, Arc<Subscriber>>,
    identities: HashMap<String, Weak<Identity>>,
}

impl Inner {
    fn index(&mut self, target: &Target) -> &mut Index {
        match target {
            Target::Table(schema, table) => {
                self.tables.entry(Arc::clone(schema)).or_default().entry(Arc::clone(table)).or_default()
            }
            Target::Schema(schema) => self.schemas.entry(Arc::clone(schema)).or_default(),
            Target::All => &mut self.all,
        }
    }

    /// The indexes that may contain bindings for a table.
    fn indexes(&self, schema: &str, table: &str) -> impl Iterator<Item = &Index> {
        let exact = self.tables.get(schema).and_then(|tables| tables.get(table));
        exact.into_iter().chain(self.schemas.get(schema)).chain((!self.all.is_empty()).then_some(&self.all))
    }

    fn remove(&mut self, subscriber: &Subscriber) -> bool {
        if self.subscribers.remove(&subscriber.number).is_none() {
            return false;
        }
        for (place, IndexKey { scope, value }) in subscriber.bindings.iter().enumerate() {
            let index = self.index(scope);
            index.remove((subscriber.number, place), value.as_ref());
            if !index.is_empty() {
                continue;
            }
            match scope {
                Target::Table(schema, table) => {
                    if let Some(tables) = self.tables.get_mut(schema) {
                        tables.remove(table);
                        if tables.is_empty() {
                            self.tables.remove(schema);
                        }
                    }
                }
                Target::Schema(schema) => {
                    self.schemas.remove(schema);
                }
                Target::All => {}
            }
        }
        true
    }

    fn intern(&mut self, claims: &Arc<Claims>) -> Arc<Identity> {
        if let Some(known) = self.identities.get(claims.as_text()).and_then(Weak::upgrade) {
            return known;
        }
        // Clean up once dead entries may outnumber live ones.
        if self.identities.len() > 2 * self.subscribers.len() + 64 {
            self.identities.retain(|_, identity| identity.strong_count() > 0);
        }
        let identity = Arc::new(Identity::new(claims));
        self.identities.insert(claims.as_text().to_owned(), Arc::downgrade(&identity));
        identity
    }
}

/// A binding that matches a change, except for conditions still to be evaluated.
pub(super) struct Match {
    pub(super) bound: Arc<Bound>,
    /// Places of the conditions that PostgreSQL has to judge.
    pub(super) asks: Vec<usize>,
}

/// What a change looks like from outside.
pub(super) struct View<'a> {
    pub(super) relation: &'a Relation,
    pub(super) event: EventKind,
    /// The row conditions refer to: the new one, or the old one for a DELETE.
    pub(super) row: &'a Tuple,
    /// The complete previous row; supplies values that are unchanged in the new one.
    pub(super) before: Option<&'a Tuple>,
    /// Columns that filters may look at, by place in the relation; all where this is absent.
    pub(super) known: Option<&'a [bool]>,
    /// Every binding gets an error instead of the change, whatever its filters.
    pub(super) is_error: bool,
}

impl View<'_> {
    /// The value of a column: `None` where it is not known, `Some(None)` for NULL.
    pub(super) fn value(&self, place: usize) -> Option<Option<&str>> {
        if self.known.is_some_and(|known| !known.get(place).copied().unwrap_or_default()) {
            return None;
        }
        match self.row.get(place)? {
            Value::Null => Some(None),
            Value::Text(_) => self.row.get(place)?.text().map(Some),
            Value::Unchanged => match self.before?.get(place)? {
                Value::Null => Some(None),
                before @ Value::Text(_) => before.text().map(Some),
                Value::Unchanged => None,
            },
        }
    }

    fn place(&self, column: &str) -> Option<usize> {
        self.relation.columns.iter().position(|known| known.name == column)
    }
}

/// All subscriptions.
#[derive(Default)]
pub(super) struct Registry {
    /// Held while a batch is matched, never across an await.
    inner: RwLock<Inner>,
    next: AtomicU64,
    /// Incremented when the set of watched tables may have changed.
    version: AtomicU64,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({} subscribers)", self.read().subscribers.len())
    }
}

impl Registry {
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write()
    }

    /// Registers a channel's bindings. Changes of transactions finished in the snapshot `since` are not
    /// delivered.
    pub(super) fn add(
        &self,
        who: &super::Subscriber,
        checked: Vec<Checked>,
        since: Arc<Snapshot>,
    ) -> Arc<Subscriber> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.write();
        let identity = inner.intern(&who.claims);
        let places = checked.iter().map(|checked| {
            let value = checked.tests.iter().find_map(|test| match &test.operand {
                Operand::One(value)
                    if test.operator == Operator::Eq
                        && !test.is_negated
                        && test.comparison.has_unique_texts() =>
                {
                    Some((Arc::clone(&test.column), Arc::clone(value)))
                }
                Operand::One(_) | Operand::Many { .. } | Operand::Truth(_) => None,
            });
            IndexKey { scope: checked.target.clone(), value }
        });
        let subscriber = Arc::new(Subscriber {
            number,
            sink: Arc::clone(&who.sink),
            identity: Mutex::new(identity),
            bindings: places.collect(),
            visitor: Arc::clone(&who.visitor),
            outbox: Mutex::default(),
            since: (Instant::now(), since),
        });
        for (place, checked) in checked.into_iter().enumerate() {
            let Checked { id, event, target, tests, select } = checked;
            let bound = Bound { id, event, tests, select, subscriber: Arc::clone(&subscriber) };
            let value = subscriber.bindings.get(place).and_then(|place| place.value.as_ref());
            inner.index(&target).insert((number, place), value, Arc::new(bound));
        }
        inner.subscribers.insert(number, Arc::clone(&subscriber));
        self.changed(&inner);
        subscriber
    }

    pub(super) fn remove(&self, subscriber: &Subscriber) {
        let mut inner = self.write();
        if inner.remove(subscriber) {
            self.changed(&inner);
        }
        drop(inner);
        subscriber.outbox().end();
    }

    pub(super) fn set_claims(&self, subscriber: &Subscriber, claims: &Arc<Claims>) {
        let identity = self.write().intern(claims);
        *subscriber.identity.lock() = identity;
    }

    /// Changes whenever the result of [`Registry::wants`] may change.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether a table has subscribers.
    pub(super) fn wants(&self, schema: &str, table: &str) -> bool {
        self.read().indexes(schema, table).next().is_some()
    }

    /// The bindings that want each change, and the subscribers whose conditions are about columns that have another type now.
    pub(super) fn matches(&self, views: &[View<'_>]) -> (Vec<Vec<Match>>, Vec<Arc<Subscriber>>) {
        let inner = self.read();
        let mut outdated: HashMap<u64, Arc<Subscriber>> = HashMap::new();
        let mut all = Vec::with_capacity(views.len());
        for view in views {
            let mut found = Vec::new();
            let mut consider = |bound: &Arc<Bound>| match judge(bound, view) {
                Judgement::Wanted(asks) => found.push(Match { bound: Arc::clone(bound), asks }),
                Judgement::Unwanted => {}
                Judgement::Outdated => {
                    outdated.insert(bound.subscriber.number, Arc::clone(&bound.subscriber));
                }
            };
            for index in inner.indexes(&view.relation.schema, &view.relation.name) {
                if view.is_error {
                    index.all().for_each(&mut consider);
                    continue;
                }
                index.plain.values().for_each(&mut consider);
                for (column, values) in &index.by_value {
                    let value = view.place(column).and_then(|place| view.value(place)).flatten();
                    if let Some(bindings) = value.and_then(|value| values.get(value)) {
                        bindings.values().for_each(&mut consider);
                    }
                }
            }
            // Ids of one subscriber lie together, in the order of its bindings.
            found.sort_by_key(|found| (found.bound.subscriber.number, found.bound.id));
            all.push(found);
        }
        (all, outdated.into_values().collect())
    }

    /// Ends every subscription because changes were missed. Returns their number.
    pub(super) fn gap(&self) -> usize {
        let mut inner = self.write();
        let subscribers: Vec<_> = inner.subscribers.values().cloned().collect();
        *inner = Inner { identities: std::mem::take(&mut inner.identities), ..Inner::default() };
        self.changed(&inner);
        drop(inner);
        end(&subscribers)
    }

    /// Ends the subscriptions that cover one table. Returns their number.
    pub(super) fn gap_table(&self, schema: &str, table: &str) -> usize {
        let found: HashMap<u64, Arc<Subscriber>> = {
            let inner = self.read();
            let bound = inner.indexes(schema, table).flat_map(Index::all);
            bound.map(|bound| (bound.subscriber.number, Arc::clone(&bound.subscriber))).collect()
        };
        self.gap_subscribers(&found.into_values().collect::<Vec<_>>())
    }

    /// Ends these subscriptions. Returns how many were still registered.
    pub(super) fn gap_subscribers(&self, subscribers: &[Arc<Subscriber>]) -> usize {
        let mut inner = self.write();
        let there: Vec<_> =
            subscribers.iter().filter(|subscriber| inner.remove(subscriber)).cloned().collect();
        self.changed(&inner);
        drop(inner);
        end(&there)
    }

    /// Something was added or removed.
    #[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
    fn changed(&self, inner: &Inner) {
        self.version.fetch_add(1, Ordering::Release);
        metrics::gauge!("basalt_realtime_subscriptions").set(inner.subscribers.len() as f64);
    }
}

/// Notifies subscribers that have been unregistered.
fn end(subscribers: &[Arc<Subscriber>]) -> usize {
    for subscriber in subscribers {
        subscriber.outbox().end();
        subscriber.sink.gap();
    }
    subscribers.len()
}

enum Judgement {
    Wanted(Vec<usize>),
    Unwanted,
    Outdated,
}

fn judge(bound: &Bound, view: &View<'_>) -> Judgement {
    if bound.event != EventKind::All && bound.event != view.event {
        return Judgement::Unwanted;
    }
    if view.is_error {
        return Judgement::Wanted(Vec::new());
    }
    let mut asks = Vec::new();
    for (at, test) in bound.tests.iter().enumerate() {
        let Some(place) = view.place(&test.column) else {
            // Dropped, or not published.
            return Judgement::Unwanted;
        };
        if view.relation.columns.get(place).is_some_and(|column| column.type_oid != test.type_oid) {
            return Judgement::Outdated;
        }
        match test.judge(view.value(place)) {
            Verdict::Yes => {}
            Verdict::No => return Judgement::Unwanted,
            Verdict::Ask => asks.push(at),
        }
    }
    Judgement::Wanted(asks)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::super::decoder::RelationColumn;
    use super::super::filter::Comparison;
    use super::super::types::SqlType;
    use super::super::{EncodedChange, Subscriber as Who};
    use super::*;

    #[derive(Default)]
    struct Sink(AtomicUsize);

    impl ChangeSink for Sink {
        fn change(&self, _: &EncodedChange, _: &[u64]) {}
        fn gap(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn failed(&self, _: &str) {}
    }

    fn who(role: &str) -> (Who, Arc<Sink>) {
        let sink = Arc::new(Sink::default());
        let claims = Claims::parse(format!(r#"{{"role":"{role}"}}"#).into_bytes()).unwrap();
        let who = Who {
            claims: Arc::new(claims),
            sink: Arc::clone(&sink) as Arc<dyn ChangeSink>,
            visitor: "test".into(),
        };
        (who, sink)
    }

    fn equals(column: &str, value: &str) -> Test {
        Test {
            column: column.into(),
            type_oid: 23,
            sql_type: Arc::new(SqlType {
                name: "pg_catalog.int4".into(),
                array: None,
                operators: "pg_catalog".into(),
            }),
            operator: Operator::Eq,
            is_negated: false,
            operand: Operand::One(value.into()),
            comparison: Comparison::Integer,
        }
    }

    fn checked(id: u64, target: Target, tests: Vec<Test>) -> Checked {
        Checked { id, event: EventKind::All, target, tests, select: None }
    }

    fn table(name: &str) -> Target {
        Target::Table("public".into(), name.into())
    }

    fn relation(name: &str) -> Relation {
        let column = |name: &str, is_key| RelationColumn { name: name.to_owned(), type_oid: 23, is_key };
        Relation {
            oid: 1,
            schema: "public".to_owned(),
            name: name.to_owned(),
            identity: b'd',
            columns: vec![column("id", true), column("owner", false)],
        }
    }

    fn ids(registry: &Registry, relation: &Relation, owner: &str, known: Option<&[bool]>) -> Vec<u64> {
        let row = vec![Value::Text("1".into()), Value::Text(owner.to_owned().into())];
        let view =
            View { relation, event: EventKind::Delete, row: &row, before: None, known, is_error: false };
        let (matches, outdated) = registry.matches(&[view]);
        assert!(outdated.is_empty());
        matches[0].iter().map(|found| found.bound.id).collect()
    }

    #[test]
    fn changes_find_the_bindings_that_want_them() {
        let registry = Registry::default();
        let bindings = vec![
            checked(1, table("t"), vec![equals("owner", "7")]),
            checked(2, table("t"), vec![]),
            checked(3, Target::Schema("public".into()), vec![]),
            checked(4, Target::All, vec![]),
            checked(5, table("other"), vec![]),
            checked(6, table("t"), vec![equals("id", "1")]),
        ];
        let (first, _) = who("a");
        let first = registry.add(&first, bindings, Arc::default());
        assert_eq!(ids(&registry, &relation("t"), "7", None), [1, 2, 3, 4, 6]);
        assert_eq!(ids(&registry, &relation("t"), "8", None), [2, 3, 4, 6]);
        // Only the key is available: a condition on another column matches nothing.
        assert_eq!(ids(&registry, &relation("t"), "7", Some(&[true, false])), [2, 3, 4, 6]);
        assert_eq!(ids(&registry, &relation("none"), "7", None), [3, 4]);
        assert!(registry.wants("public", "t") && registry.wants("x", "y"));
        registry.remove(&first);
        assert!(!registry.wants("public", "t") && !registry.wants("x", "y"));
        let inner = registry.read();
        assert!(inner.tables.is_empty() && inner.schemas.is_empty() && inner.subscribers.is_empty());
    }

    #[test]
    fn a_gap_of_a_table_ends_its_subscribers_alone() {
        let registry = Registry::default();
        let ((one, one_sink), (two, two_sink)) = (who("a"), who("a"));
        let one = registry.add(
            &one,
            vec![checked(1, table("t"), vec![]), checked(2, table("u"), vec![])],
            Arc::default(),
        );
        let two = registry.add(&two, vec![checked(1, table("u"), vec![])], Arc::default());
        assert!(Arc::ptr_eq(&one.identity(), &two.identity()));
        assert_eq!(registry.gap_table("public", "t"), 1);
        assert_eq!((one_sink.0.load(Ordering::Relaxed), two_sink.0.load(Ordering::Relaxed)), (1, 0));
        registry.remove(&one);
        assert_eq!(registry.gap(), 1);
        assert_eq!((one_sink.0.load(Ordering::Relaxed), two_sink.0.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn a_column_of_another_type_makes_a_binding_outdated() {
        let registry = Registry::default();
        let (one, _) = who("a");
        let _one =
            registry.add(&one, vec![checked(1, table("t"), vec![equals("owner", "7")])], Arc::default());
        let mut relation = relation("t");
        relation.columns[1].type_oid = 25;
        let row = vec![Value::Text("1".into()), Value::Text("7".into())];
        let view = View {
            relation: &relation,
            event: EventKind::Insert,
            row: &row,
            before: None,
            known: None,
            is_error: false,
        };
        let (matches, outdated) = registry.matches(&[view]);
        assert!(matches[0].is_empty() && outdated.len() == 1);
    }
}
