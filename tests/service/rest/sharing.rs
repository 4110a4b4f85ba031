//! Fair sharing of database connections: slow requests of one client do not delay another.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use basalt_testkit::{Basalt, Request};
use futures_util::future::join_all;
use serde_json::json;

use super::server;

const SCHEMA: &str = "
create function public.slow(seconds float8) returns void language sql volatile as 'select pg_sleep(seconds)';
create table public.shared_notes (id int primary key);
insert into public.shared_notes values (1);
grant select on public.shared_notes to anon, authenticated;
grant execute on function public.slow to anon";

/// A server, a user's read and an anonymous read.
async fn start(pool_size: &str) -> (Basalt, Request, Request) {
    let server = server().config("database.pool_size", pool_size).start().await;
    server.sql(SCHEMA).await;
    let read = server.get("/rest/v1/shared_notes");
    let user = read.clone().apikey(server.anon_key()).bearer(&server.token_of("authenticated"));
    let visitor = read.apikey(server.anon_key());
    server.until(Duration::from_secs(60), &user, |response| response.status == 200).await;
    (server, user, visitor)
}

async fn until_metric(server: &Basalt, name: &str, at_least: f64) {
    let metrics = server.get("/metrics").bearer(server.secret_key());
    let value = |text: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    };
    server.until(Duration::from_secs(60), &metrics, |response| value(&response.text()) >= at_least).await;
}

#[tokio::test]
async fn slow_anonymous_requests_do_not_delay_a_user() {
    let (server, read, _) = start("10").await;
    let slow = server.post("/rest/v1/rpc/slow").apikey(server.anon_key()).json(&json!({ "seconds": 1.0 }));
    server.until(Duration::from_secs(60), &slow, |response| response.status == 204).await;
    let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let visitor = (0..60).map(async |_| {
        while !is_over.load(Ordering::Relaxed) {
            let response = slow.clone().send().await;
            assert_eq!(response.status, 204, "{}", response.text());
            done.fetch_add(1, Ordering::Relaxed);
        }
    });
    let user = async {
        until_metric(&server, "basalt_pool_waiting{pool=\"rest\"}", 30.0).await;
        for _ in 0..5 {
            let before = done.load(Ordering::Relaxed);
            read.clone().send().await.expect(200);
            // In a single queue, about 50 waiting anonymous requests would run first.
            let meanwhile = done.load(Ordering::Relaxed) - before;
            assert!(meanwhile < 25, "the user's read waited for {meanwhile} anonymous requests");
        }
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all(visitor), user);
}

#[tokio::test]
async fn full_queue_of_a_client_returns_503() {
    const BOUND: usize = 512;
    const BEYOND: usize = 20;
    let (server, user, visitor) = start("1").await;
    let held = server.database().hold("begin; lock table public.shared_notes").await;
    // One request holds the connection.
    let reads = (0..=BOUND + BEYOND).map(|_| visitor.clone().send());
    let other = async {
        until_metric(&server, "basalt_pool_refused_total{pool=\"rest\"}", 20.0).await;
        until_metric(&server, "basalt_pool_waiting{pool=\"rest\"}", 512.0).await;
        let queued = user.clone().send();
        let release = async {
            until_metric(&server, "basalt_pool_waiting_clients{pool=\"rest\"}", 2.0).await;
            drop(held);
        };
        let (response, ()) = tokio::join!(queued, release);
        response.expect(200);
    };
    let (results, ()) = tokio::join!(join_all(reads), other);
    let (served, refused): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|response| response.status == 200);
    assert_eq!((served.len(), refused.len()), (BOUND + 1, BEYOND));
    for response in refused {
        assert_eq!((response.status.as_u16(), response.json()["code"].as_str()), (503, Some("53000")));
        assert_eq!(response.header("retry-after"), "1");
    }
}
