//! The rules that keep a pipeline of statements honest (DESIGN §3), each against a real PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers fail a test as the tests do"
)]

mod pool;
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

/// A database with one table, and sessions of its superuser: what is tested here is the transaction, not the login.
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

/// Goes away, as a client does, from work that PostgreSQL sleeps in.
async fn leave_asleep<T>(fixture: &Fixture, work: impl Future<Output = T>) {
    tokio::select! {
        _ended = work => panic!("it ended before the caller left"),
        () = fixture.database.until_asleep("%pg_sleep%") => {}
    }
}

fn insert(id: i32) -> Statement {
    Sql::text("insert into items (id) values (")
        .then(Sql::param(Param::from_display(id)))
        .then(Sql::text(")"))
        .into()
}

fn int(answers: &Answers) -> i64 {
    answers[0][0].number(0).unwrap()
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
async fn the_first_error_in_order_is_the_answer() {
    let fixture = fixture(1).await;
    let steps = vec![statement("select 1"), statement("select 1 / 0"), statement("select 2")];
    assert_eq!(code(fixture.sessions.run(scope(Access::ReadOnly), steps.clone()).await), "22012");
    // Again, now that everything is prepared and travels in one flush.
    assert_eq!(code(fixture.sessions.run(scope(Access::ReadOnly), steps).await), "22012");
    assert_eq!(code(fixture.sessions.run(as_role("nobody_of_this_name"), vec![insert(1)]).await), "22023");
    assert_eq!(fixture.database.count("items").await, 0);
}

#[tokio::test]
async fn an_error_at_commit_is_an_error() {
    let fixture = fixture(1).await;
    for _prepared in [false, true] {
        let orphan = vec![statement("insert into children values (99)")];
        assert_eq!(code(fixture.sessions.run(scope(Access::ReadWrite), orphan).await), "23503");
    }
    assert_eq!(fixture.database.count("children").await, 0);
}

#[tokio::test]
async fn a_statement_is_parsed_under_the_callers_role() {
    let fixture = fixture(1).await;
    let seen = fixture
        .sessions
        .run(as_role("session_reader"), vec![statement("select id from hidden.secrets")])
        .await;
    assert_eq!(int(&seen.unwrap()), 7);
}

#[tokio::test]
async fn nothing_of_a_request_stays_on_the_connection() {
    let fixture = fixture(1).await;
    let mut first = as_role("session_reader");
    first.settings.push(("request.jwt.claims".into(), "{\"sub\":\"a\"}".to_owned()));
    fixture.sessions.run(first, vec![statement("select 1")]).await.unwrap();
    let left =
        statement("select current_user = session_user and current_setting('request.jwt.claims', true) = ''");
    let answers = fixture.sessions.run(scope(Access::ReadOnly), vec![left]).await.unwrap();
    assert_eq!(answers[0][0].text(0), Some("t"));
}

#[tokio::test]
async fn a_read_is_cancelled_when_the_client_leaves() {
    let fixture = fixture(1).await;
    let sleep = statement("select pg_sleep(30), 'left behind'");
    let reading = fixture.sessions.run(scope(Access::ReadOnly), vec![sleep]);
    leave_asleep(&fixture, Box::pin(reading)).await;
    // The pool has one connection: this answers only once it is back, or replaced.
    let started = Instant::now();
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(fixture.database.running("%left behind%").await, 0);
}

#[tokio::test]
async fn a_write_runs_to_its_end_when_the_client_leaves() {
    let fixture = fixture(1).await;
    let slow = statement("insert into items select 1 from pg_sleep(1)");
    leave_asleep(&fixture, Box::pin(fixture.sessions.run(scope(Access::ReadWrite), vec![slow]))).await;
    fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 1);
}

#[tokio::test]
async fn a_write_is_cancelled_at_its_deadline() {
    let fixture = fixture(1).await;
    // Opens the connection: without one the deadline would be the pool's.
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
async fn a_late_cancel_does_not_strike_the_next_request() {
    let fixture = fixture(1).await;
    for round in 0..40_u64 {
        let sleep = fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select pg_sleep(0.004)")]);
        // Around the moment when the statement ends by itself.
        let _left = tokio::time::timeout(Duration::from_micros(2_000 + 100 * round), sleep).await;
        for _ in 0..3 {
            let next = fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await;
            assert!(next.is_ok(), "round {round}: {next:?}");
        }
    }
}

#[tokio::test]
async fn a_check_may_undo_what_the_statements_did() {
    let fixture = fixture(1).await;
    for _prepared in [false, true] {
        let step = statement("insert into items values (1) returning id");
        let answers = fixture
            .sessions
            .run_checked(scope(Access::ReadWrite), vec![step], |answers| {
                if answers[0].len() == 1 { End::Rollback } else { End::Commit }
            })
            .await
            .unwrap();
        assert_eq!(int(&answers), 1);
    }
    assert_eq!(fixture.database.count("items").await, 0);
    let step = statement("insert into items values (1) returning id");
    fixture.sessions.run_checked(scope(Access::ReadWrite), vec![step], |_| End::Commit).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 1);
    fixture.sessions.run_rolled_back(scope(Access::ReadWrite), vec![insert(2)]).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 1);
}

#[tokio::test]
async fn deferred_constraints_are_looked_at_before_a_checked_rollback() {
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
    // The transaction that failed was ended, and its connection is as good as before.
    assert_eq!(int(&fixture.sessions.run(scope(Access::ReadOnly), pid()).await.unwrap()), before);
}

#[tokio::test]
async fn a_read_survives_the_end_of_its_connection() {
    let fixture = fixture(1).await;
    let pid = statement("select pg_backend_pid()");
    let first = int(&fixture.sessions.run(scope(Access::ReadOnly), vec![pid.clone()]).await.unwrap());
    fixture.database.sql(&format!("select pg_terminate_backend({first}, 1000)")).await;
    let second = int(&fixture.sessions.run(scope(Access::ReadOnly), vec![pid]).await.unwrap());
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_full_pool_says_so_in_time() {
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
async fn a_checked_write_is_decided_after_the_client_left() {
    let fixture = fixture(1).await;
    for (id, end) in [(1, End::Commit), (2, End::Rollback)] {
        let step = Sql::text("insert into items select ")
            .then(Sql::param(Param::from_display(id)))
            .then(Sql::text("::int from pg_sleep(1)"));
        let writing = fixture.sessions.run_checked(scope(Access::ReadWrite), vec![step.into()], move |_| end);
        leave_asleep(&fixture, Box::pin(writing)).await;
        fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select 1")]).await.unwrap();
        assert_eq!(fixture.database.count("items").await, 1);
    }
}

#[tokio::test]
async fn a_read_only_transaction_stays_one() {
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
async fn the_isolation_asked_for_is_the_one_there_is() {
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
            let answers =
                fixture.sessions.run(Scope { isolation, ..scope(access) }, vec![show]).await.unwrap();
            let read_only = if access == Access::ReadOnly { "on" } else { "off" };
            assert_eq!((answers[0][0].text(0), answers[0][0].text(1)), (Some(shown), Some(read_only)));
        }
    }
}

#[tokio::test]
async fn bytea_is_its_bytes_whether_prepared_or_not() {
    let fixture = fixture(1).await;
    let step = statement("select '\\x00ff10'::bytea, 'x', null::bytea, 7");
    for _prepared in [false, true] {
        let answers = fixture.sessions.run(scope(Access::ReadOnly), vec![step.clone()]).await.unwrap();
        let row = &answers[0][0];
        assert_eq!(row.bytes(0).unwrap().as_ref(), [0, 255, 16]);
        assert_eq!((row.text(1), row.bytes(2), row.number(3)), (Some("x"), None, Some(7)));
    }
}

#[tokio::test]
async fn rows_and_parameters_may_be_large() {
    let fixture = fixture(1).await;
    let length = 20_000_000;
    let step =
        Sql::text("select repeat(").then(Sql::param("x".repeat(length))).then(Sql::text(", 2), 'end'"));
    for _prepared in [false, true] {
        let answers = fixture.sessions.run(scope(Access::ReadOnly), vec![step.clone().into()]).await.unwrap();
        let row = &answers[0][0];
        assert_eq!(row.bytes(0).unwrap().len(), 2 * length);
        assert_eq!(row.text(1), Some("end"));
    }
    let many = statement("select n, repeat('y', n % 300) from generate_series(1, 50000) n");
    let answers = fixture.sessions.run(scope(Access::ReadOnly), vec![many]).await.unwrap();
    assert_eq!(answers[0].len(), 50_000);
    assert!(
        answers[0]
            .iter()
            .zip(1..)
            .all(|(row, n)| row.number(0) == Some(n) && row.text(1).unwrap().len() as i64 == n % 300)
    );
}

#[tokio::test]
async fn statements_are_bounded_and_closed() {
    let database = TestDatabase::create().await;
    let config = PoolConfig { statement_cache: 5, ..PoolConfig::new("test", 1) };
    let sessions = Sessions::new(Database::new(database.config()), config, TaskTracker::new());
    for round in 0..40 {
        let step = Sql::text("select ").then(Sql::literal(&(round % 20).to_string()));
        let answers = sessions.run(scope(Access::ReadOnly), vec![step.into()]).await.unwrap();
        assert_eq!(answers[0][0].number(0), Some(round % 20));
        // One that fails when it runs was parsed all the same.
        let fails =
            Sql::text("select 1 / (").then(Sql::literal(&round.to_string())).then(Sql::text("::int * 0)"));
        assert_eq!(code(sessions.run(scope(Access::ReadOnly), vec![fails.into()]).await), "22012");
    }
    // Beside those that reset the session.
    let count = statement("select count(*) from pg_prepared_statements where name !~ '^reset_'");
    let answers = sessions.run(scope(Access::ReadOnly), vec![count]).await.unwrap();
    let count = answers[0][0].number(0).unwrap();
    assert!((2..=6).contains(&count), "{count} statements");
}

#[tokio::test]
async fn without_a_statement_cache_nothing_is_prepared() {
    let database = TestDatabase::create().await;
    let config = PoolConfig { statement_cache: 0, ..PoolConfig::new("test", 1) };
    let sessions = Sessions::new(Database::new(database.config()), config, TaskTracker::new());
    // As pgbouncer does between two transactions of a pool in transaction mode.
    let forget = statement("deallocate all");
    for round in 0..3 {
        let step = Sql::text("select ")
            .then(Sql::param(round.to_string()))
            .then(Sql::text("::int8, '\\x00'::bytea"));
        let answers = sessions.run(scope(Access::ReadOnly), vec![step.into(), forget.clone()]).await.unwrap();
        assert_eq!(answers[0][0].number(0), Some(round));
        assert_eq!(answers[0][0].bytes(1).unwrap(), &b"\0"[..]);
    }
    let count = statement("select count(*) from pg_prepared_statements where name <> ''");
    let answers = sessions.run(scope(Access::ReadOnly), vec![count]).await.unwrap();
    assert_eq!(answers[0][0].number(0), Some(0));
}

#[tokio::test]
async fn all_connections_may_die_at_once() {
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
async fn a_checked_write_whose_deadline_passed_is_undone_though_it_came_to_its_end() {
    let fixture = fixture(1).await;
    // The cancel finds a function that takes no notice of it.
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
async fn what_cannot_be_sent_is_an_error_of_its_own_and_the_pool_goes_on() {
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
async fn a_function_that_talks_is_not_listened_to() {
    let fixture = fixture(1).await;
    fixture
        .database
        .sql(
            "create function talk() returns text language plpgsql as $$ begin
               raise notice '%', repeat('x', 1000000); return current_setting('client_min_messages');
             end $$",
        )
        .await;
    let answers =
        fixture.sessions.run(scope(Access::ReadOnly), vec![statement("select talk()")]).await.unwrap();
    assert_eq!(answers[0][0].text(0), Some("error"));
}
