//! The worker that hands the outbox's mails to the mail server: the handler of a [`basalt_core::jobs`] table.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::jobs::{self, Done, Failure, Handler, Job, Policy};
use basalt_core::pool::ServicePool;
use tokio_util::task::TaskTracker;

use crate::resend::{FindAccount, Resend, ResendAccount};
use crate::smtp::{Outgoing, Smtp, SmtpConfig};
use crate::{Content, Outbox, kinds, queue};

/// Steps of one exchange, each with the transport's limit: connect, greet, STARTTLS, greet, log in (3), check, sender,
/// recipient, data (2), and room.
const STEPS: u32 = 13;
/// The time of one attempt without a mail server: the provider's answer, and room.
const PROVIDER_LIMIT: Duration = Duration::from_secs(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// How persistent the worker is.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Mails on their way at once.
    pub concurrency: u32,
    /// Attempts until a mail is given up.
    pub max_attempts: u32,
    /// Pause after the first failed attempt; it doubles up to an hour.
    pub first_pause: Duration,
    /// How long rows about sent mails, and mails given up, are kept.
    pub retention: Duration,
}

/// Sends one mail: through Resend where an account is set and the mail is one of the functions', else through the mail server.
pub struct Sender {
    outbox: Outbox,
    smtp: Option<Smtp>,
    provider: Option<Provider>,
}

/// Resend, and who says whether it is used.
pub struct Provider {
    /// Its API.
    pub resend: Resend,
    /// Its account.
    pub find_account: FindAccount,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

/// A worker on `outbox`'s table as `pool`'s login, which owns schema `basalt`; its attempts are tasks of `tracker`. Without a
/// mail server it takes the functions' mails alone. Must be called within a runtime.
///
/// # Errors
/// What is wrong with the configuration, in a sentence.
pub fn worker(
    pool: ServicePool,
    outbox: Outbox,
    smtp: Option<&SmtpConfig>,
    provider: Option<Provider>,
    limits: Limits,
    tracker: TaskTracker,
) -> Result<Arc<jobs::Worker<Sender>>, String> {
    let policy = Policy {
        concurrency: usize::try_from(limits.concurrency).unwrap_or(usize::MAX),
        pauses: jobs::doubling(limits.first_pause, LONGEST_PAUSE, limits.max_attempts),
        time_limit: smtp.map_or(PROVIDER_LIMIT, |smtp| smtp.timeout * STEPS),
        retention: queue::retention(limits.retention),
    };
    let queue = match smtp {
        Some(_) => queue::queue(pool, &outbox),
        None => queue::functions_queue(pool, &outbox),
    };
    let smtp = smtp.map(Smtp::new).transpose()?;
    Ok(jobs::Worker::new(queue, Sender { outbox, smtp, provider }, policy, tracker))
}

impl Sender {
    /// Where the functions' mails would go now.
    ///
    /// # Errors
    /// It cannot be found out; a sentence.
    pub async fn reaches(&self) -> Result<bool, String> {
        Ok(self.smtp.is_some() || self.account().await?.is_some())
    }

    /// Sends a mail of the functions now, without the outbox. The provider's or our own id of it.
    ///
    /// # Errors
    /// It was not taken.
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
        let Some(Provider { resend, find_account }) = &self.provider else { return Ok(None) };
        Ok(find_account().await?.map(|account| (resend, account)))
    }

    async fn send(&self, mail: Outgoing<'_>) -> Result<String, Failure> {
        if kinds::is_of_functions(mail.kind)
            && let Some((resend, account)) = self.account().await.map_err(Failure::transient)?
        {
            let usual = || format!("mail/{}/{}", mail.id, mail.created_at.as_microsecond());
            let key = mail.content.idempotency_key.clone().unwrap_or_else(usual);
            return resend.send(&account, mail.kind, mail.to, &mail.content, &key).await;
        }
        match &self.smtp {
            Some(smtp) => smtp.send(mail).await,
            None => Err(Failure::transient(
                "no mail server is configured: set mail.smtp_url, or Resend's key in the app",
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
        Ok(Done { outcome: Some(id) })
    }

    async fn close(&self) {
        if let Some(smtp) = &self.smtp {
            smtp.close().await;
        }
    }
}
