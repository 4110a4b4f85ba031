//! Presence of a topic (realtime.md 3.11): the metas of this server's and other servers' channels, and the
//! diffs sent to channels. A few diffs are sent immediately; after that, changes within [`DIFF_INTERVAL`] are merged
//! into one diff. Otherwise N clients joining together would cost N² frames.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::frames::json_text;
use crate::metrics;

/// Minimum time between two diffs of a topic once its burst is used up.
const DIFF_INTERVAL: Duration = Duration::from_millis(50);
/// Diffs of a topic sent immediately after a pause.
const BURST: u32 = 4;

/// Memory limit for the presences of one topic, and for those of one socket: far more than a client can
/// display, and enough for two presences of the maximum size.
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Estimated size of a presence without its strings.
const OVERHEAD: usize = 256;

/// Node id of this server's own channels.
pub(crate) const THIS_NODE: u64 = 0;

/// The channel a meta belongs to. A channel has at most one meta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) node: u64,
    pub(crate) member: u64,
}

/// Presence data of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) key: Arc<str>,
    pub(crate) phx_ref: Arc<str>,
    /// The tracked object, as received.
    pub(crate) payload: Arc<str>,
    /// The tracked object with `phx_ref` added.
    pub(crate) json: Arc<str>,
}

impl Meta {
    /// Refs are appended: of duplicate names JSON parsers use the last, and a client must not choose its own
    /// ref.
    pub(crate) fn new(key: Arc<str>, phx_ref: Arc<str>, previous: Option<&str>, payload: &str) -> Self {
        let mut json = payload.trim_end().strip_suffix('}').unwrap_or("{").to_owned();
        if json.trim_end().len() > 1 {
            json.push(',');
        }
        json.push_str("\"phx_ref\":");
        json.push_str(&json_text(&phx_ref));
        if let Some(previous) = previous {
            json.push_str(",\"phx_ref_prev\":");
            json.push_str(&json_text(previous));
        }
        json.push('}');
        Self { key, phx_ref, payload: payload.into(), json: json.into() }
    }

    /// Estimated memory.
    pub(crate) fn size(&self) -> usize {
        OVERHEAD + self.key.len() + self.payload.len() + self.json.len()
    }
}

/// A change of an owner's meta.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The owner's meta was added or replaced.
    Set(Meta),
    /// The owner's meta was removed.
    Gone,
}

/// When the next diff is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Immediately.
    Now,
    /// After this delay; the caller schedules it, once.
    After(Duration),
    /// A task is already scheduled to send it.
    Scheduled,
}

#[derive(Debug, Default)]
pub(crate) struct TopicPresence {
    metas: HashMap<Owner, Meta>,
    /// Estimated memory of `metas`.
    bytes: usize,
    /// Content of the next diff, by owner and ref.
    joins: BTreeMap<(Owner, Arc<str>), Meta>,
    leaves: BTreeMap<(Owner, Arc<str>), Meta>,
    is_scheduled: bool,
    flushed_at: Option<Instant>,
    /// Diffs sent immediately since the last pause.
    burst: u32,
    /// Encoded state as of the last diff.
    state: Option<Arc<str>>,
}

impl TopicPresence {
    pub(crate) fn is_empty(&self) -> bool {
        self.metas.is_empty()
    }

    /// Builds the owner's next meta; `None` if key and payload are unchanged.
    pub(crate) fn next_meta(&self, owner: Owner, key: &str, payload: &str) -> Option<Meta> {
        let previous = self.metas.get(&owner);
        if previous.is_some_and(|meta| &*meta.payload == payload && &*meta.key == key) {
            return None;
        }
        let previous = previous.map(|meta| &*meta.phx_ref);
        Some(Meta::new(key.into(), next_ref(), previous, payload))
    }

    /// Whether `meta` fits when it replaces the owner's previous one.
    pub(crate) fn has_room(&self, owner: Owner, meta: &Meta) -> bool {
        let old = self.metas.get(&owner).map_or(0, Meta::size);
        self.bytes - old + meta.size() <= MAX_BYTES
    }

    pub(crate) fn apply(&mut self, owner: Owner, change: Change) {
        let old = match change {
            Change::Set(meta) => {
                if self.metas.get(&owner) == Some(&meta) {
                    return;
                }
                self.bytes += meta.size();
                self.joins.insert((owner, Arc::clone(&meta.phx_ref)), meta.clone());
                self.metas.insert(owner, meta)
            }
            Change::Gone => self.metas.remove(&owner),
        };
        metrics::presences().increment(match (&old, self.metas.contains_key(&owner)) {
            (None, true) => 1.0,
            (Some(_), false) => -1.0,
            _ => 0.0,
        });
        if let Some(old) = old {
            self.bytes -= old.size();
            let id = (owner, Arc::clone(&old.phx_ref));
            // A join that no diff has announced needs no leave.
            if self.joins.remove(&id).is_none() {
                self.leaves.insert(id, old);
            }
        }
    }

    pub(crate) fn flush_in(&mut self) -> Flush {
        if self.is_scheduled {
            return Flush::Scheduled;
        }
        let since = self.flushed_at.map_or(DIFF_INTERVAL, |at| at.elapsed());
        if since >= DIFF_INTERVAL {
            self.burst = 0;
        }
        self.burst = self.burst.saturating_add(1);
        if self.burst <= BURST {
            return Flush::Now;
        }
        self.is_scheduled = true;
        Flush::After(DIFF_INTERVAL.saturating_sub(since))
    }

    /// Takes the next diff; `None` if nothing changed.
    pub(crate) fn take_diff(&mut self) -> Option<String> {
        self.is_scheduled = false;
        if self.joins.is_empty() && self.leaves.is_empty() {
            return None;
        }
        self.flushed_at = Some(Instant::now());
        self.state = None;
        let joins = grouped(std::mem::take(&mut self.joins).values());
        let leaves = grouped(std::mem::take(&mut self.leaves).values());
        Some(format!("{{\"joins\":{joins},\"leaves\":{leaves}}}"))
    }

    /// The state as of the last diff; pending changes follow in the next diff.
    pub(crate) fn state(&mut self) -> Arc<str> {
        if let Some(state) = &self.state {
            return Arc::clone(state);
        }
        let announced = self
            .metas
            .iter()
            .filter(|(owner, meta)| !self.joins.contains_key(&(**owner, Arc::clone(&meta.phx_ref))))
            .map(|(_, meta)| meta);
        let state: Arc<str> = grouped(announced.chain(self.leaves.values())).into();
        self.state = Some(Arc::clone(&state));
        state
    }

    pub(crate) fn owners_of(&self, node: u64) -> Vec<Owner> {
        self.metas.keys().filter(|owner| owner.node == node).copied().collect()
    }

    /// The metas of this server's channels, by member id.
    pub(crate) fn own(&self) -> Vec<(u64, Meta)> {
        let own = self.metas.iter().filter(|(owner, _)| owner.node == THIS_NODE);
        own.map(|(owner, meta)| (owner.member, meta.clone())).collect()
    }
}

impl Drop for TopicPresence {
    fn drop(&mut self) {
        #[expect(clippy::cast_precision_loss, reason = "the number of presences stays far below 2^53")]
        metrics::presences().decrement(self.metas.len() as f64);
    }
}

/// Encodes metas as `{"key":{"metas":[…]}}`.
fn grouped<'a>(metas: impl Iterator<Item = &'a Meta>) -> String {
    let mut keys: BTreeMap<&str, Vec<&Meta>> = BTreeMap::new();
    for meta in metas {
        keys.entry(&meta.key).or_default().push(meta);
    }
    let mut out = String::from("{");
    for (key, mut metas) in keys {
        metas.sort_by(|left, right| left.phx_ref.cmp(&right.phx_ref));
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&json_text(key));
        out.push_str(":{\"metas\":[");
        for (index, meta) in metas.into_iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&meta.json);
        }
        out.push_str("]}");
    }
    out.push('}');
    out
}

/// Unique across servers: a random prefix of the process and a counter.
fn next_ref() -> Arc<str> {
    static PREFIX: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let prefix = PREFIX.get_or_init(|| basalt_core::random::token(8));
    format!("{prefix}{:010x}", NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ANN: Owner = Owner { node: THIS_NODE, member: 1 };
    const BOB: Owner = Owner { node: 7, member: 1 };

    fn track(presence: &mut TopicPresence, owner: Owner, key: &str, payload: &str) -> Option<String> {
        let meta = presence.next_meta(owner, key, payload)?;
        let phx_ref = meta.phx_ref.to_string();
        presence.apply(owner, Change::Set(meta));
        Some(phx_ref)
    }

    fn diff(presence: &mut TopicPresence) -> Value {
        presence.take_diff().map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    fn state(presence: &mut TopicPresence) -> Value {
        serde_json::from_str(&presence.state()).unwrap()
    }

    #[tokio::test]
    async fn diffs_report_join_update_and_leave() {
        let mut presence = TopicPresence::default();
        let first = track(&mut presence, ANN, "ann", r#"{"n":1}"#).unwrap();
        assert_eq!(state(&mut presence), json!({}), "no diff was sent yet");
        let metas = json!({ "ann": { "metas": [{ "n": 1, "phx_ref": first }] } });
        assert_eq!(diff(&mut presence), json!({ "joins": metas, "leaves": {} }));
        assert_eq!(state(&mut presence), metas);
        assert_eq!(track(&mut presence, ANN, "ann", r#"{"n":1}"#), None, "unchanged");
        let second = track(&mut presence, ANN, "ann", r#"{"n":2}"#).unwrap();
        let changed = json!({ "ann": { "metas": [{ "n": 2, "phx_ref": second, "phx_ref_prev": first }] } });
        assert_eq!(diff(&mut presence), json!({ "joins": changed, "leaves": metas }));
        presence.apply(ANN, Change::Gone);
        assert_eq!(diff(&mut presence), json!({ "joins": {}, "leaves": changed }));
        assert!(presence.is_empty());
        assert_eq!(diff(&mut presence), Value::Null);
    }

    #[tokio::test]
    async fn diff_omits_joins_already_undone() {
        let mut presence = TopicPresence::default();
        track(&mut presence, ANN, "ann", "{}");
        presence.apply(ANN, Change::Gone);
        assert_eq!(diff(&mut presence), Value::Null);
        let old = track(&mut presence, ANN, "ann", "{}").unwrap();
        presence.take_diff();
        track(&mut presence, ANN, "ann", r#"{"n":1}"#);
        let new = track(&mut presence, ANN, "ann", r#"{"n":2}"#).unwrap();
        let announced = diff(&mut presence);
        assert_eq!(announced["leaves"]["ann"]["metas"], json!([{ "phx_ref": old }]));
        assert_eq!(announced["joins"]["ann"]["metas"][0]["phx_ref"], json!(new));
        assert_eq!(announced["joins"]["ann"]["metas"].as_array().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn removing_a_node_keeps_metas_of_the_same_key() {
        let mut presence = TopicPresence::default();
        track(&mut presence, ANN, "__proto__", "{ }");
        track(&mut presence, BOB, "__proto__", "{}");
        presence.take_diff();
        assert_eq!(state(&mut presence)["__proto__"]["metas"].as_array().unwrap().len(), 2);
        for owner in presence.owners_of(7) {
            presence.apply(owner, Change::Gone);
        }
        presence.take_diff();
        assert_eq!(presence.own().len(), 1);
        assert_eq!(state(&mut presence)["__proto__"]["metas"].as_array().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn topic_memory_is_limited_and_released() {
        let mut presence = TopicPresence::default();
        let large = |n: usize| format!("{{\"n\":{n},\"x\":\"{}\"}}", "a".repeat(MAX_BYTES / 5));
        let next = |presence: &TopicPresence, owner, n| presence.next_meta(owner, "k", &large(n)).unwrap();
        for owner in [ANN, BOB] {
            let meta = next(&presence, owner, 1);
            assert!(presence.has_room(owner, &meta));
            presence.apply(owner, Change::Set(meta));
        }
        let third = Owner { node: THIS_NODE, member: 2 };
        let meta = next(&presence, third, 1);
        assert!(!presence.has_room(third, &meta));
        // A replacement may use the space of the meta it replaces.
        let again = next(&presence, ANN, 2);
        assert!(presence.has_room(ANN, &again));
        presence.apply(ANN, Change::Set(again));
        assert!(!presence.has_room(third, &meta));
        presence.apply(BOB, Change::Gone);
        assert!(presence.has_room(third, &meta));
    }

    #[test]
    fn client_cannot_choose_its_ref() {
        let meta = Meta::new("k".into(), "ours".into(), None, r#"{"phx_ref":"theirs"}"#);
        let read: Value = serde_json::from_str(&meta.json).unwrap();
        assert_eq!(read, json!({ "phx_ref": "ours" }));
    }

    #[tokio::test(start_paused = true)]
    async fn merges_diffs_after_a_burst() {
        let mut presence = TopicPresence::default();
        let change = |presence: &mut TopicPresence, n: usize| {
            track(presence, ANN, "ann", &format!("{{\"n\":{n}}}"));
            presence.flush_in()
        };
        for n in 0..BURST as usize {
            assert_eq!(change(&mut presence, n), Flush::Now, "{n}");
            presence.take_diff();
        }
        for round in 0..3 {
            assert!(matches!(change(&mut presence, 100 + round), Flush::After(_)), "{round}");
            assert_eq!(change(&mut presence, 200 + round), Flush::Scheduled);
            tokio::time::advance(DIFF_INTERVAL - Duration::from_millis(1)).await;
            assert!(presence.take_diff().is_some());
        }
        tokio::time::advance(DIFF_INTERVAL).await;
        assert_eq!(change(&mut presence, 300), Flush::Now, "after a pause");
    }
}
