//! Transactions sent as a pipeline (DESIGN §3), against a real PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers fail a test as the tests do"
)]

mod pool;
mod remote;
mod retry;

use std::time::Duration;

use basalt_core::identity::Identity;
use basalt_pg::database::Database;
use basalt_pg::pool::PoolConfig;
use basalt_pg::session::{Access, Answers, End, Isolation, Scope, SessionError, Sessions, Statement};
use basalt_pg::sql::{Param, Sql};
use basalt_testkit::TestDatabase;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// A database with test tables, and superuser sessions: these tests are about transactions, not logins.
struct Fixture {
    database: TestDatabase,
    sessions: Sessions,
}

async fn fixture(pool_size: usize) -> Fixture {
    let database = TestDatabase::create().await;
    database
        .sql(
            "create table items (id int primary key, name text);
             create table parents (id int primary key);
             create table children (parent_id int references parents deferrable initially deferred);
             create schema hidden; create table hidden.secrets (id int); insert into hidden.secrets values (7);
             do $$ begin
               create role session_reader nologin;
             exception when duplicate_object or unique_violation then null; -- roles belong to the whole cluster
             end $$;
             grant usage on schema hidden to session_reader;
             grant select on all tables in schema hidden to session_reader;
             grant all on items to session_reader",
        )
        .await;
    let sessions = Sessions::new(
        Database::new(database.config()),
        PoolConfig::new("test", pool_size),
        TaskTracker::new(),
    );
    Fixture { database, sessions }
}

fn scope(access: Access) -> Scope {
    Scope {
        identity: Identity::SERVER,
        access,
        isolation: Isolation::ReadCommitted,
        settings: vec![("search_path".into(), "public".to_owned())],
        may_prepare: false,
        savepoints: false,
        room_for_values: false,
        deadline: Instant::now() + Duration::from_secs(20),
    }
}

fn as_role(role: &str) -> Scope {
    let mut scope = scope(Access::ReadWrite);
    scope.settings.push(("role".into(), role.to_owned()));
    scope
}

fn statement(text: &'static str) -> Statement {
    Sql::text(text).into()
}

/// Drops the future while PostgreSQL sleeps, as a disconnected client does.
async fn disconnect_while_asleep<T>(fixture: &Fixture, work: impl Future<Output = T>) {
    tokio::select! {
        _ended = work => panic!("the statement ended before the disconnect"),
        () = fixture.database.until_asleep("%pg_sleep%") => {}
    }
}

fn insert(id: i32) -> Statement {
    Sql::text("insert into items (id) values (")
        .then(Sql::param(Param::from_display(id)))
        .then(Sql::text(")"))
        .into()
}

fn int(results: &Answers) -> i64 {
    results[0][0].number(0).unwrap()
}

fn code(result: Result<Answers, SessionError>) -> String {
    match result.unwrap_err() {
        SessionError::Postgres(error) => error.code,
        other @ (SessionError::PoolTimeout
        | SessionError::QueueFull
        | SessionError::Unreachable(_)
        | SessionError::Unavailable(_)
        | SessionError::Deadline) => panic!("expected PostgreSQL's own error, got {other:?}"),
    }
}

#[tokio::test]
async fn first_error_of_the_pipeline_is_returned() {
    let fixture = fixture(1).await;
    let steps = vec![statement("select 1"), statement("select 1 / 0"), statement("select 2")];
    assert_eq!(code(fixture.sessions.run(scope(Access::ReadOnly), steps.clone()).await), "22012");
    // Again with prepared statements, sent in one flush.
    assert_eq!(code(fixture.sessions.run(scope(Access::ReadOnly), steps).await), "22012");
    assert_eq!(code(fixture.sessions.run(as_role("nobody_of_this_name"), vec![insert(1)]).await), "22023");
    assert_eq!(fixture.database.count("items").await, 0);
}

#[tokio::test]
async fn commit_error_is_returned() {
    let fixture = fixture(1).await;
    for _prepared in [false, true] {
        let orphan = vec![statement("insert into children values (99)")];
        assert_eq!(code(fixture.sessions.run(scope(Access::ReadWrite), orphan).await), "23503");
    }
    assert_eq!(fixture.database.count("children").await, 0);
}

#[tokio::test]
async fn statements_are_parsed_as_the_callers_role() {
    let fixture = fixture(1).await;
    let seen = fixture
        .sessions
        .run(as_role("session_reader"), vec![statement("select id from hidden.secrets")])
        .await;
    assert_eq!(int(&seen.unwrap()), 7);
}

#[tokio::test]
async fn no_request_state_stays_on_the_connection() {
    let fixture = fixture(1).await;
    let mut first = as_role("session_reader");
    first.settings.push(("request.jwt.claims".into(), "{\"sub\":\"a\"}".to_owned()));
    fixture.sessions.run(first, vec![statement("select 1")]).await.unwrap();
    let left =
        statement("select current_user = session_user and current_setting('request.jwt.claims', true) = ''");
    let results = fixture.sessions.run(scope(Access::ReadOnly), vec![left]).await.unwrap();
    assert_eq!(results[0][0].text(0), Some("t"));
}

#[tokio::test]
async fn disconnect_cancels_a_read() {
    let fixture = fixture(1).await;
    let sleep = statement("select pg_sleep(30), 'left behind'");
    let reading = fixture.sessions.run(scope(Access::ReadOnly), vec![sleep]);
    disconnect_while_asleep(&fixture, Box::pin(reading)).await;
    // The pool has one connection: this runs only once it is returned or replaced.
    let started = Instant::now();
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(fixture.database.running("%left behind%").await, 0);
}

#[tokio::test]
async fn disconnect_does_not_cancel_a_write() {
    let fixture = fixture(1).await;
    let slow = statement("insert into items select 1 from pg_sleep(1)");
    disconnect_while_asleep(&fixture, Box::pin(fixture.sessions.run(scope(Access::ReadWrite), vec![slow])))
        .await;
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 1);
}

#[tokio::test]
async fn deadline_cancels_a_write() {
    let fixture = fixture(1).await;
    // Open the connection first: otherwise the pool's timeout would apply.
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
    let mut short = scope(Access::ReadWrite);
    short.deadline = Instant::now() + Duration::from_millis(300);
    let slow = statement("insert into items select 1 from pg_sleep(30)");
    let result = fixture.sessions.run(short, vec![slow]).await;
    assert!(matches!(result, Err(SessionError::Deadline)), "{result:?}");
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 0);
}

#[tokio::test]
async fn late_cancel_does_not_affect_the_next_request() {
    let fixture = fixture(1).await;
    for round in 0..40_u64 {
        let sleep = fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select pg_sleep(0.004)")]);
        // Around the time when the statement finishes.
        let _left = tokio::time::timeout(Duration::from_micros(2_000 + 100 * round), sleep).await;
        for _ in 0..3 {
            let next = fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await;
            assert!(next.is_ok(), "round {round}: {next:?}");
        }
    }
}

#[tokio::test]
async fn check_can_roll_the_transaction_back() {
    let fixture = fixture(1).await;
    for _prepared in [false, true] {
        let step = statement("insert into items values (1) returning id");
        let results = fixture
            .sessions
            .run_checked(scope(Access::ReadWrite), vec![step], |results| {
                if results[0].len() == 1 { End::Rollback } else { End::Commit }
            })
            .await
            .unwrap();
        assert_eq!(int(&results), 1);
    }
    assert_eq!(fixture.database.count("items").await, 0);
    let step = statement("insert into items values (1) returning id");
    fixture.sessions.run_checked(scope(Access::ReadWrite), vec![step], |_| End::Commit).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 1);
    fixture.sessions.run_rolled_back(scope(Access::ReadWrite), vec![insert(2)]).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 1);
}

#[tokio::test]
async fn checked_rollback_reports_deferred_constraints() {
    let fixture = fixture(1).await;
    fixture.database.sql("create table late (id int unique deferrable initially deferred)").await;
    fixture.database.sql("grant all on late to public").await;
    let twice = || vec![statement("insert into late values (1), (1) returning id")];
    let pid = || vec![statement("select pg_backend_pid()")];
    let before = int(&fixture.sessions.run(scope(Access::ReadOnly), pid()).await.unwrap());
    for _prepared in [false, true] {
        let end = |end| fixture.sessions.run_checked(scope(Access::ReadWrite), twice(), move |_| end);
        assert_eq!(int(&end(End::Rollback).await.unwrap()), 1, "not checked");
        let error = end(End::RollbackChecked).await.unwrap_err();
        assert!(matches!(&error, SessionError::Postgres(error) if error.code == "23505"), "{error}");
    }
    let once = vec![statement("insert into late values (1) returning id")];
    let kept = fixture.sessions.run_checked(scope(Access::ReadWrite), once, |_| End::RollbackChecked).await;
    assert_eq!(int(&kept.unwrap()), 1);
    assert_eq!(fixture.database.count("late").await, 0);
    // The failed transaction was rolled back and the connection is reused.
    assert_eq!(int(&fixture.sessions.run(scope(Access::ReadOnly), pid()).await.unwrap()), before);
}

#[tokio::test]
async fn read_survives_a_terminated_connection() {
    let fixture = fixture(1).await;
    let pid = statement("select pg_backend_pid()");
    let first = int(&fixture.sessions.run(scope(Access::ReadOnly), vec![pid.clone()]).await.unwrap());
    fixture.database.sql(&format!("select pg_terminate_backend({first}, 1000)")).await;
    let second = int(&fixture.sessions.run(scope(Access::ReadOnly), vec![pid]).await.unwrap());
    assert_ne!(first, second);
}

#[tokio::test]
async fn full_pool_times_out() {
    let fixture = fixture(1).await;
    let busy = {
        let sessions = fixture.sessions.clone();
        tokio::spawn(async move {
            sessions.run(scope(Access::ReadOnly), vec![statement("select pg_sleep(4)")]).await
        })
    };
    fixture.database.until_asleep("%pg_sleep(4)%").await;
    let mut short = scope(Access::ReadOnly);
    short.deadline = Instant::now() + Duration::from_millis(200);
    let result = fixture.sessions.run(short, vec![statement("select 1")]).await;
    assert!(matches!(result, Err(SessionError::PoolTimeout)), "{result:?}");
    busy.await.unwrap().unwrap();
}

#[tokio::test]
async fn checked_write_completes_after_a_disconnect() {
    let fixture = fixture(1).await;
    for (id, end) in [(1, End::Commit), (2, End::Rollback)] {
        let step = Sql::text("insert into items select ")
            .then(Sql::param(Param::from_display(id)))
            .then(Sql::text("::int from pg_sleep(1)"));
        let writing = fixture.sessions.run_checked(scope(Access::ReadWrite), vec![step.into()], move |_| end);
        disconnect_while_asleep(&fixture, Box::pin(writing)).await;
        fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
        assert_eq!(fixture.database.count("items").await, 1);
    }
}

#[tokio::test]
async fn read_only_transaction_cannot_become_read_write() {
    let fixture = fixture(1).await;
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        for step in [
            "insert into items values (1)",
            "with off as (select set_config('transaction_read_only', 'off', true)) insert into items select 1 from off",
            "do $$ begin set transaction read write; insert into items values (1); end $$",
        ] {
            let scope = Scope { isolation, ..scope(Access::ReadOnly) };
            let code = code(fixture.sessions.run(scope, vec![statement(step)]).await);
            assert!(matches!(code.as_str(), "25006" | "25001"), "{code} of {step}");
        }
    }
    assert_eq!(fixture.database.count("items").await, 0);
}

#[tokio::test]
async fn requested_isolation_overrides_defaults() {
    let fixture = fixture(1).await;
    let database = fixture.database.name();
    for (name, value) in [("isolation", "serializable"), ("read_only", "on")] {
        fixture
            .database
            .sql(&format!("alter database {database} set default_transaction_{name} = '{value}'"))
            .await;
    }
    for access in [Access::ReadOnly, Access::ReadWrite] {
        for (isolation, shown) in [
            (Isolation::ReadCommitted, "read committed"),
            (Isolation::RepeatableRead, "repeatable read"),
            (Isolation::Serializable, "serializable"),
        ] {
            let show = statement(
                "select current_setting('transaction_isolation'), current_setting('transaction_read_only')",
            );
            let results =
                fixture.sessions.run(Scope { isolation, ..scope(access) }, vec![show]).await.unwrap();
            let read_only = if access == Access::ReadOnly { "on" } else { "off" };
            assert_eq!((results[0][0].text(0), results[0][0].text(1)), (Some(shown), Some(read_only)));
        }
    }
}

#[tokio::test]
async fn bytea_is_equal_prepared_or_not() {
    let fixture = fixture(1).await;
    let step = statement("select '\\x00ff10'::bytea, 'x', null::bytea, 7");
    for _prepared in [false, true] {
        let results = fixture.sessions.run(scope(Access::ReadOnly), vec![step.clone()]).await.unwrap();
        let row = &results[0][0];
        assert_eq!(row.bytes(0).unwrap().as_ref(), [0, 255, 16]);
        assert_eq!((row.text(1), row.bytes(2), row.number(3)), (Some("x"), None, Some(7)));
    }
}

#[tokio::test]
async fn large_rows_and_parameters_work() {
    let fixture = fixture(1).await;
    let length = 20_000_000;
    let step =
        Sql::text("select repeat(").then(Sql::param("x".repeat(length))).then(Sql::text(", 2), 'end'"));
    for _prepared in [false, true] {
        let results = fixture.sessions.run(scope(Access::ReadOnly), vec![step.clone().into()]).await.unwrap();
        let row = &results[0][0];
        assert_eq!(row.bytes(0).unwrap().len(), 2 * length);
        assert_eq!(row.text(1), Some("end"));
    }
    let many = statement("select n, repeat('y', n % 300) from generate_series(1, 50000) n");
    let results = fixture.sessions.run(scope(Access::ReadOnly), vec![many]).await.unwrap();
    assert_eq!(results[0].len(), 50_000);
    assert!(
        results[0]
            .iter()
            .zip(1..)
            .all(|(row, n)| row.number(0) == Some(n) && row.text(1).unwrap().len() as i64 == n % 300)
    );
}

#[tokio::test]
async fn prepared_statements_are_bounded() {
    let database = TestDatabase::create().await;
    let config = PoolConfig { statement_cache: 5, ..PoolConfig::new("test", 1) };
    let sessions = Sessions::new(Database::new(database.config()), config, TaskTracker::new());
    for round in 0..40 {
        let step = Sql::text("select ").then(Sql::literal(&(round % 20).to_string()));
        let results = sessions.run(scope(Access::ReadOnly), vec![step.into()]).await.unwrap();
        assert_eq!(results[0][0].number(0), Some(round % 20));
        // A statement that fails at execution was still parsed.
        let fails =
            Sql::text("select 1 / (").then(Sql::literal(&round.to_string())).then(Sql::text("::int * 0)"));
        assert_eq!(code(sessions.run(scope(Access::ReadOnly), vec![fails.into()]).await), "22012");
    }
    // Except those that reset the session.
    let count = statement("select count(*) from pg_prepared_statements where name !~ '^reset_'");
    let results = sessions.run(scope(Access::ReadOnly), vec![count]).await.unwrap();
    let count = results[0][0].number(0).unwrap();
    assert!((2..=6).contains(&count), "{count} statements");
}

#[tokio::test]
async fn without_statement_cache_nothing_is_prepared() {
    let database = TestDatabase::create().await;
    let config = PoolConfig { statement_cache: 0, ..PoolConfig::new("test", 1) };
    let sessions = Sessions::new(Database::new(database.config()), config, TaskTracker::new());
    // As pgbouncer does between transactions in transaction mode.
    let forget = statement("deallocate all");
    for round in 0..3 {
        let step = Sql::text("select ")
            .then(Sql::param(round.to_string()))
            .then(Sql::text("::int8, '\\x00'::bytea"));
        let results = sessions.run(scope(Access::ReadOnly), vec![step.into(), forget.clone()]).await.unwrap();
        assert_eq!(results[0][0].number(0), Some(round));
        assert_eq!(results[0][0].bytes(1).unwrap(), &b"\0"[..]);
    }
    let count = statement("select count(*) from pg_prepared_statements where name <> ''");
    let results = sessions.run(scope(Access::ReadOnly), vec![count]).await.unwrap();
    assert_eq!(results[0][0].number(0), Some(0));
}

#[tokio::test]
async fn reads_survive_the_loss_of_all_connections() {
    let fixture = fixture(4).await;
    let many =
        || {
            futures_util::future::join_all((0..4).map(|_| {
                fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select pg_sleep(0.05)")])
            }))
        };
    assert!(many().await.iter().all(Result::is_ok));
    let others = "select pg_terminate_backend(pid, 1000) from pg_stat_activity \
                  where datname = current_database() and pid <> pg_backend_pid()";
    fixture.database.sql(others).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    fixture.sessions.run(scope(Access::ReadWrite), vec![insert(1)]).await.unwrap();
    assert!(many().await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn checked_write_past_its_deadline_is_rolled_back() {
    let fixture = fixture(1).await;
    // The function ignores the cancel.
    fixture
        .database
        .sql(
            "create function stubborn() returns int language plpgsql as $$ begin
               insert into items values (1);
               begin perform pg_sleep(5); exception when query_canceled then null; end;
               return 1;
             end $$",
        )
        .await;
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
    let mut short = scope(Access::ReadWrite);
    short.deadline = Instant::now() + Duration::from_millis(300);
    let writing = vec![statement("select stubborn()")];
    let result = fixture.sessions.run_checked(short, writing, |_| End::Commit).await;
    assert!(matches!(result, Err(SessionError::Deadline)), "{result:?}");
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 0);
}

#[tokio::test]
async fn too_many_parameters_is_an_error_and_keeps_the_pool() {
    let fixture = fixture(1).await;
    let mut many = Sql::text("select ");
    for index in 0..65_536 {
        many.push_text(if index == 0 { "" } else { ", " });
        many.push(Sql::param("x"));
    }
    let result = fixture.sessions.run(scope(Access::ReadOnly), vec![many.into()]).await;
    assert_eq!(code(result), "54000");
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
}

#[tokio::test]
async fn notices_are_suppressed() {
    let fixture = fixture(1).await;
    fixture
        .database
        .sql(
            "create function talk() returns text language plpgsql as $$ begin
               raise notice '%', repeat('x', 1000000); return current_setting('client_min_messages');
             end $$",
        )
        .await;
    let results =
        fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select talk()")]).await.unwrap();
    assert_eq!(results[0][0].text(0), Some("error"));
}
