//! The outbox as a table of jobs, and as an operator sees it: what waits, what was given up and why, and how it is sent
//! again. Contents stay sealed: an operator needs no code to see that a mail server refuses it.

use std::time::Duration;

use basalt_core::jobs::{self, Completion, ListedJob, Metrics, Retention, Table, Which};
use basalt_core::pool::ServicePool;
use basalt_core::session::SessionError;
use jiff::Timestamp;

use crate::{CHANNEL, Outbox};

static TABLE: Table = Table {
    name: "mail",
    table: "basalt.mail_outbox",
    channel: Some(CHANNEL),
    key: "id",
    key_type: "bigint",
    owner: Some("sealed_by"),
    kind: "kind",
    columns: "recipient, created_at, sealed",
    listed: "recipient",
    order: "next_attempt_at",
    state: "state",
    waiting: "state = 'queued'",
    dead: "state = 'dead' and sealed is not null",
    finished_at: "finished_at",
    error: "last_error",
    outcome: None,
    on_claim: "",
    on_done: Completion::Set("state = 'sent', finished_at = now(), sealed = null, last_error = null"),
    on_retry: "",
    on_dead: "state = 'dead', finished_at = now()",
    on_revive: "state = 'queued', finished_at = null",
    failed_message: "a mail was not taken",
    dead_message: "a mail was given up; it is kept in basalt.mail_outbox",
    metrics: Metrics {
        done: "basalt_mail_sent_total",
        failed: "basalt_mail_failed_total",
        given_up: "basalt_mail_dead_total",
        waiting: "basalt_mail_waiting",
        dead: "basalt_mail_dead",
    },
};

/// The rows of `outbox` as jobs of `pool`'s login, which owns schema `basalt`.
pub(crate) fn jobs(pool: ServicePool, outbox: &Outbox) -> jobs::Queue {
    jobs::Queue::new(pool, &TABLE, Some(outbox.sealed_by()))
}

/// Mails that were sent, were given up or lie in the mailbox go after `keep`.
pub(crate) fn retention(keep: Duration) -> Vec<Retention> {
    vec![
        Retention { rows: "state in ('sent', 'dead')", since: "finished_at", keep },
        Retention { rows: "state = 'mailbox'", since: "created_at", keep },
    ]
}

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
    /// When the service enqueued it: a code in it lives from then.
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
    /// At most as many as were asked for.
    pub mails: Vec<Queued>,
    /// How many there are in these states.
    pub total: i64,
    /// How many more are sealed under another master key: another project's, or this one's before the key changed.
    pub of_others: i64,
}

/// Lists an outbox and sends again. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queue(jobs::Queue);

impl Queue {
    /// The rows of `outbox`, as `pool`'s login, which owns schema `basalt`.
    #[must_use]
    pub fn new(pool: ServicePool, outbox: &Outbox) -> Self {
        Self(jobs(pool, outbox))
    }

    /// At most `limit` mails in these states.
    ///
    /// # Errors
    /// The database fails.
    pub async fn list(&self, states: &[State], limit: i64) -> Result<Listed, SessionError> {
        let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        let jobs::Listed { jobs, total, of_others } = self.0.list(&states, limit).await?;
        Ok(Listed { mails: jobs.into_iter().filter_map(queued).collect(), total, of_others })
    }

    /// Has all mails that were given up sent again, at once and with all their attempts; says how many.
    ///
    /// # Errors
    /// The database fails.
    pub async fn retry_dead(&self) -> Result<usize, SessionError> {
        Ok(self.0.retry(Which::Dead).await?.map_or(0, |ids| ids.len()))
    }

    /// The same for these mails, given up or still waiting. Where one of the ids is of no such mail, nothing is changed, and
    /// `Err` inside names those. A mail that is on its way at this moment may arrive twice.
    ///
    /// # Errors
    /// The database fails.
    pub async fn retry(&self, ids: &[i64]) -> Result<Result<usize, Vec<String>>, SessionError> {
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        Ok(self.0.retry(Which::Keys(&ids)).await?.map(|ids| ids.len()))
    }
}

fn queued(job: ListedJob) -> Option<Queued> {
    let ListedJob { key, kind, state, created_at, attempts, next_attempt_at, finished_at, last_error, row } =
        job;
    let (id, to) = (key.parse().ok()?, row.try_get("recipient").ok()?);
    Some(Queued { id, kind, to, state, created_at, attempts, next_attempt_at, finished_at, last_error })
}
