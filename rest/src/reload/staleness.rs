//! Checks whether the catalog has changed since the last load, which unknown names trigger.
//!
//! Anyone can send unknown names, and on thousands of tables a check takes a tenth of a second. So there is one check at
//! a time, requests that came before it began share its answer, and all checks together take a tenth of the time.

use std::sync::{Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::metrics;

/// The part of the time that checks may take: one of so many.
const SHARE: u32 = 10;
/// Checks may run ahead of their share by so much.
const AHEAD: Duration = Duration::from_secs(10);

pub(super) struct Staleness {
    /// When the last check began, and what it saw. Held across a check.
    last: Mutex<Option<(Instant, String)>>,
    /// Until then, the checks so far have taken their share of the time. Held to read or write.
    spent_until: SyncMutex<Instant>,
}

impl Staleness {
    pub(super) fn new() -> Self {
        Self { last: Mutex::new(None), spent_until: SyncMutex::new(Instant::now()) }
    }

    /// What `check` sees, or another request's check that began after this; `None` when there have been enough, or it
    /// failed.
    pub(super) async fn ask(&self, check: impl AsyncFnOnce() -> Option<String>) -> Option<String> {
        let came = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((began, seen)) = &*last
            && *began > came
        {
            return Some(seen.clone());
        }
        let began = Instant::now();
        if *self.spent_until.lock().unwrap_or_else(PoisonError::into_inner) > began + AHEAD {
            count("refused");
            return None;
        }
        let spent = Spent { staleness: self, began };
        let seen = check().await;
        drop(spent);
        count(if seen.is_some() { "ok" } else { "failed" });
        *last = seen.clone().map(|seen| (began, seen));
        seen
    }
}

fn count(result: &'static str) {
    ::metrics::counter!(metrics::SCHEMA_CHECKS, "result" => result).increment(1);
}

/// Counts what a check takes, also one that is given up.
struct Spent<'a> {
    staleness: &'a Staleness,
    began: Instant,
}

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        let mut until = self.staleness.spent_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(self.began) + self.began.elapsed() * SHARE;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A catalog that takes a while to check.
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
    async fn requests_that_came_before_a_check_share_it() {
        let (staleness, catalog) = (Staleness::new(), Catalog::new(Duration::from_millis(10)));
        let ask = || staleness.ask(async || catalog.check().await);
        let late = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            tokio::join!(ask(), ask(), ask())
        };
        let (first, (second, third, fourth)) = tokio::join!(ask(), late);
        assert_eq!(first.as_deref(), Some("1"));
        // The first check had begun: what changed meanwhile it may not have seen.
        assert_eq!([second.as_deref(), third.as_deref(), fourth.as_deref()], [Some("2"); 3]);
        assert_eq!(catalog.checked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn checks_take_a_tenth_of_the_time() {
        let (staleness, catalog) = (Staleness::new(), Catalog::new(Duration::from_millis(100)));
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(60) {
            let _seen = staleness.ask(async || catalog.check().await).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The second that checks may run ahead by, and six seconds of sixty.
        assert!((68..=72).contains(&catalog.checked()), "{} checks", catalog.checked());
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_is_given_up_counts_and_the_next_request_does_not_wait() {
        let staleness = Staleness::new();
        let endless = staleness.ask(async || std::future::pending().await);
        assert!(tokio::time::timeout(Duration::from_secs(3), endless).await.is_err());
        let catalog = Catalog::new(Duration::from_millis(1));
        assert_eq!(staleness.ask(async || catalog.check().await).await, None);
        tokio::time::sleep(Duration::from_secs(21)).await;
        assert!(staleness.ask(async || catalog.check().await).await.is_some());
    }
}
