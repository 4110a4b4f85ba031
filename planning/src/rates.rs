//! Rate limits (functions.md 3.11): a number of uses within a sliding window. Counts are in memory: each server has its own, and a restart
//! resets them.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics;
use crate::refusal::Refusal;

/// Keys per limit; the least recently used one is evicted, which resets its count.
const KEYS: NonZeroUsize = match NonZeroUsize::new(16_384) {
    Some(keys) => keys,
    None => NonZeroUsize::MIN,
};
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// All limits.
pub(crate) struct Rates {
    pub(crate) billing: Rate,
    pub(crate) check_price: Rate,
    /// Keyed by the sender, across plans.
    pub(crate) invite_by_user: Rate,
    pub(crate) invite_by_user_daily: Rate,
    pub(crate) invite_by_plan: Rate,
    /// Keyed by the recipient, across plans and senders.
    pub(crate) invite_by_recipient: Rate,
    pub(crate) test_email: Rate,
    pub(crate) mail_settings: Rate,
    pub(crate) webhook_secret: Rate,
    pub(crate) replay: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            // The key names the function, so each one has its own limit.
            billing: Rate::new("billing", 10, Duration::from_secs(60)),
            check_price: Rate::new("check_price", 120, HOUR),
            invite_by_user: Rate::new("invite_by_user", 20, HOUR),
            invite_by_user_daily: Rate::new("invite_by_user_daily", 50, DAY),
            invite_by_plan: Rate::new("invite_by_plan", 50, DAY),
            invite_by_recipient: Rate::new("invite_by_recipient", 3, DAY),
            test_email: Rate::new("test_email", 10, HOUR),
            mail_settings: Rate::new("mail_settings", 60, HOUR),
            webhook_secret: Rate::new("webhook_secret", 10, HOUR),
            replay: Rate::new("replay", 60, HOUR),
        }
    }
}

pub(crate) struct Rate {
    name: &'static str,
    max_uses: usize,
    window: Duration,
    /// The times of each key's uses, oldest first. Never held across an await.
    uses: Mutex<LruCache<String, VecDeque<Instant>>>,
}

impl Rate {
    fn new(name: &'static str, max_uses: usize, window: Duration) -> Self {
        Self { name, max_uses, window, uses: Mutex::new(LruCache::new(KEYS)) }
    }

    /// Counts one use by `key`.
    ///
    /// # Errors
    /// The limit is reached: 429 with the time until the next use.
    pub(crate) fn take(&self, key: impl Into<String>) -> Result<(), Refusal> {
        let now = Instant::now();
        let mut uses = self.uses.lock();
        let times = uses.get_or_insert_mut(key.into(), VecDeque::new);
        while times.front().is_some_and(|time| now.duration_since(*time) >= self.window) {
            times.pop_front();
        }
        match times.front() {
            Some(oldest) if times.len() >= self.max_uses => {
                let wait = self.window.saturating_sub(now.duration_since(*oldest));
                drop(uses);
                metrics::rate_limited(self.name);
                Err(Refusal::too_many(wait.as_secs() + 1))
            }
            _ => {
                times.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn window_slides_per_key() {
        let rate = Rate::new("test", 2, HOUR);
        assert!(rate.take("a").is_ok());
        tokio::time::advance(HOUR / 2).await;
        assert!(rate.take("a").is_ok());
        assert!(rate.take("a").is_err());
        assert!(rate.take("b").is_ok());
        tokio::time::advance(HOUR / 2).await;
        assert!(rate.take("a").is_ok());
        assert!(rate.take("a").is_err());
    }
}
