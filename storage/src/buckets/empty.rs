//! POST `/bucket/{b}/empty` (storage.md §3.3). The rows go in slices, each a transaction of its own, in a task that goes on
//! when the client has left. The answer says "queued", but comes when all is done: a server that dies before has promised
//! nothing, and the next request goes on where it stopped. The bytes go later, with the garbage.

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

/// Most objects of a bucket that is emptied.
const MOST_OBJECTS: i64 = 200_000;
/// Objects of one transaction.
const SLICE: usize = 5_000;
/// Time for one slice.
const SLICE_TIME: Duration = Duration::from_secs(60);

/// The bucket and how many objects it has, up to one more than may be; and the time.
const EXAMINE: &str = "select now(), (select count(*) from \
     (select from storage.objects where bucket_id = $1 and created_at <= now() limit $2) as counted) \
     from storage.buckets where id = $1";

/// Rows are locked by name, as deleting many does it: two that delete at once wait, and do not meet crosswise.
const DELETE: &str = "with doomed as (\
     select id from storage.objects where bucket_id = $1 and created_at <= $2 \
     order by name collate \"C\" limit $3 for update\
     ), gone as (\
     delete from storage.objects o using doomed where o.id = doomed.id returning o.id\
     ) select count(*) from gone";

/// Deletes the objects that were created before now.
pub(super) async fn empty(
    storage: &Arc<Storage>,
    parts: &Parts,
    bucket: &str,
    caller: Caller,
) -> Result<Response, StorageError> {
    let request = RequestSettings::of(parts);
    let mut batch = storage.database.batch(&request, Operation::BUCKET_EMPTY, &caller);
    let examined = batch.query(EXAMINE, [bucket.into(), (MOST_OBJECTS + 1).to_string().into()]);
    let rows = batch.read(deadline(parts)).await?;
    let found = rows.first(examined).ok_or_else(StorageError::no_such_bucket)?;
    if found.number(1).unwrap_or_default() > MOST_OBJECTS {
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
        // What is left, the next request deletes.
        if storage.shutdown.is_cancelled() {
            return Err(StorageError::internal());
        }
    }
}
