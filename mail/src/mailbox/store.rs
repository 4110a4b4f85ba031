//! The mailbox's storage: outbox rows that [`Outbox::enqueue`] delivered to it, decrypted. Mails survive restarts, and all
//! servers of a database show the same ones.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::{Content, Outbox, queue};
use basalt_pg::pool::{ServicePool, Tx};
use basalt_pg::session::SessionError;

/// Mails kept; the oldest are deleted first.
pub const CAPACITY: i64 = 500;

/// A delivered mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// Increases with each mail.
    pub id: i64,
    /// See [`crate::Message::kind`].
    pub kind: String,
    /// The recipient.
    pub to: String,
    /// When the service enqueued it.
    pub created_at: Timestamp,
    /// Subject and bodies.
    pub content: Content,
}

/// Reads and empties the mailbox. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pool: ServicePool,
    outbox: Outbox,
}

impl Store {
    /// The mailbox of `outbox`. `pool` logs in as the owner of schema `basalt`.
    #[must_use]
    pub const fn new(pool: ServicePool, outbox: Outbox) -> Self {
        Self { pool, outbox }
    }

    /// At most [`CAPACITY`] mails, newest first, whose recipient contains `to`, ignoring case. Mails that cannot be decrypted
    /// (the master key has changed) are skipped.
    ///
    /// # Errors
    /// The database fails.
    pub async fn list(&self, to: &str) -> Result<Vec<Delivered>, SessionError> {
        const LIST: &str = "\
select id, kind, recipient, created_at, sealed
from basalt.mail_outbox
where state = 'mailbox' and sealed_by = $1 and position(lower($2) in lower(recipient)) > 0
order by id desc
limit $3";
        let rows = self.run(async |tx| tx.query(LIST, &[&self.own(), &to, &CAPACITY]).await).await?;
        Ok(rows.iter().filter_map(|row| self.open(row)).collect())
    }

    /// One mail.
    ///
    /// # Errors
    /// The database fails.
    pub async fn get(&self, id: i64) -> Result<Option<Delivered>, SessionError> {
        const GET: &str = "\
select id, kind, recipient, created_at, sealed
from basalt.mail_outbox
where state = 'mailbox' and sealed_by = $1 and id = $2";
        let row = self.run(async |tx| tx.query_opt(GET, &[&self.own(), &id]).await).await?;
        Ok(row.and_then(|row| self.open(&row)))
    }

    /// The number of mails, and the id of the newest (0 if none). Cheap enough to poll.
    ///
    /// # Errors
    /// The database fails.
    pub async fn state(&self) -> Result<(i64, i64), SessionError> {
        const STATE: &str = "\
select count(*), coalesce(max(id), 0) from basalt.mail_outbox where state = 'mailbox' and sealed_by = $1";
        let row = self.run(async |tx| tx.query_one(STATE, &[&self.own()]).await).await?;
        Ok((number(&row, 0), number(&row, 1)))
    }

    /// Deletes these mails; `None` deletes all.
    ///
    /// # Errors
    /// The database fails.
    pub async fn delete(&self, ids: Option<&[i64]>) -> Result<(), SessionError> {
        const ALL: &str = "delete from basalt.mail_outbox where state = 'mailbox' and sealed_by = $1";
        const SOME: &str = "\
delete from basalt.mail_outbox where state = 'mailbox' and sealed_by = $1 and id = any($2)";
        self.run(async |tx| match ids {
            None => tx.execute(ALL, &[&self.own()]).await,
            Some(ids) => tx.execute(SOME, &[&self.own(), &ids]).await,
        })
        .await?;
        Ok(())
    }

    /// Periodically deletes mails beyond [`CAPACITY`] or older than `retention`. Never returns.
    #[expect(clippy::infinite_loop, reason = "the shutdown token cancels the task")]
    pub async fn keep(self, retention: Duration) {
        const INTERVAL: Duration = Duration::from_secs(60);
        let rows = queue::queue(self.pool.clone(), &self.outbox);
        let retention = queue::retention(retention);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let kept = async {
                self.trim().await?;
                rows.clean(&retention).await
            };
            if let Err(error) = kept.await {
                tracing::debug!(%error, "cannot clean up the mailbox");
            }
        }
    }

    /// Deletes all but the newest [`CAPACITY`] mails.
    async fn trim(&self) -> Result<(), SessionError> {
        const TRIM: &str = "\
delete from basalt.mail_outbox
where state = 'mailbox' and sealed_by = $1 and id <= (
  select id from basalt.mail_outbox
  where state = 'mailbox' and sealed_by = $1
  order by id desc offset $2 limit 1)";
        self.run(async |tx| tx.execute(TRIM, &[&self.own(), &CAPACITY]).await).await?;
        Ok(())
    }

    fn own(&self) -> &str {
        self.outbox.sealed_by()
    }

    async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Tx) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        crate::outbox::in_transaction(&self.pool, Instant::now() + crate::outbox::STATEMENT_LIMIT, work).await
    }

    fn open(&self, row: &Row) -> Option<Delivered> {
        let kind: String = row.try_get("kind").ok()?;
        let to: String = row.try_get("recipient").ok()?;
        let sealed: &[u8] = row.try_get("sealed").ok()?;
        let content = self.outbox.open(&kind, &to, sealed).ok()?;
        Some(Delivered {
            id: row.try_get("id").ok()?,
            created_at: row.try_get("created_at").ok()?,
            kind,
            to,
            content,
        })
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

fn number(row: &Row, index: usize) -> i64 {
    row.try_get(index).unwrap_or_default()
}
