//! POST, PATCH, DELETE and PUT (rest.md §3.9). Most cases are in the transcripts in `writes/`.

use http::Method;
use insta::assert_snapshot;
use serde_json::json;

use super::transcript::{replay, request};
use super::{SOON, anon, rolled_back_server, server, shown, write};
use basalt_testkit::Response;

#[tokio::test]
async fn transcript_bodies() {
    replay(&rolled_back_server().await, include_str!("writes/bodies.txt")).await;
}

#[tokio::test]
async fn transcript_inserts() {
    replay(&rolled_back_server().await, include_str!("writes/inserts.txt")).await;
}

#[tokio::test]
async fn transcript_conflicts() {
    replay(&rolled_back_server().await, include_str!("writes/conflicts.txt")).await;
}

#[tokio::test]
async fn transcript_changes() {
    replay(&rolled_back_server().await, include_str!("writes/changes.txt")).await;
}

#[tokio::test]
async fn inserts_rows() {
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
async fn upsert_status_states_whether_a_row_is_new() {
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
async fn updates_and_deletes_rows() {
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
async fn rejected_writes_are_rolled_back() {
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
async fn accepts_forms_and_csv() {
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

#[tokio::test]
async fn headers_describe_the_body() {
    let server = rolled_back_server().await;
    let headers = |text: &'static str| {
        let server = &server;
        async move {
            let response = request(server, text).send().await;
            let of =
                |name| response.headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
            let names = ["content-type", "content-length", "content-profile", "preference-applied", "vary"];
            format!("{} {}", response.status.as_u16(), names.map(of).join(" | "))
        }
    };
    let insert = r#"POST /things
> Prefer: return=minimal, missing=default, count=exact, foo=bar
= {"id": 9, "name": "x"}"#;
    assert_snapshot!(headers(insert).await, @"201 - | 0 | - | missing=default, return=minimal, count=exact | Accept, Prefer, Range");
    let shown = r#"POST /things?select=id
> Content-Profile: dock
> Prefer: return=representation, resolution=merge-duplicates
= {"id": 9, "name": "x"}"#;
    assert_snapshot!(headers(shown).await, @"201 application/json; charset=utf-8 | 10 | dock | resolution=merge-duplicates, return=representation | Accept, Prefer, Range");
    let update = r#"PATCH /things?id=eq.1
> Prefer: return=headers-only, resolution=merge-duplicates, handling=strict, max-affected=5, timezone=UTC
= {"name": "x"}"#;
    assert_snapshot!(headers(update).await, @"204 - | - | - | return=headers-only, handling=strict, timezone=UTC, max-affected=5 | Accept, Prefer, Range");
    let keyless = r#"POST /keyless
> Prefer: resolution=merge-duplicates, return=minimal
= {"a": 1}"#;
    assert_snapshot!(headers(keyless).await, @"201 - | 0 | - | return=minimal | Accept, Prefer, Range");
    let put = r#"PUT /things?id=eq.1
> Prefer: missing=default, return=representation, tx=commit
= {"id": 1, "name": "x"}"#;
    assert_snapshot!(headers(put).await, @"200 application/json; charset=utf-8 | 55 | dock | return=representation | Accept, Prefer, Range");
    let delete = "DELETE /things?id=eq.1\n> Prefer: missing=default, max-affected=5, count=exact";
    assert_snapshot!(headers(delete).await, @"204 - | - | - | count=exact | Accept, Prefer, Range");
}

#[tokio::test]
async fn concurrent_upserts_create_one_row() {
    let server = server().config("rest.schemas", "dock").start().await;
    let upserts = (0..24).map(|n| {
        let text = format!(
            "POST /things\n> Prefer: resolution=merge-duplicates\n= {{\"id\": 50, \"name\": \"{n}\"}}"
        );
        tokio::spawn(request(&server, &text).send())
    });
    let mut created = 0;
    for upsert in upserts.collect::<Vec<_>>() {
        match upsert.await.unwrap().status.as_u16() {
            200 => {}
            201 => created += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(created, 1);
    assert_eq!(server.database().value("select count(*) from dock.things where id = 50").await, "1");
}

#[tokio::test]
async fn deferred_constraint_rolls_back_the_write() {
    let server = server().config("rest.schemas", "dock").start().await;
    let late = "POST /late\n> Prefer: return=representation\n= {\"id\": 9, \"parent\": 99}";
    let late = request(&server, late).send().await;
    assert_eq!((late.status.as_u16(), late.json()["code"].as_str()), (409, Some("23503")));
    let twice = request(&server, "PATCH /late?id=eq.1\n= {\"parent\": 98}").send().await;
    assert_eq!((twice.status.as_u16(), twice.json()["code"].as_str()), (409, Some("23503")));
    assert_eq!(server.database().value("select count(*) from dock.late where parent is not null").await, "0");
}

#[tokio::test]
async fn invalid_utf8_is_rejected() {
    let server = rolled_back_server().await;
    let send = |path: &str, body: &'static [u8]| {
        anon(&server, Method::POST, path).header("content-type", "application/json").body(body).send()
    };
    let read = send("/things", b"{\"id\": 9, \"name\": \"\xff\"}").await;
    assert_eq!((read.status.as_u16(), read.json()["code"].as_str()), (400, Some("PGRST102")));
    let unread = send("/things?columns=id,name", b"{\"id\": 9, \"name\": \"\xff\"}").await;
    assert_eq!((unread.status.as_u16(), unread.json()["code"].as_str()), (400, Some("22021")));
}

#[tokio::test]
async fn body_depth_and_size_are_limited() {
    let server = rolled_back_server().await;
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(300_000), close.repeat(300_000));
    for (path, body) in [
        ("/kinds", format!("{{\"id\": 9, \"js\": {}}}", deep("[", "]"))),
        ("/kinds?columns=id,js", format!("{{\"id\": 9, \"js\": {}}}", deep("{\"a\":", "}"))),
        ("/rpc/raw_json", deep("[", "]")),
    ] {
        let response = anon(&server, Method::POST, path)
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await;
        assert_eq!(
            (response.status.as_u16(), response.json()["code"].as_str()),
            (400, Some("54001")),
            "{path}"
        );
    }
    let rows = format!("[{}{{\"id\": 9}}]", "{\"id\": 9},".repeat(20_000));
    let many = anon(&server, Method::POST, "/kinds?columns=id")
        .header("content-type", "application/json")
        .body(rows);
    assert_eq!(many.send().await.json()["code"], "23505");
    assert_eq!(request(&server, "/things?id=eq.1&select=id").send().await.text(), "[{\"id\":1}]");
}

#[tokio::test]
async fn foreign_tables_are_read_only() {
    let server = rolled_back_server().await;
    let _made = server
        .database()
        .admin_sql(
            "create extension file_fdw; create server files foreign data wrapper file_fdw; \
             create foreign table dock.lines (id int, name text) server files options (program 'echo 1,one', format 'csv'); \
             grant all on dock.lines to anon",
        )
        .await;
    server.until(SOON, &request(&server, "/lines"), |response| response.status != 404).await;
    replay(
        &server,
        r#"
/lines
< 200 0-0/* [{"id":1,"name":"one"}]
POST /lines
= {"id": 2}
< 400 - 0A000 cannot insert into foreign table "lines"
PATCH /lines?id=eq.1
= {"name": "x"}
< 400 - 0A000 cannot update foreign table "lines"
DELETE /lines?id=eq.1
< 400 - 0A000 cannot delete from foreign table "lines"
"#,
    )
    .await;
}

#[tokio::test]
async fn new_partial_index_is_usable_after_a_reload() {
    let server = rolled_back_server().await;
    let upsert = r#"POST /folded?on_conflict=address&select=id
> Prefer: resolution=merge-duplicates, return=representation
= {"id": 9, "address": "a"}"#;
    replay(&server, &format!("{upsert}\n< 400 - 42P10…")).await;
    let _made = server
        .sql("create unique index on dock.folded (address) where id > 5; notify pgrst, 'reload schema'")
        .await;
    server.until(SOON, &request(&server, upsert), |response| response.status != 400).await;
    replay(&server, &format!("{upsert}\n< 201 */* [{{\"id\":9}}]")).await;
}

#[tokio::test]
async fn safe_update_can_be_disabled() {
    let server = server()
        .config("rest.schemas", "dock")
        .config("rest.tx_end", "rollback")
        .config("rest.safe_update", "false")
        .start()
        .await;
    let everything = r#"
PATCH /things
= {"name": "x"}
< 204 0-2/*
DELETE /things
> Prefer: count=exact
< 204 */3
"#;
    replay(&server, everything).await;
}

#[tokio::test]
async fn parsed_values_count_toward_body_memory() {
    let server =
        server().config("server.body_memory", "1MiB").config("rest.max_body_bytes", "1MiB").start().await;
    let _done = server
        .sql(
            "create table slow_rows (v text);
             grant insert on slow_rows to anon;
             create function wait() returns trigger language plpgsql as $$ begin
               perform pg_advisory_xact_lock_shared(1);
               return new;
             end $$;
             create trigger wait before insert on slow_rows for each row execute function wait();
             create function slow_bytes(bytea) returns int language sql as $$ select length($1) from pg_advisory_xact_lock_shared(1) $$;
             create function slow_text(v text) returns int language sql as $$ select length(v) from pg_advisory_xact_lock_shared(1) $$;
             grant execute on function slow_bytes(bytea), slow_text(text) to anon;",
        )
        .await;
    let send = |path: &str, media: &str, body: String| {
        anon(&server, Method::POST, path).header("content-type", media).body(body)
    };
    let there = send("/rpc/slow_text", "application/json", r#"{"v":""}"#.to_owned());
    let _there = server.until(SOON, &there, |response| response.status == 200).await;
    let form = || format!("v={}", "x".repeat(300_000));
    for (path, media, body, bytes) in [
        ("/rpc/slow_bytes", "application/octet-stream", "x".repeat(300_000), 900_000.0),
        ("/rpc/slow_text", "application/x-www-form-urlencoded", form(), 600_000.0),
        ("/slow_rows", "application/x-www-form-urlencoded", form(), 600_000.0),
    ] {
        let in_flight = |response: &Response| {
            let text = response.text();
            let line = text.lines().find_map(|line| line.strip_prefix("basalt_http_body_bytes_in_flight "));
            line.map_or(0.0, |bytes| bytes.parse::<f64>().unwrap())
        };
        let (slow, metrics) = (send(path, media, body), server.get("/metrics").bearer(server.secret_key()));
        let held = server.database().hold("select pg_advisory_lock(1)").await;
        let counted = async {
            server.until(SOON, &metrics, |response| in_flight(response) >= bytes).await;
            drop(held);
        };
        let (slow, ()) = tokio::join!(slow.send(), counted);
        assert!(slow.status.is_success(), "{path}: {}", slow.text());
        let _free = server.until(SOON, &metrics, |response| in_flight(response) < 1.0).await;
    }
}
