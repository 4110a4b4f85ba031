//! A row of `storage.objects` and its JSON representation (storage.md §3.10, §3.11).

use basalt_pg::session::Row;
use serde::Serialize;
use serde_json::value::RawValue;

/// Columns of [`ObjectJson`].
macro_rules! object_columns {
    () => {
        "name, bucket_id, owner, owner_id, version, id, \
         to_char(updated_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), \
         to_char(created_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), \
         to_char(last_accessed_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), \
         metadata, user_metadata"
    };
}
pub(super) use object_columns;

/// Index of the column `id`.
pub(super) const ID: usize = 5;

/// An object as the API returns it. A null owner becomes `""`.
#[derive(Debug, Serialize)]
pub(super) struct ObjectJson<'a> {
    name: Option<&'a str>,
    bucket_id: Option<&'a str>,
    owner: &'a str,
    owner_id: &'a str,
    version: Option<&'a str>,
    id: &'a str,
    updated_at: Option<&'a str>,
    created_at: Option<&'a str>,
    last_accessed_at: Option<&'a str>,
    metadata: Option<&'a RawValue>,
    user_metadata: Option<&'a RawValue>,
}

impl<'a> ObjectJson<'a> {
    /// From a row of [`object_columns`].
    pub(super) fn from_row(row: &'a Row) -> Self {
        let json = |column| row.text(column).and_then(|text| serde_json::from_str(text).ok());
        Self {
            name: row.text(0),
            bucket_id: row.text(1),
            owner: row.text(2).unwrap_or_default(),
            owner_id: row.text(3).unwrap_or_default(),
            version: row.text(4),
            id: row.text(ID).unwrap_or_default(),
            updated_at: row.text(6),
            created_at: row.text(7),
            last_accessed_at: row.text(8),
            metadata: json(9),
            user_metadata: json(10),
        }
    }
}
