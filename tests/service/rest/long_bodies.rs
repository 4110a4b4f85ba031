//! Parsing long bodies must not block other requests.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};

use basalt_testkit::Basalt;

use super::{anon, get, server};

const MEGABYTE: usize = 1024 * 1024;

/// About `bytes` of rows with an invalid end, so that no statement is sent.
fn broken_json(bytes: usize) -> Bytes {
    let row = br#"{"id":1,"name":"x"},"#;
    let mut body = Vec::with_capacity(bytes + 1);
    body.push(b'[');
    while body.len() < bytes {
        body.extend_from_slice(row);
    }
    body.into()
}

/// With one worker thread, parsing the body on that thread would block all other requests. The longest wait of another request
/// is compared with the duration of the long request, which is mostly parsing. A busy machine may need a few rounds to pass; a
/// blocking parser never passes.
#[tokio::test]
async fn parsing_a_long_body_does_not_block_other_requests() {
    let server = server().variable("TOKIO_WORKER_THREADS", "1").start().await;
    let json = broken_json(8 * MEGABYTE);
    let csv = Bytes::from("id,name\n1,x\n".repeat(MEGABYTE / 4));
    for (content_type, body) in [("application/json", json), ("text/csv", csv)] {
        let mut round = 0;
        while !is_answered_meanwhile(&server, content_type, body.clone()).await {
            round += 1;
            assert!(round < 10, "reads wait for a body of {content_type}");
        }
    }
}

/// Whether every concurrent read took less than half of the long request's time.
async fn is_answered_meanwhile(server: &Basalt, content_type: &str, body: Bytes) -> bool {
    get(server, "/clients?select=id").await;
    let long = anon(server, Method::POST, "/clients").header("content-type", content_type).body(body);
    let begun = Instant::now();
    let mut long = tokio::spawn(long.send());
    let mut longest = Duration::ZERO;
    let mut response = None;
    while response.is_none() {
        let sent_at = Instant::now();
        tokio::select! {
            done = &mut long => response = Some(done.unwrap()),
            read = get(server, "/clients?select=id") => assert_eq!(read.status, StatusCode::OK),
        }
        // A read still waiting when the long request ends counts too.
        longest = longest.max(sent_at.elapsed());
    }
    let response = response.unwrap();
    let took = begun.elapsed();
    assert_eq!(response.status, StatusCode::BAD_REQUEST, "{}", response.text());
    longest < took / 2
}
