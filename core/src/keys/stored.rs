//! What of the keys is in the database: API keys made after the first start, and signing keys with their life
//! (docs/decisions/0012). `basalt_pg::key_store` reads and writes the rows; [`super::ring`] makes of them what requests see.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use uuid::Uuid;

use super::KeyMaterial;
use super::generate::opaque_key;
use super::jwk::{self, KeyError};
use super::ring::hash_of;
use crate::random;

/// The name of the keys that a project starts with, and of those that take their place.
pub const DEFAULT_NAME: &str = "default";

/// What an API key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyKind {
    /// `sb_publishable_…`: may be public.
    Publishable,
    /// `sb_secret_…`: for servers.
    Secret,
    /// A JWT that is itself the bearer.
    Legacy,
}

impl ApiKeyKind {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publishable => "publishable",
            Self::Secret => "secret",
            Self::Legacy => "legacy",
        }
    }

    /// The kind of this name, of those that the database keeps.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Publishable, Self::Secret].into_iter().find(|kind| kind.as_str() == name)
    }

    /// What its keys start with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Publishable => "sb_publishable_",
            Self::Secret => "sb_secret_",
            Self::Legacy => "",
        }
    }

    /// The role it stands for unless its row names another.
    #[must_use]
    pub const fn role(self) -> &'static str {
        match self {
            Self::Publishable | Self::Legacy => "anon",
            Self::Secret => "service_role",
        }
    }
}

/// Where a signing key is in its life; those that matter more come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyStatus {
    /// Signs.
    InUse,
    /// Published, so that verifiers know it before it signs.
    Standby,
    /// Signs no more; what it signed still holds.
    PreviouslyUsed,
    /// What it signed is refused.
    Revoked,
}

impl KeyStatus {
    const ALL: [Self; 4] = [Self::Standby, Self::InUse, Self::PreviouslyUsed, Self::Revoked];

    /// The word for it, as the database has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::InUse => "in_use",
            Self::PreviouslyUsed => "previously_used",
            Self::Revoked => "revoked",
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}

/// A key to make.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Publishable or secret.
    pub kind: ApiKeyKind,
    /// Its name, unique among the active keys of a kind.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The role that its requests have.
    pub role: String,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
}

/// A row of `basalt.api_keys`.
#[derive(Debug, Clone)]
pub struct StoredApiKey {
    /// Row id.
    pub id: Uuid,
    /// Publishable or secret.
    pub kind: ApiKeyKind,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The role that its requests have.
    pub role: String,
    /// SHA-256 of the whole key.
    pub hash: Vec<u8>,
    /// The key; `None` when it was sealed under another master key.
    pub key: Option<SecretString>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused, in whole seconds.
    pub expires_at: Option<Timestamp>,
    /// When a request last brought it, to about a minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl StoredApiKey {
    /// Whether requests may bring it at `now`.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// A key of the material as if it had a row, for listing and revoking it.
    #[must_use]
    pub fn of_material(kind: ApiKeyKind, key: &SecretString, made_at: Timestamp) -> Self {
        Self {
            id: random::uuid(),
            kind,
            name: DEFAULT_NAME.to_owned(),
            description: String::new(),
            role: kind.role().to_owned(),
            hash: hash_of(key.expose_secret()),
            key: Some(key.clone()),
            created_at: made_at,
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
        }
    }

    /// A new key as it goes into its row.
    #[must_use]
    pub fn made(new: &NewApiKey, now: Timestamp) -> Self {
        let key = opaque_key(new.kind);
        Self {
            id: random::uuid(),
            kind: new.kind,
            name: new.name.clone(),
            description: new.description.clone(),
            role: new.role.clone(),
            hash: hash_of(&key),
            key: Some(key.into()),
            created_at: now,
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
        }
    }
}

/// A row of `basalt.signing_keys`. No `Debug`, so that no log can show the key.
#[derive(Clone)]
pub struct StoredSigningKey {
    /// Its name in tokens.
    pub kid: String,
    /// `ES256`, `RS256`, `EdDSA` or `HS256`.
    pub algorithm: String,
    /// Where it is in its life.
    pub status: KeyStatus,
    /// The private JWK; `None` when it was sealed under another master key.
    pub jwk: Option<Value>,
    /// When it was made, or met for the first time.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
}

/// Everything the database keeps.
#[derive(Clone, Default)]
pub struct StoredKeys {
    /// Revoked ones included: one of them may be a key of the material.
    pub api: Vec<StoredApiKey>,
    /// Revoked ones included, likewise.
    pub signing: Vec<StoredSigningKey>,
}

impl StoredKeys {
    /// Differs when anything differs that matters to a request.
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

/// A signing key as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeyInfo {
    /// Its name in tokens.
    pub kid: String,
    /// What it signs with.
    pub algorithm: String,
    /// Where it is in its life.
    pub status: KeyStatus,
    /// When it was made; `None` when it is configured or kept in the state folder.
    pub created_at: Option<Timestamp>,
    /// When its status last changed, likewise.
    pub updated_at: Option<Timestamp>,
}

impl KeyMaterial {
    /// The keys of the material with their `kid` and whether they sign: JWKs, then the secret as one.
    ///
    /// # Errors
    /// A key cannot be read.
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

    /// Every signing key there is, the one in use first.
    ///
    /// # Errors
    /// A key cannot be read.
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
