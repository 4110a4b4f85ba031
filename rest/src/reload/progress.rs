//! Which loads there have been, for requests that wait for one.
//!
//! Under one change after the other there is always a load under way, so no request waits for the end of all. Loads are
//! numbered instead, and a request waits for one of them.

use tokio::sync::watch;
use tokio::time::Instant;

/// The loads of a service so far.
pub(super) struct Progress(watch::Sender<Loads>);

#[derive(Clone, Copy, Debug, Default)]
struct Loads {
    /// That have begun, one after the other.
    begun: u64,
    /// The last of them that is over.
    over: u64,
    /// There will be no more.
    stopped: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Loads::default()))
    }

    /// The load that began last.
    pub(super) fn begun(&self) -> u64 {
        self.0.borrow().begun
    }

    /// A load begins.
    pub(super) fn begin(&self) {
        self.0.send_modify(|loads| loads.begun += 1);
    }

    /// The load that began last is over, whether it brought a cache or failed.
    pub(super) fn end(&self) {
        self.0.send_modify(|loads| loads.over = loads.begun);
    }

    /// There will be no more loads.
    pub(super) fn stop(&self) {
        self.0.send_modify(|loads| loads.stopped = true);
    }

    /// Waits until this load is over, at most until `until`.
    pub(super) async fn over(&self, load: u64, until: Instant) {
        let mut loads = self.0.subscribe();
        let over = loads.wait_for(|loads| loads.stopped || loads.over >= load);
        // The sender is ours, so the only other way out is the time: then the request goes on with what is there.
        let _in_time = tokio::time::timeout_at(until, over).await;
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
    async fn a_load_is_over_when_it_or_a_later_one_ends() {
        let progress = Progress::new();
        progress.begin();
        let waiting = progress.over(progress.begun() + 1, soon());
        tokio::pin!(waiting);
        progress.end();
        let second = Duration::from_secs(1);
        assert!(tokio::time::timeout(second, &mut waiting).await.is_err(), "it may have missed a change");
        progress.begin();
        progress.end();
        assert!(tokio::time::timeout(second, &mut waiting).await.is_ok());
        let started = Instant::now();
        progress.over(progress.begun(), soon()).await;
        assert_eq!(started.elapsed(), Duration::ZERO, "nothing is under way");
    }

    #[tokio::test(start_paused = true)]
    async fn no_request_waits_for_ever_or_for_a_server_that_stops() {
        let progress = Progress::new();
        let started = Instant::now();
        progress.over(1, soon()).await;
        assert_eq!(started.elapsed(), Duration::from_secs(5));
        progress.stop();
        progress.over(1, soon()).await;
        assert_eq!(started.elapsed(), Duration::from_secs(5));
    }
}
