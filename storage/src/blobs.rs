//! Blobs: the bytes of objects, under random names, in a folder or in a bucket of an S3-compatible store. A blob is
//! written once and never changed. What it is (its name, type, size, ETag) is in the row that refers to it; a blob itself has
//! bytes only.
//!
//! Each blob belongs to one row or, while it is being written, to one [intent](intents). The row's end makes the blob garbage,
//! which a worker deletes after a while; an intent that no writer keeps alive ends the same way. So a server that dies at any
//! moment leaves nothing for good.

mod error;
mod folder;
pub(crate) mod garbage;
mod id;
pub mod intents;
mod reader;
pub mod reconcile;
mod room;
mod s3;
pub mod sweeper;
mod writer;

use std::ops::Range;
use std::path::Path as FolderPath;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::identity::Identity;
use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{CopyOptions, ObjectStore, ObjectStoreExt as _};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::config::{Backend as BackendKind, StorageConfig};
pub use error::BlobError;
use folder::Folder;
pub use id::BlobId;
pub use reader::BlobStream;
use room::Room;
use s3::Bucket;
use sweeper::IncompleteUpload;
pub use writer::{BlobWriter, Written};

/// Where blobs lie. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BlobStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    place: Backend,
    objects: Arc<dyn ObjectStore>,
    room: Room,
    /// When it was last asked whether blobs can be written, and the answer.
    checked: Mutex<Option<(Instant, bool)>>,
    /// What ends after a writer was dropped is a task of it.
    tracker: TaskTracker,
}

/// A blob that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    blob: BlobId,
    size: u64,
    /// When it was written; of a copy in a folder, when the first of them was.
    modified_at: Timestamp,
}

#[derive(Debug)]
enum Backend {
    Folder(Folder),
    Bucket(Bucket),
}

impl BlobStore {
    /// Opens the store that `config` names, and makes its folder where there is none. A bucket is not asked for anything yet.
    ///
    /// # Errors
    /// The folder cannot be made, or the settings do not make a client; a sentence.
    pub async fn open(config: &StorageConfig, tracker: TaskTracker) -> Result<Self, BlobError> {
        let (place, objects): (Backend, Arc<dyn ObjectStore>) = match config.backend {
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
        let room = Room::new(config.upload_memory);
        Ok(Self { shared: Arc::new(Shared { place, objects, room, checked: Mutex::default(), tracker }) })
    }

    /// Writes a blob. Nothing is stored before the first large write, and nothing can be read before
    /// [`BlobWriter::finish`]. Its buffers count against the client's share of `storage.upload_memory`.
    pub fn writer(&self, client: Identity, id: BlobId) -> BlobWriter {
        BlobWriter::new(self.clone(), client, id)
    }

    /// The bytes in `range`, which lies within the blob's size as its row has it.
    ///
    /// # Errors
    /// There is no such blob, or the store fails. What fails later is an item of the stream; so is a blob that ends before
    /// the range does.
    pub async fn read(&self, id: BlobId, range: Range<u64>) -> Result<BlobStream, BlobError> {
        match &self.shared.place {
            Backend::Folder(folder) => reader::of_file(folder.path(id), id, range).await,
            Backend::Bucket(_) => reader::of_object(&self.shared.objects, id, range).await,
        }
    }

    /// Makes `to` a blob with the same bytes as `from`. Durable when it returns.
    ///
    /// # Errors
    /// There is no such blob, or the store fails.
    pub async fn copy(&self, from: BlobId, to: BlobId) -> Result<(), BlobError> {
        let objects = &self.shared.objects;
        if matches!(self.shared.place, Backend::Bucket(_)) {
            let found = objects.head(&from.path()).await.map_err(|error| BlobError::of(from, &error))?;
            if found.size > s3::LARGEST_COPY {
                return self.concat(&[from], to).await;
            }
        }
        objects
            .copy_opts(&from.path(), &to.path(), CopyOptions::new())
            .await
            .map_err(|error| BlobError::of(from, &error))
    }

    /// Makes `to` a blob with the bytes of `parts`, one after the other. Durable when it returns.
    ///
    /// # Errors
    /// One of them is missing, or the store fails.
    pub async fn concat(&self, parts: &[BlobId], to: BlobId) -> Result<(), BlobError> {
        let mut writer = self.writer(Identity::SERVER, to).without_md5();
        for part in parts {
            let mut bytes = match &self.shared.place {
                Backend::Folder(folder) => reader::of_whole_file(folder.path(*part), *part).await?,
                Backend::Bucket(_) => reader::of_whole_object(&self.shared.objects, *part).await?,
            };
            while let Some(chunk) = bytes.try_next().await? {
                writer.write(chunk).await?;
            }
        }
        let _written = writer.finish().await?;
        Ok(())
    }

    /// Whether there is such a blob.
    async fn exists(&self, id: BlobId) -> Result<bool, BlobError> {
        match self.shared.objects.head(&id.path()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(BlobError::of(id, &error)),
        }
    }

    /// Deletes a blob; one that is not there is fine.
    ///
    /// # Errors
    /// The store fails.
    pub async fn delete(&self, id: BlobId) -> Result<(), BlobError> {
        match &self.shared.place {
            Backend::Folder(folder) => folder.delete(id).await,
            Backend::Bucket(_) => match self.shared.objects.delete(&id.path()).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(BlobError::of(id, &error)),
            },
        }
    }

    /// Deletes a blob that was perhaps never finished, with what there is of it; nothing is fine.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn discard(&self, id: BlobId) -> Result<(), BlobError> {
        let beginnings = match &self.shared.place {
            Backend::Folder(folder) => folder.beginnings_of(id).await?,
            Backend::Bucket(bucket) => bucket.beginnings(&id.path()).await?,
        };
        for beginning in beginnings {
            self.remove_beginning(&beginning).await?;
        }
        self.delete(id).await
    }

    /// What was begun and neither finished nor given up; of very many, not all.
    async fn beginnings(&self) -> Result<Vec<IncompleteUpload>, BlobError> {
        match &self.shared.place {
            Backend::Folder(folder) => folder.beginnings().await,
            Backend::Bucket(bucket) => bucket.beginnings(&Path::default()).await,
        }
    }

    async fn remove_beginning(&self, beginning: &IncompleteUpload) -> Result<(), BlobError> {
        match &self.shared.place {
            Backend::Folder(folder) => folder.remove_beginning(beginning).await,
            Backend::Bucket(bucket) => bucket.remove_beginning(beginning).await,
        }
    }

    /// The blobs whose names begin with these two digits, in their order.
    async fn list(&self, first: u8) -> Result<Vec<Listed>, BlobError> {
        let objects = self.shared.objects.list(Some(&Path::from(format!("{first:02x}"))));
        let listed = objects.try_filter_map(async |object| {
            let blob = object.location.filename().and_then(BlobId::parse);
            let modified_at = Timestamp::from_second(object.last_modified.timestamp());
            let modified_at = modified_at.unwrap_or(Timestamp::MAX);
            Ok(blob.map(|blob| Listed { blob, size: object.size, modified_at }))
        });
        let mut listed: Vec<Listed> =
            listed.try_collect().await.map_err(|error| BlobError::general(&error))?;
        listed.sort_unstable_by_key(|listed| listed.blob);
        Ok(listed)
    }

    /// Whether blobs can be written: the folder takes a file, or the bucket answers.
    ///
    /// # Errors
    /// They cannot, and why.
    pub async fn check(&self) -> Result<(), BlobError> {
        match &self.shared.place {
            Backend::Folder(folder) => folder.check().await,
            Backend::Bucket(bucket) => bucket.check().await,
        }
    }

    /// The same as of a second ago at most, for `/ready`. The store is asked once a second at most, however often this is
    /// called.
    pub async fn is_reachable(&self) -> bool {
        const FRESH: Duration = Duration::from_secs(1);
        const PATIENCE: Duration = Duration::from_secs(5);
        // A caller that comes while it is being asked waits for the same answer.
        let mut checked = self.shared.checked.lock().await;
        if let Some((_, answer)) = checked.filter(|(asked_at, _)| asked_at.elapsed() < FRESH) {
            return answer;
        }
        let answer = match timeout(PATIENCE, self.check()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "objects cannot be stored");
                false
            }
            Err(_elapsed) => {
                tracing::warn!("objects cannot be stored: the store of blobs does not answer");
                false
            }
        };
        *checked = Some((Instant::now(), answer));
        answer
    }

    /// The folder, or the bucket's address, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.shared.place {
            Backend::Folder(folder) => folder.describe(),
            Backend::Bucket(bucket) => bucket.describe(),
        }
    }

    /// How many bytes are written at once.
    fn chunk_bytes(&self) -> usize {
        match &self.shared.place {
            Backend::Folder(_) => folder::CHUNK_BYTES,
            Backend::Bucket(bucket) => bucket.part_bytes(),
        }
    }

    /// How many chunks of one blob may be on their way.
    fn chunks_in_flight(&self) -> usize {
        match &self.shared.place {
            Backend::Folder(_) => 1,
            Backend::Bucket(_) => s3::PARTS_IN_FLIGHT,
        }
    }

    fn is_folder(&self) -> bool {
        matches!(self.shared.place, Backend::Folder(_))
    }
}

/// `storage.dir` is made where it is missing; its parent must be there already when it is the working directory's.
fn parent_of(dir: &FolderPath) -> &FolderPath {
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => FolderPath::new("."),
    }
}

impl BlobId {
    /// Where the blob lies in the store: 256 folders of blobs.
    fn path(self) -> Path {
        let name = self.to_string();
        Path::from(format!("{}/{name}", self.folder()))
    }
}

#[cfg(test)]
mod tests;
