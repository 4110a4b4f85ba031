//! Tokens and project keys: one verifier and one signer for all services (DESIGN §12, "Keys and tokens").
//!
//! [`Keys::verify`] answers for signature, `alg` and `kid` only. Time claims are judged by each service on every
//! request, because their leeway differs; a cached verification therefore never outlives its token.

mod jwk;
mod jwt_secret;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use lru::LruCache;
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::claims::Claims;
use crate::random::constant_time_eq;
pub use jwk::{KeyError, generate_es256, secret_kid, thumbprint};

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
    /// Project keys.
    pub api_keys: ApiKeys,
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

/// What an API key stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiKey {
    /// The publishable key: the anon JWT becomes the bearer.
    Publishable,
    /// The secret key: the service_role JWT becomes the bearer.
    Secret,
    /// A legacy key: it is itself a bearer.
    Legacy,
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
    },
    /// A key fits, the signature does not.
    #[error("the signature is invalid")]
    BadSignature,
    /// The payload is no JSON object.
    #[error("the claims are no JSON object")]
    ClaimsNotObject,
}

/// Verified tokens kept: a table of this many entries of at most [`CACHED_TOKEN_BYTES`] each.
const CACHED_TOKENS: NonZeroUsize = match NonZeroUsize::new(1000) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};
const CACHED_TOKEN_BYTES: usize = 4096;

struct VerifyingKey {
    kid: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

struct Signer {
    header: jsonwebtoken::Header,
    key: jsonwebtoken::EncodingKey,
}

/// Signs and verifies tokens and knows the project keys.
pub struct Keys {
    verifying: Vec<VerifyingKey>,
    /// Position of the shared secret in `verifying`.
    secret: Option<usize>,
    signer: Option<Signer>,
    strict_kid: bool,
    jwks: Value,
    api_keys: ApiKeys,
    /// Held for a look-up or an insert only.
    verified: Mutex<LruCache<Box<str>, Arc<Claims>>>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({} verifying)", self.verifying.len())
    }
}

impl Keys {
    /// Reads the material.
    ///
    /// # Errors
    /// A JWK that cannot be used, or several that want to sign.
    pub fn new(material: KeyMaterial) -> Result<Self, KeyError> {
        let mut verifying = Vec::new();
        let mut public = Vec::new();
        let mut signer = None;
        // Sets of identity providers hold keys for encryption too.
        for source in material.jwks.iter().filter(|jwk| jwk.get("use").is_none_or(|usage| usage != "enc")) {
            let key = jwk::read(source)?;
            public.extend(key.public);
            if let Some((header, encoding)) = key.signer
                && signer.replace(Signer { header, key: encoding }).is_some()
            {
                return Err(KeyError::SeveralSigners);
            }
            let is_named = !material.strict_kid || source.get("kid").is_some();
            verifying.push(VerifyingKey {
                kid: is_named.then_some(key.kid),
                algorithms: key.algorithms,
                key: key.decoding,
            });
        }
        let mut secret = None;
        if let Some(text) = &material.secret {
            let bytes = text.expose_secret();
            let kid = material.secret_kid.unwrap_or_else(|| secret_kid(bytes));
            if signer.is_none() {
                let mut header = jsonwebtoken::Header::new(Algorithm::HS256);
                header.kid = Some(kid.clone());
                signer = Some(Signer { header, key: jsonwebtoken::EncodingKey::from_secret(bytes) });
            }
            secret = Some(verifying.len());
            verifying.push(VerifyingKey {
                // Under `--only rest` a plain secret has no name, so that a token with a `kid` does not fit it.
                kid: (!material.strict_kid).then_some(kid),
                algorithms: vec![Algorithm::HS256, Algorithm::HS384, Algorithm::HS512],
                key: DecodingKey::from_secret(bytes),
            });
        }
        Ok(Self {
            verifying,
            secret,
            signer,
            strict_kid: material.strict_kid,
            jwks: json!({ "keys": public }),
            api_keys: material.api_keys,
            verified: Mutex::new(LruCache::new(CACHED_TOKENS)),
        })
    }

    /// Checks shape, `alg`, `kid` and signature. Verified tokens are remembered by their text.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn verify(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        if let Some(claims) = self.verified.lock().unwrap_or_else(PoisonError::into_inner).get(token) {
            return Ok(Arc::clone(claims));
        }
        let claims = Arc::new(self.verify_anew(token)?);
        if token.len() <= CACHED_TOKEN_BYTES {
            self.verified
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .put(token.into(), Arc::clone(&claims));
        }
        Ok(claims)
    }

    fn verify_anew(&self, token: &str) -> Result<Claims, TokenError> {
        if token.is_empty() {
            return Err(TokenError::Empty);
        }
        let parts: Vec<&str> = token.split('.').collect();
        // Encrypted tokens have five parts; what they are says their header.
        let header = parts.first().copied().and_then(decode_object);
        if header.as_ref().is_some_and(|header| header.contains_key("enc")) {
            return Err(TokenError::Encrypted);
        }
        let &[_, payload, signature] = parts.as_slice() else {
            return Err(TokenError::Parts(parts.len()));
        };
        let header = header.ok_or(TokenError::BadHeader)?;
        let alg = header.get("alg").and_then(Value::as_str).ok_or(TokenError::BadHeader)?;
        let algorithm =
            accepted_algorithm(alg).ok_or_else(|| TokenError::Unsupported { alg: alg.to_owned() })?;
        let kid = header.get("kid").and_then(Value::as_str);
        let message_length = token.len() - signature.len() - 1;
        let message = token.as_bytes().get(..message_length).unwrap_or_default();
        let candidates = self.candidates(algorithm, kid);
        if candidates.is_empty() {
            return Err(TokenError::NoKey { alg: alg.to_owned(), kid: kid.map(str::to_owned) });
        }
        let fits = |key: &DecodingKey| {
            jsonwebtoken::crypto::verify(signature, message, key, algorithm).unwrap_or(false)
        };
        if !candidates.into_iter().any(fits) {
            return Err(TokenError::BadSignature);
        }
        URL_SAFE_NO_PAD.decode(payload).ok().and_then(Claims::parse).ok_or(TokenError::ClaimsNotObject)
    }

    fn candidates(&self, algorithm: Algorithm, kid: Option<&str>) -> Vec<&DecodingKey> {
        let usable = |key: &&VerifyingKey| key.algorithms.contains(&algorithm);
        let Some(kid) = kid else {
            return self.verifying.iter().filter(usable).map(|key| &key.key).collect();
        };
        let named: Vec<&DecodingKey> = self
            .verifying
            .iter()
            .filter(usable)
            .filter(|key| key.kid.as_deref() == Some(kid))
            .map(|key| &key.key)
            .collect();
        if !named.is_empty() || self.strict_kid {
            return named;
        }
        let secret = self.secret.and_then(|index| self.verifying.get(index));
        secret.filter(usable).map(|key| &key.key).into_iter().collect()
    }

    /// Signs claims with the signing key; the header carries its `kid`.
    ///
    /// # Errors
    /// There is no signing key, or the claims do not serialise.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        let signer = self.signer.as_ref().ok_or(KeyError::NoSigner)?;
        jsonwebtoken::encode(&signer.header, claims, &signer.key)
            .map_err(|error| KeyError::Sign(error.to_string()))
    }

    /// Whether a token that names a key is verified by that key only.
    #[must_use]
    pub const fn is_strict(&self) -> bool {
        self.strict_kid
    }

    /// True when at least one key can verify tokens.
    #[must_use]
    pub const fn can_verify(&self) -> bool {
        !self.verifying.is_empty()
    }

    /// The public keys as a JWK set: asymmetric ones only.
    #[must_use]
    pub const fn jwks(&self) -> &Value {
        &self.jwks
    }

    /// The project keys.
    #[must_use]
    pub const fn api_keys(&self) -> &ApiKeys {
        &self.api_keys
    }

    /// What `key` stands for, if it is a key of this project. A legacy key is any unexpired token with a `role`
    /// that the verifier accepts.
    #[must_use]
    pub fn api_key(&self, key: &str, unix_seconds: i64) -> Option<ApiKey> {
        let equals = |ours: &str| !ours.is_empty() && constant_time_eq(ours.as_bytes(), key.as_bytes());
        if equals(&self.api_keys.publishable) {
            return Some(ApiKey::Publishable);
        }
        if equals(self.api_keys.secret.expose_secret()) {
            return Some(ApiKey::Secret);
        }
        let claims = self.verify(key).ok()?;
        claims.role()?;
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in an f64")]
        let expired = claims.seconds("exp").ok()?.is_some_and(|exp| exp <= unix_seconds as f64);
        (!expired).then_some(ApiKey::Legacy)
    }

    /// The bearer token that an API key of this kind stands for; `key` itself when it is a legacy one.
    #[must_use]
    pub fn bearer_of<'a>(&'a self, kind: &ApiKey, key: &'a str) -> &'a str {
        match kind {
            ApiKey::Publishable => &self.api_keys.anon,
            ApiKey::Secret => self.api_keys.service.expose_secret(),
            ApiKey::Legacy => key,
        }
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
    const TEN_YEARS: i64 = 10 * 365 * 24 * 60 * 60;
    let bytes = secret.expose_secret();
    let mut header = jsonwebtoken::Header::new(Algorithm::HS256);
    header.kid = Some(kid.map_or_else(|| secret_kid(bytes), str::to_owned));
    let claims = json!({ "iss": "supabase", "role": role, "iat": issued_at, "exp": issued_at + TEN_YEARS });
    jsonwebtoken::encode(&header, &claims, &jsonwebtoken::EncodingKey::from_secret(bytes))
        .map_err(|error| KeyError::Sign(error.to_string()))
}

/// HS/RS 256, 384, 512, ES256, ES384 and Ed25519 (DESIGN §12, "one verifier").
fn accepted_algorithm(name: &str) -> Option<Algorithm> {
    const ACCEPTED: [(&str, Algorithm); 9] = [
        ("HS256", Algorithm::HS256),
        ("HS384", Algorithm::HS384),
        ("HS512", Algorithm::HS512),
        ("RS256", Algorithm::RS256),
        ("RS384", Algorithm::RS384),
        ("RS512", Algorithm::RS512),
        ("ES256", Algorithm::ES256),
        ("ES384", Algorithm::ES384),
        ("EdDSA", Algorithm::EdDSA),
    ];
    ACCEPTED.iter().find(|(accepted, _)| *accepted == name).map(|(_, algorithm)| *algorithm)
}

fn decode_object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// Header names of a token, read without any check; for messages only.
#[must_use]
pub fn peek_header(token: &str) -> HashMap<String, Value> {
    token.split('.').next().and_then(decode_object).map(|map| map.into_iter().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
