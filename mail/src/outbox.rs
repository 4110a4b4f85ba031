//! The outbox. [`Outbox::enqueue`] inserts into `basalt.mail_outbox` in the caller's transaction, so that a code that was
//! rolled back is never mailed and a slow mail server does not hold a connection (auth.md §6).
//!
//! Mails contain links and codes, which the database stores hashed everywhere else. A row's content is therefore encrypted
//! under `server.master_key` ([`basalt_core::seal`]) and erased once sent; only kind and recipient are readable.
//!
//! In development, without a mail server, a committed row counts as delivered: the mailbox reads this table.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use basalt_core::seal::{CannotOpen, Sealer};
use basalt_pg::pool::{ServicePool, Tx};
use basalt_pg::session::SessionError;

/// The NOTIFY channel that wakes the workers of all servers when mail is committed.
pub const CHANNEL: &str = "basalt_mail";

const PURPOSE: &str = "mail outbox";
pub(crate) const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// One mail. The worker adds the sender.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Kind for metrics, logs and the queue listing: `recovery`, `invite`, … Never a secret.
    pub kind: &'static str,
    /// The recipient: a bare address.
    pub to: String,
    /// Unicode text; encoded when the mail is sent.
    pub subject: String,
    /// The HTML part.
    pub html: String,
    /// The plain part.
    pub text: String,
    /// The provider sends one mail per key and day.
    pub idempotency_key: Option<String>,
    /// The person that the mail is from.
    pub author: Option<Author>,
    /// Stops mails of this kind by one POST request (RFC 8058).
    pub unsubscribe_url: Option<String>,
}

/// The person on whose behalf a mail is sent. The sender's address stays ours.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// Replaces the sender's name.
    pub sender_name: String,
    /// Where replies go: a bare address.
    pub reply_to: String,
}

/// Where mail goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A mail server, through the worker.
    Server,
    /// The development mailbox.
    Mailbox,
    /// Dropped with a warning: no mail server is configured, and this is not a development server.
    Nowhere,
}

impl fmt::Debug for Message {
    /// Omits links and codes, so that no log can show them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({})", self.kind)
    }
}

/// The encrypted part of a mail.
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
    /// See [`Message::author`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
    /// See [`Message::unsubscribe_url`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsubscribe_url: Option<String>,
}

impl fmt::Debug for Content {
    /// Omits links and codes, so that no log can show them.
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
    /// All servers of a database use the same master key.
    #[must_use]
    pub fn new(destination: Destination, master_key: &SecretString) -> Self {
        Self { destination, sealer: Arc::new(Sealer::new(master_key, PURPOSE)) }
    }

    /// The same outbox with another destination.
    #[must_use]
    pub fn to(&self, destination: Destination) -> Self {
        Self { destination, sealer: Arc::clone(&self.sealer) }
    }

    /// Where mail goes.
    #[must_use]
    pub const fn destination(&self) -> Destination {
        self.destination
    }

    /// Enqueues `message` in its own transaction and returns the row's id; `None` for [`Destination::Nowhere`]. `pool` logs in
    /// as the owner of schema `basalt`.
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

    /// Enqueues `message`, to be sent once `tx` has committed. The transaction's role needs INSERT on the table, which
    /// `supabase_auth_admin` has.
    ///
    /// # Errors
    /// PostgreSQL's error, a broken connection, or the transaction's deadline.
    pub async fn enqueue(&self, tx: &Tx, message: &Message) -> Result<(), SessionError> {
        // PostgreSQL delivers the notification at COMMIT.
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
                    "mail not sent: no mail server is configured; set mail.smtp_url and mail.from"
                );
                metrics::counter!("basalt_mail_dropped_total", "kind" => *kind).increment(1);
                return Ok(());
            }
        }
        metrics::counter!("basalt_mail_queued_total", "kind" => *kind).increment(1);
        Ok(())
    }

    /// Decrypts a row's content.
    ///
    /// # Errors
    /// It was encrypted for another recipient, or under another master key.
    pub fn open(&self, kind: &str, recipient: &str, sealed: &[u8]) -> Result<Content, CannotOpen> {
        let json = self.sealer.open(&context(kind, recipient), sealed)?;
        serde_json::from_slice(&json).map_err(|_not_ours| CannotOpen)
    }

    /// Fingerprint of the master key. Servers of several projects may share a database, each with its own key.
    pub(crate) fn sealed_by(&self) -> &str {
        self.sealer.fingerprint()
    }

    fn seal(&self, message: &Message) -> Vec<u8> {
        let content = Content {
            subject: message.subject.clone(),
            html: message.html.clone(),
            text: message.text.clone(),
            idempotency_key: message.idempotency_key.clone(),
            author: message.author.clone(),
            unsubscribe_url: message.unsubscribe_url.clone(),
        };
        let json = serde_json::to_vec(&content).unwrap_or_default();
        self.sealer.seal(&context(message.kind, &message.to), &json)
    }
}

/// Runs `work` in a transaction and commits if it succeeds.
pub(crate) async fn in_transaction<T>(
    pool: &ServicePool,
    deadline: Instant,
    work: impl AsyncFnOnce(&Tx) -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let tx = pool.begin(deadline).await?;
    let result = work(&tx).await;
    tx.finish(result).await
}

/// Binds content to its recipient: write access to the table is not enough to redirect a mail.
fn context(kind: &str, recipient: &str) -> String {
    format!("{kind} {recipient}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_mail_is_bound_to_its_recipient() {
        let outbox =
            Outbox::new(Destination::Server, &SecretString::from("a master key of 32 characters and more"));
        let message = Message {
            kind: "recovery",
            to: "ada@example.org".to_owned(),
            subject: "Reset your password".to_owned(),
            html: "<p>123456</p>".to_owned(),
            text: "123456".to_owned(),
            idempotency_key: None,
            author: None,
            unsubscribe_url: None,
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
