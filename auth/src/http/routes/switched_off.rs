//! Routes of features that are not implemented ([`Feature`]). They respond as upstream does with the feature disabled, because
//! clients distinguish that from a missing route. As upstream, they first check the caller and the path.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use http::{StatusCode, header};
use url::Url;
use uuid::Uuid;

use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::http::request::{RequestContext, read_bytes};
use crate::http::routes::admin::Admin;
use crate::http::routes::settings::is_provider;
use crate::state::Auth;

/// Routes that always return their feature's error; those below `/admin/` only to admins.
const OFF: &[(Feature, &str, MethodFilter)] = {
    const GET: MethodFilter = MethodFilter::GET;
    const POST: MethodFilter = MethodFilter::POST;
    const PUT: MethodFilter = MethodFilter::PUT;
    const PATCH: MethodFilter = MethodFilter::PATCH;
    const DELETE: MethodFilter = MethodFilter::DELETE;
    &[
        (Feature::ENROLL_CODES, "/factors/recovery-codes", GET.or(POST).or(DELETE)), // mfa.recoveryCodes
        (Feature::VERIFY_CODES, "/factors/recovery-codes/verify", POST),
        (Feature::ENROLL_CODES, "/factors/recovery-codes/regenerate", POST),
        (Feature::SAML, "/sso", POST), // signInWithSSO
        (Feature::SAML, "/sso/saml/metadata", GET),
        (Feature::SAML, "/sso/saml/acs", POST),
        (Feature::SAML, "/admin/sso/providers", GET.or(POST)),
        (Feature::SAML, "/admin/sso/providers/{id}", GET.or(PUT).or(DELETE)),
        (Feature::OAUTH_SERVER, "/.well-known/openid-configuration", GET),
        (Feature::OAUTH_SERVER, "/.well-known/oauth-authorization-server", GET),
        (Feature::OAUTH_SERVER, "/oauth/authorize", GET),
        (Feature::OAUTH_SERVER, "/oauth/authorizations/{id}", GET),
        (Feature::OAUTH_SERVER, "/oauth/authorizations/{id}/consent", POST),
        (Feature::OAUTH_SERVER, "/oauth/token", POST),
        (Feature::OAUTH_SERVER, "/oauth/userinfo", GET),
        (Feature::OAUTH_SERVER, "/oauth/clients/register", POST),
        (Feature::OAUTH_SERVER, "/user/oauth/grants", GET.or(DELETE)),
        (Feature::OAUTH_SERVER, "/admin/oauth/clients", GET.or(POST)),
        (Feature::OAUTH_SERVER, "/admin/oauth/clients/{id}", GET.or(PUT).or(DELETE)),
        (Feature::OAUTH_SERVER, "/admin/oauth/clients/{id}/regenerate_secret", POST),
        (Feature::PASSKEYS, "/passkeys", GET),
        (Feature::PASSKEYS, "/passkeys/{id}", PATCH.or(DELETE)),
        (Feature::PASSKEYS, "/passkeys/registration/options", POST),
        (Feature::PASSKEYS, "/passkeys/registration/verify", POST),
        (Feature::PASSKEYS, "/passkeys/authentication/options", POST),
        (Feature::PASSKEYS, "/passkeys/authentication/verify", POST),
        (Feature::PASSKEYS, "/admin/users/{id}/passkeys", GET),
        (Feature::PASSKEYS, "/admin/users/{id}/passkeys/{passkey_id}", DELETE),
        (Feature::CUSTOM_PROVIDERS, "/admin/custom-providers", GET.or(POST)),
        (Feature::CUSTOM_PROVIDERS, "/admin/custom-providers/{identifier}", GET.or(PUT).or(DELETE)),
    ]
};

/// All routes of disabled features.
pub(crate) fn router() -> Router<Arc<Auth>> {
    let router = Router::new()
        .route("/authorize", get(authorize)) // signInWithOAuth
        .route("/callback", get(callback).post(callback)); // the provider's way back
    OFF.iter().fold(router, |router, &(feature, path, methods)| {
        let off = AuthError::SwitchedOff;
        router.route(
            path,
            if path.starts_with("/admin/") {
                on(methods, move |_admin: Admin| async move { off(feature) })
            } else {
                on(methods, move || async move { off(feature) })
            },
        )
    })
}

/// `GET /authorize?provider=`: no provider is enabled (auth.md §3.16).
async fn authorize(request: RequestContext) -> AuthError {
    unsupported_provider(request.query("provider").unwrap_or_default())
}

/// The error for a disabled or unknown provider.
pub(crate) fn unsupported_provider(provider: &str) -> AuthError {
    let reason = if is_provider(provider) {
        "provider is not enabled".to_owned()
    } else {
        format!("Provider {provider} could not be found")
    };
    AuthError::Validation(format!("Unsupported provider: {reason}").into())
}

/// A provider's callback. No browser is ever sent to a provider, so the state is always unknown; the browser is redirected to
/// the app with that error. Some providers post a form.
async fn callback(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let form = read_bytes(body).await?;
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
