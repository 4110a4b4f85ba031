//! `/factors/recovery-codes` (auth.md §3.15).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::AuthError;
use crate::factors::recovery_codes::RECOVERY_CODE;
use crate::fields::text;
use crate::flows::factors::recovery_codes::{self, CodeSet, NewCodes};
use crate::http::bearer::Caller;
use crate::http::request::{RequestContext, read_json, read_json_or_default};
use crate::http::routes::factors::registered_caller;
use crate::http::routes::token;
use crate::state::Auth;

#[derive(Default, Deserialize)]
struct NameBody {
    friendly_name: Option<String>,
}

#[derive(Deserialize)]
struct CodeBody {
    code: Option<String>,
}

/// `GET`: how many codes are left.
pub(crate) async fn status(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Json<Value>, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    let set = recovery_codes::status(&auth, &request.origin, &caller.account).await?;
    let CodeSet { factor_id, total, remaining } = set;
    Ok(Json(json!({ "id": factor_id, "type": RECOVERY_CODE, "total": total, "remaining": remaining })))
}

/// `POST`: the caller's first codes.
pub(crate) async fn generate(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Json<Value>, AuthError> {
    let Caller { account, session } = registered_caller(&auth, &request).await?;
    let body: NameBody = read_json_or_default(body).await?;
    let name = text(&body.friendly_name);
    let codes = recovery_codes::generate(&auth, &request.origin, &account, session.as_ref(), name).await?;
    Ok(new_codes(codes))
}

/// `POST …/regenerate`: replaces the caller's codes.
pub(crate) async fn regenerate(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Json<Value>, AuthError> {
    let Caller { account, session } = registered_caller(&auth, &request).await?;
    let codes = recovery_codes::regenerate(&auth, &request.origin, &account, session.as_ref()).await?;
    Ok(new_codes(codes))
}

/// `POST …/verify`: uses a code; returns the session, which is aal2 now.
pub(crate) async fn verify(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let caller = registered_caller(&auth, &request).await?;
    auth.limits.factor_verify.check(request.address())?;
    let body: CodeBody = read_json(body).await?;
    let code = text(&body.code);
    if code.is_empty() {
        return Err(AuthError::validation("Code needs to be non-empty"));
    }
    let session = caller.session.as_ref().ok_or(AuthError::NoSuchSession)?;
    let granted = recovery_codes::verify(&auth, &request.origin, &caller.account, session, code).await?;
    token::answer(&auth, &request.origin, &granted).await
}

/// `DELETE`: removes the caller's codes.
pub(crate) async fn unenroll(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Json<Value>, AuthError> {
    let Caller { account, session } = registered_caller(&auth, &request).await?;
    let id = recovery_codes::unenroll(&auth, &request.origin, &account, session.as_ref()).await?;
    Ok(Json(json!({ "id": id })))
}

fn new_codes(NewCodes { factor_id, friendly_name, codes }: NewCodes) -> Json<Value> {
    let mut body = Map::new();
    body.insert("id".to_owned(), factor_id.to_string().into());
    body.insert("type".to_owned(), RECOVERY_CODE.into());
    if !friendly_name.is_empty() {
        body.insert("friendly_name".to_owned(), friendly_name.into());
    }
    body.insert("total".to_owned(), codes.len().into());
    body.insert("codes".to_owned(), codes.into());
    Json(Value::Object(body))
}
