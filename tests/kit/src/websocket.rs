//! A WebSocket client.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message as Wire, protocol};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::http::Response;
use crate::runtime::on_runtime;
use crate::server::Basalt;

/// Longer than any server timeout that a test waits for.
const LIMIT: Duration = Duration::from_secs(60);

/// An open socket. It replies to pings only during [`next`](Self::next); dropping it breaks the connection.
#[derive(Debug)]
pub struct WebSocket(WebSocketStream<TcpStream>);

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Bytes),
    /// The server's close frame; without a code 1005.
    Close {
        /// Its code.
        code: u16,
        /// Its reason.
        reason: String,
    },
    /// The connection ended without a close frame.
    Broken,
}

impl Basalt {
    /// Opens a WebSocket at `path`, which may have a query.
    ///
    /// # Panics
    /// If the server rejects it; use [`try_websocket`](Self::try_websocket) if that is expected.
    pub async fn websocket(&self, path: &str) -> WebSocket {
        let refused = |response: Response| panic!("{path}: {} {}", response.status, response.text());
        self.try_websocket(path).await.unwrap_or_else(refused)
    }

    /// Opens a WebSocket at `path`.
    ///
    /// # Errors
    /// The server's response, if it is not an upgrade.
    ///
    /// # Panics
    /// If there is no response.
    pub async fn try_websocket(&self, path: &str) -> Result<WebSocket, Response> {
        self.try_websocket_with(path, &[]).await
    }

    /// As [`try_websocket`](Self::try_websocket), with further headers, such as a browser's.
    ///
    /// # Errors
    /// The server's response, if it is not an upgrade.
    ///
    /// # Panics
    /// If there is no response.
    pub async fn try_websocket_with(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<WebSocket, Response> {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a header's value"))
        });
        WebSocket::open(self.url(path), headers.collect()).await
    }
}

impl WebSocket {
    pub(crate) async fn open(url: String, headers: HeaderMap) -> Result<Self, Response> {
        on_runtime(async move {
            let url: Uri = url.replacen("http:", "ws:", 1).parse().expect("a URL");
            let authority = url.authority().expect("a URL with a host").to_string();
            let stream = TcpStream::connect(authority).await.expect("the server accepts connections");
            let mut request = url.into_client_request().expect("a WebSocket URL");
            request.headers_mut().extend(headers);
            let opening = timeout(LIMIT, client_async(request, stream)).await;
            match opening.expect("the server responds within a minute") {
                Ok((socket, _)) => Ok(Self(socket)),
                Err(Error::Http(response)) => {
                    let (head, body) = response.into_parts();
                    let body = body.unwrap_or_default().into();
                    Err(Response { status: head.status, headers: head.headers, body })
                }
                Err(error) => panic!("{error}"),
            }
        })
        .await
    }

    /// Sends a text message.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn send(&mut self, text: impl Into<String>) {
        self.0.send(Wire::text(text.into())).await.expect("the socket is open");
    }

    /// Sends a binary message.
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn send_binary(&mut self, bytes: impl Into<Bytes>) {
        self.0.send(Wire::Binary(bytes.into())).await.expect("the socket is open");
    }

    /// Sends a close frame with code 1000; the server's own is then the last [`next`](Self::next).
    ///
    /// # Panics
    /// If the connection is closed.
    pub async fn close(&mut self) {
        let normal = protocol::frame::coding::CloseCode::Normal;
        let frame = CloseFrame { code: normal, reason: "".into() };
        self.0.close(Some(frame)).await.expect("the socket is open");
    }

    /// The next message that is neither ping nor pong.
    ///
    /// # Panics
    /// If none arrives within a minute.
    pub async fn next(&mut self) -> Message {
        loop {
            match timeout(LIMIT, self.0.next()).await.expect("a message within a minute") {
                Some(Ok(Wire::Text(text))) => return Message::Text(text.to_string()),
                Some(Ok(Wire::Binary(bytes))) => return Message::Binary(bytes),
                Some(Ok(Wire::Close(frame))) => {
                    let (code, reason) =
                        frame.map_or((1005, String::new()), |it| (it.code.into(), it.reason.to_string()));
                    return Message::Close { code, reason };
                }
                Some(Ok(Wire::Ping(_) | Wire::Pong(_) | Wire::Frame(_))) => {}
                Some(Err(_)) | None => return Message::Broken,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_tungstenite::accept_async;

    use super::*;

    async fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/socket?vsn=1", listener.local_addr().unwrap());
        (listener, url)
    }

    #[tokio::test]
    async fn messages_pass_pings_are_hidden_and_close_is_reported() {
        let (listener, url) = listen().await;
        let server = tokio::spawn(async move {
            let mut socket = accept_async(listener.accept().await.unwrap().0).await.unwrap();
            socket.send(Wire::Ping(Bytes::new())).await.unwrap();
            let mut received = Vec::new();
            while let Some(Ok(message)) = socket.next().await {
                if message.is_text() || message.is_binary() {
                    socket.send(message.clone()).await.unwrap();
                }
                received.push(message);
            }
            received
        });
        let mut socket = WebSocket::open(url, HeaderMap::new()).await.unwrap();
        socket.send("hello").await;
        assert_eq!(socket.next().await, Message::Text("hello".to_owned()));
        socket.send_binary("bytes").await;
        assert_eq!(socket.next().await, Message::Binary("bytes".into()));
        socket.close().await;
        assert_eq!(socket.next().await, Message::Close { code: 1000, reason: String::new() });
        assert_eq!(socket.next().await, Message::Broken);
        let received = server.await.unwrap();
        assert!(received.iter().any(Wire::is_pong) && received.iter().any(Wire::is_close), "{received:?}");
    }

    #[tokio::test]
    async fn rejected_upgrade_returns_the_response() {
        let (listener, url) = listen().await;
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            let _count = stream.read(&mut head).await.unwrap();
            let refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
            stream.write_all(refusal).await.unwrap();
        });
        let refusal = WebSocket::open(url, HeaderMap::new()).await.unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.text().as_str()), (403, "no"));
    }
}
