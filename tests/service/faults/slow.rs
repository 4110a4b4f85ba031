//! Clients that send bodies or read responses too slowly, over HTTP/1 and HTTP/2: disconnected after a configured time, without
//! delaying other clients.

use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::load::insert;
use crate::overload::{metric, start};
use crate::raw::{Raw, get, head};

const MIB: usize = 1024 * 1024;
/// The time limit for a disconnect on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A server with one database connection and stall timeouts of one second.
async fn impatient() -> Basalt {
    let settings = [
        ("server.stall_timeout", "1s"),
        ("server.min_rate", "1KiB"),
        ("server.idle_timeout", "2s"),
        ("database.pool_size", "1"),
        ("database.pool_timeout", "2s"),
    ];
    start(&settings).await
}

/// An HTTP/2 connection with a given initial window.
async fn http2(server: &Basalt, window: u32) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let (requests, connection) = builder.initial_window_size(window).handshake(stream).await.unwrap();
    // The driver keeps responding to pings.
    (requests, tokio::spawn(connection))
}

fn request(server: &Basalt, method: &str, path: &str) -> Request<()> {
    Request::builder()
        .method(method)
        .uri(server.url(path))
        .header("apikey", server.service_key())
        .header("content-type", "application/json")
        .body(())
        .unwrap()
}

async fn until_metric(server: &Basalt, name: &str, wanted: impl Fn(f64) -> bool) {
    let begun = Instant::now();
    loop {
        let value = metric(server, name).await;
        if wanted(value) {
            return;
        }
        assert!(begun.elapsed() < SOON, "{name} is {value}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn trickling_body_gets_408_in_the_services_format() {
    let server = impatient().await;
    let sign_up = format!("POST /auth/v1/signup HTTP/1.1\r\nHost: a\r\napikey: {}\r\n", server.anon_key());
    let sign_up = format!("{sign_up}Content-Type: application/json\r\nContent-Length: 50000\r\n\r\n{{");
    let rest = head(&server, "POST /rest/v1/entries");
    let openings = [
        format!("{rest}Content-Length: 50000\r\n\r\n["),
        format!("{rest}Content-Length: 5000000\r\n\r\n["),
        format!("{rest}Transfer-Encoding: chunked\r\n\r\n"),
        sign_up,
    ];
    let begun = Instant::now();
    let mut slow = Vec::new();
    for opening in openings {
        let mut client = Raw::connect(&server).await;
        client.send(opening).await;
        slow.push(client);
    }
    let mut id = 0;
    while metric(&server, "basalt_http_slow_clients_total{what=\"body\"}").await < 4.0 {
        assert!(begun.elapsed() < SOON, "the connections are still open");
        for (number, client) in slow.iter_mut().enumerate() {
            // The server may have closed the connection after its response.
            let _gone = client.try_send(if number == 2 { "1\r\n \r\n" } else { " " }).await;
        }
        id += 1;
        insert(&server).json(&json!({ "id": id })).send().await.expect(201);
        // Limit the rate: a fast machine must not send the whole body or reach `server.min_rate`.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (number, client) in slow.iter_mut().enumerate() {
        let response = client.response().await;
        assert_eq!(response.status, 408, "{}", response.text());
        assert_eq!(response.header("connection"), "close");
        if number == 3 {
            assert_eq!(response.json()["code"], "request_timeout");
            continue;
        }
        assert_eq!(response.header("proxy-status"), "PostgREST; error=PGRST102");
        let message = "The request body came too slowly";
        let hint = "Nothing was done. Send it again.";
        let body = json!({ "code": "PGRST102", "details": null, "hint": hint, "message": message });
        assert_eq!(response.json(), body);
    }
}

#[tokio::test]
async fn slow_but_steady_body_is_accepted() {
    let server = impatient().await;
    let body = json!([{ "id": 1 }, { "id": 2 }]).to_string();
    let padding = " ".repeat(1000);
    let mut client = Raw::connect(&server).await;
    let head = head(&server, "POST /rest/v1/entries");
    client.send(format!("{head}Content-Length: {}\r\n\r\n", 12 * padding.len() + body.len())).await;
    for _ in 0..12 {
        client.send(&padding).await;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    client.send(body).await;
    assert_eq!(client.response().await.status, 201);
}

#[tokio::test]
async fn trickling_http2_stream_gets_408_and_keeps_connection() {
    let server = impatient().await;
    let (requests, connection) = http2(&server, 65_535).await;
    let mut requests = requests.ready().await.unwrap();
    let (response, mut body) =
        requests.send_request(request(&server, "POST", "/rest/v1/entries"), false).unwrap();
    let trickle = async {
        while body.send_data(Bytes::from_static(b" "), false).is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let response = tokio::select! {
        response = response => response.unwrap(),
        () = trickle => panic!("reset without a response"),
        () = tokio::time::sleep(SOON) => panic!("it is still listened to"),
    };
    assert_eq!((response.status().as_u16(), response.headers().get("connection")), (408, None));
    drop(response);
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    let (next, _) = requests.send_request(request(&server, "HEAD", "/rest/v1/entries"), true).unwrap();
    assert_eq!(next.await.unwrap().status(), 200);
    drop(requests);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn stalled_http2_stream_is_reset_and_frees_its_memory() {
    let server = impatient().await;
    let held = "basalt_http_answer_bytes_in_flight";
    for window in [0, 100, 40_000] {
        let (requests, connection) = http2(&server, window).await;
        let mut requests = requests.ready().await.unwrap();
        let large = format!("/rest/v1/rpc/large?length={}", 30 * MIB);
        let (response, _) = requests.send_request(request(&server, "GET", &large), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        assert!(metric(&server, held).await > 30_000_000.0, "the response counts while it waits");
        let mut received = 0;
        let reset = loop {
            // Read without releasing capacity: the window stays closed.
            match tokio::time::timeout(SOON, body.data()).await.expect("the stream is still open") {
                Some(Ok(data)) => received += data.len(),
                Some(Err(error)) => break error,
                None => panic!("the whole response passed a window of {window}"),
            }
        };
        assert!(reset.is_reset() && received <= window as usize, "{reset:?} after {received}");
        until_metric(&server, held, |bytes| bytes < 1.0).await;
        // Only the stream was reset, not the connection.
        let (next, _) = requests.send_request(request(&server, "HEAD", "/rest/v1/entries"), true).unwrap();
        assert_eq!(next.await.unwrap().status(), 200);
        drop((requests, body));
        connection.await.unwrap().unwrap();
    }
    assert!(metric(&server, "basalt_http_slow_clients_total{what=\"answer\"}").await > 2.9);
}

#[tokio::test]
async fn slowly_read_http2_stream_is_not_reset() {
    let server = impatient().await;
    let (requests, connection) = http2(&server, 16_384).await;
    let mut requests = requests.ready().await.unwrap();
    let length = 200_000;
    let large = format!("/rest/v1/rpc/large?length={length}");
    let (response, _) = requests.send_request(request(&server, "GET", &large), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let mut received = 0;
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        received += data.len();
        tokio::time::sleep(Duration::from_millis(200)).await;
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    assert_eq!(received, length + 2);
    drop((requests, body));
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn idle_http2_connection_is_closed() {
    let server = impatient().await;
    let (_idle, idle) = http2(&server, 65_535).await;
    // hyper buffers the rest of this response; for the server the stream has ended.
    let (requests, untaken) = http2(&server, 1).await;
    let mut requests = requests.ready().await.unwrap();
    let (response, _) =
        requests.send_request(request(&server, "GET", "/rest/v1/rpc/large?length=2000"), true).unwrap();
    let body = response.await.unwrap().into_body();
    for connection in [idle, untaken] {
        // Closed by GOAWAY or dropped.
        let _ended =
            tokio::time::timeout(SOON, connection).await.expect("the connection is still open").unwrap();
    }
    drop(body);
    until_metric(&server, "basalt_http_connections", |open| open < 3.0).await;
}

#[tokio::test]
async fn unread_response_closes_the_connection() {
    let server = impatient().await;
    let mut slow = Raw::connect_narrow(&server).await;
    slow.send(get(&server, &format!("/rest/v1/rpc/large?length={}", 30 * MIB))).await;
    assert_eq!(slow.head().await.status, 200);
    until_metric(&server, "basalt_http_slow_clients_total{what=\"answer\"}", |count| count > 0.9).await;
    until_metric(&server, "basalt_http_answer_bytes_in_flight", |bytes| bytes < 1.0).await;
}
