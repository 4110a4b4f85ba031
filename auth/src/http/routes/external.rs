//! `/authorize` and `/callback` (auth.md §3.16): the browser's way to an external provider and back.
//!
//! A cookie binds the flow to the browser that began it, so that an attacker cannot sign a victim's browser in to the
//! attacker's account. It belongs to the host of the public URL, where the provider sends the browser back to; a browser that begins elsewhere
//! is sent there first. Not bound are flows that link an identity, because they may begin in a cross-origin request, whose
//! cookies browsers drop, and those of a development server that is called by another name of this machine.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use basalt_core::random;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;
use url::Url;
use url::form_urlencoded::{self, Serializer};
use uuid::Uuid;

use crate::codes::challenge::Challenge;
use crate::codes::flow_state::ExternalFlow;
use crate::error::AuthError;
use crate::flows::external::{self, Arrival, ExternalSignIn};
use crate::http::location::Location;
use crate::http::request::{RequestContext, read_bytes};
use crate::http::routes::settings::is_provider;
use crate::http::wire::TokenBody;
use crate::providers::{FlowSecret, Provider, SENT_ON};
use crate::state::Auth;
use crate::users::Object;

/// Seconds that the browser keeps the cookie: as long as a flow lives.
const COOKIE_SECONDS: u32 = 300;

/// `GET /authorize?provider=`.
pub(crate) async fn authorize(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let is_bound = match host(&auth, &request) {
        Host::Public => true,
        Host::OtherLoopback => false,
        Host::Other if request.query(SENT_ON).is_some() => true,
        Host::Other => {
            let query = Serializer::new(String::new())
                .extend_pairs(request.sorted_query())
                .append_pair(SENT_ON, "1")
                .finish();
            return Ok(redirect(
                StatusCode::FOUND,
                &format!("{}/authorize?{query}", auth.config.external_url),
            ));
        }
    };
    let (url, secret) = begin(&auth, &request, None, is_bound).await?;
    let mut response = redirect(StatusCode::FOUND, &url);
    if is_bound && let Ok(cookie) = HeaderValue::from_str(&cookie(&auth, &secret)) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// How a browser has called the server.
enum Host {
    /// By the public URL.
    Public,
    /// By another name of this machine, as the public URL is one.
    OtherLoopback,
    Other,
}

fn host(auth: &Auth, request: &RequestContext) -> Host {
    let called = request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let called = called.and_then(|host| Url::parse(&format!("http://{host}")).ok());
    let public = Url::parse(&auth.config.external_url).ok();
    let (Some(called), Some(public)) = (called, public) else { return Host::Public };
    if called.host() == public.host() {
        Host::Public
    } else if is_loopback(&called) && is_loopback(&public) {
        Host::OtherLoopback
    } else {
        Host::Other
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Begins a flow; returns the provider's URL and the flow's secret.
pub(crate) async fn begin(
    auth: &Auth,
    request: &RequestContext,
    linking_user: Option<Uuid>,
    is_bound: bool,
) -> Result<(String, FlowSecret), AuthError> {
    let provider = enabled_provider(auth, request, request.query("provider").unwrap_or_default()).await?;
    let challenge = Challenge::read(
        request.query("code_challenge").unwrap_or_default(),
        request.query("code_challenge_method").unwrap_or_default(),
    )?;
    auth.limits.authorize.check(request.address())?;
    let parameters = request.sorted_query();
    let sign_in = ExternalSignIn {
        provider: &provider,
        scopes: request.query("scopes"),
        parameters: &parameters,
        challenge,
        linking_user,
        is_bound,
    };
    let departure = sign_in.begin(auth, &request.origin).await?;
    Ok((departure.url, departure.secret))
}

/// An enabled provider.
///
/// # Errors
/// It is disabled, incompletely configured or unknown.
async fn enabled_provider(
    auth: &Auth,
    request: &RequestContext,
    name: &str,
) -> Result<Arc<Provider>, AuthError> {
    let reason = match external::find_provider(auth, &request.origin, name).await? {
        Some(provider) => match provider.missing_setting() {
            None => return Ok(provider),
            Some(reason) => reason.to_owned(),
        },
        None if is_provider(name) => "provider is not enabled".to_owned(),
        None => format!("Provider {name} could not be found"),
    };
    Err(AuthError::Validation(format!("Unsupported provider: {reason}").into()))
}

/// The provider's way back. Apple posts a form.
pub(crate) async fn callback(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let form = read_bytes(body).await?;
    let posted = Form(form_urlencoded::parse(&form).into_owned().collect());
    let parameter =
        |name: &str| request.query(name).map(str::to_owned).or_else(|| posted.get(name).map(str::to_owned));
    let flow = match flow(&auth, &request, parameter("state").as_deref()).await {
        Ok(flow) => flow,
        Err(error) => {
            let site = Url::parse(&auth.config.site_url)
                .map_err(|error| AuthError::Internal(format!("auth.site_url: {error}")))?;
            let location = Location::new(site.as_str()).with_query(&parameters(&error, None));
            return Ok(error.with_response(location.see_other()));
        }
    };
    let arrived = match (parameter("error"), parameter("code")) {
        (Some(error), _) => {
            let description = parameter("error_description").unwrap_or_else(|| error.clone());
            Err((AuthError::BadOAuthCallback(description), Some(error)))
        }
        (None, None) => {
            let missing = "OAuth callback with missing authorization code missing";
            Err((AuthError::BadOAuthCallback(missing.to_owned()), None))
        }
        (None, Some(code)) => {
            let name = posted.name();
            let finished = external::finish(&auth, &request.origin, &flow, &code, name.as_ref());
            Box::pin(finished).await.map_err(|error| (error, None))
        }
    };
    let answered = match arrived {
        Ok(arrival) => answer(&auth, &request, &flow, &arrival).await.map_err(|error| (error, None)),
        Err(failed) => Err(failed),
    };
    match answered {
        Ok(response) => Ok(response),
        Err((error, provider_error)) => {
            let parameters = parameters(&error, provider_error);
            let location = Location::new(&flow.target).with_query(&parameters).with_fragment(&parameters);
            Ok(error.with_response(location.found()))
        }
    }
}

/// The flow of the state. It is used up, whatever follows.
async fn flow(auth: &Auth, request: &RequestContext, state: Option<&str>) -> Result<ExternalFlow, AuthError> {
    let state = state.filter(|state| !state.is_empty());
    let state =
        state.ok_or_else(|| AuthError::BadOAuthCallback("OAuth state parameter missing".to_owned()))?;
    let state = Uuid::try_parse(state)
        .map_err(|_error| AuthError::BadOAuthState("OAuth state parameter is invalid"))?;
    let flow = external::take(auth, &request.origin, state).await?;
    if flow.secret.is_bound() && !has_cookie(&request.headers, &flow.secret) {
        return Err(AuthError::BadOAuthState("OAuth state belongs to another browser"));
    }
    Ok(flow)
}

async fn answer(
    auth: &Auth,
    request: &RequestContext,
    flow: &ExternalFlow,
    arrival: &Arrival,
) -> Result<Response, AuthError> {
    let location = Location::new(&flow.target);
    let granted = match arrival {
        Arrival::AuthCode(code) => return Ok(location.with_query(&[("code", code.clone())]).found()),
        Arrival::SignedIn(granted) => granted,
    };
    let body = TokenBody::new(granted, auth.issue(&request.origin, granted).await?);
    let mut pairs = vec![
        ("access_token", body.access_token),
        ("expires_at", body.expires_at.to_string()),
        ("expires_in", body.expires_in.to_string()),
        ("refresh_token", body.refresh_token.to_owned()),
        ("token_type", body.token_type.to_owned()),
    ];
    if let Some(tokens) = &granted.provider_tokens {
        pairs.push(("provider_token", tokens.access_token.clone()));
        pairs.extend(tokens.refresh_token.clone().map(|token| ("provider_refresh_token", token)));
    }
    Ok(location.with_fragment(&pairs).found())
}

/// The parameters that report an error. `provider_error` is the provider's own.
fn parameters(error: &AuthError, provider_error: Option<String>) -> Vec<(&'static str, String)> {
    let is_denied = matches!(
        error,
        AuthError::SignupDisabled | AuthError::SignInBanned | AuthError::ExternalEmailUnverified(_)
    );
    let own = if is_denied { Some("access_denied".to_owned()) } else { provider_error };
    let mut pairs = error.redirect_parameters();
    if let Some(own) = own {
        pairs.retain(|(name, _)| *name != "error");
        pairs.push(("error", own));
    } else if !pairs.iter().any(|(name, _)| *name == "error") {
        pairs.push(("error", "server_error".to_owned()));
    }
    pairs
}

fn redirect(status: StatusCode, url: &str) -> Response {
    let location = HeaderValue::from_str(url).unwrap_or(HeaderValue::from_static("/"));
    (status, [(header::LOCATION, location)]).into_response()
}

/// The cookie's name, which is different for each flow: tabs may begin several.
fn cookie_name(secret: &FlowSecret) -> String {
    let value = secret.cookie();
    format!("sb-oauth-{}", value.get(..16).unwrap_or_default())
}

/// Over https also for posts from the provider's pages, which Apple needs.
fn cookie(auth: &Auth, secret: &FlowSecret) -> String {
    let same_site = if auth.config.external_url.starts_with("https:") { "None; Secure" } else { "Lax" };
    format!(
        "{}={}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite={same_site}",
        cookie_name(secret),
        secret.cookie()
    )
}

fn has_cookie(headers: &HeaderMap, secret: &FlowSecret) -> bool {
    let (name, value) = (cookie_name(secret), secret.cookie());
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|header| header.to_str().ok());
    cookies.flat_map(|header| header.split(';')).any(|cookie| {
        cookie.trim().split_once('=').is_some_and(|(sent_name, sent)| {
            sent_name == name && random::constant_time_eq(sent.as_bytes(), value.as_bytes())
        })
    })
}

/// A posted form.
struct Form(Vec<(String, String)>);

impl Form {
    fn get(&self, name: &str) -> Option<&str> {
        let found =
            self.0.iter().find(|(key, value)| key == name && !value.is_empty() && !value.contains('\0'));
        found.map(|(_, value)| value.as_str())
    }

    /// The user's name, which Apple posts at the first sign-in only: `{"name":{"firstName":…,"lastName":…}}`.
    fn name(&self) -> Option<Object> {
        let user: Value = serde_json::from_str(self.get("user")?).ok()?;
        let part =
            |pointer: &str| user.pointer(pointer).and_then(Value::as_str).filter(|part| !part.is_empty());
        let parts: Vec<&str> =
            [part("/name/firstName"), part("/name/lastName")].into_iter().flatten().collect();
        let name = parts.join(" ");
        if name.is_empty() || name.len() > 500 {
            return None;
        }
        Some(["name", "full_name"].into_iter().map(|key| (key.to_owned(), name.clone().into())).collect())
    }
}
