//! Deletes objects (storage.md §3.11). Only rows are deleted; a trigger queues their blobs as garbage.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use basalt_pg::session::Row;
use http::request::Parts;
use serde_json::json;

use super::routes::ObjectPath;
use super::row;
use super::write::Context;
use crate::Storage;
use crate::error::StorageError;
use crate::json_body::{EmptyBody, JsonBody};
use crate::names;
use crate::operation::Operation;

/// Rows per transaction. After a failure earlier transactions stay committed.
const BATCH: usize = 500;

/// DELETE `/object/{b}/{key}`.
///
pub(super) async fn one(
    storage: &Arc<Storage>,
    at: &ObjectPath,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    let lease = parts.extensions.get::<BodyLease>();
    let _ignored = JsonBody::receive(&parts.headers, body, lease, EmptyBody::Refused).await?;
    names::check_bucket_name(&at.bucket)?;
    let cx = Context::new(storage, parts, Operation::OBJECT_DELETE, caller);
    delete_one(&cx, at).await?;
    Ok(axum::Json(json!({"message": "Successfully deleted"})).into_response())
}

/// Deletes an object if policies allow the caller to see and delete it.
///
/// # Errors
/// `NoSuchKey`; `AccessDenied` if policies forbid deleting it.
pub(crate) async fn delete_one(cx: &Context, at: &ObjectPath) -> Result<(), StorageError> {
    const HOLD: &str = "select id from storage.objects where bucket_id = $1 and name = $2 for update";
    const DELETE: &str = "delete from storage.objects where bucket_id = $1 and name = $2 returning id";

    // Neither PostgreSQL nor an object name accepts NUL.
    if at.to_string().contains('\0') {
        return Err(StorageError::no_such_key());
    }
    let params = || [at.bucket.as_str().into(), at.key.as_str().into()];
    let mut batch = cx.as_service();
    let found = batch.query(HOLD, params());
    batch.act_as(&cx.caller);
    let deleted = batch.query(DELETE, params());
    let rows = batch.commit(cx.deadline.renewed()).await?;
    if rows.first(found).is_none() {
        return Err(StorageError::no_such_key());
    }
    rows.first(deleted).map(drop).ok_or_else(|| StorageError::access_denied("Access denied"))
}

/// DELETE `/object/{b}`.
///
pub(super) async fn many(
    storage: &Arc<Storage>,
    bucket: &str,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    let body =
        JsonBody::receive(&parts.headers, body, parts.extensions.get::<BodyLease>(), EmptyBody::Refused)
            .await?;
    let fields = body.fields()?;
    fields.require(&["prefixes"])?;
    let keys = fields.strings("prefixes", 1..)?.unwrap_or_default();
    names::check_bucket_name(bucket)?;
    let cx = Context::new(storage, parts, Operation::OBJECT_DELETE_MANY, caller);
    let deleted = delete_many(&cx, bucket, keys).await?;
    let shown: Vec<row::ObjectJson<'_>> = deleted.iter().map(row::ObjectJson::from_row).collect();
    Ok(axum::Json(shown).into_response())
}

/// Deletes those objects that exist and that policies allow the caller to see and delete. Returns them as
/// rows of [`row::object_columns`].
///
/// # Errors
/// A database error; earlier transactions stay committed.
pub(crate) async fn delete_many(
    cx: &Context,
    bucket: &str,
    keys: Vec<String>,
) -> Result<Vec<Row>, StorageError> {
    const DELETE: &str = concat!(
        "delete from storage.objects where bucket_id = $1 \
         and name in (select jsonb_array_elements_text($2::jsonb)) returning ",
        row::object_columns!()
    );

    // Neither PostgreSQL nor a name accepts NUL. Sorted, so that concurrent requests lock rows in the same
    // order.
    let keys: BTreeSet<String> = keys.into_iter().filter(|key| !key.contains('\0')).collect();
    let keys: Vec<String> = keys.into_iter().collect();
    let mut deleted = Vec::new();
    for keys in keys.chunks(BATCH) {
        let mut batch = cx.as_caller();
        let step = batch.query(DELETE, [bucket.into(), json!(keys).to_string().into()]);
        let rows = batch.commit(cx.deadline.renewed()).await?;
        deleted.extend(rows.all(step).iter().cloned());
    }
    Ok(deleted)
}
