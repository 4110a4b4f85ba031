//! `Prefer` and `Preference-Applied` (rest.md §3.11).

use basalt_testkit::{Basalt, Response};
use http::Method;
use serde_json::{Value, json};

use super::super::anon;
use super::schema_server;

async fn ask(server: &Basalt, request: (&str, &str), prefer: &str, body: Option<Value>) -> Response {
    let (method, path) = request;
    let request = anon(server, method.parse().unwrap(), path).header("prefer", prefer);
    match body {
        Some(body) => request.json(&body).send().await,
        None => request.send().await,
    }
}

#[tokio::test]
async fn applied_preferences_are_listed_in_contract_order() {
    let server = schema_server().start().await;
    let get = ("GET", "/owners?id=eq.1");
    let call = ("POST", "/rpc/all_owners");
    let (post, patch, delete, put) = (
        ("POST", "/owners"),
        ("PATCH", "/owners?id=eq.1"),
        ("DELETE", "/no_key?a=eq.1"),
        ("PUT", "/owners?id=eq.7"),
    );
    for (request, prefer, applied) in [
        // Not applicable, unknown, or empty.
        (get, "return=representation", ""),
        (get, "count=none", ""),
        (get, "return=foo", ""),
        (get, "count = exact", ""),
        (get, "COUNT=EXACT", ""),
        (get, "count=exact; x=y", ""),
        (get, "resolution=merge-duplicates, missing=default, return=minimal", ""),
        // One and several; with or without a space after the comma; the first of each kind counts.
        (get, "count=exact", "count=exact"),
        (get, "count=planned,handling=lenient", "count=planned, handling=lenient"),
        (get, " count=exact ,  handling=lenient ", "count=exact, handling=lenient"),
        (get, "handling=lenient, count=estimated", "count=estimated, handling=lenient"),
        (get, "count=exact, count=planned", "count=exact"),
        (get, "unknown, count=exact,,", "count=exact"),
        (get, "timezone=America/Lima, handling=strict", "handling=strict, timezone=America/Lima"),
        (get, "max-affected=5, handling=strict", "handling=strict"),
        // All of them: the response uses the contract's order.
        (
            post,
            "timezone=UTC, handling=strict, tx=rollback, count=exact, return=representation, missing=default, \
             resolution=merge-duplicates",
            "resolution=merge-duplicates, missing=default, return=representation, count=exact, tx=rollback, \
             handling=strict, timezone=UTC",
        ),
        (post, "tx=rollback, max-affected=1, handling=strict", "tx=rollback, handling=strict"),
        (post, "return=minimal,return=representation,tx=rollback", "return=minimal, tx=rollback"),
        (
            patch,
            "resolution=merge-duplicates, missing=null, return=headers-only, tx=rollback, handling=strict, max-affected=1",
            "missing=null, return=headers-only, tx=rollback, handling=strict, max-affected=1",
        ),
        (patch, "max-affected=1, tx=rollback", "tx=rollback"),
        (
            delete,
            "missing=default, return=minimal, handling=strict, max-affected=3, tx=rollback",
            "return=minimal, tx=rollback, handling=strict, max-affected=3",
        ),
        (put, "missing=default, return=minimal, tx=rollback", "return=minimal, tx=rollback"),
        (
            call,
            "return=minimal, missing=default, resolution=merge-duplicates, count=exact, handling=strict, max-affected=3",
            "count=exact, handling=strict, max-affected=3",
        ),
    ] {
        let body = match request.0 {
            "POST" if request == call => Some(json!({})),
            "POST" | "PUT" => Some(json!({"id": 7, "name": "x"})),
            "PATCH" => Some(json!({"name": "x"})),
            _ => None,
        };
        let response = ask(&server, request, prefer, body).await;
        assert!(response.status.is_success(), "{request:?} {prefer}: {}", response.text());
        assert_eq!(response.header("preference-applied"), applied, "{request:?} {prefer}");
        assert_eq!(response.headers.contains_key("preference-applied"), !applied.is_empty());
    }
    assert_eq!(server.database().value("select name from answers.owners where id = 1").await, "Ann");
}

#[tokio::test]
async fn resolution_without_conflict_target_is_an_insert() {
    let server = schema_server().start().await;
    let prefer = "resolution=merge-duplicates, tx=rollback";
    let response = ask(&server, ("POST", "/no_key"), prefer, Some(json!({"a": 1}))).await;
    assert_eq!((response.status.as_u16(), response.header("preference-applied")), (201, "tx=rollback"));
}

#[tokio::test]
async fn strict_handling_rejects_unknown_preferences() {
    let server = schema_server().start().await;
    let get = ("GET", "/owners?id=eq.1");
    for (prefer, invalid) in [
        ("handling=strict, nonsense", "nonsense"),
        ("nonsense, handling=strict", "nonsense"),
        ("handling=strict, a=b, return=foo", "a=b, return=foo"),
        ("handling=strict, count=none, max-affected=x", "count=none, max-affected=x"),
        ("tx=maybe,handling=strict,params=single-object", "tx=maybe, params=single-object"),
    ] {
        let response = ask(&server, get, prefer, None).await;
        let body = json!({
            "code": "PGRST122", "details": format!("Invalid preferences: {invalid}"), "hint": null,
            "message": "Invalid preferences given with handling=strict",
        });
        assert_eq!((response.status.as_u16(), response.json()), (400, body), "{prefer}");
        assert!(!response.headers.contains_key("preference-applied"));
    }
    for prefer in ["handling=lenient, nonsense", "nonsense", "handling=lenient, handling=strict, nonsense"] {
        assert_eq!(ask(&server, get, prefer, None).await.status, 200, "{prefer}");
    }
    // Reads and calls check the media type first, writes the preferences.
    let unknown = |method, path: &str| {
        anon(&server, method, path)
            .header("accept", "text/unknown")
            .header("prefer", "handling=strict, nonsense")
    };
    let code = |response: Response| response.json()["code"].as_str().unwrap_or_default().to_owned();
    assert_eq!(code(unknown(Method::GET, "/owners?select=id").send().await), "PGRST107");
    assert_eq!(code(unknown(Method::GET, "/rpc/one?a=1").send().await), "PGRST107");
    let added = unknown(Method::POST, "/owners?select=id").json(&json!({"id": 9}));
    assert_eq!(code(added.send().await), "PGRST122");
}

#[tokio::test]
async fn several_prefer_headers_form_one_list() {
    use std::io::{Read, Write};
    let server = schema_server().start().await;
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let head = format!(
        "GET /rest/v1/owners?id=eq.1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\napikey: {}\r\nprefer: count=exact\r\n\
         Prefer: count=planned,handling=lenient\r\n\r\n",
        server.anon_key()
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    let _length = socket.read_to_string(&mut response).unwrap();
    assert!(response.contains("preference-applied: count=exact, handling=lenient\r\n"), "{response}");
    assert!(response.contains("content-range: 0-0/1\r\n"), "{response}");
}

#[tokio::test]
async fn tx_preference_needs_the_override_setting() {
    for (setting, prefer, applied, is_kept) in [
        ("commit", "", "", true),
        ("commit", "tx=rollback", "", true),
        ("commit-allow-override", "", "", true),
        ("commit-allow-override", "tx=rollback", "tx=rollback", false),
        ("commit-allow-override", "tx=commit", "tx=commit", true),
        ("rollback", "", "", false),
        ("rollback", "tx=commit", "", false),
        ("rollback-allow-override", "tx=commit", "tx=commit", true),
        ("rollback-allow-override", "", "", false),
    ] {
        let server = schema_server().config("rest.tx_end", setting).start().await;
        let response = ask(&server, ("POST", "/owners"), prefer, Some(json!({"id": 7}))).await.expect(201);
        assert_eq!(response.header("preference-applied"), applied, "{setting} {prefer}");
        let count = if is_kept { 4 } else { 3 };
        assert_eq!(server.database().count("answers.owners").await, count, "{setting} {prefer}");
    }
}

#[tokio::test]
async fn timezone_is_validated_by_postgresql() {
    let server = schema_server().start().await;
    let made = |zone: &'static str| {
        let server = &server;
        async move {
            let prefer = format!("timezone={zone}");
            ask(server, ("GET", "/things?select=made&id=eq.1"), &prefer, None).await
        }
    };
    for (zone, shown) in [
        ("America/Lima", "2024-01-01T22:04:05-05:00"),
        ("Asia/Tokyo", "2024-01-02T12:04:05+09:00"),
        ("UTC", "2024-01-02T03:04:05+00:00"),
    ] {
        let response = made(zone).await.expect(200);
        assert_eq!(response.json()[0]["made"], shown);
        assert_eq!(response.header("preference-applied"), format!("timezone={zone}"));
    }
    let response = made("Nowhere/Nohow").await;
    let message = "invalid value for parameter \"TimeZone\": \"Nowhere/Nohow\"";
    let body = json!({"code": "22023", "details": null, "hint": null, "message": message});
    assert_eq!((response.status.as_u16(), response.json()), (400, body));
    // Strict handling makes no difference: the preference's name is known.
    let strict = "handling=strict, timezone=Nowhere/Nohow";
    let response = ask(&server, ("GET", "/owners"), strict, None).await;
    assert_eq!(response.json()["code"], "22023");
}

#[tokio::test]
async fn max_affected_requires_strict_handling() {
    let server = schema_server().start().await;
    let strict = "handling=strict, max-affected=2";
    for request in [("PATCH", "/owners?id=gt.0"), ("DELETE", "/letters?id=gt.0"), ("POST", "/rpc/all_owners")]
    {
        let body = if request.0 == "POST" { json!({}) } else { json!({"name": "same"}) };
        let response = ask(&server, request, strict, Some(body)).await;
        let expected = json!({
            "code": "PGRST124", "details": "The query affects 3 rows", "hint": null,
            "message": "Query result exceeds max-affected preference constraint",
        });
        assert_eq!((response.status.as_u16(), response.json()), (400, expected), "{request:?}");
    }
    assert_eq!(server.database().count("answers.letters").await, 3);
    assert_eq!(server.database().value("select count(distinct name) from answers.owners").await, "3");
    let changed = json!({"name": "same"});
    for prefer in ["max-affected=2, tx=rollback", "handling=lenient, max-affected=2, tx=rollback"] {
        let response = ask(&server, ("PATCH", "/owners?id=gt.0"), prefer, Some(changed.clone())).await;
        assert_eq!((response.status.as_u16(), response.header("content-range")), (204, "0-2/*"), "{prefer}");
    }
    let enough = "handling=strict, max-affected=3, tx=rollback";
    assert_eq!(ask(&server, ("PATCH", "/owners?id=gt.0"), enough, Some(changed)).await.status, 204);
    let renamed = ask(&server, ("POST", "/rpc/rename_all"), strict, Some(json!({}))).await;
    assert_eq!(renamed.json()["code"], "PGRST124");
    assert_eq!(server.database().value("select name from answers.owners where id = 1").await, "Ann");
    let single = ask(&server, ("POST", "/rpc/none"), strict, Some(json!({}))).await;
    assert_eq!((single.status.as_u16(), single.json()["code"].as_str()), (400, Some("PGRST128")));
    // It does not apply to reads and inserts.
    assert_eq!(ask(&server, ("GET", "/owners"), strict, None).await.status, 200);
}
