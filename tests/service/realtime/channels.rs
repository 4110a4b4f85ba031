//! Joins, broadcasts and presence.

use basalt_testkit::{Basalt, Message};
use serde_json::{Value, json};

use super::{binary_broadcast, binary_push, expect_quiet, join, join_plain, next, old_socket, send, socket};

#[tokio::test]
async fn channel_replies_follow_the_contract() {
    let server = Basalt::start().await;
    let mut socket = socket(&server).await;
    let unmatched = json!({ "status": "error", "response": { "reason": "unmatched topic" } });
    send(&mut socket, json!([null, "1", "room", "phx_join", {}])).await;
    assert_eq!(next(&mut socket).await, json!([null, "1", "room", "phx_reply", unmatched]));
    send(&mut socket, json!(["1", "2", "realtime:a", "broadcast", {}])).await;
    assert_eq!(next(&mut socket).await, json!([null, "2", "realtime:a", "phx_reply", unmatched]));
    let refused = join(&mut socket, "3", "realtime:", json!({})).await;
    assert_eq!(refused["response"], json!({ "reason": "TopicNameRequired: You must provide a topic name" }));
    join_plain(&mut socket, "4", "realtime:a").await;
    send(&mut socket, json!(["4", "5", "realtime:a", "nonsense", {}])).await;
    expect_quiet(&mut socket).await;
    // A second join closes the first channel.
    send(&mut socket, json!(["6", "6", "realtime:a", "phx_join", {}])).await;
    assert_eq!(next(&mut socket).await, json!(["4", "4", "realtime:a", "phx_close", {}]));
    assert_eq!(next(&mut socket).await[4]["status"], "ok");
    send(&mut socket, json!(["6", "7", "realtime:a", "phx_leave", {}])).await;
    let ok = json!({ "status": "ok", "response": {} });
    assert_eq!(next(&mut socket).await, json!(["6", "7", "realtime:a", "phx_reply", ok]));
    assert_eq!(next(&mut socket).await, json!(["6", "6", "realtime:a", "phx_close", {}]));
    send(&mut socket, json!(["6", "8", "realtime:a", "phx_leave", {}])).await;
    assert_eq!(next(&mut socket).await, json!(["6", "8", "realtime:a", "phx_reply", ok]));
}

#[tokio::test]
async fn broadcasts_use_each_receivers_serializer() {
    const TOPIC: &str = "realtime:room";
    let server = Basalt::start().await;
    let (mut sender, mut new, mut old) =
        (socket(&server).await, socket(&server).await, old_socket(&server).await);
    join_plain(&mut sender, "1", TOPIC).await;
    join_plain(&mut new, "1", TOPIC).await;
    old.send(json!({ "topic": TOPIC, "event": "phx_join", "payload": {}, "ref": "1" }).to_string()).await;
    old.next().await;

    let payload = br#"{ "b":1.50, "a":[1e3] }"#;
    sender.send_binary(binary_push("1", "2", TOPIC, "Move", 1, payload)).await;
    assert_eq!(new.next().await, binary_broadcast(TOPIC, "Move", 1, payload));
    let expected = r#"{"topic":"realtime:room","event":"broadcast","payload":{"event":"Move","payload":{ "b":1.50, "a":[1e3] },"type":"broadcast"},"ref":null}"#;
    assert_eq!(old.next().await, Message::Text(expected.to_owned()));

    let text =
        r#"["1","3","realtime:room","broadcast",{ "type":"broadcast","event":"x", "payload":{"n":1.0}}]"#;
    sender.send(text).await;
    let expected =
        r#"[null,null,"realtime:room","broadcast",{ "type":"broadcast","event":"x", "payload":{"n":1.0}}]"#;
    assert_eq!(new.next().await, Message::Text(expected.to_owned()));
    old.next().await;

    sender.send_binary(binary_push("1", "4", TOPIC, "bytes", 0, b"\x00\xff")).await;
    assert_eq!(new.next().await, binary_broadcast(TOPIC, "bytes", 0, b"\x00\xff"));
    // The sender gets nothing, a 1.0.0 client no binary payload, and there is no reply.
    expect_quiet(&mut sender).await;
    sender.send(text).await;
    let Message::Text(last) = old.next().await else { panic!("no text") };
    assert!(last.contains(r#""event":"x""#), "{last}");
}

#[tokio::test]
async fn broadcast_with_ack_and_self_option() {
    let server = Basalt::builder().config("realtime.max_payload_size", "2kB").start().await;
    let mut socket = socket(&server).await;
    let config = json!({ "config": { "broadcast": { "ack": true, "self": true } } });
    join(&mut socket, "1", "realtime:a", config).await;
    socket.send_binary(binary_push("1", "2", "realtime:a", "x", 1, b"{}")).await;
    assert_eq!(socket.next().await, binary_broadcast("realtime:a", "x", 1, b"{}"));
    let ok = json!({ "status": "ok", "response": {} });
    assert_eq!(next(&mut socket).await, json!(["1", "2", "realtime:a", "phx_reply", ok]));
    let long = format!("\"{}\"", "a".repeat(3000));
    socket.send_binary(binary_push("1", "3", "realtime:a", "x", 1, long.as_bytes())).await;
    let refused = json!({ "status": "error", "response": "payload_size_exceeded" });
    assert_eq!(next(&mut socket).await, json!(["1", "3", "realtime:a", "phx_reply", refused]));
}

fn presence(reference: &str, event: &str, payload: &Value) -> Value {
    json!(["1", reference, "realtime:a", "presence", { "type": "presence", "event": event, "payload": payload }])
}

/// Reads until a message with this event and returns its payload.
async fn until(socket: &mut basalt_testkit::WebSocket, event: &str) -> Value {
    loop {
        let message = next(socket).await;
        if message[3] == event {
            return message[4].clone();
        }
    }
}

#[tokio::test]
async fn presence_is_tracked_updated_and_untracked() {
    let server = Basalt::start().await;
    let (mut ann, mut bob) = (socket(&server).await, socket(&server).await);
    let config = |key: &str| json!({ "config": { "presence": { "key": key, "enabled": true } } });
    join(&mut ann, "1", "realtime:a", config("ann")).await;
    assert_eq!(next(&mut ann).await, json!(["1", null, "realtime:a", "presence_state", {}]));
    send(&mut ann, presence("2", "track", &json!({ "n": 1 }))).await;
    let joined = until(&mut ann, "presence_diff").await;
    let first = joined["joins"]["ann"]["metas"][0]["phx_ref"].clone();
    assert_eq!(
        joined,
        json!({ "joins": { "ann": { "metas": [{ "n": 1, "phx_ref": first }] } }, "leaves": {} })
    );
    join(&mut bob, "1", "realtime:a", config("bob")).await;
    assert_eq!(until(&mut bob, "presence_state").await, joined["joins"]);
    send(&mut ann, presence("3", "TRACK", &json!({ "n": 2 }))).await;
    let changed = until(&mut bob, "presence_diff").await;
    assert_eq!(changed["leaves"], joined["joins"]);
    assert_eq!(changed["joins"]["ann"]["metas"][0]["phx_ref_prev"], first);
    // An unchanged payload is not broadcast again.
    send(&mut ann, presence("4", "track", &json!({ "n": 2 }))).await;
    drop(ann);
    let gone = until(&mut bob, "presence_diff").await;
    assert_eq!(gone, json!({ "joins": {}, "leaves": changed["joins"] }));
    send(&mut bob, presence("5", "track", &json!([1]))).await;
    let response = until(&mut bob, "phx_reply").await;
    assert_eq!(response["response"], json!({ "reason": "Presence track payload must be a map" }));
}

#[tokio::test]
async fn excessive_presence_tracking_closes_the_channel() {
    let server = Basalt::start().await;
    let mut socket = socket(&server).await;
    join_plain(&mut socket, "1", "realtime:a").await;
    send(&mut socket, presence("2", "track", &json!({}))).await;
    assert_eq!(next(&mut socket).await[3], "presence_state");
    for number in 0..100 {
        send(&mut socket, presence("3", "track", &json!({ "n": number }))).await;
    }
    let last = until(&mut socket, "system").await;
    let expected = json!({ "extension": "system", "status": "error", "message": "Client presence rate limit exceeded", "channel": "a" });
    assert_eq!(last, expected);
    assert_eq!(until(&mut socket, "phx_close").await, json!({}));
}

#[tokio::test]
async fn presences_per_socket_are_limited_and_freed() {
    let server = Basalt::start().await;
    let mut socket = socket(&server).await;
    let large = "a".repeat(2_900_000);
    let track = |topic: &str| {
        let payload = json!({ "type": "presence", "event": "track", "payload": { "x": large } });
        json!(["1", "2", topic, "presence", payload])
    };
    let mut accepted = 0;
    loop {
        let topic = format!("realtime:{accepted}");
        join_plain(&mut socket, "1", &topic).await;
        send(&mut socket, track(&topic)).await;
        let response = until(&mut socket, "phx_reply").await;
        if response["status"] != "ok" {
            assert_eq!(response["response"], json!({ "reason": "Too many presences" }));
            break;
        }
        accepted += 1;
    }
    assert!((2..6).contains(&accepted), "{accepted}");
    let bytes = async |least: f64| {
        let metrics = server.get("/metrics").bearer(server.service_key()).send().await.text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("basalt_realtime_presence_bytes "));
        let bytes: f64 = line.unwrap().parse().unwrap();
        assert!((least..=16.0 * 1024.0 * 1024.0).contains(&bytes), "{bytes}");
        bytes
    };
    assert!(bytes(5e6).await > 0.0);
    // The channel stays open, and once another presence ends it can track its own.
    send(&mut socket, json!(["1", "3", "realtime:0", "phx_leave", {}])).await;
    until(&mut socket, "phx_close").await;
    send(&mut socket, track(&format!("realtime:{accepted}"))).await;
    assert_eq!(until(&mut socket, "phx_reply").await["status"], "ok");
}
