//! GET of an object's metadata (storage.md §3.7). HEAD is answered like HEAD of a download.

use axum::response::{IntoResponse, Response};
use http::Method;
use http::header::{CACHE_CONTROL, ETAG, LAST_MODIFIED};
use http::request::Parts;
use serde_json::{Value, json};

use super::conditions::http_date;
use super::download::{download, insert};
use super::find::{Lookup, Reader, StoredObject};
use super::routes::{AccessPath, ObjectPath};
use crate::Storage;
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::names;
use crate::operation::Operation;

/// GET, HEAD `/object/info[/public|/authenticated]/{b}/{key}`.
pub(crate) async fn info(
    storage: &Storage,
    access: AccessPath,
    at: &ObjectPath,
    parts: &Parts,
) -> Result<Response, StorageError> {
    if parts.method == Method::HEAD {
        return download(storage, access, at, parts).await;
    }
    let operation = match access {
        AccessPath::Public => Operation::OBJECT_INFO_PUBLIC,
        AccessPath::Authenticated | AccessPath::Either => Operation::OBJECT_GET_AUTHENTICATED_INFO,
    };
    let caller = access.caller(storage, parts)?;
    names::check_bucket_name(&at.bucket)?;
    let reader = caller.as_ref().map_or(Reader::Public, Reader::Caller);
    let request = RequestSettings::from_parts(parts);
    let lookup = Lookup::new(storage, &request, operation, reader, at, deadline(parts));
    let object = lookup.with_user_metadata().find().await?;
    let mut response = axum::Json(body(&object, at)).into_response();
    let headers = response.headers_mut();
    if let Some(e_tag) = &object.metadata.e_tag {
        insert(headers, ETAG, e_tag);
    }
    if let Some(date) = object.last_modified().and_then(http_date) {
        headers.insert(LAST_MODIFIED, date);
    }
    if let Some(cache_control) = &object.metadata.cache_control {
        insert(headers, CACHE_CONTROL, cache_control);
    }
    Ok(response)
}

fn body(object: &StoredObject, at: &ObjectPath) -> Value {
    let StoredObject { id, version, metadata, user_metadata, created_at, updated_at } = object;
    let user_metadata: Value =
        user_metadata.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    json!({
        "id": id,
        "name": at.key,
        "version": version,
        "bucket_id": at.bucket,
        "size": metadata.size,
        "content_type": metadata.mime_type,
        "cache_control": metadata.cache_control,
        "etag": metadata.e_tag,
        "metadata": user_metadata,
        "last_modified": updated_at,
        "created_at": created_at,
    })
}
