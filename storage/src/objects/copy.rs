//! Copies an object (storage.md §3.10), including its bytes, so that every blob belongs to one object.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use basalt_pg::sql::Param;
use http::request::Parts;
use serde::Serialize;
use serde_json::{Map, Value};

use super::metadata::{is_header_value, iso, user_metadata_header};
use super::routes::ObjectPath;
use super::row;
use super::upload_routes::{tracked, wants_upsert};
use super::write::{
    COPY_LOCK_LIMIT, Context, NewObject, StoredObject, on_conflict_update, owner_uuid, store,
};
use crate::Storage;
use crate::blobs::{BlobId, intents};
use crate::error::StorageError;
use crate::json_body::{EmptyBody, Fields, JsonBody};
use crate::names;
use crate::operation::Operation;

/// A copy operation.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) from: ObjectPath,
    pub(crate) to: ObjectPath,
    /// Whether the target may already exist.
    pub(crate) upsert: bool,
    /// Metadata that differs from the source; `None` to copy all of it.
    pub(crate) changes: Option<Changes>,
}

/// Metadata of a copy that replaces the source's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    /// `Content-Type`.
    pub(crate) mime_type: Option<String>,
    /// `Cache-Control`.
    pub(crate) cache_control: Option<String>,
    /// User metadata: the text of a JSON object; `None` for null.
    pub(crate) user_metadata: Option<String>,
}

/// POST `/object/copy`.
pub(super) async fn copy(
    storage: &Arc<Storage>,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    #[derive(Serialize)]
    struct Copied<'a> {
        #[serde(rename = "Key")]
        key: String,
        #[serde(rename = "Id")]
        id: &'a str,
        #[serde(flatten)]
        object: row::ObjectJson<'a>,
    }

    let caller = storage.callers.required(&parts.headers)?;
    let body =
        JsonBody::receive(&parts.headers, body, parts.extensions.get::<BodyLease>(), EmptyBody::Refused)
            .await?;
    let fields = body.fields()?;
    let (from, to) = paths(&fields, &["sourceKey", "bucketId", "destinationKey"])?;
    let changes = changes(&fields, parts)?;
    let copy = Copy { from, to, upsert: wants_upsert(&parts.headers), changes };
    let key = copy.to.to_string();
    let cx = Context::new(storage, parts, Operation::OBJECT_COPY, caller);
    let stored = copy_object(&cx, copy).await?;
    Ok(axum::Json(Copied { key, id: stored.id(), object: stored.shown() }).into_response())
}

/// Reads source and target of a copy or move.
pub(super) fn paths(
    fields: &Fields<'_>,
    required: &[&str],
) -> Result<(ObjectPath, ObjectPath), StorageError> {
    fields.require(required)?;
    let text = |name| fields.string(name).map(Option::unwrap_or_default);
    let bucket = text("bucketId")?;
    let target = fields.string("destinationBucket")?.filter(|bucket| !bucket.is_empty());
    let from = ObjectPath { bucket: bucket.clone(), key: text("sourceKey")? };
    let to = ObjectPath { bucket: target.unwrap_or(bucket), key: text("destinationKey")? };
    names::check_key(&to.key)?;
    // PostgreSQL rejects NUL, so no such object exists.
    if from.to_string().contains('\0') {
        return Err(StorageError::no_such_key());
    }
    if to.bucket.contains('\0') {
        return Err(StorageError::related_missing());
    }
    Ok((from, to))
}

fn changes(fields: &Fields<'_>, parts: &Parts) -> Result<Option<Changes>, StorageError> {
    let given = fields.object("metadata")?;
    if fields.boolean("copyMetadata")?.unwrap_or(true) {
        return Ok(None);
    }
    let given = given.ok_or_else(|| StorageError::bad_request("Metadata header is required"))?;
    let (mime_type, cache_control) = (given.string("mimetype")?, given.string("cacheControl")?);
    if let Some(mime_type) = mime_type.as_deref().filter(|text| !is_header_value(text)) {
        return Err(StorageError::invalid_mime_type(mime_type));
    }
    if cache_control.as_deref().is_some_and(|text| !is_header_value(text)) {
        return Err(StorageError::invalid_parameter("cacheControl"));
    }
    let user_metadata = user_metadata_header(&parts.headers)?;
    Ok(Some(Changes { mime_type, cache_control, user_metadata }))
}

/// The source of a copy.
struct Source {
    blob: BlobId,
    metadata: String,
    user_metadata: Option<String>,
}

/// Copies an object if policies allow the caller to see the source and write the target. The caller owns the
/// copy.
///
/// # Errors
/// `InvalidKey` or `NoSuchKey` for the source; `AccessDenied`, `KeyAlreadyExists` or 404 `InvalidRequest`
/// for the target.
pub(crate) async fn copy_object(cx: &Context, copy: Copy) -> Result<StoredObject, StorageError> {
    names::check_key(&copy.to.key)?;
    let (source, intent) = begin(cx, &copy).await?;
    let storage = &cx.storage;
    let cx = cx.clone();
    let work = async move {
        cx.storage.blobs.copy(source.blob, intent.blob()).await?;
        let object = NewObject {
            at: copy.to,
            upsert: copy.upsert,
            owner: cx.caller.subject.clone(),
            user_metadata: source.user_metadata,
            // Included in the copied metadata.
            mime_type: String::new(),
            cache_control: String::new(),
            robots: None,
            announced: None,
        };
        let blob = intent.blob();
        store(&cx, &object, &source.metadata, blob, Some(intent), Vec::new(), COPY_LOCK_LIMIT).await
    };
    tracked(storage, work).await
}

/// Reads the source and checks policies for the target, both as the caller; then commits the intent.
async fn begin(cx: &Context, copy: &Copy) -> Result<(Source, intents::Intent), StorageError> {
    const SOURCE: &str = "\
select version, (coalesce(metadata, '{}') || $3::jsonb)::text, user_metadata::text
from storage.objects where bucket_id = $1 and name = $2";
    const PROBE: &str = "\
insert into storage.objects as o (bucket_id, name, owner, owner_id, version, metadata, user_metadata)
select $3, $4, $5::uuid, $6, '1', coalesce(s.metadata, '{}') || $7::jsonb,
  case when $8::boolean then s.user_metadata else $9::jsonb end
from storage.objects s where s.bucket_id = $1 and s.name = $2";

    let Copy { from, to, upsert, changes } = copy;
    let mut patch = Map::new();
    let mut set = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            patch.insert(name.to_owned(), value.into());
        }
    };
    set("mimetype", changes.as_ref().and_then(|changes| changes.mime_type.as_deref()));
    set("cacheControl", changes.as_ref().and_then(|changes| changes.cache_control.as_deref()));
    let probe_patch = Value::Object(patch.clone()).to_string();
    // Time of the copy: it is a new blob.
    patch.insert("lastModified".to_owned(), iso(cx.storage.callers.clock.now()).into());
    let patch = Value::Object(patch).to_string();
    let user_metadata = changes.as_ref().and_then(|changes| changes.user_metadata.clone());

    let intent = cx.storage.intents.keep(BlobId::random());
    let mut batch = cx.as_service();
    batch.set_lock_limit(COPY_LOCK_LIMIT);
    batch.savepoint();
    batch.act_as(&cx.caller);
    let source = batch.query(SOURCE, [from.bucket.as_str().into(), from.key.as_str().into(), patch.into()]);
    let conflict = if *upsert { on_conflict_update!() } else { "" };
    let owner = cx.caller.subject.as_deref();
    let keeps = if changes.is_none() { "t" } else { "f" };
    let params: [Param; 9] = [
        from.bucket.as_str().into(),
        from.key.as_str().into(),
        to.bucket.as_str().into(),
        to.key.as_str().into(),
        owner_uuid(owner),
        owner.map(str::to_owned).into(),
        probe_patch.into(),
        keeps.into(),
        user_metadata.clone().into(),
    ];
    let _row = batch.query(format!("{PROBE}{conflict}"), params);
    batch.undo();
    batch.push(intents::begin_step(intent.blob()));
    let run = batch.commit_if(cx.deadline.renewed(), move |rows| rows.first(source).is_some()).await;
    let found = run.and_then(|rows| {
        let row = rows.first(source).ok_or_else(StorageError::no_such_key)?;
        let user_metadata = if changes.is_none() { row.text(2).map(str::to_owned) } else { user_metadata };
        Ok((row.text(0).map(str::to_owned), row.text(1).unwrap_or_default().to_owned(), user_metadata))
    });
    let (version, metadata, user_metadata) = match found {
        Ok(found) => found,
        Err(error) => {
            if error.status().is_client_error() {
                // The transaction was rolled back, so there is no intent to discard.
                intent.done();
            }
            return Err(error);
        }
    };
    // Rows created in SQL may have no blob.
    let blob = version.as_deref().and_then(BlobId::parse).ok_or_else(StorageError::no_such_key)?;
    Ok((Source { blob, metadata, user_metadata }, intent))
}
