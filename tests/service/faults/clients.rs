//! Slow, silent and disconnected clients: their connections end, and other clients are not affected.

use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use serde_json::json;

use crate::load::{Load, insert};
use crate::overload::start;
use crate::raw::{Raw, get, head};

#[tokio::test]
async fn trickling_body_ends_at_the_deadline() {
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
        let response = client.head().await;
        // The error blames the client, not the database.
        assert_eq!((response.status.as_u16(), response.header("retry-after")), (408, ""));
        assert_eq!(response.header("proxy-status"), "PostgREST; error=PGRST102");
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
        let output = client.until_closed().await;
        assert_eq!(output.starts_with("HTTP/1.1 200 "), opening == answered_once, "{opening}: {output}");
    }
    assert!((1..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    // A trickling request head counts as silent; a slow request does not.
    let mut trickle = Raw::connect(&server).await;
    let begun = Instant::now();
    while trickle.try_send("G").await.is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the connection is still open");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let nap = server.post("/rest/v1/rpc/nap").apikey(server.service_key());
    nap.json(&json!({ "seconds": 2.5 })).send().await.expect(204);
}

/// Waits until `count` statements matching `pattern` run; gives up before their 30 s are over.
async fn until_running(server: &Basalt, pattern: &str, count: i64) {
    let begun = Instant::now();
    while server.database().running(pattern).await != count {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "expected {count} running statements like {pattern}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn disconnect_cancels_reads_but_not_writes() {
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
    // Both connections are still usable.
    let writes = (10..20).map(|id| insert(&server).json(&json!({ "id": id })).send());
    for response in futures_util::future::join_all(writes).await {
        response.expect(201);
    }
}
