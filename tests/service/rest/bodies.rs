//! Bodies that are long, broken or strange.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};

use basalt_testkit::Basalt;

use super::{anon, get, server};

const MEGABYTE: usize = 1024 * 1024;

/// Rows of about `bytes`, and an end that is no JSON: no statement is sent.
fn broken_json(bytes: usize) -> Bytes {
    let row = br#"{"id":1,"name":"x"},"#;
    let mut body = Vec::with_capacity(bytes + 1);
    body.push(b'[');
    while body.len() < bytes {
        body.extend_from_slice(row);
    }
    body.into()
}

/// With one thread for all requests, that thread reading the body would let no request pass between the body's last byte and
/// its answer. The longest wait is compared with the time that the long request took, which is mostly the reading of its body.
/// A machine that does other things may take a few rounds to show it; a thread that reads the body never does.
#[tokio::test]
async fn a_long_body_keeps_nobody_waiting() {
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

/// Whether no read beside the long request took half of its time.
async fn is_answered_meanwhile(server: &Basalt, content_type: &str, body: Bytes) -> bool {
    get(server, "/clients?select=id").await;
    let long = anon(server, Method::POST, "/clients").header("content-type", content_type).body(body);
    let begun = Instant::now();
    let mut long = tokio::spawn(long.send());
    let mut longest = Duration::ZERO;
    let mut answer = None;
    while answer.is_none() {
        let asked = Instant::now();
        tokio::select! {
            done = &mut long => answer = Some(done.unwrap()),
            read = get(server, "/clients?select=id") => assert_eq!(read.status, StatusCode::OK),
        }
        // One that waits when the long request is over counts too.
        longest = longest.max(asked.elapsed());
    }
    let answer = answer.unwrap();
    let took = begun.elapsed();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text());
    longest < took / 2
}
