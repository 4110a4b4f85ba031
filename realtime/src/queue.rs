//! What waits to be written to one socket: bounded, filled by anyone, emptied by the socket's task. A push never waits;
//! beyond the bound the queue is given up, and the socket with it, so that a slow reader holds up nobody.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message;

use crate::metrics;

/// Most bytes that wait for one socket. One message may be larger when nothing else waits.
pub(crate) const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// What a message takes beside its payload.
const OVERHEAD: usize = 128;

/// What waits.
#[derive(Debug)]
pub(crate) enum Item {
    /// To be written.
    Frame(Message),
    /// Changes were missed: the channel with this id is to end so that its client joins again.
    Gap(u64),
    /// A frame is held for the channel with this id until its lease is renewed.
    Renewal(u64),
}

/// The queue of one socket.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    filled: Notify,
    overflowed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    items: VecDeque<Item>,
    /// Of `items` and of what the socket's task has taken and not written yet.
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// More came than it holds.
    Overflowed,
    /// The socket's task has ended.
    Closed,
}

/// The queue was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflowed;

impl Queue {
    /// Adds a frame; drops it where the queue was given up.
    pub(crate) fn push(&self, frame: Message) {
        self.add(Item::Frame(frame));
    }

    /// Says that channel `id` missed changes.
    pub(crate) fn push_gap(&self, id: u64) {
        self.add(Item::Gap(id));
    }

    /// Asks the socket to renew the lease of channel `id`.
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

    /// Takes all that waits.
    ///
    /// # Errors
    /// More came than it holds.
    pub(crate) fn take(&self) -> Result<VecDeque<Item>, Overflowed> {
        let mut inner = self.inner();
        if inner.state == State::Overflowed {
            return Err(Overflowed);
        }
        Ok(std::mem::take(&mut inner.items))
    }

    /// Says that an item that was taken is written.
    pub(crate) fn written(&self, size: usize) {
        let mut inner = self.inner();
        if inner.state == State::Open {
            inner.bytes = inner.bytes.saturating_sub(size);
            drop(inner);
            metrics::queued_bytes().decrement(as_gauge(size));
        }
    }

    /// Waits until something waits.
    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Waits until it is given up.
    pub(crate) async fn overflowed(&self) {
        self.overflowed.notified().await;
    }

    /// Drops what waits and all that comes.
    pub(crate) fn close(&self) {
        let mut inner = self.inner();
        if inner.state == State::Open {
            metrics::queued_bytes().decrement(as_gauge(inner.bytes));
        }
        inner.state = State::Closed;
        inner.bytes = 0;
        inner.items = VecDeque::new();
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Item {
    /// What it counts for.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Frame(frame) => OVERHEAD + frame.len(),
            Self::Gap(_) | Self::Renewal(_) => OVERHEAD,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
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
    async fn a_full_queue_is_given_up_and_takes_nothing_more() {
        let queue = Queue::default();
        queue.push(frame(QUEUE_BYTES / 2));
        queue.push(frame(10));
        queue.filled().await;
        let taken = queue.take().unwrap();
        assert_eq!(taken.len(), 2);
        // Taken is not written.
        queue.push(frame(QUEUE_BYTES / 2));
        queue.overflowed().await;
        assert!(queue.take().is_err());
        queue.push(frame(1));
        assert!(queue.take().is_err());
    }

    #[test]
    fn one_large_message_passes_alone() {
        let queue = Queue::default();
        queue.push(frame(2 * QUEUE_BYTES));
        let taken = queue.take().unwrap();
        queue.written(taken.iter().map(Item::size).sum());
        queue.push(frame(2 * QUEUE_BYTES));
        assert_eq!(queue.take().unwrap().len(), 1);
    }

    #[test]
    fn after_the_end_nothing_is_kept() {
        let queue = Queue::default();
        queue.push(frame(10));
        queue.close();
        queue.push(frame(10));
        assert_eq!(queue.take().unwrap().len(), 0);
    }
}
