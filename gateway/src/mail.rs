//! Sets up mail from the configuration: destination, sender, development mailbox and worker. [`basalt_mail`] queues and sends.

use std::sync::Arc;

pub use basalt_mail::CHANNEL;
use basalt_mail::mailbox::store::Store;
use basalt_mail::resend::Resend;
use basalt_mail::smtp::SmtpConfig;
use basalt_mail::worker::{Limits, Provider, worker};
use basalt_mail::{Destination, Outbox};
use basalt_pg::jobs::Worker;
use basalt_pg::listen::Events;
use basalt_pg::pool::ServicePool;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{BaseUrl, Config, Only};
use crate::secrets::Secrets;
use basalt_mail::mailbox::{Mailbox, Sender};

/// The outbox of this server.
#[must_use]
pub fn outbox(config: &Config, secrets: &Secrets) -> Outbox {
    Outbox::new(destination(config), secrets.master_key())
}

/// The started parts.
#[derive(Default)]
pub struct Started {
    /// The development mailbox, if mail goes there.
    pub mailbox: Option<Mailbox>,
    /// The worker that sends queued mails, if this server sends mail.
    pub worker: Option<Arc<Worker<basalt_mail::worker::Sender>>>,
}

/// Starts the worker and the mailbox as tasks of `tracker`, until `shutdown`. `pool` is of the login that owns schema `basalt`.
///
/// # Errors
/// The mail settings are invalid; the message says why.
pub fn start(
    config: &Config,
    outbox: &Outbox,
    pool: &ServicePool,
    events: &Events,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
) -> Result<Started, String> {
    let mut started = Started::default();
    if !sends(config) {
        return Ok(started);
    }
    let provider = provider(config, pool)?;
    let smtp = smtp(config);
    if smtp.is_some() || provider.is_some() {
        let worker =
            worker(pool.clone(), outbox.clone(), smtp.as_ref(), provider, limits(config), tracker.clone())?;
        tracker.spawn(Arc::clone(&worker).run(events.subscribe(), shutdown.clone()));
        started.worker = Some(worker);
    }
    if !has_mailbox(config) {
        return Ok(started);
    }
    let store = Store::new(pool.clone(), outbox.clone());
    let keep = store.clone().keep(config.mail.retention);
    tracker.spawn(shutdown.clone().run_until_cancelled_owned(keep));
    let name = config.mail.sender_name.clone().unwrap_or_default();
    started.mailbox = Some(Mailbox::new(store, Sender { address: config.mail.from.clone(), name }));
    Ok(started)
}

/// Resend, if the built-in functions use it.
fn provider(config: &Config, pool: &ServicePool) -> Result<Option<Provider>, String> {
    let Some(built_in) = config.built_in_functions() else { return Ok(None) };
    let base = config.mail.resend_url.as_ref().map(BaseUrl::url);
    let resend = Resend::new(base, &config.mail.from)?;
    Ok(Some(Provider { resend, mails: built_in.provider_mails(pool.clone()) }))
}

/// Whether this server has a development mailbox.
#[must_use]
pub fn has_mailbox(config: &Config) -> bool {
    destination(config) == Destination::Mailbox && sends(config)
}

/// The SMTP settings, if a mail server is configured.
#[must_use]
pub fn smtp(config: &Config) -> Option<SmtpConfig> {
    let mail = &config.mail;
    Some(SmtpConfig {
        server: mail.smtp_url.clone()?,
        from: mail.from.clone(),
        sender_name: mail.sender_name.clone().unwrap_or_default(),
        headers: mail.headers.clone(),
        timeout: mail.timeout,
        connections: mail.connections,
    })
}

fn limits(config: &Config) -> Limits {
    Limits {
        concurrency: config.mail.connections,
        max_attempts: config.mail.max_attempts,
        first_pause: config.mail.retry_pause,
        retention: config.mail.retention,
    }
}

/// Whether this process runs a service that sends mail.
#[must_use]
pub fn sends(config: &Config) -> bool {
    matches!(config.only, None | Some(Only::Auth | Only::Functions))
}

/// Without a mail server, mail goes to the mailbox in development and is not sent in production.
fn destination(config: &Config) -> Destination {
    match (&config.mail.smtp_url, config.is_development()) {
        (Some(_), _) => Destination::Server,
        (None, true) => Destination::Mailbox,
        (None, false) => Destination::Nowhere,
    }
}
