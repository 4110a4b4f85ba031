//! Password hashes: argon2id for new ones; bcrypt, argon2i/id and Firebase's scrypt accepted for imported ones, which
//! sign-in then replaces (auth.md §3.17, [`mod@stored`]). Every computation runs on threads of its own ([`mod@threads`]), so that a
//! login burst can neither starve the runtime nor take more memory than configured; a request that finds the queue full is
//! answered 503.
//!
//! A permit travels with the job: a client that leaves does not stop a hash that has begun, and that hash has to keep
//! counting.
//!
//! A refused sign-in takes the same place in the queue and the same processor's time for every account
//! ([`Hasher::judge`], [`mod@costs`]).

mod costs;
mod firebase;
mod stored;
mod threads;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use argon2::Params;
use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use costs::{Costs, ProcessorTime};
pub(crate) use stored::check_imported;
use stored::{HASH_BYTES, MAX_MEMORY_KIB};
use threads::{Memory, Threads};

/// Why a hash could not be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HashError {
    /// As many requests as may wait are waiting already.
    #[error("too many password hashes are waiting")]
    Overloaded,
    /// The stored hash is of no known form, or beyond the bounds.
    #[error("the stored password hash is of no supported form")]
    Unsupported,
    /// The hash function refused or panicked, or there is no thread for it.
    #[error("the password could not be hashed")]
    Failed,
}

/// What comparing a password with a stored hash gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The password is another one.
    Wrong,
    /// The password is right.
    Right,
    /// The password is right, and the hash is not what we would make today: store a new one.
    RightButOutdated,
}

/// Parameters and bounds of a [`Hasher`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct HasherSettings {
    pub(crate) memory_kib: u32,
    pub(crate) iterations: u32,
    pub(crate) lanes: u32,
    /// Hashes computed at once; 0 for one less than there are cores.
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

/// Computes and compares password hashes, a bounded number at a time. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hasher {
    params: Arc<Params>,
    threads: Threads,
    /// Computations that may run or wait; full means 503.
    admitted: Arc<Semaphore>,
    in_use: Gauge,
    /// A hash of no password with today's parameters, so that an unknown user costs what a known one does. Made up
    /// rather than computed: a start is not the time to hash.
    dummy: Arc<str>,
    costs: Arc<Costs>,
}

impl Hasher {
    /// A hasher with the configuration's parameters and bounds. `tracker` waits for its threads.
    ///
    /// # Errors
    /// argon2 refuses the parameters, or the system has no thread to give.
    pub(crate) fn new(settings: HasherSettings, tracker: &TaskTracker) -> Result<Self, HashError> {
        let params = settings.params()?;
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        let concurrency = match settings.concurrency {
            // A free core is worth more to requests than any priority (decision 0032).
            0 => cores.saturating_sub(1).max(1),
            wanted => wanted,
        };
        let limit = concurrency.saturating_add(settings.queue);
        let dummy = stored::unguessable(&params);
        Ok(Self {
            threads: Threads::start(concurrency, params.block_count(), tracker)?,
            params: Arc::new(params),
            admitted: Arc::new(Semaphore::new(limit)),
            in_use: crate::metrics::password_hashes(limit),
            dummy: dummy.into(),
            costs: Arc::default(),
        })
    }

    /// Ends the threads; hashes that are asked for afterwards fail.
    pub(crate) fn close(&self) {
        self.threads.close();
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

    /// A hash of no password, as [`Hasher::hash`] would make it; without its work.
    pub(crate) fn unguessable(&self) -> String {
        stored::unguessable(&self.params)
    }

    /// Compares a password with a stored hash.
    ///
    /// # Errors
    /// The queue is full, or the stored hash is unusable.
    pub(crate) async fn verify(&self, password: &str, stored: &str) -> Result<Verdict, HashError> {
        let params = Arc::clone(&self.params);
        let password = password.as_bytes().to_vec();
        let stored = stored.to_owned();
        self.run(move |memory| stored::verify(&params, &password, &stored, memory)).await
    }

    /// Judges the password of a sign-in; `None` is the hash of a user who does not exist or has no password. A refusal
    /// costs the same whatever is stored, also of a right password when the user `is_refused` anyway.
    ///
    /// # Errors
    /// The queue is full, or the stored hash is unusable.
    pub(crate) async fn judge(
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
            let time = ProcessorTime::start();
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
                time.spend(costs.of_refusal());
            }
            verdict
        })
        .await
    }

    /// Measures a kind of hash that accounts have, before the first sign-in to one of them.
    pub(crate) async fn learn(&self, stored: &str) {
        if self.costs.knows(stored) {
            return;
        }
        let (params, costs) = (Arc::clone(&self.params), Arc::clone(&self.costs));
        let stored = stored.to_owned();
        // A kind that is not measured now is measured at the next sign-in.
        let _measured = self
            .run(move |memory| {
                let time = ProcessorTime::start();
                stored::verify(&params, b"", &stored, memory)?;
                costs.note(&stored, time.spent());
                Ok(())
            })
            .await;
    }

    /// What a refusal takes of the processor.
    pub(crate) fn cost_of_refusal(&self) -> Duration {
        self.costs.of_refusal()
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Memory) -> Result<T, HashError> + Send + 'static,
    ) -> Result<T, HashError> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|error| match error {
            TryAcquireError::NoPermits => HashError::Overloaded,
            TryAcquireError::Closed => HashError::Failed,
        })?;
        let admitted = Place::taken(admitted, self.in_use.clone());
        let (answer, answered) = oneshot::channel();
        self.threads.send(Box::new(move |memory| {
            // A client that left while its job waited needs no answer.
            if answer.is_closed() {
                return;
            }
            let start = Instant::now();
            let result = work(memory);
            crate::metrics::password_hashed(start.elapsed());
            // Before the answer: its reader may ask for the next hash at once. A panic gives the place back as well.
            drop(admitted);
            drop(answer.send(result));
        }));
        answered.await.map_err(|_panic| HashError::Failed)?
    }
}

/// A place among the hashes that run or wait, and what says so.
struct Place {
    in_use: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    fn taken(permit: OwnedSemaphorePermit, in_use: Gauge) -> Self {
        in_use.increment(1.0);
        Self { in_use, _permit: permit }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.in_use.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: HasherSettings =
        HasherSettings { memory_kib: 64, iterations: 1, lanes: 1, concurrency: 1, queue: 0 };

    #[tokio::test]
    async fn a_hash_is_a_phc_string_that_verifies_and_fits_the_column() {
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
    async fn a_full_queue_refuses_at_once() {
        let hasher = Hasher::new(CHEAP, &TaskTracker::new()).unwrap();
        let permit = Arc::clone(&hasher.admitted).try_acquire_owned().unwrap();
        assert_eq!(hasher.hash("password").await, Err(HashError::Overloaded));
        drop(permit);
        assert!(hasher.hash("password").await.is_ok());
    }

    #[tokio::test]
    async fn a_refusal_costs_the_same_for_every_kind_of_hash() {
        let hasher = Hasher::new(HasherSettings { queue: 9, ..CHEAP }, &TaskTracker::new()).unwrap();
        let slow = bcrypt::hash("password", 8).unwrap();
        hasher.learn(&slow).await;
        let cost = hasher.cost_of_refusal();
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
            let time = hasher.run(|_memory| Ok(ProcessorTime::start())).await.unwrap();
            let _verdict = hasher.judge(password, stored, is_refused).await;
            let spent = hasher.run(move |_memory| Ok(time.spent())).await.unwrap();
            // One thread does all of it, and its time is the processor's: a busy machine does not matter.
            assert!(spent >= cost - cost / 20, "{stored:?}: {spent:?} of {cost:?}");
            assert!(spent < 3 * cost, "{stored:?}: {spent:?} of {cost:?}");
        }
        let time = hasher.run(|_memory| Ok(ProcessorTime::start())).await.unwrap();
        assert_eq!(hasher.judge("password", Some(&ours), false).await, Ok(Verdict::Right));
        let spent = hasher.run(move |_memory| Ok(time.spent())).await.unwrap();
        assert!(spent < cost, "who knows the password does not wait: {spent:?} of {cost:?}");
    }
}
