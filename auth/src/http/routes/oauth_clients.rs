//! Clients of the OAuth server (auth.md §3.22): their own registration, and `/admin/oauth/clients`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use basalt_pg::pool::Tx;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::database;
use crate::error::AuthError;
use crate::http::pagination::Page;
use crate::http::request::{RequestContext, read_json};
use crate::http::routes::admin::Admin;
use crate::http::routes::oauth::OAuthServer;
use crate::http::wire::Time;
use crate::oauth_server::clients::{self, OAuthClient, Registration};
use crate::oauth_server::metadata::ClientFields;
use crate::state::Auth;

/// A client. Its secret is shown once, when it is generated.
#[derive(Serialize)]
struct ClientBody<'a> {
    client_id: Uuid,
    client_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<&'a str>,
    client_type: &'a str,
    token_endpoint_auth_method: &'a str,
    registration_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    client_uri: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    logo_uri: &'a str,
    redirect_uris: &'a [String],
    grant_types: &'a [String],
    response_types: [&'a str; 1],
    created_at: Time,
    updated_at: Time,
}

impl<'a> ClientBody<'a> {
    fn new(client: &'a OAuthClient, secret: Option<&'a str>) -> Self {
        Self {
            client_id: client.id,
            client_name: &client.name,
            client_secret: secret,
            client_type: client.client_type(),
            token_endpoint_auth_method: client.auth.as_str(),
            registration_type: client.registration.as_str(),
            client_uri: &client.uri,
            logo_uri: &client.logo_uri,
            redirect_uris: &client.redirect_uris,
            grant_types: &client.grant_types,
            response_types: ["code"],
            created_at: Some(client.created_at).into(),
            updated_at: Some(client.updated_at).into(),
        }
    }
}

/// `POST /oauth/clients/register` (RFC 7591).
pub(crate) async fn register(
    State(auth): State<Arc<Auth>>,
    _on: OAuthServer,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    if !auth.config.oauth_server_allow_dynamic_registration {
        return Err(AuthError::RegistrationDisabled);
    }
    auth.limits.client_registration.check(request.address())?;
    insert(&auth, &request, read_json(body).await?, Registration::Dynamic).await
}

/// `POST /admin/oauth/clients`.
pub(crate) async fn create(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: OAuthServer,
    body: Body,
) -> Result<Response, AuthError> {
    insert(&auth, &request, read_json(body).await?, Registration::Manual).await
}

async fn insert(
    auth: &Auth,
    request: &RequestContext,
    fields: ClientFields,
    registration: Registration,
) -> Result<Response, AuthError> {
    let mut client = fields.into_client(registration)?;
    let tx = auth.begin(&request.origin).await?;
    let secret = client.insert(&tx, auth.now()).await;
    let secret = database::finish(tx, secret).await?;
    let body = ClientBody::new(&client, secret.as_deref());
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// `GET /admin/oauth/clients`.
pub(crate) async fn list(
    State(auth): State<Arc<Auth>>,
    Admin { request, bearer, .. }: Admin,
    _on: OAuthServer,
) -> Result<Response, AuthError> {
    let page = Page::read(&request)?;
    let tx = auth.autocommit(&request.origin).await?;
    let listed = clients::list(&tx, page.window()).await;
    let (clients, total) = database::finish(tx, listed).await?;
    let bodies: Vec<ClientBody<'_>> = clients.iter().map(|client| ClientBody::new(client, None)).collect();
    let body = json!({ "clients": bodies, "aud": bearer.audience(&auth, &request) });
    let mut response = Json(body).into_response();
    page.add_headers(response.headers_mut(), "/admin/oauth/clients", &request, total);
    Ok(response)
}

/// `GET /admin/oauth/clients/{id}`.
pub(crate) async fn get(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: OAuthServer,
    Path(id): Path<String>,
) -> Result<Response, AuthError> {
    let id = client_id(&id)?;
    let tx = auth.autocommit(&request.origin).await?;
    let client = clients::find(&tx, id).await;
    let client = database::finish(tx, client).await?.ok_or(AuthError::OAuthClientNotFound)?;
    Ok(Json(ClientBody::new(&client, None)).into_response())
}

/// `PUT /admin/oauth/clients/{id}`.
pub(crate) async fn update(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: OAuthServer,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, AuthError> {
    let id = client_id(&id)?;
    let fields: ClientFields = read_json(body).await?;
    let tx = auth.begin(&request.origin).await?;
    let updated = async {
        let mut client = lock(&tx, id).await?;
        fields.apply(&mut client)?;
        client.update(&tx, auth.now()).await?;
        Ok(client)
    }
    .await;
    let client = database::finish(tx, updated).await?;
    Ok(Json(ClientBody::new(&client, None)).into_response())
}

/// `DELETE /admin/oauth/clients/{id}`. Ends the client's sessions.
pub(crate) async fn delete(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: OAuthServer,
    Path(id): Path<String>,
) -> Result<StatusCode, AuthError> {
    let id = client_id(&id)?;
    let tx = auth.begin(&request.origin).await?;
    let deleted = clients::delete(&tx, id).await;
    if database::finish(tx, deleted).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(AuthError::OAuthClientNotFound)
    }
}

/// `POST /admin/oauth/clients/{id}/regenerate_secret`.
pub(crate) async fn regenerate_secret(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: OAuthServer,
    Path(id): Path<String>,
) -> Result<Response, AuthError> {
    let id = client_id(&id)?;
    let tx = auth.begin(&request.origin).await?;
    let regenerated = async {
        let mut client = lock(&tx, id).await?;
        if client.is_public() {
            return Err(AuthError::validation("A public client has no secret"));
        }
        let secret = client.regenerate_secret(&tx, auth.now()).await?;
        Ok((client, secret))
    }
    .await;
    let (client, secret) = database::finish(tx, regenerated).await?;
    Ok(Json(ClientBody::new(&client, Some(&secret))).into_response())
}

async fn lock(tx: &Tx, id: Uuid) -> Result<OAuthClient, AuthError> {
    clients::lock(tx, id).await?.ok_or(AuthError::OAuthClientNotFound)
}

fn client_id(text: &str) -> Result<Uuid, AuthError> {
    Uuid::try_parse(text).map_err(|_error| AuthError::validation("client_id must be an UUID"))
}
