//! The contents of the schema cache (rest.md §4.3), tested through requests.

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::shape_cache::metric;
use super::{SOON, anon, server};

/// A request in the schema `meta`.
fn ask(server: &Basalt, method: Method, path: &str) -> Request {
    let profile =
        if matches!(method, Method::GET | Method::HEAD) { "accept-profile" } else { "content-profile" };
    anon(server, method, path).header(profile, "meta")
}

async fn started() -> Basalt {
    server().config("rest.schemas", "public,meta").start().await
}

async fn json_of(server: &Basalt, path: &str) -> Value {
    ask(server, Method::GET, path).send().await.expect(200).json()
}

/// The rows returned by a write that is rolled back.
async fn written(server: &Basalt, method: Method, path: &str, content: &str, body: &str) -> Value {
    let request = ask(server, method, path)
        .header("prefer", "tx=rollback, return=representation")
        .header("content-type", content)
        .body(body.to_owned());
    let response: Response = request.send().await;
    assert!(response.status.is_success(), "{path}: {}", response.text());
    response.json()
}

#[tokio::test]
async fn domain_casts_apply_to_reads() {
    let server = started().await;
    for (path, expected) in [
        // Output: by name, by star, in views of views, in embeds of every kind, in rows of functions.
        ("/labels?id=eq.2", json!([{"id": 2, "name": "green", "shade": "#000100"}])),
        ("/labels?select=s:shade&order=id", json!([{"s": "#000000"}, {"s": "#000100"}, {"s": null}])),
        ("/labels?select=*,shade&id=eq.2", json!([{"id": 2, "name": "green", "shade": "#000100"}])),
        ("/labels_view?id=eq.2", json!([{"id": 2, "title": "green", "tone": "#000100"}])),
        ("/labels_view_view?label=eq.2", json!([{"label": 2, "tone": "#000100"}])),
        (
            "/labels?select=id,stickers(id,tint)&id=eq.1&stickers.order=id",
            json!([{"id": 1, "stickers": [{"id": 1, "tint": "#00000F"}, {"id": 2, "tint": null}]}]),
        ),
        (
            "/labels?select=id,stickers(*)&id=eq.2",
            json!([{"id": 2, "stickers": [{"id": 3, "label_id": 2, "tint": "#0000FF"}]}]),
        ),
        ("/stickers?select=id,labels(shade)&id=eq.3", json!([{"id": 3, "labels": {"shade": "#000100"}}])),
        ("/stickers?select=id,...labels(shade)&id=eq.3", json!([{"id": 3, "shade": "#000100"}])),
        (
            "/labels?select=id,...stickers(tint)&id=eq.1&stickers.order=id",
            json!([{"id": 1, "tint": ["#00000F", null]}]),
        ),
        ("/rpc/all_labels?order=id&limit=1", json!([{"id": 1, "name": "black", "shade": "#000000"}])),
        ("/rpc/all_labels?select=shade&shade=eq.000100", json!([{"shade": "#000100"}])),
        // An explicit cast applies to the formatted value; grouping uses the stored value.
        ("/labels?select=shade::text&id=eq.2", json!([{"shade": "\"#000100\""}])),
        (
            "/labels?select=shade,id.count()&order=shade",
            json!([{"shade": "#000000", "count": 1}, {"shade": "#000100", "count": 1}, {"shade": null, "count": 1}]),
        ),
        // Filters: values are converted; patterns and null tests are not.
        ("/labels?select=id&shade=eq.%23000100", json!([{"id": 2}])),
        ("/labels?select=id&shade=not.eq.000100", json!([{"id": 1}])),
        ("/labels?select=id&shade=in.(000100,%23000000)&order=id", json!([{"id": 1}, {"id": 2}])),
        ("/labels?select=id&shade=eq(any).{000100,%23000000}&order=id", json!([{"id": 1}, {"id": 2}])),
        ("/labels?select=id&shade=is.null", json!([{"id": 3}])),
        ("/labels?select=id&or=(shade.eq.000100,id.eq.1)&order=id", json!([{"id": 1}, {"id": 2}])),
        ("/labels_view?select=id&tone=gt.0000FF", json!([{"id": 2}])),
        (
            "/labels?select=id,stickers!inner(id)&stickers.tint=eq.0000FF",
            json!([{"id": 2, "stickers": [{"id": 3}]}]),
        ),
        // Sorting uses the stored values.
        ("/labels?select=id&order=shade.desc.nullslast", json!([{"id": 2}, {"id": 1}, {"id": 3}])),
    ] {
        assert_eq!(json_of(&server, path).await, expected, "{path}");
    }
    let pattern = ask(&server, Method::GET, "/labels?shade=like.*1*").send().await;
    assert_eq!(pattern.json()["code"], "42883");
    let csv = ask(&server, Method::GET, "/labels?select=id,shade&id=eq.2")
        .header("accept", "text/csv")
        .send()
        .await;
    assert_eq!(csv.text(), "id,shade\n2,\"\"\"#000100\"\"\"");
}

#[tokio::test]
async fn domain_casts_apply_to_writes() {
    let server = started().await;
    let json = "application/json";
    let rows = written(
        &server,
        Method::POST,
        "/labels",
        json,
        r##"[{"id":10,"shade":"#000111"},{"id":11,"shade":null}]"##,
    )
    .await;
    assert_eq!(
        rows,
        json!([{"id": 10, "name": null, "shade": "#000111"}, {"id": 11, "name": null, "shade": null}])
    );
    let rows = written(
        &server,
        Method::POST,
        "/labels?columns=id,shade&select=shade",
        json,
        r##"[{"id":10,"shade":"#000111"},{"id":11}]"##,
    )
    .await;
    assert_eq!(rows, json!([{"shade": "#000111"}, {"shade": null}]));
    let rows = written(
        &server,
        Method::POST,
        "/labels?select=id,shade",
        "text/csv",
        "id,shade\n10,#000222\n11,NULL",
    )
    .await;
    assert_eq!(rows, json!([{"id": 10, "shade": "#000222"}, {"id": 11, "shade": null}]));
    let form = written(
        &server,
        Method::POST,
        "/labels?select=shade",
        "application/x-www-form-urlencoded",
        "id=10&shade=%23000333",
    )
    .await;
    assert_eq!(form, json!([{"shade": "#000333"}]));
    let rows =
        written(&server, Method::PATCH, "/labels?shade=eq.000100", json, r##"{"shade":"#0000ff"}"##).await;
    assert_eq!(rows, json!([{"id": 2, "name": "green", "shade": "#0000FF"}]));
    let rows = written(
        &server,
        Method::PATCH,
        "/labels_view?tone=eq.000100&select=tone",
        json,
        r##"{"tone":"0000ff"}"##,
    )
    .await;
    assert_eq!(rows, json!([{"tone": "#0000FF"}]));
    let rows =
        written(&server, Method::DELETE, "/stickers?tint=eq.00000F&select=tint,labels(shade)", json, "")
            .await;
    assert_eq!(rows, json!([{"tint": "#00000F", "labels": {"shade": "#000000"}}]));
    let rows =
        written(&server, Method::PUT, "/labels?id=eq.2", json, r##"{"id":2,"name":"n","shade":"#000444"}"##)
            .await;
    assert_eq!(rows, json!([{"id": 2, "name": "n", "shade": "#000444"}]));
    let upsert = ask(&server, Method::POST, "/labels?select=shade")
        .header("prefer", "tx=rollback, return=representation, resolution=merge-duplicates")
        .json(&json!([{"id": 2, "shade": "#000555"}]));
    assert_eq!(upsert.send().await.expect(200).json(), json!([{"shade": "#000555"}]));
    let missing = ask(&server, Method::POST, "/labels?columns=id,shade&select=id,shade")
        .header("prefer", "tx=rollback, return=representation, missing=default")
        .json(&json!([{"id": 10}, {"id": 11, "shade": "#000666"}, {"id": 12, "shade": null}]));
    let missing = missing.send().await.expect(201).json();
    assert_eq!(missing[1]["shade"], "#000666");
    assert_eq!(missing[2]["shade"], Value::Null);
}

#[tokio::test]
async fn every_kind_of_relation_is_exposed() {
    let server = started().await;
    // A partitioned table is a relation; its partitions are not.
    assert_eq!(
        json_of(&server, "/readings?select=id,sensors(name)&order=taken&limit=1").await,
        json!([{"id": 1, "sensors": {"name": "roof"}}])
    );
    assert_eq!(
        json_of(&server, "/sensors?select=name,readings(value)").await,
        json!([{"name": "roof", "readings": [{"value": 10}, {"value": 20}]}])
    );
    let part = ask(&server, Method::GET, "/readings_2024").send().await;
    assert_eq!(part.json()["code"], "PGRST205");
    let unmaterialized =
        ask(&server, Method::POST, "/reading_totals").json(&json!({"total": 1})).send().await;
    assert_eq!((unmaterialized.status.as_u16(), &unmaterialized.json()["code"]), (400, &json!("42809")));
    assert_eq!(
        json_of(&server, "/reading_totals?select=total,sensors(name)").await,
        json!([{"total": 30, "sensors": {"name": "roof"}}])
    );
    for (path, allowed) in [
        ("/readings", "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ("/labels_view", "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ("/labels_view_view", "OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE"),
        ("/reading_pairs", "OPTIONS,GET,HEAD"),
        ("/reading_totals", "OPTIONS,GET,HEAD"),
        // Only the methods that the trigger allows.
        ("/frozen", "OPTIONS,GET,HEAD,POST"),
    ] {
        let response = anon(&server, Method::OPTIONS, path).header("accept-profile", "meta").send().await;
        assert_eq!(response.header("allow"), allowed, "{path}");
    }
    // A view has the key of every table whose key columns it includes.
    let root = json_of(&server, "/").await;
    let keys = |relation: &str| -> Vec<String> {
        let columns = root["definitions"][relation]["properties"].as_object().unwrap();
        let is_key =
            |column: &Value| column["description"].as_str().is_some_and(|text| text.contains("<pk/>"));
        columns.iter().filter(|(_, column)| is_key(column)).map(|(name, _)| name.clone()).collect()
    };
    let mut pairs = keys("reading_pairs");
    pairs.sort();
    assert_eq!(pairs, ["reading", "sensor", "taken"]);
    assert_eq!(keys("labels_view_view"), ["label"]);
    assert_eq!(keys("reading_totals"), Vec::<String>::new());
    let upsert = ask(&server, Method::POST, "/labels_view?select=title")
        .header("prefer", "tx=rollback, return=representation, resolution=merge-duplicates")
        .json(&json!({"id": 2, "title": "blue"}));
    assert_eq!(upsert.send().await.expect(200).json(), json!([{"title": "blue"}]));
}

#[tokio::test]
async fn foreign_tables_are_relations() {
    let server = started().await;
    let available =
        server.database().value("select count(*) from pg_available_extensions where name = 'file_fdw'").await;
    if available == "0" {
        return;
    }
    let _made = server
        .database()
        .admin_sql(
            "create extension file_fdw; create server files foreign data wrapper file_fdw;
             create foreign table meta.lines (line text) server files options (program 'echo one line');
             grant select on meta.lines to anon; notify pgrst",
        )
        .await;
    let lines = ask(&server, Method::GET, "/lines");
    let response = server.until(SOON, &lines, |response| response.status == 200).await;
    assert_eq!(response.json(), json!([{"line": "one line"}]));
    let options = anon(&server, Method::OPTIONS, "/lines").header("accept-profile", "meta").send().await;
    assert_eq!(options.header("allow"), "OPTIONS,GET,HEAD", "file_fdw tables are read-only");
}

#[tokio::test]
async fn column_defaults_apply_with_missing_default() {
    let server = started().await;
    let request = ask(&server, Method::POST, "/defaults?columns=plain,amount,ticket,mood,code,at,id&select=plain,amount,ticket,mood,code,at,computed,id")
        .header("prefer", "tx=rollback, return=representation, missing=default");
    let rows = request
        .json(&json!([{"code": "q"}, {"plain": null, "ticket": 9, "id": 70, "amount": 1}]))
        .send()
        .await;
    let rows = rows.expect(201).json();
    let row = &rows[0];
    assert_eq!(
        (&row["plain"], &row["amount"], &row["mood"], &row["code"]),
        (&json!("x"), &json!(7), &json!("ok"), &json!("q"))
    );
    assert_eq!((&row["at"], &row["computed"]), (&json!("1970-01-01T00:00:00+00:00"), &json!(2)));
    assert!(row["id"].is_number() && row["ticket"].is_number(), "{row}");
    assert_eq!(
        (&rows[1]["plain"], &rows[1]["ticket"], &rows[1]["id"]),
        (&Value::Null, &json!(9), &json!(70))
    );
    for column in ["fixed", "computed"] {
        let refused = ask(&server, Method::POST, &format!("/defaults?columns={column}"))
            .header("prefer", "missing=default")
            .json(&json!([{}]));
        assert_eq!(refused.send().await.json()["code"], "428C9", "{column} is always generated");
    }
    let unknown = ask(&server, Method::POST, "/defaults").json(&json!({"nope": 1})).send().await;
    assert_eq!(
        unknown.json()["message"],
        "Could not find the 'nope' column of 'defaults' in the schema cache"
    );
    let root = json_of(&server, "/").await;
    let columns = &root["definitions"]["defaults"]["properties"];
    assert_eq!(columns["code"]["maxLength"], 5);
    assert_eq!(columns["mood"]["enum"], json!(["sad", "ok", "happy"]));
}

/// Defaults, comments and column numbers come from separate catalog queries; dropped and unusual columns could mismatch them.
#[tokio::test]
async fn unusual_columns_keep_their_defaults_and_comments() {
    let server = started().await;
    let _made = server
        .database()
        .admin_sql(
            r#"create table meta."Odd ""Ones""" (
                 gone int default 1,
                 id bigint generated by default as identity primary key,
                 always int generated always as identity,
                 double int generated always as (length(note) * 2) stored,
                 fixed int generated always as (1) stored,
                 note text default '{VAR 1}',
                 list text[] default array['a', 'b'],
                 bare int);
               alter table meta."Odd ""Ones""" drop column gone;
               comment on table meta."Odd ""Ones""" is 'a table';
               comment on column meta."Odd ""Ones""".note is 'a note';
               grant all on meta."Odd ""Ones""" to anon;
               grant usage on all sequences in schema meta to anon;
               notify pgrst"#,
        )
        .await;
    let path = "/Odd%20%22Ones%22?columns=id,note,list,bare";
    let insert = ask(&server, Method::POST, path)
        .header("prefer", "return=representation, missing=default")
        .json(&json!([{}]));
    let rows = server.until(SOON, &insert, |response| response.status == 201).await.json();
    let expected = json!([{
        "id": 1, "always": 1, "double": 14, "fixed": 1, "note": "{VAR 1}", "list": ["a", "b"], "bare": null
    }]);
    assert_eq!(rows, expected);

    let root = json_of(&server, "/").await;
    let definition = &root["definitions"]["Odd \"Ones\""];
    assert_eq!(definition["description"], "a table");
    let columns = &definition["properties"];
    assert_eq!(
        (&columns["note"]["description"], &columns["note"]["default"]),
        (&json!("a note"), &json!("{VAR 1}"))
    );
    for column in ["always", "double", "fixed", "bare"] {
        assert_eq!(columns[column]["default"], Value::Null, "{column}");
        assert_eq!(columns[column]["description"], Value::Null, "{column}");
    }

    // The catalog rows read by a load, in a schema with every kind of object.
    let loads = async || metric(&server, "basalt_rest_schema_cache_loads_total{result=\"ok\"}").await;
    // Notifications for the new table may still cause a reload.
    let deadline = Instant::now() + SOON;
    loop {
        let before = loads().await;
        for _ in 0..5 {
            assert_eq!(ask(&server, Method::GET, "/nowhere").send().await.json()["code"], "PGRST205");
        }
        if (loads().await - before).abs() < 0.1 {
            break;
        }
        assert!(Instant::now() < deadline, "unknown names cause a reload");
    }
}

#[tokio::test]
async fn functions_accept_arguments_of_every_mode() {
    let server = started().await;
    for (path, expected) in [
        ("/rpc/in_out?b=1&c=x", json!({"a": 2, "c": "x!", "d": {"b": 1}})),
        ("/rpc/one_out?b=1", json!({"z": 2})),
        ("/rpc/as_table?n=2", json!([{"i": 1, "Square": 1}, {"i": 2, "Square": 4}])),
        ("/rpc/as_table?n=3&select=Square&i=gt.1&order=i.desc&limit=1", json!([{"Square": 9}])),
        ("/rpc/with_defaults?a=1", json!("1 10 c")),
        ("/rpc/with_defaults?a=1&c=z", json!("1 10 z")),
        ("/rpc/many?numbers=1&numbers=2&numbers=3", json!(6)),
        ("/rpc/widths?b=1011&c=abc&v=def", json!("1011 abc def")),
        (
            "/rpc/composite_domain?select=name,stickers(id)&id=eq.2",
            json!([{"name": "green", "stickers": [{"id": 3}]}]),
        ),
        ("/rpc/a_mood", json!("happy")),
    ] {
        assert_eq!(json_of(&server, path).await, expected, "{path}");
    }
    for (path, body, expected) in [
        ("/rpc/in_out", json!({"b": 1, "c": "x"}), json!({"a": 2, "c": "x!", "d": {"b": 1}})),
        ("/rpc/with_defaults", json!({"a": 1, "b": null}), json!("1 c")),
        ("/rpc/many", json!({"numbers": [1, 2]}), json!(3)),
        ("/rpc/widths", json!({"b": "1011", "c": "abc", "v": "def"}), json!("1011 abc def")),
        ("/rpc/no_columns", json!({}), json!([{"column1": 1, "column2": "one"}])),
    ] {
        let response = ask(&server, Method::POST, path).json(&body).send().await.expect(200).json();
        if path == "/rpc/no_columns" {
            assert_eq!(response.as_array().map(Vec::len), Some(1), "{response}");
        } else {
            assert_eq!(response, expected, "{path}");
        }
    }
    for (path, body) in [
        ("/rpc/not_exposed", json!({})),
        ("/rpc/frozen_insert", json!({})),
        ("/rpc/two_unnamed", json!({"": 1})),
        ("/rpc/one_unnamed_int", json!({})),
    ] {
        let response = ask(&server, Method::POST, path).json(&body).send().await;
        assert_eq!((response.status.as_u16(), &response.json()["code"]), (404, &json!("PGRST202")), "{path}");
    }
}

#[tokio::test]
async fn hidden_junction_creates_no_relationship() {
    let server = started().await;
    let clients = |embed: &str| anon(&server, Method::GET, &format!("/clients?select=id,{embed}")).send();
    let refused = clients("treasures(id)").await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (400, &json!("PGRST200")));
    assert_eq!(clients("users(id)").await.json()["code"], "PGRST200", "the junction is hidden");
}
