//! Hints that name the missing grant or policy, only for service_role (rest.md §7.1, our extension).

use basalt_testkit::{Basalt, Request};
use http::Method;
use serde_json::{Value, json};

use super::super::{SOON, anon};
use super::schema_server;

fn service(server: &Basalt, method: Method, path: &str) -> Request {
    server.request(method, &format!("/rest/v1{path}")).apikey(server.secret_key())
}

/// The hint of a permission error without a hint from PostgreSQL.
async fn hint(request: Request) -> Value {
    let response = request.send().await;
    assert_eq!(
        (response.status.as_u16(), response.json()["code"].as_str()),
        (403, Some("42501")),
        "{}",
        response.text()
    );
    response.json()["hint"].clone()
}

fn grant(text: &str) -> Value {
    json!(format!("Grant the required privileges to the current role with: {text}"))
}

#[tokio::test]
async fn hint_names_the_missing_grant() {
    let server = schema_server().start().await;
    let row = json!({"id": 1});
    let ask = |method, path: &str, prefer: &str| {
        service(&server, method, path).header("prefer", &format!("handling=lenient, {prefer}")).json(&row)
    };
    let on_hidden =
        |privileges: &str| grant(&format!("GRANT {privileges} ON answers.hidden TO service_role;"));
    assert_eq!(hint(service(&server, Method::GET, "/hidden")).await, on_hidden("SELECT"));
    assert_eq!(hint(ask(Method::POST, "/hidden", "")).await, on_hidden("INSERT"));
    assert_eq!(
        hint(ask(Method::POST, "/hidden", "return=representation")).await,
        on_hidden("SELECT, INSERT")
    );
    assert_eq!(
        hint(ask(Method::POST, "/hidden", "resolution=merge-duplicates")).await,
        on_hidden("SELECT, INSERT, UPDATE")
    );
    assert_eq!(hint(ask(Method::PATCH, "/hidden?id=eq.1", "")).await, on_hidden("SELECT, UPDATE"));
    assert_eq!(hint(ask(Method::DELETE, "/hidden?id=eq.1", "")).await, on_hidden("SELECT, DELETE"));
    assert_eq!(hint(ask(Method::PUT, "/hidden?id=eq.1", "")).await, on_hidden("SELECT, INSERT, UPDATE"));
    // Only the missing privileges.
    let _granted = server.sql("grant select on answers.hidden to service_role").await;
    assert_eq!(hint(ask(Method::PATCH, "/hidden?id=eq.1", "")).await, on_hidden("UPDATE"));
    assert_eq!(hint(ask(Method::POST, "/hidden", "return=representation")).await, on_hidden("INSERT"));

    assert_eq!(
        hint(service(&server, Method::POST, "/rpc/denied").json(&json!({}))).await,
        grant("GRANT EXECUTE ON FUNCTION answers.denied() TO service_role;")
    );
    let _made = server
        .sql(
            "create table answers.\"Odd \"\"Table\"\"\" (id int primary key, owner_id int references answers.owners);
             create schema closed; create table closed.inner_table (id int);
             create table answers.numbered (id serial primary key, note text);
             grant insert, select on answers.numbered to service_role;
             create function answers.reads_closed() returns bigint language sql as 'select count(*) from closed.inner_table';
             create function answers.adds_hidden() returns int language sql as 'insert into answers.hidden values (5) returning id';
             grant execute on all functions in schema answers to service_role;",
        )
        .await;
    let known = service(&server, Method::OPTIONS, "/rpc/adds_hidden");
    let _known = server.until(SOON, &known, |response| response.status == 200).await;
    assert_eq!(
        hint(service(&server, Method::GET, "/Odd%20%22Table%22")).await,
        grant("GRANT SELECT ON answers.\"Odd \"\"Table\"\"\" TO service_role;")
    );
    assert_eq!(
        hint(service(&server, Method::POST, "/numbered").json(&json!({"note": "x"}))).await,
        grant("GRANT USAGE ON SEQUENCE answers.numbered_id_seq TO service_role;")
    );
    assert_eq!(
        hint(service(&server, Method::POST, "/rpc/reads_closed").json(&json!({}))).await,
        grant("GRANT USAGE ON SCHEMA closed TO service_role;")
    );
    assert_eq!(
        hint(service(&server, Method::POST, "/rpc/adds_hidden").json(&json!({}))).await,
        on_hidden("INSERT, UPDATE, DELETE")
    );
    // Following the hint fixes the error.
    let _granted = server.sql("GRANT INSERT ON answers.hidden TO service_role").await;
    let added = service(&server, Method::POST, "/hidden").json(&json!({"id": 77})).send().await;
    assert_eq!(added.status, 201);
}

#[tokio::test]
async fn other_roles_get_no_hint() {
    let server = schema_server().start().await;
    let user = server.token_of("authenticated");
    for path in ["/hidden", "/rpc/denied"] {
        let visitor = anon(&server, Method::GET, path).send().await;
        assert_eq!((visitor.status.as_u16(), &visitor.json()["hint"]), (401, &Value::Null), "{path}");
        let known = anon(&server, Method::GET, path).bearer(&user).send().await;
        assert_eq!((known.status.as_u16(), &known.json()["hint"]), (403, &Value::Null), "{path}");
        // A service key with a user's token does not give the role service_role.
        let both = service(&server, Method::GET, path).bearer(&user).send().await;
        assert_eq!(both.json()["hint"], Value::Null, "{path}");
    }
    // A hint raised by a function is unchanged.
    let raised = json!({"code": "42501", "message": "permission denied for table hidden", "detail": "d", "hint": "own"});
    assert_eq!(hint(service(&server, Method::POST, "/rpc/fail").json(&raised)).await, "own");
    let unknown = json!({"code": "42501", "message": "permission denied for table nope"});
    assert_eq!(hint(service(&server, Method::POST, "/rpc/fail").json(&unknown)).await, Value::Null);
    let other = json!({"code": "42501", "message": "must be owner of table hidden"});
    assert_eq!(hint(service(&server, Method::POST, "/rpc/fail").json(&other)).await, Value::Null);
}

#[tokio::test]
async fn hint_names_the_missing_policy() {
    // With `--only rest`, service_role may lack BYPASSRLS.
    let server = schema_server().start().await;
    let _made = server
        .sql(
            "create table answers.guarded (id int primary key, open boolean);
             alter table answers.guarded enable row level security;
             grant all on answers.guarded to service_role, anon;
             create function answers.as_guarded(new_id int) returns void language plpgsql as
               $$ begin insert into answers.guarded values (new_id, false); end $$;
             grant execute on all functions in schema answers to service_role, anon;",
        )
        .await;
    let known = service(&server, Method::OPTIONS, "/guarded");
    let _known = server.until(SOON, &known, |response| response.status == 200).await;
    // The cluster's service_role has BYPASSRLS, which other tests need, so a function raises the same message.
    let refusal = |text: &str| json!({"code": "42501", "message": text});
    let refused = "new row violates row-level security policy for table \"guarded\"";
    let ask = |method: Method, path: &str| {
        let request = service(&server, method, path);
        request.json(&json!({"id": 1}))
    };
    let _trigger = server
        .sql(
            "create function answers.refuse() returns trigger language plpgsql as $$ begin
               raise exception using errcode = '42501',
                 message = 'new row violates row-level security policy for table \"guarded\"'; end $$;
             create trigger refuse before insert or update on answers.guarded
               for each row execute function answers.refuse();",
        )
        .await;
    let found = hint(ask(Method::POST, "/guarded")).await;
    assert_eq!(
        found,
        "No policy on answers.guarded lets service_role INSERT. Create one with: CREATE POLICY service_role_insert ON \
         answers.guarded FOR INSERT TO service_role WITH CHECK (true); or let the role pass all policies with: ALTER \
         ROLE service_role BYPASSRLS;"
    );
    let _policy = server.sql("create policy adds on answers.guarded for insert with check (open)").await;
    let found = hint(ask(Method::POST, "/guarded")).await;
    assert_eq!(
        found,
        "The policies on answers.guarded for INSERT do not let service_role write this row: adds."
    );
    let merged = ask(Method::POST, "/guarded").header("prefer", "resolution=merge-duplicates");
    let found = hint(merged).await;
    assert!(
        found
            .as_str()
            .is_some_and(|hint| hint.starts_with("No policy on answers.guarded lets service_role "))
    );
    // An anonymous caller gets no hint.
    let visitor = anon(&server, Method::POST, "/rpc/fail").json(&refusal(refused)).send().await;
    assert_eq!(visitor.json()["hint"], Value::Null);
}
