//! Minimum rate at which a client must send a body or read a response. Both hold memory meanwhile, which a client
//! that transfers single bytes could hold forever.
//!
//! Only time spent waiting for the client counts. Whenever that adds up to one window, enough bytes must have been
//! transferred within it, and no single wait may exceed a window. A fast start does not make up for a stall.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use basalt_core::convert::saturating;
use tokio::time::{Instant, Sleep};

/// Minimum rate, from `server.stall_timeout` and `server.min_rate`.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Waiting time over which the rate is measured.
    pub window: Duration,
    /// Bytes to transfer per second of waiting.
    pub bytes_per_second: u64,
}

impl Pace {
    fn bytes_per_window(self) -> u64 {
        let milliseconds = saturating::<u64>(self.window.as_millis());
        // Without a minimum rate, one byte per window is enough.
        (self.bytes_per_second.saturating_mul(milliseconds) / 1000).max(1)
    }
}

/// Measures the rate of one client in one direction.
pub(crate) struct Pacer {
    pace: Pace,
    /// Waiting time in this window, excluding the current wait.
    waited: Duration,
    /// Bytes transferred in this window.
    moved: u64,
    wait: Option<Wait>,
}

struct Wait {
    since: Instant,
    end: Pin<Box<Sleep>>,
}

impl Pacer {
    pub(crate) const fn new(pace: Pace) -> Self {
        Self { pace, waited: Duration::ZERO, moved: 0, wait: None }
    }

    /// Records transferred bytes. The current wait, if any, is no longer for the client.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(saturating::<u64>(bytes));
        if let Some(wait) = self.wait.take() {
            self.waited += wait.since.elapsed();
        }
    }

    /// Records that the server is waiting for the client. Ready if the client is too slow; otherwise wakes the task
    /// when it may have become so.
    pub(crate) fn poll_too_slow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let (window, waited) = (self.pace.window, self.waited);
            let wait = self.wait.get_or_insert_with(|| Wait {
                since: Instant::now(),
                end: Box::pin(tokio::time::sleep(window.saturating_sub(waited))),
            });
            ready!(wait.end.as_mut().poll(cx));
            if self.moved < self.pace.bytes_per_window() {
                return Poll::Ready(());
            }
            // The next window includes the current wait, so that no single wait is longer than a window.
            self.moved = 0;
            self.waited = wait.since.elapsed();
            self.wait = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PACE: Pace = Pace { window: Duration::from_secs(10), bytes_per_second: 100 };

    /// Whether the client counts as too slow within `time` of waiting.
    async fn times_out(pacer: &mut Pacer, time: Duration) -> bool {
        timeout(time, poll_fn(|cx| pacer.poll_too_slow(cx))).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_client_times_out_after_one_window() {
        for before in [0, 50_000_000] {
            let mut pacer = Pacer::new(PACE);
            assert!(!times_out(&mut pacer, SECOND * 5).await);
            pacer.moved(before);
            let started = Instant::now();
            assert!(times_out(&mut pacer, SECOND * 60).await);
            assert!(started.elapsed() <= PACE.window + SECOND, "{:?} after {before}", started.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_below_minimum_rate_times_out() {
        // A window ends during a wait, whose time counts but whose bytes are still to come: only nine of ten seconds'
        // bytes count.
        for (bytes, is_too_slow) in [(10, true), (99, true), (120, false)] {
            let mut pacer = Pacer::new(PACE);
            let mut timed_out = false;
            for _ in 0..100 {
                timed_out |= times_out(&mut pacer, SECOND).await;
                pacer.moved(bytes);
            }
            assert_eq!(timed_out, is_too_slow, "{bytes} bytes a second");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_spent_by_server_does_not_count() {
        let mut pacer = Pacer::new(PACE);
        for _ in 0..100 {
            assert!(!times_out(&mut pacer, Duration::from_millis(1)).await);
            pacer.moved(1);
            sleep(SECOND * 60).await;
        }
    }
}
