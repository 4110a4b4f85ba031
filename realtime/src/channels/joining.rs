//! `phx_join` from request to reply: the checks that need no database, the slot that waits for [`admit`], and the joined
//! channel.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use super::admission::{Admitted, admit};
use super::{
    Channel, Channels, Completed, MAX_CONTROL_BYTES, Permission, Slot, UNMATCHED, Verdict, error_code,
};
use crate::authorization::Caller;
use crate::changes::Subscription;
use crate::frames::{Body, Incoming, json_text};
use crate::hub::Member;
use crate::join::{Join, system_message};
use crate::metrics;
use crate::quota::Usage;
use crate::topic_key::TOPIC_PREFIX;

/// Why a join is rejected before any query.
enum Refusal {
    /// `reason` of the reply.
    Reason(String),
    /// Also closes the socket.
    TooManyJoins,
}

impl Channels {
    pub(super) fn join(&mut self, incoming: &Incoming<'_>) -> Verdict {
        let topic = incoming.topic.as_ref();
        let Some(name) = topic.strip_prefix(TOPIC_PREFIX) else {
            self.answer(incoming, None, "error", UNMATCHED);
            return Verdict::Continue;
        };
        // A second join of a topic replaces the first.
        self.close(topic, None);
        match self.begin_join(incoming, name) {
            Ok(()) => Verdict::Continue,
            Err(Refusal::Reason(reason)) => {
                self.refuse_join(incoming, &reason);
                Verdict::Continue
            }
            Err(Refusal::TooManyJoins) => {
                self.refuse_join(incoming, "ClientJoinRateLimitReached: Too many joins per second");
                Verdict::TooManyJoins
            }
        }
    }

    fn refuse_join(&self, incoming: &Incoming<'_>, reason: &str) {
        metrics::count_join(error_code(reason));
        let join_ref = incoming.join_ref.as_deref().or(incoming.reference.as_deref());
        self.answer(incoming, join_ref, "error", &format!("{{\"reason\":{}}}", json_text(reason)));
    }

    /// Checks everything that needs no database, in the contract's order, then starts the admission.
    fn begin_join(&mut self, incoming: &Incoming<'_>, name: &str) -> Result<(), Refusal> {
        let (payload, join) = read_join(incoming, name)?;
        self.check_limits(&join)?;
        let token = self.resolve_token(join.token.as_deref());
        let token = token.map_err(|fault| Refusal::Reason(fault.join_reason()))?;
        let join_ref = incoming.join_ref.as_deref().or(incoming.reference.as_deref()).unwrap_or("null");
        let usage = Usage::for_join(&incoming.topic, payload, &join);
        let quota = self.quota.reserve(usage).map_err(|exceeded| {
            Refusal::Reason(format!("UnknownErrorOnChannel: the channels of this connection have {exceeded}"))
        })?;
        let (queue, join_ref) = (Arc::clone(&self.queue), join_ref.into());
        let epoch = join.is_private.then(|| self.realtime.hub.permission_epoch().clone());
        let member =
            Arc::new(Member::new(queue, self.version, join_ref, &incoming.topic, Some(quota), epoch));
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
        let admission = async move {
            let outcome = admit(realtime, member, caller.clone(), join.clone()).await;
            Completed::Join { topic, id, outcome, join: Box::new(join), caller }
        };
        self.run(admission.boxed());
        Ok(())
    }

    fn check_limits(&mut self, join: &Join) -> Result<(), Refusal> {
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
        Ok(())
    }

    /// Replies to a join once its admission has completed. Returns the messages that waited for it.
    pub(super) fn finish_join(
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
        match outcome {
            Ok(admitted) => {
                metrics::count_join("ok");
                let channel = self.open_channel(&member, reference.as_deref(), admitted, join, caller);
                self.slots.insert(topic.into(), Slot::Joined(Box::new(channel)));
                if join.wants_replication_ready {
                    self.report_replication(topic, id);
                }
                waiting
            }
            Err(reason) => {
                metrics::count_join(error_code(&reason));
                tracing::info!(role = caller.token.role(), topic = &*caller.topic, reason, "join rejected");
                let response = format!("{{\"reason\":{}}}", json_text(&reason));
                member.reply(reference.as_deref(), "error", &response);
                self.note_if_empty();
                Vec::new()
            }
        }
    }

    /// Sends what a client expects after a successful join, in the contract's order, and opens the channel.
    fn open_channel(
        &self,
        member: &Member,
        reference: Option<&str>,
        admitted: Admitted,
        join: &Join,
        caller: Caller,
    ) -> Channel {
        let Admitted { registration, readable, authorized_at, replayed, changes } = admitted;
        member.reply(reference, "ok", &format!("{{\"postgres_changes\":{}}}", join.changes.answer));
        let subscription = report_subscription(member, &caller.topic, changes);
        if join.presence_enabled && readable.presence {
            member.push("presence_state", &registration.presence_state());
        }
        let replayed_ids: Box<[Uuid]> = replayed.iter().filter_map(|message| message.id).collect();
        for message in &replayed {
            member.push_fanout(message);
        }
        member.open(replayed_ids);
        let permission = if join.is_private { Permission::Unknown } else { Permission::Granted };
        Channel {
            check_at: self.next_check(&caller.token),
            lease: join.is_private.then(|| self.lease_from(authorized_at)),
            registration,
            caller,
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
        }
    }

    /// Waits until messages from the database can be received, then reports it.
    fn report_replication(&mut self, topic: &str, id: u64) {
        let (changes, topic) = (self.realtime.changes.clone(), topic.into());
        let check = async move {
            Completed::Replication { topic, id, is_ready: changes.wait_until_streamed().await }
        };
        self.run(check.boxed());
    }

    pub(super) fn finish_replication(&mut self, topic: &str, id: u64, is_ready: bool) {
        let Some(channel) = self.joined_as(topic, id) else { return };
        if !is_ready {
            return self.close(topic, Some("Replication connection was not established in time"));
        }
        let message =
            system_message("system", "ok", "Replication connection established", &channel.caller.topic);
        channel.registration.member.push("system", &message);
    }
}

fn refused<T>(reason: &str) -> Result<T, Refusal> {
    Err(Refusal::Reason(reason.to_owned()))
}

/// The join's payload, raw and parsed.
fn read_join<'a>(incoming: &Incoming<'a>, name: &str) -> Result<(&'a str, Join), Refusal> {
    if name.is_empty() {
        return refused("TopicNameRequired: You must provide a topic name");
    }
    let Body::Json(payload) = incoming.body else {
        return refused("UnknownErrorOnChannel: a join's payload is JSON");
    };
    if payload.len() > MAX_CONTROL_BYTES || name.len() > MAX_CONTROL_BYTES || name.contains('\0') {
        return refused("UnknownErrorOnChannel: the topic or the payload is too long or has a NUL");
    }
    Ok((payload, Join::read(payload)))
}

/// Tells the client whether its row changes were subscribed; a rejected subscription does not fail the join.
fn report_subscription(
    member: &Member,
    topic: &str,
    changes: Option<Result<Subscription, String>>,
) -> Option<Subscription> {
    let report = |status: &str, message: &str| {
        member.push("system", &system_message("postgres_changes", status, message, topic));
    };
    match changes? {
        Ok(subscription) => {
            report("ok", "Subscribed to PostgreSQL");
            Some(subscription)
        }
        Err(refusal) => {
            tracing::info!(topic, refusal, "UnableToSubscribeToPostgres");
            report("error", &refusal);
            None
        }
    }
}
