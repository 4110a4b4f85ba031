//! GET and HEAD of objects (storage.md §3.6). Everything except the bytes comes from the row, so 304, 416
//! and HEAD do not access the blob store, and the database connection is released before the first byte is
//! sent.

use std::ops::Range;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    EXPIRES, LAST_MODIFIED,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::conditions;
use super::find::{Lookup, Opened, Reader, StoredObject};
use super::routes::{AccessPath, ObjectPath};
use crate::Storage;
use crate::blobs::{BlobError, BlobStream};
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::json_body::Query;
use crate::names;
use crate::operation::Operation;
use crate::url_token::DownloadToken;

const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");
/// Content type of an object whose row has none.
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// Characters percent-encoded in `filename*`: all but the `attr-char` of RFC 8187. `encodeURIComponent` does
/// not encode `'()*` either.
const EXTENDED_VALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// GET, HEAD `/object[/public|/authenticated]/{b}/{key}`.
pub(crate) async fn download(
    storage: &Storage,
    access: AccessPath,
    at: &ObjectPath,
    parts: &Parts,
) -> Result<Response, StorageError> {
    let operation = match (access, &parts.method) {
        (AccessPath::Public, _) => Operation::OBJECT_GET_PUBLIC,
        (AccessPath::Authenticated | AccessPath::Either, &Method::HEAD) => {
            Operation::OBJECT_HEAD_AUTHENTICATED_INFO
        }
        (AccessPath::Authenticated | AccessPath::Either, _) => Operation::OBJECT_GET_AUTHENTICATED,
    };
    let caller = access.caller(storage, parts)?;
    names::check_bucket_name(&at.bucket)?;
    let reader = caller.as_ref().map_or(Reader::Public, Reader::Caller);
    let request = RequestSettings::from_parts(parts);
    let lookup = Lookup::new(storage, &request, operation, reader, at, deadline(parts));
    answer(&lookup, parts, None).await
}

/// GET, HEAD `/object/sign/{b}/{key}?token=`: authorised by the token alone.
pub(crate) async fn download_signed(
    storage: &Storage,
    at: &ObjectPath,
    parts: &Parts,
) -> Result<Response, StorageError> {
    let query = Query::parse(parts.uri.query());
    let fields = query.fields();
    fields.require(&["token"])?;
    let token = fields.string("token")?.unwrap_or_default();
    names::check_bucket_name(&at.bucket)?;
    let (at, token) = signed_path(at, |path| storage.callers.verify_download(&token, path))?;
    let request = RequestSettings::from_parts(parts);
    let operation = Operation::OBJECT_GET_SIGNED;
    let lookup = Lookup::new(storage, &request, operation, Reader::Service, &at, deadline(parts));
    answer(&lookup, parts, Some(&token)).await
}

/// Verifies the token for the path of a signed URL. Clients encode the URL again (`encodeURI`), so characters that had to be
/// encoded (`?`) may arrive double-encoded; the token tells which path was meant.
pub(crate) fn signed_path<T>(
    at: &ObjectPath,
    verify: impl Fn(&str) -> Result<T, StorageError>,
) -> Result<(ObjectPath, T), StorageError> {
    let ObjectPath { bucket, key } = at;
    let refusal = match verify(&format!("{bucket}/{key}")) {
        Ok(token) => return Ok((at.clone(), token)),
        Err(refusal) => refusal,
    };
    let Some(key) = names::decode(key).ok().filter(|decoded| decoded != key) else { return Err(refusal) };
    let token = verify(&format!("{bucket}/{key}")).map_err(|_| refusal)?;
    Ok((ObjectPath { bucket: bucket.clone(), key }, token))
}

async fn answer(
    lookup: &Lookup<'_>,
    parts: &Parts,
    signed: Option<&DownloadToken>,
) -> Result<Response, StorageError> {
    let headers = &parts.headers;
    let found = lookup.find().await?;
    let (object, mut response) = if parts.method == Method::HEAD {
        let mut response = Response::new(Body::empty());
        if let Some(size) = found.metadata.size {
            response.headers_mut().insert(CONTENT_LENGTH, size.into());
        }
        (found, response)
    } else if conditions::is_unmodified(headers, found.validators()) {
        (found, StatusCode::NOT_MODIFIED.into_response())
    } else {
        let select_range = |object: &StoredObject, size| {
            conditions::range(headers, size, object.validators())
                .map_err(|_| StorageError::invalid_range().with_size(size))
        };
        let Opened { object, size, part, bytes } = lookup.open(found, select_range).await?;
        (object, full_or_partial(size, part, bytes).await?)
    };
    describe(response.headers_mut(), &object, signed, parts.uri.query());
    Ok(response)
}

/// 200 or 206.
async fn full_or_partial(
    size: u64,
    part: Option<Range<u64>>,
    bytes: BlobStream,
) -> Result<Response, StorageError> {
    let length = part.as_ref().map_or(size, |part| part.end - part.start);
    let mut response = Response::new(body(bytes, length).await?);
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    if let Some(part) = part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1));
        insert(response.headers_mut(), CONTENT_RANGE, range);
    }
    Ok(response)
}

/// Builds the body. The first chunk is read here, so that a store that fails immediately causes an error
/// response instead of a broken one, and an object of one chunk is sent together with the headers.
pub(crate) async fn body(mut bytes: BlobStream, length: u64) -> Result<Body, BlobError> {
    let Some(first) = bytes.try_next().await? else { return Ok(Body::empty()) };
    if first.len() as u64 == length {
        return Ok(Body::from(first));
    }
    let rest = bytes.inspect_err(|error| tracing::error!(%error, "download aborted"));
    Ok(Body::from_stream(stream::once(async { Ok(first) }).chain(rest)))
}

/// Sets the headers that describe the object.
pub(crate) fn describe(
    headers: &mut HeaderMap,
    object: &StoredObject,
    signed: Option<&DownloadToken>,
    query: Option<&str>,
) {
    let metadata = &object.metadata;
    headers.insert(CONTENT_TYPE, content_type(metadata.mime_type.as_deref()));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(e_tag) = &metadata.e_tag {
        insert(headers, ETAG, e_tag);
    }
    if let Some(date) = object.last_modified().and_then(conditions::http_date) {
        headers.insert(LAST_MODIFIED, date);
    }
    match signed {
        None => insert(headers, CACHE_CONTROL, metadata.cache_control.as_deref().unwrap_or("no-cache")),
        Some(DownloadToken { expires }) => {
            let end = expires.and_then(|end| Timestamp::from_second(end).ok());
            if let Some(end) = end.and_then(conditions::http_date) {
                headers.insert(EXPIRES, end);
            }
        }
    }
    insert(headers, ROBOTS, metadata.robots.as_deref().unwrap_or("none"));
    if let Some(disposition) = disposition(query) {
        insert(headers, CONTENT_DISPOSITION, disposition);
    }
}

/// The stored type, except HTML: it would run with the API's origin.
pub(crate) fn content_type(stored: Option<&str>) -> HeaderValue {
    match stored {
        Some(stored) if stored.to_ascii_lowercase().contains("text/html") => {
            HeaderValue::from_static("text/plain")
        }
        Some(stored) => HeaderValue::from_bytes(stored.as_bytes()).unwrap_or(OCTETS),
        None => OCTETS,
    }
}

/// `Content-Disposition` for `?download` and `?download=name`: a quoted string for old clients and the exact
/// name as in RFC 8187 (RFC 6266, appendix D).
pub(crate) fn disposition(query: Option<&str>) -> Option<String> {
    let query = Query::parse(query);
    let name = query.fields().string("download").ok()??;
    if name.is_empty() {
        return Some("attachment;".to_owned());
    }
    let mut quoted = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            _ => quoted.push('_'),
        }
    }
    let extended = utf8_percent_encode(&name, EXTENDED_VALUE);
    Some(format!("attachment; filename=\"{quoted}\"; filename*=UTF-8''{extended}"))
}

/// Sets a header unless the value, which may come from any row, is not a valid header value.
pub(crate) fn insert(headers: &mut HeaderMap, name: HeaderName, value: impl AsRef<[u8]>) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_ref()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_served_as_text() {
        for (stored, served) in [
            (Some("text/html"), "text/plain"),
            (Some("Text/HTML; charset=utf-8"), "text/plain"),
            (Some("image/png, text/html"), "text/plain"),
            (Some("image/svg+xml"), "image/svg+xml"),
            (Some("text/plain;charset=UTF-8"), "text/plain;charset=UTF-8"),
            (Some("a\r\nset-cookie: b"), "application/octet-stream"),
            (None, "application/octet-stream"),
        ] {
            assert_eq!(content_type(stored), served, "{stored:?}");
        }
    }

    #[test]
    fn disposition_has_the_requested_name() {
        for (query, expected) in [
            (None, None),
            (Some("downloads=x"), None),
            (Some("download"), Some("attachment;")),
            (Some("download="), Some("attachment;")),
            (Some("a=b&download=x"), Some(r#"attachment; filename="x"; filename*=UTF-8''x"#)),
            (
                Some("download=John's%20Resume%20(1)*.pdf"),
                Some(
                    r#"attachment; filename="John's Resume (1)*.pdf"; filename*=UTF-8''John%27s%20Resume%20%281%29%2A.pdf"#,
                ),
            ),
            (
                Some("download=a\"%0D%0A%C3%BC%5C%3B.png"),
                Some(r#"attachment; filename="a\"___\\;.png"; filename*=UTF-8''a%22%0D%0A%C3%BC%5C%3B.png"#),
            ),
        ] {
            assert_eq!(disposition(query).as_deref(), expected, "{query:?}");
        }
    }

    #[test]
    fn omits_invalid_header_values() {
        let mut headers = HeaderMap::new();
        insert(&mut headers, CACHE_CONTROL, "max-age=1\r\nx: y");
        insert(&mut headers, ETAG, "\"ü\"");
        assert!(!headers.contains_key(CACHE_CONTROL) && headers.contains_key(ETAG));
    }
}
