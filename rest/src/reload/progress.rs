//! Tracks loads, for requests that wait for one.
//!
//! Under continuous schema changes a load is always in progress, so no request waits for the last one. Loads are
//! numbered, and a request waits for a particular one.

use tokio::sync::watch;
use tokio::time::Instant;

/// Progress of a service's loads.
pub(super) struct Progress(watch::Sender<Loads>);

#[derive(Clone, Copy, Debug, Default)]
struct Loads {
    /// Number of loads started; they do not overlap.
    started: u64,
    /// Number of the last load that ended.
    ended: u64,
    /// Whether no further load will start.
    stopped: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Loads::default()))
    }

    /// Number of the load that started last.
    pub(super) fn started(&self) -> u64 {
        self.0.borrow().started
    }

    /// Records the start of a load.
    pub(super) fn start(&self) {
        self.0.send_modify(|loads| loads.started += 1);
    }

    /// Records the end of the load that started last, whether it succeeded or failed.
    pub(super) fn end(&self) {
        self.0.send_modify(|loads| loads.ended = loads.started);
    }

    /// Records that no further load will start.
    pub(super) fn stop(&self) {
        self.0.send_modify(|loads| loads.stopped = true);
    }

    /// Waits until the load with this number has ended, at most until `until`.
    pub(super) async fn wait_for(&self, load: u64, until: Instant) {
        let mut loads = self.0.subscribe();
        let ended = loads.wait_for(|loads| loads.stopped || loads.ended >= load);
        // The sender lives as long as `self`, so only the timeout can end this otherwise; the request then uses the
        // current state.
        let _in_time = tokio::time::timeout_at(until, ended).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    #[tokio::test(start_paused = true)]
    async fn wait_ends_with_load_or_a_later_one() {
        let progress = Progress::new();
        progress.start();
        let waiting = progress.wait_for(progress.started() + 1, soon());
        tokio::pin!(waiting);
        progress.end();
        let second = Duration::from_secs(1);
        assert!(
            tokio::time::timeout(second, &mut waiting).await.is_err(),
            "this load may have missed the change"
        );
        progress.start();
        progress.end();
        assert!(tokio::time::timeout(second, &mut waiting).await.is_ok());
        let start_time = Instant::now();
        progress.wait_for(progress.started(), soon()).await;
        assert_eq!(start_time.elapsed(), Duration::ZERO, "no load is in progress");
    }

    #[tokio::test(start_paused = true)]
    async fn wait_ends_at_deadline_or_shutdown() {
        let progress = Progress::new();
        let started = Instant::now();
        progress.wait_for(1, soon()).await;
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        progress.stop();
        progress.wait_for(1, soon()).await;
        assert_eq!(started.elapsed(), Duration::from_secs(5));
    }
}
