//! Encryption of secrets at rest in the database: AES-256-GCM under a key derived from `server.master_key`. Each
//! purpose has its own key, so that a text sealed for one purpose cannot be opened for another.
//!
//! Random 96-bit nonces are safe for 2³² texts per purpose; the mail outbox, the busiest one, would need a mail per
//! second for a century.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use secrecy::{ExposeSecret, SecretString};

/// Encrypts and decrypts for one purpose.
pub struct Sealer {
    key: RandomizedNonceKey,
    fingerprint: String,
}

/// A text cannot be decrypted: it is damaged, or was sealed for another purpose, context or master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot decrypt a stored secret: it is damaged, or server.master_key has changed")]
pub struct CannotOpen;

impl Sealer {
    /// Derives the key for a purpose, such as `mail outbox`.
    ///
    /// # Panics
    /// Never: the derived key always has the length that the cipher requires.
    #[must_use]
    pub fn new(master_key: &SecretString, purpose: &str) -> Self {
        let master = hmac::Key::new(hmac::HMAC_SHA256, master_key.expose_secret().as_bytes());
        let key = hmac::sign(&master, format!("basalt sealed: {purpose}").as_bytes());
        let name = hmac::sign(&master, format!("basalt sealed by: {purpose}").as_bytes());
        let (start, _) = name.as_ref().split_at(8);
        let fingerprint = hex::encode(start);
        #[expect(clippy::expect_used, reason = "HMAC-SHA256 produces the 32 bytes that AES-256 requires")]
        let key = RandomizedNonceKey::new(&AES_256_GCM, key.as_ref()).expect("32 bytes are an AES-256 key");
        Self { key, fingerprint }
    }

    /// Identifies the key without revealing it: 16 hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Encrypts `text`. It can only be decrypted with the same `context`, which is not part of the result; callers
    /// pass what the text belongs to, so that it cannot be moved to another row.
    ///
    /// # Panics
    /// If the text has 64 GiB or more.
    #[must_use]
    pub fn seal(&self, context: &str, text: &[u8]) -> Vec<u8> {
        let mut sealed = text.to_vec();
        #[expect(clippy::expect_used, reason = "texts are limited to far less than GCM's maximum")]
        let nonce = self
            .key
            .seal_in_place_append_tag(Aad::from(context), &mut sealed)
            .expect("a text of less than 64 GiB can be sealed");
        let mut out = Vec::with_capacity(NONCE_LEN + sealed.len());
        out.extend_from_slice(nonce.as_ref());
        out.append(&mut sealed);
        out
    }

    /// Decrypts the result of [`Sealer::seal`] for the same `context`.
    ///
    /// # Errors
    /// See [`CannotOpen`].
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>, CannotOpen> {
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN).ok_or(CannotOpen)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_length| CannotOpen)?;
        let mut text = text.to_vec();
        let opened = self
            .key
            .open_in_place(nonce, Aad::from(context), &mut text)
            .map_err(|_unspecified| CannotOpen)?;
        let length = opened.len();
        text.truncate(length);
        Ok(text)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_requires_the_same_key_purpose_and_context() {
        let master = SecretString::from("a master key of at least 32 characters");
        let sealer = Sealer::new(&master, "mail outbox");
        let sealed = sealer.seal("to ada", b"the code is 123456");
        assert_eq!(sealer.open("to ada", &sealed).unwrap(), b"the code is 123456");
        assert_ne!(sealed, sealer.seal("to ada", b"the code is 123456"), "each text must have its own nonce");
        assert!(!sealed.windows(6).any(|part| part == b"123456"));

        assert_eq!(sealer.fingerprint(), Sealer::new(&master, "mail outbox").fingerprint());
        assert_ne!(sealer.fingerprint(), Sealer::new(&master, "api keys").fingerprint());
        assert_eq!(sealer.open("to eve", &sealed), Err(CannotOpen));
        assert_eq!(Sealer::new(&master, "api keys").open("to ada", &sealed), Err(CannotOpen));
        let other = SecretString::from("another master key of 32 characters");
        assert_eq!(Sealer::new(&other, "mail outbox").open("to ada", &sealed), Err(CannotOpen));
        let mut damaged = sealed;
        if let Some(last) = damaged.last_mut() {
            *last ^= 1;
        }
        assert_eq!(sealer.open("to ada", &damaged), Err(CannotOpen));
        assert_eq!(sealer.open("to ada", b"short"), Err(CannotOpen));
    }
}
