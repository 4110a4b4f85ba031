//! Regression tests for differences from PostgREST 17 on the same database.

use basalt_testkit::{Response, TestDatabase};
use serde_json::{Value, json};

use super::server::{SECRET, Server, database, uri};

const SPECIAL: &str = r#"SPECIAL "@/\#~_-"#;

const SCHEMA: &str = r##"
create schema shop; create schema shelf; create schema "SPECIAL ""@/\#~_-";
create table "SPECIAL ""@/\#~_-".names (id int primary key);
insert into "SPECIAL ""@/\#~_-".names values (7);
create type public.mood as enum ('calm');
create table shop.items (id bigint primary key, small smallint, whole int, body text, mood public.mood);
insert into shop.items values (1, 2, 3, 'a cat', 'calm'), (2, 2, 3, 'a dog', 'calm');
create function public.never(shop.items) returns boolean language sql stable as 'select false';
create function shop.words(shop.items) returns tsvector language sql stable
  as $$ select to_tsvector('simple', $1.body) $$;
create table shop.tags (id int primary key, name text);
insert into shop.tags values (1, 'pets');
create table shop.item_tags (
  item_id bigint references shop.items, tag_id int references shop.tags, primary key (item_id, tag_id));
insert into shop.item_tags values (1, 1);
create view shelf.item_tags as select * from shop.item_tags;
create function shop.over(a int, b text default '') returns int language sql stable as 'select 1';
create function shop.over(a text) returns int language sql stable as 'select 1';
create function shop.over(a int) returns int language sql stable as 'select 1';
comment on function shop.over(int) is 'the one with a comment comes last of its length';
create function shop.sum(big bigint, small smallint, variadic rest int[]) returns int language sql stable
  as 'select 1';
grant usage on schema shop, shelf, "SPECIAL ""@/\#~_-" to web_anon;
grant select on all tables in schema shop, shelf, "SPECIAL ""@/\#~_-" to web_anon;
"##;

/// The database must outlive the server.
async fn start() -> (TestDatabase, Server) {
    let database = database().await;
    database.admin_sql(SCHEMA).await;
    let (uri, schemas) = (uri(&database), format!("shop, shelf,{SPECIAL}"));
    let variables = [
        ("PGRST_DB_URI", uri.as_str()),
        ("PGRST_DB_SCHEMAS", &schemas),
        ("PGRST_DB_EXTRA_SEARCH_PATH", ""),
        ("PGRST_DB_ANON_ROLE", "web_anon"),
        ("PGRST_JWT_SECRET", SECRET),
    ];
    let server = Server::start(&variables, None).await;
    (database, server)
}

async fn get(server: &Server, path: &str) -> Response {
    server.get(path).send().await
}

#[tokio::test]
async fn only_configured_schemas_are_searched() {
    let (_database, server) = start().await;
    let computed = get(&server, "/items?never=is.false").await;
    assert_eq!((computed.status.as_u16(), computed.json()["code"].as_str()), (400, Some("42703")));
    let value = get(&server, "/items?mood=eq.wild").await.json();
    assert_eq!(value["message"], r#"invalid input value for enum public.mood: "wild""#);
}

#[tokio::test]
async fn schemas_with_special_names_are_served() {
    let (_database, server) = start().await;
    let special = server.get("/names").header("accept-profile", SPECIAL).send().await.expect(200);
    assert_eq!(special.json(), json!([{ "id": 7 }]));
}

#[tokio::test]
async fn computed_tsvector_columns_can_be_searched() {
    let (_database, server) = start().await;
    for filter in ["words=fts.cat", "words=fts(simple).cat", "words=plfts.cat", "body=fts.cat"] {
        let found = get(&server, &format!("/items?select=id&{filter}")).await.expect(200);
        assert_eq!(found.json(), json!([{ "id": 1 }]), "{filter}");
    }
}

#[tokio::test]
async fn junctions_of_the_requested_schema_take_precedence() {
    let (_database, server) = start().await;
    let embedded = get(&server, "/items?select=id,tags(name)&id=eq.1").await.expect(200);
    assert_eq!(embedded.json(), json!([{ "id": 1, "tags": [{ "name": "pets" }] }]));
}

#[tokio::test]
async fn overloads_are_listed_by_length_comment_and_parameters() {
    let (_database, server) = start().await;
    let ambiguous = get(&server, "/rpc/over?a=1").await;
    assert_eq!(
        (ambiguous.status.as_u16(), ambiguous.json()["message"].as_str()),
        (
            300,
            Some(
                "Could not choose the best candidate function between: shop.over(a => text), \
                 shop.over(a => integer), shop.over(a => integer, b => text)"
            )
        )
    );
}

#[tokio::test]
async fn openapi_formats_state_integer_width() {
    let (_database, server) = start().await;
    let document = get(&server, "/").await.expect(200).json();
    let formats = |schema: &Value, names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| schema["properties"][name]["format"].clone()).collect()
    };
    let columns = ["id", "small", "whole", "body"];
    assert_eq!(formats(&document["definitions"]["items"], &columns), ["int64", "int32", "int32", "text"]);
    let sum = &document["paths"]["/rpc/sum"];
    let body = &sum["post"]["parameters"][0]["schema"];
    assert_eq!(formats(body, &["big", "small", "rest"]), ["int64", "int32", "integer[]"]);
    let query: Vec<Value> = (0..2).map(|index| sum["get"]["parameters"][index]["format"].clone()).collect();
    assert_eq!(query, ["int64", "int32"]);
    assert_eq!(sum["get"]["parameters"][2]["items"]["format"], "int32");
}

#[tokio::test]
async fn parse_errors_list_all_expected_tokens() {
    let (_database, server) = start().await;
    for (path, column, details) in [
        (
            "/items?or=()",
            4,
            "unexpected \")\" expecting field name (* or [a..z0..9_$]), negation operator (not) or logic operator (and, or)",
        ),
        (
            "/items?select=id!hint",
            3,
            "unexpected '!' expecting letter, digit, \"-\", \"->>\", \"->\", \"::\", \".\", \")\", \",\" or end of input",
        ),
        (
            "/items?order=id.ac",
            4,
            "unexpected \"c\" expecting \"asc\", \"desc\", \"nullsfirst\" or \"nullslast\"",
        ),
    ] {
        let refused = get(&server, path).await;
        assert_eq!(
            (refused.status.as_u16(), refused.json()["code"].as_str()),
            (400, Some("PGRST100")),
            "{path}"
        );
        assert_eq!(refused.json()["details"], details, "{path}");
        let position = format!("(line 1, column {column})");
        assert!(refused.json()["message"].as_str().is_some_and(|text| text.ends_with(&position)), "{path}");
    }
}
