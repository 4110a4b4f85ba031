//! Failures: streams that end, policies that fail, definitions that change.

use std::time::Duration;

use basalt_pg::database::Database;
use basalt_realtime::changes::SubscribeError;
use basalt_testkit::TestDatabase;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{Server, filtered, prepare, table, until};

const TABLES: &str = "
    create table notes (id int primary key, owner text);
    alter table notes enable row level security;
    create policy own on notes for select using (owner = current_setting('request.jwt.claims', true)::jsonb ->> 'sub');
    grant select on notes to authenticated;
    create table open (id int primary key, title text);
    grant select on open to anon, authenticated;
    alter publication supabase_realtime add table notes, open;";

const END_STREAM: &str = "
    select pg_terminate_backend(active_pid) from pg_replication_slots
    where database = current_database() and active_pid is not null";

#[tokio::test]
async fn ended_stream_reports_a_gap_and_restarts() {
    let server = Server::start_with(TABLES).await;
    let before = server.listen("me", vec![table("notes")]).await;
    server
        .sql("insert into notes values (1, 'me'); select realtime.send('{\"n\": 1}', 'e', 'first', false)")
        .await;
    let _heard = before.until(1).await;
    until("the message", || server.messages.all().len() == 1).await;
    server.sql(END_STREAM).await;
    server
        .sql("insert into notes values (2, 'me'); select realtime.send('{\"n\": 2}', 'e', 'missed', false)")
        .await;
    until("the gap", || before.gaps() == 1).await;
    let after = server.listen("me", vec![table("notes")]).await;
    server.sql("insert into notes values (3, 'me')").await;
    assert_eq!(after.until(1).await[0]["record"]["id"], 3);
    until("the message that was missed", || server.messages.all().len() == 2).await;
    assert_eq!(server.messages.all()[1].0, "missed");
    assert_eq!((before.heard().len(), before.gaps(), after.gaps()), (1, 1, 0));
    // The slot ended with its stream.
    let slots = "select count(*) from pg_replication_slots where database = current_database()";
    assert_eq!(server.database.value(slots).await, "1");
}

#[tokio::test]
async fn failing_policy_affects_only_its_own_subscribers() {
    let server = Server::start_with(TABLES).await;
    server
        .sql(
            "create policy strict on notes as restrictive for select using (
               case current_setting('request.jwt.claims', true)::jsonb ->> 'sub' when 'bad' then 1 / (id - id) = 1 else true end)",
        )
        .await;
    let mut good = Vec::new();
    for number in 0..20 {
        good.push(server.listen(&format!("u{number}"), vec![table("notes")]).await);
    }
    let bad = server.listen("bad", vec![table("notes"), table("open")]).await;
    server.sql("insert into notes select n, 'u' || n from generate_series(0, 19) n; insert into notes values (20, 'bad')").await;
    for listener in &good {
        assert_eq!(listener.until(1).await.len(), 1);
        assert!(listener.failures().is_empty());
    }
    until("the failure", || !bad.failures().is_empty()).await;
    // The error text may describe a row the subscriber may not see.
    let text = "Changes of public.notes could not be evaluated: a policy failed or took too long";
    assert_eq!(bad.failures(), [text]);
    // Changes of other tables are still delivered.
    server.sql("insert into open values (1, 'a')").await;
    assert_eq!(bad.until(1).await[0]["table"], "open");
    server.sql("insert into notes values (21, 'u1'); drop policy strict on notes; insert into notes values (22, 'bad')").await;
    assert_eq!(good[1].until(2).await[1]["record"]["id"], 21);
    assert_eq!(bad.until(2).await[1]["record"]["id"], 22);
}

#[tokio::test]
async fn slow_policy_delays_its_own_subscribers_only() {
    let server = Server::start_with(TABLES).await;
    server
        .sql(
            "create function nap() returns boolean language sql as 'select pg_sleep(10) is not null';
             create policy slow on notes as restrictive for select using (
               case current_setting('request.jwt.claims', true)::jsonb ->> 'sub' when 'slow' then nap() else true end)",
        )
        .await;
    let quick = server.listen("quick", vec![table("notes")]).await;
    let slow = server.listen("slow", vec![table("notes")]).await;
    let other = server.listen("slow", vec![table("open")]).await;
    server.sql("insert into notes values (1, 'quick'), (2, 'slow')").await;
    server.sql("insert into open values (1, 'a')").await;
    let _heard = (other.until(1).await, quick.until(1).await);
    assert!(slow.failures().is_empty(), "the others get their changes before the slow policy times out");
    until("the failure", || !slow.failures().is_empty()).await;
    // Five changes that waited for the slow policy's limit of 2 s would take 10 s.
    let began = Instant::now();
    for id in 3..8 {
        server.sql(&format!("insert into notes values ({id}, 'quick')")).await;
        let _heard = quick.until(id - 1).await;
    }
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

#[tokio::test]
async fn changed_definitions_apply_to_the_next_change() {
    let server = Server::start_with(TABLES).await;
    let listener = server.listen("me", vec![table("open")]).await;
    server.sql("insert into open values (1, 'a')").await;
    let _heard = listener.until(1).await;
    // No policy allows reading it; a DELETE is delivered nevertheless.
    server
        .sql("alter table open enable row level security; insert into open values (2, 'b'); delete from open where id = 1")
        .await;
    assert_eq!(listener.until(2).await[1]["type"], "DELETE");
    server.sql("create policy all_rows on open for select using (true); revoke select on open from authenticated; grant select (id) on open to authenticated").await;
    server.sql("insert into open values (3, 'c')").await;
    assert_eq!(listener.until(3).await[2]["record"], json!({"id": 3}));
    server.sql("grant select on open to authenticated; alter table open add column more int default 7; insert into open values (4, 'd')").await;
    assert_eq!(listener.until(4).await[3]["record"], json!({"id": 4, "title": "d", "more": 7}));
}

#[tokio::test]
async fn recreated_table_is_watched_again() {
    let server = Server::start_with(TABLES).await;
    let watched = server.listen("", vec![table("open")]).await;
    let other = server.listen("me", vec![table("notes")]).await;
    server.sql("insert into open values (1, 'a'); drop table open; insert into notes values (1, 'me')").await;
    let _heard = other.until(1).await;
    server.sql("create table open (id int primary key, other text); grant select on open to anon; alter publication supabase_realtime add table open").await;
    server.sql("insert into open values (2, 'b')").await;
    until("the new table's change", || {
        watched.heard().iter().any(|change| change["record"] == json!({"id": 2, "other": "b"}))
    })
    .await;
    assert_eq!((watched.gaps(), other.gaps()), (0, 0));
}

#[tokio::test]
async fn changed_column_type_forces_a_resubscription() {
    let server = Server::start_with(TABLES).await;
    let outdated = server.listen("", vec![filtered("open", "title=eq.7")]).await;
    let other = server.listen("", vec![table("open")]).await;
    server.sql("alter table open alter column title type int using 7; insert into open values (1, 7)").await;
    let _heard = other.until(1).await;
    until("the gap", || outdated.gaps() == 1).await;
    assert_eq!(other.gaps(), 0);
}

#[tokio::test]
async fn dropped_publication_is_recreated() {
    let server = Server::start_with(TABLES).await;
    let listener = server.listen("", vec![table("open")]).await;
    server.sql("drop publication supabase_realtime; insert into open values (1, 'a')").await;
    // PostgreSQL 18 skips a missing publication; earlier versions end the stream, and the next one recreates
    // it.
    server.sql("do $$ begin for n in 1..200 loop
        exit when exists (select from pg_publication where pubname = 'supabase_realtime'); perform pg_sleep(0.05); end loop;
        if not exists (select from pg_publication where pubname = 'supabase_realtime') then create publication supabase_realtime; end if; end $$;
        alter publication supabase_realtime add table open").await;
    let again = server.listen("", vec![table("open")]).await;
    server.sql("insert into open values (2, 'b')").await;
    until("the change", || {
        again.heard().iter().any(|change| change["record"]["id"] == 2) || again.gaps() > 0
    })
    .await;
    drop(listener);
}

#[tokio::test]
async fn joins_report_a_missing_replication_privilege() {
    let database = TestDatabase::create().await;
    prepare(&Database::new(database.config())).await;
    let _made = database
        .admin_sql("do $$ begin if not exists (select from pg_roles where rolname = 'plain_login') then create role plain_login login password 'testkit'; end if; end $$")
        .await;
    let admin = Database::new(database.config()).with_login("plain_login", "testkit");
    let server = Server::on(database, admin);
    let refused = server.try_listen("", vec![table("open")]).await;
    let Err(SubscribeError::Unavailable(text)) = refused else { panic!("it was accepted") };
    assert!(text.contains("alter role … replication"), "{text}");
}

#[tokio::test]
async fn burst_arrives_complete_and_in_order() {
    let server = Server::start_with(TABLES).await;
    let listener = server.listen("", vec![table("open")]).await;
    server.sql("insert into open select n, 'x' from generate_series(1, 20000) n").await;
    let heard = listener.until(20_000).await;
    let ids: Vec<i64> = heard.iter().map(|change| change["record"]["id"].as_i64().unwrap()).collect();
    assert!(ids.is_sorted() && ids.len() == 20_000);
}
