//! The built single-page app, from `server.app_dir` (DESIGN section 12, "app and API on one port"): files with
//! precompressed siblings and validators, `index.html` for every page the app routes itself, strict headers.
//! The gateway's router keeps API paths away from here.
//!
//! Nothing is held in memory: each request looks at the disk, so that a rebuilt app is served at once. Symbolic links
//! in the folder are followed; the builder of the app puts them there.

mod content_type;
mod headers;
mod negotiate;
#[cfg(test)]
mod tests;

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, VARY,
};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use percent_encoding::percent_decode_str;
use tokio_util::io::ReaderStream;

use basalt_core::settings::BaseUrl;
use headers::PageHeaders;
use negotiate::{Encoding, Validators};

/// Larger files are streamed, smaller ones read whole: one hop to the blocking pool instead of many.
const READ_WHOLE: u64 = 512 * 1024;

/// Names under which the build puts a digest of the content: they never change.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// Everything else with a fixed name: icons, `robots.txt`, the web manifest.
const SHORT: &str = "public, max-age=300";
/// Pages are asked for anew each time: they name the assets.
const REVALIDATE: &str = "no-cache";

const NOT_BUILT: &str = "The app is not built: its folder (server.app_dir) has no index.html.\n\n\
                         Run `cargo xtask dev`, which builds the app and starts the server with it, or set server.app_dir to the folder \
                         of a built app, or to \"\" if you want the API alone.\n";

/// Serves one folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StaticApp {
    root: Arc<Path>,
    headers: Arc<PageHeaders>,
}

impl StaticApp {
    /// Serves `dir`; `public_url` is where its pages may connect to, and decides whether they insist on TLS.
    #[must_use]
    pub fn new(dir: PathBuf, public_url: &BaseUrl) -> Self {
        Self { root: dir.into(), headers: Arc::new(PageHeaders::new(public_url)) }
    }

    /// Whether there is an app in the folder.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.root.join("index.html").is_file()
    }

    /// Answers a request that no service wanted.
    pub async fn serve(&self, request: Request<Body>) -> Response {
        let (parts, _body) = request.into_parts();
        let mut response = self.answer(&parts).await;
        self.headers.add_to(response.headers_mut());
        response
    }

    async fn answer(&self, request: &Parts) -> Response {
        let path = request.uri.path();
        let is_read = matches!(request.method, Method::GET | Method::HEAD);
        let file = match relative_path(path) {
            Some(relative) if relative.as_os_str().is_empty() => Some(self.root.join("index.html")),
            Some(relative) => Some(self.root.join(relative)),
            None => None,
        };
        let (encodings, wants_body) = (negotiate::encodings(&request.headers), request.method == Method::GET);
        if let Some(file) = file
            && let Some(found) = open(file, encodings.clone()).await
        {
            return if is_read {
                found.into_response(request, wants_body, cache_control(path))
            } else {
                not_allowed()
            };
        }
        let is_page = is_read && !path.starts_with("/assets/") && accepts_html(request);
        if is_page || path == "/" {
            return match open(self.root.join("index.html"), encodings).await {
                Some(index) => index.into_response(request, wants_body, REVALIDATE),
                None => text(StatusCode::NOT_FOUND, NOT_BUILT),
            };
        }
        text(StatusCode::NOT_FOUND, "Not found\n")
    }
}

/// A file that is open, in the best representation the client takes.
struct Found {
    /// What is sent.
    content: Content,
    length: u64,
    encoding: Option<Encoding>,
    content_type: &'static str,
    validators: Validators,
}

enum Content {
    Whole(Vec<u8>),
    Stream(std::fs::File),
}

/// Opens `path` or a compressed sibling of it. `None` when there is no such file: a folder is none.
async fn open(path: PathBuf, encodings: Vec<Encoding>) -> Option<Found> {
    // A panic or a runtime that is shutting down: as good as no file.
    tokio::task::spawn_blocking(move || open_blocking(&path, &encodings)).await.ok().flatten()
}

fn open_blocking(path: &Path, encodings: &[Encoding]) -> Option<Found> {
    // A compressed sibling alone is not a file of the app.
    let plain = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let compressed = encodings.iter().find_map(|encoding| {
        let mut name = path.as_os_str().to_owned();
        name.push(encoding.suffix());
        let file = std::fs::File::open(name).ok()?;
        file.metadata()
            .ok()
            .filter(std::fs::Metadata::is_file)
            .map(|metadata| (file, metadata, Some(*encoding)))
    });
    let (mut file, metadata, encoding) = match compressed {
        Some(compressed) => compressed,
        None => (std::fs::File::open(path).ok()?, plain, None),
    };
    let mut length = metadata.len();
    let validators = Validators::new(metadata.mtime(), metadata.mtime_nsec(), length, encoding);
    let content = if length <= READ_WHOLE {
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        file.read_to_end(&mut bytes).ok()?;
        length = bytes.len() as u64;
        Content::Whole(bytes)
    } else {
        Content::Stream(file)
    };
    Some(Found { content, length, encoding, content_type: content_type::of(path), validators })
}

impl Found {
    fn into_response(self, request: &Parts, wants_body: bool, cache_control: &'static str) -> Response {
        let fresh = self.validators.is_fresh_for(&request.headers);
        let body = match self.content {
            _ if fresh || !wants_body => Body::empty(),
            Content::Whole(bytes) => Body::from(bytes),
            Content::Stream(file) => Body::from_stream(ReaderStream::new(tokio::fs::File::from_std(file))),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(ETAG, self.validators.etag);
        headers.extend(self.validators.last_modified.map(|date| (LAST_MODIFIED, date)));
        if fresh {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(self.length));
        if let Some(encoding) = self.encoding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
        }
        response
    }
}

/// The path below the app's folder, or `None` for one that could lead out of it, or to a hidden file.
fn relative_path(path: &str) -> Option<PathBuf> {
    let decoded = percent_decode_str(path.strip_prefix('/')?).decode_utf8().ok()?;
    let mut relative = PathBuf::new();
    for segment in decoded.split('/') {
        let hidden = segment.starts_with('.') && segment != ".well-known";
        if hidden || segment.contains(['\\', '\0']) {
            return None;
        }
        // An empty segment would make the path absolute or say nothing; `Path` treats both as one.
        if !segment.is_empty() {
            relative.push(segment);
        }
    }
    Some(relative)
}

fn cache_control(path: &str) -> &'static str {
    if path.starts_with("/assets/") {
        IMMUTABLE
    } else if path == "/" || path.ends_with(".html") {
        REVALIDATE
    } else {
        SHORT
    }
}

/// Browsers name `text/html` when they navigate. `*/*` does not count: a script that fetches a missing file wants an
/// error, not a page.
fn accepts_html(request: &Parts) -> bool {
    let accepted = request.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
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
