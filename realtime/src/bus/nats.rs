//! Several servers on one NATS (docs/decisions: realtime's sockets and bus). All of a project publish to one subject.
//!
//! A broadcast is one message. Presence is a state that each server owns its part of: every change has a number, every
//! beat names the last one. A server that missed some asks for all (`Ask`), and the owner tells all (`Everything`, in
//! parts). Whom no beat was heard of for [`DEAD_AFTER`] is gone, and so are its users.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use bytes::Bytes;
use futures_util::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::{Bus, Outbound};
use crate::frames::{Content, Encoding, Fanout};
use crate::hub::Hub;
use crate::metrics;
use crate::presence::{Change, Meta, Owner};
use crate::topic_key::TopicKey;

const BEAT: Duration = Duration::from_secs(1);
const DEAD_AFTER: Duration = Duration::from_secs(5);
/// Least time between two questions to one server, and between two answers.
const ASK_PAUSE: Duration = Duration::from_secs(2);
/// Messages that wait to be sent, and their bytes.
const QUEUE: usize = 4096;
/// Most bytes waiting to be sent.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;
/// Size of one part of a snapshot; by default NATS accepts messages of up to 1 MB.
const PART_BYTES: usize = 256 * 1024;

/// Header of a message; the payload of a broadcast follows after a line feed.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    /// Node id of the sender.
    node: u64,
    /// Number of the sender's last presence change.
    seq: u64,
    kind: Kind,
}

#[derive(Debug, Serialize, Deserialize)]
enum Kind {
    Beat,
    /// The sender shuts down.
    Bye,
    Broadcast {
        topic: TopicName,
        user: Option<User>,
    },
    Presence(Entry),
    /// The sender missed changes of this server.
    Ask {
        of: u64,
    },
    /// All that is present through the sender, as of `seq`.
    Everything {
        entries: Vec<Entry>,
        is_first: bool,
        is_last: bool,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct TopicName {
    name: Arc<str>,
    private: bool,
}

impl TopicName {
    fn of(key: &TopicKey) -> Self {
        Self { name: Arc::clone(&key.name), private: key.is_private }
    }

    fn key(&self) -> TopicKey {
        TopicKey { name: Arc::clone(&self.name), is_private: self.private }
    }
}

/// Header of a broadcast whose payload is framed separately from its event.
#[derive(Debug, Serialize, Deserialize)]
struct User {
    event: Box<str>,
    encoding: Encoding,
    meta: Option<Box<str>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    topic: TopicName,
    member: u64,
    /// `None` if the presence was removed.
    meta: Option<Present>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Present {
    key: Arc<str>,
    phx_ref: Arc<str>,
    payload: Arc<str>,
    json: Arc<str>,
}

impl Entry {
    fn new(key: &TopicKey, member: u64, meta: Option<&Meta>) -> Self {
        let meta = meta.map(|Meta { key, phx_ref, payload, json }| Present {
            key: Arc::clone(key),
            phx_ref: Arc::clone(phx_ref),
            payload: Arc::clone(payload),
            json: Arc::clone(json),
        });
        Self { topic: TopicName::of(key), member, meta }
    }

    fn size(&self) -> usize {
        let meta = self.meta.as_ref().map_or(0, |meta| meta.payload.len() + meta.json.len() + meta.key.len());
        self.topic.name.len() + meta + 128
    }

    fn into_change(self) -> Change {
        self.meta.map_or(Change::Gone, |Present { key, phx_ref, payload, json }| {
            Change::Is(Meta { key, phx_ref, payload, json })
        })
    }
}

/// This server's sender to the bus.
pub(crate) struct Nats {
    node: u64,
    seq: AtomicU64,
    queue: mpsc::Sender<Bytes>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Nats {
    /// Returns the bus and the queue of messages that [`run`] sends.
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<Bytes>) {
        let (queue, sent) = mpsc::channel(QUEUE);
        // 0 is this server for itself.
        let node = u64::from_be_bytes(basalt_core::random::bytes()) | 1;
        let nats = Self { node, seq: AtomicU64::new(0), queue, queued_bytes: Arc::default() };
        (Arc::new(nats), sent)
    }

    fn tell(&self, seq: u64, kind: Kind, payload: Option<&[u8]>) {
        let head = Head { node: self.node, seq, kind };
        let Ok(mut bytes) = serde_json::to_vec(&head) else { return };
        if let Some(payload) = payload {
            bytes.push(b'\n');
            bytes.extend_from_slice(payload);
        }
        let length = bytes.len();
        let waiting = self.queued_bytes.fetch_add(length, Ordering::Relaxed);
        if waiting > QUEUE_BYTES || self.queue.try_send(bytes.into()).is_err() {
            self.queued_bytes.fetch_sub(length, Ordering::Relaxed);
            metrics::bus_dropped().increment(1);
        }
    }

    fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    /// Tells all that is present through this server.
    fn tell_everything(&self, hub: &Hub) {
        // What happens from here on has a later number, and makes the others ask once more.
        let seq = self.seq();
        let (mut entries, mut size, mut is_first) = (Vec::new(), 0, true);
        hub.each_own_presence(|key, member, meta| {
            let entry = Entry::new(key, member, Some(meta));
            if size > 0 && size + entry.size() > PART_BYTES {
                let entries = std::mem::take(&mut entries);
                self.tell(seq, Kind::Everything { entries, is_first, is_last: false }, None);
                (size, is_first) = (0, false);
            }
            size += entry.size();
            entries.push(entry);
        });
        self.tell(seq, Kind::Everything { entries, is_first, is_last: true }, None);
    }
}

impl Bus for Nats {
    fn has_others(&self) -> bool {
        true
    }

    fn send(&self, message: Outbound<'_>) {
        match message {
            Outbound::Broadcast { key, content } => {
                let (user, payload) = match content {
                    Content::Text { event: _, payload } => (None, payload),
                    Content::User { event, encoding, meta, payload } => {
                        let user = User { event: event.clone(), encoding: *encoding, meta: meta.clone() };
                        (Some(user), payload)
                    }
                };
                self.tell(self.seq(), Kind::Broadcast { topic: TopicName::of(key), user }, Some(payload));
            }
            Outbound::Presence { key, member, meta } => {
                let seq = self.seq.fetch_add(1, Ordering::AcqRel) + 1;
                self.tell(seq, Kind::Presence(Entry::new(key, member, meta)), None);
            }
        }
    }
}

/// What is known of another server.
struct Other {
    heard_at: Instant,
    /// Number of the last change up to which nothing was missed; `None` before everything was told.
    heard_seq: Option<u64>,
    asked_at: Option<Instant>,
    /// While everything is being told: who is present.
    telling: Option<HashSet<(TopicKey, u64)>>,
}

struct Listener {
    nats: Arc<Nats>,
    hub: Hub,
    others: HashMap<u64, Other>,
    told_at: Option<Instant>,
}

impl Listener {
    fn hear(&mut self, message: &Bytes) {
        let end = memchr(message).unwrap_or(message.len());
        let head: Result<Head, _> = serde_json::from_slice(message.get(..end).unwrap_or_default());
        let Ok(Head { node, seq, kind }) = head else {
            tracing::debug!("a message of the bus was not understood");
            return;
        };
        if node == self.nats.node {
            return;
        }
        let payload = message.slice((end + 1).min(message.len())..);
        match kind {
            Kind::Broadcast { topic, user } => self.broadcast(&topic.key(), user, payload),
            Kind::Bye => self.forget(node),
            Kind::Ask { of } => {
                self.other(node);
                let is_rested = self.told_at.is_none_or(|at| at.elapsed() >= ASK_PAUSE / 2);
                if of == self.nats.node && is_rested {
                    self.told_at = Some(Instant::now());
                    self.nats.tell_everything(&self.hub);
                }
            }
            Kind::Beat => {
                if self.other(node).heard_seq != Some(seq) {
                    self.ask(node);
                }
            }
            Kind::Presence(entry) => {
                let other = self.other(node);
                let is_next = other.heard_seq.is_some_and(|heard| heard + 1 == seq);
                if is_next {
                    other.heard_seq = Some(seq);
                }
                self.apply(node, entry);
                if !is_next {
                    self.ask(node);
                }
            }
            Kind::Everything { entries, is_first, is_last } => {
                if is_first {
                    self.other(node).telling = Some(HashSet::new());
                }
                // One whose beginning was missed is told again after the next beat.
                if self.other(node).telling.is_none() {
                    return;
                }
                for entry in entries {
                    self.apply(node, entry);
                }
                if is_last && let Some(told) = self.other(node).telling.take() {
                    self.hub.forget_node(node, &|key, owner| told.contains(&(key.clone(), owner.member)));
                    self.other(node).heard_seq = Some(seq);
                }
            }
        }
    }

    fn other(&mut self, node: u64) -> &mut Other {
        let now = Instant::now();
        let other = self.others.entry(node).or_insert(Other {
            heard_at: now,
            heard_seq: None,
            asked_at: None,
            telling: None,
        });
        other.heard_at = now;
        other
    }

    fn ask(&mut self, node: u64) {
        let other = self.other(node);
        if other.asked_at.is_none_or(|at| at.elapsed() >= ASK_PAUSE) {
            other.asked_at = Some(Instant::now());
            self.nats.tell(self.nats.seq(), Kind::Ask { of: node }, None);
        }
    }

    fn apply(&mut self, node: u64, entry: Entry) {
        let (key, owner) = (entry.topic.key(), Owner { node, member: entry.member });
        let change = entry.into_change();
        if let Some(told) = self.others.get_mut(&node).and_then(|other| other.telling.as_mut()) {
            match change {
                Change::Is(_) => told.insert((key.clone(), owner.member)),
                Change::Gone => told.remove(&(key.clone(), owner.member)),
            };
        }
        self.hub.apply_remote(&key, owner, change);
    }

    fn broadcast(&self, key: &TopicKey, user: Option<User>, payload: Bytes) {
        let content = match user {
            None => Content::Text { event: "broadcast", payload },
            Some(User { event, encoding, meta }) => Content::User { event, encoding, meta, payload },
        };
        self.hub.broadcast_here(key, &Fanout::new(key.full_name(), content), None);
        metrics::count_broadcasts("bus", 1);
    }

    fn forget(&mut self, node: u64) {
        self.others.remove(&node);
        self.hub.forget_node(node, &|_, _| false);
    }

    /// Every beat: who was silent for too long is gone.
    fn beat(&mut self) {
        let silent = |other: &Other| other.heard_at.elapsed() >= DEAD_AFTER;
        let dead: Vec<u64> =
            self.others.iter().filter(|(_, other)| silent(other)).map(|(node, _)| *node).collect();
        for node in dead {
            tracing::info!(node, "a server of the bus was silent for too long; its users are gone");
            self.forget(node);
        }
        #[expect(clippy::cast_precision_loss, reason = "the number of servers is small")]
        metrics::bus_nodes().set(self.others.len() as f64);
        self.nats.tell(self.nats.seq(), Kind::Beat, None);
    }
}

fn memchr(message: &[u8]) -> Option<usize> {
    message.iter().position(|byte| *byte == b'\n')
}

/// Parses the servers of `realtime.nats_url`.
///
/// # Errors
/// One of them is not a valid URL.
pub(crate) fn addresses(urls: &str) -> Result<Vec<ServerAddr>, std::io::Error> {
    urls.split(',').map(|url| url.trim().parse()).collect()
}

/// Connects, reconnecting when the connection is lost; sends and receives until `shutdown`.
pub(crate) async fn run(
    nats: Arc<Nats>,
    hub: Hub,
    mut sent: mpsc::Receiver<Bytes>,
    urls: SecretString,
    project: String,
    shutdown: CancellationToken,
) {
    let subject = format!("basalt.{project}.realtime");
    let Some(client) = connect(&urls).await else { return };
    let mut heard = match client.subscribe(subject.clone()).await {
        Ok(heard) => heard,
        Err(error) => {
            tracing::error!(%error, "NATS does not let this server listen; it stays alone");
            return;
        }
    };
    let mut listener = Listener { nats: Arc::clone(&nats), hub, others: HashMap::new(), told_at: None };
    let mut beats = interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Separate from receiving: while NATS is unreachable, publishing blocks, but heartbeats must go on.
    let sending = {
        let (client, subject, queued) = (client.clone(), subject.clone(), Arc::clone(&nats.queued_bytes));
        async move {
            while let Some(bytes) = sent.recv().await {
                queued.fetch_sub(bytes.len(), Ordering::Relaxed);
                if let Err(error) = client.publish(subject.clone(), bytes).await {
                    metrics::bus_dropped().increment(1);
                    tracing::debug!(%error, "a message for other servers was dropped");
                }
            }
        }
    };
    let listening = async {
        loop {
            tokio::select! {
                message = heard.next() => match message {
                    Some(message) => listener.hear(&message.payload),
                    None => return,
                },
                _ = beats.tick() => listener.beat(),
            }
        }
    };
    tokio::select! {
        () = sending => {}
        () = listening => {}
        () = shutdown.cancelled() => {
            let head = Head { node: nats.node, seq: nats.seq(), kind: Kind::Bye };
            let bye = async {
                let bytes = serde_json::to_vec(&head).unwrap_or_default();
                let _sent = client.publish(subject, bytes.into()).await;
                let _flushed = client.flush().await;
            };
            let _in_time = tokio::time::timeout(BEAT, bye).await;
        }
    }
    metrics::bus_connected().set(0.0);
}

async fn connect(urls: &SecretString) -> Option<Client> {
    let addresses = addresses(urls.expose_secret()).inspect_err(|error| {
        tracing::error!(%error, "realtime.nats_url cannot be used; this server stays alone");
    });
    let options = ConnectOptions::new()
        .name("basalt")
        .no_echo()
        .retry_on_initial_connect()
        .client_capacity(QUEUE / 4)
        .ping_interval(Duration::from_secs(5))
        .event_callback(|event| async move {
            match event {
                Event::Connected => {
                    metrics::bus_connected().set(1.0);
                    tracing::info!("connected to NATS");
                }
                Event::Disconnected => {
                    metrics::bus_connected().set(0.0);
                    tracing::warn!("the connection to NATS was lost; other servers hear nothing from this one until it is back");
                }
                Event::LameDuckMode
                | Event::Draining
                | Event::Closed
                | Event::SlowConsumer(_)
                | Event::ServerError(_)
                | Event::ClientError(_) => tracing::debug!(%event, "NATS"),
            }
        });
    match options.connect(addresses.ok()?).await {
        Ok(client) => Some(client),
        Err(error) => {
            tracing::error!(%error, "NATS cannot be reached; this server stays alone");
            None
        }
    }
}
