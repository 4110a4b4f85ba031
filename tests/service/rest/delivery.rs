//! Results as rows or as one JSON value: clients must not see a difference, only the statements sent to PostgreSQL differ.

use http::Method;
use serde_json::json;

use super::{Basalt, SOON, anon, get, server};

const MADE: &str = "
    create table public.crates (id int primary key, sent date, weight numeric, labels text[], note jsonb);
    insert into public.crates values
      (1, '2026-01-02', 'NaN', '{a,NULL}', '{\"b\": 1, \"aa\": 2}'), (2, null, 1.50, '{}', null), (3, 'infinity', 3, null, 'null');
    grant select on public.crates to anon;";

/// A server with test data and without the DDL triggers that request a schema cache reload.
async fn unwatched(max_rows: &str) -> Basalt {
    let server = server().config("rest.max_rows", max_rows).start().await;
    let made = format!("{MADE} notify pgrst");
    let _made = server.sql(&made).await;
    let request = anon(&server, Method::GET, "/crates");
    server.until(SOON, &request, |response| response.status == 200).await.expect(200);
    let _dropped = server
        .database()
        .admin_sql("drop event trigger pgrst_ddl_watch; drop event trigger pgrst_drop_watch")
        .await;
    server
}

/// The statements that a request executes, without settings. Repeats the request if the schema cache was reloaded meanwhile:
/// creating the tables may have notified the server twice.
async fn executed(server: &Basalt, method: Method, path: &str, prefer: &str) -> Vec<String> {
    loop {
        let before = server.database().executed().await.len();
        anon(server, method.clone(), path).header("prefer", prefer).send().await;
        let executed = server.database().executed().await.split_off(before);
        if !executed.iter().any(|text| text.contains("from pg_catalog.pg_")) {
            return executed.into_iter().filter(|text| !text.contains("set_config")).collect();
        }
    }
}

/// Only this test's connections: other tests use the same cluster.
const END_CONNECTIONS: &str = "select pg_terminate_backend(pid) from pg_stat_activity
    where usename = 'authenticator' and datname = current_database()";

#[tokio::test]
async fn rows_match_postgresqls_json() {
    let server = unwatched("1000").await;
    assert_eq!(
        get(&server, "/crates?order=id").await.expect(200).text(),
        "[{\"id\":1,\"sent\":\"2026-01-02\",\"weight\":\"NaN\",\"labels\":[\"a\",null],\"note\":{\"b\": 1, \"aa\": 2}}, \n \
         {\"id\":2,\"sent\":null,\"weight\":1.50,\"labels\":[],\"note\":null}, \n \
         {\"id\":3,\"sent\":\"infinity\",\"weight\":3,\"labels\":null,\"note\":null}]"
    );
    let one = anon(&server, Method::GET, "/crates?select=key:id,weight::text,note-%3Eb&id=eq.1")
        .header("accept", "application/vnd.pgrst.object+json");
    assert_eq!(one.send().await.expect(200).text(), "{\"key\":1,\"weight\":\"NaN\",\"b\":1}");
    let none =
        anon(&server, Method::GET, "/crates?id=eq.9").header("accept", "application/vnd.pgrst.object+json");
    assert_eq!(none.send().await.expect(406).json()["details"], "The result contains 0 rows");
}

#[tokio::test]
async fn reads_send_the_expected_statements() {
    let server = unwatched("2").await;
    server.database().log_statements().await;
    // The setting applies to new connections.
    let _ended = server.database().admin_sql(END_CONNECTIONS).await;
    get(&server, "/crates?id=eq.1").await.expect(200);
    let settings = "SELECT nullif(current_setting('response.headers', true), '') AS response_headers, \
                    nullif(current_setting('response.status', true), '') AS response_status";
    let rows = r#"SELECT "public"."crates".* FROM "public"."crates" LIMIT $1::int8"#;
    assert_eq!(executed(&server, Method::GET, "/crates", "").await, [rows, settings]);
    let few = r#"SELECT "public"."crates"."id" FROM "public"."crates" WHERE "public"."crates"."id" > $1 LIMIT $2::int8"#;
    assert_eq!(executed(&server, Method::GET, "/crates?select=id&id=gt.0", "").await, [few, settings]);
    // Every kind of read sends its statements in one batch.
    for (method, path, prefer, statements) in [
        (Method::HEAD, "/crates", "", 1),
        (Method::HEAD, "/crates", "count=exact", 1),
        (Method::GET, "/crates", "count=exact", 1),
        // The plan, and whether policies hide rows (decision 0052).
        (Method::GET, "/crates", "count=planned", 4),
        (Method::GET, "/crates", "count=estimated", 3),
        (Method::GET, "/crates?select=id,sent::date,note-%3E%3Eb", "", 2),
    ] {
        let sent = executed(&server, method.clone(), path, prefer).await;
        assert_eq!(sent.len(), statements, "{method} {path} {prefer}: {sent:?}");
    }
}

#[tokio::test]
async fn unknown_types_are_formatted_by_postgresql() {
    let server = unwatched("1000").await;
    // A type that is not in the schema cache, selected by `*`.
    let _made = server
        .sql(
            "create type public.crate_mood as enum ('glad', 'so so');
             alter table public.crates add column moods public.crate_mood[];
             update public.crates set moods = '{glad,\"so so\"}' where id = 1",
        )
        .await;
    for _ in 0..2 {
        let row = &get(&server, "/crates?id=eq.1").await.expect(200).json()[0];
        assert_eq!((&row["moods"], &row["id"]), (&json!(["glad", "so so"]), &json!(1)));
    }
    // Selected by name, the type is known to be unsupported.
    assert_eq!(
        get(&server, "/crates?select=moods&id=eq.1").await.expect(200).json(),
        json!([{"moods": ["glad", "so so"]}])
    );
}

#[tokio::test]
async fn dates_are_iso_8601_in_any_datestyle() {
    let server = unwatched("1000").await;
    let _set = server
        .database()
        .admin_sql(&format!("alter database {} set datestyle = 'German'", server.database().name()))
        .await;
    let _ended = server.database().admin_sql(END_CONNECTIONS).await;
    for _ in 0..2 {
        let crates =
            get(&server, "/crates?select=sent,shown:sent::text&order=id&limit=1").await.expect(200).text();
        assert_eq!(crates, "[{\"sent\":\"2026-01-02\",\"shown\":\"02.01.2026\"}]");
    }
}

#[tokio::test]
async fn policy_can_set_response_headers() {
    let server = unwatched("1000").await;
    let _made = server
        .sql(
            "create function public.tells(id int) returns boolean language plpgsql as $$ begin
               perform set_config('response.headers', json_build_array(json_build_object('X-Last', id::text))::text, true);
               if id = 3 then perform set_config('response.status', '299', true); end if;
               return id < 3;
             end $$;
             alter table public.crates enable row level security;
             create policy tells on public.crates using (public.tells(id));
             grant execute on function public.tells(int) to anon",
        )
        .await;
    // The policy evaluated the last row, although it is hidden.
    let response = get(&server, "/crates?select=id&order=id").await;
    assert_eq!((response.status.as_u16(), response.header("x-last")), (299, "3"));
    assert_eq!(response.json(), json!([{"id": 1}, {"id": 2}]));
    let response = get(&server, "/crates?select=id&id=eq.9").await.expect(200);
    assert!(!response.headers.contains_key("x-last"), "a header of another transaction");
}
