//! Server-wide limits: sockets with channels, and rates of joins, events and presence messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::RealtimeConfig;

/// Seconds over which a rate is averaged; a burst may reach this many times the rate.
const WINDOW: f64 = 10.0;

/// Stands for "no limit": higher than any server reaches, and clients that read it still see remaining
/// capacity.
const NO_LIMIT: f64 = i32::MAX as f64;

/// A rate per second, averaged over [`WINDOW`].
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    /// Events that may still happen now; negative while a previous excess is being paid back.
    room: f64,
    filled_at: Instant,
}

impl Rate {
    fn new(per_second: Option<u64>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "the setting's maximum is below 2^53")]
        let per_second = per_second.map_or(NO_LIMIT, |rate| rate as f64);
        let bucket = Bucket { room: per_second * WINDOW, filled_at: Instant::now() };
        Self { per_second, bucket: Mutex::new(bucket) }
    }

    /// Whether one more event is currently within the limit.
    pub(crate) fn has_room(&self) -> bool {
        self.with(|bucket| bucket.room >= 1.0)
    }

    /// Counts `count` events if the first of them is within the limit. Returns whether it was.
    pub(crate) fn take(&self, count: usize) -> bool {
        self.with(|bucket| {
            let has_room = bucket.room >= 1.0;
            if has_room {
                #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
                let count = count as f64;
                bucket.room -= count;
            }
            has_room
        })
    }

    /// Remaining events per second, and the limit; for HTTP response headers.
    pub(crate) fn left(&self) -> (u64, u64) {
        let per_second = self.per_second;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        self.with(|bucket| ((bucket.room / WINDOW) as u64, per_second as u64))
    }

    fn with<T>(&self, f: impl FnOnce(&mut Bucket) -> T) -> T {
        let per_second = self.per_second;
        let mut bucket = self.bucket.lock();
        let now = Instant::now();
        let gained = now.duration_since(bucket.filled_at).as_secs_f64() * per_second;
        bucket.room = (bucket.room + gained).min(per_second * WINDOW);
        bucket.filled_at = now;
        f(&mut bucket)
    }
}

/// Limits of this server.
#[derive(Debug)]
pub(crate) struct Limits {
    users: Arc<AtomicUsize>,
    max_users: usize,
    pub(crate) joins: Rate,
    pub(crate) events: Rate,
    pub(crate) presence: Rate,
}

impl Limits {
    pub(crate) fn new(config: &RealtimeConfig) -> Self {
        Self {
            users: Arc::default(),
            max_users: config.max_concurrent_users,
            joins: Rate::new(config.max_joins_per_second),
            events: Rate::new(config.max_events_per_second),
            presence: Rate::new(config.max_presence_events_per_second),
        }
    }

    /// Whether another socket may join its first channel.
    pub(crate) fn has_room_for_user(&self) -> bool {
        self.users.load(Ordering::Relaxed) < self.max_users
    }

    /// Counts a socket that joins its first channel; `None` at the limit.
    pub(crate) fn enter(&self) -> Option<UserSlot> {
        let entered = self.users.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |users| {
            (users < self.max_users).then_some(users + 1)
        });
        entered.ok().map(|_| UserSlot(Arc::clone(&self.users)))
    }
}

/// Counts a socket with channels until it is dropped.
#[derive(Debug)]
pub(crate) struct UserSlot(Arc<AtomicUsize>);

impl Drop for UserSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn allows_a_burst_then_enforces_the_rate() {
        let rate = Rate::new(Some(10));
        assert!((0..100).all(|_| rate.take(1)), "a burst of ten seconds");
        assert!(!rate.has_room() && !rate.take(1));
        tokio::time::advance(Duration::from_millis(250)).await;
        assert!(rate.take(1) && rate.take(1) && !rate.take(1));
    }

    #[tokio::test(start_paused = true)]
    async fn deliveries_count_against_the_rate() {
        let rate = Rate::new(Some(10));
        assert!(rate.take(150) && !rate.take(1), "the event that exceeds the limit is still allowed");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!rate.take(1), "still 50 events in debt");
        tokio::time::advance(Duration::from_millis(200)).await;
        assert!(rate.take(1));
        assert_eq!(rate.left(), (0, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_counts_but_rejects_nothing() {
        let rate = Rate::new(None);
        assert!((0..10_000).all(|_| rate.take(1000)));
        let (left, limit) = rate.left();
        assert_eq!((limit, limit - left), (2_147_483_647, 1_000_000));
    }

    #[test]
    fn dropping_a_user_frees_its_slot() {
        let limits = Limits::new(&RealtimeConfig { max_concurrent_users: 1, ..RealtimeConfig::default() });
        let first = limits.enter();
        assert!(first.is_some() && limits.enter().is_none() && !limits.has_room_for_user());
        drop(first);
        assert!(limits.enter().is_some());
    }
}
