//! Broadcasts through the HTTP API.

use basalt_testkit::{Basalt, Message};
use http::Method;
use serde_json::{Value, json};

use super::{binary_broadcast, join_plain, next, socket};

#[tokio::test]
async fn batch_is_delivered_completely_or_not_at_all() {
    let server = Basalt::start().await;
    let mut socket = socket(&server).await;
    join_plain(&mut socket, "1", "realtime:room").await;
    let post = |body: Value| {
        let request = server.request(Method::POST, "/realtime/v1/api/broadcast?apikey=x&vsn=2.0.0");
        request.bearer(server.anon_key()).json(&body)
    };
    let id = "0a0a0a0a-0000-4000-8000-000000000001";
    let good = json!({ "topic": "room", "event": "e", "payload": { "n": 1 } });
    let mut named = good.clone();
    named["id"] = json!(id);
    let response = post(json!({ "messages": [good, named] })).send().await;
    assert_eq!((response.status.as_u16(), response.text().as_str()), (202, ""));
    let plain = json!({ "event": "e", "payload": { "n": 1 }, "type": "broadcast" });
    assert_eq!(next(&mut socket).await, json!([null, null, "realtime:room", "broadcast", plain]));
    let meta = json!({ "event": "e", "payload": { "n": 1 }, "type": "broadcast", "meta": { "id": id } });
    assert_eq!(next(&mut socket).await, json!([null, null, "realtime:room", "broadcast", meta]));

    let blank = json!({ "topic": "room" });
    let response = post(json!({ "messages": [blank, good] })).send().await;
    let errors = json!({ "errors": { "messages": [{ "event": ["can't be blank"], "payload": ["can't be blank"] }, {}] } });
    assert_eq!(
        (response.status.as_u16(), serde_json::from_str::<Value>(&response.text()).unwrap()),
        (422, errors)
    );
    let response = post(json!({ "messages": [] })).send().await;
    assert_eq!(
        (response.status.as_u16(), response.text().as_str()),
        (422, r#"{"errors":{"messages":["can't be blank"]}}"#)
    );
    for bad in [json!([1]), json!({ "messages": 5 })] {
        assert_eq!(post(bad).send().await.status, 400);
    }
    let unknown =
        server.request(Method::POST, "/realtime/v1/api/broadcast").json(&json!({ "messages": [good] }));
    let response = unknown.send().await;
    assert_eq!((response.status.as_u16(), response.text().as_str()), (401, r#"{"message":"Unauthorized"}"#));
    // Messages to private topics without permission are dropped silently.
    let private = json!({ "topic": "room", "event": "e", "payload": {}, "private": true });
    assert_eq!(post(json!({ "messages": [private] })).send().await.status, 202);
    super::expect_quiet(&mut socket).await;
}

#[tokio::test]
async fn single_message_can_be_json_or_binary() {
    let server = Basalt::start().await;
    let mut socket = socket(&server).await;
    join_plain(&mut socket, "1", "realtime:a b").await;
    let post = |query: &str, media: &str, body: &[u8]| {
        let request =
            server.request(Method::POST, &format!("/realtime/v1/api/broadcast/a%20b/events/e%2F1{query}"));
        request.header("apikey", server.publishable_key()).header("content-type", media).body(body.to_vec())
    };
    assert_eq!(post("", "application/json", br#"{ "n":1.0 }"#).send().await.status, 202);
    assert_eq!(socket.next().await, binary_broadcast("realtime:a b", "e/1", 1, br#"{ "n":1.0 }"#));
    assert_eq!(post("", "application/octet-stream", b"\xff").send().await.status, 202);
    assert_eq!(socket.next().await, binary_broadcast("realtime:a b", "e/1", 0, b"\xff"));
    assert_eq!(post("", "application/json", b"[1]").send().await.status, 202);
    assert!(matches!(socket.next().await, Message::Binary(frame) if frame.ends_with(br#"{"_json":[1]}"#)));
    for (query, media, body, status) in [
        ("", "application/json", &b"{"[..], 400),
        ("", "text/plain", b"x", 415),
        ("?private=true", "application/json", b"{}", 403),
    ] {
        assert_eq!(post(query, media, body).send().await.status, status, "{media} {query}");
    }
    let response = server.get("/realtime/v1/api/ping").send().await;
    assert_eq!(response.text(), r#"{"message":"Success"}"#);
}

#[tokio::test]
async fn responses_carry_rates_and_cors_headers() {
    let server = Basalt::start().await;
    let message = json!({ "topic": "room", "event": "e", "payload": {} });
    let batch = || server.post("/realtime/v1/api/broadcast").json(&json!({ "messages": [message] }));
    let one = || server.post("/realtime/v1/api/broadcast/room/events/e");
    for (request, status) in [
        (batch().bearer(server.anon_key()), 202),
        (one().bearer(server.anon_key()), 202),
        (batch(), 401),
        (one(), 401),
    ] {
        for origin in [None, Some("https://a.example")] {
            let request = request.clone();
            let request = match origin {
                Some(origin) => request.header("origin", origin),
                None => request,
            };
            let response = request.send().await.expect(status);
            assert_eq!(response.header("access-control-allow-origin"), "*", "{status} {origin:?}");
            let rate = |name: &str| response.header(name).parse::<u64>().unwrap();
            let (rolling, limit) = (rate("x-rate-rolling"), rate("x-rate-limit"));
            // No limit is configured, so the remaining rate is never exhausted.
            assert!(limit > 0 && rolling < limit, "{rolling} of {limit}");
            assert_eq!(rate("x-rate-limit-remaining"), limit - rolling);
        }
    }
}

#[tokio::test]
async fn persist_needs_a_private_channel() {
    let server = Basalt::start().await;
    let post = |query: &str| {
        let request = server.post(&format!("/realtime/v1/api/broadcast/room/events/e{query}"));
        request.bearer(server.service_key()).send()
    };
    for query in
        ["?persist=true", "?persist[ttl]=60", "?persist%5Bttl%5D=60&private=false", "?apikey=x&persist=true"]
    {
        let refused = post(query).await.expect(422);
        assert_eq!(refused.text(), r#"{"errors":{"persist":["can only be used on private channels"]}}"#);
    }
    for query in ["?persist=false", "?private=true&persist=true", "?private=true&persist%5Bttl%5D=60"] {
        post(query).await.expect(202);
    }
}
