//! Error responses over HTTP: `{"error": …}` with the charset that upstream's framework adds (realtime.md
//! 3.1).

use axum::response::{IntoResponse, Response};
use basalt_core::service::Fault;
use http::{StatusCode, header};
use serde_json::{Value, json};

/// Renders failures that occur outside the handlers, including unknown routes.
pub(crate) fn render(fault: Fault) -> Response {
    let (status, text) = match fault {
        // Upstream's router has no 405: a wrong method on a known path is not found.
        Fault::NotFound | Fault::MethodNotAllowed => (StatusCode::NOT_FOUND, "Not Found".to_owned()),
        Fault::BodyTooLarge { limit: _ } => {
            (StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large".to_owned())
        }
        Fault::SlowBody => (StatusCode::REQUEST_TIMEOUT, "Request Timeout".to_owned()),
        Fault::Timeout => (StatusCode::GATEWAY_TIMEOUT, "Request timed out".to_owned()),
        Fault::Panic { id: _ } => (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error".to_owned()),
        Fault::BadRequest(message) => (StatusCode::BAD_REQUEST, message),
        Fault::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable".to_owned()),
    };
    let mut response = json_response(status, &json!({ "error": text }));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}

/// 401: the handshake has no valid token.
pub(crate) fn unauthorized(text: &str) -> Response {
    json_response(StatusCode::UNAUTHORIZED, &json!({ "error": text }))
}

/// 429: the handshake exceeds a limit.
pub(crate) fn too_many(text: &str) -> Response {
    json_response(StatusCode::TOO_MANY_REQUESTS, &json!({ "error": text }))
}

/// A response with `message`, as the HTTP routes send it.
pub(crate) fn message(status: StatusCode, text: &str) -> Response {
    json_response(status, &json!({ "message": text }))
}

pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (status, headers, body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unknown_route_returns_json_with_charset() {
        let response = render(Fault::NotFound);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json; charset=utf-8");
        let bytes = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        assert_eq!(bytes, r#"{"error":"Not Found"}"#);
    }

    #[test]
    fn overload_returns_retry_after() {
        let response = render(Fault::Overloaded);
        assert_eq!(
            (response.status().as_u16(), &response.headers()[header::RETRY_AFTER]),
            (503, &header::HeaderValue::from_static("1"))
        );
    }
}
