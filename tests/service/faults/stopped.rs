//! Frozen processes (SIGSTOP, as from a debugger or a paused machine), and a shutdown under load.

use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::load::{DATABASE_AWAY, Load, insert, project, stored};
use crate::overload::start;

const SOON: Duration = Duration::from_secs(60);

/// A process stopped by SIGSTOP until this is dropped.
struct Paused(Pid);

impl Paused {
    fn new(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        // The process may have been killed meanwhile.
        let _gone = kill_process(self.0, Signal::CONT);
    }
}

async fn backend_of(server: &Basalt, login: &str) -> Pid {
    let statement = format!(
        "select pid from pg_stat_activity where usename = '{login}' and datname = current_database()
         order by state_change desc limit 1"
    );
    Pid::from_raw(server.database().value(&statement).await.parse().unwrap()).unwrap()
}

#[tokio::test]
async fn frozen_backend_fails_only_its_request() {
    let server = start(&[("database.pool_size", "1"), ("rest.timeout", "3")]).await;
    for text in DATABASE_AWAY.into_iter().chain(["the deadline passed before the database answered"]) {
        server.expect_log(text);
    }
    let read = server.get("/rest/v1/entries?select=id&order=id").apikey(server.service_key());
    for (id, is_read) in [(1, true), (2, false)] {
        read.clone().send().await.expect(200);
        let backend = backend_of(&server, "authenticator").await;
        let still = Paused::new(backend);
        let request = if is_read { read.clone() } else { insert(&server).json(&json!({ "id": id })) };
        let begun = Instant::now();
        let response = request.send().await;
        assert_eq!(response.status, 504, "{}", response.text());
        assert!((2..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        // The pool opens another backend, although its size is one.
        server.until(SOON, &read, |response| response.status == 200).await;
        insert(&server).json(&json!({ "id": id + 10 })).send().await.expect(201);
        drop(still);
        // Until it has ended, it could be mistaken for the backend in use.
        let is_there =
            format!("select count(*) from pg_stat_activity where pid = {}", backend.as_raw_nonzero());
        while server.database().value(&is_there).await != "0" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // The server is not ready until the next attempt, which follows soon.
    let still = Paused::new(backend_of(&server, "authenticator").await);
    let ready = server.get("/ready");
    server.until(SOON, &ready, |response| response.status == 503).await;
    server.until(SOON, &ready, |response| response.status == 200).await;
    drop(still);
    let rows = read.send().await.expect(200).json();
    let ids: Vec<i64> = rows.as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect();
    // The abandoned write may have been committed.
    assert!(matches!(ids.as_slice(), [2, 11, 12] | [11, 12]), "{ids:?}");
}

#[tokio::test]
async fn frozen_postmaster_blocks_only_new_connections() {
    let project = project();
    let builder = Basalt::builder().embedded().project(project.path()).config("database.pool_timeout", "1s");
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    read.clone().send().await.expect(200);
    let still = Paused::new(server.postgres_pid().unwrap());
    for id in 0..20 {
        read.clone().send().await.expect(200);
        insert(&server).json(&json!({ "id": id })).send().await.expect(201);
    }
    server.get("/ready").send().await.expect(200);
    let crowd = futures_util::future::join_all((0..40).map(|_| read.clone().send()));
    let begun = Instant::now();
    for response in crowd.await {
        assert!(
            matches!(response.status.as_u16(), 200 | 503 | 504),
            "{} {}",
            response.status,
            response.text()
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    drop(still);
    for response in futures_util::future::join_all((0..40).map(|_| read.clone().send())).await {
        response.expect(200);
    }
    assert_eq!(stored(&server).await, (0..20).collect());
}

#[tokio::test]
async fn shutdown_finishes_accepted_requests() {
    let project = project();
    let mut server = Basalt::builder().embedded().project(project.path()).start().await;
    let (mut acknowledged, mut unanswered) = (std::collections::BTreeSet::new(), 0);
    for round in 0..3 {
        let load = Load::start(&server, 16, round * 1_000_000);
        load.until_acknowledged(200).await;
        let begun = Instant::now();
        server.stop().await;
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        server.start_again().await;
        load.until_acknowledged(20).await;
        let outcome = load.finish().await;
        acknowledged.extend(outcome.acknowledged);
        unanswered += outcome.unanswered;
        // Stored and acknowledged writes are identical.
        assert_eq!(stored(&server).await, acknowledged);
    }
    println!("{} writes, {unanswered} without a response", acknowledged.len());
}
