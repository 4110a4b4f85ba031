//! Values that we extract from a JSON body ourselves, against PostgreSQL's reading of the same body: the same rows or the
//! same error, for every type and spelling of a value.
//!
//! An object in a member that `columns=` omits makes PostgreSQL parse the body, so each value is sent both ways.

use http::Method;
use serde_json::{Value, json};

use super::{SOON, anon, server};
use basalt_testkit::{Basalt, Response};

/// Every type whose values we extract, and some that must be left to PostgreSQL.
const TYPES: [&str; 27] = [
    "text",
    "uuid",
    "integer",
    "bigint",
    "smallint",
    "boolean",
    "real",
    "double precision",
    "date",
    "timestamp with time zone",
    "timestamp without time zone",
    "numeric",
    "numeric(5,2)",
    "numeric(3,-2)",
    "character varying",
    "character varying(5)",
    "character(3)",
    "timestamp(0) with time zone",
    "interval minute",
    "bit(3)",
    "json",
    "jsonb",
    "bytea",
    "integer[]",
    "varying_mood",
    "short",
    "pair",
];

const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "7",
    "1.5",
    "-1.005",
    "1e3",
    "1E-2",
    "1e400",
    "32768",
    "99999999999999999999",
    "123456.789",
    r#""""#,
    r#"" ""#,
    r#"" 7 ""#,
    r#""7""#,
    r#""1.5""#,
    r#""1e2""#,
    r#""0x1F""#,
    r#""1_000""#,
    r#""t""#,
    r#""yes""#,
    r#""TRUE""#,
    r#""null""#,
    r#""NULL""#,
    r#""abc""#,
    r#""abc   ""#,
    r#""abcdefgh""#,
    r#""abcde   ""#,
    r#""a,b""#,
    r#""{}""#,
    r#""{1,NULL}""#,
    r#""\"""#,
    r#""\\""#,
    r#""\\x4142""#,
    r#""\/""#,
    r#""\n\t\b""#,
    r#""\u00e9\ud83d\ude00""#,
    r#""é😀""#,
    r#""\u0000""#,
    r#""a\u0000b""#,
    r#""'; drop table students --""#,
    r#""$1""#,
    r#""101""#,
    r#""1:02""#,
    r#""(1,a)""#,
    r#""happy""#,
    r#""2026-01-02""#,
    r#""2026-02-30""#,
    r#""01/02/2026""#,
    r#""2026-01-02T03:04:05.123456+02""#,
    r#""2026-01-02 03:04:05.5 BC""#,
    r#""infinity""#,
    r#""-Infinity""#,
    r#""NaN""#,
    r#""epoch""#,
    r#""f81d4fae-7dec-11d0-a765-00a0c91e6bf6""#,
    r#""{F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6}""#,
    r#""f81d4fae""#,
    "{}",
    r#"{"a":1,"b":"x"}"#,
    "[]",
    "[1,2]",
    r#"[["a"]]"#,
];

/// A server with two tables of each type.
async fn tables() -> Basalt {
    let server = server().start().await;
    let mut sql = String::from(
        "create type varying_mood as enum ('happy', 'null');
         create domain short as text check (length(value) < 4);
         create type pair as (a int, b text);",
    );
    for (number, kind) in TYPES.iter().enumerate() {
        for way in ["ours", "theirs"] {
            sql.push_str(&format!(
                "create table {way}_{number} (id bigint generated always as identity, v {kind});
                 grant select, insert, update on {way}_{number} to anon;"
            ));
        }
    }
    sql.push_str("create table shut (v integer); create table last_of_them (id int); grant select on last_of_them to anon;");
    let _done = server.sql(&sql).await;
    let last = anon(&server, Method::GET, "/last_of_them");
    let _there = server.until(SOON, &last, |response| response.status == 200).await;
    server
}

async fn send(server: &Basalt, method: Method, path: &str, body: &str) -> Response {
    let request = anon(server, method, path).header("content-type", "application/json");
    request.body(body.to_owned()).send().await
}

/// Status and body.
fn seen(response: &Response) -> (u16, Value) {
    let body = if response.body.is_empty() { Value::Null } else { response.json() };
    (response.status.as_u16(), body)
}

#[tokio::test]
async fn inserted_values_match_postgresqls_parsing() {
    let server = tables().await;
    for (number, kind) in TYPES.iter().enumerate() {
        for value in VALUES {
            for (ours, theirs) in [
                (format!(r#"{{"v":{value}}}"#), format!(r#"{{"v":{value},"x":{{}}}}"#)),
                (
                    format!(r#"[{{"v":{value}}},{{"v":null}},{{"v":{value}}}]"#),
                    format!(r#"[{{"v":{value}}},{{"v":null,"x":{{}}}},{{"v":{value}}}]"#),
                ),
            ] {
                let ours = send(&server, Method::POST, &format!("/ours_{number}?columns=v"), &ours).await;
                let theirs =
                    send(&server, Method::POST, &format!("/theirs_{number}?columns=v"), &theirs).await;
                assert_eq!(seen(&ours), seen(&theirs), "{value} as {kind}");
            }
        }
        let rows = |way: &str| {
            let rows =
                format!("select jsonb_agg(coalesce(v::text, 'NULL') order by id)::text from {way}_{number}");
            let database = server.database();
            async move { database.value(&rows).await }
        };
        assert_eq!(rows("ours").await, rows("theirs").await, "{kind}");
    }
}

#[tokio::test]
async fn updated_values_match_postgresqls_parsing() {
    let server = tables().await;
    for (number, kind) in TYPES.iter().enumerate() {
        for way in ["ours", "theirs"] {
            let _row =
                send(&server, Method::POST, &format!("/{way}_{number}"), r#"{"v":null}"#).await.expect(201);
        }
        for value in VALUES {
            // One matching row, and none.
            for id in [1, 0] {
                let path = |way: &str| format!("/{way}_{number}?columns=v&id=eq.{id}");
                let ours = send(&server, Method::PATCH, &path("ours"), &format!(r#"{{"v":{value}}}"#)).await;
                let theirs = format!(r#"{{"v":{value},"x":{{}}}}"#);
                let theirs = send(&server, Method::PATCH, &path("theirs"), &theirs).await;
                assert_eq!(seen(&ours), seen(&theirs), "{value} as {kind}");
            }
        }
        let value = |way: &str| {
            let value = format!("select coalesce(v::text, 'NULL') from {way}_{number} where id = 1");
            let database = server.database();
            async move { database.value(&value).await }
        };
        assert_eq!(value("ours").await, value("theirs").await, "{kind}");
    }
}

#[tokio::test]
async fn privileges_are_checked_before_values() {
    let server = tables().await;
    for body in [r#"{"v":"no number"}"#, r#"[{"v":"no number"}]"#, r#"{"v":1}"#] {
        let response = send(&server, Method::POST, "/shut", body).await;
        assert_eq!(response.json()["code"], "42501", "{body}");
    }
    let response = send(&server, Method::POST, "/ours_2", r#"{"v":"no number"}"#).await;
    let expected = json!({
        "code": "22P02", "details": null, "hint": null, "message": "invalid input syntax for type integer: \"no number\"",
    });
    assert_eq!(seen(&response), (400, expected));
}

#[tokio::test]
async fn insert_trigger_can_set_the_response() {
    let server = server().start().await;
    let _done = server
        .sql(
            "create table heard (v int);
             grant insert on heard to anon;
             create function say() returns trigger language plpgsql as $$ begin
               perform set_config('response.headers', format('[{\"x-%s\": \"%s\"}]', tg_argv[0], new.v), true);
               perform set_config('response.status', '202', true);
               return new;
             end $$;
             create trigger before before insert on heard for each row execute function say('before');
             create trigger after after insert on heard for each row execute function say('after');",
        )
        .await;
    let post = anon(&server, Method::POST, "/heard").json(&json!({"v": 5}));
    let response = server.until(SOON, &post, |response| response.status == 202).await;
    assert_eq!((response.header("x-before"), response.headers.contains_key("x-after")), ("5", false));
}

#[tokio::test]
async fn trigger_that_skips_the_row_can_set_the_response() {
    let server = server().start().await;
    let _done = server
        .sql(
            "create table unwanted (v int);
             create view shown as select v from unwanted;
             create table split (v int) partition by list (v);
             create table split_1 partition of split default;
             grant insert on unwanted, shown, split to anon;
             create function refuse() returns trigger language plpgsql as $$ begin
               perform set_config('response.headers', format('[{\"x-refused\": \"%s\"}]', new.v), true);
               perform set_config('response.status', '208', true);
               return null;
             end $$;
             create trigger refuse before insert on unwanted for each row execute function refuse();
             create trigger refuse before insert on split_1 for each row execute function refuse();",
        )
        .await;
    for path in ["/unwanted", "/shown", "/split"] {
        let post = anon(&server, Method::POST, path).json(&json!({"v": 5}));
        let response = server.until(SOON, &post, |response| response.status == 208).await;
        assert_eq!(response.header("x-refused"), "5", "{path}");
    }
}

#[tokio::test]
async fn failing_write_runs_its_triggers_once() {
    let server = server().start().await;
    let _done = server
        .sql(
            "create table picky (id int primary key, v int);
             insert into picky values (1, 0);
             create sequence tries;
             grant select, insert, update on picky to anon;
             grant usage on sequence tries to anon;
             create function pick() returns trigger language plpgsql as $$ begin
               perform nextval('tries');
               raise sqlstate '22023' using message = 'not this one';
             end $$;
             create trigger pick before insert or update on picky for each row execute function pick();",
        )
        .await;
    let tries = || async { server.database().value("select last_value::text from tries").await };
    let there = anon(&server, Method::GET, "/picky");
    let _there = server.until(SOON, &there, |response| response.status == 200).await;
    for (number, method, path, body) in [
        ("1", Method::POST, "/picky", json!({"id": 2, "v": 3})),
        ("2", Method::POST, "/picky", json!([{"id": 2, "v": 3}, {"id": 3, "v": 3}])),
        ("3", Method::PATCH, "/picky?id=eq.1", json!({"v": 3})),
    ] {
        let response = send(&server, method, path, &body.to_string()).await;
        assert_eq!((response.status.as_u16(), &response.json()["message"]), (400, &json!("not this one")));
        assert_eq!(tries().await, number);
    }
}

#[tokio::test]
async fn inserts_120_columns_with_defaults() {
    let server = server().start().await;
    let columns: Vec<String> = (0..120).map(|number| format!("c{number} int default {number}")).collect();
    let sql = format!("create table wide ({}); grant select, insert on wide to anon;", columns.join(", "));
    let _done = server.sql(&sql).await;
    let names: Vec<String> = (0..120).map(|number| format!("c{number}")).collect();
    let post = anon(&server, Method::POST, &format!("/wide?columns={}", names.join(",")))
        .header("prefer", "missing=default, return=representation")
        .json(&json!([{"c7": 1}, {"c119": null}]));
    let response = server.until(SOON, &post, |response| response.status != 404).await.expect(201);
    let rows = response.json();
    let seen = |row: usize| ["c0", "c7", "c50", "c99", "c119"].map(|name| rows[row][name].clone());
    assert_eq!(seen(0), [0, 1, 50, 99, 119].map(Value::from));
    assert_eq!(seen(1), [json!(0), json!(7), json!(50), json!(99), Value::Null]);
}

#[tokio::test]
async fn auth_uid_in_a_default_uses_the_claims() {
    let server = server().start().await;
    let _done = server
        .sql(
            "create table owned (owner uuid default auth.uid(), v int);
             grant select, insert on owned to authenticated;
             create function owner() returns uuid language sql volatile as $$
               select set_config('request.jwt.claims', '{\"sub\":\"00000000-0000-4000-8000-000000000009\"}', true);
               select auth.uid()
             $$;
             grant execute on function owner() to authenticated;",
        )
        .await;
    let subject = "00000000-0000-4000-8000-000000000001";
    for (sub, owner) in
        [(json!(subject), json!(subject)), (Value::Null, Value::Null), (json!(""), Value::Null)]
    {
        let token = server.token(&json!({"role": "authenticated", "sub": sub}));
        let post =
            anon(&server, Method::POST, "/owned").bearer(&token).header("prefer", "return=representation");
        let post = post.json(&json!([{"v": 1}, {"v": 2}]));
        let response = server.until(SOON, &post, |response| response.status == 201).await;
        assert_eq!(response.json()[1]["owner"], owner, "{sub}");
        let call = anon(&server, Method::POST, "/rpc/owner").bearer(&token).json(&json!({}));
        let response = server.until(SOON, &call, |response| response.status == 200).await;
        assert_eq!(response.json(), "00000000-0000-4000-8000-000000000009", "a function's own claims");
    }
}

#[tokio::test]
async fn claims_set_by_a_trigger_take_effect() {
    let server = server().start().await;
    let other = "00000000-0000-4000-8000-000000000009";
    let _done = server
        .sql(&format!(
            "create table signed (owner uuid, v int);
             grant select, insert on signed to authenticated;
             create function act_as(who text) returns void language plpgsql as $$ begin
               set local request.jwt.claims = '{{}}';
               perform set_config( 'request.jwt.claims', json_build_object('sub', who)::text, true);
             end $$;
             grant execute on function act_as(text) to authenticated;
             create function sign() returns trigger language plpgsql as $$ begin
               perform act_as('{other}');
               new.owner = auth.uid();
               return new;
             end $$;
             create trigger sign before insert on signed for each row execute function sign();"
        ))
        .await;
    let token =
        server.token(&json!({"role": "authenticated", "sub": "00000000-0000-4000-8000-000000000001"}));
    let post =
        anon(&server, Method::POST, "/signed").bearer(&token).header("prefer", "return=representation");
    let post = post.json(&json!({"v": 1}));
    let response = server.until(SOON, &post, |response| response.status == 201).await;
    assert_eq!(response.json()[0]["owner"], other);
}
