//! Image transformations (storage.md §3.14). A variant is rendered once and then cached in a folder of this
//! server ([`cache`]); rendering waits for a thread of the pool. Decision 0060 explains the choice of codecs,
//! and why there is no AVIF.

mod cache;
mod failures;
mod geometry;
mod http;
mod metrics;
mod parameters;
mod transform;

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use basalt_core::convert::saturating;
use basalt_core::cpu_pool::{CpuPool, CpuPoolError, CpuPoolLimits, Priority};
use basalt_core::identity::Identity;
use basalt_images::TransformError;
use futures_util::TryStreamExt as _;
use tokio_util::task::TaskTracker;

use crate::blobs::{BlobError, BlobId, BlobStore};
use crate::config::StorageConfig;
use cache::{Cache, CachedVariant, Content, Key};
use failures::{Attempts, Turn};
pub(crate) use http::render;
pub(crate) use parameters::Parameters;
use transform::transform;

/// Number of full client queues after which requests of every client are rejected.
const FULL_QUEUES: usize = 16;
/// How long a request waits for its image. Rendering that has started is completed and cached for the next
/// attempt.
const DEADLINE: Duration = Duration::from_secs(15);

/// Renders and caches image variants.
#[derive(Debug)]
pub(crate) struct Images {
    pool: CpuPool,
    tracker: TaskTracker,
    cache: Arc<Cache>,
    attempts: Attempts,
    max_source_pixels: u64,
    max_source_bytes: u64,
}

/// An object that may be an image.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The blob, which is also the object's version.
    pub(crate) blob: BlobId,
    pub(crate) size: u64,
}

/// Why a variant could not be provided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageError {
    #[error(transparent)]
    Transform(#[from] TransformError),
    #[error("The source image is too large for rendering")]
    TooManyBytes,
    /// The queue is full, or the deadline passed.
    #[error("too many image transformations are queued")]
    Busy,
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl Images {
    /// Creates the service with the configured limits. `tracker` tracks its tasks.
    pub(crate) fn new(config: &StorageConfig, tracker: TaskTracker) -> Self {
        Self {
            pool: pool(config.images.queue, &tracker),
            tracker,
            cache: Arc::new(Cache::new(config.dir.join("render"))),
            attempts: Attempts::new(),
            max_source_pixels: config.images.max_source_pixels,
            max_source_bytes: config.images.max_source_size,
        }
    }

    /// Cache key of a variant, also its ETag; computed without rendering.
    pub(crate) fn key(source: &Source, wanted: &Parameters, wants_webp: bool) -> Key {
        Key::new(source.blob, &format!("{wanted:?} {wants_webp}"))
    }

    /// The variant, from the cache or rendered on behalf of `client`.
    ///
    /// # Errors
    /// The source is not an image or is too large, cannot be read, or the queue is full.
    pub(crate) async fn variant(
        &self,
        blobs: &BlobStore,
        source: &Source,
        wanted: &Parameters,
        wants_webp: bool,
        client: Identity,
    ) -> Result<CachedVariant, ImageError> {
        let key = Self::key(source, wanted, wants_webp);
        if let Some(kept) = self.cache.get(&key).await {
            return Ok(kept);
        }
        if source.size > self.max_source_bytes {
            return Err(ImageError::TooManyBytes);
        }
        if let Some(failure) = self.attempts.failure(source.blob) {
            return Err(failure.into());
        }
        let rendering = Rendering { key, wanted: wanted.clone(), wants_webp };
        let rendered = self.render_variant(blobs, source, rendering, client);
        tokio::time::timeout(DEADLINE, rendered).await.map_err(|_| ImageError::Busy)?
    }

    async fn render_variant(
        &self,
        blobs: &BlobStore,
        source: &Source,
        rendering: Rendering,
        client: Identity,
    ) -> Result<CachedVariant, ImageError> {
        let slot = self.pool.slot(client)?;
        let (permit, attempt) = loop {
            let permit = slot.permit().await?;
            // Another request may have rendered the same variant.
            if let Some(kept) = self.cache.get(&rendering.key).await {
                return Ok(kept);
            }
            match self.attempts.begin(source.blob) {
                Turn::Attempt(attempt) => break (permit, attempt),
                Turn::Failed(failure) => return Err(failure.into()),
                Turn::Wait(running) => {
                    drop(permit);
                    running.ended().await;
                }
            }
        };
        let bytes = read(blobs, source).await?;
        let (cache, max_pixels) = (Arc::clone(&self.cache), self.max_source_pixels);
        let made = slot.run(permit, move |()| {
            let start = Instant::now();
            let Rendering { key, wanted, wants_webp } = rendering;
            // The panic is logged. Treat an image that causes one as unsupported.
            let variant =
                catch_unwind(AssertUnwindSafe(|| transform(bytes, &wanted, wants_webp, max_pixels)))
                    .unwrap_or(Err(TransformError::Unsupported));
            match &variant {
                Ok(variant) => cache.put(&key, variant),
                Err(error) if error.is_of_source() => attempt.fail(*error),
                Err(_) => {}
            }
            metrics::record_duration(start.elapsed());
            variant
        });
        let variant = made.await??;
        let size = saturating(variant.bytes.len());
        Ok(CachedVariant { format: variant.format, size, content: Content::Bytes(variant.bytes.into()) })
    }

    /// Removes the cached variants of an object version.
    pub(crate) async fn purge(&self, version: BlobId) {
        let cache = Arc::clone(&self.cache);
        self.blocking(move || cache.purge(version)).await;
    }

    /// Removes all cached variants.
    pub(crate) async fn purge_all(&self) {
        let cache = Arc::clone(&self.cache);
        self.blocking(move || cache.purge_all()).await;
    }

    /// Runs short file operations on a blocking thread.
    async fn blocking(&self, work: impl FnOnce() + Send + 'static) {
        // A panic is logged.
        let _done = self.tracker.spawn_blocking(work).await;
    }
}

/// Creates a pool with half as many threads as there are cores, so that a burst of images leaves processors for
/// requests. Allows `queue` waiting requests per client.
fn pool(queue: usize, tracker: &TaskTracker) -> CpuPool {
    let threads = (available_parallelism().map_or(2, NonZeroUsize::get) / 2).max(1);
    let waiting = queue.saturating_mul(FULL_QUEUES);
    // Transformations take seconds at most, so new clients get a thread soon without reserved ones.
    let limits = CpuPoolLimits { threads, waiting, waiting_per_identity: queue, keeps_headroom: false };
    let in_use = metrics::images(threads.saturating_add(waiting));
    CpuPool::new("image", limits, Priority::Normal, in_use, tracker)
}

impl From<CpuPoolError> for ImageError {
    fn from(_: CpuPoolError) -> Self {
        Self::Busy
    }
}

/// What to render.
struct Rendering {
    key: Key,
    wanted: Parameters,
    wants_webp: bool,
}

/// Reads the complete source; its size is limited.
async fn read(blobs: &BlobStore, source: &Source) -> Result<Vec<u8>, BlobError> {
    let mut bytes = Vec::with_capacity(usize::try_from(source.size).unwrap_or_default());
    let mut stream = blobs.read(source.blob, 0..source.size).await?;
    while let Some(chunk) = stream.try_next().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
