//! Unpacks a backup. The caller provides empty folders, and starts PostgreSQL on the result.

use std::io::{self, Read};
use std::path::Path;

use basalt_pg::replication::Lsn;
use basalt_storage::blobs::{BlobId, BlobStore};
use bytes::{Buf as _, Bytes};
use flate2::read::GzDecoder;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::blobs::StoredBlobs;
use crate::error::BackupError;
use crate::files;
use crate::manifest::{DatabaseKind, Manifest, Sha256, list_sets};
use crate::seal::{self, SealKey};
use crate::target::Target;
use crate::wal::{self, Reach};

/// The state to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A set as it is: the newest complete one, or the named one.
    Backup(Option<String>),
    /// The last commit at or before this time.
    At(Timestamp),
    /// Everything in the archive.
    Latest,
}

/// What to restore: a backup, and how far to replay the log after it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The backup.
    pub manifest: Manifest,
    /// Replay of the archived log, if any.
    pub replay: Option<Replay>,
}

/// Replay of the archived log.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Where to stop; `None` for its end.
    pub until: Option<Timestamp>,
    /// Up to when the archive is complete.
    pub reach: Reach,
}

/// Chooses the backup for a moment.
///
/// # Errors
/// No complete backup fits; the message says which do.
pub async fn plan(target: &Target, moment: &Moment) -> Result<Plan, BackupError> {
    let mut complete = Vec::new();
    for set in list_sets(target).await? {
        if let Some(Ok(manifest)) = set.manifest {
            complete.push(manifest);
        } else if matches!(moment, Moment::Backup(Some(id)) if *id == set.id) {
            let problem = set.manifest.and_then(Result::err).unwrap_or_else(|| "it is incomplete".to_owned());
            return Err(target.damaged(&format!("sets/{}", set.id), &problem));
        }
    }
    let none = |text: String| BackupError::NoBackup(text);
    let newest = |found: Option<&Manifest>| {
        found.cloned().ok_or_else(|| none(format!("{} contains no complete backup", target.name())))
    };
    match moment {
        Moment::Backup(Some(id)) => {
            let found = complete.iter().find(|manifest| manifest.id == *id);
            let manifest =
                found.cloned().ok_or_else(|| none(format!("{} contains no backup {id}", target.name())))?;
            Ok(Plan { manifest, replay: None })
        }
        Moment::Backup(None) => Ok(Plan { manifest: newest(complete.last())?, replay: None }),
        Moment::Latest => {
            let manifest = newest(complete.iter().rfind(|manifest| manifest.database.chain.is_some()))?;
            let reach = reach_of(target, &manifest).await?;
            Ok(Plan { manifest, replay: Some(Replay { until: None, reach }) })
        }
        Moment::At(at) => {
            let fits = |manifest: &&Manifest| manifest.database.chain.is_some() && manifest.database_at < *at;
            let Some(manifest) = complete.iter().rfind(fits) else {
                let first = complete.iter().find(|manifest| manifest.database.chain.is_some());
                let hint = first.map_or_else(
                    || "no backup has an archived log (backup.point_in_time)".to_owned(),
                    |first| format!("the earliest restorable moment is {}", first.database_at),
                );
                return Err(none(format!("no backup was complete at {at}: {hint}")));
            };
            let reach = reach_of(target, manifest).await?;
            if reach.at < *at {
                return Err(none(format!(
                    "the archived log reaches until {} only; `--at latest` restores everything in it",
                    reach.at
                )));
            }
            Ok(Plan { manifest: manifest.clone(), replay: Some(Replay { until: Some(*at), reach }) })
        }
    }
}

async fn reach_of(target: &Target, manifest: &Manifest) -> Result<Reach, BackupError> {
    let chain = manifest.database.chain.as_deref().unwrap_or_default();
    let reach = wal::reach(target, chain).await?;
    reach.ok_or_else(|| {
        BackupError::NoBackup(format!(
            "the log after backup {} was not archived; restore the backup itself",
            manifest.id
        ))
    })
}

/// Decrypts the secrets and the project files of a backup: `secrets.json`, and what [`unpack_project`] unpacks.
///
/// # Errors
/// No key fits, or a file is damaged.
pub async fn open_sealed(
    target: &Target,
    manifest: &Manifest,
    keys: Vec<SealKey>,
) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>), BackupError> {
    let note = manifest.seal.clone();
    let sealer = tokio::task::spawn_blocking(move || seal::opener(&note, &keys)).await??;
    let mut opened = [None, None];
    for (slot, file) in opened.iter_mut().zip([&manifest.secrets, &manifest.project]) {
        let Some(file) = file else { continue };
        let sealed = target.get_file(&manifest.id, file).await?;
        let text = sealer.open(&format!("{} {}", manifest.id, file.name), &sealed);
        *slot = Some(text.map_err(|_cannot| target.damaged(&file.name, "it cannot be decrypted"))?);
    }
    let [secrets, project] = opened;
    Ok((secrets, project))
}

/// Unpacks the project's files into a folder.
///
/// # Errors
/// The archive is damaged, or the folder cannot be written.
pub async fn unpack_project(packed: Vec<u8>, into: &Path) -> Result<(), BackupError> {
    let into = into.to_path_buf();
    tokio::task::spawn_blocking(move || files::unpack_project(&packed, &into)).await?
}

/// Unpacks the cluster of a base backup into an empty folder, with the archived log to replay. Returns the settings with which PostgreSQL
/// must be started once, and why the log ends early, if it does.
///
/// # Errors
/// The backup is damaged or of another kind, or the folder cannot be written.
pub async fn unpack_cluster(
    target: &Target,
    plan: &Plan,
    into: &Path,
) -> Result<(Vec<(String, String)>, Option<String>), BackupError> {
    let Manifest { id, database, .. } = &plan.manifest;
    if database.kind != DatabaseKind::Base {
        return Err(BackupError::Failed(format!(
            "backup {id} is a dump, which --without-secrets cannot restore: load its roles.sql with psql and its database.dump with pg_restore"
        )));
    }
    unpack_base(target, &plan.manifest, into).await?;
    let (Some(replay), Some(chain)) = (&plan.replay, &database.chain) else { return Ok((Vec::new(), None)) };
    let start: Lsn = database
        .start_lsn
        .parse()
        .map_err(|()| target.damaged(id, "its start is not a position in the log"))?;
    let unpacked = wal::unpack(target, chain, database.timeline, start, &into.join("pg_wal")).await?;
    tracing::debug!(segments = unpacked.segments, "log unpacked");
    std::fs::write(into.join("recovery.signal"), "")
        .map_err(|source| BackupError::file("write", &into.join("recovery.signal"), source))?;
    let mut settings = vec![
        // The log is in pg_wal already; PostgreSQL looks there when this fails.
        ("restore_command".to_owned(), "false".to_owned()),
        ("recovery_target_action".to_owned(), "promote".to_owned()),
        ("recovery_target_timeline".to_owned(), "current".to_owned()),
        ("hot_standby".to_owned(), "off".to_owned()),
    ];
    if let Some(until) = replay.until {
        // PostgreSQL does not know `Z` while it reads its command line.
        let until = until.strftime("%Y-%m-%d %H:%M:%S%.6f+00").to_string();
        settings.push(("recovery_target_time".to_owned(), until));
    }
    Ok((settings, unpacked.gap))
}

async fn unpack_base(target: &Target, manifest: &Manifest, into: &Path) -> Result<(), BackupError> {
    let file = &manifest.database.file;
    let name = format!("sets/{}/{}", manifest.id, file.name);
    let mut bytes = target.read(&name).await?;
    let (sender, chunks) = mpsc::channel(8);
    let into = into.to_path_buf();
    let unpacking = tokio::task::spawn_blocking(move || {
        let mut reader = HashingReader { chunks, chunk: Bytes::new(), hash: Sha256::default(), size: 0 };
        let mut archive = tar::Archive::new(GzDecoder::new(&mut reader));
        archive.set_preserve_permissions(true);
        archive.set_preserve_mtime(false);
        archive.set_overwrite(false);
        let unpacked = archive.unpack(&into);
        drop(archive);
        // The hash covers the whole file.
        let rest = io::copy(&mut reader, &mut io::sink());
        (unpacked.and(rest.map(|_| ())), reader.size, reader.hash.finish())
    });
    while let Some(chunk) = bytes.try_next().await? {
        if sender.send(chunk).await.is_err() {
            break;
        }
    }
    drop(sender);
    let (unpacked, size, sha256) = unpacking.await?;
    if size != file.size || sha256 != file.sha256 {
        return Err(target.damaged(&name, "its hash differs from the manifest's"));
    }
    unpacked.map_err(|error| BackupError::Failed(format!("cannot unpack {name}: {error}")))
}

/// Reads chunks from a channel on a blocking thread.
struct HashingReader {
    chunks: mpsc::Receiver<Bytes>,
    chunk: Bytes,
    hash: Sha256,
    size: u64,
}

impl Read for HashingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            let Some(chunk) = self.chunks.blocking_recv() else { return Ok(0) };
            self.hash.update(&chunk);
            self.size += chunk.len() as u64;
            self.chunk = chunk;
        }
        let count = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(buffer.get_mut(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Reads the copies of `blobs` (all copies in the target for `None`), checks their hashes, and writes them to `store` if there is one.
/// Returns their number and size.
///
/// # Errors
/// A copy is missing or damaged, or the store cannot be written.
pub async fn copy_blobs(
    target: &Target,
    blobs: Option<Vec<BlobId>>,
    store: Option<&BlobStore>,
    transfers: usize,
) -> Result<(u64, u64), BackupError> {
    let copies = StoredBlobs::open(target).await?;
    let blobs = blobs.unwrap_or_else(|| copies.ids());
    let copies = &copies;
    stream::iter(blobs)
        .map(|blob| async move { copies.check(blob, store).await })
        .buffer_unordered(transfers)
        .try_fold((0, 0), |(count, bytes), size| async move { Ok((count + 1, bytes + size)) })
        .await
}

/// Compares the rows of the restored database with the manifest; returns the differences.
///
/// # Errors
/// The database failed: a table cannot be read.
pub async fn compare_rows(client: &tokio_postgres::Client, plan: &Plan) -> Result<Vec<String>, BackupError> {
    let restored = crate::create::counts(client).await?;
    let mut differences = Vec::new();
    for (table, rows) in &plan.manifest.rows {
        match restored.get(table) {
            None if plan.replay.is_none() => differences.push(format!("{table} is missing")),
            Some((count, _)) if plan.replay.is_none() && rows.is_exact && *count != rows.count => {
                differences.push(format!("{table} has {count} rows instead of {}", rows.count));
            }
            _ => {}
        }
    }
    Ok(differences)
}
