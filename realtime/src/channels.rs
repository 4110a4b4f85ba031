//! The channels of one socket and the dispatch of its messages (realtime.md 3.2 to 3.14). Nothing here
//! waits: database work becomes a future in `pending`, and messages that depend on it are deferred until it
//! completes.

mod admission;
mod joining;
mod lease;
mod tokens;
mod traffic;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use crate::Realtime;
use crate::authorization::{Caller, Extension, PolicyError, Readable, Renewed};
use crate::changes::Subscription;
use crate::frames::{Incoming, Malformed, Version, json_text, text};
use crate::hub::{Member, Registration};
use crate::join::{Join, system_message};
use crate::limits::UserSlot;
use crate::metrics;
use crate::queue::Queue;
use crate::quota::Quota;
use crate::token::{Client, Token};
use admission::Admitted;
use lease::Lease;

/// Most messages deferred until one database check completes; more are dropped.
const MAX_DEFERRED: usize = 256;
/// Largest payload of a message that is parsed completely, which is any except broadcasts and presence.
const MAX_CONTROL_BYTES: usize = 1024 * 1024;

/// What the handshake established about a client.
pub(crate) struct Peer {
    pub(crate) version: Version,
    pub(crate) client: Client,
    pub(crate) token: Token,
    /// `request.headers` for policies.
    pub(crate) headers: Arc<str>,
    pub(crate) address: Option<IpAddr>,
    /// Cancelled when the server shuts down.
    pub(crate) draining: CancellationToken,
}

/// What the socket does after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue,
    /// Too many joins per second: close the socket.
    TooManyJoins,
}

pub(crate) struct Channels {
    realtime: Arc<Realtime>,
    queue: Arc<Queue>,
    quota: Arc<Quota>,
    version: Version,
    client: Client,
    /// The connection's token, used by joins without one.
    token: Token,
    headers: Arc<str>,
    address: Option<IpAddr>,
    draining: CancellationToken,
    /// By full topic name.
    slots: HashMap<Box<str>, Slot>,
    pending: FuturesUnordered<BoxFuture<'static, Completed>>,
    /// Set once a channel has been joined.
    user: Option<UserSlot>,
    /// When the last channel ended.
    empty_since: Instant,
}

enum Slot {
    /// Messages that arrive before the join's reply are deferred.
    Joining {
        id: u64,
        reference: Option<Box<str>>,
        member: Arc<Member>,
        waiting: Vec<Message>,
    },
    Joined(Box<Channel>),
}

struct Channel {
    registration: Registration,
    caller: Caller,
    /// Set for private channels only.
    lease: Option<Lease>,
    acks: bool,
    receives_own: bool,
    presence_enabled: bool,
    readable: Readable,
    may_broadcast: Permission,
    may_track: Permission,
    /// Messages deferred until a permission or lease check completes.
    waiting: Vec<Message>,
    presence_calls: (Instant, u32),
    subscription: Option<Subscription>,
    /// A new token is being checked.
    is_refreshing: bool,
    /// The token to check after that.
    next_token: Option<Token>,
    /// When the token is verified next.
    check_at: Instant,
}

/// Write permission of a private channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    /// Not evaluated yet.
    Unknown,
    Checking,
    Granted,
    Refused,
}

/// A completed database check.
enum Completed {
    Join {
        topic: Box<str>,
        id: u64,
        outcome: Result<Admitted, String>,
        join: Box<Join>,
        caller: Caller,
    },
    Write {
        topic: Box<str>,
        id: u64,
        token: Token,
        /// The permission epoch in which it began.
        epoch: u64,
        extension: Extension,
        outcome: Result<Writable, PolicyError>,
    },
    Renewal {
        topic: Box<str>,
        id: u64,
        token: Token,
        epoch: u64,
        outcome: Result<Renewed, PolicyError>,
    },
    Token {
        topic: Box<str>,
        id: u64,
        token: Token,
        epoch: u64,
        outcome: Result<Readable, PolicyError>,
    },
    /// Whether messages from the database can be received.
    Replication {
        topic: Box<str>,
        id: u64,
        is_ready: bool,
    },
}

struct Writable {
    is_granted: bool,
    /// Whether presence may be read, if that was not evaluated at the join.
    reads_presence: Option<bool>,
}

impl Channels {
    pub(crate) fn new(realtime: Arc<Realtime>, queue: Arc<Queue>, peer: Peer) -> Self {
        let Peer { version, client, token, headers, address, draining } = peer;
        Self {
            realtime,
            queue,
            quota: Arc::default(),
            version,
            client,
            token,
            headers,
            address,
            draining,
            slots: HashMap::new(),
            pending: FuturesUnordered::new(),
            user: None,
            empty_since: Instant::now(),
        }
    }

    /// Handles a message from the client.
    pub(crate) fn receive(&mut self, message: &Message) -> Verdict {
        let incoming = match message {
            Message::Text(frame) => Incoming::text(self.version, frame),
            Message::Binary(frame) if self.version == Version::V2 => Incoming::binary(frame),
            Message::Binary(_) => Err(Malformed("binary frame, which this serializer does not have")),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {
                return Verdict::Continue;
            }
        };
        match incoming {
            Ok(incoming) => self.handle(&incoming, message),
            Err(Malformed(reason)) => {
                metrics::malformed().increment(1);
                tracing::debug!(reason, "MalformedWebSocketMessage: frame dropped");
                Verdict::Continue
            }
        }
    }

    fn handle(&mut self, incoming: &Incoming<'_>, message: &Message) -> Verdict {
        if incoming.event == "phx_join" {
            return self.join(incoming);
        }
        let topic = incoming.topic.as_ref();
        if topic == "phoenix" && incoming.event == "heartbeat" {
            self.answer(incoming, None, "ok", "{}");
            return Verdict::Continue;
        }
        match self.slots.get_mut(topic) {
            None if incoming.event == "phx_leave" => {
                self.answer(incoming, incoming.join_ref.as_deref(), "ok", "{}")
            }
            None => self.answer(incoming, None, "error", UNMATCHED),
            Some(Slot::Joining { .. }) if incoming.event == "phx_leave" => self.leave(incoming),
            Some(Slot::Joining { waiting, .. }) => defer(waiting, message),
            Some(Slot::Joined(channel)) => match incoming.event.as_ref() {
                "broadcast" | "presence" if !channel.waiting.is_empty() => {
                    defer(&mut channel.waiting, message)
                }
                "broadcast" | "presence" if channel.awaits_lease() => {
                    defer(&mut channel.waiting, message);
                    self.renew(topic);
                }
                "broadcast" => self.broadcast(incoming, message),
                "presence" => self.presence(incoming, message),
                "access_token" => self.access_token(topic, &incoming.body),
                "phx_leave" => self.leave(incoming),
                // Upstream does not reply either.
                _ => tracing::debug!("unknown event dropped"),
            },
        }
        Verdict::Continue
    }

    /// Replies to a message that belongs to no channel.
    fn answer(&self, incoming: &Incoming<'_>, join_ref: Option<&str>, status: &str, response: &str) {
        let payload = format!("{{\"status\":\"{status}\",\"response\":{response}}}");
        let topic = json_text(&incoming.topic);
        let reference = incoming.reference.as_deref();
        self.queue.push(text(self.version, join_ref, reference, &topic, "phx_reply", &payload));
    }

    /// Runs a check. Most complete without a query, and are finished immediately.
    fn run(&mut self, check: BoxFuture<'static, Completed>) {
        self.pending.push(check);
        if let Some(Some(completed)) = self.pending.next().now_or_never() {
            self.finish(completed);
        }
    }

    /// Whether checks are pending.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Waits for the next pending check and handles its result.
    pub(crate) async fn proceed(&mut self) {
        if let Some(completed) = self.pending.next().await {
            self.finish(completed);
        }
    }

    fn finish(&mut self, completed: Completed) {
        let waiting = match completed {
            Completed::Join { topic, id, outcome, join, caller } => {
                self.finish_join(&topic, id, outcome, &join, caller)
            }
            Completed::Write { topic, id, token, epoch, extension, outcome } => {
                self.finish_write(&topic, id, (&token, epoch), extension, &outcome)
            }
            Completed::Renewal { topic, id, token, epoch, outcome } => {
                self.finish_renewal(&topic, id, (&token, epoch), &outcome)
            }
            Completed::Token { topic, id, token, epoch, outcome } => {
                self.finish_token(&topic, id, (token, epoch), &outcome)
            }
            Completed::Replication { topic, id, is_ready } => {
                self.finish_replication(&topic, id, is_ready);
                Vec::new()
            }
        };
        for message in waiting {
            // A deferred message is never a join.
            let _verdict = self.receive(&message);
        }
    }

    fn leave(&mut self, incoming: &Incoming<'_>) {
        let member = match self.slots.remove(incoming.topic.as_ref()) {
            Some(Slot::Joining { member, .. }) => member,
            Some(Slot::Joined(channel)) => Arc::clone(&channel.registration.member),
            None => return,
        };
        member.reply(incoming.reference.as_deref(), "ok", "{}");
        member.end("phx_close", "{}");
        self.note_if_empty();
    }

    /// Closes a channel; `error` is first sent as a system message.
    fn close(&mut self, topic: &str, error: Option<&str>) {
        let member = match self.slots.remove(topic) {
            Some(Slot::Joining { member, .. }) => member,
            Some(Slot::Joined(channel)) => {
                if let Some(error) = error {
                    tracing::info!(topic = &*channel.caller.topic, error, "ChannelShutdown");
                    let message = system_message("system", "error", error, &channel.caller.topic);
                    channel.registration.member.push("system", &message);
                }
                Arc::clone(&channel.registration.member)
            }
            None => return,
        };
        member.end("phx_close", "{}");
        self.note_if_empty();
    }

    /// Ends a channel that missed changes, so that its client rejoins and refetches.
    pub(crate) fn end_after_gap(&mut self, id: u64) {
        if let Some(topic) = self.topic_of(id) {
            self.fail(&topic, "changes were missed");
        }
    }

    /// Ends a channel with `phx_error`, so that its client rejoins.
    fn fail(&mut self, topic: &str, reason: &str) {
        let member = match self.slots.remove(topic) {
            Some(Slot::Joining { member, .. }) => member,
            Some(Slot::Joined(channel)) => Arc::clone(&channel.registration.member),
            None => return,
        };
        member.end("phx_error", &format!("{{\"reason\":{}}}", json_text(reason)));
        self.note_if_empty();
    }

    /// The topic of the channel with this member id.
    fn topic_of(&self, id: u64) -> Option<Box<str>> {
        self.slots.iter().find_map(|(topic, slot)| {
            let member = match slot {
                Slot::Joining { member, .. } => member,
                Slot::Joined(channel) => &channel.registration.member,
            };
            (member.id == id).then(|| topic.clone())
        })
    }

    fn note_if_empty(&mut self) {
        if self.slots.is_empty() {
            self.empty_since = Instant::now();
        }
    }

    /// Since when the socket has no channel; `None` while it has one.
    pub(crate) fn empty_since(&self) -> Option<Instant> {
        self.slots.is_empty().then_some(self.empty_since)
    }

    fn joined(&mut self, topic: &str) -> Option<&mut Channel> {
        match self.slots.get_mut(topic)? {
            Slot::Joining { .. } => None,
            Slot::Joined(channel) => Some(channel),
        }
    }

    fn joined_as(&mut self, topic: &str, id: u64) -> Option<&mut Channel> {
        self.joined(topic).filter(|channel| channel.registration.member.id == id)
    }
}

const UNMATCHED: &str = "{\"reason\":\"unmatched topic\"}";

/// The code of an error text `Code: text`.
fn error_code(reason: &str) -> &str {
    reason.split_once(':').map_or("Unknown", |(code, _)| code)
}

fn defer(waiting: &mut Vec<Message>, message: &Message) {
    if waiting.len() < MAX_DEFERRED {
        waiting.push(message.clone());
    } else {
        tracing::debug!("message dropped: too many deferred messages");
    }
}
