//! Registry of subscriptions. It is searched for every change, so bindings are indexed by table, and those
//! with an equality filter also by its value.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use basalt_core::claims::Claims;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::decoder::{Relation, Tuple, Value};
use super::filter::{Operand, Operator, Test, Verdict};
use super::identity::Identity;
use super::outbox::Outbox;
use super::policies::Visibility;
use super::snapshots::{SNAPSHOT_AGE, Snapshot};
use super::{ChangeSink, EventKind};

/// Keyed by the subscriber's number. Clients cannot choose it, so the hash need not resist collisions; it is computed for every
/// subscriber and change.
pub(super) type BySubscriber<T> = FxHashMap<u64, T>;

/// A channel's subscription.
pub(super) struct Subscriber {
    number: u64,
    pub(super) sink: Arc<dyn ChangeSink>,
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
        self.bindings.iter().any(|position| match &position.scope {
            Target::Table(known_schema, known) => **known_schema == *schema && **known == *table,
            Target::Schema(known) => **known == *schema,
            Target::All => true,
        })
    }

    /// Key of the time budget for filters: the user, or the visitor if there is no user.
    pub(super) fn account(&self, identity: &Identity) -> Arc<str> {
        identity.user.as_ref().map_or_else(|| Arc::clone(&self.visitor), Arc::clone)
    }

    /// Whether the transaction had finished when the channel subscribed. `now` is a parameter because this
    /// runs for every change.
    pub(super) fn already_sees(&self, xid: u32, now: Instant) -> bool {
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
pub(super) struct CheckedBinding {
    pub(super) id: u64,
    pub(super) event: EventKind,
    pub(super) target: Target,
    pub(super) tests: Vec<Test>,
    /// Selected columns; `None` for all.
    pub(super) select: Option<Arc<[String]>>,
}

/// A registered binding.
#[derive(Debug)]
pub(super) struct ActiveBinding {
    pub(super) id: u64,
    pub(super) event: EventKind,
    pub(super) tests: Vec<Test>,
    pub(super) select: Option<Arc<[String]>>,
    pub(super) subscriber: Arc<Subscriber>,
}

type Bindings = HashMap<(u64, usize), Arc<ActiveBinding>>;

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

    fn insert(
        &mut self,
        at: (u64, usize),
        value: Option<&(Arc<str>, Arc<str>)>,
        binding: Arc<ActiveBinding>,
    ) {
        let bindings = match value {
            None => &mut self.plain,
            Some((column, value)) => {
                let values = self.by_value.entry(Arc::clone(column)).or_default();
                values.entry(Arc::clone(value)).or_default()
            }
        };
        bindings.insert(at, binding);
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

    fn all(&self) -> impl Iterator<Item = &Arc<ActiveBinding>> {
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
        for (position, IndexKey { scope, value }) in subscriber.bindings.iter().enumerate() {
            let index = self.index(scope);
            index.remove((subscriber.number, position), value.as_ref());
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
    pub(super) binding: Arc<ActiveBinding>,
    /// Indexes of the conditions that PostgreSQL has to evaluate.
    pub(super) unresolved: Vec<usize>,
    /// Whether the subscriber is known to see the row.
    pub(super) is_visible: bool,
}

/// The parts of a change that matching needs.
pub(super) struct ChangeView<'a> {
    pub(super) relation: &'a Relation,
    pub(super) event: EventKind,
    /// The row conditions refer to: the new one, or the old one for a DELETE.
    pub(super) row: &'a Tuple,
    /// The complete previous row; supplies values that are unchanged in the new one.
    pub(super) before: Option<&'a Tuple>,
    /// Columns that filters may use, by position in the relation; `None` for all.
    pub(super) filterable: Option<&'a [bool]>,
    /// Every binding receives an error instead of the change, whatever its filters.
    pub(super) is_error: bool,
}

impl ChangeView<'_> {
    /// The value of a column: `None` if unavailable, `Some(None)` for NULL.
    pub(super) fn value(&self, position: usize) -> Option<Option<&str>> {
        if self.filterable.is_some_and(|filterable| !filterable.get(position).copied().unwrap_or_default()) {
            return None;
        }
        match self.row.get(position)? {
            Value::Null => Some(None),
            Value::Text(_) => self.row.get(position)?.text().map(Some),
            Value::Unchanged => match self.before?.get(position)? {
                Value::Null => Some(None),
                before @ Value::Text(_) => before.text().map(Some),
                Value::Unchanged => None,
            },
        }
    }

    /// Like [`Self::value`], but unavailable in a deleted row.
    pub(super) fn new_value(&self, position: usize) -> Option<Option<&str>> {
        if self.event == EventKind::Delete { None } else { self.value(position) }
    }

    fn position(&self, column: &str) -> Option<usize> {
        self.relation.columns.iter().position(|known| known.name == column)
    }
}

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
        subscriber: &super::Subscriber,
        checked: Vec<CheckedBinding>,
        since: Arc<Snapshot>,
    ) -> Arc<Subscriber> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.write();
        let identity = inner.intern(&subscriber.claims);
        let positions = checked.iter().map(|checked| {
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
            sink: Arc::clone(&subscriber.sink),
            identity: Mutex::new(identity),
            bindings: positions.collect(),
            visitor: Arc::clone(&subscriber.visitor),
            outbox: Mutex::default(),
            since: (Instant::now(), since),
        });
        for (position, checked) in checked.into_iter().enumerate() {
            let CheckedBinding { id, event, target, tests, select } = checked;
            let binding = ActiveBinding { id, event, tests, select, subscriber: Arc::clone(&subscriber) };
            let value = subscriber.bindings.get(position).and_then(|position| position.value.as_ref());
            inner.index(&target).insert((number, position), value, Arc::new(binding));
        }
        inner.subscribers.insert(number, Arc::clone(&subscriber));
        self.note_change(&inner);
        subscriber
    }

    pub(super) fn remove(&self, subscriber: &Subscriber) {
        let mut inner = self.write();
        if inner.remove(subscriber) {
            self.note_change(&inner);
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

    /// The current identities of a table's subscribers, by number.
    pub(super) fn identities(&self, schema: &str, table: &str) -> BySubscriber<Arc<Identity>> {
        let inner = self.read();
        let mut identities: BySubscriber<Arc<Identity>> = BySubscriber::default();
        for binding in inner.indexes(schema, table).flat_map(Index::all) {
            let subscriber = &binding.subscriber;
            identities.entry(subscriber.number).or_insert_with(|| subscriber.identity());
        }
        identities
    }

    /// Returns the matching bindings per change, and the subscribers whose conditions refer to a column that
    /// has changed its type. `judge` tells whether a subscriber may see a change; hidden ones do not match.
    pub(super) fn matches(
        &self,
        views: &[ChangeView<'_>],
        mut judge: impl FnMut(&Subscriber, usize) -> Visibility,
    ) -> (Vec<Vec<Match>>, Vec<Arc<Subscriber>>) {
        let inner = self.read();
        let mut outdated: HashMap<u64, Arc<Subscriber>> = HashMap::new();
        let mut all = Vec::with_capacity(views.len());
        for (number, view) in views.iter().enumerate() {
            let mut found = Vec::new();
            let mut check = |binding: &Arc<ActiveBinding>| match match_binding(binding, view) {
                MatchOutcome::Matches(unresolved) => {
                    let visibility = judge(&binding.subscriber, number);
                    if visibility != Visibility::Hidden {
                        let is_visible = visibility == Visibility::Visible;
                        found.push(Match { binding: Arc::clone(binding), unresolved, is_visible });
                    }
                }
                MatchOutcome::NoMatch => {}
                MatchOutcome::Outdated => {
                    outdated.insert(binding.subscriber.number, Arc::clone(&binding.subscriber));
                }
            };
            for index in inner.indexes(&view.relation.schema, &view.relation.name) {
                if view.is_error {
                    index.all().for_each(&mut check);
                    continue;
                }
                index.plain.values().for_each(&mut check);
                for (column, values) in &index.by_value {
                    let value = view.position(column).and_then(|position| view.value(position)).flatten();
                    if let Some(bindings) = value.and_then(|value| values.get(value)) {
                        bindings.values().for_each(&mut check);
                    }
                }
            }
            // Groups the bindings of a subscriber, in the order of their ids.
            found.sort_by_key(|found| (found.binding.subscriber.number, found.binding.id));
            all.push(found);
        }
        (all, outdated.into_values().collect())
    }

    /// Ends every subscription because changes were missed. Returns their number.
    pub(super) fn gap(&self) -> usize {
        let mut inner = self.write();
        let subscribers: Vec<_> = inner.subscribers.values().cloned().collect();
        *inner = Inner { identities: std::mem::take(&mut inner.identities), ..Inner::default() };
        self.note_change(&inner);
        drop(inner);
        end(&subscribers)
    }

    /// Ends the subscriptions that cover one table. Returns their number.
    pub(super) fn gap_table(&self, schema: &str, table: &str) -> usize {
        let found: HashMap<u64, Arc<Subscriber>> = {
            let inner = self.read();
            let binding = inner.indexes(schema, table).flat_map(Index::all);
            binding.map(|binding| (binding.subscriber.number, Arc::clone(&binding.subscriber))).collect()
        };
        self.gap_subscribers(&found.into_values().collect::<Vec<_>>())
    }

    /// Ends these subscriptions. Returns how many were still registered.
    pub(super) fn gap_subscribers(&self, subscribers: &[Arc<Subscriber>]) -> usize {
        let mut inner = self.write();
        let removed: Vec<_> =
            subscribers.iter().filter(|subscriber| inner.remove(subscriber)).cloned().collect();
        self.note_change(&inner);
        drop(inner);
        end(&removed)
    }

    /// Updates version and gauge after subscriptions were added or removed.
    #[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
    fn note_change(&self, inner: &Inner) {
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

enum MatchOutcome {
    Matches(Vec<usize>),
    NoMatch,
    Outdated,
}

fn match_binding(binding: &ActiveBinding, view: &ChangeView<'_>) -> MatchOutcome {
    if binding.event != EventKind::All && binding.event != view.event {
        return MatchOutcome::NoMatch;
    }
    if view.is_error {
        return MatchOutcome::Matches(Vec::new());
    }
    let mut unresolved = Vec::new();
    for (at, test) in binding.tests.iter().enumerate() {
        let Some(position) = view.position(&test.column) else {
            // The column was dropped or is not published.
            return MatchOutcome::NoMatch;
        };
        if view.relation.columns.get(position).is_some_and(|column| column.type_oid != test.type_oid) {
            return MatchOutcome::Outdated;
        }
        match test.evaluate(view.value(position)) {
            Verdict::Yes => {}
            Verdict::No => return MatchOutcome::NoMatch,
            Verdict::NeedsPostgres => unresolved.push(at),
        }
    }
    MatchOutcome::Matches(unresolved)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::super::decoder::RelationColumn;
    use super::super::filter::Comparison;
    use super::super::types::SqlType;
    use super::super::{EncodedChange, Subscriber as SubscriberRequest};
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

    fn subscriber(role: &str) -> (SubscriberRequest, Arc<Sink>) {
        let sink = Arc::new(Sink::default());
        let claims = Claims::parse(format!(r#"{{"role":"{role}"}}"#).into_bytes()).unwrap();
        let subscriber = SubscriberRequest {
            claims: Arc::new(claims),
            sink: Arc::clone(&sink) as Arc<dyn ChangeSink>,
            visitor: "test".into(),
        };
        (subscriber, sink)
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

    fn checked(id: u64, target: Target, tests: Vec<Test>) -> CheckedBinding {
        CheckedBinding { id, event: EventKind::All, target, tests, select: None }
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

    fn ids(registry: &Registry, relation: &Relation, owner: &str, filterable: Option<&[bool]>) -> Vec<u64> {
        let row = vec![Value::Text("1".into()), Value::Text(owner.to_owned().into())];
        let view = ChangeView {
            relation,
            event: EventKind::Delete,
            row: &row,
            before: None,
            filterable,
            is_error: false,
        };
        let (matches, outdated) = registry.matches(&[view], |_, _| Visibility::Unknown);
        assert!(outdated.is_empty());
        matches[0].iter().map(|found| found.binding.id).collect()
    }

    #[test]
    fn change_matches_exactly_the_wanting_bindings() {
        let registry = Registry::default();
        let bindings = vec![
            checked(1, table("t"), vec![equals("owner", "7")]),
            checked(2, table("t"), vec![]),
            checked(3, Target::Schema("public".into()), vec![]),
            checked(4, Target::All, vec![]),
            checked(5, table("other"), vec![]),
            checked(6, table("t"), vec![equals("id", "1")]),
        ];
        let (first, _) = subscriber("a");
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
    fn table_gap_ends_only_its_subscribers() {
        let registry = Registry::default();
        let ((one, one_sink), (two, two_sink)) = (subscriber("a"), subscriber("a"));
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
    fn changed_column_type_makes_binding_outdated() {
        let registry = Registry::default();
        let (one, _) = subscriber("a");
        let _one =
            registry.add(&one, vec![checked(1, table("t"), vec![equals("owner", "7")])], Arc::default());
        let mut relation = relation("t");
        relation.columns[1].type_oid = 25;
        let row = vec![Value::Text("1".into()), Value::Text("7".into())];
        let view = ChangeView {
            relation: &relation,
            event: EventKind::Insert,
            row: &row,
            before: None,
            filterable: None,
            is_error: false,
        };
        let (matches, outdated) = registry.matches(&[view], |_, _| Visibility::Unknown);
        assert!(matches[0].is_empty() && outdated.len() == 1);
    }
}
