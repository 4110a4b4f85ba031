//! `/realtime/v1` frame by frame, against realtime.md: a real server on a real PostgreSQL. Tests with the unmodified client are
//! in `conformance/`.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers fail a test by panicking"
)]

mod broadcast_api;
mod channels;
mod handshake;
mod hostile;
mod private_channels;
mod several_servers;

use basalt_testkit::{Basalt, Message, WebSocket};
use serde_json::{Value, json};

/// The `exp` of these tests' tokens.
const FAR: u32 = 4_102_444_800;

/// A socket with serializer 2.0.0 and the publishable key.
async fn socket(server: &Basalt) -> WebSocket {
    server.websocket(&path(server, "2.0.0")).await
}

/// A socket with serializer 1.0.0.
async fn old_socket(server: &Basalt) -> WebSocket {
    server.websocket(&path(server, "1.0.0")).await
}

fn path(server: &Basalt, version: &str) -> String {
    format!("/realtime/v1/websocket?apikey={}&vsn={version}", server.publishable_key())
}

/// Sends `[join_ref, ref, topic, event, payload]`.
async fn send(socket: &mut WebSocket, message: Value) {
    socket.send(message.to_string()).await;
}

/// The next text message.
async fn next(socket: &mut WebSocket) -> Value {
    match socket.next().await {
        Message::Text(text) => serde_json::from_str(&text).unwrap(),
        other @ (Message::Binary(_) | Message::Close { .. } | Message::Broken) => {
            panic!("no text message: {other:?}")
        }
    }
}

/// Joins with ref and join_ref `reference` and returns the reply's payload.
async fn join(socket: &mut WebSocket, reference: &str, topic: &str, payload: Value) -> Value {
    send(socket, json!([reference, reference, topic, "phx_join", payload])).await;
    let response = next(socket).await;
    let head = &response.as_array().unwrap()[..4];
    assert_eq!(head, [json!(reference), json!(reference), json!(topic), json!("phx_reply")], "{response}");
    response[4].clone()
}

/// Joins with an empty configuration.
async fn join_plain(socket: &mut WebSocket, reference: &str, topic: &str) {
    let response = join(socket, reference, topic, json!({ "config": {} })).await;
    assert_eq!(response, json!({ "status": "ok", "response": { "postgres_changes": [] } }));
}

/// Sends a heartbeat and checks that its reply is the next message, so that no other message arrived.
async fn expect_quiet(socket: &mut WebSocket) {
    send(socket, json!([null, "beat", "phoenix", "heartbeat", {}])).await;
    let response = next(socket).await;
    assert_eq!(response, json!([null, "beat", "phoenix", "phx_reply", { "status": "ok", "response": {} }]));
}

/// A broadcast in a binary frame.
fn binary_push(
    join_ref: &str,
    reference: &str,
    topic: &str,
    event: &str,
    encoding: u8,
    payload: &[u8],
) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    let mut frame = vec![3, length(join_ref), length(reference), length(topic), length(event), 0, encoding];
    for part in [join_ref.as_bytes(), reference.as_bytes(), topic.as_bytes(), event.as_bytes(), payload] {
        frame.extend_from_slice(part);
    }
    frame
}

/// The broadcast frame that receivers get.
fn binary_broadcast(topic: &str, event: &str, encoding: u8, payload: &[u8]) -> Message {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    let mut frame = vec![4, length(topic), length(event), 0, encoding];
    for part in [topic.as_bytes(), event.as_bytes(), payload] {
        frame.extend_from_slice(part);
    }
    Message::Binary(frame.into())
}
