//! `/admin/users`, `/admin/users/{id}` and the user's factors (auth.md §3.13), for admins.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::database;
use crate::error::AuthError;
use crate::flows::admin::{self, AdminUserBody};
use crate::http::pagination::{self, Page, escape_like};
use crate::http::request::{read_json, read_json_or_default};
use crate::http::routes::admin::{Admin, TargetUser};
use crate::http::wire::{FactorBody, UserBody};
use crate::state::Auth;
use crate::users::list::{self, Cursor, Next};

#[derive(Serialize)]
struct ListBody<'a> {
    users: Vec<UserBody<'a>>,
    aud: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pagination: Option<Next>,
}

#[derive(Debug, Default, Deserialize)]
struct DeleteBody {
    should_soft_delete: Option<bool>,
}

/// Paginates by number, or by cursor if only `cursor` or `limit` is given.
pub(crate) async fn list(
    State(auth): State<Arc<Auth>>,
    Admin { request, bearer, .. }: Admin,
) -> Result<Response, AuthError> {
    let audience = bearer.audience(&auth, &request);
    let is_numbered = request.query("page").is_some()
        || (request.query("cursor").is_none() && request.query("limit").is_none());
    let page = Page::read(&request)?;
    let limit = pagination::limit(&request)?;
    let direction = pagination::direction(&request)?;
    let cursor = request.query("cursor").filter(|_cursor| !is_numbered);
    let cursor = cursor.map(|text| Cursor::decode(text).ok_or_else(pagination::bad_cursor)).transpose()?;
    let filter = request.query("filter").map(|filter| format!("%{}%", escape_like(filter)));
    let filter = filter.as_deref();
    let tx = auth.autocommit(&request.origin).await?;
    let listed = async {
        if is_numbered {
            let (accounts, total) = list::page(&tx, audience, filter, page.window(), direction).await?;
            Ok((accounts, Some(total), None))
        } else {
            let (accounts, next) = list::after(&tx, audience, filter, cursor, limit, direction).await?;
            Ok((accounts, None, Some(next)))
        }
    }
    .await;
    let (accounts, total, pagination) = database::finish(tx, listed).await?;
    let users = accounts.iter().map(UserBody::from).collect();
    let mut response = Json(ListBody { users, aud: audience, pagination }).into_response();
    if let Some(total) = total {
        page.add_headers(response.headers_mut(), "/admin/users", &request, total);
    }
    Ok(response)
}

pub(crate) async fn create(
    State(auth): State<Arc<Auth>>,
    Admin { request, actor, .. }: Admin,
    body: Body,
) -> Result<Response, AuthError> {
    let wanted: AdminUserBody = read_json(body).await?;
    let account = Box::pin(wanted.create(&auth, &request.origin, &actor)).await?;
    Ok(Json(UserBody::from(&account)).into_response())
}

pub(crate) async fn get(TargetUser { account, .. }: TargetUser) -> Response {
    Json(UserBody::from(&account)).into_response()
}

pub(crate) async fn change(
    State(auth): State<Arc<Auth>>,
    TargetUser { admin: Admin { request, actor, .. }, account }: TargetUser,
    body: Body,
) -> Result<Response, AuthError> {
    let wanted: AdminUserBody = read_json(body).await?;
    let account = Box::pin(wanted.change(&auth, &request.origin, &actor, &account.user)).await?;
    Ok(Json(UserBody::from(&account)).into_response())
}

pub(crate) async fn delete(
    State(auth): State<Arc<Auth>>,
    TargetUser { admin: Admin { request, actor, .. }, account }: TargetUser,
    body: Body,
) -> Result<Response, AuthError> {
    let body: DeleteBody = read_json_or_default(body).await?;
    let is_soft = body.should_soft_delete == Some(true);
    admin::delete(&auth, &request.origin, &actor, &account.user, is_soft).await?;
    Ok(Json(json!({})).into_response())
}

/// Lists the user's factors.
pub(crate) async fn factors(TargetUser { account, .. }: TargetUser) -> Response {
    let factors: Vec<FactorBody<'_>> = account.factors.iter().map(FactorBody::from).collect();
    Json(factors).into_response()
}
