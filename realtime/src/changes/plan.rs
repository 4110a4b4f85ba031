//! The plan of a batch: for each subscriber, which changes, which bindings, which columns, and on what
//! condition.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::EventKind;
use super::catalog::{Rights, Table};
use super::decoder::Relation;
use super::memory::{ChangeMemory, MemoryShare};
use super::order::{Decided, Encoded, Outgoing, Position};
use super::payload::{self, Change, Layout};
use super::subscriptions::{Bound, Identity, Match, Subscriber};

const NO_KEY: &str = "Error 400: Bad Request, no primary key";
const UNAUTHORIZED: &str = "Error 401: Unauthorized";

/// Condition for sending a change to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryRule {
    Always,
    /// Send if the subscriber may see the row with this key.
    IfVisible(usize),
    /// Send this error instead of the change.
    Error(&'static str),
}

/// One change for one channel.
pub(super) struct Delivery {
    /// Index of the change in the batch.
    pub(super) change: usize,
    /// Index of the column mask.
    mask: usize,
    pub(super) rule: DeliveryRule,
    /// Bindings that match; filters still to be evaluated may reject them.
    pub(super) matches: Vec<Match>,
}

/// What a batch holds for one channel.
pub(super) struct Addressee {
    pub(super) subscriber: Arc<Subscriber>,
    /// Claims as of planning; a new token may arrive during evaluation.
    pub(super) identity: Arc<Identity>,
    /// Position at which the batch is opened for the channel.
    first: Position,
    pub(super) deliveries: Vec<Delivery>,
}

impl Addressee {
    /// Keys of rows that the subscriber gets if it may see them, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        self.deliveries.iter().filter_map(|delivery| match delivery.rule {
            DeliveryRule::IfVisible(key) => Some(key),
            DeliveryRule::Always | DeliveryRule::Error(_) => None,
        })
    }

    /// Whether PostgreSQL has to evaluate filters of changes the subscriber may see.
    pub(super) fn has_filters(&self, visible: &[usize]) -> bool {
        let mut deliveries = self.deliveries.iter().filter(|delivery| delivery.is_visible(visible));
        deliveries.any(|delivery| delivery.matches.iter().any(|found| !found.asks.is_empty()))
    }
}

impl Delivery {
    /// `visible` contains the sorted indexes of the keys the subscriber may see.
    pub(super) fn is_visible(&self, visible: &[usize]) -> bool {
        match self.rule {
            DeliveryRule::IfVisible(key) => visible.binary_search(&key).is_ok(),
            DeliveryRule::Always | DeliveryRule::Error(_) => true,
        }
    }
}

/// A batch that is ready to be evaluated.
pub(super) struct Plan {
    pub(super) table: Arc<Table>,
    pub(super) relation: Arc<Relation>,
    pub(super) changes: Vec<Change>,
    /// Distinct keys of changed rows.
    pub(super) keys: Vec<Vec<String>>,
    pub(super) addressees: Vec<Addressee>,
    masks: Vec<Vec<bool>>,
    /// By change and mask, encoded on first use.
    encoded: Vec<OnceLock<Arc<Encoded>>>,
    /// Share of the router's queue; released when all but the slow lanes are evaluated.
    queued: Mutex<Vec<MemoryShare>>,
    /// Of what is evaluated aside.
    aside: OnceLock<MemoryShare>,
}

/// Inputs of a plan.
pub(super) struct Parts {
    pub(super) table: Arc<Table>,
    pub(super) relation: Arc<Relation>,
    pub(super) changes: Vec<Change>,
    pub(super) shares: Vec<MemoryShare>,
    /// Per change, ordered by subscriber.
    pub(super) matches: Vec<Vec<Match>>,
    /// Of every role among the subscribers.
    pub(super) rights: HashMap<Arc<str>, Arc<Rights>>,
    /// Identities, by number of the subscriber.
    pub(super) identities: HashMap<u64, Arc<Identity>>,
}

impl Plan {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { table, relation, changes, shares, matches, rights, identities } = parts;
        let mut masks = Masks::default();
        let mut keys: HashMap<Vec<String>, usize> = HashMap::new();
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut addressees: Vec<Addressee> = Vec::new();
        for (number, (found, change)) in matches.into_iter().zip(&changes).enumerate() {
            let mut key = None;
            for found in found {
                let subscriber = &found.bound.subscriber;
                let Some(identity) = identities.get(&subscriber.number()) else { continue };
                let Some(rights) = rights.get(&identity.role) else { continue };
                if !may_filter(&found.bound, &table, rights) {
                    continue;
                }
                let rule = rule_of(&table, rights, change, || {
                    *key.get_or_insert_with(|| {
                        let values = key_of(&table, &relation, change)?;
                        let next = keys.len();
                        Some(*keys.entry(values).or_insert(next))
                    })
                });
                let Some(rule) = rule else { continue };
                // Its arrival would answer the filter for a row that the subscriber may not be allowed to see.
                let is_answer = rule == DeliveryRule::Error(UNAUTHORIZED) && !found.bound.tests.is_empty();
                if is_answer && table.has_policies {
                    continue;
                }
                let mask = masks.place(&table, rights, identity, &found.bound);
                let place = *places.entry(subscriber.number()).or_insert_with(|| {
                    addressees.push(Addressee {
                        subscriber: Arc::clone(subscriber),
                        identity: Arc::clone(identity),
                        first: change.position,
                        deliveries: Vec::new(),
                    });
                    addressees.len() - 1
                });
                let Some(addressee) = addressees.get_mut(place) else { continue };
                match addressee.deliveries.last_mut() {
                    Some(last) if last.change == number && last.mask == mask => last.matches.push(found),
                    _ => addressee.deliveries.push(Delivery {
                        change: number,
                        mask,
                        rule,
                        matches: vec![found],
                    }),
                }
            }
        }
        let mut ordered: Vec<(Vec<String>, usize)> = keys.into_iter().collect();
        ordered.sort_by_key(|(_, place)| *place);
        let slots = changes.len() * masks.masks.len();
        Self {
            table,
            relation,
            changes,
            keys: ordered.into_iter().map(|(key, _)| key).collect(),
            addressees,
            masks: masks.masks,
            encoded: std::iter::repeat_with(OnceLock::new).take(slots).collect(),
            queued: Mutex::new(shares),
            aside: OnceLock::new(),
        }
    }

    /// Opens the batch for every channel it concerns.
    pub(super) fn open(&self) {
        for addressee in &self.addressees {
            addressee.subscriber.outbox().open(addressee.first);
        }
    }

    /// Gives the memory of the router's queue back.
    pub(super) fn leave_queue(&self) {
        self.queued.lock().clear();
    }

    /// Takes memory for a batch that is evaluated aside; false where there is none.
    pub(super) fn reserve_aside(&self, memory: &Arc<ChangeMemory>) -> bool {
        if self.aside.get().is_none() {
            let Some(share) = memory.reserve(self.changes.iter().map(|change| change.bytes).sum()) else {
                return false;
            };
            // Another suspect may have been first.
            drop(self.aside.set(share));
        }
        true
    }

    /// The decision for a recipient that may see the keys in `visible`; `passes` tells whether a binding's
    /// filters pass a change.
    pub(super) fn decided(
        &self,
        addressee: &Addressee,
        visible: &[usize],
        passes: &dyn Fn(&Match, usize) -> bool,
    ) -> Decided {
        let mut changes = Vec::new();
        for (number, delivery) in addressee.deliveries.iter().enumerate() {
            if !delivery.is_visible(visible) {
                continue;
            }
            let passing = delivery.matches.iter().filter(|found| passes(found, delivery.change));
            let ids: Vec<u64> = passing.map(|found| found.bound.id).collect();
            if let (false, Some(encoded)) = (ids.is_empty(), self.encoded(delivery)) {
                let position = self.changes.get(delivery.change).map_or(addressee.first, |it| it.position);
                changes.push(Outgoing { at: (position, number), encoded, ids });
            }
        }
        Decided { subscriber: Arc::clone(&addressee.subscriber), first: addressee.first, changes }
    }

    /// Encodes a change once per mask, on first use.
    fn encoded(&self, delivery: &Delivery) -> Option<Arc<Encoded>> {
        let (change, mask) = (self.changes.get(delivery.change)?, self.masks.get(delivery.mask)?);
        let layout = || Layout::new(&self.table, &self.relation);
        if let DeliveryRule::Error(error) = delivery.rule {
            return Some(Arc::new(Encoded::new(payload::encode_error(change, &layout(), error))));
        }
        let slot = self.encoded.get(delivery.change * self.masks.len() + delivery.mask)?;
        let encode = || Arc::new(Encoded::new(payload::encode(change, &layout(), mask)));
        Some(Arc::clone(slot.get_or_init(encode)))
    }
}

/// Column masks of the subscribers.
#[derive(Default)]
struct Masks {
    masks: Vec<Vec<bool>>,
    /// By role, and address of the selected columns.
    places: HashMap<(Arc<str>, Option<usize>), usize>,
}

impl Masks {
    fn place(&mut self, table: &Table, rights: &Rights, identity: &Identity, bound: &Bound) -> usize {
        let select = bound.select.as_ref();
        let selected = select.map(|select| select.as_ptr().addr());
        *self.places.entry((Arc::clone(&identity.role), selected)).or_insert_with(|| {
            self.masks.push(mask(table, rights, select.map(|select| &**select)));
            self.masks.len() - 1
        })
    }
}

/// A filter reveals its column: a role that may not read the column has none on it. A new token may have brought another role.
fn may_filter(bound: &Bound, table: &Table, rights: &Rights) -> bool {
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

/// `None` when the row of a change cannot be named.
fn rule_of(
    table: &Table,
    rights: &Rights,
    change: &Change,
    key: impl FnOnce() -> Option<usize>,
) -> Option<DeliveryRule> {
    if change.event() == EventKind::Delete {
        return Some(DeliveryRule::Always);
    }
    if table.key.is_empty() {
        return Some(DeliveryRule::Error(NO_KEY));
    }
    if !table.key.iter().all(|place| rights.columns.get(*place).copied().unwrap_or_default()) {
        return Some(DeliveryRule::Error(UNAUTHORIZED));
    }
    if !table.has_policies {
        return Some(DeliveryRule::Always);
    }
    key().map(DeliveryRule::IfVisible)
}

/// The key of a new row.
pub(super) fn key_of(table: &Table, relation: &Relation, change: &Change) -> Option<Vec<String>> {
    let text = |place: &usize| {
        let column = table.columns.get(*place)?;
        let place = relation.columns.iter().position(|known| known.name == column.name)?;
        change.value(place).map(str::to_owned)
    };
    table.key.iter().map(text).collect()
}
