//! The record of runs, and when the next one is due.

use std::str::FromStr;

use basalt_core::random;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio_postgres::Client;

use crate::error::BackupError;

/// "backup" in ASCII, for `pg_advisory_lock`: one backup or verification of a database at a time.
const LOCK_KEY: i64 = 0x6261_636b_7570;

/// Takes the lock of backups, which the connection holds until it closes.
///
/// # Errors
/// [`BackupError::Busy`], or the database failed.
pub async fn lock(client: &Client) -> Result<(), BackupError> {
    let taken = client.query_one("select pg_catalog.pg_try_advisory_lock($1)", &[&LOCK_KEY]).await?;
    if taken.try_get(0)? { Ok(()) } else { Err(BackupError::Busy) }
}

/// Releases the lock of backups.
///
/// # Errors
/// The database failed.
pub async fn unlock(client: &Client) -> Result<(), BackupError> {
    let _row = client.query_one("select pg_catalog.pg_advisory_unlock($1)", &[&LOCK_KEY]).await?;
    Ok(())
}

/// What ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A backup.
    Backup,
    /// A verification of one.
    Verify,
}

impl Kind {
    /// Its name in the database and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Verify => "verify",
        }
    }
}

/// Five cron fields, in UTC.
#[derive(Debug)]
pub struct Schedule(Box<Cron>);

/// The text is not a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not five cron fields")]
pub struct InvalidSchedule;

impl FromStr for Schedule {
    type Err = InvalidSchedule;

    fn from_str(text: &str) -> Result<Self, InvalidSchedule> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        parser.parse(text.trim()).map(|cron| Self(Box::new(cron))).map_err(|_| InvalidSchedule)
    }
}

impl Schedule {
    /// The first time after `now`; `None` for a date that does not exist.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(TimeZone::UTC).datetime();
        let next = self.0.find_next_occurrence(&now, false).ok()?;
        Some(next.to_zoned(TimeZone::UTC).ok()?.timestamp())
    }
}

/// The latest run of a kind, and the latest that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastRuns {
    /// When the latest run ended.
    pub finished_at: Timestamp,
    /// Its error.
    pub error: Option<String>,
    /// When the latest successful run ended.
    pub succeeded_at: Option<Timestamp>,
}

/// Takes the lock of backups, which `client` then holds, and records a run from its start to its end.
///
/// # Errors
/// The run's own error, or the database failed.
pub async fn record<T>(
    client: &Client,
    kind: Kind,
    run: impl Future<Output = Result<T, BackupError>>,
    describe: impl FnOnce(&T) -> (String, u64),
) -> Result<T, BackupError> {
    const START: &str = "insert into basalt.backup_runs (id, kind) values ($1::text::uuid, $2)";
    const END: &str = "
        update basalt.backup_runs set finished_at = now(), set_id = $2, bytes = $3, error = $4 where id = $1::text::uuid";
    const CLEAN: &str = "delete from basalt.backup_runs where started_at < now() - interval '400 days'";
    lock(client).await?;
    let id = random::uuid().to_string();
    let _rows = client.execute(START, &[&id, &kind.as_str()]).await?;
    let done = run.await;
    let (set, bytes, error) = match &done {
        Ok(value) => {
            let (set, bytes) = describe(value);
            (Some(set), Some(i64::try_from(bytes).unwrap_or(i64::MAX)), None)
        }
        Err(error) => (None, None, Some(error.to_string())),
    };
    let recorded = async {
        let _rows = client.execute(END, &[&id, &set, &bytes, &error]).await?;
        let _rows = client.execute(CLEAN, &[]).await?;
        Ok::<_, BackupError>(())
    };
    if let Err(error) = recorded.await {
        tracing::warn!(%error, "cannot record the end of a {}", kind.as_str());
    }
    done
}

/// The last runs of a kind; `None` if there was none, or the database has no record of runs.
///
/// # Errors
/// The database failed.
pub async fn last(client: &Client, kind: Kind) -> Result<Option<LastRuns>, BackupError> {
    const EXISTS: &str = "select pg_catalog.to_regclass('basalt.backup_runs') is not null";
    const LAST: &str = "
        select finished_at, error,
          (select max(finished_at) from basalt.backup_runs where kind = $1 and finished_at is not null and error is null)
        from basalt.backup_runs where kind = $1 and finished_at is not null order by finished_at desc limit 1";
    if !client.query_one(EXISTS, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let Some(row) = client.query_opt(LAST, &[&kind.as_str()]).await? else { return Ok(None) };
    Ok(Some(LastRuns { finished_at: row.try_get(0)?, error: row.try_get(1)?, succeeded_at: row.try_get(2)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_is_five_fields_in_utc() {
        let schedule: Schedule = "30 3 * * 1".parse().unwrap();
        let next = schedule.next("2026-11-25T04:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(next.to_string(), "2026-11-30T03:30:00Z");
        for wrong in ["", "daily", "* * * *", "0 0 3 * * *"] {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong}");
        }
    }
}
