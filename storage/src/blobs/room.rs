//! Memory budget for upload buffers. A writer that gets no memory for a larger buffer uses small ones (a
//! file accepts chunks of any size) or waits (parts of an S3 upload have a minimum size). The budget is
//! shared fairly: however many or slow the uploads of one client are, they leave memory for those of others.
//!
//! No task waits for memory while holding memory that only its own progress would release: memory is
//! acquired for a complete chunk, and a full chunk is written without acquiring more. Writers therefore
//! cannot deadlock.

use std::time::Duration;

use basalt_core::convert::saturating;
use basalt_core::fair_share::{FairPermit, FairShare, Limits, WAITING_PER_IDENTITY};
use basalt_core::identity::Identity;
use tokio::time::timeout;

/// Buffers up to this size are not counted; the number of requests limits their sum.
pub(super) const FREE_BYTES: usize = 64 * 1024;
/// How long a writer waits for memory.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes per permit.
const UNIT: usize = 1024;

/// The budget.
#[derive(Debug)]
pub(super) struct Room {
    permits: FairShare,
    limit: usize,
}

/// Acquired memory; released on drop.
#[derive(Debug)]
pub(super) struct Share {
    _permit: FairPermit,
    bytes: f64,
}

impl Drop for Share {
    fn drop(&mut self) {
        metrics::gauge!("basalt_storage_buffer_bytes").decrement(self.bytes);
    }
}

impl Room {
    /// A budget of `bytes`.
    pub(super) fn new(bytes: u64) -> Self {
        let limit = saturating::<usize>(bytes / UNIT as u64).max(1);
        metrics::gauge!("basalt_storage_buffer_bytes").set(0.0);
        metrics::gauge!("basalt_storage_buffer_bytes_limit").set(limit as f64 * UNIT as f64);
        let limits = Limits {
            permits: limit,
            waiting_per_identity: WAITING_PER_IDENTITY,
            keeps_headroom: true,
            flood_share: None,
        };
        Self { permits: FairShare::new(limits), limit }
    }

    /// Acquires `bytes` if the client may have them now.
    pub(super) fn try_take(&self, client: Identity, bytes: usize) -> Option<Share> {
        let permit = self.permits.try_acquire_many(client, self.units(bytes))?;
        Some(share(permit, bytes))
    }

    /// Acquires `bytes`, waiting for the client's turn. `None` if that takes too long.
    pub(super) async fn take(&self, client: Identity, bytes: usize) -> Option<Share> {
        let permit = self.permits.acquire_many(client, self.units(bytes));
        Some(share(timeout(PATIENCE, permit).await.ok()?.ok()?, bytes))
    }

    /// A buffer larger than the budget takes all of it.
    fn units(&self, bytes: usize) -> usize {
        bytes.div_ceil(UNIT).min(self.limit)
    }
}

fn share(permit: FairPermit, bytes: usize) -> Share {
    metrics::gauge!("basalt_storage_buffer_bytes").increment(bytes as f64);
    Share { _permit: permit, bytes: bytes as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Identity = Identity::SERVER;

    #[tokio::test(start_paused = true)]
    async fn waits_for_memory_and_times_out() {
        let room = Room::new(8 * 1024);
        let first = room.try_take(CLIENT, 5 * 1024).unwrap();
        assert!(room.try_take(CLIENT, 5 * 1024).is_none());
        assert!(room.take(CLIENT, 5 * 1024).await.is_none());
        let waiting = tokio::join!(room.take(CLIENT, 5 * 1024), async { drop(first) }).0;
        assert!(waiting.is_some());
    }

    #[tokio::test]
    async fn oversized_buffer_takes_the_complete_budget() {
        let room = Room::new(8 * 1024);
        let all = room.take(CLIENT, 1024 * 1024).await.unwrap();
        assert!(room.try_take(CLIENT, 1).is_none());
        drop(all);
        assert!(room.try_take(CLIENT, 8 * 1024).is_some());
    }

    #[test]
    fn one_client_leaves_memory_for_others() {
        let (room, other) = (Room::new(96 << 20), Identity::new(Some("other"), "authenticated", None));
        let uploads: Vec<Share> = std::iter::from_fn(|| room.try_take(CLIENT, 8 << 20)).collect();
        assert_eq!(uploads.len(), 8);
        let of_other: Vec<Share> = std::iter::from_fn(|| room.try_take(other, 8 << 20)).collect();
        assert_eq!(of_other.len(), 3);
    }
}
