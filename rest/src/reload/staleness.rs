//! Checks whether the catalog has changed since the last load, when a request names an unknown object.
//!
//! Anyone can send unknown names, and with thousands of tables a check takes a tenth of a second. Checks therefore
//! run one at a time, requests that arrived before a check started share its result, and all checks together take at
//! most a tenth of the time.

use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::metrics;

/// Checks may take one part in this many of the time.
const TIME_SHARE: u32 = 10;
/// Amount by which checks may exceed their share temporarily.
const MAX_BURST: Duration = Duration::from_secs(10);

pub(super) struct Staleness {
    /// Start time and result of the last check. Locked during a check.
    last: Mutex<Option<(Instant, String)>>,
    /// Time at which the checks so far are within their share again.
    spent_until: SyncMutex<Instant>,
}

impl Staleness {
    pub(super) fn new() -> Self {
        Self { last: Mutex::new(None), spent_until: SyncMutex::new(Instant::now()) }
    }

    /// Result of `check`, or of another request's check that started after this call. `None` if too many checks have
    /// run recently, or the check failed.
    pub(super) async fn check(&self, check: impl AsyncFnOnce() -> Option<String>) -> Option<String> {
        let arrived = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((started, seen)) = &*last
            && *started > arrived
        {
            return Some(seen.clone());
        }
        let started = Instant::now();
        if *self.spent_until.lock() > started + MAX_BURST {
            count("refused");
            return None;
        }
        let spent = Spent { staleness: self, started };
        let seen = check().await;
        drop(spent);
        count(if seen.is_some() { "ok" } else { "failed" });
        *last = seen.clone().map(|seen| (started, seen));
        seen
    }
}

fn count(result: &'static str) {
    ::metrics::counter!(metrics::SCHEMA_CHECKS, "result" => result).increment(1);
}

/// Accounts for the duration of a check, even if it is cancelled.
struct Spent<'a> {
    staleness: &'a Staleness,
    started: Instant,
}

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        let mut until = self.staleness.spent_until.lock();
        *until = (*until).max(self.started) + self.started.elapsed() * TIME_SHARE;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A catalog whose check takes some time.
    struct Catalog {
        checked: AtomicU32,
        takes: Duration,
    }

    impl Catalog {
        const fn new(takes: Duration) -> Self {
            Self { checked: AtomicU32::new(0), takes }
        }

        async fn check(&self) -> Option<String> {
            let number = self.checked.fetch_add(1, Ordering::Relaxed) + 1;
            tokio::time::sleep(self.takes).await;
            Some(number.to_string())
        }

        fn checked(&self) -> u32 {
            self.checked.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_share_checks_started_after_them() {
        let (staleness, catalog) = (Staleness::new(), Catalog::new(Duration::from_millis(10)));
        let ask = || staleness.check(async || catalog.check().await);
        let late = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            tokio::join!(ask(), ask(), ask())
        };
        let (first, (second, third, fourth)) = tokio::join!(ask(), late);
        assert_eq!(first.as_deref(), Some("1"));
        // The first check had already started and may have missed a later change.
        assert_eq!([second.as_deref(), third.as_deref(), fourth.as_deref()], [Some("2"); 3]);
        assert_eq!(catalog.checked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn checks_take_at_most_a_tenth_of_the_time() {
        let (staleness, catalog) = (Staleness::new(), Catalog::new(Duration::from_millis(100)));
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(60) {
            let _seen = staleness.check(async || catalog.check().await).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The burst allowance of one second, and six seconds of sixty.
        assert!((68..=72).contains(&catalog.checked()), "{} checks", catalog.checked());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_check_is_charged() {
        let staleness = Staleness::new();
        let endless = staleness.check(async || std::future::pending().await);
        assert!(tokio::time::timeout(Duration::from_secs(3), endless).await.is_err());
        let catalog = Catalog::new(Duration::from_millis(1));
        assert_eq!(staleness.check(async || catalog.check().await).await, None);
        tokio::time::sleep(Duration::from_secs(21)).await;
        assert!(staleness.check(async || catalog.check().await).await.is_some());
    }
}
