//! Health endpoints: `/status`, `/health`, `/version` (storage.md §2, §3.17).

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use serde_json::json;

use crate::Storage;
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::operation::Operation;

pub(crate) async fn handle(storage: &Storage, request: Request) -> Result<Response, StorageError> {
    let (parts, _) = request.into_parts();
    match (&parts.method, parts.uri.path()) {
        (&(Method::GET | Method::HEAD), "/status") => Ok(StatusCode::OK.into_response()),
        (&(Method::GET | Method::HEAD), "/version") => Ok(env!("CARGO_PKG_VERSION").into_response()),
        (&(Method::GET | Method::HEAD), "/health") => {
            let caller = storage.callers.required_token(&parts.headers)?;
            let request = RequestSettings::from_parts(&parts);
            let mut batch = storage.database.batch(&request, Operation::HEALTH, &caller);
            let _bucket = batch.query("select id from storage.buckets limit 1", []);
            let healthy = batch.read(deadline(&parts)).await.is_ok();
            Ok(axum::Json(json!({"healthy": healthy})).into_response())
        }
        _ => Err(StorageError::unknown_route(&parts.method, &parts.uri)),
    }
}
