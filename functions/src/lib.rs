#![doc = include_str!("../README.md")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use basalt_core::clock::Clock;
use basalt_core::jobs::Worker;
use basalt_core::keys::Keys;
use basalt_core::listen::Event;
use basalt_core::pool::ServicePool;
use basalt_core::service::{BodyMode, Cors, Service};
use basalt_core::session::{SessionError, Sessions};
use basalt_core::system_migrations::SystemMigration;
use basalt_mail::Outbox;
use basalt_mail::worker::Sender;
use http::StatusCode;
use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;
use uuid::Uuid;

mod builtin;
mod config;
mod error;
mod gate;
mod invoke;
mod mailer;
mod metrics;
mod rates;
mod registry;
pub mod secrets;
mod stripe;

pub use config::{FunctionSettings, FunctionsConfig, StripeConfig};
pub use mailer::resend_account;
pub use stripe::{Access as StripeAccess, CatchUpError, CaughtUp};

use builtin::Refusal;
use mailer::Mailer;
use rates::Rates;
use registry::Registry;
use secrets::{SecretStore, Secrets};
use stripe::Stripe;
use stripe::billing::Billing;
use stripe::inbox::Inbox;
use stripe::{catch_up, former};

/// Schema `functions`. The app's tables that its functions use are the project's, not ours.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new(
        "functions",
        1,
        "runtime_secrets",
        include_str!("../migrations/0001_runtime_secrets.sql"),
    ),
    SystemMigration::new("functions", 2, "built_in", include_str!("../migrations/0002_built_in.sql")),
    SystemMigration::new(
        "functions",
        3,
        "former_customers",
        include_str!("../migrations/0003_former_customers.sql"),
    ),
    SystemMigration::new("functions", 4, "caught_up", include_str!("../migrations/0004_caught_up.sql")),
    SystemMigration::new(
        "functions",
        5,
        "proven_addresses",
        include_str!("../migrations/0005_proven_addresses.sql"),
    ),
];

/// functions.md 3.4, for TypeScript functions; built-in ones read less.
const BODY_LIMIT: usize = 50 * 1024 * 1024;

/// How long one statement of a built-in function may take.
pub(crate) const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// What the gateway gives to the service.
pub struct Dependencies {
    /// Sessions of the login that takes on callers' roles.
    pub sessions: Sessions,
    /// Connections that act as `service_role`, for the tables of payments, which no caller may write.
    pub billing: ServicePool,
    /// Connections of the system's login, for secrets and the outbox.
    pub system: ServicePool,
    /// Tells of changed secrets.
    pub events: Receiver<Event>,
    /// Verifies tokens.
    pub keys: Arc<Keys>,
    /// The time.
    pub clock: Clock,
    /// Seals secrets.
    pub master_key: SecretString,
    /// What stands in for Stripe where no key is set, if anything does.
    pub double: Option<StripeAccess>,
    /// Where mail is queued.
    pub outbox: Outbox,
    /// Sends it, where there is a way.
    pub mail_worker: Option<Arc<Worker<Sender>>>,
    /// `auth.mailer_autoconfirm`: sign-ups are confirmed without a mail to their address.
    pub confirms_without_mail: bool,
    /// Whether people may be sent to a web address: it is a page of the app.
    pub is_page: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// `auth.site_url`, without a slash at its end: where the app is.
    pub site_url: String,
    /// Knows of every task.
    pub tracker: TaskTracker,
    /// Cancelled when the server begins to shut down.
    pub shutdown: CancellationToken,
}

/// What every request needs.
pub(crate) struct Functions {
    pub(crate) registry: Registry,
    pub(crate) sessions: Sessions,
    pub(crate) billing: Billing,
    pub(crate) stripe: Arc<Stripe>,
    /// `stripe.webhook_secret`.
    pub(crate) webhook_secret: Option<SecretString>,
    inbox: Option<Inbox>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) mailer: Mailer,
    pub(crate) rates: Rates,
    pub(crate) confirms_without_mail: bool,
    pub(crate) is_page: Box<dyn Fn(&str) -> bool + Send + Sync>,
    pub(crate) site_url: String,
}

/// One sentence for each TypeScript function of the project, which this release cannot run.
#[must_use]
pub fn functions_that_cannot_run(config: &FunctionsConfig) -> Vec<String> {
    registry::unable_to_run(&config.dir, &config.each)
}

/// The service at `/functions/v1`.
#[must_use]
pub fn service(config: &FunctionsConfig, stripe: &StripeConfig, dependencies: Dependencies) -> Service {
    let Dependencies {
        sessions,
        billing,
        system,
        events,
        keys,
        clock,
        master_key,
        double,
        outbox,
        mail_worker,
        confirms_without_mail,
        is_page,
        site_url,
        tracker,
        shutdown,
    } = dependencies;
    let webhook_secret = stripe.webhook_secret.clone();
    let store = SecretStore::new(system.clone(), &master_key);
    let secrets = Arc::new(Secrets::new(store, &config.secrets));
    tracker.spawn(shutdown.clone().run_until_cancelled_owned(Arc::clone(&secrets).keep(events)));
    let stripe = Arc::new(Stripe::new(stripe, double, Arc::clone(&secrets)));
    let billing = Billing { pool: billing };
    let inbox = config.builtin.then(|| {
        former::start(billing.pool.clone(), Arc::clone(&stripe), &tracker, shutdown.clone());
        let catching_up = catch_up::daily(billing.clone(), Arc::clone(&stripe));
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(catching_up));
        Inbox::start(billing.clone(), Arc::clone(&stripe), &tracker, shutdown)
    });
    let functions = Arc::new_cyclic(|this| {
        let built_in = if config.builtin { builtin::all(this) } else { Vec::new() };
        Functions {
            registry: Registry::new(built_in, &config.dir, &config.each),
            sessions,
            billing,
            stripe,
            webhook_secret,
            inbox,
            keys,
            clock,
            secrets,
            mailer: Mailer { outbox, worker: mail_worker, system },
            rates: Rates::default(),
            confirms_without_mail,
            is_page,
            site_url,
        }
    });
    let registry = functions.registry.clone();
    Service {
        name: "functions",
        prefix: "/functions/v1",
        router: Router::new().fallback(invoke::invoke).with_state(functions),
        bodies: |_| BodyMode::Streamed,
        body_limit: BODY_LIMIT,
        // functions.md 3.4: to the first byte of the answer.
        deadline: Duration::from_secs(150),
        compresses: false,
        cors: Cors {
            methods: invoke::METHODS,
            expose: "sb-error-code, sb-request-id, x-sb-edge-region, x-relay-error, content-disposition, retry-after",
            preflight_status: StatusCode::NO_CONTENT,
        },
        own_preflight: Some(Box::new(move |request: &Request| {
            registry.find(request.uri().path()).is_some_and(|function| function.answers_preflights)
        })),
        renderer: |_| Box::new(error::render),
    }
}

/// Fetches from Stripe what was missed: what `basalt stripe sync` does, and a server once a day. `billing` acts as
/// `service_role`, `system` as the system's login.
///
/// # Errors
/// There is no key, or Stripe or the database fail. What was done until then holds.
pub async fn catch_up_with_stripe(
    config: &FunctionsConfig,
    stripe: &StripeConfig,
    billing: ServicePool,
    system: ServicePool,
    master_key: &SecretString,
) -> Result<CaughtUp, CatchUpError> {
    let secrets = Arc::new(Secrets::new(SecretStore::new(system, master_key), &config.secrets));
    secrets.refresh().await?;
    catch_up::catch_up(&Billing { pool: billing }, &Stripe::new(stripe, None, secrets)).await
}

impl Functions {
    /// The origin of a page of the app; `None` for other addresses.
    pub(crate) fn origin(&self, url: &str) -> Option<String> {
        let parsed = Url::parse(url).ok().filter(|_| (self.is_page)(url))?;
        Some(parsed.origin().ascii_serialization())
    }

    /// The inbox of webhooks.
    pub(crate) fn inbox(&self) -> Result<&Inbox, Refusal> {
        self.inbox.as_ref().ok_or_else(Refusal::unavailable)
    }

    /// A value of `app_settings`.
    pub(crate) async fn setting(&self, key: &str) -> Result<Option<Value>, SessionError> {
        const SETTING: &str = "select value from public.app_settings where key = $1";
        let tx = self.billing.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let row = tx.query_opt(SETTING, &[&key]).await;
        Ok(tx.finish(row).await?.and_then(|row| row.try_get(0).ok()))
    }

    /// Notes what an administrator did.
    pub(crate) async fn audit(
        &self,
        actor: Uuid,
        action: &str,
        subject: &str,
        id: &str,
    ) -> Result<(), SessionError> {
        const AUDIT: &str = "\
insert into public.audit_log (actor_id, action, subject, subject_id) values ($1, $2, $3, $4)";
        let tx = self.billing.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let written = tx.execute(AUDIT, &[&actor, &action, &subject, &id]).await;
        tx.finish(written).await.map(drop)
    }
}
