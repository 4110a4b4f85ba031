//! No session state of one request is visible to the next, on a pool with one connection.

use basalt_testkit::{Basalt, Request, Response, User};
use serde_json::json;

use super::server;

const FUNCTIONS: &str = "
create table public.diary (id int generated always as identity, owner uuid default auth.uid());
alter table public.diary enable row level security;
create policy own on public.diary using (owner = auth.uid()) with check (owner = auth.uid());
grant select, insert on public.diary to authenticated;
create function public.run(code text) returns text language plpgsql as
  $$ begin execute code; return 'done'; end $$;
create function public.ask(code text) returns text language plpgsql as
  $$ declare answer text; begin execute code into answer; return answer; end $$;
create function public.me() returns uuid language sql stable as 'select auth.uid()';
create function public.remember(name text, value text) returns text language sql as
  'select set_config(name, value, false)';
create function public.on_read() returns text language plpgsql as
  $$ begin execute current_setting('request.headers')::json->>'x-code'; return 'done'; end $$;
create function public.on_read_ask() returns text language plpgsql as
  $$ declare answer text; begin execute current_setting('request.headers')::json->>'x-code' into answer; return answer; end $$;
create table public.witnessed (who text);
create function public.witness() returns text language sql as
  'insert into public.witnessed values (current_user) returning who';
grant usage on schema public to authenticator;
grant select, insert on public.witnessed to authenticator, authenticated;
grant execute on function public.witness to authenticator, authenticated;
create view public.doing as select public.on_read() as answer;
create view public.asking as select public.on_read_ask() as answer;
grant select on public.doing, public.asking to authenticated;
create function public.run_deferred() returns trigger language plpgsql as
  $$ begin execute new.code; return null; end $$;
create table public.deferred (code text);
create constraint trigger run after insert on public.deferred deferrable initially deferred
  for each row execute function public.run_deferred();
grant insert on public.deferred to authenticated;
grant execute on function public.on_read, public.on_read_ask, public.run, public.ask, public.me, public.remember to anon, authenticated;
notify pgrst, 'reload schema'";

/// Code that one user runs, a check by the next user, and the check's result on a new session.
const KINDS: [(&str, &str, &str); 17] = [
    (
        "select set_config('app.tenant', 'a', false)",
        "select coalesce(current_setting('app.tenant', true), '')",
        "",
    ),
    ("set request.jwt.claims = '{}'", "select current_setting('request.jwt.claims') <> '{}'", "true"),
    (
        "set request.jwt.claim.role = 'service_role'",
        "select coalesce(current_setting('request.jwt.claim.role', true), '')",
        "",
    ),
    ("set statement_timeout = '7s'", "select current_setting('statement_timeout') <> '7s'", "true"),
    (
        "set default_transaction_read_only = on",
        "select current_setting('default_transaction_read_only')",
        "off",
    ),
    (
        "set default_transaction_isolation = serializable",
        "select current_setting('transaction_isolation')",
        "read committed",
    ),
    ("set search_path = pg_temp", "select current_setting('search_path') like '%public%'", "true"),
    ("set time zone 'Asia/Tokyo'", "select current_setting('timezone') <> 'Asia/Tokyo'", "true"),
    ("set client_min_messages = debug1", "select current_setting('client_min_messages')", "error"),
    ("set role anon", "select current_user::text", "authenticated"),
    (
        "select pg_advisory_lock(77)",
        "select count(*)::text from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
        "0",
    ),
    ("listen gossip", "select count(*)::text from pg_listening_channels()", "0"),
    (
        "create temp table diary as select 1 as id",
        "select coalesce(to_regclass('pg_temp.diary')::text, 'none')",
        "none",
    ),
    (
        "declare c cursor with hold for select 1",
        "select count(*)::text from pg_cursors where name = 'c'",
        "0",
    ),
    (
        "prepare left_behind as select 1",
        "select count(*)::text from pg_prepared_statements where name = 'left_behind'",
        "0",
    ),
    ("deallocate all", "select 'fine'", "fine"),
    (
        "create temp sequence s; select nextval('s')",
        "select coalesce((select 'seen' from pg_class where relname = 's' and relnamespace = pg_my_temp_schema()), 'none')",
        "none",
    ),
];

fn call(server: &Basalt, user: &User, name: &str, body: &serde_json::Value) -> Request {
    server.post(&format!("/rest/v1/rpc/{name}")).by(server, user).json(body)
}

async fn started() -> (Basalt, User, User) {
    started_with("256").await
}

async fn started_with(statement_cache: &str) -> (Basalt, User, User) {
    let server =
        server().config("database.pool_size", "1").config("database.statement_cache", statement_cache);
    let server = server.start().await;
    server.sql(FUNCTIONS).await;
    let (a, b) = (server.sign_up("a@example.com").await, server.sign_up("b@example.com").await);
    let is_there = |response: &Response| response.status == 200;
    server.until(super::SOON, &call(&server, &a, "me", &json!({})), is_there).await;
    (server, a, b)
}

/// A read of a view that runs `code`.
fn read(server: &Basalt, user: &User, view: &str, code: &str) -> Request {
    server.get(&format!("/rest/v1/{view}")).by(server, user).header("x-code", code)
}

#[tokio::test]
async fn claims_left_by_another_user_are_ignored() {
    let (server, a, b) = started().await;
    for name in ["request.jwt.claim.sub", "request.jwt.claims"] {
        let value = if name.ends_with("sub") { a.id.clone() } else { json!({ "sub": a.id }).to_string() };
        for _ in 0..20 {
            let left = json!({ "name": name, "value": value });
            call(&server, &a, "remember", &left).send().await.expect(200);
            let me = call(&server, &b, "me", &json!({})).send().await.expect(200);
            assert_eq!(me.json(), json!(b.id), "{name}");
            call(&server, &a, "remember", &left).send().await.expect(200);
            let me = server.get("/rest/v1/rpc/me").by(&server, &b).send().await.expect(200);
            assert_eq!(me.json(), json!(b.id), "{name}");
            call(&server, &a, "remember", &left).send().await.expect(200);
            server.post("/rest/v1/diary").by(&server, &b).json(&json!({})).send().await.expect(201);
        }
    }
    assert!(
        server
            .get("/rest/v1/diary")
            .by(&server, &a)
            .send()
            .await
            .expect(200)
            .json()
            .as_array()
            .unwrap()
            .is_empty()
    );
    let visitor = server.post("/rest/v1/rpc/me").apikey(server.anon_key()).json(&json!({}));
    call(&server, &a, "remember", &json!({ "name": "request.jwt.claim.sub", "value": a.id }))
        .send()
        .await
        .expect(200);
    assert_eq!(visitor.send().await.expect(200).json(), json!(null));
}

#[tokio::test]
async fn no_session_state_survives_a_request() {
    let (server, a, b) = started().await;
    for (left, looked, expected) in KINDS {
        // Committed, and failed after it ran.
        let codes = [left.to_owned(), format!("{left}; select 1 / 0")];
        for code in codes {
            let status = if code.ends_with("/ 0") { 400 } else { 200 };
            call(&server, &a, "run", &json!({ "code": code })).send().await.expect(status);
            let seen = call(&server, &b, "ask", &json!({ "code": looked })).send().await.expect(200);
            assert_eq!(seen.json(), json!(expected), "{code}");
        }
        let rolled_back = call(&server, &a, "run", &json!({ "code": left }));
        rolled_back.header("prefer", "tx=rollback").send().await.expect(200);
        let seen = call(&server, &b, "ask", &json!({ "code": looked })).send().await.expect(200);
        assert_eq!(seen.json(), json!(expected), "{left}, rolled back");
    }
    // Locks are released immediately, not when the connection is next used.
    call(&server, &a, "run", &json!({ "code": "select pg_advisory_lock(78)" })).send().await.expect(200);
    let begun = std::time::Instant::now();
    while server.sql("select pg_try_advisory_lock(78)::text").await[0][0].as_deref() != Some("true") {
        assert!(begun.elapsed() < super::SOON, "the lock is held");
    }
}

#[tokio::test]
async fn no_session_state_survives_a_read_or_deferred_trigger() {
    let (server, a, b) = started().await;
    for (left, looked, expected) in KINDS {
        let seen = async || {
            let seen = call(&server, &b, "ask", &json!({ "code": looked })).send().await.expect(200);
            assert_eq!(seen.json(), json!(expected), "{left}");
        };
        // A READ ONLY transaction cannot create temporary objects.
        let status = if left.contains("temp ") { 405 } else { 200 };
        read(&server, &a, "doing", left).send().await.expect(status);
        let seen_by_read = read(&server, &b, "asking", looked).send().await.expect(200);
        assert_eq!(seen_by_read.json()[0]["answer"], json!(expected), "{left}, seen by a read");
        read(&server, &a, "doing", left).send().await.expect(status);
        seen().await;
        let failing = format!("{left}; select 1 / 0");
        let failed = if status == 200 { 400 } else { 405 };
        read(&server, &a, "doing", &failing).send().await.expect(failed);
        seen().await;
        // The trigger runs at commit, after everything else.
        let deferred = server.post("/rest/v1/deferred").by(&server, &a).json(&json!({ "code": left }));
        deferred.header("prefer", "return=minimal").send().await.expect(201);
        seen().await;
    }
}

#[tokio::test]
async fn reset_works_without_prepared_statements() {
    let (server, a, b) = started_with("0").await;
    for (left, looked, expected) in KINDS {
        call(&server, &a, "run", &json!({ "code": left })).send().await.expect(200);
        let seen = call(&server, &b, "ask", &json!({ "code": looked })).send().await.expect(200);
        assert_eq!(seen.json(), json!(expected), "{left}");
        let status = if left.contains("temp ") { 405 } else { 200 };
        read(&server, &a, "doing", left).send().await.expect(status);
        let seen = read(&server, &b, "asking", looked).send().await.expect(200);
        assert_eq!(seen.json()[0]["answer"], json!(expected), "{left}, seen by a read");
    }
}

#[tokio::test]
async fn replaced_reset_statement_closes_the_connection() {
    let (server, a, b) = started().await;
    // The connection is closed, and the read on it fails.
    server.expect_log("the database connection broke");
    let leave = "perform set_config('app.tenant', 'a', false)";
    let ask = "select string_agg(name, ' ') from pg_prepared_statements where name like 'reset%'";
    let names = call(&server, &b, "ask", &json!({ "code": ask })).send().await.expect(200).json();
    let names: Vec<String> = names.as_str().unwrap().split(' ').map(str::to_owned).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in &names {
        let code = format!(
            "do $$ begin {leave}; deallocate {name}; prepare {name} as select public.witness(); end $$"
        );
        for is_read in [false, true] {
            let leaving = if is_read {
                read(&server, &a, "doing", &code)
            } else {
                call(&server, &a, "run", &json!({ "code": code }))
            };
            let _whatever = leaving.send().await;
            let looked = "select coalesce(current_setting('app.tenant', true), '')";
            let seen = read(&server, &b, "asking", looked).send().await.expect(200);
            assert_eq!(seen.json()[0]["answer"], json!(""), "{name}");
            let seen = call(&server, &b, "ask", &json!({ "code": looked })).send().await.expect(200);
            assert_eq!(seen.json(), json!(""), "{name}");
            let left = "select count(*)::text from pg_prepared_statements where from_sql";
            let seen = call(&server, &b, "ask", &json!({ "code": left })).send().await.expect(200);
            assert_eq!(seen.json(), json!("0"), "{name}");
        }
    }
    // Nor does it run as the login role, which can switch to any role.
    let witnessed = server.sql("select coalesce(string_agg(who, ' '), '') from public.witnessed").await;
    assert_eq!(witnessed[0][0].as_deref(), Some(""));
}

#[tokio::test]
async fn statements_replaced_in_a_read_are_not_executed() {
    let (server, a, b) = started().await;
    // Except those that its own request needs, so that it succeeds.
    let code = "do $$ declare s record; begin \
                for s in select name, parameter_types as types from pg_prepared_statements \
                where name not like 'reset%' and statement not like '%response.%' loop \
                execute format('deallocate %I', s.name); \
                execute format('prepare %I%s as select public.witness()', s.name, \
                case when s.types <> '{}' then '(' || array_to_string(s.types, ',') || ')' else '' end); \
                end loop; end $$";
    let me = "select auth.uid()";
    for _ in 0..2 {
        // Prepare everything that the next request needs.
        read(&server, &b, "asking", me).send().await.expect(200);
        read(&server, &a, "doing", code).send().await.expect(200);
        let seen = read(&server, &b, "asking", me).send().await.expect(200);
        assert_eq!(seen.json()[0]["answer"], json!(b.id));
    }
    let witnessed = server.sql("select coalesce(string_agg(who, ' '), '') from public.witnessed").await;
    assert_eq!(witnessed[0][0].as_deref(), Some(""));
}

#[tokio::test]
async fn functions_that_may_prepare_in_a_read_are_detected() {
    let server = server().config("database.pool_size", "1").start().await;
    let look = "create view public.left_behind as \
                select count(*)::int as count from pg_prepared_statements where name = 'left_behind'; \
                grant select on public.left_behind to authenticated";
    server.sql(look).await;
    let user = server.sign_up("a@example.com").await;
    for (number, (language, body)) in [
        ("sql", "PREPARE left_behind as select 1; select true"),
        ("plpgsql", "begin Prepare left_behind as select 1; return true; end"),
        ("plpgsql", "begin EXECUTE 'prep' || 'are left_behind as select 1'; return true; end"),
    ]
    .into_iter()
    .enumerate()
    {
        // A stable function calls it, in a policy.
        let made = format!(
            "create schema aside; grant usage on schema aside to authenticated; \
             create function aside.leave() returns bool language {language} as $${body}$$; \
             create function aside.passes() returns bool language plpgsql stable as \
             $$ begin return aside.leave(); end $$; \
             grant execute on all functions in schema aside to authenticated; \
             create table public.guarded_{number} as select 1 as id; \
             alter table public.guarded_{number} enable row level security; \
             create policy all_of_it on public.guarded_{number} using (aside.passes()); \
             grant select on public.guarded_{number} to authenticated"
        );
        server.sql(&made).await;
        let guarded = server.get(&format!("/rest/v1/guarded_{number}")).by(&server, &user);
        let is_read = |response: &Response| response.status == 200;
        assert_eq!(server.until(super::SOON, &guarded, is_read).await.json(), json!([{ "id": 1 }]));
        let left = server.get("/rest/v1/left_behind").by(&server, &user).send().await.expect(200);
        assert_eq!(left.json(), json!([{ "count": 0 }]), "{body}");
        server.sql(&format!("drop table public.guarded_{number}; drop schema aside cascade")).await;
    }
}

#[tokio::test]
async fn triggers_that_may_prepare_are_detected() {
    let server = server().config("database.pool_size", "1").start().await;
    let user = server.sign_up("a@example.com").await;
    for (number, body) in
        ["PREPARE left_behind as select 1", "execute 'prep' || 'are left_behind as select 1'"]
            .iter()
            .enumerate()
    {
        let made = format!(
            "create or replace function public.leave() returns trigger language plpgsql as
               $$ begin {body}; return new; end $$;
             create or replace view public.left_behind as
               select count(*)::int as count from pg_prepared_statements where name = 'left_behind';
             create table public.triggered_{number} (id int);
             create trigger leave before insert on public.triggered_{number}
               for each row execute function public.leave();
             grant insert on public.triggered_{number} to authenticated;
             grant select on public.left_behind to authenticated"
        );
        server.sql(&made).await;
        let insert = server.post(&format!("/rest/v1/triggered_{number}")).by(&server, &user);
        let insert = insert.json(&json!({ "id": 1 }));
        let is_written = |response: &Response| response.status == 201;
        server.until(super::SOON, &insert, is_written).await;
        let left = server.get("/rest/v1/left_behind").by(&server, &user).send().await.expect(200);
        assert_eq!(left.json(), json!([{ "count": 0 }]), "{body}");
    }
}
