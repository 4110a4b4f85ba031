//! A small HTTP client for the server's own requests. Each request has its own connection: they are rare, and the callers
//! cache the answers. Redirects are not followed.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use url::Url;

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

/// The client. Cheap to clone; the system's certificates are read at the first request by TLS.
#[derive(Clone, Default)]
pub struct HttpClient {
    tls: Arc<OnceLock<TlsConnector>>,
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
        let asked = tokio::time::timeout_at(deadline, self.ask(url, headers, limit)).await;
        asked.unwrap_or(Err(HttpError::Deadline))
    }

    async fn ask(&self, url: &Url, headers: HeaderMap, limit: usize) -> Result<Answer, HttpError> {
        let host = url.host_str().ok_or(HttpError::Url)?;
        let port = url.port_or_known_default().ok_or(HttpError::Url)?;
        // An IPv6 address stands in brackets in a URL and without them everywhere else.
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((name, port)).await.map_err(connection)?;
        match url.scheme() {
            "http" => exchange(stream, url, headers, limit).await,
            "https" => {
                let name = ServerName::try_from(name.to_owned()).map_err(|_error| HttpError::Url)?;
                let tls = self.tls.get_or_init(|| Arc::new(crate::database::tls_config()).into());
                exchange(tls.connect(name, stream).await.map_err(connection)?, url, headers, limit).await
            }
            _ => Err(HttpError::Url),
        }
    }
}

fn connection(error: impl std::error::Error + 'static) -> HttpError {
    HttpError::Connection(crate::pg_error::with_cause(&error))
}

async fn exchange<S>(stream: S, url: &Url, headers: HeaderMap, limit: usize) -> Result<Answer, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(connection)?;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut request = http::Request::new(Full::new(Bytes::new()));
    *request.method_mut() = Method::GET;
    *request.uri_mut() = path.parse().map_err(|_error| HttpError::Url)?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, HeaderValue::from_str(host).map_err(|_error| HttpError::Url)?);
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("basalt"));
    let answer = async {
        let (head, mut body) = sender.send_request(request).await.map_err(connection)?.into_parts();
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(connection)?.into_data() {
                if bytes.len().saturating_add(data.len()) > limit {
                    return Err(HttpError::TooLarge(limit));
                }
                bytes.extend_from_slice(&data);
            }
        }
        Ok(Answer { status: head.status, headers: head.headers, body: bytes.freeze() })
    };
    // The driver ends with the answer; if it fails first, that is the reason.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        driven = driver => match driven {
            Ok(()) => answer.await,
            Err(error) => Err(connection(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
