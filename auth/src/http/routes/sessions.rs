//! Listing and ending sessions: `/user/sessions` for users, `/admin/users/{id}/sessions` for admins. Upstream has no such routes
//! (auth.md §7, docs/decisions/0013).

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use basalt_pg::pool::Tx;
use http::StatusCode;
use serde_json::json;
use uuid::Uuid;

use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::http::bearer::{Bearer, Caller};
use crate::http::request::RequestContext;
use crate::http::routes::admin::{Admin, TargetUser};
use crate::http::wire::SessionBody;
use crate::sessions::{self, Scope};
use crate::state::Auth;
use crate::users::User;

/// Lists the caller's sessions, newest first.
pub(crate) async fn list(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let tx = auth.autocommit(&request.origin).await?;
    let listed = async {
        let Caller { account, session } = bearer.caller(&auth, &tx).await?;
        let sessions = sessions::list(&tx, account.user.id).await?;
        Ok((sessions, session.map(|session| session.id)))
    }
    .await;
    let (sessions, current) = database::finish(tx, listed).await?;
    Ok(body(&sessions, current))
}

/// Ends a session of the caller.
pub(crate) async fn delete(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
) -> Result<StatusCode, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let tx = auth.begin(&request.origin).await?;
    let ended = async {
        let caller = bearer.caller(&auth, &tx).await?;
        let id = session_id(&id)?;
        let user = &caller.account.user;
        end_one(&tx, user, id).await?;
        let traits = Some(json!({ "session_id": id }));
        auth.audit_log(&request.origin.client).record(&tx, user, Action::Logout, traits, auth.now()).await
    }
    .await;
    database::finish(tx, ended).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the sessions of any user.
pub(crate) async fn list_for_user(
    State(auth): State<Arc<Auth>>,
    TargetUser { admin, account }: TargetUser,
) -> Result<Response, AuthError> {
    let tx = auth.autocommit(&admin.request.origin).await?;
    let listed = sessions::list(&tx, account.user.id).await;
    Ok(body(&database::finish(tx, listed).await?, None))
}

/// Ends all sessions of a user.
pub(crate) async fn delete_all_for_user(
    State(auth): State<Arc<Auth>>,
    TargetUser { admin, account }: TargetUser,
) -> Result<StatusCode, AuthError> {
    revoke(&auth, &admin, &account.user, None).await
}

/// Ends a session of a user.
pub(crate) async fn delete_for_user(
    State(auth): State<Arc<Auth>>,
    TargetUser { admin, account }: TargetUser,
    Path((_user_id, id)): Path<(String, String)>,
) -> Result<StatusCode, AuthError> {
    let id = session_id(&id)?;
    revoke(&auth, &admin, &account.user, Some(id)).await
}

async fn revoke(auth: &Auth, admin: &Admin, user: &User, id: Option<Uuid>) -> Result<StatusCode, AuthError> {
    let Admin { request, actor, .. } = admin;
    let tx = auth.begin(&request.origin).await?;
    let ended = async {
        match id {
            Some(id) => end_one(&tx, user, id).await?,
            None => drop(sessions::end(&tx, user.id, Scope::Global).await?),
        }
        let traits = Some(json!({ "user_id": user.id, "session_id": id }));
        auth.audit_log(&request.origin.client)
            .record(&tx, actor, Action::TokenRevoked, traits, auth.now())
            .await
    }
    .await;
    database::finish(tx, ended).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn end_one(tx: &Tx, user: &User, id: Uuid) -> Result<(), AuthError> {
    let ended = sessions::end(tx, user.id, Scope::Local(id)).await?;
    if ended == 0 { Err(AuthError::SessionNotFound) } else { Ok(()) }
}

fn session_id(text: &str) -> Result<Uuid, AuthError> {
    Uuid::try_parse(text).map_err(|_error| AuthError::SessionPathNotUuid)
}

fn body(sessions: &[sessions::SessionEntry], current: Option<Uuid>) -> Response {
    let sessions: Vec<SessionBody<'_>> =
        sessions.iter().map(|session| SessionBody::new(session, current)).collect();
    Json(json!({ "sessions": sessions })).into_response()
}
