//! Password hashes: argon2id for new ones; bcrypt, argon2i/id and Firebase's scrypt accepted for imported ones, which
//! sign-in then replaces (auth.md §3.17). Every computation runs on threads of its own ([`mod@threads`]), so that a
//! login burst can neither starve the runtime nor take more memory than configured; who finds the queue full is
//! answered 503.
//!
//! The surprising thing: a permit travels with the job. A client that leaves does not stop a hash that has begun, and
//! the hash must go on counting.

mod firebase;
mod threads;

use std::num::NonZeroUsize;
use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use basalt_core::random;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use tokio::sync::{Semaphore, TryAcquireError, oneshot};
use tokio::time::Instant;

use crate::config::AuthConfig;
use firebase::FirebaseHash;
use threads::{Memory, Threads};

const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

/// Bounds on imported argon2 hashes (auth.md §3.17): verifying one must not take the machine.
const MAX_MEMORY_KIB: u32 = 1024 * 1024;
const MAX_ITERATIONS: u32 = 20;
const MAX_LANES: u32 = 16;
/// Cost 16 is about four seconds of one core; more would hold a hashing slot for a request's whole life.
const MAX_BCRYPT_COST: u32 = 16;

/// Why a hash could not be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
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
pub enum Verdict {
    /// The password is another one.
    Wrong,
    /// The password is right.
    Right,
    /// The password is right, and the hash is not what we would make today: store a new one.
    RightButOutdated,
}

/// The argon2id parameters of the configuration.
///
/// # Errors
/// argon2 refuses them.
pub(crate) fn params(config: &AuthConfig) -> Result<Params, HashError> {
    Params::new(
        config.password_argon2_memory,
        config.password_argon2_iterations,
        config.password_argon2_parallelism,
        Some(HASH_BYTES),
    )
    .map_err(|_error| HashError::Failed)
    .and_then(|params| if params.m_cost() > 4 * MAX_MEMORY_KIB { Err(HashError::Failed) } else { Ok(params) })
}

/// Computes and compares password hashes, a bounded number at a time. Cheap to clone.
#[derive(Clone)]
pub struct Hasher {
    params: Arc<Params>,
    threads: Threads,
    /// Computations that may run or wait; full means 503.
    admitted: Arc<Semaphore>,
    limit: usize,
    /// A hash of no password with today's parameters, so that an unknown user costs what a known one does. Made up
    /// rather than computed: a start is not the time to hash.
    dummy: Arc<str>,
}

impl Hasher {
    /// A hasher with the configuration's parameters and bounds.
    ///
    /// # Errors
    /// argon2 refuses the parameters, or the system has no thread to give.
    pub fn new(config: &AuthConfig) -> Result<Self, HashError> {
        let params = params(config)?;
        let cores = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        let concurrency = match config.password_hash_concurrency {
            0 => cores,
            wanted => wanted,
        };
        let limit = concurrency.saturating_add(config.password_hash_queue);
        let dummy = phc(&params, &random::bytes::<SALT_BYTES>(), &random::bytes::<HASH_BYTES>());
        Ok(Self {
            threads: Threads::start(concurrency, params.block_count())?,
            params: Arc::new(params),
            admitted: Arc::new(Semaphore::new(limit)),
            limit,
            dummy: dummy.into(),
        })
    }

    /// A hasher with default parameters and bounds.
    pub(crate) fn with_defaults() -> Self {
        Self::new(&AuthConfig::default())
            .unwrap_or_else(|error| unreachable!("argon2 takes its recommended parameters: {error}"))
    }

    /// Hashes a new password; the result is a PHC string for `auth.users.encrypted_password`.
    ///
    /// # Errors
    /// The queue is full, or hashing failed.
    pub async fn hash(&self, password: &str) -> Result<String, HashError> {
        let params = Arc::clone(&self.params);
        let password = password.as_bytes().to_vec();
        self.run(move |memory| hash_now(&params, &password, memory)).await
    }

    /// A hash of a password that nobody knows, as [`Hasher::hash`] would make it; without its work.
    pub(crate) fn unknowable(&self) -> String {
        phc(&self.params, &random::bytes::<SALT_BYTES>(), &random::bytes::<HASH_BYTES>())
    }

    /// Compares a password with a stored hash.
    ///
    /// # Errors
    /// The queue is full, or the stored hash is unusable.
    pub async fn verify(&self, password: &str, stored: &str) -> Result<Verdict, HashError> {
        let params = Arc::clone(&self.params);
        let password = password.as_bytes().to_vec();
        let stored = stored.to_owned();
        self.run(move |memory| verify_now(&params, &password, &stored, memory)).await
    }

    /// Does the work of a comparison for a user who does not exist or has no password: the answer's time must not
    /// tell.
    ///
    /// # Errors
    /// The queue is full.
    pub async fn verify_nobody(&self, password: &str) -> Result<(), HashError> {
        let dummy = Arc::clone(&self.dummy);
        self.verify(password, &dummy).await.map(|_verdict| ())
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Memory) -> Result<T, HashError> + Send + 'static,
    ) -> Result<T, HashError> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|error| match error {
            TryAcquireError::NoPermits => HashError::Overloaded,
            TryAcquireError::Closed => HashError::Failed,
        })?;
        crate::metrics::password_hashes(
            self.limit.saturating_sub(self.admitted.available_permits()),
            self.limit,
        );
        let (answer, answered) = oneshot::channel();
        self.threads.send(Box::new(move |memory| {
            // A client that left while its job waited needs no answer.
            if answer.is_closed() {
                return;
            }
            let start = Instant::now();
            let result = work(memory);
            crate::metrics::password_hashed(start.elapsed());
            // Given back first: whoever has the answer finds the place free. A panic gives it back as well.
            drop(admitted);
            drop(answer.send(result));
        }))?;
        answered.await.map_err(|_panic| HashError::Failed)?
    }
}

fn hash_now(params: &Params, password: &[u8], memory: &mut Memory) -> Result<String, HashError> {
    let salt = random::bytes::<SALT_BYTES>();
    let mut hash = [0_u8; HASH_BYTES];
    argon2(Algorithm::Argon2id, params, password, &salt, &mut hash, memory)?;
    Ok(phc(params, &salt, &hash))
}

fn argon2(
    algorithm: Algorithm,
    params: &Params,
    password: &[u8],
    salt: &[u8],
    hash: &mut [u8],
    memory: &mut Memory,
) -> Result<(), HashError> {
    Argon2::new(algorithm, Version::V0x13, params.clone())
        .hash_password_into_with_memory(password, salt, hash, memory.blocks(params.block_count()))
        .map_err(|_error| HashError::Failed)
}

/// The text that the column holds.
fn phc(params: &Params, salt: &[u8], hash: &[u8]) -> String {
    format!(
        "$argon2id$v=19$m={},t={},p={}${}${}",
        params.m_cost(),
        params.t_cost(),
        params.p_cost(),
        STANDARD_NO_PAD.encode(salt),
        STANDARD_NO_PAD.encode(hash)
    )
}

fn verify_now(
    params: &Params,
    password: &[u8],
    stored: &str,
    memory: &mut Memory,
) -> Result<Verdict, HashError> {
    match Stored::parse(stored)? {
        Stored::Argon2(argon) => {
            let mut computed = vec![0_u8; argon.hash.len()];
            argon2(argon.algorithm, &argon.params, password, &argon.salt, &mut computed, memory)?;
            if verify_slices_are_equal(&computed, &argon.hash).is_err() {
                return Ok(Verdict::Wrong);
            }
            let is_ours = argon.algorithm == Algorithm::Argon2id
                && argon.params.m_cost() == params.m_cost()
                && argon.params.t_cost() == params.t_cost()
                && argon.params.p_cost() == params.p_cost();
            Ok(if is_ours { Verdict::Right } else { Verdict::RightButOutdated })
        }
        Stored::Firebase(hash) => {
            Ok(if hash.is_of(password)? { Verdict::RightButOutdated } else { Verdict::Wrong })
        }
        // Truncates at 72 bytes as whoever made the hash did.
        Stored::Bcrypt(hash) => match bcrypt::verify(password, &hash) {
            Ok(true) => Ok(Verdict::RightButOutdated),
            Ok(false) => Ok(Verdict::Wrong),
            Err(_error) => Err(HashError::Unsupported),
        },
    }
}

/// Whether a hash of others' making can be verified here.
///
/// # Errors
/// It has no supported form, or is beyond the bounds.
pub(crate) fn check_imported(stored: &str) -> Result<(), HashError> {
    Stored::parse(stored).map(|_parsed| ())
}

/// A stored hash, taken apart and within bounds.
enum Stored {
    Argon2(Argon2Hash),
    Bcrypt(String),
    Firebase(FirebaseHash),
}

struct Argon2Hash {
    algorithm: Algorithm,
    params: Params,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Stored {
    fn parse(stored: &str) -> Result<Self, HashError> {
        let mut fields = stored.split('$');
        let (Some(""), Some(name)) = (fields.next(), fields.next()) else {
            return Err(HashError::Unsupported);
        };
        match name {
            "2a" | "2b" | "2y" => {
                let cost: u32 =
                    fields.next().and_then(|cost| cost.parse().ok()).ok_or(HashError::Unsupported)?;
                if cost > MAX_BCRYPT_COST {
                    return Err(HashError::Unsupported);
                }
                Ok(Self::Bcrypt(stored.to_owned()))
            }
            "fbscrypt" => FirebaseHash::parse(fields).map(Self::Firebase),
            "argon2i" => Argon2Hash::parse(Algorithm::Argon2i, fields).map(Self::Argon2),
            "argon2id" => Argon2Hash::parse(Algorithm::Argon2id, fields).map(Self::Argon2),
            _ => Err(HashError::Unsupported),
        }
        .map_err(|_error| HashError::Unsupported)
    }
}

impl Argon2Hash {
    /// `v=19$m=..,t=..,p=..$salt$hash`, in this order, without `keyid` and `data`.
    fn parse<'a>(algorithm: Algorithm, mut fields: impl Iterator<Item = &'a str>) -> Result<Self, HashError> {
        let (Some("v=19"), Some(costs), Some(salt), Some(hash), None) =
            (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(HashError::Unsupported);
        };
        let mut costs = costs.split(',');
        let mut cost = |name: &str, limit: u32| -> Result<u32, HashError> {
            costs
                .next()
                .and_then(|cost| cost.strip_prefix(name))
                .and_then(|value| value.parse().ok())
                .filter(|value| *value <= limit)
                .ok_or(HashError::Unsupported)
        };
        let (memory, iterations, lanes) =
            (cost("m=", MAX_MEMORY_KIB)?, cost("t=", MAX_ITERATIONS)?, cost("p=", MAX_LANES)?);
        if costs.next().is_some() {
            return Err(HashError::Unsupported);
        }
        let decode = |text: &str| {
            STANDARD_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_error| HashError::Unsupported)
        };
        let (salt, hash) = (decode(salt)?, decode(hash)?);
        let params = Params::new(memory, iterations, lanes, Some(hash.len()))
            .map_err(|_error| HashError::Unsupported)?;
        // A hash of a few bytes would be matched by chance.
        if hash.len() < 16 || hash.len() > 128 || salt.len() < 8 {
            return Err(HashError::Unsupported);
        }
        Ok(Self { algorithm, params, salt, hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cheap() -> AuthConfig {
        AuthConfig {
            password_argon2_memory: 64,
            password_argon2_iterations: 1,
            password_hash_concurrency: 1,
            password_hash_queue: 0,
            ..AuthConfig::default()
        }
    }

    #[tokio::test]
    async fn a_hash_is_a_phc_string_that_verifies_and_fits_the_column() {
        let hasher = Hasher::new(&AuthConfig::default()).unwrap();
        let hash = hasher.hash("pw-öäü").await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(hash.len() <= 255);
        assert_eq!(hasher.verify("pw-öäü", &hash).await, Ok(Verdict::Right));
        assert_eq!(hasher.verify("pw-oau", &hash).await, Ok(Verdict::Wrong));
    }

    #[tokio::test]
    async fn imported_hashes_verify_and_ask_for_a_new_one() {
        let hasher = Hasher::new(&cheap()).unwrap();
        // `select crypt('password', gen_salt('bf'))`, the reference argon2 tool's `password`/`somesalt`, and the
        // three prefixes of bcrypt.
        let bcrypt = bcrypt::hash("password", 4).unwrap();
        for stored in [
            bcrypt.clone(),
            bcrypt.replacen("$2b$", "$2a$", 1),
            bcrypt.replacen("$2b$", "$2y$", 1),
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8".to_owned(),
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4".to_owned(),
        ] {
            assert_eq!(hasher.verify("password", &stored).await, Ok(Verdict::RightButOutdated), "{stored}");
            assert_eq!(hasher.verify("passwort", &stored).await, Ok(Verdict::Wrong), "{stored}");
        }
    }

    #[tokio::test]
    async fn bcrypt_hashes_of_long_passwords_stay_truncated() {
        let hasher = Hasher::new(&cheap()).unwrap();
        let long = "x".repeat(80);
        let stored = bcrypt::hash(&long, 4).unwrap();
        assert_eq!(hasher.verify(&long, &stored).await, Ok(Verdict::RightButOutdated));
    }

    #[tokio::test]
    async fn hashes_beyond_the_bounds_are_refused() {
        let hasher = Hasher::new(&cheap()).unwrap();
        for stored in [
            "",
            "plain",
            "$1$salt$hash",
            "$2b$31$L6Bc/AlTQHyd9liGgGEZyOFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u",
            "$argon2id$v=16$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=2097152,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=21,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=2,p=17$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=2,p=1,keyid=AA$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$AAAA",
        ] {
            assert_eq!(hasher.verify("password", stored).await, Err(HashError::Unsupported), "{stored}");
        }
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once() {
        let hasher = Hasher::new(&cheap()).unwrap();
        let permit = Arc::clone(&hasher.admitted).try_acquire_owned().unwrap();
        assert_eq!(hasher.hash("password").await, Err(HashError::Overloaded));
        drop(permit);
        assert!(hasher.hash("password").await.is_ok());
    }
}
