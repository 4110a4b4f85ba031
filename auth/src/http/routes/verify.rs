//! `/verify` (auth.md §3.10). `GET` is a mail's link and redirects, even with an error, once its parameters are present. `POST`
//! takes a code or hash from the app and returns a session.
//!
//! A link works once, so scanners and prefetching must not use it up. `HEAD` and prefetching `GET`s do not touch the code, and
//! a setting inserts a page with a button ([`mod@page`]).

mod page;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use crate::codes::one_time::{self, FlowType};
use crate::error::AuthError;
use crate::flows::verify::{self, Proof, VerificationType, Verified};
use crate::http::location::Location;
use crate::http::request::{RequestContext, read_json};
use crate::http::routes::token;
use crate::http::wire::TokenBody;
use crate::metrics;
use crate::state::Auth;
use crate::users::address;

const NO_TYPE: &str = "Verify requires a verification type";
const NO_TOKEN: &str = "Verify requires a token or a token hash";
/// Parameter that the button of [`mod@page`] adds.
const PRESSED: &str = "confirmed";
const HALF_CONFIRMED: &str =
    "Confirmation link accepted. Please proceed to confirm link sent to the other email";

#[derive(Deserialize)]
struct VerifyBody {
    #[serde(rename = "type")]
    verification_type: Option<String>,
    token: Option<String>,
    token_hash: Option<String>,
    email: Option<String>,
    phone: Option<String>,
}

/// Returns 200 without checking the code.
pub(crate) async fn head() -> StatusCode {
    StatusCode::OK
}

pub(crate) async fn get(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    if is_prefetch(&request.headers) {
        // An error, so that the browser discards the prefetch and requests the link again on a click.
        return Ok((StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")]).into_response());
    }
    auth.limits.verify.check(request.address())?;
    let name = request.query("type").ok_or(AuthError::validation(NO_TYPE))?;
    let hash = request.query("token").ok_or(AuthError::validation(NO_TOKEN))?;
    let target = request.origin.links.target(&auth.redirects);
    if auth.config.mailer_confirm_links && request.query(PRESSED).is_none() {
        return Ok(page::page(&[("token", hash), ("type", name), ("redirect_to", &target), (PRESSED, "1")]));
    }
    let flow = one_time::flow_type(hash);
    match follow(&auth, &request, name, hash, flow, &target).await {
        Ok(response) => Ok(response),
        Err(error) => {
            let parameters = error.redirect_parameters();
            let location =
                with_query_of(Location::new(&target), flow, &parameters).with_fragment(&parameters);
            Ok(error.with_response(location.see_other()))
        }
    }
}

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let padding = auth.response_times.start();
    auth.limits.verify.check(request.address())?;
    let body: VerifyBody = read_json(body).await?;
    let (kind, proof) = body.checked()?;
    match redeem(&auth, &request, kind, &proof, FlowType::Implicit).await {
        Ok(Verified::SignedIn(granted, _)) => token::answer(&auth, &request.origin, &granted).await,
        Ok(Verified::HalfConfirmed) => {
            Ok(Json(json!({ "code": "200", "msg": HALF_CONFIRMED })).into_response())
        }
        Ok(Verified::AuthCode(_)) => {
            Err(AuthError::Internal("got an authorization code in the implicit flow".to_owned()))
        }
        Err(error) => {
            // The time must not reveal whether a code is pending.
            padding.wait().await;
            Err(error)
        }
    }
}

async fn follow(
    auth: &Auth,
    request: &RequestContext,
    name: &str,
    hash: &str,
    flow: FlowType,
    target: &str,
) -> Result<Response, AuthError> {
    let kind = parse_type(name)?;
    let proof = hash_of(kind, hash)?;
    let location = match redeem(auth, request, kind, &proof, flow).await? {
        Verified::SignedIn(granted, kind) => {
            let body = TokenBody::new(&granted, auth.issue(&request.origin, &granted).await?);
            Location::new(target).with_fragment(&[
                ("access_token", body.access_token),
                ("expires_at", body.expires_at.to_string()),
                ("expires_in", body.expires_in.to_string()),
                ("refresh_token", body.refresh_token.to_owned()),
                ("token_type", body.token_type.to_owned()),
                ("type", kind.as_str().to_owned()),
            ])
        }
        Verified::AuthCode(code) => Location::new(target).with_query(&[("code", code)]),
        Verified::HalfConfirmed => {
            let parameters = [("message", HALF_CONFIRMED.to_owned())];
            with_query_of(Location::new(target), flow, &parameters).with_fragment(&parameters)
        }
    };
    Ok(location.see_other())
}

async fn redeem(
    auth: &Auth,
    request: &RequestContext,
    kind: VerificationType,
    proof: &Proof,
    flow: FlowType,
) -> Result<Verified, AuthError> {
    let verified = Box::pin(verify::redeem(auth, &request.origin, kind, proof, flow)).await;
    metrics::verify(kind.as_str(), verified.as_ref().map_or_else(AuthError::code, |_verified| "ok"));
    verified
}

/// Apps with PKCE read the query instead of the fragment.
fn with_query_of(location: Location, flow: FlowType, parameters: &[(&str, String)]) -> Location {
    match flow {
        FlowType::Implicit => location,
        FlowType::Pkce => location.with_query(parameters),
    }
}

/// Browsers and their proxies mark prefetches with these headers.
fn is_prefetch(headers: &HeaderMap) -> bool {
    ["sec-purpose", "purpose", "x-purpose", "x-moz"].into_iter().any(|name| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| {
            let purpose = value.split(';').next().unwrap_or_default().trim();
            ["prefetch", "preview", "prerender"].iter().any(|ahead| purpose.eq_ignore_ascii_case(ahead))
        })
    })
}

impl VerifyBody {
    /// Validation in the contract's order.
    fn checked(self) -> Result<(VerificationType, Proof), AuthError> {
        let filled = |field: Option<String>| field.filter(|text| !text.is_empty());
        let kind = parse_type(&filled(self.verification_type).ok_or(AuthError::validation(NO_TYPE))?)?;
        let (email, phone) = (filled(self.email), filled(self.phone));
        match (filled(self.token), filled(self.token_hash)) {
            (None, None) => Err(AuthError::validation(NO_TOKEN)),
            (Some(_), Some(_)) => {
                Err(AuthError::validation("Verify requires either a token or a token hash"))
            }
            (Some(code), None) => {
                let address = match (email, phone) {
                    (Some(email), None) => {
                        address::email(&email).map_err(|_error| AuthError::VerifyEmailFormat)?
                    }
                    (None, Some(phone)) => address::phone(&phone)?,
                    (Some(_), Some(_)) | (None, None) => {
                        return Err(AuthError::validation(
                            "Only an email address or phone number should be provided on verify",
                        ));
                    }
                };
                Ok((kind, Proof::Code { address, code }))
            }
            (None, Some(_)) if email.is_some() || phone.is_some() => {
                Err(AuthError::validation("Only the token_hash and type should be provided"))
            }
            (None, Some(hash)) => Ok((kind, hash_of(kind, &hash)?)),
        }
    }
}

fn parse_type(name: &str) -> Result<VerificationType, AuthError> {
    VerificationType::parse(name).ok_or(AuthError::validation("Unsupported verification type"))
}

/// Phone types have codes only, no links.
fn hash_of(kind: VerificationType, hash: &str) -> Result<Proof, AuthError> {
    if kind.is_phone() {
        return Err(AuthError::validation("Invalid email verification type"));
    }
    Ok(Proof::Hash(hash.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_prefetch_headers() {
        let purpose = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            is_prefetch(&headers)
        };
        assert!(purpose("sec-purpose", "prefetch"));
        assert!(purpose("sec-purpose", "prefetch;prerender"));
        assert!(purpose("purpose", "Prefetch"));
        assert!(purpose("x-moz", "prefetch"));
        assert!(!purpose("sec-fetch-mode", "navigate"));
        assert!(!purpose("sec-purpose", "navigate"));
    }
}
