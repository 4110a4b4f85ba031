//! The WebSocket handshake, connection limits, and closing.

use basalt_testkit::{Basalt, Message};
use http::Method;
use serde_json::json;

use super::{FAR, expect_quiet, join_plain, old_socket, path, send, socket};

#[tokio::test]
async fn invalid_requests_get_specific_errors() {
    let server = Basalt::start().await;
    let expired = server.token(&json!({ "role": "anon", "exp": 1 }));
    let roleless = server.token(&json!({ "exp": FAR }));
    let good = server.publishable_key();
    for (query, status, text) in [
        (String::new(), 401, "API key is missing"),
        ("apikey=".to_owned(), 401, "API key is missing"),
        ("apikey=nonsense".to_owned(), 401, "The token provided is not a valid JWT"),
        ("apikey=sb_publishable_nonsense".to_owned(), 401, "The token provided is not a valid JWT"),
        (format!("apikey={expired}"), 401, "Token has expired"),
        (format!("apikey={roleless}"), 401, "Fields `role` and `exp` are required in JWT"),
        (format!("apikey={}x", server.anon_key()), 401, "Failed to validate JWT signature"),
        (format!("apikey={good}&vsn=3.0.0"), 403, ""),
        (format!("vsn=nonsense&apikey={good}"), 403, ""),
    ] {
        let response = server.try_websocket(&format!("/realtime/v1/websocket?{query}")).await.unwrap_err();
        let body = if text.is_empty() { String::new() } else { json!({ "error": text }).to_string() };
        assert_eq!((response.status.as_u16(), response.text()), (status, body), "{query}");
    }
    let plain = server.request(Method::GET, &path(&server, "2.0.0")).send().await;
    assert_eq!(plain.status, 400);
}

#[tokio::test]
async fn server_stop_closes_sockets_with_1012() {
    let mut server = Basalt::start().await;
    let (mut new, mut old) = (socket(&server).await, old_socket(&server).await);
    join_plain(&mut new, "1", "realtime:room").await;
    expect_quiet(&mut new).await;
    old.send(json!({ "topic": "phoenix", "event": "heartbeat", "payload": {}, "ref": "9" }).to_string())
        .await;
    let response = json!({ "topic": "phoenix", "event": "phx_reply", "payload": { "status": "ok", "response": {} }, "ref": "9" });
    let Message::Text(text) = old.next().await else { panic!("no reply") };
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), response);
    server.stop().await;
    for socket in [&mut new, &mut old] {
        assert_eq!(socket.next().await, Message::Close { code: 1012, reason: String::new() });
    }
}

#[tokio::test]
async fn users_and_channels_are_limited() {
    let server = Basalt::builder()
        .config("realtime.max_concurrent_users", "1")
        .config("realtime.max_channels_per_client", "2")
        .start()
        .await;
    let mut first = socket(&server).await;
    let mut second = socket(&server).await;
    join_plain(&mut first, "1", "realtime:a").await;
    join_plain(&mut first, "2", "realtime:b").await;
    let refused = super::join(&mut first, "3", "realtime:c", json!({ "config": {} })).await;
    assert_eq!(refused["response"]["reason"], "ChannelRateLimitReached: Too many channels");
    let refused = super::join(&mut second, "1", "realtime:a", json!({ "config": {} })).await;
    assert_eq!(refused["response"]["reason"], "ConnectionRateLimitReached: Too many connected users");
    let response = server.try_websocket(&path(&server, "2.0.0")).await.unwrap_err();
    assert_eq!(
        (response.status.as_u16(), response.text().as_str()),
        (429, r#"{"error":"Too many connected users"}"#)
    );
    drop(server);

    let server = Basalt::builder().config("realtime.max_joins_per_second", "1").start().await;
    let mut socket = socket(&server).await;
    for number in 0..40 {
        send(&mut socket, json!([number.to_string(), number.to_string(), "realtime:a", "phx_join", {}]))
            .await;
    }
    let end = loop {
        match socket.next().await {
            Message::Text(_) => {}
            other @ (Message::Binary(_) | Message::Close { .. } | Message::Broken) => break other,
        }
    };
    assert_eq!(end, Message::Close { code: 1001, reason: String::new() });
}

#[tokio::test]
async fn secret_key_from_a_browser_is_rejected() {
    const BROWSER: [(&str, &str); 2] =
        [("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"), ("origin", "https://app.example.org")];
    const MESSAGE: &str = "Forbidden use of secret API key in browser";
    let server = Basalt::start().await;
    for key in [server.secret_key(), server.service_key()] {
        let url = format!("/realtime/v1/websocket?apikey={key}&vsn=2.0.0");
        let response = server.try_websocket_with(&url, &BROWSER).await.unwrap_err();
        assert_eq!((response.status.as_u16(), response.json()), (401, json!({ "error": MESSAGE })));
        let by_header = [BROWSER[0], ("x-api-key", key)];
        let response = server.try_websocket_with("/realtime/v1/websocket", &by_header).await.unwrap_err();
        assert_eq!(response.status.as_u16(), 401);
        // Accepted from a server.
        let mut socket = server.try_websocket_with(&url, &[("user-agent", "node")]).await.unwrap();
        join_plain(&mut socket, "1", "realtime:a").await;
    }
    let mut socket = server.try_websocket_with(&path(&server, "2.0.0"), &BROWSER).await.unwrap();
    let secret = json!({ "access_token": server.service_key() });
    let refused = super::join(&mut socket, "1", "realtime:a", secret.clone()).await;
    assert_eq!(refused["response"]["reason"], format!("Unauthorized: {MESSAGE}"));
    // An opaque key as token stands for the connection's key.
    let opaque = json!({ "access_token": server.secret_key() });
    assert_eq!(super::join(&mut socket, "2", "realtime:a", opaque).await["status"], "ok");
    send(&mut socket, json!(["2", "3", "realtime:a", "access_token", secret])).await;
    assert_eq!(super::next(&mut socket).await[4]["message"], MESSAGE);
    assert_eq!(super::next(&mut socket).await[3], "phx_close");
    // A user's token with that role is allowed in a browser.
    let person = server.token(&json!({ "role": "service_role", "sub": "ann", "exp": FAR }));
    let joined = super::join(&mut socket, "4", "realtime:a", json!({ "access_token": person })).await;
    assert_eq!(joined["status"], "ok");
    drop(server);

    let lenient = Basalt::builder().config("server.secret_keys_in_browsers", "true").start().await;
    let url = format!("/realtime/v1/websocket?apikey={}", lenient.secret_key());
    assert!(lenient.try_websocket_with(&url, &BROWSER).await.is_ok());
}
