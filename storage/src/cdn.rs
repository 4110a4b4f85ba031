//! DELETE `/cdn[/{b}[/{key}]]`: purges caches of an object, a bucket, or everything (storage.md §3.17).
//! There is no CDN in front of the server; the only cache is that of transformed images. It never serves an
//! image whose object has changed or is deleted, so purging only frees disk space.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::Method;
use http::request::Parts;
use serde_json::json;

use crate::Storage;
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::names;
use crate::objects::find::{Lookup, Reader};
use crate::objects::routes::ObjectPath;
use crate::operation::Operation;

pub(crate) async fn handle(storage: &Storage, request: Request) -> Result<Response, StorageError> {
    let (parts, _body) = request.into_parts();
    if parts.method != Method::DELETE {
        return Err(StorageError::unknown_route(&parts.method, &parts.uri));
    }
    storage.callers.required(&parts.headers)?.must_be_service()?;
    let rest = parts.uri.path().strip_prefix("/cdn/").unwrap_or_default();
    match names::bucket_and_key(rest)? {
        Some((bucket, key)) => purge(storage, &parts, ObjectPath { bucket, key }).await?,
        // The cache is not indexed by bucket; images of other buckets are rendered again when needed.
        None => storage.images.purge_all().await,
    }
    Ok(axum::Json(json!({"message": "success"})).into_response())
}

async fn purge(storage: &Storage, parts: &Parts, at: ObjectPath) -> Result<(), StorageError> {
    let request = RequestSettings::from_parts(parts);
    let operation = Operation::CDN_PURGE_OBJECT;
    let lookup = Lookup::new(storage, &request, operation, Reader::Service, &at, deadline(parts));
    match lookup.find().await {
        Ok(object) => {
            if let Some((blob, _)) = object.blob() {
                storage.images.purge(blob).await;
            }
            Ok(())
        }
        // The object does not exist, so nothing is cached for it.
        Err(error) if error == StorageError::no_such_key() => Ok(()),
        Err(error) => Err(error),
    }
}
