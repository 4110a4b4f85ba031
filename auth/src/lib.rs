#![doc = include_str!("../README.md")]

mod audit;
mod captcha;
mod cleanup;
mod codes;
mod commands;
mod config;
mod database;
mod emails;
mod error;
mod factors;
mod fields;
mod flows;
mod go_duration;
mod hook_types;
mod hooks;
mod http;
#[cfg(test)]
mod layers;
mod limits;
mod metrics;
mod migrations;
mod oauth_server;
mod origin;
mod passwords;
mod providers;
mod redirects;
mod response_padding;
mod sessions;
mod sms;
mod state;
mod templates;
mod users;
mod webauthn;

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderValue, Method, StatusCode, header};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post, put};
use basalt_core::service::{BodyMode, Cors, Deadline, RequestId, Service};
use basalt_pg::listen::Events;
use tokio::time::Instant;

pub use cleanup::clean_up;
pub use commands::create_user::{NewAccount, create_user};
pub use commands::operator::{AccountSummary, ListAccounts, Operator};
pub use config::email_rate::{EmailRate, ParseEmailRateError};
pub use config::hooks::HookSettings;
pub use config::providers::ProviderSettings;
pub use config::secret::SecretSetting;
pub use config::{AuthConfig, JwtConfig, settings};
pub use error::AuthError;
pub use error::feature::Feature;
pub use hook_types::error::HookError;
pub use hook_types::{HookKind, hook_fault};
pub use migrations::MIGRATIONS;
pub use passwords::policy::{WeakReason, Weakness};
pub use state::Dependencies;
pub use templates::{EmailSettings, TemplateSource};

use error::{ApiVersion, RenderContext};
use flows::notifications;
use http::request::BODY_LIMIT;
use http::routes;
use passwords::kinds;
use redirects::Redirects;
use state::Auth;

/// Channels that the service listens on.
pub const CHANNELS: [&str; 1] = [notifications::CHANNEL];

/// Whether a URL is a page of the site, of this server (`public_url`), or of an allowed site, for services that redirect users
/// back to the app. On localhost all ports count as one site: development servers change theirs.
pub fn page_check(config: &AuthConfig, public_url: &str) -> impl Fn(&str) -> bool + Send + Sync + use<> {
    let pages = Redirects::new(&config.site_url, &config.uri_allow_list);
    let own_pages = Redirects::new(public_url, &[]);
    move |url| pages.is_app_page(url) || own_pages.is_app_page(url)
}

/// Every route, with the client call that uses it.
fn router(auth: Arc<Auth>) -> Router {
    Router::new()
        .route("/signup", post(routes::signup::post)) // signUp, signInAnonymously
        .route("/token", post(routes::token::post)) // signInWithPassword, refreshSession, the client's ticker
        .route("/logout", post(routes::logout::post)) // signOut, admin.signOut
        .route("/recover", post(routes::recover::post)) // resetPasswordForEmail
        .route("/otp", post(routes::otp::post)) // signInWithOtp
        .route("/magiclink", post(routes::otp::magiclink)) // older clients
        .route("/resend", post(routes::resend::post)) // resend
        .route("/reauthenticate", get(routes::reauthenticate::get)) // reauthenticate
        .route("/verify", get(routes::verify::get).head(routes::verify::head).post(routes::verify::post)) // links in mails; verifyOtp
        .route("/user", get(routes::user::get).put(routes::user::put)) // getUser, updateUser
        .route("/admin/users", get(routes::admin_users::list).post(routes::admin_users::create)) // admin.listUsers, admin.createUser
        .route(
            "/admin/users/{id}", // admin.getUserById, admin.updateUserById, admin.deleteUser
            get(routes::admin_users::get)
                .put(routes::admin_users::change)
                .delete(routes::admin_users::delete),
        )
        .route("/invite", post(routes::invite::post)) // admin.inviteUserByEmail
        .route("/admin/generate_link", post(routes::generate_link::post)) // admin.generateLink
        .route("/factors", post(routes::factors::enroll)) // mfa.enroll
        .route(
            "/factors/recovery-codes", // mfa.recoveryCodes.getStatus, …generate, …unenroll
            get(routes::recovery_codes::status)
                .post(routes::recovery_codes::generate)
                .delete(routes::recovery_codes::unenroll),
        )
        .route("/factors/recovery-codes/verify", post(routes::recovery_codes::verify)) // mfa.recoveryCodes.verify
        .route("/factors/recovery-codes/regenerate", post(routes::recovery_codes::regenerate)) // mfa.recoveryCodes.regenerate
        .route("/factors/{id}", delete(routes::factors::unenroll)) // mfa.unenroll
        .route("/factors/{id}/challenge", post(routes::factors::challenge)) // mfa.challenge
        .route("/factors/{id}/verify", post(routes::factors::verify)) // mfa.verify
        .route("/admin/users/{id}/factors", get(routes::admin_users::factors)) // admin.mfa.listFactors
        .route(
            "/admin/users/{id}/factors/{factor_id}", // admin.mfa.deleteFactor; changing has no client call
            put(routes::factors::admin_change).delete(routes::factors::admin_delete),
        )
        .route(
            "/admin/users/{id}/sessions", // ours, no client call
            get(routes::sessions::list_for_user).delete(routes::sessions::delete_all_for_user),
        )
        .route("/admin/users/{id}/sessions/{session_id}", delete(routes::sessions::delete_for_user)) // ours, no client call
        .route("/admin/audit", get(routes::admin_audit::list)) // no client call
        .route("/user/sessions", get(routes::sessions::list)) // ours, no client call
        .route("/user/sessions/{session_id}", delete(routes::sessions::delete)) // ours, no client call
        .route("/authorize", get(routes::external::authorize)) // signInWithOAuth
        .route("/callback", get(routes::external::callback).post(routes::external::callback)) // the provider's way back
        .route("/user/identities/authorize", get(routes::identities::authorize)) // linkIdentity
        .route("/user/identities/{identity_id}", delete(routes::identities::delete)) // unlinkIdentity
        .route("/oauth/authorize", get(routes::oauth::authorize)) // the browser, sent by an OAuth client
        .route("/oauth/authorizations/{id}", get(routes::oauth::authorization)) // oauth.getAuthorizationDetails
        .route("/oauth/authorizations/{id}/consent", post(routes::oauth::consent)) // oauth.approve…, oauth.denyAuthorization
        .route("/oauth/token", post(routes::oauth::token)) // OAuth clients
        .route("/oauth/userinfo", get(routes::oauth::userinfo)) // OAuth clients
        .route("/oauth/clients/register", post(routes::oauth_clients::register)) // OAuth clients
        .route("/user/oauth/grants", get(routes::oauth::grants).delete(routes::oauth::revoke_grant)) // oauth.listGrants, oauth.revokeGrant
        .route("/admin/oauth/clients", get(routes::oauth_clients::list).post(routes::oauth_clients::create)) // admin.oauth.listClients, …createClient
        .route(
            "/admin/oauth/clients/{id}", // admin.oauth.getClient, …updateClient, …deleteClient
            get(routes::oauth_clients::get)
                .put(routes::oauth_clients::update)
                .delete(routes::oauth_clients::delete),
        )
        .route(
            "/admin/oauth/clients/{id}/regenerate_secret", // admin.oauth.regenerateClientSecret
            post(routes::oauth_clients::regenerate_secret),
        )
        .route("/.well-known/openid-configuration", get(routes::oauth::discovery)) // OAuth clients
        .route("/.well-known/oauth-authorization-server", get(routes::oauth::discovery)) // OAuth clients
        .route("/passkeys", get(routes::passkeys::list)) // passkey.list
        .route("/passkeys/{id}", patch(routes::passkeys::rename).delete(routes::passkeys::delete)) // passkey.update, passkey.delete
        .route("/passkeys/registration/options", post(routes::passkeys::registration_options)) // passkey.startRegistration
        .route("/passkeys/registration/verify", post(routes::passkeys::register)) // passkey.verifyRegistration
        .route("/passkeys/authentication/options", post(routes::passkeys::sign_in_options)) // passkey.startAuthentication
        .route("/passkeys/authentication/verify", post(routes::passkeys::sign_in)) // passkey.verifyAuthentication
        .route("/admin/users/{id}/passkeys", get(routes::passkeys::admin_list)) // admin.passkey.listPasskeys
        .route("/admin/users/{id}/passkeys/{passkey_id}", delete(routes::passkeys::admin_delete)) // admin.passkey.deletePasskey
        .route(
            "/admin/custom-providers", // admin.customProviders.listProviders, …createProvider
            get(routes::custom_providers::list).post(routes::custom_providers::create),
        )
        .route(
            "/admin/custom-providers/{identifier}", // admin.customProviders.getProvider, …updateProvider, …deleteProvider
            get(routes::custom_providers::get)
                .put(routes::custom_providers::update)
                .delete(routes::custom_providers::delete),
        )
        .route("/settings", get(routes::settings::get)) // no client call; sign-in pages read it
        .route("/health", get(routes::health::get)) // no client call; used for health checks
        .route("/.well-known/jwks.json", get(routes::jwks::get)) // getClaims
        .merge(routes::switched_off::router())
        .fallback(async || error::not_found())
        .layer(middleware::from_fn_with_state(Arc::clone(&auth), envelope))
        .with_state(auth)
}

/// Builds the service and starts its tasks. `events` are notifications of [`CHANNELS`].
///
/// # Errors
/// The argon2 parameters are invalid ([`AuthConfig::faults`]).
pub fn service(
    config: AuthConfig,
    dependencies: Dependencies,
    events: &Events,
) -> Result<Service, AuthError> {
    let (tracker, shutdown) = (dependencies.tracker.clone(), dependencies.shutdown.clone());
    let deadline = Duration::from_secs(config.api_max_request_duration);
    let auth = Arc::new(Auth::new(config, dependencies)?);
    if auth.config.db_cleanup_enabled {
        let clean_up = cleanup::run_periodically(auth.config.clone(), auth.pool.clone(), auth.clock.clone());
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(clean_up));
    }
    for template in auth.mailer.remote_templates() {
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(template.refresh_periodically()));
    }
    if auth.hooks.is_enabled(HookKind::SendEmail) {
        let worker = notifications::worker(Arc::clone(&auth), tracker.clone());
        tracker.spawn(worker.run(events.subscribe(), shutdown.clone()));
    }
    let measure = kinds::measure(auth.hasher.clone(), auth.pool.clone());
    tracker.spawn(shutdown.run_until_cancelled_owned(measure));
    Ok(Service {
        name: "auth",
        prefix: "/auth/v1",
        router: router(auth),
        bodies: |_| BodyMode::Buffered,
        // Handlers enforce tighter limits, with the right error format; the gateway's are a safety net.
        body_limit: 8 * BODY_LIMIT,
        deadline: deadline.saturating_add(Duration::from_secs(2)),
        compresses: true,
        cors: Cors {
            methods: "GET, POST, PUT, PATCH, DELETE",
            expose: "X-Total-Count, Link, X-Supabase-Api-Version",
            preflight_status: StatusCode::NO_CONTENT,
        },
        own_preflight: None,
        renderer: |_| Box::new(error::render_fault),
    })
}

/// Whether a route (path without the prefix) needs no API key, since browsers and probes send none (auth.md §1.1).
#[must_use]
pub fn is_open(method: &Method, path: &str) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let posts = *method == Method::POST;
    match path {
        "/health" | "/authorize" | "/verify" | "/sso/saml/metadata" | "/oauth/authorize"
        | "/oauth/userinfo" => reads,
        "/callback" => reads || posts,
        "/sso/saml/acs" | "/oauth/token" | "/oauth/clients/register" => posts,
        path => reads && path.starts_with("/.well-known/"),
    }
}

/// Applies to every response: the deadline, the error format, and `no-store` by default.
async fn envelope(State(auth): State<Arc<Auth>>, mut request: Request, next: Next) -> Response {
    let context = RenderContext {
        version: ApiVersion::from_headers(request.headers()),
        request_id: request.extensions().get::<RequestId>().map(|id| id.0.clone()),
        development: auth.development,
    };
    let deadline = Deadline::new(Instant::now(), Duration::from_secs(auth.config.api_max_request_duration));
    request.extensions_mut().insert(deadline);
    let response = match tokio::time::timeout_at(deadline.at(), next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => AuthError::Timeout.into_response(),
    };
    let mut response = error::render(response, &context);
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
