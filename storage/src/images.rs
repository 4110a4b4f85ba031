//! Images in the size and format that a request asks for (storage.md §3.14). A variant is made once and then kept in a folder
//! of this server's ([`cache`]); making one waits for its turn ([`pool`]). What decoders and encoders we use, and why there is
//! no AVIF, is in decision 0060.

mod cache;
mod geometry;
mod http;
mod metrics;
mod parameters;
mod pool;
mod transform;

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio_util::task::TaskTracker;

use crate::blobs::{BlobError, BlobId, BlobStore};
use crate::config::StorageConfig;
use cache::{Cache, Content, Kept, Key};
pub(crate) use http::render;
pub(crate) use parameters::Parameters;
use pool::{Pool, PoolError};
use transform::{TransformError, transform};

/// How long a request waits for its image. One that has begun by then is made to its end, and kept for those who try again.
const DEADLINE: Duration = Duration::from_secs(15);

/// Makes and keeps variants of images.
#[derive(Debug)]
pub(crate) struct Images {
    pool: Pool,
    cache: Arc<Cache>,
    max_source_pixels: u64,
    max_source_bytes: u64,
}

/// An object that may be an image.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its bytes, and the version of its row.
    pub(crate) blob: BlobId,
    pub(crate) size: u64,
}

/// Why there is no variant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageError {
    #[error(transparent)]
    Transform(#[from] TransformError),
    #[error("The source image is too large for rendering")]
    TooManyBytes,
    /// The queue is full, or the deadline passed.
    #[error("too many images are waiting to be made")]
    Busy,
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl Images {
    /// With the configuration's bounds. `tracker` knows of what runs.
    pub(crate) fn new(config: &StorageConfig, tracker: TaskTracker) -> Self {
        Self {
            pool: Pool::new(config.images.queue, tracker),
            cache: Arc::new(Cache::new(config.dir.join("render"))),
            max_source_pixels: config.images.max_source_pixels,
            max_source_bytes: config.images.max_source_size,
        }
    }

    /// The name of a variant, which is its ETag too: known without making it.
    pub(crate) fn key(source: &Source, wanted: &Parameters, wants_webp: bool) -> Key {
        Key::new(source.blob, &format!("{wanted:?} {wants_webp}"))
    }

    /// The variant of this key, kept or made.
    ///
    /// # Errors
    /// The source is no image or too large, its bytes cannot be read, or there is too much to do.
    pub(crate) async fn variant(
        &self,
        blobs: &BlobStore,
        source: &Source,
        wanted: &Parameters,
        wants_webp: bool,
    ) -> Result<Kept, ImageError> {
        let key = Self::key(source, wanted, wants_webp);
        if let Some(kept) = self.cache.get(&key).await {
            return Ok(kept);
        }
        if source.size > self.max_source_bytes {
            return Err(ImageError::TooManyBytes);
        }
        let making = self.make(blobs, source, key, wanted.clone(), wants_webp);
        tokio::time::timeout(DEADLINE, making).await.map_err(|_| ImageError::Busy)?
    }

    async fn make(
        &self,
        blobs: &BlobStore,
        source: &Source,
        key: Key,
        wanted: Parameters,
        wants_webp: bool,
    ) -> Result<Kept, ImageError> {
        let turn = match self.pool.place() {
            Ok(place) => place.turn().await,
            Err(error) => Err(error),
        };
        let turn = turn.map_err(|_full| ImageError::Busy)?;
        // The same image may have been asked for twice.
        if let Some(kept) = self.cache.get(&key).await {
            return Ok(kept);
        }
        let bytes = read(blobs, source).await?;
        let (cache, max_pixels) = (Arc::clone(&self.cache), self.max_source_pixels);
        let made = turn.run(move || {
            let variant = transform(bytes, &wanted, wants_webp, max_pixels)?;
            cache.put(&key, &variant);
            Ok::<_, TransformError>(variant)
        });
        let variant = made.await.map_err(|error| match error {
            PoolError::Full => ImageError::Busy,
            // The panic is in the log. An image that does that is none that we can read.
            PoolError::Panicked => TransformError::Unsupported.into(),
        })??;
        let size = metrics::length(variant.bytes.len());
        Ok(Kept { format: variant.format, size, content: Content::Bytes(variant.bytes.into()) })
    }

    /// Drops the kept variants of an object's version.
    pub(crate) async fn purge(&self, version: BlobId) {
        let cache = Arc::clone(&self.cache);
        self.pool.blocking(move || cache.purge(version)).await;
    }

    /// Drops all kept variants.
    pub(crate) async fn purge_all(&self) {
        let cache = Arc::clone(&self.cache);
        self.pool.blocking(move || cache.purge_all()).await;
    }
}

/// The whole source; its size is bounded.
async fn read(blobs: &BlobStore, source: &Source) -> Result<Vec<u8>, BlobError> {
    let mut bytes = Vec::with_capacity(usize::try_from(source.size).unwrap_or_default());
    let mut stream = blobs.read(source.blob, 0..source.size).await?;
    while let Some(chunk) = stream.try_next().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
