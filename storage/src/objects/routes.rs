//! Routes of `/object/…` (storage.md §2). A keyword of a route may also be the name of a bucket (§5.1); such
//! a path has several candidates, the route itself first.

use std::fmt;

use axum::extract::Request;
use basalt_core::service::BodyMode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};

use crate::Storage;
use crate::caller::Caller;
use crate::error::StorageError;
use crate::names;

/// Bucket and key, decoded but not validated: authentication comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    /// Id of the bucket.
    pub(crate) bucket: String,
    /// Name of the object.
    pub(crate) key: String,
}

impl fmt::Display for ObjectPath {
    /// The format used in tokens of signed URLs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.key)
    }
}

/// How a download is authorised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessPath {
    /// `/object/public/…`: public buckets, without a token.
    Public,
    /// `/object/authenticated/…`: requires a token.
    Authenticated,
    /// `/object/…`: uses a token if present.
    Either,
}

impl AccessPath {
    /// The caller; `None` if only public buckets are accessible.
    ///
    /// # Errors
    /// A required token is missing or invalid.
    pub(crate) fn caller(self, storage: &Storage, parts: &Parts) -> Result<Option<Caller>, StorageError> {
        match self {
            Self::Public => Ok(None),
            Self::Authenticated => storage.callers.required(&parts.headers).map(Some),
            Self::Either => Ok(storage.callers.optional(&parts.headers)),
        }
    }
}

/// A route of `/object/…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// POST `/object/{b}/{key}`.
    Upload(ObjectPath),
    /// PUT `/object/{b}/{key}`.
    Update(ObjectPath),
    /// POST `/object/upload/sign/{b}/{key}`.
    SignUpload(ObjectPath),
    /// PUT `/object/upload/sign/{b}/{key}`.
    UploadSigned(ObjectPath),
    /// GET `/object[/public|/authenticated]/{b}/{key}`.
    Download(AccessPath, ObjectPath),
    /// GET `/object/sign/{b}/{key}`.
    DownloadSigned(ObjectPath),
    /// GET `/object/info[/public|/authenticated]/{b}/{key}`.
    Info(AccessPath, ObjectPath),
    /// POST `/object/sign/{b}/{key}`.
    Sign(ObjectPath),
    /// POST `/object/sign/{b}`.
    SignMany(String),
    /// POST `/object/list/{b}`.
    List(String),
    /// POST `/object/list-v2/{b}`.
    ListV2(String),
    /// POST `/object/move`.
    Move,
    /// POST `/object/copy`.
    Copy,
    /// DELETE `/object/{b}/{key}`.
    Delete(ObjectPath),
    /// DELETE `/object/{b}`.
    DeleteMany(String),
}

impl Route {
    /// The bucket named in the path.
    pub(crate) fn bucket(&self) -> Option<&str> {
        match self {
            Self::Upload(at)
            | Self::Update(at)
            | Self::SignUpload(at)
            | Self::UploadSigned(at)
            | Self::Download(_, at)
            | Self::DownloadSigned(at)
            | Self::Info(_, at)
            | Self::Sign(at)
            | Self::Delete(at) => Some(&at.bucket),
            Self::SignMany(bucket) | Self::List(bucket) | Self::ListV2(bucket) | Self::DeleteMany(bucket) => {
                Some(bucket)
            }
            Self::Move | Self::Copy => None,
        }
    }

    /// Whether the body becomes an object.
    const fn takes_bytes(&self) -> bool {
        matches!(self, Self::Upload(_) | Self::Update(_) | Self::UploadSigned(_))
    }
}

/// Possible interpretations of a path. The first is used unless its bucket does not exist and the bucket of
/// another does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteCandidates {
    /// The route's own interpretation.
    pub(crate) first: Route,
    /// Interpretations in which a bucket has the name of a keyword.
    pub(crate) others: Vec<Route>,
}

/// Matches a path without the service's prefix.
///
/// # Errors
/// No route matches, or the percent-encoding is invalid.
pub(crate) fn route_candidates(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<RouteCandidates, StorageError> {
    let rest = uri.path().strip_prefix("/object/").unwrap_or_default();
    let mut found = Candidates(Vec::new());
    match *method {
        Method::GET | Method::HEAD => {
            found.object(rest, "public/", |at| Route::Download(AccessPath::Public, at))?;
            found.object(rest, "authenticated/", |at| Route::Download(AccessPath::Authenticated, at))?;
            found.object(rest, "sign/", Route::DownloadSigned)?;
            found.object(rest, "info/public/", |at| Route::Info(AccessPath::Public, at))?;
            found.object(rest, "info/authenticated/", |at| Route::Info(AccessPath::Authenticated, at))?;
            found.object(rest, "info/", |at| Route::Info(AccessPath::Either, at))?;
            found.object(rest, "", |at| Route::Download(AccessPath::Either, at))?;
        }
        Method::POST => {
            match rest {
                "move" => found.0.push(Route::Move),
                "copy" => found.0.push(Route::Copy),
                _ => {}
            }
            found.upload(rest, "upload/sign/", Route::SignUpload)?;
            found.object(rest, "sign/", Route::Sign)?;
            found.bucket(rest, "sign/", Route::SignMany)?;
            found.bucket(rest, "list/", Route::List)?;
            found.bucket(rest, "list-v2/", Route::ListV2)?;
            found.upload(rest, "", Route::Upload)?;
        }
        Method::PUT => {
            found.object(rest, "upload/sign/", Route::UploadSigned)?;
            found.upload(rest, "", Route::Update)?;
        }
        Method::DELETE => {
            found.object(rest, "", Route::Delete)?;
            found.bucket(rest, "", Route::DeleteMany)?;
        }
        _ => {}
    }
    let mut found = found.0.into_iter();
    let first = found.next().ok_or_else(|| StorageError::unknown_route(method, uri))?;
    let others = if is_certain(&first, uri, headers) { Vec::new() } else { found.collect() };
    Ok(RouteCandidates { first, others })
}

/// Whether the interpretation is certain: JSON sent to a route that reads JSON, or a token to a route that
/// requires one. Saves looking up buckets.
fn is_certain(route: &Route, uri: &Uri, headers: &HeaderMap) -> bool {
    match route {
        Route::SignUpload(_) | Route::Sign(_) | Route::SignMany(_) | Route::List(_) | Route::ListV2(_) => {
            headers.get(CONTENT_TYPE).is_none_or(|media| {
                media
                    .as_bytes()
                    .get(..16)
                    .is_some_and(|media| media.eq_ignore_ascii_case(b"application/json"))
            })
        }
        Route::UploadSigned(_) | Route::DownloadSigned(_) => uri
            .query()
            .is_some_and(|query| query.split('&').any(|part| part == "token" || part.starts_with("token="))),
        Route::Upload(_)
        | Route::Update(_)
        | Route::Download(..)
        | Route::Info(..)
        | Route::Move
        | Route::Copy
        | Route::Delete(_)
        | Route::DeleteMany(_) => false,
    }
}

/// Whether the body of a request to `/object/…` is streamed.
pub(crate) fn body_mode(request: &Request) -> BodyMode {
    let takes_bytes = route_candidates(request.method(), request.uri(), request.headers())
        .is_ok_and(|found| found.first.takes_bytes() || found.others.iter().any(Route::takes_bytes));
    if takes_bytes { BodyMode::Streamed } else { BodyMode::Buffered }
}

/// The candidates found so far.
struct Candidates(Vec<Route>);

impl Candidates {
    /// Matches `{keywords}{b}/{key}`.
    fn object(
        &mut self,
        rest: &str,
        keywords: &str,
        route: impl FnOnce(ObjectPath) -> Route,
    ) -> Result<(), StorageError> {
        self.add(rest, keywords, names::decode_object_path, |(bucket, key)| route(ObjectPath { bucket, key }))
    }

    /// Matches `{keywords}{b}/{key}` with a possibly empty key, so that `upload("/")` gets `InvalidKey`.
    fn upload(
        &mut self,
        rest: &str,
        keywords: &str,
        route: impl FnOnce(ObjectPath) -> Route,
    ) -> Result<(), StorageError> {
        self.add(rest, keywords, names::decode_upload_path, |(bucket, key)| route(ObjectPath { bucket, key }))
    }

    /// Matches `{keywords}{b}`.
    fn bucket(
        &mut self,
        rest: &str,
        keywords: &str,
        route: impl FnOnce(String) -> Route,
    ) -> Result<(), StorageError> {
        self.add(rest, keywords, names::decode_segment, route)
    }

    fn add<T>(
        &mut self,
        rest: &str,
        keywords: &str,
        decode: impl FnOnce(&str) -> Result<Option<T>, StorageError>,
        route: impl FnOnce(T) -> Route,
    ) -> Result<(), StorageError> {
        if let Some(rest) = rest.strip_prefix(keywords)
            && let Some(decoded) = decode(rest)?
        {
            self.0.push(route(decoded));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(line: &str, media: Option<&'static str>) -> Result<Vec<Route>, StorageError> {
        let (method, target) = line.split_once(' ').unwrap();
        let headers = media.map(|media| (CONTENT_TYPE, HeaderValue::from_static(media)));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let found = route_candidates(&method, &target.parse().unwrap(), &headers.into_iter().collect())?;
        Ok(std::iter::once(found.first).chain(found.others).collect())
    }

    fn at(path: &str) -> ObjectPath {
        let (bucket, key) = path.split_once('|').unwrap();
        ObjectPath { bucket: bucket.to_owned(), key: key.to_owned() }
    }

    #[test]
    fn keywords_take_precedence() {
        let json = Some("application/json; charset=utf-8");
        let b = || "b".to_owned();
        for (line, media, expected) in [
            ("POST /object/b/a%20b", None, vec![Route::Upload(at("b|a b"))]),
            ("PUT /object/b/a//b/", None, vec![Route::Update(at("b|a//b/"))]),
            ("POST /object/b/", None, vec![Route::Upload(at("b|"))]),
            ("PUT /object/b/", None, vec![Route::Update(at("b|"))]),
            ("GET /object/b/k", None, vec![Route::Download(AccessPath::Either, at("b|k"))]),
            ("HEAD /object/b/k?x=1", None, vec![Route::Download(AccessPath::Either, at("b|k"))]),
            ("DELETE /object/list/k", None, vec![Route::Delete(at("list|k"))]),
            ("DELETE /object/public", json, vec![Route::DeleteMany("public".to_owned())]),
            ("POST /object/move", json, vec![Route::Move]),
            ("POST /object/copy", json, vec![Route::Copy]),
            ("POST /object/copy/a", None, vec![Route::Upload(at("copy|a"))]),
            ("POST /object/sign/b/k/l", json, vec![Route::Sign(at("b|k/l"))]),
            ("POST /object/sign/b", json, vec![Route::SignMany(b())]),
            ("POST /object/list/b", json, vec![Route::List(b())]),
            ("POST /object/list-v2/b", json, vec![Route::ListV2(b())]),
            ("POST /object/upload/sign/b/k", json, vec![Route::SignUpload(at("b|k"))]),
            ("PUT /object/upload/sign/b/k?token=t", None, vec![Route::UploadSigned(at("b|k"))]),
            ("GET /object/sign/b/k?download&token=t", None, vec![Route::DownloadSigned(at("b|k"))]),
        ] {
            assert_eq!(read(line, media), Ok(expected), "{line}");
        }
    }

    #[test]
    fn keyword_may_be_a_bucket_name() {
        for (line, media, expected) in [
            (
                "GET /object/public/logos/l.png",
                None,
                vec![
                    Route::Download(AccessPath::Public, at("logos|l.png")),
                    Route::Download(AccessPath::Either, at("public|logos/l.png")),
                ],
            ),
            ("GET /object/public/l.png", None, vec![Route::Download(AccessPath::Either, at("public|l.png"))]),
            (
                "GET /object/info/public/logos/l.png",
                None,
                vec![
                    Route::Info(AccessPath::Public, at("logos|l.png")),
                    Route::Info(AccessPath::Either, at("public|logos/l.png")),
                    Route::Download(AccessPath::Either, at("info|public/logos/l.png")),
                ],
            ),
            (
                "GET /object/sign/b/k",
                None,
                vec![Route::DownloadSigned(at("b|k")), Route::Download(AccessPath::Either, at("sign|b/k"))],
            ),
            (
                "POST /object/list/l.png",
                Some("image/png"),
                vec![Route::List("l.png".to_owned()), Route::Upload(at("list|l.png"))],
            ),
            ("POST /object/list/a/l.png", Some("image/png"), vec![Route::Upload(at("list|a/l.png"))]),
            (
                "PUT /object/upload/sign/b/k",
                None,
                vec![Route::UploadSigned(at("b|k")), Route::Update(at("upload|sign/b/k"))],
            ),
        ] {
            assert_eq!(read(line, media), Ok(expected), "{line}");
        }
    }

    #[test]
    fn rejects_unknown_paths() {
        for line in
            ["PATCH /object/b/k", "GET /object/b", "GET /object/b/", "POST /object", "PUT /object/move"]
        {
            assert_eq!(read(line, None).unwrap_err().status(), 404, "{line}");
        }
        assert_eq!(read("GET /object/b/%zz", None), Err(StorageError::bad_url("%zz")));
    }

    #[test]
    fn streams_only_potential_uploads() {
        let mode = |line: &str, media: &str| {
            let (method, target) = line.split_once(' ').unwrap();
            let request = http::Request::builder().method(method).uri(target).header(CONTENT_TYPE, media);
            body_mode(&request.body(axum::body::Body::empty()).unwrap())
        };
        for line in ["POST /object/b/k", "PUT /object/b/k", "PUT /object/upload/sign/b/k?token=t"] {
            assert_eq!(mode(line, "application/json"), BodyMode::Streamed, "{line}");
        }
        assert_eq!(mode("POST /object/sign/b/k", "image/png"), BodyMode::Streamed);
        for line in ["POST /object/sign/b/k", "POST /object/list/b", "DELETE /object/b", "POST /object/copy"]
        {
            assert_eq!(mode(line, "application/json"), BodyMode::Buffered, "{line}");
        }
    }
}
