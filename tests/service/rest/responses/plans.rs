//! The media type for query plans (rest.md §3.12).

use http::Method;
use serde_json::json;

use super::super::anon;
use super::{accepting, schema_server};

#[tokio::test]
async fn plan_type_states_format_and_target() {
    let server = schema_server().start().await;
    let base = "application/vnd.pgrst.plan";
    for (accept, applied) in [
        ("", "+text; for=\"application/json\""),
        ("+text", "+text; for=\"application/json\""),
        ("+json", "+json; for=\"application/json\""),
        ("+json;for=text/csv", "+json; for=\"text/csv\""),
        ("+json; for=\"text/csv\"", "+json; for=\"text/csv\""),
        (
            "+text; for=\"application/vnd.pgrst.object+json\"",
            "+text; for=\"application/vnd.pgrst.object+json\"",
        ),
        ("+text; for=\"application/json\"; options=;", "+text; for=\"application/json\""),
        (
            "+json; for=\"application/json; charset=utf-8\"; options=verbose;",
            "+json; for=\"application/json\"; options=verbose",
        ),
        (
            "+text; for=\"application/json\"; options=analyze|verbose|settings|buffers|wal;",
            "+text; for=\"application/json\"; options=analyze|verbose|settings|buffers|wal",
        ),
        ("; options=buffers|analyze", "+text; for=\"application/json\"; options=analyze|buffers"),
        ("+text; options=nonsense|wal|analyze", "+text; for=\"application/json\"; options=analyze|wal"),
    ] {
        let response =
            accepting(&server, "/owners?id=eq.1", &format!("{base}{accept}")).send().await.expect(200);
        assert_eq!(response.header("content-type"), format!("{base}{applied}; charset=utf-8"), "{accept}");
        if applied.starts_with("+json") {
            let plan = response.json();
            assert!(plan[0]["Plan"]["Node Type"].is_string(), "{plan}");
            assert_eq!(plan[0]["Plan"]["Output"].is_array(), applied.contains("verbose"), "{plan}");
        } else {
            let text = response.text();
            assert!(text.contains("(cost=") && text.ends_with('\n'), "{text}");
            assert_eq!(text.contains("Execution Time"), applied.contains("analyze"), "{text}");
        }
    }
    for refused in ["+xml", "+json; for=\"text/unknown\"", "; for=\"application/openapi+json\""] {
        let response = accepting(&server, "/owners?select=id", &format!("{base}{refused}")).send().await;
        assert_eq!(
            (response.status.as_u16(), response.json()["code"].as_str()),
            (406, Some("PGRST107")),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn every_statement_can_be_explained() {
    let server = schema_server().start().await;
    let plan = "application/vnd.pgrst.plan+json; for=\"application/json\"";
    let analyzed = "application/vnd.pgrst.plan+json; for=\"application/json\"; options=analyze";
    for (method, path, body) in [
        (Method::GET, "/things?select=id,owners(name)&order=id&limit=1", json!(null)),
        (Method::POST, "/owners", json!({"id": 7, "name": "x"})),
        (Method::POST, "/owners?on_conflict=id", json!([{"id": 1, "name": "x"}])),
        (Method::PATCH, "/owners?id=eq.1", json!({"name": "x"})),
        (Method::PUT, "/owners?id=eq.8", json!({"id": 8, "name": "x"})),
        (Method::DELETE, "/letters?id=eq.1", json!(null)),
        (Method::POST, "/rpc/all_owners", json!({})),
        (Method::POST, "/rpc/changes", json!({"a": 1})),
    ] {
        for prefer in ["return=minimal", "return=representation"] {
            let ask = anon(&server, method.clone(), path).header("accept", plan).header("prefer", prefer);
            let response = ask.json(&body).send().await;
            assert_eq!(response.status, 200, "{method} {path}: {}", response.text());
            assert!(response.json()[0]["Plan"].is_object(), "{method} {path}");
            assert!(!response.headers.contains_key("content-range"));
        }
    }
    let state = "select string_agg(id || name, ',' order by id) from answers.owners";
    assert_eq!(
        server.database().value(state).await,
        "1Ann,2Bob, \"B\",3",
        "an explained write changes nothing"
    );
    let done = anon(&server, Method::PATCH, "/owners?id=eq.3").header("accept", analyzed);
    let _plan = done.json(&json!({"name": "done"})).send().await.expect(200);
    assert_eq!(server.database().value("select name from answers.owners where id = 3").await, "done");
    let failing = accepting(&server, "/owners?nope=eq.1", plan).send().await;
    assert_eq!((failing.status.as_u16(), failing.json()["code"].as_str()), (400, Some("42703")));
    let headed = anon(&server, Method::HEAD, "/owners").header("accept", plan).send().await.expect(200);
    assert_eq!(headed.header("content-type"), format!("{plan}; charset=utf-8"));
    assert!(headed.body.is_empty());
}

#[tokio::test]
async fn plans_can_be_disabled() {
    let server = schema_server().config("rest.plan_enabled", "false").start().await;
    let plan = accepting(&server, "/owners", "application/vnd.pgrst.plan+json").send().await;
    assert_eq!((plan.status.as_u16(), plan.json()["code"].as_str()), (406, Some("PGRST107")));
    let other =
        accepting(&server, "/owners", "application/vnd.pgrst.plan+json, application/json").send().await;
    assert_eq!(
        (other.status.as_u16(), other.header("content-type")),
        (200, "application/json; charset=utf-8")
    );
}
