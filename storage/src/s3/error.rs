//! Errors of the S3 protocol: real status codes, and XML (storage.md §3.16).

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use basalt_core::service::Fault;
use http::{HeaderValue, StatusCode, header};

use super::chunked::ChunkError;
use super::payload::PayloadError;
use super::sigv4::SignatureError;
use super::xml::{MalformedXml, Writer};
use crate::error::{self, StorageError};

/// Why a request was rejected. The response adds bucket and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct S3Error {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
}

impl S3Error {
    /// An S3 error.
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// 400.
    pub(crate) fn bad_request(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 400: invalid value of a parameter or header.
    pub(crate) fn invalid_argument(message: impl Into<Cow<'static, str>>) -> Self {
        Self::bad_request("InvalidArgument", message)
    }

    /// 403.
    pub(crate) fn access_denied(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "AccessDenied", message)
    }

    /// 501: an unsupported S3 feature. Ignoring it would do something else than requested.
    pub(crate) fn not_implemented() -> Self {
        let message = "A header or query you provided implies functionality that is not implemented.";
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// 405.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "The specified method is not allowed against this resource.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 412.
    pub(crate) fn precondition_failed() -> Self {
        let message = "At least one of the pre-conditions you specified did not hold";
        Self::new(StatusCode::PRECONDITION_FAILED, "PreconditionFailed", message)
    }

    /// 400: invalid percent-encoding in the path.
    pub(crate) fn invalid_uri() -> Self {
        Self::bad_request("InvalidURI", "Couldn't parse the specified URI.")
    }

    /// The error code.
    #[cfg(test)]
    pub(crate) const fn code(&self) -> &'static str {
        self.code
    }

    /// The XML document; `resource` is `bucket/key`.
    pub(crate) fn document(&self, resource: &str) -> String {
        let mut out = Writer::without_namespace("Error");
        out.text("Resource", resource).text("Code", self.code).text("Message", &self.message);
        out.finish("Error")
    }

    /// The response. The HTTP layer removes the body for HEAD.
    pub(crate) fn respond(&self, resource: &str) -> Response {
        let mut response = xml(self.status, self.document(resource));
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// An XML response.
pub(crate) fn xml(status: StatusCode, document: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/xml")], document).into_response()
}

/// Renders failures that occur outside the handlers, for requests below `/s3`.
pub(crate) fn render(fault: Fault) -> Response {
    S3Error::from(error::from_fault(fault)).respond("")
}

impl From<StorageError> for S3Error {
    fn from(error: StorageError) -> Self {
        Self::new(error.status(), error.code(), error.message().to_owned())
    }
}

impl From<MalformedXml> for S3Error {
    fn from(error: MalformedXml) -> Self {
        Self::bad_request("MalformedXML", error.to_string())
    }
}

impl From<SignatureError> for S3Error {
    fn from(error: SignatureError) -> Self {
        let message = error.to_string();
        match error {
            SignatureError::Missing
            | SignatureError::UnsignedHeader(_)
            | SignatureError::Expired
            | SignatureError::NotYetValid => Self::access_denied(message),
            SignatureError::MalformedHeader(_) => Self::bad_request("AuthorizationHeaderMalformed", message),
            SignatureError::MalformedQuery(_) => {
                Self::bad_request("AuthorizationQueryParametersError", message)
            }
            SignatureError::MissingPayloadHash => Self::bad_request("InvalidRequest", message),
            SignatureError::Skewed => Self::new(StatusCode::FORBIDDEN, "RequestTimeTooSkewed", message),
            SignatureError::DoesNotMatch => {
                Self::new(StatusCode::FORBIDDEN, "SignatureDoesNotMatch", message)
            }
        }
    }
}

impl From<PayloadError> for S3Error {
    fn from(error: PayloadError) -> Self {
        let message = error.to_string();
        match error {
            PayloadError::UnknownForm => Self::invalid_argument(message),
            PayloadError::InvalidHeader(_) | PayloadError::MissingTrailer(_) => {
                Self::bad_request("InvalidRequest", message)
            }
            PayloadError::InvalidMd5 => Self::bad_request("InvalidDigest", message),
            PayloadError::Md5Mismatch | PayloadError::ChecksumMismatch(_) => {
                Self::bad_request("BadDigest", message)
            }
            PayloadError::HashMismatch => Self::bad_request("XAmzContentSHA256Mismatch", message),
            PayloadError::LengthMismatch => Self::bad_request("IncompleteBody", message),
            PayloadError::TooLarge => Self::bad_request("EntityTooLarge", message),
            PayloadError::Chunk(error) => match error {
                ChunkError::Malformed => Self::bad_request("InvalidRequest", message),
                ChunkError::BadSignature => {
                    Self::new(StatusCode::FORBIDDEN, "SignatureDoesNotMatch", message)
                }
                ChunkError::Incomplete => Self::bad_request("IncompleteBody", message),
            },
            PayloadError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", message),
            PayloadError::Disconnected(_) => StorageError::aborted().into(),
        }
    }
}
