//! Filters compared with PostgreSQL's results, and the wording of rejections (realtime.md 3.5, 3.6).

use basalt_realtime::changes::{Binding, EventKind, SubscribeError};
use serde_json::Value;

use crate::harness::{Server, filtered, table, until};

const TABLES: &str = "
    create extension if not exists citext;
    create table items (
      id int primary key, name text, price numeric, ratio float8, at timestamptz, born date, flag bool, code uuid, label citext, tags text[]
    );
    grant select (id, name, price, ratio, at, born, flag, code, label, tags) on items to anon;
    create table hidden (id int primary key);
    create table other (id int primary key);
    grant select on other to anon;
    alter publication supabase_realtime add table items;";

fn refusal(result: Result<crate::harness::Listener, SubscribeError>) -> String {
    match result {
        Err(SubscribeError::Rejected(text)) => text,
        Err(SubscribeError::Unavailable(text)) => panic!("unavailable: {text}"),
        Ok(_) => panic!("accepted"),
    }
}

/// Each filter passes exactly the rows its `where` clause passes.
#[tokio::test]
async fn filters_pass_what_where_passes() {
    let server = Server::start_with(TABLES).await;
    let cases = [
        ("name=eq.b", "name = 'b'"),
        ("name=neq.b", "name <> 'b'"),
        ("name=gt.a", "name > 'a'"),
        ("name=in.(a,\"b,c\")", "name = any('{a,\"b,c\"}')"),
        ("name=not.in.(a,b)", "not name = any('{a,b}')"),
        ("name=like.%c", "name like '%c'"),
        ("name=not.ilike.B%", "not name ilike 'B%'"),
        ("name=match.^b", "name ~ '^b'"),
        ("name=imatch.^B", "name ~* '^B'"),
        ("name=is.null", "name is null"),
        ("name=not.is.null", "name is not null"),
        ("name=isdistinct.b", "name is distinct from 'b'"),
        ("name=not.isdistinct.b", "name is not distinct from 'b'"),
        ("price=eq.1.5", "price = 1.5"),
        ("price=gte.1.50,price=lt.10", "price >= 1.50 and price < 10"),
        ("price=in.(1.5,10.00)", "price = any('{1.5,10.00}')"),
        ("ratio=gt.0.5", "ratio > 0.5"),
        ("ratio=eq.NaN", "ratio = 'NaN'"),
        ("at=lt.2024-01-01T00:00:00Z", "at < '2024-01-01T00:00:00Z'"),
        ("at=eq.2024-06-01T02:00:00+02:00", "at = '2024-06-01T00:00:00Z'"),
        ("born=lte.0044-03-15 BC", "born <= '0044-03-15 BC'"),
        ("flag=is.true", "flag is true"),
        ("flag=is.unknown", "flag is unknown"),
        ("flag=eq.false", "flag = false"),
        ("code=eq.6F1F9A3E-0B3A-4B1C-9D55-2D3C6A0A7F11", "code = '6f1f9a3e-0b3a-4b1c-9d55-2d3c6a0a7f11'"),
        ("label=eq.HELLO", "label = 'HELLO'"),
        ("tags=eq.\"{a,b}\"", "tags = '{a,b}'"),
        ("id=gt.2,name=eq.b", "id > 2 and name = 'b'"),
    ];
    let mut listeners = Vec::new();
    for (filter, _) in cases {
        listeners.push(server.listen("", vec![filtered("items", filter)]).await);
    }
    let end = server.listen("", vec![filtered("items", "id=eq.99")]).await;
    server
        .sql(
            "insert into items values
             (1, 'a', 1.50, 0.25, '2023-05-05', '0100-01-01 BC', true, '6f1f9a3e-0b3a-4b1c-9d55-2d3c6a0a7f11', 'hello', '{a,b}'),
             (2, 'b', 10, 0.75, '2024-06-01 00:00:00+00', '2000-01-01', false, null, 'Hello', '{b}'),
             (3, 'b', -3, 'NaN', 'infinity', 'infinity', null, null, 'x', null),
             (4, 'B,c', null, null, null, null, null, null, null, null),
             (5, null, 9.999, 'Infinity', '2023-12-31 23:59:59.999+00', '0044-03-15 BC', true, null, null, '{}'),
             (6, 'b,c', 1.5, 1, null, null, false, null, null, null),
             (99, 'end', 0, 0, null, null, null, null, null, null)",
        )
        .await;
    let _end = end.until(1).await;
    for ((filter, condition), listener) in cases.iter().zip(&listeners) {
        let wanted = server
            .database
            .value(&format!(
                "select coalesce(string_agg(id::text, ',' order by id), '') from items where {condition}"
            ))
            .await;
        let count = if wanted.is_empty() { 0 } else { wanted.split(',').count() };
        until(filter, || listener.heard().len() >= count).await;
        let heard: Vec<String> =
            listener.heard().iter().map(|change| change["record"]["id"].to_string()).collect();
        assert_eq!(heard.join(","), wanted, "{filter}");
    }
}

#[tokio::test]
async fn rejections_use_upstream_wording() {
    let server = Server::start_with(TABLES).await;
    server.sql("alter publication supabase_realtime add table hidden").await;
    let refused = async |binding: Binding| refusal(server.try_listen("", vec![binding]).await);
    let exception = |text: &str| format!("Exception: ERROR {text}");
    for (filter, expected) in [
        ("wrong", r#"Error parsing `filter` params: ["wrong"]"#.to_owned()),
        ("id=foo.hey", r#"Error parsing `filter` params: ["foo", "hey"]"#.to_owned()),
        ("nope=eq.1", exception("P0001 (raise_exception) invalid column for filter nope")),
        (
            "id=eq.abc",
            exception("22P02 (invalid_text_representation) invalid input syntax for type integer: \"abc\""),
        ),
        (
            "id=like.a%",
            exception(
                "P0001 (raise_exception) operator like requires a text-compatible column type, got integer",
            ),
        ),
        (
            "name=is.true",
            exception("P0001 (raise_exception) is true filter requires a boolean column, got text"),
        ),
        (
            "name=is.maybe",
            exception(
                "P0001 (raise_exception) invalid value for is filter: must be null, true, false, or unknown",
            ),
        ),
        (
            "name=match.(",
            exception(
                "P0001 (raise_exception) invalid regular expression for match filter: parentheses () not balanced",
            ),
        ),
    ] {
        let text = refused(filtered("items", filter)).await;
        assert!(text.ends_with(&expected), "{filter}: {text}");
    }
    // PostgreSQL accepts the pattern but runs out of memory compiling it.
    let text = refused(filtered("items", r#"name=match."((a{1,50}){1,50}b){1,20}""#)).await;
    assert!(text.contains("P0001 (raise_exception) invalid regular expression for match filter: "), "{text}");
    let many: Vec<String> = (0..101).map(|number| number.to_string()).collect();
    let text = refused(filtered("items", &format!("id=in.({})", many.join(",")))).await;
    assert!(text.ends_with("too many values for `in` filter. Maximum 100"), "{text}");
    // Without privileges on any column, no column can be used in a filter.
    let text = refused(filtered("hidden", "id=eq.1")).await;
    assert!(text.ends_with("invalid column for filter id"), "{text}");
    let text = refused(Binding { event: EventKind::Insert, ..table("other") }).await;
    assert_eq!(
        text,
        "Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given connect \
         parameters: [event: INSERT, schema: public, table: other, filters: [], select: nil]"
    );
    let text = refused(Binding { select: Some(vec!["nope".to_owned()]), ..table("items") }).await;
    assert!(text.ends_with("invalid column for select nope"), "{text}");
    let claims = serde_json::json!({"role": "nobody"});
    let text = refusal(server.listen_as(claims, vec![filtered("items", "id=eq.123")]).await);
    assert_eq!(
        text,
        "Unable to subscribe to changes with given parameters. An exception happened so please check your connect \
         parameters: [event: *, schema: public, table: items, filters: [{\"id\", \"eq\", \"123\", false}], select: nil]. \
         Exception: ERROR 42704 (undefined_object) role \"nobody\" does not exist"
    );
}

#[tokio::test]
async fn wildcards_cover_tables_published_later() {
    let server = Server::start_with(TABLES).await;
    let schema = server.listen("", vec![Binding { table: None, ..table("") }]).await;
    let all = server
        .listen("", vec![Binding { schema: "*".to_owned(), table: Some("*".to_owned()), ..table("") }])
        .await;
    server.sql("insert into other values (1); alter publication supabase_realtime add table other; insert into other values (2)").await;
    for listener in [&schema, &all] {
        let heard = listener.until(1).await;
        assert_eq!(heard[0]["record"], serde_json::json!({"id": 2}));
    }
    // A join that names the table finds it immediately.
    let named = server.listen("", vec![table("other")]).await;
    server.sql("insert into other values (3)").await;
    let _heard = named.until(1).await;
}

#[tokio::test]
async fn bindings_of_a_channel_share_one_event() {
    let server = Server::start_with(TABLES).await;
    let bindings = vec![
        Binding { id: 5, ..table("items") },
        Binding { id: 6, event: EventKind::Delete, ..table("items") },
        Binding { id: 7, ..filtered("items", "id=lt.10") },
    ];
    let listener = server.listen("", bindings).await;
    server.sql("insert into items (id) values (1), (11); delete from items where id = 1").await;
    let heard = listener.until(3).await;
    assert_eq!(listener.ids(), [vec![5, 7], vec![5], vec![5, 6, 7]]);
    assert_eq!(
        heard.iter().map(|change| &change["type"]).collect::<Vec<&Value>>(),
        ["INSERT", "INSERT", "DELETE"]
    );
}
