//! The built single-page app, from `server.app_dir` (DESIGN section 12, "app and API on one port"). `tower-http`'s `ServeDir` serves the files
//! with their precompressed siblings, validators and ranges; this module adds `index.html` for the pages that the app routes itself, cache
//! lifetimes, and strict headers (decision 0106). The gateway's router keeps API paths away from here.
//!
//! Nothing is cached in memory, so a rebuilt app is served at once. Symbolic links in the folder are followed; the app's build creates them.

mod headers;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, IF_RANGE, RANGE, VARY};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use tower_http::services::ServeDir;

use basalt_core::settings::BaseUrl;
use headers::PageHeaders;

/// Names that contain a digest of the content: it never changes.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// Other files with a fixed name: icons, `robots.txt`, the web manifest.
const SHORT: &str = "public, max-age=300";
/// Pages are revalidated each time: they name the assets.
const REVALIDATE: &str = "no-cache";

const INDEX: &str = "/index.html";

const NOT_BUILT: &str = "The app is not built: its folder (server.app_dir) has no index.html.\n\n\
                         Run `cargo xtask dev`, which builds the app and starts the server with it, or set server.app_dir to the folder \
                         of a built app, or to \"\" if you want the API alone.\n";

/// Serves one folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StaticApp {
    root: Arc<Path>,
    files: ServeDir,
    headers: Arc<PageHeaders>,
}

impl StaticApp {
    /// Serves `dir`; `public_url` is where its pages may connect to, and decides whether they insist on TLS.
    #[must_use]
    pub fn new(dir: PathBuf, public_url: &BaseUrl) -> Self {
        let files = ServeDir::new(&dir)
            .append_index_html_on_directories(false)
            .ignore_multi_range_requests(true)
            .precompressed_br()
            .precompressed_gzip();
        Self { root: dir.into(), files, headers: Arc::new(PageHeaders::new(public_url)) }
    }

    /// Whether the folder contains an app.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.root.join("index.html").is_file()
    }

    /// Answers a request that no service handles.
    pub async fn serve(&self, request: Request<Body>) -> Response {
        let (parts, _body) = request.into_parts();
        let mut response = self.respond(&parts.method, &parts.uri, &parts.headers).await;
        self.headers.add_to(response.headers_mut());
        response
    }

    async fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response {
        let path = uri.path();
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        let file = if path == "/" { INDEX } else { path };
        if is_read {
            if let Some(found) = self.file(method, file, headers).await {
                return found;
            }
        } else if self.file(&Method::HEAD, file, &HeaderMap::new()).await.is_some() {
            return not_allowed();
        }
        let is_page = is_read && !path.starts_with("/assets/") && accepts_html(headers);
        if !is_page && path != "/" {
            return text(StatusCode::NOT_FOUND, "Not found\n");
        }
        let index = self.file(method, INDEX, headers).await;
        index.unwrap_or_else(|| text(StatusCode::NOT_FOUND, NOT_BUILT))
    }

    /// `None` when there is no such file; a folder is not one.
    async fn file(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
        if !is_servable(path) {
            return None;
        }
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.parse().ok()?;
        *request.headers_mut() = headers.clone();
        if headers.contains_key(IF_RANGE) {
            // `ServeDir` ignores the condition, and would send a part of another version.
            request.headers_mut().remove(RANGE);
        }
        // An error is a file that cannot be opened, such as a name that is too long.
        let mut response = self.files.clone().try_call(request).await.ok()?.map(Body::new);
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return None;
        }
        let is_current = status.is_success() || status == StatusCode::NOT_MODIFIED;
        let headers = response.headers_mut();
        let cache = if is_current { cache_control(path) } else { REVALIDATE };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        add_charset(headers);
        Some(response)
    }
}

/// Whether the path can name a file of the app. Hidden files are not served, except those of `.well-known`.
fn is_servable(path: &str) -> bool {
    percent_decode_str(path).decode_utf8().is_ok_and(|path| {
        let is_hidden = |segment: &str| segment.starts_with('.') && segment != ".well-known";
        !path.contains(['\\', '\0']) && !path.split('/').any(is_hidden)
    })
}

fn cache_control(path: &str) -> &'static str {
    if path.starts_with("/assets/") {
        IMMUTABLE
    } else if path.ends_with(".html") {
        REVALIDATE
    } else {
        SHORT
    }
}

/// App builds are UTF-8, and `nosniff` keeps browsers from guessing.
fn add_charset(headers: &mut HeaderMap) {
    let Some(Ok(media)) = headers.get(CONTENT_TYPE).map(HeaderValue::to_str) else { return };
    let is_text =
        media.starts_with("text/") || media == "application/json" || media == "application/manifest+json";
    if is_text && let Ok(value) = HeaderValue::try_from(format!("{media}; charset=utf-8")) {
        headers.insert(CONTENT_TYPE, value);
    }
}

/// Browsers send `text/html` when they navigate. `*/*` does not count: a script that fetches a missing file needs an
/// error, not a page.
fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        range.split(';').next().is_some_and(|range| range.trim().eq_ignore_ascii_case("text/html"))
    })
}

fn not_allowed() -> Response {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn text(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(REVALIDATE));
    response
}
