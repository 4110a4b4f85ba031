//! Writes a blob: small ones in one request, others in chunks, of which one is filled while the previous one
//! is written. The hash is computed concurrently on a blocking thread.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::identity::Identity;
use basalt_core::memory::{ByteShare, FREE_BYTES};
use bytes::{Bytes, BytesMut};
use md5::{Digest as _, Md5};
use object_store::{MultipartUpload, ObjectStoreExt as _};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::{BlobError, BlobId, BlobStore};

/// How many bytes hashing may lag behind writing.
const HASH_LAG: usize = 4 * 1024 * 1024;
/// How long a writer waits for memory.
const MEMORY_WAIT: Duration = Duration::from_secs(30);
/// Time limit for aborting an upload.
const ABORT_LIMIT: Duration = Duration::from_secs(30);

/// A blob being written. If dropped before [`BlobWriter::finish`] has returned, the partial upload is
/// aborted in the background; what cannot be aborted, the sweeper finds by the blob's intent.
#[must_use = "nothing is stored before `finish`"]
pub struct BlobWriter {
    store: BlobStore,
    client: Identity,
    id: BlobId,
    buffer: BytesMut,
    /// Size at which the buffer is grown or sent.
    target: usize,
    /// Memory acquired for the buffer: for a complete chunk, which is then written without acquiring more, so that writers
    /// cannot deadlock.
    shares: Vec<ByteShare>,
    /// Bytes received.
    size: u64,
    /// Length announced by the client.
    announced: Option<u64>,
    hash: Hash,
    /// One permit per chunk that may wait to be hashed.
    to_hash: Arc<Semaphore>,
    /// Started with the second chunk.
    upload: Option<Box<dyn MultipartUpload>>,
    in_flight: JoinSet<Result<(), object_store::Error>>,
    /// An earlier call failed or was cancelled, so bytes are missing.
    has_failed: bool,
}

/// Result of writing a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Size in bytes.
    pub size: u64,
    /// MD5 of the bytes.
    pub md5: [u8; 16],
}

/// Hash of the bytes sent so far. It may lag behind, because hashing is slower than writing and the end has
/// to wait for the disk anyway.
enum Hash {
    Unwanted,
    Idle(Md5),
    Running(JoinHandle<Result<Option<Md5>, BlobError>>),
}

impl Hash {
    /// Waits until all bytes added so far are hashed.
    async fn wait(self) -> Result<Option<Md5>, BlobError> {
        match self {
            Self::Unwanted => Ok(None),
            Self::Idle(hash) => Ok(Some(hash)),
            Self::Running(task) => task.await.map_err(|error| BlobError::lost(&error))?,
        }
    }

    /// Hashes `bytes` after the previous ones, on a blocking thread if they are many; `held` is dropped
    /// afterwards.
    fn add<T: Send + Sync + 'static>(self, bytes: Bytes, held: T, tracker: &TaskTracker) -> Self {
        match self {
            Self::Unwanted => Self::Unwanted,
            Self::Idle(mut hash) if bytes.len() <= FREE_BYTES => {
                hash.update(&bytes);
                Self::Idle(hash)
            }
            before @ (Self::Idle(_) | Self::Running(_)) => Self::Running(tracker.spawn(async move {
                let Some(mut hash) = before.wait().await? else { return Ok(None) };
                let hashed = spawn_blocking(move || {
                    hash.update(&bytes);
                    hash
                });
                let hash = hashed.await.map_err(|error| BlobError::lost(&error))?;
                drop(held);
                Ok(Some(hash))
            })),
        }
    }
}

impl std::fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobWriter").field("id", &self.id).field("size", &self.size).finish_non_exhaustive()
    }
}

impl BlobWriter {
    pub(super) fn new(store: BlobStore, client: Identity, id: BlobId) -> Self {
        let to_hash = Arc::new(Semaphore::new((HASH_LAG / store.chunk_bytes()).max(1)));
        Self {
            store,
            client,
            id,
            buffer: BytesMut::new(),
            target: FREE_BYTES,
            shares: Vec::new(),
            size: 0,
            announced: None,
            hash: Hash::Idle(Md5::new()),
            to_hash,
            upload: None,
            in_flight: JoinSet::new(),
            has_failed: false,
        }
    }

    /// Announces the length, so that no more memory is acquired than it needs. It is not a limit.
    pub fn expecting(mut self, bytes: u64) -> Self {
        self.announced = Some(bytes);
        self
    }

    /// Skips hashing; [`Written::md5`] is then the hash of no bytes.
    pub(super) fn without_md5(mut self) -> Self {
        self.hash = Hash::Unwanted;
        self
    }

    /// Name of the blob.
    #[must_use]
    pub const fn id(&self) -> BlobId {
        self.id
    }

    /// Bytes received so far.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds bytes; waits while there is no memory for them.
    ///
    /// # Errors
    /// The store failed, or no memory became available in time. The blob cannot be finished afterwards.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), BlobError> {
        self.start_call()?;
        while !bytes.is_empty() {
            if self.buffer.len() >= self.target {
                self.grow_or_send().await?;
            }
            let taken = bytes.split_to(bytes.len().min(self.target - self.buffer.len()));
            self.size += taken.len() as u64;
            self.buffer.extend_from_slice(&taken);
        }
        self.has_failed = false;
        Ok(())
    }

    /// Completes the blob and makes it durable.
    ///
    /// # Errors
    /// The store failed, now or in an earlier write.
    pub async fn finish(mut self) -> Result<Written, BlobError> {
        self.start_call()?;
        if self.upload.is_some() {
            if !self.buffer.is_empty() {
                self.send().await?;
            }
            while !self.in_flight.is_empty() {
                self.join_one().await?;
            }
            let Some(upload) = self.upload.as_mut() else { return Err(self.earlier_failure()) };
            let completed = upload.complete().await;
            let _result = completed.map_err(|error| BlobError::from_store(&error))?;
            self.upload = None;
        } else {
            let all_bytes = std::mem::take(&mut self.buffer).freeze();
            let hash = std::mem::replace(&mut self.hash, Hash::Unwanted);
            let tracker = &self.store.shared.tracker;
            self.hash = hash.add(all_bytes.clone(), std::mem::take(&mut self.shares), tracker);
            let path = self.id.path();
            let stored = self.store.shared.objects.put(&path, all_bytes.into()).await;
            let _result = stored.map_err(|error| BlobError::from_store(&error))?;
        }
        let hash = std::mem::replace(&mut self.hash, Hash::Unwanted);
        let hash = hash.wait().await?.unwrap_or_default();
        self.store.report_created(self.id);
        Ok(Written { size: self.size, md5: hash.finalize().into() })
    }

    /// Removes the partial blob. Dropping the writer does the same in the background.
    pub async fn abort(mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        self.in_flight.shutdown().await;
        abort_upload(self.id, &mut upload).await;
    }

    fn start_call(&mut self) -> Result<(), BlobError> {
        if std::mem::replace(&mut self.has_failed, true) { Err(self.earlier_failure()) } else { Ok(()) }
    }

    fn earlier_failure(&self) -> BlobError {
        BlobError::Failed(format!("an earlier write of blob {} failed", self.id))
    }

    /// Called with a full buffer: grows it if memory is available, otherwise sends it.
    async fn grow_or_send(&mut self) -> Result<(), BlobError> {
        let chunk = self.store.chunk_bytes();
        if self.target >= chunk {
            return self.send().await;
        }
        // If the client sent more than announced, ignore the announced length.
        let sent = self.size - self.buffer.len() as u64;
        let rest = self.announced.map(|all| all.saturating_sub(sent));
        let rest = rest.and_then(|rest| usize::try_from(rest).ok()).unwrap_or(chunk);
        let target = if rest > self.target { rest.min(chunk) } else { chunk };
        let held = if self.shares.is_empty() { 0 } else { self.target };
        let buffers = &self.store.shared.buffers;
        let share = if self.store.is_folder() {
            match buffers.try_take(self.client, target - held) {
                Some(share) => share,
                None => return self.send().await,
            }
        } else {
            let taken = timeout(MEMORY_WAIT, buffers.take(self.client, target - held)).await;
            taken.ok().and_then(Result::ok).ok_or(BlobError::Busy)?
        };
        self.shares.push(share);
        self.target = target;
        self.buffer.reserve(target - self.buffer.len());
        Ok(())
    }

    /// Sends the buffer as a chunk, waiting until fewer chunks are in flight.
    async fn send(&mut self) -> Result<(), BlobError> {
        let chunk = std::mem::take(&mut self.buffer).freeze();
        let shares = Arc::new(std::mem::take(&mut self.shares));
        self.target = FREE_BYTES;
        let permit =
            Arc::clone(&self.to_hash).acquire_owned().await.map_err(|_closed| self.earlier_failure())?;
        let hash = std::mem::replace(&mut self.hash, Hash::Unwanted);
        let held = (permit, Arc::clone(&shares));
        self.hash = hash.add(chunk.clone(), held, &self.store.shared.tracker);
        while self.in_flight.len() >= self.store.chunks_in_flight() {
            self.join_one().await?;
        }
        let upload = match &mut self.upload {
            Some(upload) => upload,
            None => self.upload.insert(self.store.begin(self.id).await?),
        };
        let part = upload.put_part(chunk.into());
        let _task = self.in_flight.spawn(async move {
            let written = part.await;
            drop(shares);
            written
        });
        Ok(())
    }

    async fn join_one(&mut self) -> Result<(), BlobError> {
        match self.in_flight.join_next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(BlobError::from_store(&error)),
            Some(Err(error)) => Err(BlobError::lost(&error)),
        }
    }
}

impl BlobStore {
    /// Starts a multi-chunk blob.
    async fn begin(&self, id: BlobId) -> Result<Box<dyn MultipartUpload>, BlobError> {
        let objects = Arc::clone(&self.shared.objects);
        let path = id.path();
        let upload = if self.is_folder() {
            // The future opens the file when polled.
            let runtime = Handle::current();
            let upload =
                spawn_blocking(move || runtime.block_on(async { objects.put_multipart(&path).await }));
            upload.await.map_err(|error| BlobError::lost(&error))?
        } else {
            objects.put_multipart(&path).await
        };
        upload.map_err(|error| BlobError::from_store(&error))
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        self.in_flight.abort_all();
        let Ok(runtime) = Handle::try_current() else { return };
        let id = self.id;
        let abort = async move { abort_upload(id, &mut upload).await };
        let _task = self.store.shared.tracker.spawn_on(abort, &runtime);
    }
}

/// Aborts the upload in the store.
async fn abort_upload(id: BlobId, upload: &mut Box<dyn MultipartUpload>) {
    match timeout(ABORT_LIMIT, upload.abort()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::info!(blob = %id, %error, "could not abort the upload; the sweeper will delete the partial blob")
        }
        Err(_elapsed) => {
            tracing::info!(blob = %id, "could not abort the upload; the sweeper will delete the partial blob")
        }
    }
}
