//! Mails about plans: a digest on Mondays, reminders of due dates, and mentions. Each row of `functions.plan_mails` is one mail.
//!
//! `schedule.rs` adds the rows, whose key makes each occasion unique. The worker renders a row's mail and queues it in the outbox, in the
//! transaction that marks the row as queued: a server that is killed at any step sends nothing twice and leaves nothing out.

pub(crate) mod link;
mod schedule;
mod text;

use std::sync::Arc;
use std::time::Duration;

use basalt_mail::Message;
use basalt_pg::jobs::{
    Completion, Done, Failure, Handler, Job, Metrics, Policy, Queue, Retention, Table, Worker,
};
use basalt_pg::session::SessionError;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::STATEMENT_LIMIT;
use crate::mailer::{MailError, Mailer, PLAN_DIGEST, PLAN_MENTION, PLAN_REMINDER};
use link::StopLink;
use text::{PlanMail, Site};

const DAY: Duration = Duration::from_secs(24 * 3600);
const ATTEMPT_LIMIT: Duration = Duration::from_secs(30);
/// Longer than an occasion is scheduled again: a digest for a day, a reminder for two.
const KEEP: Duration = Duration::from_secs(60 * 24 * 3600);

static TABLE: Table = Table {
    name: "plan mails",
    table: "functions.plan_mails",
    channel: None,
    key: "id",
    key_type: "bigint",
    owner: None,
    kind: "kind",
    columns: "id",
    listed: "plan_id",
    order: "next_attempt_at",
    state: "case when done_at is not null then 'done' when next_attempt_at is null then 'dead' else 'waiting' end",
    waiting: "done_at is null and next_attempt_at is not null",
    dead: "done_at is null and next_attempt_at is null",
    finished_at: "done_at",
    error: "error_message",
    outcome: Some("outcome"),
    on_claim: "",
    on_done: Completion::Set("done_at = now(), next_attempt_at = null, error_message = null"),
    on_retry: "",
    on_dead: "next_attempt_at = null",
    on_revive: "",
    failed_message: "cannot write a mail about a plan",
    dead_message: "abandoned a mail about a plan after the last attempt",
    metrics: Metrics {
        done: "basalt_plan_mails_done_total",
        failed: "basalt_plan_mails_failed_total",
        given_up: "basalt_plan_mails_dead_total",
        waiting: "basalt_plan_mails_waiting",
        dead: "basalt_plan_mails_dead",
    },
};

/// Which mail about a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MailKind {
    /// On Mondays.
    Digest,
    /// Three days before a due date.
    Reminder,
    /// A comment that mentions the person.
    Mention,
}

impl MailKind {
    pub(crate) const ALL: [Self; 3] = [Self::Digest, Self::Reminder, Self::Mention];

    /// The value in the database and in links.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Digest => "digest",
            Self::Reminder => "reminder",
            Self::Mention => "mention",
        }
    }

    const fn outbox_kind(self) -> &'static str {
        match self {
            Self::Digest => PLAN_DIGEST,
            Self::Reminder => PLAN_REMINDER,
            Self::Mention => PLAN_MENTION,
        }
    }
}

/// Starts the schedule and the worker in `tracker`, until `shutdown`.
pub(crate) fn start(
    mailer: Arc<Mailer>,
    site_url: String,
    app_name: String,
    tracker: &TaskTracker,
    shutdown: CancellationToken,
) {
    let pauses = [60, 300, 1800, 7200, 6 * 3600].map(Duration::from_secs).to_vec();
    let retention = vec![
        Retention { rows: "done_at is not null", since: "done_at", keep: KEEP },
        Retention { rows: "next_attempt_at is null", since: "created_at", keep: KEEP + 30 * DAY },
    ];
    let policy = Policy { concurrency: 4, pauses, time_limit: ATTEMPT_LIMIT, retention };
    let queue = Queue::new(mailer.system.clone(), &TABLE, None);
    let scheduling = schedule::every_minute(Arc::clone(&mailer));
    tracker.spawn(shutdown.clone().run_until_cancelled_owned(scheduling));
    let writer = Writer { mailer, site: Site { url: site_url, name: app_name } };
    let worker = Worker::new(queue, writer, policy, tracker.clone());
    // The worker only polls: every few seconds is often enough.
    let (_, events) = broadcast::channel(1);
    tracker.spawn(worker.run(events, shutdown));
}

/// Writes mails and queues them.
struct Writer {
    mailer: Arc<Mailer>,
    site: Site,
}

impl Handler for Writer {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let id =
            job.key.parse().map_err(|_not_a_number| Failure::permanent("the row's key is not a number"))?;
        let outcome = self.write(id).await?;
        Ok(Done { outcome: Some(outcome.to_owned()), ..Done::default() })
    }
}

impl Writer {
    async fn write(&self, id: i64) -> Result<&'static str, Failure> {
        const LOCK: &str = "select queued_at is not null from functions.plan_mails where id = $1 for update";
        const READ: &str = "select app_private.plan_mail($1)";
        const QUEUED: &str = "update functions.plan_mails set queued_at = now() where id = $1";
        let outbox = match self.mailer.outbox_for_now().await {
            Ok(outbox) => outbox,
            Err(MailError::NotConfigured) => return Ok("not sent: no mail server is configured"),
            Err(MailError::Settings(error)) => return Err(Failure::transient(error)),
            Err(MailError::Database(error)) => return Err(transient(&error)),
            Err(MailError::Refused(failure)) => return Err(failure),
        };
        let deadline = Instant::now() + STATEMENT_LIMIT;
        let tx = self.mailer.system.begin(deadline).await.map_err(|error| transient(&error))?;
        let written = async {
            let Some(row) = tx.query_opt(LOCK, &[&id]).await? else { return Ok("not sent: the row is gone") };
            if row.try_get(0).unwrap_or(false) {
                return Ok("queued by an earlier attempt");
            }
            let content: Option<Value> = tx.query_one(READ, &[&id]).await?.try_get(0).ok().flatten();
            let Some(mail) = content.as_ref().and_then(PlanMail::read) else {
                return Ok("not sent: there is nothing to say any more, or the person does not want it");
            };
            let key = link::key(&tx).await?;
            outbox.enqueue(&tx, &self.message(&mail, &key)).await?;
            let _rows = tx.execute(QUEUED, &[&id]).await?;
            Ok("queued")
        };
        let written = written.await;
        tx.finish(written).await.map_err(|error: SessionError| transient(&error))
    }

    fn message(&self, mail: &PlanMail, key: &link::Key) -> Message {
        let link = StopLink { person: mail.person, plan: mail.plan, kind: mail.kind };
        let token = key.sign(link);
        let written = text::write(mail, &self.site, &token);
        Message {
            kind: mail.kind.outbox_kind(),
            to: mail.recipient.clone(),
            subject: written.subject,
            html: written.html,
            text: written.text,
            idempotency_key: Some(format!(
                "plan/{}/{}/{}/{}",
                mail.kind.as_str(),
                mail.plan,
                mail.person,
                mail.occasion
            )),
            author: None,
            unsubscribe_url: Some(format!("{}/functions/v1/stop-mails?token={token}", self.site.url)),
        }
    }
}

fn transient(error: &SessionError) -> Failure {
    Failure::transient(error.to_string())
}

/// A person and a plan, for a function.
pub(crate) async fn set_wanted(
    mailer: &Mailer,
    StopLink { person, plan, kind }: StopLink,
    wanted: bool,
) -> Result<Option<String>, SessionError> {
    const SET: &str = "select app_private.set_plan_mail($1, $2, $3, $4)";
    let tx = mailer.system.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
    let params: (Uuid, Uuid, &str, bool) = (person, plan, kind.as_str(), wanted);
    let row = tx.query_opt(SET, &[&params.0, &params.1, &params.2, &params.3]).await;
    Ok(tx.finish(row).await?.and_then(|row| row.try_get(0).ok().flatten()))
}
