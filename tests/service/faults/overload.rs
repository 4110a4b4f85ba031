//! Overload: requests beyond a limit are rejected promptly with the service's own error, others are served, and metrics count
//! both.

use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Held, Request, Response};
use serde_json::{Value, json};

use crate::load::{insert, project};
use crate::raw::{Raw, get, head};

const MIB: usize = 1024 * 1024;

/// A server with functions that are slow or return large responses.
pub(crate) async fn start(settings: &[(&str, &str)]) -> Basalt {
    let project = project();
    let functions = "create function public.nap(seconds float8) returns void language sql volatile
          set search_path = '' as 'select pg_sleep(seconds)';
        -- Takes until the test lets go of the lock.
        create function public.linger() returns void language sql volatile
          set search_path = '' as 'select from pg_advisory_xact_lock_shared(1)';
        create function public.snooze(seconds float8) returns text language sql stable
          set search_path = '' as 'select ''awake'' from pg_sleep(seconds)';
        create function public.large(length int) returns text language sql stable
          set search_path = '' as 'select repeat(''x'', length)';
        create function public.add_slowly(entry bigint) returns void language sql volatile set search_path = '' as
          'insert into public.entries (id) select entry from pg_sleep(4)';
        grant execute on all functions in schema public to service_role;";
    std::fs::write(project.path().join("migrations/0002_functions.sql"), functions).unwrap();
    let builder = Basalt::builder().project(project.path());
    settings.iter().fold(builder, |builder, (key, value)| builder.config(key, value)).start().await
}

/// Blocks calls of [`linger`] until it is dropped.
pub(crate) async fn hold(server: &Basalt) -> Held {
    server.database().hold("select pg_advisory_lock(1)").await
}

/// A request that runs until the value of [`hold`] is dropped.
pub(crate) fn linger(server: &Basalt) -> Request {
    server.post("/rest/v1/rpc/linger").apikey(server.service_key()).json(&json!({}))
}

/// Waits until `count` of these requests are running in the database.
pub(crate) async fn until_lingering(server: &Basalt, count: i64) {
    while server.database().running("%linger%").await < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// All metrics.
pub(crate) async fn metrics(server: &Basalt) -> String {
    // Retry in case the server closes the idle connection just when it is reused.
    let request = server.get("/metrics").bearer(server.secret_key());
    server.until(Duration::from_secs(60), &request, |response| response.status == 200).await.text()
}

/// The value of a metric with its labels; 0 if it is absent.
pub(crate) async fn metric(server: &Basalt, name: &str) -> f64 {
    let metrics = metrics(server).await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

/// Rows with ids from `first`, more than `bytes` as JSON.
pub(crate) fn rows(first: i64, bytes: usize) -> Value {
    let count = i64::try_from(bytes / r#"{"id":10000}"#.len()).unwrap();
    assert!(first >= 10_000, "shorter ids make a shorter body");
    (first..=first + count).map(|id| json!({ "id": id })).collect()
}

pub(crate) fn assert_rest_is_busy(response: &Response) {
    assert_eq!(response.status, 503, "{}", response.text());
    assert_eq!(response.header("retry-after"), "1");
    assert_eq!(response.header("proxy-status"), "PostgREST; error=53000");
    let hint = "Nothing was done. Try again after the seconds in Retry-After.";
    let body = json!({ "code": "53000", "details": null, "hint": hint, "message": "The server is busy" });
    assert_eq!(response.json(), body);
}

#[tokio::test]
async fn body_without_memory_waits_then_gets_503() {
    let server = start(&[("server.body_memory", "1MiB"), ("rest.max_body_bytes", "1MiB")]).await;
    // The whole budget, announced but not yet sent.
    let mut holder = Raw::connect(&server).await;
    let announced = head(&server, "POST /rest/v1/entries");
    holder.send(format!("{announced}Content-Length: {MIB}\r\n\r\n[")).await;
    let held = "basalt_http_body_bytes_in_flight";
    while metric(&server, held).await < 1.0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!((metric(&server, held).await - 1_048_576.0).abs() < 1.0);

    let begun = Instant::now();
    let large = insert(&server).json(&rows(10_000, 100_000));
    let sign_up = server.post("/auth/v1/signup").apikey(server.anon_key());
    let sign_up = sign_up.json(&json!({ "email": "a@example.com", "password": "x".repeat(100_000) }));
    let (refused, refused_by_auth) = tokio::join!(large.clone().send(), sign_up.send());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_rest_is_busy(&refused);
    assert_eq!((refused_by_auth.status.as_u16(), refused_by_auth.header("retry-after")), (503, "1"));
    assert_eq!(refused_by_auth.json()["code"], "unexpected_failure");
    // A body of unknown length gets only the free memory.
    let mut chunked = Raw::connect(&server).await;
    chunked.send(format!("{announced}Transfer-Encoding: chunked\r\n\r\n")).await;
    let piece = " ".repeat(0x4000);
    for _ in 0..8 {
        chunked.send(format!("4000\r\n{piece}\r\n")).await;
    }
    assert_rest_is_busy(&chunked.response().await);
    let refusals = "basalt_http_refused_total{reason=\"body_memory\"}";
    assert!((metric(&server, refusals).await - 3.0).abs() < 0.1);
    // Small bodies are not affected.
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);

    // The next body waits for the memory of a client that disconnects.
    let waiting = large.clone().send();
    let leaves = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(holder);
    };
    let (response, ()) = tokio::join!(waiting, leaves);
    response.expect(201);
    while metric(&server, held).await > 0.0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Now a body of unknown length succeeds too.
    let mut chunked = Raw::connect(&server).await;
    let body = rows(500_000, 800_000).to_string();
    chunked.send(format!("{announced}Transfer-Encoding: chunked\r\n\r\n")).await;
    chunked.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())).await;
    assert_eq!(chunked.head().await.status, 201);
}

#[tokio::test]
async fn many_large_bodies_are_served_in_turn() {
    let server = start(&[("server.body_memory", "1MiB"), ("rest.max_body_bytes", "1MiB")]).await;
    let writes = (0..6).map(|number| {
        let write = insert(&server).json(&rows(10_000 + number * 100_000, 400_000));
        let server = &server;
        async move {
            // A rejected write had no effect: retry with the same ids.
            let is_done = |response: &Response| {
                assert!(
                    matches!(response.status.as_u16(), 201 | 503),
                    "{} {}",
                    response.status,
                    response.text()
                );
                response.status == 201
            };
            server.until(Duration::from_secs(60), &write, is_done).await
        }
    });
    futures_util::future::join_all(writes).await;
    let rows_each = i64::try_from(rows(10_000, 400_000).as_array().unwrap().len()).unwrap();
    assert_eq!(server.database().count("public.entries").await, 6 * rows_each);
}

#[tokio::test]
async fn requests_beyond_the_limit_get_503_at_once() {
    let server = start(&[("server.max_requests", "2")]).await;
    let held = hold(&server).await;
    let third = async {
        until_lingering(&server, 2).await;
        let read = server.get("/rest/v1/entries").apikey(server.service_key());
        let refused = read.header("origin", "https://a.example").send().await;
        assert_rest_is_busy(&refused);
        assert_eq!(refused.header("access-control-allow-origin"), "*", "browsers need CORS headers");
        let by_auth = server.get("/auth/v1/settings").apikey(server.anon_key()).send().await;
        assert_eq!((by_auth.status.as_u16(), by_auth.header("retry-after")), (503, "1"));
        // Health checks and metrics still work.
        server.get("/health").send().await.expect(200);
        let in_flight = metric(&server, "basalt_http_requests_in_flight").await;
        assert!((in_flight - 2.0).abs() < 0.1, "{in_flight}");
        // The two requests were running throughout.
        drop(held);
    };
    let (first, second, ()) = tokio::join!(linger(&server).send(), linger(&server).send(), third);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (204, 204));
    server.get("/rest/v1/entries").apikey(server.service_key()).send().await.expect(200);
    assert!((metric(&server, "basalt_http_refused_total{reason=\"max_requests\"}").await - 2.0).abs() < 0.1);
    assert!(metric(&server, "basalt_http_requests_in_flight").await < 0.1);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let server = start(&[("server.max_connections", "8"), ("server.idle_timeout", "2s")]).await;
    let mut idle = Vec::new();
    for _ in 0..12 {
        idle.push(Raw::connect(&server).await);
    }
    let begun = Instant::now();
    let mut late = Raw::connect(&server).await;
    late.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(late.response().await.status, 200);
    // It was served after idle connections were closed, twice.
    assert!((1..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert!(metric(&server, "basalt_http_connections_delayed_total").await > 0.0);
    let open = metric(&server, "basalt_http_connections").await;
    assert!((1.0..=8.0).contains(&open), "{open}");
}

#[tokio::test]
async fn too_large_result_is_an_error_and_keeps_the_connection() {
    let server = start(&[("database.max_row_bytes", "2MiB"), ("database.pool_size", "1")]).await;
    let large = |length: usize| {
        server.get(&format!("/rest/v1/rpc/large?length={length}")).apikey(server.service_key())
    };
    large(MIB).send().await.expect(200);
    for length in [3 * MIB, 20 * MIB] {
        let refused = large(length).send().await;
        assert_eq!(refused.status, 500, "{}", refused.text());
        assert_eq!(refused.json()["code"], "54000");
        let hint = "Ask for fewer rows (limit) or columns (select), or raise database.max_row_bytes.";
        assert_eq!(refused.json()["hint"], hint);
        assert_eq!(refused.header("proxy-status"), "PostgREST; error=54000");
        assert_eq!(large(MIB).send().await.expect(200).body.len(), MIB + 2);
    }
}

#[tokio::test]
async fn write_result_has_no_size_limit() {
    let server = start(&[("database.max_row_bytes", "1MiB")]).await;
    let rows: Vec<_> = (0..40_000).map(|id| json!({ "id": id })).collect();
    let response = insert(&server)
        .header("prefer", "return=representation")
        .header("accept-encoding", "identity")
        .json(&json!(rows))
        .send()
        .await
        .expect(201);
    // The write was committed before its result became too large.
    assert!(response.body.len() > MIB, "{}", response.body.len());
    assert_eq!(response.json().as_array().unwrap().len(), rows.len());
}

#[tokio::test]
async fn slow_reader_holds_no_database_connection() {
    let server = start(&[("database.pool_size", "1"), ("database.pool_timeout", "2s")]).await;
    let length = 30 * MIB;
    let mut slow = Raw::connect(&server).await;
    slow.send(get(&server, &format!("/rest/v1/rpc/large?length={length}"))).await;
    let head = slow.head().await;
    assert_eq!(
        (head.status.as_u16(), head.header("content-length")),
        (200, (length + 2).to_string().as_str())
    );
    for id in 0..5 {
        insert(&server).json(&json!({ "id": id })).send().await.expect(201);
    }
    slow.send("GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    let rest = slow.until_closed().await;
    assert!(rest.len() > length + 2 && rest.ends_with("{\"status\":\"ok\"}"), "{}", rest.len());
}
