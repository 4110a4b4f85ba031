//! Memory limits for waiting row changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A byte budget shared by many changes.
pub(super) struct ChangeMemory {
    used: AtomicUsize,
    limit: usize,
    /// Gauge that shows the used bytes.
    gauge: &'static str,
}

/// A reservation; released on drop.
pub(super) struct MemoryShare {
    memory: Arc<ChangeMemory>,
    bytes: usize,
}

impl ChangeMemory {
    pub(super) fn new(limit: usize, gauge: &'static str) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), limit, gauge })
    }

    /// Reserves bytes; `None` if the limit would be exceeded.
    #[expect(clippy::cast_precision_loss, reason = "precise enough for a gauge")]
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<MemoryShare> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let share = MemoryShare { memory: Arc::clone(self), bytes };
        metrics::gauge!(self.gauge).set(used as f64);
        (used <= self.limit).then_some(share)
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
