//! Errors of the server, not of a function (functions.md 3.3): `{"code", "message"}`, with the code in a header too.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use basalt_core::service::Fault;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;

pub(crate) const ERROR_CODE: HeaderName = HeaderName::from_static("sb-error-code");
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

/// Why a request did not reach its function, or the function's response is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GateError {
    /// There is no `Authorization` header.
    NoHeader,
    /// The header is not `Bearer` with a token, or the token's own header cannot be decoded.
    Format,
    /// A token signed with the shared secret is invalid or expired.
    LegacyToken,
    /// A token signed with a private key is invalid or expired.
    AsymmetricToken,
    /// None of our keys has this algorithm.
    Algorithm(String),
    /// The function's response has an invalid HTTP status.
    ResponseStatus,
}

impl IntoResponse for GateError {
    fn into_response(self) -> Response {
        let (status, code, message): (StatusCode, &'static str, Cow<'static, str>) = match self {
            Self::NoHeader => (
                StatusCode::UNAUTHORIZED,
                "UNAUTHORIZED_NO_AUTH_HEADER",
                "Missing authorization header".into(),
            ),
            Self::Format => {
                (StatusCode::UNAUTHORIZED, "UNAUTHORIZED_INVALID_JWT_FORMAT", "Invalid JWT format".into())
            }
            Self::LegacyToken => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED_LEGACY_JWT", "Invalid JWT".into()),
            Self::AsymmetricToken => {
                (StatusCode::UNAUTHORIZED, "UNAUTHORIZED_ASYMMETRIC_JWT", "Invalid JWT".into())
            }
            Self::Algorithm(alg) => (
                StatusCode::UNAUTHORIZED,
                "UNAUTHORIZED_UNSUPPORTED_TOKEN_ALGORITHM",
                format!("Unsupported JWT algorithm {alg}").into(),
            ),
            Self::ResponseStatus => (
                StatusCode::BAD_GATEWAY,
                "INVALID_RESPONSE_STATUS_CODE",
                "Function returned an invalid response".into(),
            ),
        };
        error_response(status, code, &message)
    }
}

/// Why a TypeScript function gave no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerError {
    /// Deno was not found, or the state folder cannot be written.
    NoRuntime,
    /// The worker ended or failed before it accepted requests.
    Boot,
    /// All workers are busy.
    Exhausted,
    /// The worker exceeded its memory, processor time or lifetime.
    Limit,
    /// The worker ended for another reason.
    Crashed,
    /// The request's body is too large.
    BodyTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

impl IntoResponse for WorkerError {
    fn into_response(self) -> Response {
        // Not among the statuses of HTTP: the platform's own.
        let resource_limit = StatusCode::from_u16(546).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        match self {
            Self::NoRuntime => error_response(
                unavailable,
                "BOOT_ERROR",
                "Deno was not found on the server: run `npm install deno` in the project folder, or set functions.deno_path",
            ),
            Self::Boot => {
                error_response(unavailable, "BOOT_ERROR", "Worker failed to boot (please check logs)")
            }
            Self::Exhausted => {
                let mut response =
                    error_response(unavailable, "WORKER_POOL_EXHAUSTED", "No worker available");
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
            Self::Limit => error_response(
                resource_limit,
                "WORKER_LIMIT",
                "Worker failed to respond due to a resource limit (please check logs)",
            ),
            Self::Crashed => error_response(
                StatusCode::INTERNAL_SERVER_ERROR,
                "WORKER_ERROR",
                "Function exited due to an error (please check logs)",
            ),
            Self::BodyTooLarge { limit } => render(Fault::BodyTooLarge { limit }),
        }
    }
}

/// The response to a fault outside of a function.
#[must_use]
pub fn render(fault: Fault) -> Response {
    match fault {
        Fault::NotFound => {
            error_response(StatusCode::NOT_FOUND, "NOT_FOUND", "Requested function was not found")
        }
        Fault::MethodNotAllowed => {
            let mut response =
                error_response(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "Method not allowed");
            response.headers_mut().insert(header::ALLOW, METHODS);
            response
        }
        Fault::BodyTooLarge { limit } => error_response(
            StatusCode::PAYLOAD_TOO_LARGE,
            "PAYLOAD_TOO_LARGE",
            &format!("Request body exceeds {limit} bytes"),
        ),
        Fault::SlowBody => {
            error_response(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", "Request body came too slowly")
        }
        Fault::Timeout => {
            error_response(StatusCode::GATEWAY_TIMEOUT, "IDLE_TIMEOUT", "Function did not respond in time")
        }
        Fault::Panic { id: _ } => error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "WORKER_ERROR",
            "Function exited due to an error (please check logs)",
        ),
        Fault::BadRequest(message) => error_response(StatusCode::BAD_REQUEST, "BAD_REQUEST", &message),
        Fault::Overloaded => {
            let mut response = error_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "SERVICE_UNAVAILABLE",
                "Service is overloaded",
            );
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
    }
}

fn error_response(status: StatusCode, code: &'static str, message: &str) -> Response {
    let mut body = json!({"code": code, "message": message});
    // Older dispatchers sent only `msg`, and clients read either.
    if status == StatusCode::UNAUTHORIZED
        && let Some(body) = body.as_object_mut()
    {
        body.insert("msg".to_owned(), message.into());
    }
    (status, [(ERROR_CODE, HeaderValue::from_static(code))], axum::Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn error_code_is_in_header_and_body() {
        let response = render(Fault::NotFound);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()["sb-error-code"], "NOT_FOUND");
        assert_eq!(response.headers()["content-type"], "application/json");
        let bytes = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        assert_eq!(bytes, r#"{"code":"NOT_FOUND","message":"Requested function was not found"}"#);
    }

    #[test]
    fn method_not_allowed_lists_allowed_methods() {
        assert!(render(Fault::MethodNotAllowed).headers().contains_key("allow"));
    }

    #[test]
    fn overloaded_response_has_retry_after() {
        let response = render(Fault::Overloaded);
        assert_eq!(
            (response.status(), &response.headers()["retry-after"]),
            (StatusCode::SERVICE_UNAVAILABLE, &HeaderValue::from_static("1"))
        );
    }
}
