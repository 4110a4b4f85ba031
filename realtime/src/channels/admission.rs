//! The asynchronous part of a join: policies, stored messages, row changes. Runs without blocking the
//! socket.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use uuid::Uuid;

use crate::Realtime;
use crate::authorization::{Caller, PolicyError, Readable};
use crate::changes::{ChangeSink, EncodedChange, SubscribeError, Subscriber, Subscription};
use crate::frames::{Content, Encoding, Fanout};
use crate::hub::{Member, Registration};
use crate::join::{Join, system_message};
use crate::topic_key::TopicKey;

/// Result of a successful join.
pub(crate) struct Admitted {
    pub(crate) registration: Registration,
    pub(crate) readable: Readable,
    /// Taken before the policies were evaluated; the lease starts here.
    pub(crate) authorized_at: Instant,
    /// Stored messages, oldest first.
    pub(crate) replayed: Vec<Fanout>,
    /// `None` if no changes were requested; otherwise the subscription, or the error text if it was
    /// rejected.
    pub(crate) changes: Option<Result<Subscription, String>>,
}

/// Authorizes and registers a channel. The error is the `reason` of the reply.
pub(crate) async fn admit(
    realtime: Arc<Realtime>,
    member: Arc<Member>,
    caller: Caller,
    join: Join,
) -> Result<Admitted, String> {
    let authorized_at = Instant::now();
    let key = TopicKey { name: Arc::clone(&caller.topic), is_private: join.is_private };
    let readable = if join.is_private {
        let readable = realtime.authorization.readable(&caller, join.presence_enabled).await;
        let readable = readable.map_err(|error| join_error(&error, &caller.topic))?;
        if readable.is_nothing() {
            return Err(join_error(&PolicyError::Refused, &caller.topic));
        }
        readable
    } else {
        Readable::ALL
    };
    let replay = match join.replay {
        None => None,
        Some(_) if !join.is_private => {
            return Err("UnableToReplayMessages: Replay is not allowed for public channels".to_owned());
        }
        Some(Err(_bad)) => return Err("UnableToReplayMessages: Replay params are not valid".to_owned()),
        Some(Ok(replay)) => Some(replay).filter(|_| readable.broadcast),
    };
    // Registered before reading stored messages, so that no message falls between the two; what arrives is
    // held until the reply.
    member.set_receives(readable.broadcast, join.presence_enabled && readable.presence);
    let registration = realtime.hub.join(&key, Arc::clone(&member));
    let mut replayed = Vec::new();
    if let Some(replay) = replay {
        let rows = realtime.authorization.stored(&key.name, replay.since_ms, replay.limit).await;
        let rows =
            rows.map_err(|_| "UnableToReplayMessages: Realtime was unable to replay messages".to_owned())?;
        let topic = key.full_name();
        replayed = rows.iter().rev().filter_map(|row| stored_message(&topic, row)).collect();
    }
    let changes = match join.changes.bindings {
        Ok(bindings) if bindings.is_empty() => None,
        Err(refusal) => Some(Err(refusal)),
        Ok(bindings) => {
            let sink = Arc::new(Sink { member, topic: Arc::clone(&caller.topic) });
            let (claims, visitor) = (Arc::clone(&caller.token.claims), caller.visitor());
            let subscriber = Subscriber { claims, sink, visitor };
            match realtime.changes.subscribe(subscriber, bindings).await {
                Ok(subscription) => Some(Ok(subscription)),
                Err(SubscribeError::Rejected(refusal)) => Some(Err(refusal)),
                Err(SubscribeError::Unavailable(reason)) => {
                    return Err(format!("UnableToSubscribeToPostgres: {reason}"));
                }
            }
        }
    };
    if let (true, Some(Err(refusal))) = (join.awaits_changes, &changes) {
        return Err(format!("RealtimeDisabledForConfiguration: {refusal}"));
    }
    Ok(Admitted { registration, readable, authorized_at, replayed, changes })
}

fn join_error(error: &PolicyError, topic: &str) -> String {
    match error {
        PolicyError::Refused => {
            format!("Unauthorized: You do not have permissions to read from this Channel topic: {topic}")
        }
        PolicyError::Cancelled => "QueryCanceled: Query was cancelled, please try again".to_owned(),
        PolicyError::PoolExhausted => {
            "IncreaseConnectionPool: Please increase your connection pool size".to_owned()
        }
        PolicyError::MissingPartition => {
            "MissingPartition: Realtime was unable to find the expected messages partition".to_owned()
        }
        PolicyError::Unreachable => {
            "UnableToConnectToProject: Realtime was unable to connect to the project database".to_owned()
        }
    }
}

/// Builds the replay of a row of [`crate::authorization::Authorization::stored`].
fn stored_message(topic: &str, row: &basalt_pg::session::Row) -> Option<Fanout> {
    let id: Uuid = row.text(0)?.parse().ok()?;
    let event = row.text(1)?.into();
    let meta = Some(format!("{{\"replayed\":true,\"id\":\"{id}\"}}").into());
    let (encoding, payload) = match (row.text(2), row.bytes(3)) {
        (Some(json), _) => (Encoding::Json, Bytes::copy_from_slice(json.as_bytes())),
        (None, Some(bytes)) => (Encoding::Binary, bytes),
        (None, None) => return None,
    };
    let content = Content::User { event, encoding, meta, payload };
    Some(Fanout::new(topic, content).with_id(id))
}

/// Delivers row changes to a channel.
struct Sink {
    member: Arc<Member>,
    topic: Arc<str>,
}

impl ChangeSink for Sink {
    fn change(&self, change: &EncodedChange, ids: &[u64]) {
        let Ok(data) = std::str::from_utf8(&change.data) else { return };
        let mut body = String::with_capacity(data.len() + 24 + 8 * ids.len());
        body.push_str("{\"ids\":[");
        for (index, id) in ids.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            body.push_str(&id.to_string());
        }
        body.push_str("],\"data\":");
        body.push_str(data);
        body.push('}');
        self.member.deliver_change(&body);
    }

    fn gap(&self) {
        self.member.gap();
    }

    fn failed(&self, message: &str) {
        self.member.push("system", &system_message("postgres_changes", "error", message, &self.topic));
    }
}
