//! The link to an external PostgreSQL: cut, stalled, slow, restored.

use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Link};
use serde_json::json;

use crate::load::{DATABASE_AWAY, insert, is_refusal, project};

async fn server(project: &std::path::Path) -> Basalt {
    let builder = Basalt::builder()
        .project(project)
        .through_proxy()
        .config("rest.timeout", "4")
        .config("database.pool_timeout", "2s");
    DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await
}

#[tokio::test]
async fn a_cut_link_is_a_refusal_and_heals() {
    let project = project();
    let server = server(project.path()).await;
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    server.proxy().set(Link::Cut);
    for id in 10..20 {
        let answer = insert(&server).json(&json!({ "id": id })).send().await;
        assert!(is_refusal(&answer), "{} {:?} {}", answer.status, answer.headers, answer.text());
    }
    server.proxy().set(Link::Up);
    let again = insert(&server).json(&json!({ "id": 2 }));
    server.until(Duration::from_secs(60), &again, |answer| answer.status == 201).await;
}

#[tokio::test]
async fn a_stalled_link_costs_a_deadline_and_no_more() {
    let project = project();
    let server = server(project.path()).await;
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    server.expect_log("the deadline passed before the database answered");
    server.proxy().set(Link::Stalled);
    let begun = Instant::now();
    let answer = insert(&server).json(&json!({ "id": 2 })).send().await;
    // The deadline of the request itself, which promises nothing about later.
    assert_eq!(answer.status, 504, "{}", answer.text());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    server.proxy().set(Link::Up);
    let again = insert(&server).json(&json!({ "id": 3 }));
    server.until(Duration::from_secs(60), &again, |answer| answer.status == 201).await;
}

/// Rows that make an answer of about 60 kB.
async fn fill(server: &Basalt) {
    server.sql("insert into public.entries select generate_series(1, 1000)").await;
}

/// How much of the answer of the database comes through: nothing, its beginning, a row and a half, nearly all of it.
const PARTS: [usize; 5] = [0, 3, 700, 9_000, 24_000];

#[tokio::test]
async fn an_answer_of_the_database_that_breaks_off_is_an_error_and_never_a_part() {
    let project = project();
    let server = server(project.path()).await;
    fill(&server).await;
    let list = server.get("/rest/v1/entries?order=id").apikey(server.service_key());
    let whole = server.until(Duration::from_secs(60), &list, |answer| answer.status == 200).await;
    assert_eq!(whole.json().as_array().unwrap().len(), 1000);
    for (round, part) in (1..).zip(PARTS) {
        server.proxy().set(Link::CutAfter(part));
        let answer = list.clone().send().await;
        assert!(is_refusal(&answer) && answer.json()["code"].is_string(), "{part}: {}", answer.text());
        let first = 10_000 * round;
        let rows: Vec<_> = (first..first + 700).map(|id| json!({ "id": id })).collect();
        let write = insert(&server).header("prefer", "return=representation").json(&json!(rows));
        let refused = write.clone().send().await;
        assert!(is_refusal(&refused) && refused.json()["code"].is_string(), "{part}: {}", refused.text());
        server.proxy().set(Link::Up);
        let answer = server.until(Duration::from_secs(60), &list, |answer| answer.status == 200).await;
        assert_eq!(answer.body, whole.body);
        // It is not known whether the write happened: by halves it did not.
        let stored = server.database().count(&format!("public.entries where id / 10000 = {round}")).await;
        assert!(stored == 0 || stored == 700, "{stored}");
    }
}

#[tokio::test]
async fn an_answer_of_the_database_that_comes_to_a_halt_ends_at_the_deadline() {
    let project = project();
    let server = server(project.path()).await;
    server.expect_log("the deadline passed before the database answered");
    fill(&server).await;
    let list = server.get("/rest/v1/entries?order=id").apikey(server.service_key());
    let whole = server.until(Duration::from_secs(60), &list, |answer| answer.status == 200).await;
    for part in [3, 9_000] {
        server.proxy().set(Link::StalledAfter(part));
        let begun = Instant::now();
        let answer = list.clone().send().await;
        assert_eq!(answer.status, 504, "{part}: {}", answer.text());
        assert!((3..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        server.proxy().set(Link::Up);
        let answer = server.until(Duration::from_secs(60), &list, |answer| answer.status == 200).await;
        assert_eq!(answer.body, whole.body);
    }
}

#[tokio::test]
async fn garbage_instead_of_an_answer_is_an_error_and_never_an_answer() {
    let project = project();
    let server = server(project.path()).await;
    server.expect_log("the deadline passed before the database answered");
    fill(&server).await;
    let list = server.get("/rest/v1/entries?order=id").apikey(server.service_key());
    let whole = server.until(Duration::from_secs(60), &list, |answer| answer.status == 200).await;
    // Lengths that are nothing, too much, and in between; a row, an end, an error.
    for (round, (part, byte)) in (1..).zip(PARTS.into_iter().zip([0, b'D', b'Z', b'E', 0xff])) {
        server.proxy().set(Link::GarbledAfter(part, byte));
        let answer = list.clone().send().await;
        let is_error = |answer: &basalt_testkit::Response| {
            answer.status.is_server_error() && answer.json()["code"].is_string()
        };
        assert!(is_error(&answer), "{part}, {byte}: {} {}", answer.status, answer.text());
        let first = 10_000 * round;
        let rows: Vec<_> = (first..first + 700).map(|id| json!({ "id": id })).collect();
        let write = insert(&server).header("prefer", "return=representation").json(&json!(rows));
        let refused = write.send().await;
        assert!(is_error(&refused), "{part}, {byte}: {} {}", refused.status, refused.text());
        server.proxy().set(Link::Up);
        let answer = server.until(Duration::from_secs(60), &list, |answer| answer.status == 200).await;
        assert_eq!(answer.body, whole.body);
        let stored = server.database().count(&format!("public.entries where id / 10000 = {round}")).await;
        assert!(stored == 0 || stored == 700, "{stored}");
    }
}

#[tokio::test]
async fn connections_that_lead_nowhere_are_not_waited_for_once_that_is_known() {
    let project = project();
    let builder = Basalt::builder().project(project.path()).through_proxy().config("database.pool_size", "8");
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    let reads = || {
        futures_util::future::join_all(
            (0..8).map(|_| server.get("/rest/v1/entries?limit=1").apikey(server.service_key()).send()),
        )
    };
    // A request that had just been sent goes on waiting for a while.
    server.expect_log("some tasks did not end within");
    // The pool has several connections when the database moves to another machine.
    for _ in 0..3 {
        reads().await;
    }
    server.proxy().set(Link::Moved);
    let ready = server.get("/ready");
    server.until(Duration::from_secs(60), &ready, |answer| answer.status == 503).await;
    server.until(Duration::from_secs(60), &ready, |answer| answer.status == 200).await;
    let begun = Instant::now();
    for answer in reads().await {
        answer.expect(200);
    }
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    // And not after the 125 seconds that a request may take.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_slow_link_is_slow_and_works() {
    let project = project();
    let server = server(project.path()).await;
    server.proxy().set(Link::Slow(Duration::from_millis(30)));
    for id in 0..5 {
        insert(&server).json(&json!({ "id": id })).send().await.expect(201);
    }
}
