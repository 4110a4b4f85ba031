//! What uploads buffer all together. A writer that has no room for a larger buffer takes small ones (a folder takes chunks of
//! any size) or waits (the parts of an S3 upload have a least size).
//!
//! No task waits for room while it holds room that only its own progress gives back: room is taken for a whole chunk,
//! and a chunk that is full goes out without asking for more. So writers cannot wait for each other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Buffers up to this size take no room: the number of requests is bounded, and so their sum.
pub(super) const FREE_BYTES: usize = 64 * 1024;
/// How long a writer waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of one permit: tokio counts permits of one request with 32 bits.
const UNIT: usize = 1024;

/// Room for buffers.
#[derive(Debug)]
pub(super) struct Room {
    permits: Arc<Semaphore>,
    limit: u32,
}

/// Some of the room, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    _permit: OwnedSemaphorePermit,
    bytes: f64,
}

impl Drop for Share {
    fn drop(&mut self) {
        metrics::gauge!("basalt_storage_buffer_bytes").decrement(self.bytes);
    }
}

impl Room {
    /// Room for `bytes`.
    pub(super) fn new(bytes: u64) -> Self {
        let limit = u32::try_from(bytes / UNIT as u64).unwrap_or(u32::MAX).max(1);
        metrics::gauge!("basalt_storage_buffer_bytes").set(0.0);
        metrics::gauge!("basalt_storage_buffer_bytes_limit").set(f64::from(limit) * UNIT as f64);
        let permits = usize::try_from(limit).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(permits)), limit }
    }

    /// Takes room for `bytes`, if there is any now.
    pub(super) fn try_take(&self, bytes: usize) -> Option<Share> {
        let permit = Arc::clone(&self.permits).try_acquire_many_owned(self.units(bytes)).ok()?;
        Some(share(permit, bytes))
    }

    /// Takes room for `bytes`, and waits for it, in the order of the calls. `None`: it took too long.
    pub(super) async fn take(&self, bytes: usize) -> Option<Share> {
        let permit = Arc::clone(&self.permits).acquire_many_owned(self.units(bytes));
        Some(share(timeout(PATIENCE, permit).await.ok()?.ok()?, bytes))
    }

    /// A buffer that is larger than all the room takes all of it.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.limit)
    }
}

fn share(permit: OwnedSemaphorePermit, bytes: usize) -> Share {
    metrics::gauge!("basalt_storage_buffer_bytes").increment(bytes as f64);
    Share { _permit: permit, bytes: bytes as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_waits_and_then_gives_up() {
        let room = Room::new(8 * 1024);
        let first = room.try_take(5 * 1024).unwrap();
        assert!(room.try_take(5 * 1024).is_none());
        assert!(room.take(5 * 1024).await.is_none());
        let waiting = tokio::join!(room.take(5 * 1024), async { drop(first) }).0;
        assert!(waiting.is_some());
    }

    #[tokio::test]
    async fn a_buffer_larger_than_all_the_room_takes_all_of_it() {
        let room = Room::new(8 * 1024);
        let all = room.take(1024 * 1024).await.unwrap();
        assert!(room.try_take(1).is_none());
        drop(all);
        assert!(room.try_take(8 * 1024).is_some());
    }
}
