//! SIGKILL of PostgreSQL and of the server under a write load.

use std::time::Duration;

use basalt_testkit::Basalt;

use crate::load::{DATABASE_AWAY, Load, insert, is_refusal, project, stored};

async fn server(project: &std::path::Path) -> Basalt {
    let builder = Basalt::builder().embedded().project(project).expect_log("PostgreSQL ended; restarting it");
    DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await
}

#[tokio::test]
async fn killed_postgres_causes_503_until_it_is_back() {
    let project = project();
    let server = server(project.path()).await;
    let pid = server.pid();
    let load = Load::start(&server, 16, 0);
    for _ in 0..3 {
        load.until_acknowledged(100).await;
        server.kill_postgres();
        server.wait_for_log("PostgreSQL ended; restarting it").await;
        load.until_acknowledged(100).await;
    }
    let outcome = load.finish().await;
    assert!(outcome.refused > 0, "no request met an outage");
    assert_eq!(outcome.unanswered, 0, "a running server responds to every request");
    assert_eq!(server.pid(), pid);
    // Backends outlive their postmaster for a moment, so the last 100 writes may precede the outage.
    let read = server.get("/rest/v1/entries?select=id&limit=1").apikey(server.service_key());
    server.until(Duration::from_secs(60), &read, |response| response.status == 200).await;
    let stored = stored(&server).await;
    let lost: Vec<_> = outcome.acknowledged.difference(&stored).collect();
    assert!(lost.is_empty(), "acknowledged and not stored: {lost:?}");
}

#[tokio::test]
async fn killed_backend_causes_503() {
    let project = project();
    let server = server(project.path()).await;
    server.expect_log("was terminated by signal");
    let load = Load::start(&server, 8, 0);
    load.until_acknowledged(50).await;
    // After the kill of one backend, PostgreSQL terminates all others and recovers; the postmaster stays.
    let postmaster = server.postgres_pid().unwrap().as_raw_nonzero().get();
    let children = format!("/proc/{postmaster}/task/{postmaster}/children");
    let backend = std::fs::read_to_string(children).unwrap().split_whitespace().find_map(|pid| {
        let title = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        title.contains("authenticator").then(|| pid.parse::<i32>().ok())?
    });
    let backend = rustix::process::Pid::from_raw(backend.unwrap()).unwrap();
    rustix::process::kill_process(backend, rustix::process::Signal::KILL).unwrap();
    load.until_acknowledged(50).await;
    let outcome = load.finish().await;
    let stored = stored(&server).await;
    assert!(outcome.acknowledged.is_subset(&stored));
    assert_eq!(outcome.unanswered, 0);
}

/// SIGKILL of the server, of PostgreSQL, and of both, in turn: acknowledged writes are stored.
///
/// `BASALT_TEST_KILL_ROUNDS=50` runs the long version.
#[tokio::test]
async fn acknowledged_writes_survive_kills() {
    let rounds: usize = std::env::var("BASALT_TEST_KILL_ROUNDS").map_or(3, |text| text.parse().unwrap());
    let project = project();
    let mut server = server(project.path()).await;
    let mut acknowledged = std::collections::BTreeSet::new();
    for round in 0..rounds {
        let first = i64::try_from(round).unwrap() * 1_000_000;
        let load = Load::start(&server, 8, first);
        load.until_acknowledged(50 + round % 7 * 20).await;
        match round % 3 {
            0 => {
                server.kill();
                server.start_again().await;
            }
            1 => server.kill_postgres(),
            _ => {
                server.kill_postgres();
                server.kill();
                server.start_again().await;
            }
        }
        load.until_acknowledged(50).await;
        let outcome = load.finish().await;
        acknowledged.extend(outcome.acknowledged);
        let stored = stored(&server).await;
        let lost: Vec<_> = acknowledged.difference(&stored).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and not stored: {lost:?}");
    }
    println!("{rounds} rounds, {} writes acknowledged, none lost", acknowledged.len());
}

/// SIGKILL of the server while it applies a project in Supabase's layout: the next start continues, and each statement has run once.
///
/// `BASALT_TEST_KILL_ROUNDS=40` runs the long version.
#[tokio::test]
async fn migrations_continue_after_kills_of_the_server() {
    let rounds: usize = std::env::var("BASALT_TEST_KILL_ROUNDS").map_or(3, |text| text.parse().unwrap());
    let files = 12 * rounds;
    let project = tempfile::tempdir().unwrap();
    let dir = project.path().join("supabase/migrations");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("000_log.sql"), "create table public.log (name text);").unwrap();
    let mut server = server(project.path()).await;
    server.kill();
    for file in 1..=files {
        // A part that is committed by itself, and a statement that runs outside a transaction.
        let middle = match file % 3 {
            0 => "",
            1 => "commit;",
            _ => "create index concurrently on public.log (name);",
        };
        let sql = format!(
            "insert into public.log values ('{file}a'); {middle} create table public.t{file} (id int);
             insert into public.log values ('{file}b');"
        );
        std::fs::write(dir.join(format!("{file:04}_x.sql")), sql).unwrap();
    }
    let mut kills = 0;
    for round in 0..rounds {
        server.begin_start();
        if !applies_migrations(&server).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(u64::try_from(round * 37 % 60).unwrap())).await;
        server.kill();
        kills += 1;
    }
    assert!(kills * 2 > rounds, "only {kills} of {rounds} starts had something to apply");
    if server.is_running() {
        server.stop().await;
    }
    server.start_again().await;
    let read = server.get("/rest/v1/log?select=name").apikey(server.service_key()).send().await;
    let rows = read.json();
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2 * files);
    let distinct: std::collections::BTreeSet<&str> = names.into_iter().collect();
    assert_eq!(distinct.len(), 2 * files, "a statement ran twice");
}

/// Waits until the server applies a migration; `false` if it becomes ready without one.
async fn applies_migrations(server: &Basalt) -> bool {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let log = server.log();
        if log.iter().any(|line| line.message.starts_with("applying supabase/migrations")) {
            return true;
        }
        if log.iter().any(|line| line.message == "ready") {
            return false;
        }
        assert!(tokio::time::Instant::now() < deadline, "the server neither applies migrations nor is ready");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn request_during_an_outage_gets_retry_after() {
    let project = project();
    let server = server(project.path()).await;
    server.kill_postgres();
    server.wait_for_log("PostgreSQL ended; restarting it").await;
    let response = insert(&server).json(&serde_json::json!({ "id": 1 })).send().await;
    assert!(response.status == 201 || is_refusal(&response), "{} {}", response.status, response.text());
    let ready = server.get("/ready");
    server.until(Duration::from_secs(60), &ready, |response| response.status == 200).await;
    insert(&server).json(&serde_json::json!({ "id": 2 })).send().await.expect(201);
}
