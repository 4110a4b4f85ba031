//! Routes of features that a later release brings ([`Feature`]): they answer as upstream does with the feature switched
//! off, because clients tell "off" from "no such server". A feature that gets built takes its routes from here.
//!
//! What can be said before the switch is said first, as upstream does: who is calling where people act on their own
//! account, and what the path names.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, on, post};
use axum::{Json, Router};
use basalt_core::service::read_body;
use http::{Method, StatusCode, header};
use http_body_util::Limited;
use serde::Deserialize;
use serde_json::json;
use url::Url;
use uuid::Uuid;

use crate::error::AuthError;
use crate::http::bearer::{Bearer, Caller};
use crate::http::feature::{FactorType, Feature};
use crate::http::request::{RequestContext, read_json};
use crate::http::routes::admin::{Admin, OfUser};
use crate::http::routes::settings::is_provider;
use crate::users::Factor;
use crate::{Auth, BODY_LIMIT};

/// Everything that is off.
pub(crate) fn router() -> Router<Arc<Auth>> {
    Router::new()
        .route("/authorize", get(authorize)) // signInWithOAuth
        .route("/callback", get(callback).post(callback)) // the provider's way back
        .merge(factors())
        .merge(single_sign_on())
        .merge(oauth_server())
        .merge(passkeys())
        .route("/admin/custom-providers", admin(Feature::CustomProviders, &[Method::GET, Method::POST]))
        .route(
            "/admin/custom-providers/{identifier}",
            admin(Feature::CustomProviders, &[Method::GET, Method::PUT, Method::DELETE]),
        )
}

fn factors() -> Router<Arc<Auth>> {
    const ENROLL: Feature = Feature::Enroll(FactorType::RecoveryCodes);
    const VERIFY: Feature = Feature::Verify(FactorType::RecoveryCodes);
    let codes = off(ENROLL, &[Method::GET, Method::POST, Method::DELETE]);
    Router::new()
        .route("/factors", post(enroll)) // mfa.enroll
        .route("/factors/{id}", delete(unenroll)) // mfa.unenroll
        .route("/factors/{id}/challenge", post(use_factor)) // mfa.challenge
        .route("/factors/{id}/verify", post(use_factor)) // mfa.verify
        .route("/factors/recovery-codes", codes) // mfa.recoveryCodes
        .route("/factors/recovery-codes/verify", off(VERIFY, &[Method::POST]))
        .route("/factors/recovery-codes/regenerate", off(ENROLL, &[Method::POST]))
        .route("/admin/users/{id}/factors/{factor_id}", delete(admin_factor).put(admin_factor)) // admin.mfa
}

fn single_sign_on() -> Router<Arc<Auth>> {
    Router::new()
        .route("/sso", off(Feature::Saml, &[Method::POST])) // signInWithSSO
        .route("/sso/saml/metadata", off(Feature::Saml, &[Method::GET]))
        .route("/sso/saml/acs", off(Feature::Saml, &[Method::POST]))
        .route("/admin/sso/providers", admin(Feature::Saml, &[Method::GET, Method::POST]))
        .route("/admin/sso/providers/{id}", admin(Feature::Saml, &[Method::GET, Method::PUT, Method::DELETE]))
}

fn oauth_server() -> Router<Arc<Auth>> {
    let off = |methods: &[Method]| off(Feature::OAuthServer, methods);
    let admin = |methods: &[Method]| admin(Feature::OAuthServer, methods);
    Router::new()
        .route("/.well-known/openid-configuration", off(&[Method::GET]))
        .route("/.well-known/oauth-authorization-server", off(&[Method::GET]))
        .route("/oauth/authorize", off(&[Method::GET]))
        .route("/oauth/authorizations/{id}", off(&[Method::GET]))
        .route("/oauth/authorizations/{id}/consent", off(&[Method::POST]))
        .route("/oauth/token", off(&[Method::POST]))
        .route("/oauth/userinfo", off(&[Method::GET]))
        .route("/oauth/clients/register", off(&[Method::POST]))
        .route("/user/oauth/grants", off(&[Method::GET, Method::DELETE]))
        .route("/admin/oauth/clients", admin(&[Method::GET, Method::POST]))
        .route("/admin/oauth/clients/{id}", admin(&[Method::GET, Method::PUT, Method::DELETE]))
        .route("/admin/oauth/clients/{id}/regenerate_secret", admin(&[Method::POST]))
}

fn passkeys() -> Router<Arc<Auth>> {
    let off = |methods: &[Method]| off(Feature::Passkeys, methods);
    let admin = |methods: &[Method]| admin(Feature::Passkeys, methods);
    Router::new()
        .route("/passkeys", off(&[Method::GET]))
        .route("/passkeys/{id}", off(&[Method::PATCH, Method::DELETE]))
        .route("/passkeys/registration/options", off(&[Method::POST]))
        .route("/passkeys/registration/verify", off(&[Method::POST]))
        .route("/passkeys/authentication/options", off(&[Method::POST]))
        .route("/passkeys/authentication/verify", off(&[Method::POST]))
        .route("/admin/users/{id}/passkeys", admin(&[Method::GET]))
        .route("/admin/users/{id}/passkeys/{passkey_id}", admin(&[Method::DELETE]))
}

/// A route that says so to everybody.
fn off(feature: Feature, methods: &[Method]) -> MethodRouter<Arc<Auth>> {
    let answer = move || async move { AuthError::SwitchedOff(feature) };
    methods.iter().fold(MethodRouter::new(), |router, method| router.merge(on(filter(method), answer)))
}

/// A route that says so to admins.
fn admin(feature: Feature, methods: &[Method]) -> MethodRouter<Arc<Auth>> {
    let answer = move |_admin: Admin| async move { AuthError::SwitchedOff(feature) };
    methods.iter().fold(MethodRouter::new(), |router, method| router.merge(on(filter(method), answer)))
}

fn filter(method: &Method) -> axum::routing::MethodFilter {
    use axum::routing::MethodFilter;
    MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET)
}

/// `GET /authorize?provider=`: no provider is enabled (auth.md §3.16).
async fn authorize(request: RequestContext) -> AuthError {
    unsupported_provider(request.query("provider").unwrap_or_default())
}

/// Known and off, or unknown.
pub(crate) fn unsupported_provider(provider: &str) -> AuthError {
    let reason = if is_provider(provider) {
        "provider is not enabled".to_owned()
    } else {
        format!("Provider {provider} could not be found")
    };
    AuthError::Validation(format!("Unsupported provider: {reason}").into())
}

/// The way back from a provider. No browser was sent to one, so no state is known; the browser goes to the app with that.
/// Some providers post a form.
async fn callback(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let form = read_body(Body::new(Limited::new(body, BODY_LIMIT)), None).await?;
    let posted = url::form_urlencoded::parse(&form).find(|(name, _)| name == "state");
    let posted = posted.map(|(_, state)| state.into_owned()).filter(|state| !state.is_empty());
    let state = request.query("state").map(ToOwned::to_owned).or(posted);
    let (code, description) = match state {
        None => ("bad_oauth_callback", "OAuth state parameter missing"),
        Some(state) if Uuid::try_parse(&state).is_err() => {
            ("bad_oauth_state", "OAuth state parameter is invalid")
        }
        Some(_) => ("bad_oauth_state", "OAuth state not found or expired"),
    };
    let mut location = Url::parse(&auth.config.site_url)
        .map_err(|error| AuthError::Internal(format!("auth.site_url: {error}")))?;
    location
        .query_pairs_mut()
        .append_pair("error", "invalid_request")
        .append_pair("error_code", code)
        .append_pair("error_description", description);
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location.to_string())]).into_response())
}

#[derive(Deserialize)]
struct Enrolment {
    factor_type: Option<String>,
}

async fn enroll(State(auth): State<Arc<Auth>>, request: RequestContext, body: Body) -> AuthError {
    let refused = async {
        person(&auth, &request).await?;
        let body: Enrolment = read_json(body).await?;
        let factor = body.factor_type.as_deref().and_then(FactorType::from_name);
        let factor =
            factor.ok_or(AuthError::validation("factor_type needs to be totp, phone, or webauthn"))?;
        Err::<AuthError, _>(AuthError::SwitchedOff(Feature::Enroll(factor)))
    };
    refused.await.unwrap_or_else(|error| error)
}

/// Challenge and verify.
async fn use_factor(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
) -> AuthError {
    let refused = async {
        let caller = person(&auth, &request).await?;
        let factor = factor(&caller.account.factors, &id)?;
        Err::<AuthError, _>(AuthError::SwitchedOff(Feature::Verify(type_of(factor))))
    };
    refused.await.unwrap_or_else(|error| error)
}

/// A factor that was imported can be given up while it is unverified; a verified one needs aal2, which no session reaches.
async fn unenroll(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    const DELETE: &str = "delete from auth.mfa_factors where id = $1 and user_id = $2";
    let caller = person(&auth, &request).await?;
    let factor = factor(&caller.account.factors, &id)?;
    if factor.status == "verified" {
        return Err(AuthError::FactorNeedsAal2);
    }
    let tx = auth.begin(&request).await?;
    let deleted = tx.execute(DELETE, &[&factor.id, &caller.account.user.id]).await;
    crate::finish(tx, deleted.map_err(AuthError::from)).await?;
    Ok(Json(json!({ "id": factor.id })).into_response())
}

async fn admin_factor(
    OfUser { account, .. }: OfUser,
    Path((_user_id, factor_id)): Path<(String, String)>,
) -> AuthError {
    match factor(&account.factors, &factor_id) {
        Ok(factor) => AuthError::SwitchedOff(Feature::Verify(type_of(factor))),
        Err(unknown) => unknown,
    }
}

/// A caller who has an account to protect.
async fn person(auth: &Auth, request: &RequestContext) -> Result<Caller, AuthError> {
    let bearer = Bearer::read(auth, request)?;
    let tx = auth.autocommit(request).await?;
    let caller = bearer.caller(auth, &tx).await;
    let caller = crate::finish(tx, caller).await?;
    if caller.account.user.is_anonymous {
        return Err(AuthError::AnonymousRefused);
    }
    Ok(caller)
}

fn factor<'a>(factors: &'a [Factor], id: &str) -> Result<&'a Factor, AuthError> {
    let id = Uuid::try_parse(id).map_err(|_error| AuthError::FactorIdNotUuid)?;
    factors.iter().find(|factor| factor.id == id).ok_or(AuthError::FactorNotFound)
}

fn type_of(factor: &Factor) -> FactorType {
    FactorType::from_name(&factor.factor_type).unwrap_or(FactorType::Totp)
}
