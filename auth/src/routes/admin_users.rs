//! `/admin/users` and `/admin/users/{id}` (auth.md §3.13): for tokens whose role is an admin role, which the secret
//! key's is.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::Auth;
use crate::admin::{self, AdminUser};
use crate::bearer::Bearer;
use crate::error::AuthError;
use crate::pagination::{Direction, Page, escape_like};
use crate::request::{RequestContext, read_json, read_json_or_default};
use crate::users::{self, Account, User};
use crate::wire::UserBody;

#[derive(Serialize)]
struct ListBody<'a> {
    users: Vec<UserBody<'a>>,
    aud: &'a str,
}

#[derive(Debug, Default, Deserialize)]
struct DeleteBody {
    #[serde(default)]
    should_soft_delete: bool,
}

pub(crate) async fn list(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let _actor = bearer.admin(&auth, &request).await?;
    let audience = bearer.audience(&auth, &request);
    let page = Page::read(&request)?;
    let direction = Direction::read(&request)?;
    let filter = request.query("filter").map(|filter| format!("%{}%", escape_like(filter)));
    let tx = auth.begin(&request).await?;
    let listed = users::list(&tx, audience, filter.as_deref(), &page, direction).await;
    let (accounts, total) = crate::finish(tx, listed).await?;
    let body = ListBody { users: accounts.iter().map(UserBody::from).collect(), aud: audience };
    let mut response = Json(body).into_response();
    page.add_headers(response.headers_mut(), "/admin/users", &request, total);
    Ok(response)
}

pub(crate) async fn create(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let actor = Bearer::read(&auth, &request)?.admin(&auth, &request).await?;
    let wanted: AdminUser = read_json(body).await?;
    let account = Box::pin(wanted.create(&auth, &request, &actor)).await?;
    Ok(Json(UserBody::from(&account)).into_response())
}

pub(crate) async fn get(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let _actor = Bearer::read(&auth, &request)?.admin(&auth, &request).await?;
    let account = load(&auth, &request, &id).await?;
    Ok(Json(UserBody::from(&account)).into_response())
}

pub(crate) async fn change(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let actor = Bearer::read(&auth, &request)?.admin(&auth, &request).await?;
    let account = load(&auth, &request, &id).await?;
    let wanted: AdminUser = read_json(body).await?;
    let account = Box::pin(wanted.change(&auth, &request, &actor, &account.user)).await?;
    Ok(Json(UserBody::from(&account)).into_response())
}

pub(crate) async fn delete(
    State(auth): State<Arc<Auth>>,
    Path(id): Path<String>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let actor = Bearer::read(&auth, &request)?.admin(&auth, &request).await?;
    let account = load(&auth, &request, &id).await?;
    let body: DeleteBody = read_json_or_default(body).await?;
    admin::delete(&auth, &request, &actor, &account.user, body.should_soft_delete).await?;
    Ok(Json(json!({})).into_response())
}

async fn load(auth: &Auth, request: &RequestContext, id: &str) -> Result<Account, AuthError> {
    let id = Uuid::try_parse(id).map_err(|_error| AuthError::UserIdNotUuid)?;
    let tx = auth.begin(request).await?;
    let found = users::account(&tx, id).await;
    crate::finish(tx, found).await?.ok_or(AuthError::UserNotFound)
}

impl Bearer {
    /// Who acts as admin. A token need not belong to anybody: a project key acts in the name of its role. Its
    /// session, if it names one, must live.
    pub(crate) async fn admin(&self, auth: &Auth, request: &RequestContext) -> Result<User, AuthError> {
        if !self.is_admin(auth) {
            return Err(AuthError::NotAdmin);
        }
        let Some((user_id, session_id)) = self.named_session() else { return Ok(self.nobody(auth)) };
        let tx = auth.begin(request).await?;
        let found = async {
            let session = crate::sessions::find(&tx, session_id, user_id).await?;
            let user = users::find(&tx, user_id).await?;
            Ok(session.and(user))
        }
        .await;
        crate::finish(tx, found).await?.ok_or(AuthError::AdminSessionExpired)
    }
}
