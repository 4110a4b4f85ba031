//! Malformed and hostile frames: other clients' channels must not stall.

use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Message};
use serde_json::json;

use super::{binary_broadcast, binary_push, expect_quiet, join_plain, send, socket};

#[tokio::test]
async fn malformed_frames_are_dropped() {
    let server = Basalt::start().await;
    let mut socket = socket(&server).await;
    join_plain(&mut socket, "1", "realtime:a").await;
    for frame in
        ["", "x", "[]", "{}", "null", r#"["1","1","realtime:a","broadcast"]"#, r#"[{},"1","t","e",{}]"#]
    {
        socket.send(frame).await;
    }
    for frame in [&b""[..], b"\x00", b"\x03\xff\xff\xff\xff\xff\x01", b"\x09abc"] {
        socket.send_binary(frame.to_vec()).await;
    }
    socket.send_binary(binary_push("1", "2", "realtime:a", "x", 1, b"{no json")).await;
    socket.send(format!(r#"["1","3","realtime:a","access_token",{}]"#, "[".repeat(100_000))).await;
    expect_quiet(&mut socket).await;
}

#[tokio::test]
async fn too_large_frame_closes_the_socket() {
    let server = Basalt::start().await;
    let mut socket = socket(&server).await;
    join_plain(&mut socket, "1", "realtime:a").await;
    socket.send_binary(vec![3; 8_000_000]).await;
    assert_eq!(socket.next().await, Message::Close { code: 1009, reason: String::new() });
}

#[tokio::test]
async fn client_that_reads_nothing_is_closed() {
    const TOPIC: &str = "realtime:room";
    let server = Basalt::start().await;
    let (mut sender, mut reader, mut unresponsive) =
        (socket(&server).await, socket(&server).await, socket(&server).await);
    for socket in [&mut sender, &mut reader, &mut unresponsive] {
        join_plain(socket, "1", TOPIC).await;
    }
    let payload = format!("\"{}\"", "a".repeat(500_000));
    let begun = Instant::now();
    for _ in 0..60 {
        sender.send_binary(binary_push("1", "2", TOPIC, "x", 1, payload.as_bytes())).await;
        assert_eq!(reader.next().await, binary_broadcast(TOPIC, "x", 1, payload.as_bytes()));
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let expected =
        [r#"basalt_realtime_sockets_closed_total{reason="overflow"} 1"#, "basalt_realtime_sockets 2"];
    loop {
        let metrics = server.get("/metrics").bearer(server.service_key()).send().await.text();
        if expected.iter().all(|line| metrics.lines().any(|each| each == *line)) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "{metrics}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn flood_of_one_client_does_not_delay_others() {
    let server = Basalt::start().await;
    let (mut flooding, mut other) = (socket(&server).await, socket(&server).await);
    join_plain(&mut flooding, "1", "realtime:flood").await;
    join_plain(&mut other, "1", "realtime:other").await;
    let flood = tokio::spawn(async move {
        for number in 0..5_000 {
            let message = json!(["1", number.to_string(), "realtime:flood", "broadcast", { "n": number }]);
            send(&mut flooding, message).await;
            if number % 10 == 0 {
                send(&mut flooding, json!(["9", "9", "realtime:nowhere", "x", {}])).await;
                flooding.next().await;
            }
        }
        flooding
    });
    let mut slowest = Duration::ZERO;
    while !flood.is_finished() {
        let begun = Instant::now();
        expect_quiet(&mut other).await;
        slowest = slowest.max(begun.elapsed());
    }
    flood.await.unwrap();
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}
