//! Many tables, and tables that disappear.

use std::fmt::Write as _;
use std::time::Duration;

use basalt_realtime::changes::Binding;
use tokio::time::Instant;

use crate::harness::{Listener, Server, table, until};

/// Tables `t0`, `t1`, … with a row number that ascends across all of them. Every second table has policies:
/// its rows are visible to members of the row's team.
fn tables(count: u64) -> String {
    let mut sql = String::from(
        "create table members (team int, who text, primary key (team, who)); insert into members values (1, 'member');
         grant select on members to authenticated;",
    );
    for number in 0..count {
        let _written = write!(
            sql,
            "create table t{number} (n int primary key, team int); grant select on t{number} to authenticated;
             alter publication supabase_realtime add table t{number};"
        );
        if number % 2 == 1 {
            let _written = write!(
                sql,
                "alter table t{number} enable row level security;
                 create policy members on t{number} using (exists (select from members m
                   where m.team = t{number}.team and m.who = current_setting('request.jwt.claims', true)::jsonb ->> 'sub'));"
            );
        }
    }
    sql
}

fn bindings(tables: u64) -> Vec<Binding> {
    (0..tables).map(|number| Binding { id: number + 1, ..table(&format!("t{number}")) }).collect()
}

fn numbers(listener: &Listener) -> Vec<u64> {
    listener.heard().iter().map(|change| change["record"]["n"].as_u64().unwrap()).collect()
}

/// Row `n` goes to table `n % tables` and belongs to team `n % 4 / 2`: of the tables with policies, a member
/// sees every second row.
async fn check(tables: u64, rows: u64, limit: Duration) {
    let server = Server::start_with(&self::tables(tables)).await;
    let member = server.listen("member", bindings(tables)).await;
    let stranger = server.listen("stranger", bindings(tables)).await;
    let one_table = server.listen("stranger", vec![table("t0")]).await;
    let insert = format!(
        "do $$ begin
           for n in 0..{} loop
             execute format('insert into t%s values ($1, $2)', n % {tables}) using n, n % 4 / 2;
           end loop;
         end $$",
        rows - 1
    );
    let begun = Instant::now();
    server.sql(&insert).await;
    let is_open = |n: &u64| (n % tables).is_multiple_of(2);
    let everyone: Vec<u64> = (0..rows).filter(is_open).collect();
    let members: Vec<u64> = (0..rows).filter(|n| is_open(n) || n % 4 / 2 == 1).collect();
    let first: Vec<u64> = (0..rows).filter(|n| n % tables == 0).collect();
    for (listener, expected, who) in
        [(&one_table, &first, "one table"), (&stranger, &everyone, "stranger"), (&member, &members, "member")]
    {
        let deadline = begun + limit;
        while listener.arrivals().len() < expected.len() {
            assert!(Instant::now() < deadline, "{who}: {} of {}", listener.arrivals().len(), expected.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(numbers(listener) == *expected, "{who}: something is missing, out of order or hidden");
        assert_eq!(listener.gaps(), 0, "{who}");
    }
}

#[tokio::test]
async fn channel_with_a_hundred_tables_gets_changes_in_order() {
    check(100, 2_000, Duration::from_secs(60)).await;
}

#[tokio::test]
async fn large_transaction_over_ten_tables_arrives_in_order() {
    check(10, 20_000, Duration::from_secs(120)).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: takes minutes"]
async fn transaction_of_100_000_rows_arrives_in_order() {
    check(10, 100_000, Duration::from_secs(300)).await;
}

/// The channel of `slow` holds many changes of `open` while its policy on `guarded` is evaluated in the slow lane.
#[tokio::test]
async fn slow_lane_does_not_pause_other_subscribers_of_a_table() {
    let server = Server::start_with(
        "create table open (n int primary key); create table guarded (n int primary key);
         create function is_visible() returns boolean language plpgsql volatile as $$
           begin
             if current_setting('request.jwt.claims', true)::jsonb ->> 'sub' = 'slow' then perform pg_sleep(10); end if;
             return true;
           end $$;
         alter table guarded enable row level security;
         create policy visible on guarded using (is_visible());
         grant select on open, guarded to authenticated;
         alter publication supabase_realtime add table open, guarded;",
    )
    .await;
    let _slow = server.listen("slow", vec![table("open"), Binding { id: 2, ..table("guarded") }]).await;
    let other = server.listen("other", vec![table("open")]).await;
    let begun = Instant::now();
    server.sql("insert into guarded values (0); insert into open select generate_series(1, 3000)").await;
    let _heard = other.until(3000).await;
    // A batch has four seconds in the slow lane.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(numbers(&other), (1..=3000).collect::<Vec<u64>>());
}

/// Dropping a table that a policy reads through a function makes the policy fail; dropping one that it names
/// drops the policy. Neither shows a row, and other tables are not affected.
#[tokio::test]
async fn policies_that_lose_their_table_show_nothing() {
    let server = Server::start_with(
        "create table gate (who text); insert into gate values ('me');
         create function passes() returns boolean language plpgsql stable security definer as $$
           begin return exists (select from gate where who = current_setting('request.jwt.claims', true)::jsonb ->> 'sub'); end $$;
         create table hidden (n int primary key); create table named (n int primary key); create table open (n int primary key);
         alter table hidden enable row level security; alter table named enable row level security;
         create policy passes on hidden using (passes());
         create policy named on named using (exists (select from gate
           where who = current_setting('request.jwt.claims', true)::jsonb ->> 'sub'));
         grant select on hidden, named, open, gate to authenticated;
         alter publication supabase_realtime add table hidden, named, open;",
    )
    .await;
    let mine = server.listen("me", vec![table("hidden"), Binding { id: 2, ..table("named") }]).await;
    let open = server.listen("me", vec![table("open")]).await;
    server.sql("insert into hidden values (1); insert into named values (2)").await;
    let _heard = mine.until(2).await;
    server.sql("drop table gate cascade; insert into hidden values (3); insert into named values (4); insert into open values (5)").await;
    let _heard = open.until(1).await;
    until("the failure", || !mine.failures().is_empty()).await;
    server.sql(
        "create table gate (who text); insert into gate values ('me'); grant select on gate to authenticated;
         create policy named on named using (exists (select from gate
           where who = current_setting('request.jwt.claims', true)::jsonb ->> 'sub'));
         insert into hidden values (6); insert into named values (7)",
    )
    .await;
    let _heard = mine.until(4).await;
    assert_eq!(numbers(&mine), [1, 2, 6, 7]);
    assert_eq!((mine.gaps(), open.gaps()), (0, 0));
}
