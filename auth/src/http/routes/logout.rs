//! `POST /logout?scope=`: ends sessions of the caller (auth.md §3.6). Other services accept their access tokens until these
//! expire.

use std::sync::Arc;

use axum::extract::State;
use basalt_pg::pool::Tx;
use http::StatusCode;

use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::http::bearer::{Bearer, Caller};
use crate::http::request::RequestContext;
use crate::sessions::{self, Scope};
use crate::state::Auth;

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<StatusCode, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let tx = auth.begin(&request.origin).await?;
    let ended = end(&auth, &request, &bearer, &tx).await;
    database::finish(tx, ended).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn end(auth: &Auth, request: &RequestContext, bearer: &Bearer, tx: &Tx) -> Result<(), AuthError> {
    let caller = bearer.caller_or_client(auth, tx).await?;
    if let Some(scope) = scope(request, &caller)? {
        sessions::end(tx, caller.account.user.id, scope).await?;
    }
    auth.audit_log(&request.origin.client)
        .record(tx, &caller.account.user, Action::Logout, None, auth.now())
        .await
}

/// `None` if there is nothing to end: `local` with a token that has no session. An OAuth client can end only its own session.
fn scope(request: &RequestContext, caller: &Caller) -> Result<Option<Scope>, AuthError> {
    let session = caller.session.as_ref().map(|session| session.id);
    match request.query("scope") {
        None | Some("global" | "others") if caller.client_id().is_some() => {
            Err(AuthError::ClientSessionRefused)
        }
        None | Some("global") => Ok(Some(Scope::Global)),
        Some("local") => Ok(session.map(Scope::Local)),
        Some("others") => Ok(Some(session.map_or(Scope::Global, Scope::Others))),
        Some(other) => Err(AuthError::Validation(format!("Unsupported logout scope \"{other}\"").into())),
    }
}
