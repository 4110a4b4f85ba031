//! The error bodies of storage.md 3.2. HTTP status and `statusCode` differ on purpose: upstream answers 400 to nearly
//! everything it handles and puts the meaning into the body.

use axum::response::{IntoResponse, Response};
use basalt_core::service::Fault;
use http::{Method, StatusCode, Uri, header};
use serde_json::json;

/// Areas whose routes share upstream's error handler; elsewhere its framework answers.
const HANDLED_AREAS: [&str; 5] = ["bucket", "object", "render", "cdn", "vector"];

/// 404 for a route that does not exist. The path is as the router sees it: without the prefix, with the query.
pub(crate) fn unknown_route(method: &Method, uri: &Uri) -> Response {
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let message = format!("Route {method}:{target} not found");
    let area = uri.path().split('/').nth(1).unwrap_or_default();
    if HANDLED_AREAS.contains(&area) {
        return handled(StatusCode::NOT_FOUND, "404", "Not Found", &message, "InvalidRequest");
    }
    (StatusCode::NOT_FOUND, axum::Json(json!({"message": message, "error": "Not Found", "statusCode": 404})))
        .into_response()
}

/// Failures outside the handlers.
pub(crate) fn render(fault: Fault) -> Response {
    match fault {
        Fault::NotFound => {
            handled(StatusCode::NOT_FOUND, "404", "Not Found", "Route not found", "InvalidRequest")
        }
        Fault::MethodNotAllowed => {
            handled(StatusCode::NOT_FOUND, "404", "Not Found", "Route not found", "InvalidRequest")
        }
        Fault::BodyTooLarge { limit: _ } => handled(
            StatusCode::PAYLOAD_TOO_LARGE,
            "413",
            "Payload too large",
            "The object exceeded the maximum allowed size",
            "EntityTooLarge",
        ),
        Fault::SlowBody => handled(
            StatusCode::REQUEST_TIMEOUT,
            "408",
            "Request Timeout",
            "The request body came too slowly",
            "RequestTimeout",
        ),
        Fault::Timeout => handled(
            // 544 is upstream's own.
            StatusCode::from_u16(544).unwrap_or(StatusCode::GATEWAY_TIMEOUT),
            "544",
            "DatabaseTimeout",
            "The connection to the database timed out",
            "DatabaseTimeout",
        ),
        Fault::Panic { id: _ } => handled(
            StatusCode::INTERNAL_SERVER_ERROR,
            "500",
            "Internal",
            "Internal Server Error",
            "InternalError",
        ),
        Fault::BadRequest(message) => {
            handled(StatusCode::BAD_REQUEST, "400", "Error", &message, "InvalidRequest")
        }
        Fault::Overloaded => {
            let message = "Please reduce your request rate.";
            let mut response =
                handled(StatusCode::SERVICE_UNAVAILABLE, "503", "SlowDown", message, "SlowDown");
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
            response
        }
    }
}

fn handled(status: StatusCode, status_code: &str, error: &str, message: &str, code: &str) -> Response {
    let body = json!({"statusCode": status_code, "error": error, "message": message, "code": code});
    (status, axum::Json(body)).into_response()
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
    async fn an_unknown_route_inside_an_area_has_a_code_and_a_string_status() {
        let response = unknown_route(&Method::PATCH, &Uri::from_static("/bucket/x"));
        let expected = r#"{"statusCode":"404","error":"Not Found","message":"Route PATCH:/bucket/x not found","code":"InvalidRequest"}"#;
        assert_eq!(answer(response).await, (404, expected.to_owned()));
    }

    #[tokio::test]
    async fn an_unknown_route_elsewhere_has_a_numeric_status() {
        for (target, shown) in [("/nope", "/nope"), ("/bucketful?a=1", "/bucketful?a=1"), ("/", "/")] {
            let response = unknown_route(&Method::GET, &Uri::from_static(target));
            let expected = format!(
                r#"{{"message":"Route GET:{shown} not found","error":"Not Found","statusCode":404}}"#
            );
            assert_eq!(answer(response).await, (404, expected));
        }
    }

    #[tokio::test]
    async fn a_database_timeout_is_544() {
        assert_eq!(answer(render(Fault::Timeout)).await.0, 544);
    }

    #[tokio::test]
    async fn a_busy_server_says_when_to_come_back() {
        let response = render(Fault::Overloaded);
        assert_eq!(response.headers()["retry-after"], "1");
        let expected = r#"{"statusCode":"503","error":"SlowDown","message":"Please reduce your request rate.","code":"SlowDown"}"#;
        assert_eq!(answer(response).await, (503, expected.to_owned()));
    }
}
