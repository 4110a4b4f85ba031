//! The network link to an external PostgreSQL: cut, stalled, slow, restored.

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
async fn cut_link_causes_503_until_restored() {
    let project = project();
    let server = server(project.path()).await;
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    server.proxy().set(Link::Cut);
    for id in 10..20 {
        let response = insert(&server).json(&json!({ "id": id })).send().await;
        assert!(is_refusal(&response), "{} {:?} {}", response.status, response.headers, response.text());
    }
    server.proxy().set(Link::Up);
    let again = insert(&server).json(&json!({ "id": 2 }));
    server.until(Duration::from_secs(60), &again, |response| response.status == 201).await;
}

#[tokio::test]
async fn stalled_link_causes_504_at_the_deadline() {
    let project = project();
    let server = server(project.path()).await;
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    server.expect_log("the deadline passed before the database answered");
    server.proxy().set(Link::Stalled);
    let begun = Instant::now();
    let response = insert(&server).json(&json!({ "id": 2 })).send().await;
    // The request's own deadline, without Retry-After.
    assert_eq!(response.status, 504, "{}", response.text());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    server.proxy().set(Link::Up);
    let again = insert(&server).json(&json!({ "id": 3 }));
    server.until(Duration::from_secs(60), &again, |response| response.status == 201).await;
}

/// Inserts rows for a response of about 60 kB.
async fn fill(server: &Basalt) {
    server.sql("insert into public.entries select generate_series(1, 1000)").await;
}

/// Bytes of the database's response that pass: none, a few, some rows, nearly all.
const PARTS: [usize; 5] = [0, 3, 700, 9_000, 24_000];

#[tokio::test]
async fn truncated_database_response_is_an_error() {
    let project = project();
    let server = server(project.path()).await;
    fill(&server).await;
    let list = server.get("/rest/v1/entries?order=id").apikey(server.service_key());
    let whole = server.until(Duration::from_secs(60), &list, |response| response.status == 200).await;
    assert_eq!(whole.json().as_array().unwrap().len(), 1000);
    for (round, part) in (1..).zip(PARTS) {
        server.proxy().set(Link::CutAfter(part));
        let response = list.clone().send().await;
        assert!(is_refusal(&response) && response.json()["code"].is_string(), "{part}: {}", response.text());
        let first = 10_000 * round;
        let rows: Vec<_> = (first..first + 700).map(|id| json!({ "id": id })).collect();
        let write = insert(&server).header("prefer", "return=representation").json(&json!(rows));
        let refused = write.clone().send().await;
        assert!(is_refusal(&refused) && refused.json()["code"].is_string(), "{part}: {}", refused.text());
        server.proxy().set(Link::Up);
        let response = server.until(Duration::from_secs(60), &list, |response| response.status == 200).await;
        assert_eq!(response.body, whole.body);
        // The write may have been committed, but never partially.
        let stored = server.database().count(&format!("public.entries where id / 10000 = {round}")).await;
        assert!(stored == 0 || stored == 700, "{stored}");
    }
}

#[tokio::test]
async fn stalled_database_response_ends_at_the_deadline() {
    let project = project();
    let server = server(project.path()).await;
    server.expect_log("the deadline passed before the database answered");
    fill(&server).await;
    let list = server.get("/rest/v1/entries?order=id").apikey(server.service_key());
    let whole = server.until(Duration::from_secs(60), &list, |response| response.status == 200).await;
    for part in [3, 9_000] {
        server.proxy().set(Link::StalledAfter(part));
        let begun = Instant::now();
        let response = list.clone().send().await;
        assert_eq!(response.status, 504, "{part}: {}", response.text());
        assert!((3..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        server.proxy().set(Link::Up);
        let response = server.until(Duration::from_secs(60), &list, |response| response.status == 200).await;
        assert_eq!(response.body, whole.body);
    }
}

#[tokio::test]
async fn garbled_database_response_is_an_error() {
    let project = project();
    let server = server(project.path()).await;
    server.expect_log("the deadline passed before the database answered");
    fill(&server).await;
    let list = server.get("/rest/v1/entries?order=id").apikey(server.service_key());
    let whole = server.until(Duration::from_secs(60), &list, |response| response.status == 200).await;
    // Bytes that look like lengths (zero, huge, in between) and message types (row, ready, error).
    for (round, (part, byte)) in (1..).zip(PARTS.into_iter().zip([0, b'D', b'Z', b'E', 0xff])) {
        server.proxy().set(Link::GarbledAfter(part, byte));
        let response = list.clone().send().await;
        let is_error = |response: &basalt_testkit::Response| {
            response.status.is_server_error() && response.json()["code"].is_string()
        };
        assert!(is_error(&response), "{part}, {byte}: {} {}", response.status, response.text());
        let first = 10_000 * round;
        let rows: Vec<_> = (first..first + 700).map(|id| json!({ "id": id })).collect();
        let write = insert(&server).header("prefer", "return=representation").json(&json!(rows));
        let refused = write.send().await;
        assert!(is_error(&refused), "{part}, {byte}: {} {}", refused.status, refused.text());
        server.proxy().set(Link::Up);
        let response = server.until(Duration::from_secs(60), &list, |response| response.status == 200).await;
        assert_eq!(response.body, whole.body);
        let stored = server.database().count(&format!("public.entries where id / 10000 = {round}")).await;
        assert!(stored == 0 || stored == 700, "{stored}");
    }
}

#[tokio::test]
async fn dead_connections_are_replaced_together() {
    let project = project();
    let builder = Basalt::builder().project(project.path()).through_proxy().config("database.pool_size", "8");
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    let reads = || {
        futures_util::future::join_all(
            (0..8).map(|_| server.get("/rest/v1/entries?limit=1").apikey(server.service_key()).send()),
        )
    };
    // A request already sent still waits for its deadline.
    server.expect_log("some tasks did not end within");
    // Open several connections, then move the database to another host.
    for _ in 0..3 {
        reads().await;
    }
    server.proxy().set(Link::Moved);
    let ready = server.get("/ready");
    server.until(Duration::from_secs(60), &ready, |response| response.status == 503).await;
    server.until(Duration::from_secs(60), &ready, |response| response.status == 200).await;
    let begun = Instant::now();
    for response in reads().await {
        response.expect(200);
    }
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    // Well before the request deadline of 125 s.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn slow_link_works() {
    let project = project();
    let server = server(project.path()).await;
    server.proxy().set(Link::Slow(Duration::from_millis(30)));
    for id in 0..5 {
        insert(&server).json(&json!({ "id": id })).send().await.expect(201);
    }
}
