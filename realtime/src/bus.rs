//! The way to other servers on the same database: broadcasts and presence. One that is alone needs none ([`Alone`]); several
//! share a NATS ([`nats`]). Row changes and messages from the database need no bus: each server reads them itself.

pub(crate) mod nats;

use crate::frames::Content;
use crate::hub::TopicKey;
use crate::presence::Meta;

/// What other servers are told.
#[derive(Debug)]
pub(crate) enum Outbound<'a> {
    /// A broadcast to a topic.
    Broadcast {
        /// The topic.
        key: &'a TopicKey,
        /// What is sent.
        content: &'a Content,
    },
    /// What a channel of this server says about itself, or that it is present no more.
    Presence {
        /// The topic.
        key: &'a TopicKey,
        /// The channel.
        member: u64,
        /// `None`: it is gone.
        meta: Option<&'a Meta>,
    },
}

/// Tells other servers. What cannot be sent is dropped and counted: nothing on this server waits for another one.
pub(crate) trait Bus: Send + Sync {
    /// Whether there may be others.
    fn has_others(&self) -> bool;

    /// Sends, at most once.
    fn send(&self, message: Outbound<'_>);
}

/// The bus of a server that is alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone;

impl Bus for Alone {
    fn has_others(&self) -> bool {
        false
    }

    fn send(&self, _message: Outbound<'_>) {}
}
