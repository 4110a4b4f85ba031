//! GET and HEAD `/render/image/{public|authenticated|sign}/{b}/{key}` (storage.md §3.14).

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio_util::io::ReaderStream;

use super::cache::{CachedVariant, Content};
use super::{ImageError, Images, Parameters, Source};
use crate::Storage;
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::json_body::Query;
use crate::names;
use crate::objects::conditions::{self, Validators};
use crate::objects::download::{body, describe, signed_path};
use crate::objects::find::{Lookup, Opened, Reader, StoredObject};
use crate::objects::routes::ObjectPath;
use crate::operation::Operation;
use crate::url_token::DownloadToken;

const TRANSFORMATIONS: HeaderName = HeaderName::from_static("x-transformations");
const SVG: &str = "image/svg+xml";
/// Bytes per read of a cached variant.
const CHUNK_BYTES: usize = 256 * 1024;

pub(crate) async fn render(storage: &Storage, request: Request) -> Result<Response, StorageError> {
    let (parts, _body) = request.into_parts();
    let unknown = || StorageError::unknown_route(&parts.method, &parts.uri);
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    if !is_read || !storage.config.images.enabled {
        return Err(unknown());
    }
    let rest = parts.uri.path().strip_prefix("/render/image/").ok_or_else(unknown)?;
    let (access, rest) = rest.split_once('/').ok_or_else(unknown)?;
    let (bucket, key) = names::decode_object_path(rest)?.ok_or_else(unknown)?;
    let at = ObjectPath { bucket, key };
    match access {
        "public" => public(storage, &at, &parts).await,
        "authenticated" => authenticated(storage, &at, &parts).await,
        "sign" => signed(storage, &at, &parts).await,
        _ => Err(unknown()),
    }
}

async fn public(storage: &Storage, at: &ObjectPath, parts: &Parts) -> Result<Response, StorageError> {
    let wanted = read_parameters(storage, parts)?;
    names::check_bucket_name(&at.bucket)?;
    let request = RequestSettings::from_parts(parts);
    let operation = Operation::RENDER_IMAGE_PUBLIC;
    let lookup = Lookup::new(storage, &request, operation, Reader::Public, at, deadline(parts));
    answer(storage, &lookup, parts, &wanted, None).await
}

/// Policies apply to the caller even if the bucket is public.
async fn authenticated(storage: &Storage, at: &ObjectPath, parts: &Parts) -> Result<Response, StorageError> {
    let wanted = read_parameters(storage, parts)?;
    let caller = storage.callers.required_token(&parts.headers)?;
    names::check_bucket_name(&at.bucket)?;
    let request = RequestSettings::from_parts(parts);
    let operation = Operation::RENDER_IMAGE_AUTHENTICATED;
    let reader = Reader::PolicyCheckedCaller(&caller);
    let lookup = Lookup::new(storage, &request, operation, reader, at, deadline(parts));
    answer(storage, &lookup, parts, &wanted, None).await
}

/// The token determines the transformation; the query is ignored.
async fn signed(storage: &Storage, at: &ObjectPath, parts: &Parts) -> Result<Response, StorageError> {
    let query = Query::parse(parts.uri.query());
    let fields = query.fields();
    fields.require(&["token"])?;
    let token = fields.string("token")?.unwrap_or_default();
    names::check_bucket_name(&at.bucket)?;
    let (at, token) = signed_path(at, |path| storage.callers.verify_render(&token, path))?;
    let wanted = Parameters::from_token(&token.transformations, storage.config.images.max_size);
    let request = RequestSettings::from_parts(parts);
    let operation = Operation::RENDER_IMAGE_SIGN;
    let lookup = Lookup::new(storage, &request, operation, Reader::Service, &at, deadline(parts));
    answer(storage, &lookup, parts, &wanted, Some(&DownloadToken { expires: token.expires })).await
}

fn read_parameters(storage: &Storage, parts: &Parts) -> Result<Parameters, StorageError> {
    let query = Query::parse(parts.uri.query());
    Parameters::read(&query.fields(), storage.config.images.max_size)
}

async fn answer(
    storage: &Storage,
    lookup: &Lookup<'_>,
    parts: &Parts,
    wanted: &Parameters,
    signed: Option<&DownloadToken>,
) -> Result<Response, StorageError> {
    let object = lookup.find().await?;
    let mut response = if is_svg(&object) {
        unchanged(lookup, object, parts, signed).await?
    } else {
        transformed(storage, &object, parts, wanted, signed).await?
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(header) = HeaderValue::try_from(wanted.header())
        && !header.is_empty()
    {
        headers.insert(TRANSFORMATIONS, header);
    }
    if parts.method == Method::HEAD {
        *response.body_mut() = Body::empty();
    }
    Ok(response)
}

async fn transformed(
    storage: &Storage,
    object: &StoredObject,
    parts: &Parts,
    wanted: &Parameters,
    signed: Option<&DownloadToken>,
) -> Result<Response, StorageError> {
    // Rows created in SQL may have no blob.
    let (blob, size) = object.blob().ok_or_else(StorageError::no_such_key)?;
    let source = Source { blob, size };
    let wants_webp = wanted.wants_webp(accept(&parts.headers).as_deref());
    let e_tag = Images::key(&source, wanted, wants_webp).etag();
    let validators = Validators { e_tag: Some(&e_tag), last_modified: object.last_modified() };
    let (mut response, content_type) = if conditions::is_unmodified(&parts.headers, validators) {
        (StatusCode::NOT_MODIFIED.into_response(), None)
    } else {
        let kept = storage
            .images
            .variant(&storage.blobs, &source, wanted, wants_webp, storage.callers.identity(parts))
            .await?;
        let CachedVariant { format, size, content } = kept;
        let body = match content {
            Content::Bytes(bytes) => Body::from(bytes),
            Content::File(file) => Body::from_stream(ReaderStream::with_capacity(file, CHUNK_BYTES)),
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_LENGTH, size.into());
        (response, Some(format.content_type()))
    };
    let headers = response.headers_mut();
    describe(headers, object, signed, parts.uri.query());
    // Remove headers that do not apply: a variant has its own type and supports no ranges.
    headers.remove(ACCEPT_RANGES);
    headers.remove(CONTENT_TYPE);
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if let Ok(e_tag) = HeaderValue::try_from(e_tag) {
        headers.insert(ETAG, e_tag);
    }
    Ok(response)
}

/// Vector images need no scaling.
fn is_svg(object: &StoredObject) -> bool {
    let media = object.metadata.mime_type.as_deref().unwrap_or_default();
    media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case(SVG))
}

async fn unchanged(
    lookup: &Lookup<'_>,
    object: StoredObject,
    parts: &Parts,
    signed: Option<&DownloadToken>,
) -> Result<Response, StorageError> {
    let (object, mut response) = if conditions::is_unmodified(&parts.headers, object.validators()) {
        (object, StatusCode::NOT_MODIFIED.into_response())
    } else {
        let Opened { object, size, part: _, bytes } = lookup.open(object, |_, _| Ok(None)).await?;
        let mut response = Response::new(body(bytes, size).await?);
        response.headers_mut().insert(CONTENT_LENGTH, size.into());
        (object, response)
    };
    describe(response.headers_mut(), &object, signed, parts.uri.query());
    response.headers_mut().remove(ACCEPT_RANGES);
    Ok(response)
}

/// All `Accept` headers joined to one list.
fn accept(headers: &HeaderMap) -> Option<String> {
    let ranges: Vec<&str> =
        headers.get_all(ACCEPT).iter().filter_map(|ranges| ranges.to_str().ok()).collect();
    (!ranges.is_empty()).then(|| ranges.join(","))
}

impl From<ImageError> for StorageError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Transform(_) | ImageError::TooManyBytes => Self::bad_request(error.to_string()),
            ImageError::Busy => Self::too_many_images(),
            ImageError::Blob(error) => error.into(),
        }
    }
}
