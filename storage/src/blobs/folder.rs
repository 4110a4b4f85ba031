//! Blobs as files in `storage.dir`, in one subfolder per first byte of their names. The 256 subfolders are
//! created and synced at startup, so that a write has to sync only the file and its folder.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use tokio::task::spawn_blocking;

use super::sweeper::IncompleteUpload;
use super::{BlobError, BlobId, parent_of};

/// Bytes per write.
pub(super) const CHUNK_BYTES: usize = 1024 * 1024;

/// A folder of blobs.
#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    objects: Arc<LocalFileSystem>,
}

impl Folder {
    /// Opens the folder, durably creating what is missing.
    pub(super) async fn open(dir: &Path) -> Result<Self, BlobError> {
        let dir = dir.to_owned();
        blocking(move || {
            create(&dir).map_err(|error| failed("cannot make", &dir, &error))?;
            let objects =
                LocalFileSystem::new_with_prefix(&dir).map_err(|error| BlobError::from_store(&error))?;
            Ok(Self { dir, objects: Arc::new(objects.with_fsync(true)) })
        })
        .await
    }

    pub(super) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::<LocalFileSystem>::clone(&self.objects)
    }

    pub(super) fn describe(&self) -> String {
        self.dir.display().to_string()
    }

    pub(super) fn path(&self, id: BlobId) -> PathBuf {
        self.dir.join(id.folder()).join(id.to_string())
    }

    /// Deletes the blob's file durably: once its row is gone, nothing would find it again.
    pub(super) async fn delete(&self, id: BlobId) -> Result<(), BlobError> {
        let path = self.path(id);
        blocking(move || match fs::remove_file(&path) {
            Ok(()) => {
                sync(parent_of(&path)).map_err(|error| failed("cannot sync the folder of", &path, &error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("cannot delete", &path, &error)),
        })
        .await
    }

    /// Files that have not been renamed to their final name.
    pub(super) async fn partial_uploads(&self) -> Result<Vec<IncompleteUpload>, BlobError> {
        let dir = self.dir.clone();
        blocking(move || {
            let mut found = Vec::new();
            for first in u8::MIN..=u8::MAX {
                let folder = dir.join(format!("{first:02x}"));
                let failed = |error: io::Error| failed("cannot list", &folder, &error);
                for entry in fs::read_dir(&folder).map_err(failed)? {
                    let entry = entry.map_err(failed)?;
                    let name = entry.file_name();
                    let Some((blob, mark)) = name.to_str().and_then(|name| name.split_once('#')) else {
                        continue;
                    };
                    let Some(blob) = BlobId::parse(blob) else { continue };
                    // The file may just have been renamed.
                    let Ok(metadata) = entry.metadata() else { continue };
                    let started_at = Timestamp::from_second(metadata.mtime()).unwrap_or(Timestamp::MAX);
                    found.push(IncompleteUpload { blob, mark: mark.to_owned(), started_at });
                }
            }
            Ok(found)
        })
        .await
    }

    /// The partial files of one blob.
    pub(super) async fn partial_uploads_of(&self, blob: BlobId) -> Result<Vec<IncompleteUpload>, BlobError> {
        // A writer uses the first free suffix, and a blob has a single writer.
        let partial = IncompleteUpload { blob, mark: "1".to_owned(), started_at: Timestamp::UNIX_EPOCH };
        let path = self.staged(&partial);
        blocking(move || Ok(if path.exists() { vec![partial] } else { Vec::new() })).await
    }

    pub(super) async fn remove_partial(&self, partial: &IncompleteUpload) -> Result<(), BlobError> {
        let path = self.staged(partial);
        blocking(move || match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("cannot delete", &path, &error))
            }
            _ => Ok(()),
        })
        .await
    }

    fn staged(&self, partial: &IncompleteUpload) -> PathBuf {
        let IncompleteUpload { blob, mark, .. } = partial;
        self.dir.join(blob.folder()).join(format!("{blob}#{mark}"))
    }

    /// Checks access by writing and removing a file.
    pub(super) async fn check(&self) -> Result<(), BlobError> {
        let path = self.dir.join(format!(".check-{}", BlobId::random()));
        blocking(move || {
            let written = fs::write(&path, b"Basalt");
            let removed = fs::remove_file(&path);
            written.and(removed).map_err(|error| failed("cannot write and remove", &path, &error))
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    spawn_blocking(work).await.map_err(|error| BlobError::lost(&error))?
}

fn failed(what: &str, path: &Path, error: &io::Error) -> BlobError {
    BlobError::from_io(error, format!("{what} {}: {error}", path.display()))
}

/// Creates `dir` and its 256 subfolders, accessible to this user only, and syncs the folders that got new
/// entries.
fn create(dir: &Path) -> io::Result<()> {
    let mut existing = dir;
    while !existing.exists() {
        existing = parent_of(existing);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut new = dir;
    while new != existing {
        new = parent_of(new);
        sync(new)?;
    }
    for first in u8::MIN..=u8::MAX {
        match DirBuilder::new().mode(0o700).create(dir.join(format!("{first:02x}"))) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    sync(dir)
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
