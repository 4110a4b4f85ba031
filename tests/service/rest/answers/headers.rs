//! The other headers of answers, and what SQL makes of them (rest.md §3.6, §3.9, §3.16, §3.19).

use http::Method;
use serde_json::json;

use super::super::{SOON, anon, get};
use super::answers;

#[tokio::test]
async fn success_varies_by_what_was_asked_and_errors_do_not() {
    let server = answers().start().await;
    for (method, path) in [
        (Method::GET, "/owners"),
        (Method::HEAD, "/owners"),
        (Method::GET, "/rpc/none"),
        (Method::POST, "/rpc/none"),
        (Method::GET, "/"),
        (Method::DELETE, "/no_key?a=eq.1"),
    ] {
        let answer = anon(&server, method, path).json(&json!({})).send().await;
        assert_eq!(answer.header("vary"), "Accept, Prefer, Range", "{path}");
    }
    for path in ["/nope", "/owners?id=noop.1", "/owners?limit=-1"] {
        assert!(!get(&server, path).await.headers.contains_key("vary"), "{path}");
    }
}

#[tokio::test]
async fn an_answer_without_content_says_nothing_of_it() {
    let server = answers().start().await;
    let bodiless = |method, path: &str, body| {
        anon(&server, method, path).header("prefer", "tx=rollback").json(&body).send()
    };
    for answer in [
        bodiless(Method::PATCH, "/owners?id=eq.1", json!({"name": "x"})).await,
        bodiless(Method::DELETE, "/no_key?a=eq.1", json!(null)).await,
        bodiless(Method::PUT, "/owners?id=eq.9", json!({"id": 9, "name": "x"})).await,
        bodiless(Method::POST, "/rpc/changes", json!({"a": 1})).await,
        bodiless(Method::POST, "/rpc/respond", json!({"status": "204"})).await,
    ] {
        assert_eq!(answer.status, 204);
        for name in ["content-type", "content-length", "content-profile", "transfer-encoding"] {
            assert!(!answer.headers.contains_key(name), "{name}");
        }
        assert!(answer.body.is_empty());
    }
    let created = bodiless(Method::POST, "/owners", json!({"id": 9})).await;
    assert_eq!((created.status.as_u16(), created.header("content-length")), (201, "0"));
    assert!(!created.headers.contains_key("content-type"));
}

#[tokio::test]
async fn a_profile_is_told_where_there_may_be_another() {
    let one = answers().start().await;
    assert!(!get(&one, "/owners").await.headers.contains_key("content-profile"));
    let named = anon(&one, Method::GET, "/owners").header("accept-profile", "answers").send().await;
    assert_eq!(named.header("content-profile"), "answers");
    let two = answers().config("rest.schemas", "answers, public").start().await;
    assert_eq!(get(&two, "/owners").await.header("content-profile"), "answers");
    let other =
        anon(&two, Method::GET, "/clients").header("accept-profile", "public").send().await.expect(200);
    assert_eq!(other.header("content-profile"), "public");
    let changed = anon(&two, Method::PATCH, "/clients?id=eq.1").header("content-profile", "public");
    let changed = changed.json(&json!({"name": "x"})).send().await.expect(204);
    assert!(!changed.headers.contains_key("content-profile"));
    // Each method has its own header.
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
async fn each_stage_is_timed_where_that_is_on() {
    let timed = answers().config("rest.timing_enabled", "true").start().await;
    let stages = |answer: &basalt_testkit::Response| -> Vec<String> {
        let header = answer.header("server-timing");
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
    // An error has the stages that were passed.
    assert_eq!(stages(&get(&timed, "/nope").await), ["jwt", "parse"]);
    let refused = anon(&timed, Method::GET, "/owners").bearer("a.b").send().await.expect(401);
    assert!(!refused.headers.contains_key("server-timing"));
    let plain = answers().start().await;
    assert!(!get(&plain, "/owners").await.headers.contains_key("server-timing"));
}

#[tokio::test]
async fn the_trace_header_comes_back() {
    let server = answers().config("rest.trace_header", "X-Request-Id").start().await;
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
    let server = answers().start().await;
    let respond = |headers: &str, status: Option<&str>| {
        anon(&server, Method::POST, "/rpc/respond")
            .json(&json!({"headers": headers, "status": status}))
            .send()
    };
    let answer = respond(
        r#"[{"Set-Cookie":"a=b"},{"set-cookie":"c=d"},{"Content-Type":"text/x-mine"},{"Vary":"X"},
            {"Content-Range":"7-7/7"},{"Cache-Control":"public"},{"X-Empty":""}]"#,
        Some("299"),
    )
    .await;
    assert_eq!(answer.status.as_u16(), 299);
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=b", "c=d"]);
    for (name, value) in [
        ("content-type", "text/x-mine"),
        ("vary", "X"),
        ("content-range", "7-7/7"),
        ("cache-control", "public"),
        ("x-empty", ""),
    ] {
        assert_eq!(answer.headers.get_all(name).iter().count(), 1, "{name}");
        assert_eq!(answer.header(name), value, "{name}");
    }
    assert_eq!(answer.text(), r#"{"ok":true}"#);
    // How the message is framed is not theirs to say.
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
        let answer = respond(malformed, Some("201")).await;
        let message = "response.headers guc must be a JSON array composed of objects with a single key and a string value";
        let body = json!({"code": "PGRST111", "details": null, "hint": null, "message": message});
        assert_eq!((answer.status.as_u16(), answer.json()), (500, body), "{malformed}");
    }
    for malformed in ["many", "20x", " 201", "+201", "-1", "200.5", "99", "100", "101", "1000", "99999999999"]
    {
        let answer = respond("[]", Some(malformed)).await;
        let message = "response.status guc must be a valid status code";
        let body = json!({"code": "PGRST112", "details": null, "hint": null, "message": message});
        assert_eq!((answer.status.as_u16(), answer.json()), (500, body), "{malformed}");
    }
    // Set and reset: nothing.
    assert_eq!(respond("", Some("")).await.status, 200);
    // A transaction that fails takes what it set with it.
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
    let failed = server.until(SOON, &failing, |answer| answer.status != 404).await;
    assert_eq!((failed.status.as_u16(), failed.json()["code"].as_str()), (400, Some("P0001")));
    assert!(!failed.headers.contains_key("x-a"));
    let triggered = anon(&server, Method::POST, "/no_key").json(&json!({"a": 1})).send().await.expect(201);
    assert_eq!(triggered.header("x-trigger"), "yes");
}

#[tokio::test]
async fn headers_have_a_number() {
    let server = super::super::server().start().await;
    // One more than a map of headers takes is an error like any other that they have, and breaks nothing.
    let many: Vec<serde_json::Value> =
        (0..33_000).map(|number| json!({ (format!("x-{number}")): "v" })).collect();
    let headers = serde_json::Value::from(many).to_string();
    let body = json!({"headers": headers, "status": "200"});
    let answer = anon(&server, Method::POST, "/rpc/respond").json(&body).send().await;
    assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (500, &json!("PGRST111")));
    // Each old name on the way to an embed is worth a warning.
    let steps: Vec<&str> = ["tasks", "projects"].into_iter().cycle().take(11).collect();
    let mut select = "id".to_owned();
    for (depth, target) in steps.iter().enumerate().rev() {
        select = format!("id,x{depth}:{target}({select})");
    }
    let path = format!("/projects?select={select}&{}.order=id", steps.join("."));
    let answer = get(&server, &path).await.expect(200);
    assert_eq!(answer.headers.get_all("warning").iter().count(), 8);
}
