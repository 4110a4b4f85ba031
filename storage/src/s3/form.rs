//! PostObject: an upload from an HTML form, signed by one of its fields.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::memory::BodyLease;
use http::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use url::Url;

use super::authentication::authenticate_form;
use super::error::{S3Error, xml};
use super::policy::{Policy, PolicyError};
use super::sigv4::{encode_path, read_form};
use super::write::{MAX_SINGLE_BYTES, describe_bytes, described};
use super::xml::Writer;
use super::{Call, Target};
use crate::Storage;
use crate::objects::form::Form;
use crate::objects::routes::ObjectPath;
use crate::objects::write::{self, Content};
use crate::operation::Operation;

/// Most fields in a form, signature fields included.
const MAX_FIELDS: usize = 50;

/// Whether a request without a signature is a form upload.
pub(super) fn is_form(parts: &Parts) -> bool {
    let media = parts.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    media.get(..19).is_some_and(|start| start.eq_ignore_ascii_case("multipart/form-data"))
}

/// Handles PostObject. Fields after the file are ignored.
pub(super) async fn post(
    storage: &std::sync::Arc<Storage>,
    target: Target,
    parts: Parts,
    body: Body,
) -> Result<Response, S3Error> {
    let media = parts.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let form = Form::new(media, body, parts.extensions.get::<BodyLease>())?;
    let mut form = form.with_max_fields(MAX_FIELDS);
    let file = form.file().await?;
    let file_name = file.name().unwrap_or_default().to_owned();
    let fields: Vec<(String, String)> = form
        .fields()
        .iter()
        .map(|(name, value)| match name.to_ascii_lowercase() {
            // The policy applies to the resulting key.
            name if name == "key" => (name, value.replace("${filename}", &file_name)),
            name => (name, value.clone()),
        })
        .collect();
    let field = |name: &str| fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let now = storage.callers.clock.now();
    let signature = read_form(|name| field(name).map(str::to_owned), now.as_second())?;
    let caller = authenticate_form(storage, &signature)?;
    let policy = Policy::parse(&signature.policy)?;
    let bucket = target.resource();
    policy.check(&fields, &bucket, now)?;
    let key = field("key")
        .ok_or_else(|| S3Error::invalid_argument("Bucket POST must contain a field named 'key'"))?;
    let key = key.to_owned();
    let settings = crate::database::RequestSettings::from_parts(&parts);
    let target = Target::Object(bucket.clone(), key.clone());
    let call = Call { storage: storage.clone(), parts, target, query: Vec::new(), settings, caller };
    let cx = call.context(Operation::S3_UPLOAD);
    let at = ObjectPath { bucket: bucket.clone(), key: key.clone() };
    let object = described(&description_headers(&fields), at, &cx.caller, None);
    let found = cx.bucket(&bucket).await?;
    let max_bytes = object.check_rules(&cx.storage, &found, None, Some(MAX_SINGLE_BYTES))?;
    let (min_bytes, policy_max) = policy.length.unwrap_or((0, u64::MAX));
    let intent = write::begin(&cx, &object).await?;
    let max_bytes = max_bytes.min(policy_max);
    let written = write::write_body(&cx, &intent, max_bytes, None, file.bytes()).await;
    let written = written.map_err(|error| match error.code() {
        "EntityTooLarge" => {
            S3Error::bad_request("EntityTooLarge", "Your proposed upload exceeds the maximum allowed size")
        }
        _ => error.into(),
    })?;
    if written.size < min_bytes {
        let message = "Your proposed upload is smaller than the minimum allowed size";
        return Err(S3Error::bad_request("EntityTooSmall", message));
    }
    form.rest().await?;
    let content = Content::from_written(&intent, &written);
    let _stored = write::finish(&cx, &object, &content, Some(intent), Vec::new()).await?;
    Ok(answer(&call, &content.e_tag, field("success_action_redirect"), field("success_action_status")))
}

/// Turns form fields that describe the object into the equivalent headers.
fn description_headers(fields: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let describes_object =
            name == "content-type" || name == "cache-control" || name.starts_with("x-amz-meta-");
        if let (true, Ok(name), Ok(value)) =
            (describes_object, HeaderName::try_from(name.as_str()), HeaderValue::from_str(value))
        {
            headers.insert(name, value);
        }
    }
    headers
}

/// 200, or the status or redirect requested by the signed form.
fn answer(call: &Call, e_tag: &str, redirect: Option<&str>, status: Option<&str>) -> Response {
    let prefix = call.storage.public_url.trim_end_matches('/');
    let (bucket, key) = (encode_path(call.bucket()), encode_path(call.key()));
    let location = format!("{prefix}/storage/v1/s3/{bucket}/{key}");
    let mut headers = HeaderMap::new();
    describe_bytes(&mut headers, e_tag, None);
    let redirect = redirect.and_then(|redirect| Url::parse(redirect).ok());
    if let Some(mut redirect) = redirect.filter(|redirect| matches!(redirect.scheme(), "http" | "https")) {
        let e_tag = format!("\"{e_tag}\"");
        let pairs = [("bucket", call.bucket()), ("key", call.key()), ("etag", e_tag.as_str())];
        let _pairs = redirect.query_pairs_mut().extend_pairs(pairs);
        if let Ok(redirect) = HeaderValue::try_from(redirect.as_str()) {
            headers.insert(LOCATION, redirect);
            return (StatusCode::SEE_OTHER, headers).into_response();
        }
    }
    if let Ok(location) = HeaderValue::try_from(location.as_str()) {
        headers.insert(LOCATION, location);
    }
    match status {
        Some("201") => {
            let mut out = Writer::new("PostResponse");
            out.text("Location", location).text("Bucket", call.bucket()).text("Key", call.key());
            out.text("ETag", format!("\"{e_tag}\""));
            (headers, xml(StatusCode::CREATED, out.finish("PostResponse"))).into_response()
        }
        Some("204") => (StatusCode::NO_CONTENT, headers).into_response(),
        _ => (StatusCode::OK, headers).into_response(),
    }
}

impl From<PolicyError> for S3Error {
    fn from(error: PolicyError) -> Self {
        let message = error.to_string();
        match error {
            PolicyError::Malformed(_) => Self::bad_request("InvalidPolicyDocument", message),
            PolicyError::Expired | PolicyError::Failed(_) | PolicyError::Extra(_) => {
                Self::access_denied(message)
            }
        }
    }
}
