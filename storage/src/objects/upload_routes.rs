//! Upload routes: raw bodies and forms, authorised by a user's token or a signed URL (storage.md §3.5,
//! §3.13).

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use futures_util::StreamExt as _;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use serde_json::json;
use tracing::Instrument as _;

use super::form::Form;
use super::metadata::{NO_USER_METADATA, is_header_value, user_metadata, user_metadata_header};
use super::robots;
use super::routes::ObjectPath;
use super::sign::signed_url;
use super::write::{Content, Context, NewObject, StoredObject, begin, finish, probe, write_body};
use crate::Storage;
use crate::buckets::row::Bucket;
use crate::caller::Caller;
use crate::error::StorageError;
use crate::json_body::Query;
use crate::operation::Operation;

/// Whether the upload may replace an object.
const X_UPSERT: HeaderName = HeaderName::from_static("x-upsert");
const OCTET_STREAM: &str = "application/octet-stream";
const NO_CACHE: &str = "no-cache";
/// Lifetime of a signed upload URL: two hours.
const SIGNED_UPLOAD_SECONDS: u64 = 7200;

/// POST `/object/{b}/{key}`.
pub(super) async fn create(
    storage: &Arc<Storage>,
    at: ObjectPath,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    let upsert = wants_upsert(&parts.headers);
    by_caller(storage, at, parts, body, (Operation::OBJECT_UPLOAD, upsert)).await
}

/// PUT `/object/{b}/{key}`.
pub(super) async fn update(
    storage: &Arc<Storage>,
    at: ObjectPath,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    by_caller(storage, at, parts, body, (Operation::OBJECT_UPLOAD_UPDATE, true)).await
}

async fn by_caller(
    storage: &Arc<Storage>,
    at: ObjectPath,
    parts: &Parts,
    body: Body,
    (operation, upsert): (Operation, bool),
) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    let owner = caller.subject.clone();
    let cx = Context::new(storage, parts, operation, caller);
    let name = at.to_string();
    let stored = match receive(&cx, parts, body, UploadTarget { at, upsert, owner }).await {
        Ok(stored) => stored,
        Err(refusal) => return Ok(refused(refusal, parts)),
    };
    Ok(axum::Json(json!({"Key": name, "Id": stored.id()})).into_response())
}

/// PUT `/object/upload/sign/{b}/{key}?token=…`.
pub(super) async fn by_token(
    storage: &Arc<Storage>,
    at: ObjectPath,
    parts: &Parts,
    body: Body,
) -> Result<Response, StorageError> {
    let query = Query::parse(parts.uri.query());
    let fields = query.fields();
    fields.require(&["token"])?;
    let name = at.to_string();
    let token = fields.string("token")?.unwrap_or_default();
    let token = storage.callers.verify_upload(&token, &name)?;
    let cx = Context::new(storage, parts, Operation::OBJECT_UPLOAD_SIGNED, Caller::service());
    let target = UploadTarget { at, upsert: token.upsert, owner: token.owner };
    match receive(&cx, parts, body, target).await {
        Ok(_) => Ok(axum::Json(json!({"Key": name})).into_response()),
        Err(refusal) => Ok(refused(refusal, parts)),
    }
}

/// POST `/object/upload/sign/{b}/{key}`.
pub(super) async fn sign(
    storage: &Arc<Storage>,
    at: ObjectPath,
    parts: &Parts,
) -> Result<Response, StorageError> {
    let caller = storage.callers.required(&parts.headers)?;
    let owner = caller.subject.clone();
    let cx = Context::new(storage, parts, Operation::OBJECT_SIGN_UPLOAD_URL, caller);
    let _bucket = cx.bucket(&at.bucket).await?;
    // PostgreSQL rejects NUL. The upload itself validates the key completely.
    if at.key.is_empty() || at.key.contains('\0') {
        return Err(StorageError::invalid_key(&at.key));
    }
    let object = NewObject {
        at,
        upsert: wants_upsert(&parts.headers),
        owner,
        mime_type: content_type(&parts.headers)?,
        cache_control: NO_CACHE.to_owned(),
        robots: None,
        user_metadata: None,
        announced: content_length(&parts.headers),
    };
    probe(&cx, &object).await?;
    let NewObject { at, upsert, owner, .. } = object;
    let token =
        storage.callers.sign_upload(&at.to_string(), SIGNED_UPLOAD_SECONDS, owner.as_deref(), upsert)?;
    let url = signed_url("object/upload", &at, &token);
    Ok(axum::Json(json!({"url": url, "token": token})).into_response())
}

/// Target of an upload, and its owner.
struct UploadTarget {
    at: ObjectPath,
    upsert: bool,
    owner: Option<String>,
}

/// Checks the bucket's rules and the policies, stores the body and creates the object.
async fn receive(
    cx: &Context,
    parts: &Parts,
    body: Body,
    target: UploadTarget,
) -> Result<StoredObject, StorageError> {
    let bucket = cx.bucket(&target.at.bucket).await?;
    let robots = robots::from_headers(&parts.headers)?;
    let mime_type = content_type(&parts.headers)?;
    let announced = content_length(&parts.headers);
    let UploadTarget { at, upsert, owner } = target;
    let object = NewObject {
        at,
        upsert,
        owner,
        cache_control: header(&parts.headers, &CACHE_CONTROL).unwrap_or_else(|| NO_CACHE.to_owned()),
        robots,
        user_metadata: None,
        announced,
        mime_type,
    };
    let essence = object.mime_type.split(';').next().unwrap_or_default().trim();
    let is_form = essence.eq_ignore_ascii_case("multipart/form-data");
    if is_form {
        let form = Form::new(&object.mime_type, body, parts.extensions.get::<BodyLease>())?;
        receive_form(cx, form, bucket, object).await
    } else {
        let user_metadata = user_metadata_header(&parts.headers);
        receive_raw(cx, body, bucket, object, user_metadata).await
    }
}

async fn receive_raw(
    cx: &Context,
    body: Body,
    bucket: Bucket,
    mut object: NewObject,
    user_metadata: Result<Option<String>, StorageError>,
) -> Result<StoredObject, StorageError> {
    let storage = &cx.storage;
    let announced = object.announced;
    let max_bytes =
        object.check_rules(storage, &bucket, announced, storage.config.max_standard_upload_size)?;
    object.user_metadata = Some(user_metadata?.unwrap_or_else(|| NO_USER_METADATA.to_owned()));
    let intent = begin(cx, &object).await?;
    let cx = cx.clone();
    let work = async move {
        let bytes = body.into_data_stream().map(|piece| piece.map_err(|_broken| StorageError::aborted()));
        let written = write_body(&cx, &intent, max_bytes, announced, bytes).await?;
        let content = Content::from_written(&intent, &written);
        finish(&cx, &object, &content, Some(intent), Vec::new()).await
    };
    tracked(storage, work).await
}

async fn receive_form(
    cx: &Context,
    mut form: Form,
    bucket: Bucket,
    mut object: NewObject,
) -> Result<StoredObject, StorageError> {
    let storage = &cx.storage;
    let protocol_limit = storage.config.max_standard_upload_size;
    let file = form.file().await?;
    let part_type = file.content_type();
    let mime_type = move |form: &Form| {
        let field = form.field("contentType").map(str::to_owned);
        field.or_else(|| part_type.clone()).unwrap_or_else(|| OCTET_STREAM.to_owned())
    };
    object.mime_type = mime_type(&form);
    let max_bytes = object.check_rules(storage, &bucket, None, protocol_limit)?;
    apply_fields(&mut object, &form)?;
    let intent = begin(cx, &object).await?;
    let task_cx = cx.clone();
    let work = async move {
        let cx = task_cx;
        let written = write_body(&cx, &intent, max_bytes, None, file.bytes()).await?;
        form.rest().await?;
        // Fields may follow the file, so they are complete only now.
        let late_type = mime_type(&form);
        if late_type != object.mime_type {
            object.mime_type = late_type;
            let _max_bytes = object.check_rules(&cx.storage, &bucket, Some(written.size), protocol_limit)?;
        }
        apply_fields(&mut object, &form)?;
        let content = Content::from_written(&intent, &written);
        finish(&cx, &object, &content, Some(intent), Vec::new()).await
    };
    tracked(storage, work).await
}

/// Applies the form fields received so far.
fn apply_fields(object: &mut NewObject, form: &Form) -> Result<(), StorageError> {
    if !is_header_value(&object.mime_type) {
        return Err(StorageError::invalid_mime_type(&object.mime_type));
    }
    object.cache_control =
        form.field("cacheControl").map_or_else(|| NO_CACHE.to_owned(), |age| format!("max-age={age}"));
    if !is_header_value(&object.cache_control) {
        return Err(StorageError::invalid_parameter("cacheControl"));
    }
    let json = form.field("metadata").or_else(|| form.field("userMetadata"));
    let given = json.map(user_metadata).transpose()?.flatten();
    object.user_metadata = Some(given.unwrap_or_else(|| NO_USER_METADATA.to_owned()));
    Ok(())
}

/// Runs `work` as a tracked task: if the client disconnects, its body ends, but the work is not cancelled
/// half-way.
pub(super) async fn tracked<T: Send + 'static>(
    storage: &Storage,
    work: impl Future<Output = Result<T, StorageError>> + Send + 'static,
) -> Result<T, StorageError> {
    storage.tracker.spawn(work.in_current_span()).await.unwrap_or_else(|panic| {
        tracing::error!(%panic, "upload task failed");
        Err(StorageError::internal())
    })
}

/// The response to a rejected upload. Closes the connection instead of reading the rest of the body.
fn refused(refusal: StorageError, parts: &Parts) -> Response {
    let is_too_large = refusal.code() == "EntityTooLarge";
    let mut response = refusal.into_response();
    if is_too_large && parts.version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

pub(super) fn wants_upsert(headers: &HeaderMap) -> bool {
    headers.get(X_UPSERT).is_some_and(|value| value == "true")
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// `Content-Type`; if present it must be a MIME type.
fn content_type(headers: &HeaderMap) -> Result<String, StorageError> {
    let Some(given) = header(headers, &CONTENT_TYPE).filter(|given| !given.is_empty()) else {
        return Ok(OCTET_STREAM.to_owned());
    };
    let essence = given.split(';').next().unwrap_or_default().trim();
    match essence.split_once('/') {
        Some((kind, subtype)) if !kind.is_empty() && !subtype.is_empty() => Ok(given),
        _ => Err(StorageError::invalid_content_type()),
    }
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
