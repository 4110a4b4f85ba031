//! Error responses for users of the app: `{"error": "<message>"}`, sometimes with a code that the app checks.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use basalt_pg::session::SessionError;
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// A failure with a message for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: Cow<'static, str>,
    pub(crate) code: Option<&'static str>,
    pub(crate) retry_after: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into(), code: None, retry_after: None }
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn forbidden(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(crate) fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    pub(crate) fn with_code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn with_retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn too_many(retry_after: u64) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests. Try again later.")
            .with_retry_after(retry_after)
    }

    pub(crate) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed")
    }

    pub(crate) fn not_authenticated() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Not authenticated")
    }

    pub(crate) fn unavailable() -> Self {
        let message = "The service is not available at the moment. Please try again.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message).with_retry_after(1)
    }

    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Something went wrong. Please try again.")
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        match &error {
            // The foreign key refers to the caller's account, which was deleted a moment ago.
            SessionError::Postgres(inner) if inner.code == "23503" => Self::not_authenticated(),
            SessionError::Postgres(inner) if !inner.is_unavailable() => {
                tracing::error!(%error, "a statement of a built-in function failed");
                Self::internal()
            }
            SessionError::Postgres(_)
            | SessionError::PoolTimeout
            | SessionError::QueueFull
            | SessionError::Unreachable(_)
            | SessionError::Unavailable(_)
            | SessionError::Deadline => {
                tracing::warn!(%error, "a built-in function cannot reach the database");
                Self::unavailable()
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut body = json!({"error": self.message});
        if let (Some(code), Some(body)) = (self.code, body.as_object_mut()) {
            body.insert("code".to_owned(), code.into());
        }
        let mut response = (self.status, axum::Json(body)).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        }
        response
    }
}
