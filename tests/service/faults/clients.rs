//! Clients that are slow, silent or gone: they get what their patience is worth, and no other client notices.

use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use serde_json::json;

use crate::load::{Load, insert};
use crate::overload::start;
use crate::raw::{Raw, get, head};

#[tokio::test]
async fn a_trickled_body_ends_at_the_deadline_and_others_are_served() {
    let server = start(&[("rest.timeout", "4")]).await;
    let load = Load::start(&server, 4, 0);
    let mut slow = Vec::new();
    for announced in [500, 5_000_000] {
        let mut client = Raw::connect(&server).await;
        let head = head(&server, "POST /rest/v1/entries");
        client.send(format!("{head}Content-Length: {announced}\r\n\r\n[")).await;
        slow.push(client);
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        for client in &mut slow {
            client.send(" ").await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for client in &mut slow {
        let answer = client.head().await;
        // It is the client that is late, and not the database.
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (408, ""));
        assert_eq!(answer.header("proxy-status"), "PostgREST; error=PGRST102");
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
    load.until_acknowledged(20).await;
    let outcome = load.finish().await;
    assert_eq!((outcome.refused, outcome.unanswered), (0, 0));
}

#[tokio::test]
async fn silent_connections_are_closed() {
    let server = start(&[("server.idle_timeout", "1s")]).await;
    let begun = Instant::now();
    let answered_once = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
    let openings = ["", "P", "PRI * HTTP/2.0\r\n", "GET /health HTTP/1.1\r\nHost: ", answered_once];
    let mut silent = Vec::new();
    for opening in openings {
        let mut client = Raw::connect(&server).await;
        client.send(opening).await;
        silent.push(client);
    }
    for (mut client, opening) in silent.into_iter().zip(openings) {
        let said = client.until_closed().await;
        assert_eq!(said.starts_with("HTTP/1.1 200 "), opening == answered_once, "{opening}: {said}");
    }
    assert!((1..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    // A head that trickles in is a silent one; a request that takes its time is not.
    let mut trickle = Raw::connect(&server).await;
    let begun = Instant::now();
    while trickle.try_send("G").await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is still listened to");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let nap = server.post("/rest/v1/rpc/nap").apikey(server.service_key());
    nap.json(&json!({ "seconds": 2.5 })).send().await.expect(204);
}

/// Waits until `pattern` runs as often as `count`, for less than the half minute that it would run by itself.
async fn until_running(server: &Basalt, pattern: &str, count: i64) {
    let begun = Instant::now();
    while server.database().running(pattern).await != count {
        assert!(begun.elapsed() < Duration::from_secs(20), "{pattern} does not run {count} times");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_reads_and_not_its_writes() {
    let server = start(&[("database.pool_size", "2")]).await;
    let mut readers = Vec::new();
    for _ in 0..2 {
        let mut reader = Raw::connect(&server).await;
        reader.send(get(&server, "/rest/v1/rpc/snooze?seconds=30")).await;
        readers.push(reader);
    }
    until_running(&server, "%snooze%", 2).await;
    drop(readers);
    until_running(&server, "%snooze%", 0).await;

    let mut writer = Raw::connect(&server).await;
    let body = r#"{"entry":7}"#;
    let head = head(&server, "POST /rest/v1/rpc/add_slowly");
    writer.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).await;
    until_running(&server, "%add_slowly%", 1).await;
    drop(writer);
    until_running(&server, "%add_slowly%", 0).await;
    assert_eq!(server.database().count("public.entries where id = 7").await, 1);
    // Both connections serve on.
    let writes = (10..20).map(|id| insert(&server).json(&json!({ "id": id })).send());
    for answer in futures_util::future::join_all(writes).await {
        answer.expect(201);
    }
}
