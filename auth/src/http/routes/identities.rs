//! `/user/identities`: linking and unlinking by the user (auth.md §3.16).

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use basalt_pg::pool::Tx;
use http::{StatusCode, header};
use serde_json::json;
use uuid::Uuid;

use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::flows::notifications::{AccountChange, notify};
use crate::http::bearer::Bearer;
use crate::http::request::RequestContext;
use crate::http::routes::external;
use crate::state::Auth;
use crate::users;

/// `GET /user/identities/authorize?provider=`.
pub(crate) async fn authorize(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let tx = auth.autocommit(&request.origin).await?;
    let caller = bearer.caller(&auth, &tx).await;
    let caller = database::finish(tx, caller).await?;
    check_linking(&auth)?;
    let (url, _secret) = external::begin(&auth, &request, Some(caller.account.user.id), false).await?;
    if request.query("skip_http_redirect") == Some("true") {
        return Ok(Json(json!({ "url": url })).into_response());
    }
    Ok((StatusCode::FOUND, [(header::LOCATION, url)]).into_response())
}

/// `DELETE /user/identities/{identity_id}`.
pub(crate) async fn delete(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let tx = auth.begin(&request.origin).await?;
    let unlinked = unlink(&auth, &request, &bearer, &tx, &id).await;
    database::finish(tx, unlinked).await?;
    Ok(Json(json!({})).into_response())
}

fn check_linking(auth: &Auth) -> Result<(), AuthError> {
    if auth.config.security_manual_linking_enabled { Ok(()) } else { Err(AuthError::ManualLinkingDisabled) }
}

async fn unlink(
    auth: &Auth,
    request: &RequestContext,
    bearer: &Bearer,
    tx: &Tx,
    id: &str,
) -> Result<(), AuthError> {
    let account = bearer.caller(auth, tx).await?.account;
    check_linking(auth)?;
    let id = Uuid::try_parse(id).map_err(|_error| AuthError::IdentityIdNotUuid)?;
    if !bearer.is_for(auth, bearer.audience(auth, request)) {
        return Err(AuthError::UnexpectedAudience);
    }
    // Lock before counting, so that concurrent requests cannot remove the last identity.
    let user = users::lock(tx, account.user.id).await?.ok_or(AuthError::NoSuchSub)?;
    let account = users::complete(tx, user).await?;
    if account.identities.len() <= 1 {
        return Err(AuthError::SingleIdentity);
    }
    let identity = account.identities.iter().find(|identity| identity.id == id);
    let identity = identity.ok_or(AuthError::IdentityNotFound)?;
    let now = auth.now();
    users::unlink(tx, &account, identity, now)
        .await
        .map_err(|error| error.map_taken_address(AuthError::IdentityEmailConflict))?;
    let traits = json!({
        "identity_id": identity.id, "provider": identity.provider, "provider_id": identity.provider_id
    });
    let user = &account.user;
    auth.audit_log(&request.origin.client)
        .record(tx, user, Action::IdentityUnlinked, Some(traits), now)
        .await?;
    notify(
        tx,
        auth,
        &request.origin,
        (user.id, user.profile()),
        AccountChange::IdentityUnlinked { provider: &identity.provider },
    )
    .await
}
