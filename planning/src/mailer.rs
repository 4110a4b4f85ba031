//! Sends the functions' mail (functions.md 3.21): through Resend if the app's settings name an account, else through the mail server, else
//! to the development mailbox.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::random;
use basalt_mail::queue::{deliver_to_mailbox, queue};
use basalt_mail::resend::{AccountFault, ResendAccount};
use basalt_mail::worker::{ProviderMails, Sender};
use basalt_mail::{Content, Destination, Message, Outbox, table_of};
use basalt_pg::jobs::{Failure, Outcome, RetrySelection, Table, Worker};
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use futures_util::FutureExt as _;
use secrecy::SecretString;
use tokio::time::{Instant, timeout};

use crate::STATEMENT_LIMIT;

/// The kind of an invitation to a plan.
pub(crate) const PLAN_INVITATION: &str = "plan_invitation";
/// The kind of an administrator's test mail.
pub(crate) const TEST: &str = "test";

/// The kind of a Monday digest.
pub(crate) const PLAN_DIGEST: &str = "plan_digest";
/// The kind of a reminder of a due date.
pub(crate) const PLAN_REMINDER: &str = "plan_reminder";
/// The kind of a mail about a comment that mentions the recipient.
pub(crate) const PLAN_MENTION: &str = "plan_mention";

/// The outbox rows of these kinds.
static TABLE: Table = table_of(
    "state = 'queued' and kind in ('plan_invitation', 'test', 'plan_digest', 'plan_reminder', 'plan_mention')",
);

/// How long a request waits for the provider before it leaves the mail to the outbox.
const DELIVERY_WAIT: Duration = Duration::from_secs(3);
/// Waiting mails that one retry makes due.
const RETRIES: i64 = 1000;
/// Time limit of a mail that bypasses the outbox.
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(10);

/// A mail in the outbox.
pub(crate) struct Enqueued<'a> {
    /// Its row.
    pub(crate) id: i64,
    /// `None`: the row is the delivered mail.
    worker: Option<&'a Arc<Worker<Sender>>>,
}

/// The state of an enqueued mail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The provider accepted the mail with this id.
    Accepted(String),
    /// The mail is waiting in the outbox.
    Queued,
}

/// Why a mail was not sent.
#[derive(Debug)]
pub(crate) enum MailError {
    /// No provider, mail server or mailbox is configured.
    NotConfigured,
    /// The provider rejected the mail.
    Refused(Failure),
    /// The database failed.
    Database(SessionError),
    /// The app's settings cannot be read.
    Settings(String),
}

pub(crate) struct Mailer {
    pub(crate) outbox: Outbox,
    pub(crate) worker: Option<Arc<Worker<Sender>>>,
    /// A pool of the login that owns the outbox.
    pub(crate) system: ServicePool,
}

impl Enqueued<'_> {
    /// Sends the mail and waits briefly for the result.
    pub(crate) async fn delivery(&self) -> Result<Delivery, MailError> {
        let id = self.id.to_string();
        let Some(worker) = self.worker else { return Ok(Delivery::Accepted(id)) };
        match timeout(DELIVERY_WAIT, worker.run_now(&id)).await {
            Ok(Ok(Some(Outcome::Done(done)))) => {
                Ok(Delivery::Accepted(done.outcome.filter(|taken| !taken.is_empty()).unwrap_or(id)))
            }
            Ok(Ok(Some(Outcome::Dead(failure)))) => Err(MailError::Refused(failure)),
            Ok(Ok(Some(Outcome::Retry(..)) | None) | Err(_)) | Err(_) => Ok(Delivery::Queued),
        }
    }
}

impl Mailer {
    /// Queues a mail.
    pub(crate) async fn enqueue(&self, message: &Message) -> Result<Enqueued<'_>, MailError> {
        let (outbox, worker) = self.route().await?;
        let deadline = Instant::now() + STATEMENT_LIMIT;
        let id = outbox.enqueue_alone(&self.system, message, deadline).await.map_err(MailError::Database)?;
        Ok(Enqueued { id: id.ok_or(MailError::NotConfigured)?, worker })
    }

    /// Sends a mail without the outbox and returns its id.
    pub(crate) async fn send_now(&self, message: Message) -> Result<String, MailError> {
        let (outbox, worker) = self.route().await?;
        let Some(worker) = worker else {
            let deadline = Instant::now() + STATEMENT_LIMIT;
            let id =
                outbox.enqueue_alone(&self.system, &message, deadline).await.map_err(MailError::Database)?;
            return id.map(|id| id.to_string()).ok_or(MailError::NotConfigured);
        };
        let Message { kind, to, subject, html, text, idempotency_key, author, unsubscribe_url } = message;
        let id = random::uuid().to_string();
        let content = Content { subject, html, text, idempotency_key, author, unsubscribe_url };
        let sent = timeout(IMMEDIATE_LIMIT, worker.handler().send_now(&id, &to, kind, content)).await;
        let sent = sent.unwrap_or_else(|_elapsed| Err(Failure::transient("no response within 10 s")));
        sent.map_err(MailError::Refused)
    }

    /// Checks a Resend account before it is saved; `None` uses the stored key.
    pub(crate) async fn check_account(
        &self,
        key: Option<SecretString>,
        from_email: &str,
    ) -> Result<(), AccountFault> {
        match &self.worker {
            Some(worker) => worker.handler().check_account(key, from_email).await,
            None => Err(AccountFault::Unknown("this server does not send mail".to_owned())),
        }
    }

    /// Makes waiting mails due now, and abandoned ones too if `with_abandoned`. Without account and mail server they are delivered to the
    /// development mailbox. Returns their number.
    pub(crate) async fn retry(&self, with_abandoned: bool) -> Result<usize, MailError> {
        let route = self.route().await;
        let queue = queue(self.system.clone(), &self.outbox);
        let database = MailError::Database;
        let mut retried = 0;
        // Before the abandoned ones join them. Mails that have not failed yet are due, or being sent.
        let waiting = queue.list(&["queued"], RETRIES).await.map_err(database)?;
        if with_abandoned {
            retried +=
                queue.retry(RetrySelection::Dead).await.map_err(database)?.map_or(0, |keys| keys.len());
        }
        let has_failed = waiting.jobs.into_iter().filter(|job| job.last_error.is_some());
        let mut keys: Vec<String> = has_failed.map(|job| job.key).collect();
        while !keys.is_empty() {
            match queue.retry(RetrySelection::Keys(&keys)).await.map_err(database)? {
                Ok(revived) => {
                    retried += revived.len();
                    break;
                }
                // Sent meanwhile.
                Err(missing) => keys.retain(|key| !missing.contains(key)),
            }
        }
        if let Ok((outbox, None)) = route {
            let deadline = Instant::now() + STATEMENT_LIMIT;
            deliver_to_mailbox(&self.system, &outbox, deadline).await.map_err(database)?;
        }
        Ok(retried)
    }

    /// Whether mail is sent to recipients, rather than stored in the development mailbox.
    pub(crate) async fn sends_mail(&self) -> Result<bool, MailError> {
        Ok(self.route().await?.1.is_some())
    }

    /// The outbox for mail that is sent now, as its settings are at this moment.
    pub(crate) async fn outbox_for_now(&self) -> Result<Outbox, MailError> {
        Ok(self.route().await?.0)
    }

    /// The outbox and worker for the current destination. Without a worker, the row in the outbox is the delivered mail.
    async fn route(&self) -> Result<(Outbox, Option<&Arc<Worker<Sender>>>), MailError> {
        if let Some(worker) = &self.worker
            && worker.handler().reaches().await.map_err(MailError::Settings)?
        {
            return Ok((self.outbox.to(Destination::Server), Some(worker)));
        }
        match self.outbox.destination() {
            Destination::Mailbox => Ok((self.outbox.clone(), None)),
            Destination::Server | Destination::Nowhere => Err(MailError::NotConfigured),
        }
    }
}

/// The kinds of mail sent through Resend, and the account in the app's settings. `system` uses the system's login, because no API role may read the key.
pub(crate) fn provider_mails(system: ServicePool) -> ProviderMails {
    const ACCOUNT: &str = "\
select s.secret, coalesce(a.value ->> 'fromEmail', ''), coalesce(a.value ->> 'fromName', '')
from public.app_settings a
join app_private.secrets s on s.name = 'email_resend'
where a.key = 'email_resend' and s.secret <> ''";
    let find_account = Box::new(move || {
        let system = system.clone();
        async move {
            let read = async {
                let tx = system.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
                let row = tx.query_opt(ACCOUNT, &[]).await;
                tx.finish(row).await
            };
            let row = read.await.map_err(|error: SessionError| error.to_string())?;
            let account = row.map(|row| {
                let text = |column| row.try_get::<_, String>(column).unwrap_or_default();
                ResendAccount {
                    api_key: SecretString::from(text(0)),
                    from_email: text(1),
                    from_name: text(2),
                }
            });
            Ok(account)
        }
        .boxed()
    });
    ProviderMails {
        kinds: &[PLAN_INVITATION, TEST, PLAN_DIGEST, PLAN_REMINDER, PLAN_MENTION],
        table: &TABLE,
        find_account,
    }
}
