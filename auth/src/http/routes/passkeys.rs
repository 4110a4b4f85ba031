//! `/passkeys` and the passkeys of `/admin/users/{id}` (auth.md §3.22).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::database;
use crate::error::AuthError;
use crate::fields::text;
use crate::flows::passkeys::{self as flows, Begun};
use crate::http::bearer::Caller;
use crate::http::protected::read_protected_json;
use crate::http::request::{RequestContext, read_json};
use crate::http::routes::admin::{Admin, TargetUser};
use crate::http::routes::factors::registered_caller;
use crate::http::routes::token;
use crate::http::wire::Time;
use crate::state::Auth;
use crate::webauthn::passkeys::{self, PasskeyEntry};

/// Longest name, in characters.
const NAME_LENGTH: usize = 120;

/// Extracted by every handler below, so that nothing is served while passkeys are off.
pub(crate) struct Passkeys;

impl FromRequestParts<Arc<Auth>> for Passkeys {
    type Rejection = AuthError;

    async fn from_request_parts(_parts: &mut Parts, auth: &Arc<Auth>) -> Result<Self, AuthError> {
        flows::relying_party(auth).map(|_party| Self)
    }
}

#[derive(Deserialize)]
struct AuthenticatorResponse {
    challenge_id: Option<String>,
    credential: Option<Value>,
}

impl AuthenticatorResponse {
    fn read(&self) -> Result<(Uuid, &Value), AuthError> {
        let id = Uuid::try_parse(text(&self.challenge_id));
        let id = id.map_err(|_error| AuthError::WebAuthnChallengeNotFound)?;
        Ok((id, self.credential.as_ref().ok_or(AuthError::validation("credential is required"))?))
    }
}

#[derive(Deserialize)]
struct NameBody {
    friendly_name: Option<String>,
}

#[derive(Serialize)]
struct PasskeyBody<'a> {
    id: Uuid,
    #[serde(skip_serializing_if = "str::is_empty")]
    friendly_name: &'a str,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<Time>,
}

impl<'a> From<&'a PasskeyEntry> for PasskeyBody<'a> {
    fn from(passkey: &'a PasskeyEntry) -> Self {
        Self {
            id: passkey.id,
            friendly_name: &passkey.friendly_name,
            created_at: Some(passkey.created_at).into(),
            last_used_at: passkey.last_used_at.map(|at| Some(at).into()),
        }
    }
}

/// `POST /passkeys/registration/options`.
pub(crate) async fn registration_options(
    State(auth): State<Arc<Auth>>,
    _on: Passkeys,
    request: RequestContext,
) -> Result<Response, AuthError> {
    auth.limits.passkey.check(request.address())?;
    let Caller { account, session } = registered_caller(&auth, &request).await?;
    let begun = flows::start_registration(&auth, &request.origin, account.user.id, session.as_ref()).await?;
    Ok(options(&begun))
}

/// `POST /passkeys/registration/verify`.
pub(crate) async fn register(
    State(auth): State<Arc<Auth>>,
    _on: Passkeys,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    let body: AuthenticatorResponse = read_json(body).await?;
    let (challenge_id, credential) = body.read()?;
    let user_id = caller.account.user.id;
    let passkey =
        flows::finish_registration(&auth, &request.origin, user_id, challenge_id, credential).await?;
    Ok(Json(PasskeyBody::from(&passkey)).into_response())
}

/// `POST /passkeys/authentication/options`.
pub(crate) async fn sign_in_options(
    State(auth): State<Arc<Auth>>,
    _on: Passkeys,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.passkey.check(request.address())?;
    // Clients may send no body, unless it has to contain a captcha's token.
    if auth.captcha.is_some() {
        let _body: IgnoredAny = read_protected_json(&auth, &request, body).await?;
    }
    let begun = flows::start_sign_in(&auth, &request.origin).await?;
    Ok(options(&begun))
}

/// `POST /passkeys/authentication/verify`.
pub(crate) async fn sign_in(
    State(auth): State<Arc<Auth>>,
    _on: Passkeys,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.token.check(request.address())?;
    let body: AuthenticatorResponse = read_json(body).await?;
    let (challenge_id, credential) = body.read()?;
    let granted = flows::finish_sign_in(&auth, &request.origin, challenge_id, credential).await;
    crate::metrics::grant("passkey", granted.as_ref().map_or_else(AuthError::code, |_granted| "ok"));
    token::answer(&auth, &request.origin, &granted?).await
}

fn options(Begun { challenge, options }: &Begun) -> Response {
    Json(json!({
        "challenge_id": challenge.id,
        "options": options,
        "expires_at": challenge.expires_at.as_second(),
    }))
    .into_response()
}

/// `GET /passkeys`.
pub(crate) async fn list(
    State(auth): State<Arc<Auth>>,
    _on: Passkeys,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    list_of(&auth, &request, caller.account.user.id).await
}

/// `PATCH /passkeys/{id}`.
pub(crate) async fn rename(
    State(auth): State<Arc<Auth>>,
    _on: Passkeys,
    Path(id): Path<String>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    let id = passkey_id(&id)?;
    let body: NameBody = read_json(body).await?;
    let name = text(&body.friendly_name).trim();
    if name.is_empty() || name.chars().count() > NAME_LENGTH {
        return Err(AuthError::validation("friendly_name must have 1 to 120 characters"));
    }
    let passkey = flows::rename(&auth, &request.origin, &caller.account.user, id, name).await?;
    Ok(Json(PasskeyBody::from(&passkey)).into_response())
}

/// `DELETE /passkeys/{id}`.
pub(crate) async fn delete(
    State(auth): State<Arc<Auth>>,
    _on: Passkeys,
    Path(id): Path<String>,
    request: RequestContext,
) -> Result<StatusCode, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    let user = &caller.account.user;
    flows::delete(&auth, &request.origin, user, user.id, passkey_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /admin/users/{id}/passkeys`.
pub(crate) async fn admin_list(
    State(auth): State<Arc<Auth>>,
    _admin: Admin,
    _on: Passkeys,
    TargetUser { admin, account }: TargetUser,
) -> Result<Response, AuthError> {
    list_of(&auth, &admin.request, account.user.id).await
}

/// `DELETE /admin/users/{id}/passkeys/{passkey_id}`.
pub(crate) async fn admin_delete(
    State(auth): State<Arc<Auth>>,
    _admin: Admin,
    _on: Passkeys,
    TargetUser { admin: Admin { request, actor, .. }, account }: TargetUser,
    Path((_user_id, id)): Path<(String, String)>,
) -> Result<StatusCode, AuthError> {
    flows::delete(&auth, &request.origin, &actor, account.user.id, passkey_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list_of(auth: &Auth, request: &RequestContext, user_id: Uuid) -> Result<Response, AuthError> {
    let tx = auth.autocommit(&request.origin).await?;
    let listed = passkeys::list(&tx, user_id).await;
    let listed = database::finish(tx, listed).await?;
    Ok(Json(listed.iter().map(PasskeyBody::from).collect::<Vec<_>>()).into_response())
}

fn passkey_id(text: &str) -> Result<Uuid, AuthError> {
    Uuid::try_parse(text).map_err(|_error| AuthError::validation("passkey_id must be an UUID"))
}
