//! Payloads of changes (realtime.md 3.7).

use serde_json::{Value, json};

use crate::harness::{Server, table};

const TABLES: &str = "
    create table plain (id int primary key, title text, secret text);
    create table full_identity (id int primary key, title text);
    alter table full_identity replica identity full;
    create table guarded (id int primary key, owner text, title text);
    alter table guarded replica identity full;
    alter table guarded enable row level security;
    create policy own on guarded for select
      using (owner = current_setting('request.jwt.claims', true)::jsonb ->> 'sub');
    create table keyless (id int, title text);
    grant select (id, title) on plain to anon, authenticated;
    grant select on full_identity, guarded, keyless to anon, authenticated;
    alter publication supabase_realtime add table plain, full_identity, guarded, keyless;";

fn part<'a>(change: &'a Value, names: &[&str]) -> Vec<&'a Value> {
    names.iter().map(|name| &change[*name]).collect()
}

#[tokio::test]
async fn payload_depends_on_replica_identity_and_privileges() {
    let server = Server::start_with(TABLES).await;
    let listener = server.listen("", vec![table("plain")]).await;
    server
        .sql(
            "insert into plain values (1, 'a', 'x');
             update plain set title = 'b';
             update plain set id = 2;
             delete from plain",
        )
        .await;
    let heard = listener.until(4).await;
    let columns = json!([{"name": "id", "type": "int4"}, {"name": "title", "type": "text"}]);
    assert_eq!(heard[0]["columns"], columns);
    assert_eq!(
        part(&heard[0], &["schema", "table", "type", "errors"]),
        ["public", "plain", "INSERT"].map(Value::from).iter().chain([&Value::Null]).collect::<Vec<_>>()
    );
    assert_eq!(heard[0]["record"], json!({"id": 1, "title": "a"}));
    assert_eq!(heard[0].get("old_record"), None);
    assert_eq!(
        part(&heard[1], &["record", "old_record"]),
        [&json!({"id": 1, "title": "b"}), &json!({"id": 1})]
    );
    assert_eq!(
        part(&heard[2], &["record", "old_record"]),
        [&json!({"id": 2, "title": "b"}), &json!({"id": 1})]
    );
    assert_eq!(heard[3]["old_record"], json!({"id": 2}));
    assert_eq!(heard[3].get("record"), None);
    let time = heard[0]["commit_timestamp"].as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    assert_eq!(listener.ids(), vec![vec![1]; 4]);
}

#[tokio::test]
async fn policies_reduce_full_old_row_to_its_key() {
    let server = Server::start_with(TABLES).await;
    let whole = server.listen("", vec![table("full_identity")]).await;
    let mine = server.listen("me", vec![table("guarded")]).await;
    let theirs = server.listen("you", vec![table("guarded")]).await;
    server
        .sql(
            "insert into full_identity values (1, 'a'); update full_identity set title = 'b'; delete from full_identity;
             insert into guarded values (1, 'me', 'a'); update guarded set title = 'b'; delete from guarded;
             insert into guarded values (2, 'you', 'a');",
        )
        .await;
    let heard = whole.until(3).await;
    assert_eq!(
        part(&heard[1], &["record", "old_record"]),
        [&json!({"id": 1, "title": "b"}), &json!({"id": 1, "title": "a"})]
    );
    assert_eq!(heard[2]["old_record"], json!({"id": 1, "title": "b"}));
    // The row may or may not still exist when its INSERT and UPDATE are evaluated; a DELETE carries only its
    // key.
    let theirs = theirs.until(2).await;
    assert_eq!(part(&theirs[0], &["type", "old_record"]), [&json!("DELETE"), &json!({"id": 1})]);
    assert_eq!(
        part(&theirs[1], &["type", "record"]),
        [&json!("INSERT"), &json!({"id": 2, "owner": "you", "title": "a"})]
    );
    let mine = mine.heard();
    assert!(mine.iter().all(|change| change["record"]["owner"] != "you"), "{mine:?}");
}

#[tokio::test]
async fn tables_without_key_or_privileges_report_errors() {
    let server = Server::start_with(TABLES).await;
    server.sql("alter table full_identity add column more text; revoke select on full_identity from anon; grant select (title) on full_identity to anon").await;
    let keyless = server.listen("", vec![table("keyless")]).await;
    let partly = server.listen("", vec![table("full_identity")]).await;
    server.sql("insert into keyless values (1, 'a'); insert into full_identity values (1, 'a'); delete from full_identity").await;
    let heard = keyless.until(1).await;
    assert_eq!(heard[0]["errors"], json!(["Error 400: Bad Request, no primary key"]));
    assert_eq!(part(&heard[0], &["columns", "record"]), [&json!([]), &json!({})]);
    let heard = partly.until(2).await;
    assert_eq!(heard[0]["errors"], json!(["Error 401: Unauthorized"]));
    assert_eq!(heard[1]["old_record"], json!({"title": "a"}));
}

#[tokio::test]
async fn selects_columns_and_trims_large_changes() {
    let server = Server::start_with(TABLES).await;
    let mut binding = table("full_identity");
    binding.select = Some(vec!["title".to_owned()]);
    let selected = server.listen("", vec![binding]).await;
    let plain = server.listen("", vec![table("plain")]).await;
    server
        .sql("insert into full_identity values (1, 'a'); insert into plain values (1, repeat('x', 1100000), 's'); insert into plain values (2, repeat('y', 62), repeat('s', 1100000))")
        .await;
    assert_eq!(selected.until(1).await[0]["record"], json!({"id": 1, "title": "a"}));
    let heard = plain.until(2).await;
    assert_eq!(heard[0]["errors"], json!(["Error 413: Payload Too Large"]));
    assert_eq!(heard[0]["record"], json!({"id": 1}));
    assert_eq!(heard[1]["record"], json!({"id": 2, "title": "y".repeat(62)}));
}

/// Streamed by PostgreSQL 18; read from the row before that.
#[tokio::test]
async fn stored_generated_columns_are_sent_and_filterable() {
    let server = Server::start_with(
        "create type pair as (a int, b text);
         create table sums (
           id int primary key, n int, flag bool, at timestamptz, p pair, twice int generated always as (n * 2) stored,
           label text generated always as ('n' || n) stored, none text generated always as (nullif(n, n)::text) stored);
         grant select on sums to anon;
         alter publication supabase_realtime add table sums;",
    )
    .await;
    let listener = server.listen("", vec![table("sums")]).await;
    let filtered = server.listen("", vec![crate::harness::filtered("sums", "twice=eq.14,label=neq.x")]).await;
    server
        .sql("insert into sums (id, n, flag, at, p) values (1, 3, true, '2024-01-01', (1, null)), (2, 7, null, null, (null, null))")
        .await;
    let heard = listener.until(2).await;
    let of = |change: &Value| {
        let record = &change["record"];
        (record["twice"].clone(), record["label"].clone(), record["none"].clone())
    };
    assert_eq!(of(&heard[0]), (json!(6), json!("n3"), Value::Null));
    assert_eq!(of(&heard[1]), (json!(14), json!("n7"), Value::Null));
    assert_eq!(filtered.until(1).await[0]["record"]["id"], 2);
    // If the row has changed again, the values belong to its last change.
    server.sql("update sums set n = 5 where id = 1; update sums set n = 6 where id = 1; delete from sums where id = 2").await;
    let heard = listener.until(5).await;
    assert_eq!(of(&heard[3]), (json!(12), json!("n6"), Value::Null));
    assert!(matches!(heard[2]["record"]["twice"].as_i64(), None | Some(10)), "{}", heard[2]);
    assert_eq!(heard[4]["old_record"], json!({"id": 2}));
    assert_eq!(heard[4]["columns"].as_array().unwrap().len(), 8);
}

#[tokio::test]
async fn unchanged_toasted_values_come_from_the_old_row() {
    let server = Server::start_with(
        "create table kept (id int primary key, note text, count int);
         create table kept_full (id int primary key, note text, count int);
         alter table kept alter note set storage external;
         alter table kept_full alter note set storage external;
         alter table kept_full replica identity full;
         grant select on kept, kept_full to anon;
         alter publication supabase_realtime add table kept, kept_full;
         insert into kept values (1, repeat('x', 9000), 1); insert into kept_full values (1, repeat('x', 9000), 1);",
    )
    .await;
    let listener = server.listen("", vec![table("kept")]).await;
    let full = server.listen("", vec![table("kept_full")]).await;
    server.sql("update kept set count = 2; update kept_full set count = 2").await;
    assert_eq!(listener.until(1).await[0]["record"], json!({"id": 1, "count": 2}));
    assert_eq!(full.until(1).await[0]["record"], json!({"id": 1, "note": "x".repeat(9000), "count": 2}));
}

/// Values are encoded as `to_jsonb` does, except where the contract differs.
#[tokio::test]
async fn encodes_values_of_all_types() {
    let server = Server::start_with(
        r#"create type mood as enum ('sad', 'happy');
        create type pair as (a int, "b c" text[]);
        create domain positive as int check (value > 0);
        create table kinds (
          id bigint primary key, i2 int2, f4 float4, f8 float8, n numeric, b bool, t text, v varchar(9), u uuid, m mood, d date, ti time, tz timetz,
          ts timestamp, tstz timestamptz, j json, jb jsonb, ia int[], ta text[], nested int[][], tsa timestamptz[], r int4range, p pair, pa pair[],
          dom positive, money money, iv interval, net inet, ch char(6), bits bit(3), pt point, ja jsonb[]
        );
        grant select on kinds to anon;
        alter publication supabase_realtime add table kinds;"#,
    )
    .await;
    let listener = server.listen("", vec![table("kinds")]).await;
    server
        .sql(
            r#"insert into kinds values (
              9007199254740993, -7, 1.5, 1e20, 12345678901234567890.50, true, E'a"b\\c\n\u00e9', 'v', '6f1f9a3e-0b3a-4b1c-9d55-2d3c6a0a7f11', 'happy',
              '2024-02-03', '04:05:06.7', '04:05:06+02', '2024-02-03 04:05:06.789123', '2024-02-03 04:05:06.789123+02', '{"a": [1, null]}',
              '{"b": {"c": "d"}}', '{1,null,3}', '{a,"b,c",null,"null",""}', '{{1,2},{3,4}}', '{"2024-02-03 04:05:06+00"}', '[1,5)', '(1,"{x,y z}")',
              array[row(1, '{"q\"r"}')::pair, null], 5, '12.5', '1 day 02:03:04', '10.0.0.1/8', 'abcd', '101', '(1,2)', array['{"x": 1}'::jsonb, '2'])"#,
        )
        .await;
    let heard = listener.until(1).await;
    let record = &heard[0]["record"];
    let expected = server.database.value("set timezone = 'UTC'; select to_jsonb(kinds) from kinds").await;
    let expected: Value = serde_json::from_str(&expected).unwrap();
    for (name, value) in expected.as_object().unwrap() {
        let same = &record[name] == value
            || record[name].as_f64().is_some() && record[name].as_f64() == value.as_f64();
        assert!(same, "{name}: {} instead of {value}", record[name]);
    }
    let types = heard[0]["columns"].as_array().unwrap();
    let type_of = |name: &str| {
        types.iter().find(|column| column["name"] == name).unwrap()["type"].as_str().unwrap().to_owned()
    };
    assert_eq!(["id", "ia", "m", "dom", "ch"].map(type_of), ["int8", "_int4", "mood", "positive", "bpchar"]);
}

#[tokio::test]
async fn database_messages_are_broadcast_once() {
    let server = Server::start().await;
    let _running = server.listen("", vec![]).await;
    server.sql("select realtime.send('{\"x\": 1}', 'moved', 'room', false); select realtime.send_binary('\\x0a0b', 'bytes', 'room')").await;
    crate::harness::until("messages", || server.messages.all().len() == 2).await;
    let all = server.messages.all();
    let payload: Value = serde_json::from_slice(&all[0].3).unwrap();
    assert_eq!(
        (all[0].0.as_str(), all[0].1, all[0].2.as_str(), &payload["x"]),
        ("room", false, "moved", &json!(1))
    );
    assert_eq!((all[1].1, all[1].2.as_str(), all[1].3.as_slice()), (true, "bytes", &[10_u8, 11][..]));
}
