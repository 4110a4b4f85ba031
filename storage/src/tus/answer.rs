//! Successful responses of the TUS protocol (storage.md §3.15).

use std::fmt::Write as _;

use axum::response::{IntoResponse, Response};
use basalt_core::service::Original;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use uuid::Uuid;

use super::refusal::{TUS_RESUMABLE, VERSION};
use super::upload::Upload;
use crate::Storage;

const EXTENSIONS: HeaderValue =
    HeaderValue::from_static("creation,creation-with-upload,creation-defer-length,termination,expiration");

/// State of an upload in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UploadState {
    pub(super) is_complete: bool,
    pub(super) offset: Option<u64>,
    /// Seconds since 1970.
    pub(super) expires: Option<i64>,
}

fn answer(status: StatusCode) -> Response {
    let mut response = status.into_response();
    response.headers_mut().insert(TUS_RESUMABLE, VERSION);
    response
}

fn set(response: &mut Response, name: &'static str, value: &dyn std::fmt::Display) {
    if let Ok(value) = HeaderValue::try_from(value.to_string()) {
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
}

fn show(response: &mut Response, state: &UploadState) {
    if let Some(offset) = state.offset {
        set(response, "upload-offset", &offset);
    }
    let expires = state.expires.filter(|_| !state.is_complete);
    if let Some(Ok(expires)) = expires.map(Timestamp::from_second) {
        set(response, "upload-expires", &expires.strftime("%a, %d %b %Y %H:%M:%S GMT"));
    }
    if state.is_complete {
        set(response, "tus-complete", &1);
    }
}

pub(super) fn capabilities(max_bytes: u64) -> Response {
    let mut response = answer(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert("tus-version", VERSION);
    headers.insert("tus-extension", EXTENSIONS);
    headers.insert("tus-max-size", HeaderValue::from(max_bytes));
    response
}

pub(super) fn created(location: &str, state: &UploadState) -> Response {
    let mut response = answer(StatusCode::CREATED);
    set(&mut response, "location", &location);
    show(&mut response, state);
    response
}

pub(super) fn appended(state: &UploadState) -> Response {
    let mut response = answer(StatusCode::NO_CONTENT);
    show(&mut response, state);
    response
}

pub(super) fn terminated() -> Response {
    answer(StatusCode::NO_CONTENT)
}

pub(super) fn progress(upload: &Upload, expires: Option<i64>) -> Response {
    let mut response = answer(StatusCode::OK);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match upload.length {
        Some(length) => set(&mut response, "upload-length", &length),
        None => set(&mut response, "upload-defer-length", &1),
    }
    set(&mut response, "upload-metadata", &upload.echo);
    show(&mut response, &UploadState { is_complete: false, offset: Some(upload.offset), expires });
    response
}

/// URL for continuing the upload: below `server.public_url` unless that is local to this machine, in which
/// case below the URL the client used.
pub(super) fn location(storage: &Storage, parts: &Parts, is_signed: bool, id: Uuid) -> String {
    let original = parts.extensions.get::<Original>();
    let prefix = original.map_or("", |original| &original.prefix);
    let used = original.filter(|_| storage.is_public_url_local).and_then(|original| {
        Some(format!("{}://{}", original.scheme, original.authority.as_ref()?.to_str().ok()?))
    });
    let mut location = used.unwrap_or_else(|| storage.public_url.clone());
    let sign = if is_signed { "/sign" } else { "" };
    // Writing to a String cannot fail.
    let _written = write!(location, "{prefix}{root}{sign}/{id}", root = super::ROOT);
    location
}
