//! Automatic retries of transactions (docs/decisions/0017).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use basalt_pg::session::{Access, End, SessionError, Statement};
use basalt_pg::sql::{Param, Sql};
use tokio::time::Instant;

use crate::pg::{Fixture, code, fixture, insert, int, scope, statement};

#[tokio::test]
async fn stale_statement_is_retried_once() {
    let fixture = fixture(1).await;
    let step = "insert into items (id) select coalesce(max(id), 0) + 1 from items returning items.*";
    fixture.sessions.run(scope(Access::ReadWrite), vec![statement(step)]).await.unwrap();
    fixture.database.sql("alter table items add column added int").await;
    let results = fixture.sessions.run(scope(Access::ReadWrite), vec![statement(step)]).await.unwrap();
    assert_eq!(results[0][0].len(), 3);
    assert_eq!(fixture.database.count("items").await, 2);
}

#[tokio::test]
async fn deallocated_statement_is_prepared_again() {
    let fixture = fixture(1).await;
    fixture.sessions.run(scope(Access::ReadWrite), vec![insert(1)]).await.unwrap();
    fixture.sessions.run(scope(Access::ReadWrite), vec![statement("deallocate all")]).await.unwrap();
    fixture.sessions.run(scope(Access::ReadWrite), vec![insert(2)]).await.unwrap();
    assert_eq!(fixture.database.count("items").await, 2);
}

/// Fails a given number of times, then succeeds. A sequence counts the attempts, unaffected by rollbacks.
const FLAKY: &str = "create sequence tries;
    create function flaky(failures int, code text) returns int language plpgsql as $$
      begin
        if nextval('tries') <= failures then
          raise exception 'cache lookup failed for function 16714' using errcode = code;
        end if;
        return 7;
      end $$;
    create function flaky_trigger() returns trigger language plpgsql as $$
      begin perform flaky(1, tg_argv[0]); return null; end $$;";

fn add_flaky(failures: i32, code: &'static str) -> Vec<Statement> {
    let step = Sql::text("insert into items (id) select coalesce(max(id), 0) + flaky(")
        .then(Sql::param(Param::from_display(failures)))
        .then(Sql::text(", "))
        .then(Sql::param(code.to_owned()))
        .then(Sql::text(") from items returning id"));
    vec![step.into()]
}

/// The number of attempts since the last call.
async fn tries(fixture: &Fixture) -> i64 {
    let step = statement("select nextval('tries') - 1, setval('tries', 1, false)");
    int(&fixture.sessions.run(scope(Access::ReadWrite), vec![step]).await.unwrap())
}

#[tokio::test]
async fn catalog_change_is_retried_and_applied_once() {
    let fixture = fixture(2).await;
    fixture.database.sql(FLAKY).await;
    fixture.sessions.run(scope(Access::ReadWrite), add_flaky(3, "XX000")).await.unwrap();
    assert_eq!((fixture.database.count("items").await, tries(&fixture).await), (1, 4));
    // Also with a check before the end, which has not run yet.
    let checked = fixture.sessions.run_checked(scope(Access::ReadWrite), add_flaky(3, "XX000"), |results| {
        if results[0].len() == 1 { End::Rollback } else { End::Commit }
    });
    checked.await.unwrap();
    assert_eq!((fixture.database.count("items").await, tries(&fixture).await), (1, 4));
    // Retries are limited, and other errors are returned at once.
    for (error, count) in [("XX000", 7), ("26000", 5), ("XX001", 1), ("P0001", 1)] {
        let result = fixture.sessions.run(scope(Access::ReadWrite), add_flaky(1000, error)).await;
        assert_eq!((code(result).as_str(), tries(&fixture).await), (error, count));
    }
}

#[tokio::test]
async fn retries_keep_the_deadline() {
    let fixture = fixture(1).await;
    fixture.database.sql(FLAKY).await;
    let slow =
        Sql::text("select flaky(1000, 'XX000') from (select pg_sleep(1.5)) as slept where slept is not null");
    let mut short = scope(Access::ReadWrite);
    short.deadline = Instant::now() + Duration::from_secs(2);
    let begun = Instant::now();
    let result = fixture.sessions.run(short, vec![slow.into()]).await;
    assert!(matches!(result, Err(SessionError::Deadline)), "{result:?}");
    // All attempts would take 7.5 s.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn failure_after_the_check_is_not_retried_without_it() {
    let fixture = fixture(1).await;
    let trigger = |code: &str| {
        format!(
            "create constraint trigger flaky after insert on items deferrable initially deferred
             for each row execute function flaky_trigger('{code}')"
        )
    };
    fixture.database.sql(FLAKY).await;
    for code_raised in ["XX000", "26000"] {
        fixture.database.sql(&trigger(code_raised)).await;
        let checks = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&checks);
        let step = vec![insert(1)];
        let result = fixture.sessions.run_checked(scope(Access::ReadWrite), step, move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            End::Commit
        });
        assert_eq!(code(result.await), code_raised);
        assert_eq!((checks.load(Ordering::Relaxed), tries(&fixture).await), (1, 1));
        assert_eq!(fixture.database.count("items").await, 0);
        fixture.database.sql("drop trigger flaky on items").await;
    }
    // Without a check, a failed commit is retried like a failed statement.
    fixture.database.sql(&trigger("XX000")).await;
    fixture.sessions.run(scope(Access::ReadWrite), vec![insert(1)]).await.unwrap();
    assert_eq!((fixture.database.count("items").await, tries(&fixture).await), (1, 2));
}
