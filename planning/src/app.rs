//! The state shared by all functions of the app.

use std::sync::Arc;

use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_functions::built_in::{Host, IsPage};
use basalt_functions::secrets::Secrets;
use basalt_pg::session::{SessionError, Sessions};
use secrecy::SecretString;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;
use uuid::Uuid;

use crate::STATEMENT_LIMIT;
use crate::config::StripeConfig;
use crate::mailer::Mailer;
use crate::plan_mails;
use crate::rates::Rates;
use crate::stripe::billing::Billing;
use crate::stripe::inbox::Inbox;
use crate::stripe::{Stripe, catch_up, former_customers};

pub(crate) struct App {
    pub(crate) sessions: Sessions,
    pub(crate) billing: Billing,
    pub(crate) stripe: Arc<Stripe>,
    pub(crate) inbox: Inbox,
    /// `stripe.webhook_secret`.
    pub(crate) webhook_secret: Option<SecretString>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clock: Clock,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) mailer: Arc<Mailer>,
    pub(crate) rates: Rates,
    pub(crate) confirms_without_mail: bool,
    pub(crate) is_page: IsPage,
    pub(crate) site_url: String,
    /// `mail.sender_name`, else the site's host.
    pub(crate) name: String,
}

/// The host of a URL; the URL itself if it has none.
fn host_of(url: &str) -> String {
    let parsed = Url::parse(url).ok();
    parsed.as_ref().and_then(Url::host_str).unwrap_or(url).to_owned()
}

impl App {
    /// Starts the background jobs in `host.tracker`, until `host.shutdown`.
    pub(crate) fn start(config: &StripeConfig, host: Host) -> Self {
        let Host {
            sessions,
            service_role,
            system,
            secrets,
            keys,
            clock,
            outbox,
            mail_worker,
            confirms_without_mail,
            is_page,
            site_url,
            sender_name,
            is_development,
            tracker,
            shutdown,
        } = host;
        let stripe = Arc::new(Stripe::new(config, Arc::clone(&secrets), is_development));
        let billing = Billing { pool: service_role };
        former_customers::start(billing.pool.clone(), Arc::clone(&stripe), &tracker, shutdown.clone());
        let catching_up = catch_up::daily(billing.clone(), Arc::clone(&stripe));
        tracker.spawn(shutdown.clone().run_until_cancelled_owned(catching_up));
        let name = sender_name.filter(|name| !name.is_empty()).unwrap_or_else(|| host_of(&site_url));
        let mailer = Arc::new(Mailer { outbox, worker: mail_worker, system });
        plan_mails::start(Arc::clone(&mailer), site_url.clone(), name.clone(), &tracker, shutdown.clone());
        let inbox = Inbox::start(billing.clone(), Arc::clone(&stripe), &tracker, shutdown);
        Self {
            sessions,
            billing,
            stripe,
            inbox,
            webhook_secret: config.webhook_secret.clone(),
            keys,
            clock,
            secrets,
            mailer,
            rates: Rates::default(),
            confirms_without_mail,
            is_page,
            name,
            site_url,
        }
    }

    /// The origin of a URL that is a page of the app; `None` for other URLs.
    pub(crate) fn origin(&self, url: &str) -> Option<String> {
        let parsed = Url::parse(url).ok().filter(|_| (self.is_page)(url))?;
        Some(parsed.origin().ascii_serialization())
    }

    /// A value of `app_settings`.
    pub(crate) async fn setting(&self, key: &str) -> Result<Option<Value>, SessionError> {
        const SETTING: &str = "select value from public.app_settings where key = $1";
        let tx = self.billing.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let row = tx.query_opt(SETTING, &[&key]).await;
        Ok(tx.finish(row).await?.and_then(|row| row.try_get(0).ok()))
    }

    /// Adds an administrator's action to the audit log.
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
