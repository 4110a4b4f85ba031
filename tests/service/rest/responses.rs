//! Response format (rest.md §3.11–§3.14, §3.19, §3.20): preferences, media types, OPTIONS and CORS, the OpenAPI document,
//! other headers, and the gateway in front.

mod cors;
mod gateway;
mod headers;
mod media;
mod openapi;
mod plans;
mod preferences;
mod routes;
mod truncated;

use basalt_testkit::{Basalt, Builder, Request, Response};
use http::Method;

use super::anon;

/// A server that exposes only the schema `answers`.
pub(super) fn schema_server() -> Builder {
    super::server().config("rest.schemas", "answers")
}

/// A GET with an `Accept` header.
fn accepting(server: &Basalt, path: &str, accept: &str) -> Request {
    anon(server, Method::GET, path).header("accept", accept)
}

/// Status, Content-Type and body.
fn seen(response: &Response) -> (u16, &str, String) {
    (response.status.as_u16(), response.header("content-type"), response.text())
}
