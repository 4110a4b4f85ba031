//! Blobs: the bytes of objects, under random names, in a folder or in a bucket of an S3-compatible store. A blob is
//! written once and never changed. What it is (its name, type, size, ETag) is in the row that refers to it; a blob itself has
//! bytes only.
//!
//! Each blob belongs to one row or, while it is being written, to one [intent](intents). The row's end makes the blob garbage,
//! which a worker deletes after a while; an intent that nobody keeps alive ends the same way. So a server that dies at any
//! moment leaves nothing for good.

mod error;
mod folder;
mod id;
mod reader;
mod room;
mod s3;
mod writer;

use std::ops::Range;
use std::path::Path as FolderPath;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{CopyOptions, ObjectStore, ObjectStoreExt as _};
use tokio_util::task::TaskTracker;

use crate::config::{Backend, StorageConfig};
pub use error::BlobError;
use folder::Folder;
pub use id::BlobId;
pub use reader::BlobStream;
use room::Room;
use s3::Bucket;
pub use writer::{BlobWriter, Written};

/// Where blobs lie. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BlobStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    place: Place,
    objects: Arc<dyn ObjectStore>,
    room: Room,
    /// What ends after a writer was dropped is a task of it.
    tracker: TaskTracker,
}

#[derive(Debug)]
enum Place {
    Folder(Folder),
    Bucket(Bucket),
}

impl BlobStore {
    /// Opens the store that `config` names, and makes its folder where there is none. A bucket is not asked for anything yet.
    ///
    /// # Errors
    /// The folder cannot be made, or the settings do not make a client; a sentence.
    pub async fn open(config: &StorageConfig, tracker: TaskTracker) -> Result<Self, BlobError> {
        let (place, objects): (Place, Arc<dyn ObjectStore>) = match config.backend {
            Backend::File => {
                let folder = Folder::open(&config.dir).await?;
                let objects = folder.objects();
                (Place::Folder(folder), objects)
            }
            Backend::S3 => {
                let bucket = Bucket::open(&config.s3, config.max_file_size)?;
                let objects = bucket.objects();
                (Place::Bucket(bucket), objects)
            }
        };
        let room = Room::new(config.upload_memory);
        Ok(Self { shared: Arc::new(Shared { place, objects, room, tracker }) })
    }

    /// Writes a blob. Nothing is stored before the first large write, and nothing can be read before
    /// [`BlobWriter::finish`].
    pub fn writer(&self, id: BlobId) -> BlobWriter {
        BlobWriter::new(self.clone(), id)
    }

    /// The bytes in `range`, which lies within the blob's size as its row has it.
    ///
    /// # Errors
    /// There is no such blob, or the store fails. What fails later is an item of the stream; so is a blob that ends before
    /// the range does.
    pub async fn read(&self, id: BlobId, range: Range<u64>) -> Result<BlobStream, BlobError> {
        match &self.shared.place {
            Place::Folder(folder) => reader::of_file(folder.path(id), id, range).await,
            Place::Bucket(_) => reader::of_object(&self.shared.objects, id, range).await,
        }
    }

    /// Makes `to` a blob with the same bytes as `from`. Durable when it returns.
    ///
    /// # Errors
    /// There is no such blob, or the store fails.
    pub async fn copy(&self, from: BlobId, to: BlobId) -> Result<(), BlobError> {
        let objects = &self.shared.objects;
        if matches!(self.shared.place, Place::Bucket(_)) {
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
        use futures_util::TryStreamExt as _;

        let mut writer = self.writer(to).without_md5();
        for part in parts {
            let mut bytes = match &self.shared.place {
                Place::Folder(folder) => reader::of_whole_file(folder.path(*part), *part).await?,
                Place::Bucket(_) => reader::of_whole_object(&self.shared.objects, *part).await?,
            };
            while let Some(chunk) = bytes.try_next().await? {
                writer.write(chunk).await?;
            }
        }
        let _written = writer.finish().await?;
        Ok(())
    }

    /// Deletes a blob; one that is not there is fine.
    ///
    /// # Errors
    /// The store fails.
    pub async fn delete(&self, id: BlobId) -> Result<(), BlobError> {
        match &self.shared.place {
            Place::Folder(folder) => folder.delete(id).await,
            Place::Bucket(_) => match self.shared.objects.delete(&id.path()).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(BlobError::of(id, &error)),
            },
        }
    }

    /// Whether blobs can be written: the folder takes a file, or the bucket answers.
    ///
    /// # Errors
    /// They cannot, and why.
    pub async fn check(&self) -> Result<(), BlobError> {
        match &self.shared.place {
            Place::Folder(folder) => folder.check().await,
            Place::Bucket(bucket) => bucket.check().await,
        }
    }

    /// The folder, or the bucket's address, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.shared.place {
            Place::Folder(folder) => folder.describe(),
            Place::Bucket(bucket) => bucket.describe(),
        }
    }

    /// How many bytes are written at once.
    fn chunk_bytes(&self) -> usize {
        match &self.shared.place {
            Place::Folder(_) => folder::CHUNK_BYTES,
            Place::Bucket(bucket) => bucket.part_bytes(),
        }
    }

    /// How many chunks of one blob may be on their way.
    fn chunks_in_flight(&self) -> usize {
        match &self.shared.place {
            Place::Folder(_) => 1,
            Place::Bucket(_) => s3::PARTS_IN_FLIGHT,
        }
    }

    fn is_folder(&self) -> bool {
        matches!(self.shared.place, Place::Folder(_))
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
