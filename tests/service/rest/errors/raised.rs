//! Errors raised by SQL: `PTnnn` and `PGRST`.

use std::io::{Read, Write};

use basalt_testkit::{Basalt, Response};
use http::Method;
use serde_json::{Value, json};

use super::super::anon;
use super::{check, schema_server};

async fn fail(server: &Basalt, arguments: &Value) -> Response {
    anon(server, Method::POST, "/rpc/fail").json(arguments).send().await
}

/// The status line of the response, with its reason phrase.
fn status_line(server: &Basalt, arguments: &Value) -> String {
    let body = arguments.to_string();
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let request = format!(
        "POST /rest/v1/rpc/fail HTTP/1.1\r\nhost: x\r\nconnection: close\r\napikey: {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.anon_key(),
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    let _length = socket.read_to_end(&mut response).unwrap();
    String::from_utf8_lossy(&response).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn ptnnn_sets_status_and_reason_phrase() {
    let server = schema_server().expect_log("").start().await;
    for (code, status) in [
        ("PT402", 402),
        ("PT200", 200),
        ("PT299", 299),
        ("PT404", 404),
        ("PT418", 418),
        ("PT429", 429),
        ("PT500", 500),
        ("PT599", 599),
        ("PT999", 999),
        ("PT40A", 500),
        ("PTABC", 500),
        // Not a final status.
        ("PT000", 500),
        ("PT099", 500),
        ("PT100", 500),
        ("PT101", 500),
    ] {
        let arguments =
            json!({"code": code, "message": "Payment Required", "detail": "Quota", "hint": "Upgrade"});
        let response = fail(&server, &arguments).await;
        check(
            &response,
            status,
            [json!(code), json!("Payment Required"), json!("Quota"), json!("Upgrade")],
            code,
        );
    }
    let unauthorized = fail(&server, &json!({"code": "PT401", "message": "m"})).await;
    assert_eq!((unauthorized.status.as_u16(), unauthorized.header("www-authenticate")), (401, "Bearer"));
    let unavailable = fail(&server, &json!({"code": "PT503", "message": "m"})).await;
    assert_eq!((unavailable.status.as_u16(), unavailable.header("retry-after")), (503, "1"));
    for (arguments, line) in [
        (json!({"code": "PT402", "message": "My own words"}), "HTTP/1.1 402 My own words"),
        (json!({"code": "PT40A", "message": "My own words"}), "HTTP/1.1 500 Internal Server Error"),
        (json!({"code": "P0001", "message": "My own words"}), "HTTP/1.1 400 Bad Request"),
    ] {
        assert_eq!(status_line(&server, &arguments), line);
    }
}

const MESSAGE: &str = r#"{"code":"123","message":"ABC","details":"DEF","hint":"XYZ"}"#;
const DETAIL: &str = r#"{"status":332,"status_text":"My text","headers":{"X-My":"v"}}"#;

fn pgrst(message: &str, detail: Option<&str>) -> Value {
    json!({"code": "PGRST", "message": message, "detail": detail})
}

#[tokio::test]
async fn raised_pgrst_sets_the_whole_response() {
    let server = schema_server().expect_log("").start().await;
    let response = fail(&server, &pgrst(MESSAGE, Some(DETAIL))).await;
    check(&response, 332, [json!("123"), json!("ABC"), json!("DEF"), json!("XYZ")], "all of it");
    assert_eq!(response.header("x-my"), "v");
    assert_eq!(status_line(&server, &pgrst(MESSAGE, Some(DETAIL))), "HTTP/1.1 332 My text");
    let null = json!(null);
    for (message, detail, status, body) in [
        (r#"{"code":"1","message":"m"}"#, r#"{"status":400,"headers":{}}"#, 400, ["1", "m"]),
        (r#"{"code":"","message":""}"#, r#"{"status":400,"headers":{}}"#, 400, ["", ""]),
        (
            r#"{"code":"1","message":"m","details":null,"hint":null,"more":1}"#,
            r#"{"status":404.0,"headers":{},"status_text":null,"more":2}"#,
            404,
            ["1", "m"],
        ),
        (r#"{"code":"1","message":"m"}"#, r#"{"status":200,"headers":{}}"#, 200, ["1", "m"]),
    ] {
        let response = fail(&server, &pgrst(message, Some(detail))).await;
        check(&response, status, [json!(body[0]), json!(body[1]), null.clone(), null.clone()], detail);
    }
    // Its headers replace ours, except the framing headers.
    let detail = r#"{"status":401,"headers":{"WWW-Authenticate":"Basic","Content-Type":"text/x-mine","Content-Length":"1"}}"#;
    let response = fail(&server, &pgrst(MESSAGE, Some(detail))).await;
    assert_eq!(response.status, 401);
    assert_eq!(response.headers.get_all("content-type").iter().count(), 1);
    assert_eq!(
        (response.header("www-authenticate"), response.header("content-type")),
        ("Basic", "text/x-mine")
    );
    assert_eq!(response.json()["code"], "123");
}

#[tokio::test]
async fn malformed_raised_pgrst_explains_the_mistake() {
    let server = schema_server().expect_log("").start().await;
    let message_hint = "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.";
    let detail_hint = "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.";
    let expected = "Could not parse JSON in the \"RAISE SQLSTATE 'PGRST'\" error";
    for message in [
        "x",
        "",
        "[]",
        "{}",
        "null",
        r#"{"code":"1"}"#,
        r#"{"message":"m"}"#,
        r#"{"code":1,"message":"m"}"#,
        r#"{"code":"1","message":5}"#,
        r#"{"code":"1","message":"m","details":{"a":1}}"#,
        r#"{"code":"1","message":"m","hint":7}"#,
        r#"{"code":"1","message":"m""#,
    ] {
        let response = fail(&server, &pgrst(message, Some(DETAIL))).await;
        let details = json!(format!("Invalid JSON value for MESSAGE: '{message}'"));
        check(&response, 500, [json!("PGRST121"), json!(expected), details, json!(message_hint)], message);
    }
    for detail in [
        "x",
        "[]",
        "{}",
        "null",
        r#"{"status":400}"#,
        r#"{"headers":{}}"#,
        r#"{"status":"400","headers":{}}"#,
        r#"{"status":null,"headers":{}}"#,
        r#"{"status":400.5,"headers":{}}"#,
        r#"{"status":-400,"headers":{}}"#,
        r#"{"status":99,"headers":{}}"#,
        r#"{"status":100,"headers":{}}"#,
        r#"{"status":1000,"headers":{}}"#,
        r#"{"status":99999,"headers":{}}"#,
        r#"{"status":400,"headers":[]}"#,
        r#"{"status":400,"headers":null}"#,
        r#"{"status":400,"headers":{"X-A":1}}"#,
        r#"{"status":400,"headers":{"X-A":null}}"#,
        r#"{"status":400,"headers":{},"status_text":5}"#,
    ] {
        let response = fail(&server, &pgrst(MESSAGE, Some(detail))).await;
        let details = json!(format!("Invalid JSON value for DETAIL: '{detail}'"));
        check(&response, 500, [json!("PGRST121"), json!(expected), details, json!(detail_hint)], detail);
        assert!(!response.headers.contains_key("x-a"));
    }
    let response = fail(&server, &pgrst(MESSAGE, None)).await;
    let details = json!("DETAIL is missing in the RAISE statement");
    check(&response, 500, [json!("PGRST121"), json!(expected), details, json!(detail_hint)], "no detail");
    // The message is checked first.
    let response = fail(&server, &pgrst("x", None)).await;
    assert_eq!(response.json()["details"], "Invalid JSON value for MESSAGE: 'x'");
}
