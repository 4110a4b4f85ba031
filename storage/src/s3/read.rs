//! GetObject, HeadObject, GetObjectTagging and GetObjectAttributes.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, LAST_MODIFIED,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::Call;
use super::documents::unquoted;
use super::error::{S3Error, xml};
use super::operation::OVERRIDES;
use super::xml::Writer;
use crate::error::StorageError;
use crate::objects::conditions::{self, Validators, http_date};
use crate::objects::download::content_type;
use crate::objects::find::{Lookup, Opened, Reader, StoredObject};
use crate::operation::Operation;

/// Names of the conditional headers, for an object or for the source of a copy.
pub(super) struct ConditionHeaders {
    matches: &'static str,
    none_match: &'static str,
    modified_since: &'static str,
    unmodified_since: &'static str,
}

/// For GetObject and HeadObject.
const OBJECT: ConditionHeaders = ConditionHeaders {
    matches: "if-match",
    none_match: "if-none-match",
    modified_since: "if-modified-since",
    unmodified_since: "if-unmodified-since",
};

/// For the source of a copy.
pub(super) const COPY_SOURCE: ConditionHeaders = ConditionHeaders {
    matches: "x-amz-copy-source-if-match",
    none_match: "x-amz-copy-source-if-none-match",
    modified_since: "x-amz-copy-source-if-modified-since",
    unmodified_since: "x-amz-copy-source-if-unmodified-since",
};

/// Result of evaluating conditional headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All conditions hold.
    Proceed,
    /// The client's copy is current: 304, or 412 for the source of a copy.
    Unmodified,
    /// A precondition failed: 412.
    Failed,
}

impl ConditionHeaders {
    /// Evaluates the headers of a request. A tag takes precedence over a date.
    pub(super) fn evaluate(&self, headers: &HeaderMap, validators: Validators<'_>) -> Verdict {
        let pick = |tag: &str, date: &str| {
            let mut picked = HeaderMap::new();
            for value in headers.get_all(tag) {
                picked.append(IF_NONE_MATCH, value.clone());
            }
            if let Some(value) = headers.get(date) {
                picked.insert(IF_MODIFIED_SINCE, value.clone());
            }
            picked
        };
        let required = pick(self.matches, self.unmodified_since);
        // `If-Match` and `If-Unmodified-Since` require exactly what would make a cached copy current.
        if !required.is_empty() && !conditions::is_unmodified(&required, validators) {
            return Verdict::Failed;
        }
        let known = pick(self.none_match, self.modified_since);
        if conditions::is_unmodified(&known, validators) { Verdict::Unmodified } else { Verdict::Proceed }
    }
}

pub(super) async fn get(call: &Call) -> Result<Response, S3Error> {
    let at = call.object();
    let lookup = Lookup::new(
        &call.storage,
        &call.settings,
        Operation::S3_OBJECT_GET,
        Reader::Caller(&call.caller),
        &at,
        call.deadline(),
    )
    .with_user_metadata();
    let found = lookup.find().await?;
    if let Some(answer) = evaluate(call, &found)? {
        return Ok(answer);
    }
    let choose = |object: &StoredObject, size: u64| {
        conditions::range(call.headers(), size, object.validators())
            .map_err(|_| StorageError::invalid_range())
    };
    let Opened { object, size, part, bytes } = lookup.open(found, choose).await?;
    let mut headers = described(call, &object);
    let length = part.as_ref().map_or(size, |part| part.end - part.start);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    let status = match part {
        Some(part) => {
            let range = format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1));
            insert(&mut headers, CONTENT_RANGE, &range);
            StatusCode::PARTIAL_CONTENT
        }
        None => StatusCode::OK,
    };
    Ok((status, headers, Body::from_stream(bytes)).into_response())
}

pub(super) async fn head(call: &Call) -> Result<Response, S3Error> {
    let at = call.object();
    let operation = Operation::S3_OBJECT_INFO;
    let reader = Reader::Caller(&call.caller);
    let lookup = Lookup::new(&call.storage, &call.settings, operation, reader, &at, call.deadline());
    let object = lookup.with_user_metadata().find().await?;
    if let Some(answer) = evaluate(call, &object)? {
        return Ok(answer);
    }
    let mut headers = described(call, &object);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(object.metadata.size.unwrap_or(0)));
    Ok((headers, Body::empty()).into_response())
}

/// GetObjectTagging: tags are not supported, so the list is empty.
pub(super) async fn tagging(call: &Call) -> Result<Response, S3Error> {
    let at = call.object();
    let operation = Operation::S3_OBJECT_GET_TAGGING;
    let reader = Reader::Caller(&call.caller);
    let _object =
        Lookup::new(&call.storage, &call.settings, operation, reader, &at, call.deadline()).find().await?;
    let mut out = Writer::new("Tagging");
    out.element("TagSet", |_| {});
    Ok(xml(StatusCode::OK, out.finish("Tagging")))
}

/// GetObjectAttributes: the requested ones. No checksums are stored.
pub(super) async fn attributes(call: &Call) -> Result<Response, S3Error> {
    const KNOWN: [&str; 5] = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];
    let headers = call.headers().get_all("x-amz-object-attributes");
    let requested: Vec<&str> = headers
        .iter()
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .collect();
    if requested.is_empty() || requested.iter().any(|name| !KNOWN.contains(name)) {
        return Err(S3Error::invalid_argument("Invalid attribute name specified"));
    }
    let at = call.object();
    let operation = Operation::S3_OBJECT_INFO;
    let reader = Reader::Caller(&call.caller);
    let object =
        Lookup::new(&call.storage, &call.settings, operation, reader, &at, call.deadline()).find().await?;
    let e_tag = object.metadata.e_tag.as_deref().map(unquoted);
    let mut out = Writer::new("GetObjectAttributesResponse");
    if requested.contains(&"ETag") {
        out.optional("ETag", e_tag);
    }
    let parts = e_tag.and_then(|e_tag| e_tag.split_once('-')).map(|(_, count)| count);
    if let Some(count) = parts.filter(|_| requested.contains(&"ObjectParts")) {
        out.element("ObjectParts", |out| {
            out.text("PartsCount", count);
        });
    }
    if requested.contains(&"StorageClass") {
        out.text("StorageClass", "STANDARD");
    }
    if requested.contains(&"ObjectSize") {
        out.text("ObjectSize", object.metadata.size.unwrap_or(0));
    }
    let mut response = xml(StatusCode::OK, out.finish("GetObjectAttributesResponse"));
    if let Some(date) = object.last_modified().and_then(http_date) {
        response.headers_mut().insert(LAST_MODIFIED, date);
    }
    Ok(response)
}

/// The response if a condition does not hold.
fn evaluate(call: &Call, object: &StoredObject) -> Result<Option<Response>, S3Error> {
    match OBJECT.evaluate(call.headers(), object.validators()) {
        Verdict::Proceed => Ok(None),
        Verdict::Unmodified => {
            let mut headers = described(call, object);
            headers.remove(CONTENT_TYPE);
            Ok(Some((StatusCode::NOT_MODIFIED, headers).into_response()))
        }
        Verdict::Failed => Err(S3Error::precondition_failed()),
    }
}

/// Headers that describe the object, including the overrides requested by the client.
fn described(call: &Call, object: &StoredObject) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let metadata = &object.metadata;
    let mime = metadata.mime_type.as_deref();
    if call.is_presigned() {
        headers.insert(CONTENT_TYPE, content_type(mime));
    } else {
        insert(&mut headers, CONTENT_TYPE, mime.unwrap_or("application/octet-stream"));
    }
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(e_tag) = &metadata.e_tag {
        insert(&mut headers, ETAG, e_tag);
    }
    if let Some(date) = object.last_modified().and_then(http_date) {
        headers.insert(LAST_MODIFIED, date);
    }
    if let Some(cache_control) = &metadata.cache_control {
        insert(&mut headers, CACHE_CONTROL, cache_control);
    }
    write_metadata(&mut headers, object.user_metadata.as_deref());
    for name in OVERRIDES {
        match (call.parameter(name), name.strip_prefix("response-")) {
            (Some(media), Some("content-type")) => {
                headers.insert(CONTENT_TYPE, content_type(Some(media)));
            }
            (Some(value), Some(header)) => insert(&mut headers, HeaderName::from_static(header), value),
            _ => {}
        }
    }
    headers
}

/// `x-amz-meta-*`. Entries that are not valid header values are counted instead.
fn write_metadata(headers: &mut HeaderMap, json: Option<&str>) {
    let parsed = json.and_then(|json| serde_json::from_str::<BTreeMap<String, serde_json::Value>>(json).ok());
    let mut missing = 0_u32;
    for (name, value) in parsed.unwrap_or_default() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = HeaderName::try_from(format!("x-amz-meta-{}", name.to_ascii_lowercase()));
        match (name, HeaderValue::from_str(&value)) {
            (Ok(name), Ok(value)) if value.to_str().is_ok() => {
                headers.insert(name, value);
            }
            _ => missing += 1,
        }
    }
    if missing > 0 {
        headers.insert("x-amz-missing-meta", HeaderValue::from(missing));
    }
}

/// Sets a header unless the value, which may come from any row, is invalid.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_takes_precedence_over_date() {
        let modified = Some("2026-11-20T09:30:55.5Z".parse().unwrap());
        let validators = Validators { e_tag: Some("\"a\""), last_modified: modified };
        let (before, same) = ("Fri, 20 Nov 2026 09:30:54 GMT", "Fri, 20 Nov 2026 09:30:55 GMT");
        let cases: [(&[(&'static str, &'static str)], Verdict); 10] = [
            (&[], Verdict::Proceed),
            (&[("if-match", "\"a\"")], Verdict::Proceed),
            (&[("if-match", "\"b\"")], Verdict::Failed),
            (&[("if-match", "\"a\""), ("if-unmodified-since", before)], Verdict::Proceed),
            (&[("if-unmodified-since", before)], Verdict::Failed),
            (&[("if-unmodified-since", same)], Verdict::Proceed),
            (&[("if-none-match", "\"a\"")], Verdict::Unmodified),
            (&[("if-none-match", "\"b\""), ("if-modified-since", same)], Verdict::Proceed),
            (&[("if-modified-since", same)], Verdict::Unmodified),
            (&[("if-modified-since", before)], Verdict::Proceed),
        ];
        for (pairs, expected) in cases {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            assert_eq!(OBJECT.evaluate(&headers, validators), expected, "{pairs:?}");
        }
    }

    #[test]
    fn counts_metadata_that_is_no_valid_header() {
        let mut headers = HeaderMap::new();
        write_metadata(&mut headers, Some(r#"{"A":"b","n":1,"ü":"x","line":"a\nb","text":"ü"}"#));
        let shown: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(shown, [("x-amz-meta-a", "b"), ("x-amz-meta-n", "1"), ("x-amz-missing-meta", "3")]);
        for none in [None, Some("null"), Some("[1]"), Some("{")] {
            let mut headers = HeaderMap::new();
            write_metadata(&mut headers, none);
            assert!(headers.is_empty(), "{none:?}");
        }
    }
}
