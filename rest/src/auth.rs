//! Derives role and claims from the bearer token (rest.md §3.15). Runs before any other check of a request.
//!
//! `core::keys` verifies the signature and decodes the token; time claims, audience and role are checked here on
//! every request, whether or not the token was cached. Whether the role exists and may be assumed is decided by
//! PostgreSQL inside the transaction.

use std::borrow::Cow;

use basalt_core::claims::Claims;
use basalt_core::keys::{Keys, TokenError};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use crate::config::RestConfig;

/// Tolerated clock difference.
const LEEWAY_SECONDS: f64 = 30.0;

/// Reason why a token was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The request has no token, and anonymous access is disabled (PGRST302).
    #[error("anonymous access is disabled")]
    AnonymousDisabled,
    /// No key is configured to verify tokens (PGRST300).
    #[error("no JWT secret configured")]
    NoSecret,
    /// The token is malformed or its signature is invalid (PGRST301).
    #[error("{message}")]
    Token {
        /// Message of the error body.
        message: String,
        /// Details of the error body.
        details: Option<String>,
    },
    /// A claim is invalid (PGRST303).
    #[error("{0}")]
    Claims(String),
}

/// Role and claims that a request runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Database role.
    pub role: String,
    /// Value of `request.jwt.claims`: all claims, with `role` set to the effective role.
    pub claims: String,
    /// Claim `sub`, if it is a string.
    pub subject: Option<String>,
    /// Whether the role is the anonymous one, with or without a token.
    pub is_anonymous: bool,
}

/// Authenticates a request by its `Authorization` header.
///
/// # Errors
/// The first check that fails, in the order of the contract.
pub fn authenticate(
    headers: &HeaderMap,
    keys: &Keys,
    config: &RestConfig,
    unix_seconds: i64,
) -> Result<Caller, AuthError> {
    let Some(token) = bearer(headers) else {
        return caller(None, config);
    };
    if token.is_empty() {
        return Err(token_error(TokenError::Empty));
    }
    if !keys.can_verify() {
        return Err(AuthError::NoSecret);
    }
    let claims = keys.verify(&token).map_err(token_error)?;
    check_claims(&claims, config, unix_seconds)?;
    caller(Some(&claims), config)
}

/// Token of a `Bearer` header; `None` for other schemes. A header that is not UTF-8 yields a token whose signature
/// cannot be valid.
fn bearer(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let header = headers.get(AUTHORIZATION)?.as_bytes();
    let end = header.iter().position(u8::is_ascii_whitespace).unwrap_or(header.len());
    let (scheme, token) = header.split_at_checked(end)?;
    let token = token.trim_ascii();
    // A valid token is UTF-8, and checking that is faster than a lossy conversion.
    let text = || std::str::from_utf8(token).map_or_else(|_| String::from_utf8_lossy(token), Cow::Borrowed);
    scheme.eq_ignore_ascii_case(b"bearer").then(text)
}

fn caller(claims: Option<&Claims>, config: &RestConfig) -> Result<Caller, AuthError> {
    let claimed = claims.and_then(|claims| config.role_claim.role(claims.as_map()));
    let anonymous = || config.anon_role.as_deref().map(Cow::Borrowed);
    let role = claimed.or_else(anonymous).ok_or(AuthError::AnonymousDisabled)?.into_owned();
    let subject = claims.and_then(Claims::sub).map(str::to_owned);
    let claims = match claims {
        // No claim to add: pass the signed text on.
        Some(claims) if claims.role() == Some(&role) => claims.as_text().to_owned(),
        Some(claims) => {
            let mut shown = claims.as_map().clone();
            shown.insert("role".to_owned(), Value::String(role.clone()));
            Value::Object(shown).to_string()
        }
        None => json!({ "role": role }).to_string(),
    };
    Ok(Caller { is_anonymous: config.anon_role.as_deref() == Some(&role), role, claims, subject })
}

fn token_error(error: TokenError) -> AuthError {
    let (message, details) = match error {
        TokenError::Empty => ("Empty JWT is sent in Authorization header".to_owned(), None),
        TokenError::Parts(count) => (format!("Expected 3 parts in JWT; got {count}"), None),
        TokenError::BadHeader => ("JWT cryptographic operation failed".to_owned(), None),
        TokenError::Encrypted => ("Unsupported token type".to_owned(), None),
        TokenError::Unsupported { alg } => {
            let details = if alg == "none" {
                "JWT is unsecured but expected 'alg' was not 'none'".to_owned()
            } else {
                format!("The algorithm '{alg}' is not supported")
            };
            ("Wrong or unsupported encoding algorithm".to_owned(), Some(details))
        }
        TokenError::NoKey { .. } | TokenError::BadSignature => (
            "No suitable key or wrong key type".to_owned(),
            Some("None of the keys was able to decode the JWT".to_owned()),
        ),
        TokenError::ClaimsNotObject | TokenError::IdToken => {
            return AuthError::Claims("Parsing claims failed".to_owned());
        }
    };
    AuthError::Token { message, details }
}

/// Checks exp, nbf, iat and aud, in this order.
fn check_claims(claims: &Claims, config: &RestConfig, unix_seconds: i64) -> Result<(), AuthError> {
    let wrong = |message: &str| Err(AuthError::Claims(message.to_owned()));
    let seconds = |name: &str| match claims.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_f64()
            .map(Some)
            .ok_or_else(|| AuthError::Claims(format!("The JWT '{name}' claim must be a number"))),
    };
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in an f64")]
    let now = unix_seconds as f64;
    if seconds("exp")?.is_some_and(|exp| exp < now - LEEWAY_SECONDS) {
        return wrong("JWT expired");
    }
    if seconds("nbf")?.is_some_and(|nbf| nbf > now + LEEWAY_SECONDS) {
        return wrong("JWT not yet valid");
    }
    if seconds("iat")?.is_some_and(|iat| iat > now + LEEWAY_SECONDS) {
        return wrong("JWT issued at future");
    }
    let audiences = match claims.get("aud") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(many)) if many.iter().all(Value::is_string) => {
            many.iter().filter_map(Value::as_str).collect()
        }
        Some(_) => return wrong("The JWT 'aud' claim must be a string or an array of strings"),
    };
    match &config.jwt_aud {
        Some(expected) if !audiences.is_empty() && !audiences.contains(&expected.as_str()) => {
            wrong("JWT not in audience")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(claims: Value) -> Result<(), AuthError> {
        let Value::Object(map) = claims else { panic!("an object") };
        let config = RestConfig { jwt_aud: Some("api".to_owned()), ..RestConfig::default() };
        check_claims(&Claims::new(map), &config, 1_000)
    }

    #[test]
    fn time_claims_have_thirty_seconds_of_leeway() {
        assert_eq!(check(serde_json::json!({"exp": 970, "nbf": 1030, "iat": 1030})), Ok(()));
        for (claims, message) in [
            (serde_json::json!({"exp": 969.5, "nbf": 2000}), "JWT expired"),
            (serde_json::json!({"nbf": 1031, "iat": 2000}), "JWT not yet valid"),
            (serde_json::json!({"iat": 1031, "aud": "x"}), "JWT issued at future"),
            (serde_json::json!({"exp": "soon"}), "The JWT 'exp' claim must be a number"),
            (serde_json::json!({"aud": "x"}), "JWT not in audience"),
            (serde_json::json!({"aud": 5}), "The JWT 'aud' claim must be a string or an array of strings"),
        ] {
            assert_eq!(check(claims), Err(AuthError::Claims(message.to_owned())));
        }
        for passes in
            [serde_json::json!({"aud": []}), serde_json::json!({"aud": ["x", "api"]}), serde_json::json!({})]
        {
            assert_eq!(check(passes), Ok(()));
        }
    }
}
