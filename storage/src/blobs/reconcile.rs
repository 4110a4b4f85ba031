//! Compares blobs with rows: `basalt storage check` and `gc`. Works on one of 256 folders at a time to limit
//! memory. Blobs are listed before rows are read, so that everything written meanwhile has a row or an
//! intent.

use std::collections::HashMap;
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::garbage;
use super::sweeper::{SweepError, Swept, sweep};
use super::{BlobId, BlobStore};

const STATEMENT_LIMIT: Duration = Duration::from_secs(120);

/// A row whose blob is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Description of the row: `object bucket/key`.
    pub holder: String,
    /// Blob named by the row; another text or `None` if the row was created elsewhere.
    pub version: Option<String>,
}

/// A blob no row refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Name of the blob.
    pub blob: BlobId,
    /// Size in bytes.
    pub size: u64,
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of blobs that rows refer to.
    pub blobs: u64,
    /// Total size of these blobs.
    pub bytes: u64,
    /// Rows without a blob.
    pub missing: Vec<Missing>,
    /// Blobs without a row that exceed the requested age.
    pub orphans: Vec<Orphan>,
}

/// Result of a clean-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Abandoned intents and partial blobs.
    pub swept: Swept,
    /// Number of deleted blobs.
    pub blobs: u64,
}

/// Compares all blobs with all rows.
#[derive(Clone)]
pub struct Reconciler {
    pool: ServicePool,
    store: BlobStore,
    clock: Clock,
}

impl Reconciler {
    /// `pool` must act as the owner of schema `storage`.
    #[must_use]
    pub const fn new(pool: ServicePool, store: BlobStore, clock: Clock) -> Self {
        Self { pool, store, clock }
    }

    /// Finds rows without blobs, and blobs without rows that are older than `age`. Read-only.
    ///
    /// # Errors
    /// The database or the store failed.
    pub async fn check(&self, age: Duration) -> Result<Findings, SweepError> {
        const FOREIGN: &str = "\
select holder, version from storage.blob_references where version is null or storage.blob_of(version) is null
order by holder";
        let mut findings = Findings::default();
        for first in u8::MIN..=u8::MAX {
            self.check_folder(first, age, &mut findings).await?;
        }
        for row in self.query(FOREIGN, &[]).await? {
            findings.missing.push(Missing { holder: text(&row, 0)?, version: optional_text(&row, 1)? });
        }
        Ok(findings)
    }

    async fn check_folder(
        &self,
        first: u8,
        age: Duration,
        findings: &mut Findings,
    ) -> Result<(), SweepError> {
        let since = self.since(age);
        let listed = self.store.list(first).await?;
        let mut holders = self.holders(first).await?;
        for blob in listed {
            if holders.remove(&blob.blob).is_some() {
                findings.blobs += 1;
                findings.bytes += blob.size;
            } else if blob.modified_at <= since && !self.is_expected(blob.blob).await? {
                findings.orphans.push(Orphan { blob: blob.blob, size: blob.size });
            }
        }
        let mut missing: Vec<(BlobId, String)> = holders.into_iter().collect();
        missing.sort_unstable();
        for (blob, holder) in missing {
            // Check again: the blob may have been written since the listing, or the row deleted.
            if garbage::is_in_use(&self.pool, blob).await? && !self.store.exists(blob).await? {
                findings.missing.push(Missing { holder, version: Some(blob.to_string()) });
            }
        }
        Ok(())
    }

    /// Deletes what no row refers to and is older than `age`: blobs, queued garbage whether due or not, and
    /// remains of failed uploads. An upload in progress for longer than `age` fails if its server has not
    /// sent a heartbeat within that time.
    ///
    /// # Errors
    /// The database or the store failed; deletions are not undone.
    pub async fn collect(&self, age: Duration) -> Result<Collected, SweepError> {
        const GARBAGE: &str = "\
select blob::text from storage.blob_garbage
where created_at <= now() - make_interval(secs => $1) order by blob limit 1000";
        const FORGET: &str = "delete from storage.blob_garbage where blob = $1";
        let swept = sweep(&self.pool, &self.store, &self.clock, age).await?;
        let mut collected = Collected { swept, ..Collected::default() };
        loop {
            let rows = self.query(GARBAGE, &[&age.as_secs_f64()]).await?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let Some(blob) = BlobId::parse(&text(&row, 0)?) else { continue };
                if !garbage::is_in_use(&self.pool, blob).await? {
                    self.store.discard(blob).await?;
                    collected.blobs += 1;
                }
                let _rows = self.query(FORGET, &[&blob.uuid()]).await?;
            }
        }
        for first in u8::MIN..=u8::MAX {
            let mut findings = Findings::default();
            self.check_folder(first, age, &mut findings).await?;
            for orphan in findings.orphans {
                self.store.delete(orphan.blob).await?;
                collected.blobs += 1;
            }
        }
        Ok(collected)
    }

    /// Whether a row, a running upload or the garbage queue refers to the blob.
    async fn is_expected(&self, blob: BlobId) -> Result<bool, SessionError> {
        const IS_GARBAGE: &str = "select from storage.blob_garbage where blob = $1";
        Ok(garbage::is_in_use(&self.pool, blob).await?
            || !self.query(IS_GARBAGE, &[&blob.uuid()]).await?.is_empty())
    }

    /// Rows that refer to blobs whose names start with these two digits.
    async fn holders(&self, first: u8) -> Result<HashMap<BlobId, String>, SessionError> {
        const HOLDERS: &str = "\
select version, holder from storage.blob_references where version ~>=~ $1 and version ~<~ $2";
        // The range of names with these digits followed by another hex digit: `g` sorts after `f`.
        let (from, to) = (format!("{first:02x}"), format!("{first:02x}g"));
        let mut holders = HashMap::new();
        for row in self.query(HOLDERS, &[&from, &to]).await? {
            if let Some(blob) = BlobId::parse(&text(&row, 0)?) {
                let _same = holders.insert(blob, text(&row, 1)?);
            }
        }
        Ok(holders)
    }

    fn since(&self, age: Duration) -> Timestamp {
        let since = SignedDuration::try_from(age).ok().and_then(|age| self.clock.now().checked_sub(age).ok());
        since.unwrap_or(Timestamp::MIN)
    }

    async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, SessionError> {
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let rows = tx.query(sql, params).await;
        tx.finish(rows).await
    }
}

fn text(row: &Row, column: usize) -> Result<String, SessionError> {
    Ok(optional_text(row, column)?.unwrap_or_default())
}

fn optional_text(row: &Row, column: usize) -> Result<Option<String>, SessionError> {
    row.try_get(column).map_err(|error| SessionError::Unavailable(error.to_string()))
}
