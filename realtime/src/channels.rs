//! The channels of one socket and the dispatch of its messages (realtime.md 3.2 to 3.14). Nothing here
//! waits: database work becomes a future in `pending`, and messages that depend on it are deferred until it
//! completes.

mod admission;
pub(crate) mod join;
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
use uuid::Uuid;

use crate::Realtime;
use crate::authorization::{AskError, Caller, Extension, Readable, Renewed};
use crate::changes::Subscription;
use crate::frames::{Body, Incoming, Malformed, Version, json_text, text};
use crate::hub::{Member, Registration};
use crate::limits::User;
use crate::metrics;
use crate::queue::Queue;
use crate::quota::{Quota, Usage};
use crate::socket::Peer;
use crate::token::{Client, Token};
use crate::topic_key::TOPIC_PREFIX;
use admission::{Admitted, admit};
use join::{Join, system_message};
use lease::Lease;

/// Messages that wait for the outcome of one question to the database. More are dropped.
const MOST_WAITING: usize = 256;
/// Longest payload of a message that is read as a whole: of all but broadcasts and presences.
const MOST_CONTROL_BYTES: usize = 1024 * 1024;

/// What the socket does after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    GoOn,
    /// It joins too often.
    TooManyJoins,
}

/// All channels of a socket.
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
    pending: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Once a channel was joined.
    user: Option<User>,
    /// Since there is no channel.
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
    is_expired: bool,
}

/// Write permission of a private channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    /// Not evaluated yet.
    Unknown,
    Asking,
    Granted,
    Refused,
}

/// A question that was answered.
enum Done {
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
        extension: Extension,
        outcome: Result<Writable, AskError>,
    },
    /// The lease of a private channel.
    Renewal {
        topic: Box<str>,
        id: u64,
        token: Token,
        outcome: Result<Renewed, AskError>,
    },
    Token {
        topic: Box<str>,
        id: u64,
        token: Token,
        outcome: Result<Readable, AskError>,
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
            Message::Binary(_) => Err(Malformed("bytes, which this serializer does not have")),
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => {
                return Verdict::GoOn;
            }
        };
        match incoming {
            Ok(incoming) => self.handle(&incoming, message),
            Err(Malformed(reason)) => {
                metrics::malformed().increment(1);
                tracing::debug!(reason, "MalformedWebSocketMessage: a frame was dropped");
                Verdict::GoOn
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
            return Verdict::GoOn;
        }
        match self.slots.get_mut(topic) {
            None if incoming.event == "phx_leave" => {
                self.answer(incoming, incoming.join_ref.as_deref(), "ok", "{}")
            }
            None => self.answer(incoming, None, "error", UNMATCHED),
            Some(Slot::Joining { .. }) if incoming.event == "phx_leave" => self.leave(incoming),
            Some(Slot::Joining { waiting, .. }) => keep(waiting, message),
            Some(Slot::Joined(channel)) => match incoming.event.as_ref() {
                "broadcast" | "presence" if !channel.waiting.is_empty() => {
                    keep(&mut channel.waiting, message)
                }
                "broadcast" | "presence" if channel.awaits_lease() => {
                    keep(&mut channel.waiting, message);
                    self.renew(topic);
                }
                "broadcast" => self.broadcast(incoming, message),
                "presence" => self.presence(incoming, message),
                "access_token" => self.access_token(topic, &incoming.body),
                "phx_leave" => self.leave(incoming),
                // Upstream answers nothing either.
                _ => tracing::debug!("an unknown event was dropped"),
            },
        }
        Verdict::GoOn
    }

    /// Replies to a message that belongs to no channel.
    fn answer(&self, incoming: &Incoming<'_>, join_ref: Option<&str>, status: &str, response: &str) {
        let payload = format!("{{\"status\":\"{status}\",\"response\":{response}}}");
        let topic = json_text(&incoming.topic);
        let reference = incoming.reference.as_deref();
        self.queue.push(text(self.version, join_ref, reference, &topic, "phx_reply", &payload));
    }

    fn refuse_join(&self, incoming: &Incoming<'_>, reason: &str) {
        metrics::count_join(code_of(reason));
        let join_ref = incoming.join_ref.as_deref().or(incoming.reference.as_deref());
        self.answer(incoming, join_ref, "error", &format!("{{\"reason\":{}}}", json_text(reason)));
    }

    fn join(&mut self, incoming: &Incoming<'_>) -> Verdict {
        let topic = incoming.topic.as_ref();
        let Some(name) = topic.strip_prefix(TOPIC_PREFIX) else {
            self.answer(incoming, None, "error", UNMATCHED);
            return Verdict::GoOn;
        };
        // A second join takes the first one's place.
        self.close(topic, None);
        match self.begin_join(incoming, name) {
            Ok(()) => Verdict::GoOn,
            Err(Refusal::Reason(reason)) => {
                self.refuse_join(incoming, &reason);
                Verdict::GoOn
            }
            Err(Refusal::TooManyJoins) => {
                self.refuse_join(incoming, "ClientJoinRateLimitReached: Too many joins per second");
                Verdict::TooManyJoins
            }
        }
    }

    /// The checks that need no database, in the contract's order.
    fn begin_join(&mut self, incoming: &Incoming<'_>, name: &str) -> Result<(), Refusal> {
        let refused = |reason: &str| Err(Refusal::Reason(reason.to_owned()));
        if name.is_empty() {
            return refused("TopicNameRequired: You must provide a topic name");
        }
        let Body::Json(payload) = incoming.body else {
            return refused("UnknownErrorOnChannel: a join's payload is JSON");
        };
        if payload.len() > MOST_CONTROL_BYTES || name.len() > MOST_CONTROL_BYTES || name.contains('\0') {
            return refused("UnknownErrorOnChannel: the topic or the payload is too long or has a NUL");
        }
        let join = Join::read(payload);
        let config = &self.realtime.config;
        if self.draining.is_cancelled() {
            return refused("RealtimeRestarting: Realtime is restarting, please standby");
        }
        if config.private_only && !join.is_private {
            return refused("PrivateOnly: This project only allows private channels");
        }
        if self.user.is_none() {
            self.user = self.realtime.limits.enter();
            if self.user.is_none() {
                return refused("ConnectionRateLimitReached: Too many connected users");
            }
        }
        if !self.realtime.limits.joins.take(1) {
            return Err(Refusal::TooManyJoins);
        }
        if self.slots.len() >= config.max_channels_per_client {
            return refused("ChannelRateLimitReached: Too many channels");
        }
        let token = self.token_of(join.token.as_deref());
        let token = token.map_err(|fault| Refusal::Reason(fault.join_reason()))?;
        let join_ref = incoming.join_ref.as_deref().or(incoming.reference.as_deref()).unwrap_or("null");
        let usage = Usage::for_join(&incoming.topic, payload, &join);
        let quota = self.quota.reserve(usage).map_err(|exceeded| {
            Refusal::Reason(format!("UnknownErrorOnChannel: the channels of this connection have {exceeded}"))
        })?;
        let (queue, join_ref) = (Arc::clone(&self.queue), join_ref.into());
        let member = Arc::new(Member::new(queue, self.version, join_ref, &incoming.topic, Some(quota)));
        let presence_key = match &join.presence_key {
            Some(key) => Arc::from(key.as_str()),
            None => Arc::from(basalt_core::random::uuid().to_string()),
        };
        let (topic, headers, address) = (name.into(), Arc::clone(&self.headers), self.address);
        let caller = Caller { token, topic, headers, presence_key, address };
        let topic: Box<str> = incoming.topic.as_ref().into();
        let id = member.id;
        let slot = Slot::Joining {
            id,
            reference: incoming.reference.as_deref().map(Into::into),
            member: Arc::clone(&member),
            waiting: Vec::new(),
        };
        self.slots.insert(topic.clone(), slot);
        let realtime = Arc::clone(&self.realtime);
        let admitting = async move {
            let outcome = admit(realtime, member, caller.clone(), join.clone()).await;
            Done::Join { topic, id, outcome, join: Box::new(join), caller }
        };
        self.ask(admitting.boxed());
        Ok(())
    }

    /// Most questions need no database, and are done at once.
    fn ask(&mut self, question: BoxFuture<'static, Done>) {
        self.pending.push(question);
        if let Some(Some(done)) = self.pending.next().now_or_never() {
            self.finish(done);
        }
    }

    /// Whether checks are pending.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Waits for the next pending check and handles its result.
    pub(crate) async fn proceed(&mut self) {
        if let Some(done) = self.pending.next().await {
            self.finish(done);
        }
    }

    fn finish(&mut self, done: Done) {
        let waiting = match done {
            Done::Join { topic, id, outcome, join, caller } => {
                self.finish_join(&topic, id, outcome, &join, caller)
            }
            Done::Write { topic, id, token, extension, outcome } => {
                self.finish_write(&topic, id, &token, extension, &outcome)
            }
            Done::Renewal { topic, id, token, outcome } => self.finish_renewal(&topic, id, &token, &outcome),
            Done::Token { topic, id, token, outcome } => self.finish_token(&topic, id, token, &outcome),
            Done::Replication { topic, id, is_ready } => {
                self.finish_replication(&topic, id, is_ready);
                Vec::new()
            }
        };
        for message in waiting {
            // A deferred message is never a join.
            let _verdict = self.receive(&message);
        }
    }

    fn finish_join(
        &mut self,
        topic: &str,
        id: u64,
        outcome: Result<Admitted, String>,
        join: &Join,
        caller: Caller,
    ) -> Vec<Message> {
        let is_awaited =
            matches!(self.slots.get(topic), Some(Slot::Joining { id: joining, .. }) if *joining == id);
        if !is_awaited {
            return Vec::new();
        }
        let Some(Slot::Joining { reference, member, waiting, .. }) = self.slots.remove(topic) else {
            return Vec::new();
        };
        let reference = reference.as_deref();
        let admitted = match outcome {
            Ok(admitted) => admitted,
            Err(reason) => {
                metrics::count_join(code_of(&reason));
                tracing::info!(
                    role = caller.token.role(),
                    topic = &*caller.topic,
                    reason,
                    "a join was refused"
                );
                member.reply(reference, "error", &format!("{{\"reason\":{}}}", json_text(&reason)));
                self.note_if_empty();
                return Vec::new();
            }
        };
        metrics::count_join("ok");
        let Admitted { registration, readable, authorized_at, replayed, changes } = admitted;
        member.reply(reference, "ok", &format!("{{\"postgres_changes\":{}}}", join.changes.answer));
        let name = Arc::clone(&caller.topic);
        let system = |extension: &str, status: &str, message: &str| {
            member.push("system", &system_message(extension, status, message, &name));
        };
        let subscription = match changes {
            None => None,
            Some(Ok(subscription)) => {
                system("postgres_changes", "ok", "Subscribed to PostgreSQL");
                Some(subscription)
            }
            Some(Err(refusal)) => {
                tracing::info!(topic = &*name, refusal, "UnableToSubscribeToPostgres");
                system("postgres_changes", "error", &refusal);
                None
            }
        };
        if join.presence_enabled && readable.presence {
            member.push("presence_state", &registration.presence_state());
        }
        let replayed_ids: Box<[Uuid]> = replayed.iter().filter_map(|message| message.id).collect();
        for message in &replayed {
            member.push_fanout(message);
        }
        let _has_missed = member.open(replayed_ids);
        let permission = if join.is_private { Permission::Unknown } else { Permission::Granted };
        let check_at = self.next_check(&caller.token);
        let lease = join.is_private.then(|| self.lease_from(authorized_at));
        let channel = Channel {
            registration,
            caller,
            lease,
            acks: join.acks,
            receives_own: join.receives_own,
            presence_enabled: join.presence_enabled,
            readable,
            may_broadcast: permission,
            may_track: permission,
            waiting: Vec::new(),
            presence_calls: (Instant::now(), 0),
            subscription,
            is_refreshing: false,
            next_token: None,
            check_at,
            is_expired: false,
        };
        let id = channel.registration.member.id;
        self.slots.insert(topic.into(), Slot::Joined(Box::new(channel)));
        if join.wants_replication_ready {
            let (changes, topic) = (self.realtime.changes.clone(), topic.into());
            let asking =
                async move { Done::Replication { topic, id, is_ready: changes.wait_until_streamed().await } };
            self.ask(asking.boxed());
        }
        waiting
    }

    fn finish_replication(&mut self, topic: &str, id: u64, is_ready: bool) {
        let Some(channel) = self.joined_as(topic, id) else { return };
        if !is_ready {
            return self.close(topic, Some("Replication connection was not established in time"));
        }
        let message =
            system_message("system", "ok", "Replication connection established", &channel.caller.topic);
        channel.registration.member.push("system", &message);
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

enum Refusal {
    Reason(String),
    TooManyJoins,
}

const UNMATCHED: &str = "{\"reason\":\"unmatched topic\"}";

/// `Code: text` → `Code`.
fn code_of(reason: &str) -> &str {
    reason.split_once(':').map_or("Unknown", |(code, _)| code)
}

fn keep(waiting: &mut Vec<Message>, message: &Message) {
    if waiting.len() < MOST_WAITING {
        waiting.push(message.clone());
    } else {
        tracing::debug!("a message was dropped: too many wait for the database");
    }
}
