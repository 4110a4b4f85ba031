//! Compares blobs and rows: `basalt storage check` and `gc`. One of 256 folders at a time, so that memory stays small; blobs are
//! listed before rows are read, so that whatever is written meanwhile has its row or its intent.

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

/// A row whose bytes are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What the row is: `object bucket/key`.
    pub holder: String,
    /// The blob that it names; something else, or nothing, where it was made elsewhere.
    pub version: Option<String>,
}

/// A blob that no row refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Its name.
    pub blob: BlobId,
    /// Its bytes.
    pub size: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Blobs that rows refer to.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rows without a blob.
    pub missing: Vec<Missing>,
    /// Blobs without a row that are older than was asked for.
    pub orphans: Vec<Orphan>,
}

/// What a clean-up did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Intents of dead writers, and what they had begun.
    pub swept: Swept,
    /// Deleted blobs.
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
    /// `pool` acts as the owner of schema `storage`.
    #[must_use]
    pub const fn new(pool: ServicePool, store: BlobStore, clock: Clock) -> Self {
        Self { pool, store, clock }
    }

    /// Finds rows without blobs, and blobs without rows that are older than `age`. Changes nothing.
    ///
    /// # Errors
    /// The database or the store fails.
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
            // Written since the list was made, or gone with its row.
            if garbage::is_in_use(&self.pool, blob).await? && !self.store.exists(blob).await? {
                findings.missing.push(Missing { holder, version: Some(blob.to_string()) });
            }
        }
        Ok(())
    }

    /// Deletes what no row refers to and is older than `age`: blobs, garbage whose time has come or not, and what dead writers
    /// left. An upload that has been under way for longer than `age`, with a server that has not touched its intent in that
    /// time, fails.
    ///
    /// # Errors
    /// The database or the store fails; what was deleted stays deleted.
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

    /// Whether a row, a writer or the garbage knows the blob.
    async fn is_expected(&self, blob: BlobId) -> Result<bool, SessionError> {
        const IS_GARBAGE: &str = "select from storage.blob_garbage where blob = $1";
        Ok(garbage::is_in_use(&self.pool, blob).await?
            || !self.query(IS_GARBAGE, &[&blob.uuid()]).await?.is_empty())
    }

    /// What rows say of the blobs whose names begin with these two digits.
    async fn holders(&self, first: u8) -> Result<HashMap<BlobId, String>, SessionError> {
        const HOLDERS: &str = "\
select version, holder from storage.blob_references where version ~>=~ $1 and version ~<~ $2";
        // Between them lies what begins with the digits and goes on with one: `g` comes after `f`.
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
