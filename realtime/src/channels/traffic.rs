//! Broadcasts and presence messages of a channel, and the write permissions of private channels.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::{Channel, Channels, Completed, Permission, Slot, Writable, defer};
use crate::authorization::{Extension, PolicyError};
use crate::frames::{Body, Content, Fanout, Incoming, UserBroadcast};
use crate::metrics;
use crate::token::Token;

/// Most presence messages of one channel per [`PRESENCE_WINDOW`].
const PRESENCE_CALLS: u32 = 100;
const PRESENCE_WINDOW: Duration = Duration::from_secs(30);
/// Added to the payload limit, for the envelope around the payload.
const PAYLOAD_ALLOWANCE: usize = 500;

impl Channels {
    /// Whether the channel may write. Returns `None` while this is being evaluated; the message is then
    /// deferred.
    fn permission(&mut self, topic: &str, extension: Extension, message: &Message) -> Option<bool> {
        let channel = self.joined(topic)?;
        let permission = match extension {
            Extension::Broadcast => &mut channel.may_broadcast,
            Extension::Presence => &mut channel.may_track,
        };
        match *permission {
            Permission::Granted => return Some(true),
            Permission::Refused => return Some(false),
            Permission::Unknown => *permission = Permission::Checking,
            Permission::Checking => {
                defer(&mut channel.waiting, message);
                return None;
            }
        }
        channel.waiting.push(message.clone());
        let checks_reading = extension == Extension::Presence && !channel.presence_enabled;
        let (caller, id) = (channel.caller.clone(), channel.registration.member.id);
        let (authorization, topic) = (self.realtime.authorization.clone(), topic.into());
        let epoch = self.realtime.hub.permission_epoch().current();
        let check = async move {
            let outcome = async {
                let is_granted = authorization.may_write(&caller, extension).await?;
                let reads_presence = if is_granted && checks_reading {
                    Some(authorization.readable(&caller, true).await?.presence)
                } else {
                    None
                };
                Ok(Writable { is_granted, reads_presence })
            };
            let outcome = outcome.await;
            Completed::Write { topic, id, token: caller.token, epoch, extension, outcome }
        };
        self.run(check.boxed());
        None
    }

    pub(super) fn finish_write(
        &mut self,
        topic: &str,
        id: u64,
        (token, epoch): (&Token, u64),
        extension: Extension,
        outcome: &Result<Writable, PolicyError>,
    ) -> Vec<Message> {
        let current_epoch = self.realtime.hub.permission_epoch().current();
        let Some(channel) = self.joined_as(topic, id) else { return Vec::new() };
        let waiting = std::mem::take(&mut channel.waiting);
        let is_outdated = channel.lease.is_some() && epoch != current_epoch;
        if is_outdated || !channel.caller.token.is_same_as(token) {
            // The result belongs to the previous token or epoch; the deferred messages trigger another check.
            self.set_permission(topic, extension, Permission::Unknown);
            return waiting;
        }
        let permission = match outcome {
            Ok(Writable { is_granted, reads_presence }) => {
                if let Some(reads_presence) = reads_presence {
                    channel.readable.presence = *reads_presence;
                }
                if !is_granted {
                    let (role, topic) = (channel.caller.token.role(), &*channel.caller.topic);
                    tracing::warn!(role, topic, ?extension, "no policy allows a private channel to write");
                }
                if *is_granted { Permission::Granted } else { Permission::Refused }
            }
            // Reject the deferred messages; later ones trigger another check.
            Err(_) => {
                self.set_permission(topic, extension, Permission::Refused);
                for message in waiting {
                    let _verdict = self.receive(&message);
                }
                self.set_permission(topic, extension, Permission::Unknown);
                return Vec::new();
            }
        };
        self.set_permission(topic, extension, permission);
        waiting
    }

    fn set_permission(&mut self, topic: &str, extension: Extension, permission: Permission) {
        if let Some(channel) = self.joined(topic) {
            match extension {
                Extension::Broadcast => channel.may_broadcast = permission,
                Extension::Presence => channel.may_track = permission,
            }
        }
    }

    pub(super) fn broadcast(&mut self, incoming: &Incoming<'_>, message: &Message) {
        let topic = incoming.topic.as_ref();
        let reference = incoming.reference.as_deref();
        let max_bytes = self.realtime.config.max_payload_size + PAYLOAD_ALLOWANCE;
        let (content, length) = match &incoming.body {
            Body::Json(payload) if payload.starts_with('{') => {
                let payload = bytes::Bytes::copy_from_slice(payload.as_bytes());
                let length = payload.len();
                (Content::Text { event: "broadcast", payload }, length)
            }
            Body::Broadcast(UserBroadcast { event, encoding, payload }) => {
                let content = Content::User {
                    event: (*event).into(),
                    encoding: *encoding,
                    meta: None,
                    payload: payload.clone(),
                };
                (content, payload.len())
            }
            Body::Json(_) | Body::Bytes => return,
        };
        let Some(channel) = self.joined(topic) else { return };
        let (member, acks) = (Arc::clone(&channel.registration.member), channel.acks);
        if length > max_bytes {
            if acks {
                member.reply(reference, "error", "\"payload_size_exceeded\"");
            }
            return;
        }
        // When denied, send no reply, not even with `ack` (realtime.md 3.9).
        if self.permission(topic, Extension::Broadcast, message) != Some(true) {
            return;
        }
        let Some(channel) = self.joined(topic) else { return };
        let except = (!channel.receives_own).then_some(member.id);
        let key = channel.registration.key();
        member.note_traffic();
        if !self.realtime.limits.events.has_room() {
            self.close(topic, Some("Too many messages per second"));
            return;
        }
        let fanout = Fanout::new(topic, content.clone());
        let count = self.realtime.hub.broadcast(&key, &fanout, &content, except);
        self.realtime.limits.events.take(count + 1);
        metrics::count_broadcasts("socket", 1);
        if acks {
            member.reply(reference, "ok", "{}");
        }
    }

    pub(super) fn presence(&mut self, incoming: &Incoming<'_>, message: &Message) {
        /// A client's presence message.
        #[derive(Deserialize)]
        struct PresenceMessage<'a> {
            event: Option<Value>,
            #[serde(borrow)]
            payload: Option<&'a RawValue>,
        }
        let topic = incoming.topic.as_ref();
        let reference = incoming.reference.as_deref();
        let max_bytes = self.realtime.config.max_payload_size + PAYLOAD_ALLOWANCE;
        let Some(channel) = self.joined(topic) else { return };
        let member = Arc::clone(&channel.registration.member);
        if !channel.has_room_for_presence() {
            self.close(topic, Some("Client presence rate limit exceeded"));
            return;
        }
        if !self.realtime.limits.presence.take(1) {
            self.close(topic, Some("Too many presence messages per second"));
            return;
        }
        let Body::Json(payload) = incoming.body else { return member.reply(reference, "error", "{}") };
        let Ok(parsed) = serde_json::from_str::<PresenceMessage<'_>>(payload) else {
            return member.reply(reference, "error", "{}");
        };
        let Some(event) = parsed.event else { return member.reply(reference, "ok", "{}") };
        let event = event.as_str().map(str::to_ascii_lowercase);
        match event.as_deref() {
            Some("untrack") => {
                if let Some(channel) = self.joined(topic) {
                    channel.registration.untrack();
                }
                member.reply(reference, "ok", "{}");
            }
            Some("track") => {
                let tracked = parsed.payload.map_or("{}", RawValue::get);
                if !tracked.starts_with('{') {
                    let reason = "{\"reason\":\"Presence track payload must be a map\"}";
                    return member.reply(reference, "error", reason);
                }
                if tracked.len() > max_bytes {
                    self.close(topic, Some("Track message size exceeded"));
                    return;
                }
                match self.permission(topic, Extension::Presence, message) {
                    None => {}
                    Some(false) => member.reply(reference, "error", "{}"),
                    Some(true) => self.track(topic, tracked, reference),
                }
            }
            _ => member.reply(reference, "error", "{}"),
        }
    }

    fn track(&mut self, topic: &str, payload: &str, reference: Option<&str>) {
        let presence_bytes = |slot: &Slot| match slot {
            Slot::Joining { .. } => 0,
            Slot::Joined(channel) => channel.registration.presence_bytes(),
        };
        let socket_bytes: usize = self.slots.values().map(presence_bytes).sum();
        let Some(channel) = self.joined(topic) else { return };
        let others = socket_bytes - channel.registration.presence_bytes();
        let member = Arc::clone(&channel.registration.member);
        if !channel.presence_enabled {
            channel.presence_enabled = true;
            if channel.readable.presence {
                // Without `presence_state` the client queues all diffs and shows no presences (realtime.md
                // 3.11).
                member.push("presence_state", &channel.registration.presence_state());
                member.set_receives(channel.readable.broadcast, true);
            }
        }
        member.note_traffic();
        if channel.registration.track(&channel.caller.presence_key, payload, others).is_err() {
            tracing::info!(
                topic = &*channel.caller.topic,
                "UnableToTrackPresence: memory limit for presences reached"
            );
            return member.reply(reference, "error", "{\"reason\":\"Too many presences\"}");
        }
        member.reply(reference, "ok", "{}");
    }
}

impl Channel {
    /// Counts a presence message; returns false beyond the limit.
    fn has_room_for_presence(&mut self) -> bool {
        let (started, count) = &mut self.presence_calls;
        if started.elapsed() >= PRESENCE_WINDOW {
            (*started, *count) = (Instant::now(), 0);
        }
        *count += 1;
        *count <= PRESENCE_CALLS
    }
}
