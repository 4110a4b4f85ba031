//! Bodies of routes that captchas protect (auth.md §3.1).

use axum::body::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::AuthError;
use crate::http::bearer::Bearer;
use crate::http::request::{RequestContext, parse_json, read_bytes};
use crate::state::Auth;

#[derive(Deserialize)]
struct Protected {
    #[serde(default)]
    gotrue_meta_security: Value,
}

/// Reads a JSON body after its captcha has been verified. Admins need none.
///
/// # Errors
/// As [`crate::http::request::read_json`], or the captcha is missing or refused.
pub(crate) async fn read_protected_json<T: DeserializeOwned>(
    auth: &Auth,
    request: &RequestContext,
    body: Body,
) -> Result<T, AuthError> {
    let bytes = read_bytes(body).await?;
    let is_admin = || Bearer::read(auth, request).is_ok_and(|bearer| bearer.is_admin(auth));
    let captcha = auth.captcha.as_ref().filter(|_captcha| !is_admin());
    if let Some(captcha) = captcha {
        let Protected { gotrue_meta_security } = parse_json(&bytes)?;
        let token = gotrue_meta_security.get("captcha_token").and_then(Value::as_str).unwrap_or_default();
        captcha.verify(token, request.address(), request.origin.deadline).await?;
    }
    parse_json(&bytes)
}
