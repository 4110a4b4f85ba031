//! `/factors` and the factors of `/admin/users/{id}` (auth.md §3.15, §3.13).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::database;
use crate::error::AuthError;
use crate::factors::totp::Enrolment;
use crate::fields::{filled, text};
use crate::flows::factors::webauthn::{self, WEBAUTHN, WebAuthnAnswer};
use crate::flows::factors::{self, Answer, Enrolled, NewFactor};
use crate::http::bearer::{Bearer, Caller};
use crate::http::request::{RequestContext, read_json, read_json_or_default};
use crate::http::routes::admin::{Admin, TargetUser};
use crate::http::routes::signup::channel;
use crate::http::routes::token;
use crate::http::wire::FactorBody;
use crate::state::Auth;
use crate::users::Factor;

#[derive(Deserialize)]
struct EnrolmentBody {
    factor_type: Option<String>,
    friendly_name: Option<String>,
    issuer: Option<String>,
    phone: Option<String>,
}

#[derive(Default, Deserialize)]
struct ChallengeBody {
    channel: Option<String>,
    webauthn: Option<WebAuthnBody>,
}

#[derive(Deserialize)]
struct VerifyBody {
    challenge_id: Option<String>,
    code: Option<String>,
    webauthn: Option<WebAuthnBody>,
}

/// The part of a body for WebAuthn factors, in the client's spelling.
#[derive(Deserialize)]
struct WebAuthnBody {
    #[serde(rename = "rpId")]
    rp_id: Option<String>,
    credential_response: Option<Value>,
}

#[derive(Default, Deserialize)]
struct ChangeBody {
    friendly_name: Option<String>,
    phone: Option<String>,
}

/// Enrols a factor of the caller.
pub(crate) async fn enroll(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    let body: EnrolmentBody = read_json(body).await?;
    let friendly_name = text(&body.friendly_name);
    let factor = NewFactor {
        factor_type: text(&body.factor_type),
        friendly_name,
        issuer: text(&body.issuer),
        phone: text(&body.phone),
    };
    if factor.factor_type == WEBAUTHN {
        let session = caller.session.as_ref();
        let id = factor.enroll_webauthn(&auth, &request.origin, &caller.account, session).await?;
        let body = json!({ "id": id, "type": WEBAUTHN, "friendly_name": friendly_name });
        return Ok(Json(body).into_response());
    }
    let (id, enrolled) =
        factor.enroll(&auth, &request.origin, &caller.account, caller.session.as_ref()).await?;
    let body = match enrolled {
        Enrolled::Totp(Enrolment { qr_code, secret, uri }) => {
            let totp = json!({ "qr_code": qr_code, "secret": secret, "uri": uri });
            json!({ "id": id, "type": "totp", "friendly_name": friendly_name, "totp": totp })
        }
        Enrolled::Phone(phone) => {
            json!({ "id": id, "type": "phone", "friendly_name": friendly_name, "phone": phone })
        }
    };
    Ok(Json(body).into_response())
}

/// Challenges a factor of the caller.
pub(crate) async fn challenge(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    auth.limits.factor_challenge.check(request.address())?;
    let body: ChallengeBody = read_json_or_default(body).await?;
    let factor = factor(&caller.account.factors, &id)?;
    let user = &caller.account.user;
    if factor.factor_type == WEBAUTHN {
        let rp_id = body.webauthn.as_ref().and_then(|body| filled(&body.rp_id));
        let begun = webauthn::challenge(&auth, &request.origin, user, factor, rp_id).await?;
        let body = json!({
            "id": begun.challenge.id, "type": WEBAUTHN, "expires_at": begun.challenge.expires_at.as_second(),
            "webauthn": { "type": begun.kind, "credential_options": { "publicKey": begun.options } },
        });
        return Ok(Json(body).into_response());
    }
    let channel = channel(&auth, text(&body.channel))?;
    let challenge = factors::challenge(&auth, &request.origin, user, factor, channel).await?;
    let body = json!({
        "id": challenge.id, "type": factor.factor_type, "expires_at": challenge.expires_at.as_second()
    });
    Ok(Json(body).into_response())
}

/// Verifies a code; returns the session, which is aal2 now.
pub(crate) async fn verify(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    auth.limits.factor_verify.check(request.address())?;
    let body: VerifyBody = read_json(body).await?;
    let factor = factor(&caller.account.factors, &id)?;
    if factor.factor_type == WEBAUTHN {
        return verify_webauthn(&auth, &request, &caller, factor, &body).await;
    }
    let code = text(&body.code);
    if code.is_empty() {
        return Err(AuthError::validation("Code needs to be non-empty"));
    }
    let challenge_id =
        Uuid::try_parse(text(&body.challenge_id)).map_err(|_error| AuthError::ChallengeNotFound)?;
    let session = caller.session.as_ref().ok_or(AuthError::NoSuchSession)?;
    let answer = Answer { session, factor, challenge_id, code };
    let granted = answer.verify(&auth, &request.origin, caller.account.user.id).await?;
    token::answer(&auth, &request.origin, &granted).await
}

async fn verify_webauthn(
    auth: &Auth,
    request: &RequestContext,
    caller: &Caller,
    factor: &Factor,
    body: &VerifyBody,
) -> Result<Response, AuthError> {
    let given = body.webauthn.as_ref().ok_or(AuthError::validation("webauthn is required"))?;
    let response = given.credential_response.as_ref();
    let response = response.ok_or(AuthError::validation("webauthn.credential_response is required"))?;
    let challenge_id =
        Uuid::try_parse(text(&body.challenge_id)).map_err(|_error| AuthError::ChallengeNotFound)?;
    let session = caller.session.as_ref().ok_or(AuthError::NoSuchSession)?;
    let answer = WebAuthnAnswer { session, factor, challenge_id, rp_id: filled(&given.rp_id), response };
    let granted = answer.verify(auth, &request.origin, caller.account.user.id).await?;
    token::answer(auth, &request.origin, &granted).await
}

/// Removes a factor of the caller.
pub(crate) async fn unenroll(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let Caller { account, session } = registered_caller(&auth, &request).await?;
    let factor = factor(&account.factors, &id)?;
    factors::unenroll(&auth, &request.origin, &account.user, session.as_ref(), factor).await?;
    Ok(Json(json!({ "id": factor.id })).into_response())
}

/// Changes a user's factor, and returns it. A number can be set only on phone factors.
pub(crate) async fn admin_change(
    State(auth): State<Arc<Auth>>,
    TargetUser { admin: Admin { request, actor, .. }, account }: TargetUser,
    Path((_user_id, factor_id)): Path<(String, String)>,
    body: Body,
) -> Result<Response, AuthError> {
    let body: ChangeBody = read_json_or_default(body).await?;
    let factor = factor(&account.factors, &factor_id)?;
    let change = (body.friendly_name.as_deref(), filled(&body.phone));
    if change == (None, None) {
        return Ok(Json(FactorBody::from(factor)).into_response());
    }
    let factor =
        factors::change_for_admin(&auth, &request.origin, &actor, &account.user, factor, change).await?;
    Ok(Json(FactorBody::from(&factor)).into_response())
}

/// Removes a user's factor, and returns it.
pub(crate) async fn admin_delete(
    State(auth): State<Arc<Auth>>,
    TargetUser { admin: Admin { request, actor, .. }, account }: TargetUser,
    Path((_user_id, factor_id)): Path<(String, String)>,
) -> Result<Response, AuthError> {
    let factor = factor(&account.factors, &factor_id)?;
    factors::delete_for_admin(&auth, &request.origin, &actor, &account.user, factor).await?;
    Ok(Json(FactorBody::from(factor)).into_response())
}

/// The caller, who must not be anonymous.
pub(crate) async fn registered_caller(auth: &Auth, request: &RequestContext) -> Result<Caller, AuthError> {
    let bearer = Bearer::read(auth, request)?;
    let tx = auth.autocommit(&request.origin).await?;
    let caller = bearer.caller(auth, &tx).await;
    let caller = database::finish(tx, caller).await?;
    if caller.account.user.is_anonymous {
        return Err(AuthError::AnonymousRefused);
    }
    Ok(caller)
}

fn factor<'a>(factors: &'a [Factor], id: &str) -> Result<&'a Factor, AuthError> {
    let id = Uuid::try_parse(id).map_err(|_error| AuthError::FactorIdNotUuid)?;
    factors.iter().find(|factor| factor.id == id).ok_or(AuthError::FactorNotFound)
}
