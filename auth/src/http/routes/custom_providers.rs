//! `/admin/custom-providers` (auth.md §3.16): providers that admins add at run time.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};

use crate::database;
use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::http::request::read_json;
use crate::http::routes::admin::Admin;
use crate::http::wire::Time;
use crate::providers::custom::{self, CustomProvider, ProviderFields, ProviderType};
use crate::state::Auth;

/// Extracted by every handler below, after the admin.
pub(crate) struct CustomProviders;

impl FromRequestParts<Arc<Auth>> for CustomProviders {
    type Rejection = AuthError;

    async fn from_request_parts(_parts: &mut Parts, auth: &Arc<Auth>) -> Result<Self, AuthError> {
        if auth.config.custom_oauth_enabled {
            Ok(Self)
        } else {
            Err(AuthError::SwitchedOff(Feature::CUSTOM_PROVIDERS))
        }
    }
}

/// A provider without its secret.
fn body(provider: &CustomProvider) -> Value {
    json!({
        "id": provider.id,
        "provider_type": provider.kind.as_str(),
        "identifier": provider.identifier,
        "name": provider.name,
        "client_id": provider.client_id,
        "acceptable_client_ids": provider.acceptable_client_ids,
        "scopes": provider.scopes,
        "custom_claims_allowlist": provider.custom_claims_allowlist,
        "pkce_enabled": provider.uses_pkce,
        "attribute_mapping": provider.attribute_mapping,
        "authorization_params": provider.authorization_params,
        "enabled": provider.is_enabled,
        "email_optional": provider.is_email_optional,
        "issuer": provider.issuer,
        "discovery_url": provider.discovery_url,
        "skip_nonce_check": provider.skips_nonce_check,
        "authorization_url": provider.authorization_url,
        "token_url": provider.token_url,
        "userinfo_url": provider.userinfo_url,
        "jwks_uri": provider.jwks_uri,
        "discovery_document": provider.discovery,
        "created_at": Time::from(Some(provider.created_at)),
        "updated_at": Time::from(Some(provider.updated_at)),
    })
}

/// `GET /admin/custom-providers?type=`.
pub(crate) async fn list(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: CustomProviders,
) -> Result<Response, AuthError> {
    let kind = request.query("type").map(|name| {
        ProviderType::parse(name).ok_or(AuthError::validation("type must be either 'oauth2' or 'oidc'"))
    });
    let kind = kind.transpose()?;
    let tx = auth.autocommit(&request.origin).await?;
    let listed = custom::list(&tx, kind).await;
    let listed = database::finish(tx, listed).await?;
    let providers: Vec<Value> = listed.iter().map(body).collect();
    Ok(Json(json!({ "providers": providers })).into_response())
}

/// `POST /admin/custom-providers`. The discovery document is fetched before the provider is stored.
pub(crate) async fn create(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: CustomProviders,
    posted: Body,
) -> Result<Response, AuthError> {
    let fields: ProviderFields = read_json(posted).await?;
    let mut provider = fields.into_provider(auth.config.custom_oauth_allow_private_addresses)?;
    auth.providers.refresh_discovery(&mut provider).await?;
    let limit = auth.config.custom_oauth_max_providers;
    let tx = auth.begin(&request.origin).await?;
    let created = async {
        let count = custom::count_locked(&tx).await?;
        if custom::find(&tx, &provider.identifier).await?.is_some() {
            return Err(AuthError::CustomProviderExists);
        }
        if limit > 0 && count >= i64::from(limit) {
            return Err(AuthError::TooManyCustomProviders);
        }
        provider.save(&tx, auth.now()).await
    }
    .await;
    database::finish(tx, created).await?;
    Ok((StatusCode::CREATED, Json(body(&provider))).into_response())
}

/// `GET /admin/custom-providers/{identifier}`.
pub(crate) async fn get(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: CustomProviders,
    Path(identifier): Path<String>,
) -> Result<Response, AuthError> {
    let tx = auth.autocommit(&request.origin).await?;
    let found = custom::find(&tx, &identifier).await;
    let provider = database::finish(tx, found).await?.ok_or(AuthError::CustomProviderNotFound)?;
    Ok(Json(body(&provider)).into_response())
}

/// `PUT /admin/custom-providers/{identifier}`.
pub(crate) async fn update(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: CustomProviders,
    Path(identifier): Path<String>,
    posted: Body,
) -> Result<Response, AuthError> {
    let fields: ProviderFields = read_json(posted).await?;
    let tx = auth.autocommit(&request.origin).await?;
    let found = custom::find(&tx, &identifier).await;
    let mut provider = database::finish(tx, found).await?.ok_or(AuthError::CustomProviderNotFound)?;
    let addresses = (provider.issuer.clone(), provider.discovery_url.clone());
    fields.apply(&mut provider, auth.config.custom_oauth_allow_private_addresses)?;
    if addresses != (provider.issuer.clone(), provider.discovery_url.clone()) {
        auth.providers.refresh_discovery(&mut provider).await?;
    }
    let tx = auth.begin(&request.origin).await?;
    let saved = provider.save(&tx, auth.now()).await;
    database::finish(tx, saved).await?;
    Ok(Json(body(&provider)).into_response())
}

/// `DELETE /admin/custom-providers/{identifier}`.
pub(crate) async fn delete(
    State(auth): State<Arc<Auth>>,
    Admin { request, .. }: Admin,
    _on: CustomProviders,
    Path(identifier): Path<String>,
) -> Result<StatusCode, AuthError> {
    let tx = auth.begin(&request.origin).await?;
    let deleted = custom::delete(&tx, &identifier).await;
    if database::finish(tx, deleted).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(AuthError::CustomProviderNotFound)
    }
}
