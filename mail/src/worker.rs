//! The worker that sends what is in the outbox.
//!
//! It takes due rows with `for update skip locked` and moves their next attempt ahead of the longest exchange there can
//! be: a lease. So several servers share one outbox and never send a mail twice on purpose; a server that dies between
//! sending and marking leaves a lease that runs out, and the mail goes out again rather than not at all. A mark names
//! the attempt it belongs to, so that a late one changes nothing.
//!
//! Times are PostgreSQL's: the servers' clocks need not agree.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;

use crate::outbox::STATEMENT_LIMIT;
use crate::smtp::{Outgoing, SendError, Smtp, SmtpConfig};
use crate::{CHANNEL, Outbox};
use basalt_core::listen::Event;
use basalt_core::pool::ServicePool;
use basalt_core::random;
use basalt_core::session::SessionError;

/// Steps of one exchange, each with the transport's limit: connect, greet, STARTTLS, greet, log in (3), check, sender,
/// recipient, data (2), and room.
const STEPS: u32 = 14;
/// Without a notification (a pooler between us and PostgreSQL swallows them) mail is looked for this often.
const POLL: Duration = Duration::from_secs(5);
/// Old rows are looked for this often.
const CLEAN: Duration = Duration::from_secs(600);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// How long exchanges under way may take to end when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

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

/// Sends mails until it is told to stop.
pub struct Worker {
    pool: ServicePool,
    outbox: Outbox,
    smtp: Smtp,
    limits: Limits,
    /// How long a row is out of reach of others once taken.
    lease: Duration,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("limits", &self.limits).finish_non_exhaustive()
    }
}

struct Claimed {
    id: i64,
    attempt: i32,
    kind: String,
    to: String,
    created_at: Timestamp,
    sealed: Vec<u8>,
}

impl Worker {
    /// A worker on `outbox`'s table as `pool`'s login, which owns schema `basalt`. Must be called within a runtime.
    ///
    /// # Errors
    /// What is wrong with the configuration, in a sentence.
    pub fn new(pool: ServicePool, outbox: Outbox, smtp: &SmtpConfig, limits: Limits) -> Result<Self, String> {
        Ok(Self { pool, outbox, smtp: Smtp::new(smtp)?, limits, lease: smtp.timeout * STEPS })
    }

    /// Sends until `shutdown`, then lets what is under way end for a moment. `events` wake it.
    pub async fn run(self, mut events: Receiver<Event>, shutdown: CancellationToken) {
        let worker = Arc::new(self);
        let mut sending = JoinSet::new();
        let working = worker.send_for_ever(&mut sending, &mut events);
        // Boxed: it is large, and alive as long as the server.
        let _stopped = Box::pin(shutdown.run_until_cancelled(working)).await;
        let drained = async { while sending.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN, drained).await.is_err() {
            tracing::info!("mails that were under way will be tried again");
        }
        worker.smtp.close().await;
    }

    async fn send_for_ever(self: &Arc<Self>, sending: &mut JoinSet<()>, events: &mut Receiver<Event>) {
        let mut cleaned: Option<Instant> = None;
        let mut trouble = Duration::ZERO;
        loop {
            while sending.try_join_next().is_some() {}
            let free =
                usize::try_from(self.limits.concurrency).unwrap_or(usize::MAX).saturating_sub(sending.len());
            let pause = match self.take(free).await {
                Ok((claimed, next)) => {
                    trouble = Duration::ZERO;
                    let all = claimed.len() == free && free > 0;
                    for mail in claimed {
                        sending.spawn(Arc::clone(self).send(mail));
                    }
                    // A full hand: there may be more, once one of these has ended.
                    if all { POLL } else { next.min(POLL) }
                }
                Err(error) => {
                    tracing::info!(%error, "the outbox cannot be read; trying again");
                    trouble = (trouble * 2).clamp(Duration::from_millis(500), Duration::from_secs(30));
                    trouble
                }
            };
            if cleaned.is_none_or(|at| at.elapsed() > CLEAN) && self.clean().await.is_ok() {
                cleaned = Some(Instant::now());
            }
            tokio::select! {
                () = wait_for_mail(events) => {}
                Some(_ended) = sending.join_next() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Takes up to `free` due mails, and says how long until the next one is due.
    async fn take(&self, free: usize) -> Result<(Vec<Claimed>, Duration), SessionError> {
        const CLAIM: &str = "\
with due as (
  select id from basalt.mail_outbox
  where state = 'queued' and sealed_by = $3 and next_attempt_at <= now()
  order by next_attempt_at
  limit $1
  for update skip locked)
update basalt.mail_outbox m
set attempts = m.attempts + 1, next_attempt_at = now() + make_interval(secs => $2)
from due
where m.id = due.id
returning m.id, m.attempts, m.kind, m.recipient, m.created_at, m.sealed";
        const OUTLOOK: &str = "\
select count(*) filter (where state = 'queued') as waiting,
  count(*) filter (where state = 'dead') as dead,
  extract(epoch from min(next_attempt_at) filter (where state = 'queued') - clock_timestamp())::float8 as seconds
from basalt.mail_outbox
where state in ('queued', 'dead') and sealed_by = $1";
        let limit = i64::try_from(free).unwrap_or(i64::MAX);
        let (lease, own) = (self.lease.as_secs_f64(), self.outbox.sealed_by());
        let deadline = Instant::now() + STATEMENT_LIMIT;
        let (claimed, outlook) = crate::outbox::in_transaction(&self.pool, deadline, async |tx| {
            let claimed =
                if free == 0 { Vec::new() } else { tx.query(CLAIM, &[&limit, &lease, &own]).await? };
            Ok((claimed, tx.query_one(OUTLOOK, &[&own]).await?))
        })
        .await?;
        let count = |name: &str| outlook.try_get::<_, i64>(name).unwrap_or_default() as f64;
        metrics::gauge!("basalt_mail_waiting").set(count("waiting"));
        metrics::gauge!("basalt_mail_dead").set(count("dead"));
        let seconds: Option<f64> = outlook.try_get("seconds").unwrap_or_default();
        let next = seconds.map_or(POLL, |seconds| Duration::from_secs_f64(seconds.clamp(0.01, 3600.0)));
        Ok((claimed.iter().filter_map(read).collect(), next))
    }

    async fn send(self: Arc<Self>, mail: Claimed) {
        let Claimed { id, attempt, kind, to, created_at, sealed } = mail;
        let result = match self.outbox.open(&kind, &to, &sealed) {
            Ok(content) => self.smtp.send(Outgoing { id, kind: &kind, to: &to, created_at, content }).await,
            Err(error) => {
                let reason = error.to_string();
                Err(SendError { is_transient: false, detail: reason.clone(), reason })
            }
        };
        let attempts = u32::try_from(attempt).unwrap_or(u32::MAX);
        match result {
            Ok(()) => {
                const SENT: &str = "\
update basalt.mail_outbox
set state = 'sent', finished_at = now(), sealed = null, last_error = null
where id = $1 and attempts = $2 and state = 'queued'";
                metrics::counter!("basalt_mail_sent_total", "kind" => kind).increment(1);
                self.mark(SENT, &[&id, &attempt]).await;
            }
            Err(error) if error.is_transient && attempts < self.limits.max_attempts => {
                const AGAIN: &str = "\
update basalt.mail_outbox
set next_attempt_at = now() + make_interval(secs => $3), last_error = $4
where id = $1 and attempts = $2 and state = 'queued'";
                let pause = pause_after(attempts, self.limits.first_pause);
                let SendError { reason, detail, .. } = error;
                metrics::counter!("basalt_mail_failed_total", "kind" => kind.clone()).increment(1);
                let retry_s = pause.as_secs();
                tracing::warn!(mail = id, kind, attempts, reason, retry_s, "a mail was not taken");
                self.mark(AGAIN, &[&id, &attempt, &pause.as_secs_f64(), &detail]).await;
            }
            Err(error) => {
                const DEAD: &str = "\
update basalt.mail_outbox
set state = 'dead', finished_at = now(), last_error = $3
where id = $1 and attempts = $2 and state = 'queued'";
                let SendError { reason, detail, .. } = error;
                metrics::counter!("basalt_mail_failed_total", "kind" => kind.clone()).increment(1);
                metrics::counter!("basalt_mail_dead_total", "kind" => kind.clone()).increment(1);
                tracing::warn!(
                    mail = id,
                    kind,
                    attempts,
                    reason,
                    "a mail was given up; it is kept in basalt.mail_outbox"
                );
                self.mark(DEAD, &[&id, &attempt, &detail]).await;
            }
        }
    }

    /// Writes what became of an attempt. Tried several times: a mark that is lost has the mail sent again.
    async fn mark(&self, statement: &str, params: &[&(dyn ToSql + Sync)]) {
        const TRIES: u32 = 6;
        let mut pause = Duration::from_millis(100);
        for tried in 1..=TRIES {
            let deadline = Instant::now() + STATEMENT_LIMIT;
            let marked = crate::outbox::in_transaction(&self.pool, deadline, async |tx| {
                tx.execute(statement, params).await
            })
            .await;
            match marked {
                Ok(_rows) => return,
                Err(error) if tried == TRIES => {
                    tracing::warn!(%error, "what became of a mail could not be written; it will be tried again");
                }
                Err(_not_yet) => {
                    sleep(pause).await;
                    pause *= 3;
                }
            }
        }
    }

    async fn clean(&self) -> Result<(), SessionError> {
        self.outbox.clean(&self.pool, self.limits.retention).await
    }
}

/// Returns when mail may have come in.
async fn wait_for_mail(events: &mut Receiver<Event>) {
    loop {
        match events.recv().await {
            Ok(Event::Notify { channel, .. }) if channel != CHANNEL => {}
            Ok(Event::Notify { .. } | Event::Reconnected) | Err(RecvError::Lagged(_)) => return,
            // Nobody listens any more; the worker's own clock remains.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn read(row: &Row) -> Option<Claimed> {
    Some(Claimed {
        id: row.try_get("id").ok()?,
        attempt: row.try_get("attempts").ok()?,
        kind: row.try_get("kind").ok()?,
        to: row.try_get("recipient").ok()?,
        created_at: row.try_get("created_at").ok()?,
        sealed: row.try_get("sealed").ok()?,
    })
}

/// Doubles from `first` to an hour; between half of it and all of it, so that mails that failed together do not come
/// back together.
fn pause_after(attempts: u32, first: Duration) -> Duration {
    let factor = 2_u32.saturating_pow(attempts.saturating_sub(1));
    let [jitter] = random::bytes::<1>();
    first.saturating_mul(factor).min(LONGEST_PAUSE).mul_f64(0.5 + f64::from(jitter) / 510.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_with_jitter_up_to_an_hour() {
        let first = Duration::from_secs(10);
        for (attempts, longest) in [(1, 10), (2, 20), (5, 160), (12, 3600), (40, 3600)] {
            let pause = pause_after(attempts, first);
            let longest = Duration::from_secs(longest);
            assert!(pause <= longest && pause >= longest / 2, "{attempts}: {pause:?}");
        }
    }
}
