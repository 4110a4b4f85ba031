//! Where backups are stored: a folder or a prefix of a bucket. Writes are atomic: an object appears complete or not at all.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use basalt_storage::S3Config;
use basalt_storage::blobs::open_bucket;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, WriteMultipart,
};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::config::BackupS3Config;
use crate::error::BackupError;
use crate::manifest::{Sha256, StoredFile};

/// Names the project of a target.
const IDENTITY: &str = "basalt-backup.json";
/// The newest format that this release reads.
pub(crate) const FORMAT: u32 = 1;
/// Bytes per part of a large object: a store accepts 10,000 parts.
const PART_BYTES: usize = 16 << 20;
/// Parts in flight.
const PARTS: usize = 2;
/// Time limit of a request for a small object.
const SMALL_LIMIT: Duration = Duration::from_secs(60);
/// Largest object read into memory.
const SMALL_BYTES: u64 = 512 << 20;

/// A place for backups. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Target {
    objects: Arc<dyn ObjectStore>,
    name: Arc<str>,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    format: u32,
    project: String,
}

impl Target {
    /// Opens a target to write to: a folder, which is created if necessary, or `s3://bucket/prefix`. Relative paths start at `base`.
    ///
    /// # Errors
    /// The name is invalid, or the folder cannot be created.
    pub fn create(name: &str, base: &FilePath, s3: &BackupS3Config) -> Result<Self, BackupError> {
        if !name.starts_with("s3://") {
            let dir = base.join(name);
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&dir)
                .map_err(|source| BackupError::file("create the folder", &dir, source))?;
        }
        Self::open(name, base, s3)
    }

    /// Opens an existing target. Sends no request to a bucket yet.
    ///
    /// # Errors
    /// The name is invalid, or the folder does not exist.
    pub fn open(name: &str, base: &FilePath, s3: &BackupS3Config) -> Result<Self, BackupError> {
        let invalid = |reason: String| BackupError::Target(format!("{name}: {reason}"));
        if let Some(rest) = name.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(invalid("names no bucket: use s3://bucket/prefix".to_owned()));
            }
            let config = S3Config {
                endpoint: s3.endpoint.clone(),
                region: s3.region.clone(),
                bucket: Some(bucket.to_owned()),
                access_key_id: s3.access_key_id.clone(),
                secret_access_key: s3.secret_access_key.clone(),
                force_path_style: s3.force_path_style,
            };
            let objects = open_bucket(&config)?;
            let prefix = prefix.trim_matches('/');
            let objects: Arc<dyn ObjectStore> =
                if prefix.is_empty() { objects } else { Arc::new(PrefixStore::new(objects, prefix)) };
            return Ok(Self { objects, name: name.into() });
        }
        if name.contains("://") {
            return Err(invalid("must be a folder or s3://bucket/prefix".to_owned()));
        }
        let dir = base.join(name);
        let dir = dir.canonicalize().map_err(|source| BackupError::file("open the folder", &dir, source))?;
        let objects = LocalFileSystem::new_with_prefix(&dir).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { objects: Arc::new(objects.with_fsync(true)), name: dir.display().to_string().into() })
    }

    /// The folder or URL, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ensures that the target belongs to `project`; an empty one does from now on.
    ///
    /// # Errors
    /// It belongs to another project, was written by a newer release, or does not respond.
    pub async fn claim(&self, project: &str) -> Result<(), BackupError> {
        let identity = Identity { format: FORMAT, project: project.to_owned() };
        let text = serde_json::to_vec(&identity).map_err(|error| BackupError::Failed(error.to_string()))?;
        if self.find(IDENTITY).await?.is_none() && self.put_new(IDENTITY, text.into()).await? {
            return Ok(());
        }
        let found: Identity = self.get_json(IDENTITY).await?;
        if found.format > FORMAT {
            return Err(BackupError::Target(format!(
                "{}: was written by a newer release of Basalt",
                self.name
            )));
        }
        if found.project != project {
            return Err(BackupError::Target(format!(
                "{}: belongs to another project; choose another folder or prefix for this one",
                self.name
            )));
        }
        Ok(())
    }

    /// Writes a small object atomically.
    pub(crate) async fn put(&self, name: &str, content: Bytes) -> Result<(), BackupError> {
        let path = Path::from(name);
        let put = self.objects.put(&path, PutPayload::from_bytes(content));
        let done = timeout(SMALL_LIMIT, put).await.map_err(|_elapsed| self.slow("write", name))?;
        let _result = done.map_err(|error| self.failed("write", name, &error))?;
        Ok(())
    }

    pub(crate) async fn put_json<T: Serialize>(&self, name: &str, content: &T) -> Result<(), BackupError> {
        let text =
            serde_json::to_vec_pretty(content).map_err(|error| BackupError::Failed(error.to_string()))?;
        self.put(name, text.into()).await
    }

    /// Writes a small object unless one of that name exists; returns whether it was written.
    pub(crate) async fn put_new(&self, name: &str, content: Bytes) -> Result<bool, BackupError> {
        let path = Path::from(name);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = self.objects.put_opts(&path, PutPayload::from_bytes(content), options);
        match timeout(SMALL_LIMIT, put).await.map_err(|_elapsed| self.slow("write", name))? {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.failed("write", name, &error)),
        }
    }

    /// The size of an object, if it exists.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<u64>, BackupError> {
        let path = Path::from(name);
        match timeout(SMALL_LIMIT, self.objects.head(&path))
            .await
            .map_err(|_elapsed| self.slow("find", name))?
        {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("find", name, &error)),
        }
    }

    /// Reads an object into memory.
    pub(crate) async fn get(&self, name: &str) -> Result<Bytes, BackupError> {
        let get = async {
            let found = self.objects.get(&Path::from(name)).await?;
            if found.meta.size > SMALL_BYTES {
                return Ok(None);
            }
            found.bytes().await.map(Some)
        };
        let read = timeout(SMALL_LIMIT * 5, get).await.map_err(|_elapsed| self.slow("read", name))?;
        match read {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(self.damaged(name, "it is larger than any such file")),
            Err(object_store::Error::NotFound { .. }) => Err(self.damaged(name, "it is missing")),
            Err(error) => Err(self.failed("read", name, &error)),
        }
    }

    pub(crate) async fn get_json<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<T, BackupError> {
        let bytes = self.get(name).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.damaged(name, &error.to_string()))
    }

    /// Reads a small file of a set and compares its hash.
    pub(crate) async fn get_file(&self, set: &str, file: &StoredFile) -> Result<Bytes, BackupError> {
        let name = format!("sets/{set}/{}", file.name);
        let bytes = self.get(&name).await?;
        let mut hash = Sha256::default();
        hash.update(&bytes);
        if bytes.len() as u64 != file.size || hash.finish() != file.sha256 {
            return Err(self.damaged(&name, "its hash differs from the manifest's"));
        }
        Ok(bytes)
    }

    /// Downloads a file of a set and checks its hash.
    pub(crate) async fn fetch(
        &self,
        set: &str,
        file: &StoredFile,
        path: &FilePath,
    ) -> Result<(), BackupError> {
        let failed = |source| BackupError::file("write", path, source);
        let name = format!("sets/{set}/{}", file.name);
        let mut bytes = self.read(&name).await?;
        let mut copy = tokio::fs::File::create(path).await.map_err(failed)?;
        let (mut hash, mut size) = (Sha256::default(), 0_u64);
        while let Some(chunk) = bytes.try_next().await? {
            hash.update(&chunk);
            size += chunk.len() as u64;
            copy.write_all(&chunk).await.map_err(failed)?;
        }
        copy.flush().await.map_err(failed)?;
        if size != file.size || hash.finish() != file.sha256 {
            return Err(self.damaged(&name, "its hash differs from the manifest's"));
        }
        Ok(())
    }

    /// Streams an object.
    pub(crate) async fn read(
        &self,
        name: &str,
    ) -> Result<BoxStream<'static, Result<Bytes, BackupError>>, BackupError> {
        let found = match self.objects.get(&Path::from(name)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Err(self.damaged(name, "it is missing")),
            Err(error) => return Err(self.failed("read", name, &error)),
        };
        let (this, name) = (self.clone(), name.to_owned());
        Ok(found.into_stream().map_err(move |error| this.failed("read", &name, &error)).boxed())
    }

    /// All objects below `prefix`, sorted by name.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, BackupError> {
        let listed = self.objects.list(Some(&Path::from(prefix)));
        let mut found: Vec<ObjectMeta> =
            listed.try_collect().await.map_err(|error| self.failed("list", prefix, &error))?;
        found.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(found)
    }

    /// Deletes an object if it exists.
    pub(crate) async fn delete(&self, name: &Path) -> Result<(), BackupError> {
        match self.objects.delete(name).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", name.as_ref(), &error)),
        }
    }

    /// Starts writing a large object, which appears with [`Upload::finish`].
    pub(crate) async fn upload(&self, name: &str) -> Result<Upload, BackupError> {
        let started = self.objects.put_multipart(&Path::from(name)).await;
        let upload = started.map_err(|error| self.failed("write", name, &error))?;
        Ok(Upload {
            writer: Some(WriteMultipart::new_with_chunk_size(upload, PART_BYTES)),
            target: self.clone(),
            name: name.to_owned(),
            hash: Sha256::default(),
            size: 0,
        })
    }

    pub(crate) fn damaged(&self, name: &str, problem: &str) -> BackupError {
        BackupError::Damaged {
            name: name.to_owned(),
            target: self.name.to_string(),
            problem: problem.to_owned(),
        }
    }

    fn failed(&self, action: &'static str, name: &str, error: &object_store::Error) -> BackupError {
        let reason = basalt_core::error::with_cause(error);
        BackupError::Store { action, name: name.to_owned(), target: self.name.to_string(), reason }
    }

    fn slow(&self, action: &'static str, name: &str) -> BackupError {
        let reason = "no response in time".to_owned();
        BackupError::Store { action, name: name.to_owned(), target: self.name.to_string(), reason }
    }
}

/// A large object being written. Dropping it discards what was written.
pub(crate) struct Upload {
    /// `None` once finished or aborted.
    writer: Option<WriteMultipart>,
    target: Target,
    name: String,
    hash: Sha256,
    size: u64,
}

impl Upload {
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<(), BackupError> {
        self.hash.update(&bytes);
        self.size += bytes.len() as u64;
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let ready = writer.wait_for_capacity(PARTS).await;
        ready.map_err(|error| self.target.failed("write", &self.name, &error))?;
        writer.put(bytes);
        Ok(())
    }

    /// Completes the object; returns its size and hash.
    pub(crate) async fn finish(mut self) -> Result<(u64, String), BackupError> {
        if let Some(writer) = self.writer.take() {
            let done = writer.finish().await;
            let _result = done.map_err(|error| self.target.failed("write", &self.name, &error))?;
        }
        Ok((self.size, std::mem::take(&mut self.hash).finish()))
    }

    pub(crate) async fn abort(mut self) {
        if let Some(writer) = self.writer.take()
            && let Err(error) = writer.abort().await
        {
            tracing::debug!(%error, name = self.name, "cannot discard a partial backup file");
        }
    }
}
