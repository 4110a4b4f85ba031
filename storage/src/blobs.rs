//! Blobs: the bytes of objects, under random names, in a folder or in an S3-compatible bucket. A blob is
//! written once and never changed. Name, type, size and ETag are in the row that refers to it; the blob
//! itself consists of bytes only.
//!
//! Every blob belongs to one row or, while being written, to one [intent](intents). Deleting the row turns
//! the blob into garbage, which a worker deletes after a delay; so does an intent without heartbeats. A
//! crash therefore never leaks blobs permanently.

mod error;
mod folder;
pub(crate) mod garbage;
mod id;
pub mod intents;
mod reader;
pub mod reconcile;
mod s3;
pub mod sweeper;
mod writer;

use std::ops::Range;
use std::path::Path as FolderPath;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use basalt_core::fair_share::WAITING_PER_IDENTITY;
use basalt_core::identity::Identity;
use basalt_core::memory::{BudgetRules, ByteBudget};
use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{CopyOptions, ObjectStore, ObjectStoreExt as _};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::config::{Backend as BackendKind, S3Config, StorageConfig};
pub use error::BlobError;
use folder::Folder;
pub use id::BlobId;
pub use reader::BlobStream;
use s3::Bucket;
use sweeper::IncompleteUpload;
pub use writer::{BlobWriter, Written};

/// Follows which blobs exist, so that another copy of them can be kept.
pub trait BlobWatcher: std::fmt::Debug + Send + Sync {
    /// A blob was written.
    fn created(&self, blob: BlobId);

    /// A blob is about to be deleted; the deletion waits for this, and fails if it fails.
    fn before_delete(&self, blob: BlobId) -> BoxFuture<'_, Result<(), BlobError>>;
}

/// Opens a bucket without a blob store, for other files. Sends nothing.
///
/// # Errors
/// The settings are invalid.
pub fn open_bucket(config: &S3Config) -> Result<Arc<dyn ObjectStore>, BlobError> {
    Ok(Bucket::open(config, 0)?.objects())
}

/// A store of blobs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BlobStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    backend: Backend,
    objects: Arc<dyn ObjectStore>,
    /// Memory for the buffers of all uploads.
    buffers: ByteBudget,
    /// Time and result of the last write check.
    checked: Mutex<Option<(Instant, bool)>>,
    /// Tracks clean-up tasks of dropped writers.
    tracker: TaskTracker,
    watcher: OnceLock<Arc<dyn BlobWatcher>>,
}

/// A stored blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    blob: BlobId,
    size: u64,
    /// When it was written; for a copy in a folder, when the original was.
    modified_at: Timestamp,
}

#[derive(Debug)]
enum Backend {
    Folder(Folder),
    Bucket(Bucket),
}

impl BlobStore {
    /// Opens the configured store, creating its folder if necessary. Sends no request to a bucket yet.
    ///
    /// # Errors
    /// The folder cannot be created, or the settings are invalid; the error says which.
    pub async fn open(config: &StorageConfig, tracker: TaskTracker) -> Result<Self, BlobError> {
        let (backend, objects): (Backend, Arc<dyn ObjectStore>) = match config.backend {
            BackendKind::File => {
                let folder = Folder::open(&config.dir).await?;
                let objects = folder.objects();
                (Backend::Folder(folder), objects)
            }
            BackendKind::S3 => {
                let bucket = Bucket::open(&config.s3, config.max_file_size)?;
                let objects = bucket.objects();
                (Backend::Bucket(bucket), objects)
            }
        };
        let buffers = buffer_budget(config.upload_memory);
        let checked = Mutex::default();
        let watcher = OnceLock::new();
        Ok(Self { shared: Arc::new(Shared { backend, objects, buffers, checked, tracker, watcher }) })
    }

    /// Sets the watcher of this store and its clones; the first one stays.
    pub fn watch(&self, watcher: Arc<dyn BlobWatcher>) {
        let _first_stays = self.shared.watcher.set(watcher);
    }

    /// Reports a blob that was written.
    fn report_created(&self, id: BlobId) {
        if let Some(watcher) = self.shared.watcher.get() {
            watcher.created(id);
        }
    }

    /// Starts writing a blob. Nothing is stored before the first large chunk, and nothing can be read before
    /// [`BlobWriter::finish`]. Buffers count against the client's share of `storage.upload_memory`.
    pub fn writer(&self, client: Identity, id: BlobId) -> BlobWriter {
        BlobWriter::new(self.clone(), client, id)
    }

    /// Reads the bytes in `range`, which must lie within the size in the blob's row.
    ///
    /// # Errors
    /// The blob does not exist, or the store failed. Later failures, including a blob that is too short, are
    /// reported in the stream.
    pub async fn read(&self, id: BlobId, range: Range<u64>) -> Result<BlobStream, BlobError> {
        match &self.shared.backend {
            Backend::Folder(folder) => reader::read_file(folder.path(id), id, range).await,
            Backend::Bucket(_) => reader::read_object(&self.shared.objects, id, range).await,
        }
    }

    /// Creates blob `to` with the bytes of `from`. Durable on return.
    ///
    /// # Errors
    /// The blob does not exist, or the store failed.
    pub async fn copy(&self, from: BlobId, to: BlobId) -> Result<(), BlobError> {
        let objects = &self.shared.objects;
        if matches!(self.shared.backend, Backend::Bucket(_)) {
            let found =
                objects.head(&from.path()).await.map_err(|error| BlobError::for_blob(from, &error))?;
            if found.size > s3::MAX_COPY_BYTES {
                return self.concat(&[from], to).await;
            }
        }
        objects
            .copy_opts(&from.path(), &to.path(), CopyOptions::new())
            .await
            .map_err(|error| BlobError::for_blob(from, &error))?;
        self.report_created(to);
        Ok(())
    }

    /// Reads a complete blob.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn read_all(&self, id: BlobId) -> Result<BlobStream, BlobError> {
        match &self.shared.backend {
            Backend::Folder(folder) => reader::read_complete_file(folder.path(id), id).await,
            Backend::Bucket(_) => reader::read_complete_object(&self.shared.objects, id).await,
        }
    }

    /// The blobs whose names start with the byte `first`, with their sizes.
    ///
    /// # Errors
    /// The store failed.
    pub async fn stored(&self, first: u8) -> Result<Vec<(BlobId, u64)>, BlobError> {
        let listed = self.list(first).await?;
        Ok(listed.into_iter().map(|listed| (listed.blob, listed.size)).collect())
    }

    /// Creates blob `to` by concatenating `parts`. Durable on return.
    ///
    /// # Errors
    /// A part does not exist, or the store failed.
    pub async fn concat(&self, parts: &[BlobId], to: BlobId) -> Result<(), BlobError> {
        let mut writer = self.writer(Identity::SERVER, to).without_md5();
        for part in parts {
            let mut bytes = self.read_all(*part).await?;
            while let Some(chunk) = bytes.try_next().await? {
                writer.write(chunk).await?;
            }
        }
        let _written = writer.finish().await?;
        Ok(())
    }

    /// Whether the blob exists.
    async fn exists(&self, id: BlobId) -> Result<bool, BlobError> {
        match self.shared.objects.head(&id.path()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(BlobError::for_blob(id, &error)),
        }
    }

    /// Deletes a blob if it exists.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete(&self, id: BlobId) -> Result<(), BlobError> {
        if let Some(watcher) = self.shared.watcher.get() {
            watcher.before_delete(id).await?;
        }
        self.remove(id).await
    }

    async fn remove(&self, id: BlobId) -> Result<(), BlobError> {
        match &self.shared.backend {
            Backend::Folder(folder) => folder.delete(id).await,
            Backend::Bucket(_) => match self.shared.objects.delete(&id.path()).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(BlobError::for_blob(id, &error)),
            },
        }
    }

    /// Deletes a blob that may be incomplete, including partial uploads. Succeeds if nothing exists.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn discard(&self, id: BlobId) -> Result<(), BlobError> {
        let partial_uploads = match &self.shared.backend {
            Backend::Folder(folder) => folder.partial_uploads_of(id).await?,
            Backend::Bucket(bucket) => bucket.partial_uploads(&id.path()).await?,
        };
        for partial in partial_uploads {
            self.remove_partial(&partial).await?;
        }
        self.remove(id).await
    }

    /// Partial uploads; not necessarily all if there are very many.
    async fn partial_uploads(&self) -> Result<Vec<IncompleteUpload>, BlobError> {
        match &self.shared.backend {
            Backend::Folder(folder) => folder.partial_uploads().await,
            Backend::Bucket(bucket) => bucket.partial_uploads(&Path::default()).await,
        }
    }

    async fn remove_partial(&self, partial: &IncompleteUpload) -> Result<(), BlobError> {
        match &self.shared.backend {
            Backend::Folder(folder) => folder.remove_partial(partial).await,
            Backend::Bucket(bucket) => bucket.remove_partial(partial).await,
        }
    }

    /// The blobs whose names start with these two hex digits, sorted.
    async fn list(&self, first: u8) -> Result<Vec<Listed>, BlobError> {
        let objects = self.shared.objects.list(Some(&Path::from(format!("{first:02x}"))));
        let listed = objects.try_filter_map(async |object| {
            let blob = object.location.filename().and_then(BlobId::parse);
            let modified_at = Timestamp::from_second(object.last_modified.timestamp());
            let modified_at = modified_at.unwrap_or(Timestamp::MAX);
            Ok(blob.map(|blob| Listed { blob, size: object.size, modified_at }))
        });
        let mut listed: Vec<Listed> =
            listed.try_collect().await.map_err(|error| BlobError::from_store(&error))?;
        listed.sort_unstable_by_key(|listed| listed.blob);
        Ok(listed)
    }

    /// Checks that blobs can be written: creates a file in the folder, or lists the bucket.
    ///
    /// # Errors
    /// Why blobs cannot be written.
    pub async fn check(&self) -> Result<(), BlobError> {
        match &self.shared.backend {
            Backend::Folder(folder) => folder.check().await,
            Backend::Bucket(bucket) => bucket.check().await,
        }
    }

    /// For `/ready`: like [`Self::check`], but performed at most once per second, however often it is
    /// called.
    pub async fn is_reachable(&self) -> bool {
        const FRESH: Duration = Duration::from_secs(1);
        const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
        // Concurrent callers wait for the same result.
        let mut checked = self.shared.checked.lock().await;
        if let Some((_, answer)) = checked.filter(|(checked_at, _)| checked_at.elapsed() < FRESH) {
            return answer;
        }
        let answer = match timeout(CHECK_TIMEOUT, self.check()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot store objects");
                false
            }
            Err(_elapsed) => {
                tracing::warn!("cannot store objects: the blob store does not respond");
                false
            }
        };
        *checked = Some((Instant::now(), answer));
        answer
    }

    /// The folder or the bucket's URL, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.shared.backend {
            Backend::Folder(folder) => folder.describe(),
            Backend::Bucket(bucket) => bucket.describe(),
        }
    }

    /// Size of a chunk.
    fn chunk_bytes(&self) -> usize {
        match &self.shared.backend {
            Backend::Folder(_) => folder::CHUNK_BYTES,
            Backend::Bucket(bucket) => bucket.part_bytes(),
        }
    }

    /// Most chunks of one blob written concurrently.
    fn chunks_in_flight(&self) -> usize {
        match &self.shared.backend {
            Backend::Folder(_) => 1,
            Backend::Bucket(_) => s3::PARTS_IN_FLIGHT,
        }
    }

    fn is_folder(&self) -> bool {
        matches!(self.shared.backend, Backend::Folder(_))
    }
}

/// The budget for upload buffers, `storage.upload_memory`. A writer that gets no memory for a larger buffer uses small
/// ones (a file accepts chunks of any size) or waits (parts of an S3 upload have a minimum size). The budget is shared
/// fairly: however many or slow the uploads of one client are, they leave memory for those of others.
fn buffer_budget(bytes: u64) -> ByteBudget {
    let gauge = metrics::gauge!("basalt_storage_buffer_bytes");
    gauge.set(0.0);
    let rules = BudgetRules {
        waiting_per_identity: WAITING_PER_IDENTITY,
        keeps_headroom: true,
        serves_larger_alone: true,
    };
    let budget = ByteBudget::new(bytes.max(1), rules, gauge);
    metrics::gauge!("basalt_storage_buffer_bytes_limit").set(budget.limit() as f64);
    budget
}

/// The parent folder; `.` for a relative path without one.
fn parent_of(dir: &FolderPath) -> &FolderPath {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => FolderPath::new("."),
    }
}

impl BlobId {
    /// Path in the store, in one of 256 folders.
    fn path(self) -> Path {
        let name = self.to_string();
        Path::from(format!("{}/{name}", self.folder()))
    }
}

#[cfg(test)]
mod tests;
