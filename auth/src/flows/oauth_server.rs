//! The OAuth 2.1 server (auth.md §3.22): a client's request, the user's decision, and the exchange of the code.
//!
//! Requests are answered at the client's redirect URI only after client and URI are known to belong together. PKCE with S256 is
//! mandatory, each code works once, and a second use ends the session that the first one began (RFC 6749 §4.1.2).

mod grants;

use jiff::SignedDuration;
use uuid::Uuid;

use crate::codes::challenge::Challenge;
use crate::database;
use crate::error::AuthError;
use crate::oauth_server::authorizations::{self, Authorization, NewAuthorization};
use crate::oauth_server::clients::{self, OAuthClient};
use crate::oauth_server::consents;
use crate::oauth_server::metadata::is_registered;
use crate::oauth_server::scopes::Scopes;
use crate::origin::Origin;
use crate::state::Auth;
use basalt_pg::pool::Tx;
use jiff::Timestamp;

pub(crate) use grants::{ClientGranted, TokenRequest};

/// Longest `state`, in characters, and longest `resource` and `nonce`: those of the columns.
const MAX_STATE: usize = 4096;
const MAX_RESOURCE: usize = 2048;
const MAX_NONCE: usize = 255;

/// The parameters of `/oauth/authorize`; none of them is checked.
pub(crate) struct AuthorizationParameters<'a> {
    pub(crate) client_id: Option<&'a str>,
    pub(crate) redirect_uri: Option<&'a str>,
    pub(crate) response_type: Option<&'a str>,
    pub(crate) response_mode: Option<&'a str>,
    pub(crate) scope: Option<&'a str>,
    pub(crate) state: Option<&'a str>,
    pub(crate) resource: Option<&'a str>,
    pub(crate) nonce: Option<&'a str>,
    pub(crate) code_challenge: Option<&'a str>,
    pub(crate) code_challenge_method: Option<&'a str>,
}

/// A redirect to a client, whose parameters are still to be added.
pub(crate) struct ClientRedirect {
    pub(crate) redirect_uri: String,
    pub(crate) parameters: Vec<(&'static str, String)>,
}

impl ClientRedirect {
    fn new(auth: &Auth, redirect_uri: &str, state: Option<&str>) -> Self {
        // RFC 9207: the client sees which server answers.
        let mut parameters = vec![("iss", auth.config.issuer().to_owned())];
        parameters.extend(state.map(|state| ("state", state.to_owned())));
        Self { redirect_uri: redirect_uri.to_owned(), parameters }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.parameters.push((name, value.to_owned()));
        self
    }

    fn with_error(self, error: &str, description: &str) -> Self {
        self.with("error", error).with("error_description", description)
    }
}

/// Where a client's request leads.
pub(crate) enum Request {
    /// To the consent page, with this id.
    Ask(String),
    /// Back to the client, with an error.
    Refuse(ClientRedirect),
}

impl AuthorizationParameters<'_> {
    /// Checks and stores the request.
    ///
    /// # Errors
    /// The client is unknown or the redirect URI is not its own, so that the browser must not be sent there.
    pub(crate) async fn begin(&self, auth: &Auth, origin: &Origin) -> Result<Request, AuthError> {
        let client_id = self.client_id.ok_or(AuthError::validation("client_id is required"))?;
        let client_id = Uuid::try_parse(client_id).map_err(|_error| AuthError::OAuthClientNotFound)?;
        let redirect_uri = self.redirect_uri.ok_or(AuthError::validation("redirect_uri is required"))?;
        let tx = auth.begin(origin).await?;
        let begun = async {
            let client = clients::find(&tx, client_id).await?.ok_or(AuthError::OAuthClientNotFound)?;
            if !is_registered(&client.redirect_uris, redirect_uri) {
                return Err(AuthError::validation("redirect_uri is not registered for this client"));
            }
            match self.check(auth, &client) {
                Ok((scopes, challenge)) => {
                    let lifetime = i64::try_from(auth.config.oauth_server_authorization_ttl);
                    let new = NewAuthorization {
                        client_id,
                        redirect_uri,
                        scopes: &scopes,
                        state: self.state,
                        resource: self.resource,
                        nonce: self.nonce,
                        challenge: &challenge,
                        lifetime: SignedDuration::from_secs(lifetime.unwrap_or(i64::MAX)),
                    };
                    Ok(Request::Ask(new.insert(&tx, auth.now()).await?))
                }
                Err((error, description)) => {
                    // A state that is too long to store is also too long to return.
                    let state = self.state.filter(|state| is_short(Some(state), MAX_STATE));
                    let redirect = ClientRedirect::new(auth, redirect_uri, state);
                    Ok(Request::Refuse(redirect.with_error(error, &description)))
                }
            }
        }
        .await;
        database::finish(tx, begun).await
    }

    /// Checks the rest of the request; the errors are for the client.
    fn check(
        &self,
        auth: &Auth,
        client: &OAuthClient,
    ) -> Result<(Scopes, Challenge), (&'static str, String)> {
        let invalid = |text: &str| Err(("invalid_request", text.to_owned()));
        match self.response_type {
            Some("code") => {}
            Some(_) => return Err(("unsupported_response_type", "response_type must be code".to_owned())),
            None => return invalid("response_type is required"),
        }
        if self.response_mode.is_some_and(|mode| mode != "query") {
            return invalid("response_mode must be query");
        }
        if !client.allows("authorization_code") {
            return Err(("unauthorized_client", "the client may not use authorization_code".to_owned()));
        }
        if !is_short(self.state, MAX_STATE) {
            return invalid("state must not be longer than 4096 characters");
        }
        if !is_short(self.nonce, MAX_NONCE) {
            return invalid("nonce must not be longer than 255 characters");
        }
        if self.resource.is_some_and(|resource| !is_resource(resource)) {
            let text = "resource must be an absolute URI without a fragment, of at most 2048 characters";
            return Err(("invalid_target", text.to_owned()));
        }
        let Some(scopes) = Scopes::request(self.scope.unwrap_or_default()) else {
            return Err((
                "invalid_scope",
                "the supported scopes are listed in the discovery document".to_owned(),
            ));
        };
        if scopes.contains("openid") && id_token_algorithm(auth).is_none() {
            let text = "openid needs an asymmetric signing key, which this server does not have";
            return Err(("invalid_scope", text.to_owned()));
        }
        let challenge = Challenge::read(
            self.code_challenge.unwrap_or_default(),
            self.code_challenge_method.unwrap_or_default(),
        );
        match challenge {
            Ok(Some(challenge)) if challenge.method.eq_ignore_ascii_case("s256") => Ok((scopes, challenge)),
            Ok(Some(_plain)) => invalid("code_challenge_method must be S256"),
            Ok(None) => invalid("PKCE is required: code_challenge and code_challenge_method=S256"),
            Err(error) => Err(("invalid_request", error.to_string())),
        }
    }
}

/// The algorithm of ID tokens; `None` if tokens are signed with a secret, which clients do not have.
pub(crate) fn id_token_algorithm(auth: &Auth) -> Option<String> {
    auth.keys.signing_algorithm().filter(|algorithm| !algorithm.starts_with("HS"))
}

fn is_short(text: Option<&str>, characters: usize) -> bool {
    text.is_none_or(|text| text.chars().count() <= characters)
}

fn is_resource(text: &str) -> bool {
    is_short(Some(text), MAX_RESOURCE) && !text.contains('#') && url::Url::parse(text).is_ok()
}

/// What the consent page shows, or where it sends the browser on.
pub(crate) enum Consideration {
    /// The user has to decide.
    Ask(Box<(Authorization, OAuthClient)>),
    /// The user has granted these scopes before.
    Granted(ClientRedirect),
}

/// Opens a request for the user who is asked. From then on it belongs to this user.
pub(crate) async fn consider(
    auth: &Auth,
    origin: &Origin,
    user_id: Uuid,
    authorization_id: &str,
) -> Result<Consideration, AuthError> {
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let considered = async {
        let (request, client) = open(&tx, user_id, authorization_id, now).await?;
        let granted = consents::find(&tx, user_id, client.id).await?;
        if granted.is_some_and(|granted| granted.contains_all(&request.scopes)) {
            let code = request.approve(&tx, user_id, now).await?;
            return Ok(Consideration::Granted(approved(auth, &request, &code)));
        }
        request.bind(&tx, user_id).await?;
        Ok(Consideration::Ask(Box::new((request, client))))
    }
    .await;
    database::finish(tx, considered).await
}

/// Stores the user's decision and returns the redirect to the client.
pub(crate) async fn decide(
    auth: &Auth,
    origin: &Origin,
    user_id: Uuid,
    authorization_id: &str,
    is_approved: bool,
) -> Result<ClientRedirect, AuthError> {
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let decided = async {
        let (request, client) = open(&tx, user_id, authorization_id, now).await?;
        // Only a user who has been shown the request can decide about it.
        if request.user_id != Some(user_id) {
            return Err(AuthError::OAuthAuthorizationNotFound);
        }
        if !is_approved {
            request.deny(&tx, user_id).await?;
            let redirect = ClientRedirect::new(auth, &request.redirect_uri, request.state.as_deref());
            return Ok(redirect.with_error("access_denied", "The user denied the request"));
        }
        let granted = consents::find(&tx, user_id, client.id).await?;
        let scopes = granted.map_or_else(|| request.scopes.clone(), |known| known.union(&request.scopes));
        consents::grant(&tx, user_id, client.id, &scopes, now).await?;
        let code = request.approve(&tx, user_id, now).await?;
        Ok(approved(auth, &request, &code))
    }
    .await;
    database::finish(tx, decided).await
}

/// Locks a pending request that no other user has opened.
async fn open(
    tx: &Tx,
    user_id: Uuid,
    authorization_id: &str,
    now: Timestamp,
) -> Result<(Authorization, OAuthClient), AuthError> {
    let request = authorizations::lock(tx, authorization_id).await?;
    let request = request
        .filter(|request| request.user_id.is_none_or(|owner| owner == user_id))
        .ok_or(AuthError::OAuthAuthorizationNotFound)?;
    if !request.is_pending(now) {
        let is_decided = request.approved_at.is_some();
        return Err(if is_decided {
            AuthError::OAuthAuthorizationDecided
        } else {
            AuthError::OAuthAuthorizationNotFound
        });
    }
    let client = clients::find(tx, request.client_id).await?.ok_or(AuthError::OAuthClientNotFound)?;
    Ok((request, client))
}

fn approved(auth: &Auth, request: &Authorization, code: &str) -> ClientRedirect {
    ClientRedirect::new(auth, &request.redirect_uri, request.state.as_deref()).with("code", code)
}
