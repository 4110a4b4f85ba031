//! What the service is made of: shared by handlers, commands and flows, and by nothing below them.

use std::sync::Arc;

use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::pool::{ServicePool, Tx};
use basalt_mail::Outbox;
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
use crate::redirects::Redirects;
use crate::response_padding::ResponseTimes;
use crate::sessions::RefreshLocks;
use crate::sessions::access_token::AccessTokens;

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

/// What every handler shares.
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

    /// Now, as PostgreSQL will keep it: a time that was answered must read the same from the table.
    pub(crate) fn now(&self) -> Timestamp {
        database::in_microseconds(self.clock.now())
    }

    /// A transaction that ends with the request. Close it with [`finish`].
    pub(crate) async fn begin(&self, origin: &Origin) -> Result<Tx, AuthError> {
        Ok(self.pool.begin_for(origin.identity(), origin.deadline).await?)
    }

    /// A connection whose statements stand alone. Close it with [`finish`].
    pub(crate) async fn autocommit(&self, origin: &Origin) -> Result<Tx, AuthError> {
        Ok(self.pool.autocommit_for(origin.identity(), origin.deadline).await?)
    }

    /// The audience whose accounts a request without a bearer is about: named by header, else the configured one.
    pub(crate) fn audience<'a>(&'a self, origin: &'a Origin) -> &'a str {
        origin.audience.as_deref().unwrap_or(&self.config.jwt.aud)
    }

    /// The audit log, for entries caused by a request of this client.
    pub(crate) fn audit_log(&self, client: &Client) -> AuditLog {
        AuditLog::new(&self.config, client.address)
    }
}
