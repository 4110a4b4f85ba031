//! Firebase's password hashes, imported as `$fbscrypt$v=1,n=14,r=8,p=1,ss=<b64>,sk=<b64>$<b64 salt>$<b64 hash>`
//! (auth.md §3.17). scrypt derives a key from password, salt and separator; the hash is the project's signer key encrypted with
//! AES-256-CTR under that key with a zero counter.

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::iv::FixedLength;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::HashError;

/// scrypt uses 128 · r · 2^n bytes. 64 MiB is four times what Firebase uses.
const MAX_MEMORY_BYTES: u64 = 64 * 1024 * 1024;
const MAX_PARALLELISM: u32 = 4;
/// Length of an AES-256 key, and of scrypt's output.
const KEY_BYTES: usize = 32;

/// A parsed hash within the bounds.
pub(super) struct FirebaseHash {
    params: scrypt::Params,
    salt_and_separator: Vec<u8>,
    signer_key: Vec<u8>,
    hash: Vec<u8>,
}

impl FirebaseHash {
    /// Parses the fields after `$fbscrypt$`.
    pub(super) fn parse<'a>(mut fields: impl Iterator<Item = &'a str>) -> Result<Self, HashError> {
        let (Some(parameters), Some(salt), Some(hash), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(HashError::Unsupported);
        };
        let mut parameters = parameters.split(',');
        let mut next = |name: &str| {
            parameters.next().and_then(|field| field.strip_prefix(name)).ok_or(HashError::Unsupported)
        };
        let version = next("v=")?;
        let (n, r, p) = (next("n=")?, next("r=")?, next("p=")?);
        let (separator, signer_key) = (decode(next("ss=")?)?, decode(next("sk=")?)?);
        let (hash, mut salt_and_separator) = (decode(hash)?, decode(salt)?);
        salt_and_separator.extend_from_slice(&separator);
        let n: u8 = n.parse().map_err(|_error| HashError::Unsupported)?;
        let r: u32 = r.parse().map_err(|_error| HashError::Unsupported)?;
        let p: u32 = p.parse().map_err(|_error| HashError::Unsupported)?;
        let memory = 1_u64
            .checked_shl(u32::from(n))
            .and_then(|cost| cost.checked_mul(128))
            .and_then(|bytes| bytes.checked_mul(u64::from(r)));
        let is_bounded = memory.is_some_and(|bytes| bytes <= MAX_MEMORY_BYTES) && p <= MAX_PARALLELISM;
        if version != "1" || !is_bounded || signer_key.len() < KEY_BYTES || hash.len() != signer_key.len() {
            return Err(HashError::Unsupported);
        }
        let params = scrypt::Params::new(n, r, p).map_err(|_error| HashError::Unsupported)?;
        Ok(Self { params, salt_and_separator, signer_key, hash })
    }

    /// Whether `password` matches this hash.
    pub(super) fn matches(&self, password: &[u8]) -> Result<bool, HashError> {
        let mut key = [0_u8; KEY_BYTES];
        scrypt::scrypt(password, &self.salt_and_separator, &self.params, &mut key)
            .map_err(|_error| HashError::Failed)?;
        let mut computed = self.signer_key.clone();
        UnboundCipherKey::new(&AES_256, &key)
            .and_then(EncryptingKey::ctr)
            .and_then(|key| {
                let zero = EncryptionContext::Iv128(FixedLength::from([0_u8; 16]));
                key.less_safe_encrypt(&mut computed, zero)
            })
            .map_err(|_error| HashError::Failed)?;
        Ok(verify_slices_are_equal(&computed, &self.hash).is_ok())
    }
}

fn decode(text: &str) -> Result<Vec<u8>, HashError> {
    STANDARD.decode(text).map_err(|_error| HashError::Unsupported)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample of Firebase's own scrypt tool.
    const SAMPLE: &str = "v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==\
        $42xEC+ixf3L2lw==\
        $lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==";

    #[test]
    fn verifies_the_sample_of_firebase() {
        let hash = FirebaseHash::parse(SAMPLE.split('$')).unwrap();
        assert_eq!(hash.matches(b"user1password"), Ok(true));
        assert_eq!(hash.matches(b"user2password"), Ok(false));
    }

    #[test]
    fn rejects_excessive_parameters() {
        for changed in [
            SAMPLE.replace("n=14", "n=30"),
            SAMPLE.replace("n=14", "n=200"),
            SAMPLE.replace("r=8", "r=4096"),
            SAMPLE.replace("p=1", "p=64"),
            SAMPLE.replace("v=1", "v=2"),
            SAMPLE.replace("sk=jxspr8Ki", "sk=!xspr8Ki"),
            SAMPLE.replace("$42xEC+ixf3L2lw==", ""),
        ] {
            assert!(FirebaseHash::parse(changed.split('$')).is_err(), "{changed}");
        }
    }
}
