//! The outbox as an operator sees it: what waits, what was given up and why, and how it is sent again. Contents stay
//! sealed: nobody needs a code to see that a mail server refuses it.

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::Outbox;
use crate::outbox::STATEMENT_LIMIT;
use basalt_core::pool::{ServicePool, Tx};
use basalt_core::session::SessionError;

/// What became of a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits for its next attempt, or is on its way.
    Queued,
    /// It was given up, and is kept for `mail.retention`.
    Dead,
    /// The mail server took it; its content is erased.
    Sent,
    /// It lies in the development mailbox.
    Mailbox,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Dead, Self::Sent, Self::Mailbox];

    /// As the table has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Dead => "dead",
            Self::Sent => "sent",
            Self::Mailbox => "mailbox",
        }
    }
}

/// A mail, without what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Counts up.
    pub id: i64,
    /// What it is about.
    pub kind: String,
    /// The recipient.
    pub to: String,
    /// What became of it.
    pub state: String,
    /// When it was asked for: what a code in it lives from.
    pub created_at: Timestamp,
    /// Attempts so far, since it was last sent again.
    pub attempts: i32,
    /// When it is tried next; of one that waits.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was sent or given up.
    pub finished_at: Option<Timestamp>,
    /// The mail server's own words at the last attempt; they may repeat the address.
    pub last_error: Option<String>,
}

/// The mails of an outbox, the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// As many as were wanted.
    pub mails: Vec<Queued>,
    /// How many there are in these states.
    pub total: i64,
    /// How many more are sealed under another master key: another project's, or this one's before the key changed.
    pub of_others: i64,
}

/// Which mails are sent again.
#[derive(Debug, Clone, Copy)]
pub enum Again<'a> {
    /// All that were given up.
    Dead,
    /// These, given up or still waiting.
    Ids(&'a [i64]),
}

/// Looks at an outbox and sends again. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    pool: ServicePool,
    outbox: Outbox,
}

impl Queue {
    /// The rows of `outbox`, as `pool`'s login, which owns schema `basalt`.
    #[must_use]
    pub const fn new(pool: ServicePool, outbox: Outbox) -> Self {
        Self { pool, outbox }
    }

    /// At most `limit` mails in these states.
    ///
    /// # Errors
    /// The database fails.
    pub async fn list(&self, states: &[State], limit: i64) -> Result<Listed, SessionError> {
        const LIST: &str = "\
select id, kind, recipient, state, created_at, attempts, finished_at, last_error,
  case when state = 'queued' then next_attempt_at end as next_attempt_at
from basalt.mail_outbox
where state = any($1) and sealed_by = $2
order by id desc
limit $3";
        const COUNT: &str = "\
select count(*) filter (where sealed_by = $2) as total, count(*) filter (where sealed_by <> $2) as of_others
from basalt.mail_outbox
where state = any($1)";
        let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let own = self.outbox.sealed_by();
        let (rows, count) = self
            .run(async |tx| {
                let rows = tx.query(LIST, &[&states, &own, &limit]).await?;
                Ok((rows, tx.query_one(COUNT, &[&states, &own]).await?))
            })
            .await?;
        let number = |name: &str| count.try_get(name).unwrap_or_default();
        Ok(Listed {
            mails: rows.iter().filter_map(read).collect(),
            total: number("total"),
            of_others: number("of_others"),
        })
    }

    /// Has mails sent again, at once and with all their attempts; says which. Where one of several ids is of no mail
    /// that waits or was given up, nothing is changed, and `Err` inside names those.
    ///
    /// A mail that is on its way at this moment may arrive twice.
    ///
    /// # Errors
    /// The database fails.
    pub async fn send_again(&self, again: Again<'_>) -> Result<Result<Vec<i64>, Vec<i64>>, SessionError> {
        const AGAIN: &str = "\
update basalt.mail_outbox
set state = 'queued', attempts = 0, next_attempt_at = now(), finished_at = null
where sealed_by = $1 and sealed is not null and case
  when $2::bigint[] is null then state = 'dead' else id = any($2) and state in ('dead', 'queued') end
returning id";
        // The workers of all servers, at COMMIT.
        const WAKE: &str = "select pg_catalog.pg_notify('basalt_mail', '')";
        let own = self.outbox.sealed_by();
        let wanted = match again {
            Again::Dead => None,
            Again::Ids(ids) => Some(ids),
        };
        let tx = self.pool.begin(Instant::now() + STATEMENT_LIMIT).await?;
        let changed = async {
            let rows = tx.query(AGAIN, &[&own, &wanted]).await?;
            let mut ids: Vec<i64> = rows.iter().filter_map(|row| row.try_get("id").ok()).collect();
            ids.sort_unstable();
            if !ids.is_empty() {
                let _notified = tx.query(WAKE, &[]).await?;
            }
            Ok::<_, SessionError>(ids)
        };
        let changed = match changed.await {
            Ok(changed) => changed,
            Err(error) => {
                tx.rollback().await;
                return Err(error);
            }
        };
        let missing = |id: &&i64| changed.binary_search(id).is_err();
        let missing: Vec<i64> = wanted.unwrap_or_default().iter().filter(missing).copied().collect();
        if missing.is_empty() {
            tx.commit().await?;
            Ok(Ok(changed))
        } else {
            tx.rollback().await;
            Ok(Err(missing))
        }
    }

    async fn run<T>(
        &self,
        work: impl AsyncFnOnce(&Tx) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        crate::outbox::in_transaction(&self.pool, Instant::now() + STATEMENT_LIMIT, work).await
    }
}

fn read(row: &Row) -> Option<Queued> {
    Some(Queued {
        id: row.try_get("id").ok()?,
        kind: row.try_get("kind").ok()?,
        to: row.try_get("recipient").ok()?,
        state: row.try_get("state").ok()?,
        created_at: row.try_get("created_at").ok()?,
        attempts: row.try_get("attempts").ok()?,
        next_attempt_at: row.try_get("next_attempt_at").ok()?,
        finished_at: row.try_get("finished_at").ok()?,
        last_error: row.try_get("last_error").ok()?,
    })
}
