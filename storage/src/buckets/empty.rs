//! POST `/bucket/{b}/empty` (storage.md §3.3). Rows are deleted in slices, one transaction each, in a task
//! that continues when the client disconnects. The response says "queued" but is sent when everything is
//! deleted; after a crash the next request continues. The garbage collector deletes the blobs later.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use basalt_core::service::Deadline;
use http::request::Parts;
use serde_json::json;
use tokio::time::Instant;

use crate::Storage;
use crate::caller::Caller;
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::operation::Operation;

/// Most objects in a bucket that can be emptied.
const MAX_OBJECTS: i64 = 200_000;
/// Rows per transaction.
const SLICE: usize = 5_000;
/// Time limit of one slice.
const SLICE_TIME: Duration = Duration::from_secs(60);

/// Current time, and the number of objects, counted up to `MAX_OBJECTS + 1`.
const EXAMINE: &str = "select now(), (select count(*) from \
     (select from storage.objects where bucket_id = $1 and created_at <= now() limit $2) as counted) \
     from storage.buckets where id = $1";

/// Rows are locked in name order, as when deleting many: concurrent deletions wait for each other instead of
/// deadlocking.
const DELETE: &str = "with doomed as (\
     select id from storage.objects where bucket_id = $1 and created_at <= $2 \
     order by name collate \"C\" limit $3 for update\
     ), gone as (\
     delete from storage.objects o using doomed where o.id = doomed.id returning o.id\
     ) select count(*) from gone";

/// Deletes the objects created before now.
pub(super) async fn empty(
    storage: &Arc<Storage>,
    parts: &Parts,
    bucket: &str,
    caller: Caller,
) -> Result<Response, StorageError> {
    let request = RequestSettings::from_parts(parts);
    let mut batch = storage.database.batch(&request, Operation::BUCKET_EMPTY, &caller);
    let examined = batch.query(EXAMINE, [bucket.into(), (MAX_OBJECTS + 1).to_string().into()]);
    let rows = batch.read(deadline(parts)).await?;
    let found = rows.first(examined).ok_or_else(StorageError::no_such_bucket)?;
    if found.number(1).unwrap_or_default() > MAX_OBJECTS {
        return Err(StorageError::bucket_too_full());
    }
    let before = found.text(0).unwrap_or_default().to_owned();
    let task = delete_all(Arc::clone(storage), request, caller, bucket.to_owned(), before);
    storage.tracker.spawn(task).await.map_err(|_| StorageError::internal())??;
    let message = "Empty bucket has been queued. Completion may take up to an hour.";
    Ok(axum::Json(json!({"message": message})).into_response())
}

async fn delete_all(
    storage: Arc<Storage>,
    request: RequestSettings,
    caller: Caller,
    bucket: String,
    before: String,
) -> Result<(), StorageError> {
    loop {
        let mut batch = storage.database.batch(&request, Operation::BUCKET_EMPTY, &caller);
        let params = [bucket.as_str().into(), before.as_str().into(), SLICE.to_string().into()];
        let deleted = batch.query(DELETE, params);
        let rows = batch.commit(Deadline::new(Instant::now(), SLICE_TIME)).await?;
        let count = rows.first(deleted).and_then(|row| row.number(0)).unwrap_or_default();
        if usize::try_from(count).unwrap_or_default() < SLICE {
            return Ok(());
        }
        // The next request deletes the rest.
        if storage.shutdown.is_cancelled() {
            return Err(StorageError::internal());
        }
    }
}
