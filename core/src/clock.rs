//! The current time, injected so that tests can control it (STYLE invariant 7).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// A source of the current time. Cheap to clone; clones of a fixed clock share their time.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The operating system's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// A clock that always returns `unix_seconds` until [`Clock::advance`] moves it.
    #[must_use]
    pub fn fixed(unix_seconds: i64) -> Self {
        Self(Some(Arc::new(AtomicI64::new(unix_seconds))))
    }

    /// Moves a fixed clock by `seconds`. No effect on the system clock.
    pub fn advance(&self, seconds: i64) {
        if let Some(fixed) = &self.0 {
            fixed.fetch_add(seconds, Ordering::Relaxed);
        }
    }

    /// The current time in UTC.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(fixed) => Timestamp::from_second(fixed.load(Ordering::Relaxed)).unwrap_or(Timestamp::MAX),
            None => Timestamp::now(),
        }
    }

    /// Whole seconds since the Unix epoch.
    #[must_use]
    pub fn unix_seconds(&self) -> i64 {
        self.now().as_second()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_fixed_clock_share_their_time() {
        let clock = Clock::fixed(1_000);
        let clone = clock.clone();
        clock.advance(5);
        assert_eq!(clone.unix_seconds(), 1_005);
    }
}
