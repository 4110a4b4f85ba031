//! The copies of stored objects in the target: `blobs/XX/BLOB.SHA256`. Blobs never change, so each is copied once and shared by all
//! backups. A server that runs with `backup.target` copies a blob before it deletes it, so that every earlier moment can be restored.

use std::collections::HashMap;
use std::sync::Arc;

use basalt_storage::blobs::{BlobError, BlobId, BlobStore, BlobWatcher};
use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{Mutex, mpsc};

use crate::error::BackupError;
use crate::manifest::Sha256;
use crate::target::Target;

/// Blobs of up to this size are read once; larger ones twice, for their hash first.
const SMALL_BYTES: u64 = 4 << 20;
/// Blobs that were written and not yet copied; beyond it, the next copy compares the whole store.
const QUEUE: usize = 10_000;
const DIR: &str = "blobs";
pub(crate) const DELETED: &str = "deleted";

/// A blob's copy.
#[derive(Clone, Debug)]
struct Copied {
    sha256: String,
    size: u64,
}

/// The copies of the blobs of one store.
#[derive(Debug)]
pub struct BlobArchive {
    target: Target,
    store: BlobStore,
    transfers: usize,
    /// What the target has; `None` until it has been listed.
    copied: Mutex<Option<HashMap<BlobId, Copied>>>,
    created: mpsc::Sender<BlobId>,
    pending: Mutex<Pending>,
}

#[derive(Debug)]
struct Pending {
    queue: mpsc::Receiver<BlobId>,
    /// Whether blobs may exist that were never queued.
    is_incomplete: bool,
}

impl BlobArchive {
    /// The copies of `store` in `target`.
    #[must_use]
    pub fn new(target: Target, store: BlobStore, transfers: usize) -> Arc<Self> {
        let (created, queue) = mpsc::channel(QUEUE);
        let pending = Mutex::new(Pending { queue, is_incomplete: true });
        Arc::new(Self { target, store, transfers, copied: Mutex::default(), created, pending })
    }

    /// Copies what was written since the last call; at the first call, or after an overflow, all that the target lacks.
    ///
    /// # Errors
    /// The store or the target failed. The next call copies the rest.
    pub(crate) async fn copy_new(&self) -> Result<(), BackupError> {
        let mut pending = self.pending.lock().await;
        let mut queued = Vec::new();
        while let Ok(blob) = pending.queue.try_recv() {
            queued.push(blob);
        }
        if pending.is_incomplete || queued.len() >= QUEUE {
            pending.is_incomplete = true;
            self.copy_all().await?;
            pending.is_incomplete = false;
            return Ok(());
        }
        let copied = self.copy_each(queued).await;
        if copied.is_err() {
            pending.is_incomplete = true;
        }
        copied
    }

    /// Copies every blob of the store that the target lacks.
    pub(crate) async fn copy_all(&self) -> Result<(), BackupError> {
        self.list().await?;
        for first in u8::MIN..=u8::MAX {
            let stored = self.store.stored(first).await?;
            self.copy_each(stored.into_iter().map(|(blob, _)| blob).collect()).await?;
        }
        Ok(())
    }

    async fn copy_each(&self, blobs: Vec<BlobId>) -> Result<(), BackupError> {
        stream::iter(blobs)
            .map(Ok)
            .try_for_each_concurrent(self.transfers, |blob| async move {
                match self.copy(blob).await {
                    // Deleted meanwhile: an upload that failed, or the server copied it first.
                    Err(BackupError::Blobs(BlobError::NotFound(_))) => Ok(()),
                    done => done,
                }
            })
            .await
    }

    /// Copies one blob, unless the target has it.
    async fn copy(&self, blob: BlobId) -> Result<(), BackupError> {
        if self.has(blob).await? {
            return Ok(());
        }
        let mut bytes = self.store.read_all(blob).await?;
        let (mut hash, mut start, mut size) = (Sha256::default(), BytesMut::new(), 0_u64);
        while let Some(chunk) = bytes.try_next().await? {
            hash.update(&chunk);
            size += chunk.len() as u64;
            if size <= SMALL_BYTES {
                start.extend_from_slice(&chunk);
            }
        }
        let sha256 = hash.finish();
        let name = name(blob, &sha256);
        if size <= SMALL_BYTES {
            self.target.put(&name, start.freeze()).await?;
        } else {
            let mut upload = self.target.upload(&name).await?;
            let mut bytes = self.store.read_all(blob).await?;
            while let Some(chunk) = bytes.try_next().await? {
                upload.write(chunk).await?;
            }
            let _size_and_hash = upload.finish().await?;
        }
        if let Some(copied) = self.copied.lock().await.as_mut() {
            let _before = copied.insert(blob, Copied { sha256, size });
        }
        Ok(())
    }

    async fn has(&self, blob: BlobId) -> Result<bool, BackupError> {
        if self.copied.lock().await.is_none() {
            self.list().await?;
        }
        Ok(self.copied.lock().await.as_ref().is_some_and(|copied| copied.contains_key(&blob)))
    }

    /// Lists the target again.
    pub(crate) async fn list(&self) -> Result<(), BackupError> {
        let listed = list(&self.target).await?;
        *self.copied.lock().await = Some(listed);
        Ok(())
    }

    /// The blobs that the target lacks.
    pub(crate) async fn missing(&self, needed: &[BlobId]) -> Result<Vec<BlobId>, BackupError> {
        let copied = self.copied.lock().await;
        let lacks = |blob: &&BlobId| !copied.as_ref().is_some_and(|copied| copied.contains_key(blob));
        Ok(needed.iter().filter(lacks).copied().collect())
    }
}

impl BlobWatcher for BlobArchive {
    fn created(&self, blob: BlobId) {
        // If the queue is full, `copy_new` sees that and compares the whole store.
        let _queued = self.created.try_send(blob);
    }

    fn before_delete(&self, blob: BlobId) -> BoxFuture<'_, Result<(), BlobError>> {
        async move {
            match self.copy(blob).await {
                Ok(()) => {}
                // Deleted before: a repeated job.
                Err(BackupError::Blobs(BlobError::NotFound(_))) => return Ok(()),
                Err(error) => return Err(BlobError::Unavailable(error.to_string())),
            }
            let marked = self.target.put(&format!("{DELETED}/{blob}"), Bytes::new()).await;
            marked.map_err(|error| BlobError::Unavailable(error.to_string()))
        }
        .boxed()
    }
}

fn name(blob: BlobId, sha256: &str) -> String {
    let text = blob.to_string();
    let (folder, _) = text.split_at(2);
    format!("{DIR}/{folder}/{text}.{sha256}")
}

async fn list(target: &Target) -> Result<HashMap<BlobId, Copied>, BackupError> {
    let mut copied = HashMap::new();
    for object in target.list(DIR).await? {
        let Some((blob, sha256)) = object.location.filename().and_then(|name| name.split_once('.')) else {
            continue;
        };
        let Some(blob) = BlobId::parse(blob) else { continue };
        let _before = copied.insert(blob, Copied { sha256: sha256.to_owned(), size: object.size });
    }
    Ok(copied)
}

/// Copies of blobs to restore from.
#[derive(Debug)]
pub(crate) struct StoredBlobs {
    target: Target,
    copied: HashMap<BlobId, Copied>,
}

impl StoredBlobs {
    pub(crate) async fn open(target: &Target) -> Result<Self, BackupError> {
        Ok(Self { target: target.clone(), copied: list(target).await? })
    }

    pub(crate) fn ids(&self) -> Vec<BlobId> {
        self.copied.keys().copied().collect()
    }

    /// Reads and hashes a copy; writes it to `store` if there is one.
    pub(crate) async fn check(&self, blob: BlobId, store: Option<&BlobStore>) -> Result<u64, BackupError> {
        let Some(Copied { sha256, size }) = self.copied.get(&blob) else {
            return Err(self.target.damaged(&format!("{DIR}/{blob}"), "it is missing"));
        };
        let name = name(blob, sha256);
        let mut writer =
            store.map(|store| store.writer(basalt_core::identity::Identity::SERVER, blob).expecting(*size));
        let (mut hash, mut read) = (Sha256::default(), 0_u64);
        let mut bytes = self.target.read(&name).await?;
        while let Some(chunk) = bytes.try_next().await? {
            hash.update(&chunk);
            read += chunk.len() as u64;
            if let Some(writer) = &mut writer {
                writer.write(chunk).await?;
            }
        }
        if read != *size || hash.finish() != *sha256 {
            if let Some(writer) = writer {
                writer.abort().await;
            }
            return Err(self.target.damaged(&name, "its hash differs from its name"));
        }
        if let Some(writer) = writer {
            let _written = writer.finish().await?;
        }
        Ok(read)
    }
}
