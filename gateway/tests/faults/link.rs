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
    server.until(Duration::from_secs(15), &again, |answer| answer.status == 201).await;
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
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    server.proxy().set(Link::Up);
    let again = insert(&server).json(&json!({ "id": 3 }));
    server.until(Duration::from_secs(20), &again, |answer| answer.status == 201).await;
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
