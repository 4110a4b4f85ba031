//! `Prefer` and `Preference-Applied` (rest.md §3.11).

use basalt_testkit::{Basalt, Response};
use http::Method;
use serde_json::{Value, json};

use super::super::anon;
use super::answers;

async fn ask(server: &Basalt, request: (&str, &str), prefer: &str, body: Option<Value>) -> Response {
    let (method, path) = request;
    let request = anon(server, method.parse().unwrap(), path).header("prefer", prefer);
    match body {
        Some(body) => request.json(&body).send().await,
        None => request.send().await,
    }
}

#[tokio::test]
async fn what_is_honoured_is_told_in_one_order() {
    let server = answers().start().await;
    let get = ("GET", "/owners?id=eq.1");
    let call = ("POST", "/rpc/all_owners");
    let (post, patch, delete, put) = (
        ("POST", "/owners"),
        ("PATCH", "/owners?id=eq.1"),
        ("DELETE", "/no_key?a=eq.1"),
        ("PUT", "/owners?id=eq.7"),
    );
    for (request, prefer, applied) in [
        // Nothing applies, nothing is known, or nothing is asked.
        (get, "return=representation", ""),
        (get, "count=none", ""),
        (get, "return=foo", ""),
        (get, "count = exact", ""),
        (get, "COUNT=EXACT", ""),
        (get, "count=exact; x=y", ""),
        (get, "resolution=merge-duplicates, missing=default, return=minimal", ""),
        // One and several; blanks or none after the comma; the first of a kind.
        (get, "count=exact", "count=exact"),
        (get, "count=planned,handling=lenient", "count=planned, handling=lenient"),
        (get, " count=exact ,  handling=lenient ", "count=exact, handling=lenient"),
        (get, "handling=lenient, count=estimated", "count=estimated, handling=lenient"),
        (get, "count=exact, count=planned", "count=exact"),
        (get, "unknown, count=exact,,", "count=exact"),
        (get, "timezone=America/Lima, handling=strict", "handling=strict, timezone=America/Lima"),
        (get, "max-affected=5, handling=strict", "handling=strict"),
        // The whole list, in the order of the contract whatever the order of the wishes.
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
        let answer = ask(&server, request, prefer, body).await;
        assert!(answer.status.is_success(), "{request:?} {prefer}: {}", answer.text());
        assert_eq!(answer.header("preference-applied"), applied, "{request:?} {prefer}");
        assert_eq!(answer.headers.contains_key("preference-applied"), !applied.is_empty());
    }
    assert_eq!(server.database().value("select name from answers.owners where id = 1").await, "Ann");
}

#[tokio::test]
async fn a_resolution_without_a_conflict_target_is_a_plain_insert() {
    let server = answers().start().await;
    let prefer = "resolution=merge-duplicates, tx=rollback";
    let answer = ask(&server, ("POST", "/no_key"), prefer, Some(json!({"a": 1}))).await;
    assert_eq!((answer.status.as_u16(), answer.header("preference-applied")), (201, "tx=rollback"));
}

#[tokio::test]
async fn strict_handling_refuses_what_it_does_not_know() {
    let server = answers().start().await;
    let get = ("GET", "/owners?id=eq.1");
    for (prefer, invalid) in [
        ("handling=strict, nonsense", "nonsense"),
        ("nonsense, handling=strict", "nonsense"),
        ("handling=strict, a=b, return=foo", "a=b, return=foo"),
        ("handling=strict, count=none, max-affected=x", "count=none, max-affected=x"),
        ("tx=maybe,handling=strict,params=single-object", "tx=maybe, params=single-object"),
    ] {
        let answer = ask(&server, get, prefer, None).await;
        let body = json!({
            "code": "PGRST122", "details": format!("Invalid preferences: {invalid}"), "hint": null,
            "message": "Invalid preferences given with handling=strict",
        });
        assert_eq!((answer.status.as_u16(), answer.json()), (400, body), "{prefer}");
        assert!(!answer.headers.contains_key("preference-applied"));
    }
    for prefer in ["handling=lenient, nonsense", "nonsense", "handling=lenient, handling=strict, nonsense"] {
        assert_eq!(ask(&server, get, prefer, None).await.status, 200, "{prefer}");
    }
    // Reads and calls look at the media type first, writes at the preferences.
    let unknown = |method, path: &str| {
        anon(&server, method, path)
            .header("accept", "text/unknown")
            .header("prefer", "handling=strict, nonsense")
    };
    let code = |answer: Response| answer.json()["code"].as_str().unwrap_or_default().to_owned();
    assert_eq!(code(unknown(Method::GET, "/owners?select=id").send().await), "PGRST107");
    assert_eq!(code(unknown(Method::GET, "/rpc/one?a=1").send().await), "PGRST107");
    let added = unknown(Method::POST, "/owners?select=id").json(&json!({"id": 9}));
    assert_eq!(code(added.send().await), "PGRST122");
}

#[tokio::test]
async fn several_headers_are_one_list() {
    use std::io::{Read, Write};
    let server = answers().start().await;
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let head = format!(
        "GET /rest/v1/owners?id=eq.1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\napikey: {}\r\nprefer: count=exact\r\n\
         Prefer: count=planned,handling=lenient\r\n\r\n",
        server.anon_key()
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    let _length = socket.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("preference-applied: count=exact, handling=lenient\r\n"), "{answer}");
    assert!(answer.contains("content-range: 0-0/1\r\n"), "{answer}");
}

#[tokio::test]
async fn how_the_transaction_ends_is_the_servers_choice_unless_it_lets_others() {
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
        let server = answers().config("rest.tx_end", setting).start().await;
        let answer = ask(&server, ("POST", "/owners"), prefer, Some(json!({"id": 7}))).await.expect(201);
        assert_eq!(answer.header("preference-applied"), applied, "{setting} {prefer}");
        let count = if is_kept { 4 } else { 3 };
        assert_eq!(server.database().count("answers.owners").await, count, "{setting} {prefer}");
    }
}

#[tokio::test]
async fn the_time_zone_is_the_databases_to_judge() {
    let server = answers().start().await;
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
        let answer = made(zone).await.expect(200);
        assert_eq!(answer.json()[0]["made"], shown);
        assert_eq!(answer.header("preference-applied"), format!("timezone={zone}"));
    }
    let answer = made("Nowhere/Nohow").await;
    let message = "invalid value for parameter \"TimeZone\": \"Nowhere/Nohow\"";
    let body = json!({"code": "22023", "details": null, "hint": null, "message": message});
    assert_eq!((answer.status.as_u16(), answer.json()), (400, body));
    // Strict handling changes nothing: the name of the preference is known.
    let strict = "handling=strict, timezone=Nowhere/Nohow";
    let answer = ask(&server, ("GET", "/owners"), strict, None).await;
    assert_eq!(answer.json()["code"], "22023");
}

#[tokio::test]
async fn max_affected_holds_only_with_strict_handling() {
    let server = answers().start().await;
    let strict = "handling=strict, max-affected=2";
    for request in [("PATCH", "/owners?id=gt.0"), ("DELETE", "/letters?id=gt.0"), ("POST", "/rpc/all_owners")]
    {
        let body = if request.0 == "POST" { json!({}) } else { json!({"name": "same"}) };
        let answer = ask(&server, request, strict, Some(body)).await;
        let expected = json!({
            "code": "PGRST124", "details": "The query affects 3 rows", "hint": null,
            "message": "Query result exceeds max-affected preference constraint",
        });
        assert_eq!((answer.status.as_u16(), answer.json()), (400, expected), "{request:?}");
    }
    assert_eq!(server.database().count("answers.letters").await, 3);
    assert_eq!(server.database().value("select count(distinct name) from answers.owners").await, "3");
    let changed = json!({"name": "same"});
    for prefer in ["max-affected=2, tx=rollback", "handling=lenient, max-affected=2, tx=rollback"] {
        let answer = ask(&server, ("PATCH", "/owners?id=gt.0"), prefer, Some(changed.clone())).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-range")), (204, "0-2/*"), "{prefer}");
    }
    let enough = "handling=strict, max-affected=3, tx=rollback";
    assert_eq!(ask(&server, ("PATCH", "/owners?id=gt.0"), enough, Some(changed)).await.status, 204);
    let renamed = ask(&server, ("POST", "/rpc/rename_all"), strict, Some(json!({}))).await;
    assert_eq!(renamed.json()["code"], "PGRST124");
    assert_eq!(server.database().value("select name from answers.owners where id = 1").await, "Ann");
    let single = ask(&server, ("POST", "/rpc/none"), strict, Some(json!({}))).await;
    assert_eq!((single.status.as_u16(), single.json()["code"].as_str()), (400, Some("PGRST128")));
    // On reads and inserts it says nothing.
    assert_eq!(ask(&server, ("GET", "/owners"), strict, None).await.status, 200);
}
