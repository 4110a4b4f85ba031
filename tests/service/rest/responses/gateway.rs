//! The gateway in front of REST (rest.md §3.20).

use std::io::{Read, Write};

use basalt_testkit::{Basalt, Request};
use http::Method;
use serde_json::{Value, json};

use super::super::{anon, get};
use super::schema_server;

/// A request without a key.
fn bare(server: &Basalt, path: &str) -> Request {
    server.get(&format!("/rest/v1{path}"))
}

async fn role(request: Request) -> Value {
    request.send().await.expect(200).json()["role"].clone()
}

#[tokio::test]
async fn token_takes_precedence_over_key() {
    let server = schema_server().start().await;
    let path = "/rpc/request";
    let (anon_key, service_key) = (server.anon_key(), server.service_key());
    let (publishable, secret) = (server.publishable_key(), server.secret_key());
    for (key, expected) in
        [(anon_key, "anon"), (service_key, "service_role"), (publishable, "anon"), (secret, "service_role")]
    {
        // As a header, also as bearer, and in the query.
        assert_eq!(role(bare(&server, path).apikey(key)).await, expected);
        assert_eq!(role(bare(&server, path).apikey(key).bearer(key)).await, expected);
        assert_eq!(role(bare(&server, &format!("{path}?apikey={key}"))).await, expected);
        // A user's token takes precedence over each key.
        let user = server.token_of("authenticated");
        assert_eq!(role(bare(&server, path).apikey(key).bearer(&user)).await, "authenticated");
    }
    // A key as bearer is ignored when another key is sent as `apikey`.
    assert_eq!(role(bare(&server, path).apikey(publishable).bearer(secret)).await, "anon");
    assert_eq!(role(bare(&server, path).apikey(secret).bearer(publishable)).await, "service_role");
    // A legacy key as bearer is an ordinary token.
    assert_eq!(role(bare(&server, path).apikey(publishable).bearer(service_key)).await, "service_role");
    // Other schemes are ignored.
    let basic = bare(&server, path).apikey(anon_key).header("authorization", "Basic dXNlcjpw");
    assert_eq!(role(basic).await, "anon");
}

#[tokio::test]
async fn missing_or_unknown_key_is_rejected() {
    let server = schema_server().start().await;
    let missing = json!({
        "message": "No API key found in request",
        "hint": "No `apikey` request header or url param was found.",
    });
    let invalid = json!({"message": "Invalid API key", "hint": "Double check your API key."});
    let user = server.token_of("authenticated");
    for (request, body) in [
        (bare(&server, "/owners"), &missing),
        (bare(&server, "/owners").bearer(&user), &missing),
        (bare(&server, "/owners").bearer(server.service_key()), &missing),
        (bare(&server, "/owners").header("apikey", ""), &missing),
        (bare(&server, "/owners?apikey="), &missing),
        (bare(&server, "/"), &missing),
        (bare(&server, "/no/such/path"), &missing),
        (bare(&server, "/owners").apikey("sb_publishable_other"), &invalid),
        (bare(&server, "/owners").apikey("nonsense").bearer(&user), &invalid),
        (bare(&server, "/owners?apikey=nonsense"), &invalid),
    ] {
        let shown = format!("{request:?}");
        let response = request.send().await;
        assert_eq!((response.status.as_u16(), &response.json()), (401, body), "{shown}");
        assert_eq!(response.header("content-type"), "application/json; charset=utf-8");
    }
}

#[tokio::test]
async fn gateway_strips_key_and_nameless_parameters() {
    let server = schema_server().expect_log("server.trusted_proxies").start().await;
    let key = server.publishable_key();
    let response =
        bare(&server, &format!("/owners?=x&apikey={key}&select=id&=&id=eq.1")).send().await.expect(200);
    assert_eq!(response.json(), json!([{"id": 1}]));
    assert_eq!(response.header("content-location"), "/owners?id=eq.1&select=id");
    let seen = bare(&server, "/rpc/request?=x")
        .apikey(key)
        .header("x-forwarded-for", "203.0.113.9")
        .header("user-agent", "test/1")
        .header("X-Mine", "yes")
        .header("cookie", "a=b")
        .header("x-client-info", "supabase-js/2")
        .send()
        .await
        .expect(200)
        .json();
    let headers = &seen["headers"];
    assert!(headers["apikey"].is_null() && headers["cookie"].is_null(), "{headers}");
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1", "an untrusted peer's header is dropped");
    assert_eq!(headers["user-agent"], "test/1");
    assert_eq!(headers["x-mine"], "yes");
    assert_eq!(headers["x-client-info"], "supabase-js/2");
    assert_eq!(headers["authorization"], format!("Bearer {}", server.anon_key()));
    assert_eq!((&seen["path"], &seen["method"]), (&json!("/rpc/request"), &json!("GET")));
    // Unchanged, without the prefix.
    let encoded = get(&server, "/%72pc/request").await.expect(200);
    assert_eq!(encoded.json()["path"], "/%72pc/request");
}

#[tokio::test]
async fn paths_must_match_exactly() {
    let server = schema_server().start().await;
    for path in ["", "/", "/?select=x", "?x=y"] {
        assert_eq!(get(&server, path).await.expect(200).json()["swagger"], "2.0", "{path:?}");
    }
    for path in ["/owners/", "//owners", "/owners/1", "/rpc/", "/rpc/none/", "/rpc/none/x", "//", "/a/b/c"] {
        let response = get(&server, path).await;
        let body = json!({
            "code": "PGRST125", "details": null, "hint": null, "message": "Invalid path specified in request URL",
        });
        assert_eq!((response.status.as_u16(), response.json()), (404, body), "{path}");
    }
}

#[tokio::test]
async fn accepts_request_lines_of_64_kib() {
    let server = schema_server().start().await;
    let ids: Vec<String> = (0..10_900).map(|id| (id % 9 + 10_000).to_string()).collect();
    let path = format!("/owners?select=id&id=in.(1,{})", ids.join(","));
    assert!((65_000..65_500).contains(&path.len()), "{}", path.len());
    assert_eq!(get(&server, &path).await.expect(200).json(), json!([{"id": 1}]));
}

#[tokio::test]
async fn compresses_json_and_csv_from_100_bytes() {
    let server = schema_server().start().await;
    let packed = |path: &'static str, accept: &'static str, encodings: &'static str| {
        anon(&server, Method::GET, path).header("accept", accept).header("accept-encoding", encodings).send()
    };
    for (encodings, expected) in
        [("gzip", "gzip"), ("br", "br"), ("gzip, deflate, br", "br"), ("identity", "")]
    {
        for accept in ["application/json", "text/csv", "application/vnd.pgrst.array+json;nulls=stripped"] {
            let response = packed("/things", accept, encodings).await.expect(200);
            assert_eq!(response.header("content-encoding"), expected, "{encodings} {accept}");
        }
    }
    assert_eq!(packed("/owners?id=eq.1", "*/*", "gzip").await.header("content-encoding"), "", "too short");
    let plain = get(&server, "/things?order=id").await;
    let packed = packed("/things?order=id", "application/json", "gzip").await;
    assert!(packed.body.len() < plain.body.len());
    assert_eq!(packed.body.get(..2), Some([0x1f, 0x8b].as_slice()));
    let headed = anon(&server, Method::HEAD, "/things").header("accept-encoding", "gzip").send().await;
    assert!(headed.body.is_empty() && !headed.headers.contains_key("content-length"));
}

#[tokio::test]
async fn too_large_body_gets_a_rest_error() {
    let server = schema_server().config("rest.max_body_bytes", "1000").start().await;
    let big = json!({"id": 9, "name": "x".repeat(2000)});
    let response = anon(&server, Method::POST, "/owners").json(&big).send().await;
    assert_eq!(response.status, 413);
    assert_eq!(response.json()["message"], "The request body is larger than 1000 bytes");
    // Without a content-length, the bytes are counted.
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let head = format!(
        "POST /rest/v1/owners HTTP/1.1\r\nhost: x\r\nconnection: close\r\napikey: {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n7d0\r\n{}\r\n0\r\n\r\n",
        server.anon_key(),
        "[".repeat(2000)
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut response = Vec::new();
    let _length = socket.read_to_end(&mut response).unwrap();
    assert!(
        String::from_utf8_lossy(&response).starts_with("HTTP/1.1 413 "),
        "{}",
        String::from_utf8_lossy(&response)
    );
}

#[tokio::test]
async fn slow_request_times_out() {
    let server = schema_server().config("rest.timeout", "1s").expect_log("").start().await;
    let slow = anon(&server, Method::POST, "/rpc/wait").json(&json!({"seconds": 2.5})).send().await;
    assert_eq!(slow.status, 504);
    assert_eq!(slow.header("content-type"), "application/json; charset=utf-8");
    assert!(slow.json()["message"].is_string());
}
