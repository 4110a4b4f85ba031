//! The keys in the database: API keys created after the first start, and signing keys with their status
//! (docs/decisions/0012). `basalt_pg::key_store` reads and writes the rows; [`super::ring`] builds the keys in force
//! from them.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use uuid::Uuid;

use super::KeyMaterial;
use super::api_key_kind::ApiKeyKind;
use super::generate::opaque_key;
use super::jwk::{self, KeyError};
use crate::random;

/// Name of the keys that a project starts with, and of their replacements.
pub const DEFAULT_NAME: &str = "default";

/// Status of a signing key, in the order in which keys are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyStatus {
    /// Signs tokens.
    InUse,
    /// Published, so that verifiers know the key before it signs.
    Standby,
    /// No longer signs; its tokens are still valid.
    PreviouslyUsed,
    /// Its tokens are rejected.
    Revoked,
}

impl KeyStatus {
    const ALL: [Self; 4] = [Self::Standby, Self::InUse, Self::PreviouslyUsed, Self::Revoked];

    /// The status's name, as stored in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::InUse => "in_use",
            Self::PreviouslyUsed => "previously_used",
            Self::Revoked => "revoked",
        }
    }

    /// Parses a status's name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// Parameters of a new API key.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Publishable or secret.
    pub kind: ApiKeyKind,
    /// Name, unique among the active keys of a kind.
    pub name: String,
    /// What the key is used for.
    pub description: String,
    /// Role of requests with this key.
    pub role: String,
    /// When the key becomes invalid.
    pub expires_at: Option<Timestamp>,
}

/// A row of `basalt.api_keys`.
#[derive(Debug, Clone)]
pub struct StoredApiKey {
    /// Row id.
    pub id: Uuid,
    /// Publishable or secret.
    pub kind: ApiKeyKind,
    /// Name of the key.
    pub name: String,
    /// What the key is used for.
    pub description: String,
    /// Role of requests with this key.
    pub role: String,
    /// SHA-256 of the complete key.
    pub hash: Vec<u8>,
    /// The key; `None` if it was sealed with another master key.
    pub key: Option<SecretString>,
    /// When the key was created.
    pub created_at: Timestamp,
    /// When the key becomes invalid, with second precision.
    pub expires_at: Option<Timestamp>,
    /// When the key was last used, to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// When the key was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl StoredApiKey {
    /// Whether the key is accepted at `now`.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// Wraps a configured key as if it had a row, for listing and revoking it.
    #[must_use]
    pub fn from_material(kind: ApiKeyKind, key: &SecretString, made_at: Timestamp) -> Self {
        Self {
            id: random::uuid(),
            kind,
            name: DEFAULT_NAME.to_owned(),
            description: String::new(),
            role: kind.role().to_owned(),
            hash: key_hash(key.expose_secret()),
            key: Some(key.clone()),
            created_at: made_at,
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
        }
    }

    /// Generates a new key.
    #[must_use]
    pub fn generate(new: &NewApiKey, now: Timestamp) -> Self {
        let key = opaque_key(new.kind);
        Self {
            id: random::uuid(),
            kind: new.kind,
            name: new.name.clone(),
            description: new.description.clone(),
            role: new.role.clone(),
            hash: key_hash(&key),
            key: Some(key.into()),
            created_at: now,
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
        }
    }
}

/// A row of `basalt.signing_keys`. Not `Debug`, so that no log can contain the key.
#[derive(Clone)]
pub struct StoredSigningKey {
    /// Key id in tokens.
    pub kid: String,
    /// `ES256`, `RS256`, `EdDSA` or `HS256`.
    pub algorithm: String,
    /// Status of the key.
    pub status: KeyStatus,
    /// The private JWK; `None` if it was sealed with another master key.
    pub jwk: Option<Value>,
    /// When the key was created, or first seen.
    pub created_at: Timestamp,
    /// When the status last changed.
    pub updated_at: Timestamp,
}

/// All keys in the database.
#[derive(Clone, Default)]
pub struct StoredKeys {
    /// Includes revoked keys, because one of them may be a configured key.
    pub api: Vec<StoredApiKey>,
    /// Includes revoked keys, for the same reason.
    pub signing: Vec<StoredSigningKey>,
}

impl StoredKeys {
    /// A digest that changes whenever anything relevant to requests changes.
    #[must_use]
    pub fn version(&self) -> Vec<u8> {
        let mut text = String::new();
        for key in &self.api {
            let _ = writeln!(
                text,
                "{} {} {} {:?} {:?} {}",
                key.id,
                key.name,
                key.role,
                key.expires_at,
                key.revoked_at,
                key.key.is_some()
            );
        }
        for key in &self.signing {
            let _ = writeln!(text, "{} {} {}", key.kid, key.status.as_str(), key.jwk.is_some());
        }
        digest(&SHA256, text.as_bytes()).as_ref().to_vec()
    }
}

/// A signing key, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeyInfo {
    /// Key id in tokens.
    pub kid: String,
    /// The algorithm it signs with.
    pub algorithm: String,
    /// Status of the key.
    pub status: KeyStatus,
    /// When the key was created; `None` if it is configured or kept in the state folder.
    pub created_at: Option<Timestamp>,
    /// When the status last changed; `None` as for `created_at`.
    pub updated_at: Option<Timestamp>,
}

impl KeyMaterial {
    /// The configured keys with their `kid` and whether they sign: the JWKs, then the secret.
    ///
    /// # Errors
    /// A key is invalid.
    pub fn own_keys(&self) -> Result<Vec<(String, Value, bool)>, KeyError> {
        let mut keys = Vec::new();
        for source in self.signing_jwks() {
            let kid = jwk::kid_of(source)?;
            keys.push((kid, source.clone(), jwk::signs(source)));
        }
        if let Some((kid, secret)) = self.secret_as_jwk() {
            let signs = !keys.iter().any(|(_, _, signs)| *signs);
            keys.push((kid, secret, signs));
        }
        Ok(keys)
    }

    /// All signing keys, the one in use first.
    ///
    /// # Errors
    /// A key is invalid.
    pub fn signing_keys(&self, stored: &StoredKeys) -> Result<Vec<SigningKeyInfo>, KeyError> {
        let rows: &[StoredSigningKey] = if self.rotates { &stored.signing } else { &[] };
        let is_replaced = rows.iter().any(|row| row.status == KeyStatus::InUse);
        let mut infos = Vec::new();
        for (kid, jwk, signs) in self.own_keys()? {
            if rows.iter().any(|row| row.kid == kid) {
                continue;
            }
            let status = if signs && !is_replaced { KeyStatus::InUse } else { KeyStatus::PreviouslyUsed };
            let algorithm = jwk::algorithm_of(&jwk)?;
            infos.push(SigningKeyInfo { kid, algorithm, status, created_at: None, updated_at: None });
        }
        infos.extend(rows.iter().map(|row| SigningKeyInfo {
            kid: row.kid.clone(),
            algorithm: row.algorithm.clone(),
            status: row.status,
            created_at: Some(row.created_at),
            updated_at: Some(row.updated_at),
        }));
        infos.sort_by_key(|info| info.status);
        Ok(infos)
    }
}

/// SHA-256 of a key, by which rows are looked up.
pub(super) fn key_hash(key: &str) -> Vec<u8> {
    digest(&SHA256, key.as_bytes()).as_ref().to_vec()
}
