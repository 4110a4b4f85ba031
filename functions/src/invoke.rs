//! Handles a request below `/functions/v1` by calling its function (functions.md 3.1, 3.2).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use basalt_core::service::{Fault, Original, RequestId};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONNECTION,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, StatusCode};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::Functions;
use crate::error::{self, ERROR_CODE, GateError};
use crate::gate;

pub(crate) const METHODS: &str = "GET, POST, PUT, PATCH, DELETE, OPTIONS";

const SB_REQUEST_ID: HeaderName = HeaderName::from_static("sb-request-id");
const REGION: HeaderName = HeaderName::from_static("x-sb-edge-region");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const HOP_BY_HOP: [HeaderName; 6] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING];

pub(crate) async fn invoke(State(functions): State<Arc<Functions>>, mut request: Request) -> Response {
    let method = request.method().clone();
    let is_known = matches!(
        method,
        Method::GET
            | Method::HEAD
            | Method::POST
            | Method::PUT
            | Method::PATCH
            | Method::DELETE
            | Method::OPTIONS
    );
    if !is_known {
        return error::render(Fault::MethodNotAllowed);
    }
    let Some(function) = functions.registry.find(request.uri().path()) else {
        return error::render(Fault::NotFound);
    };
    // Dropped before the function runs, so that a long response does not keep the registry alive.
    if method == Method::OPTIONS {
        // The gateway handles browsers' preflights; this one has no `Origin`.
        if request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD) && !function.answers_preflights {
            return preflight(request.headers());
        }
    } else if function.verify_jwt
        && let Err(error) = gate::check(&functions.keys, &functions.clock, request.headers())
    {
        function.metrics.refused();
        return error.into_response();
    }
    let allows_html = functions.allows_html;
    drop(functions);
    let id = prepare(&mut request);
    let started = Instant::now();
    let span = tracing::info_span!("function", function = &*function.name);
    let response = (function.run)(request).instrument(span).await;
    let response = finish(&method, id, response, allows_html);
    function.metrics.called(response.status(), started.elapsed());
    response
}

fn preflight(headers: &HeaderMap) -> Response {
    const ALWAYS: &str = "authorization, x-client-info, apikey, content-type, x-retry-count, traceparent, tracestate, baggage, x-region";
    let requested = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    let allowed = requested.and_then(|names| HeaderValue::try_from(format!("{ALWAYS}, {names}")).ok());
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed.unwrap_or(HeaderValue::from_static(ALWAYS)));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

/// Sets the headers that functions receive and removes those of the connection. Returns the request id.
fn prepare(request: &mut Request<Body>) -> Option<HeaderValue> {
    let id = request.extensions().get::<RequestId>().and_then(|id| HeaderValue::try_from(&id.0).ok());
    let original = request.extensions().get::<Original>().cloned();
    let headers = request.headers_mut();
    // The headers of the connection, except for a WebSocket, which continues in the function.
    let is_websocket =
        headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-worker-")).cloned().collect();
    for name in HOP_BY_HOP.iter().chain([&UPGRADE, &SB_REQUEST_ID, &FORWARDED_PORT]).chain(&ours) {
        headers.remove(name);
    }
    if is_websocket {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    headers.insert(FORWARDED_PREFIX, HeaderValue::from_static("/functions/v1"));
    if let Some(id) = &id {
        headers.insert(SB_REQUEST_ID, id.clone());
    }
    let Some(original) = original else { return id };
    let proto = if original.scheme == http::uri::Scheme::HTTPS { "https" } else { "http" };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(proto));
    if let Some(host) = original.authority {
        let port = host.to_str().ok().and_then(|host| host.parse::<http::uri::Authority>().ok()?.port_u16());
        let port = port.unwrap_or(if proto == "https" { 443 } else { 80 });
        headers.insert(FORWARDED_PORT, HeaderValue::from(port));
        headers.insert(FORWARDED_HOST, host);
    }
    id
}

/// Completes the function's response for the caller.
fn finish(method: &Method, id: Option<HeaderValue>, response: Response, allows_html: bool) -> Response {
    let status = response.status().as_u16();
    let mut response = if status == 101 || (200..600).contains(&status) {
        response
    } else {
        GateError::ResponseStatus.into_response()
    };
    let is_failure = response.status().is_server_error();
    let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    if !is_upgrade {
        for name in HOP_BY_HOP {
            headers.remove(name);
        }
    }
    if is_failure {
        headers.entry(ERROR_CODE).or_insert(HeaderValue::from_static("EDGE_FUNCTION_ERROR"));
    }
    if let Some(id) = id {
        headers.insert(SB_REQUEST_ID, id);
    }
    headers.entry(REGION).or_insert(HeaderValue::from_static("local"));
    // The app and functions share an origin: HTML from a function would run with access to the app's stored tokens.
    let is_page = |value: &HeaderValue| {
        value.as_bytes().get(..9).is_some_and(|media| media.eq_ignore_ascii_case(b"text/html"))
    };
    if *method == Method::GET && headers.get(CONTENT_TYPE).is_some_and(is_page) {
        if allows_html {
            let policy = HeaderValue::from_static("sandbox allow-forms allow-scripts");
            headers.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
        } else {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::WorkerError;

    fn finished(status: StatusCode, headers: &[(HeaderName, &'static str)]) -> Response {
        let mut response = status.into_response();
        for (name, value) in headers {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        finish(&Method::GET, Some(HeaderValue::from_static("r1")), response, false)
    }

    #[test]
    fn function_errors_differ_from_server_errors() {
        let failed = finished(StatusCode::INTERNAL_SERVER_ERROR, &[]);
        assert_eq!(failed.headers()["sb-error-code"], "EDGE_FUNCTION_ERROR");
        let boot = finish(&Method::GET, None, WorkerError::Boot.into_response(), false);
        assert_eq!(boot.headers()["sb-error-code"], "BOOT_ERROR");
        assert!(!finished(StatusCode::NOT_FOUND, &[]).headers().contains_key("sb-error-code"));
        assert_eq!(finished(StatusCode::NOT_MODIFIED, &[]).status(), 304);
        assert_eq!(finished(StatusCode::CONTINUE, &[]).status(), 502);
    }

    #[test]
    fn html_becomes_text_and_relay_errors_are_kept() {
        let page = finished(StatusCode::OK, &[(CONTENT_TYPE, "Text/HTML; charset=utf-8")]);
        assert_eq!(page.headers()["content-type"], "text/plain; charset=utf-8");
        let mut page = StatusCode::OK.into_response();
        page.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
        let allowed = finish(&Method::GET, None, page, true);
        assert_eq!(allowed.headers()["content-type"], "text/html");
        assert_eq!(allowed.headers()["content-security-policy"], "sandbox allow-forms allow-scripts");
        let relay = HeaderName::from_static("x-relay-error");
        let relayed = finished(StatusCode::OK, &[(relay, "true"), (CONNECTION, "close")]);
        assert_eq!(relayed.headers()["x-relay-error"], "true");
        assert_eq!(relayed.headers()["sb-request-id"], "r1");
        assert!(!relayed.headers().contains_key("connection"));
    }
}
