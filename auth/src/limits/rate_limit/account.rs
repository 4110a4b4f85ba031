//! Limits wrong passwords per account. After some free ones, each locks the account's sign-in for twice as long as the previous
//! one, up to 15 minutes. An attempt takes a slot before the password is hashed ([`AccountLimit::attempt`]), so that
//! concurrent guesses count.
//!
//! This does not lock out the owner: the lock applies to networks without a session of the account; a network with a session
//! has its own count ([`Counter::KnownNetwork`]). Unknown accounts are limited like existing ones, so that a rejection reveals
//! nothing. Recovery by mail is not limited, and makes the network a known one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::AuthError;

/// Accounts tracked: a few megabytes. Evicting one requires that many hashed passwords.
const ACCOUNTS: NonZeroUsize = match NonZeroUsize::new(65_536) {
    Some(accounts) => accounts,
    None => NonZeroUsize::MIN,
};
/// Longest lock.
const MAX_LOCK: Duration = Duration::from_secs(900);
/// Time without a wrong password after which the count is reset.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The networks that share a count of wrong passwords for an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Counter {
    /// All networks without a session of the account.
    UnknownNetworks,
    /// A network with a session of the account.
    KnownNetwork(IpAddr),
}

/// The limiter of sign-ins by password.
pub(crate) struct AccountLimit {
    /// Wrong passwords before the first lock; 0 sets no limit.
    free: u32,
    /// Logins are stored as keyed hashes, which bounds their size.
    hasher: RandomState,
    /// Never held across an await.
    accounts: Mutex<Accounts>,
    /// Notified when an attempt ends.
    ended: Notify,
}

struct Accounts {
    failures: LruCache<u64, Failures>,
    /// Attempts in progress. Bounded by the requests in flight and, unlike failures, never evicted.
    pending: HashMap<u64, u32>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
    locked_until: Instant,
}

impl AccountLimit {
    pub(crate) fn new(free: u32) -> Self {
        crate::metrics::accounts(0, ACCOUNTS.get());
        let accounts = Accounts { failures: LruCache::new(ACCOUNTS), pending: HashMap::new() };
        Self { free, hasher: RandomState::new(), accounts: Mutex::new(accounts), ended: Notify::new() }
    }

    /// Takes a slot for one password of `login`. Waits while concurrent attempts could lock the account: concurrent guesses are
    /// limited like sequential ones, and concurrent correct passwords all succeed.
    ///
    /// # Errors
    /// The account is locked. The error contains the remaining time.
    pub(crate) async fn attempt(&self, login: &str, counter: Counter) -> Result<Attempt<'_>, AuthError> {
        let key = self.hasher.hash_one((login, counter));
        loop {
            // Created before the check, so that no notification in between is missed.
            let ended = self.ended.notified();
            if let Some(attempt) = self.reserve(key)? {
                return Ok(attempt);
            }
            ended.await;
        }
    }

    /// Resets the count of wrong passwords of `login`.
    pub(crate) fn reset(&self, login: &str, counter: Counter) {
        self.accounts.lock().failures.pop(&self.hasher.hash_one((login, counter)));
    }

    /// `None` while all slots are taken.
    fn reserve(&self, key: u64) -> Result<Option<Attempt<'_>>, AuthError> {
        let attempt = |is_pending| Attempt { limit: self, key, is_pending };
        if self.free == 0 {
            return Ok(Some(attempt(false)));
        }
        let now = Instant::now();
        let mut accounts = self.accounts.lock();
        let failures = accounts.failures.get(&key).copied();
        let left = failures.map(|failures| failures.locked_until.saturating_duration_since(now));
        if let Some(retry_after) = left.filter(|left| !left.is_zero()) {
            crate::metrics::rate_limited("account");
            return Err(AuthError::RateLimited { retry_after });
        }
        let slots = self.free.saturating_sub(failures.map_or(0, |failures| failures.count)).max(1);
        let pending = accounts.pending.entry(key).or_default();
        if *pending >= slots {
            return Ok(None);
        }
        *pending += 1;
        Ok(Some(attempt(true)))
    }
}

impl Accounts {
    fn failed(&mut self, free: u32, key: u64) {
        let now = Instant::now();
        let failures =
            self.failures.get_or_insert_mut(key, || Failures { count: 0, last: now, locked_until: now });
        if now.saturating_duration_since(failures.last) > FORGET_AFTER {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(doublings) = failures.count.checked_sub(free) {
            let seconds = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
            failures.locked_until = now + Duration::from_secs(seconds).min(MAX_LOCK);
        }
    }
}

/// An attempt in progress. If it is dropped without a result (full queue, disconnected client), it does not count.
pub(crate) struct Attempt<'a> {
    limit: &'a AccountLimit,
    key: u64,
    is_pending: bool,
}

impl Attempt<'_> {
    /// The password was wrong.
    pub(crate) fn failed(mut self) {
        let free = self.limit.free;
        self.end(|accounts, key| accounts.failed(free, key));
    }

    /// The password was correct: resets the count.
    pub(crate) fn succeeded(mut self) {
        self.end(|accounts, key| {
            accounts.failures.pop(&key);
        });
    }

    /// Applies the result and releases the slot atomically.
    fn end(&mut self, outcome: impl FnOnce(&mut Accounts, u64)) {
        if !std::mem::take(&mut self.is_pending) {
            return;
        }
        let mut accounts = self.limit.accounts.lock();
        outcome(&mut accounts, self.key);
        if let Entry::Occupied(mut pending) = accounts.pending.entry(self.key) {
            *pending.get_mut() -= 1;
            if *pending.get() == 0 {
                pending.remove();
            }
        }
        crate::metrics::accounts(accounts.failures.len(), ACCOUNTS.get());
        drop(accounts);
        self.limit.ended.notify_waiters();
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.end(|_accounts, _key| {});
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;

    const ADA: &str = "ada@example.org";

    /// One more wrong password; how long the account is closed instead.
    async fn fail(limit: &AccountLimit, counter: Counter) -> Option<u64> {
        match limit.attempt(ADA, counter).await {
            Ok(attempt) => {
                attempt.failed();
                None
            }
            Err(AuthError::RateLimited { retry_after }) => Some(retry_after.as_secs()),
            Err(other) => panic!("{other}"),
        }
    }

    async fn fail_often(limit: &AccountLimit) {
        for _ in 0..9 {
            let _closed = fail(limit, Counter::UnknownNetworks).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn locks_double_up_to_fifteen_minutes() {
        let limit = AccountLimit::new(3);
        for _ in 0..3 {
            assert_eq!(fail(&limit, Counter::UnknownNetworks).await, None);
        }
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = fail(&limit, Counter::UnknownNetworks).await.unwrap();
            waits.push(wait);
            tokio::time::advance(Duration::from_secs(wait)).await;
            assert_eq!(fail(&limit, Counter::UnknownNetworks).await, None, "locks expire");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_guesses_cannot_exceed_the_limit() {
        let limit = Arc::new(AccountLimit::new(5));
        let mut guesses = JoinSet::new();
        for _ in 0..60 {
            let limit = Arc::clone(&limit);
            guesses.spawn(async move {
                let Ok(attempt) = limit.attempt(ADA, Counter::UnknownNetworks).await else { return false };
                tokio::task::yield_now().await;
                attempt.failed();
                true
            });
        }
        let judged = guesses.join_all().await;
        assert_eq!(judged.into_iter().filter(|judged| *judged).count(), 5);
        assert!(limit.accounts.lock().pending.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_correct_passwords_all_succeed() {
        let limit = Arc::new(AccountLimit::new(5));
        let mut sign_ins = JoinSet::new();
        for index in 0..60 {
            let limit = Arc::clone(&limit);
            sign_ins.spawn(async move {
                let attempt = limit.attempt(ADA, Counter::UnknownNetworks).await.unwrap();
                tokio::task::yield_now().await;
                // Every third client leaves before its answer.
                if index % 3 > 0 {
                    attempt.succeeded();
                }
            });
        }
        let _all = sign_ins.join_all().await;
        assert!(limit.accounts.lock().pending.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn known_networks_and_other_accounts_are_not_locked() {
        let limit = AccountLimit::new(1);
        fail_often(&limit).await;
        assert!(fail(&limit, Counter::UnknownNetworks).await.is_some());
        assert_eq!(fail(&limit, Counter::KnownNetwork(IpAddr::V4(Ipv4Addr::LOCALHOST))).await, None);
        assert!(limit.attempt("eve@example.org", Counter::UnknownNetworks).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn correct_password_or_a_day_resets_the_count() {
        let limit = AccountLimit::new(2);
        assert_eq!(fail(&limit, Counter::UnknownNetworks).await, None);
        limit.attempt(ADA, Counter::UnknownNetworks).await.unwrap().succeeded();
        for _ in 0..2 {
            assert_eq!(fail(&limit, Counter::UnknownNetworks).await, None);
        }
        assert_eq!(fail(&limit, Counter::UnknownNetworks).await, Some(1));
        tokio::time::advance(FORGET_AFTER + Duration::from_secs(1)).await;
        for _ in 0..2 {
            assert_eq!(fail(&limit, Counter::UnknownNetworks).await, None, "a new count");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_zero_sets_no_limit() {
        let limit = AccountLimit::new(1);
        for index in 0..70_000 {
            limit.attempt(&index.to_string(), Counter::UnknownNetworks).await.unwrap().failed();
        }
        assert_eq!(limit.accounts.lock().failures.len(), ACCOUNTS.get());
        let off = AccountLimit::new(0);
        for _ in 0..99 {
            assert_eq!(fail(&off, Counter::UnknownNetworks).await, None);
        }
    }
}
