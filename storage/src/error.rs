//! Errors of the API (storage.md §3.2). HTTP status and `statusCode` differ deliberately: upstream answers
//! nearly every handled error with 400 and puts the actual status into the body. S3 and TUS send the actual
//! status and their own format for the same errors.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use basalt_core::service::Fault;
use basalt_pg::pg_error::PgError;
use basalt_pg::session::SessionError;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use serde_json::{Value, json};

/// Areas whose routes use upstream's error handler; elsewhere its framework answers.
const HANDLED_AREAS: [&str; 5] = ["bucket", "object", "render", "cdn", "vector"];
/// Seconds after which clients should retry.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Why a request failed, with the texts sent to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageError {
    code: &'static str,
    /// Member `statusCode`: the actual status.
    status: u16,
    /// Member `error`, upstream's legacy name.
    name: Cow<'static, str>,
    message: Cow<'static, str>,
    /// HTTP status except for S3 and TUS.
    http: StatusCode,
    /// Size of the object, for an unsatisfiable range.
    size: Option<u64>,
    /// Uses the format of upstream's framework: a numeric status, and no `code` except the framework's own.
    is_framework: bool,
}

impl StorageError {
    /// A handled error: HTTP 400, or 500 for server errors.
    fn new(
        status: u16,
        code: &'static str,
        name: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let http = if status == 500 { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_REQUEST };
        Self {
            code,
            status,
            name: name.into(),
            message: message.into(),
            http,
            size: None,
            is_framework: false,
        }
    }

    fn with_http(self, http: u16) -> Self {
        Self { http: StatusCode::from_u16(http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), ..self }
    }

    /// Member `code`.
    pub(crate) const fn code(&self) -> &'static str {
        self.code
    }

    /// Member `message`.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The actual status, which S3 and TUS send.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The bucket does not exist or is hidden.
    pub(crate) fn no_such_bucket() -> Self {
        Self::new(404, "NoSuchBucket", "Bucket not found", "Bucket not found")
    }

    /// The object does not exist or is hidden.
    pub(crate) fn no_such_key() -> Self {
        Self::new(404, "NoSuchKey", "not_found", "Object not found")
    }

    /// The S3 multipart upload does not exist.
    pub(crate) fn no_such_upload() -> Self {
        Self::new(404, "NoSuchUpload", "NoSuchUpload", "Upload not found")
    }

    fn duplicate(code: &'static str) -> Self {
        Self::new(409, code, "Duplicate", "The resource already exists")
    }

    /// The bucket id or name is taken.
    pub(crate) fn bucket_already_exists() -> Self {
        Self::duplicate("BucketAlreadyExists")
    }

    /// The target of an upload or copy exists.
    pub(crate) fn key_already_exists() -> Self {
        Self::duplicate("KeyAlreadyExists")
    }

    /// The target of a move exists, or another unique index was violated.
    pub(crate) fn resource_already_exists() -> Self {
        Self::duplicate("ResourceAlreadyExists")
    }

    /// The bucket contains objects.
    pub(crate) fn bucket_not_empty() -> Self {
        Self::new(409, "ResourceNotEmpty", "ResourceNotEmpty", "The bucket you tried to delete is not empty")
    }

    /// The bucket name is invalid.
    pub(crate) fn invalid_bucket_name() -> Self {
        Self::new(400, "InvalidBucketName", "Invalid Input", "Bucket name invalid")
    }

    /// The object name is invalid.
    pub(crate) fn invalid_key(key: &str) -> Self {
        Self::new(400, "InvalidKey", "InvalidKey", format!("Invalid key: {key}"))
    }

    /// The bucket does not allow this MIME type, or it is not one.
    pub(crate) fn invalid_mime_type(mime: &str) -> Self {
        Self::new(415, "InvalidMimeType", "invalid_mime_type", format!("mime type {mime} is not supported"))
    }

    /// The `Content-Type` header cannot be parsed.
    pub(crate) fn invalid_content_type() -> Self {
        Self::new(415, "InvalidMimeType", "invalid_mime_type", "Invalid Content-Type header")
    }

    /// The object exceeds the limit of the server or the bucket.
    pub(crate) fn entity_too_large() -> Self {
        Self::new(413, "EntityTooLarge", "Payload too large", "The object exceeded the maximum allowed size")
    }

    /// Row-level security rejected a write.
    pub(crate) fn row_level_security() -> Self {
        Self::access_denied("new row violates row-level security policy")
    }

    /// Permission denied, with PostgreSQL's or the token's reason.
    pub(crate) fn access_denied(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(403, "AccessDenied", "Unauthorized", message)
    }

    /// A user's token is invalid.
    pub(crate) fn bad_token(reason: &'static str) -> Self {
        Self::access_denied(reason)
    }

    /// The route requires `service_role`. Sent with HTTP status 403.
    pub(crate) fn role_denied() -> Self {
        Self::access_denied("Access denied: Invalid role").with_http(403)
    }

    /// The `Authorization` header is missing.
    pub(crate) fn no_authorization() -> Self {
        Self::invalid_request("headers must have required property 'authorization'")
    }

    /// The token of a signed URL is invalid.
    pub(crate) fn invalid_jwt(reason: &'static str) -> Self {
        Self::new(400, "InvalidJWT", "InvalidJWT", reason)
    }

    /// The signed URL is for another path or purpose.
    pub(crate) fn invalid_signature(message: &'static str) -> Self {
        Self::new(400, "InvalidSignature", "InvalidSignature", message)
    }

    /// A parameter has an invalid value.
    pub(crate) fn invalid_parameter(name: &str) -> Self {
        Self::new(400, "InvalidParameter", "InvalidParameter", format!("Invalid Parameter {name}"))
    }

    /// User metadata is JSON but not an object; PostgreSQL's error text.
    pub(crate) fn invalid_json() -> Self {
        Self::new(400, "InvalidParameter", "InvalidParameter", "invalid input syntax for type json")
    }

    /// The request violates its schema; AJV's error text.
    pub(crate) fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "InvalidRequest", "Error", message)
    }

    /// The request is inconsistent.
    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "InvalidRequest", "InvalidRequest", message)
    }

    /// The JSON body cannot be parsed: the framework's text in the handled format.
    pub(crate) fn bad_json_body(message: &'static str) -> Self {
        Self::new(400, "InvalidRequest", "FastifyError", message)
    }

    /// The JSON body is too large.
    pub(crate) fn json_body_too_large() -> Self {
        Self::new(413, "EntityTooLarge", "FastifyError", "Request body is too large").with_http(413)
    }

    /// The `X-Robots-Tag` is invalid.
    pub(crate) fn invalid_robots_tag(reason: &str) -> Self {
        let message = format!("Invalid X-Robots-Tag header: {reason}");
        Self::new(400, "InvalidRequest", "invalid_x_robots_tag", message)
    }

    /// A referenced row does not exist (SQLSTATE 23503).
    pub(crate) fn related_missing() -> Self {
        Self::new(404, "InvalidRequest", "InvalidRequest", "The related resource does not exist")
    }

    /// The bucket contains too many objects to be emptied.
    pub(crate) fn bucket_too_full() -> Self {
        let message = "Unable to empty the bucket because it contains too many objects";
        Self::new(409, "InvalidRequest", "InvalidRequest", message)
    }

    /// 416: the range cannot be satisfied.
    pub(crate) fn invalid_range() -> Self {
        Self::new(416, "InvalidRange", "invalid_range", "invalid range provided").with_http(416)
    }

    /// Adds the object's size to the response.
    pub(crate) fn with_size(self, size: u64) -> Self {
        Self { size: Some(size), ..self }
    }

    /// The object's lock was not released in time.
    pub(crate) fn lock_timeout() -> Self {
        Self::new(503, "LockTimeout", "acquiring_lock_timeout", "acquiring lock timeout")
    }

    /// The database did not respond in time.
    pub(crate) fn database_timeout() -> Self {
        let message = "The connection to the database timed out";
        Self::new(544, "DatabaseTimeout", "DatabaseTimeout", message).with_http(544)
    }

    /// The server or the database is overloaded.
    pub(crate) fn slow_down() -> Self {
        let message = "Too many connections issued to the database";
        Self::new(429, "SlowDown", "too_many_connections", message).with_http(429)
    }

    /// The disk or the bucket is full.
    pub(crate) fn storage_full() -> Self {
        let message = "The server has no room for the object";
        Self::new(507, "InsufficientStorage", "InsufficientStorage", message).with_http(507)
    }

    /// The blob store does not respond, or `storage.upload_memory` is exhausted.
    pub(crate) fn store_busy() -> Self {
        Self::new(503, "SlowDown", "SlowDown", "Please reduce your request rate.").with_http(503)
    }

    /// Too many images are being transformed.
    pub(crate) fn too_many_images() -> Self {
        let message = "Too many images are being transformed: try again in a moment";
        Self::new(429, "SlowDown", "SlowDown", message).with_http(429)
    }

    /// The client has too many unfinished uploads.
    pub(crate) fn too_many_uploads() -> Self {
        let message = "Too many unfinished uploads: finish or delete one, or wait until one expires";
        Self::new(429, "SlowDown", "SlowDown", message).with_http(429)
    }

    /// The body was not received completely.
    pub(crate) fn aborted() -> Self {
        Self::new(500, "Aborted", "Aborted", "Upload was aborted")
    }

    /// The feature is not implemented or disabled.
    pub(crate) fn feature_not_enabled(feature: &str) -> Self {
        let message = format!("The feature {feature} is not enabled for this resource");
        Self::new(409, "FeatureNotEnabled", "FeatureNotEnabled", message)
    }

    /// A server error; the cause is logged where it occurs.
    pub(crate) fn internal() -> Self {
        Self::new(500, "InternalError", "Internal", "Internal Server Error")
    }

    /// Invalid percent-encoding in the path.
    pub(crate) fn bad_url(raw: &str) -> Self {
        let message = format!("'{raw}' is not a valid url component");
        let error = Self::new(400, "FST_ERR_BAD_URL", "Bad Request", message);
        Self { is_framework: true, ..error }
    }

    /// The route does not exist. The message contains the path without the service's prefix, and the query.
    pub(crate) fn unknown_route(method: &Method, uri: &Uri) -> Self {
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let message = format!("Route {method}:{target} not found");
        let area = uri.path().split('/').nth(1).unwrap_or_default();
        let error = Self::new(404, "InvalidRequest", "Not Found", message).with_http(404);
        Self { is_framework: !HANDLED_AREAS.contains(&area), ..error }
    }

    /// Maps a database error. Server errors are logged here.
    pub(crate) fn from_session(error: &SessionError) -> Self {
        match error {
            SessionError::Postgres(error) => Self::from_postgres(error),
            SessionError::PoolTimeout | SessionError::QueueFull => Self::slow_down(),
            SessionError::Deadline => Self::database_timeout(),
            SessionError::Unreachable(_) | SessionError::Unavailable(_) => {
                tracing::error!(%error, "cannot use the database");
                Self::internal()
            }
        }
    }

    fn from_postgres(error: &PgError) -> Self {
        let named = |status, code: &'static str| Self::new(status, code, code, error.message.clone());
        match error.code.as_str() {
            "42501" if error.message.contains("row-level security policy") => Self::row_level_security(),
            "42501" => Self::access_denied(error.message.clone()),
            "23505" if error.constraint.as_deref() == Some("bucketid_objname") => Self::key_already_exists(),
            "23505" => Self::resource_already_exists(),
            "23503" if error.message.starts_with("update or delete on table") => {
                let message = "The resource could not be updated or removed due to a foreign key constraint";
                Self::new(409, "ResourceReferenced", "ResourceReferenced", message)
            }
            "23503" => Self::related_missing(),
            "57014" => Self::database_timeout(),
            "55P03" => Self::lock_timeout(),
            "53300" => Self::slow_down(),
            "25006" => named(503, "DatabaseReadOnly"),
            "42703" | "42P01" | "42P17" => {
                tracing::warn!(
                    code = error.code,
                    message = error.message,
                    "the database schema does not match"
                );
                named(503, "DatabaseSchemaMismatch")
            }
            "22P02" => Self::new(400, "InvalidParameter", "InvalidParameter", error.message.clone()),
            code => {
                // The error text of a trigger is only logged; the body contains the code, as upstream's
                // does.
                tracing::error!(
                    code,
                    message = error.message,
                    hint = error.hint,
                    "PostgreSQL rejected a statement"
                );
                Self::new(500, "DatabaseError", "DatabaseError", format!("database error, code: {code}"))
            }
        }
    }

    fn body(&self) -> Value {
        let Self { code, status, name, message, http: _, size: _, is_framework } = self;
        match (is_framework, *code) {
            (false, code) => {
                json!({"statusCode": status.to_string(), "error": name, "message": message, "code": code})
            }
            (true, "InvalidRequest") => json!({"message": message, "error": name, "statusCode": status}),
            (true, code) => json!({"error": name, "code": code, "message": message, "statusCode": status}),
        }
    }
}

impl IntoResponse for StorageError {
    fn into_response(self) -> Response {
        let mut response = (self.http, axum::Json(self.body())).into_response();
        if matches!(self.code, "SlowDown" | "LockTimeout") {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if let Some(size) = self.size
            && let Ok(range) = HeaderValue::try_from(format!("bytes */{size}"))
        {
            response.headers_mut().insert(header::CONTENT_RANGE, range);
        }
        if self.code == "Aborted" {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Maps failures that occur outside the handlers.
pub(crate) fn from_fault(fault: Fault) -> StorageError {
    match fault {
        Fault::NotFound | Fault::MethodNotAllowed => {
            StorageError::new(404, "InvalidRequest", "Not Found", "Route not found").with_http(404)
        }
        Fault::BodyTooLarge { limit: _ } => StorageError::json_body_too_large(),
        Fault::SlowBody => {
            let message = "The request body came too slowly";
            StorageError::new(408, "RequestTimeout", "Request Timeout", message).with_http(408)
        }
        Fault::Timeout => StorageError::database_timeout(),
        Fault::Panic { id: _ } => StorageError::internal(),
        Fault::BadRequest(message) => StorageError::invalid_request(message),
        Fault::Overloaded => {
            let message = "Please reduce your request rate.";
            StorageError::new(503, "SlowDown", "SlowDown", message).with_http(503)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(response: Response) -> (u16, String) {
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn unknown_route_in_an_area_uses_handled_format() {
        let response =
            StorageError::unknown_route(&Method::PATCH, &Uri::from_static("/bucket/x")).into_response();
        let expected = r#"{"statusCode":"404","error":"Not Found","message":"Route PATCH:/bucket/x not found","code":"InvalidRequest"}"#;
        assert_eq!(answer(response).await, (404, expected.to_owned()));
    }

    #[tokio::test]
    async fn unknown_route_elsewhere_uses_framework_format() {
        for (target, shown) in [("/nope", "/nope"), ("/bucketful?a=1", "/bucketful?a=1"), ("/", "/")] {
            let response =
                StorageError::unknown_route(&Method::GET, &Uri::from_static(target)).into_response();
            let expected = format!(
                r#"{{"message":"Route GET:{shown} not found","error":"Not Found","statusCode":404}}"#
            );
            assert_eq!(answer(response).await, (404, expected));
        }
    }

    #[tokio::test]
    async fn database_timeout_is_544() {
        assert_eq!(answer(from_fault(Fault::Timeout).into_response()).await.0, 544);
    }

    #[tokio::test]
    async fn overload_returns_retry_after() {
        let response = from_fault(Fault::Overloaded).into_response();
        assert_eq!(response.headers()["retry-after"], "1");
        let expected = r#"{"statusCode":"503","error":"SlowDown","message":"Please reduce your request rate.","code":"SlowDown"}"#;
        assert_eq!(answer(response).await, (503, expected.to_owned()));
    }

    #[tokio::test]
    async fn invalid_encoding_uses_framework_format() {
        let expected = r#"{"error":"Bad Request","code":"FST_ERR_BAD_URL","message":"'a%zz' is not a valid url component","statusCode":400}"#;
        assert_eq!(answer(StorageError::bad_url("a%zz").into_response()).await, (400, expected.to_owned()));
    }

    #[tokio::test]
    async fn actual_status_is_in_the_body() {
        let expected =
            r#"{"statusCode":"404","error":"not_found","message":"Object not found","code":"NoSuchKey"}"#;
        assert_eq!(answer(StorageError::no_such_key().into_response()).await, (400, expected.to_owned()));
    }
}
