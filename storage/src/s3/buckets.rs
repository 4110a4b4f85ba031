//! Bucket operations of the S3 protocol.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;

use super::Call;
use super::error::{S3Error, xml};
use super::payload::Payload;
use super::xml::Writer;
use crate::buckets;
use crate::caller::Caller;
use crate::error::StorageError;
use crate::names;
use crate::operation::Operation;

/// ListBuckets: the buckets visible to the caller.
pub(super) async fn list(call: &Call) -> Result<Response, S3Error> {
    const LIST: &str = "select id, to_char(created_at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') \
                        from storage.buckets order by id collate \"C\"";
    let mut batch = call.storage.database.batch(&call.settings, Operation::S3_BUCKET_LIST, &call.caller);
    let found = batch.query(LIST, []);
    let rows = batch.read(call.deadline()).await?;
    let mut out = Writer::new("ListAllMyBucketsResult");
    out.element("Buckets", |out| {
        for row in rows.all(found) {
            out.element("Bucket", |out| {
                out.text("Name", row.text(0).unwrap_or_default()).optional("CreationDate", row.text(1));
            });
        }
    });
    Ok(xml(StatusCode::OK, out.finish("ListAllMyBucketsResult")))
}

/// CreateBucket. A requested location is ignored.
pub(super) async fn create(call: &Call, payload: Payload) -> Result<Response, S3Error> {
    let _document = call.document(payload).await?;
    let is_public = match call.header("x-amz-acl") {
        None | Some("private") => false,
        Some("public-read") => true,
        Some(_) => return Err(S3Error::not_implemented()),
    };
    names::check_bucket_name(call.bucket())?;
    let batch = call.storage.database.batch(&call.settings, Operation::S3_BUCKET_CREATE, &call.caller);
    let settings = buckets::Settings::public(is_public);
    buckets::insert(batch, &call.caller, [call.bucket(); 2], &settings, call.deadline()).await?;
    let location = format!("/{}", call.bucket());
    Ok([(LOCATION, location)].into_response())
}

pub(super) async fn delete(call: &Call) -> Result<Response, S3Error> {
    let operation = Operation::S3_BUCKET_DELETE;
    let batch = call.storage.database.batch(&call.settings, operation, &Caller::service());
    buckets::remove(batch, &call.caller, call.bucket(), call.deadline()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn head(call: &Call) -> Result<Response, S3Error> {
    require_visible(call, Operation::S3_BUCKET_HEAD).await?;
    Ok([("x-amz-bucket-region", call.storage.config.s3_protocol.region.clone())].into_response())
}

pub(super) async fn location(call: &Call) -> Result<Response, S3Error> {
    require_visible(call, Operation::S3_BUCKET_GET_LOCATION).await?;
    let mut out = Writer::new("LocationConstraint");
    out.content(&call.storage.config.s3_protocol.region);
    Ok(xml(StatusCode::OK, out.finish("LocationConstraint")))
}

/// GetBucketVersioning: versioning is never enabled.
pub(super) async fn versioning(call: &Call) -> Result<Response, S3Error> {
    require_visible(call, Operation::S3_BUCKET_GET_VERSIONING).await?;
    let mut out = Writer::new("VersioningConfiguration");
    out.text("Status", "Suspended");
    Ok(xml(StatusCode::OK, out.finish("VersioningConfiguration")))
}

/// Fails unless the bucket is visible to the caller.
async fn require_visible(call: &Call, operation: Operation) -> Result<(), S3Error> {
    let mut batch = call.storage.database.batch(&call.settings, operation, &call.caller);
    let found = batch.query("select 1 from storage.buckets where id = $1", [call.bucket().into()]);
    let rows = batch.read(call.deadline()).await?;
    rows.first(found).ok_or_else(StorageError::no_such_bucket)?;
    Ok(())
}
