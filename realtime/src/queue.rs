//! Outgoing queue of one socket: bounded, filled by any task, drained by the socket's task. A push never
//! waits; when the queue overflows, its socket is closed, so that a slow reader blocks no other.

use std::collections::VecDeque;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message;

use crate::metrics;

/// Most bytes queued for one socket. A single larger message is accepted if the queue is empty.
pub(crate) const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Estimated size of a message without its payload.
const OVERHEAD: usize = 128;

/// A queued item.
#[derive(Debug)]
pub(crate) enum Item {
    /// A frame to send.
    Frame(Message),
    /// The channel with this id missed changes; end it so that its client rejoins.
    Gap(u64),
    /// Renew the lease of the channel with this id: it holds a frame, or its permissions may have changed.
    Renewal(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    filled: Notify,
    overflowed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    items: VecDeque<Item>,
    /// Bytes of `items` and of items taken but not yet written.
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The queue exceeded [`QUEUE_BYTES`].
    Overflowed,
    /// The socket's task has ended.
    Closed,
}

/// The queue overflowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflowed;

impl Queue {
    /// Queues a frame; drops it if the queue has overflowed or is closed.
    pub(crate) fn push(&self, frame: Message) {
        self.add(Item::Frame(frame));
    }

    /// Reports that channel `id` missed changes.
    pub(crate) fn push_gap(&self, id: u64) {
        self.add(Item::Gap(id));
    }

    /// Requests a renewal of the lease of channel `id`.
    pub(crate) fn push_renewal(&self, id: u64) {
        self.add(Item::Renewal(id));
    }

    fn add(&self, item: Item) {
        let size = item.size();
        let mut inner = self.inner();
        if inner.state != State::Open {
            return;
        }
        if inner.bytes > 0 && inner.bytes + size > QUEUE_BYTES {
            inner.state = State::Overflowed;
            metrics::queued_bytes().decrement(as_gauge(inner.bytes));
            inner.bytes = 0;
            inner.items = VecDeque::new();
            drop(inner);
            self.overflowed.notify_one();
            self.filled.notify_one();
            return;
        }
        inner.bytes += size;
        inner.items.push_back(item);
        let is_first = inner.items.len() == 1;
        drop(inner);
        metrics::queued_bytes().increment(as_gauge(size));
        if is_first {
            self.filled.notify_one();
        }
    }

    /// Takes all queued items.
    ///
    /// # Errors
    /// The queue overflowed.
    pub(crate) fn take(&self) -> Result<VecDeque<Item>, Overflowed> {
        let mut inner = self.inner();
        if inner.state == State::Overflowed {
            return Err(Overflowed);
        }
        Ok(std::mem::take(&mut inner.items))
    }

    /// Releases the bytes of an item that was taken and has been written.
    pub(crate) fn written(&self, size: usize) {
        let mut inner = self.inner();
        if inner.state == State::Open {
            inner.bytes = inner.bytes.saturating_sub(size);
            drop(inner);
            metrics::queued_bytes().decrement(as_gauge(size));
        }
    }

    /// Waits until an item is queued.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Waits until the queue overflows.
    pub(crate) async fn overflowed(&self) {
        self.overflowed.notified().await;
    }

    /// Discards queued items and ignores later ones.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        if inner.state == State::Open {
            metrics::queued_bytes().decrement(as_gauge(inner.bytes));
        }
        inner.state = State::Closed;
        inner.bytes = 0;
        inner.items = VecDeque::new();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Item {
    /// Bytes this item counts for.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Frame(frame) => OVERHEAD + frame.len(),
            Self::Gap(_) | Self::Renewal(_) => OVERHEAD,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "byte counts stay far below 2^53")]
const fn as_gauge(bytes: usize) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize) -> Message {
        Message::Binary(vec![0; length].into())
    }

    #[tokio::test]
    async fn overflowed_queue_accepts_nothing_more() {
        let queue = Queue::default();
        queue.push(frame(QUEUE_BYTES / 2));
        queue.push(frame(10));
        queue.filled().await;
        let taken = queue.take().unwrap();
        assert_eq!(taken.len(), 2);
        // Items that were taken still count until written.
        queue.push(frame(QUEUE_BYTES / 2));
        queue.overflowed().await;
        assert!(queue.take().is_err());
        queue.push(frame(1));
        assert!(queue.take().is_err());
    }

    #[test]
    fn accepts_one_oversized_message_when_empty() {
        let queue = Queue::default();
        queue.push(frame(2 * QUEUE_BYTES));
        let taken = queue.take().unwrap();
        queue.written(taken.iter().map(Item::size).sum());
        queue.push(frame(2 * QUEUE_BYTES));
        assert_eq!(queue.take().unwrap().len(), 1);
    }

    #[test]
    fn closed_queue_keeps_nothing() {
        let queue = Queue::default();
        queue.push(frame(10));
        queue.close();
        queue.push(frame(10));
        assert_eq!(queue.take().unwrap().len(), 0);
    }
}
