//! Wrong passwords by account: after some free ones, each closes the account's sign-in for twice as long as the one
//! before, a quarter of an hour at most. A password takes a place before it is hashed ([`AccountLimit::attempt`]), so
//! that guesses that come at once are not judged before the first of them counts.
//!
//! An attacker cannot lock an owner out this way. What is closed is the account as seen from addresses where none of its
//! sessions lives; an address that has one is counted for itself ([`Counter::Known`]). Accounts that do not exist are
//! counted like others, so that a refusal tells nothing. Recovery by mail stays open, and makes the address a known one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::sync::Notify;
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
    /// Wrong passwords until the first closing; 0 = no limit.
    free: u32,
    /// Logins are kept as keyed hashes: a bounded size whatever people type.
    hasher: RandomState,
    /// Held for one look-up, never across an await.
    accounts: Mutex<Accounts>,
    /// An attempt ended.
    ended: Notify,
}

struct Accounts {
    failures: LruCache<u64, Failures>,
    /// Attempts that are being judged: as many as requests in flight, and never forgotten as failures may be.
    pending: HashMap<u64, u32>,
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
        let accounts = Accounts { failures: LruCache::new(ACCOUNTS), pending: HashMap::new() };
        Self { free, hasher: RandomState::new(), accounts: Mutex::new(accounts), ended: Notify::new() }
    }

    /// A place for one password of `login`. Waits while other passwords are being judged that would close the account if
    /// they are wrong: of many guesses at once no more are judged than one after the other, and many right ones at
    /// once all sign in.
    ///
    /// # Errors
    /// Too many were wrong; the error says when the next one may come.
    pub(crate) async fn attempt(&self, login: &str, counter: Counter) -> Result<Attempt<'_>, AuthError> {
        let key = self.hasher.hash_one((login, counter));
        loop {
            // Before the look, so that no end between the two is missed.
            let ended = self.ended.notified();
            if let Some(attempt) = self.reserve(key)? {
                return Ok(attempt);
            }
            ended.await;
        }
    }

    /// `None` while every place is taken.
    fn reserve(&self, key: u64) -> Result<Option<Attempt<'_>>, AuthError> {
        let attempt = |is_pending| Attempt { limit: self, key, is_pending };
        if self.free == 0 {
            return Ok(Some(attempt(false)));
        }
        let now = Instant::now();
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = accounts.failures.get(&key).copied();
        let left = failures.map(|failures| failures.closed_until.saturating_duration_since(now));
        if let Some(retry_after) = left.filter(|left| !left.is_zero()) {
            crate::metrics::rate_limited("account");
            return Err(AuthError::RateLimited { retry_after });
        }
        let places = self.free.saturating_sub(failures.map_or(0, |failures| failures.count)).max(1);
        let pending = accounts.pending.entry(key).or_default();
        if *pending >= places {
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
            self.failures.get_or_insert_mut(key, || Failures { count: 0, last: now, closed_until: now });
        if now.saturating_duration_since(failures.last) > MEMORY {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(doublings) = failures.count.checked_sub(free) {
            let seconds = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
            failures.closed_until = now + Duration::from_secs(seconds).min(LONGEST);
        }
    }
}

/// One password that is being judged. Dropped without an outcome (a full queue, a client that left), it counts for
/// nothing.
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

    /// The right one came: the wrong ones are forgotten.
    pub(crate) fn succeeded(mut self) {
        self.end(|accounts, key| {
            accounts.failures.pop(&key);
        });
    }

    /// Gives the place back together with what the outcome changes, so that no other attempt comes between.
    fn end(&mut self, outcome: impl FnOnce(&mut Accounts, u64)) {
        if !std::mem::take(&mut self.is_pending) {
            return;
        }
        let mut accounts = self.limit.accounts.lock().unwrap_or_else(PoisonError::into_inner);
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
            let _closed = fail(limit, Counter::Strangers).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_a_quarter_of_an_hour() {
        let limit = AccountLimit::new(3);
        for _ in 0..3 {
            assert_eq!(fail(&limit, Counter::Strangers).await, None);
        }
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = fail(&limit, Counter::Strangers).await.unwrap();
            waits.push(wait);
            tokio::time::advance(Duration::from_secs(wait)).await;
            assert_eq!(fail(&limit, Counter::Strangers).await, None, "nothing is closed for ever");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_sixty_guesses_at_once_as_many_are_judged_as_are_free() {
        let limit = Arc::new(AccountLimit::new(5));
        let mut guesses = JoinSet::new();
        for _ in 0..60 {
            let limit = Arc::clone(&limit);
            guesses.spawn(async move {
                let Ok(attempt) = limit.attempt(ADA, Counter::Strangers).await else { return false };
                tokio::task::yield_now().await;
                attempt.failed();
                true
            });
        }
        let judged = guesses.join_all().await;
        assert_eq!(judged.into_iter().filter(|judged| *judged).count(), 5);
        assert!(limit.accounts.lock().unwrap().pending.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn of_sixty_right_passwords_at_once_all_are_judged() {
        let limit = Arc::new(AccountLimit::new(5));
        let mut sign_ins = JoinSet::new();
        for index in 0..60 {
            let limit = Arc::clone(&limit);
            sign_ins.spawn(async move {
                let attempt = limit.attempt(ADA, Counter::Strangers).await.unwrap();
                tokio::task::yield_now().await;
                // Every third client leaves before its answer.
                if index % 3 > 0 {
                    attempt.succeeded();
                }
            });
        }
        let _all = sign_ins.join_all().await;
        assert!(limit.accounts.lock().unwrap().pending.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_network_and_other_accounts_stay_open() {
        let limit = AccountLimit::new(1);
        fail_often(&limit).await;
        assert!(fail(&limit, Counter::Strangers).await.is_some());
        assert_eq!(fail(&limit, Counter::Known(IpAddr::V4(Ipv4Addr::LOCALHOST))).await, None);
        assert!(limit.attempt("eve@example.org", Counter::Strangers).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_right_password_and_a_day_forgive() {
        let limit = AccountLimit::new(2);
        assert_eq!(fail(&limit, Counter::Strangers).await, None);
        limit.attempt(ADA, Counter::Strangers).await.unwrap().succeeded();
        for _ in 0..2 {
            assert_eq!(fail(&limit, Counter::Strangers).await, None);
        }
        assert_eq!(fail(&limit, Counter::Strangers).await, Some(1));
        tokio::time::advance(MEMORY + Duration::from_secs(1)).await;
        for _ in 0..2 {
            assert_eq!(fail(&limit, Counter::Strangers).await, None, "a new count");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_zero_is_no_limit() {
        let limit = AccountLimit::new(1);
        for index in 0..70_000 {
            limit.attempt(&index.to_string(), Counter::Strangers).await.unwrap().failed();
        }
        assert_eq!(limit.accounts.lock().unwrap().failures.len(), ACCOUNTS.get());
        let off = AccountLimit::new(0);
        for _ in 0..99 {
            assert_eq!(fail(&off, Counter::Strangers).await, None);
        }
    }
}
