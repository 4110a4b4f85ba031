//! A row of `storage.buckets` and its JSON representation.

use basalt_core::service::Deadline;
use basalt_pg::session::Row;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Storage;
use crate::caller::Caller;
use crate::database::{Batch, RequestSettings, Step};
use crate::error::StorageError;
use crate::operation::Operation;

/// Bucket settings that apply to objects. Read as `service_role`: object routes require no privileges on
/// buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Id used in paths.
    pub(crate) id: String,
    /// Whether everyone may read its objects.
    pub(crate) is_public: bool,
    /// Maximum object size in bytes.
    pub(crate) file_size_limit: Option<u64>,
    /// Allowed MIME types.
    pub(crate) allowed_mime_types: Option<Vec<String>>,
}

impl Bucket {
    /// Adds the query to a batch that runs as `service_role` at that point.
    pub(crate) fn query_in(batch: &mut Batch, id: &str) -> Step {
        const QUERY: &str = "select id, public, file_size_limit, to_json(allowed_mime_types) \
                               from storage.buckets where id = $1";
        batch.query(QUERY, [id.into()])
    }

    /// From a row of [`Self::query_in`].
    pub(crate) fn from_row(row: &Row) -> Self {
        Self {
            id: row.text(0).unwrap_or_default().to_owned(),
            is_public: row.text(1) == Some("t"),
            file_size_limit: row.number(2).map(|bytes| u64::try_from(bytes).unwrap_or_default()),
            allowed_mime_types: row.text(3).and_then(|list| serde_json::from_str(list).ok()),
        }
    }

    /// Reads a bucket in a separate transaction.
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub(crate) async fn find(
        storage: &Storage,
        request: &RequestSettings,
        operation: Operation,
        id: &str,
        deadline: Deadline,
    ) -> Result<Self, StorageError> {
        let mut batch = storage.database.batch(request, operation, &Caller::service());
        let found = Self::query_in(&mut batch, id);
        let rows = batch.read(deadline).await?;
        rows.first(found).map(Self::from_row).ok_or_else(StorageError::no_such_bucket)
    }
}

/// Columns of [`BucketJson`].
pub(super) const COLUMNS: &str = "id, name, owner, public, file_size_limit, to_json(allowed_mime_types), \
     to_char(created_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), \
     to_char(updated_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), type";

/// A bucket as the API returns it. A null owner becomes `""`.
#[derive(Debug, Serialize)]
pub(super) struct BucketJson<'a> {
    id: &'a str,
    name: &'a str,
    owner: &'a str,
    public: bool,
    file_size_limit: Option<i64>,
    allowed_mime_types: Option<Box<RawValue>>,
    created_at: Option<&'a str>,
    updated_at: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
}

impl<'a> BucketJson<'a> {
    /// From a row of [`COLUMNS`]; only lists include the type.
    pub(super) fn from_row(row: &'a Row, has_type: bool) -> Self {
        Self {
            id: row.text(0).unwrap_or_default(),
            name: row.text(1).unwrap_or_default(),
            owner: row.text(2).unwrap_or_default(),
            public: row.text(3) == Some("t"),
            file_size_limit: row.number(4),
            allowed_mime_types: row.text(5).and_then(|list| RawValue::from_string(list.to_owned()).ok()),
            created_at: row.text(6),
            updated_at: row.text(7),
            kind: row.text(8).filter(|_| has_type),
        }
    }
}
