//! Encrypts the secret files of a backup: AES-256-GCM ([`basalt_core::seal`]) under a key that argon2id derives from the passphrase, or
//! under the master key.

use argon2::{Algorithm, Argon2, Params, Version};
use basalt_core::random;
use basalt_core::seal::Sealer;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::error::BackupError;

const PURPOSE: &str = "backup";
/// argon2id: 64 MiB, three passes.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;

/// What opens the sealed files. `Debug` shows no secret.
#[derive(Clone, Debug)]
pub enum SealKey {
    /// `backup.passphrase`.
    Passphrase(SecretString),
    /// `server.master_key`.
    MasterKey(SecretString),
}

/// How a backup is sealed; in its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealNote {
    /// `passphrase` or `master_key`.
    pub with: SealedWith,
    /// Salt of the passphrase, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
    /// Identifies the key without revealing it.
    pub fingerprint: String,
}

/// The kind of a [`SealKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SealedWith {
    /// The passphrase.
    Passphrase,
    /// The master key.
    MasterKey,
}

/// Seals for a new backup; returns the note for its manifest. Takes a tenth of a second of processor time for a passphrase.
pub(crate) fn sealer(key: &SealKey) -> Result<(Sealer, SealNote), BackupError> {
    match key {
        SealKey::MasterKey(key) => {
            let sealer = Sealer::new(key, PURPOSE);
            let fingerprint = sealer.fingerprint().to_owned();
            Ok((sealer, SealNote { with: SealedWith::MasterKey, salt: None, fingerprint }))
        }
        SealKey::Passphrase(passphrase) => {
            let salt = random::bytes::<16>();
            let sealer = Sealer::new(&derive(passphrase, &salt)?, PURPOSE);
            let fingerprint = sealer.fingerprint().to_owned();
            let note = SealNote { with: SealedWith::Passphrase, salt: Some(hex::encode(salt)), fingerprint };
            Ok((sealer, note))
        }
    }
}

/// Opens a backup's sealed files with one of `keys`.
///
/// # Errors
/// None of them sealed it; the message names the key that is needed.
pub(crate) fn opener(note: &SealNote, keys: &[SealKey]) -> Result<Sealer, BackupError> {
    for key in keys {
        let sealer = match (note.with, key) {
            (SealedWith::MasterKey, SealKey::MasterKey(key)) => Sealer::new(key, PURPOSE),
            (SealedWith::Passphrase, SealKey::Passphrase(passphrase)) => {
                let salt = note.salt.as_deref().and_then(|salt| hex::decode(salt).ok()).unwrap_or_default();
                Sealer::new(&derive(passphrase, &salt)?, PURPOSE)
            }
            _ => continue,
        };
        if sealer.fingerprint() == note.fingerprint {
            return Ok(sealer);
        }
    }
    let needed = match note.with {
        SealedWith::Passphrase => {
            "set BASALT_BACKUP_PASSPHRASE to the passphrase that backup.passphrase had when the backup was made"
        }
        SealedWith::MasterKey => {
            "set BASALT_SERVER_MASTER_KEY to the server's master key (`master_key` in its secrets.json)"
        }
    };
    Err(BackupError::Sealed(format!(
        "cannot open the secrets of this backup: {needed}. Without it, --without-secrets restores the database and the objects only"
    )))
}

fn derive(passphrase: &SecretString, salt: &[u8]) -> Result<SecretString, BackupError> {
    let failed = |error: argon2::Error| BackupError::Sealed(format!("cannot derive the key: {error}"));
    let params = Params::new(MEMORY_KIB, PASSES, 1, Some(32)).map_err(failed)?;
    let mut key = [0_u8; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.expose_secret().as_bytes(), salt, &mut key)
        .map_err(failed)?;
    Ok(SecretString::from(hex::encode(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_passphrase_opens() {
        let key = SealKey::Passphrase("correct horse".to_owned().into());
        let (sealer, note) = sealer(&key).unwrap();
        let sealed = sealer.seal("secrets", b"text");
        let opened = opener(&note, &[SealKey::MasterKey("x".repeat(40).into()), key]).unwrap();
        assert_eq!(opened.open("secrets", &sealed).unwrap(), b"text");
        let other = [SealKey::Passphrase("battery staple".to_owned().into())];
        let error = opener(&note, &other).unwrap_err().to_string();
        assert!(error.contains("BASALT_BACKUP_PASSPHRASE") && error.contains("--without-secrets"), "{error}");
    }
}
