//! Sends the outbox's mails: the handler of a [`basalt_pg::jobs`] queue.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::convert::saturating;
use basalt_pg::jobs::{self, Done, Failure, Handler, Job, Policy, Table};
use basalt_pg::pool::ServicePool;
use secrecy::SecretString;
use tokio_util::task::TaskTracker;

use crate::resend::{AccountFault, FindAccount, Resend, ResendAccount};
use crate::smtp::{Outgoing, Smtp, SmtpConfig};
use crate::{Content, Outbox, queue};

/// Steps of one SMTP exchange, each with its own time limit: connect, greet, STARTTLS, greet, log in (3), check, sender,
/// recipient, data (2), and some slack.
const STEPS: u32 = 13;
/// Time limit of one attempt without a mail server: one call to the provider, and some slack.
const PROVIDER_LIMIT: Duration = Duration::from_secs(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Retry and concurrency limits.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Mails sent concurrently.
    pub concurrency: u32,
    /// Attempts before a mail is abandoned.
    pub max_attempts: u32,
    /// Pause after the first failed attempt; doubles up to an hour.
    pub first_pause: Duration,
    /// How long rows of sent and abandoned mails are kept.
    pub retention: Duration,
}

/// Sends one mail: through Resend if it is one of [`ProviderMails`] and there is an account, else through the mail server.
pub struct Sender {
    outbox: Outbox,
    smtp: Option<Smtp>,
    provider: Option<Provider>,
}

/// Resend, and the mails that it sends.
pub struct Provider {
    /// The API client.
    pub resend: Resend,
    /// The mails that it sends.
    pub mails: ProviderMails,
}

/// The mails that are sent through Resend if there is an account.
pub struct ProviderMails {
    /// Their kinds.
    pub kinds: &'static [&'static str],
    /// The outbox with these kinds, for a server without a mail server: [`crate::table_of`].
    pub table: &'static Table,
    /// Loads the account.
    pub find_account: FindAccount,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

/// A worker on `outbox`'s table with `pool`, whose login owns schema `basalt`; its attempts are tasks of `tracker`. Without a mail server it
/// sends only the mails of `provider`. Must be called within a runtime.
///
/// # Errors
/// Describes what is wrong with the configuration.
pub fn worker(
    pool: ServicePool,
    outbox: Outbox,
    smtp: Option<&SmtpConfig>,
    provider: Option<Provider>,
    limits: Limits,
    tracker: TaskTracker,
) -> Result<Arc<jobs::Worker<Sender>>, String> {
    let policy = Policy {
        concurrency: saturating::<usize>(limits.concurrency),
        pauses: jobs::doubling(limits.first_pause, LONGEST_PAUSE, limits.max_attempts),
        time_limit: smtp.map_or(PROVIDER_LIMIT, |smtp| smtp.timeout * STEPS),
        retention: queue::retention(limits.retention),
    };
    let queue = match (smtp, &provider) {
        (None, Some(provider)) => queue::part_of_queue(pool, &outbox, provider.mails.table),
        (Some(_), _) | (None, None) => queue::queue(pool, &outbox),
    };
    let smtp = smtp.map(Smtp::new).transpose()?;
    Ok(jobs::Worker::new(queue, Sender { outbox, smtp, provider }, policy, tracker))
}

impl Sender {
    /// Whether mails of [`ProviderMails`] can be sent now.
    ///
    /// # Errors
    /// The account cannot be read; the message says why.
    pub async fn reaches(&self) -> Result<bool, String> {
        Ok(self.smtp.is_some() || self.account().await?.is_some())
    }

    /// Checks an account before it is saved. If `key` is `None`, the stored one is used.
    ///
    /// # Errors
    /// The account cannot send, or Resend cannot be asked.
    pub async fn check_account(
        &self,
        key: Option<SecretString>,
        from_email: &str,
    ) -> Result<(), AccountFault> {
        let unknown = |message: &str| AccountFault::Unknown(message.to_owned());
        let Some(Provider { resend, .. }) = &self.provider else {
            return Err(unknown("this server does not send through Resend"));
        };
        let api_key = match key {
            Some(key) => key,
            None => {
                let stored = self.account().await.map_err(|error| unknown(&error))?;
                stored.ok_or_else(|| AccountFault::Key("no key is saved".to_owned()))?.1.api_key
            }
        };
        let account = ResendAccount { api_key, from_email: from_email.to_owned(), from_name: String::new() };
        resend.check(&account).await
    }

    /// Sends a mail immediately, without the outbox, and returns the provider's or our own id for it.
    ///
    /// # Errors
    /// The mail was not accepted.
    pub async fn send_now(
        &self,
        id: &str,
        to: &str,
        kind: &str,
        content: Content,
    ) -> Result<String, Failure> {
        let created_at = jiff::Timestamp::now();
        self.send(Outgoing { id, kind, to, created_at, content }).await
    }

    async fn account(&self) -> Result<Option<(&Resend, ResendAccount)>, String> {
        let Some(Provider { resend, mails }) = &self.provider else { return Ok(None) };
        Ok((mails.find_account)().await?.map(|account| (resend, account)))
    }

    async fn send(&self, mail: Outgoing<'_>) -> Result<String, Failure> {
        let is_providers = |provider: &Provider| provider.mails.kinds.contains(&mail.kind);
        if self.provider.as_ref().is_some_and(is_providers)
            && let Some((resend, account)) = self.account().await.map_err(Failure::transient)?
        {
            let usual = || format!("mail/{}/{}", mail.id, mail.created_at.as_microsecond());
            let key = mail.content.idempotency_key.clone().unwrap_or_else(usual);
            return resend.send(&account, mail.kind, mail.to, &mail.content, &key).await;
        }
        match &self.smtp {
            Some(smtp) => smtp.send(mail).await,
            None => Err(Failure::transient(
                "no mail server is configured: set mail.smtp_url, or the Resend API key in the app",
            )),
        }
    }
}

impl Handler for Sender {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let unreadable = |error: tokio_postgres::Error| Failure::permanent(error.to_string());
        let to: &str = job.row.try_get("recipient").map_err(unreadable)?;
        let sealed = job.row.try_get("sealed").map_err(unreadable)?;
        let content =
            self.outbox.open(&job.kind, to, sealed).map_err(|error| Failure::permanent(error.to_string()))?;
        let created_at = job.row.try_get("created_at").map_err(unreadable)?;
        let id = self.send(Outgoing { id: &job.key, kind: &job.kind, to, created_at, content }).await?;
        Ok(Done { outcome: Some(id), ..Done::default() })
    }

    async fn close(&self) {
        if let Some(smtp) = &self.smtp {
            smtp.close().await;
        }
    }
}
