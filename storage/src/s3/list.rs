//! ListObjects (both versions), ListObjectVersions and ListMultipartUploads, run as the caller so that
//! policies apply.

use axum::response::Response;
use basalt_pg::session::Row;
use basalt_pg::sql::Param;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;

use super::Call;
use super::error::{S3Error, xml};
use super::operation::ONLY_VERSION;
use super::sigv4::encode_path;
use super::xml::Writer;
use crate::buckets::row::Bucket;
use crate::caller::Caller;
use crate::error::StorageError;
use crate::operation::Operation;

/// Most entries per page.
const MAX_KEYS: usize = 1000;

/// One more row than a page is read, to determine whether another page follows.
const OBJECTS: &str = "select e.name, e.id, e.metadata ->> 'eTag', coalesce(e.metadata ->> 'size', '0'), \
     to_char(e.updated_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') \
     from storage.list_objects_with_delimiter($1, $2, $3, $4::integer, $5, $6) e";
const UPLOADS: &str = "select e.key, e.id, \
     to_char(e.created_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') \
     from storage.list_multipart_uploads_with_delimiter($1, $2, $3, $4::integer, $5, $6) e";

/// Parameters common to all lists.
struct ListRequest<'a> {
    prefix: &'a str,
    delimiter: &'a str,
    limit: usize,
    encodes: bool,
}

impl<'a> ListRequest<'a> {
    fn read(call: &'a Call, limit: &str) -> Result<Self, S3Error> {
        let encodes = match call.parameter("encoding-type") {
            None => false,
            Some("url") => true,
            Some(_) => return Err(S3Error::invalid_argument("Invalid Encoding Method specified in Request")),
        };
        Ok(Self {
            prefix: call.parameter("prefix").unwrap_or_default(),
            delimiter: call.parameter("delimiter").unwrap_or_default(),
            limit: call.count(limit, MAX_KEYS)?,
            encodes,
        })
    }

    /// A name as returned: XML cannot represent some characters, so clients may request URL encoding.
    fn show(&self, name: &str) -> String {
        if self.encodes { encode_path(name) } else { name.to_owned() }
    }

    /// Repeats the request's parameters in the response.
    fn write_parameters(&self, out: &mut Writer) {
        out.text("Prefix", self.show(self.prefix));
        if !self.delimiter.is_empty() {
            out.text("Delimiter", self.show(self.delimiter));
        }
        if self.encodes {
            out.text("EncodingType", "url");
        }
    }

    /// The rows of this page, and whether another page follows.
    fn page<'r>(&self, rows: &'r [Row]) -> (&'r [Row], bool) {
        match rows.get(..self.limit) {
            Some(page) if rows.len() > self.limit => (page, self.limit > 0),
            _ => (rows, false),
        }
    }
}

pub(super) async fn objects_v1(call: &Call) -> Result<Response, S3Error> {
    let request = ListRequest::read(call, "max-keys")?;
    let marker = call.parameter("marker").unwrap_or_default();
    let rows = read(call, Operation::S3_OBJECT_LIST, OBJECTS, &request, "", marker).await?;
    let (page, is_truncated) = request.page(&rows);
    let mut out = Writer::new("ListBucketResult");
    out.text("Name", call.bucket()).text("Marker", request.show(marker));
    request.write_parameters(&mut out);
    out.text("MaxKeys", request.limit).text("IsTruncated", is_truncated);
    let last = page.last().and_then(|row| row.text(0)).filter(|_| is_truncated);
    out.optional("NextMarker", last.map(|name| request.show(name)));
    write_entries(&mut out, &request, page, Entry::Object);
    Ok(xml(StatusCode::OK, out.finish("ListBucketResult")))
}

pub(super) async fn objects_v2(call: &Call) -> Result<Response, S3Error> {
    if call.parameter("list-type") != Some("2") {
        return Err(S3Error::invalid_argument("list-type must be 2"));
    }
    let request = ListRequest::read(call, "max-keys")?;
    let start_after = call.parameter("start-after").unwrap_or_default();
    let token = call.parameter("continuation-token");
    let after = token.map(read_token).transpose()?.unwrap_or_default();
    let rows = read(call, Operation::S3_OBJECT_LIST, OBJECTS, &request, start_after, &after).await?;
    let (page, is_truncated) = request.page(&rows);
    let mut out = Writer::new("ListBucketResult");
    out.text("Name", call.bucket());
    request.write_parameters(&mut out);
    out.text("MaxKeys", request.limit).text("KeyCount", page.len()).text("IsTruncated", is_truncated);
    out.optional("ContinuationToken", token);
    let last = page.last().and_then(|row| row.text(0)).filter(|_| is_truncated);
    out.optional("NextContinuationToken", last.map(|name| URL_SAFE_NO_PAD.encode(name)));
    if !start_after.is_empty() {
        out.text("StartAfter", request.show(start_after));
    }
    write_entries(&mut out, &request, page, Entry::Object);
    Ok(xml(StatusCode::OK, out.finish("ListBucketResult")))
}

/// ListObjectVersions: the single version of each object, named as S3 does for unversioned buckets.
pub(super) async fn object_versions(call: &Call) -> Result<Response, S3Error> {
    let request = ListRequest::read(call, "max-keys")?;
    let key_marker = call.parameter("key-marker").unwrap_or_default();
    let rows = read(call, Operation::S3_OBJECT_LIST, OBJECTS, &request, "", key_marker).await?;
    let (page, is_truncated) = request.page(&rows);
    let mut out = Writer::new("ListVersionsResult");
    out.text("Name", call.bucket()).text("KeyMarker", request.show(key_marker));
    out.text("VersionIdMarker", call.parameter("version-id-marker").unwrap_or_default());
    request.write_parameters(&mut out);
    out.text("MaxKeys", request.limit).text("IsTruncated", is_truncated);
    if let Some(last) = page.last().filter(|_| is_truncated) {
        out.text("NextKeyMarker", request.show(last.text(0).unwrap_or_default()));
        out.text("NextVersionIdMarker", ONLY_VERSION);
    }
    write_entries(&mut out, &request, page, Entry::Version);
    Ok(xml(StatusCode::OK, out.finish("ListVersionsResult")))
}

pub(super) async fn multipart_uploads(call: &Call) -> Result<Response, S3Error> {
    let request = ListRequest::read(call, "max-uploads")?;
    let key_marker = call.parameter("key-marker").unwrap_or_default();
    let upload_marker = call.parameter("upload-id-marker").unwrap_or_default();
    let operation = Operation::S3_UPLOAD_LIST_MULTIPART;
    let rows = read(call, operation, UPLOADS, &request, key_marker, upload_marker).await?;
    let (page, is_truncated) = request.page(&rows);
    let mut out = Writer::new("ListMultipartUploadsResult");
    out.text("Bucket", call.bucket()).text("KeyMarker", request.show(key_marker));
    out.text("UploadIdMarker", upload_marker);
    request.write_parameters(&mut out);
    out.text("MaxUploads", request.limit).text("IsTruncated", is_truncated);
    if let Some(last) = page.last().filter(|_| is_truncated) {
        out.text("NextKeyMarker", request.show(last.text(0).unwrap_or_default()));
        out.text("NextUploadIdMarker", last.text(1).unwrap_or_default());
    }
    for row in page {
        let key = request.show(row.text(0).unwrap_or_default());
        match row.text(1) {
            Some(id) => out.element("Upload", |out| {
                out.text("Key", key).text("UploadId", id).text("StorageClass", "STANDARD");
                out.optional("Initiated", row.text(2));
            }),
            None => out.element("CommonPrefixes", |out| {
                out.text("Prefix", key);
            }),
        };
    }
    Ok(xml(StatusCode::OK, out.finish("ListMultipartUploadsResult")))
}

/// Reads a page and one more row as the caller; the existence of the bucket is checked as the server.
async fn read(
    call: &Call,
    operation: Operation,
    text: &'static str,
    request: &ListRequest<'_>,
    after: &str,
    next: &str,
) -> Result<Vec<Row>, S3Error> {
    let mut batch = call.storage.database.batch(&call.settings, operation, &Caller::service());
    let bucket = Bucket::query_in(&mut batch, call.bucket());
    batch.act_as(&call.caller);
    let params: Vec<Param> = vec![
        call.bucket().into(),
        request.prefix.into(),
        request.delimiter.into(),
        Param::from_display(request.limit + 1),
        after.into(),
        next.into(),
    ];
    let found = batch.query(text, params);
    let rows = batch.read(call.deadline()).await?;
    rows.first(bucket).ok_or_else(StorageError::no_such_bucket)?;
    Ok(rows.all(found).to_vec())
}

/// Element used for an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Object,
    Version,
}

fn write_entries(out: &mut Writer, request: &ListRequest<'_>, page: &[Row], entry: Entry) {
    for row in page {
        let name = request.show(row.text(0).unwrap_or_default());
        if row.text(1).is_none() {
            out.element("CommonPrefixes", |out| {
                out.text("Prefix", name);
            });
            continue;
        }
        out.element(if entry == Entry::Version { "Version" } else { "Contents" }, |out| {
            out.text("Key", name);
            if entry == Entry::Version {
                out.text("VersionId", ONLY_VERSION).text("IsLatest", true);
            }
            out.optional("LastModified", row.text(4)).optional("ETag", row.text(2));
            out.optional("Size", row.text(3)).text("StorageClass", "STANDARD");
        });
    }
}

/// The token is the last name of the previous page.
fn read_token(token: &str) -> Result<String, S3Error> {
    let name = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let invalid = || S3Error::invalid_argument("The continuation token provided is incorrect");
    name.filter(|name| !name.contains('\0')).ok_or_else(invalid)
}
