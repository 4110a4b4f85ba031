//! The plan of a batch: for each subscriber, which changes, which bindings, which columns, and on what
//! condition.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use basalt_core::memory::{ByteBudget, ByteShare};
use parking_lot::Mutex;

use super::EventKind;
use super::Position;
use super::catalog::{Privileges, Table};
use super::decoder::Relation;
use super::identity::Identity;
use super::order::Decided;
use super::outbox::{Encoded, Outgoing};
use super::payload::{self, Change, Layout};
use super::reserve;
use super::subscriptions::{ActiveBinding, BySubscriber, Match, Subscriber};

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

/// A subscriber with its deliveries.
pub(super) struct Recipient {
    pub(super) subscriber: Arc<Subscriber>,
    /// Claims as of planning; a new token may arrive during evaluation.
    pub(super) identity: Arc<Identity>,
    /// Position at which the batch is opened for the channel.
    pub(super) first: Position,
    pub(super) deliveries: Vec<Delivery>,
}

impl Recipient {
    /// Indexes of the keys whose visibility has to be checked, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        self.deliveries.iter().filter_map(|delivery| match delivery.rule {
            DeliveryRule::IfVisible(key) => Some(key),
            DeliveryRule::Always | DeliveryRule::Error(_) => None,
        })
    }

    /// Whether PostgreSQL has to evaluate filters of changes the subscriber may see.
    pub(super) fn has_filters(&self, visible: &[usize]) -> bool {
        let mut deliveries = self.deliveries.iter().filter(|delivery| delivery.is_visible(visible));
        deliveries.any(|delivery| delivery.matches.iter().any(|found| !found.unresolved.is_empty()))
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

pub(super) struct Plan {
    pub(super) table: Arc<Table>,
    pub(super) relation: Arc<Relation>,
    pub(super) changes: Vec<Change>,
    /// Distinct keys of changed rows.
    pub(super) keys: Vec<Vec<String>>,
    pub(super) recipients: Vec<Recipient>,
    masks: Vec<Vec<bool>>,
    /// By change and mask, encoded on first use.
    encoded: Vec<OnceLock<Arc<Encoded>>>,
    /// Share of the router's queue; released when all but the slow lanes are evaluated.
    queued: Mutex<Vec<ByteShare>>,
    /// Share of the memory for slow lanes.
    slow_memory: OnceLock<ByteShare>,
}

/// Inputs of a plan.
pub(super) struct Parts {
    pub(super) table: Arc<Table>,
    pub(super) relation: Arc<Relation>,
    pub(super) changes: Vec<Change>,
    pub(super) shares: Vec<ByteShare>,
    /// Per change, ordered by subscriber.
    pub(super) matches: Vec<Vec<Match>>,
    /// Privileges of every role among the subscribers.
    pub(super) privileges: HashMap<Arc<str>, Arc<Privileges>>,
    /// Identities by subscriber number.
    pub(super) identities: BySubscriber<Arc<Identity>>,
}

impl Plan {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { table, relation, changes, shares, matches, privileges, identities } = parts;
        let mut masks = Masks::default();
        let mut keys: HashMap<Vec<String>, usize> = HashMap::new();
        let mut indexes: BySubscriber<usize> = BySubscriber::default();
        let mut last_role: Option<(&str, &Privileges)> = None;
        let mut recipients: Vec<Recipient> = Vec::new();
        for (number, (found, change)) in matches.into_iter().zip(&changes).enumerate() {
            let mut key = None;
            for found in found {
                let subscriber = &found.binding.subscriber;
                let Some(identity) = identities.get(&subscriber.number()) else { continue };
                // Subscribers of one role tend to follow each other.
                let privileges = match last_role {
                    Some((role, privileges)) if *role == *identity.role => privileges,
                    _ => match privileges.get(&identity.role) {
                        Some(privileges) => last_role.insert((&identity.role, privileges)).1,
                        None => continue,
                    },
                };
                if !may_filter(&found.binding, &table, privileges) {
                    continue;
                }
                let rule = delivery_rule(&table, privileges, change, found.is_visible, || {
                    *key.get_or_insert_with(|| {
                        let values = row_key(&table, &relation, change)?;
                        let next = keys.len();
                        Some(*keys.entry(values).or_insert(next))
                    })
                });
                let Some(rule) = rule else { continue };
                // Receiving the error would reveal that the filter matches a row the subscriber may not be
                // allowed to see.
                let reveals_filter =
                    rule == DeliveryRule::Error(UNAUTHORIZED) && !found.binding.tests.is_empty();
                if reveals_filter && table.has_policies {
                    continue;
                }
                let mask = masks.index(&table, privileges, identity, &found.binding);
                let index = *indexes.entry(subscriber.number()).or_insert_with(|| {
                    recipients.push(Recipient {
                        subscriber: Arc::clone(subscriber),
                        identity: Arc::clone(identity),
                        first: change.position,
                        deliveries: Vec::new(),
                    });
                    recipients.len() - 1
                });
                let Some(recipient) = recipients.get_mut(index) else { continue };
                match recipient.deliveries.last_mut() {
                    Some(last) if last.change == number && last.mask == mask => last.matches.push(found),
                    _ => recipient.deliveries.push(Delivery {
                        change: number,
                        mask,
                        rule,
                        matches: vec![found],
                    }),
                }
            }
        }
        let mut ordered: Vec<(Vec<String>, usize)> = keys.into_iter().collect();
        ordered.sort_by_key(|(_, index)| *index);
        let slots = changes.len() * masks.masks.len();
        Self {
            table,
            relation,
            changes,
            keys: ordered.into_iter().map(|(key, _)| key).collect(),
            recipients,
            masks: masks.masks,
            encoded: std::iter::repeat_with(OnceLock::new).take(slots).collect(),
            queued: Mutex::new(shares),
            slow_memory: OnceLock::new(),
        }
    }

    /// Opens the batch for every channel it concerns.
    pub(super) fn open(&self) {
        for recipient in &self.recipients {
            recipient.subscriber.outbox().open(recipient.first, recipient.deliveries.len());
        }
    }

    /// Releases the memory of the router's queue.
    pub(super) fn release_queue_memory(&self) {
        self.queued.lock().clear();
    }

    /// Reserves memory for the slow lanes. Returns false if none is left.
    pub(super) fn reserve_slow_memory(&self, memory: &ByteBudget) -> bool {
        if self.slow_memory.get().is_none() {
            let Some(share) = reserve(memory, self.changes.iter().map(|change| change.bytes).sum()) else {
                return false;
            };
            // Another lane may have reserved it first.
            drop(self.slow_memory.set(share));
        }
        true
    }

    /// The decision for a recipient that may see the keys in `visible`; `passes` tells whether a binding's
    /// filters pass a change.
    pub(super) fn decided(
        &self,
        recipient: &Recipient,
        visible: &[usize],
        passes: &dyn Fn(&Match, usize) -> bool,
    ) -> Decided {
        let mut changes = Vec::new();
        for (number, delivery) in recipient.deliveries.iter().enumerate() {
            if !delivery.is_visible(visible) {
                continue;
            }
            let passing = delivery.matches.iter().filter(|found| passes(found, delivery.change));
            let ids: Vec<u64> = passing.map(|found| found.binding.id).collect();
            if let (false, Some(encoded)) = (ids.is_empty(), self.encoded(delivery)) {
                let position = self.changes.get(delivery.change).map_or(recipient.first, |it| it.position);
                changes.push(Outgoing { at: (position, number), encoded, ids });
            }
        }
        Decided { subscriber: Arc::clone(&recipient.subscriber), first: recipient.first, changes }
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
    /// Indexes by role and address of the selected columns.
    indexes: HashMap<(Arc<str>, Option<usize>), usize>,
    /// The last result: most subscribers have the same role and select all columns.
    last: Option<(Arc<str>, Option<usize>, usize)>,
}

impl Masks {
    fn index(
        &mut self,
        table: &Table,
        privileges: &Privileges,
        identity: &Identity,
        binding: &ActiveBinding,
    ) -> usize {
        let select = binding.select.as_ref();
        let selected = select.map(|select| select.as_ptr().addr());
        if let Some((role, columns, index)) = &self.last
            && *columns == selected
            && **role == *identity.role
        {
            return *index;
        }
        let index = *self.indexes.entry((Arc::clone(&identity.role), selected)).or_insert_with(|| {
            self.masks.push(mask(table, privileges, select.map(|select| &**select)));
            self.masks.len() - 1
        });
        self.last = Some((Arc::clone(&identity.role), selected, index));
        index
    }
}

/// A filter reveals values of its column, so the role must be able to read it. A new token may have changed
/// the role.
fn may_filter(binding: &ActiveBinding, table: &Table, privileges: &Privileges) -> bool {
    binding.tests.iter().all(|test| {
        let column = table.column(&test.column);
        column.is_some_and(|column| privileges.columns.get(column).copied().unwrap_or_default())
    })
}

/// Readable columns that are selected or part of the key.
fn mask(table: &Table, privileges: &Privileges, select: Option<&[String]>) -> Vec<bool> {
    let keys = table.key_positions();
    let selected = |index: usize, name: &String| {
        select.is_none_or(|select| select.contains(name)) || keys.contains(&index)
    };
    let columns = table.columns.iter().enumerate().zip(&privileges.columns);
    columns.map(|((index, column), is_readable)| *is_readable && selected(index, &column.name)).collect()
}

/// `None` if the changed row has no usable key.
fn delivery_rule(
    table: &Table,
    privileges: &Privileges,
    change: &Change,
    is_visible: bool,
    key: impl FnOnce() -> Option<usize>,
) -> Option<DeliveryRule> {
    if change.event() == EventKind::Delete {
        return Some(DeliveryRule::Always);
    }
    if table.key.is_empty() {
        return Some(DeliveryRule::Error(NO_KEY));
    }
    if !table.key.iter().all(|index| privileges.columns.get(*index).copied().unwrap_or_default()) {
        return Some(DeliveryRule::Error(UNAUTHORIZED));
    }
    if !table.has_policies || is_visible {
        return Some(DeliveryRule::Always);
    }
    key().map(DeliveryRule::IfVisible)
}

/// The key of a new row.
pub(super) fn row_key(table: &Table, relation: &Relation, change: &Change) -> Option<Vec<String>> {
    let text = |index: &usize| {
        let column = table.columns.get(*index)?;
        let index = relation.columns.iter().position(|known| known.name == column.name)?;
        change.value(index).map(str::to_owned)
    };
    table.key.iter().map(text).collect()
}
