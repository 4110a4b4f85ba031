//! Clients that send bodies or take answers too slowly: given up after a stated time, whatever they speak, while no
//! other client waits for them.

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
/// Given up is given up within this time, on a machine with much else to do.
const SOON: Duration = Duration::from_secs(60);

/// One connection for requests, and a second's patience.
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

/// A connection of which the client says how much it takes unasked.
async fn http2(server: &Basalt, window: u32) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let (requests, connection) = builder.initial_window_size(window).handshake(stream).await.unwrap();
    // It goes on answering pings and whatever else keeps a connection alive.
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
async fn a_body_that_trickles_ends_with_408_in_its_services_words_and_holds_no_connection() {
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
        assert!(begun.elapsed() < SOON, "they are still listened to");
        for (number, client) in slow.iter_mut().enumerate() {
            // The server may have closed the connection after its answer.
            let _gone = client.try_send(if number == 2 { "1\r\n \r\n" } else { " " }).await;
        }
        id += 1;
        insert(&server).json(&json!({ "id": id })).send().await.expect(201);
        // A fast machine must not send the whole body, or as much as `server.min_rate` asks for.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (number, client) in slow.iter_mut().enumerate() {
        let answer = client.answer().await;
        assert_eq!(answer.status, 408, "{}", answer.text());
        assert_eq!(answer.header("connection"), "close");
        if number == 3 {
            assert_eq!(answer.json()["code"], "request_timeout");
            continue;
        }
        assert_eq!(answer.header("proxy-status"), "PostgREST; error=PGRST102");
        let message = "The request body came too slowly";
        let hint = "Nothing was done. Send it again.";
        let body = json!({ "code": "PGRST102", "details": null, "hint": hint, "message": message });
        assert_eq!(answer.json(), body);
    }
}

#[tokio::test]
async fn a_slow_and_steady_body_is_waited_for() {
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
    assert_eq!(client.answer().await.status, 201);
}

#[tokio::test]
async fn a_trickled_stream_ends_with_408_and_its_connection_goes_on() {
    let server = impatient().await;
    let (requests, connection) = http2(&server, 65_535).await;
    let mut requests = requests.ready().await.unwrap();
    let (answer, mut body) =
        requests.send_request(request(&server, "POST", "/rest/v1/entries"), false).unwrap();
    let trickle = async {
        while body.send_data(Bytes::from_static(b" "), false).is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let answer = tokio::select! {
        answer = answer => answer.unwrap(),
        () = trickle => panic!("reset without an answer"),
        () = tokio::time::sleep(SOON) => panic!("it is still listened to"),
    };
    assert_eq!((answer.status().as_u16(), answer.headers().get("connection")), (408, None));
    drop(answer);
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    let (next, _) = requests.send_request(request(&server, "HEAD", "/rest/v1/entries"), true).unwrap();
    assert_eq!(next.await.unwrap().status(), 200);
    drop(requests);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_whose_window_never_opens_is_reset_and_gives_its_memory_back() {
    let server = impatient().await;
    let held = "basalt_http_answer_bytes_in_flight";
    for window in [0, 100, 40_000] {
        let (requests, connection) = http2(&server, window).await;
        let mut requests = requests.ready().await.unwrap();
        let large = format!("/rest/v1/rpc/large?length={}", 30 * MIB);
        let (answer, _) = requests.send_request(request(&server, "GET", &large), true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        assert!(metric(&server, held).await > 30_000_000.0, "it counts while it waits");
        let mut received = 0;
        let reset = loop {
            // Taken in and not given back: the window stays as it is.
            match tokio::time::timeout(SOON, body.data()).await.expect("it is still waited for") {
                Some(Ok(data)) => received += data.len(),
                Some(Err(error)) => break error,
                None => panic!("all of it came through a window of {window}"),
            }
        };
        assert!(reset.is_reset() && received <= window as usize, "{reset:?} after {received}");
        until_metric(&server, held, |bytes| bytes < 1.0).await;
        // It was the stream, and not the connection.
        let (next, _) = requests.send_request(request(&server, "HEAD", "/rest/v1/entries"), true).unwrap();
        assert_eq!(next.await.unwrap().status(), 200);
        drop((requests, body));
        connection.await.unwrap().unwrap();
    }
    assert!(metric(&server, "basalt_http_slow_clients_total{what=\"answer\"}").await > 2.9);
}

#[tokio::test]
async fn a_stream_that_is_read_in_sips_is_not_reset() {
    let server = impatient().await;
    let (requests, connection) = http2(&server, 16_384).await;
    let mut requests = requests.ready().await.unwrap();
    let length = 200_000;
    let large = format!("/rest/v1/rpc/large?length={length}");
    let (answer, _) = requests.send_request(request(&server, "GET", &large), true).unwrap();
    let mut body = answer.await.unwrap().into_body();
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
async fn an_http2_connection_without_streams_ends_even_with_an_untaken_rest() {
    let server = impatient().await;
    let (_idle, idle) = http2(&server, 65_535).await;
    // The library holds what is left of this answer, and the stream is over for us.
    let (requests, untaken) = http2(&server, 1).await;
    let mut requests = requests.ready().await.unwrap();
    let (answer, _) =
        requests.send_request(request(&server, "GET", "/rest/v1/rpc/large?length=2000"), true).unwrap();
    let body = answer.await.unwrap().into_body();
    for connection in [idle, untaken] {
        // Told to go, or dropped: over.
        let _ended = tokio::time::timeout(SOON, connection).await.expect("it is still open").unwrap();
    }
    drop(body);
    until_metric(&server, "basalt_http_connections", |open| open < 3.0).await;
}

#[tokio::test]
async fn an_answer_that_is_not_taken_ends_its_connection() {
    let server = impatient().await;
    let mut slow = Raw::connect_narrow(&server).await;
    slow.send(get(&server, &format!("/rest/v1/rpc/large?length={}", 30 * MIB))).await;
    assert_eq!(slow.head().await.status, 200);
    until_metric(&server, "basalt_http_slow_clients_total{what=\"answer\"}", |count| count > 0.9).await;
    until_metric(&server, "basalt_http_answer_bytes_in_flight", |bytes| bytes < 1.0).await;
}
