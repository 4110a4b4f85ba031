//! A raw TCP client: the test decides which bytes are sent and when.

use std::time::Duration;

use basalt_testkit::{Basalt, Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// The time limit of each step.
const LIMIT: Duration = Duration::from_secs(40);

/// One connection to a server.
pub(crate) struct Raw {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Raw {
    pub(crate) async fn connect(server: &Basalt) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        Self { stream, unread: Vec::new() }
    }

    /// A connection with a small receive buffer, so that unread data stays with the server.
    pub(crate) async fn connect_narrow(server: &Basalt) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(([127, 0, 0, 1], server.port()).into()).await.unwrap();
        Self { stream, unread: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).await.unwrap();
    }

    /// Sends bytes; fails if the server has closed the connection.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        timeout(LIMIT, self.stream.write_all(bytes.as_ref())).await.unwrap()
    }

    /// Reads a response with `Content-Length`.
    pub(crate) async fn response(&mut self) -> Response {
        let mut response = self.head().await;
        let length: usize = response.header("content-length").parse().unwrap();
        while self.unread.len() < length {
            assert_ne!(self.read().await, 0, "closed inside a body");
        }
        response.body = Bytes::from(self.unread.drain(..length).collect::<Vec<u8>>());
        response
    }

    /// Reads only the head of a response.
    pub(crate) async fn head(&mut self) -> Response {
        let end = loop {
            if let Some(end) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            assert_ne!(self.read().await, 0, "closed without a response");
        };
        let head: Vec<u8> = self.unread.drain(..end + 4).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        });
        let (headers, body) = (headers.collect(), Bytes::new());
        Response { status: StatusCode::from_bytes(status.as_bytes()).unwrap(), headers, body }
    }

    /// Reads until the server closes the connection, and returns the data.
    pub(crate) async fn until_closed(&mut self) -> String {
        while matches!(timeout(LIMIT, self.stream.read_buf(&mut self.unread)).await.unwrap(), Ok(1..)) {}
        String::from_utf8(std::mem::take(&mut self.unread)).unwrap()
    }

    async fn read(&mut self) -> usize {
        timeout(LIMIT, self.stream.read_buf(&mut self.unread)).await.unwrap().unwrap()
    }
}

/// A request head with the service key, without framing headers.
pub(crate) fn head(server: &Basalt, request_line: &str) -> String {
    let key = server.service_key();
    format!(
        "{request_line} HTTP/1.1\r\nHost: a\r\napikey: {key}\r\nContent-Type: application/json\r\n\
         Prefer: return=minimal\r\n"
    )
}

/// A GET with the service key.
pub(crate) fn get(server: &Basalt, target: &str) -> String {
    format!("{}\r\n", head(server, &format!("GET {target}")))
}
