#![doc = include_str!("../README.md")]

mod audit;
mod cleanup;
mod codes;
mod config;
mod emails;
mod error;
mod http;
mod limits;
mod metrics;
mod migrations;
mod passwords;
mod sessions;
mod users;

use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderValue, Method, StatusCode, header};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::pool::{ServicePool, Tx};
use basalt_core::service::{BodyMode, Cors, Deadline, RequestId, Service};
use basalt_mail::Outbox;
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use cleanup::clean_up;
pub use config::{AuthConfig, JwtConfig, settings};
pub use emails::templates::{EmailSettings, TemplateSource};
pub use error::AuthError;
pub use http::feature::Feature;
pub use limits::email_rate::{EmailRate, ParseEmailRateError};
pub use migrations::MIGRATIONS;
pub use passwords::policy::{WeakReason, Weakness};
pub use users::command_line::{NewAccount, create_user};
pub use users::operator::{AccountSummary, ListAccounts, Operator};

use emails::mailer::Mailer;
use error::{ApiVersion, RenderContext};
use http::redirect::Redirects;
use http::request::RequestContext;
use http::response_padding::ResponseTimes;
use http::routes;
use limits::email_rate::EmailRateLimiter;
use limits::rate_limit::RateLimits;
use passwords::breaches::Breaches;
use passwords::hasher::Hasher;
use passwords::kinds;
use passwords::policy::{self, PasswordPolicy};
use sessions::RefreshLocks;

/// Whether a web address is a page of the site, of this server (`public_url`), or of a site of the allow-list, for services that send
/// people back to the app. On localhost any port is: development servers move.
pub fn page_check(config: &AuthConfig, public_url: &str) -> impl Fn(&str) -> bool + Send + Sync + use<> {
    let pages = Redirects::new(&config.site_url, &config.uri_allow_list);
    let own_pages = Redirects::new(public_url, &[]);
    move |url| pages.names_page(url) || own_pages.names_page(url)
}

/// Every route, with the client call that reaches it. Routes of later work are not here: they are unknown.
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
        .route("/admin/users/{id}/factors", get(routes::admin_users::factors)) // admin.mfa.listFactors
        .route(
            "/admin/users/{id}/sessions", // no call: ours
            get(routes::sessions::list_of).delete(routes::sessions::delete_all_of),
        )
        .route("/admin/users/{id}/sessions/{session_id}", delete(routes::sessions::delete_of)) // no call: ours
        .route("/admin/audit", get(routes::admin_audit::list)) // no call
        .route("/user/sessions", get(routes::sessions::list)) // no call: ours
        .route("/user/sessions/{session_id}", delete(routes::sessions::delete)) // no call: ours
        .route("/user/identities/authorize", get(routes::identities::authorize)) // linkIdentity
        .route("/user/identities/{identity_id}", delete(routes::identities::delete)) // unlinkIdentity
        .route("/settings", get(routes::settings::get)) // no call; sign-in pages read it
        .route("/health", get(routes::health::get)) // no call; stacks poll it
        .route("/.well-known/jwks.json", get(routes::jwks::get)) // getClaims
        .merge(routes::switched_off::router())
        .fallback(async || error::not_found())
        .layer(middleware::from_fn_with_state(Arc::clone(&auth), envelope))
        .with_state(auth)
}

/// Largest request body in bytes (auth.md §3.1).
pub(crate) const BODY_LIMIT: usize = 1_048_576;

/// What every handler shares.
pub(crate) struct Auth {
    pub(crate) config: AuthConfig,
    pub(crate) pool: ServicePool,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
    pub(crate) hasher: Hasher,
    pub(crate) policy: PasswordPolicy,
    pub(crate) breaches: Option<Breaches>,
    pub(crate) limits: RateLimits,
    pub(crate) refresh_locks: RefreshLocks,
    pub(crate) mailer: Mailer,
    pub(crate) redirects: Redirects,
    pub(crate) email_limiter: EmailRateLimiter,
    /// Of answers about an address.
    pub(crate) response_times: ResponseTimes,
    /// Of refused sign-ins, which wait for a hash thread besides.
    pub(crate) refusal_times: ResponseTimes,
    /// Whether error bodies may name SQLSTATEs.
    pub(crate) development: bool,
}

impl Auth {
    /// What handlers and the command line share.
    fn new(config: AuthConfig, dependencies: Dependencies) -> Result<Self, AuthError> {
        let Dependencies { pool, keys, clock, outbox, tracker, shutdown: _, development } = dependencies;
        Ok(Self {
            policy: PasswordPolicy::new(config.password_min_length, &config.password_required_characters),
            breaches: Breaches::new(&config),
            limits: RateLimits::new(&config),
            refresh_locks: RefreshLocks::new(),
            mailer: Mailer::new(&config, outbox),
            redirects: Redirects::new(&config.site_url, &config.uri_allow_list),
            email_limiter: EmailRateLimiter::new(&config),
            response_times: ResponseTimes::default(),
            refusal_times: ResponseTimes::default(),
            hasher: Hasher::new(&config, &tracker)?,
            config,
            pool,
            keys,
            clock,
            development,
        })
    }

    /// Now, as PostgreSQL will keep it: a time that was answered must read the same from the table.
    pub(crate) fn now(&self) -> Timestamp {
        in_microseconds(self.clock.now())
    }

    /// A transaction that ends with the request. Close it with [`finish`].
    pub(crate) async fn begin(&self, request: &RequestContext) -> Result<Tx, AuthError> {
        Ok(self.pool.begin_for(request.identity(), request.deadline).await?)
    }

    /// A connection whose statements stand alone. Close it with [`finish`].
    pub(crate) async fn autocommit(&self, request: &RequestContext) -> Result<Tx, AuthError> {
        Ok(self.pool.autocommit_for(request.identity(), request.deadline).await?)
    }

    /// The audience whose accounts a request without a bearer is about: named by header, else the configured one.
    pub(crate) fn audience<'a>(&'a self, request: &'a RequestContext) -> &'a str {
        request.audience().unwrap_or(&self.config.jwt.aud)
    }

    /// What is wrong with a password: the policy's reasons, and last that it is known from a breach.
    pub(crate) async fn weakness(&self, password: &str) -> Option<Weakness> {
        let weakness = self.policy.weakness(password);
        match &self.breaches {
            Some(breaches) if breaches.has(password).await => Some(Weakness::pwned(weakness)),
            Some(_) | None => weakness,
        }
    }

    /// The rules for a password that is being set.
    ///
    /// # Errors
    /// It breaks one.
    pub(crate) async fn check_new_password(&self, password: &str) -> Result<(), AuthError> {
        policy::check_length(password)?;
        self.weakness(password).await.map_or(Ok(()), |weakness| Err(AuthError::WeakPassword(weakness)))
    }

    /// Whether a token that was replaced at `then` is still answered.
    pub(crate) fn is_within_reuse_interval(&self, then: Option<Timestamp>, now: Timestamp) -> bool {
        let interval = Duration::from_secs(self.config.security_refresh_token_reuse_interval);
        self.config.security_refresh_token_allow_reuse
            || then.is_some_and(|then| {
                Duration::try_from(now.duration_since(then)).is_ok_and(|passed| passed < interval)
            })
    }
}

/// A time without what PostgreSQL does not keep.
pub(crate) fn in_microseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// [`Tx::finish`] with the error that this crate's `?` makes.
pub(crate) fn finish<T>(tx: Tx, result: Result<T, AuthError>) -> impl Future<Output = Result<T, AuthError>> {
    tx.finish(result)
}

/// What the gateway hands the service beside its configuration.
pub struct Dependencies {
    /// Of the login `supabase_auth_admin`.
    pub pool: ServicePool,
    /// Keys that sign and verify tokens.
    pub keys: Arc<Keys>,
    /// Time.
    pub clock: Clock,
    /// Takes the e-mails.
    pub outbox: Outbox,
    /// Every task and thread of the service is in it.
    pub tracker: TaskTracker,
    /// Ends them.
    pub shutdown: CancellationToken,
    /// Whether error bodies may name SQLSTATEs (DESIGN §12).
    pub development: bool,
}

/// Builds the service and starts its tasks.
///
/// # Errors
/// [`AuthConfig::faults`] finds the argon2 parameters unusable, or the system has no thread to give.
pub fn service(config: AuthConfig, dependencies: Dependencies) -> Result<Service, AuthError> {
    let (tracker, shutdown) = (dependencies.tracker.clone(), dependencies.shutdown.clone());
    let deadline = Duration::from_secs(config.api_max_request_duration);
    let auth = Arc::new(Auth::new(config, dependencies)?);
    if auth.config.db_cleanup_enabled {
        let keep = cleanup::keep_clean(auth.config.clone(), auth.pool.clone(), auth.clock.clone());
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(keep));
    }
    for template in auth.mailer.remote_templates() {
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(template.keep_fresh()));
    }
    let learn = kinds::learn(auth.hasher.clone(), auth.pool.clone());
    tracker.spawn(shutdown.clone().run_until_cancelled_owned(learn));
    let hasher = auth.hasher.clone();
    tracker.spawn(async move {
        shutdown.cancelled().await;
        hasher.close();
    });
    Ok(Service {
        name: "auth",
        prefix: "/auth/v1",
        router: router(auth),
        bodies: |_| BodyMode::Buffered,
        // The limits that clients meet are inside, where the error's shape is known; the gateway's are a net below.
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

/// Requests, by method and path without the prefix, that browsers and probes send without an API key (auth.md §1.1).
#[must_use]
pub fn is_open(method: &Method, path: &str) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let posts = *method == Method::POST;
    match path {
        "/health" | "/authorize" | "/verify" | "/sso/saml/metadata" | "/oauth/authorize" => reads,
        "/callback" => reads || posts,
        "/sso/saml/acs" | "/oauth/token" | "/oauth/clients/register" => posts,
        path => reads && path.starts_with("/.well-known/"),
    }
}

/// What holds for every answer: the deadline, the shape of errors, and that nothing is cached unless it says so.
async fn envelope(State(auth): State<Arc<Auth>>, mut request: Request, next: Next) -> Response {
    let context = RenderContext {
        version: ApiVersion::of(request.headers()),
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
