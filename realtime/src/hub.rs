//! Topics of this server: their channels and their presence. Topics are sharded by hash so that joins and
//! messages of different topics rarely contend for a lock. Nothing here waits for a socket.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use basalt_core::convert::saturating;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::bus::{Bus, Outbound};
use crate::changes::{MessagePayload, MessageSink, PermissionSink};
use crate::frames::{Content, Encoding, Fanout, Version, json_text};
use crate::metrics;
use crate::presence::{self, Change, Meta, Owner, TopicPresence};
use crate::queue::{QUEUE_BYTES, Queue};
use crate::quota::QuotaShare;
use crate::topic_key::TopicKey;

/// Must be a power of two.
const SHARDS: usize = 64;
/// Frames held for a channel that may not receive them yet; their bytes are limited to [`QUEUE_BYTES`].
/// Beyond either limit the client has to rejoin.
const HELD_FRAMES: usize = 10_000;

/// Memory for presences of this server's channels. [`presence::MAX_BYTES`] limits those of one topic and of
/// one socket.
const PRESENCE_BYTES: usize = 256 * 1024 * 1024;

/// Pause between two channels that check their permissions because their presence is visible to others.
const CHECK_PAUSE: Duration = Duration::from_millis(5);
/// Minimum time between two changes of the permission epoch.
const MIN_EPOCH: Duration = Duration::from_millis(250);

/// Number of times that the permissions of private channels may have changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PermissionEpoch(Arc<AtomicU64>);

impl PermissionEpoch {
    pub(crate) fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn advance(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// A channel, as seen by senders.
#[derive(Debug)]
pub(crate) struct Member {
    /// Unique on this server.
    pub(crate) id: u64,
    queue: Arc<Queue>,
    version: Version,
    /// JSON text.
    join_ref: Box<str>,
    /// JSON text.
    topic: Box<str>,
    /// Bit set of [`BROADCAST`] and [`PRESENCE`].
    receives: AtomicU8,
    phase: AtomicU8,
    held: Mutex<Held>,
    /// Stored messages sent with the join's reply; later deliveries of them are dropped.
    replayed: OnceLock<Box<[Uuid]>>,
    /// `None` for public channels.
    epoch: Option<PermissionEpoch>,
    /// The epoch in which the permissions were evaluated.
    authorized_in: AtomicU64,

    /// Whether a message passed the channel since [`Member::take_traffic`].
    has_traffic: AtomicBool,
    /// Usage counted against the socket's quota. That of an abandoned join stays counted until its checks
    /// end.
    _quota: Option<QuotaShare>,
}

/// Frames to deliver when the channel opens.
#[derive(Debug, Default)]
struct Held {
    frames: Vec<(Option<Uuid>, Message)>,
    bytes: usize,
}

const BROADCAST: u8 = 1;
const PRESENCE: u8 = 2;

/// The join is unanswered or permissions are being renewed: frames are held.
const HELD: u8 = 0;
const OPEN: u8 = 1;

/// The lease of a private channel has ended: the first frame is held and triggers the renewal.
const LAPSED: u8 = 3;

impl Member {
    /// `topic` is the full name; `join_ref` is JSON text; `epoch` is given for private channels. The new member
    /// receives nothing yet.
    pub(crate) fn new(
        queue: Arc<Queue>,
        version: Version,
        join_ref: Box<str>,
        topic: &str,
        quota: Option<QuotaShare>,
        epoch: Option<PermissionEpoch>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            queue,
            version,
            join_ref,
            topic: json_text(topic).into(),
            receives: AtomicU8::new(0),
            phase: AtomicU8::new(HELD),
            held: Mutex::default(),
            replayed: OnceLock::new(),
            authorized_in: AtomicU64::new(epoch.as_ref().map_or(0, PermissionEpoch::current)),
            epoch,
            has_traffic: AtomicBool::new(false),
            _quota: quota,
        }
    }

    /// Selects what the member receives from now on.
    pub(crate) fn set_receives(&self, broadcast: bool, presence: bool) {
        let receives = (u8::from(broadcast) * BROADCAST) | (u8::from(presence) * PRESENCE);
        self.receives.store(receives, Ordering::Relaxed);
    }

    fn receives(&self, what: u8) -> bool {
        self.receives.load(Ordering::Relaxed) & what != 0
    }

    /// Records the epoch in which the member's permissions were evaluated.
    pub(crate) fn set_authorized_in(&self, epoch: u64) {
        self.authorized_in.store(epoch, Ordering::Release);
    }

    /// Whether the permissions may have changed since they were evaluated.
    pub(crate) fn is_outdated(&self) -> bool {
        let epoch = self.epoch.as_ref();
        epoch.is_some_and(|epoch| epoch.current() != self.authorized_in.load(Ordering::Acquire))
    }

    /// Delivers the held frames and starts delivering new ones, except stored messages with the ids in
    /// `replayed`: they were sent with the reply and may still arrive much later. If the permissions may have
    /// changed meanwhile, requests a renewal instead.
    pub(crate) fn open(&self, replayed: Box<[Uuid]>) {
        let mut held = self.held();
        if !replayed.is_empty() {
            // Can only be set once, and a member is opened with ids only once.
            let _is_first = self.replayed.set(replayed);
        }
        if self.is_outdated() {
            self.phase.store(HELD, Ordering::SeqCst);
            return self.queue.push_renewal(self.id);
        }
        for (id, frame) in std::mem::take(&mut *held).frames {
            if !self.was_replayed(id) {
                self.queue.push(frame);
            }
        }
        self.phase.store(OPEN, Ordering::SeqCst);
    }

    fn was_replayed(&self, id: Option<Uuid>) -> bool {
        id.is_some_and(|id| self.replayed.get().is_some_and(|replayed| replayed.contains(&id)))
    }

    /// Holds frames until the member is opened again.
    pub(crate) fn hold(&self) {
        self.phase.store(HELD, Ordering::SeqCst);
    }

    /// Holds frames until the member is opened again; the first held frame queues a
    /// [`crate::queue::Item::Renewal`].
    pub(crate) fn lapse(&self) {
        self.phase.store(LAPSED, Ordering::SeqCst);
    }

    /// Records that a message passed the channel.
    pub(crate) fn note_traffic(&self) {
        // Usually already set; a store would move the cache line between processors.
        if !self.has_traffic.load(Ordering::Relaxed) {
            self.has_traffic.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a message passed the channel since the last call.
    pub(crate) fn take_traffic(&self) -> bool {
        self.has_traffic.swap(false, Ordering::Relaxed)
    }

    /// Delivers a fan-out frame, now or when the channel opens.
    fn deliver(&self, id: Option<Uuid>, frame: Message) {
        match self.phase.load(Ordering::Acquire) {
            OPEN if self.was_replayed(id) => {}
            OPEN if !self.is_outdated() => {
                self.note_traffic();
                self.queue.push(frame);
            }
            _ => self.deliver_later(id, frame),
        }
    }

    fn deliver_later(&self, id: Option<Uuid>, frame: Message) {
        let mut held = self.held();
        // The phase may have changed before the lock was taken.
        match self.phase.load(Ordering::Acquire) {
            OPEN if self.was_replayed(id) => {}
            OPEN if !self.is_outdated() => self.queue.push(frame),
            phase => {
                let bytes = held.bytes.saturating_add(frame.len());
                if held.frames.len() >= HELD_FRAMES || (bytes > QUEUE_BYTES && held.bytes > 0) {
                    return self.queue.push_gap(self.id);
                }
                held.bytes = bytes;
                held.frames.push((id, frame));
                let is_first = phase != HELD
                    && self.phase.compare_exchange(phase, HELD, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                if is_first {
                    self.queue.push_renewal(self.id);
                }
            }
        }
    }

    /// Delivers a row change; `body` is the JSON payload.
    pub(crate) fn deliver_change(&self, body: &str) {
        let frame = crate::frames::text(self.version, None, None, &self.topic, "postgres_changes", body);
        metrics::deliveries().increment(1);
        self.deliver(None, frame);
    }

    /// Sends a message to this channel only, in any phase.
    pub(crate) fn push(&self, event: &str, payload: &str) {
        self.send(None, event, payload);
    }

    /// Replies to a message; `reference` is JSON text.
    pub(crate) fn reply(&self, reference: Option<&str>, status: &str, response: &str) {
        let payload = format!("{{\"status\":\"{status}\",\"response\":{response}}}");
        self.send(reference, "phx_reply", &payload);
    }

    /// Sends `phx_close` or `phx_error`; both refs are the join's.
    pub(crate) fn end(&self, event: &str, payload: &str) {
        self.send(Some(&self.join_ref), event, payload);
    }

    fn send(&self, reference: Option<&str>, event: &str, payload: &str) {
        let frame =
            crate::frames::text(self.version, Some(&self.join_ref), reference, &self.topic, event, payload);
        self.queue.push(frame);
    }

    /// Sends a fan-out message to this channel only.
    pub(crate) fn push_fanout(&self, fanout: &Fanout) {
        if let Some(frame) = fanout.push_frame(self.version, &self.join_ref) {
            self.queue.push(frame);
        }
    }

    /// Reports that changes were missed.
    pub(crate) fn gap(&self) {
        self.queue.push_gap(self.id);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }
}

/// A topic with its channels and its presence.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) key: TopicKey,
    members: RwLock<BTreeMap<u64, Arc<Member>>>,
    presence: Mutex<TopicPresence>,
}

impl Topic {
    fn new(key: TopicKey) -> Self {
        Self { key, members: RwLock::default(), presence: Mutex::default() }
    }

    fn presence(&self) -> MutexGuard<'_, TopicPresence> {
        self.presence.lock()
    }

    fn deliver(&self, fanout: &Fanout, what: u8, except: Option<u64>) -> usize {
        let members = self.members.read();
        let mut count = 0;
        for (id, member) in members.iter() {
            if Some(*id) == except || !member.receives(what) {
                continue;
            }
            if let Some(frame) = fanout.frame(member.version) {
                member.deliver(fanout.id, frame);
                count += 1;
            }
        }
        count
    }

    /// Sends the pending presence diff. Called with the lock held, so that diffs are sent in order.
    fn flush_presence(&self, presence: &mut TopicPresence) {
        if let Some(diff) = presence.take_diff() {
            let content = Content::Text { event: "presence_diff", payload: Bytes::from(diff) };
            self.deliver(&Fanout::new(self.key.full_name(), content), PRESENCE, None);
        }
    }
}

impl MessageSink for Hub {
    fn message(&self, topic: &str, private: bool, event: &str, payload: MessagePayload, id: Uuid) {
        let key = TopicKey::new(topic, private);
        let (encoding, payload) = match payload {
            MessagePayload::Json(text) => (Encoding::Json, text),
            MessagePayload::Binary(bytes) => (Encoding::Binary, bytes),
        };
        let meta = Some(format!("{{\"id\":\"{id}\"}}").into());
        let content = Content::User { event: event.into(), encoding, meta, payload };
        // Not sent to the bus: every server reads the database's messages itself.
        self.broadcast_here(&key, &Fanout::new(key.full_name(), content).with_id(id), None);
        metrics::count_broadcasts("database", 1);
    }
}

impl PermissionSink for Hub {
    fn permissions_changed(&self) -> BoxFuture<'_, ()> {
        self.shared.epoch.advance();
        metrics::permission_changes().increment(1);
        Box::pin(async move {
            let started = Instant::now();
            // Other channels check at their next message, in either direction.
            for member in self.present_private_members() {
                member.queue.push_renewal(member.id);
                sleep(CHECK_PAUSE).await;
            }
            let all = CHECK_PAUSE.saturating_mul(saturating(self.private_channels()));
            sleep_until(started + all.max(MIN_EPOCH)).await;
        })
    }
}

type Shard = Mutex<HashMap<TopicKey, Arc<Topic>>>;

/// All topics of this server, and the bus to other servers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hub {
    shared: Arc<Shared>,
}

struct Shared {
    shards: [Shard; SHARDS],
    hasher: RandomState,
    bus: Arc<dyn Bus>,
    /// Memory of presences of this server's channels.
    presence_bytes: AtomicUsize,
    /// Number of joined private channels.
    private_channels: AtomicUsize,
    epoch: PermissionEpoch,
    tracker: TaskTracker,
}

#[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
fn show_presence_bytes(bytes: usize) {
    metrics::presence_bytes().set(bytes as f64);
}

/// The memory limit for presences is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PresenceFull;

impl Hub {
    pub(crate) fn new(bus: Arc<dyn Bus>, tracker: TaskTracker) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self {
            shared: Arc::new(Shared {
                shards,
                hasher: RandomState::new(),
                bus,
                presence_bytes: AtomicUsize::new(0),
                private_channels: AtomicUsize::new(0),
                epoch: PermissionEpoch::default(),
                tracker,
            }),
        }
    }

    fn shard(&self, key: &TopicKey) -> MutexGuard<'_, HashMap<TopicKey, Arc<Topic>>> {
        #[expect(clippy::cast_possible_truncation, reason = "only the low bits are used")]
        let index = self.shared.hasher.hash_one(key) as usize % SHARDS;
        #[expect(clippy::indexing_slicing, reason = "the remainder is less than SHARDS")]
        self.shared.shards[index].lock()
    }

    fn find(&self, key: &TopicKey) -> Option<Arc<Topic>> {
        self.shard(key).get(key).cloned()
    }

    /// Adds a channel to its topic until the registration is dropped.
    pub(crate) fn join(&self, key: &TopicKey, member: Arc<Member>) -> Registration {
        let topic = {
            let mut shard = self.shard(key);
            let topic = shard.entry(key.clone()).or_insert_with(|| Arc::new(Topic::new(key.clone())));
            let mut members = topic.members.write();
            members.insert(member.id, Arc::clone(&member));
            drop(members);
            Arc::clone(topic)
        };
        metrics::channels().increment(1.0);
        if key.is_private {
            self.shared.private_channels.fetch_add(1, Ordering::Relaxed);
        }
        Registration { hub: self.clone(), topic, member, presence_bytes: 0 }
    }

    /// Number of private channels joined on this server.
    pub(crate) fn private_channels(&self) -> usize {
        self.shared.private_channels.load(Ordering::Relaxed)
    }

    /// The epoch in which permissions are evaluated now.
    pub(crate) fn permission_epoch(&self) -> &PermissionEpoch {
        &self.shared.epoch
    }

    /// Private channels of this server whose presence is visible to others.
    fn present_private_members(&self) -> Vec<Arc<Member>> {
        let mut found = Vec::new();
        for shard in &self.shared.shards {
            let topics: Vec<Arc<Topic>> =
                shard.lock().values().filter(|topic| topic.key.is_private).cloned().collect();
            for topic in topics {
                let present = topic.presence().own();
                let members = topic.members.read();
                found.extend(present.into_iter().filter_map(|(id, _)| members.get(&id).cloned()));
            }
        }
        found
    }

    /// Removes the topic if it has neither channels nor presences.
    fn remove_if_empty(&self, key: &TopicKey) {
        let mut shard = self.shard(key);
        // Takes the locks one after the other: a holder of the presence lock may wait for the members lock.
        let is_empty = shard.get(key).is_some_and(|topic| {
            let is_left = topic.members.read().is_empty();
            is_left && topic.presence().is_empty()
        });
        if is_empty {
            shard.remove(key);
        }
    }

    /// Sends a message to all channels of a topic on all servers, except `except`. Returns the number of
    /// receivers on this server.
    pub(crate) fn broadcast(
        &self,
        key: &TopicKey,
        fanout: &Fanout,
        content: &Content,
        except: Option<u64>,
    ) -> usize {
        if self.shared.bus.has_others() {
            self.shared.bus.send(Outbound::Broadcast { key, content });
        }
        self.broadcast_here(key, fanout, except)
    }

    /// Like [`Self::broadcast`], on this server only.
    pub(crate) fn broadcast_here(&self, key: &TopicKey, fanout: &Fanout, except: Option<u64>) -> usize {
        let Some(topic) = self.find(key) else { return 0 };
        let count = topic.deliver(fanout, BROADCAST, except);
        metrics::deliveries().increment(saturating::<u64>(count));
        count
    }

    /// Applies a presence change received from another server.
    pub(crate) fn apply_remote(&self, key: &TopicKey, owner: Owner, change: Change) {
        // Holds the shard's lock so that the topic is not removed before it is changed.
        let mut shard = self.shard(key);
        let topic = match change {
            Change::Gone => shard.get(key).cloned(),
            Change::Set(_) => Some(Arc::clone(
                shard.entry(key.clone()).or_insert_with(|| Arc::new(Topic::new(key.clone()))),
            )),
        };
        let Some(topic) = topic else { return };
        self.change_presence(&topic, owner, change);
        drop(shard);
        self.remove_if_empty(key);
    }

    /// Removes all presences of another server, except those for which `kept` returns true.
    pub(crate) fn remove_node(&self, node: u64, kept: &dyn Fn(&TopicKey, Owner) -> bool) {
        for shard in &self.shared.shards {
            let topics: Vec<Arc<Topic>> = shard.lock().values().cloned().collect();
            for topic in topics {
                let owners = topic.presence().owners_of(node);
                let mut is_changed = false;
                for owner in owners {
                    if !kept(&topic.key, owner) {
                        self.change_presence(&topic, owner, Change::Gone);
                        is_changed = true;
                    }
                }
                if is_changed {
                    self.remove_if_empty(&topic.key);
                }
            }
        }
    }

    /// Calls `visit` with every presence of this server's channels.
    pub(crate) fn each_own_presence(&self, mut visit: impl FnMut(&TopicKey, u64, &Meta)) {
        for shard in &self.shared.shards {
            let topics: Vec<Arc<Topic>> = shard.lock().values().cloned().collect();
            for topic in topics {
                for (member, meta) in topic.presence().own() {
                    visit(&topic.key, member, &meta);
                }
            }
        }
    }

    fn change_presence(&self, topic: &Arc<Topic>, owner: Owner, change: Change) {
        let mut presence = topic.presence();
        presence.apply(owner, change);
        match presence.flush_in() {
            presence::Flush::Now => topic.flush_presence(&mut presence),
            presence::Flush::Scheduled => {}
            presence::Flush::After(pause) => {
                let topic = Arc::clone(topic);
                self.shared.tracker.spawn(async move {
                    tokio::time::sleep(pause).await;
                    let mut presence = topic.presence();
                    topic.flush_presence(&mut presence);
                });
            }
        }
    }
}

/// A channel's membership in its topic. Dropping it removes the channel and its presence.
pub(crate) struct Registration {
    hub: Hub,
    topic: Arc<Topic>,
    pub(crate) member: Arc<Member>,
    /// Memory of the channel's presence; 0 if it is not present.
    presence_bytes: usize,
}

impl Registration {
    pub(crate) fn key(&self) -> TopicKey {
        self.topic.key.clone()
    }

    /// Content of `presence_state`, as of the last diff.
    pub(crate) fn presence_state(&self) -> Arc<str> {
        self.topic.presence().state()
    }

    /// Memory of the channel's presence.
    pub(crate) fn presence_bytes(&self) -> usize {
        self.presence_bytes
    }

    /// Makes the channel present under `key` with `payload`, a JSON object. `others` is the memory of the
    /// other presences of its socket.
    ///
    /// # Errors
    /// The socket, the topic or the server has reached its memory limit for presences; the previous presence
    /// is kept.
    pub(crate) fn track(&mut self, key: &str, payload: &str, others: usize) -> Result<(), PresenceFull> {
        let owner = Owner { node: presence::THIS_NODE, member: self.member.id };
        let meta = {
            let presence = self.topic.presence();
            let Some(meta) = presence.next_meta(owner, key, payload) else { return Ok(()) };
            if !presence.has_room(owner, &meta) || others + meta.size() > presence::MAX_BYTES {
                return Err(PresenceFull);
            }
            meta
        };
        let all = &self.hub.shared.presence_bytes;
        let before = all.fetch_add(meta.size(), Ordering::Relaxed);
        if before + meta.size() > PRESENCE_BYTES {
            all.fetch_sub(meta.size(), Ordering::Relaxed);
            return Err(PresenceFull);
        }
        let old = std::mem::replace(&mut self.presence_bytes, meta.size());
        show_presence_bytes(all.fetch_sub(old, Ordering::Relaxed) - old);
        // The local state first: a change with a sequence number must be contained in the snapshots sent
        // over the bus.
        self.hub.change_presence(&self.topic, owner, Change::Set(meta.clone()));
        let bus = &self.hub.shared.bus;
        bus.send(Outbound::Presence { key: &self.topic.key, member: self.member.id, meta: Some(&meta) });
        Ok(())
    }

    /// Ends the channel's presence.
    pub(crate) fn untrack(&mut self) {
        let bytes = std::mem::take(&mut self.presence_bytes);
        if bytes == 0 {
            return;
        }
        let all = &self.hub.shared.presence_bytes;
        show_presence_bytes(all.fetch_sub(bytes, Ordering::Relaxed) - bytes);
        let owner = Owner { node: presence::THIS_NODE, member: self.member.id };
        self.hub.change_presence(&self.topic, owner, Change::Gone);
        let bus = &self.hub.shared.bus;
        bus.send(Outbound::Presence { key: &self.topic.key, member: self.member.id, meta: None });
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut members = self.topic.members.write();
        members.remove(&self.member.id);
        let is_last = members.is_empty();
        drop(members);
        self.untrack();
        metrics::channels().decrement(1.0);
        if self.topic.key.is_private {
            self.hub.shared.private_channels.fetch_sub(1, Ordering::Relaxed);
        }
        if is_last {
            self.hub.remove_if_empty(&self.topic.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Item;

    fn member() -> (Arc<Queue>, Member) {
        let queue = Arc::new(Queue::default());
        let member = Member::new(Arc::clone(&queue), Version::V2, "\"1\"".into(), "realtime:a", None, None);
        (queue, member)
    }

    fn frames(queue: &Queue) -> Vec<String> {
        let shown = |item| match item {
            Item::Frame(frame) => frame.to_string(),
            Item::Gap(_) => "gap".to_owned(),
            Item::Renewal(_) => "renewal".to_owned(),
        };
        queue.take().unwrap().into_iter().map(shown).collect()
    }

    #[test]
    fn replayed_messages_are_not_delivered_again() {
        let (queue, member) = member();
        let (stored, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        member.deliver(Some(stored), Message::text("stored"));
        member.deliver(Some(other), Message::text("held"));
        member.open(Box::new([stored]));
        member.deliver(Some(stored), Message::text("late"));
        member.deliver(None, Message::text("after"));
        assert_eq!(frames(&queue), ["held", "after"]);
    }

    #[test]
    fn frames_wait_for_the_lease_renewal() {
        let (queue, member) = member();
        member.open(Box::default());
        member.deliver(None, Message::text("before"));
        assert!(member.take_traffic() && !member.take_traffic());
        member.lapse();
        member.deliver(None, Message::text("first"));
        member.deliver(None, Message::text("second"));
        assert_eq!(frames(&queue), ["before", "renewal"], "requested once");
        member.open(Box::default());
        assert_eq!(frames(&queue), ["first", "second"]);

        // If no renewal happens, held frames are bounded.
        member.lapse();
        let large = "x".repeat(QUEUE_BYTES / 4 + 1);
        for _ in 0..4 {
            member.deliver(None, Message::text(large.as_str()));
        }
        assert_eq!(frames(&queue), ["renewal", "gap"]);
    }
}
