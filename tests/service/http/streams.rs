//! Streamed request bodies, and buffered ones at the same time.

#![expect(clippy::unwrap_used, reason = "helpers fail a test as the tests do")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use basalt_testkit::{ProbeLimits, ProbeServer};
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http::Method;
use serde_json::json;
use tokio::time::{interval, sleep};

const MIB: usize = 1024 * 1024;

/// `total` bytes in pieces of 64 KiB, at `rate` bytes per second.
fn at_a_rate(total: usize, rate: usize) -> impl Stream<Item = Result<Bytes, io::Error>> + Send {
    const PIECE: usize = 64 * 1024;
    let pause = Duration::from_secs(1) * u32::try_from(PIECE).unwrap() / u32::try_from(rate).unwrap();
    let piece = Bytes::from(vec![b'x'; PIECE]);
    stream::unfold((0, interval(pause)), move |(sent, mut ticks)| {
        let piece = piece.clone();
        async move {
            if sent >= total {
                return None;
            }
            let _tick = ticks.tick().await;
            let piece = piece.slice(..PIECE.min(total - sent));
            Some((Ok(piece.clone()), (sent + piece.len(), ticks)))
        }
    })
}

/// Streams `total` bytes at 5 MB/s, far more than `server.body_memory`, while others post buffered bodies: all succeed.
async fn upload_beside_posts(total: usize) {
    let limits =
        ProbeLimits { body_memory: 8 << 20, deadline: Duration::from_secs(2), ..ProbeLimits::default() };
    let probe = Arc::new(ProbeServer::start(limits).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let posts: Vec<_> = (0..4)
        .map(|_| {
            let (probe, is_over) = (Arc::clone(&probe), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (mut count, body) = (0, Bytes::from(vec![b' '; MIB]));
                while !is_over.load(Ordering::Relaxed) {
                    let response = probe.buffered(Method::POST, "/whole").body(body.clone()).send().await;
                    assert_eq!(response.expect(200).json(), json!({ "bytes": MIB }));
                    count += 1;
                }
                count
            })
        })
        .collect();
    let begun = Instant::now();
    let request = probe.request(Method::POST, "/upload").header("content-length", &total.to_string());
    let response = request.stream(at_a_rate(total, 5_000_000)).await.unwrap().whole().await.unwrap();
    assert_eq!(response.expect(200).json(), json!({ "bytes": total }));
    assert!(begun.elapsed() > limits.deadline, "the upload outlasted the request deadline");
    is_over.store(true, Ordering::Relaxed);
    for posts in posts {
        assert!(posts.await.unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_upload_reserves_no_memory() {
    upload_beside_posts(20_000_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "cargo xtask nightly: 200 seconds at 5 MB/s"]
async fn gigabyte_upload_does_not_affect_others() {
    upload_beside_posts(1_000_000_000).await;
}

#[tokio::test]
async fn database_step_after_a_stream_has_its_own_deadline() {
    let limits = ProbeLimits { deadline: Duration::from_secs(1), ..ProbeLimits::default() };
    let probe = ProbeServer::start(limits).await;
    let body = at_a_rate(1_000_000, 500_000);
    let response = probe.request(Method::POST, "/steps").stream(body).await.unwrap().whole().await.unwrap();
    assert_eq!(response.expect(200).json(), json!({ "first_is_over": true, "next_is_over": false }));
}

#[tokio::test]
async fn stalled_stream_gets_408_and_stalled_handler_504() {
    let limits = ProbeLimits {
        stall_timeout: Duration::from_secs(1),
        deadline: Duration::from_secs(2),
        ..ProbeLimits::default()
    };
    let probe = ProbeServer::start(limits).await;
    let begun = Instant::now();
    let stops = || {
        stream::unfold(0, async |sent| {
            if sent > 0 {
                sleep(Duration::from_secs(60)).await;
            }
            Some((Ok(Bytes::from_static(b"x")), sent + 1))
        })
    };
    let slow = probe.request(Method::POST, "/upload").stream(Box::pin(stops())).await.unwrap();
    assert_eq!(slow.whole().await.unwrap().expect(408).json()["error"], "slow");
    let stuck = probe.request(Method::POST, "/hang").stream(Box::pin(stops())).await.unwrap();
    assert_eq!(stuck.whole().await.unwrap().expect(504).json()["error"], "timeout");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn buffered_parts_of_a_stream_count_toward_the_budget() {
    let limits = ProbeLimits { body_memory: 4 << 20, ..ProbeLimits::default() };
    let probe = ProbeServer::start(limits).await;
    let body = || stream::iter((0..20).map(|_| Ok::<_, io::Error>(Bytes::from(vec![b'x'; MIB]))));
    let parts = || probe.request(Method::POST, "/parts");
    let one_by_one = parts().stream(body()).await.unwrap().whole().await.unwrap();
    assert_eq!(one_by_one.status, 200, "each part's memory is released");
    let kept = parts().header("x-keep", "all").stream(body()).await.unwrap().whole().await.unwrap();
    assert_eq!(kept.status, 503);
}

#[tokio::test]
async fn service_can_stream_and_buffer() {
    let probe = ProbeServer::start(ProbeLimits::default()).await;
    let large = || vec![b' '; 50 * MIB + 1];
    let json = probe.request(Method::POST, "/whole").header("content-type", "application/json");
    json.body(large()).send().await.expect(413);
    let streamed = probe.request(Method::POST, "/upload").body(large()).send().await.expect(200);
    assert_eq!(streamed.json(), json!({ "bytes": 50 * MIB + 1 }));
    // axum's limit of 2 MB is replaced by the gateway's.
    let extracted = probe.buffered(Method::POST, "/extract").body(vec![b' '; 5 * MIB]).send().await;
    assert_eq!(extracted.expect(200).json(), json!({ "bytes": 5 * MIB }));
}
