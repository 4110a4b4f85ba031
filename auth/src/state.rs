//! What the service is made of: shared by handlers, commands and flows, and by nothing below them.

use std::sync::Arc;

use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_mail::Outbox;
use basalt_pg::pool::{ServicePool, Tx};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::AuditLog;
use crate::config::AuthConfig;
use crate::database;
use crate::emails::mailer::Mailer;
use crate::error::AuthError;
use crate::limits::email_rate::EmailRateLimiter;
use crate::limits::rate_limit::RateLimits;
use crate::origin::{Client, Origin};
use crate::passwords::breaches::Breaches;
use crate::passwords::hasher::Hasher;
use crate::passwords::policy::PasswordPolicy;
use crate::passwords::rules::PasswordRules;
use crate::providers::Providers;
use crate::redirects::Redirects;
use crate::response_padding::ResponseTimes;
use crate::sessions::RefreshLocks;
use crate::sessions::access_token::AccessTokens;
use crate::webauthn::RelyingParty;

/// What the gateway passes to the service besides its configuration.
pub struct Dependencies {
    /// Logs in as `supabase_auth_admin`.
    pub pool: ServicePool,
    /// Keys that sign and verify tokens.
    pub keys: Arc<Keys>,
    /// The clock; tests replace it.
    pub clock: Clock,
    /// Where mails are enqueued.
    pub outbox: Outbox,
    /// Tracks every task and thread of the service.
    pub tracker: TaskTracker,
    /// Stops them.
    pub shutdown: CancellationToken,
    /// Whether error bodies may name SQLSTATEs (DESIGN §12).
    pub development: bool,
}

/// The parts that handlers, commands and flows share.
pub(crate) struct Auth {
    pub(crate) config: AuthConfig,
    pub(crate) pool: ServicePool,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
    pub(crate) hasher: Hasher,
    pub(crate) password_rules: PasswordRules,
    pub(crate) access_tokens: AccessTokens,
    pub(crate) limits: RateLimits,
    pub(crate) refresh_locks: RefreshLocks,
    pub(crate) mailer: Mailer,
    pub(crate) redirects: Redirects,
    pub(crate) providers: Providers,
    /// `None` while passkeys and WebAuthn factors are off.
    pub(crate) relying_party: Option<RelyingParty>,
    pub(crate) email_limiter: EmailRateLimiter,
    /// Pads responses about an address.
    pub(crate) response_times: ResponseTimes,
    /// Pads rejected sign-ins, which also wait for a hash thread.
    pub(crate) refusal_times: ResponseTimes,
    /// Whether error bodies may name SQLSTATEs.
    pub(crate) development: bool,
}

impl Auth {
    pub(crate) fn new(config: AuthConfig, dependencies: Dependencies) -> Result<Self, AuthError> {
        let Dependencies { pool, keys, clock, outbox, tracker, shutdown: _, development } = dependencies;
        Ok(Self {
            password_rules: PasswordRules::new(
                PasswordPolicy::new(config.password_min_length, &config.password_required_characters),
                config.password_hibp_enabled.then(|| Breaches::new(&config.password_hibp_url)),
            ),
            access_tokens: AccessTokens::new(&config, Arc::clone(&keys)),
            limits: RateLimits::new(&config),
            refresh_locks: RefreshLocks::new(),
            mailer: Mailer::new(&config, outbox),
            redirects: Redirects::new(&config.site_url, &config.uri_allow_list),
            providers: Providers::new(
                &config.external,
                &config.external_url,
                config.custom_oauth_allow_private_addresses,
            ),
            relying_party: config
                .relying_party()
                .map_err(|(key, sentence)| AuthError::Internal(format!("{key} {sentence}")))?
                .map(|settings| RelyingParty::new(&settings))
                .transpose()?,
            email_limiter: EmailRateLimiter::new(config.email_rate()),
            response_times: ResponseTimes::default(),
            refusal_times: ResponseTimes::default(),
            hasher: Hasher::new(config.hasher_settings(), &tracker)?,
            config,
            pool,
            keys,
            clock,
            development,
        })
    }

    /// The current time in PostgreSQL's precision, so that a response shows the time that the table stores.
    pub(crate) fn now(&self) -> Timestamp {
        database::in_microseconds(self.clock.now())
    }

    /// Begins a transaction bounded by the request's deadline. End it with [`database::finish`].
    pub(crate) async fn begin(&self, origin: &Origin) -> Result<Tx, AuthError> {
        Ok(self.pool.begin_for(origin.identity(), origin.deadline).await?)
    }

    /// A connection in autocommit mode. End it with [`database::finish`].
    pub(crate) async fn autocommit(&self, origin: &Origin) -> Result<Tx, AuthError> {
        Ok(self.pool.autocommit_for(origin.identity(), origin.deadline).await?)
    }

    /// The audience of a request without a bearer: `X-JWT-AUD`, else the configured one.
    pub(crate) fn audience<'a>(&'a self, origin: &'a Origin) -> &'a str {
        origin.audience.as_deref().unwrap_or(&self.config.jwt.aud)
    }

    /// The audit log, for entries caused by a request of this client.
    pub(crate) fn audit_log(&self, client: &Client) -> AuditLog {
        AuditLog::new(&self.config, client.address)
    }
}
