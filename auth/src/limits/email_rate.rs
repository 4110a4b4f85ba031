//! The server-wide limit on mails (auth.md §3.19): an in-memory token bucket, refilled at `auth.rate_limit_email_sent`. A mail
//! counts when its transaction has committed; until then its token is reserved.
//!
//! A request about an address reserves a token before it looks up the account, and returns it if no mail is sent. Otherwise an
//! empty bucket, or concurrent requests, would reveal accounts.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::email_rate::EmailRate;
use crate::error::AuthError;

/// The limiter.
pub(crate) struct EmailRateLimiter {
    /// `None` sets no limit.
    bucket: Option<Bucket>,
}

struct Bucket {
    capacity: f64,
    per_second: f64,
    /// Never held across an await.
    level: Mutex<Level>,
}

#[derive(Clone, Copy)]
struct Level {
    mails: f64,
    filled_at: Instant,
}

impl EmailRateLimiter {
    /// `None`, or a rate of 0, sets no limit.
    pub(crate) fn new(rate: Option<EmailRate>) -> Self {
        let bucket = rate.filter(|rate| rate.mails > 0).map(|EmailRate { mails, period }| {
            let capacity = f64::from(mails);
            let level = Mutex::new(Level { mails: capacity, filled_at: Instant::now() });
            Bucket { capacity, per_second: capacity / period.as_secs_f64(), level }
        });
        Self { bucket }
    }

    /// An empty reservation.
    pub(crate) fn reserve(&self) -> Reservation<'_> {
        Reservation { email_limiter: self, taken: 0, used: 0 }
    }

    /// Reserves one mail in advance.
    ///
    /// # Errors
    /// The bucket is empty.
    pub(crate) fn reserve_one(&self) -> Result<Reservation<'_>, AuthError> {
        self.take()?;
        Ok(Reservation { email_limiter: self, taken: 1, used: 0 })
    }

    fn take(&self) -> Result<(), AuthError> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let now = Instant::now();
        let mut level = bucket.level.lock();
        let earned = now.saturating_duration_since(level.filled_at).as_secs_f64() * bucket.per_second;
        *level = Level { mails: (level.mails + earned).min(bucket.capacity), filled_at: now };
        if level.mails >= 1.0 {
            level.mails -= 1.0;
            return Ok(());
        }
        crate::metrics::rate_limited("email_sent");
        let wait = Duration::from_secs_f64((1.0 - level.mails) / bucket.per_second);
        Err(AuthError::MailLimit { retry_after: wait })
    }

    fn give_back(&self, mails: f64) {
        let Some(bucket) = &self.bucket else { return };
        let mut level = bucket.level.lock();
        level.mails = (level.mails + mails).min(bucket.capacity);
    }
}

/// The tokens reserved by a request. On drop, unused ones are returned; without [`Reservation::spend`] all are, since the mails
/// were rolled back.
pub(crate) struct Reservation<'a> {
    email_limiter: &'a EmailRateLimiter,
    taken: u32,
    used: u32,
}

impl Reservation<'_> {
    /// Uses a token for one mail.
    ///
    /// # Errors
    /// The bucket is empty.
    pub(crate) fn take(&mut self) -> Result<(), AuthError> {
        if self.used == self.taken {
            self.email_limiter.take()?;
            self.taken += 1;
        }
        self.used += 1;
        Ok(())
    }

    /// Consumes the used tokens: the mails were committed.
    pub(crate) fn spend(mut self) {
        self.taken -= self.used;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.email_limiter.give_back(f64::from(self.taken));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email_limiter(rate: &str) -> EmailRateLimiter {
        EmailRateLimiter::new(Some(rate.parse().unwrap()))
    }

    fn send(email_limiter: &EmailRateLimiter) -> Result<(), AuthError> {
        let mut reservation = email_limiter.reserve();
        reservation.take()?;
        reservation.spend();
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn bucket_empties_and_refills() {
        let email_limiter = email_limiter("2/10m");
        assert!(send(&email_limiter).is_ok() && send(&email_limiter).is_ok());
        assert!(matches!(email_limiter.reserve_one(), Err(AuthError::MailLimit { .. })));
        let Err(error) = send(&email_limiter) else { panic!("sent") };
        assert_eq!(error.to_string(), "email rate limit exceeded");
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(send(&email_limiter).is_ok());
        assert!(send(&email_limiter).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn unsent_mail_returns_its_token() {
        let email_limiter = email_limiter("1");
        for _ in 0..3 {
            email_limiter.reserve().take().unwrap();
            drop(email_limiter.reserve_one().unwrap());
        }
        assert!(send(&email_limiter).is_ok());
        assert!(send(&email_limiter).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn reserved_tokens_are_unavailable_until_returned() {
        let email_limiter = email_limiter("2");
        let mut known = email_limiter.reserve_one().unwrap();
        let unknown = email_limiter.reserve_one().unwrap();
        assert!(email_limiter.reserve_one().is_err(), "both tokens are reserved");
        known.take().unwrap();
        assert!(known.take().is_err());
        known.spend();
        drop(unknown);
        assert!(send(&email_limiter).is_ok());
        assert!(send(&email_limiter).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn zero_and_no_rate_set_no_limit() {
        for email_limiter in [email_limiter("0"), EmailRateLimiter::new(None)] {
            for _ in 0..100 {
                assert!(send(&email_limiter).is_ok());
            }
        }
    }
}
