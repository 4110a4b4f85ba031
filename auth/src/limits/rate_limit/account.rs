//! Wrong passwords by account: after some free ones, each closes the account's sign-in for twice as long as the one
//! before, a quarter of an hour at most.
//!
//! An attacker cannot lock an owner out this way. What is closed is the account as seen from addresses where none of its
//! sessions lives; an address that has one is counted for itself ([`Counter::Known`]). Accounts that do not exist are
//! counted like others, so that a refusal tells nothing. Recovery by mail stays open, and makes the address a known one.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use crate::error::AuthError;

/// Accounts remembered: a few megabytes. To push one out, as many wrong passwords have to be hashed.
const ACCOUNTS: NonZeroUsize = match NonZeroUsize::new(65_536) {
    Some(accounts) => accounts,
    None => NonZeroUsize::MIN,
};
/// Longest time a wrong password closes an account for.
const LONGEST: Duration = Duration::from_secs(900);
/// After so long without a wrong password all are forgotten.
const MEMORY: Duration = Duration::from_secs(24 * 3600);

/// Who shares a count of wrong passwords for one account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counter {
    /// All networks that the account has no session from.
    Strangers,
    /// One network that the account has a session from.
    Known(IpAddr),
}

/// The limiter of sign-ins by password.
pub(crate) struct AccountLimit {
    /// Wrong passwords before the first closing; 0 = no limit.
    free: u32,
    /// Logins are kept as keyed hashes: a bounded size whatever people type.
    hasher: RandomState,
    /// Held for one look-up, never across an await.
    accounts: Mutex<LruCache<u64, Failures>>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
    closed_until: Instant,
}

impl AccountLimit {
    pub(crate) fn new(free: u32) -> Self {
        crate::metrics::accounts(0, ACCOUNTS.get());
        Self { free, hasher: RandomState::new(), accounts: Mutex::new(LruCache::new(ACCOUNTS)) }
    }

    /// Whether a password for `login` may be tried now.
    ///
    /// # Errors
    /// Too many were wrong; the error says when the next one may come.
    pub(crate) fn check(&self, login: &str, counter: Counter) -> Result<(), AuthError> {
        if self.free == 0 {
            return Ok(());
        }
        let key = self.hasher.hash_one((login, counter));
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let closed_until = accounts.get(&key).map(|failures| failures.closed_until);
        drop(accounts);
        let left = closed_until.map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            None => Ok(()),
            Some(retry_after) => {
                crate::metrics::rate_limited("account");
                Err(AuthError::RateLimited { retry_after })
            }
        }
    }

    /// Notes a wrong password.
    pub(crate) fn failed(&self, login: &str, counter: Counter) {
        if self.free == 0 {
            return;
        }
        let now = Instant::now();
        let key = self.hasher.hash_one((login, counter));
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let failures =
            accounts.get_or_insert_mut(key, || Failures { count: 0, last: now, closed_until: now });
        if now.saturating_duration_since(failures.last) > MEMORY {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(doublings) = failures.count.checked_sub(self.free.saturating_add(1)) {
            let seconds = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
            failures.closed_until = now + Duration::from_secs(seconds).min(LONGEST);
        }
        crate::metrics::accounts(accounts.len(), ACCOUNTS.get());
    }

    /// Forgets the wrong ones: the right one came.
    pub(crate) fn succeeded(&self, login: &str, counter: Counter) {
        if self.free > 0 {
            let key = self.hasher.hash_one((login, counter));
            let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            if accounts.pop(&key).is_some() {
                crate::metrics::accounts(accounts.len(), ACCOUNTS.get());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn wait(limit: &AccountLimit, counter: Counter) -> Option<u64> {
        match limit.check("ada@example.org", counter) {
            Ok(()) => None,
            Err(AuthError::RateLimited { retry_after }) => Some(retry_after.as_secs()),
            Err(other) => panic!("{other}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_a_quarter_of_an_hour() {
        let limit = AccountLimit::new(3);
        for _ in 0..3 {
            limit.failed("ada@example.org", Counter::Strangers);
            assert_eq!(wait(&limit, Counter::Strangers), None);
        }
        let mut waits = Vec::new();
        for _ in 0..12 {
            limit.failed("ada@example.org", Counter::Strangers);
            waits.extend(wait(&limit, Counter::Strangers));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        tokio::time::advance(Duration::from_secs(900)).await;
        assert_eq!(wait(&limit, Counter::Strangers), None, "nothing is closed for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_network_and_other_accounts_stay_open() {
        let limit = AccountLimit::new(1);
        for _ in 0..9 {
            limit.failed("ada@example.org", Counter::Strangers);
        }
        assert!(wait(&limit, Counter::Strangers).is_some());
        assert_eq!(wait(&limit, Counter::Known(IpAddr::V4(Ipv4Addr::LOCALHOST))), None);
        assert!(limit.check("eve@example.org", Counter::Strangers).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_right_password_and_a_day_forgive() {
        let limit = AccountLimit::new(1);
        for _ in 0..9 {
            limit.failed("ada@example.org", Counter::Strangers);
        }
        limit.succeeded("ada@example.org", Counter::Strangers);
        assert_eq!(wait(&limit, Counter::Strangers), None);
        for _ in 0..9 {
            limit.failed("ada@example.org", Counter::Strangers);
        }
        tokio::time::advance(MEMORY + Duration::from_secs(1)).await;
        limit.failed("ada@example.org", Counter::Strangers);
        assert_eq!(wait(&limit, Counter::Strangers), None, "the first of a new count is free");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_zero_is_no_limit() {
        let limit = AccountLimit::new(1);
        for index in 0..70_000 {
            limit.failed(&index.to_string(), Counter::Strangers);
        }
        assert_eq!(limit.accounts.lock().unwrap().len(), ACCOUNTS.get());
        let off = AccountLimit::new(0);
        for _ in 0..99 {
            off.failed("ada@example.org", Counter::Strangers);
        }
        assert_eq!(wait(&off, Counter::Strangers), None);
    }
}
