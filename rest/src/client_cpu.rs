//! Runs long CPU work of a request, such as parsing a large body, on the threads of a [`CpuPool`].

use basalt_core::cpu_pool::{CpuPool, CpuPoolError, CpuPoolLimits, Priority};
use basalt_core::fair_share::WAITING_PER_IDENTITY;
use basalt_core::identity::Identity;
use metrics::Gauge;
use tokio_util::task::TaskTracker;

use crate::error::RestError;

/// Work on this many bytes takes one or two milliseconds, less than moving it to another thread is worth.
const MAX_INLINE_BYTES: usize = 256 * 1024;

/// Whether work on this many bytes should use [`ClientCpu::run`].
pub(crate) const fn is_long(bytes: usize) -> bool {
    bytes > MAX_INLINE_BYTES
}

/// Creates a pool with `threads` threads.
pub(crate) fn pool(name: &'static str, threads: usize, tracker: &TaskTracker) -> CpuPool {
    // The gateway limits the number of requests, and their deadlines limit how long they wait.
    let limits = CpuPoolLimits {
        threads,
        waiting: usize::MAX,
        waiting_per_identity: WAITING_PER_IDENTITY,
        keeps_headroom: true,
    };
    CpuPool::new(name, limits, Priority::Normal, Gauge::noop(), tracker)
}

/// A pool, as available to one client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientCpu<'a> {
    pub(crate) pool: &'a CpuPool,
    pub(crate) identity: Identity,
}

impl ClientCpu<'_> {
    /// Runs `work` on a thread of the pool. A panic in it is propagated.
    ///
    /// # Errors
    /// Too much work of this client is already queued, or no thread could be started.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RestError> {
        self.pool.run(self.identity, |()| work()).await.map_err(|error| match error {
            CpuPoolError::QueueFull => RestError::Busy,
            CpuPoolError::Panicked(panic) => std::panic::resume_unwind(panic),
            CpuPoolError::NoThread(_) => RestError::Internal("cannot start a thread for long work"),
        })
    }
}
