//! Identifies the S3 operation of a request from its path and query. Requests for unsupported features are
//! rejected, because ignoring a parameter changes the meaning: `PUT /b/key?acl` would empty the object.

use http::{HeaderMap, Method};

use super::error::S3Error;
use crate::names;

/// The resource of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The list of buckets.
    Service,
    /// A bucket id.
    Bucket(String),
    /// A bucket id and a key.
    Object(String, String),
}

impl Target {
    /// Parses a path without `/s3`: empty, or starting with a slash.
    ///
    /// # Errors
    /// Invalid percent-encoding.
    pub(crate) fn parse(path: &str) -> Result<Self, S3Error> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let decode = |text: &str| names::decode(text).map_err(|_| S3Error::invalid_uri());
        Ok(match (decode(bucket)?, decode(key)?) {
            (bucket, key) if bucket.is_empty() && key.is_empty() => Self::Service,
            (bucket, key) if key.is_empty() => Self::Bucket(bucket),
            (bucket, key) => Self::Object(bucket, key),
        })
    }

    /// The resource in error documents.
    pub(crate) fn resource(&self) -> String {
        match self {
            Self::Service => String::new(),
            Self::Bucket(bucket) => bucket.clone(),
            Self::Object(bucket, key) => format!("{bucket}/{key}"),
        }
    }
}

/// An operation of S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    ListBuckets,
    CreateBucket,
    HeadBucket,
    DeleteBucket,
    GetBucketLocation,
    GetBucketVersioning,
    ListObjects,
    ListObjectsV2,
    ListObjectVersions,
    ListMultipartUploads,
    DeleteObjects,
    PostObject,
    GetObject,
    HeadObject,
    GetObjectTagging,
    GetObjectAttributes,
    PutObject,
    CopyObject,
    DeleteObject,
    CreateMultipartUpload,
    UploadPart,
    UploadPartCopy,
    ListParts,
    CompleteMultipartUpload,
    AbortMultipartUpload,
}

/// The kinds of [`Target`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Service,
    Bucket,
    Object,
}

/// A request pattern of an operation.
struct Route {
    method: Method,
    level: Level,
    /// Required parameters.
    required: &'static [&'static str],
    /// Optional parameters.
    optional: &'static [&'static str],
    /// Whether the request must have `x-amz-copy-source`.
    copies: bool,
    action: Action,
}

impl Route {
    const fn new(
        method: Method,
        level: Level,
        required: &'static [&'static str],
        optional: &'static [&'static str],
        action: Action,
    ) -> Self {
        Self { method, level, required, optional, copies: false, action }
    }

    const fn copying(mut self) -> Self {
        self.copies = true;
        self
    }
}

const LISTING: [&str; 5] = ["delimiter", "encoding-type", "max-keys", "prefix", "marker"];
const LISTING_V2: [&str; 7] =
    ["delimiter", "encoding-type", "max-keys", "prefix", "continuation-token", "start-after", "fetch-owner"];
const LISTING_VERSIONS: [&str; 6] =
    ["delimiter", "encoding-type", "max-keys", "prefix", "key-marker", "version-id-marker"];
const LISTING_UPLOADS: [&str; 6] =
    ["delimiter", "encoding-type", "max-uploads", "prefix", "key-marker", "upload-id-marker"];
/// Response headers that the request may override.
pub(crate) const OVERRIDES: [&str; 6] = [
    "response-content-type",
    "response-content-language",
    "response-expires",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
];

/// Parameter that selects a version.
const VERSION_ID: &str = "versionId";
/// S3's name for the only version of an object in an unversioned bucket.
pub(crate) const ONLY_VERSION: &str = "null";

/// The first matching route is used.
const ROUTES: &[Route] = &[
    Route::new(Method::GET, Level::Service, &[], &[], Action::ListBuckets),
    Route::new(Method::PUT, Level::Bucket, &[], &[], Action::CreateBucket),
    Route::new(Method::HEAD, Level::Bucket, &[], &[], Action::HeadBucket),
    Route::new(Method::DELETE, Level::Bucket, &[], &[], Action::DeleteBucket),
    Route::new(Method::GET, Level::Bucket, &["location"], &[], Action::GetBucketLocation),
    Route::new(Method::GET, Level::Bucket, &["versioning"], &[], Action::GetBucketVersioning),
    Route::new(Method::GET, Level::Bucket, &["uploads"], &LISTING_UPLOADS, Action::ListMultipartUploads),
    Route::new(Method::GET, Level::Bucket, &["versions"], &LISTING_VERSIONS, Action::ListObjectVersions),
    Route::new(Method::GET, Level::Bucket, &["list-type"], &LISTING_V2, Action::ListObjectsV2),
    Route::new(Method::GET, Level::Bucket, &[], &LISTING, Action::ListObjects),
    Route::new(Method::POST, Level::Bucket, &["delete"], &[], Action::DeleteObjects),
    Route::new(Method::POST, Level::Bucket, &[], &[], Action::PostObject),
    Route::new(Method::GET, Level::Object, &["tagging"], &[], Action::GetObjectTagging),
    Route::new(Method::GET, Level::Object, &["attributes"], &[], Action::GetObjectAttributes),
    Route::new(
        Method::GET,
        Level::Object,
        &["uploadId"],
        &["max-parts", "part-number-marker"],
        Action::ListParts,
    ),
    Route::new(Method::GET, Level::Object, &[], &OVERRIDES, Action::GetObject),
    Route::new(Method::HEAD, Level::Object, &[], &OVERRIDES, Action::HeadObject),
    Route::new(Method::PUT, Level::Object, &["partNumber", "uploadId"], &[], Action::UploadPartCopy)
        .copying(),
    Route::new(Method::PUT, Level::Object, &["partNumber", "uploadId"], &[], Action::UploadPart),
    Route::new(Method::PUT, Level::Object, &[], &[], Action::CopyObject).copying(),
    Route::new(Method::PUT, Level::Object, &[], &[], Action::PutObject),
    Route::new(Method::POST, Level::Object, &["uploads"], &[], Action::CreateMultipartUpload),
    Route::new(Method::POST, Level::Object, &["uploadId"], &[], Action::CompleteMultipartUpload),
    Route::new(Method::DELETE, Level::Object, &["uploadId"], &[], Action::AbortMultipartUpload),
    Route::new(Method::DELETE, Level::Object, &[], &[], Action::DeleteObject),
];

/// Headers that change the meaning of the request and are not supported. Headers that only select a storage
/// class, an owner or encryption at rest are ignored, as upstream does.
const UNSUPPORTED_HEADERS: [&str; 8] = [
    "x-amz-write-offset-bytes",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
];

impl Action {
    /// Identifies the operation of a request.
    ///
    /// # Errors
    /// 501 for an unsupported parameter or header, 405 for an unsupported method.
    pub(crate) fn parse(
        method: &Method,
        target: &Target,
        query: &[(String, String)],
        headers: &HeaderMap,
    ) -> Result<Self, S3Error> {
        let level = match target {
            Target::Service => Level::Service,
            Target::Bucket(_) => Level::Bucket,
            Target::Object(..) => Level::Object,
        };
        let copies = headers.contains_key("x-amz-copy-source");
        let mut candidates =
            ROUTES.iter().filter(|route| route.method == *method && route.level == level).peekable();
        if candidates.peek().is_none() {
            return Err(S3Error::method_not_allowed());
        }
        let has = |name: &&str| query.iter().any(|(found, _)| found == *name);
        let route = candidates
            .find(|route| route.required.iter().all(has) && (!route.copies || copies))
            .ok_or_else(S3Error::not_implemented)?;
        let is_known = |name: &str| {
            let is_of_route = route.required.contains(&name) || route.optional.contains(&name);
            is_of_route
                || matches!(name, "x-id" | VERSION_ID)
                || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"))
        };
        let names_version = |name: &str, value: &str| name == VERSION_ID && value != ONLY_VERSION;
        if !query.iter().all(|(name, value)| is_known(name) && !names_version(name, value)) {
            return Err(S3Error::not_implemented());
        }
        if UNSUPPORTED_HEADERS.iter().any(|name| headers.contains_key(*name)) {
            return Err(S3Error::not_implemented());
        }
        Ok(route.action)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::s3::sigv4::query_pairs;

    fn action(method: &str, path: &str, headers: &[&'static str]) -> Result<Action, &'static str> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut map = HeaderMap::new();
        for name in headers {
            map.insert(*name, HeaderValue::from_static("x"));
        }
        let target = Target::parse(path).unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        Action::parse(&method, &target, &query_pairs(query), &map).map_err(|error| error.code())
    }

    #[test]
    fn parses_bucket_and_key() {
        let object = |bucket: &str, key: &str| Target::Object(bucket.to_owned(), key.to_owned());
        for (path, expected) in [
            ("", Target::Service),
            ("/", Target::Service),
            ("/b", Target::Bucket("b".to_owned())),
            ("/b/", Target::Bucket("b".to_owned())),
            ("/b/k", object("b", "k")),
            ("/b//k/", object("b", "/k/")),
            ("/b/a%20b%2Fc%252F+", object("b", "a b/c%2F+")),
        ] {
            assert_eq!(Target::parse(path), Ok(expected), "{path}");
        }
        for path in ["/b/%", "/b/%zz", "/%ff/k"] {
            assert_eq!(Target::parse(path), Err(S3Error::invalid_uri()), "{path}");
        }
    }

    #[test]
    fn identifies_each_operation() {
        let cases: [(&str, &str, &[&'static str], Action); 28] = [
            ("GET", "/?x-id=ListBuckets", &[], Action::ListBuckets),
            ("PUT", "/b", &[], Action::CreateBucket),
            ("HEAD", "/b/", &[], Action::HeadBucket),
            ("DELETE", "/b", &[], Action::DeleteBucket),
            ("GET", "/b?location", &[], Action::GetBucketLocation),
            ("GET", "/b?versioning=", &[], Action::GetBucketVersioning),
            ("GET", "/b?uploads&prefix=a", &[], Action::ListMultipartUploads),
            ("GET", "/b?list-type=2&prefix=a&X-Amz-Date=1", &[], Action::ListObjectsV2),
            ("GET", "/b?marker=a", &[], Action::ListObjects),
            ("GET", "/b?versions&key-marker=a", &[], Action::ListObjectVersions),
            ("GET", "/b/k?attributes", &[], Action::GetObjectAttributes),
            ("GET", "/b/k?versionId=null", &[], Action::GetObject),
            ("DELETE", "/b/k?versionId=null", &[], Action::DeleteObject),
            ("POST", "/b/?delete", &[], Action::DeleteObjects),
            ("POST", "/b", &[], Action::PostObject),
            ("GET", "/b/k?tagging", &[], Action::GetObjectTagging),
            ("GET", "/b/k?uploadId=1&max-parts=2", &[], Action::ListParts),
            ("GET", "/b/k?response-content-type=a", &[], Action::GetObject),
            ("HEAD", "/b/k", &[], Action::HeadObject),
            ("PUT", "/b/k?partNumber=1&uploadId=2", &[], Action::UploadPart),
            ("PUT", "/b/k?partNumber=1&uploadId=2", &["x-amz-copy-source"], Action::UploadPartCopy),
            ("PUT", "/b/k", &["x-amz-copy-source"], Action::CopyObject),
            ("PUT", "/b/k?x-id=PutObject", &["x-amz-acl", "x-amz-storage-class"], Action::PutObject),
            ("POST", "/b/k?uploads", &[], Action::CreateMultipartUpload),
            ("POST", "/b/k?uploadId=1", &[], Action::CompleteMultipartUpload),
            ("DELETE", "/b/k?uploadId=1", &[], Action::AbortMultipartUpload),
            ("DELETE", "/b/k", &[], Action::DeleteObject),
            ("DELETE", "/b/k/", &[], Action::DeleteObject),
        ];
        for (method, path, headers, expected) in cases {
            assert_eq!(action(method, path, headers), Ok(expected), "{method} {path}");
        }
    }

    #[test]
    fn rejects_unsupported_operations() {
        for (method, path) in [
            ("PUT", "/b/k?acl"),
            ("PUT", "/b/k?tagging"),
            ("PUT", "/b/k?partNumber=1"),
            ("DELETE", "/b/k?versionId=1"),
            ("DELETE", "/b?policy"),
            ("GET", "/b?policy"),
            ("GET", "/b/k?versionId=1"),
            ("PUT", "/b?versioning"),
            ("POST", "/b/k?select&select-type=2"),
            ("POST", "/b/k"),
        ] {
            assert_eq!(action(method, path, &[]), Err("NotImplemented"), "{method} {path}");
        }
        for header in UNSUPPORTED_HEADERS {
            assert_eq!(action("PUT", "/b/k", &[header]), Err("NotImplemented"), "{header}");
        }
        for (method, path) in [("PATCH", "/b/k"), ("POST", "/"), ("DELETE", "/"), ("OPTIONS", "/b")] {
            assert_eq!(action(method, path, &[]), Err("MethodNotAllowed"), "{method} {path}");
        }
    }
}
