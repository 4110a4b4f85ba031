//! Rejected requests of the TUS protocol: a status and a human-readable text (storage.md §3.15).

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::error::StorageError;

pub(super) const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
pub(super) const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");

/// Why a request was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    status: StatusCode,
    text: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// The upload does not exist or has expired.
    pub(super) fn unknown_upload() -> Self {
        Self::new(StatusCode::NOT_FOUND, "The file for this url was not found")
    }

    /// The upload exceeds the size limit.
    pub(super) fn maximum_exceeded() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "Maximum size exceeded")
    }

    #[cfg(test)]
    pub(super) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = (self.status, format!("{}\n", self.text)).into_response();
        response.headers_mut().insert(TUS_RESUMABLE, VERSION);
        response
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        if error.code() == "EntityTooLarge" {
            return Self::maximum_exceeded();
        }
        Self::new(error.status(), error.message())
    }
}
