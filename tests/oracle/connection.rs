//! A minimal HTTP/1.1 client.
//!
//! Written here because exact bytes matter: any method and target, repeated headers, the reason phrase, and the length headers of
//! responses without a body.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::case::Case;
use super::response::Response;

/// Longer than any case takes.
const LIMIT: Duration = Duration::from_secs(20);

/// One keep-alive connection, opened on demand.
#[derive(Debug)]
pub(crate) struct Connection {
    port: u16,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, stream: None }
    }

    /// The response to a request; a transport error is a response with status 0.
    pub(crate) async fn ask(&mut self, case: &Case) -> Response {
        // An idle connection may have been closed; retry once with a new one.
        let is_reused = self.stream.is_some();
        match self.exchange(case).await {
            Ok(response) => response,
            Err(_) if is_reused => {
                self.stream = None;
                self.exchange(case).await.unwrap_or_else(Response::broken)
            }
            Err(problem) => Response::broken(problem),
        }
    }

    async fn exchange(&mut self, case: &Case) -> Result<Response, String> {
        let exchange = self.exchange_untimed(case);
        let result = tokio::time::timeout(LIMIT, exchange)
            .await
            .unwrap_or_else(|_| Err("no response in time".to_owned()));
        if result.is_err() {
            self.stream = None;
        }
        result
    }

    async fn exchange_untimed(&mut self, case: &Case) -> Result<Response, String> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.map_err(text)?;
                stream.set_nodelay(true).map_err(text)?;
                BufReader::new(stream)
            }
        };
        stream.write_all(&written(case)).await.map_err(text)?;
        let (response, stays_open) = read(&mut stream, &case.method).await?;
        if stays_open {
            self.stream = Some(stream);
        }
        Ok(response)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn written(case: &Case) -> Vec<u8> {
    let mut text = format!("{} {} HTTP/1.1\r\nHost: harbour.test\r\n", case.method, case.target);
    for (name, value) in &case.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if case.body.is_some() || case.is_write() {
        text.push_str(&format!("Content-Length: {}\r\n", case.body.as_ref().map_or(0, String::len)));
    }
    text.push_str("\r\n");
    text.push_str(case.body.as_deref().unwrap_or_default());
    text.into_bytes()
}

async fn read(stream: &mut BufReader<TcpStream>, method: &str) -> Result<(Response, bool), String> {
    let line = read_line(stream).await?;
    let mut words = line.splitn(3, ' ');
    let status =
        words.nth(1).and_then(|word| word.parse().ok()).ok_or_else(|| format!("no status in {line:?}"))?;
    let reason = words.next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream).await?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| format!("no header: {line:?}"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let header =
        |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.to_ascii_lowercase());
    let mut stays_open = header("connection").as_deref() != Some("close");
    let body = if method == "HEAD" || status == 204 || status == 304 {
        Vec::new()
    } else if header("transfer-encoding").as_deref() == Some("chunked") {
        read_chunks(stream).await?
    } else if let Some(length) = header("content-length") {
        let mut body = vec![0; length.parse().map_err(text)?];
        let _read = stream.read_exact(&mut body).await.map_err(text)?;
        body
    } else {
        stays_open = false;
        let mut body = Vec::new();
        let _read = stream.read_to_end(&mut body).await.map_err(text)?;
        body
    };
    Ok((Response { status, reason, headers, body }, stays_open))
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> Result<String, String> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line).await.map_err(text)? == 0 {
        return Err("the connection was closed".to_owned());
    }
    Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
}

async fn read_chunks(stream: &mut BufReader<TcpStream>) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let size = read_line(stream).await?;
        let size = usize::from_str_radix(&size, 16).map_err(text)?;
        let mut chunk = vec![0; size];
        let _read = stream.read_exact(&mut chunk).await.map_err(text)?;
        let _end = read_line(stream).await?;
        if size == 0 {
            return Ok(body);
        }
        body.append(&mut chunk);
    }
}
