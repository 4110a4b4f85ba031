//! `/oauth/token`: authentication of the client, and its grants.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use url::form_urlencoded;
use uuid::Uuid;

use crate::audit::Action;
use crate::codes::challenge::is_verifier;
use crate::database;
use crate::error::{AuthError, OAuthCode};
use crate::fields::filled;
use crate::flows::grants::refresh::RefreshGrant;
use crate::oauth_server::authorizations::{self, Authorization};
use crate::oauth_server::clients::{self, OAuthClient};
use crate::oauth_server::scopes::Scopes;
use crate::origin::Origin;
use crate::sessions::access_token::{ClientGrant, Granted};
use crate::sessions::{self, NewClientSession, Scope};
use crate::state::Auth;
use crate::users;
use basalt_pg::pool::Tx;
use serde_json::json;

const UNKNOWN_CLIENT: AuthError = AuthError::oauth(OAuthCode::InvalidClient, "client authentication failed");
const UNKNOWN_CODE: AuthError =
    AuthError::oauth(OAuthCode::InvalidGrant, "the authorization code is invalid, expired or used");

/// The fields of a request for tokens.
#[derive(Default, Deserialize)]
pub(crate) struct TokenRequest {
    pub(crate) grant_type: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) redirect_uri: Option<String>,
    pub(crate) code_verifier: Option<String>,
    pub(crate) refresh_token: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) resource: Option<String>,
}

/// Tokens for a client.
pub(crate) struct ClientGranted {
    pub(crate) granted: Granted,
    pub(crate) client: OAuthClient,
    pub(crate) scopes: Scopes,
    /// Of the request, for the ID token.
    pub(crate) nonce: Option<String>,
}

/// What a client proves itself with.
struct Credentials {
    client_id: Uuid,
    secret: Option<String>,
}

impl TokenRequest {
    /// Runs the grant. `authorization` is the header of the request.
    pub(crate) async fn run(
        &self,
        auth: &Auth,
        origin: &Origin,
        authorization: Option<&str>,
    ) -> Result<ClientGranted, AuthError> {
        let credentials = self.credentials(authorization)?;
        let tx = auth.autocommit(origin).await?;
        let client = clients::find(&tx, credentials.client_id).await;
        let client = database::finish(tx, client).await?;
        let client = client
            .filter(|client| client.is_authenticated_by(credentials.secret.as_deref()))
            .ok_or(UNKNOWN_CLIENT)?;
        let grant_type = match filled(&self.grant_type) {
            Some(grant @ ("authorization_code" | "refresh_token")) => grant,
            Some(_) => {
                return Err(AuthError::oauth(
                    OAuthCode::UnsupportedGrantType,
                    "grant_type must be authorization_code or refresh_token",
                ));
            }
            None => return Err(AuthError::oauth(OAuthCode::InvalidRequest, "grant_type is required")),
        };
        if !client.allows(grant_type) {
            return Err(AuthError::oauth(
                OAuthCode::UnauthorizedClient,
                "the client may not use this grant_type",
            ));
        }
        if grant_type == "refresh_token" {
            self.refresh(auth, origin, client).await
        } else {
            self.exchange(auth, origin, client).await
        }
    }

    /// From HTTP basic authentication (RFC 6749 §2.3.1) or the body, but not from both.
    fn credentials(&self, authorization: Option<&str>) -> Result<Credentials, AuthError> {
        let basic = authorization.and_then(|header| header.split_once(' '));
        let basic = basic.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic")).map(|(_, login)| login);
        let (id, secret) = match basic {
            Some(_) if filled(&self.client_secret).is_some() => {
                return Err(AuthError::oauth(
                    OAuthCode::InvalidRequest,
                    "the client authenticates in the header and in the body; use one of them",
                ));
            }
            Some(login) => {
                let (id, secret) = parse_basic(login).ok_or(UNKNOWN_CLIENT)?;
                if filled(&self.client_id).is_some_and(|other| other != id) {
                    return Err(UNKNOWN_CLIENT);
                }
                (id, Some(secret).filter(|secret| !secret.is_empty()))
            }
            None => {
                let id = filled(&self.client_id)
                    .ok_or(AuthError::oauth(OAuthCode::InvalidClient, "client_id is required"))?;
                (id.to_owned(), filled(&self.client_secret).map(str::to_owned))
            }
        };
        Ok(Credentials { client_id: Uuid::try_parse(&id).map_err(|_error| UNKNOWN_CLIENT)?, secret })
    }

    async fn exchange(
        &self,
        auth: &Auth,
        origin: &Origin,
        client: OAuthClient,
    ) -> Result<ClientGranted, AuthError> {
        let missing = |text| AuthError::oauth(OAuthCode::InvalidRequest, text);
        let code = filled(&self.code).ok_or(missing("code is required"))?;
        let verifier = filled(&self.code_verifier).ok_or(missing("code_verifier is required"))?;
        let tx = auth.begin(origin).await?;
        let exchanged = self.redeem(auth, origin, &tx, &client, code, verifier).await;
        let redeemed = database::finish(tx, exchanged).await?;
        let (granted, request) = redeemed.ok_or(UNKNOWN_CODE)?;
        Ok(ClientGranted { granted, client, scopes: request.scopes, nonce: request.nonce })
    }

    /// `None` if the code was used before: what that ends is committed.
    async fn redeem(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        client: &OAuthClient,
        code: &str,
        verifier: &str,
    ) -> Result<Option<(Granted, Authorization)>, AuthError> {
        let now = auth.now();
        let request = authorizations::lock_by_code(tx, code).await?;
        let request = request.filter(|request| request.client_id == client.id).ok_or(UNKNOWN_CODE)?;
        let user_id = request.user_id.ok_or(UNKNOWN_CODE)?;
        if request.is_used() {
            sessions::end(tx, user_id, Scope::Local(request.id)).await?;
            return Ok(None);
        }
        let is_same = |sent: &Option<String>, stored: Option<&str>| {
            filled(sent).is_none_or(|sent| stored.is_some_and(|stored| stored == sent))
        };
        if !request.is_redeemable(now) {
            return Err(UNKNOWN_CODE);
        }
        if !is_same(&self.redirect_uri, Some(&request.redirect_uri)) {
            return Err(AuthError::oauth(
                OAuthCode::InvalidGrant,
                "redirect_uri differs from that of the request",
            ));
        }
        if !is_same(&self.resource, request.resource.as_deref()) {
            return Err(AuthError::oauth(
                OAuthCode::InvalidTarget,
                "resource differs from that of the request",
            ));
        }
        if !is_verifier(&request.challenge.method, &request.challenge.text, verifier) {
            return Err(AuthError::oauth(
                OAuthCode::InvalidGrant,
                "code_verifier does not match the code_challenge",
            ));
        }
        let account = users::account(tx, user_id).await?.ok_or(UNKNOWN_CODE)?;
        if account.user.is_banned(now) {
            return Err(AuthError::oauth(OAuthCode::InvalidGrant, "the user is banned"));
        }
        request.mark_used(tx).await?;
        let scope = request.scopes.to_string();
        let session = NewClientSession { id: request.id, user_id, client_id: client.id, scope: &scope };
        let (amr, refresh_token) = session.begin(tx, &origin.client, now).await?;
        let traits = Some(json!({ "provider": "oauth_provider", "client_id": client.id }));
        auth.audit_log(&origin.client).record(tx, &account.user, Action::Login, traits, now).await?;
        let granted = Granted {
            account,
            session_id: request.id,
            amr,
            refresh_token,
            now,
            weak_password: None,
            provider_tokens: None,
            client: Some(ClientGrant { client_id: client.id, scope }),
            is_refresh: false,
        };
        Ok(Some((granted, request)))
    }

    async fn refresh(
        &self,
        auth: &Auth,
        origin: &Origin,
        client: OAuthClient,
    ) -> Result<ClientGranted, AuthError> {
        if filled(&self.refresh_token).is_none() {
            return Err(AuthError::oauth(OAuthCode::InvalidRequest, "refresh_token is required"));
        }
        let narrowed = filled(&self.scope).map(Scopes::stored);
        let grant = RefreshGrant::new(self.refresh_token.clone());
        let mut granted =
            Box::pin(grant.run(auth, origin, Some(client.id))).await.map_err(AuthError::invalid_grant)?;
        let held =
            Scopes::stored(granted.client.as_ref().map(|client| client.scope.as_str()).unwrap_or_default());
        if narrowed.as_ref().is_some_and(|narrowed| !held.contains_all(narrowed)) {
            return Err(AuthError::oauth(OAuthCode::InvalidScope, "the user has not granted this scope"));
        }
        let scopes = narrowed.unwrap_or(held);
        if let Some(client) = &mut granted.client {
            client.scope = scopes.to_string();
        }
        Ok(ClientGranted { granted, client, scopes, nonce: None })
    }
}

/// Id and secret, which are form-encoded before they are joined.
fn parse_basic(login: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(login.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    // Parsed as a name without a value.
    let decode = |text: &str| {
        let escaped = text.replace('=', "%3D").replace('&', "%26");
        form_urlencoded::parse(escaped.as_bytes())
            .next()
            .map(|(name, _)| name.into_owned())
            .unwrap_or_default()
    };
    Some((decode(id), decode(secret)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_authentication_is_form_decoded() {
        let parsed = |text: &str| parse_basic(&STANDARD.encode(text));
        let pair = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        assert_eq!(parsed("id:secret"), pair("id", "secret"));
        assert_eq!(parsed("i%3Ad:a%2Bb+c=&"), pair("i:d", "a+b c=&"));
        assert_eq!(parsed("id:"), pair("id", ""));
        assert_eq!(parsed("id"), None);
        assert_eq!(parse_basic("%%%"), None);
    }
}
