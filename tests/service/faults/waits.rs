//! Waiting for the database: connections, locks, statements, DDL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, TestDatabase};
use serde_json::{Value, json};

use crate::load::{DATABASE_AWAY, Load, insert, is_refusal, stored};
use crate::overload::{hold, linger, metric, start, until_lingering};

fn nap(server: &Basalt, seconds: f64) -> basalt_testkit::Request {
    let nap = server.post("/rest/v1/rpc/nap").apikey(server.service_key());
    nap.json(&json!({ "seconds": seconds }))
}

#[tokio::test]
async fn waiting_for_a_connection_times_out_with_504() {
    let server = start(&[("database.pool_size", "2"), ("database.pool_timeout", "1s")]).await;
    server.expect_log("no database connection became free in time");
    let held = hold(&server).await;
    let waiters = async {
        until_lingering(&server, 2).await;
        let writes = (0..20).map(|id| insert(&server).json(&json!({ "id": id })).send());
        for response in futures_util::future::join_all(writes).await {
            assert_eq!(response.status, 504, "{}", response.text());
            let message = "Timed out acquiring connection from connection pool.";
            let body = json!({ "code": "PGRST003", "details": null, "hint": null, "message": message });
            assert_eq!(response.json(), body);
        }
        // They got their responses while the connections were still held.
        drop(held);
    };
    let (first, second, ()) = tokio::join!(linger(&server).send(), linger(&server).send(), waiters);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (204, 204));
    assert!(stored(&server).await.is_empty(), "a rejected write has no effect");
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
}

#[tokio::test]
async fn role_timeouts_apply_and_are_reported() {
    // Roles are cluster-wide; the server reads their settings at startup.
    let role = "faults_hasty";
    let elsewhere = TestDatabase::create().await;
    let made = format!(
        "create role {role} nologin; grant {role} to authenticator;
         alter role {role} set statement_timeout = '900ms'; alter role {role} set lock_timeout = '300ms'"
    );
    elsewhere.admin_sql(&made).await;
    let server = start(&[("database.pool_size", "1")]).await;
    let granted = format!(
        "grant usage on schema public to {role}; grant select, insert, update on public.entries to {role};
         alter table public.entries disable row level security;
         grant execute on all functions in schema public to {role}; insert into public.entries values (1)"
    );
    server.sql(&granted).await;
    let token = server.token_of(role);
    let check = |response: basalt_testkit::Response, code: &str, message: &str| {
        assert_eq!(response.status, 500, "{}", response.text());
        assert_eq!((&response.json()["code"], &response.json()["message"]), (&json!(code), &json!(message)));
        assert_eq!(response.json()["hint"], Value::Null);
        assert_eq!(response.header("proxy-status"), format!("PostgREST; error={code}"));
    };

    let slow = nap(&server, 20.0).bearer(&token).send().await;
    check(slow, "57014", "canceling statement due to statement timeout");
    let held = server.database().hold("begin; lock table public.entries").await;
    let write = server.patch("/rest/v1/entries?id=eq.1").apikey(server.service_key()).bearer(&token);
    let kept_out = write.json(&json!({ "changes": 1 })).send().await;
    check(kept_out, "55P03", "canceling statement due to lock timeout");
    drop(held);
    // The connection has no leftover timeouts, also for another role.
    nap(&server, 1.2).send().await.expect(204);
    let read = server.get("/rest/v1/entries?select=id,changes").apikey(server.service_key()).bearer(&token);
    assert_eq!(read.send().await.expect(200).json(), json!([{ "id": 1, "changes": 0 }]));
    elsewhere.admin_sql(&format!("revoke {role} from authenticator")).await;
}

#[tokio::test]
async fn table_changes_fail_no_request() {
    let server = start(&[]).await;
    let load = Load::start(&server, 8, 0);
    for round in 0..10 {
        load.until_acknowledged(20).await;
        server.sql(&format!("alter table public.entries add column extra_{round} text default 'x'")).await;
        load.until_acknowledged(20).await;
        let change = if round % 2 == 0 { "drop column" } else { "alter column" };
        let rest = if round % 2 == 0 { "" } else { " type int using 1" };
        let change = format!("alter table public.entries {change} extra_{round}{rest}");
        let defaultless = format!("alter table public.entries alter column extra_{round} drop default");
        server.sql(&format!("{defaultless}; {change}")).await;
        // Every pool connection prepared this statement before the change.
        let reads =
            (0..16).map(|_| server.get("/rest/v1/entries?id=eq.1").apikey(server.service_key()).send());
        for response in futures_util::future::join_all(reads).await {
            assert_eq!(response.status, 200, "{}", response.text());
        }
    }
    load.until_acknowledged(20).await;
    let outcome = load.finish().await;
    assert_eq!((outcome.refused, outcome.unanswered), (0, 0));
    assert_eq!(stored(&server).await, outcome.acknowledged);
}

/// PostgreSQL looks functions and views up by name and uses them by OID without a lock in between; its error ("cache lookup failed
/// for function 16714") must not reach clients.
#[tokio::test]
async fn replacing_functions_and_views_fails_no_request() {
    replace_repeatedly(100).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: sixteen clients at full speed"]
async fn four_hundred_replacements_fail_no_request() {
    replace_repeatedly(400).await;
}

#[expect(clippy::print_stdout, reason = "the test reports its figures")]
async fn replace_repeatedly(times: u32) {
    let server = start(&[("database.pool_size", "8")]).await;
    let made = "create function public.steady(n int) returns int language sql stable as 'select n * 2';
        create view public.steady_rows as select 7 as id;
        grant execute on function public.steady(int) to service_role;
        grant select on public.steady_rows to service_role;";
    server.sql(made).await;
    let call = server.post("/rest/v1/rpc/steady").apikey(server.service_key()).json(&json!({ "n": 21 }));
    let rows = server.get("/rest/v1/steady_rows").apikey(server.service_key());
    server.until(Duration::from_secs(60), &call, |response| response.status == 200).await;
    server.until(Duration::from_secs(60), &rows, |response| response.status == 200).await;
    let over = AtomicBool::new(false);
    let clients = futures_util::future::join_all((0..16).map(async |number| {
        let (request, expected) =
            if number % 4 == 0 { (&rows, json!([{ "id": 7 }])) } else { (&call, json!(42)) };
        let mut count = 0;
        while !over.load(Ordering::Relaxed) {
            let response = request.clone().send().await;
            assert_eq!((response.status.as_u16(), response.json()), (200, expected.clone()), "after {count}");
            count += 1;
        }
        count
    }));
    // Faster than the schema cache reloads; each change also notifies it.
    let anew = format!(
        "do $do$ begin
           for i in 1..{times} loop
             drop function public.steady(int);
             drop view public.steady_rows;
             {made}
             commit;
             perform pg_sleep(0.02);
           end loop;
         end $do$"
    );
    let changes = async {
        server.sql(&anew).await;
        over.store(true, Ordering::Relaxed);
    };
    let (counts, ()) = tokio::join!(clients, changes);
    let repeated = metric(&server, "basalt_transactions_repeated_total{reason=\"catalog\"}").await;
    println!("{} correct responses; {repeated} requests met a change", counts.iter().sum::<u32>());
}

/// Changes a database setting and terminates its sessions.
async fn alter_database(server: &Basalt, change: &str) {
    let name = server.database().name();
    server.database().admin_sql(&format!("alter database \"{name}\" {change}")).await;
    let others = "select pg_terminate_backend(pid, 1000) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()";
    server.database().admin_sql(others).await;
}

#[tokio::test]
async fn idle_session_timeout_fails_no_request() {
    let server = start(&[("database.pool_size", "2")]).await;
    for text in DATABASE_AWAY {
        server.expect_log(text);
    }
    alter_database(&server, "set idle_session_timeout = '500ms'").await;
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    server.until(Duration::from_secs(60), &read, |response| response.status == 200).await;
    let requests = async |id: i64| {
        insert(&server).json(&json!({ "id": id })).send().await.expect(201);
        read.clone().send().await.expect(200);
    };
    let sessions = "select count(*) from pg_stat_activity
        where datname = current_database() and usename = 'authenticator'";
    for id in 0..3 {
        requests(id).await;
        while server.database().value(sessions).await != "0" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // Around the moment of the timeout.
    for id in 3..13 {
        requests(id).await;
        tokio::time::sleep(Duration::from_millis(494 + (id.unsigned_abs() - 3) * 2)).await;
    }
    assert_eq!(server.database().count("public.entries").await, 13);
}

#[tokio::test]
async fn pool_shrinks_to_the_allowed_connections() {
    let server = start(&[("database.pool_size", "20"), ("database.pool_timeout", "60s")]).await;
    for text in DATABASE_AWAY {
        server.expect_log(text);
    }
    // The server's own superuser connections, about eight, count but are not limited: with 15, some but not all of
    // the pool's connections are accepted.
    alter_database(&server, "connection limit 15").await;
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    server.until(Duration::from_secs(60), &read, |response| response.status == 200).await;
    let naps = (0..30).map(|_| nap(&server, 0.1).send());
    for response in futures_util::future::join_all(naps).await {
        assert_eq!(response.status, 204, "{}", response.text());
    }
    // No connections at all is an outage, reported at once.
    alter_database(&server, "connection limit 0").await;
    let begun = Instant::now();
    let response = read.clone().send().await;
    assert_eq!((response.status.as_u16(), response.json()["code"].as_str()), (503, Some("PGRST000")));
    assert!(response.text().contains("too many connections") && is_refusal(&response), "{}", response.text());
    // Well before the pool timeout of 60 s.
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    alter_database(&server, "connection limit -1").await;
    server.until(Duration::from_secs(60), &read, |response| response.status == 200).await;
}

#[tokio::test]
async fn terminated_backend_fails_no_read() {
    let server = start(&[("database.pool_size", "4")]).await;
    for text in DATABASE_AWAY {
        server.expect_log(text);
    }
    let load = Load::start(&server, 8, 0);
    let terminate = "select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and usename = 'authenticator' limit 2";
    for _ in 0..10 {
        load.until_acknowledged(20).await;
        server.database().admin_sql(terminate).await;
        for _ in 0..8 {
            let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
            // Idle connections are checked before use, and an interrupted read is retried once.
            assert_eq!(read.send().await.status, 200);
        }
    }
    let outcome = load.finish().await;
    assert_eq!(outcome.unanswered, 0);
    let stored = stored(&server).await;
    let lost: Vec<_> = outcome.acknowledged.difference(&stored).collect();
    assert!(lost.is_empty(), "acknowledged and not stored: {lost:?}");
}

/// Takes one lock, and the second once another session waits for the first, or at once if the second is free.
const CROSS: &str = "create function public.cross() returns int language plpgsql volatile as $$
      begin
        perform pg_advisory_xact_lock(1);
        while exists (select from pg_locks where locktype = 'advisory' and objid = 2 and granted)
          and not exists (select from pg_locks where locktype = 'advisory' and objid = 1 and not granted)
        loop
          perform pg_sleep(0.005);
        end loop;
        perform pg_advisory_xact_lock(2);
        return 42;
      end $$;
    grant execute on function public.cross() to service_role;";

/// PostgreSQL aborts the session whose deadlock check runs first: never the other side here, which disables its check.
#[tokio::test]
async fn deadlocked_read_is_retried_and_write_is_not() {
    let server = start(&[]).await;
    server.sql(CROSS).await;
    let read = server.get("/rest/v1/rpc/cross").apikey(server.service_key());
    let write = server.post("/rest/v1/rpc/cross").apikey(server.service_key());
    server.until(Duration::from_secs(60), &read, |response| response.status == 200).await;
    for (request, status, expected) in [(read, 200, json!(42)), (write.json(&json!({})), 500, json!("40P01"))]
    {
        let before = metric(&server, "basalt_transactions_repeated_total{reason=\"deadlock\"}").await;
        let other = server.database().admin_sql(
            "set deadlock_timeout = '1h'; begin; select pg_advisory_xact_lock(2);
             do $$ begin
               while not exists (select from pg_locks where locktype = 'advisory' and objid = 1 and granted) loop
                 perform pg_sleep(0.005);
               end loop;
             end $$;
             select pg_advisory_xact_lock(1); commit",
        );
        let delayed = async {
            while server.database().value("select count(*) from pg_locks where locktype = 'advisory'").await
                == "0"
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            request.send().await
        };
        let (_rows, response) = tokio::join!(other, delayed);
        assert_eq!(response.status, status, "{}", response.text());
        let body = response.json();
        assert_eq!(if status == 200 { &body } else { &body["code"] }, &expected);
        let repeated =
            metric(&server, "basalt_transactions_repeated_total{reason=\"deadlock\"}").await - before;
        assert!((repeated - f64::from(u8::from(status == 200))).abs() < 0.5, "{repeated}");
    }
}
