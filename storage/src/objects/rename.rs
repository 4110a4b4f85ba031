//! Moves an object (storage.md §3.10): a new name for the same bytes. Blob and version stay, because a new
//! version would require copying the bytes (decision 0059).

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use basalt_pg::sql::Param;
use http::request::Parts;
use serde_json::json;

use super::copy::paths;
use super::routes::ObjectPath;
use super::write::{Context, LOCK_LIMIT, lock, owner_uuid};
use crate::Storage;
use crate::error::StorageError;
use crate::json_body::{EmptyBody, JsonBody};
use crate::operation::Operation;

pub(super) async fn rename(
    storage: &Arc<Storage>,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    let body =
        JsonBody::receive(&parts.headers, body, parts.extensions.get::<BodyLease>(), EmptyBody::Refused)
            .await?;
    let (from, to) = paths(&body.fields()?, &["bucketId", "sourceKey", "destinationKey"])?;
    let cx = Context::new(storage, parts, Operation::OBJECT_MOVE, caller);
    rename_object(&cx, &from, &to).await.map_err(|error| {
        let is_taken = error.code() == "KeyAlreadyExists";
        if is_taken { StorageError::resource_already_exists() } else { error }
    })?;
    Ok(axum::Json(json!({"message": "Successfully moved"})).into_response())
}

/// Moves an object if policies allow the caller to see and update it. The caller becomes the owner, if it
/// has a `sub`.
///
/// # Errors
/// `NoSuchKey` for the source; `KeyAlreadyExists` or 404 `InvalidRequest` for the target.
async fn rename_object(cx: &Context, from: &ObjectPath, to: &ObjectPath) -> Result<(), StorageError> {
    const HOLD: &str = "select from storage.objects where bucket_id = $1 and name = $2 for update";
    const MOVE: &str = "\
update storage.objects set bucket_id = $3, name = $4, owner_id = coalesce($6, owner_id),
  owner = case when $6 is null then owner else $5::uuid end
where bucket_id = $1 and name = $2 returning id";

    let owner = cx.caller.subject.as_deref();
    let params: [Param; 6] = [
        from.bucket.as_str().into(),
        from.key.as_str().into(),
        to.bucket.as_str().into(),
        to.key.as_str().into(),
        owner_uuid(owner),
        owner.map(str::to_owned).into(),
    ];
    let mut batch = cx.as_service();
    batch.set_lock_limit(LOCK_LIMIT);
    // In a fixed order, so that two moves cannot deadlock.
    let (first, second) = if from.to_string() <= to.to_string() { (from, to) } else { (to, from) };
    lock(&mut batch, first);
    lock(&mut batch, second);
    // Locks the row between the policy check and the update.
    let _row = batch.query(HOLD, [from.bucket.as_str().into(), from.key.as_str().into()]);
    batch.savepoint();
    batch.act_as(&cx.caller);
    let allowed = batch.query(MOVE, params.clone());
    batch.undo();
    let deadline = cx.deadline.renewed();
    let rows = if from == to {
        batch.roll_back(deadline).await?
    } else {
        let moved = batch.query(MOVE, params);
        let has_succeeded =
            move |rows: &crate::database::Rows| rows.first(allowed).is_some() && rows.first(moved).is_some();
        batch.commit_if(deadline, has_succeeded).await?
    };
    rows.first(allowed).map(drop).ok_or_else(StorageError::no_such_key)
}
