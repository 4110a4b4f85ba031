//! Tokens and API keys: one verifier and one signer for all services (DESIGN §12, "Keys and tokens").
//!
//! [`Keys::verify`] checks the signature, `alg` and `kid` only. Each service checks time claims on every request,
//! because their leeway differs; so a cached verification never outlives its token.
//!
//! The keys in force form a ring, built from the [`KeyMaterial`] (configuration and `.basalt/secrets.json`) and the
//! keys in the database (`stored`). [`Keys::update`] replaces it while requests are running; each call uses the
//! current ring.

mod api_key_kind;
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
pub use api_key_kind::ApiKeyKind;
pub use generate::{generate, generate_es256, opaque_key};
pub use jwk::{KeyError, algorithm_of, kid_of, secret_kid, signs, thumbprint};
pub use jwt_secret::{decode_secret, read_jwks};
use ring::Ring;
pub use stored::{
    DEFAULT_NAME, KeyStatus, NewApiKey, SigningKeyInfo, StoredApiKey, StoredKeys, StoredSigningKey,
};

/// Lifetime of legacy keys and of the tokens that opaque keys stand for: realtime requires an `exp`.
const TEN_YEARS: i64 = 10 * 365 * 24 * 60 * 60;

/// The inputs of [`Keys`], which the gateway takes from the configuration and `.basalt/secrets.json`.
#[derive(Clone)]
pub struct KeyMaterial {
    /// JWKs, with private parts where available. The one with `sign` in its `key_ops` signs.
    pub jwks: Vec<Value>,
    /// HS256 secret: verifies legacy keys, and signs if no JWK does.
    pub secret: Option<SecretSlice<u8>>,
    /// `kid` of the secret; `None` derives one (see [`secret_kid`]).
    pub secret_kid: Option<String>,
    /// Whether a token with a `kid` is accepted only by the key of that name (`--only rest`, rest.md §3.15).
    /// Otherwise an HS256 token with an unknown `kid` falls back to the secret (auth.md §3.1).
    pub strict_kid: bool,
    /// Whether signing keys of the database are used. They are not if `jwt.keys` is configured.
    pub rotates: bool,
    /// The project's default API keys.
    pub api_keys: ApiKeys,
}

impl KeyMaterial {
    /// The keys for signatures: the sets of identity providers also contain encryption keys.
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

/// The project's default API keys.
#[derive(Clone, Default)]
pub struct ApiKeys {
    /// Legacy anon JWT; the bearer that a publishable key stands for.
    pub anon: String,
    /// Legacy service_role JWT; the bearer that a secret key stands for.
    pub service: SecretString,
    /// The publishable key, `sb_publishable_…`.
    pub publishable: String,
    /// The secret key, `sb_secret_…`.
    pub secret: SecretString,
}

/// An accepted API key and the caller it represents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The kind of key.
    pub kind: ApiKeyKind,
    /// Whether the key is for servers only: a secret key, or the legacy key of `service_role`.
    pub is_secret: bool,
    /// `Authorization` header for a request without one of its own.
    pub authorization: HeaderValue,
}

/// Why a token was rejected. The services have their own texts (rest.md §3.15, auth.md §3.1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is empty.
    #[error("the token is empty")]
    Empty,
    /// The token does not have three parts; contains their number.
    #[error("expected 3 parts in JWT; got {0}")]
    Parts(usize),
    /// The header is not a base64url-encoded JSON object with an `alg`.
    #[error("the token's header cannot be read")]
    BadHeader,
    /// The token is encrypted.
    #[error("encrypted tokens are not supported")]
    Encrypted,
    /// `alg` is `none` or unsupported.
    #[error("unsupported algorithm {alg}")]
    Unsupported {
        /// The value of `alg`.
        alg: String,
    },
    /// No configured key matches `alg` and `kid`.
    #[error("no key for algorithm {alg}")]
    NoKey {
        /// The value of `alg`.
        alg: String,
        /// The value of `kid`.
        kid: Option<String>,
        /// Whether another key supports this algorithm.
        is_configured: bool,
    },
    /// A key matches, but the signature is wrong.
    #[error("the signature is invalid")]
    BadSignature,
    /// The payload is not a JSON object.
    #[error("the claims are no JSON object")]
    ClaimsNotObject,
    /// An ID token, which tells a client who the user is but gives no access.
    #[error("an ID token is not an access token")]
    IdToken,
}

/// The claim that marks ID tokens, and its value. Access tokens have the same issuer, subject and keys.
pub const ID_TOKEN_USE: (&str, &str) = ("basalt_token_use", "id");

/// Signs and verifies tokens, and recognises API keys.
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
    /// Builds the key ring from the material.
    ///
    /// # Errors
    /// A JWK is unusable, or several are marked for signing.
    pub fn new(material: KeyMaterial) -> Result<Self, KeyError> {
        let ring = Ring::build(&material, &StoredKeys::default(), 0)?;
        Ok(Self { material, ring: ArcSwap::from_pointee(ring) })
    }

    /// Replaces the keys of the database with `stored`, for all requests from now on. `unix_seconds` is the current
    /// time.
    ///
    /// # Errors
    /// A key is unusable; the previous keys stay in force.
    pub fn update(&self, stored: &StoredKeys, unix_seconds: i64) -> Result<(), KeyError> {
        self.ring.store(Arc::new(Ring::build(&self.material, stored, unix_seconds)?));
        Ok(())
    }

    /// Verifies structure, `alg`, `kid` and signature of an access token. Verified tokens are cached by their text.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn verify(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        let claims = self.ring.load().verify(token)?;
        let (name, id) = ID_TOKEN_USE;
        if claims.get_str(name) == Some(id) { Err(TokenError::IdToken) } else { Ok(claims) }
    }

    /// As [`Self::verify`], for ID tokens.
    ///
    /// # Errors
    /// The first check that failed.
    pub fn verify_id_token(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        self.ring.load().verify(token)
    }

    /// The algorithm of the signing key, such as `ES256`; `None` without one.
    #[must_use]
    pub fn signing_algorithm(&self) -> Option<String> {
        self.ring.load().signing_algorithm()
    }

    /// Signs claims with the signing key, whose `kid` goes into the header.
    ///
    /// # Errors
    /// There is no signing key, or the claims cannot be serialised.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        self.ring.load().sign(claims)
    }

    /// Signs claims with the project's HS256 secret, as other tools that know it do for URL tokens (storage.md
    /// §3.12). If there is none, or it was revoked, uses the signing key.
    ///
    /// # Errors
    /// Those of [`Keys::sign`].
    pub fn sign_with_secret(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        self.ring.load().sign_with_secret(claims)
    }

    /// Whether a token with a `kid` is verified only by the key of that name.
    #[must_use]
    pub const fn is_strict(&self) -> bool {
        self.material.strict_kid
    }

    /// Whether any key can verify tokens.
    #[must_use]
    pub fn can_verify(&self) -> bool {
        self.ring.load().can_verify()
    }

    /// The public keys as a JWK set: asymmetric keys only, including those in standby.
    #[must_use]
    pub fn jwks(&self) -> Value {
        self.ring.load().jwks().clone()
    }

    /// The HS256 secret as a JWK with `kid` and `alg`, for functions that verify tokens themselves. Never publish it.
    #[must_use]
    pub fn secret_jwk(&self) -> Option<Value> {
        let (_kid, mut jwk) = self.material.secret_as_jwk().filter(|_| self.ring.load().has_secret())?;
        jwk.as_object_mut()?.insert("alg".to_owned(), "HS256".into());
        Some(jwk)
    }

    /// The current default API keys.
    #[must_use]
    pub fn api_keys(&self) -> Arc<ApiKeys> {
        self.ring.load().defaults()
    }

    /// Updates the gauges of the cache of verified tokens; called before each metrics scrape.
    pub fn report(&self) {
        let (tokens, limit) = self.ring.load().cache_usage();
        metrics::gauge!("basalt_verified_tokens").set(tokens as f64);
        metrics::gauge!("basalt_verified_tokens_limit").set(limit as f64);
    }

    /// The caller that `key` represents, if it is an API key of this project. A legacy key is any valid, unexpired
    /// token with a `role`.
    #[must_use]
    pub fn api_key(&self, key: &str, unix_seconds: i64) -> Option<ApiKey> {
        self.ring.load().api_key(key, unix_seconds)
    }

    /// Ids of database keys used since the last call, with the time of last use in seconds since the Unix epoch.
    #[must_use]
    pub fn take_uses(&self) -> Vec<(Uuid, i64)> {
        self.ring.load().take_uses()
    }
}

/// Creates the legacy API key of `role`: an HS256 token signed with the shared secret, valid for ten years from
/// `issued_at` (seconds since the Unix epoch).
///
/// # Errors
/// The claims cannot be serialised, which does not happen.
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
