//! PutObject, CopyObject and deletions. Writes overwrite unless the request forbids it, as in S3.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH,
};
use serde_json::{Map, Value};

use super::Call;
use super::checksum::Algorithm;
use super::documents;
use super::error::{S3Error, xml};
use super::operation::ONLY_VERSION;
use super::payload::{Payload, PayloadError};
use super::read::{COPY_SOURCE, Verdict};
use super::xml::Writer;
use crate::blobs::Written;
use crate::blobs::intents::Intent;
use crate::caller::Caller;
use crate::error::StorageError;
use crate::names;
use crate::objects;
use crate::objects::copy::{Changes, Copy, copy_object};
use crate::objects::find::{Lookup, Reader, StoredObject};
use crate::objects::routes::ObjectPath;
use crate::objects::write::{self, Content, Context, NewObject};
use crate::operation::Operation;

/// Maximum size of one PutObject or part: 5 GiB.
pub(super) const MAX_SINGLE_BYTES: u64 = 5 * 1024 * 1024 * 1024;
const META: &str = "x-amz-meta-";

pub(super) async fn put(call: &Call, mut payload: Payload) -> Result<Response, S3Error> {
    let mut at = call.object();
    let length = payload.announced_length();
    if at.key.ends_with('/') && length == Some(0) {
        // Clients create folders this way.
        at.key.push_str(".emptyFolderPlaceholder");
    }
    let cx = call.context(Operation::S3_UPLOAD);
    let mut object = described(call.headers(), at, &cx.caller, length);
    object.upsert = !creates_only(call.headers())?;
    let bucket = cx.bucket(&object.at.bucket).await?;
    let max_bytes = object.check_rules(&cx.storage, &bucket, length, Some(MAX_SINGLE_BYTES))?;
    let intent = write::begin(&cx, &object).await.map_err(exists_error)?;
    let written = receive(&cx, &intent, max_bytes, &mut payload).await?;
    let content = Content::from_written(&intent, &written);
    let stored = write::finish(&cx, &object, &content, Some(intent), Vec::new()).await;
    let _stored = stored.map_err(exists_error)?;
    let mut headers = HeaderMap::new();
    describe_bytes(&mut headers, &content.e_tag, payload.checksum());
    Ok(headers.into_response())
}

/// Whether the write must not replace an object (`If-None-Match: *`). Other conditions are rejected, because
/// ignoring them could overwrite an object against the client's intent.
pub(super) fn creates_only(headers: &HeaderMap) -> Result<bool, S3Error> {
    match headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes) {
        _ if headers.contains_key(IF_MATCH) => Err(S3Error::not_implemented()),
        None => Ok(false),
        Some(b"*") => Ok(true),
        Some(_) => Err(S3Error::not_implemented()),
    }
}

/// Maps the error of a write that must not replace an object.
pub(super) fn exists_error(error: StorageError) -> S3Error {
    if error == StorageError::key_already_exists() { S3Error::precondition_failed() } else { error.into() }
}

/// Adds ETag and checksum of the stored bytes.
pub(super) fn describe_bytes(headers: &mut HeaderMap, e_tag: &str, checksum: Option<(Algorithm, &str)>) {
    if let Ok(e_tag) = HeaderValue::try_from(format!("\"{e_tag}\"")) {
        headers.insert(ETAG, e_tag);
    }
    if let Some((algorithm, value)) = checksum
        && let Ok(value) = HeaderValue::try_from(value)
    {
        headers.insert(HeaderName::from_static(algorithm.header()), value);
    }
}

/// Writes a body into the blob of `intent`.
pub(super) async fn receive(
    cx: &Context,
    intent: &Intent,
    max_bytes: u64,
    payload: &mut Payload,
) -> Result<Written, S3Error> {
    let length = payload.announced_length();
    let mut refused = None;
    let written = {
        let body = pieces(payload, &mut refused);
        write::write_body(cx, intent, max_bytes, length, body).await
    };
    match (refused, written) {
        (Some(refused), _) => Err(refused.into()),
        (None, written) => Ok(written?),
    }
}

/// Streams a body. The reason of a rejection is stored in `refused`, because the stream's error type cannot
/// carry it.
fn pieces<'a>(
    payload: &'a mut Payload,
    refused: &'a mut Option<PayloadError>,
) -> impl Stream<Item = Result<Bytes, StorageError>> + 'a {
    stream::unfold((payload, refused), |(payload, refused)| async move {
        let piece = match payload.next().await {
            Ok(piece) => Ok(piece?),
            Err(error) => {
                *refused = Some(error);
                Err(StorageError::aborted())
            }
        };
        Some((piece, (payload, refused)))
    })
}

/// The object described by these headers.
pub(super) fn described(
    headers: &HeaderMap,
    at: ObjectPath,
    caller: &Caller,
    length: Option<u64>,
) -> NewObject {
    let text = |name: HeaderName, otherwise: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or(otherwise).to_owned()
    };
    NewObject {
        at,
        upsert: true,
        owner: caller.subject.clone(),
        mime_type: text(CONTENT_TYPE, "application/octet-stream"),
        cache_control: text(CACHE_CONTROL, "no-cache"),
        robots: None,
        user_metadata: Some(user_metadata(headers)),
        announced: length,
    }
}

/// `x-amz-meta-*` as JSON.
fn user_metadata(headers: &HeaderMap) -> String {
    let members: Map<String, Value> = headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix(META)?;
            Some((name.to_owned(), Value::from(String::from_utf8_lossy(value.as_bytes()))))
        })
        .collect();
    Value::Object(members).to_string()
}

pub(super) async fn copy(call: &Call) -> Result<String, S3Error> {
    let operation = Operation::S3_OBJECT_COPY;
    let changes = match call.header("x-amz-metadata-directive").unwrap_or("COPY") {
        "COPY" => None,
        "REPLACE" => {
            let NewObject { mime_type, cache_control, user_metadata, .. } =
                described(call.headers(), call.object(), &call.caller, None);
            let (mime_type, cache_control) = (Some(mime_type), Some(cache_control));
            Some(Changes { mime_type, cache_control, user_metadata })
        }
        _ => return Err(S3Error::invalid_argument("x-amz-metadata-directive must be COPY or REPLACE")),
    };
    let (from, source) = source(call, operation).await?;
    let cx = call.context(operation);
    let _bucket = cx.bucket(call.bucket()).await?;
    let upsert = !creates_only(call.headers())?;
    let _stored =
        copy_object(&cx, Copy { from, to: call.object(), upsert, changes }).await.map_err(exists_error)?;
    let e_tag = source.metadata.e_tag.as_deref().map(documents::unquoted).unwrap_or_default();
    Ok(copied("CopyObjectResult", e_tag, cx.storage.callers.clock.now()))
}

/// The result document of a copy.
pub(super) fn copied(root: &'static str, e_tag: &str, at: jiff::Timestamp) -> String {
    let mut out = Writer::new(root);
    out.text("ETag", format!("\"{e_tag}\"")).text("LastModified", at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ"));
    out.finish(root)
}

/// The object named by `x-amz-copy-source`, if the caller may see it.
pub(super) async fn source(call: &Call, operation: Operation) -> Result<(ObjectPath, StoredObject), S3Error> {
    let header = call.header("x-amz-copy-source").unwrap_or_default();
    let at = source_path(header)?;
    // Copying requires read permission even in public buckets, because it leaves a copy behind.
    let reader = Reader::PolicyCheckedCaller(&call.caller);
    let lookup = Lookup::new(&call.storage, &call.settings, operation, reader, &at, call.deadline());
    let found = lookup.find().await?;
    match COPY_SOURCE.evaluate(call.headers(), found.validators()) {
        Verdict::Proceed => Ok((at, found)),
        Verdict::Unmodified | Verdict::Failed => Err(S3Error::precondition_failed()),
    }
}

/// `/bucket/key`, percent-encoded; the leading slash is optional.
fn source_path(header: &str) -> Result<ObjectPath, S3Error> {
    let invalid = || {
        let message = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey";
        S3Error::invalid_argument(message)
    };
    let (path, query) = header.split_once('?').unwrap_or((header, ""));
    let version = query.strip_prefix("versionId=");
    if version.is_some_and(|version| version != ONLY_VERSION) {
        return Err(S3Error::not_implemented());
    }
    // Further question marks are part of the key.
    let path = if version.is_some() || query.is_empty() { path } else { header };
    let (bucket, key) = path.strip_prefix('/').unwrap_or(path).split_once('/').ok_or_else(invalid)?;
    let decode = |text: &str| names::decode(text).map_err(|_| invalid());
    let (bucket, key) = (decode(bucket)?, decode(key)?);
    if bucket.is_empty() || key.is_empty() || key.contains('\0') {
        return Err(invalid());
    }
    names::check_bucket_name(&bucket)?;
    Ok(ObjectPath { bucket, key })
}

/// DeleteObject. Succeeds for objects that do not exist or are hidden from the caller.
pub(super) async fn delete(call: &Call) -> Result<Response, S3Error> {
    remove(call, Operation::S3_OBJECT_DELETE, vec![call.key().to_owned()]).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn delete_many(call: &Call, payload: Payload) -> Result<Response, S3Error> {
    let document = call.document(payload).await?;
    let deletion = documents::deletion(&document)?;
    remove(call, Operation::S3_OBJECT_DELETE_MANY, deletion.keys.clone()).await?;
    let mut out = Writer::new("DeleteResult");
    if !deletion.is_quiet {
        for key in &deletion.keys {
            out.element("Deleted", |out| {
                out.text("Key", key);
            });
        }
    }
    Ok(xml(StatusCode::OK, out.finish("DeleteResult")))
}

async fn remove(call: &Call, operation: Operation, keys: Vec<String>) -> Result<(), S3Error> {
    let cx = call.context(operation);
    let _bucket = cx.bucket(call.bucket()).await?;
    let _deleted = objects::delete::delete_many(&cx, call.bucket(), keys).await?;
    Ok(())
}
