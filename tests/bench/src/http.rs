//! The load generator: HTTP/1.1 over keep-alive connections, one request in flight on each.
//!
//! It shares the machine with the server, so it does as little as possible: requests are prepared bytes, responses are checked only
//! for status and end, and everything runs on one thread.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

/// The largest accepted response; the longest one, of 100,000 rows, is about 10 MB.
const MAX_ANSWER_BYTES: usize = 1 << 26;

/// When a run ends.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After this time.
    Time(Duration),
    /// After this many requests in all.
    Count(u64),
}

/// The result of a run.
pub(crate) struct Load {
    /// Nanoseconds of each request.
    pub(crate) times: Histogram<u64>,
    pub(crate) elapsed: Duration,
}

impl Load {
    pub(crate) fn rate(&self) -> f64 {
        f64::from(u32::try_from(self.times.len()).unwrap_or(u32::MAX)) / self.elapsed.as_secs_f64()
    }

    /// The quantile of the request times in milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        milliseconds(&self.times, share)
    }
}

/// The quantile in milliseconds of times in nanoseconds.
pub(crate) fn milliseconds(times: &Histogram<u64>, share: f64) -> f64 {
    Duration::from_nanos(times.value_at_quantile(share)).as_secs_f64() * 1e3
}

/// Sends `requests` in turn on `connections` connections. A response without `status` ends the run: fast errors would distort it.
pub(crate) async fn load(
    port: u16,
    requests: Rc<Vec<Vec<u8>>>,
    status: u16,
    connections: usize,
    until: Until,
) -> Result<Load> {
    let local = LocalSet::new();
    local
        .run_until(async {
            let mut tasks = JoinSet::new();
            let start = Instant::now();
            let (end, count) = match until {
                Until::Time(time) => (Some(start + time), u64::MAX),
                Until::Count(count) => (None, count),
            };
            let left = Rc::new(Cell::new(count));
            for first in 0..connections {
                let left = Rc::clone(&left);
                tasks.spawn_local(connection(port, Rc::clone(&requests), status, first, end, left));
            }
            let mut times = histogram()?;
            while let Some(result) = tasks.join_next().await {
                times.add(result??).context("histograms differ")?;
            }
            Ok(Load { times, elapsed: start.elapsed() })
        })
        .await
}

async fn connection(
    port: u16,
    requests: Rc<Vec<Vec<u8>>>,
    expected: u16,
    first: usize,
    end: Option<Instant>,
    left: Rc<Cell<u64>>,
) -> Result<Histogram<u64>> {
    let mut connection = Connection::open(port).await?;
    let mut times = histogram()?;
    for request in requests.iter().cycle().skip(first) {
        let start = Instant::now();
        if end.is_some_and(|end| start >= end) || left.get() == 0 {
            break;
        }
        left.set(left.get() - 1);
        let status = connection.exchange(request).await?;
        if status != expected {
            bail!("status {status}: {}", String::from_utf8_lossy(&connection.buffer));
        }
        times.record(u64::try_from(start.elapsed().as_nanos())?)?;
    }
    Ok(times)
}

pub(crate) fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1_000, 60_000_000_000, 3).context("no histogram")
}

/// One request on its own connection, with the complete response.
pub(crate) async fn once(port: u16, request: &[u8]) -> Result<(u16, String)> {
    let mut connection = Connection::open(port).await?;
    let status = connection.exchange(request).await?;
    Ok((status, String::from_utf8_lossy(&connection.buffer).into_owned()))
}

/// The status of a plain GET; `None` while the server does not respond.
pub(crate) async fn status(port: u16, path: &str) -> Option<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    once(port, request.as_bytes()).await.ok().map(|(status, _)| status)
}

/// A keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(port: u16) -> Result<Self> {
        let stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.context("no connection to the server")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// The last response.
    pub(crate) fn response(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.buffer)
    }

    /// Sends one request and reads its response into the buffer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<u16> {
        self.send(request).await?;
        self.receive().await
    }

    /// Sends a request, or a part of one.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Reads the response into the buffer.
    pub(crate) async fn receive(&mut self) -> Result<u16> {
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(status) = complete(&self.buffer)? {
                return Ok(status);
            }
            if self.buffer.len() > MAX_ANSWER_BYTES {
                bail!("the response exceeds {MAX_ANSWER_BYTES} bytes");
            }
        }
    }
}

/// The status, once the response is complete.
fn complete(response: &[u8]) -> Result<Option<u16>> {
    let Some(end) = find(response, b"\r\n\r\n") else { return Ok(None) };
    let (head, body) = response.split_at(end + 4);
    let head = std::str::from_utf8(head).context("a header is not text")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status line")?;
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let whole = match header("content-length") {
        Some(length) => {
            body.len() >= length.parse::<usize>().context("the content-length is not a number")?
        }
        None if header("transfer-encoding").is_some() => body.ends_with(b"0\r\n\r\n"),
        None => true,
    };
    Ok(whole.then_some(status))
}

/// A request that a server of this program has received.
pub(crate) struct Received {
    /// The request line.
    pub(crate) line: String,
    /// Where the body begins, and where the request ends.
    pub(crate) body: usize,
    pub(crate) end: usize,
}

/// The first request in `bytes`, once it is complete.
pub(crate) fn complete_request(bytes: &[u8]) -> Option<Received> {
    let body = find(bytes, b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(bytes.get(..body)?);
    let length = head.lines().filter_map(|line| line.split_once(':'));
    let length = length.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.map_or(Some(0), |(_, value)| value.trim().parse::<usize>().ok())?;
    let end = body.checked_add(length)?;
    (bytes.len() >= end).then(|| Received {
        line: head.lines().next().unwrap_or_default().to_owned(),
        body,
        end,
    })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_complete_at_its_length() {
        let text = b"POST /a HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.1\r\n";
        let request = complete_request(text).unwrap();
        assert_eq!(
            (request.line.as_str(), &text[request.body..request.end]),
            ("POST /a HTTP/1.1", b"abc".as_slice())
        );
        assert!(complete_request(&text[..request.end - 1]).is_none());
        assert!(complete_request(&text[request.end..]).is_none());
    }

    #[test]
    fn response_is_complete_at_its_length_or_last_chunk() {
        assert_eq!(complete(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap(), None);
        assert_eq!(complete(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").unwrap(), None);
        assert_eq!(complete(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").unwrap(), Some(200));
        assert_eq!(
            complete(b"HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").unwrap(),
            None
        );
        assert_eq!(
            complete(b"HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").unwrap(),
            Some(503)
        );
        assert!(complete(b"nonsense\r\n\r\n").is_err());
    }
}
