//! More than the server takes on: what is beyond a bound is refused soon and in its service's words, what is within is
//! served, and the metrics tell.

use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Held, Request, Response};
use serde_json::{Value, json};

use crate::load::{insert, project};
use crate::raw::{Raw, get, head};

const MIB: usize = 1024 * 1024;

/// A server with functions that take their time, and make large answers.
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

/// Keeps calls of [`linger`] until it is dropped.
pub(crate) async fn hold(server: &Basalt) -> Held {
    server.database().hold("select pg_advisory_lock(1)").await
}

/// A request that takes until the value of [`hold`] is dropped.
pub(crate) fn linger(server: &Basalt) -> Request {
    server.post("/rest/v1/rpc/linger").apikey(server.service_key()).json(&json!({}))
}

/// Waits until `count` of them are in the database.
pub(crate) async fn until_lingering(server: &Basalt, count: i64) {
    while server.database().running("%linger%").await < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// All metrics.
pub(crate) async fn metrics(server: &Basalt) -> String {
    // Again where the server closes an idle connection in the moment it is used.
    let request = server.get("/metrics").bearer(server.secret_key());
    server.until(Duration::from_secs(60), &request, |answer| answer.status == 200).await.text()
}

/// The value of a metric with its labels; 0 when it was never counted.
pub(crate) async fn metric(server: &Basalt, name: &str) -> f64 {
    let metrics = metrics(server).await;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

/// Rows `first..` as a JSON body of more than `bytes`.
pub(crate) fn rows(first: i64, bytes: usize) -> Value {
    let count = i64::try_from(bytes / r#"{"id":10000}"#.len()).unwrap();
    assert!(first >= 10_000, "shorter ids make a shorter body");
    (first..=first + count).map(|id| json!({ "id": id })).collect()
}

pub(crate) fn assert_rest_is_busy(answer: &Response) {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.header("proxy-status"), "PostgREST; error=53000");
    let hint = "Nothing was done. Try again after the seconds in Retry-After.";
    let body = json!({ "code": "53000", "details": null, "hint": hint, "message": "The server is busy" });
    assert_eq!(answer.json(), body);
}

#[tokio::test]
async fn bodies_beyond_the_memory_wait_a_little_and_are_refused() {
    let server = start(&[("server.body_memory", "1MiB"), ("rest.max_body_bytes", "1MiB")]).await;
    // All there is, announced and not yet sent.
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
    // One of unknown length gets no more than is free.
    let mut chunked = Raw::connect(&server).await;
    chunked.send(format!("{announced}Transfer-Encoding: chunked\r\n\r\n")).await;
    let piece = " ".repeat(0x4000);
    for _ in 0..8 {
        chunked.send(format!("4000\r\n{piece}\r\n")).await;
    }
    assert_rest_is_busy(&chunked.answer().await);
    let refusals = "basalt_http_refused_total{reason=\"body_memory\"}";
    assert!((metric(&server, refusals).await - 3.0).abs() < 0.1);
    // Small ones are not touched by it.
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);

    // The next one waits for the place that a client leaves.
    let waiting = large.clone().send();
    let leaves = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(holder);
    };
    let (answer, ()) = tokio::join!(waiting, leaves);
    answer.expect(201);
    while metric(&server, held).await > 0.0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // And so does one of unknown length, now.
    let mut chunked = Raw::connect(&server).await;
    let body = rows(500_000, 800_000).to_string();
    chunked.send(format!("{announced}Transfer-Encoding: chunked\r\n\r\n")).await;
    chunked.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())).await;
    assert_eq!(chunked.head().await.status, 201);
}

#[tokio::test]
async fn many_large_bodies_at_once_are_all_served_in_turn() {
    let server = start(&[("server.body_memory", "1MiB"), ("rest.max_body_bytes", "1MiB")]).await;
    let writes = (0..6).map(|number| {
        let write = insert(&server).json(&rows(10_000 + number * 100_000, 400_000));
        let server = &server;
        async move {
            // Refused is not done: the same ids can be tried again.
            let is_done = |answer: &Response| {
                assert!(matches!(answer.status.as_u16(), 201 | 503), "{} {}", answer.status, answer.text());
                answer.status == 201
            };
            server.until(Duration::from_secs(60), &write, is_done).await
        }
    });
    futures_util::future::join_all(writes).await;
    let rows_each = i64::try_from(rows(10_000, 400_000).as_array().unwrap().len()).unwrap();
    assert_eq!(server.database().count("public.entries").await, 6 * rows_each);
}

#[tokio::test]
async fn requests_beyond_the_bound_are_refused_at_once() {
    let server = start(&[("server.max_requests", "2")]).await;
    let held = hold(&server).await;
    let third = async {
        until_lingering(&server, 2).await;
        let read = server.get("/rest/v1/entries").apikey(server.service_key());
        let refused = read.header("origin", "https://a.example").send().await;
        assert_rest_is_busy(&refused);
        assert_eq!(refused.header("access-control-allow-origin"), "*", "a browser must be able to read it");
        let by_auth = server.get("/auth/v1/settings").apikey(server.anon_key()).send().await;
        assert_eq!((by_auth.status.as_u16(), by_auth.header("retry-after")), (503, "1"));
        // Who looks after the server is let in.
        server.get("/health").send().await.expect(200);
        let in_flight = metric(&server, "basalt_http_requests_in_flight").await;
        assert!((in_flight - 2.0).abs() < 0.1, "{in_flight}");
        // All of that while the two took their time.
        drop(held);
    };
    let (first, second, ()) = tokio::join!(linger(&server).send(), linger(&server).send(), third);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (204, 204));
    server.get("/rest/v1/entries").apikey(server.service_key()).send().await.expect(200);
    assert!((metric(&server, "basalt_http_refused_total{reason=\"max_requests\"}").await - 2.0).abs() < 0.1);
    assert!(metric(&server, "basalt_http_requests_in_flight").await < 0.1);
}

#[tokio::test]
async fn connections_beyond_the_bound_are_served_late() {
    let server = start(&[("server.max_connections", "8"), ("server.idle_timeout", "2s")]).await;
    let mut idle = Vec::new();
    for _ in 0..12 {
        idle.push(Raw::connect(&server).await);
    }
    let begun = Instant::now();
    let mut late = Raw::connect(&server).await;
    late.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(late.answer().await.status, 200);
    // When the idle ones were closed: two rounds of them.
    assert!((1..60).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert!(metric(&server, "basalt_http_connections_delayed_total").await > 0.0);
    let open = metric(&server, "basalt_http_connections").await;
    assert!((1.0..=8.0).contains(&open), "{open}");
}

#[tokio::test]
async fn an_answer_beyond_the_bound_is_refused_and_the_pool_goes_on() {
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
async fn an_answer_about_a_write_is_not_refused_for_its_length() {
    let server = start(&[("database.max_row_bytes", "1MiB")]).await;
    let rows: Vec<_> = (0..40_000).map(|id| json!({ "id": id })).collect();
    let answer = insert(&server)
        .header("prefer", "return=representation")
        .header("accept-encoding", "identity")
        .json(&json!(rows))
        .send()
        .await
        .expect(201);
    // The write had happened by the time its answer was too long.
    assert!(answer.body.len() > MIB, "{}", answer.body.len());
    assert_eq!(answer.json().as_array().unwrap().len(), rows.len());
}

#[tokio::test]
async fn a_slow_reader_of_a_large_answer_holds_no_database_connection() {
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
