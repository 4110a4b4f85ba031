//! Serializes requests for an upload. A second request asks the first to stop, which keeps what it has
//! received, and waits for it: a client that reconnects while its old connection still hangs must not wait
//! for that one to time out.
//!
//! The lock is local to this server. Two servers receiving bytes of one upload are serialized by its rows:
//! the slower one finds its offset taken.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::timeout;
use uuid::Uuid;

use super::refusal::Refusal;

/// How long a request waits for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Uploads in progress.
#[derive(Debug, Default, Clone)]
pub(crate) struct Locks {
    slots: Arc<Mutex<HashMap<Uuid, Arc<Slot>>>>,
}

#[derive(Debug, Default)]
struct Slot {
    busy: Arc<tokio::sync::Mutex<()>>,
    /// Number of waiting requests.
    waiting: AtomicUsize,
    stop_requested: Notify,
}

/// The lock on an upload; released on drop.
#[derive(Debug)]
pub(crate) struct UploadLock {
    upload: Uuid,
    slot: Arc<Slot>,
    locks: Locks,
    _guard: OwnedMutexGuard<()>,
}

impl Locks {
    /// Locks `upload`.
    ///
    /// # Errors
    /// 503 if it takes too long.
    pub(super) async fn lock(&self, upload: Uuid) -> Result<UploadLock, Refusal> {
        let slot = {
            let mut slots = self.slots.lock();
            Arc::clone(slots.entry(upload).or_default())
        };
        slot.waiting.fetch_add(1, Ordering::AcqRel);
        slot.stop_requested.notify_one();
        let waiting = Waiting { upload, slot: Arc::clone(&slot), locks: self.clone() };
        let guard = timeout(LOCK_TIMEOUT, Arc::clone(&slot.busy).lock_owned()).await;
        drop(waiting);
        let guard =
            guard.map_err(|_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "acquiring lock timeout"))?;
        Ok(UploadLock { upload, slot, locks: self.clone(), _guard: guard })
    }

    /// Removes the slot of `upload` if only the table and `own` refer to it.
    fn remove_if_unused(&self, upload: Uuid, own: &Arc<Slot>) {
        let mut slots = self.slots.lock();
        if Arc::strong_count(own) <= 2 {
            slots.remove(&upload);
        }
    }
}

/// Counts a waiting request until dropped, even if its client disconnects.
struct Waiting {
    upload: Uuid,
    slot: Arc<Slot>,
    locks: Locks,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.slot.waiting.fetch_sub(1, Ordering::AcqRel);
        self.locks.remove_if_unused(self.upload, &self.slot);
    }
}

impl UploadLock {
    /// Completes when another request waits for this upload.
    pub(super) async fn stop_requested(&self) {
        while self.slot.waiting.load(Ordering::Acquire) == 0 {
            self.slot.stop_requested.notified().await;
        }
    }
}

impl Drop for UploadLock {
    fn drop(&mut self) {
        self.locks.remove_if_unused(self.upload, &self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn second_request_asks_the_first_to_stop() {
        let locks = Locks::default();
        let upload = Uuid::from_u128(1);
        let first = locks.lock(upload).await.unwrap();
        let second = tokio::spawn({
            let locks = locks.clone();
            async move { locks.lock(upload).await }
        });
        first.stop_requested().await;
        drop(first);
        let second = second.await.unwrap().unwrap();
        let other = locks.lock(Uuid::from_u128(2)).await.unwrap();
        drop((second, other));
        assert!(locks.slots.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_too_long_returns_503() {
        let locks = Locks::default();
        let held = locks.lock(Uuid::from_u128(1)).await.unwrap();
        let refused = locks.lock(Uuid::from_u128(1)).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        // A request that gave up no longer counts as waiting.
        assert_eq!(held.slot.waiting.load(Ordering::Acquire), 0);
    }
}
