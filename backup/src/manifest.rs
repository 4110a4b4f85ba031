//! The manifest of a backup: what the set consists of, with sizes and hashes. It is written last, so that a set is complete if and only
//! if it has one.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::digest;
use basalt_core::clock::Clock;
use basalt_core::random;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::BackupError;
use crate::seal::SealNote;
use crate::target::{FORMAT, Target};

/// The manifest's name in its set.
pub(crate) const MANIFEST: &str = "manifest.json";

/// A backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub format: u32,
    /// Name of the set, which starts with its time.
    pub id: String,
    /// When the backup started, by PostgreSQL's clock.
    pub started_at: Timestamp,
    /// When the database part was complete: the state that the backup contains.
    pub database_at: Timestamp,
    /// The release that made it.
    pub basalt: String,
    /// The version of PostgreSQL.
    pub postgres: String,
    /// The database.
    pub database: DatabasePart,
    /// How `secrets` and `project` are encrypted.
    pub seal: SealNote,
    /// `secrets.json`; `None` if all secrets are configured elsewhere.
    pub secrets: Option<StoredFile>,
    /// The project's files.
    pub project: Option<StoredFile>,
    /// Number of stored objects that rows refer to; `None` if the backup does not include objects.
    pub blobs: Option<u64>,
    /// Rows of each table.
    pub rows: BTreeMap<String, Rows>,
}

/// The database of a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DatabasePart {
    /// How it was copied.
    pub kind: DatabaseKind,
    /// The file with its content.
    pub file: StoredFile,
    /// The roles, which a dump of one database does not contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<StoredFile>,
    /// The cluster.
    pub system_identifier: String,
    /// Where replay starts.
    pub start_lsn: String,
    /// Where the copy is consistent.
    pub end_lsn: String,
    /// The timeline of both.
    pub timeline: u32,
    /// The archived chain of the log that continues this backup, if there is one.
    pub chain: Option<String>,
}

/// How a database was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabaseKind {
    /// As files, over the replication protocol.
    Base,
    /// As SQL objects, by `pg_dump`.
    Dump,
}

/// A file of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Name in the set.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// Rows of a table, counted before and after the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// The number of rows.
    pub count: u64,
    /// Whether nothing wrote to the table during the backup; otherwise the restored number may differ.
    pub is_exact: bool,
}

impl Manifest {
    /// The bytes of the set's own files; stored objects are shared.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let files = self.secrets.iter().chain(&self.project).chain(&self.database.roles);
        files.map(|file| file.size).sum::<u64>() + self.database.file.size
    }
}

/// A set in the target.
#[derive(Clone, Debug)]
pub struct SetEntry {
    /// Its name.
    pub id: String,
    /// Its manifest; `None` if the backup was interrupted or is still running; an error if it is damaged.
    pub manifest: Option<Result<Manifest, String>>,
    /// When its newest file was written.
    pub modified_at: Timestamp,
}

/// A name for a new set.
pub(crate) fn new_set(clock: &Clock) -> String {
    let now = clock.now().strftime("%Y%m%dT%H%M%SZ").to_string();
    format!("{now}-{}", hex::encode(random::bytes::<4>()))
}

/// All sets, oldest first.
///
/// # Errors
/// The target does not respond.
pub async fn list_sets(target: &Target) -> Result<Vec<SetEntry>, BackupError> {
    let mut newest: BTreeMap<String, (Timestamp, bool)> = BTreeMap::new();
    for object in target.list("sets").await? {
        let mut parts = object.location.as_ref().split('/').skip(1);
        let (Some(id), Some(file)) = (parts.next(), parts.next()) else { continue };
        let modified_at = Timestamp::from_second(object.last_modified.timestamp()).unwrap_or(Timestamp::MAX);
        let entry = newest.entry(id.to_owned()).or_insert((Timestamp::MIN, false));
        entry.0 = entry.0.max(modified_at);
        entry.1 |= file == MANIFEST;
    }
    let mut sets = Vec::new();
    for (id, (modified_at, has_manifest)) in newest {
        let manifest = if has_manifest { Some(read(target, &id).await) } else { None };
        let manifest = match manifest {
            Some(Err(BackupError::Damaged { problem, .. })) => Some(Err(problem)),
            Some(Err(error)) => return Err(error),
            Some(Ok(manifest)) => Some(Ok(manifest)),
            None => None,
        };
        sets.push(SetEntry { id, manifest, modified_at });
    }
    Ok(sets)
}

/// Reads and checks the manifest of a set.
pub(crate) async fn read(target: &Target, id: &str) -> Result<Manifest, BackupError> {
    let name = format!("sets/{id}/{MANIFEST}");
    let manifest: Manifest = target.get_json(&name).await?;
    if manifest.format > FORMAT {
        return Err(target.damaged(&name, "it was written by a newer release of Basalt"));
    }
    let files = manifest.secrets.iter().chain(&manifest.project).chain(&manifest.database.roles);
    let files = files.chain([&manifest.database.file]);
    if manifest.id != id || files.into_iter().any(|file| file.name.contains('/') || file.name.is_empty()) {
        return Err(target.damaged(&name, "it belongs to another set"));
    }
    Ok(manifest)
}

/// A running SHA-256.
pub(crate) struct Sha256(digest::Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sha256")
    }
}

impl Sha256 {
    pub(crate) fn hex(bytes: &[u8]) -> String {
        hex::encode(digest::digest(&digest::SHA256, bytes))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> String {
        hex::encode(self.0.finish())
    }
}
