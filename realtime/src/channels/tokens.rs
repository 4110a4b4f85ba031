//! Tokens of channels: selection, replacement, expiry (realtime.md 3.12).

use std::time::Duration;

use futures_util::FutureExt;
use serde::Deserialize;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::lease::Lease;
use super::{Channels, Completed, MAX_CONTROL_BYTES, Slot};
use crate::authorization::{Caller, PolicyError, Readable};
use crate::frames::Body;
use crate::join::system_message;
use crate::token::{Token, TokenFault, is_opaque};

/// Maximum time between two checks of a token: its key may have been revoked.
const TOKEN_CHECK: Duration = Duration::from_secs(300);

impl Channels {
    /// Verifies the given token. Without one, or for an opaque key, verifies and uses the connection's.
    pub(super) fn resolve_token(&self, given: Option<&str>) -> Result<Token, TokenFault> {
        match given {
            Some(given) if !is_opaque(given) => self.realtime.tokens.verify(given, self.client),
            _ => self.realtime.tokens.verify_again(&self.token).map(|()| self.token.clone()),
        }
    }

    /// Handles a new token (realtime.md 3.12). It is never replied to.
    pub(super) fn access_token(&mut self, topic: &str, body: &Body<'_>) {
        #[derive(Deserialize)]
        struct AccessToken {
            access_token: Option<String>,
        }
        let Body::Json(payload) = body else { return };
        if payload.len() > MAX_CONTROL_BYTES {
            return;
        }
        let given = serde_json::from_str::<AccessToken>(payload).ok().and_then(|given| given.access_token);
        let Some(given) = given else { return };
        let token = match self.resolve_token(Some(&given)) {
            Ok(token) => token,
            Err(fault) => return self.close(topic, Some(&fault.system_text())),
        };
        let Some(channel) = self.joined(topic) else { return };
        if token.is_same_as(&channel.caller.token) {
            return;
        }
        if channel.lease.is_some() {
            if channel.is_refreshing {
                channel.next_token = Some(token);
            } else {
                self.check_token(topic, token);
            }
        } else {
            self.set_token(topic, token);
        }
    }

    /// Evaluates what a private channel may read with this token.
    fn check_token(&mut self, topic: &str, token: Token) {
        let Some(channel) = self.joined(topic) else { return };
        channel.is_refreshing = true;
        let (id, includes_presence) = (channel.registration.member.id, channel.presence_enabled);
        let caller = Caller { token: token.clone(), ..channel.caller.clone() };
        let (authorization, topic) = (self.realtime.authorization.clone(), topic.into());
        let epoch = self.realtime.hub.permission_epoch().current();
        let check = async move {
            let outcome = authorization.readable(&caller, includes_presence).await;
            Completed::Token { topic, id, token, epoch, outcome }
        };
        self.run(check.boxed());
    }

    /// Returns the messages that can now be handled.
    pub(super) fn finish_token(
        &mut self,
        topic: &str,
        id: u64,
        (token, epoch): (Token, u64),
        outcome: &Result<Readable, PolicyError>,
    ) -> Vec<Message> {
        let Some(channel) = self.joined_as(topic, id) else { return Vec::new() };
        channel.is_refreshing = false;
        let next = channel.next_token.take();
        let (readable, fault) = match outcome {
            Ok(readable) => (*readable, None),
            // A policy that raises an error denies access.
            Err(PolicyError::Refused) => (Readable::default(), None),
            Err(PolicyError::Cancelled) => {
                (Readable::default(), Some("Query was cancelled, please try again"))
            }
            Err(PolicyError::Unreachable | PolicyError::PoolExhausted | PolicyError::MissingPartition) => {
                (Readable::default(), Some("Realtime was unable to connect to the project database"))
            }
        };
        let fault = fault.map(str::to_owned).or_else(|| channel.revoked_by(readable));
        if let Some(fault) = fault {
            self.close(topic, Some(&fault));
            return Vec::new();
        }
        channel.apply_permissions(readable);
        self.set_token(topic, token);
        if let Some(next) = next {
            self.check_token(topic, next);
        }
        self.begin_lease(topic, epoch)
    }

    fn set_token(&mut self, topic: &str, token: Token) {
        let check_at = self.next_check(&token);
        let Some(channel) = self.joined(topic) else { return };
        channel.check_at = check_at;
        if let Some(subscription) = &channel.subscription {
            subscription.set_claims(&token.claims);
            let name = &channel.caller.topic;
            let message = system_message("postgres_changes", "ok", "Subscribed to PostgreSQL", name);
            channel.registration.member.push("system", &message);
        }

        channel.caller.token = token;
    }

    pub(super) fn next_check(&self, token: &Token) -> Instant {
        let left = u64::try_from(self.realtime.tokens.seconds_left(token)).unwrap_or(0);
        Instant::now() + Duration::from_secs(left).min(TOKEN_CHECK)
    }

    /// When [`Self::check_deadlines`] has to be called next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let checks = self.slots.values().filter_map(|slot| match slot {
            Slot::Joining { .. } => None,
            Slot::Joined(channel) => {
                let renewal = channel.lease.as_ref().and_then(Lease::due);
                Some(renewal.map_or(channel.check_at, |due| due.min(channel.check_at)))
            }
        });
        checks.min()
    }

    /// Checks the tokens and leases that are due.
    pub(crate) fn check_deadlines(&mut self, now: Instant) {
        self.check_tokens(now);
        self.check_leases(now);
    }

    /// Closes channels whose tokens have expired or become invalid.
    fn check_tokens(&mut self, now: Instant) {
        let due: Vec<Box<str>> = self
            .slots
            .iter()
            .filter(|(_, slot)| matches!(slot, Slot::Joined(channel) if channel.check_at <= now))
            .map(|(topic, _)| topic.clone())
            .collect();
        for topic in due {
            let Some(Slot::Joined(channel)) = self.slots.get_mut(&topic) else { continue };
            match self.realtime.tokens.verify_again(&channel.caller.token) {
                Ok(()) => {
                    let left = u64::try_from(self.realtime.tokens.seconds_left(&channel.caller.token));
                    // At least one second: the clocks may differ slightly.
                    let pause = Duration::from_secs(left.unwrap_or(0).max(1)).min(TOKEN_CHECK);
                    channel.check_at = now + pause;
                    self.renew_if_present(&topic);
                }

                Err(fault) => self.close(&topic, Some(&fault.system_text())),
            }
        }
    }
}
