//! Tracks decoding attempts. A source that cannot be decoded costs one attempt, whatever the number of
//! requests and sizes, and concurrent requests for a source share one attempt.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::blobs::BlobId;
use basalt_images::TransformError;

/// Number of failed sources kept: about 200 KiB.
const MAX_FAILED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// Decoding attempts of this server. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Attempts {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Keyed by object version, whose bytes never change.
    failed: LruCache<BlobId, TransformError>,
    running: HashMap<BlobId, watch::Receiver<()>>,
}

/// What a request has to do about a source.
#[derive(Debug)]
pub(super) enum Turn {
    /// Decode it.
    Attempt(Attempt),
    /// Wait for another request's attempt to end, then try again.
    Wait(RunningAttempt),
    /// Nothing: an earlier attempt failed.
    Failed(TransformError),
}

/// The exclusive right to decode a source, until dropped.
#[derive(Debug)]
pub(super) struct Attempt {
    attempts: Attempts,
    source: BlobId,
    _ends: watch::Sender<()>,
}

/// An attempt by another request.
#[derive(Debug)]
pub(super) struct RunningAttempt(watch::Receiver<()>);

impl Attempts {
    pub(super) fn new() -> Self {
        let state = State { failed: LruCache::new(MAX_FAILED), running: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The known error of `source`, if decoding failed before.
    pub(super) fn failure(&self, source: BlobId) -> Option<TransformError> {
        self.lock().failed.get(&source).copied()
    }

    /// Starts an attempt unless one failed before or is running.
    pub(super) fn begin(&self, source: BlobId) -> Turn {
        let mut state = self.lock();
        if let Some(failure) = state.failed.get(&source) {
            return Turn::Failed(*failure);
        }
        if let Some(ends) = state.running.get(&source) {
            return Turn::Wait(RunningAttempt(ends.clone()));
        }
        let (sender, receiver) = watch::channel(());
        state.running.insert(source, receiver);
        Turn::Attempt(Attempt { attempts: self.clone(), source, _ends: sender })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Attempt {
    /// Records that the source cannot be decoded.
    pub(super) fn fail(&self, error: TransformError) {
        self.attempts.lock().failed.put(self.source, error);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.attempts.lock().running.remove(&self.source);
    }
}

impl RunningAttempt {
    /// Waits until the attempt has ended.
    pub(super) async fn ended(mut self) {
        // Nothing is ever sent; the receiver fails when the sender is dropped.
        let _dropped = self.0.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn allows_one_attempt_per_source() {
        let attempts = Attempts::new();
        let (one, other) = (BlobId::random(), BlobId::random());
        let Turn::Attempt(first) = attempts.begin(one) else { panic!("no attempt is running") };
        assert!(matches!(attempts.begin(other), Turn::Attempt(_)));
        let Turn::Wait(running) = attempts.begin(one) else { panic!("it is being attempted") };
        let waiting = tokio::spawn(running.ended());
        drop(first);
        waiting.await.unwrap();
        let Turn::Attempt(second) = attempts.begin(one) else { panic!("the first has ended") };
        second.fail(TransformError::Unsupported);
        drop(second);
        assert!(matches!(attempts.begin(one), Turn::Failed(TransformError::Unsupported)));
        assert_eq!(attempts.failure(one), Some(TransformError::Unsupported));
        assert!(attempts.lock().running.is_empty());
    }
}
