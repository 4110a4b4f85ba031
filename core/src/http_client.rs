//! The HTTP client for the server's own requests, built on `reqwest`. It limits the response body, meets the caller's deadline, follows no
//! redirect, uses no proxy, and can be restricted to public addresses (decision 0105). Connections are reused, so calls to one provider share
//! a TLS handshake.
//!
//! If the peer closes an idle connection while a request is being sent on it, the request fails: callers that retry send an idempotency key.

mod address;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio::time::Instant;
use url::{Host, Url};

/// Idle connections kept per host.
const IDLE_PER_HOST: usize = 8;
/// How long a connection is kept idle. Providers close theirs after a minute or more.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// It was not complete before the deadline.
    #[error("no answer in time")]
    Deadline,
    /// It is longer than the caller's limit, in bytes.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// The URL has no host, or a scheme other than http and https.
    #[error("the URL names no http or https host")]
    Url,
    /// All of the host's addresses are private or this machine's, and the client may reach only public ones.
    #[error("the host has no public address")]
    NotPublic,
    /// The connection failed; the cause. Never contains the URL.
    #[error("{0}")]
    Connection(String),
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code; redirects are not followed.
    pub status: StatusCode,
    /// Response headers.
    pub headers: HeaderMap,
    /// Complete body, at most [`Outgoing::limit`] bytes.
    pub body: Bytes,
}

/// Which addresses a client may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Any: the operator configured the URL.
    Anywhere,
    /// Addresses of the public internet. The address that was checked is the one that is connected to, so DNS rebinding has no effect.
    Public,
}

/// A request.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// HTTP method.
    pub method: Method,
    /// Absolute `http` or `https` URL.
    pub url: &'a Url,
    /// Headers besides `Host`, `User-Agent` and `Content-Length`.
    pub headers: HeaderMap,
    /// Body; may be empty.
    pub body: Bytes,
    /// Maximum size of the response body in bytes.
    pub limit: usize,
}

/// The client. Clones share its connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    reach: Reach,
    /// Built at the first request, because building it reads the system's certificates.
    client: Arc<OnceLock<Result<Client, String>>>,
}

impl HttpClient {
    /// A client without connections.
    #[must_use]
    pub fn new(reach: Reach) -> Self {
        Self { reach, client: Arc::default() }
    }

    /// Sends GET and reads at most `limit` bytes, all before `deadline`.
    ///
    /// # Errors
    /// There is no complete response. An error status is not an error here.
    pub async fn get(
        &self,
        url: &Url,
        headers: HeaderMap,
        limit: usize,
        deadline: Instant,
    ) -> Result<Answer, HttpError> {
        self.send(Outgoing { method: Method::GET, url, headers, body: Bytes::new(), limit }, deadline).await
    }

    /// Sends a request and reads its whole response before `deadline`.
    ///
    /// # Errors
    /// There is no complete response. The peer may have processed the request nevertheless, unless the error concerns the URL or its address.
    /// An error status is not an error here.
    pub async fn send(&self, request: Outgoing<'_>, deadline: Instant) -> Result<Answer, HttpError> {
        let answered = tokio::time::timeout_at(deadline, self.exchange(request)).await;
        answered.unwrap_or(Err(HttpError::Deadline))
    }

    async fn exchange(&self, outgoing: Outgoing<'_>) -> Result<Answer, HttpError> {
        self.check_url(outgoing.url)?;
        let client = self.client.get_or_init(|| build(self.reach)).as_ref();
        let client = client.map_err(|error| HttpError::Connection(error.clone()))?;
        let request = client.request(outgoing.method, outgoing.url.clone());
        let request = request.headers(outgoing.headers).body(outgoing.body);
        let mut response = request.send().await.map_err(|error| failure(&error))?;
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
            if body.len().saturating_add(chunk.len()) > outgoing.limit {
                return Err(HttpError::TooLarge(outgoing.limit));
            }
            body.extend_from_slice(&chunk);
        }
        let headers = std::mem::take(response.headers_mut());
        Ok(Answer { status: response.status(), headers, body: body.freeze() })
    }

    /// A literal address never reaches the resolver, so it is checked here.
    fn check_url(&self, url: &Url) -> Result<(), HttpError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HttpError::Url);
        }
        let is_public = match url.host().ok_or(HttpError::Url)? {
            Host::Domain(_) => true,
            Host::Ipv4(address) => address::is_public(address.into()),
            Host::Ipv6(address) => address::is_public(address.into()),
        };
        if is_public || self.reach == Reach::Anywhere { Ok(()) } else { Err(HttpError::NotPublic) }
    }
}

fn build(reach: Reach) -> Result<Client, String> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(crate::tls::client_config())
        .user_agent("basalt")
        .redirect(Policy::none())
        .no_proxy()
        .http1_only()
        .pool_max_idle_per_host(IDLE_PER_HOST)
        .pool_idle_timeout(IDLE_TIME);
    if reach == Reach::Public {
        builder = builder.dns_resolver(PublicOnly);
    }
    builder
        .build()
        .map_err(|error| format!("cannot create the HTTP client: {}", crate::error::with_cause(&error)))
}

/// Resolves names with the system's resolver and drops addresses that are not public.
struct PublicOnly;

#[derive(Debug, thiserror::Error)]
#[error("the host has no public address")]
struct NoPublicAddress;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // reqwest replaces port 0 with the URL's port.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| address::is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(NoPublicAddress.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// The outermost error names the URL, which may be secret (the list of breached passwords), so only its causes are kept.
fn failure(error: &reqwest::Error) -> HttpError {
    let mut cause = std::error::Error::source(error);
    let text = cause.map_or_else(|| "request failed".to_owned(), crate::error::with_cause);
    while let Some(inner) = cause {
        if inner.is::<NoPublicAddress>() {
            return HttpError::NotPublic;
        }
        cause = inner.source();
    }
    HttpError::Connection(text)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one connection with `answer`, and gives what it was asked.
    async fn server(answer: &'static str) -> (Url, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/range/AB?x=1#f", listener.local_addr().unwrap());
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        (url.parse().unwrap(), asked)
    }

    async fn get(url: &Url, limit: usize) -> Result<Answer, HttpError> {
        let deadline = Instant::now() + Duration::from_secs(2);
        HttpClient::new(Reach::Anywhere).get(url, HeaderMap::new(), limit, deadline).await
    }

    #[tokio::test]
    async fn sends_a_well_formed_request() {
        let (url, asked) = server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
        let answer = get(&url, 10).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"hello"[..]));
        let asked = asked.await.unwrap();
        assert!(asked.starts_with("GET /range/AB?x=1 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains(&format!("host: 127.0.0.1:{}\r\n", url.port().unwrap())), "{asked}");
    }

    #[tokio::test]
    async fn reuses_connections_and_replaces_closed_ones() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let served = tokio::spawn(async move {
            let mut connections = 0;
            // Two requests on the first connection, which is closed then; one on the second.
            for requests in [2, 1] {
                let (mut stream, _) = listener.accept().await.unwrap();
                connections += 1;
                for _ in 0..requests {
                    let mut request = vec![0; 4096];
                    let length = stream.read(&mut request).await.unwrap();
                    assert!(String::from_utf8_lossy(&request[..length]).ends_with("\r\n\r\na=1"));
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                }
            }
            connections
        });
        let client = HttpClient::new(Reach::Anywhere);
        for _ in 0..3 {
            let request = Outgoing {
                method: Method::POST,
                url: &url,
                headers: HeaderMap::new(),
                body: Bytes::from_static(b"a=1"),
                limit: 10,
            };
            let answer = client.send(request, Instant::now() + Duration::from_secs(5)).await.unwrap();
            assert_eq!(answer.body, "ok");
            // The closing is seen before the connection is taken again.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(served.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn public_client_reaches_no_private_address() {
        for url in [
            "http://127.0.0.1:9/",
            "http://2130706433:9/",
            "http://0x7f.1:9/",
            "http://localhost:9/",
            "http://[::1]:9/",
            "http://[::ffff:127.0.0.1]:9/",
            "https://169.254.169.254/",
        ] {
            let url = url.parse().unwrap();
            let deadline = Instant::now() + Duration::from_secs(5);
            let refused = HttpClient::new(Reach::Public).get(&url, HeaderMap::new(), 10, deadline).await;
            assert!(matches!(refused, Err(HttpError::NotPublic)), "{url}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn redirects_are_not_followed() {
        let (url, _asked) =
            server("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n").await;
        let answer = get(&url, 10).await.unwrap();
        assert_eq!(answer.status, StatusCode::FOUND);
        assert_eq!(answer.headers["location"], "http://127.0.0.1:9/");
    }

    #[tokio::test]
    async fn errors_name_the_cause_but_not_the_url() {
        let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url: Url = format!("http://{}/range/AB", closed.local_addr().unwrap()).parse().unwrap();
        drop(closed);
        let (plain, _asked) = server("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let tls = plain.as_str().replacen("http", "https", 1).parse().unwrap();
        for (url, cause) in [(&url, "Connection refused"), (&tls, "corrupt message")] {
            let error = get(url, 10).await.unwrap_err().to_string();
            assert!(error.contains(cause) && !error.contains("/range/"), "{error}");
        }
    }

    #[tokio::test]
    async fn limits_response_size_and_time() {
        let (url, _asked) = server("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nmuch too much").await;
        assert!(matches!(get(&url, 5).await, Err(HttpError::TooLarge(5))));
        let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", silent.local_addr().unwrap()).parse().unwrap();
        assert!(matches!(get(&url, 5).await, Err(HttpError::Deadline)));
        drop(silent);
        assert!(matches!(get(&url, 5).await, Err(HttpError::Connection(_))));
        assert!(get(&"ftp://a.example/".parse().unwrap(), 5).await.is_err());
    }
}
