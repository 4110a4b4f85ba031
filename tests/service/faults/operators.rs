//! What a database's operator may change independently: settings of roles and databases, limits, floods of notifications and
//! notices, a dropped role.

use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use serde_json::json;

use crate::load::{DATABASE_AWAY, Load, insert, is_refusal, project, stored};
use crate::overload::{metric, start};
use crate::own::OwnPostgres;

const SOON: Duration = Duration::from_secs(60);

/// Alters the database and the login role's settings in it, and terminates all existing sessions.
async fn alter(server: &Basalt, change: &str) {
    let name = server.database().name();
    for whom in [format!("database {name}"), format!("role authenticator in database {name}")] {
        // Override the default that the last change may have set.
        server.database().admin_sql(&format!("begin read write; alter {whom} {change}; commit")).await;
    }
    let others = "select pg_terminate_backend(pid, 1000) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()";
    server.database().admin_sql(others).await;
}

fn schema_loads(server: &Basalt) -> usize {
    server.log().iter().filter(|line| line.raw.contains("schema cache loaded")).count()
}

#[tokio::test]
async fn database_settings_do_not_change_responses() {
    let server = start(&[("database.pool_size", "3")]).await;
    for text in DATABASE_AWAY {
        server.expect_log(text);
    }
    let table =
        "create table public.notes (id int primary key, body text, data jsonb, at timestamptz, raw bytea,
          entry bigint references public.entries);
        grant all on public.notes to service_role; insert into public.entries values (7);
        create function public.note(body text) returns text language sql stable as 'select upper(body)';
        grant execute on function public.note(text) to service_role";
    server.sql(table).await;
    let text = "a\\b'c\"ü€ \\x41 $1";
    let row = json!({ "id": 1, "body": text, "data": { "k'\\y": text }, "at": "2026-01-02T03:04:05+00:00",
        "raw": "\\x00ff", "entry": 7 });
    let quoted = "eq.a%5Cb%27c%22%C3%BC%E2%82%AC%20%5Cx41%20%241";
    let key = server.service_key();
    let list = server.get(&format!("/rest/v1/notes?body={quoted}")).apikey(key);
    let embed = server.get("/rest/v1/notes?select=*,entries(id,twice)&order=at,id").apikey(key);
    let arrow = server.get("/rest/v1/notes?select=v:data-%3E%3Ek%27%5Cy");
    let arrow = arrow.apikey(key);
    let call = server.get("/rest/v1/rpc/note?body=a%5Cb%27c").apikey(key);
    let single = server.patch("/rest/v1/notes?id=eq.1").apikey(key).json(&json!({ "body": text }));
    let single = single
        .header("prefer", "return=representation")
        .header("accept", "application/vnd.pgrst.object+json");
    let write = server.post("/rest/v1/notes").apikey(key).json(&row);
    let write = write.header("prefer", "return=representation,resolution=merge-duplicates");
    server.until(SOON, &embed, |response| response.status == 200).await;
    write.clone().send().await.expect(201);
    let before: Vec<_> =
        [&list, &embed, &arrow, &call, &single, &write].map(|request| request.clone()).into();
    let mut expected = Vec::new();
    for request in &before {
        let response = request.clone().send().await;
        assert!(matches!(response.status.as_u16(), 200 | 201), "{} {}", response.status, response.text());
        expected.push((response.status, response.json()));
    }
    assert_eq!(expected[0].1, json!([row]));
    assert_eq!(expected[2].1, json!([{ "v": text }]));
    for setting in [
        "default_transaction_read_only = on",
        "default_transaction_isolation = serializable",
        "default_transaction_deferrable = on",
        "standard_conforming_strings = off",
        "backslash_quote = off",
        "escape_string_warning = on",
        "client_encoding = latin1",
        "client_min_messages = debug5",
        "datestyle = 'German, DMY'",
        "timezone = 'UTC'",
        "search_path = nowhere",
        "idle_in_transaction_session_timeout = '1s'",
        "idle_session_timeout = '1s'",
        "statement_timeout = '5s'",
        "plan_cache_mode = force_generic_plan",
        "quote_all_identifiers = on",
        "transform_null_equals = on",
        "array_nulls = off",
        "synchronous_commit = off",
        "session_replication_role = replica",
        "check_function_bodies = off",
        "lc_messages = 'C'",
        "work_mem = '64kB'",
    ] {
        let name = setting.split(' ').next().unwrap();
        let loads = schema_loads(&server);
        alter(&server, &format!("set {setting}")).await;
        server.until(SOON, &list, |response| response.status == 200).await;
        // The schema is reloaded under the setting when the listener reconnects.
        while schema_loads(&server) == loads {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for (request, (status, body)) in before.iter().zip(&expected) {
            let response = request.clone().send().await;
            assert_eq!((response.status, &response.json()), (*status, body), "{setting}: {request:?}");
        }
        alter(&server, &format!("reset {name}")).await;
        server.until(SOON, &list, |response| response.status == 200).await;
    }
}

#[tokio::test]
async fn database_limits_fail_only_the_affected_requests() {
    let server = start(&[("database.pool_size", "3")]).await;
    for text in DATABASE_AWAY {
        server.expect_log(text);
    }
    server.sql("insert into public.entries select generate_series(1, 100000)").await;
    let nap = server.post("/rest/v1/rpc/nap").apikey(server.service_key()).json(&json!({ "seconds": 3 }));
    let sorted =
        server.get("/rest/v1/entries?order=twice.desc,changes&limit=90000").apikey(server.service_key());
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    let mut limits = vec![
        ("statement_timeout = '800ms'", &nap, 500, "57014"),
        ("temp_file_limit = '64kB'", &sorted, 500, "53400"),
    ];
    let version: u32 = server.database().value("show server_version_num").await.parse().unwrap();
    if version >= 170_000 {
        limits.push(("transaction_timeout = '800ms'", &nap, 500, "25P04"));
    }
    alter(&server, "set work_mem = '64kB'").await;
    for (setting, request, status, code) in limits {
        alter(&server, &format!("set {setting}")).await;
        server.until(SOON, &read, |response| response.status == 200).await;
        for _ in 0..4 {
            let response = request.clone().send().await;
            let result = (response.status.as_u16(), response.json()["code"].clone());
            assert_eq!(result, (status, json!(code)), "{setting}: {}", response.text());
            read.clone().send().await.expect(200);
        }
        alter(&server, &format!("reset {}", setting.split(' ').next().unwrap())).await;
        server.until(SOON, &read, |response| response.status == 200).await;
    }
}

#[tokio::test]
async fn notification_and_notice_floods_are_harmless() {
    let server = start(&[("database.pool_size", "3")]).await;
    let shout = "create function public.shout(times int) returns int language plpgsql volatile as $$ begin
          perform set_config('client_min_messages', 'notice', true);
          for i in 1..times loop raise notice '% %', i, repeat('x', 900); end loop;
          return times;
        end $$;
        create function public.mumble(times int) returns int language plpgsql volatile as $$ begin
          for i in 1..times loop raise notice '% %', i, repeat('x', 900); end loop;
          return times;
        end $$;
        grant execute on all functions in schema public to service_role";
    server.sql(shout).await;
    let call = |name: &str, times: i32| {
        let call = server.post(&format!("/rest/v1/rpc/{name}")).apikey(server.service_key());
        call.json(&json!({ "times": times }))
    };
    server.until(SOON, &call("shout", 1), |response| response.status == 200).await;
    let before = metric(&server, "process_resident_memory_bytes").await;
    let load = Load::start(&server, 4, 0);
    load.until_acknowledged(20).await;
    assert_eq!(call("mumble", 100_000).send().await.expect(200).json(), json!(100_000));
    let response = call("shout", 50_000).send().await;
    assert!(response.status == 200 || is_refusal(&response) || response.status == 500, "{}", response.text());
    println!("50,000 notices: {} {}", response.status, response.text());
    let loads = schema_loads(&server);
    for channel in ["pgrst", "elsewhere"] {
        let flood = format!(
            "select pg_notify('{channel}', 'reload schema ' || i || repeat('x', 200)) from generate_series(1, 50000) i"
        );
        server.database().admin_sql(&flood).await;
        let flood = format!(
            "do $$ begin for i in 1..2000 loop perform pg_notify('{channel}', 'reload schema'); commit; end loop; end $$"
        );
        server.database().admin_sql(&flood).await;
        load.until_acknowledged(100).await;
    }
    let loads = schema_loads(&server) - loads;
    let outcome = load.finish().await;
    assert_eq!((outcome.refused, outcome.unanswered), (0, 0));
    assert_eq!(stored(&server).await, outcome.acknowledged);
    let grown = metric(&server, "process_resident_memory_bytes").await - before;
    println!("{loads} schema loads, {grown} more bytes");
    assert!(loads < 60, "{loads} loads");
    assert!(grown < 150e6, "{grown} bytes");
}

#[tokio::test]
async fn dropped_login_causes_an_outage_until_recreated() {
    let project = project();
    let own = OwnPostgres::start().await;
    let server = own.server(project.path(), &[("database.pool_size", "4")]).await;
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    read.clone().send().await.expect(200);
    let password =
        own.sql("select rolpassword from pg_authid where rolname = 'authenticator'").await.unwrap();
    let load = Load::start(&server, 4, 0);
    load.until_acknowledged(20).await;
    own.sql("drop owned by authenticator; drop role authenticator").await;
    let begun = Instant::now();
    let response = server.until(SOON, &read, |response| response.status != 200).await;
    println!("after the drop: {} {}", response.status, response.text());
    let made = format!(
        "create role authenticator login noinherit password '{password}';
         grant anon, authenticated, service_role to authenticator; grant connect on database postgres to authenticator"
    );
    own.sql(&made).await;
    server.until(SOON, &read, |response| response.status == 200).await;
    println!("200 after {:?}", begun.elapsed());
    // A stale connection is detected when it is used; two in a row fail a request.
    let crowd = async || {
        let responses = futures_util::future::join_all((0..16).map(|_| read.clone().send())).await;
        responses.iter().all(|response| response.status == 200)
    };
    while !crowd().await {
        assert!(begun.elapsed() < SOON, "old connections still exist");
    }
    assert!(crowd().await);
    load.until_acknowledged(20).await;
    let outcome = load.stop().await;
    println!(
        "refused {}, wrong {:#?}",
        outcome.refused,
        outcome.wrong.iter().collect::<std::collections::BTreeSet<_>>().len()
    );
    let is_of_the_login = |response: &String| response.contains("permission denied to set role");
    assert!(outcome.wrong.iter().all(is_of_the_login), "{:#?}", outcome.wrong);
    assert!(outcome.wrong.len() < 8, "{:#?}", outcome.wrong);
    assert!(outcome.acknowledged.is_subset(&stored(&server).await));
    insert(&server).json(&json!({ "id": -1 })).send().await.expect(201);
    drop(server);
    own.stop().await;
}
