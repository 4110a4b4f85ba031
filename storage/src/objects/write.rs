//! Writes objects for all protocols (storage.md §3.5, §4.6, §4.8).
//!
//! 1. [`Context::bucket`] and [`NewObject::check_rules`] apply the bucket's rules.
//! 2. [`begin`] checks policies with a trial insert that is rolled back, and commits the intent to write a
//!    blob.
//! 3. [`write_body`] stores the bytes without holding a database connection.
//! 4. [`finish`] replaces the intent by the row in one transaction. Of concurrent uploads that must not
//!    overwrite, one succeeds.

use std::sync::Arc;

use basalt_core::identity::Identity;
use basalt_core::service::Deadline;
use basalt_pg::session::{Row, Statement};
use basalt_pg::sql::Param;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::request::Parts;
use md5::{Digest as _, Md5};
use uuid::Uuid;

use super::metadata::ObjectMetadata;
use super::routes::ObjectPath;
use super::row;
use crate::Storage;
use crate::blobs::intents::{self, Intent};
use crate::blobs::{BlobId, Written};
use crate::buckets::row::Bucket;
use crate::buckets::{mime, size_limit};
use crate::caller::Caller;
use crate::database::{Batch, RequestSettings, Step, deadline};
use crate::error::StorageError;
use crate::names;
use crate::operation::Operation;

/// Version in rows of trial inserts, which have no blob yet.
const PROBE_VERSION: &str = "1";
/// Name of the objects that keep empty folders visible in dashboards.
const FOLDER_PLACEHOLDER: &str = ".emptyFolderPlaceholder";
/// Most multi-request uploads a client may have in progress.
pub(crate) const MAX_UNFINISHED_UPLOADS: u32 = 64;
/// How long an upload or move waits for another write of the same object.
pub(crate) const LOCK_LIMIT: LockLimit = LockLimit("5s");
/// How long a copy waits for another write of the same object.
pub(crate) const COPY_LOCK_LIMIT: LockLimit = LockLimit("3s");

const INSERT: &str = "\
insert into storage.objects as o (bucket_id, name, owner, owner_id, version, metadata, user_metadata)
values ($1, $2, $3::uuid, $4, $5, $6::jsonb, $7::jsonb)";
/// Id and creation time are kept. A caller without `sub` does not change the owner.
macro_rules! on_conflict_update {
    () => {
        "
on conflict (bucket_id, name) do update set version = excluded.version, metadata = excluded.metadata,
  user_metadata = excluded.user_metadata, owner_id = coalesce(excluded.owner_id, o.owner_id),
  owner = case when excluded.owner_id is null then o.owner else excluded.owner end"
    };
}
pub(super) use on_conflict_update;

/// A duration in PostgreSQL's syntax.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LockLimit(&'static str);

/// The request and caller of a write.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) storage: Arc<Storage>,
    pub(crate) request: RequestSettings,
    pub(crate) operation: Operation,
    /// Policies apply to this caller.
    pub(crate) caller: Caller,
    /// Renewed for each database step.
    pub(crate) deadline: Deadline,
}

impl Context {
    /// The context of a request by `caller`.
    pub(crate) fn new(storage: &Arc<Storage>, parts: &Parts, operation: Operation, caller: Caller) -> Self {
        Self {
            storage: Arc::clone(storage),
            request: RequestSettings::from_parts(parts),
            operation,
            caller,
            deadline: deadline(parts),
        }
    }

    /// Identity used for fair sharing of the server.
    pub(crate) fn identity(&self) -> Identity {
        self.request.identity(&self.caller)
    }

    /// A batch that starts as the caller.
    pub(crate) fn as_caller(&self) -> Batch {
        self.storage.database.batch(&self.request, self.operation, &self.caller)
    }

    /// A batch that starts as `service_role`.
    pub(crate) fn as_service(&self) -> Batch {
        self.storage.database.batch(&self.request, self.operation, &Caller::service())
    }

    /// Reads a bucket; requires no privileges.
    ///
    /// # Errors
    /// `InvalidBucketName` or `NoSuchBucket`.
    pub(crate) async fn bucket(&self, id: &str) -> Result<Bucket, StorageError> {
        names::check_bucket_name(id)?;
        Bucket::find(&self.storage, &self.request, self.operation, id, self.deadline.renewed()).await
    }
}

/// An object to be written, without its bytes.
#[derive(Debug, Clone)]
pub(crate) struct NewObject {
    pub(crate) at: ObjectPath,
    /// Whether it may replace an existing object.
    pub(crate) upsert: bool,
    /// `sub` of the owner.
    pub(crate) owner: Option<String>,
    /// `Content-Type`.
    pub(crate) mime_type: String,
    /// `Cache-Control`.
    pub(crate) cache_control: String,
    /// `X-Robots-Tag`.
    pub(crate) robots: Option<String>,
    /// User metadata: the text of a JSON object; `None` for null.
    pub(crate) user_metadata: Option<String>,
    /// Length announced by the client; visible to policies.
    pub(crate) announced: Option<u64>,
}

impl NewObject {
    /// Applies the rules of server and bucket, and returns the maximum size. `size` is the size if known;
    /// `protocol_limit` the maximum of the protocol.
    ///
    /// # Errors
    /// `InvalidMimeType`, `EntityTooLarge`, `InvalidKey`, in this order.
    pub(crate) fn check_rules(
        &self,
        storage: &Storage,
        bucket: &Bucket,
        size: Option<u64>,
        protocol_limit: Option<u64>,
    ) -> Result<u64, StorageError> {
        let is_placeholder = self.at.key.rsplit('/').next() == Some(FOLDER_PLACEHOLDER);
        let max_bytes = if is_placeholder {
            0
        } else {
            mime::check(bucket.allowed_mime_types.as_deref(), &self.mime_type)?;
            size_limit::effective(storage.config.max_file_size, bucket.file_size_limit, protocol_limit)
        };
        if size.is_some_and(|size| size > max_bytes) {
            return Err(StorageError::entity_too_large());
        }
        names::check_key(&self.at.key)?;
        Ok(max_bytes)
    }
}

/// Checks policies for writing the object, without writing it.
///
/// # Errors
/// `AccessDenied`, `KeyAlreadyExists`.
pub(crate) async fn probe(cx: &Context, object: &NewObject) -> Result<(), StorageError> {
    let mut batch = cx.as_caller();
    batch.set_lock_limit(LOCK_LIMIT);
    let _row = insert(&mut batch, object, PROBE_VERSION, probe_metadata(object), Returning::Nothing);
    batch.roll_back(cx.deadline.renewed()).await.map(drop)
}

/// Checks policies and, if they allow the write, commits the intent to write a blob, which the caller has to
/// write next.
///
/// # Errors
/// As for [`probe`].
pub(crate) async fn begin(cx: &Context, object: &NewObject) -> Result<Intent, StorageError> {
    let mut batch = cx.as_service();
    batch.set_lock_limit(LOCK_LIMIT);
    batch.savepoint();
    batch.act_as(&cx.caller);
    let _row = insert(&mut batch, object, PROBE_VERSION, probe_metadata(object), Returning::Nothing);
    batch.undo();
    commit_intent(cx, batch).await
}

/// Commits a batch together with the intent for a new blob.
///
/// # Errors
/// The batch failed.
pub(crate) async fn commit_intent(cx: &Context, mut batch: Batch) -> Result<Intent, StorageError> {
    let intent = cx.storage.intents.keep(BlobId::random());
    batch.push(intents::begin_step(intent.blob()));
    match batch.commit(cx.deadline.renewed()).await {
        Ok(_) => Ok(intent),
        Err(error) => {
            if error.status().is_client_error() {
                // The transaction was rolled back, so there is no intent to discard.
                intent.done();
            }
            Err(error)
        }
    }
}

/// Writes the blob of an intent.
///
/// # Errors
/// The body exceeds `max_bytes`, differs from `announced`, or is aborted; the server shuts down; or the
/// store failed.
pub(crate) async fn write_body(
    cx: &Context,
    intent: &Intent,
    max_bytes: u64,
    announced: Option<u64>,
    body: impl Stream<Item = Result<Bytes, StorageError>>,
) -> Result<Written, StorageError> {
    let mut writer = cx.storage.blobs.writer(cx.identity(), intent.blob());
    if let Some(bytes) = announced {
        writer = writer.expecting(bytes);
    }
    let mut body = std::pin::pin!(body);
    let failure = loop {
        // Cancelled when the shutdown's grace period ends.
        let Some(next) = cx.storage.shutdown.run_until_cancelled(body.next()).await else {
            break StorageError::aborted();
        };
        let bytes = match next {
            None if announced.is_some_and(|announced| announced != writer.size()) => {
                break StorageError::aborted();
            }
            None => return Ok(writer.finish().await?),
            Some(Err(error)) => break error,
            Some(Ok(bytes)) => bytes,
        };
        if writer.size() + bytes.len() as u64 > max_bytes {
            break StorageError::entity_too_large();
        }
        if let Err(error) = writer.write(bytes).await {
            break error.into();
        }
    };
    writer.abort().await;
    Err(failure)
}

/// Stored bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) blob: BlobId,
    /// Size in bytes.
    pub(crate) size: u64,
    /// ETag without quotes.
    pub(crate) e_tag: String,
}

impl Content {
    /// Content of a single blob, whose ETag is its MD5.
    pub(crate) fn from_written(intent: &Intent, written: &Written) -> Self {
        Self { blob: intent.blob(), size: written.size, e_tag: hex::encode(written.md5) }
    }
}

/// ETag of bytes stored in parts, computed as S3 does.
pub(crate) fn e_tag_of_parts(md5s: impl IntoIterator<Item = [u8; 16]>) -> String {
    let (mut hash, mut count) = (Md5::new(), 0);
    for md5 in md5s {
        hash.update(md5);
        count += 1;
    }
    format!("{}-{count}", hex::encode(hash.finalize()))
}

/// A statement that must return a row in the transaction that creates an object, and the error if it does
/// not.
#[derive(Debug)]
pub(crate) struct RequiredStatement {
    pub(crate) statement: Statement,
    pub(crate) otherwise: StorageError,
}

/// An object that was written.
#[derive(Debug, Clone)]
pub(crate) struct StoredObject {
    row: Row,
}

impl StoredObject {
    /// Id, which does not change when the object is overwritten.
    pub(crate) fn id(&self) -> &str {
        self.row.text(row::ID).unwrap_or_default()
    }

    /// The object as the API returns it.
    pub(super) fn shown(&self) -> row::ObjectJson<'_> {
        row::ObjectJson::from_row(&self.row)
    }
}

/// Creates the object. Consumes `intent`, whose blob becomes the object's; without an intent, `required` has
/// to detach the blob from its previous row.
///
/// # Errors
/// `KeyAlreadyExists`, `NoSuchBucket`, `LockTimeout`, or the error of a required statement. Nothing is
/// written then.
pub(crate) async fn finish(
    cx: &Context,
    object: &NewObject,
    content: &Content,
    intent: Option<Intent>,
    required: Vec<RequiredStatement>,
) -> Result<StoredObject, StorageError> {
    let metadata = ObjectMetadata {
        e_tag: &format!("\"{}\"", content.e_tag),
        size: content.size,
        mime_type: &object.mime_type,
        cache_control: &object.cache_control,
        robots: object.robots.as_deref(),
        written_at: cx.storage.callers.clock.now(),
    };
    store(cx, object, &metadata.to_json(), content.blob, intent, required, LOCK_LIMIT).await
}

/// Like [`finish`], with given metadata.
pub(super) async fn store(
    cx: &Context,
    object: &NewObject,
    metadata: &str,
    blob: BlobId,
    intent: Option<Intent>,
    required: Vec<RequiredStatement>,
    lock_limit: LockLimit,
) -> Result<StoredObject, StorageError> {
    let mut batch = cx.as_service();
    batch.set_lock_limit(lock_limit);
    lock(&mut batch, &object.at);
    let mut steps_and_errors: Vec<(Step, StorageError)> =
        required.into_iter().map(|required| (batch.push(required.statement), required.otherwise)).collect();
    let stored = insert(&mut batch, object, &blob.to_string(), metadata.to_owned(), Returning::Shown);
    steps_and_errors.push((stored, StorageError::key_already_exists()));
    if let Some(intent) = &intent {
        // The sweeper has discarded the intent, so the bytes may be deleted.
        steps_and_errors.push((batch.push(intents::commit_step(intent.blob())), StorageError::aborted()));
    }
    let steps: Vec<Step> = steps_and_errors.iter().map(|(step, _)| *step).collect();
    let is_complete =
        move |rows: &crate::database::Rows| steps.iter().all(|step| rows.first(*step).is_some());
    let rows = batch.commit_if(cx.deadline.renewed(), is_complete).await.map_err(|error| {
        // The bucket existed when the upload started.
        if error == StorageError::related_missing() { StorageError::no_such_bucket() } else { error }
    })?;
    if let Some((_, error)) = steps_and_errors.into_iter().find(|(step, _)| rows.first(*step).is_none()) {
        return Err(error);
    }
    if let Some(intent) = intent {
        intent.done();
    }
    let row = rows.first(stored).cloned().ok_or_else(StorageError::internal)?;
    Ok(StoredObject { row })
}

/// Serializes the starts of uploads by `client`, so that unfinished ones are counted exactly. Must run as
/// `service_role`.
pub(crate) fn lock_client(batch: &mut Batch, client: &str) {
    const LOCK: &str = "select from pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('storage client:' || $1, 0))";
    let _row = batch.query(LOCK, [client.into()]);
}

/// Serializes writes of one object. Must run as `service_role`.
pub(super) fn lock(batch: &mut Batch, at: &ObjectPath) {
    const LOCK: &str =
        "select from pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('storage:' || $1, 0))";
    let _row = batch.query(LOCK, [at.to_string().into()]);
}

/// Columns returned by a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Returning {
    /// None: policies may forbid the caller to see what it writes.
    Nothing,
    /// The columns of [`row::ObjectJson`].
    Shown,
}

fn insert(
    batch: &mut Batch,
    object: &NewObject,
    version: &str,
    metadata: String,
    returning: Returning,
) -> Step {
    let NewObject { at, owner, user_metadata, .. } = object;
    let conflict = match (object.upsert, returning) {
        (true, _) => on_conflict_update!(),
        // `on conflict` would also apply SELECT policies; without it the unique index reports the conflict.
        (false, Returning::Nothing) => "",
        (false, Returning::Shown) => " on conflict (bucket_id, name) do nothing",
    };
    let returning = match returning {
        Returning::Nothing => "",
        Returning::Shown => concat!(" returning ", row::object_columns!()),
    };
    let params: [Param; 7] = [
        at.bucket.as_str().into(),
        at.key.as_str().into(),
        owner_uuid(owner.as_deref()),
        owner.clone().into(),
        version.into(),
        metadata.into(),
        user_metadata.clone().into(),
    ];
    batch.query(format!("{INSERT}{conflict}{returning}"), params)
}

/// The value of the column `owner`, which is a UUID.
pub(super) fn owner_uuid(owner: Option<&str>) -> Param {
    let owner = owner.and_then(|owner| Uuid::parse_str(owner).ok());
    owner.map(|owner| owner.to_string()).into()
}

/// Metadata visible to policies before the bytes are stored.
fn probe_metadata(object: &NewObject) -> String {
    let mut metadata = serde_json::Map::new();
    let mut set = |name: &str, value: serde_json::Value| drop(metadata.insert(name.to_owned(), value));
    set("mimetype", object.mime_type.as_str().into());
    if let Some(bytes) = object.announced {
        set("contentLength", bytes.into());
    }
    serde_json::Value::Object(metadata).to_string()
}

impl Batch {
    /// Limits how long statements wait for locks.
    pub(super) fn set_lock_limit(&mut self, limit: LockLimit) {
        let _row =
            self.query("select from pg_catalog.set_config('lock_timeout', $1, true)", [limit.0.into()]);
    }
}
