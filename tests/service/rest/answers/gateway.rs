//! What the gateway does before and after (rest.md §3.20).

use std::io::{Read, Write};

use basalt_testkit::{Basalt, Request};
use http::Method;
use serde_json::{Value, json};

use super::super::{anon, get};
use super::answers;

/// Without any key.
fn bare(server: &Basalt, path: &str) -> Request {
    server.get(&format!("/rest/v1{path}"))
}

async fn role(request: Request) -> Value {
    request.send().await.expect(200).json()["role"].clone()
}

#[tokio::test]
async fn who_is_calling_by_key_and_token() {
    let server = answers().start().await;
    let path = "/rpc/request";
    let (anon_key, service_key) = (server.anon_key(), server.service_key());
    let (publishable, secret) = (server.publishable_key(), server.secret_key());
    for (key, expected) in
        [(anon_key, "anon"), (service_key, "service_role"), (publishable, "anon"), (secret, "service_role")]
    {
        // The key alone, as its own bearer, and in the query.
        assert_eq!(role(bare(&server, path).apikey(key)).await, expected);
        assert_eq!(role(bare(&server, path).apikey(key).bearer(key)).await, expected);
        assert_eq!(role(bare(&server, &format!("{path}?apikey={key}"))).await, expected);
        // A user's token wins over each of them.
        let user = server.token_of("authenticated");
        assert_eq!(role(bare(&server, path).apikey(key).bearer(&user)).await, "authenticated");
    }
    // The bearer of a key says nothing when another key is sent beside it.
    assert_eq!(role(bare(&server, path).apikey(publishable).bearer(secret)).await, "anon");
    assert_eq!(role(bare(&server, path).apikey(secret).bearer(publishable)).await, "service_role");
    // A legacy key as bearer is a token as others.
    assert_eq!(role(bare(&server, path).apikey(publishable).bearer(service_key)).await, "service_role");
    // Another scheme is no token.
    let basic = bare(&server, path).apikey(anon_key).header("authorization", "Basic dXNlcjpw");
    assert_eq!(role(basic).await, "anon");
}

#[tokio::test]
async fn without_a_known_key_nobody_gets_in() {
    let server = answers().start().await;
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
        let answer = request.send().await;
        assert_eq!((answer.status.as_u16(), &answer.json()), (401, body), "{shown}");
        assert_eq!(answer.header("content-type"), "application/json; charset=utf-8");
    }
}

#[tokio::test]
async fn the_key_and_nameless_parameters_are_gone_behind_the_gate() {
    let server = answers().expect_log("server.trusted_proxies").start().await;
    let key = server.publishable_key();
    let answer =
        bare(&server, &format!("/owners?=x&apikey={key}&select=id&=&id=eq.1")).send().await.expect(200);
    assert_eq!(answer.json(), json!([{"id": 1}]));
    assert_eq!(answer.header("content-location"), "/owners?id=eq.1&select=id");
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
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1", "what an untrusted peer sent is dropped");
    assert_eq!(headers["user-agent"], "test/1");
    assert_eq!(headers["x-mine"], "yes");
    assert_eq!(headers["x-client-info"], "supabase-js/2");
    assert_eq!(headers["authorization"], format!("Bearer {}", server.anon_key()));
    assert_eq!((&seen["path"], &seen["method"]), (&json!("/rpc/request"), &json!("GET")));
    // As it was sent, without the prefix.
    let encoded = get(&server, "/%72pc/request").await.expect(200);
    assert_eq!(encoded.json()["path"], "/%72pc/request");
}

#[tokio::test]
async fn paths_are_exact() {
    let server = answers().start().await;
    for path in ["", "/", "/?select=x", "?x=y"] {
        assert_eq!(get(&server, path).await.expect(200).json()["swagger"], "2.0", "{path:?}");
    }
    for path in ["/owners/", "//owners", "/owners/1", "/rpc/", "/rpc/none/", "/rpc/none/x", "//", "/a/b/c"] {
        let answer = get(&server, path).await;
        let body = json!({
            "code": "PGRST125", "details": null, "hint": null, "message": "Invalid path specified in request URL",
        });
        assert_eq!((answer.status.as_u16(), answer.json()), (404, body), "{path}");
    }
}

#[tokio::test]
async fn request_lines_of_64_kib_are_read() {
    let server = answers().start().await;
    let ids: Vec<String> = (0..10_900).map(|id| (id % 9 + 10_000).to_string()).collect();
    let path = format!("/owners?select=id&id=in.(1,{})", ids.join(","));
    assert!((65_000..65_500).contains(&path.len()), "{}", path.len());
    assert_eq!(get(&server, &path).await.expect(200).json(), json!([{"id": 1}]));
}

#[tokio::test]
async fn json_and_csv_are_compressed_from_a_hundred_bytes_on() {
    let server = answers().start().await;
    let packed = |path: &'static str, accept: &'static str, encodings: &'static str| {
        anon(&server, Method::GET, path).header("accept", accept).header("accept-encoding", encodings).send()
    };
    for (encodings, expected) in
        [("gzip", "gzip"), ("br", "br"), ("gzip, deflate, br", "br"), ("identity", "")]
    {
        for accept in ["application/json", "text/csv", "application/vnd.pgrst.array+json;nulls=stripped"] {
            let answer = packed("/things", accept, encodings).await.expect(200);
            assert_eq!(answer.header("content-encoding"), expected, "{encodings} {accept}");
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
async fn a_body_over_the_limit_is_refused_in_the_services_shape() {
    let server = answers().config("rest.max_body_bytes", "1000").start().await;
    let big = json!({"id": 9, "name": "x".repeat(2000)});
    let answer = anon(&server, Method::POST, "/owners").json(&big).send().await;
    assert_eq!(answer.status, 413);
    assert_eq!(answer.json()["message"], "The request body is larger than 1000 bytes");
    // Sent without a length, it is counted.
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let head = format!(
        "POST /rest/v1/owners HTTP/1.1\r\nhost: x\r\nconnection: close\r\napikey: {}\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n7d0\r\n{}\r\n0\r\n\r\n",
        server.anon_key(),
        "[".repeat(2000)
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _length = socket.read_to_end(&mut answer).unwrap();
    assert!(
        String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 413 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[tokio::test]
async fn a_request_has_a_deadline() {
    let server = answers().config("rest.timeout", "1s").expect_log("").start().await;
    let slow = anon(&server, Method::POST, "/rpc/wait").json(&json!({"seconds": 2.5})).send().await;
    assert_eq!(slow.status, 504);
    assert_eq!(slow.header("content-type"), "application/json; charset=utf-8");
    assert!(slow.json()["message"].is_string());
}
