//! Several servers on one database and one NATS.

use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Message, NatsServer, WebSocket};
use serde_json::json;

use super::{binary_broadcast, binary_push, join, join_plain, next, send, socket};

const TOPIC: &str = "realtime:room";

async fn two(nats: &NatsServer) -> (Basalt, Basalt) {
    let builder = || {
        Basalt::builder().config("realtime.nats_url", &nats.url()).expect_log("lost the connection to NATS")
    };
    let one = builder().start().await;
    let two = builder().database_url(&one.database().url()).start().await;
    for server in [&one, &two] {
        until(server, "basalt_realtime_bus_nodes 1").await;
    }
    (one, two)
}

/// Waits until the metrics contain this line.
async fn until(server: &Basalt, line: &str) {
    let begun = Instant::now();
    loop {
        let metrics = server.get("/metrics").bearer(server.service_key()).send().await.text();
        if metrics.lines().any(|each| each == line) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "no {line} in\n{metrics}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn track(socket: &mut WebSocket, key: &str) {
    let config = json!({ "config": { "presence": { "key": key, "enabled": true } } });
    join(socket, "1", TOPIC, config).await;
    send(
        socket,
        json!(["1", "2", TOPIC, "presence", { "type": "presence", "event": "track", "payload": {} }]),
    )
    .await;
}

/// Reads until a presence diff has this key in its joins or leaves.
async fn until_diff(socket: &mut WebSocket, side: &str, key: &str) {
    loop {
        let message = next(socket).await;
        if message[3] == "presence_diff" && message[4][side].get(key).is_some() {
            return;
        }
    }
}

#[tokio::test]
async fn broadcasts_cross_servers_in_order() {
    let nats = NatsServer::start().await;
    let (one, two) = two(&nats).await;
    let (mut here, mut there) = (socket(&one).await, socket(&two).await);
    join_plain(&mut here, "1", TOPIC).await;
    join_plain(&mut there, "1", TOPIC).await;
    for number in 0..200 {
        let payload = format!("{{\"n\":{number}}}");
        here.send_binary(binary_push("1", "2", TOPIC, "x", 1, payload.as_bytes())).await;
    }
    for number in 0..200 {
        let payload = format!("{{\"n\":{number}}}");
        assert_eq!(there.next().await, binary_broadcast(TOPIC, "x", 1, payload.as_bytes()));
    }
    there.send_binary(binary_push("1", "3", TOPIC, "bytes", 0, b"\n\x00\xff")).await;
    assert_eq!(here.next().await, binary_broadcast(TOPIC, "bytes", 0, b"\n\x00\xff"));
    let messages = json!({ "messages": [{ "topic": "room", "event": "e", "payload": { "n": 1 } }] });
    let posted = one.post("/realtime/v1/api/broadcast").bearer(one.anon_key()).json(&messages).send().await;
    assert_eq!(posted.status, 202);
    let payload = json!({ "event": "e", "payload": { "n": 1 }, "type": "broadcast" });
    for socket in [&mut here, &mut there] {
        assert_eq!(next(socket).await, json!([null, null, TOPIC, "broadcast", payload]));
    }
}

#[tokio::test]
async fn presence_spans_servers_and_drops_dead_ones() {
    let nats = NatsServer::start().await;
    let (one, mut two) = two(&nats).await;
    let (mut ann, mut bob) = (socket(&one).await, socket(&two).await);
    track(&mut ann, "ann").await;
    until_diff(&mut ann, "joins", "ann").await;
    track(&mut bob, "bob").await;
    until_diff(&mut ann, "joins", "bob").await;
    until_diff(&mut bob, "joins", "bob").await;
    // A server that starts later learns all presences.
    let builder =
        Basalt::builder().config("realtime.nats_url", &nats.url()).expect_log("lost the connection to NATS");
    let three = builder.database_url(&one.database().url()).start().await;
    until(&three, "basalt_realtime_presences 2").await;
    let mut eve = socket(&three).await;
    let config = json!({ "config": { "presence": { "key": "eve", "enabled": true } } });
    join(&mut eve, "1", TOPIC, config).await;
    let state = next(&mut eve).await;
    let keys: Vec<&String> = state[4].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ann", "bob"]);

    two.kill();
    let begun = Instant::now();
    until_diff(&mut ann, "leaves", "bob").await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(matches!(bob.next().await, Message::Broken | Message::Text(_)));
    // The other servers continue.
    ann.send_binary(binary_push("1", "9", TOPIC, "x", 1, b"{}")).await;
    loop {
        if eve.next().await == binary_broadcast(TOPIC, "x", 1, b"{}") {
            break;
        }
    }
}

#[tokio::test]
async fn servers_serve_local_clients_without_nats_and_reconnect() {
    let nats = NatsServer::start().await;
    let (one, two) = two(&nats).await;
    let (mut ann, mut bob, mut eve) = (socket(&one).await, socket(&two).await, socket(&one).await);
    track(&mut ann, "ann").await;
    until_diff(&mut ann, "joins", "ann").await;
    track(&mut bob, "bob").await;
    until_diff(&mut ann, "joins", "bob").await;
    nats.stop();
    until_diff(&mut ann, "leaves", "bob").await;
    join_plain(&mut eve, "1", TOPIC).await;
    eve.send_binary(binary_push("1", "2", TOPIC, "alone", 1, b"{}")).await;
    assert_eq!(ann.next().await, binary_broadcast(TOPIC, "alone", 1, b"{}"));
    nats.restart().await;
    until_diff(&mut ann, "joins", "bob").await;
}
