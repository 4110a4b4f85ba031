//! Deletes what the retention no longer requires: old sets, the log before the oldest one, and blobs that were deleted before it.

use std::collections::HashSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use object_store::path::Path;

use crate::blobs::DELETED;
use crate::error::BackupError;
use crate::manifest::{Manifest, SetEntry, list_sets};
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
    let newest_before = complete.iter().rposition(|manifest| manifest.database_at <= oldest);
    let base = replayable_base(target, &complete, oldest).await?;
    let is_kept = |index: usize| index >= newest_before.unwrap_or(0) || Some(index) == base;
    let kept: Vec<&Manifest> = complete
        .iter()
        .enumerate()
        .filter_map(|(index, manifest)| is_kept(index).then_some(*manifest))
        .collect();
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

/// Deletes all backups except the first and the newest complete one. For a target to which nothing else writes: unlike [`run`], this also
/// deletes backups that were interrupted just now.
///
/// # Errors
/// The target failed.
pub async fn keep_first_and_newest(target: &Target) -> Result<(), BackupError> {
    let sets = list_sets(target).await?;
    let is_complete = |set: &&SetEntry| matches!(set.manifest, Some(Ok(_)));
    let kept = [sets.iter().find(is_complete), sets.iter().rfind(is_complete)];
    for set in &sets {
        let is_kept = kept.iter().flatten().any(|kept| kept.id == set.id);
        // A damaged manifest is left for a person to look at.
        if !is_kept && !matches!(set.manifest, Some(Err(_))) {
            delete_set(target, &set.id).await?;
        }
    }
    Ok(())
}

/// The index of the backup from which the log is replayed to the moments after `oldest`. Dumps and backups without an archived log can be
/// newer.
async fn replayable_base(
    target: &Target,
    complete: &[&Manifest],
    oldest: Timestamp,
) -> Result<Option<usize>, BackupError> {
    for (index, manifest) in complete.iter().enumerate().rev() {
        let Some(chain) = manifest.database.chain.as_deref().filter(|_| manifest.database_at <= oldest)
        else {
            continue;
        };
        let reach = wal::reach(target, chain).await?;
        return Ok(reach.is_some_and(|reach| reach.at > oldest).then_some(index));
    }
    Ok(None)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::BackupS3Config;

    /// A target with one set per day of January 2026: its day, and whether a log follows it.
    async fn target(dir: &std::path::Path, sets: &[(u8, bool)], reach_day: u8) -> Target {
        let target = Target::create(
            dir.to_str().unwrap_or_default(),
            std::path::Path::new("/"),
            &BackupS3Config::default(),
        )
        .unwrap();
        for (day, has_log) in sets {
            let id = format!("set-{day:02}");
            let at = format!("2026-01-{day:02}T00:00:00Z");
            let manifest = json!({
                "format": 1, "id": id, "started_at": at, "database_at": at, "basalt": "0", "postgres": "18",
                "database": {
                    "kind": "base", "file": { "name": "base", "size": 0, "sha256": "" }, "system_identifier": "",
                    "start_lsn": "0/1000000", "end_lsn": "0/1000000", "timeline": 1, "chain": has_log.then_some("chain"),
                },
                "seal": { "with": "master_key", "fingerprint": "" },
                "secrets": null, "project": null, "blobs": null, "rows": {},
            });
            target.put_json(&format!("sets/{id}/{}", crate::manifest::MANIFEST), &manifest).await.unwrap();
        }
        let reach = json!({ "at": format!("2026-01-{reach_day:02}T00:00:00Z"), "lsn": "0/2000000" });
        target.put_json(&wal::reach_name("chain"), &reach).await.unwrap();
        target
    }

    async fn kept(target: &Target) -> Vec<String> {
        let now = "2026-01-20T00:00:00Z".parse().unwrap();
        let _pruned = run(target, Duration::from_secs(10 * 24 * 3600), now).await.unwrap();
        list_sets(target).await.unwrap().into_iter().map(|set| set.id).collect()
    }

    #[tokio::test]
    async fn dumps_do_not_replace_the_base_of_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let sets = [(1, true), (4, true), (5, false), (7, false), (15, false)];
        let target = target(dir.path(), &sets, 20).await;
        assert_eq!(kept(&target).await, ["set-04", "set-07", "set-15"]);
    }

    #[tokio::test]
    async fn log_that_ended_before_the_retention_keeps_no_base() {
        let dir = tempfile::tempdir().unwrap();
        let target = target(dir.path(), &[(4, true), (7, false), (15, false)], 8).await;
        assert_eq!(kept(&target).await, ["set-07", "set-15"]);
    }
}
