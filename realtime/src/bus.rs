//! Message bus to other servers on the same database: broadcasts and presence. A single server uses
//! [`Alone`]; several share a NATS ([`crate::nats`]). Row changes and messages sent from the database do not use
//! the bus: each server reads them itself.

use crate::frames::Content;
use crate::presence::Meta;
use crate::topic_key::TopicKey;

/// A message to other servers.
#[derive(Debug)]
pub(crate) enum Outbound<'a> {
    Broadcast {
        key: &'a TopicKey,
        content: &'a Content,
    },
    /// A channel of this server changed or removed its presence.
    Presence {
        key: &'a TopicKey,
        /// Id of the channel.
        member: u64,
        /// `None` if the channel is no longer present.
        meta: Option<&'a Meta>,
    },
}

/// Sends messages to other servers. A message that cannot be sent is dropped and counted: no work on this
/// server waits for another one.
pub(crate) trait Bus: Send + Sync {
    /// Whether there may be other servers.
    fn has_others(&self) -> bool;

    /// Sends at most once.
    fn send(&self, message: Outbound<'_>);
}

/// Bus of a server without others: drops everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone;

impl Bus for Alone {
    fn has_others(&self) -> bool {
        false
    }

    fn send(&self, _message: Outbound<'_>) {}
}
