//! Other response headers, and how SQL can set them (rest.md §3.6, §3.9, §3.16, §3.19).

use http::Method;
use serde_json::json;

use super::super::{SOON, anon, get};
use super::schema_server;

#[tokio::test]
async fn successes_have_vary_and_errors_do_not() {
    let server = schema_server().start().await;
    for (method, path) in [
        (Method::GET, "/owners"),
        (Method::HEAD, "/owners"),
        (Method::GET, "/rpc/none"),
        (Method::POST, "/rpc/none"),
        (Method::GET, "/"),
        (Method::DELETE, "/no_key?a=eq.1"),
    ] {
        let response = anon(&server, method, path).json(&json!({})).send().await;
        assert_eq!(response.header("vary"), "Accept, Prefer, Range", "{path}");
    }
    for path in ["/nope", "/owners?id=noop.1", "/owners?limit=-1"] {
        assert!(!get(&server, path).await.headers.contains_key("vary"), "{path}");
    }
}

#[tokio::test]
async fn no_content_has_no_content_headers() {
    let server = schema_server().start().await;
    let bodiless = |method, path: &str, body| {
        anon(&server, method, path).header("prefer", "tx=rollback").json(&body).send()
    };
    for response in [
        bodiless(Method::PATCH, "/owners?id=eq.1", json!({"name": "x"})).await,
        bodiless(Method::DELETE, "/no_key?a=eq.1", json!(null)).await,
        bodiless(Method::PUT, "/owners?id=eq.9", json!({"id": 9, "name": "x"})).await,
        bodiless(Method::POST, "/rpc/changes", json!({"a": 1})).await,
        bodiless(Method::POST, "/rpc/respond", json!({"status": "204"})).await,
    ] {
        assert_eq!(response.status, 204);
        for name in ["content-type", "content-length", "content-profile", "transfer-encoding"] {
            assert!(!response.headers.contains_key(name), "{name}");
        }
        assert!(response.body.is_empty());
    }
    let created = bodiless(Method::POST, "/owners", json!({"id": 9})).await;
    assert_eq!((created.status.as_u16(), created.header("content-length")), (201, "0"));
    assert!(!created.headers.contains_key("content-type"));
}

#[tokio::test]
async fn content_profile_is_sent_for_several_schemas() {
    let one = schema_server().start().await;
    assert!(!get(&one, "/owners").await.headers.contains_key("content-profile"));
    let named = anon(&one, Method::GET, "/owners").header("accept-profile", "answers").send().await;
    assert_eq!(named.header("content-profile"), "answers");
    let two = schema_server().config("rest.schemas", "answers, public").start().await;
    assert_eq!(get(&two, "/owners").await.header("content-profile"), "answers");
    let other =
        anon(&two, Method::GET, "/clients").header("accept-profile", "public").send().await.expect(200);
    assert_eq!(other.header("content-profile"), "public");
    let changed = anon(&two, Method::PATCH, "/clients?id=eq.1").header("content-profile", "public");
    let changed = changed.json(&json!({"name": "x"})).send().await.expect(204);
    assert!(!changed.headers.contains_key("content-profile"));
    // The profile header depends on the method.
    let read = anon(&two, Method::GET, "/clients").header("content-profile", "public").send().await;
    assert_eq!(read.json()["code"], "PGRST205");
    let unknown = anon(&two, Method::GET, "/owners").header("accept-profile", "nope").send().await;
    let body = json!({
        "code": "PGRST106", "details": null, "hint": "Only the following schemas are exposed: answers, public",
        "message": "Invalid schema: nope",
    });
    assert_eq!((unknown.status.as_u16(), unknown.json()), (406, body));
}

#[tokio::test]
async fn server_timing_lists_each_stage_if_enabled() {
    let timed = schema_server().config("rest.timing_enabled", "true").start().await;
    let stages = |response: &basalt_testkit::Response| -> Vec<String> {
        let header = response.header("server-timing");
        header
            .split(", ")
            .map(|stage| {
                let (name, duration) = stage.split_once(";dur=").unwrap();
                let (_, fraction) = duration.split_once('.').unwrap();
                assert_eq!(fraction.len(), 1, "{header}");
                assert!(duration.parse::<f64>().is_ok());
                name.to_owned()
            })
            .collect()
    };
    let all = ["jwt", "parse", "plan", "transaction", "response"];
    for path in ["/owners", "/rpc/none", "/"] {
        assert_eq!(stages(&get(&timed, path).await), all, "{path}");
    }
    let written = anon(&timed, Method::PATCH, "/owners?id=eq.9").json(&json!({"name": "x"})).send().await;
    assert_eq!(stages(&written), all);
    // An error has the stages that were completed.
    assert_eq!(stages(&get(&timed, "/nope").await), ["jwt", "parse"]);
    let refused = anon(&timed, Method::GET, "/owners").bearer("a.b").send().await.expect(401);
    assert!(!refused.headers.contains_key("server-timing"));
    let plain = schema_server().start().await;
    assert!(!get(&plain, "/owners").await.headers.contains_key("server-timing"));
}

#[tokio::test]
async fn trace_header_is_echoed() {
    let server = schema_server().config("rest.trace_header", "X-Request-Id").start().await;
    for path in ["/owners", "/nope", "/owners?limit=-1"] {
        let traced = anon(&server, Method::GET, path).header("x-request-id", "mine-1").send().await;
        assert_eq!(traced.header("x-request-id"), "mine-1", "{path}");
        let silent = get(&server, path).await;
        assert!(silent.headers.contains_key("x-request-id"));
        assert_eq!(silent.header("x-request-id"), "", "{path}: empty if absent");
    }
}

#[tokio::test]
async fn functions_set_headers_and_status() {
    let server = schema_server().start().await;
    let respond = |headers: &str, status: Option<&str>| {
        anon(&server, Method::POST, "/rpc/respond")
            .json(&json!({"headers": headers, "status": status}))
            .send()
    };
    let response = respond(
        r#"[{"Set-Cookie":"a=b"},{"set-cookie":"c=d"},{"Content-Type":"text/x-mine"},{"Vary":"X"},
            {"Content-Range":"7-7/7"},{"Cache-Control":"public"},{"X-Empty":""}]"#,
        Some("299"),
    )
    .await;
    assert_eq!(response.status.as_u16(), 299);
    let cookies: Vec<_> = response.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=b", "c=d"]);
    for (name, value) in [
        ("content-type", "text/x-mine"),
        ("vary", "X"),
        ("content-range", "7-7/7"),
        ("cache-control", "public"),
        ("x-empty", ""),
    ] {
        assert_eq!(response.headers.get_all(name).iter().count(), 1, "{name}");
        assert_eq!(response.header(name), value, "{name}");
    }
    assert_eq!(response.text(), r#"{"ok":true}"#);
    // SQL cannot set the framing headers.
    let framed =
        r#"[{"Content-Length":"3"},{"Transfer-Encoding":"gzip"},{"Connection":"close"},{"X-A":"b"}]"#;
    let framed = respond(framed, None).await.expect(200);
    assert_eq!((framed.text().as_str(), framed.header("x-a")), (r#"{"ok":true}"#, "b"));
    assert_eq!(framed.header("content-length"), "11");

    for malformed in [
        "no json",
        "{}",
        "[1]",
        "[[]]",
        "[{}]",
        r#"[{"a":"b","c":"d"}]"#,
        r#"[{"a":1}]"#,
        r#"[{"a":null}]"#,
        r#"{"a":"b"}"#,
        r#"[{"bad name":"x"}]"#,
        r#"[{"a":"line\nbreak"}]"#,
    ] {
        let response = respond(malformed, Some("201")).await;
        let message = "response.headers guc must be a JSON array composed of objects with a single key and a string value";
        let body = json!({"code": "PGRST111", "details": null, "hint": null, "message": message});
        assert_eq!((response.status.as_u16(), response.json()), (500, body), "{malformed}");
    }
    for malformed in ["many", "20x", " 201", "+201", "-1", "200.5", "99", "100", "101", "1000", "99999999999"]
    {
        let response = respond("[]", Some(malformed)).await;
        let message = "response.status guc must be a valid status code";
        let body = json!({"code": "PGRST112", "details": null, "hint": null, "message": message});
        assert_eq!((response.status.as_u16(), response.json()), (500, body), "{malformed}");
    }
    // Set, then reset: no effect.
    assert_eq!(respond("", Some("")).await.status, 200);
    // A failed transaction discards the headers that it set.
    let _made = server
        .sql(
            "create function answers.respond_and_fail() returns void language plpgsql as $$ begin
               perform set_config('response.status', '299', true);
               perform set_config('response.headers', '[{\"X-A\":\"b\"}]', true);
               raise exception 'no';
             end $$;
             create function answers.counted() returns trigger language plpgsql as $$ begin
               perform set_config('response.headers', '[{\"X-Trigger\":\"yes\"}]', true); return new; end $$;
             create trigger counted before insert on answers.no_key for each row execute function answers.counted();
             grant execute on all functions in schema answers to anon;",
        )
        .await;
    let failing = anon(&server, Method::POST, "/rpc/respond_and_fail").json(&json!({}));
    let failed = server.until(SOON, &failing, |response| response.status != 404).await;
    assert_eq!((failed.status.as_u16(), failed.json()["code"].as_str()), (400, Some("P0001")));
    assert!(!failed.headers.contains_key("x-a"));
    let triggered = anon(&server, Method::POST, "/no_key").json(&json!({"a": 1})).send().await.expect(201);
    assert_eq!(triggered.header("x-trigger"), "yes");
}

#[tokio::test]
async fn too_many_response_headers_is_an_error() {
    let server = super::super::server().start().await;
    // One header more than `HeaderMap` can hold is an ordinary error.
    let many: Vec<serde_json::Value> =
        (0..33_000).map(|number| json!({ (format!("x-{number}")): "v" })).collect();
    let headers = serde_json::Value::from(many).to_string();
    let body = json!({"headers": headers, "status": "200"});
    let response = anon(&server, Method::POST, "/rpc/respond").json(&body).send().await;
    assert_eq!((response.status.as_u16(), &response.json()["code"]), (500, &json!("PGRST111")));
    // Each deprecated name on the path to an embed adds a warning.
    let steps: Vec<&str> = ["tasks", "projects"].into_iter().cycle().take(11).collect();
    let mut select = "id".to_owned();
    for (depth, target) in steps.iter().enumerate().rev() {
        select = format!("id,x{depth}:{target}({select})");
    }
    let path = format!("/projects?select={select}&{}.order=id", steps.join("."));
    let response = get(&server, &path).await.expect(200);
    assert_eq!(response.headers.get_all("warning").iter().count(), 8);
}
