//! Tokens of sockets and channels: verification, expiry, and the texts clients receive when a token is
//! rejected (realtime.md 3.1, 3.3, 3.12).

use std::fmt;
use std::sync::Arc;

use basalt_core::claims::Claims;
use basalt_core::clock::Clock;
use basalt_core::keys::{Keys, TokenError};
use basalt_core::service::WithoutSecretKeys;
use http::Extensions;

/// A verified token.
#[derive(Clone)]
pub(crate) struct Token {
    /// The text as received: identifies the token and allows verifying it again.
    text: Arc<str>,
    pub(crate) claims: Arc<Claims>,
    /// `exp`, in seconds since 1970.
    pub(crate) expires_at: i64,
}

impl fmt::Debug for Token {
    /// Never prints the token or its claims (STYLE 7.6).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("role", &self.role()).finish_non_exhaustive()
    }
}

impl Token {
    /// The database role of the token.
    pub(crate) fn role(&self) -> &str {
        self.claims.role().unwrap_or_default()
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Whether the caller may use secret keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// A browser: secret keys are rejected, because every visitor of the page could read them (decision
    /// 0053).
    WithoutSecretKeys,
    Any,
}

impl Client {
    /// Reads the mark that the gateway sets on the request.
    pub(crate) fn from_extensions(extensions: &Extensions) -> Self {
        if extensions.get::<WithoutSecretKeys>().is_some() { Self::WithoutSecretKeys } else { Self::Any }
    }
}

/// Why a token was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenFault {
    /// It expired this many seconds ago.
    Expired(i64),
    /// `role` or `exp` is missing or has the wrong type.
    Fields,
    Malformed,
    /// A secret key, which bypasses every policy, sent by a browser.
    Secret,
    Signature,
    /// No key exists for the token's algorithm or `kid`.
    Signer {
        kid: Option<String>,
    },
}

impl TokenFault {
    /// Error text of a handshake response.
    pub(crate) fn handshake_text(&self) -> String {
        match self {
            Self::Expired(_) => "Token has expired".to_owned(),
            Self::Fields | Self::Malformed | Self::Secret | Self::Signature | Self::Signer { .. } => {
                self.text()
            }
        }
    }

    /// `reason` of a join reply.
    pub(crate) fn join_reason(&self) -> String {
        let code = match self {
            Self::Expired(_) | Self::Fields => "InvalidJWTToken",
            Self::Malformed => "MalformedJWT",
            Self::Secret => "Unauthorized",
            Self::Signature => "JwtSignatureError",
            Self::Signer { .. } => "JwtSignerError",
        };
        format!("{code}: {}", self.text())
    }

    /// Text of the system message sent before the channel is closed.
    pub(crate) fn system_text(&self) -> String {
        match self {
            Self::Signature => "Failed to validate JWT signature (signature_error)".to_owned(),
            Self::Expired(_) | Self::Fields | Self::Malformed | Self::Secret | Self::Signer { .. } => {
                self.text()
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Expired(seconds) => format!("Token has expired {seconds} seconds ago"),
            Self::Fields => "Fields `role` and `exp` are required in JWT".to_owned(),
            Self::Malformed => "The token provided is not a valid JWT".to_owned(),
            Self::Secret => "Forbidden use of secret API key in browser".to_owned(),
            Self::Signature => "Failed to validate JWT signature".to_owned(),
            Self::Signer { kid: Some(kid) } => format!(
                "Failed to generate JWT signer for key ID (kid) \"{kid}\", check your JWT secret or JWKS configuration"
            ),
            Self::Signer { kid: None } => {
                "Failed to generate JWT signer, check your JWT secret or JWKS configuration".to_owned()
            }
        }
    }
}

/// Verifies tokens.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
}

impl Tokens {
    /// Verifies a JWT, or an API key that stands for one.
    ///
    /// # Errors
    /// The reason the token is rejected.
    pub(crate) fn verify(&self, text: &str, client: Client) -> Result<Token, TokenFault> {
        let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
        let given: String = decoded.split_whitespace().collect();
        let now = self.clock.unix_seconds();
        let token = self.verify_text(&given, now)?;
        if client == Client::WithoutSecretKeys
            && self.keys.api_key(&given, now).is_some_and(|key| key.is_secret)
        {
            return Err(TokenFault::Secret);
        }
        Ok(token)
    }

    /// Verifies an accepted token again: its key may have been revoked, and time has passed.
    ///
    /// # Errors
    /// The reason the token is now rejected.
    pub(crate) fn verify_again(&self, token: &Token) -> Result<(), TokenFault> {
        self.verify_text(&token.text, self.clock.unix_seconds()).map(drop)
    }

    fn verify_text(&self, given: &str, now: i64) -> Result<Token, TokenFault> {
        if !is_opaque(given) {
            return self.verify_jwt(given, now);
        }
        let key = self.keys.api_key(given, now).ok_or(TokenFault::Malformed)?;
        let bearer = key.authorization.to_str().map_err(|_| TokenFault::Malformed)?;
        let token = self.verify_jwt(bearer.strip_prefix("Bearer ").unwrap_or(bearer), now)?;
        Ok(Token { text: given.into(), ..token })
    }

    /// Seconds until the token expires; negative afterwards.
    pub(crate) fn seconds_left(&self, token: &Token) -> i64 {
        token.expires_at.saturating_sub(self.clock.unix_seconds())
    }

    fn verify_jwt(&self, text: &str, now: i64) -> Result<Token, TokenFault> {
        let claims = self.keys.verify(text).map_err(|error| match error {
            TokenError::Empty
            | TokenError::Parts(_)
            | TokenError::BadHeader
            | TokenError::Encrypted
            | TokenError::ClaimsNotObject
            | TokenError::IdToken => TokenFault::Malformed,
            TokenError::Unsupported { .. } => TokenFault::Signer { kid: None },
            TokenError::NoKey { kid, .. } => TokenFault::Signer { kid },
            TokenError::BadSignature => TokenFault::Signature,
        })?;
        let expires_at = claims.seconds("exp").ok().flatten().ok_or(TokenFault::Fields)?;
        #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
        let expires_at = expires_at.round() as i64;
        if claims.role().is_none_or(str::is_empty) {
            return Err(TokenFault::Fields);
        }
        if expires_at <= now {
            return Err(TokenFault::Expired(now - expires_at));
        }
        Ok(Token { text: text.into(), claims, expires_at })
    }
}

/// Whether this is an opaque API key: they start with `sb_`, which no JWT does.
pub(crate) fn is_opaque(token: &str) -> bool {
    token.starts_with("sb_")
}

#[cfg(test)]
mod tests {
    use basalt_core::keys::{ApiKeys, KeyMaterial, legacy_key};
    use secrecy::SecretSlice;
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn tokens() -> Tokens {
        let secret = SecretSlice::from(b"a-secret-of-more-than-thirty-two-bytes!".to_vec());
        let anon = legacy_key(&secret, None, "anon", NOW).unwrap();
        let service = legacy_key(&secret, None, "service_role", NOW).unwrap();
        let material = KeyMaterial {
            jwks: Vec::new(),
            secret: Some(secret),
            secret_kid: None,
            strict_kid: false,
            rotates: true,
            api_keys: ApiKeys {
                anon,
                service: service.into(),
                publishable: "sb_publishable_a".to_owned(),
                secret: "sb_secret_a".to_owned().into(),
            },
        };
        Tokens { keys: Arc::new(Keys::new(material).unwrap()), clock: Clock::fixed(NOW) }
    }

    fn verified(claims: &Value) -> Result<(String, i64), TokenFault> {
        let tokens = tokens();
        let token = tokens.verify(&tokens.keys.sign(claims).unwrap(), Client::Any)?;
        Ok((token.role().to_owned(), token.expires_at))
    }

    #[test]
    fn token_requires_role_and_future_exp() {
        assert_eq!(verified(&json!({ "role": "a", "exp": NOW + 1 })), Ok(("a".to_owned(), NOW + 1)));
        assert_eq!(verified(&json!({ "role": "a", "exp": NOW as f64 + 1.4 })), Ok(("a".to_owned(), NOW + 1)));
        assert_eq!(verified(&json!({ "role": "a", "exp": NOW })), Err(TokenFault::Expired(0)));
        assert_eq!(verified(&json!({ "role": "a", "exp": NOW - 7 })), Err(TokenFault::Expired(7)));
        for claims in [
            json!({ "role": "a" }),
            json!({ "role": "a", "exp": (NOW + 9).to_string() }),
            json!({ "exp": NOW + 9 }),
            json!({ "role": "", "exp": NOW + 9 }),
            json!({ "role": 1, "exp": NOW + 9 }),
        ] {
            assert_eq!(verified(&claims), Err(TokenFault::Fields), "{claims}");
        }
    }

    #[test]
    fn opaque_keys_map_to_roles_and_blanks_are_ignored() {
        let tokens = tokens();
        assert_eq!(tokens.verify("sb_publishable_a", Client::Any).unwrap().role(), "anon");
        assert_eq!(tokens.verify("sb_publishable_b", Client::Any).unwrap_err(), TokenFault::Malformed);
        let text = tokens.keys.sign(&json!({ "role": "a", "exp": NOW + 1 })).unwrap();
        let (left, right) = text.split_at(20);
        assert_eq!(tokens.verify(&format!(" {left}%20{right}\n"), Client::Any).unwrap().role(), "a");
        assert_eq!(tokens.verify("nonsense", Client::Any).unwrap_err(), TokenFault::Malformed);
        assert_eq!(tokens.verify(&format!("{text}x"), Client::Any).unwrap_err(), TokenFault::Signature);
    }

    #[test]
    fn reverification_detects_expiry() {
        let tokens = tokens();
        let text = tokens.keys.sign(&json!({ "role": "a", "exp": NOW + 10 })).unwrap();
        let token = tokens.verify(&text, Client::Any).unwrap();
        assert_eq!((tokens.verify_again(&token), tokens.seconds_left(&token)), (Ok(()), 10));
        tokens.clock.advance(12);
        let fault = tokens.verify_again(&token).unwrap_err();
        assert_eq!(fault.join_reason(), "InvalidJWTToken: Token has expired 2 seconds ago");
        assert_eq!(fault.handshake_text(), "Token has expired");
    }

    #[test]
    fn rejects_secret_keys_from_browsers_only() {
        let tokens = tokens();
        let signed = |claims: Value| tokens.keys.sign(&claims).unwrap();
        let service = signed(json!({ "role": "service_role", "exp": NOW + 9 }));
        let person = signed(json!({ "role": "service_role", "sub": "ann", "exp": NOW + 9 }));
        let verified = |text: &str, client| tokens.verify(text, client).map(|token| token.role().to_owned());
        for (text, in_browser) in [
            ("sb_secret_a", Err(TokenFault::Secret)),
            (service.as_str(), Err(TokenFault::Secret)),
            (person.as_str(), Ok("service_role".to_owned())),
            ("sb_publishable_a", Ok("anon".to_owned())),
        ] {
            assert_eq!(verified(text, Client::WithoutSecretKeys), in_browser, "{text}");
            assert!(verified(text, Client::Any).is_ok(), "{text}");
        }
    }

    #[test]
    fn reverifies_an_opaque_key_as_that_key() {
        let tokens = tokens();
        let token = tokens.verify("sb_publishable_a", Client::Any).unwrap();
        assert_eq!(tokens.verify_again(&token), Ok(()));
        let gone = Token { text: "sb_publishable_b".into(), ..token };
        assert_eq!(tokens.verify_again(&gone), Err(TokenFault::Malformed));
    }
}
