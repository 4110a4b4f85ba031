//! The schema cache follows the schema (rest.md §4.4).

use std::path::Path;
use std::time::Duration;

use basalt_testkit::{Basalt, Cluster, Request};
use futures_util::future::join_all;
use http::Method;
use serde_json::json;

use super::settings::alone;
use super::shape_cache::metric;
use super::{PROJECT, SOON, anon, get, server};

#[tokio::test]
async fn new_tables_functions_and_relationships_appear() {
    let server = server().start().await;
    assert_eq!(get(&server, "/later").await.status, 404);
    let _done = server
        .sql(
            "create table later (id int primary key, client_id int references clients);
             grant select on later to anon;
             insert into later values (1, 2)",
        )
        .await;
    let request = anon(&server, Method::GET, "/later?select=id,clients(name)");
    let response = server.until(SOON, &request, |response| response.status == 200).await;
    assert_eq!(response.json(), json!([{"id": 1, "clients": {"name": "Globex"}}]));
    let _done = server.sql("drop table later").await;
    let gone = anon(&server, Method::GET, "/later");
    let response = server.until(SOON, &gone, |response| response.json()["code"] == "PGRST205").await;
    assert_eq!(response.status, 404);
}

#[tokio::test]
async fn grants_apply_immediately() {
    let server = server().start().await;
    let _done = server.sql("revoke select on clients from anon").await;
    assert_eq!(get(&server, "/clients").await.json()["code"], "42501");
}

#[tokio::test]
async fn changed_column_type_keeps_statements_working() {
    let server = server().start().await;
    for _ in 0..20 {
        let _warm = get(&server, "/kv?select=*").await.expect(200);
    }
    let _done = server.sql("alter table kv add column extra int; alter table kv alter value type text").await;
    for _ in 0..20 {
        let row = get(&server, "/kv?select=*").await.expect(200).json();
        assert_eq!(row[0]["value"], "1");
    }
}

#[tokio::test]
async fn stored_settings_apply_after_a_reload() {
    let server = server().start().await;
    let name = server.database().name();
    let setting = format!("alter role authenticator in database \"{name}\" set pgrst.db_max_rows = '1'");
    // As the project's owner, which is not a superuser.
    let _done = server.sql(&setting).await;
    let _done = server.sql("notify pgrst, 'reload config'").await;
    let request = anon(&server, Method::GET, "/clients");
    let response = server
        .until(SOON, &request, |response| response.json().as_array().is_some_and(|rows| rows.len() == 1))
        .await;
    assert_eq!(response.header("content-range"), "0-0/*");
}

#[tokio::test]
async fn project_owner_can_store_settings_and_grant_roles() {
    let database = Cluster::get().await.database(Path::new(PROJECT)).await;
    let name = database.name();
    for setting in basalt_rest::config::DATABASE_SETTINGS {
        let _stored = database
            .sql(&format!("alter role authenticator in database \"{name}\" set pgrst.{setting} = ''"))
            .await;
    }
    for role in ["anon", "authenticated", "service_role", "authenticator"] {
        let _set = database
            .sql(&format!("alter role {role} in database \"{name}\" set statement_timeout = '9s'"))
            .await;
    }
    let _given = database
        .sql("create role inheritor nologin; grant anon, authenticated, service_role to inheritor; drop role inheritor")
        .await;
}

/// The number of schema cache loads.
fn loads(server: &Basalt) -> usize {
    server.log().iter().filter(|line| line.message == "schema cache loaded").count()
}

async fn until_loaded(server: &Basalt, times: usize) {
    let deadline = tokio::time::Instant::now() + SOON;
    while loads(server) < times {
        assert!(tokio::time::Instant::now() < deadline, "{} loads instead of {times}", loads(server));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn only_known_messages_trigger_a_reload() {
    let server = server().start().await;
    let first = loads(&server);
    for (nth, message) in
        ["notify pgrst", "notify pgrst, 'reload schema'", "notify pgrst, 'reload config'"].iter().enumerate()
    {
        let _ignored = server.sql("notify pgrst, 'whatever'; notify other, 'reload schema'").await;
        let _heard = server.sql(message).await;
        until_loaded(&server, first + nth + 1).await;
        assert_eq!(loads(&server), first + nth + 1, "{message}");
    }
}

#[tokio::test]
async fn every_relevant_schema_change_triggers_a_reload() {
    let server = server().start().await;
    let changes = [
        "create domain colour as text",
        "alter domain colour set default 'red'",
        "create function colour_json(colour) returns json language sql immutable as 'select to_json($1::text)'",
        "create cast (colour as json) with function colour_json(colour) as implicit",
        "drop cast (colour as json)",
        "create aggregate longest(text) (sfunc = textcat, stype = text)",
        "drop aggregate longest(text)",
        "create unique index late_key on kv (value) where value is not null",
        "drop index late_key",
        "alter routine colour_json(colour) rename to colour_as_json",
        "drop function colour_as_json(colour)",
        "drop domain colour",
    ];
    for change in changes {
        let before = loads(&server);
        let _done = server.sql(change).await;
        let deadline = tokio::time::Instant::now() + SOON;
        while loads(&server) == before {
            assert!(tokio::time::Instant::now() < deadline, "no load after: {change}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    // One extra load is possible if the listener connected late.
    let mut before = 0;
    while loads(&server) != before {
        before = loads(&server);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // Changes to objects that are not in the cache.
    let _done = server.sql("create sequence ticks; analyze kv").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(loads(&server), before);
}

#[tokio::test]
async fn many_messages_share_a_load() {
    let server = server().start().await;
    let first = loads(&server);
    // Each in its own transaction, faster than a reload takes.
    let _heard = server.sql("do $$ begin for i in 1..50 loop notify pgrst; commit; end loop; end $$").await;
    let _last = server.sql("create table at_the_end (id int); grant select on at_the_end to anon").await;
    let _there = server
        .until(SOON, &anon(&server, Method::GET, "/at_the_end"), |response| response.status == 200)
        .await;
    assert!(loads(&server) - first < 20, "{} loads for 51 messages", loads(&server) - first);
}

#[tokio::test]
async fn new_objects_are_found_without_a_notification() {
    let server = server().start().await;
    let _done = server
        .database()
        .admin_sql("drop event trigger pgrst_ddl_watch; drop event trigger pgrst_drop_watch")
        .await;
    // Read the metric, not the log, which is collected with a delay.
    let loads = async || metric(&server, "basalt_rest_schema_cache_loads_total{result=\"ok\"}").await;
    let first = loads().await;
    // Each object is requested immediately, and the first response succeeds.
    let _done = server
        .sql("create table fresh (id int primary key, client_id int); grant all on fresh to anon")
        .await;
    assert_eq!(get(&server, "/fresh").await.expect(200).json(), json!([]));
    let _done = server.sql("alter table fresh add column note text").await;
    let added = anon(&server, Method::POST, "/fresh")
        .json(&json!({"id": 1, "client_id": 1, "note": "x"}))
        .send()
        .await;
    assert_eq!(added.status, 201);
    let _done = server.sql("alter table fresh add foreign key (client_id) references clients").await;
    assert_eq!(
        get(&server, "/fresh?select=clients(name)").await.expect(200).json(),
        json!([{"clients": {"name": "Acme"}}])
    );
    let _done = server.sql("create function fresh_call(a int) returns int language sql as 'select a'; grant execute on function fresh_call(int) to anon").await;
    assert_eq!(get(&server, "/rpc/fresh_call?a=5").await.expect(200).json(), 5);
    let _done = server
        .sql("create or replace function fresh_call(a int, b int) returns int language sql as 'select a + b'; grant execute on function fresh_call(int, int) to anon")
        .await;
    assert_eq!(get(&server, "/rpc/fresh_call?a=5&b=6").await.expect(200).json(), 11);
    let after = loads().await;
    // One extra load is possible if the listener connected late.
    assert!((4.9..6.1).contains(&(after - first)), "{} loads", after - first);
    // The schema has not changed: unknown names cause no reload.
    for _ in 0..30 {
        assert_eq!(get(&server, "/nowhere").await.json()["code"], "PGRST205");
    }
    assert!((loads().await - after).abs() < 0.1);
}

#[tokio::test]
async fn concurrent_requests_for_a_new_table_share_a_load() {
    let server = server().start().await;
    let _done = server
        .database()
        .admin_sql("drop event trigger pgrst_ddl_watch; drop event trigger pgrst_drop_watch")
        .await;
    let _done = server.sql("create table crowd (id int); grant select on crowd to anon").await;
    let before = metric(&server, "basalt_rest_schema_cache_loads_total{result=\"ok\"}").await;
    let requests = (0..30).map(|_| get(&server, "/crowd"));
    for response in join_all(requests).await {
        assert_eq!(response.expect(200).json(), json!([]));
    }
    let loads = metric(&server, "basalt_rest_schema_cache_loads_total{result=\"ok\"}").await - before;
    // One extra load is possible if the listener connected late.
    assert!((0.9..2.1).contains(&loads), "{loads} loads");
    let checks = metric(&server, "basalt_rest_schema_looks_total{result=\"ok\"}").await;
    assert!((0.9..10.1).contains(&checks), "{checks} checks");
}

#[tokio::test]
async fn failed_load_keeps_the_old_cache_and_retries() {
    let server = server()
        .config("rest.pre_config", "meta.trouble")
        .expect_log("could not load the schema cache")
        .start()
        .await;
    let first = loads(&server);
    let _done = server.sql("insert into meta.troubles values (1); notify pgrst").await;
    server.wait_for_log("keeping the previous one; retrying in 1s").await;
    assert_eq!(get(&server, "/clients").await.status, 200);
    server.wait_for_log("retrying in 2s").await;
    assert_eq!(server.get("/ready").send().await.status, 200, "the server is still ready");
    let _done = server.sql("delete from meta.troubles; create table after_trouble (id int); grant select on after_trouble to anon").await;
    until_loaded(&server, first + 1).await;
    assert_eq!(get(&server, "/after_trouble").await.status, 200);
}

#[tokio::test]
async fn before_the_first_load_requests_get_503() {
    let (database, builder) = alone("reload_start").await;
    let _trouble = database.admin_sql("insert into meta.troubles values (1)").await;
    let admin = basalt_testkit::free_port();
    let server = builder
        .config("rest.pre_config", "meta.trouble")
        .config("server.admin_port", &admin.to_string())
        .expect_log("could not load the schema cache")
        .expect_log("the schema cache is not loaded yet")
        .start()
        .await;
    let ready = || Request::new(Method::GET, format!("http://127.0.0.1:{admin}/ready")).send();
    assert_eq!(ready().await.status, 503);
    let refused = server.get("/labels").send().await;
    assert_eq!(refused.status, 503);
    assert_eq!(
        refused.json(),
        json!({
            "code": "PGRST002", "details": null, "hint": null,
            "message": "Could not query the database for the schema cache. Retrying."
        })
    );
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=33).contains(&seconds), "{seconds}");
    // The token is checked first.
    assert_eq!(server.get("/labels").bearer("a.b").send().await.status, 401);
    let _solved = database.admin_sql("delete from meta.troubles").await;
    let _loaded = server.until(2 * SOON, &server.get("/labels"), |response| response.status == 200).await;
    assert_eq!(ready().await.status, 200);
}

#[tokio::test]
async fn listener_reconnects_and_reloads() {
    let server = server().start().await;
    let first = loads(&server);
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'LISTEN%'";
    let _done = server.database().admin_sql(cut).await;
    until_loaded(&server, first + 1).await;
    let _done = server.sql("notify pgrst").await;
    until_loaded(&server, first + 2).await;
}

#[tokio::test]
async fn reloads_are_atomic_for_requests() {
    let server = server().start().await;
    let changing = async {
        for n in 0..20 {
            let _done = server
                .sql(&format!("create table swap_{n} (id int primary key, client_id int references clients)"))
                .await;
        }
    };
    let asking = async {
        for _ in 0..200 {
            let response =
                get(&server, "/projects?select=id,clients(name),tasks(id)&id=eq.1").await.expect(200);
            assert_eq!(response.json()[0]["clients"]["name"], "Acme");
        }
    };
    let ((), ()) = tokio::join!(changing, asking);
}

#[tokio::test]
async fn channel_name_is_configurable() {
    let (database, builder) = alone("reload_channel").await;
    let server = builder.config("rest.channel", "My \"channel\"").start().await;
    let first = loads(&server);
    let _ignored = database.admin_sql("notify pgrst").await;
    let _heard = database.admin_sql("notify \"My \"\"channel\"\"\"").await;
    until_loaded(&server, first + 1).await;
    assert_eq!(loads(&server), first + 1);
}
