//! Reads an object's row: the bucket as `service_role`, the object as its reader, in one round trip
//! (storage.md §3.6, §4.6).

use std::ops::Range;

use basalt_core::service::Deadline;
use basalt_pg::session::Row;
use basalt_pg::sql::Param;
use jiff::Timestamp;
use serde_json::Value;

use super::conditions::Validators;
use super::routes::ObjectPath;
use crate::Storage;
use crate::blobs::{BlobError, BlobId, BlobStream};
use crate::caller::Caller;
use crate::database::{RequestSettings, Rows, Step};
use crate::error::StorageError;
use crate::operation::Operation;

/// Columns of [`StoredObject`]; `$3` selects the user metadata, which may be large.
macro_rules! object_columns {
    () => {
        "o.id, o.version, o.metadata::text, case when $3::boolean then o.user_metadata::text end, \
         to_char(o.created_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), \
         to_char(o.updated_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
    };
}

/// The bucket, and the object if no policy applies: in a public bucket, or for the server (`$4`).
const BUCKET: &str = concat!(
    "select coalesce(b.public, false), ",
    object_columns!(),
    " from storage.buckets b \
     left join storage.objects o on o.bucket_id = b.id and o.name = $2 and (b.public or $4::boolean) \
     where b.id = $1"
);
/// The object, if visible under policies.
const OBJECT: &str = concat!(
    "select null, ",
    object_columns!(),
    " from storage.objects o where o.bucket_id = $1 and o.name = $2"
);

/// Who reads an object, and whether policies apply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reader<'a> {
    /// Anonymous: public buckets only.
    Public,
    /// A caller; policies apply unless the bucket is public.
    Caller(&'a Caller),
    /// A caller; policies apply even in public buckets.
    PolicyCheckedCaller(&'a Caller),
    /// The server, for a signed URL.
    Service,
}

/// A lookup of one object.
#[derive(Clone)]
pub(crate) struct Lookup<'a> {
    storage: &'a Storage,
    request: &'a RequestSettings,
    operation: Operation,
    reader: Reader<'a>,
    at: &'a ObjectPath,
    user_metadata: bool,
    deadline: Deadline,
}

/// An object whose bytes are ready to be streamed.
pub(crate) struct Opened {
    /// The object's current row.
    pub(crate) object: StoredObject,
    /// Size of the object.
    pub(crate) size: u64,
    /// The requested part; `None` for all bytes.
    pub(crate) part: Option<Range<u64>>,
    /// The bytes of that part.
    pub(crate) bytes: BlobStream,
}

/// A row of `storage.objects`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredObject {
    /// Id, which does not change when the object is overwritten.
    pub(crate) id: String,
    /// Version, equal to the id of its blob.
    pub(crate) version: Option<String>,
    /// Metadata recorded by the server.
    pub(crate) metadata: ObjectMetadata,
    /// User metadata as JSON.
    pub(crate) user_metadata: Option<String>,
    /// ISO 8601 with milliseconds.
    pub(crate) created_at: String,
    /// Same format as `created_at`.
    pub(crate) updated_at: String,
}

/// `storage.objects.metadata`. Rows created elsewhere may lack any member.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ObjectMetadata {
    /// With quotes.
    pub(crate) e_tag: Option<String>,
    /// Size in bytes.
    pub(crate) size: Option<u64>,
    /// Served as `application/octet-stream` if missing.
    pub(crate) mime_type: Option<String>,
    /// `Cache-Control`, as stored.
    pub(crate) cache_control: Option<String>,
    /// When the bytes were written.
    pub(crate) last_modified: Option<Timestamp>,
    /// `X-Robots-Tag`, as stored.
    pub(crate) robots: Option<String>,
}

impl ObjectMetadata {
    fn parse(text: &str) -> Self {
        let members: Value = serde_json::from_str(text).unwrap_or_default();
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            e_tag: text("eTag"),
            // Other tools may have stored a string.
            size: members
                .get("size")
                .and_then(|size| size.as_u64().or_else(|| size.as_str().and_then(|size| size.parse().ok()))),
            mime_type: text("mimetype"),
            cache_control: text("cacheControl"),
            last_modified: text("lastModified").and_then(|time| time.parse().ok()),
            robots: text("xRobotsTag"),
        }
    }
}

impl StoredObject {
    /// Blob and size. `None` for a row created without bytes.
    pub(crate) fn blob(&self) -> Option<(BlobId, u64)> {
        Some((BlobId::parse(self.version.as_deref()?)?, self.metadata.size?))
    }

    /// When the bytes were written, as far as the row tells.
    pub(crate) fn last_modified(&self) -> Option<Timestamp> {
        self.metadata.last_modified.or_else(|| self.updated_at.parse().ok())
    }

    /// Validators for conditional requests.
    pub(crate) fn validators(&self) -> Validators<'_> {
        Validators { e_tag: self.metadata.e_tag.as_deref(), last_modified: self.last_modified() }
    }

    fn from_row(row: &Row) -> Option<Self> {
        let text = |column| row.text(column).map(str::to_owned);
        Some(Self {
            id: text(1)?,
            version: text(2),
            metadata: row.text(3).map(ObjectMetadata::parse).unwrap_or_default(),
            user_metadata: text(4),
            created_at: text(5).unwrap_or_default(),
            updated_at: text(6).unwrap_or_default(),
        })
    }
}

impl<'a> Lookup<'a> {
    /// Looks up the object at `at`; the bucket name must be valid.
    pub(crate) const fn new(
        storage: &'a Storage,
        request: &'a RequestSettings,
        operation: Operation,
        reader: Reader<'a>,
        at: &'a ObjectPath,
        deadline: Deadline,
    ) -> Self {
        Self { storage, request, operation, reader, at, user_metadata: false, deadline }
    }

    /// Also reads [`StoredObject::user_metadata`].
    pub(crate) const fn with_user_metadata(self) -> Self {
        Self { user_metadata: true, ..self }
    }

    /// Returns the object if the reader may read it.
    ///
    /// # Errors
    /// `NoSuchBucket` if the bucket is not public, for [`Reader::Public`]; `NoSuchKey` if the object does
    /// not exist or policies hide it; or a database error.
    pub(crate) async fn find(&self) -> Result<StoredObject, StorageError> {
        let ObjectPath { bucket, key } = self.at;
        // Neither PostgreSQL nor an object name accepts NUL.
        if bucket.contains('\0') || key.contains('\0') {
            return Err(StorageError::no_such_key());
        }
        match self.reader {
            Reader::Public | Reader::Service => self.find_as(None, self.reader).await,
            Reader::PolicyCheckedCaller(caller) => self.find_with_policies(caller).await,
            Reader::Caller(caller) => match self.find_as(Some(caller), self.reader).await {
                // In a public bucket a failing policy or a missing role must not matter: try again without
                // the caller.
                Err(refusal) if is_permission_error(&refusal) => {
                    self.find_as(None, Reader::Public).await.map_err(|_| refusal)
                }
                found => found,
            },
        }
    }

    async fn find_as(
        &self,
        caller: Option<&Caller>,
        reader: Reader<'_>,
    ) -> Result<StoredObject, StorageError> {
        let Self { storage, request, operation, .. } = self;
        let mut batch = storage.database.batch(request, *operation, &Caller::service());
        let [bucket, key, user_metadata] = self.parameters();
        let is_service = flag(matches!(reader, Reader::Service));
        let bucket = batch.query(BUCKET, [bucket, key, user_metadata, is_service]);
        let object = caller.map(|caller| {
            batch.act_as(caller);
            batch.query(OBJECT, self.parameters())
        });
        let rows = batch.read(self.deadline.renewed()).await?;
        select_row(&rows, bucket, object, reader)
    }

    async fn find_with_policies(&self, caller: &Caller) -> Result<StoredObject, StorageError> {
        let Self { storage, request, operation, .. } = self;
        let mut batch = storage.database.batch(request, *operation, caller);
        let object = batch.query(OBJECT, self.parameters());
        let rows = batch.read(self.deadline.renewed()).await?;
        rows.first(object).and_then(StoredObject::from_row).ok_or_else(StorageError::no_such_key)
    }

    fn parameters(&self) -> [Param; 3] {
        let ObjectPath { bucket, key } = self.at;
        [bucket.as_str().into(), key.as_str().into(), flag(self.user_metadata)]
    }

    /// Opens the bytes of an object returned by [`Lookup::find`]. `select_range` receives the object and its
    /// size, and returns the requested range.
    ///
    /// The blob of an overwritten object is kept for some minutes only; if it is gone, the object is looked
    /// up once more.
    ///
    /// # Errors
    /// `NoSuchKey` if the row has no bytes or is deleted; or an error of `select_range` or the store.
    pub(crate) async fn open(
        &self,
        found: StoredObject,
        select_range: impl Fn(&StoredObject, u64) -> Result<Option<Range<u64>>, StorageError>,
    ) -> Result<Opened, StorageError> {
        let missing = match self.open_version(&found, &select_range).await? {
            Ok((size, part, bytes)) => return Ok(Opened { object: found, size, part, bytes }),
            Err(missing) => missing,
        };
        let object = self.find().await?;
        if object.version == found.version {
            return Err(missing.into());
        }
        let (size, part, bytes) = self.open_version(&object, &select_range).await??;
        Ok(Opened { object, size, part, bytes })
    }

    /// The inner error means that the blob does not exist.
    async fn open_version(
        &self,
        object: &StoredObject,
        select_range: impl Fn(&StoredObject, u64) -> Result<Option<Range<u64>>, StorageError>,
    ) -> Result<Result<(u64, Option<Range<u64>>, BlobStream), BlobError>, StorageError> {
        // Rows created in SQL may have no blob.
        let (blob, size) = object.blob().ok_or_else(StorageError::no_such_key)?;
        let part = select_range(object, size)?;
        match self.storage.blobs.read(blob, part.clone().unwrap_or(0..size)).await {
            Ok(bytes) => Ok(Ok((size, part, bytes))),
            Err(missing @ BlobError::NotFound(_)) => Ok(Err(missing)),
            Err(error) => Err(error.into()),
        }
    }
}

fn select_row(
    rows: &Rows,
    bucket: Step,
    object: Option<Step>,
    reader: Reader<'_>,
) -> Result<StoredObject, StorageError> {
    let found = rows.first(bucket);
    let is_public = found.is_some_and(|row| row.text(0) == Some("t"));
    if !is_public && matches!(reader, Reader::Public) {
        return Err(StorageError::no_such_bucket());
    }
    // In a public bucket the caller's view is irrelevant: policies may hide what the public URL shows.
    let row = if is_public { found } else { object.map_or(found, |object| rows.first(object)) };
    row.and_then(StoredObject::from_row).ok_or_else(StorageError::no_such_key)
}

fn flag(value: bool) -> Param {
    if value { "t" } else { "f" }.into()
}

/// Whether policies or privileges failed, as opposed to the database.
fn is_permission_error(error: &StorageError) -> bool {
    matches!(error.code(), "DatabaseError" | "AccessDenied" | "DatabaseSchemaMismatch" | "InvalidParameter")
}
