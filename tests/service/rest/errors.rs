//! Errors (rest.md §3.18): every code with its full response, every row of the SQLSTATE table, errors raised by SQL, and our
//! hints for service_role.

mod codes;
mod limits;
mod outages;
mod raised;
mod rights;
mod sqlstates;

use basalt_testkit::Response;
use serde_json::{Value, json};

use super::responses::schema_server;

/// Checks what every error has: four keys in order, content type, length, and its code in `Proxy-Status`.
fn check(response: &Response, status: u16, body: [Value; 4], what: &str) {
    let [code, message, details, hint] = body;
    let whole = json!({"code": code, "details": details, "hint": hint, "message": message});
    assert_eq!(response.status.as_u16(), status, "{what}: {}", response.text());
    // serde_json keeps keys sorted: code, details, hint, message.
    assert_eq!(response.text(), whole.to_string(), "{what}");
    assert_eq!(response.header("content-type"), "application/json; charset=utf-8", "{what}");
    assert_eq!(response.header("content-length"), response.body.len().to_string(), "{what}");
    let proxy_status = format!("PostgREST; error={}", code.as_str().unwrap());
    assert_eq!(response.header("proxy-status"), proxy_status, "{what}");
    assert_eq!(response.headers.contains_key("retry-after"), status == 503, "{what}");
    assert_eq!(response.headers.contains_key("www-authenticate"), status == 401, "{what}");
}
