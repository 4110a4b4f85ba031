//! Maps the `Authorization` header to a role and claims (storage.md §3.1).

use std::sync::Arc;

use basalt_core::claims::Claims;
use basalt_core::clock::Clock;
use basalt_core::identity::Identity;
use basalt_core::keys::{Keys, TokenError};
use basalt_core::service::ClientAddress;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use uuid::Uuid;

use crate::error::StorageError;

/// The identity a statement runs as.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Database role.
    pub(crate) role: String,
    /// `request.jwt.claims`.
    pub(crate) claims: String,
    /// `sub`, which becomes `owner_id`.
    pub(crate) subject: Option<String>,
    /// The token as received; empty for the server's own steps.
    pub(crate) token: String,
}

impl std::fmt::Debug for Caller {
    /// Never prints claims or token (STYLE 7.6).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("role", &self.role).finish_non_exhaustive()
    }
}

impl Caller {
    /// `service_role`, for steps that bypass policies (storage.md §4.7).
    pub(crate) fn service() -> Self {
        Self {
            role: "service_role".to_owned(),
            claims: r#"{"role":"service_role"}"#.to_owned(),
            subject: None,
            token: String::new(),
        }
    }

    /// `sub` for the column `owner`, if it is a UUID.
    pub(crate) fn owner(&self) -> Option<Uuid> {
        self.subject.as_deref().and_then(|subject| Uuid::parse_str(subject).ok())
    }

    /// Whether policies do not apply to the caller.
    pub(crate) fn is_service(&self) -> bool {
        self.role == "service_role"
    }

    /// Rejects every role except `service_role`.
    ///
    /// # Errors
    /// 403, as for role-restricted routes.
    pub(crate) fn must_be_service(&self) -> Result<(), StorageError> {
        if self.is_service() { Ok(()) } else { Err(StorageError::role_denied()) }
    }

    pub(crate) fn from_claims(claims: &Claims, token: &str) -> Self {
        Self {
            role: claims.role().filter(|role| !role.is_empty()).unwrap_or("anon").to_owned(),
            claims: claims.as_text().to_owned(),
            // PostgreSQL rejects NUL in settings.
            subject: claims.sub().filter(|subject| !subject.contains('\0')).map(str::to_owned),
            token: token.to_owned(),
        }
    }
}

/// Verifies tokens.
#[derive(Debug, Clone)]
pub(crate) struct Callers {
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
}

impl Callers {
    /// The caller of a route that requires a token.
    ///
    /// # Errors
    /// `Authorization` is missing, or the token is invalid.
    pub(crate) fn required(&self, headers: &HeaderMap) -> Result<Caller, StorageError> {
        let token = bearer(headers).ok_or_else(StorageError::no_authorization)?;
        self.for_token(&token)
    }

    /// Like [`Self::required`], for routes that treat a missing header as an empty token: list of buckets,
    /// list v2, health, authenticated renders and TUS.
    ///
    /// # Errors
    /// The token is missing or invalid.
    pub(crate) fn required_token(&self, headers: &HeaderMap) -> Result<Caller, StorageError> {
        self.for_token(&bearer(headers).unwrap_or_default())
    }

    /// The caller of a route that also serves public buckets: an invalid token counts as none.
    pub(crate) fn optional(&self, headers: &HeaderMap) -> Option<Caller> {
        self.for_token(&bearer(headers)?).ok()
    }

    /// Identity used for fair sharing: the token's user, or the client's address.
    pub(crate) fn identity(&self, parts: &Parts) -> Identity {
        let address = parts.extensions.get::<ClientAddress>().map(|address| address.0);
        match self.optional(&parts.headers) {
            Some(caller) => Identity::new(caller.subject.as_deref(), &caller.role, address),
            None => Identity::new(None, "anon", address),
        }
    }

    /// The caller identified by a user's token.
    ///
    /// # Errors
    /// `AccessDenied` with the reason.
    pub(crate) fn for_token(&self, token: &str) -> Result<Caller, StorageError> {
        let claims = self.verify(token).map_err(StorageError::bad_token)?;
        // Tokens of signed URLs use the same secret but identify no caller.
        if claims.get("url").is_some() && claims.get("scope").is_some() {
            return Err(StorageError::bad_token("signature verification failed"));
        }
        Ok(Caller::from_claims(&claims, token))
    }

    /// Verifies signature and time claims, without leeway. Errors have upstream's wording.
    ///
    /// # Errors
    /// Why the token is invalid.
    pub(crate) fn verify(&self, token: &str) -> Result<Arc<Claims>, &'static str> {
        let claims = self.keys.verify(token).map_err(|error| match error {
            TokenError::Empty | TokenError::Parts(_) | TokenError::BadHeader | TokenError::Encrypted => {
                "Invalid Compact JWS"
            }
            TokenError::ClaimsNotObject | TokenError::IdToken => {
                "JWT Claims Set must be a top-level JSON object"
            }
            TokenError::Unsupported { .. } => "\"alg\" (Algorithm) Header Parameter value not allowed",
            TokenError::NoKey { .. } | TokenError::BadSignature => "signature verification failed",
        })?;
        #[expect(clippy::cast_precision_loss, reason = "Unix seconds are exact in an f64")]
        let now = self.clock.now().as_second() as f64;
        match claims.seconds("nbf") {
            Err(_) => return Err("\"nbf\" claim must be a number"),
            Ok(Some(nbf)) if nbf > now => return Err("\"nbf\" claim timestamp check failed"),
            Ok(_) => {}
        }
        match claims.seconds("exp") {
            Err(_) => Err("\"exp\" claim must be a number"),
            Ok(Some(exp)) if exp <= now => Err("\"exp\" claim timestamp check failed"),
            Ok(_) => Ok(claims),
        }
    }
}

/// The header's token, with or without the prefix `Bearer `.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let header = String::from_utf8_lossy(headers.get(AUTHORIZATION)?.as_bytes());
    let header = header.trim();
    let token = match header.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => header,
    };
    Some(token.to_owned())
}

#[cfg(test)]
mod tests {
    use basalt_core::keys::KeyMaterial;
    use http::HeaderValue;
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn callers() -> Callers {
        let material = KeyMaterial {
            jwks: Vec::new(),
            secret: Some(b"a secret of at least thirty-two bytes".to_vec().into()),
            secret_kid: None,
            strict_kid: false,
            rotates: false,
            api_keys: basalt_core::keys::ApiKeys::default(),
        };
        Callers { keys: Arc::new(Keys::new(material).unwrap()), clock: Clock::fixed(NOW) }
    }

    fn with(claims: &Value, prefix: &str) -> (Callers, HeaderMap) {
        let callers = callers();
        let token = callers.keys.sign_with_secret(claims).unwrap();
        let header = HeaderValue::from_str(&format!("{prefix}{token}")).unwrap();
        (callers, HeaderMap::from_iter([(AUTHORIZATION, header)]))
    }

    #[test]
    fn bearer_prefix_is_optional_and_case_insensitive() {
        for prefix in ["Bearer ", "bearer ", "BEARER  ", ""] {
            let (callers, headers) = with(&json!({"sub": "u1", "role": "authenticated"}), prefix);
            let caller = callers.required(&headers).unwrap();
            assert_eq!((caller.role.as_str(), caller.subject.as_deref()), ("authenticated", Some("u1")));
            assert_eq!(caller.owner(), None);
        }
    }

    #[test]
    fn missing_role_means_anon() {
        let (callers, headers) = with(&json!({"sub": "6d9a7b5e-2f0f-4f7e-8f3b-0a3c1b0d4e5f"}), "Bearer ");
        let caller = callers.required(&headers).unwrap();
        assert_eq!((caller.role.as_str(), caller.owner().is_some()), ("anon", true));
    }

    #[test]
    fn errors_use_upstream_wording() {
        let refused = |claims: Value| {
            let (callers, headers) = with(&claims, "Bearer ");
            callers.required(&headers).unwrap_err().message().to_owned()
        };
        assert_eq!(refused(json!({"exp": NOW})), "\"exp\" claim timestamp check failed");
        assert_eq!(refused(json!({"nbf": NOW + 1})), "\"nbf\" claim timestamp check failed");
        assert_eq!(refused(json!({"url": "b/a", "scope": "download"})), "signature verification failed");
        let of = |header: &'static str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(header))]);
            callers().required(&headers).unwrap_err().message().to_owned()
        };
        assert_eq!(of("Bearer sb_publishable_x"), "Invalid Compact JWS");
        assert_eq!(of(""), "Invalid Compact JWS");
        assert_eq!(of("Bearer eyJhbGciOiJIUzI1NiJ9.e30.AAAA"), "signature verification failed");
        let nothing = HeaderMap::new();
        assert_eq!(
            callers().required(&nothing).unwrap_err().message(),
            "headers must have required property 'authorization'"
        );
        assert_eq!(callers().required_token(&nothing).unwrap_err().message(), "Invalid Compact JWS");
        assert!(callers().optional(&nothing).is_none());
    }
}
