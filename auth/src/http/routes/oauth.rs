//! The OAuth 2.1 server (auth.md §3.22): `/oauth/authorize`, consent, `/oauth/token`, `/oauth/userinfo`, grants and the discovery
//! documents. Clients are at [`mod@super::oauth_clients`].

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use url::form_urlencoded;
use uuid::Uuid;

use crate::audit::Action;
use crate::database;
use crate::error::feature::Feature;
use crate::error::{AuthError, OAuthCode};
use crate::fields::text;
use crate::flows::oauth_server::{
    self, AuthorizationParameters, ClientGranted, ClientRedirect, Consideration, Request, TokenRequest,
    id_token_algorithm,
};
use crate::http::bearer::{Bearer, Caller};
use crate::http::location::Location;
use crate::http::request::{RequestContext, read_bytes, read_json};
use crate::http::wire::Time;
use crate::oauth_server::clients::{ClientAuth, OAuthClient};
use crate::oauth_server::consents::{self, Consent};
use crate::oauth_server::metadata::GRANT_TYPES;
use crate::oauth_server::scopes::{CLAIMS, SCOPES, Scopes};
use crate::state::Auth;
use crate::users::Account;

/// Extracted by every handler below, so that nothing is served while the OAuth server is off.
pub(crate) struct OAuthServer;

impl FromRequestParts<Arc<Auth>> for OAuthServer {
    type Rejection = AuthError;

    async fn from_request_parts(_parts: &mut Parts, auth: &Arc<Auth>) -> Result<Self, AuthError> {
        if auth.config.oauth_server_enabled {
            Ok(Self)
        } else {
            Err(AuthError::SwitchedOff(Feature::OAUTH_SERVER))
        }
    }
}

/// `GET /oauth/authorize`: a client sends the user's browser here.
pub(crate) async fn authorize(
    State(auth): State<Arc<Auth>>,
    _on: OAuthServer,
    request: RequestContext,
) -> Result<Response, AuthError> {
    auth.limits.authorize.check(request.address())?;
    let parameters = AuthorizationParameters {
        client_id: request.query("client_id"),
        redirect_uri: request.query("redirect_uri"),
        response_type: request.query("response_type"),
        response_mode: request.query("response_mode"),
        scope: request.query("scope"),
        state: request.query("state"),
        resource: request.query("resource"),
        nonce: request.query("nonce"),
        code_challenge: request.query("code_challenge"),
        code_challenge_method: request.query("code_challenge_method"),
    };
    Ok(match parameters.begin(&auth, &request.origin).await? {
        Request::Ask(id) => {
            Location::new(&consent_page(&auth)).with_query(&[("authorization_id", id)]).found()
        }
        Request::Refuse(redirect) => location(&redirect).found(),
    })
}

/// The app's page that asks the user.
fn consent_page(auth: &Auth) -> String {
    let site = auth.config.site_url.trim_end_matches('/');
    format!("{site}/{}", auth.config.oauth_server_authorization_path.trim_start_matches('/'))
}

fn location(redirect: &ClientRedirect) -> Location {
    Location::new(&redirect.redirect_uri).with_query(&redirect.parameters)
}

fn redirect_url(redirect: &ClientRedirect) -> Response {
    Json(json!({ "redirect_url": location(redirect).url() })).into_response()
}

/// `GET /oauth/authorizations/{id}`: what the user is asked; or where to go on, if the client has these scopes already.
pub(crate) async fn authorization(
    State(auth): State<Arc<Auth>>,
    _on: OAuthServer,
    Path(id): Path<String>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let account = account(&auth, &request).await?;
    let considered = oauth_server::consider(&auth, &request.origin, account.user.id, &id).await?;
    let (authorization, client) = match considered {
        Consideration::Granted(redirect) => return Ok(redirect_url(&redirect)),
        Consideration::Ask(asked) => *asked,
    };
    Ok(Json(json!({
        "authorization_id": authorization.authorization_id,
        "redirect_uri": authorization.redirect_uri,
        "client": client_body(&client),
        "user": { "id": account.user.id, "email": account.user.email },
        "scope": authorization.scopes.to_string(),
    }))
    .into_response())
}

fn client_body(client: &OAuthClient) -> Value {
    json!({ "id": client.id, "name": client.name, "uri": client.uri, "logo_uri": client.logo_uri })
}

#[derive(Deserialize)]
struct Decision {
    action: Option<String>,
}

/// `POST /oauth/authorizations/{id}/consent`: the user's decision.
pub(crate) async fn consent(
    State(auth): State<Arc<Auth>>,
    _on: OAuthServer,
    Path(id): Path<String>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let account = account(&auth, &request).await?;
    let decision: Decision = read_json(body).await?;
    let is_approved = match text(&decision.action) {
        "approve" => true,
        "deny" => false,
        _ => return Err(AuthError::validation("action must be 'approve' or 'deny'")),
    };
    let user_id = account.user.id;
    let redirect = oauth_server::decide(&auth, &request.origin, user_id, &id, is_approved).await?;
    Ok(redirect_url(&redirect))
}

/// The account of a session of the user's own: a client must not consent for the user.
async fn account(auth: &Auth, request: &RequestContext) -> Result<Account, AuthError> {
    let bearer = Bearer::read(auth, request)?;
    let tx = auth.autocommit(&request.origin).await?;
    let caller = bearer.caller(auth, &tx).await;
    Ok(database::finish(tx, caller).await?.account)
}

/// `POST /oauth/token`, with a form (RFC 6749) or JSON.
pub(crate) async fn token(
    State(auth): State<Arc<Auth>>,
    _on: OAuthServer,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    auth.limits.token.check(request.address())?;
    let fields = token_request(&request.headers, body).await?;
    let authorization = request.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let result = Box::pin(fields.run(&auth, &request.origin, authorization)).await;
    let code = result.as_ref().map_or_else(AuthError::code, |_granted| "ok");
    crate::metrics::grant("oauth_server", code);
    answer(&auth, &request, &result?).await
}

async fn token_request(headers: &HeaderMap, body: Body) -> Result<TokenRequest, AuthError> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if content_type.is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("application/json"))
    {
        return read_json(body).await;
    }
    let form = read_bytes(body).await?;
    let mut fields = serde_json::Map::new();
    for (name, value) in form_urlencoded::parse(&form) {
        // RFC 6749 §3.2: parameters must not be repeated.
        let is_repeated = fields.insert(name.into_owned(), value.into_owned().into()).is_some();
        if is_repeated {
            return Err(AuthError::oauth(OAuthCode::InvalidRequest, "a parameter is repeated"));
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| AuthError::BadJson(error.to_string()))
}

async fn answer(
    auth: &Auth,
    request: &RequestContext,
    answered: &ClientGranted,
) -> Result<Response, AuthError> {
    let ClientGranted { granted, client, scopes, nonce } = answered;
    let token = auth.issue(&request.origin, granted).await?;
    let id_token = if scopes.contains("openid") && id_token_algorithm(auth).is_some() {
        let claims = scopes.claims(&granted.account.user);
        Some(auth.access_tokens.issue_id_token(granted, client.id, claims, nonce.as_deref())?)
    } else {
        None
    };
    let body = json!({
        "access_token": token.text,
        "token_type": "bearer",
        "expires_in": token.expires_in,
        "expires_at": token.expires_at,
        "refresh_token": client.allows("refresh_token").then_some(&granted.refresh_token),
        "scope": scopes.to_string(),
        "id_token": id_token,
    });
    Ok(Json(without_nulls(body)).into_response())
}

fn without_nulls(mut body: Value) -> Value {
    if let Some(members) = body.as_object_mut() {
        members.retain(|_name, value| !value.is_null());
    }
    body
}

/// `GET /oauth/userinfo`: the claims of the granted scopes; all claims for a session of the user's own.
pub(crate) async fn userinfo(
    State(auth): State<Arc<Auth>>,
    _on: OAuthServer,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let tx = auth.autocommit(&request.origin).await?;
    let caller = bearer.caller_or_client(&auth, &tx).await;
    let Caller { account, session } = database::finish(tx, caller).await?;
    let scopes = match session.filter(|session| session.oauth_client_id.is_some()) {
        Some(session) => Scopes::stored(session.scopes.as_deref().unwrap_or_default()),
        None => Scopes::stored(&SCOPES.join(" ")),
    };
    let mut claims = scopes.claims(&account.user);
    claims.insert("sub".to_owned(), account.user.id.to_string().into());
    Ok(Json(claims).into_response())
}

/// `GET /user/oauth/grants`: which clients act for the user.
pub(crate) async fn grants(
    State(auth): State<Arc<Auth>>,
    _on: OAuthServer,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let account = account(&auth, &request).await?;
    let tx = auth.autocommit(&request.origin).await?;
    let listed = consents::list(&tx, account.user.id).await;
    let listed = database::finish(tx, listed).await?;
    let bodies = listed.iter().map(|Consent { client, scopes, granted_at }| {
        json!({
            "client": client_body(client),
            "scopes": scopes.as_slice(),
            "granted_at": Time::from(Some(*granted_at)),
        })
    });
    Ok(Json(bodies.collect::<Vec<_>>()).into_response())
}

/// `DELETE /user/oauth/grants?client_id=`: revokes a grant and ends the client's sessions.
pub(crate) async fn revoke_grant(
    State(auth): State<Arc<Auth>>,
    _on: OAuthServer,
    request: RequestContext,
) -> Result<StatusCode, AuthError> {
    let account = account(&auth, &request).await?;
    let client_id = request.query("client_id").ok_or(AuthError::validation("client_id is required"))?;
    let client_id = Uuid::try_parse(client_id);
    let client_id = client_id.map_err(|_error| AuthError::validation("client_id must be an UUID"))?;
    let now = auth.now();
    let tx = auth.begin(&request.origin).await?;
    let revoked = async {
        if !consents::revoke(&tx, account.user.id, client_id, now).await? {
            return Err(AuthError::OAuthConsentNotFound);
        }
        let traits = Some(json!({ "client_id": client_id }));
        auth.audit_log(&request.origin.client)
            .record(&tx, &account.user, Action::TokenRevoked, traits, now)
            .await
    }
    .await;
    database::finish(tx, revoked).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Both discovery documents: RFC 8414's is a part of OpenID Connect's.
pub(crate) async fn discovery(State(auth): State<Arc<Auth>>, _on: OAuthServer) -> Response {
    let base = &auth.config.external_url;
    let algorithm = id_token_algorithm(&auth);
    let is_supported = |scope: &&str| *scope != "openid" || algorithm.is_some();
    let methods = [ClientAuth::Basic, ClientAuth::Post, ClientAuth::None].map(ClientAuth::as_str);
    let registration =
        auth.config.oauth_server_allow_dynamic_registration.then(|| format!("{base}/oauth/clients/register"));
    let document = json!({
        "issuer": auth.config.issuer(),
        "authorization_endpoint": format!("{base}/oauth/authorize"),
        "token_endpoint": format!("{base}/oauth/token"),
        "userinfo_endpoint": format!("{base}/oauth/userinfo"),
        "registration_endpoint": registration,
        "jwks_uri": format!("{base}/.well-known/jwks.json"),
        "scopes_supported": SCOPES.into_iter().filter(is_supported).collect::<Vec<_>>(),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": GRANT_TYPES,
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithm.into_iter().collect::<Vec<_>>(),
        "token_endpoint_auth_methods_supported": methods,
        "claims_supported": CLAIMS,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    let caching = (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=600"));
    ([caching], Json(without_nulls(document))).into_response()
}
