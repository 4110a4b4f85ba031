//! Makes a backup: database, stored objects, secrets and project files as one set.
//!
//! Order makes the set consistent without stopping anything. Objects are copied before the database, so that most are there, and again
//! after it; every object that a row refers to at that time must then be in the target. The server keeps deleted objects for five
//! minutes, and copies them before it deletes them. The manifest is written last.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_core::clock::Clock;
use basalt_pg::database::Database;
use basalt_storage::blobs::BlobId;
use bytes::Bytes;
use jiff::Timestamp;
use tokio_postgres::Client;

use crate::base;
use crate::blobs::BlobArchive;
use crate::error::BackupError;
use crate::manifest::{DatabasePart, MANIFEST, Manifest, Rows, Sha256, StoredFile, new_set};
use crate::seal::{self, SealKey};
use crate::target::{FORMAT, Target};
use crate::wal::SLOT_PREFIX;

/// Tables with more rows than this are not counted.
const MAX_COUNTED: f32 = 2_000_000.0;

/// What a backup is made of.
#[derive(Debug)]
pub struct Source {
    /// The system's login.
    pub admin: Database,
    /// Where the backup goes.
    pub target: Target,
    /// The stored objects; `None` leaves them out.
    pub blobs: Option<Arc<BlobArchive>>,
    /// Encrypts secrets and project.
    pub key: SealKey,
    /// The project's name, which the target must belong to.
    pub project_name: String,
    /// The content of `secrets.json`.
    pub secrets: Option<Vec<u8>>,
    /// The packed project.
    pub project: Option<Vec<u8>>,
    /// The release.
    pub release: &'static str,
    /// `Some` dumps the database with this program instead of copying its files.
    pub dump: Option<crate::dump::Dump>,
}

/// Makes a backup. The caller holds the lock of backups ([`crate::runs::lock`]). Calls `progress` before each long step.
///
/// # Errors
/// A part failed; the set then has no manifest and does not count as a backup.
pub async fn run(source: &Source, progress: &(dyn Fn(&str) + Send + Sync)) -> Result<Manifest, BackupError> {
    let Source { admin, target, blobs, .. } = source;
    target.claim(&source.project_name).await?;
    let client = admin.connect().await?;
    let set = new_set(&Clock::system());
    let started_at = now(&client).await?;
    // A log cannot be replayed after a dump.
    let chain = if source.dump.is_none() { current_chain(&client).await? } else { None };
    let before = counts(&client).await?;
    if let Some(blobs) = blobs {
        progress("copying objects");
        blobs.copy_all().await?;
    }
    progress("copying the database");
    let mut database = copy_database(source, &set, &client).await?;
    database.chain = chain;
    let database_at = now(&client).await?;
    let needed = match blobs {
        Some(blobs) => {
            let needed = references(&client).await?;
            progress("copying objects written meanwhile");
            check_objects(blobs, &needed).await?;
            Some(needed.len() as u64)
        }
        None => None,
    };
    let rows = compare(&before, &counts(&client).await?);
    progress("copying secrets and project files");
    let key = source.key.clone();
    let (sealer, note) = tokio::task::spawn_blocking(move || seal::sealer(&key)).await??;
    let sealed = |name: &str, content: &Option<Vec<u8>>| {
        content
            .as_ref()
            .map(|content| (name.to_owned(), Bytes::from(sealer.seal(&format!("{set} {name}"), content))))
    };
    let secrets = store(target, &set, sealed("secrets.sealed", &source.secrets)).await?;
    let project = store(target, &set, sealed("project.sealed", &source.project)).await?;
    let postgres: String = client.query_one("show server_version", &[]).await?.try_get(0)?;
    let postgres = postgres.split(' ').next().unwrap_or_default().to_owned();
    let manifest = Manifest {
        format: FORMAT,
        id: set.clone(),
        started_at,
        database_at,
        basalt: source.release.to_owned(),
        postgres,
        database,
        seal: note,
        secrets,
        project,
        blobs: needed,
        rows,
    };
    target.put_json(&format!("sets/{set}/{MANIFEST}"), &manifest).await?;
    Ok(manifest)
}

/// Copies what is new, and checks that the target has every needed blob.
async fn check_objects(blobs: &BlobArchive, needed: &[BlobId]) -> Result<(), BackupError> {
    blobs.copy_all().await?;
    blobs.list().await?;
    match blobs.missing(needed).await?.first() {
        None => Ok(()),
        Some(blob) => Err(BackupError::Failed(format!(
            "the object {blob} has a row but no content in the store: run `basalt storage check`, then repeat the backup"
        ))),
    }
}

async fn copy_database(source: &Source, set: &str, client: &Client) -> Result<DatabasePart, BackupError> {
    match &source.dump {
        Some(dump) => dump.copy(&source.target, set, client).await,
        None => base::copy(&source.admin, &source.target, set).await,
    }
}

async fn store(
    target: &Target,
    set: &str,
    file: Option<(String, Bytes)>,
) -> Result<Option<StoredFile>, BackupError> {
    let Some((name, content)) = file else { return Ok(None) };
    let stored = StoredFile { size: content.len() as u64, sha256: Sha256::hex(&content), name };
    target.put(&format!("sets/{set}/{}", stored.name), content).await?;
    Ok(Some(stored))
}

/// PostgreSQL's time.
pub(crate) async fn now(client: &Client) -> Result<Timestamp, BackupError> {
    Ok(client.query_one("select pg_catalog.clock_timestamp()", &[]).await?.try_get(0)?)
}

/// The chain that archives the log of this cluster, unless it is broken.
pub(crate) async fn current_chain(client: &Client) -> Result<Option<String>, BackupError> {
    const SLOT: &str = "
        select slot_name::text from pg_catalog.pg_replication_slots
        where slot_type = 'physical' and starts_with(slot_name::text, $1) and wal_status is distinct from 'lost'
        order by slot_name limit 1";
    let slot = client.query_opt(SLOT, &[&SLOT_PREFIX]).await?;
    let name: Option<String> = slot.map(|row| row.try_get(0)).transpose()?;
    Ok(name.and_then(|name| name.strip_prefix(SLOT_PREFIX).map(str::to_owned)))
}

/// The blobs that rows refer to.
///
/// # Errors
/// The database failed.
pub async fn references(client: &Client) -> Result<Vec<BlobId>, BackupError> {
    const HAS_STORAGE: &str = "select pg_catalog.to_regclass('storage.blob_references') is not null";
    const REFERENCES: &str = "
        select distinct storage.blob_of(version)::text from storage.blob_references where storage.blob_of(version) is not null";
    if !client.query_one(HAS_STORAGE, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(Vec::new());
    }
    let rows = client.query(REFERENCES, &[]).await?;
    let blob =
        |row: &tokio_postgres::Row| row.try_get::<_, String>(0).ok().and_then(|text| BlobId::parse(&text));
    Ok(rows.iter().filter_map(blob).collect())
}

/// Number of rows, and of writes since the statistics began.
pub(crate) type Counts = BTreeMap<String, (u64, i64)>;

/// Counts the rows of all tables, in one snapshot.
pub(crate) async fn counts(client: &Client) -> Result<Counts, BackupError> {
    const TABLES: &str = "
        select pg_catalog.format('%I.%I', n.nspname, c.relname),
          coalesce(s.n_tup_ins + s.n_tup_upd + s.n_tup_del, 0)::bigint
        from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
          left join pg_catalog.pg_stat_all_tables s on s.relid = c.oid
        where c.relkind = 'r' and c.relpersistence = 'p' and c.reltuples <= $1
          and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_%'
        order by 1";
    client
        .batch_execute("begin isolation level repeatable read read only; set local statement_timeout = 0; set local row_security = off")
        .await?;
    let mut counts = Counts::new();
    for row in client.query(TABLES, &[&MAX_COUNTED]).await? {
        let (table, writes): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        // Quoted by PostgreSQL's `format`.
        let counted = client.query_one(&format!("select count(*) from {table}"), &[]).await?;
        let rows: i64 = counted.try_get(0)?;
        let _before = counts.insert(table, (rows.unsigned_abs(), writes));
    }
    client.batch_execute("commit").await?;
    Ok(counts)
}

fn compare(before: &Counts, after: &Counts) -> BTreeMap<String, Rows> {
    let rows = before.iter().filter_map(|(table, counted)| {
        let later = after.get(table)?;
        Some((table.clone(), Rows { count: later.0, is_exact: counted == later }))
    });
    rows.collect()
}
