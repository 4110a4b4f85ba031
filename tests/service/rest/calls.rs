//! `/rpc/…` (rest.md §3.10, §3.16, §3.18). Most cases are in the transcripts in `calls/`.

use http::Method;
use insta::assert_snapshot;
use serde_json::json;

use super::transcript::{replay, request};
use super::{anon, get, rolled_back_server, server, shown, write};

#[tokio::test]
async fn result_shape_follows_the_return_type() {
    let server = server().start().await;
    let call = |path: &'static str, body| {
        let server = &server;
        async move { shown(&write(server, Method::POST, path, "handling=lenient", &body).await) }
    };
    assert_snapshot!(call("/rpc/add", json!({"a": 1, "b": 2})).await, @"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-0/*
    preference-applied: tx=rollback, handling=lenient

    3
    ");
    assert_snapshot!(call("/rpc/echo", json!([1, {"a": null}])).await, @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-0/*
    preference-applied: tx=rollback, handling=lenient

    [1,{"a":null}]
    "#);
    assert_snapshot!(call("/rpc/projects_below?select=id,clients(name)&order=id", json!({"below": 3})).await, @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-1/*
    preference-applied: tx=rollback, handling=lenient

    [{"id":1,"clients":{"name": "Acme"}}, 
     {"id":2,"clients":{"name": "Acme"}}]
    "#);
    assert_snapshot!(call("/rpc/respond", json!({"headers": null, "status": null})).await, @"
    204
    content-range: 0-0/*
    preference-applied: tx=rollback, handling=lenient
    ");
    assert_snapshot!(shown(&get(&server, "/rpc/add?a=1&b=2").await), @"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-0/*

    3
    ");
    assert_snapshot!(shown(&get(&server, "/rpc/projects_below?below=4&name=like.*s*&select=name").await), @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-0/*

    [{"name":"Website"}]
    "#);
}

#[tokio::test]
async fn function_sets_status_and_headers() {
    let server = server().start().await;
    let respond = |headers: &'static str, status: &'static str| {
        let body = json!({"headers": headers, "status": status});
        let server = &server;
        async move { write(server, Method::POST, "/rpc/respond", "handling=lenient", &body).await }
    };
    let response =
        respond(r#"[{"X-My":"v"},{"Set-Cookie":"a=b"},{"Set-Cookie":"c=d"},{"Vary":"X"}]"#, "202").await;
    assert_eq!(response.status, 202);
    assert_eq!(response.header("x-my"), "v");
    assert_eq!(response.headers.get_all("set-cookie").iter().count(), 2);
    assert_eq!(response.header("vary"), "X");
    assert_snapshot!(shown(&respond("[1]", "200").await), @r#"
    500
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST111

    {"code":"PGRST111","details":null,"hint":null,"message":"response.headers guc must be a JSON array composed of objects with a single key and a string value"}
    "#);
    assert_snapshot!(shown(&respond("[]", "many").await), @r#"
    500
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST112

    {"code":"PGRST112","details":null,"hint":null,"message":"response.status guc must be a valid status code"}
    "#);
}

#[tokio::test]
async fn raised_pgrst_error_is_returned_unchanged() {
    let server = server().start().await;
    let raised = write(&server, Method::POST, "/rpc/raise_error", "handling=lenient", &json!({})).await;
    assert_snapshot!(shown(&raised), @r#"
    332
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=123

    {"code":"123","details":"DEF","hint":"XYZ","message":"ABC"}
    "#);
    assert_eq!(raised.header("x-my"), "v");
}

#[tokio::test]
async fn get_runs_in_a_read_only_transaction() {
    let server = server().start().await;
    assert_snapshot!(shown(&get(&server, "/rpc/add_client?id=77").await), @r#"
    405
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=25006

    {"code":"25006","details":null,"hint":null,"message":"cannot execute INSERT in a read-only transaction"}
    "#);
    assert_eq!(server.database().count("clients").await, 2);
    let posted =
        anon(&server, Method::POST, "/rpc/add_client").json(&json!({"id": 77})).send().await.expect(200);
    assert_eq!(posted.text(), "77");
    assert_eq!(server.database().count("clients").await, 3);
}

#[tokio::test]
async fn transaction_has_the_request_settings() {
    let server = server().start().await;
    let token = server.token(&json!({"role": "authenticated", "sub": "me", "nested": {"a": [1]}}));
    let response = anon(&server, Method::GET, "/rpc/who_am_i")
        .bearer(&token)
        .header("cookie", "a=b; c=d")
        .header("prefer", "timezone=America/Lima")
        .header("x-mine", "yes")
        .send()
        .await
        .expect(200);
    assert_eq!(response.header("preference-applied"), "timezone=America/Lima");
    let known = response.json();
    assert_eq!(known["role"], "authenticated");
    assert_eq!(known["claims"]["nested"], json!({"a": [1]}));
    assert_eq!((&known["method"], &known["path"]), (&json!("GET"), &json!("/rpc/who_am_i")));
    assert_eq!(known["cookies"], json!({"a": "b", "c": "d"}));
    assert_eq!(known["headers"]["x-mine"], "yes");
    assert!(known["headers"]["cookie"].is_null() && known["headers"]["apikey"].is_null());
    assert_eq!(known["timezone"], "America/Lima");
    assert_eq!(known["timeout"], "8s", "from the role authenticated");
    let visitor = get(&server, "/rpc/who_am_i").await.json();
    assert_eq!((&visitor["role"], &visitor["timeout"]), (&json!("anon"), &json!("3s")));
    assert_eq!(get(&server, "/rpc/slow_setting").await.json(), "7s");
    let nowhere = anon(&server, Method::GET, "/clients").header("prefer", "timezone=Nowhere").send().await;
    assert_snapshot!(shown(&nowhere), @r#"
    400
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=22023

    {"code":"22023","details":null,"hint":null,"message":"invalid value for parameter \"TimeZone\": \"Nowhere\""}
    "#);
}

#[tokio::test]
async fn name_and_arguments_select_a_function() {
    replay(&rolled_back_server().await, include_str!("calls/lookup.txt")).await;
}

#[tokio::test]
async fn arguments_are_converted() {
    replay(&rolled_back_server().await, include_str!("calls/arguments.txt")).await;
}

#[tokio::test]
async fn results_are_formatted_by_type() {
    replay(&rolled_back_server().await, include_str!("calls/results.txt")).await;
}

#[tokio::test]
async fn volatility_decides_the_transaction_mode() {
    replay(&rolled_back_server().await, include_str!("calls/transaction.txt")).await;
}

#[tokio::test]
async fn raw_body_is_passed_unchanged() {
    let server = rolled_back_server().await;
    let send = |function: &str, media: &'static str, body: &'static [u8]| {
        anon(&server, Method::POST, &format!("/rpc/{function}"))
            .header("content-type", media)
            .body(body)
            .send()
    };
    assert_eq!(send("raw_bytea", "application/octet-stream", b"\0\xff\\x\n").await.text(), "\"00ff5c780a\"");
    assert_eq!(send("raw_text", "text/plain", b"a\r\n\tb").await.json(), "a\r\n\tb");
    assert_eq!(send("raw_text", "text/plain", b"\xff").await.json()["code"], "22021");
}

#[tokio::test]
async fn exceeding_max_affected_rolls_back() {
    let server = server().config("rest.schemas", "dock").start().await;
    let add = |prefer: &str, accept: &str| {
        request(
            &server,
            &format!(
                "POST /rpc/x_add\n> Prefer: {prefer}\n> Accept: {accept}\n= {{\"k\": 70, \"label\": \"x\"}}"
            ),
        )
    };
    let limited = add("handling=strict, max-affected=0", "*/*").send().await;
    assert_eq!((limited.status.as_u16(), limited.json()["code"].as_str()), (400, Some("PGRST124")));
    assert_eq!(server.database().value("select count(*) from dock.parents").await, "3");
    let object = add("handling=strict, max-affected=1", "application/vnd.pgrst.object+json").send().await;
    assert_eq!((object.status.as_u16(), object.text().as_str()), (200, "{\"id\":70,\"name\":\"x\"}"));
    assert_eq!(object.header("preference-applied"), "handling=strict, max-affected=1");
    assert_eq!(server.database().value("select count(*) from dock.parents").await, "4");
}

#[tokio::test]
async fn only_listed_settings_and_isolation_are_hoisted() {
    let server =
        server().config("rest.schemas", "dock").config("rest.hoisted_tx_settings", "work_mem").start().await;
    // A timeout set by the function does not apply to the statement that called it.
    let calls = "/rpc/x_timeout\n< 200 0-0/* \"late\"\n/rpc/x_isolation\n< 200 0-0/* \"serializable\"";
    replay(&server, calls).await;
}
