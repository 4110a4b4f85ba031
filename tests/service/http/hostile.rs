//! Hostile HTTP: request smuggling, endless heads, cheap HTTP/2 floods. The server responds or closes the connection, holds no
//! memory for long, and continues to serve others.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers fail a test as the tests do")]

use std::time::Duration;

use basalt_testkit::Basalt;
use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

const LIMIT: Duration = Duration::from_secs(30);

/// Sends these bytes and returns what the server sends until it closes the connection.
async fn raw(server: &Basalt, request: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    // The server may close before all bytes are sent.
    let _refused = stream.write_all(request.as_ref()).await;
    let mut response = Vec::new();
    let _reset = timeout(LIMIT, stream.read_to_end(&mut response)).await.unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

/// The value of a metric, by its full name.
async fn metric(server: &Basalt, name: &str) -> f64 {
    let shown = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is missing")).parse().unwrap()
}

#[tokio::test]
async fn rejects_conflicting_body_lengths() {
    let server = Basalt::start().await;
    let smuggled = "GET /health HTTP/1.1\r\nhost: a\r\n\r\n";
    for framing in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: +5",
        "content-length: 5, 6",
        "transfer-encoding: chunked, identity",
        "transfer-encoding : chunked",
        "x: y\r\n transfer-encoding: chunked",
    ] {
        let request =
            format!("POST /rest/v1/t HTTP/1.1\r\nhost: a\r\n{framing}\r\n\r\n0\r\n\r\n{smuggled}{smuggled}");
        let response = raw(&server, request).await;
        assert!(response.starts_with("HTTP/1.1 400 "), "{framing}: {response}");
        assert_eq!(response.matches("HTTP/1.1 ").count(), 1, "{framing}: {response}");
    }
}

#[tokio::test]
async fn head_limits_are_configurable_and_counted() {
    const REFUSED: &str = "basalt_http_refused_total{reason=\"max_header_bytes\"}";
    let server = Basalt::builder()
        .config("server.max_header_bytes", "100KiB")
        .config("server.max_headers", "20")
        .start()
        .await;
    assert!((metric(&server, "basalt_http_header_bytes_limit").await - 102_400.0).abs() < 0.5);
    assert!((metric(&server, "basalt_http_headers_limit").await - 20.0).abs() < 0.5);
    let get = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n")
    };
    let many = |count: usize| "x: y\r\n".repeat(count);
    assert!(raw(&server, get("/health", &many(18))).await.starts_with("HTTP/1.1 200 "));
    let long = format!("x: {}\r\n", "y".repeat(90 * 1024));
    assert!(raw(&server, get("/health", &long)).await.starts_with("HTTP/1.1 200 "));
    assert!(metric(&server, REFUSED).await.abs() < 0.5);

    // hyper checks the limit only after it has read this much.
    let too_long = format!("x: {}\r\n", "y".repeat(210 * 1024));
    let path = format!("/{}", "a".repeat(65_535));
    for (request, expected) in [
        (get("/health", &many(19)), "HTTP/1.1 431 "),
        (get("/health", &too_long), "HTTP/1.1 431 "),
        (get(&path, ""), "HTTP/1.1 414 "),
    ] {
        let response = raw(&server, request).await;
        assert!(response.starts_with(expected), "{response}");
    }
    let counted = async {
        while metric(&server, REFUSED).await < 2.5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, counted).await.unwrap();

    // HTTP/2 resets the stream and keeps the connection.
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    for (header, expected) in [("y".repeat(110 * 1024), 431), ("y".to_owned(), 200)] {
        let request = Request::builder().uri(server.url("/health")).header("x", header).body(()).unwrap();
        requests = requests.ready().await.unwrap();
        let (response, _) = requests.send_request(request, true).unwrap();
        assert_eq!(timeout(LIMIT, response).await.unwrap().unwrap().status(), expected);
    }
    driver.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_heads_hold_limited_memory_for_limited_time() {
    const CONNECTIONS: usize = 60;
    let server = Basalt::builder()
        .config("server.idle_timeout", "3s")
        .config("server.stall_timeout", "1s")
        .start()
        .await;
    let resident = async || metric(&server, "process_resident_memory_bytes").await;
    let http1 = format!("GET /health HTTP/1.1\r\nhost: a\r\nx: {}", "y".repeat(150 * 1024)).into_bytes();
    // 1,000 headers in 1,000 bytes, which HTTP/2 keeps until the block ends.
    let http2_head = [&head(2, "/health")[..], &[0x80 | 15].repeat(1000)].concat();
    let http2_head = frame(HEADERS, END_STREAM, 1, &http2_head);
    for (begun, is_http2) in [(http1, false), (http2_head, true)] {
        let before = resident().await;
        let started = Instant::now();
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = if is_http2 {
                http2(&server).await
            } else {
                TcpStream::connect(("127.0.0.1", server.port())).await.unwrap()
            };
            stream.write_all(&begun).await.unwrap();
            held.push(stream);
        }
        // Normal requests are served meanwhile.
        server.get("/rest/v1/").apikey(server.service_key()).send().await.expect(200);
        let grown = resident().await - before;
        // At most twice `server.max_header_bytes` per connection, plus buffers.
        assert!(
            grown < 400.0 * 1024.0 * f64::from(u32::try_from(CONNECTIONS).unwrap()),
            "{grown} bytes more"
        );
        for mut stream in held {
            let mut rest = Vec::new();
            let _reset = timeout(LIMIT, stream.read_to_end(&mut rest)).await.unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    }
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A header block: `method` (2 for GET, 3 for POST in HPACK's static table) and `path`.
fn head(method: u8, path: &str) -> Vec<u8> {
    let mut head = vec![0x80 | method, 0x86, 0x41, 1, b'a', 0x04];
    head.push(u8::try_from(path.len()).unwrap());
    head.extend(path.as_bytes());
    head
}

async fn http2(server: &Basalt) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    stream
}

/// The payload of the first frame of `kind` for `stream`; `None` if the server closes first.
async fn next(connection: &mut TcpStream, kind: u8, stream: u32) -> Option<Vec<u8>> {
    loop {
        let mut header = [0; 9];
        timeout(LIMIT, connection.read_exact(&mut header)).await.unwrap().ok()?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        timeout(LIMIT, connection.read_exact(&mut payload)).await.unwrap().ok()?;
        if header[3] == kind && header[5..] == stream.to_be_bytes() {
            return Some(payload);
        }
    }
}

/// Writes `bytes` repeatedly until the server closes; returns the number of bytes written.
async fn write_until_closed(stream: TcpStream, bytes: &[u8], most: usize) -> usize {
    let (mut reading, mut writing) = stream.into_split();
    let reader = tokio::spawn(async move {
        let mut sink = vec![0; 64 * 1024];
        while let Ok(1..) = reading.read(&mut sink).await {}
    });
    let mut written = 0;
    while written < most && writing.write_all(bytes).await.is_ok() && !reader.is_finished() {
        written += bytes.len();
    }
    reader.abort();
    written
}

#[tokio::test]
async fn endless_continuation_frames_close_the_connection() {
    // Far more than the kernel buffers for a server that has stopped reading.
    const MOST: usize = 256 * 1024 * 1024;
    let server = Basalt::start().await;
    for piece in [&[0_u8; 0][..], &[0x82], &[0x82; 1000]] {
        let mut stream = http2(&server).await;
        stream.write_all(&frame(HEADERS, END_STREAM, 1, &head(2, "/health"))).await.unwrap();
        let pieces = frame(CONTINUATION, 0, 1, piece).repeat(100);
        let written = timeout(LIMIT, write_until_closed(stream, &pieces, MOST)).await.unwrap();
        assert!(written < MOST, "{written} bytes in pieces of {}", piece.len());
    }
    server.get("/health").send().await.expect(200);
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_individually() {
    let server = Basalt::builder()
        .config("server.max_streams", "2")
        .config("server.require_apikey", "false")
        .start()
        .await;
    let mut stream = http2(&server).await;
    // Two requests without their bodies, and a third.
    for id in [1, 3, 5] {
        stream.write_all(&frame(HEADERS, END_HEADERS, id, &head(3, "/rest/v1/rpc/nothing"))).await.unwrap();
    }
    let refused = next(&mut stream, RST_STREAM, 5).await.unwrap();
    assert_eq!(u32::from_be_bytes(refused.try_into().unwrap()), 7, "REFUSED_STREAM");
}

#[tokio::test(flavor = "multi_thread")]
async fn hpack_amplification_does_not_fill_the_memory() {
    let server = Basalt::start().await;
    let resident = async || metric(&server, "process_resident_memory_bytes").await;
    // `accept-charset` without a value, one byte each.
    let block = [&head(3, "/rest/v1/nothing")[..], &[0x80 | 15].repeat(390)].concat();
    let requests: Vec<u8> = (0..256).flat_map(|id| frame(HEADERS, END_HEADERS, 2 * id + 1, &block)).collect();
    let before = resident().await;
    let mut streams = Vec::new();
    for _ in 0..40 {
        let mut stream = http2(&server).await;
        stream.write_all(&requests).await.unwrap();
        streams.push(stream);
    }
    for stream in &mut streams {
        assert!(next(stream, HEADERS, 511).await.is_some(), "every request gets a response");
    }
    let grown = resident().await - before;
    assert!(grown < 64.0 * 1024.0 * 1024.0, "{grown} bytes more");

    // 2,000 headers exceed the header list limit, which counts 46 bytes for each.
    let mut stream = http2(&server).await;
    let block = [&head(3, "/rest/v1/nothing")[..], &[0x80 | 15].repeat(2000)].concat();
    stream.write_all(&frame(HEADERS, END_HEADERS, 1, &block)).await.unwrap();
    let response = next(&mut stream, HEADERS, 1).await.unwrap();
    assert_eq!(response, b"\x48\x83\x69\x90\xff", ":status 431");
}

#[tokio::test]
async fn idle_new_connection_is_closed() {
    let server = Basalt::builder()
        .config("server.idle_timeout", "1s")
        .config("server.stall_timeout", "1s")
        .start()
        .await;
    let unfinished = frame(HEADERS, END_STREAM, 1, &head(2, "/health"));
    for begun in [Vec::new(), unfinished] {
        let mut stream = http2(&server).await;
        stream.write_all(&begun).await.unwrap();
        let started = Instant::now();
        assert_eq!(next(&mut stream, u8::MAX, 0).await, None);
        assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
    }
    // Neither HTTP/1.1 nor HTTP/2 yet, so no library's timeout has started.
    for begun in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n"] {
        let started = Instant::now();
        let _closed = raw(&server, begun).await;
        assert!(started.elapsed() < LIMIT / 2, "{begun:?}: {:?}", started.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_leave_no_work_behind() {
    let server = Basalt::start().await;
    let reset = [0, 0, 0, 8];
    let mut id = 1;
    let mut resets = Vec::new();
    for _ in 0..5000 {
        resets.extend(frame(HEADERS, END_HEADERS | END_STREAM, id, &head(2, "/storage/v1/bucket")));
        resets.extend(frame(RST_STREAM, 0, id, &reset));
        id += 2;
    }
    let stream = http2(&server).await;
    let _taken = timeout(LIMIT, write_until_closed(stream, &resets, 1)).await.unwrap();
    // Also with database requests, at a rate that a normal client could have.
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    for _ in 0..500 {
        let request = Request::builder()
            .uri(server.url("/rest/v1/"))
            .header("apikey", server.service_key())
            .body(())
            .unwrap();
        let Ok(ready) = requests.ready().await else { break };
        requests = ready;
        let Ok((response, mut sending)) = requests.send_request(request, false) else { break };
        let _gone = sending.send_data(Bytes::from_static(b"x"), false);
        sending.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    driver.abort();
    server.get("/rest/v1/").apikey(server.service_key()).send().await.expect(200);
    let quiet = async {
        while metric(&server, "basalt_http_requests_in_flight").await > 0.0
            || metric(&server, "basalt_pool_waiting{pool=\"rest\"}").await > 0.0
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LIMIT, quiet).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_ping_replies_do_not_fill_the_memory() {
    let server = Basalt::builder()
        .config("server.idle_timeout", "2s")
        .config("server.stall_timeout", "1s")
        .start()
        .await;
    let resident = async || metric(&server, "process_resident_memory_bytes").await;
    let before = resident().await;
    let pings = frame(PING, 0, 0, &[0; 8]).repeat(1000);
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = http2(&server).await;
        // Write until the server stops reading; never read a reply.
        let write = async {
            for _ in 0..500 {
                stream.write_all(&pings).await?;
            }
            std::io::Result::Ok(())
        };
        let _stuck = timeout(Duration::from_millis(300), write).await;
        streams.push(stream);
    }
    let grown = resident().await - before;
    assert!(grown < 32.0 * 1024.0 * 1024.0, "{grown} bytes more");
    let gone = async {
        while metric(&server, "basalt_http_connections").await > 2.5 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LIMIT, gone).await.unwrap();
    drop(streams);
}

#[tokio::test]
async fn vanished_client_does_not_delay_shutdown() {
    let mut server = Basalt::start().await;
    let mut connection = http2(&server).await;
    connection.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head(2, "/health"))).await.unwrap();
    assert!(next(&mut connection, HEADERS, 1).await.is_some());
    let started = Instant::now();
    server.stop().await;
    assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
}
