//! Limits on text messages (auth.md §3.19): of the server, to one country and to one number. In-memory token buckets. Each message
//! costs money, and fraudsters request messages to expensive countries.
//!
//! A request reserves its message before it looks up the account and returns it if none is sent. Otherwise an exhausted limit
//! would reveal accounts.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::AuthConfig;
use crate::error::AuthError;

/// Numbers tracked: about a megabyte. With that many numbers, the other limits are long exhausted.
const NUMBERS: NonZeroUsize = match NonZeroUsize::new(16_384) {
    Some(numbers) => numbers,
    None => NonZeroUsize::MIN,
};
const HOUR: f64 = 3600.0;

/// The limits.
pub(crate) struct SmsRates {
    per_server: f64,
    per_country: f64,
    per_number: f64,
    /// Never held across an await.
    buckets: Mutex<Buckets>,
}

struct Buckets {
    server: Bucket,
    /// By country code: a few hundred.
    countries: LruCache<String, Bucket>,
    numbers: LruCache<String, Bucket>,
}

/// Tokens that were taken, and when. An empty bucket is full.
#[derive(Clone, Copy)]
struct Bucket {
    taken: f64,
    at: Instant,
}

impl Bucket {
    fn new() -> Self {
        Self { taken: 0.0, at: Instant::now() }
    }

    /// Refills the bucket, and returns the time until it has a token. `per_hour` is its rate and capacity; 0 sets no limit.
    fn refill(&mut self, per_hour: f64, now: Instant) -> Duration {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * per_hour / HOUR;
        *self = Self { taken: (self.taken - earned).max(0.0), at: now };
        let lacking = self.taken + 1.0 - per_hour;
        if per_hour > 0.0 && lacking > 0.0 {
            Duration::from_secs_f64(lacking * HOUR / per_hour)
        } else {
            Duration::ZERO
        }
    }
}

impl SmsRates {
    pub(crate) fn new(config: &AuthConfig) -> Self {
        Self {
            per_server: config.rate_limit_sms_sent.into(),
            per_country: config.rate_limit_sms_per_country.into(),
            per_number: config.rate_limit_sms_per_number.into(),
            buckets: Mutex::new(Buckets {
                server: Bucket::new(),
                countries: LruCache::new(NUMBERS),
                numbers: LruCache::new(NUMBERS),
            }),
        }
    }

    /// Reserves one message to a number (digits only).
    ///
    /// # Errors
    /// A limit is exhausted.
    pub(crate) fn reserve(&self, phone: &str) -> Result<SmsReservation<'_>, AuthError> {
        let wait = self.with_buckets(phone, |server, country, number| {
            let now = Instant::now();
            let wait = server
                .refill(self.per_server, now)
                .max(country.refill(self.per_country, now))
                .max(number.refill(self.per_number, now));
            if wait.is_zero() {
                [server, country, number].into_iter().for_each(|bucket| bucket.taken += 1.0);
            }
            wait
        });
        if wait.is_zero() {
            return Ok(SmsReservation { rates: self, phone: phone.to_owned(), is_spent: false });
        }
        crate::metrics::rate_limited("sms_sent");
        Err(AuthError::SmsLimit { retry_after: wait })
    }

    fn with_buckets<T>(
        &self,
        phone: &str,
        work: impl FnOnce(&mut Bucket, &mut Bucket, &mut Bucket) -> T,
    ) -> T {
        let mut buckets = self.buckets.lock();
        let Buckets { server, countries, numbers } = &mut *buckets;
        let country = countries.get_or_insert_mut(country_code(phone).to_owned(), Bucket::new);
        let number = numbers.get_or_insert_mut(phone.to_owned(), Bucket::new);
        work(server, country, number)
    }
}

/// A reserved message. Returned on drop, unless it was spent.
pub(crate) struct SmsReservation<'a> {
    rates: &'a SmsRates,
    phone: String,
    is_spent: bool,
}

impl SmsReservation<'_> {
    /// The message was sent, or at least given to the provider.
    pub(crate) fn spend(mut self) {
        self.is_spent = true;
    }
}

impl Drop for SmsReservation<'_> {
    fn drop(&mut self) {
        if !self.is_spent {
            self.rates.with_buckets(&self.phone, |server, country, number| {
                [server, country, number].into_iter().for_each(|bucket| bucket.taken -= 1.0);
            });
        }
    }
}

/// The country code of a number in E.164: one digit for zones 1 and 7, two for these, else three.
pub(crate) fn country_code(phone: &str) -> &str {
    const TWO: [&str; 43] = [
        "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47", "48",
        "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63", "64", "65", "66", "81",
        "82", "84", "86", "90", "91", "92", "93", "94", "95",
    ];
    let start = |length: usize| phone.get(..length).unwrap_or(phone);
    match start(1) {
        "1" | "7" => start(1),
        _ if TWO.contains(&start(2)) || start(2) == "98" => start(2),
        _ => start(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(server: u32, country: u32, number: u32) -> SmsRates {
        SmsRates::new(&AuthConfig {
            rate_limit_sms_sent: server,
            rate_limit_sms_per_country: country,
            rate_limit_sms_per_number: number,
            ..AuthConfig::default()
        })
    }

    fn send(rates: &SmsRates, phone: &str) -> bool {
        rates.reserve(phone).map(SmsReservation::spend).is_ok()
    }

    #[test]
    fn country_codes_have_one_to_three_digits() {
        for (phone, code) in
            [("14155552671", "1"), ("491512345", "49"), ("3581234", "358"), ("79991234", "7"), ("98", "98")]
        {
            assert_eq!(country_code(phone), code);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn number_country_and_server_are_limited() {
        let rates = rates(4, 3, 2);
        assert!(send(&rates, "491") && send(&rates, "491"));
        assert!(!send(&rates, "491"), "two to a number");
        assert!(send(&rates, "492"));
        assert!(!send(&rates, "493"), "three to a country");
        assert!(send(&rates, "331"));
        assert!(!send(&rates, "332"), "four in total");
        tokio::time::advance(Duration::from_secs(1801)).await;
        assert!(send(&rates, "491"));
        assert!(!send(&rates, "491"));
    }

    #[tokio::test(start_paused = true)]
    async fn unspent_message_is_returned() {
        let rates = rates(1, 1, 1);
        for _ in 0..3 {
            drop(rates.reserve("491").unwrap());
        }
        let held = rates.reserve("491").unwrap();
        let Err(AuthError::SmsLimit { retry_after }) = rates.reserve("492") else { panic!("reserved") };
        assert_eq!(retry_after.as_secs(), 3600);
        drop(held);
        assert!(send(&rates, "492"));
    }

    #[tokio::test(start_paused = true)]
    async fn zero_sets_no_limit() {
        let rates = rates(0, 0, 0);
        assert!((0..1000).all(|_| send(&rates, "491")));
    }
}
