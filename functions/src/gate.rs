//! Authenticates calls of functions that require a token (functions.md 3.1). The gateway has already replaced API keys by tokens.
//!
//! Role, audience and issuer are not checked: the project's anonymous key is accepted. A function that requires a user checks that itself.

use basalt_core::bearer::bearer_token;
use basalt_core::clock::Clock;
use basalt_core::keys::{Keys, TokenError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Deserialize;

use crate::error::GateError;

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
}

/// Checks the request's token.
///
/// # Errors
/// The 401 response.
pub(crate) fn check(keys: &Keys, clock: &Clock, headers: &HeaderMap) -> Result<(), GateError> {
    if !headers.contains_key(AUTHORIZATION) {
        return Err(GateError::NoHeader);
    }
    let token = bearer_token(headers).filter(|token| !token.is_empty() && !token.contains(' '));
    let token = token.ok_or(GateError::Format)?;
    let alg = algorithm(token).ok_or(GateError::Format)?;
    let invalid = || if alg.starts_with("HS") { GateError::LegacyToken } else { GateError::AsymmetricToken };
    let claims = keys.verify(token).map_err(|error| match error {
        TokenError::Unsupported { alg } => GateError::Algorithm(alg),
        TokenError::Empty | TokenError::Parts(_) | TokenError::BadHeader | TokenError::Encrypted => {
            GateError::Format
        }
        TokenError::NoKey { .. }
        | TokenError::BadSignature
        | TokenError::ClaimsNotObject
        | TokenError::IdToken => invalid(),
    })?;
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in an f64")]
    let now = clock.unix_seconds() as f64;
    let is_early = claims.seconds("nbf").map_err(|_| invalid())?.is_some_and(|nbf| nbf > now);
    let is_late = claims.seconds("exp").map_err(|_| invalid())?.is_some_and(|exp| exp <= now);
    if is_early || is_late { Err(invalid()) } else { Ok(()) }
}

fn algorithm(token: &str) -> Option<String> {
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next()?).ok()?;
    serde_json::from_slice::<TokenHeader>(&header).ok().map(|header| header.alg)
}
