//! Whether short requests are being served just now. Work that takes every core (password hashes) asks, and leaves one core
//! while requests come in: with a lower priority alone a request finds all cores taken, and each hop between client, server
//! and PostgreSQL waits for the system's scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a request counts: longer than the pause between two requests of one busy client, shorter than a user who signs
/// in would notice.
const WINDOW: Duration = Duration::from_millis(100);

/// The requests of one server that want short answers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Foreground {
    start: Instant,
    window: Duration,
    /// Milliseconds from `start` at which the last one counts no longer; 0 before the first.
    until: Arc<AtomicU64>,
}

impl Default for Foreground {
    fn default() -> Self {
        Self { start: Instant::now(), window: WINDOW, until: Arc::default() }
    }
}

impl Foreground {
    /// A request has come.
    pub fn note(&self) {
        self.until.store(self.after(self.window), Ordering::Relaxed);
    }

    /// Whether one came within the last tenth of a second.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.after(Duration::ZERO) < self.until.load(Ordering::Relaxed)
    }

    fn after(&self, time: Duration) -> u64 {
        u64::try_from((self.start.elapsed() + time).as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(window: Duration) -> bool {
        let foreground = Foreground { window, ..Foreground::default() };
        assert!(!foreground.is_active());
        foreground.clone().note();
        foreground.is_active()
    }

    #[test]
    fn a_request_counts_for_its_window() {
        assert!(noted(Duration::from_secs(3600)));
        assert!(!noted(Duration::ZERO));
    }
}
