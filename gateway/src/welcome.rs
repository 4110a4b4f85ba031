//! The page at `/` if the server has no app: how to connect, and links to the documentation and the mailbox.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use basalt_core::html::escape;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, StatusCode};

const PAGE: &str = include_str!("welcome.html");
const MAILBOX: &str =
    "<li><a href=\"/mailbox\">/mailbox</a><span>the mails of this development server</span></li>\n";
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Handles a request to `/`.
pub(crate) fn answer(request: &Request<Body>, url: &str, key: &str, has_mailbox: bool) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")]).into_response();
    }
    let page = PAGE
        .replace("{url}", &escape(url))
        .replace("{key}", &escape(key))
        .replace("{mailbox}", if has_mailbox { MAILBOX } else { "" });
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    let body = if request.method() == Method::HEAD { String::new() } else { page };
    (headers, body).into_response()
}
