//! Changes of one table that are planned together.

use std::sync::Arc;

use basalt_core::memory::ByteShare;
use bytes::Bytes;

use super::Position;
use super::decoder::{self, Begin, Message, Relation};
use super::payload::Change;
use super::visibility::SessionError;

/// A row change from the stream, not decoded yet.
pub(super) struct Item {
    pub(super) position: Position,
    pub(super) transaction: Begin,
    pub(super) relation: Arc<Relation>,
    pub(super) message: Bytes,
    pub(super) share: ByteShare,
}

/// Decoded changes with their transactions and memory; the vectors run in parallel.
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    pub(super) transactions: Vec<u32>,
    pub(super) shares: Vec<ByteShare>,
}

impl Batch {
    pub(super) fn decode(items: Vec<Item>) -> Result<Self, SessionError> {
        let mut batch = Self {
            changes: Vec::with_capacity(items.len()),
            transactions: Vec::with_capacity(items.len()),
            shares: Vec::with_capacity(items.len()),
        };
        for Item { position, transaction, relation: _, message, share } in items {
            let bytes = message.len();
            match decoder::decode(message) {
                Ok(Message::Change { relation: _, change: row }) => {
                    let committed_micros = transaction.committed_micros;
                    batch.changes.push(Change { row, committed_micros, position, bytes });
                    batch.transactions.push(transaction.xid);
                    batch.shares.push(share);
                }
                Ok(_) => {}
                Err(error) => return Err(SessionError::Unavailable(error.to_string())),
            }
        }
        Ok(batch)
    }
}
