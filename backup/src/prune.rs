//! Deletes what the retention no longer requires: old sets, the log before the oldest one, and blobs that were deleted before it.

use std::collections::HashSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use object_store::path::Path;

use crate::blobs::DELETED;
use crate::error::BackupError;
use crate::manifest::{Manifest, list_sets};
use crate::target::Target;
use crate::wal;
use basalt_pg::replication::Lsn;

/// An incomplete set without changes for this long was interrupted.
const INTERRUPTED_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Backups, complete or not.
    pub sets: u64,
    /// Pieces of the log.
    pub pieces: u64,
    /// Stored objects.
    pub blobs: u64,
}

/// Deletes backups older than `retention`, except the newest complete one, and what only they need. The caller holds the lock of backups.
///
/// # Errors
/// The target failed. What was deleted stays deleted; what is kept is complete.
pub async fn run(target: &Target, retention: Duration, now: Timestamp) -> Result<Pruned, BackupError> {
    let retention = SignedDuration::try_from(retention).unwrap_or(SignedDuration::MAX);
    let oldest = now.saturating_sub(retention).unwrap_or(Timestamp::MIN);
    let sets = list_sets(target).await?;
    let complete: Vec<&Manifest> =
        sets.iter().filter_map(|set| set.manifest.as_ref()?.as_ref().ok()).collect();
    // The newest one before `oldest` is needed to reach the moments after it.
    let base = complete.iter().rposition(|manifest| manifest.database_at <= oldest).unwrap_or(0);
    let kept: Vec<&Manifest> = complete.get(base..).unwrap_or_default().to_vec();
    let kept_ids: HashSet<&str> = kept.iter().map(|manifest| manifest.id.as_str()).collect();
    let mut pruned = Pruned::default();
    for set in &sets {
        let is_old = match &set.manifest {
            Some(Ok(_)) => !kept_ids.contains(set.id.as_str()),
            // A damaged manifest is left for a person to look at until it is old.
            Some(Err(_)) => set.modified_at < oldest,
            None => set.modified_at < now.saturating_sub(INTERRUPTED_AFTER).unwrap_or(Timestamp::MIN),
        };
        if is_old {
            delete_set(target, &set.id).await?;
            pruned.sets += 1;
        }
    }
    pruned.pieces = prune_log(target, &kept, oldest).await?;
    // Without a complete backup, nothing says which blobs are needed.
    if let Some(first) = kept.first() {
        pruned.blobs = prune_blobs(target, first.started_at.min(oldest)).await?;
    }
    Ok(pruned)
}

/// Deletes the manifest first, so that an interrupted deletion leaves no set that seems complete.
async fn delete_set(target: &Target, id: &str) -> Result<(), BackupError> {
    target.delete(&Path::from(format!("sets/{id}/{}", crate::manifest::MANIFEST))).await?;
    for object in target.list(&format!("sets/{id}")).await? {
        target.delete(&object.location).await?;
    }
    Ok(())
}

async fn prune_log(target: &Target, kept: &[&Manifest], oldest: Timestamp) -> Result<u64, BackupError> {
    let mut pruned = 0;
    let mut chains: Vec<String> = Vec::new();
    for object in target.list("wal").await? {
        let chain = object.location.as_ref().split('/').nth(1).unwrap_or_default().to_owned();
        if chains.last() != Some(&chain) {
            chains.push(chain);
        }
    }
    for chain in chains {
        let of_chain = kept.iter().filter(|manifest| manifest.database.chain.as_deref() == Some(&*chain));
        let first = of_chain.filter_map(|manifest| {
            let start: Lsn = manifest.database.start_lsn.parse().ok()?;
            Some((start, manifest.database.timeline))
        });
        match first.min() {
            Some((start, timeline)) => {
                let needed = wal::segment_name(timeline, start);
                for (segment, pieces) in wal::list(target, &chain).await? {
                    if segment < needed {
                        for piece in pieces {
                            target.delete(&piece.path).await?;
                            pruned += 1;
                        }
                    }
                }
            }
            // A chain may be young and have no backup yet.
            None => {
                let objects = target.list(&wal::chain_dir(&chain)).await?;
                let newest = objects.iter().map(|object| object.last_modified.timestamp()).max();
                if newest.is_some_and(|newest| newest < oldest.as_second()) {
                    for object in objects {
                        target.delete(&object.location).await?;
                        pruned += 1;
                    }
                }
            }
        }
    }
    Ok(pruned)
}

/// Deletes the copies of blobs that the server deleted before `oldest`.
async fn prune_blobs(target: &Target, oldest: Timestamp) -> Result<u64, BackupError> {
    let mut old: HashSet<String> = HashSet::new();
    let marks = target.list(DELETED).await?;
    for mark in &marks {
        if mark.last_modified.timestamp() < oldest.as_second()
            && let Some(blob) = mark.location.filename()
        {
            let _new = old.insert(blob.to_owned());
        }
    }
    if old.is_empty() {
        return Ok(0);
    }
    let mut pruned = 0;
    for object in target.list("blobs").await? {
        let blob = object.location.filename().and_then(|name| name.split_once('.')).map(|(blob, _)| blob);
        if blob.is_some_and(|blob| old.contains(blob)) {
            target.delete(&object.location).await?;
            pruned += 1;
        }
    }
    for mark in marks {
        if mark.location.filename().is_some_and(|blob| old.contains(blob)) {
            target.delete(&mark.location).await?;
        }
    }
    Ok(pruned)
}
