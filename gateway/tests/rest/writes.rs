//! POST, PATCH, DELETE and PUT (rest.md §3.9).

use http::Method;
use insta::assert_snapshot;
use serde_json::json;

use super::{anon, server, shown, write};

#[tokio::test]
async fn inserts() {
    let server = server().start().await;
    let post = |path: &'static str, prefer: &'static str, body| {
        let server = &server;
        async move { shown(&write(server, Method::POST, path, prefer, &body).await) }
    };
    assert_snapshot!(post("/clients", "return=minimal", json!({"id": 9, "name": "x"})).await, @"
    201
    content-range: */*
    preference-applied: return=minimal, tx=rollback
    ");
    assert_snapshot!(post("/clients", "return=representation", json!([{"id": 9, "name": "x"}, {"id": 8, "name": "y"}])).await, @r#"
    201
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: return=representation, tx=rollback

    [{"id":9,"name":"x"}, 
     {"id":8,"name":"y"}]
    "#);
    assert_snapshot!(post("/tasks_users", "return=headers-only", json!({"task_id": 5, "user_id": 1})).await, @"
    201
    content-range: */*
    location: /tasks_users?task_id=eq.5&user_id=eq.1
    preference-applied: return=headers-only, tx=rollback
    ");
    assert_snapshot!(post("/tasks?columns=name,done&select=name,done", "missing=default, return=representation", json!([{"name": "x"}])).await, @r#"
    201
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: missing=default, return=representation, tx=rollback

    [{"name":"x","done":false}]
    "#);
    assert_snapshot!(post("/tasks?select=name,done", "return=representation", json!([{}, {}])).await, @r#"
    201
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: return=representation, tx=rollback

    [{"name":null,"done":false}, 
     {"name":null,"done":false}]
    "#);
    assert_snapshot!(post("/clients", "return=representation", json!([])).await, @"
    201
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: return=representation, tx=rollback

    []
    ");
    assert_snapshot!(post("/clients", "return=minimal", json!({"id": 1, "name": "x"})).await, @r#"
    409
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=23505

    {"code":"23505","details":"Key (id)=(1) already exists.","hint":null,"message":"duplicate key value violates unique constraint \"clients_pkey\""}
    "#);
    assert_snapshot!(post("/tasks?select=name,projects(name,clients(name))", "return=representation", json!({"name": "x", "project_id": 1})).await, @r#"
    201
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: return=representation, tx=rollback

    [{"name":"x","projects":{"name": "Website", "clients": {"name": "Acme"}}}]
    "#);
}

#[tokio::test]
async fn upserts_say_whether_a_row_is_new() {
    let server = server().start().await;
    let upsert = |prefer: &'static str, body| {
        let server = &server;
        async move {
            shown(
                &write(server, Method::POST, "/kv?on_conflict=key&select=key,value,note", prefer, &body)
                    .await,
            )
        }
    };
    let merge = "resolution=merge-duplicates, return=representation";
    assert_snapshot!(upsert(merge, json!([{"key": "a", "value": 2}])).await, @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: resolution=merge-duplicates, return=representation, tx=rollback

    [{"key":"a","value":2,"note":"first"}]
    "#);
    assert_snapshot!(upsert(merge, json!([{"key": "a", "value": 2}, {"key": "b", "value": 3}])).await, @r#"
    201
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: resolution=merge-duplicates, return=representation, tx=rollback

    [{"key":"a","value":2,"note":"first"}, 
     {"key":"b","value":3,"note":"a note"}]
    "#);
    assert_snapshot!(upsert(merge, json!([])).await, @"
    200
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: resolution=merge-duplicates, return=representation, tx=rollback

    []
    ");
    assert_snapshot!(upsert("resolution=ignore-duplicates, return=representation", json!([{"key": "a", "value": 2}])).await, @"
    201
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: resolution=ignore-duplicates, return=representation, tx=rollback

    []
    ");
    assert_snapshot!(upsert(merge, json!([{"key": "z", "value": 2}, {"key": "z", "value": 3}])).await, @r#"
    500
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=21000

    {"code":"21000","details":null,"hint":"Ensure that no rows proposed for insertion within the same command have duplicate constrained values.","message":"ON CONFLICT DO UPDATE command cannot affect row a second time"}
    "#);
}

#[tokio::test]
async fn updates_and_deletes() {
    let server = server().start().await;
    let send = |method: Method, path: &'static str, prefer: &'static str, body| {
        let server = &server;
        async move { shown(&write(server, method, path, prefer, &body).await) }
    };
    assert_snapshot!(send(Method::PATCH, "/tasks?id=eq.1", "return=minimal", json!({"done": false})).await, @"
    204
    content-range: 0-0/*
    preference-applied: return=minimal, tx=rollback
    ");
    assert_snapshot!(send(Method::PATCH, "/tasks?id=lt.3&select=id,done&order=id.desc", "return=representation", json!({"done": true})).await, @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: 0-1/*
    preference-applied: return=representation, tx=rollback

    [{"id":2,"done":true}, 
     {"id":1,"done":true}]
    "#);
    assert_snapshot!(send(Method::PATCH, "/tasks?id=eq.99", "count=exact", json!({"done": true})).await, @"
    204
    content-range: */0
    preference-applied: count=exact, tx=rollback
    ");
    assert_snapshot!(send(Method::PATCH, "/tasks?id=eq.1", "return=representation", json!({})).await, @"
    200
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: return=representation, tx=rollback

    []
    ");
    assert_snapshot!(send(Method::PATCH, "/tasks", "return=minimal", json!({"done": true})).await, @r#"
    400
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=21000

    {"code":"21000","details":null,"hint":null,"message":"UPDATE requires a WHERE clause"}
    "#);
    assert_snapshot!(send(Method::DELETE, "/invoices?id=in.(5,6)", "count=exact", json!(null)).await, @"
    204
    content-range: */2
    preference-applied: count=exact, tx=rollback
    ");
    assert_snapshot!(send(Method::DELETE, "/invoices?id=in.(5,6)&select=id", "return=representation", json!(null)).await, @r#"
    200
    content-type: application/json; charset=utf-8
    content-range: */*
    preference-applied: return=representation, tx=rollback

    [{"id":5}, 
     {"id":6}]
    "#);
    assert_snapshot!(send(Method::DELETE, "/clients?id=eq.1", "return=minimal", json!(null)).await, @r#"
    409
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=23503

    {"code":"23503","details":"Key (id)=(1) is still referenced from table \"projects\".","hint":null,"message":"update or delete on table \"clients\" violates foreign key constraint \"projects_client_id_fkey\" on table \"projects\""}
    "#);
    assert_snapshot!(send(Method::PUT, "/kv?key=eq.n", "return=minimal", json!({"key": "n", "value": 1, "note": null})).await, @"
    204
    preference-applied: return=minimal, tx=rollback
    ");
    assert_snapshot!(send(Method::PUT, "/kv?key=eq.a", "return=representation", json!({"key": "a", "value": 7, "note": null})).await, @r#"
    200
    content-type: application/json; charset=utf-8
    preference-applied: return=representation, tx=rollback

    [{"key":"a","value":7,"note":null}]
    "#);
    assert_snapshot!(send(Method::PUT, "/kv?key=eq.a", "return=minimal", json!({"key": "b", "value": 7, "note": null})).await, @r#"
    400
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST115

    {"code":"PGRST115","details":null,"hint":null,"message":"Payload values do not match URL in primary key column(s)"}
    "#);
}

#[tokio::test]
async fn what_is_refused_is_undone() {
    let server = server().start().await;
    let object = "application/vnd.pgrst.object+json";
    let both = json!([{"id": 8, "name": "x"}, {"id": 9, "name": "y"}]);
    let two = anon(&server, Method::POST, "/clients").header("accept", object).json(&both).send().await;
    assert_snapshot!(shown(&two), @r#"
    406
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST116

    {"code":"PGRST116","details":"The result contains 2 rows","hint":null,"message":"Cannot coerce the result to a single JSON object"}
    "#);
    let many = anon(&server, Method::DELETE, "/invoices?id=gt.1")
        .header("prefer", "handling=strict, max-affected=3")
        .send()
        .await;
    assert_snapshot!(shown(&many), @r#"
    400
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST124

    {"code":"PGRST124","details":"The query affects 14 rows","hint":null,"message":"Query result exceeds max-affected preference constraint"}
    "#);
    let mixed = json!([{"id": 9, "name": "fits"}, {"id": 1, "name": "is there"}]);
    assert_eq!(anon(&server, Method::POST, "/clients").json(&mixed).send().await.status, 409);
    let kept = anon(&server, Method::PATCH, "/clients?id=eq.1")
        .header("prefer", "tx=rollback")
        .json(&json!({"name": "changed"}))
        .send()
        .await;
    assert_eq!((kept.status.as_u16(), kept.header("preference-applied")), (204, "tx=rollback"));
    assert_eq!(server.database().count("clients").await, 2);
    assert_eq!(server.database().count("invoices").await, 15);
    assert_eq!(server.database().value("select name from clients where id = 1").await, "Acme");
}

#[tokio::test]
async fn forms_and_csv_are_bodies_too() {
    let server = server().start().await;
    let send = |media: &'static str, body: &'static str| {
        anon(&server, Method::POST, "/clients")
            .header("prefer", "tx=rollback, return=representation")
            .header("content-type", media)
            .body(body)
            .send()
    };
    assert_eq!(
        send("text/csv", "id,name\n8,\"a,b\"\n9,c").await.json(),
        json!([{"id": 8, "name": "a,b"}, {"id": 9, "name": "c"}])
    );
    assert_eq!(
        send("application/x-www-form-urlencoded", "id=8&name=a+b").await.json(),
        json!([{"id": 8, "name": "a b"}])
    );
    assert_snapshot!(shown(&send("text/csv", "id,name\n8").await), @r#"
    400
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST102

    {"code":"PGRST102","details":null,"hint":null,"message":"All lines must have same number of fields"}
    "#);
    assert_snapshot!(shown(&send("text/plain", "x").await), @r#"
    400
    content-type: application/json; charset=utf-8
    proxy-status: PostgREST; error=PGRST102

    {"code":"PGRST102","details":null,"hint":null,"message":"Content-Type not acceptable: text/plain"}
    "#);
}
