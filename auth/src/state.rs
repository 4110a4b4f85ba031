//! What the service is made of: shared by handlers, commands and flows, and by nothing below them.

use std::sync::Arc;

use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::random;
use basalt_mail::Outbox;
use basalt_pg::pool::{ServicePool, Tx};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::audit::AuditLog;
use crate::captcha::Captcha;
use crate::config::AuthConfig;
use crate::database;
use crate::emails::mailer::Mailer;
use crate::error::AuthError;
use crate::hook_types::HookKind;
use crate::hooks::Hooks;
use crate::limits::email_rate::EmailRateLimiter;
use crate::limits::rate_limit::RateLimits;
use crate::limits::sms_rate::SmsRates;
use crate::origin::{Client, Origin};
use crate::passwords::breaches::Breaches;
use crate::passwords::hasher::Hasher;
use crate::passwords::policy::PasswordPolicy;
use crate::passwords::rules::PasswordRules;
use crate::providers::Providers;
use crate::redirects::Redirects;
use crate::response_padding::ResponseTimes;
use crate::sessions::access_token::{AccessToken, AccessTokens, Granted};
use crate::sessions::{self, RefreshLocks, Scope};
use crate::sms::Sms;
use crate::users;
use crate::users::create::NewUser;
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
    /// Whether error bodies may name SQLSTATEs (DESIGN §12), and the log explains responses that surprise developers.
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
    pub(crate) hooks: Hooks,
    /// `None` if captchas are disabled.
    pub(crate) captcha: Option<Captcha>,
    pub(crate) sms: Sms,
    pub(crate) sms_rates: SmsRates,
    pub(crate) email_limiter: EmailRateLimiter,
    /// Pads responses about an address.
    pub(crate) response_times: ResponseTimes,
    /// Pads rejected sign-ins, which also wait for a hash thread.
    pub(crate) refusal_times: ResponseTimes,
    /// Whether error bodies may name SQLSTATEs, and the log explains responses that surprise developers.
    pub(crate) development: bool,
}

/// The consent of the hook to a new user, where the transaction that creates the user also looks for an existing one.
#[derive(Clone, Copy)]
pub(crate) struct Approval {
    /// Of the new user.
    pub(crate) user_id: Uuid,
    pub(crate) is_required: bool,
    is_given: bool,
}

impl Approval {
    /// Not given yet.
    pub(crate) fn new(auth: &Auth) -> Self {
        let is_required = auth.hooks.is_enabled(HookKind::BeforeUserCreated);
        Self { user_id: random::uuid(), is_required, is_given: false }
    }

    pub(crate) const fn given(self) -> Self {
        Self { is_given: true, ..self }
    }

    /// The new user's id.
    ///
    /// # Errors
    /// The hook was not asked, because there was an account a moment ago; the client may try again.
    pub(crate) const fn check(self) -> Result<Uuid, AuthError> {
        if self.is_required && !self.is_given { Err(AuthError::Overloaded) } else { Ok(self.user_id) }
    }
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
            mailer: Mailer::new(&config, outbox.clone()),
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
            sms: Sms::new(&config, &outbox),
            sms_rates: SmsRates::new(&config),
            captcha: Captcha::new(&config),
            hooks: Hooks::new(&config.hooks, pool.clone()),
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

    /// Asks the hook about a user who is about to be created. Call it outside of transactions.
    ///
    /// # Errors
    /// The hook rejects the user, or fails.
    pub(crate) async fn approve_new_user(&self, origin: &Origin, new: &NewUser<'_>) -> Result<(), AuthError> {
        if !self.hooks.is_enabled(HookKind::BeforeUserCreated) {
            return Ok(());
        }
        let now = self.now();
        self.hooks.before_user_created(origin, now, &new.preview(now)).await
    }

    /// Runs the hook after the user `id` was created. Does nothing if the user does not exist: the request found an existing account,
    /// and did not use the id. Call it after the commit.
    ///
    /// # Errors
    /// The hook fails. The user remains.
    pub(crate) async fn notify_user_created(&self, origin: &Origin, id: Uuid) -> Result<(), AuthError> {
        if !self.hooks.is_enabled(HookKind::AfterUserCreated) {
            return Ok(());
        }
        // Boxed: every flow that creates users contains this future.
        let notified = Box::pin(async {
            let tx = self.autocommit(origin).await?;
            let account = users::account(&tx, id).await;
            match database::finish(tx, account).await? {
                Some(account) => self.hooks.after_user_created(origin, self.now(), &account).await,
                None => Ok(()),
            }
        });
        notified.await
    }

    /// Issues the access token of a granted session. If a hook prevents it, a session that has just begun ends.
    ///
    /// # Errors
    /// The hook fails, or the token cannot be signed.
    pub(crate) async fn issue(&self, origin: &Origin, granted: &Granted) -> Result<AccessToken, AuthError> {
        let issued = self.access_tokens.issue(&self.hooks, origin, granted).await;
        if issued.is_err() && !granted.is_refresh && granted.amr.len() == 1 {
            let tx = self.begin(origin).await?;
            let session = Scope::Local(granted.session_id);
            let ended = sessions::end(&tx, granted.account.user.id, session).await;
            database::finish(tx, ended).await?;
        }
        issued
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
