//! Cache of rendered variants as files of this server: `render/` in `storage.dir`, whichever store holds the
//! blobs. A variant's name contains its object's version, so entries never become stale, only unused; the
//! least recently used are removed when the cache is full. Files survive restarts, and any of them may
//! disappear at any time.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use basalt_core::convert::saturating;
use bytes::Bytes;
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use tokio::fs::File;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::metrics::{self, Gauge};
use super::transform::Variant;
use crate::blobs::BlobId;
use crate::lower_hex;
use basalt_images::Output;

/// Maximum size of the cache.
const LIMIT_BYTES: u64 = 1024 * 1024 * 1024;
/// Files up to this size are read into memory; larger ones are streamed.
const MAX_BUFFERED_BYTES: u64 = 256 * 1024;
/// Part of every name. Increase it to invalidate all cached variants, when the same request produces
/// different bytes.
const REVISION: &str = "2";

/// Name of a variant: source and transformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Hash of the source's version; variants of one source share a folder.
    source: [u8; 16],
    variant: [u8; 16],
}

impl Key {
    /// Key of the source with this version, transformed as described by `how`.
    pub(super) fn new(version: BlobId, how: &str) -> Self {
        let version = version.to_string();
        let version = version.as_str();
        Self { source: hash(&[version]), variant: hash(&[REVISION, version, how]) }
    }

    /// ETag of the variant, with quotes.
    pub(crate) fn etag(&self) -> String {
        format!("\"{}\"", hex::encode(self.variant))
    }
}

/// First half of SHA-256. The parts contain no NUL: they are UUIDs and texts of ours.
fn hash(parts: &[&str]) -> [u8; 16] {
    let found = digest(&SHA256, parts.join("\0").as_bytes());
    let mut half = [0; 16];
    half.iter_mut().zip(found.as_ref()).for_each(|(to, from)| *to = *from);
    half
}

/// A cached variant.
#[derive(Debug)]
pub(crate) struct CachedVariant {
    pub(crate) format: Output,
    pub(crate) size: u64,
    pub(crate) content: Content,
}

/// Content of a variant.
#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Bytes),
    /// Streamed, to avoid holding a large file in memory for a slow client.
    File(File),
}

/// The cache and its index.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
    limit: u64,
    bytes: Gauge,
    /// Read from the folder on first use.
    index: OnceCell<Mutex<Index>>,
}

#[derive(Debug)]
struct Index {
    entries: LruCache<Key, Entry>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    format: Output,
    size: u64,
}

impl Cache {
    /// Uses this folder, which is created when needed.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self::with_limit(dir, LIMIT_BYTES)
    }

    fn with_limit(dir: PathBuf, limit: u64) -> Self {
        Self { dir, limit, bytes: metrics::cache_bytes(limit), index: OnceCell::new() }
    }

    /// The variant, if cached.
    pub(super) async fn get(&self, key: &Key) -> Option<CachedVariant> {
        let entry = self.index().await.entries.get(key).copied();
        let kept = match entry {
            Some(entry) => self.open(key, entry).await,
            None => None,
        };
        if kept.is_none() && entry.is_some() {
            self.remove_entry(&mut *self.index().await, key);
        }
        metrics::count_lookup(kept.is_some());
        kept
    }

    async fn open(&self, key: &Key, Entry { format, size }: Entry) -> Option<CachedVariant> {
        let path = self.path(key, format);
        let content = if size <= MAX_BUFFERED_BYTES {
            let bytes = tokio::fs::read(path).await.ok()?;
            if saturating::<u64>(bytes.len()) != size {
                return None;
            }
            Content::Bytes(bytes.into())
        } else {
            let file = File::open(path).await.ok()?;
            if file.metadata().await.ok()?.len() != size {
                return None;
            }
            Content::File(file)
        };
        Some(CachedVariant { format, size, content })
    }

    /// Adds a variant. Blocking. [`Cache::get`] must have been called before.
    pub(super) fn put(&self, key: &Key, variant: &Variant) {
        let size = saturating(variant.bytes.len());
        // A variant that would evict most others is not cached.
        let (true, Some(index)) = (size <= self.limit / 8, self.index.get()) else { return };
        if let Err(error) = self.write(key, variant) {
            tracing::warn!(%error, dir = %self.dir.display(), "could not cache an image variant");
            return;
        }
        let entry = Entry { format: variant.format, size };
        let mut unused = Vec::new();
        {
            let mut index = lock(index);
            index.bytes += size;
            // Two requests may have rendered the same variant.
            if let Some(before) = index.entries.put(*key, entry) {
                index.bytes -= before.size;
            }
            while index.bytes > self.limit
                && let Some((old_key, old)) = index.entries.pop_lru()
            {
                index.bytes -= old.size;
                unused.push((old_key, old));
            }
            self.bytes.set(metrics::count(index.bytes));
        }
        for (key, Entry { format, .. }) in unused {
            remove(&self.path(&key, format));
        }
    }

    /// Writes under a temporary name first, so that readers never see a partial file, even after a power
    /// failure.
    fn write(&self, key: &Key, variant: &Variant) -> io::Result<()> {
        let path = self.path(key, variant.format);
        let unfinished = path.with_extension(Uuid::new_v4().to_string());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let written = fs::File::create_new(&unfinished).and_then(|mut file| {
            file.write_all(&variant.bytes)?;
            file.sync_data()
        });
        let renamed = written.and_then(|()| fs::rename(&unfinished, &path));
        if renamed.is_err() {
            remove(&unfinished);
        }
        renamed
    }

    /// Removes all variants of an object version. Blocking.
    pub(super) fn purge(&self, version: BlobId) {
        let source = hash(&[&version.to_string()]);
        let Ok(files) = fs::read_dir(self.folder(&source)) else { return };
        for file in files.flatten() {
            remove(&file.path());
            if let Some(index) = self.index.get()
                && let Some((variant, _)) = file.file_name().to_str().and_then(parse)
            {
                self.remove_entry(&mut lock(index), &Key { source, variant });
            }
        }
    }

    /// Removes all variants. Blocking.
    pub(super) fn purge_all(&self) {
        if let Some(index) = self.index.get() {
            let mut index = lock(index);
            index.entries.clear();
            index.bytes = 0;
            self.bytes.set(0.0);
        }
        if let Err(error) = fs::remove_dir_all(&self.dir)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, dir = %self.dir.display(), "could not empty the image cache");
        }
    }

    fn remove_entry(&self, index: &mut Index, key: &Key) {
        if let Some(entry) = index.entries.pop(key) {
            index.bytes -= entry.size;
            self.bytes.set(metrics::count(index.bytes));
        }
    }

    fn folder(&self, source: &[u8; 16]) -> PathBuf {
        let name = hex::encode(source);
        self.dir.join(name.get(..2).unwrap_or_default()).join(name)
    }

    fn path(&self, key: &Key, format: Output) -> PathBuf {
        self.folder(&key.source).join(format!("{}.{}", hex::encode(key.variant), format.extension()))
    }

    async fn index(&self) -> MutexGuard<'_, Index> {
        let index = self.index.get_or_init(|| async {
            let dir = self.dir.clone();
            let found = tokio::task::spawn_blocking(move || scan(&dir)).await.unwrap_or_default();
            let mut index = Index { entries: LruCache::unbounded(), bytes: 0 };
            for (_, key, entry) in found {
                index.bytes += entry.size;
                index.entries.put(key, entry);
            }
            self.bytes.set(metrics::count(index.bytes));
            Mutex::new(index)
        });
        lock(index.await)
    }
}

/// Held briefly, never while a file is read or written.
fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock()
}

/// Variant hash and format from a file name.
fn parse(name: &str) -> Option<([u8; 16], Output)> {
    let (variant, extension) = name.split_once('.')?;
    let format = Output::ALL.into_iter().find(|format| format.extension() == extension)?;
    Some((lower_hex::decode(variant)?, format))
}

/// Entries of the folder, oldest first. Removes unfinished files of a crashed server.
fn scan(dir: &Path) -> Vec<(i64, Key, Entry)> {
    let mut found = Vec::new();
    let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    for folder in list(dir).flat_map(|shard| list(&shard.path())) {
        let Some(source) = folder.file_name().to_str().and_then(lower_hex::decode) else { continue };
        for file in list(&folder.path()) {
            match (file.file_name().to_str().and_then(parse), file.metadata()) {
                (Some((variant, format)), Ok(metadata)) => {
                    let entry = Entry { format, size: metadata.len() };
                    found.push((metadata.mtime(), Key { source, variant }, entry));
                }
                (None, _) => remove(&file.path()),
                (Some(_), Err(_)) => {}
            }
        }
    }
    found.sort_by_key(|(written, ..)| *written);
    found
}

/// If removal fails, the file occupies space until the next start; nothing else depends on it.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "could not remove an image variant");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(size: usize) -> Variant {
        Variant { format: Output::WebP, bytes: vec![7; size] }
    }

    async fn kept(cache: &Cache, key: &Key) -> Option<u64> {
        let kept = cache.get(key).await?;
        match kept.content {
            Content::Bytes(bytes) => assert_eq!(saturating::<u64>(bytes.len()), kept.size),
            Content::File(file) => assert_eq!(file.metadata().await.unwrap().len(), kept.size),
        }
        assert_eq!(kept.format, Output::WebP);
        Some(kept.size)
    }

    fn files(dir: &Path) -> usize {
        let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
        list(dir).flat_map(|one| list(&one.path())).flat_map(|two| list(&two.path())).count()
    }

    #[tokio::test]
    async fn variants_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let version = BlobId::random();
        let (small, large) = (Key::new(version, "small"), Key::new(version, "large"));
        let cache = Cache::new(dir.path().join("render"));
        assert_eq!(kept(&cache, &small).await, None);
        cache.put(&small, &variant(10));
        cache.put(&large, &variant(1_000_000));
        let left_over =
            cache.folder(&small.source).join(format!("{}.{}", hex::encode(small.variant), Uuid::new_v4()));
        fs::write(&left_over, "x").unwrap();
        let cache = Cache::new(dir.path().join("render"));
        assert_eq!((kept(&cache, &small).await, kept(&cache, &large).await), (Some(10), Some(1_000_000)));
        assert_eq!(cache.index().await.bytes, 1_000_010);
        assert!(!left_over.exists());
    }

    #[tokio::test]
    async fn evicts_the_least_recently_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::with_limit(dir.path().into(), 1000);
        let keys: Vec<Key> = (0..5).map(|_| Key::new(BlobId::random(), "")).collect();
        assert_eq!(kept(&cache, &keys[0]).await, None);
        // Too large for this cache.
        cache.put(&keys[0], &variant(126));
        assert_eq!(kept(&cache, &keys[0]).await, None);
        for round in 0..4 {
            for key in &keys {
                cache.put(key, &variant(120 + round));
            }
        }
        assert_eq!((cache.index().await.bytes, files(dir.path())), (5 * 123, 5));
        assert!(kept(&cache, &keys[0]).await.is_some());
        for _ in 5..9 {
            cache.put(&Key::new(BlobId::random(), ""), &variant(125));
        }
        assert_eq!((kept(&cache, &keys[1]).await, kept(&cache, &keys[0]).await), (None, Some(123)));
        let bytes = cache.index().await.bytes;
        assert!(bytes <= 1000);
        assert_eq!(files(dir.path()), cache.index().await.entries.len());
    }

    #[tokio::test]
    async fn missing_or_truncated_file_is_a_miss() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().into());
        for size in [10, 1_000_000] {
            let key = Key::new(BlobId::random(), "");
            assert_eq!(kept(&cache, &key).await, None);
            for breaks in [true, false] {
                cache.put(&key, &variant(size));
                let path = cache.path(&key, Output::WebP);
                if breaks {
                    fs::write(&path, "x").unwrap()
                } else {
                    fs::remove_file(&path).unwrap()
                }
                assert_eq!(kept(&cache, &key).await, None);
            }
        }
        assert_eq!(cache.index().await.bytes, 0);
    }

    #[tokio::test]
    async fn purges_one_version_or_all() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().join("render"));
        let (a, b) = (BlobId::random(), BlobId::random());
        let keys = [(a, "1"), (a, "2"), (b, "1")].map(|(version, how)| Key::new(version, how));
        assert_eq!(kept(&cache, &keys[0]).await, None);
        keys.iter().for_each(|key| cache.put(key, &variant(10)));
        cache.purge(a);
        assert_eq!((kept(&cache, &keys[1]).await, kept(&cache, &keys[2]).await), (None, Some(10)));
        assert_eq!(files(&cache.dir), 1);
        cache.purge_all();
        assert_eq!((kept(&cache, &keys[2]).await, cache.index().await.bytes), (None, 0));
        cache.put(&keys[0], &variant(10));
        assert_eq!(kept(&cache, &keys[0]).await, Some(10));
    }
}
