//! Tokens and project keys: one verifier and one signer for all services (DESIGN §12, "Keys and tokens").
//!
//! [`Keys::verify`] answers for signature, `alg` and `kid` only. Time claims are judged by each service on every
//! request, because their leeway differs; a cached verification therefore never outlives its token.
//!
//! What is in force is a ring: made of the [`KeyMaterial`] (configuration and `.basalt/secrets.json`) and of what
//! the database keeps (`stored`). It changes under running requests ([`Keys::update`]); each asks the ring it meets.

mod generate;
mod jwk;
mod jwt_secret;
mod ring;
mod stored;

use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use jsonwebtoken::Algorithm;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::claims::Claims;
pub use generate::{generate, generate_es256, opaque_key};
pub use jwk::{KeyError, algorithm_of, kid_of, secret_kid, signs, thumbprint};
pub use jwt_secret::{decode_secret, read_jwks};
use ring::Ring;
pub use stored::{
    ApiKeyKind, DEFAULT_NAME, KeyStatus, NewApiKey, SigningKeyInfo, StoredApiKey, StoredKeys,
    StoredSigningKey,
};

/// Life of legacy keys and of the tokens that opaque keys stand for: realtime insists on an `exp`.
const TEN_YEARS: i64 = 10 * 365 * 24 * 60 * 60;

/// What [`Keys`] are made of. The gateway fills it from configuration and `.basalt/secrets.json`.
#[derive(Clone)]
pub struct KeyMaterial {
    /// JWKs, private parts included where we have them. The one whose `key_ops` has `sign` signs.
    pub jwks: Vec<Value>,
    /// HS256 secret: signs when no JWK does, and verifies legacy keys.
    pub secret: Option<SecretSlice<u8>>,
    /// `kid` of the secret; `None` derives one (see [`secret_kid`]).
    pub secret_kid: Option<String>,
    /// A token that names a `kid` is accepted only by the key of that name (`--only rest`, rest.md §3.15).
    /// Otherwise an HS256 token with an unknown `kid` falls back to the secret (auth.md §3.1).
    pub strict_kid: bool,
    /// Whether the signing keys of the database count. Where `jwt.keys` is configured it is the whole truth.
    pub rotates: bool,
    /// Project keys.
    pub api_keys: ApiKeys,
}

impl KeyMaterial {
    /// Sets of identity providers hold keys for encryption too.
    fn signing_jwks(&self) -> impl Iterator<Item = &Value> {
        self.jwks.iter().filter(|jwk| jwk.get("use").is_none_or(|usage| usage != "enc"))
    }

    /// The secret as a JWK, with its `kid`.
    fn secret_as_jwk(&self) -> Option<(String, Value)> {
        let bytes = self.secret.as_ref()?.expose_secret();
        let kid = self.secret_kid.clone().unwrap_or_else(|| secret_kid(bytes));
        let jwk = json!({ "kty": "oct", "kid": kid, "k": URL_SAFE_NO_PAD.encode(bytes) });
        Some((kid, jwk))
    }
}

/// The project's API keys.
#[derive(Clone, Default)]
pub struct ApiKeys {
    /// Legacy anon JWT; what a publishable key stands for.
    pub anon: String,
    /// Legacy service_role JWT; what a secret key stands for.
    pub service: SecretString,
    /// `sb_publishable_…`
    pub publishable: String,
    /// `sb_secret_…`
    pub secret: SecretString,
}

/// An accepted API key and the caller it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// What it is.
    pub kind: ApiKeyKind,
    /// Whether it is for servers only: a secret key or the legacy key of `service_role`.
    pub is_secret: bool,
    /// `Authorization` for a request that brings no bearer of its own.
    pub authorization: HeaderValue,
}

/// Why a token was refused. Texts are the services' own (rest.md §3.15, auth.md §3.1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No text at all.
    #[error("the token is empty")]
    Empty,
    /// Not three parts.
    #[error("expected 3 parts in JWT; got {0}")]
    Parts(usize),
    /// The header is no base64url of a JSON object with an `alg`.
    #[error("the token's header cannot be read")]
    BadHeader,
    /// An encrypted token.
    #[error("encrypted tokens are not supported")]
    Encrypted,
    /// `alg` is `none` or one we do not have.
    #[error("unsupported algorithm {alg}")]
    Unsupported {
        /// As the token names it.
        alg: String,
    },
    /// No configured key fits `alg` and `kid`.
    #[error("no key for algorithm {alg}")]
    NoKey {
        /// As the token names it.
        alg: String,
        /// As the token names it.
        kid: Option<String>,
        /// Whether another key is for this algorithm.
        is_configured: bool,
    },
    /// A key fits, the signature does not.
    #[error("the signature is invalid")]
    BadSignature,
    /// The payload is no JSON object.
    #[error("the claims are no JSON object")]
    ClaimsNotObject,
}

/// Signs and verifies tokens and knows the project keys.
pub struct Keys {
    material: KeyMaterial,
    ring: ArcSwap<Ring>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Reads the material.
    ///
    /// # Errors
    /// A JWK that cannot be used, or several that are marked for signing.
    pub fn new(material: KeyMaterial) -> Result<Self, KeyError> {
        let ring = Ring::build(&material, &StoredKeys::default(), 0)?;
        Ok(Self { material, ring: ArcSwap::from_pointee(ring) })
    }

    /// Puts into force what the database keeps, for every request from now on. `unix_seconds` is now.
    ///
    /// # Errors
    /// A key cannot be used; then everything stays as it was.
    pub fn update(&self, stored: &StoredKeys, unix_seconds: i64) -> Result<(), KeyError> {
        self.ring.store(Arc::new(Ring::build(&self.material, stored, unix_seconds)?));
        Ok(())
    }

    /// Checks shape, `alg`, `kid` and signature. Verified tokens are remembered by their text.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn verify(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        self.ring.load().verify(token)
    }

    /// Signs claims with the signing key; the header carries its `kid`.
    ///
    /// # Errors
    /// There is no signing key, or the claims do not serialise.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        self.ring.load().sign(claims)
    }

    /// Signs claims with the project's HS256 secret, as other tools that know it do for the tokens of URLs
    /// (storage.md §3.12). Where there is none, or it was revoked, the signing key signs.
    ///
    /// # Errors
    /// As [`Keys::sign`].
    pub fn sign_with_secret(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        self.ring.load().sign_with_secret(claims)
    }

    /// Whether a token that names a key is verified by that key only.
    #[must_use]
    pub const fn is_strict(&self) -> bool {
        self.material.strict_kid
    }

    /// True when at least one key can verify tokens.
    #[must_use]
    pub fn can_verify(&self) -> bool {
        self.ring.load().can_verify()
    }

    /// The public keys as a JWK set: asymmetric ones only, those on standby included.
    #[must_use]
    pub fn jwks(&self) -> Value {
        self.ring.load().jwks().clone()
    }

    /// The project's default keys as they are now.
    #[must_use]
    pub fn api_keys(&self) -> Arc<ApiKeys> {
        self.ring.load().defaults()
    }

    /// Sets the gauges of the memory of verified tokens; called before metrics are shown.
    pub fn report(&self) {
        let (tokens, limit) = self.ring.load().remembered();
        metrics::gauge!("basalt_verified_tokens").set(tokens as f64);
        metrics::gauge!("basalt_verified_tokens_limit").set(limit as f64);
    }

    /// What `key` stands for, if it is a key of this project. A legacy key is any unexpired token with a `role`
    /// that the verifier accepts.
    #[must_use]
    pub fn api_key(&self, key: &str, unix_seconds: i64) -> Option<ApiKey> {
        self.ring.load().api_key(key, unix_seconds)
    }

    /// Keys of the database that were used since the last call, and when: seconds since 1970.
    #[must_use]
    pub fn take_uses(&self) -> Vec<(Uuid, i64)> {
        self.ring.load().take_uses()
    }
}

/// The legacy project key of `role`: an HS256 token of the shared secret, good for ten years from `issued_at`
/// (seconds since 1970).
///
/// # Errors
/// The claims do not serialise, which they do.
pub fn legacy_key(
    secret: &SecretSlice<u8>,
    kid: Option<&str>,
    role: &str,
    issued_at: i64,
) -> Result<String, KeyError> {
    let bytes = secret.expose_secret();
    let mut header = jsonwebtoken::Header::new(Algorithm::HS256);
    header.kid = Some(kid.map_or_else(|| secret_kid(bytes), str::to_owned));
    let claims = json!({ "iss": "supabase", "role": role, "iat": issued_at, "exp": issued_at + TEN_YEARS });
    jsonwebtoken::encode(&header, &claims, &jsonwebtoken::EncodingKey::from_secret(bytes))
        .map_err(|error| KeyError::Sign(error.to_string()))
}

#[cfg(test)]
mod tests;
