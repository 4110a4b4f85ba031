//! Randomness for secrets and ids, from the operating system via aws-lc.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `N` cryptographically secure random bytes.
///
/// # Panics
/// If the operating system provides no randomness: continuing would be insecure.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    #[expect(clippy::expect_used, reason = "generating secrets without randomness would be insecure")]
    SystemRandom::new().fill(&mut out).expect("the operating system provides randomness");
    out
}

/// A token of `length` characters from the URL-safe base64 alphabet, with six bits of randomness each.
#[must_use]
pub fn token(length: usize) -> String {
    let mut out = String::with_capacity(length);
    while out.len() < length {
        for byte in bytes::<32>() {
            if out.len() == length {
                break;
            }
            if let Some(character) = ALPHABET.get(usize::from(byte & 63)) {
                out.push(char::from(*character));
            }
        }
    }
    out
}

/// A random UUID (version 4).
#[must_use]
pub fn uuid() -> uuid::Uuid {
    uuid::Builder::from_random_bytes(bytes()).into_uuid()
}

/// Compares two secrets in time that depends only on their lengths.
#[must_use]
pub fn constant_time_eq(left: &[u8], right: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(left, right).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_requested_length_and_differ() {
        assert_eq!(token(43).len(), 43);
        assert_ne!(token(22), token(22));
        assert_eq!(uuid().get_version_num(), 4);
    }
}
