//! Stored password hashes: created, parsed, verified. CPU-bound; [`super::Hasher`] runs it on its threads. Parameters of parsed
//! hashes are bounded, because imported hashes determine the work they cause.

use argon2::{Algorithm, Argon2, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use basalt_core::random;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::firebase::FirebaseHash;
use super::memory::Memory;
use super::{HashError, Verdict};

const SALT_BYTES: usize = 16;
pub(super) const HASH_BYTES: usize = 32;

/// Bounds on imported argon2 hashes (auth.md §3.17), which limit the cost of a verification.
pub(super) const MAX_MEMORY_KIB: u32 = 1024 * 1024;
const MAX_ITERATIONS: u32 = 20;
const MAX_LANES: u32 = 16;
/// Cost 16 takes about four seconds; more would occupy a hashing thread for a request's entire deadline.
const MAX_BCRYPT_COST: u32 = 16;

/// Hashes a new password.
///
/// # Errors
/// argon2 fails.
pub(super) fn hash(params: &Params, password: &[u8], memory: &mut Memory) -> Result<String, HashError> {
    let salt = random::bytes::<SALT_BYTES>();
    let mut hash = [0_u8; HASH_BYTES];
    argon2(Algorithm::Argon2id, params, password, &salt, &mut hash, memory)?;
    Ok(text(params, &salt, &hash))
}

/// A random hash that matches no password. Cheap.
pub(super) fn random_hash(params: &Params) -> String {
    text(params, &random::bytes::<SALT_BYTES>(), &random::bytes::<HASH_BYTES>())
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

/// The PHC string of an argon2id hash.
fn text(params: &Params, salt: &[u8], hash: &[u8]) -> String {
    format!(
        "$argon2id$v=19$m={},t={},p={}${}${}",
        params.m_cost(),
        params.t_cost(),
        params.p_cost(),
        STANDARD_NO_PAD.encode(salt),
        STANDARD_NO_PAD.encode(hash)
    )
}

/// Verifies a password against a stored hash; `params` are the current parameters.
///
/// # Errors
/// The hash is not supported or exceeds the bounds.
pub(super) fn verify(
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
            Ok(if hash.matches(password)? { Verdict::RightButOutdated } else { Verdict::Wrong })
        }
        // Truncates at 72 bytes, like the implementation that created the hash.
        Stored::Bcrypt(hash) => match bcrypt::verify(password, &hash) {
            Ok(true) => Ok(Verdict::RightButOutdated),
            Ok(false) => Ok(Verdict::Wrong),
            Err(_error) => Err(HashError::Unsupported),
        },
    }
}

/// Checks that an imported hash can be verified.
///
/// # Errors
/// It is not supported or exceeds the bounds.
pub(crate) fn check_imported(stored: &str) -> Result<(), HashError> {
    Stored::parse(stored).map(|_parsed| ())
}

/// A parsed hash within the bounds.
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
    /// Parses `v=19$m=..,t=..,p=..$salt$hash`, in this order, without `keyid` and `data`.
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
        // A hash of a few bytes could match by chance.
        if hash.len() < 16 || hash.len() > 128 || salt.len() < 8 {
            return Err(HashError::Unsupported);
        }
        Ok(Self { algorithm, params, salt, hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(password: &str, stored: &str) -> Result<Verdict, HashError> {
        let params = Params::new(64, 1, 1, Some(HASH_BYTES)).unwrap();
        verify(&params, password.as_bytes(), stored, &mut Memory::default())
    }

    #[test]
    fn imported_hashes_verify_as_outdated() {
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
            assert_eq!(verified("password", &stored), Ok(Verdict::RightButOutdated), "{stored}");
            assert_eq!(verified("passwort", &stored), Ok(Verdict::Wrong), "{stored}");
        }
    }

    #[test]
    fn bcrypt_truncates_long_passwords() {
        let long = "x".repeat(80);
        let stored = bcrypt::hash(&long, 4).unwrap();
        assert_eq!(verified(&long, &stored), Ok(Verdict::RightButOutdated));
    }

    #[test]
    fn rejects_hashes_beyond_the_bounds() {
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
            assert_eq!(verified("password", stored), Err(HashError::Unsupported), "{stored}");
        }
    }
}
