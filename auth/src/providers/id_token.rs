//! ID tokens of OpenID Connect: discovery, keys, and verification of signature, issuer, audience, times and nonce.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::claims::Claims;
use basalt_core::http_client::HttpClient;
use basalt_core::keys::{ApiKeys, KeyMaterial, Keys};
use basalt_core::random;
use http::HeaderMap;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use crate::error::AuthError;

/// How long discovery documents and keys are used.
const TTL: Duration = Duration::from_secs(3600);
/// Least time between two fetches of one issuer, so that tokens with unknown keys cannot cause a flood.
const LEAST_AGE: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(5);
const DOCUMENT_BYTES: usize = 256 * 1024;
/// Tolerance for the provider's clock, in seconds.
const LEEWAY: f64 = 30.0;

/// The issuer of ID tokens.
#[derive(Debug, Clone)]
pub(super) struct Issuer {
    /// Its URL; `/.well-known/openid-configuration` is below it.
    pub(super) url: String,
    /// Whether the document's `issuer` has `{tenantid}` in place of the token's `tid`, as Azure's has.
    pub(super) is_template: bool,
    /// Where its discovery document is, if not below its URL.
    pub(super) discovery_url: Option<String>,
}

impl Issuer {
    fn document_url(&self) -> String {
        let below = || format!("{}/.well-known/openid-configuration", self.url);
        self.discovery_url.clone().unwrap_or_else(below)
    }
}

/// The relevant part of a discovery document.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Discovery {
    issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    jwks_uri: String,
    pub(super) userinfo_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl Discovery {
    /// Whether clients can send their secret in the form. HTTP basic authentication is the default of OpenID Connect.
    pub(super) fn accepts_secret_in_form(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        methods.iter().any(|method| method == "client_secret_post")
    }
}

/// What the token's `nonce` must be.
pub(crate) enum NonceCheck {
    Skip,
    /// This one, if there is any: some providers omit it in the code flow.
    IfPresent(String),
    /// This one; none if there is none.
    Hashed(Option<String>),
}

struct Known {
    fetched_at: Instant,
    discovery: Arc<Discovery>,
    keys: Arc<Keys>,
}

/// Discovery documents and keys by issuer. Bounded by the number of configured providers.
#[derive(Default)]
pub(super) struct Issuers {
    /// Never held across an await.
    known: Mutex<HashMap<String, Known>>,
}

impl Issuers {
    /// The discovery document of an issuer.
    pub(super) async fn discover(
        &self,
        client: &HttpClient,
        issuer: Issuer,
    ) -> Result<Arc<Discovery>, AuthError> {
        Ok(self.load(client, &issuer, TTL).await?.0)
    }

    /// Verifies an ID token and returns its claims. `now` is in seconds since 1970.
    pub(super) async fn verify(
        &self,
        client: &HttpClient,
        issuer: Issuer,
        token: &str,
        clients: &[String],
        nonce: NonceCheck,
        now: i64,
    ) -> Result<Value, AuthError> {
        const BAD: AuthError = AuthError::InvalidRequest("Bad ID token");
        let (mut discovery, keys) = self.load(client, &issuer, TTL).await?;
        let claims = match keys.verify_id_token(token) {
            Ok(claims) => claims,
            Err(_error) => {
                // The issuer may have new keys.
                let (newer, keys) = self.load(client, &issuer, LEAST_AGE).await?;
                discovery = newer;
                keys.verify_id_token(token).map_err(|_error| BAD)?
            }
        };
        check_issuer(&discovery, &issuer, &claims)?;
        check_times(&claims, now)?;
        check_audience(&claims, clients)?;
        check_nonce(claims.get_str("nonce").filter(|nonce| !nonce.is_empty()), &nonce)?;
        serde_json::from_str(claims.as_text()).map_err(|_error| BAD)
    }

    /// Fetches the discovery document and the keys again, and returns the document.
    pub(super) async fn refresh(&self, client: &HttpClient, issuer: &Issuer) -> Result<Value, AuthError> {
        self.load(client, issuer, Duration::ZERO).await?;
        fetch(client, issuer, &issuer.document_url()).await
    }

    async fn load(
        &self,
        client: &HttpClient,
        issuer: &Issuer,
        max_age: Duration,
    ) -> Result<(Arc<Discovery>, Arc<Keys>), AuthError> {
        if let Some(known) = self.known.lock().get(&issuer.document_url())
            && known.fetched_at.elapsed() < max_age
        {
            return Ok((Arc::clone(&known.discovery), Arc::clone(&known.keys)));
        }
        let discovery: Discovery = fetch(client, issuer, &issuer.document_url()).await?;
        if !issuer.is_template && discovery.issuer.trim_end_matches('/') != issuer.url {
            return Err(failed(issuer, "its discovery document names another issuer"));
        }
        let set: Value = fetch(client, issuer, &discovery.jwks_uri).await?;
        let jwks = set.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
        let is_asymmetric =
            |jwk: &Value| matches!(jwk.get("kty").and_then(Value::as_str), Some("RSA" | "EC"));
        let material = KeyMaterial {
            jwks: jwks.into_iter().filter(is_asymmetric).collect(),
            secret: None,
            secret_kid: None,
            strict_kid: true,
            rotates: false,
            api_keys: ApiKeys::default(),
        };
        let keys = Keys::new(material).map_err(|error| failed(issuer, &error.to_string()))?;
        let known =
            Known { fetched_at: Instant::now(), discovery: Arc::new(discovery), keys: Arc::new(keys) };
        let found = (Arc::clone(&known.discovery), Arc::clone(&known.keys));
        self.known.lock().insert(issuer.document_url(), known);
        Ok(found)
    }
}

async fn fetch<T: serde::de::DeserializeOwned>(
    client: &HttpClient,
    issuer: &Issuer,
    url: &str,
) -> Result<T, AuthError> {
    let url = Url::parse(url).map_err(|error| failed(issuer, &error.to_string()))?;
    let answer = client.get(&url, HeaderMap::new(), DOCUMENT_BYTES, Instant::now() + TIMEOUT).await;
    let answer = answer.map_err(|error| failed(issuer, &error.to_string()))?;
    if !answer.status.is_success() {
        return Err(failed(issuer, &format!("{} responded with {}", url.path(), answer.status)));
    }
    serde_json::from_slice(&answer.body).map_err(|error| failed(issuer, &format!("{}: {error}", url.path())))
}

fn failed(issuer: &Issuer, reason: &str) -> AuthError {
    AuthError::ProviderFailed { provider: issuer.url.clone(), reason: reason.to_owned() }
}

fn check_issuer(discovery: &Discovery, issuer: &Issuer, claims: &Claims) -> Result<(), AuthError> {
    let tenant = claims.get_str("tid").unwrap_or_default();
    let expected = if issuer.is_template {
        discovery.issuer.replace("{tenantid}", tenant)
    } else {
        discovery.issuer.clone()
    };
    // Google's older tokens omit the scheme.
    let is_issuer = claims.get_str("iss").is_some_and(|iss| {
        iss == expected || (expected == "https://accounts.google.com" && iss == "accounts.google.com")
    });
    if is_issuer { Ok(()) } else { Err(AuthError::InvalidRequest("Bad ID token")) }
}

/// `exp` is required; `nbf` and `iat` must not lie in the future.
fn check_times(claims: &Claims, now: i64) -> Result<(), AuthError> {
    const BAD: AuthError = AuthError::InvalidRequest("Bad ID token");
    let seconds = |name: &str| claims.seconds(name).map_err(|_error| BAD);
    let now = now as f64;
    let is_expired = seconds("exp")?.is_none_or(|exp| exp + LEEWAY <= now);
    let is_future = |time: Option<f64>| time.is_some_and(|time| time - LEEWAY > now);
    if is_expired || is_future(seconds("nbf")?) || is_future(seconds("iat")?) { Err(BAD) } else { Ok(()) }
}

/// One of the audiences must be ours; with several, the token must have been issued to us.
fn check_audience(claims: &Claims, clients: &[String]) -> Result<(), AuthError> {
    let is_ours = |audience: &str| clients.iter().any(|client| client == audience);
    let audiences: Vec<&str> = match claims.get("aud") {
        Some(Value::String(audience)) => vec![audience],
        Some(Value::Array(audiences)) => audiences.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    };
    let is_issued_to_us = audiences.len() < 2 || claims.get_str("azp").is_none_or(is_ours);
    if audiences.iter().any(|audience| is_ours(audience)) && is_issued_to_us {
        return Ok(());
    }
    Err(AuthError::UnacceptableAudience(audiences.join(" ")))
}

fn check_nonce(nonce: Option<&str>, check: &NonceCheck) -> Result<(), AuthError> {
    let expected = match (check, nonce) {
        (NonceCheck::Skip, _) | (NonceCheck::IfPresent(_) | NonceCheck::Hashed(None), None) => return Ok(()),
        (NonceCheck::IfPresent(expected) | NonceCheck::Hashed(Some(expected)), Some(nonce)) => {
            (expected, nonce)
        }
        (NonceCheck::Hashed(_), _) => {
            return Err(AuthError::InvalidRequest(
                "Passed nonce and nonce in id_token should either both exist or not.",
            ));
        }
    };
    let (expected, nonce) = expected;
    if random::constant_time_eq(expected.as_bytes(), nonce.as_bytes()) {
        Ok(())
    } else {
        Err(AuthError::NonceMismatch)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        let Value::Object(claims) = value else { unreachable!() };
        Claims::new(claims)
    }

    #[test]
    fn audience_must_be_a_client() {
        let clients = ["web".to_owned(), "ios".to_owned()];
        let check = |value: Value| check_audience(&claims(value), &clients).is_ok();
        assert!(check(json!({ "aud": "ios" })));
        assert!(check(json!({ "aud": ["other", "web"], "azp": "web" })));
        assert!(!check(json!({ "aud": ["other", "web"], "azp": "other" })));
        assert!(!check(json!({ "aud": "other" })));
        assert!(!check(json!({})));
    }

    #[test]
    fn expiry_is_required() {
        let check = |value: Value| check_times(&claims(value), 1000).is_ok();
        assert!(check(json!({ "exp": 1001 })));
        assert!(check(json!({ "exp": 990, "iat": 1020 })));
        assert!(!check(json!({ "exp": 900 })));
        assert!(!check(json!({})));
        assert!(!check(json!({ "exp": 2000, "nbf": 1100 })));
    }

    #[test]
    fn issuer_of_a_tenant_must_match_its_tid() {
        let discovery = Discovery {
            issuer: "https://login.test/{tenantid}/v2.0".to_owned(),
            authorization_endpoint: String::new(),
            token_endpoint: String::new(),
            jwks_uri: String::new(),
            userinfo_endpoint: None,
            token_endpoint_auth_methods_supported: None,
        };
        let issuer = Issuer {
            url: "https://login.test/common/v2.0".to_owned(),
            is_template: true,
            discovery_url: None,
        };
        let check = |value: Value| check_issuer(&discovery, &issuer, &claims(value)).is_ok();
        assert!(check(json!({ "iss": "https://login.test/9f/v2.0", "tid": "9f" })));
        assert!(!check(json!({ "iss": "https://login.test/9f/v2.0", "tid": "aa" })));
        assert!(!check(json!({ "iss": "https://evil.test/9f/v2.0", "tid": "9f" })));
    }

    #[test]
    fn nonce_must_match_or_be_absent_on_both_sides() {
        let hashed = |nonce: Option<&str>| NonceCheck::Hashed(nonce.map(str::to_owned));
        assert!(check_nonce(None, &hashed(None)).is_ok());
        assert!(check_nonce(Some("a"), &hashed(Some("a"))).is_ok());
        assert!(check_nonce(Some("a"), &hashed(Some("b"))).is_err());
        assert!(check_nonce(Some("a"), &hashed(None)).is_err());
        assert!(check_nonce(None, &hashed(Some("a"))).is_err());
        assert!(check_nonce(None, &NonceCheck::IfPresent("a".to_owned())).is_ok());
        assert!(check_nonce(Some("b"), &NonceCheck::IfPresent("a".to_owned())).is_err());
        assert!(check_nonce(Some("b"), &NonceCheck::Skip).is_ok());
    }
}
