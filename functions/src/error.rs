//! Errors made by the server and not by a function (functions.md 3.3): `{"code", "message"}`, the code in a header too.

use axum::response::{IntoResponse, Response};
use basalt_core::service::Fault;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;

const ERROR_CODE: HeaderName = HeaderName::from_static("sb-error-code");
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

/// Failures outside the functions, unknown names among them.
pub(crate) fn render(fault: Fault) -> Response {
    match fault {
        Fault::NotFound => answer(StatusCode::NOT_FOUND, "NOT_FOUND", "Requested function was not found"),
        Fault::MethodNotAllowed => {
            let mut response =
                answer(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "Method not allowed");
            response.headers_mut().insert(header::ALLOW, METHODS);
            response
        }
        Fault::BodyTooLarge { limit } => answer(
            StatusCode::PAYLOAD_TOO_LARGE,
            "PAYLOAD_TOO_LARGE",
            &format!("Request body exceeds {limit} bytes"),
        ),
        Fault::SlowBody => {
            answer(StatusCode::REQUEST_TIMEOUT, "REQUEST_TIMEOUT", "Request body came too slowly")
        }
        Fault::Timeout => {
            answer(StatusCode::GATEWAY_TIMEOUT, "IDLE_TIMEOUT", "Function did not respond in time")
        }
        Fault::Panic { id: _ } => answer(
            StatusCode::INTERNAL_SERVER_ERROR,
            "WORKER_ERROR",
            "Function exited due to an error (please check logs)",
        ),
        Fault::BadRequest(message) => answer(StatusCode::BAD_REQUEST, "BAD_REQUEST", &message),
        Fault::Overloaded => {
            let mut response =
                answer(StatusCode::SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE", "Service is overloaded");
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
    }
}

fn answer(status: StatusCode, code: &'static str, message: &str) -> Response {
    let body = json!({"code": code, "message": message});
    (status, [(ERROR_CODE, HeaderValue::from_static(code))], axum::Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_function_carries_its_code_twice() {
        let response = render(Fault::NotFound);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()["sb-error-code"], "NOT_FOUND");
        assert_eq!(response.headers()["content-type"], "application/json");
        let bytes = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        assert_eq!(bytes, r#"{"code":"NOT_FOUND","message":"Requested function was not found"}"#);
    }

    #[test]
    fn a_wrong_method_names_the_right_ones() {
        assert!(render(Fault::MethodNotAllowed).headers().contains_key("allow"));
    }

    #[test]
    fn a_busy_server_says_when_to_come_back() {
        let response = render(Fault::Overloaded);
        assert_eq!(
            (response.status(), &response.headers()["retry-after"]),
            (StatusCode::SERVICE_UNAVAILABLE, &HeaderValue::from_static("1"))
        );
    }
}
