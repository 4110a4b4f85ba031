//! Mail that leaves after the transaction that asked for it has committed. [`Outbox::enqueue`] writes a row of
//! `basalt.mail_outbox` inside the caller's transaction, so that a code that was never stored is never mailed and a
//! slow mail server holds no connection (auth.md §6).
//!
//! Mails hold links and codes, which the database stores hashed everywhere else: a row in clear would undo that, so
//! its content is sealed under `server.master_key` ([`basalt_core::seal`]) and erased once sent. What is readable in a row
//! is kind and recipient.
//!
//! In development, without a mail server, a committed row *is* the delivered mail: the mailbox reads this table.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use basalt_core::pool::{ServicePool, Tx};
use basalt_core::seal::{CannotOpen, Sealer};
use basalt_core::session::SessionError;

/// The channel on which PostgreSQL tells every server at COMMIT that there is mail.
pub const CHANNEL: &str = "basalt_mail";

const PURPOSE: &str = "mail outbox";
pub(crate) const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// One mail. Sender and envelope are the outbox's.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// What it is about, for metrics, the log and the list: `recovery`, `invite`, … Never a secret.
    pub kind: &'static str,
    /// The one recipient: a bare address.
    pub to: String,
    /// Unicode text; it is encoded when the mail is sent.
    pub subject: String,
    /// The HTML part.
    pub html: String,
    /// The plain part.
    pub text: String,
    /// Names the mail to a provider that sends one of each name, within a day.
    pub idempotency_key: Option<String>,
}

/// Where mail goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To a mail server, through the worker.
    Server,
    /// To the development mailbox.
    Mailbox,
    /// Nowhere: no mail server is configured and this is no development server. Each mail causes a warning.
    Nowhere,
}

impl fmt::Debug for Message {
    /// Links and codes never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({})", self.kind)
    }
}

/// What of a mail is sealed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// See [`Message::subject`].
    pub subject: String,
    /// See [`Message::html`].
    pub html: String,
    /// See [`Message::text`].
    pub text: String,
    /// See [`Message::idempotency_key`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

impl fmt::Debug for Content {
    /// Links and codes never reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Content")
    }
}

/// Enqueues mails. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Outbox {
    destination: Destination,
    sealer: Arc<Sealer>,
}

impl Outbox {
    /// An outbox; servers of one database seal with the same master key.
    #[must_use]
    pub fn new(destination: Destination, master_key: &SecretString) -> Self {
        Self { destination, sealer: Arc::new(Sealer::new(master_key, PURPOSE)) }
    }

    /// The same outbox for mail that goes elsewhere.
    #[must_use]
    pub fn to(&self, destination: Destination) -> Self {
        Self { destination, sealer: Arc::clone(&self.sealer) }
    }

    /// Where its mail goes.
    #[must_use]
    pub const fn destination(&self) -> Destination {
        self.destination
    }

    /// Enqueues `message` in a transaction of its own, and says which row it became; `None` where mail goes nowhere. `pool` is
    /// of the login that owns schema `basalt`.
    ///
    /// # Errors
    /// The database fails.
    pub async fn enqueue_alone(
        &self,
        pool: &ServicePool,
        message: &Message,
        deadline: Instant,
    ) -> Result<Option<i64>, SessionError> {
        const INSERT: &str = "\
insert into basalt.mail_outbox (kind, recipient, sealed, sealed_by, state) values ($1, $2, $3, $4, $5) returning id";
        let state = match self.destination {
            Destination::Server => "queued",
            Destination::Mailbox => "mailbox",
            Destination::Nowhere => return Ok(None),
        };
        let (sealed, sealed_by) = (self.seal(message), self.sealed_by());
        let id = in_transaction(pool, deadline, async |tx| {
            let row =
                tx.query_one(INSERT, &[&message.kind, &message.to, &sealed, &sealed_by, &state]).await?;
            row.try_get(0).map_err(|error| SessionError::Unavailable(error.to_string()))
        });
        let id = id.await?;
        metrics::counter!("basalt_mail_queued_total", "kind" => message.kind).increment(1);
        Ok(Some(id))
    }

    /// Enqueues `message`, to be sent once `tx` has committed; a rollback undoes that. The transaction's login needs the
    /// right to insert, as `supabase_auth_admin` has.
    ///
    /// # Errors
    /// PostgreSQL's error, a broken connection, or the transaction's deadline.
    pub async fn enqueue(&self, tx: &Tx, message: &Message) -> Result<(), SessionError> {
        // The notification wakes the workers of all servers at COMMIT, and not before.
        const QUEUE: &str = "\
with queued as (insert into basalt.mail_outbox (kind, recipient, sealed, sealed_by, state)
  values ($1, $2, $3, $4, 'queued'))
select pg_catalog.pg_notify('basalt_mail', '')";
        const DELIVER: &str = "\
insert into basalt.mail_outbox (kind, recipient, sealed, sealed_by, state)
values ($1, $2, $3, $4, 'mailbox')";
        let Message { kind, to, .. } = message;
        let (sealed, sealed_by) = (self.seal(message), self.sealed_by());
        match self.destination {
            Destination::Server => {
                let _notified = tx.query(QUEUE, &[kind, to, &sealed, &sealed_by]).await?;
            }
            Destination::Mailbox => {
                let _rows = tx.execute(DELIVER, &[kind, to, &sealed, &sealed_by]).await?;
            }
            Destination::Nowhere => {
                tracing::warn!(
                    kind,
                    "a mail was not sent, because no mail server is configured: set mail.smtp_url and mail.from"
                );
                metrics::counter!("basalt_mail_dropped_total", "kind" => *kind).increment(1);
                return Ok(());
            }
        }
        metrics::counter!("basalt_mail_queued_total", "kind" => *kind).increment(1);
        Ok(())
    }

    /// Opens a row's content.
    ///
    /// # Errors
    /// It was sealed for another row, or under another master key.
    pub fn open(&self, kind: &str, recipient: &str, sealed: &[u8]) -> Result<Content, CannotOpen> {
        let json = self.sealer.open(&context(kind, recipient), sealed)?;
        serde_json::from_slice(&json).map_err(|_not_ours| CannotOpen)
    }

    /// Which rows are this outbox's: servers of several projects may share a database, each with its own master key.
    pub(crate) fn sealed_by(&self) -> &str {
        self.sealer.fingerprint()
    }

    fn seal(&self, message: &Message) -> Vec<u8> {
        let content = Content {
            subject: message.subject.clone(),
            html: message.html.clone(),
            text: message.text.clone(),
            idempotency_key: message.idempotency_key.clone(),
        };
        let json = serde_json::to_vec(&content).unwrap_or_default();
        self.sealer.seal(&context(message.kind, &message.to), &json)
    }
}

/// One transaction around `work`, committed when that succeeds.
pub(crate) async fn in_transaction<T>(
    pool: &ServicePool,
    deadline: Instant,
    work: impl AsyncFnOnce(&Tx) -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let tx = pool.begin(deadline).await?;
    let result = work(&tx).await;
    tx.finish(result).await
}

/// Content is bound to its recipient: write access to the table does not suffice to have it sent to another address.
fn context(kind: &str, recipient: &str) -> String {
    format!("{kind} {recipient}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_mail_opens_for_its_own_recipient_only() {
        let outbox =
            Outbox::new(Destination::Server, &SecretString::from("a master key of 32 characters and more"));
        let message = Message {
            kind: "recovery",
            to: "ada@example.org".to_owned(),
            subject: "Reset your password".to_owned(),
            html: "<p>123456</p>".to_owned(),
            text: "123456".to_owned(),
            idempotency_key: None,
        };
        let sealed = outbox.seal(&message);
        let content = outbox.open("recovery", "ada@example.org", &sealed).unwrap();
        assert_eq!(
            (content.subject, content.html, content.text),
            (message.subject, message.html, message.text)
        );
        assert_eq!(outbox.open("recovery", "eve@example.org", &sealed), Err(CannotOpen));
    }
}
