//! Which loads there are, for those who wait for one.
//!
//! The surprise: under one change after the other there is always a load due, so nobody waits for the end of all. Loads
//! are numbered instead, and whoever comes waits for one that begins after that.

use tokio::sync::watch;
use tokio::time::Instant;

/// The loads of a service so far.
pub(super) struct Progress(watch::Sender<Loads>);

#[derive(Clone, Copy, Debug, Default)]
struct Loads {
    /// Under way or due.
    due: usize,
    /// That have begun, one after the other.
    begun: u64,
    /// The last of them that is over.
    over: u64,
    /// The last of them that has brought a cache.
    loaded: u64,
    /// There will be no more.
    stopped: bool,
}

impl Progress {
    /// The first load is due from the start.
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Loads { due: 1, ..Loads::default() }))
    }

    pub(super) fn is_due(&self) -> bool {
        self.0.borrow().due > 0
    }

    /// How many loads have begun.
    pub(super) fn begun(&self) -> u64 {
        self.0.borrow().begun
    }

    /// A load is due until what this returns is dropped.
    pub(super) fn due(&self) -> Due<'_> {
        self.0.send_modify(|loads| loads.due += 1);
        Due(self)
    }

    /// The load that is due from the start.
    pub(super) const fn first(&self) -> Due<'_> {
        Due(self)
    }

    /// A load begins.
    pub(super) fn begin(&self) {
        self.0.send_modify(|loads| loads.begun += 1);
    }

    /// The load that began last is over.
    pub(super) fn end(&self, is_loaded: bool) {
        self.0.send_modify(|loads| {
            loads.over = loads.begun;
            if is_loaded {
                loads.loaded = loads.begun;
            }
        });
    }

    /// There will be no more loads.
    pub(super) fn stop(&self) {
        self.0.send_modify(|loads| loads.stopped = true);
    }

    /// Waits until no load is under way or due, or one has brought a cache that began after this, at most until `until`.
    /// Whether there was such a load: nobody need look for changes then.
    pub(super) async fn settled(&self, until: Instant) -> bool {
        let begun = self.begun();
        self.wait(until, |loads| loads.due == 0 || loads.loaded > begun).await;
        self.0.borrow().loaded > begun
    }

    /// Waits until a load is over that began when `begun` had begun before it, at most until `until`.
    pub(super) async fn over_after(&self, begun: u64, until: Instant) {
        self.wait(until, |loads| loads.over > begun).await;
    }

    async fn wait(&self, until: Instant, is_enough: impl Fn(&Loads) -> bool) {
        let mut loads = self.0.subscribe();
        let enough = loads.wait_for(|loads| loads.stopped || is_enough(loads));
        // The sender is ours, so the only other way out is the time: then we go on with what is there.
        let _in_time = tokio::time::timeout_at(until, enough).await;
    }
}

/// A load that is due; over when dropped, even if the load was given up.
pub(super) struct Due<'a>(&'a Progress);

impl Drop for Due<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|loads| loads.due = loads.due.saturating_sub(1));
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
    async fn a_load_that_had_begun_before_is_not_waited_for_alone() {
        let progress = Progress::new();
        let _first = progress.first();
        progress.begin();
        let waiting = progress.settled(soon());
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err());
        progress.end(true);
        assert!(
            tokio::time::timeout(Duration::from_secs(1), &mut waiting).await.is_err(),
            "it may have missed it"
        );
        progress.begin();
        progress.end(true);
        assert!(waiting.await);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_when_nothing_is_due_or_for_ever() {
        let progress = Progress::new();
        drop(progress.first());
        assert!(!progress.settled(soon()).await);
        let _due = progress.due();
        let started = Instant::now();
        assert!(!progress.settled(soon()).await);
        assert_eq!(started.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_load_is_over_and_has_brought_nothing() {
        let progress = Progress::new();
        let first = progress.first();
        let asked = progress.begun();
        progress.begin();
        progress.end(false);
        let started = Instant::now();
        progress.over_after(asked, soon()).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        drop(first);
        assert!(!progress.settled(soon()).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stops_keeps_nobody_waiting() {
        let progress = Progress::new();
        let _due = progress.due();
        progress.stop();
        let started = Instant::now();
        progress.over_after(0, soon()).await;
        assert!(!progress.settled(soon()).await);
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
