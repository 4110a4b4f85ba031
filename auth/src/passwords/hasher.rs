//! Password hashing: argon2id for new passwords. Imported hashes may be bcrypt, argon2i/id or Firebase's scrypt; sign-in replaces
//! them (auth.md §3.17, [`mod@stored`]). Hashes are computed in a [`CpuPool`] with one thread fewer than there are cores (decision 0032),
//! so that a burst of sign-ins neither starves the runtime nor exceeds the configured memory; when the queue is full, requests fail with
//! 503.
//!
//! A rejected sign-in uses the same queue slot and the same CPU time for every account ([`Hasher::verify_sign_in`],
//! [`mod@costs`]).

mod costs;
mod firebase;
mod memory;
mod stored;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use argon2::Params;
use basalt_core::cpu_pool::{CpuPool, CpuPoolError, CpuPoolLimits, Priority};
use basalt_core::identity::Identity;
use tokio_util::task::TaskTracker;

use costs::{Costs, CpuTime};
use memory::Memory;
pub(crate) use stored::check_imported;
use stored::{HASH_BYTES, MAX_MEMORY_KIB};

/// Why a hash could not be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HashError {
    /// The queue is full.
    #[error("the queue of password hashes is full")]
    Overloaded,
    /// The stored hash has an unknown format or exceeds the bounds.
    #[error("the format of the stored password hash is not supported")]
    Unsupported,
    /// The hash function failed or panicked, or a thread could not be started.
    #[error("cannot hash the password")]
    Failed,
}

/// Result of comparing a password with a stored hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The password is wrong.
    Wrong,
    /// The password is correct.
    Right,
    /// The password is correct, but the hash has outdated parameters and should be replaced.
    RightButOutdated,
}

/// Parameters and bounds of a [`Hasher`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct HasherSettings {
    pub(crate) memory_kib: u32,
    pub(crate) iterations: u32,
    pub(crate) lanes: u32,
    /// Hashes computed concurrently; 0 for one less than the number of cores.
    pub(crate) concurrency: usize,
    /// Further requests that may wait for a hash.
    pub(crate) queue: usize,
}

impl HasherSettings {
    /// The argon2id parameters.
    ///
    /// # Errors
    /// argon2 rejects them.
    pub(crate) fn params(&self) -> Result<Params, HashError> {
        Params::new(self.memory_kib, self.iterations, self.lanes, Some(HASH_BYTES))
            .ok()
            .filter(|params| params.m_cost() <= 4 * MAX_MEMORY_KIB)
            .ok_or(HashError::Failed)
    }
}

/// Computes and verifies password hashes with bounded concurrency. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hasher {
    params: Arc<Params>,
    pool: Arc<CpuPool<Memory>>,
    /// A random hash with current parameters, so that unknown users cost as much as known ones. Not computed, to keep startup
    /// fast.
    dummy: Arc<str>,
    costs: Arc<Costs>,
}

impl Hasher {
    /// `tracker` tracks running hashes.
    ///
    /// # Errors
    /// argon2 rejects the parameters.
    pub(crate) fn new(settings: HasherSettings, tracker: &TaskTracker) -> Result<Self, HashError> {
        let params = settings.params()?;
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        let threads = match settings.concurrency {
            // Leaving a core free helps requests more than thread priorities (decision 0032).
            0 => cores.saturating_sub(1).max(1),
            wanted => wanted,
        };
        let in_use = crate::metrics::password_hashes(threads.saturating_add(settings.queue));
        // A sign-in has no identity yet, so all wait in one queue.
        let limits = CpuPoolLimits {
            threads,
            waiting: settings.queue,
            waiting_per_identity: usize::MAX,
            keeps_headroom: false,
        };
        let dummy = stored::random_hash(&params);
        Ok(Self {
            pool: CpuPool::new("password-hash", limits, Priority::Low, in_use, tracker).into(),
            params: Arc::new(params),
            dummy: dummy.into(),
            costs: Arc::default(),
        })
    }

    /// Hashes a new password; the result is a PHC string for `auth.users.encrypted_password`.
    ///
    /// # Errors
    /// The queue is full, or hashing failed.
    pub(crate) async fn hash(&self, password: &str) -> Result<String, HashError> {
        let params = Arc::clone(&self.params);
        let password = password.as_bytes().to_vec();
        self.run(move |memory| stored::hash(&params, &password, memory)).await
    }

    /// A random hash in the format of [`Hasher::hash`], which matches no password. Cheap.
    pub(crate) fn random_hash(&self) -> String {
        stored::random_hash(&self.params)
    }

    /// Verifies a password against a stored hash.
    ///
    /// # Errors
    /// The queue is full, or the stored hash is not supported.
    pub(crate) async fn verify(&self, password: &str, stored: &str) -> Result<Verdict, HashError> {
        let params = Arc::clone(&self.params);
        let password = password.as_bytes().to_vec();
        let stored = stored.to_owned();
        self.run(move |memory| stored::verify(&params, &password, &stored, memory)).await
    }

    /// Verifies the password of a sign-in; `stored` is `None` for an unknown user or one without a password. A rejection takes the
    /// same CPU time for every kind of hash, including a correct password of a user who is rejected anyway (`is_refused`).
    ///
    /// # Errors
    /// The queue is full, or the stored hash is not supported.
    pub(crate) async fn verify_sign_in(
        &self,
        password: &str,
        stored: Option<&str>,
        is_refused: bool,
    ) -> Result<Verdict, HashError> {
        let (params, dummy, costs) =
            (Arc::clone(&self.params), Arc::clone(&self.dummy), Arc::clone(&self.costs));
        let password = password.as_bytes().to_vec();
        let stored = stored.map(str::to_owned);
        self.run(move |memory| {
            let time = CpuTime::start();
            let mut kind = stored.as_deref().unwrap_or(&dummy);
            let mut verdict = stored::verify(&params, &password, kind, memory);
            if verdict == Err(HashError::Unsupported) {
                kind = &dummy;
                let _wrong = stored::verify(&params, &password, kind, memory);
            }
            costs.note(kind, time.spent());
            if stored.is_none() {
                verdict = Ok(Verdict::Wrong);
            }
            let is_right = matches!(verdict, Ok(Verdict::Right | Verdict::RightButOutdated));
            if is_refused || !is_right {
                time.spend(costs.rejection_cost());
            }
            verdict
        })
        .await
    }

    /// Measures the cost of a kind of hash before the first sign-in that uses it.
    pub(crate) async fn measure(&self, stored: &str) {
        if self.costs.is_known(stored) {
            return;
        }
        let (params, costs) = (Arc::clone(&self.params), Arc::clone(&self.costs));
        let stored = stored.to_owned();
        // On failure the kind is measured at the next sign-in.
        let _measured = self
            .run(move |memory| {
                let time = CpuTime::start();
                stored::verify(&params, b"", &stored, memory)?;
                costs.note(&stored, time.spent());
                Ok(())
            })
            .await;
    }

    /// CPU time of a rejection.
    pub(crate) fn rejection_cost(&self) -> Duration {
        self.costs.rejection_cost()
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Memory) -> Result<T, HashError> + Send + 'static,
    ) -> Result<T, HashError> {
        let kept_blocks = self.params.block_count();
        let done = self.pool.run(Identity::SERVER, move |memory| {
            let start = Instant::now();
            let result = work(memory);
            crate::metrics::password_hashed(start.elapsed());
            memory.keep(kept_blocks);
            result
        });
        done.await?
    }
}

impl From<CpuPoolError> for HashError {
    fn from(error: CpuPoolError) -> Self {
        match error {
            CpuPoolError::QueueFull => Self::Overloaded,
            CpuPoolError::Panicked(_) | CpuPoolError::NoThread(_) => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: HasherSettings =
        HasherSettings { memory_kib: 64, iterations: 1, lanes: 1, concurrency: 1, queue: 0 };

    #[tokio::test]
    async fn hash_is_a_phc_string_that_verifies() {
        let hasher =
            Hasher::new(HasherSettings { memory_kib: 19_456, iterations: 2, ..CHEAP }, &TaskTracker::new())
                .unwrap();
        let hash = hasher.hash("pw-öäü").await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(hash.len() <= 255);
        assert_eq!(hasher.verify("pw-öäü", &hash).await, Ok(Verdict::Right));
        assert_eq!(hasher.verify("pw-oau", &hash).await, Ok(Verdict::Wrong));
    }

    #[tokio::test]
    async fn full_queue_rejects_immediately() {
        let hasher = Hasher::new(CHEAP, &TaskTracker::new()).unwrap();
        let slot = hasher.pool.slot(Identity::SERVER).unwrap();
        assert_eq!(hasher.hash("password").await, Err(HashError::Overloaded));
        drop(slot);
        assert!(hasher.hash("password").await.is_ok());
    }

    #[tokio::test]
    async fn rejection_cost_is_equal_for_all_hashes() {
        let hasher = Hasher::new(HasherSettings { queue: 9, ..CHEAP }, &TaskTracker::new()).unwrap();
        let slow = bcrypt::hash("password", 8).unwrap();
        hasher.measure(&slow).await;
        let cost = hasher.rejection_cost();
        let ours = hasher.hash("password").await.unwrap();
        let quick = bcrypt::hash("password", 4).unwrap();
        for (stored, password, is_refused) in [
            (None, "wrong", false),
            (Some("$1$odd"), "wrong", false),
            (Some(ours.as_str()), "wrong", false),
            (Some(quick.as_str()), "wrong", false),
            (Some(slow.as_str()), "wrong", false),
            (Some(ours.as_str()), "password", true),
            (Some(quick.as_str()), "password", true),
        ] {
            let time = hasher.run(|_memory| Ok(CpuTime::start())).await.unwrap();
            let _verdict = hasher.verify_sign_in(password, stored, is_refused).await;
            let spent = hasher.run(move |_memory| Ok(time.spent())).await.unwrap();
            // One thread does all work and measures its own CPU time, so other load does not matter.
            assert!(spent >= cost - cost / 20, "{stored:?}: {spent:?} of {cost:?}");
            assert!(spent < 3 * cost, "{stored:?}: {spent:?} of {cost:?}");
        }
        let time = hasher.run(|_memory| Ok(CpuTime::start())).await.unwrap();
        assert_eq!(hasher.verify_sign_in("password", Some(&ours), false).await, Ok(Verdict::Right));
        let spent = hasher.run(move |_memory| Ok(time.spent())).await.unwrap();
        assert!(spent < cost, "a correct password is not padded: {spent:?} of {cost:?}");
    }
}
