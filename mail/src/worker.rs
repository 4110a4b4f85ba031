//! The worker that hands the outbox's mails to the mail server: the handler of a [`basalt_core::jobs`] table.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::jobs::{self, Done, Failure, Handler, Job, Policy};
use basalt_core::pool::ServicePool;
use tokio_util::task::TaskTracker;

use crate::Outbox;
use crate::queue;
use crate::smtp::{Outgoing, Smtp, SmtpConfig};

/// Steps of one exchange, each with the transport's limit: connect, greet, STARTTLS, greet, log in (3), check, sender,
/// recipient, data (2), and room.
const STEPS: u32 = 13;
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

/// Sends one mail.
#[derive(Debug)]
pub struct Sender {
    outbox: Outbox,
    smtp: Smtp,
}

/// A worker on `outbox`'s table as `pool`'s login, which owns schema `basalt`; its attempts are tasks of `tracker`. Must be
/// called within a runtime.
///
/// # Errors
/// What is wrong with the configuration, in a sentence.
pub fn worker(
    pool: ServicePool,
    outbox: Outbox,
    smtp: &SmtpConfig,
    limits: Limits,
    tracker: TaskTracker,
) -> Result<Arc<jobs::Worker<Sender>>, String> {
    let policy = Policy {
        concurrency: usize::try_from(limits.concurrency).unwrap_or(usize::MAX),
        pauses: jobs::doubling(limits.first_pause, LONGEST_PAUSE, limits.max_attempts),
        time_limit: smtp.timeout * STEPS,
        retention: queue::retention(limits.retention),
    };
    let queue = queue::queue(pool, &outbox);
    let sender = Sender { outbox, smtp: Smtp::new(smtp)? };
    Ok(jobs::Worker::new(queue, sender, policy, tracker))
}

impl Handler for Sender {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let unreadable = |error: tokio_postgres::Error| Failure::permanent(error.to_string());
        let to: &str = job.row.try_get("recipient").map_err(unreadable)?;
        let sealed = job.row.try_get("sealed").map_err(unreadable)?;
        let content =
            self.outbox.open(&job.kind, to, sealed).map_err(|error| Failure::permanent(error.to_string()))?;
        let created_at = job.row.try_get("created_at").map_err(unreadable)?;
        self.smtp.send(Outgoing { id: &job.key, kind: &job.kind, to, created_at, content }).await?;
        Ok(Done::default())
    }

    async fn close(&self) {
        self.smtp.close().await;
    }
}
