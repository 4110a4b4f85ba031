//! In-memory token buckets per client address (auth.md §3.19). Unlike upstream's, they need no configured header. Each table is
//! bounded and evicts the least recently seen address, which resets its limit; an attacker with that many addresses gains
//! nothing. [`mod@account`] counts wrong passwords per account.

mod account;

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use basalt_core::convert::saturating;
use basalt_core::identity::network;
use lru::LruCache;
use metrics::Gauge;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::AuthConfig;
use crate::error::AuthError;
pub(crate) use account::{AccountLimit, Attempt, Counter};

/// Addresses tracked per limiter: about a megabyte.
const ADDRESSES: NonZeroUsize = match NonZeroUsize::new(16_384) {
    Some(addresses) => addresses,
    None => NonZeroUsize::MIN,
};
const BURST: f64 = 30.0;
const MINUTE: f64 = 60.0;
const FIVE_MINUTES: f64 = 300.0;
const HOUR: f64 = 3600.0;

/// The limiters of all routes.
pub(crate) struct RateLimits {
    pub(crate) token: RateLimit,
    pub(crate) verify: RateLimit,
    pub(crate) signup: RateLimit,
    pub(crate) anonymous: RateLimit,
    pub(crate) recover: RateLimit,
    pub(crate) resend: RateLimit,
    pub(crate) magiclink: RateLimit,
    pub(crate) otp: RateLimit,
    pub(crate) user: RateLimit,
    /// Sign-ins at external providers that begin.
    pub(crate) authorize: RateLimit,
    /// Passkey ceremonies that begin.
    pub(crate) passkey: RateLimit,
    /// OAuth clients that register themselves.
    pub(crate) client_registration: RateLimit,
    pub(crate) factor_challenge: RateLimit,
    pub(crate) factor_verify: RateLimit,
    /// Wrong passwords.
    pub(crate) accounts: AccountLimit,
}

impl RateLimits {
    pub(crate) fn new(config: &AuthConfig) -> Self {
        let otp = |name| RateLimit::new(name, config.rate_limit_otp, FIVE_MINUTES);
        let factor = |name| RateLimit::new(name, config.mfa_rate_limit_challenge_and_verify, MINUTE);
        Self {
            token: RateLimit::new("token", config.rate_limit_token_refresh, FIVE_MINUTES),
            verify: RateLimit::new("verify", config.rate_limit_verify, FIVE_MINUTES),
            signup: otp("signup"),
            anonymous: RateLimit::new("anonymous", config.rate_limit_anonymous_users, HOUR),
            recover: otp("recover"),
            resend: otp("resend"),
            magiclink: otp("magiclink"),
            otp: otp("otp"),
            user: otp("user"),
            authorize: RateLimit::new("authorize", config.rate_limit_token_refresh, FIVE_MINUTES),
            passkey: RateLimit::new("passkey", config.rate_limit_passkey, FIVE_MINUTES),
            client_registration: RateLimit::new(
                "oauth_client_registration",
                config.rate_limit_oauth_dynamic_client_register,
                FIVE_MINUTES,
            ),
            factor_challenge: factor("mfa_challenge"),
            factor_verify: factor("mfa_verify"),
            accounts: AccountLimit::new(config.rate_limit_sign_in_failures),
        }
    }
}

/// One limiter.
pub(crate) struct RateLimit {
    name: &'static str,
    /// Refill rate per address; `None` sets no limit.
    per_second: Option<f64>,
    /// Never held across an await.
    buckets: Mutex<LruCache<IpAddr, Bucket>>,
    /// Number of tracked addresses.
    remembered: Gauge,
}

struct Bucket {
    tokens: f64,
    filled_at: Instant,
}

impl RateLimit {
    fn new(name: &'static str, requests: u32, seconds: f64) -> Self {
        let per_second = (requests > 0).then(|| f64::from(requests) / seconds);
        let buckets = Mutex::new(LruCache::new(ADDRESSES));
        crate::metrics::rate_limit_addresses_limit(name, ADDRESSES.get());
        Self { name, per_second, buckets, remembered: crate::metrics::rate_limit_addresses(name) }
    }

    /// Takes a token of `address`.
    ///
    /// # Errors
    /// None is left. The error contains the time until the next one.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), AuthError> {
        let Some(per_second) = self.per_second else { return Ok(()) };
        let now = Instant::now();
        let mut buckets = self.buckets.lock();
        let bucket = buckets.get_or_insert_mut(network(address), || Bucket { tokens: BURST, filled_at: now });
        let earned = now.saturating_duration_since(bucket.filled_at).as_secs_f64() * per_second;
        bucket.tokens = (bucket.tokens + earned).min(BURST);
        bucket.filled_at = now;
        let tokens = bucket.tokens;
        if tokens >= 1.0 {
            bucket.tokens -= 1.0;
        }
        let remembered = saturating::<u32>(buckets.len());
        drop(buckets);
        self.remembered.set(remembered);
        if tokens >= 1.0 {
            return Ok(());
        }
        crate::metrics::rate_limited(self.name);
        Err(AuthError::RateLimited { retry_after: Duration::from_secs_f64((1.0 - tokens) / per_second) })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn allows_burst_of_thirty_then_the_rate() {
        let limit = RateLimit::new("test", 30, FIVE_MINUTES);
        let client = address("192.0.2.1");
        for _ in 0..30 {
            assert!(limit.check(client).is_ok());
        }
        let Err(AuthError::RateLimited { retry_after }) = limit.check(client) else { panic!("let through") };
        assert_eq!(retry_after.as_secs(), 10);
        assert!(limit.check(address("192.0.2.2")).is_ok());
        tokio::time::advance(Duration::from_millis(10_001)).await;
        assert!(limit.check(client).is_ok());
        assert!(limit.check(client).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn rates_match_the_contract() {
        let limits = RateLimits::new(&AuthConfig::default());
        for (limit, seconds) in [
            (&limits.token, 2.0),
            (&limits.verify, 10.0),
            (&limits.signup, 10.0),
            (&limits.anonymous, 120.0),
            (&limits.recover, 10.0),
            (&limits.resend, 10.0),
            (&limits.magiclink, 10.0),
            (&limits.otp, 10.0),
            (&limits.user, 10.0),
        ] {
            let client = address("2001:db8::1");
            let taken = (0..100).take_while(|_| limit.check(client).is_ok()).count();
            assert_eq!(taken, 30, "{}", limit.name);
            tokio::time::advance(Duration::from_secs_f64(seconds * 0.99)).await;
            assert!(limit.check(address("2001:db8::2")).is_err(), "{}: same /64", limit.name);
            tokio::time::advance(Duration::from_secs_f64(seconds * 0.02)).await;
            assert!(limit.check(client).is_ok(), "{}", limit.name);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ipv6_counts_by_its_64_network() {
        assert_eq!(network(address("2001:db8:1:2:3:4:5:6")), address("2001:db8:1:2::"));
        assert_eq!(network(address("::ffff:192.0.2.1")), address("192.0.2.1"));
    }

    #[tokio::test(start_paused = true)]
    async fn zero_sets_no_limit() {
        let limit = RateLimit::new("test", 0, FIVE_MINUTES);
        for _ in 0..1000 {
            assert!(limit.check(address("192.0.2.1")).is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_tracked_networks_is_bounded() {
        let limit = RateLimit::new("test", 30, FIVE_MINUTES);
        for index in 0..20_000_u128 {
            let sprayed = (0x2001_0db8_u128 << 96) | (index << 64) | index;
            assert!(limit.check(IpAddr::V6(Ipv6Addr::from_bits(sprayed))).is_ok());
        }
        assert_eq!(limit.buckets.lock().len(), ADDRESSES.get());
    }
}
