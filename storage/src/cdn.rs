//! DELETE `/cdn…`: drops what caches hold of an object, a bucket, or all (storage.md §3.17). There is no CDN before the
//! server; what it caches itself are rendered images.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::Method;
use serde_json::json;

use crate::Storage;
use crate::error::StorageError;

/// Answers a request to `/cdn…`.
///
/// # Errors
/// The answer.
pub(crate) fn handle(storage: &Storage, request: &Request) -> Result<Response, StorageError> {
    if request.method() != Method::DELETE {
        return Err(StorageError::unknown_route(request.method(), request.uri()));
    }
    storage.callers.required(request.headers())?.must_be_service()?;
    // Renders are found by their object's version: none is shown after its object has changed or gone, so that there is
    // nothing stale to drop here.
    Ok(axum::Json(json!({"message": "success"})).into_response())
}
