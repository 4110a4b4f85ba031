//! The outbox as a table of jobs: for the worker, and for an operator, who sees what waits, what was given up and why, and
//! has it sent again. Contents stay sealed: an operator needs no code to see that a mail server refuses it.

use std::time::Duration;

use basalt_core::jobs::{Completion, Metrics, Queue, Retention, Table};
use basalt_core::pool::ServicePool;

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

static ALL: Table = TABLE;

/// The same where there is no mail server: the mails of others than the functions wait for one.
static FUNCTIONS_TABLE: Table =
    Table { waiting: "state = 'queued' and kind in ('plan_invitation', 'test')", ..TABLE };

/// The functions' rows of `outbox` as jobs.
#[must_use]
pub(crate) fn functions_queue(pool: ServicePool, outbox: &Outbox) -> Queue {
    Queue::new(pool, &FUNCTIONS_TABLE, Some(outbox.sealed_by()))
}

/// The rows of `outbox` as jobs of `pool`'s login, which owns schema `basalt`. Listed ones have the column `recipient`; the
/// last error is the mail server's own words, which may repeat it.
#[must_use]
pub fn queue(pool: ServicePool, outbox: &Outbox) -> Queue {
    Queue::new(pool, &ALL, Some(outbox.sealed_by()))
}

/// Mails that were sent, were given up or lie in the mailbox go after `keep`.
pub(crate) fn retention(keep: Duration) -> Vec<Retention> {
    vec![
        Retention { rows: "state in ('sent', 'dead')", since: "finished_at", keep },
        Retention { rows: "state = 'mailbox'", since: "created_at", keep },
    ]
}

/// What a mail can be: it waits or is on its way; it was given up, and is kept for `mail.retention`; the mail server took it,
/// and its content is erased; it lies in the development mailbox.
pub const STATES: [&str; 4] = ["queued", "dead", "sent", "mailbox"];
