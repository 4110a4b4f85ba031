//! Looks at the catalog for requests that name what is unknown: whether it has changed since the last load.
//!
//! Everybody can send such requests, and of thousands of tables a look takes a tenth of a second. So there is one at a
//! time, those who came before it share what it sees, and all of them together take a tenth of the time at most.

use std::sync::{Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::metrics;

/// What looks may take that nobody was held back for before.
const SAVED: Duration = Duration::from_secs(1);
/// The part of the time that looks may take: one of so many.
const SHARE: u32 = 10;

pub(super) struct Looks {
    /// When the last look began, and what it saw. Held across a look.
    last: Mutex<Option<(Instant, String)>>,
    /// Time that looks may take, and when that was. Held to count.
    allowance: SyncMutex<(Duration, Instant)>,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self { last: Mutex::new(None), allowance: SyncMutex::new((SAVED, Instant::now())) }
    }

    /// What `look` sees, or a look of somebody else that began after this; `None` when there have been enough, or it
    /// failed.
    pub(super) async fn ask(&self, look: impl AsyncFnOnce() -> Option<String>) -> Option<String> {
        let came = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((began, seen)) = &*last
            && *began > came
        {
            return Some(seen.clone());
        }
        if self.left().is_zero() {
            count("refused");
            return None;
        }
        let began = Instant::now();
        let spent = Spent { looks: self, began };
        let seen = look().await;
        drop(spent);
        count(if seen.is_some() { "ok" } else { "failed" });
        *last = seen.clone().map(|seen| (began, seen));
        seen
    }

    /// What looks may take now.
    fn left(&self) -> Duration {
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, at) = *allowance;
        // It is in the future while a look is made up for that took too much.
        let now = Instant::now().max(at);
        let left = (left + now.duration_since(at) / SHARE).min(SAVED);
        *allowance = (left, now);
        left
    }

    fn spend(&self, time: Duration) {
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, at) = *allowance;
        let missing = time.saturating_sub(left);
        *allowance = (left.saturating_sub(time), at + missing * SHARE);
    }
}

fn count(result: &'static str) {
    ::metrics::counter!(metrics::SCHEMA_LOOKS, "result" => result).increment(1);
}

/// Counts what a look takes, also one that is given up.
struct Spent<'a> {
    looks: &'a Looks,
    began: Instant,
}

impl Drop for Spent<'_> {
    fn drop(&mut self) {
        self.looks.spend(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A catalog that takes a while to look at.
    struct Catalog {
        looked: AtomicU32,
        takes: Duration,
    }

    impl Catalog {
        const fn new(takes: Duration) -> Self {
            Self { looked: AtomicU32::new(0), takes }
        }

        async fn look(&self) -> Option<String> {
            let number = self.looked.fetch_add(1, Ordering::Relaxed) + 1;
            tokio::time::sleep(self.takes).await;
            Some(number.to_string())
        }

        fn looked(&self) -> u32 {
            self.looked.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_came_before_a_look_share_it() {
        let (looks, catalog) = (Looks::new(), Catalog::new(Duration::from_millis(10)));
        let ask = || looks.ask(async || catalog.look().await);
        let late = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            tokio::join!(ask(), ask(), ask())
        };
        let (first, (second, third, fourth)) = tokio::join!(ask(), late);
        assert_eq!(first.as_deref(), Some("1"));
        // The first look had begun: what changed meanwhile it may not have seen.
        assert_eq!([second.as_deref(), third.as_deref(), fourth.as_deref()], [Some("2"); 3]);
        assert_eq!(catalog.looked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_take_a_tenth_of_the_time() {
        let (looks, catalog) = (Looks::new(), Catalog::new(Duration::from_millis(100)));
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(60) {
            let _seen = looks.ask(async || catalog.look().await).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // What was saved up, and six seconds of sixty.
        assert!((68..=72).contains(&catalog.looked()), "{} looks", catalog.looked());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_is_given_up_counts_and_holds_up_nobody() {
        let looks = Looks::new();
        let endless = looks.ask(async || std::future::pending().await);
        assert!(tokio::time::timeout(Duration::from_secs(3), endless).await.is_err());
        let catalog = Catalog::new(Duration::from_millis(1));
        assert_eq!(looks.ask(async || catalog.look().await).await, None);
        tokio::time::sleep(Duration::from_secs(21)).await;
        assert!(looks.ask(async || catalog.look().await).await.is_some());
    }
}
