//! The development mailbox at `/mailbox`: HTML pages, and a JSON API compatible with Mailpit's, which test suites of Supabase
//! projects use (auth.md §8).
//!
//! Mails contain sign-in links, so the mailbox exists in development only, and the gateway admits local requests only. Mails
//! contain text that users wrote: their HTML is shown in a sandboxed frame without scripts or an origin.

mod api;
mod html;
mod page;
mod search;
pub mod store;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::service::read_body;
use basalt_pg::session::SessionError;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::Limited;

use store::Store;

/// The mailbox's path on the server's own port.
pub const PATH: &str = "/mailbox";

/// Longest request body: a list of ids.
const BODY_LIMIT: usize = 65_536;

const SCRIPT: &str = include_str!("mailbox/script.js");
const STYLE: &str = include_str!("mailbox/style.css");

/// The mailbox over HTTP.
#[derive(Debug)]
pub struct Mailbox {
    store: Store,
    sender: Sender,
}

/// The sender shown with each mail.
#[derive(Debug, Clone)]
pub struct Sender {
    /// A bare address.
    pub address: String,
    /// The display name; may be empty.
    pub name: String,
}

/// Why a request failed.
#[derive(Debug)]
enum Failure {
    Status(StatusCode, &'static str),
    Database(SessionError),
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Database(error)
    }
}

const NOT_FOUND: Failure = Failure::Status(StatusCode::NOT_FOUND, "Not found\n");

/// A request below the mailbox's base.
struct PageRequest {
    /// Path of the mailbox: [`PATH`], or empty on its own port.
    base: &'static str,
    /// Decoded pairs of name and value.
    query: Vec<(String, String)>,
}

impl PageRequest {
    fn parameter(&self, name: &str) -> &str {
        self.query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

impl Mailbox {
    /// The mailbox of a development server.
    #[must_use]
    pub const fn new(store: Store, sender: Sender) -> Self {
        Self { store, sender }
    }

    /// Handles a request. `base` is [`PATH`], or empty on the mailbox's own port.
    pub async fn answer(&self, request: Request<Body>, base: &'static str) -> Response {
        match self.route(request, base).await {
            Ok(response) => response,
            Err(Failure::Status(status, text)) => plain(status, text),
            Err(Failure::Database(error)) => {
                tracing::warn!(%error, "cannot read the mailbox");
                plain(StatusCode::SERVICE_UNAVAILABLE, "The database is unavailable.\n")
            }
        }
    }

    async fn route(&self, request: Request<Body>, base: &'static str) -> Result<Response, Failure> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().strip_prefix(base).unwrap_or_default();
        let query = head.uri.query().unwrap_or_default();
        let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let request = PageRequest { base, query };
        let method = match head.method {
            Method::HEAD => Method::GET,
            method => method,
        };
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (method, segments.as_slice()) {
            (Method::GET, [""]) => self.list_page(&request).await,
            (Method::GET, ["style.css"]) => Ok(asset("text/css; charset=utf-8", STYLE)),
            (Method::GET, ["script.js"]) => Ok(asset("text/javascript; charset=utf-8", SCRIPT)),
            (Method::POST, ["delete"]) => {
                check_same_origin(&head.headers)?;
                self.store.delete(None).await?;
                Ok((StatusCode::SEE_OTHER, [(LOCATION, format!("{base}/"))]).into_response())
            }
            (Method::GET, ["view", file]) => self.view(file).await,
            (Method::GET, ["api", "v1", "info"]) => self.info().await,
            (Method::GET, ["api", "v1", "messages"]) => self.messages(&request, "").await,
            (Method::GET, ["api", "v1", "search"]) => {
                self.messages(&request, request.parameter("query")).await
            }
            (Method::GET, ["api", "v1", "message", id]) => self.message(id).await,
            (Method::DELETE, ["api", "v1", "messages"]) => {
                let body = read_body(Body::new(Limited::new(body, BODY_LIMIT)), None).await;
                let body = body.map_err(|_| Failure::Status(StatusCode::PAYLOAD_TOO_LARGE, "Too large\n"))?;
                self.delete(&body).await
            }
            (Method::GET, [id]) => self.mail_page(&request, id).await,
            (Method::GET, _) => Err(NOT_FOUND),
            _ => {
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "");
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, DELETE"));
                Ok(response)
            }
        }
    }
}

/// CSRF check: any page can post a form here, so only our own origin is accepted.
fn check_same_origin(headers: &HeaderMap) -> Result<(), Failure> {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let is_own_site = text(SITE).is_none_or(|site| site == "same-origin");
    let is_own_origin = text(ORIGIN).is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host == text(HOST)
    });
    if is_own_site && is_own_origin {
        return Ok(());
    }
    Err(Failure::Status(StatusCode::FORBIDDEN, "cross-origin request rejected\n"))
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    guarded(
        (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response(),
        "default-src 'none'",
    )
}

fn json(value: &serde_json::Value) -> Response {
    let body = ([(CONTENT_TYPE, "application/json")], value.to_string());
    guarded(body.into_response(), "default-src 'none'")
}

fn asset(content_type: &'static str, text: &'static str) -> Response {
    guarded(([(CONTENT_TYPE, content_type)], text).into_response(), "default-src 'none'")
}

/// One of the mailbox's own pages.
fn page(text: String) -> Response {
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; \
                  img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    guarded(([(CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response(), policy)
}

/// Adds the security headers.
fn guarded(mut response: Response, policy: &'static str) -> Response {
    let frames = if policy.contains("frame-ancestors 'self'") { "SAMEORIGIN" } else { "DENY" };
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, frames),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn rejects_forms_of_other_origins() {
        let site = HeaderName::from_static("sec-fetch-site");
        let own =
            [(HOST, "localhost:8000"), (ORIGIN, "http://localhost:8000"), (site.clone(), "same-origin")];
        assert!(check_same_origin(&headers(&own)).is_ok());
        assert!(check_same_origin(&headers(&[(HOST, "localhost:8000")])).is_ok(), "a tool sends no Origin");
        let other = [(HOST, "localhost:8000"), (ORIGIN, "http://localhost:3000"), (site, "same-site")];
        assert!(check_same_origin(&headers(&other)).is_err());
        assert!(check_same_origin(&headers(&[(HOST, "localhost:8000"), (ORIGIN, "null")])).is_err());
    }
}
