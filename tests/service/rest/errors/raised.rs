//! Errors raised on purpose: `PTnnn` and `PGRST`.

use std::io::{Read, Write};

use basalt_testkit::{Basalt, Response};
use http::Method;
use serde_json::{Value, json};

use super::super::anon;
use super::{answers, check};

async fn fail(server: &Basalt, arguments: &Value) -> Response {
    anon(server, Method::POST, "/rpc/fail").json(arguments).send().await
}

/// The first line of the answer, with its reason phrase.
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
    let mut answer = Vec::new();
    let _length = socket.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn digits_become_the_status_and_the_message_the_reason() {
    let server = answers().expect_log("").start().await;
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
        // No final status.
        ("PT000", 500),
        ("PT099", 500),
        ("PT100", 500),
        ("PT101", 500),
    ] {
        let arguments =
            json!({"code": code, "message": "Payment Required", "detail": "Quota", "hint": "Upgrade"});
        let answer = fail(&server, &arguments).await;
        check(
            &answer,
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
async fn a_raised_pgrst_says_everything_itself() {
    let server = answers().expect_log("").start().await;
    let answer = fail(&server, &pgrst(MESSAGE, Some(DETAIL))).await;
    check(&answer, 332, [json!("123"), json!("ABC"), json!("DEF"), json!("XYZ")], "all of it");
    assert_eq!(answer.header("x-my"), "v");
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
        let answer = fail(&server, &pgrst(message, Some(detail))).await;
        check(&answer, status, [json!(body[0]), json!(body[1]), null.clone(), null.clone()], detail);
    }
    // Its headers take the place of ours, but do not say how the message is framed.
    let detail = r#"{"status":401,"headers":{"WWW-Authenticate":"Basic","Content-Type":"text/x-mine","Content-Length":"1"}}"#;
    let answer = fail(&server, &pgrst(MESSAGE, Some(detail))).await;
    assert_eq!(answer.status, 401);
    assert_eq!(answer.headers.get_all("content-type").iter().count(), 1);
    assert_eq!((answer.header("www-authenticate"), answer.header("content-type")), ("Basic", "text/x-mine"));
    assert_eq!(answer.json()["code"], "123");
}

#[tokio::test]
async fn a_raised_pgrst_that_is_none_says_what_is_wrong_with_it() {
    let server = answers().expect_log("").start().await;
    let message_hint = "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.";
    let detail_hint = "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.";
    let words = "Could not parse JSON in the \"RAISE SQLSTATE 'PGRST'\" error";
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
        let answer = fail(&server, &pgrst(message, Some(DETAIL))).await;
        let details = json!(format!("Invalid JSON value for MESSAGE: '{message}'"));
        check(&answer, 500, [json!("PGRST121"), json!(words), details, json!(message_hint)], message);
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
        let answer = fail(&server, &pgrst(MESSAGE, Some(detail))).await;
        let details = json!(format!("Invalid JSON value for DETAIL: '{detail}'"));
        check(&answer, 500, [json!("PGRST121"), json!(words), details, json!(detail_hint)], detail);
        assert!(!answer.headers.contains_key("x-a"));
    }
    let answer = fail(&server, &pgrst(MESSAGE, None)).await;
    let details = json!("DETAIL is missing in the RAISE statement");
    check(&answer, 500, [json!("PGRST121"), json!(words), details, json!(detail_hint)], "no detail");
    // The message is looked at first.
    let answer = fail(&server, &pgrst("x", None)).await;
    assert_eq!(answer.json()["details"], "Invalid JSON value for MESSAGE: 'x'");
}
