//! How slow a client may be when it sends a body or takes an answer. Both hold memory of ours meanwhile, and a client that
//! moves a byte now and then would hold it without end.
//!
//! Only time in which we wait for the client counts. Whenever it adds up to a window, enough bytes must have moved in that
//! window, and no single wait may be longer than one. A fast beginning does not make up for a stop.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The bound: `server.stall_timeout` and `server.min_rate`.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How much waiting is looked at together.
    pub window: Duration,
    /// Bytes that must move in a second of it.
    pub bytes_per_second: u64,
}

impl Pace {
    fn bytes_per_window(self) -> u64 {
        let milliseconds = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        // Without a rate, a byte is enough.
        (self.bytes_per_second.saturating_mul(milliseconds) / 1000).max(1)
    }
}

/// One client, one direction.
pub(crate) struct Pacer {
    pace: Pace,
    /// Waited in this window, before the wait that is under way.
    waited: Duration,
    /// Moved in this window.
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

    /// The client has moved so many bytes; what we wait for now, if for anything, is not the client.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if let Some(wait) = self.wait.take() {
            self.waited += wait.since.elapsed();
        }
    }

    /// We wait for the client. Ready when it is too slow; else it wakes the task when that may have become so.
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
            // The next window begins with the wait under way, so that no single wait is longer than one.
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

    /// Whether the client is given up within `time` of waiting for it.
    async fn is_given_up(pacer: &mut Pacer, time: Duration) -> bool {
        timeout(time, poll_fn(|cx| pacer.poll_too_slow(cx))).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_is_given_up_after_one_window_however_fast_it_was() {
        for before in [0, 50_000_000] {
            let mut pacer = Pacer::new(PACE);
            assert!(!is_given_up(&mut pacer, SECOND * 5).await);
            pacer.moved(before);
            let begun = Instant::now();
            assert!(is_given_up(&mut pacer, SECOND * 60).await);
            assert!(begun.elapsed() <= PACE.window + SECOND, "{:?} after {before}", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_given_up_and_a_slow_steady_client_is_not() {
        // A window ends within a wait, whose time counts already and whose bytes are still to come: 9 of 10 seconds' bytes.
        for (bytes, is_too_slow) in [(10, true), (99, true), (120, false)] {
            let mut pacer = Pacer::new(PACE);
            let mut given_up = false;
            for _ in 0..100 {
                given_up |= is_given_up(&mut pacer, SECOND).await;
                pacer.moved(bytes);
            }
            assert_eq!(given_up, is_too_slow, "{bytes} bytes a second");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn our_own_slowness_does_not_count() {
        let mut pacer = Pacer::new(PACE);
        for _ in 0..100 {
            assert!(!is_given_up(&mut pacer, Duration::from_millis(1)).await);
            pacer.moved(1);
            sleep(SECOND * 60).await;
        }
    }
}
