//! `POST /token?grant_type=`: dispatches to the grant and builds the response (auth.md §3.5).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::database;
use crate::error::AuthError;
use crate::flows::grants::id_token::IdTokenGrant;
use crate::flows::grants::password::PasswordGrant;
use crate::flows::grants::pkce::PkceGrant;
use crate::flows::grants::refresh::RefreshGrant;
use crate::flows::grants::switched_off::Web3Grant;
use crate::http::bearer::Bearer;
use crate::http::protected::read_protected_json;
use crate::http::request::{RequestContext, read_json};
use crate::http::wire::TokenBody;
use crate::metrics;
use crate::origin::Origin;
use crate::sessions::access_token::Granted;
use crate::state::Auth;
use uuid::Uuid;

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.token.check(request.address())?;
    let (name, granted) = match request.query("grant_type") {
        Some("password") => {
            let grant: PasswordGrant = read_protected_json(&auth, &request, body).await?;
            ("password", Box::pin(grant.run(&auth, &request.origin)).await)
        }
        Some("refresh_token") => {
            ("refresh_token", read_json::<RefreshGrant>(body).await?.run(&auth, &request.origin, None).await)
        }
        Some("pkce") => ("pkce", read_json::<PkceGrant>(body).await?.run(&auth, &request.origin).await),
        Some("id_token") => {
            let grant: IdTokenGrant = read_json(body).await?;
            let caller = if grant.links() { Some(caller(&auth, &request).await?) } else { None };
            ("id_token", Box::pin(grant.run(&auth, &request.origin, caller)).await)
        }
        Some("web3") => return Err(read_json::<Web3Grant>(body).await?.refusal()),
        Some(_) | None => return Err(AuthError::UnsupportedGrant),
    };
    metrics::grant(name, granted.as_ref().map_or_else(AuthError::code, |_granted| "ok"));
    answer(&auth, &request.origin, &granted?).await
}

/// The user whose token the request has.
async fn caller(auth: &Auth, request: &RequestContext) -> Result<Uuid, AuthError> {
    let bearer = Bearer::read(auth, request)?;
    let tx = auth.autocommit(&request.origin).await?;
    let caller = bearer.caller(auth, &tx).await;
    Ok(database::finish(tx, caller).await?.account.user.id)
}

/// The token response.
///
/// # Errors
/// A hook rejects or breaks the token. A session that has just begun has ended then.
pub(crate) async fn answer(auth: &Auth, origin: &Origin, granted: &Granted) -> Result<Response, AuthError> {
    let token = auth.issue(origin, granted).await?;
    Ok(Json(TokenBody::new(granted, token)).into_response())
}
