//! The form of answers (rest.md §3.11–§3.14, §3.19, §3.20): preferences, media types, OPTIONS and CORS, the root
//! document, the other headers, and what the gateway does before and after.

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

/// A server that exposes the schema `answers` alone.
pub(super) fn answers() -> Builder {
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
