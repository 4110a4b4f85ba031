//! The outbox as a job queue: for the worker, and for the operator, who lists waiting and failed mails and retries them.
//! Contents stay encrypted: an operator does not need the code to see that the mail server rejects it.

use std::time::Duration;

use basalt_pg::jobs::{Completion, Metrics, Queue, Retention, Table};
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use tokio::time::Instant;

use crate::outbox::in_transaction;
use crate::{CHANNEL, Outbox};

const TABLE: Table = Table {
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
    failed_message: "mail delivery failed",
    dead_message: "mail delivery abandoned after the last attempt; the mail is kept in basalt.mail_outbox",
    metrics: Metrics {
        done: "basalt_mail_sent_total",
        failed: "basalt_mail_failed_total",
        given_up: "basalt_mail_dead_total",
        waiting: "basalt_mail_waiting",
        dead: "basalt_mail_dead",
    },
};

static ALL: Table = TABLE;

/// The outbox as a job table in which the rows that match this condition on `kind` and `state` are waiting.
#[must_use]
pub const fn table_of(waiting: &'static str) -> Table {
    Table { waiting, ..TABLE }
}

/// Part of `outbox` as a queue, for a server without a mail server; its other mails wait for one.
#[must_use]
pub(crate) fn part_of_queue(pool: ServicePool, outbox: &Outbox, table: &'static Table) -> Queue {
    Queue::new(pool, table, Some(outbox.sealed_by()))
}

/// The jobs of `outbox`. `pool` logs in as the owner of schema `basalt`. Listings have the column `recipient`; the last error
/// quotes the mail server and may repeat the address.
#[must_use]
pub fn queue(pool: ServicePool, outbox: &Outbox) -> Queue {
    Queue::new(pool, &ALL, Some(outbox.sealed_by()))
}

/// Delivers all waiting mails of `outbox` to the development mailbox, for a server that can no longer send them. Returns their number.
///
/// # Errors
/// The database fails.
pub async fn deliver_to_mailbox(
    pool: &ServicePool,
    outbox: &Outbox,
    deadline: Instant,
) -> Result<u64, SessionError> {
    const DELIVER: &str = "\
update basalt.mail_outbox set state = 'mailbox', last_error = null
where state = 'queued' and sealed is not null and sealed_by = $1";
    in_transaction(pool, deadline, async |tx| tx.execute(DELIVER, &[&outbox.sealed_by()]).await).await
}

/// Deletes sent, dead and mailbox rows after `keep`.
pub(crate) fn retention(keep: Duration) -> Vec<Retention> {
    vec![
        Retention { rows: "state in ('sent', 'dead')", since: "finished_at", keep },
        Retention { rows: "state = 'mailbox'", since: "created_at", keep },
    ]
}

/// States of a mail: waiting or being sent; abandoned, and kept for `mail.retention`; accepted by the mail server, with its
/// content erased; delivered to the development mailbox.
pub const STATES: [&str; 4] = ["queued", "dead", "sent", "mailbox"];
