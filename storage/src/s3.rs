//! The S3 protocol at `/s3` (storage.md §3.16), implemented on the raw request.
//!
//! `operation` identifies the operation, `sigv4` verifies the signature, `payload` and `chunked` read the
//! body. The other modules map each operation to the functions that also serve the other protocols, with the
//! caller's permissions.

mod authentication;
mod buckets;
mod checksum;
pub mod chunked;
mod documents;
mod error;
mod form;
mod list;
mod multipart;
mod operation;
mod payload;
mod policy;
mod read;
pub mod sigv4;
mod slow;
mod write;
mod xml;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use basalt_core::memory::BodyLease;
use basalt_core::service::{BodyMode, Deadline, Original};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::Storage;
use crate::caller::Caller;
use crate::database::{self, RequestSettings};
use crate::objects::routes::ObjectPath;
use crate::objects::write::Context;
use crate::operation::Operation;
use authentication::Authenticated;
use error::S3Error;
pub(crate) use error::render;
use operation::{Action, Target};
use payload::Payload;

/// Maximum size of a document sent by a client: the part list of a large object.
const DOCUMENT_LIMIT: usize = 4 * 1024 * 1024;

/// Whether the body is streamed. Documents are smaller than objects but may exceed the JSON limit of the
/// other protocols, and their signature is verified while they are read.
pub(crate) fn body_mode(request: &Request) -> BodyMode {
    match *request.method() {
        Method::PUT | Method::POST => BodyMode::Streamed,
        _ => BodyMode::Buffered,
    }
}

/// A request with a valid signature.
pub(crate) struct Call {
    storage: Arc<Storage>,
    parts: Parts,
    target: Target,
    query: Vec<(String, String)>,
    settings: RequestSettings,
    caller: Caller,
}

impl Call {
    /// Id of the bucket; empty for ListBuckets.
    fn bucket(&self) -> &str {
        match &self.target {
            Target::Service => "",
            Target::Bucket(bucket) | Target::Object(bucket, _) => bucket,
        }
    }

    /// Key of the object; empty for bucket operations.
    fn key(&self) -> &str {
        match &self.target {
            Target::Service | Target::Bucket(_) => "",
            Target::Object(_, key) => key,
        }
    }

    fn object(&self) -> ObjectPath {
        ObjectPath { bucket: self.bucket().to_owned(), key: self.key().to_owned() }
    }

    /// The context for functions that write objects.
    fn context(&self, operation: Operation) -> Context {
        Context {
            storage: Arc::clone(&self.storage),
            request: self.settings.clone(),
            operation,
            caller: self.caller.clone(),
            deadline: self.deadline(),
        }
    }

    fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// A header's text; `None` if it is not valid text.
    fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A query parameter; the first one if it is repeated.
    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Whether the signature is in the URL, which a browser can open as a page; browsers do not sign headers.
    fn is_presigned(&self) -> bool {
        self.parameter("X-Amz-Signature").is_some()
    }

    /// A numeric parameter, limited to `max`, which is also the default.
    fn count(&self, name: &str, max: usize) -> Result<usize, S3Error> {
        let invalid = || S3Error::invalid_argument(format!("{name} must be a number of 0 or more"));
        let sent = self.parameter(name).filter(|text| !text.is_empty());
        let sent = sent.map(|text| text.parse::<u32>().map_err(|_| invalid())).transpose()?;
        Ok(sent.and_then(|count| usize::try_from(count).ok()).map_or(max, |count| count.min(max)))
    }

    /// Deadline of the next database step: streaming before it took as long as the client needed.
    fn deadline(&self) -> Deadline {
        database::deadline(&self.parts).renewed()
    }

    /// Reads the body as a document.
    async fn document(&self, payload: Payload) -> Result<Bytes, S3Error> {
        Ok(payload
            .collect(DOCUMENT_LIMIT, self.parts.extensions.get::<BodyLease>().map(BodyLease::fresh))
            .await?)
    }
}

/// Handles a request below `/s3`.
pub(crate) async fn handle(storage: &Arc<Storage>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().strip_prefix("/s3").unwrap_or_default().to_owned();
    let target = match Target::parse(&path) {
        Ok(target) => target,
        Err(error) => return error.respond(&path),
    };
    let resource = target.resource();
    // Boxed: the future is large, and most requests need little of it.
    Box::pin(serve(storage, target, parts, body)).await.unwrap_or_else(|error| error.respond(&resource))
}

async fn serve(
    storage: &Arc<Storage>,
    target: Target,
    mut parts: Parts,
    body: Body,
) -> Result<Response, S3Error> {
    let query = parts.extensions.get::<Original>().and_then(|original| original.target.query());
    let query = sigv4::query_pairs(query.unwrap_or_default());
    if parts.method == Method::POST && matches!(target, Target::Bucket(_)) && form::is_form(&parts) {
        // A form has its signature in the body.
        check_text(&target, &query)?;
        return form::post(storage, target, parts, body).await;
    }
    let mut authenticated = authentication::authenticate(storage, &mut parts)?;
    let action = Action::parse(&parts.method, &target, &query, &parts.headers)?;
    check_text(&target, &query)?;
    let payload = authenticated.payload(&parts, body)?;
    let Authenticated { caller, .. } = authenticated;
    let settings = RequestSettings::from_parts(&parts);
    let call = Call { storage: Arc::clone(storage), parts, target, query, settings, caller };
    match action {
        Action::ListBuckets => buckets::list(&call).await,
        Action::CreateBucket => buckets::create(&call, payload).await,
        Action::HeadBucket => buckets::head(&call).await,
        Action::GetBucketLocation => buckets::location(&call).await,
        Action::GetBucketVersioning => buckets::versioning(&call).await,
        Action::ListObjects => list::objects_v1(&call).await,
        Action::ListObjectsV2 => list::objects_v2(&call).await,
        Action::ListObjectVersions => list::object_versions(&call).await,
        Action::ListMultipartUploads => list::multipart_uploads(&call).await,
        Action::DeleteBucket => buckets::delete(&call).await,
        Action::GetObject => read::get(&call).await,
        Action::HeadObject => read::head(&call).await,
        Action::GetObjectTagging => read::tagging(&call).await,
        Action::GetObjectAttributes => read::attributes(&call).await,
        Action::PutObject => write::put(&call, payload).await,
        Action::CopyObject => {
            slow::answer(call, |call| Box::pin(async move { write::copy(&call).await })).await
        }
        Action::DeleteObject => write::delete(&call).await,
        Action::DeleteObjects => write::delete_many(&call, payload).await,
        Action::CreateMultipartUpload => multipart::create(&call).await,
        Action::UploadPart => multipart::put_part(&call, payload).await,
        Action::UploadPartCopy => {
            slow::answer(call, |call| Box::pin(async move { multipart::copy_part(&call).await })).await
        }
        Action::ListParts => multipart::list_parts(&call).await,
        Action::CompleteMultipartUpload => {
            let wanted = multipart::read_parts(&call, payload).await?;
            slow::answer(call, |call| Box::pin(multipart::complete(call, wanted))).await
        }
        Action::AbortMultipartUpload => multipart::abort(&call).await,
        // Handled above: only a form upload is a PostObject.
        Action::PostObject => Err(S3Error::not_implemented()),
    }
}

/// Rejects NUL, which PostgreSQL's text cannot contain.
fn check_text(target: &Target, query: &[(String, String)]) -> Result<(), S3Error> {
    let has_nul = |text: &str| text.contains('\0');
    if has_nul(&target.resource()) || query.iter().any(|(_, value)| has_nul(value)) {
        return Err(S3Error::invalid_uri());
    }
    Ok(())
}
