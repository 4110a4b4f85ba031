//! Bus for several servers on one NATS (decision record: realtime's sockets and bus). All servers of a
//! project publish to one subject.
//!
//! A broadcast is a single message. Presence is replicated state: each server owns the entries of its own
//! channels, numbers every change, and includes the last number in its heartbeats. A server that detects a
//! gap requests a snapshot (`SnapshotRequest`), and the owner sends one (`Snapshot`, in parts). A server without a
//! heartbeat for [`DEAD_AFTER`] is considered dead and its presences are removed.

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

use crate::bus::{Bus, Outbound};
use crate::frames::{Content, Encoding, Fanout};
use crate::hub::Hub;
use crate::metrics;
use crate::presence::{Change, Meta, Owner};
use crate::topic_key::TopicKey;

const HEARTBEAT: Duration = Duration::from_secs(1);
const DEAD_AFTER: Duration = Duration::from_secs(5);
/// Minimum time between two snapshot requests to one server.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(2);
/// Most messages waiting to be sent.
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
        user: Option<UserFrame>,
    },
    Presence(Entry),
    /// The sender missed changes of the node `of` and requests a snapshot.
    #[serde(rename = "SnapshotRequest")]
    SnapshotRequest {
        of: u64,
    },
    /// All presences of the sender's channels, as of `seq`.
    #[serde(rename = "Snapshot")]
    Snapshot {
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
    fn from_key(key: &TopicKey) -> Self {
        Self { name: Arc::clone(&key.name), private: key.is_private }
    }

    fn key(&self) -> TopicKey {
        TopicKey { name: Arc::clone(&self.name), is_private: self.private }
    }
}

/// Header of a broadcast whose payload is framed separately from its event.
#[derive(Debug, Serialize, Deserialize)]
struct UserFrame {
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
        Self { topic: TopicName::from_key(key), member, meta }
    }

    fn size(&self) -> usize {
        let meta = self.meta.as_ref().map_or(0, |meta| meta.payload.len() + meta.json.len() + meta.key.len());
        self.topic.name.len() + meta + 128
    }

    fn into_change(self) -> Change {
        self.meta.map_or(Change::Gone, |Present { key, phx_ref, payload, json }| {
            Change::Set(Meta { key, phx_ref, payload, json })
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
        let (queue, outgoing) = mpsc::channel(QUEUE);
        // Never 0, which stands for this server itself.
        let node = u64::from_be_bytes(basalt_core::random::bytes()) | 1;
        let nats = Self { node, seq: AtomicU64::new(0), queue, queued_bytes: Arc::default() };
        (Arc::new(nats), outgoing)
    }

    fn enqueue(&self, seq: u64, kind: Kind, payload: Option<&[u8]>) {
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

    /// Sends a snapshot of all presences of this server's channels.
    fn send_snapshot(&self, hub: &Hub) {
        // Read first: later changes have a higher number, so a receiver that misses one requests another
        // snapshot.
        let seq = self.seq();
        let (mut entries, mut size, mut is_first) = (Vec::new(), 0, true);
        hub.each_own_presence(|key, member, meta| {
            let entry = Entry::new(key, member, Some(meta));
            if size > 0 && size + entry.size() > PART_BYTES {
                let entries = std::mem::take(&mut entries);
                self.enqueue(seq, Kind::Snapshot { entries, is_first, is_last: false }, None);
                (size, is_first) = (0, false);
            }
            size += entry.size();
            entries.push(entry);
        });
        self.enqueue(seq, Kind::Snapshot { entries, is_first, is_last: true }, None);
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
                        let user =
                            UserFrame { event: event.clone(), encoding: *encoding, meta: meta.clone() };
                        (Some(user), payload)
                    }
                };
                self.enqueue(
                    self.seq(),
                    Kind::Broadcast { topic: TopicName::from_key(key), user },
                    Some(payload),
                );
            }
            Outbound::Presence { key, member, meta } => {
                let seq = self.seq.fetch_add(1, Ordering::AcqRel) + 1;
                self.enqueue(seq, Kind::Presence(Entry::new(key, member, meta)), None);
            }
        }
    }
}

/// State of another server.
struct RemoteNode {
    received_at: Instant,
    /// Number of the last change received without a gap; `None` before the first snapshot.
    received_seq: Option<u64>,
    requested_at: Option<Instant>,
    /// While a snapshot is being received: the presences it contained so far.
    snapshot: Option<HashSet<(TopicKey, u64)>>,
}

struct Listener {
    nats: Arc<Nats>,
    hub: Hub,
    nodes: HashMap<u64, RemoteNode>,
    snapshot_sent_at: Option<Instant>,
}

impl Listener {
    fn handle(&mut self, message: &Bytes) {
        let end = memchr(message).unwrap_or(message.len());
        let head: Result<Head, _> = serde_json::from_slice(message.get(..end).unwrap_or_default());
        let Ok(Head { node, seq, kind }) = head else {
            tracing::debug!("could not parse a message from the bus");
            return;
        };
        if node == self.nats.node {
            return;
        }
        let payload = message.slice((end + 1).min(message.len())..);
        match kind {
            Kind::Broadcast { topic, user } => self.broadcast(&topic.key(), user, payload),
            Kind::Bye => self.remove(node),
            Kind::SnapshotRequest { of } => {
                self.node_mut(node);
                let may_send = self.snapshot_sent_at.is_none_or(|at| at.elapsed() >= SNAPSHOT_INTERVAL / 2);
                if of == self.nats.node && may_send {
                    self.snapshot_sent_at = Some(Instant::now());
                    self.nats.send_snapshot(&self.hub);
                }
            }
            Kind::Beat => {
                if self.node_mut(node).received_seq != Some(seq) {
                    self.request_snapshot(node);
                }
            }
            Kind::Presence(entry) => {
                let remote = self.node_mut(node);
                let is_next = remote.received_seq.is_some_and(|last| last + 1 == seq);
                if is_next {
                    remote.received_seq = Some(seq);
                }
                self.apply(node, entry);
                if !is_next {
                    self.request_snapshot(node);
                }
            }
            Kind::Snapshot { entries, is_first, is_last } => {
                if is_first {
                    self.node_mut(node).snapshot = Some(HashSet::new());
                }
                // If the first part was missed, another snapshot is requested after the next heartbeat.
                if self.node_mut(node).snapshot.is_none() {
                    return;
                }
                for entry in entries {
                    self.apply(node, entry);
                }
                if is_last && let Some(received) = self.node_mut(node).snapshot.take() {
                    self.hub.remove_node(node, &|key, owner| received.contains(&(key.clone(), owner.member)));
                    self.node_mut(node).received_seq = Some(seq);
                }
            }
        }
    }

    fn node_mut(&mut self, node: u64) -> &mut RemoteNode {
        let now = Instant::now();
        let remote = self.nodes.entry(node).or_insert(RemoteNode {
            received_at: now,
            received_seq: None,
            requested_at: None,
            snapshot: None,
        });
        remote.received_at = now;
        remote
    }

    fn request_snapshot(&mut self, node: u64) {
        let remote = self.node_mut(node);
        if remote.requested_at.is_none_or(|at| at.elapsed() >= SNAPSHOT_INTERVAL) {
            remote.requested_at = Some(Instant::now());
            self.nats.enqueue(self.nats.seq(), Kind::SnapshotRequest { of: node }, None);
        }
    }

    fn apply(&mut self, node: u64, entry: Entry) {
        let (key, owner) = (entry.topic.key(), Owner { node, member: entry.member });
        let change = entry.into_change();
        if let Some(received) = self.nodes.get_mut(&node).and_then(|remote| remote.snapshot.as_mut()) {
            match change {
                Change::Set(_) => received.insert((key.clone(), owner.member)),
                Change::Gone => received.remove(&(key.clone(), owner.member)),
            };
        }
        self.hub.apply_remote(&key, owner, change);
    }

    fn broadcast(&self, key: &TopicKey, user: Option<UserFrame>, payload: Bytes) {
        let content = match user {
            None => Content::Text { event: "broadcast", payload },
            Some(UserFrame { event, encoding, meta }) => Content::User { event, encoding, meta, payload },
        };
        self.hub.broadcast_here(key, &Fanout::new(key.full_name(), content), None);
        metrics::count_broadcasts("bus", 1);
    }

    fn remove(&mut self, node: u64) {
        self.nodes.remove(&node);
        self.hub.remove_node(node, &|_, _| false);
    }

    /// Runs once per heartbeat interval: removes dead servers and sends this server's heartbeat.
    fn heartbeat(&mut self) {
        let silent = |remote: &RemoteNode| remote.received_at.elapsed() >= DEAD_AFTER;
        let dead: Vec<u64> =
            self.nodes.iter().filter(|(_, remote)| silent(remote)).map(|(node, _)| *node).collect();
        for node in dead {
            tracing::info!(node, "no heartbeat from a server on the bus; removing its presences");
            self.remove(node);
        }
        #[expect(clippy::cast_precision_loss, reason = "the number of servers is small")]
        metrics::bus_nodes().set(self.nodes.len() as f64);
        self.nats.enqueue(self.nats.seq(), Kind::Beat, None);
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
    mut outgoing: mpsc::Receiver<Bytes>,
    urls: SecretString,
    project: String,
    shutdown: CancellationToken,
) {
    let subject = format!("basalt.{project}.realtime");
    let Some(client) = connect(&urls).await else { return };
    let mut messages = match client.subscribe(subject.clone()).await {
        Ok(messages) => messages,
        Err(error) => {
            tracing::error!(%error, "could not subscribe on NATS; broadcasts and presence stay on this server");
            return;
        }
    };
    let mut listener =
        Listener { nats: Arc::clone(&nats), hub, nodes: HashMap::new(), snapshot_sent_at: None };
    let mut beats = interval(HEARTBEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Separate from receiving: while NATS is unreachable, publishing blocks, but heartbeats must go on.
    let sending = {
        let (client, subject, queued) = (client.clone(), subject.clone(), Arc::clone(&nats.queued_bytes));
        async move {
            while let Some(bytes) = outgoing.recv().await {
                queued.fetch_sub(bytes.len(), Ordering::Relaxed);
                if let Err(error) = client.publish(subject.clone(), bytes).await {
                    metrics::bus_dropped().increment(1);
                    tracing::debug!(%error, "dropped a message to other servers");
                }
            }
        }
    };
    let listening = async {
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => listener.handle(&message.payload),
                    None => return,
                },
                _ = beats.tick() => listener.heartbeat(),
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
            let _in_time = tokio::time::timeout(HEARTBEAT, bye).await;
        }
    }
    metrics::bus_connected().set(0.0);
}

async fn connect(urls: &SecretString) -> Option<Client> {
    let addresses = addresses(urls.expose_secret()).inspect_err(|error| {
        tracing::error!(%error, "invalid realtime.nats_url; broadcasts and presence stay on this server");
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
                    tracing::warn!("lost the connection to NATS; no broadcasts or presence are exchanged until it is restored");
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
            tracing::error!(%error, "cannot connect to NATS; broadcasts and presence stay on this server");
            None
        }
    }
}
