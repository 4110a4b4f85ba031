//! POST `/object/list/{b}` and `/object/list-v2/{b}` (storage.md §3.8, §3.9). Sorting and grouping into
//! folders happens in SQL, in the functions of `migrations/0005_listing.sql`.

use std::borrow::Cow;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use basalt_pg::session::Row;
use basalt_pg::sql::Param;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use serde::Serialize;
use serde_json::Value;

use crate::Storage;
use crate::database::{Batch, RequestSettings, Step, deadline};
use crate::error::StorageError;
use crate::json_body::{EmptyBody, Fields, JsonBody};
use crate::names;
use crate::operation::Operation;

/// Most entries of a v2 page.
const MAX_V2: i64 = 1000;

const ORDERS: [&str; 2] = ["asc", "desc"];

/// An entry of a list: an object, or a folder, which only has a name.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    name: &'a str,
    id: Option<&'a str>,
    updated_at: Option<&'a str>,
    created_at: Option<&'a str>,
    last_accessed_at: Option<&'a str>,
    metadata: Option<Value>,
}

/// Columns of [`Entry`] after `key`, from rows with the columns of `storage.objects`.
const COLUMNS: &str = "name, id, \
     to_char(updated_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), \
     to_char(created_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), \
     to_char(last_accessed_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), metadata";

impl<'a> Entry<'a> {
    fn from_row(row: &'a Row) -> Self {
        let id = row.text(2);
        // When sorting by time, a folder's row has the time of its oldest object, which is not returned.
        let object_only = |column| row.text(column).filter(|_| id.is_some());
        Self {
            key: row.text(0),
            name: row.text(1).unwrap_or_default(),
            id,
            updated_at: object_only(3),
            created_at: object_only(4),
            last_accessed_at: object_only(5),
            metadata: row.text(6).and_then(|json| serde_json::from_str(json).ok()),
        }
    }
}

async fn receive_body(parts: &Parts, body: axum::body::Body) -> Result<JsonBody, StorageError> {
    JsonBody::receive(&parts.headers, body, parts.extensions.get::<BodyLease>(), EmptyBody::Refused).await
}

/// Reads the member `sortBy`: column and direction.
fn sort_by(
    fields: &Fields<'_>,
    columns: &[&'static str],
) -> Result<(&'static str, &'static str), StorageError> {
    let Some(sort) = fields.object("sortBy")? else { return Ok(("name", "asc")) };
    sort.require(&["column"])?;
    let column = sort.one_of("column", columns)?.unwrap_or("name");
    Ok((column, sort.one_of("order", &ORDERS)?.unwrap_or("asc")))
}

/// List v1: one level below a prefix, ignoring case.
pub(crate) async fn v1(storage: &Storage, bucket: &str, request: Request) -> Result<Response, StorageError> {
    const SEARCH: &str =
        "select null, {COLUMNS} from storage.search($1, $2, $3::integer, 1, $4::integer, $5, $6, $7)";
    let (parts, body) = request.into_parts();
    let caller = storage.callers.required(&parts.headers)?;
    let body = receive_body(&parts, body).await?;
    let fields = body.fields()?;
    fields.require(&["prefix"])?;
    let mut prefix = fields.string("prefix")?.unwrap_or_default();
    let limit = fields.integer("limit", 1..)?.unwrap_or(100).min(i64::from(i32::MAX));
    let offset = fields.integer("offset", 0..)?.unwrap_or(0).min(i64::from(i32::MAX));
    let (column, order) = sort_by(&fields, &["name", "updated_at", "created_at", "last_accessed_at"])?;
    let search = fields.string("search")?.unwrap_or_default();
    names::check_bucket_name(bucket)?;
    if !prefix.is_empty() && !prefix.ends_with('/') {
        prefix.push('/');
    }
    // PostgreSQL rejects NUL, and no name contains one.
    if prefix.contains('\0') || search.contains('\0') {
        return Ok(axum::Json::<[(); 0]>([]).into_response());
    }
    let request = RequestSettings::from_parts(&parts);
    let mut batch = storage.database.batch(&request, Operation::OBJECT_LIST, &caller);
    let params = [
        prefix.into(),
        bucket.into(),
        limit.to_string().into(),
        offset.to_string().into(),
        search.into(),
        column.into(),
        order.into(),
    ];
    let found = batch.query(SEARCH.replace("{COLUMNS}", COLUMNS), params);
    let rows = batch.read(deadline(&parts)).await?;
    let entries: Vec<Entry<'_>> = rows.all(found).iter().map(Entry::from_row).collect();
    Ok(axum::Json(entries).into_response())
}

/// A page of list v2.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    has_next: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor_key: Option<&'a str>,
    folders: Vec<Entry<'a>>,
    objects: Vec<Entry<'a>>,
}

/// Where the next page starts, with its sort order, which must not change between pages.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor<'a> {
    /// Name of the last entry; of a folder with a trailing slash. Empty on the first page.
    last: Cow<'a, str>,
    column: &'static str,
    order: &'static str,
    /// Time of the last entry in microseconds, when sorting by time.
    after: Cow<'a, str>,
}

impl Cursor<'_> {
    fn parse(text: &str) -> Option<Cursor<'static>> {
        let text = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
        let mut last = text.strip_prefix("l:")?;
        let (mut column, mut order, mut after) = ("name", "asc", "");
        if let Some((before, value)) = last.rsplit_once("\na:") {
            (last, after) = (before, value);
        }
        if let Some((before, value)) = last.rsplit_once("\nc:") {
            last = before;
            column = ["name", "created_at", "updated_at"].into_iter().find(|known| *known == value)?;
        }
        if let Some((before, value)) = last.rsplit_once("\no:") {
            last = before;
            order = ORDERS.into_iter().find(|known| *known == value)?;
        }
        let is_time = after.parse::<jiff::Timestamp>().is_ok();
        (!last.is_empty() && !last.contains('\0') && is_time == (column != "name")).then(|| Cursor {
            last: Cow::Owned(last.to_owned()),
            column,
            order,
            after: Cow::Owned(after.to_owned()),
        })
    }

    fn text(&self) -> String {
        let Self { last, column, order, after } = self;
        let mut text = format!("l:{last}");
        if (*column, *order) != ("name", "asc") {
            text += &format!("\no:{order}\nc:{column}");
        }
        if *column != "name" {
            text += &format!("\na:{after}");
        }
        STANDARD.encode(text)
    }
}

/// List v2: entries below a prefix, case-sensitive, optionally grouped into folders.
pub(crate) async fn v2(storage: &Storage, bucket: &str, request: Request) -> Result<Response, StorageError> {
    let (parts, body) = request.into_parts();
    let caller = storage.callers.required_token(&parts.headers)?;
    let body = receive_body(&parts, body).await?;
    let fields = body.fields()?;
    let prefix = fields.string("prefix")?.unwrap_or_default();
    let limit = fields.integer("limit", 1..)?.unwrap_or(MAX_V2).min(MAX_V2);
    let cursor = fields.string("cursor")?.filter(|cursor| !cursor.is_empty());
    let has_folders = fields.boolean("with_delimiter")?.unwrap_or(false);
    let (column, order) = sort_by(&fields, &["name", "updated_at", "created_at"])?;
    names::check_bucket_name(bucket)?;
    let cursor = match cursor {
        Some(text) => {
            Cursor::parse(&text).ok_or_else(|| StorageError::invalid_parameter("continuation token"))?
        }
        None => Cursor { last: "".into(), column, order, after: "".into() },
    };
    if prefix.contains('\0') {
        return Ok(axum::Json(Page::default()).into_response());
    }
    let request = RequestSettings::from_parts(&parts);
    let mut batch = storage.database.batch(&request, Operation::OBJECT_LIST_V2, &caller);
    let found = add_page(&mut batch, bucket, prefix, has_folders, &cursor, limit + 1);
    let rows = batch.read(deadline(&parts)).await?;
    let rows = rows.all(found);
    let shown = rows.get(..usize::try_from(limit).unwrap_or_default());
    let mut page = Page::default();
    if let Some(last) = shown.filter(|shown| shown.len() < rows.len()).and_then(<[Row]>::last) {
        let name = last.text(1).unwrap_or_default();
        let is_folder = last.text(2).is_none();
        let after = last.text(7).unwrap_or_default();
        page.has_next = true;
        page.next_cursor = Some(Cursor { last: name.into(), after: after.into(), ..cursor }.text());
        page.next_cursor_key = Some(if is_folder { name.strip_suffix('/').unwrap_or(name) } else { name });
    }
    (page.folders, page.objects) =
        shown.unwrap_or(rows).iter().map(Entry::from_row).partition(|entry| entry.id.is_none());
    Ok(axum::Json(page).into_response())
}

/// Adds the statement of a page, which returns `key`, [`COLUMNS`] and the time sorted by.
fn add_page(
    batch: &mut Batch,
    bucket: &str,
    prefix: String,
    has_folders: bool,
    cursor: &Cursor<'_>,
    limit: i64,
) -> Step {
    let Cursor { last, column, order, after } = cursor;
    let mut params: Vec<Param> =
        vec![prefix.into(), bucket.into(), limit.to_string().into(), last.as_ref().into()];
    let (key, source) = if has_folders {
        params.extend([Param::from(*order), Param::from(*column), Param::from(after.as_ref())]);
        ("key", "storage.search_v2($1, $2, $3::integer, 1, $4, $5, $6, $7)".to_owned())
    } else if *column == "name" {
        params.push(Param::from(*order));
        ("null", "storage.list_objects_with_delimiter($2, $1, null, $3::integer, '', $4, $5)".to_owned())
    } else {
        params.push(Param::from(after.as_ref()));
        let comes_after = if *order == "desc" { "<" } else { ">" };
        let source = format!(
            "(select * from storage.objects \
             where bucket_id = $2 and name collate \"C\" >= $1 and name collate \"C\" < $1 || chr(1114111) \
             and ($4 = '' or (coalesce({column}, 'epoch'), name collate \"C\") \
             {comes_after} (nullif($5, '')::timestamptz, $4)) \
             order by coalesce({column}, 'epoch') {order}, name collate \"C\" {order} \
             limit $3::integer) as page"
        );
        ("null", source)
    };
    let time = match *column {
        "name" => "null".to_owned(),
        column => format!(
            "to_char(coalesce({column}, 'epoch') at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
        ),
    };
    batch.query(format!("select {key}, {COLUMNS}, {time} from {source}"), params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip() {
        for (last, column, order, after) in [
            ("a.txt", "name", "asc", ""),
            ("Folder2/", "name", "desc", ""),
            ("a\nb", "name", "asc", ""),
            ("a", "created_at", "asc", "2026-11-20T09:28:23.714159Z"),
            ("a", "updated_at", "desc", "1970-01-01T00:00:00.000000Z"),
        ] {
            let cursor = Cursor { last: last.into(), column, order, after: after.into() };
            assert_eq!(Cursor::parse(&cursor.text()), Some(cursor));
        }
        let first = Cursor { last: "a.txt".into(), column: "name", order: "asc", after: "".into() };
        assert_eq!(first.text(), "bDphLnR4dA==");
    }

    #[test]
    fn rejects_invalid_cursors() {
        for text in [
            "l:",
            "a.txt",
            "l:a\0",
            "l:a\nc:size",
            "l:a\no:up",
            "l:a\nc:created_at",
            "l:a\nc:created_at\na:'; drop table x",
            "l:a\na:2026-11-20T09:28:23.714159Z",
        ] {
            assert_eq!(Cursor::parse(&STANDARD.encode(text)), None, "{text}");
        }
        assert_eq!(Cursor::parse("not base64"), None);
        assert_eq!(Cursor::parse(&STANDARD.encode(b"l:\xff")), None);
    }
}
