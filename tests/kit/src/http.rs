//! A small HTTP client. [`Request::send`] reads the whole response; streamed bodies are in `http/streamed.rs`, forms with files
//! in `http/multipart.rs`.

mod multipart;
mod streamed;

use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::runtime::on_runtime;

pub use self::multipart::Part;
pub use self::streamed::StreamedResponse;

/// Longer than any server deadline that a test waits for.
const LIMIT: Duration = Duration::from_secs(60);

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

fn client() -> &'static Client<HttpConnector, Body> {
    static CLIENT: OnceLock<Client<HttpConnector, Body>> = OnceLock::new();
    CLIENT.get_or_init(|| Client::builder(TokioExecutor::new()).build_http())
}

/// A request builder.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Request {
    /// A request to any URL, without headers.
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// Sets a header, replacing one of the same name.
    ///
    /// # Panics
    /// If name or value is invalid.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_str(name).expect("a header name");
        let value = HeaderValue::from_str(value).expect("a header value");
        let _replaced = self.headers.insert(name, value);
        self
    }

    /// Removes a header.
    pub fn without(mut self, name: &str) -> Self {
        let _removed = self.headers.remove(name);
        self
    }

    /// The `apikey` header.
    pub fn apikey(self, key: &str) -> Self {
        self.header("apikey", key)
    }

    /// `Authorization: Bearer …`.
    pub fn bearer(self, token: &str) -> Self {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// A JSON body with its content type.
    pub fn json(mut self, body: &Value) -> Self {
        self.body = Bytes::from(body.to_string());
        self.header(CONTENT_TYPE.as_str(), "application/json")
    }

    /// Any body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the request.
    ///
    /// # Panics
    /// If there is no response; use [`try_send`](Self::try_send) if that is expected.
    pub async fn send(self) -> Response {
        let what = format!("{} {}", self.method, self.url);
        self.try_send().await.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// Sends the request; the error states why there is no response.
    ///
    /// # Errors
    /// If the connection fails or breaks, or after a minute.
    pub async fn try_send(self) -> Result<Response, String> {
        on_runtime(async move {
            tokio::time::timeout(LIMIT, async { self.open().await?.whole().await })
                .await
                .unwrap_or_else(|_| Err("no response within a minute".to_owned()))
        })
        .await
    }

    /// Head and body, for hyper.
    fn split(self) -> (http::request::Builder, Body) {
        let mut head = http::Request::builder().method(self.method).uri(self.url);
        if let Some(headers) = head.headers_mut() {
            headers.extend(self.headers);
        }
        (head, Full::new(self.body).map_err(|never| match never {}).boxed_unsync())
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: StatusCode,
    /// Response headers.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Bytes,
}

impl Response {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If the body is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    /// A header as text; empty if absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns itself if its status is `expected`.
    ///
    /// # Panics
    /// If the status differs.
    pub fn expect(self, expected: u16) -> Self {
        assert_eq!(self.status.as_u16(), expected, "{}", self.text());
        self
    }
}
