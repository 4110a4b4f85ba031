//! Multipart uploads. Each part is a separate blob with a row; completion joins them. Every request about an
//! upload requires the permissions of an upload and must come from the user who created it.

use std::ops::Range;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use basalt_core::random;
use basalt_pg::session::{Row, Statement};
use basalt_pg::sql::Param;
use futures_util::TryStreamExt as _;
use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::Call;
use super::documents::{self, CompletedPart, part_number, unquoted};
use super::error::{S3Error, xml};
use super::payload::Payload;
use super::sigv4::encode_path;
use super::write::{
    MAX_SINGLE_BYTES, copied, creates_only, describe_bytes, described, exists_error, receive, source,
};
use super::xml::Writer;
use crate::blobs::intents::{self, Intent};
use crate::blobs::{BlobId, Written};
use crate::error::StorageError;
use crate::lower_hex;
use crate::objects::write::{self, Content, Context, MAX_UNFINISHED_UPLOADS, NewObject, RequiredStatement};
use crate::operation::Operation;

/// Most parts per page.
const MAX_PARTS: usize = 1000;

/// A multipart upload in progress.
struct OpenUpload {
    id: String,
    object: NewObject,
    /// Size of all parts except the one being uploaded.
    other_bytes: u64,
}

/// A stored part.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoredPart {
    number: u32,
    /// Without quotes.
    e_tag: String,
    size: u64,
    blob: BlobId,
}

pub(super) async fn create(call: &Call) -> Result<Response, S3Error> {
    const INSERT: &str = "insert into storage.s3_multipart_uploads \
         (id, upload_signature, bucket_id, key, version, owner_id, metadata, user_metadata) \
         select $1, '', $2, $3, $4, $5, $6::jsonb, $7::jsonb where $8::bigint > \
         (select count(*) from storage.s3_multipart_uploads u \
          where u.owner_id is not distinct from $5 and u.created_at > now() - interval '1 day') \
         returning id";
    let cx = call.context(Operation::S3_UPLOAD_CREATE_MULTIPART);
    let object = described(call.headers(), call.object(), &cx.caller, None);
    let bucket = cx.bucket(&object.at.bucket).await?;
    let _max_bytes = object.check_rules(&cx.storage, &bucket, None, None)?;
    let id = random::token(43);
    let metadata = json!({"mimetype": object.mime_type, "cacheControl": object.cache_control}).to_string();
    // Nothing is stored under this version; completion assigns the blob.
    let version = random::uuid().to_string();
    let params: Vec<Param> = vec![
        id.as_str().into(),
        object.at.bucket.as_str().into(),
        object.at.key.as_str().into(),
        version.into(),
        object.owner.clone().into(),
        metadata.into(),
        object.user_metadata.clone().into(),
        // Users cannot list their uploads, so old ones are not counted forever.
        Param::from_display(if cx.caller.is_service() { u32::MAX } else { MAX_UNFINISHED_UPLOADS }),
    ];
    write::probe(&cx, &object).await?;
    let mut batch = cx.as_service();
    if !cx.caller.is_service() {
        write::lock_client(&mut batch, &format!("user {}", object.owner.as_deref().unwrap_or_default()));
    }
    let inserted = batch.query(INSERT, params);
    let rows = batch.commit(call.deadline()).await?;
    rows.first(inserted).ok_or_else(StorageError::too_many_uploads)?;
    let mut out = Writer::new("InitiateMultipartUploadResult");
    out.text("Bucket", call.bucket()).text("Key", call.key()).text("UploadId", &id);
    Ok(xml(StatusCode::OK, out.finish("InitiateMultipartUploadResult")))
}

pub(super) async fn put_part(call: &Call, mut payload: Payload) -> Result<Response, S3Error> {
    let number = number(call)?;
    let cx = call.context(Operation::S3_UPLOAD_PART);
    let upload = find(call, &cx, Some(number)).await?;
    let length = payload.announced_length();
    let max_bytes = max_part_bytes(&cx, &upload, length).await?;
    let intent = write::begin(&cx, &upload.object).await?;
    let written = receive(&cx, &intent, max_bytes, &mut payload).await?;
    let e_tag = store_part(&cx, &upload, number, intent, &written).await?;
    let mut headers = HeaderMap::new();
    describe_bytes(&mut headers, &e_tag, payload.checksum());
    Ok(headers.into_response())
}

pub(super) async fn copy_part(call: &Call) -> Result<String, S3Error> {
    let number = number(call)?;
    let operation = Operation::S3_UPLOAD_PART_COPY;
    let (_from, found) = source(call, operation).await?;
    let (blob, size) = found.blob().ok_or_else(StorageError::no_such_key)?;
    let range = source_range(call.header("x-amz-copy-source-range"), size)?;
    let length = range.end - range.start;
    let cx = call.context(operation);
    let upload = find(call, &cx, Some(number)).await?;
    let max_bytes = max_part_bytes(&cx, &upload, Some(length)).await?;
    let intent = write::begin(&cx, &upload.object).await?;
    let bytes = cx.storage.blobs.read(blob, range).await.map_err(StorageError::from)?;
    let bytes = bytes.map_err(StorageError::from);
    let written = write::write_body(&cx, &intent, max_bytes, Some(length), bytes).await?;
    let e_tag = store_part(&cx, &upload, number, intent, &written).await?;
    Ok(copied("CopyPartResult", &e_tag, cx.storage.callers.clock.now()))
}

pub(super) async fn list_parts(call: &Call) -> Result<Response, S3Error> {
    const LIST: &str = "select part_number, etag, size, \
         to_char(created_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') \
         from storage.s3_multipart_uploads_parts \
         where upload_id = $1 and part_number > $2 order by part_number limit $3";
    let limit = call.count("max-parts", MAX_PARTS)?;
    let marker = call.count("part-number-marker", documents::MAX_PARTS)?;
    let marker =
        if call.parameter("part-number-marker").is_some_and(|text| !text.is_empty()) { marker } else { 0 };
    let cx = call.context(Operation::S3_UPLOAD_LIST_PARTS);
    let upload = find(call, &cx, None).await?;
    write::probe(&cx, &upload.object).await?;
    let mut batch = cx.as_service();
    let params = [
        upload.id.as_str().into(),
        Param::from_display(marker),
        Param::from_display(limit.saturating_add(1)),
    ];
    let found = batch.query(LIST, params);
    let rows = batch.read(call.deadline()).await?;
    let rows = rows.all(found);
    let is_truncated = limit > 0 && rows.len() > limit;
    let page = rows.get(..limit).unwrap_or(rows);
    let mut out = Writer::new("ListPartsResult");
    out.text("Bucket", call.bucket()).text("Key", call.key()).text("UploadId", &upload.id);
    out.text("PartNumberMarker", marker).text("MaxParts", limit).text("IsTruncated", is_truncated);
    let last = page.last().and_then(|row| row.text(0)).filter(|_| is_truncated);
    out.optional("NextPartNumberMarker", last).text("StorageClass", "STANDARD");
    for row in page {
        out.element("Part", |out| {
            out.optional("PartNumber", row.text(0)).optional("LastModified", row.text(3));
            out.text("ETag", format!("\"{}\"", unquoted(row.text(1).unwrap_or_default())));
            out.optional("Size", row.text(2));
        });
    }
    Ok(xml(StatusCode::OK, out.finish("ListPartsResult")))
}

/// AbortMultipartUpload. Answers 200, as upstream does.
pub(super) async fn abort(call: &Call) -> Result<Response, S3Error> {
    let cx = call.context(Operation::S3_UPLOAD_ABORT_MULTIPART);
    let upload = find(call, &cx, None).await?;
    write::probe(&cx, &upload.object).await?;
    let mut batch = cx.as_service();
    let deleted = batch.push(end_statement(&upload.id));
    let rows = batch.commit(call.deadline()).await?;
    rows.first(deleted).ok_or_else(StorageError::no_such_upload)?;
    Ok(StatusCode::OK.into_response())
}

/// The parts listed in CompleteMultipartUpload; the body has to be read before the response starts.
pub(super) async fn read_parts(call: &Call, payload: Payload) -> Result<Vec<CompletedPart>, S3Error> {
    documents::completed_parts(&call.document(payload).await?)
}

pub(super) async fn complete(call: Call, requested: Vec<CompletedPart>) -> Result<String, S3Error> {
    let cx = call.context(Operation::S3_UPLOAD_COMPLETE_MULTIPART);
    let mut upload = find(&call, &cx, None).await?;
    upload.object.upsert = !creates_only(call.headers())?;
    let parts = select_parts(&requested, &stored_parts(&cx, &upload).await?)?;
    let size = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.size));
    upload.object.announced = Some(size);
    let bucket = cx.bucket(&upload.object.at.bucket).await?;
    let _max_bytes = upload.object.check_rules(&cx.storage, &bucket, Some(size), None)?;
    let e_tag = object_e_tag(&parts);
    let mut required = vec![RequiredStatement {
        statement: end_statement(&upload.id),
        otherwise: StorageError::no_such_upload(),
    }];
    let (blob, intent) = match parts.as_slice() {
        [part] => {
            write::probe(&cx, &upload.object).await.map_err(exists_error)?;
            // The object takes over the part's blob, unless the part was replaced meanwhile.
            required.insert(
                0,
                RequiredStatement { statement: take_statement(&upload.id, part), otherwise: changed_parts() },
            );
            (part.blob, None)
        }
        _ => {
            let intent = write::begin(&cx, &upload.object).await.map_err(exists_error)?;
            let blobs: Vec<BlobId> = parts.iter().map(|part| part.blob).collect();
            cx.storage.blobs.concat(&blobs, intent.blob()).await.map_err(StorageError::from)?;
            (intent.blob(), Some(intent))
        }
    };
    let content = Content { blob, size, e_tag };
    let _stored =
        write::finish(&cx, &upload.object, &content, intent, required).await.map_err(exists_error)?;
    let mut out = Writer::new("CompleteMultipartUploadResult");
    let prefix = call.storage.public_url.trim_end_matches('/');
    let (bucket, key) = (encode_path(call.bucket()), encode_path(call.key()));
    out.text("Location", format!("{prefix}/storage/v1/s3/{bucket}/{key}"));
    out.text("Bucket", call.bucket()).text("Key", call.key()).text("ETag", format!("\"{}\"", content.e_tag));
    Ok(out.finish("CompleteMultipartUploadResult"))
}

/// The part number of the request.
fn number(call: &Call) -> Result<u32, S3Error> {
    let message = "Part number must be an integer between 1 and 10000, inclusive";
    call.parameter("partNumber").and_then(part_number).ok_or_else(|| S3Error::invalid_argument(message))
}

/// The upload named in the request, if the caller created it.
async fn find(call: &Call, cx: &Context, except: Option<u32>) -> Result<OpenUpload, S3Error> {
    const FIND: &str = "select u.metadata ->> 'mimetype', u.metadata ->> 'cacheControl', u.user_metadata::text, \
         (select coalesce(sum(p.size), 0) from storage.s3_multipart_uploads_parts p \
          where p.upload_id = u.id and p.part_number is distinct from $4::integer), u.owner_id \
         from storage.s3_multipart_uploads u where u.id = $1 and u.bucket_id = $2 and u.key = $3";
    let id = call.parameter("uploadId").unwrap_or_default();
    let except: Option<String> = except.map(|number| number.to_string());
    let mut batch = cx.as_service();
    let found = batch.query(FIND, [id.into(), call.bucket().into(), call.key().into(), except.into()]);
    let rows = batch.read(call.deadline()).await?;
    let row = rows.first(found).ok_or_else(StorageError::no_such_upload)?;
    let is_others = row.text(4).is_some_and(|owner| cx.caller.subject.as_deref() != Some(owner));
    if is_others && !cx.caller.is_service() {
        return Err(StorageError::row_level_security().into());
    }
    let text = |column: usize, otherwise: &str| row.text(column).unwrap_or(otherwise).to_owned();
    Ok(OpenUpload {
        id: id.to_owned(),
        object: NewObject {
            at: call.object(),
            upsert: true,
            owner: cx.caller.subject.clone(),
            mime_type: text(0, "application/octet-stream"),
            cache_control: text(1, "no-cache"),
            robots: None,
            user_metadata: row.text(2).map(str::to_owned),
            announced: None,
        },
        other_bytes: row.number(3).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
    })
}

/// Maximum size of a part within the object's limits.
async fn max_part_bytes(cx: &Context, upload: &OpenUpload, length: Option<u64>) -> Result<u64, S3Error> {
    let bucket = cx.bucket(&upload.object.at.bucket).await?;
    let all = length.map(|length| length.saturating_add(upload.other_bytes));
    let max_bytes = upload.object.check_rules(&cx.storage, &bucket, all, None)?;
    let max_bytes = max_bytes.saturating_sub(upload.other_bytes).min(MAX_SINGLE_BYTES);
    if length.is_some_and(|length| length > max_bytes) {
        return Err(StorageError::entity_too_large().into());
    }
    Ok(max_bytes)
}

/// Stores a blob as the part with this number; the blob of a replaced part becomes garbage.
async fn store_part(
    cx: &Context,
    upload: &OpenUpload,
    number: u32,
    intent: Intent,
    written: &Written,
) -> Result<String, S3Error> {
    const LOCK: &str = "select 1 from storage.s3_multipart_uploads where id = $1 for update";
    const DELETE: &str =
        "delete from storage.s3_multipart_uploads_parts where upload_id = $1 and part_number = $2::integer";
    const INSERT: &str = "insert into storage.s3_multipart_uploads_parts \
         (upload_id, part_number, bucket_id, key, etag, owner_id, version, size) \
         values ($1, $2::integer, $3, $4, $5, $6, $7, $8::bigint)";
    const COUNT: &str = "update storage.s3_multipart_uploads u set in_progress_size = \
         (select coalesce(sum(p.size), 0) from storage.s3_multipart_uploads_parts p where p.upload_id = u.id) \
         where u.id = $1";
    let e_tag = hex::encode(written.md5);
    let id = || Param::from(upload.id.as_str());
    let at = &upload.object.at;
    let mut batch = cx.as_service();
    let locked = batch.query(LOCK, [id()]);
    let _deleted = batch.query(DELETE, [id(), Param::from_display(number)]);
    let params: Vec<Param> = vec![
        id(),
        Param::from_display(number),
        at.bucket.as_str().into(),
        at.key.as_str().into(),
        format!("\"{e_tag}\"").into(),
        upload.object.owner.clone().into(),
        intent.blob().to_string().into(),
        Param::from_display(written.size),
    ];
    let _inserted = batch.query(INSERT, params);
    let _counted = batch.query(COUNT, [id()]);
    let taken = batch.push(intents::commit_step(intent.blob()));
    let has_succeeded =
        move |rows: &crate::database::Rows| rows.first(locked).is_some() && rows.first(taken).is_some();
    let gone = |error: StorageError| match error.code() {
        // The part's row references its upload.
        "InvalidRequest" => StorageError::no_such_upload(),
        _ => error,
    };
    let rows = batch.commit_if(cx.deadline.renewed(), has_succeeded).await.map_err(gone)?;
    rows.first(locked).ok_or_else(StorageError::no_such_upload)?;
    // The sweeper has discarded the intent, so the bytes may be deleted.
    rows.first(taken).ok_or_else(StorageError::aborted)?;
    intent.done();
    Ok(e_tag)
}

async fn stored_parts(cx: &Context, upload: &OpenUpload) -> Result<Vec<StoredPart>, S3Error> {
    const LIST: &str = "select part_number, etag, size, version \
         from storage.s3_multipart_uploads_parts where upload_id = $1 order by part_number";
    let mut batch = cx.as_service();
    let found = batch.query(LIST, [upload.id.as_str().into()]);
    let rows = batch.read(cx.deadline.renewed()).await?;
    Ok(rows.all(found).iter().filter_map(StoredPart::from_row).collect())
}

impl StoredPart {
    fn from_row(row: &Row) -> Option<Self> {
        Some(Self {
            number: u32::try_from(row.number(0)?).ok()?,
            e_tag: unquoted(row.text(1)?).to_owned(),
            size: u64::try_from(row.number(2)?).ok()?,
            blob: BlobId::parse(row.text(3)?)?,
        })
    }
}

/// The stored parts selected by the client, matched by number and ETag.
fn select_parts(requested: &[CompletedPart], stored: &[StoredPart]) -> Result<Vec<StoredPart>, S3Error> {
    requested
        .iter()
        .map(|part| {
            let found = stored.iter().find(|stored| stored.number == part.number).ok_or_else(missing_part)?;
            if found.e_tag != part.etag {
                let message = format!("Invalid ETag for part {}", part.number);
                return Err(S3Error::bad_request("InvalidChecksum", message));
            }
            Ok(found.clone())
        })
        .collect()
}

fn missing_part() -> S3Error {
    let message = "One or more of the specified parts could not be found. The part may not have been uploaded, or the \
                   specified entity tag may not match the part's entity tag.";
    S3Error::bad_request("InvalidPart", message)
}

/// A part was replaced during completion.
fn changed_parts() -> StorageError {
    StorageError::no_such_upload()
}

/// ETag of the object, derived from those of its parts.
fn object_e_tag(parts: &[StoredPart]) -> String {
    write::e_tag_of_parts(parts.iter().map(|part| lower_hex::decode(&part.e_tag).unwrap_or_default()))
}

/// Deletes the upload and its parts; their blobs become garbage.
fn end_statement(id: &str) -> Statement {
    Statement {
        text: Arc::from("delete from storage.s3_multipart_uploads where id = $1 returning id"),
        params: vec![id.into()],
    }
}

/// Detaches a blob from its part.
fn take_statement(id: &str, part: &StoredPart) -> Statement {
    let text =
        "delete from storage.s3_multipart_uploads_parts where upload_id = $1 and version = $2 returning id";
    Statement { text: Arc::from(text), params: vec![id.into(), part.blob.to_string().into()] }
}

/// Parses `bytes=a-b` with both ends within the source.
fn source_range(header: Option<&str>, size: u64) -> Result<Range<u64>, S3Error> {
    let Some(header) = header else { return Ok(0..size) };
    let invalid = || {
        let message = "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the \
                       zero-based offsets of the first and last bytes to copy";
        S3Error::invalid_argument(message)
    };
    let (first, last) =
        header.strip_prefix("bytes=").and_then(|range| range.split_once('-')).ok_or_else(invalid)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| invalid());
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(invalid());
    }
    if last >= size {
        return Err(StorageError::invalid_range().into());
    }
    Ok(first..last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_range_must_lie_within_the_source() {
        let range = |header: Option<&str>| source_range(header, 10).map_err(|error| error.code());
        assert_eq!(range(None), Ok(0..10));
        assert_eq!(range(Some("bytes=2-4")), Ok(2..5));
        assert_eq!(range(Some("bytes=0-9")), Ok(0..10));
        assert_eq!(range(Some("bytes=0-10")), Err("InvalidRange"));
        for bad in ["bytes=-2", "bytes=2-", "2-4", "bytes=4-2", "bytes=a-b", "bytes=1"] {
            assert_eq!(range(Some(bad)), Err("InvalidArgument"), "{bad}");
        }
    }

    #[test]
    fn etag_is_derived_from_the_parts() {
        let part =
            |e_tag: &str| StoredPart { number: 1, e_tag: e_tag.to_owned(), size: 1, blob: BlobId::random() };
        let (a, b) = (part("0cc175b9c0f1b6a831c399e269772661"), part("92eb5ffee6ae2fec3ad71c777531578f"));
        assert_eq!(object_e_tag(&[a, b]), "96e024ba2074fe77e8e965ba43a704be-2");
    }
}
