//! Error answers over HTTP: `{"error": …}` with the charset that upstream's framework adds (realtime.md 3.1).

use axum::response::{IntoResponse, Response};
use basalt_core::service::Fault;
use http::{StatusCode, header};
use serde_json::json;

/// Failures outside the handlers, unknown routes among them.
pub(crate) fn render(fault: Fault) -> Response {
    let (status, text) = match fault {
        // Upstream's router knows no wrong method: a path answers to its methods, all else is not found.
        Fault::NotFound | Fault::MethodNotAllowed => (StatusCode::NOT_FOUND, "Not Found".to_owned()),
        Fault::BodyTooLarge { limit: _ } => {
            (StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large".to_owned())
        }
        Fault::Timeout => (StatusCode::GATEWAY_TIMEOUT, "Request timed out".to_owned()),
        Fault::Panic { id: _ } => (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error".to_owned()),
        Fault::BadRequest(message) => (StatusCode::BAD_REQUEST, message),
    };
    let body = json!({ "error": text }).to_string();
    (status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unknown_route_is_json_with_a_charset() {
        let response = render(Fault::NotFound);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json; charset=utf-8");
        let bytes = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        assert_eq!(bytes, r#"{"error":"Not Found"}"#);
    }
}
