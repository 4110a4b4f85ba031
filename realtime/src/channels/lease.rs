//! Leases of private channels (decision 0086). Permissions granted by the policies of `realtime.messages`
//! are valid for a few seconds. A channel in use is re-authorized before its lease ends; an idle one causes
//! no queries until its next message, in either direction, which waits for the evaluation. A revoked
//! permission therefore has no effect after one lease. It has none from the next message on if it follows from a
//! published table: a change of one that the policies read makes all permissions outdated (decision 0182).

use std::time::Duration;

use basalt_core::convert::saturating;
use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::{Channel, Channels, Completed, Permission, Slot};
use crate::authorization::{PolicyError, Readable, Renewed};
use crate::metrics;
use crate::token::Token;

/// Minimum length of a lease, used while there are few private channels.
const MIN_LEASE: Duration = Duration::from_secs(4);
/// Maximum length of a lease.
const MAX_LEASE: Duration = Duration::from_secs(60);
/// Added per private channel of the server: limits renewals to 200 per second, up to 6,000 channels.
const PER_CHANNEL: Duration = Duration::from_millis(10);

/// State of a channel's permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// Renewed at `renew_at` if the channel was used by then.
    Valid { renew_at: Instant, ends_at: Instant },
    /// Policies are being evaluated. Frames are held from `ends_at` on, or already if `None`.
    Renewing { ends_at: Option<Instant> },
    /// Frames are held; the first one triggers a renewal.
    Lapsed,
}

impl Lease {
    /// When the state changes by itself.
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            Self::Valid { renew_at, .. } => Some(*renew_at),
            Self::Renewing { ends_at } => *ends_at,
            Self::Lapsed => None,
        }
    }
}

impl Channel {
    /// Whether a client message has to wait for the lease to be renewed.
    pub(super) fn awaits_lease(&self) -> bool {
        match self.lease {
            Some(Lease::Lapsed | Lease::Renewing { ends_at: None }) => true,
            Some(Lease::Valid { .. } | Lease::Renewing { ends_at: Some(_) }) => {
                self.registration.member.is_outdated()
            }
            None => false,
        }
    }

    /// The error sent to the client if `readable` revokes what the channel relies on (realtime.md 3.12).
    pub(super) fn revoked_by(&self, readable: Readable) -> Option<String> {
        let topic = &self.caller.topic;
        if readable.is_nothing() {
            return Some(format!("You do not have permissions to read from this Channel topic: {topic}"));
        }
        let lost_broadcast = self.readable.broadcast && !readable.broadcast;
        let lost_presence = self.presence_enabled && self.readable.presence && !readable.presence;
        (lost_broadcast || lost_presence)
            .then(|| format!("You no longer have permission to read from this Channel topic: {topic}"))
    }

    /// Applies new read permissions; write permissions are evaluated again at the next write.
    pub(super) fn apply_permissions(&mut self, readable: Readable) {
        self.readable = readable;
        for permission in [&mut self.may_broadcast, &mut self.may_track] {
            if *permission != Permission::Checking {
                *permission = Permission::Unknown;
            }
        }
        let receives_presence = self.presence_enabled && readable.presence;
        self.registration.member.set_receives(readable.broadcast, receives_presence);
    }
}

impl Channels {
    /// A lease for permissions evaluated at `authorized_at`.
    pub(super) fn lease_from(&self, authorized_at: Instant) -> Lease {
        let channels = saturating::<u32>(self.realtime.hub.private_channels());
        let length = PER_CHANNEL.saturating_mul(channels).clamp(MIN_LEASE, MAX_LEASE);
        Lease::Valid { renew_at: authorized_at + length / 2, ends_at: authorized_at + length }
    }

    /// Starts a lease for permissions just applied, which were evaluated in this epoch. Returns the messages that waited for it.
    pub(super) fn begin_lease(&mut self, topic: &str, epoch: u64) -> Vec<Message> {
        let lease = self.lease_from(Instant::now());
        let Some(channel) = self.joined(topic) else { return Vec::new() };
        channel.lease = Some(lease);
        channel.registration.member.set_authorized_in(epoch);
        channel.registration.member.open(Box::default());
        std::mem::take(&mut channel.waiting)
    }

    /// Advances the leases that are due.
    pub(super) fn check_leases(&mut self, now: Instant) {
        let is_due = |slot: &Slot| {
            matches!(slot, Slot::Joined(channel)
                if channel.lease.as_ref().and_then(Lease::due).is_some_and(|due| due <= now))
        };
        let due: Vec<Box<str>> =
            self.slots.iter().filter(|(_, slot)| is_due(slot)).map(|(topic, _)| topic.clone()).collect();
        for topic in due {
            let Some(channel) = self.joined(&topic) else { continue };
            let member = &channel.registration.member;
            match channel.lease {
                Some(Lease::Valid { ends_at, .. }) if member.take_traffic() => {
                    let ends_at = (now < ends_at).then_some(ends_at);
                    if ends_at.is_none() {
                        member.hold();
                    }
                    self.start_renewal(&topic, ends_at);
                }
                Some(Lease::Valid { ends_at, .. }) if now < ends_at => {
                    channel.lease = Some(Lease::Valid { renew_at: ends_at, ends_at });
                }
                Some(Lease::Valid { .. }) => {
                    channel.lease = Some(Lease::Lapsed);
                    member.lapse();
                }
                Some(Lease::Renewing { .. }) => {
                    channel.lease = Some(Lease::Renewing { ends_at: None });
                    member.hold();
                }
                Some(Lease::Lapsed) | None => {}
            }
        }
    }

    /// Renews the lease of a channel that holds a frame or has to check its permissions.
    pub(crate) fn renew_lapsed(&mut self, id: u64) {
        if let Some(topic) = self.topic_of(id) {
            self.renew(&topic);
        }
    }

    /// A tracked presence stays visible even without traffic, so its permissions are checked as often as its
    /// token.
    pub(super) fn renew_if_present(&mut self, topic: &str) {
        if self.joined(topic).is_some_and(|channel| channel.registration.presence_bytes() > 0) {
            self.renew(topic);
        }
    }

    /// Renews a lease that has lapsed, or whose permissions may have changed.
    pub(super) fn renew(&mut self, topic: &str) {
        let Some(channel) = self.joined(topic) else { return };
        let member = &channel.registration.member;
        match channel.lease {
            Some(Lease::Lapsed) => {}
            Some(Lease::Valid { .. }) if member.is_outdated() => {}
            Some(Lease::Renewing { ends_at: Some(_) }) if member.is_outdated() => {
                // Renewed again when the evaluation in progress, which began before the change, has ended.
                member.hold();
                channel.lease = Some(Lease::Renewing { ends_at: None });
                return;
            }
            Some(Lease::Valid { .. } | Lease::Renewing { .. }) | None => return,
        }
        member.hold();
        self.start_renewal(topic, None);
    }

    fn start_renewal(&mut self, topic: &str, ends_at: Option<Instant>) {
        let Some(channel) = self.joined(topic) else { return };
        channel.lease = Some(Lease::Renewing { ends_at });
        let (caller, id) = (channel.caller.clone(), channel.registration.member.id);
        let (includes_presence, is_tracking) =
            (channel.presence_enabled, channel.registration.presence_bytes() > 0);
        let (authorization, topic) = (self.realtime.authorization.clone(), topic.into());
        let epoch = self.realtime.hub.permission_epoch().current();
        let check = async move {
            let outcome = authorization.renew(&caller, includes_presence, is_tracking).await;
            Completed::Renewal { topic, id, token: caller.token, epoch, outcome }
        };
        self.run(check.boxed());
    }

    /// Returns the messages that waited for the renewal.
    pub(super) fn finish_renewal(
        &mut self,
        topic: &str,
        id: u64,
        (token, epoch): (&Token, u64),
        outcome: &Result<Renewed, PolicyError>,
    ) -> Vec<Message> {
        let Some(channel) = self.joined_as(topic, id) else { return Vec::new() };
        let Some(Lease::Renewing { ends_at }) = channel.lease else { return Vec::new() };
        if !channel.caller.token.is_same_as(token) {
            // A new token arrived meanwhile, which is checked separately.
            return Vec::new();
        }
        let renewed = match outcome {
            Ok(renewed) => *renewed,
            // A policy that raises an error denies access.
            Err(PolicyError::Refused) => Renewed { readable: Readable::default(), may_track: None },
            Err(error) => {
                metrics::count_renewal("failed");
                let topic_name = &*channel.caller.topic;
                tracing::info!(
                    ?error,
                    topic = topic_name,
                    "could not check the permissions of a private channel"
                );
                match ends_at {
                    // The previous permissions remain valid until `ends_at`; then the check is retried.
                    Some(ends_at) => {
                        channel.registration.member.note_traffic();
                        channel.lease = Some(Lease::Valid { renew_at: ends_at, ends_at });
                    }
                    None => self.fail(topic, "permissions could not be checked"),
                }
                return Vec::new();
            }
        };
        if let Some(error) = channel.revoked_by(renewed.readable) {
            metrics::count_renewal("error");
            if channel.is_refreshing {
                // The token being checked decides. Nothing is delivered until then.
                channel.registration.member.hold();
                channel.lease = Some(Lease::Renewing { ends_at: None });
            } else {
                self.close(topic, Some(&error));
            }
            return Vec::new();
        }
        metrics::count_renewal("kept");
        channel.apply_permissions(renewed.readable);
        if renewed.may_track == Some(false) {
            channel.registration.untrack();
            channel.may_track = Permission::Refused;
        }
        self.begin_lease(topic, epoch)
    }
}
