//! The tokens of channels: taken, replaced, expired (realtime.md 3.12).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Deserialize;
use tokio::time::Instant;

use super::join::system_message;
use super::{Channels, Done, MOST_CONTROL_BYTES, Permission, Slot};
use crate::authorization::{AskError, Caller, Readable};
use crate::frames::Body;
use crate::token::{Token, TokenFault, is_opaque};

/// How long a channel whose token has expired waits for another one. It gets nothing meanwhile.
const GRACE: Duration = Duration::from_secs(60);
/// At least so often a token is judged anew: its key may have been revoked.
const TOKEN_CHECK: Duration = Duration::from_secs(300);

impl Channels {
    /// The token that was given, or the connection's, for which an opaque key stands too.
    pub(super) fn token_of(&self, given: Option<&str>) -> Result<Token, TokenFault> {
        match given {
            Some(given) if !is_opaque(given) => self.realtime.tokens.judge(given, self.client),
            _ => self.realtime.tokens.judge_again(&self.token).map(|()| self.token.clone()),
        }
    }

    /// Takes a new token (realtime.md 3.12); there is never an answer.
    pub(super) fn access_token(&mut self, topic: &str, body: &Body<'_>) {
        #[derive(Deserialize)]
        struct Given {
            access_token: Option<String>,
        }
        let Body::Json(payload) = body else { return };
        if payload.len() > MOST_CONTROL_BYTES {
            return;
        }
        let given = serde_json::from_str::<Given>(payload).ok().and_then(|given| given.access_token);
        let Some(given) = given else { return };
        let token = match self.token_of(Some(&given)) {
            Ok(token) => token,
            Err(fault) => return self.close(topic, Some(&fault.system_text())),
        };
        let Some(channel) = self.joined(topic) else { return };
        if token.is_same_as(&channel.caller.token) {
            return;
        }
        if channel.is_private {
            if channel.is_refreshing {
                channel.next_token = Some(token);
            } else {
                self.ask_about(topic, token);
            }
        } else {
            self.take_token(topic, token);
        }
    }

    /// Asks what a private channel may read with this token.
    fn ask_about(&mut self, topic: &str, token: Token) {
        let Some(channel) = self.joined(topic) else { return };
        channel.is_refreshing = true;
        let (id, asks_presence) = (channel.registration.member.id, channel.presence_enabled);
        let caller = Caller { token: token.clone(), ..channel.caller.clone() };
        let (authorization, topic) = (self.realtime.authorization.clone(), topic.into());
        let asking = async move {
            let outcome = authorization.readable(&caller, asks_presence).await;
            Done::Token { topic, id, token, outcome }
        };
        self.ask(asking.boxed());
    }

    pub(super) fn finish_token(
        &mut self,
        topic: &str,
        id: u64,
        token: Token,
        outcome: &Result<Readable, AskError>,
    ) {
        let Some(channel) = self.joined_as(topic, id) else { return };
        channel.is_refreshing = false;
        let next = channel.next_token.take();
        let name = Arc::clone(&channel.caller.topic);
        let had = channel.readable;
        let nothing = format!("You do not have permissions to read from this Channel topic: {name}");
        let readable = match outcome {
            Ok(readable) if readable.is_nothing() => return self.close(topic, Some(&nothing)),
            Ok(readable) => *readable,
            Err(AskError::Refused) => return self.close(topic, Some(&nothing)),
            Err(AskError::Cancelled) => {
                return self.close(topic, Some("Query was cancelled, please try again"));
            }
            Err(AskError::Unreachable | AskError::PoolExhausted | AskError::MissingPartition) => {
                return self.close(topic, Some("Realtime was unable to connect to the project database"));
            }
        };
        let loses_presence = channel.presence_enabled && had.presence && !readable.presence;
        if had.broadcast && !readable.broadcast || loses_presence {
            let lost = format!("You no longer have permission to read from this Channel topic: {name}");
            return self.close(topic, Some(&lost));
        }
        channel.readable = readable;
        channel.may_broadcast = Permission::Unknown;
        channel.may_track = Permission::Unknown;
        let receives_presence = channel.presence_enabled && readable.presence;
        channel.registration.member.set_receives(readable.broadcast, receives_presence);
        self.take_token(topic, token);
        if let Some(next) = next {
            self.ask_about(topic, next);
        }
    }

    fn take_token(&mut self, topic: &str, token: Token) {
        let check_at = self.next_check(&token);
        let Some(channel) = self.joined(topic) else { return };
        channel.check_at = check_at;
        let member = &channel.registration.member;
        if std::mem::take(&mut channel.is_expired) {
            // Between the state and the diffs that follow it nothing may be missing.
            member.hold();
            if channel.presence_enabled && channel.readable.presence {
                member.push("presence_state", &channel.registration.presence_state());
            }
            member.open(Box::default());
        }
        if let Some(subscription) = &channel.subscription {
            subscription.set_claims(&token.claims);
            let message =
                system_message("postgres_changes", "ok", "Subscribed to PostgreSQL", &channel.caller.topic);
            member.push("system", &message);
        }
        channel.caller.token = token;
    }

    pub(super) fn next_check(&self, token: &Token) -> Instant {
        let left = u64::try_from(self.realtime.tokens.seconds_left(token)).unwrap_or(0);
        Instant::now() + Duration::from_secs(left).min(TOKEN_CHECK)
    }

    /// When [`Self::check_tokens`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let checks = self.slots.values().filter_map(|slot| match slot {
            Slot::Joining { .. } => None,
            Slot::Joined(channel) => Some(channel.check_at),
        });
        checks.min()
    }

    /// Ends the channels whose tokens are good no more.
    pub(crate) fn check_tokens(&mut self, now: Instant) {
        let due: Vec<Box<str>> = self
            .slots
            .iter()
            .filter(|(_, slot)| matches!(slot, Slot::Joined(channel) if channel.check_at <= now))
            .map(|(topic, _)| topic.clone())
            .collect();
        for topic in due {
            let Some(Slot::Joined(channel)) = self.slots.get_mut(&topic) else { continue };
            match self.realtime.tokens.judge_again(&channel.caller.token) {
                Ok(()) => {
                    let left = u64::try_from(self.realtime.tokens.seconds_left(&channel.caller.token));
                    // Clocks may differ by a moment.
                    let pause = Duration::from_secs(left.unwrap_or(0).max(1)).min(TOKEN_CHECK);
                    channel.check_at = now + pause;
                }
                Err(TokenFault::Expired(_)) if !channel.is_expired => {
                    channel.is_expired = true;
                    channel.check_at = now + GRACE;
                    channel.registration.member.mute();
                }
                Err(fault) => self.close(&topic, Some(&fault.system_text())),
            }
        }
    }
}
