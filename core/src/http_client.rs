//! A small HTTP client for the server's own requests. Connections are kept for a moment and used again, so that calls to one
//! provider do not pay for a TLS handshake each. Redirects are not followed.
//!
//! A connection that the other side closes at the moment it is used again fails the request: callers that repeat a request
//! name it by an idempotency key.

mod address;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use url::Url;

/// Unused connections that are kept for one server.
const IDLE_PER_SERVER: usize = 8;
/// Servers whose connections are kept.
const SERVERS: usize = 32;
/// How long a connection is kept unused. Providers close theirs after a minute or more.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// It did not arrive before the deadline.
    #[error("no answer in time")]
    Deadline,
    /// It is longer than the caller's limit, in bytes.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// The URL has no host, or another scheme than http and https.
    #[error("the URL names no http or https host")]
    Url,
    /// The host's addresses are all of this machine or of a private network, and the caller may reach public ones only.
    #[error("the host has no public address")]
    NotPublic,
    /// The connection failed: the system's text.
    #[error("{0}")]
    Connection(String),
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// Which addresses a request may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Any: the operator has written the URL.
    Anywhere,
    /// Addresses of the public internet. The address that was checked is the one that is connected to, so that a name that
    /// changes its address meanwhile leads nowhere else.
    Public,
}

/// A request.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Method.
    pub method: Method,
    /// Where to.
    pub url: &'a Url,
    /// Headers besides `Host`, `User-Agent` and `Content-Length`.
    pub headers: HeaderMap,
    /// Body; may be empty.
    pub body: Bytes,
    /// Most bytes of the answer's body.
    pub limit: usize,
    /// Which addresses it may reach.
    pub reach: Reach,
}

/// The client. Cheap to clone; the system's certificates are read at the first request by TLS.
#[derive(Clone, Default)]
pub struct HttpClient {
    tls: Arc<OnceLock<TlsConnector>>,
    /// Held for a look-up or an insert only, never across an await.
    idle: Arc<Mutex<HashMap<Server, Vec<Idle>>>>,
}

/// What connections are kept by.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Server {
    is_tls: bool,
    /// An IPv6 address stands without the brackets that it has in a URL.
    host: String,
    port: u16,
    reach: Reach,
}

struct Idle {
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

impl HttpClient {
    /// Sends GET and reads `limit` bytes at most, all of it before `deadline`.
    ///
    /// # Errors
    /// There is no complete answer. An error status is not an error here.
    pub async fn get(
        &self,
        url: &Url,
        headers: HeaderMap,
        limit: usize,
        deadline: Instant,
    ) -> Result<Answer, HttpError> {
        let (method, body, reach) = (Method::GET, Bytes::new(), Reach::Anywhere);
        self.send(Outgoing { method, url, headers, body, limit, reach }, deadline).await
    }

    /// Sends a request and reads its whole answer before `deadline`.
    ///
    /// # Errors
    /// There is no complete answer; the server may have done what was asked all the same, except where the error is about
    /// the URL or its address. An error status is not an error here.
    pub async fn send(&self, request: Outgoing<'_>, deadline: Instant) -> Result<Answer, HttpError> {
        let answered = tokio::time::timeout_at(deadline, self.exchange(request)).await;
        answered.unwrap_or(Err(HttpError::Deadline))
    }

    async fn exchange(&self, outgoing: Outgoing<'_>) -> Result<Answer, HttpError> {
        let server = Server::of(outgoing.url, outgoing.reach)?;
        let mut request = request(&outgoing)?;
        while let Some(mut sender) = self.take_idle(&server) {
            match sender.try_send_request(request).await {
                Ok(response) => return self.finish(server, sender, response, outgoing.limit).await,
                // The server closed the connection while it was unused: nothing was sent.
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(connection(failed.error())),
                },
            }
        }
        let mut sender = self.connect(&server).await?;
        let response = sender.send_request(request).await.map_err(|error| connection(&error))?;
        self.finish(server, sender, response, outgoing.limit).await
    }

    /// Reads the body, and keeps the connection.
    async fn finish(
        &self,
        server: Server,
        sender: SendRequest<Full<Bytes>>,
        response: http::Response<hyper::body::Incoming>,
        limit: usize,
    ) -> Result<Answer, HttpError> {
        let (head, mut body) = response.into_parts();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|error| connection(&error))?.into_data() {
                if bytes.len().saturating_add(data.len()) > limit {
                    return Err(HttpError::TooLarge(limit));
                }
                bytes.extend_from_slice(&data);
            }
        }
        if !sender.is_closed() {
            self.keep(server, sender);
        }
        Ok(Answer { status: head.status, headers: head.headers, body: bytes.freeze() })
    }

    async fn connect(&self, server: &Server) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host((server.host.as_str(), server.port))
            .await
            .map_err(|error| connection(&error))?
            .collect();
        let addresses: Vec<SocketAddr> = addresses
            .into_iter()
            .filter(|address| server.reach == Reach::Anywhere || address::is_public(address.ip()))
            .collect();
        if addresses.is_empty() {
            return Err(HttpError::NotPublic);
        }
        let stream = TcpStream::connect(addresses.as_slice()).await.map_err(|error| connection(&error))?;
        // A request is one write; it should not wait for the answer to the one before.
        let _not_supported = stream.set_nodelay(true);
        if !server.is_tls {
            return handshake(stream).await;
        }
        let name = ServerName::try_from(server.host.clone()).map_err(|_error| HttpError::Url)?;
        let tls = self.tls.get_or_init(|| Arc::new(crate::tls::client_config()).into());
        handshake(tls.connect(name, stream).await.map_err(|error| connection(&error))?).await
    }

    fn take_idle(&self, server: &Server) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock();
        let kept = idle.get_mut(server)?;
        loop {
            let Idle { sender, since } = kept.pop()?;
            if since.elapsed() < IDLE_TIME && sender.is_ready() {
                return Some(sender);
            }
        }
    }

    fn keep(&self, server: Server, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock();
        for kept in idle.values_mut() {
            kept.retain(|kept| kept.since.elapsed() < IDLE_TIME && !kept.sender.is_closed());
        }
        idle.retain(|_, kept| !kept.is_empty());
        if idle.len() >= SERVERS && !idle.contains_key(&server) {
            return;
        }
        let kept = idle.entry(server).or_default();
        if kept.len() < IDLE_PER_SERVER {
            kept.push(Idle { sender, since: Instant::now() });
        }
    }
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HttpClient")
    }
}

impl Server {
    fn of(url: &Url, reach: Reach) -> Result<Self, HttpError> {
        let host = url.host_str().ok_or(HttpError::Url)?;
        let port = url.port_or_known_default().ok_or(HttpError::Url)?;
        let is_tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(HttpError::Url),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { is_tls, host, port, reach })
    }
}

fn request(outgoing: &Outgoing<'_>) -> Result<Request<Full<Bytes>>, HttpError> {
    let url = outgoing.url;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut request = Request::new(Full::new(outgoing.body.clone()));
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = path.parse().map_err(|_error| HttpError::Url)?;
    *request.headers_mut() = outgoing.headers.clone();
    request.headers_mut().insert(HOST, HeaderValue::from_str(host).map_err(|_error| HttpError::Url)?);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("basalt"));
    Ok(request)
}

fn connection(error: &(impl std::error::Error + 'static)) -> HttpError {
    HttpError::Connection(crate::error::with_cause(error))
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, driver) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| connection(&error))?;
    // It holds nothing but the socket and ends with its sender, which the request or the pool has.
    tokio::spawn(async move {
        if let Err(error) = driver.await {
            tracing::debug!(error = crate::error::with_cause(&error), "an outgoing connection ended");
        }
    });
    Ok(sender)
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
        let deadline = Instant::now() + Duration::from_millis(500);
        HttpClient::default().get(url, HeaderMap::new(), limit, deadline).await
    }

    #[tokio::test]
    async fn a_request_is_well_formed_and_its_answer_whole() {
        let (url, asked) = server("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
        let answer = get(&url, 10).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"hello"[..]));
        let asked = asked.await.unwrap();
        assert!(asked.starts_with("GET /range/AB?x=1 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains(&format!("host: 127.0.0.1:{}\r\n", url.port().unwrap())), "{asked}");
    }

    #[tokio::test]
    async fn a_connection_serves_the_next_request_and_one_that_was_closed_is_replaced() {
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
        let client = HttpClient::default();
        for _ in 0..3 {
            let request = Outgoing {
                method: Method::POST,
                url: &url,
                headers: HeaderMap::new(),
                body: Bytes::from_static(b"a=1"),
                limit: 10,
                reach: Reach::Anywhere,
            };
            let answer = client.send(request, Instant::now() + Duration::from_secs(5)).await.unwrap();
            assert_eq!(answer.body, "ok");
            // The closing is seen before the connection is taken again.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(served.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_guarded_request_reaches_no_private_address() {
        for url in
            ["http://127.0.0.1:9/", "http://localhost:9/", "http://[::1]:9/", "http://169.254.169.254/"]
        {
            let url = url.parse().unwrap();
            let request = Outgoing {
                method: Method::GET,
                url: &url,
                headers: HeaderMap::new(),
                body: Bytes::new(),
                limit: 10,
                reach: Reach::Public,
            };
            let refused = HttpClient::default().send(request, Instant::now() + Duration::from_secs(5)).await;
            assert!(matches!(refused, Err(HttpError::NotPublic)), "{url}: {refused:?}");
        }
    }

    #[tokio::test]
    async fn answers_have_bounds_in_size_and_time() {
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
