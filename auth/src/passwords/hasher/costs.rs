//! CPU time of verification by kind of hash, so that a rejection costs the same for every account (decision 0054): as much as the
//! slowest kind in use. Measured as thread CPU time, since under load the wall-clock time of a verification grows and that
//! of a pause does not, which would distinguish them.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::time::{ClockId, clock_gettime};

/// Upper bound; slower kinds remain distinguishable. Hiding a bcrypt hash of cost 16 would make every rejection take four
/// seconds.
const MAX_COST: Duration = Duration::from_millis(500);
/// Kinds tracked. A project usually has one or two.
const MAX_KINDS: usize = 64;

/// Recent maximum per kind of hash.
#[derive(Default)]
pub(super) struct Costs(Mutex<HashMap<String, Duration>>);

impl Costs {
    fn kinds(&self) -> MutexGuard<'_, HashMap<String, Duration>> {
        self.0.lock()
    }

    pub(super) fn is_known(&self, stored: &str) -> bool {
        self.kinds().contains_key(kind(stored))
    }

    /// Records a verification of `stored`. The maximum decays slowly.
    pub(super) fn note(&self, stored: &str, took: Duration) {
        let kind = kind(stored);
        let mut kinds = self.kinds();
        if let Some(slowest) = kinds.get_mut(kind) {
            *slowest = took.max(*slowest - *slowest / 256);
        } else if kinds.len() < MAX_KINDS {
            kinds.insert(kind.to_owned(), took);
            drop(kinds);
            if took > MAX_COST {
                tracing::warn!(
                    ?took,
                    "some password hashes are so slow that rejected sign-ins reveal their accounts by time; reset these passwords"
                );
            }
        }
    }

    /// CPU time of a rejection.
    pub(super) fn rejection_cost(&self) -> Duration {
        self.kinds().values().copied().max().unwrap_or_default().min(MAX_COST)
    }
}

/// The kind: algorithm and parameters, without salt, hash or Firebase signer key.
fn kind(stored: &str) -> &str {
    let dollars = if stored.starts_with("$argon2") { 4 } else { 3 };
    let end = stored.match_indices('$').nth(dollars - 1).map_or(stored.len(), |(at, _)| at);
    let kind = stored.get(..end).unwrap_or(stored);
    kind.split(",ss=").next().unwrap_or(kind)
}

/// Measures this thread's CPU time.
pub(super) struct CpuTime(Duration);

impl CpuTime {
    pub(super) fn start() -> Self {
        Self(Self::now())
    }

    fn now() -> Duration {
        Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
    }

    pub(super) fn spent(&self) -> Duration {
        Self::now().saturating_sub(self.0)
    }

    /// Spins until `cost` is spent.
    pub(super) fn spend(&self, cost: Duration) {
        while self.spent() < cost {
            for _ in 0..100 {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_contains_no_salt_or_secret() {
        for (stored, expected) in [
            ("$2b$10$L6Bc/AlTQHyd9liGgGEZyOFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u", "$2b$10"),
            ("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOg", "$argon2id$v=19$m=256,t=2,p=1"),
            ("$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=secret$salt$hash", "$fbscrypt$v=1,n=14,r=8,p=1"),
            ("odd", "odd"),
        ] {
            assert_eq!(kind(stored), expected);
        }
    }

    #[test]
    fn rejection_costs_as_much_as_slowest_kind() {
        let (costs, ms) = (Costs::default(), Duration::from_millis);
        assert_eq!(costs.rejection_cost(), ms(0));
        costs.note("$2b$06$a", ms(5));
        costs.note("$2b$10$a", ms(70));
        costs.note("$2b$06$b", ms(6));
        assert_eq!(costs.rejection_cost(), ms(70));
        assert!(costs.is_known("$2b$10$other") && !costs.is_known("$2b$12$a"));
        costs.note("$2b$12$a", ms(900));
        assert_eq!(costs.rejection_cost(), MAX_COST);
    }
}
