//! Adds the mails that are due, and deletes what has been in a bin or the activity list for long enough.

use std::sync::Arc;
use std::time::Duration;

use basalt_pg::session::SessionError;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::STATEMENT_LIMIT;
use crate::mailer::{MailError, Mailer};

const MINUTE: Duration = Duration::from_secs(60);
/// Scheduling reads every membership.
const SCHEDULE_LIMIT: Duration = Duration::from_secs(60);
/// Parts that one run purges at most; the next run continues.
const MAX_PARTS: usize = 50;

/// Schedules and purges once a minute, forever. Several servers may do so at once: a mail's key is unique.
#[expect(clippy::infinite_loop, reason = "the shutdown token cancels the task")]
pub(super) async fn every_minute(mailer: Arc<Mailer>) {
    let mut minutes = interval(MINUTE);
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        minutes.tick().await;
        if let Err(error) = run(&mailer).await {
            tracing::warn!(%error, "cannot schedule the mails about plans; retrying in a minute");
        }
    }
}

async fn run(mailer: &Mailer) -> Result<(), SessionError> {
    const SCHEDULE: &str = "select app_private.schedule_plan_mails()";
    const PURGES: [&str; 3] = [
        "select app_private.purge_deleted_plans()",
        "select app_private.purge_activity()",
        "select app_private.purge_deleted_items()",
    ];
    // A project without the app's tables has nothing to schedule.
    const IS_APP: &str =
        "select (to_regprocedure('app_private.schedule_plan_mails(timestamptz)') is not null)::int::bigint";
    if number(mailer, IS_APP, STATEMENT_LIMIT).await? == 0 {
        return Ok(());
    }
    match mailer.outbox_for_now().await {
        Ok(_) => {
            let added = number(mailer, SCHEDULE, SCHEDULE_LIMIT).await?;
            if added > 0 {
                tracing::info!(added, "scheduled mails about plans");
            }
        }
        // Mails of today are not sent when a mail server is configured next month.
        Err(MailError::NotConfigured) => {}
        Err(error) => tracing::debug!(?error, "cannot read where mail goes"),
    }
    for purge in PURGES {
        for _ in 0..MAX_PARTS {
            if number(mailer, purge, STATEMENT_LIMIT).await? == 0 {
                break;
            }
        }
    }
    Ok(())
}

async fn number(mailer: &Mailer, sql: &str, limit: Duration) -> Result<i64, SessionError> {
    let tx = mailer.system.autocommit(Instant::now() + limit).await?;
    let row = tx.query_one(sql, &[]).await;
    Ok(tx.finish(row).await?.try_get(0).unwrap_or(0))
}
