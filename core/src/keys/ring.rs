//! The keys in force at one moment: which keys verify, which one signs, which API keys are accepted. Every change
//! builds a new ring with an empty token cache, so that no token signed by a revoked key survives in it.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use jsonwebtoken::{Algorithm, DecodingKey};
use lru::LruCache;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::api_key_kind::ApiKeyKind;
use super::jwk::{self, KeyError};
use super::stored::{DEFAULT_NAME, KeyStatus, StoredApiKey, StoredKeys, StoredSigningKey, key_hash};
use super::{ApiKey, ApiKeys, KeyMaterial, TEN_YEARS, TokenError};
use crate::claims::Claims;
use crate::random::constant_time_eq;

/// Capacity of the cache of verified tokens, each of at most [`CACHED_TOKEN_BYTES`].
const CACHED_TOKENS: NonZeroUsize = match NonZeroUsize::new(1000) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};
const CACHED_TOKEN_BYTES: usize = 4096;
/// No API key is longer; longer ones are not hashed.
const LONGEST_API_KEY: usize = 256;

struct VerifyingKey {
    kid: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

struct Signer {
    header: jsonwebtoken::Header,
    key: jsonwebtoken::EncodingKey,
}

impl Signer {
    fn sign(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        jsonwebtoken::encode(&self.header, claims, &self.key)
            .map_err(|error| KeyError::Sign(error.to_string()))
    }
}

/// An accepted API key.
struct KnownKey {
    /// `None` for a configured key, whose use is not recorded.
    id: Option<Uuid>,
    kind: ApiKeyKind,
    /// `Bearer ` and the token that the key stands for.
    authorization: HeaderValue,
    /// Seconds since the Unix epoch.
    expires_at: Option<i64>,
    /// Time of the last use, in seconds since the Unix epoch; 0 if unused since [`Ring::take_uses`].
    last_used: AtomicI64,
}

pub(super) struct Ring {
    verifying: Vec<VerifyingKey>,
    /// Index of the shared secret in `verifying`.
    secret: Option<usize>,
    signer: Option<Signer>,
    /// Signs with the shared secret, unless it is revoked.
    secret_signer: Option<Signer>,
    strict_kid: bool,
    jwks: Value,
    /// API keys by SHA-256 digest: look-ups may leak timing about a digest, but an attacker cannot choose digests.
    known: HashMap<Vec<u8>, Arc<KnownKey>>,
    /// The default keys, which most requests use: comparing is cheaper than hashing.
    usual: Vec<(SecretString, Arc<KnownKey>)>,
    defaults: Arc<ApiKeys>,
    /// Locked for a single look-up or insertion.
    verified: Mutex<LruCache<Box<str>, Arc<Claims>>>,
}

impl Ring {
    /// Builds a ring. `now` (seconds since the Unix epoch) is the issue time of tokens created for API keys.
    pub(super) fn build(material: &KeyMaterial, stored: &StoredKeys, now: i64) -> Result<Self, KeyError> {
        let mut ring = Self {
            verifying: Vec::new(),
            secret: None,
            signer: None,
            secret_signer: None,
            strict_kid: material.strict_kid,
            jwks: Value::Null,
            known: HashMap::new(),
            usual: Vec::new(),
            defaults: Arc::default(),
            verified: Mutex::new(LruCache::new(CACHED_TOKENS)),
        };
        ring.add_signing_keys(material, if material.rotates { &stored.signing } else { &[] })?;
        ring.add_api_keys(material, &stored.api, now)?;
        Ok(ring)
    }

    /// Adds the signing keys. A row's status overrides the key's `key_ops`; if a row is in use, no other key signs.
    fn add_signing_keys(
        &mut self,
        material: &KeyMaterial,
        rows: &[StoredSigningKey],
    ) -> Result<(), KeyError> {
        let status = |kid: &str| rows.iter().find(|row| row.kid == kid).map(|row| row.status);
        // A row that cannot be unsealed replaces nothing: some key must be able to sign.
        let is_replaced = rows.iter().any(|row| row.status == KeyStatus::InUse && row.jwk.is_some());
        let mut public = Vec::new();
        let mut own = Vec::new();
        for source in material.signing_jwks() {
            let kid = jwk::kid_of(source)?;
            let signs = match status(&kid) {
                Some(KeyStatus::Revoked) => continue,
                Some(KeyStatus::InUse) => true,
                _ => jwk::signs(source) && !is_replaced,
            };
            let is_named = !material.strict_kid || source.get("kid").is_some();
            own.push(kid);
            public.extend(self.add(source, is_named, signs)?);
        }
        if let Some((kid, secret)) = material.secret_as_jwk() {
            own.push(kid.clone());
            let status = status(&kid);
            if status != Some(KeyStatus::Revoked) {
                let signs = status == Some(KeyStatus::InUse) || self.signer.is_none() && !is_replaced;
                self.secret = Some(self.verifying.len());
                self.secret_signer = material.secret.as_ref().map(|secret| Signer {
                    header: jsonwebtoken::Header {
                        typ: None,
                        kid: Some(kid),
                        ..jsonwebtoken::Header::new(Algorithm::HS256)
                    },
                    key: jsonwebtoken::EncodingKey::from_secret(secret.expose_secret()),
                });
                // Under `--only rest` a plain secret has no `kid`, so that it does not match a token with one.
                self.add(&secret, !material.strict_kid, signs)?;
            }
        }
        let others = rows.iter().filter(|row| row.status != KeyStatus::Revoked && !own.contains(&row.kid));
        for row in others {
            match &row.jwk {
                Some(source) => public.extend(self.add(source, true, row.status == KeyStatus::InUse)?),
                None => tracing::warn!(
                    kid = row.kid,
                    "ignoring a signing key of the database: it was sealed with another server.master_key"
                ),
            }
        }
        self.jwks = json!({ "keys": public });
        Ok(())
    }

    /// Adds one key; returns its public part if it may be published.
    fn add(&mut self, source: &Value, is_named: bool, signs: bool) -> Result<Option<Value>, KeyError> {
        let key = jwk::read(source, signs)?;
        if let Some((header, key)) = key.signer
            && self.signer.replace(Signer { header, key }).is_some()
        {
            return Err(KeyError::SeveralSigners);
        }
        self.verifying.push(VerifyingKey {
            kid: is_named.then_some(key.kid),
            algorithms: key.algorithms,
            key: key.decoding,
        });
        Ok(key.public)
    }

    fn add_api_keys(
        &mut self,
        material: &KeyMaterial,
        rows: &[StoredApiKey],
        now: i64,
    ) -> Result<(), KeyError> {
        let own = &material.api_keys;
        let mut bearers = HashMap::from([
            ("anon".to_owned(), self.bearer_or_new("anon", &own.anon, now)?),
            (
                "service_role".to_owned(),
                self.bearer_or_new("service_role", own.service.expose_secret(), now)?,
            ),
        ]);
        for (kind, key) in [
            (ApiKeyKind::Publishable, own.publishable.as_str()),
            (ApiKeyKind::Secret, own.secret.expose_secret()),
        ] {
            if let (false, Some(bearer)) = (key.is_empty(), bearers.get(kind.role())) {
                let known = KnownKey::new(None, kind, bearer, None)?;
                self.known.insert(key_hash(key), Arc::new(known));
            }
        }
        for row in rows {
            if row.revoked_at.is_some() {
                self.known.remove(&row.hash);
                continue;
            }
            if !bearers.contains_key(&row.role) {
                bearers.insert(row.role.clone(), self.new_bearer(&row.role, now)?);
            }
            if let Some(bearer) = bearers.get(&row.role) {
                let expires_at = row.expires_at.map(jiff::Timestamp::as_second);
                let known = KnownKey::new(Some(row.id), row.kind, bearer, expires_at)?;
                self.known.insert(row.hash.clone(), Arc::new(known));
            }
        }
        let default_of = |kind: ApiKeyKind, own: &str| {
            // A key with an expiry date has been replaced.
            if self.known.get(&key_hash(own)).is_some_and(|known| known.expires_at.is_none()) {
                return own.to_owned();
            }
            newest_default(rows, kind, now).unwrap_or_default()
        };
        let publishable = default_of(ApiKeyKind::Publishable, &own.publishable);
        let secret = default_of(ApiKeyKind::Secret, own.secret.expose_secret());
        for key in [&publishable, &secret] {
            if let Some(known) = self.known.get(&key_hash(key)) {
                self.usual.push((SecretString::from(key.as_str()), Arc::clone(known)));
            }
        }
        self.defaults = Arc::new(ApiKeys { publishable, secret: secret.into(), ..own.clone() });
        Ok(())
    }

    /// The legacy key of a role while it is valid; else a new token, since the secret may have been revoked.
    fn bearer_or_new(&self, role: &str, legacy: &str, now: i64) -> Result<String, KeyError> {
        // Until the database has been read, the configured key is used.
        if legacy.is_empty() || now == 0 || self.verify(legacy).is_ok() {
            return Ok(legacy.to_owned());
        }
        self.new_bearer(role, now)
    }

    fn new_bearer(&self, role: &str, now: i64) -> Result<String, KeyError> {
        self.sign(&json!({ "iss": "supabase", "role": role, "iat": now, "exp": now + TEN_YEARS }))
    }

    /// The number of cached tokens, and the capacity of the cache.
    pub(super) fn cache_usage(&self) -> (usize, usize) {
        let verified = self.verified.lock();
        (verified.len(), verified.cap().get())
    }

    pub(super) fn verify(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        if let Some(claims) = self.verified.lock().get(token) {
            return Ok(Arc::clone(claims));
        }
        let claims = Arc::new(self.verify_uncached(token)?);
        if token.len() <= CACHED_TOKEN_BYTES {
            self.verified.lock().put(token.into(), Arc::clone(&claims));
        }
        Ok(claims)
    }

    fn verify_uncached(&self, token: &str) -> Result<Claims, TokenError> {
        if token.is_empty() {
            return Err(TokenError::Empty);
        }
        let parts: Vec<&str> = token.split('.').collect();
        // Encrypted tokens have five parts, but are recognised by their header.
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
            jwk::accepted_algorithm(alg).ok_or_else(|| TokenError::Unsupported { alg: alg.to_owned() })?;
        let kid = header.get("kid").and_then(Value::as_str);
        let message_length = token.len() - signature.len() - 1;
        let message = token.as_bytes().get(..message_length).unwrap_or_default();
        let candidates = self.candidates(algorithm, kid);
        if candidates.is_empty() {
            let is_configured = self.verifying.iter().any(|key| key.algorithms.contains(&algorithm));
            return Err(TokenError::NoKey {
                alg: alg.to_owned(),
                kid: kid.map(str::to_owned),
                is_configured,
            });
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

    pub(super) fn sign(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        self.signer.as_ref().ok_or(KeyError::NoSigner)?.sign(claims)
    }

    pub(super) fn signing_algorithm(&self) -> Option<String> {
        self.signer.as_ref().map(|signer| format!("{:?}", signer.header.alg))
    }

    pub(super) fn sign_with_secret(&self, claims: &impl Serialize) -> Result<String, KeyError> {
        self.secret_signer.as_ref().or(self.signer.as_ref()).ok_or(KeyError::NoSigner)?.sign(claims)
    }

    pub(super) const fn can_verify(&self) -> bool {
        !self.verifying.is_empty()
    }

    pub(super) const fn jwks(&self) -> &Value {
        &self.jwks
    }

    /// Whether the shared secret verifies tokens: it may not exist, or be revoked.
    pub(super) const fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    pub(super) fn defaults(&self) -> Arc<ApiKeys> {
        Arc::clone(&self.defaults)
    }

    /// Resolves an opaque or legacy key; see [`super::Keys::api_key`].
    pub(super) fn api_key(&self, key: &str, now: i64) -> Option<ApiKey> {
        // All opaque keys start with this; no token does.
        if key.starts_with("sb_") {
            let known = self.opaque_key(key).filter(|known| known.is_valid_at(now))?;
            known.last_used.store(now, Ordering::Relaxed);
            let is_secret = known.kind == ApiKeyKind::Secret;
            return Some(ApiKey { kind: known.kind, is_secret, authorization: known.authorization.clone() });
        }
        let claims = self.verify(key).ok()?;
        // A user whose account has that role is a person, who may be using a browser.
        let is_secret = claims.role()? == ApiKeyKind::Secret.role() && claims.sub().is_none();
        #[expect(clippy::cast_precision_loss, reason = "Unix times are exact in an f64")]
        let expired = claims.seconds("exp").ok()?.is_some_and(|exp| exp <= now as f64);
        let authorization = authorization(key).ok()?;
        (!expired).then_some(ApiKey { kind: ApiKeyKind::Legacy, is_secret, authorization })
    }

    fn opaque_key(&self, key: &str) -> Option<&KnownKey> {
        let is = |usual: &&(SecretString, Arc<KnownKey>)| {
            constant_time_eq(usual.0.expose_secret().as_bytes(), key.as_bytes())
        };
        if let Some((_, known)) = self.usual.iter().find(is) {
            return Some(known);
        }
        (key.len() <= LONGEST_API_KEY).then(|| self.known.get(&key_hash(key))).flatten().map(Arc::as_ref)
    }

    /// Ids of database keys used since the last call, with the time of last use in seconds since the Unix epoch.
    pub(super) fn take_uses(&self) -> Vec<(Uuid, i64)> {
        let used = |known: &Arc<KnownKey>| Some((known.id?, known.last_used.swap(0, Ordering::Relaxed)));
        self.known.values().filter_map(used).filter(|(_, at)| *at > 0).collect()
    }
}

impl KnownKey {
    fn new(
        id: Option<Uuid>,
        kind: ApiKeyKind,
        bearer: &str,
        expires_at: Option<i64>,
    ) -> Result<Self, KeyError> {
        let authorization = authorization(bearer)?;
        Ok(Self { id, kind, authorization, expires_at, last_used: AtomicI64::new(0) })
    }

    fn is_valid_at(&self, now: i64) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
    }
}

fn authorization(bearer: &str) -> Result<HeaderValue, KeyError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {bearer}")).map_err(|_invalid| {
        KeyError::Invalid("a bearer token contains characters that are invalid in a header".to_owned())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The replacement for a revoked default key: the newest key of that name, else the newest of its kind and role.
fn newest_default(rows: &[StoredApiKey], kind: ApiKeyKind, now: i64) -> Option<String> {
    let usable = |row: &&StoredApiKey| {
        row.kind == kind
            && row.role == kind.role()
            && row.revoked_at.is_none()
            && row.expires_at.is_none_or(|expires_at| now < expires_at.as_second())
    };
    let newest = rows
        .iter()
        .filter(usable)
        .max_by_key(|row| (row.name == DEFAULT_NAME, row.expires_at.is_none(), row.created_at))?;
    newest.key.as_ref().map(|key| key.expose_secret().to_owned())
}

fn decode_object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}
