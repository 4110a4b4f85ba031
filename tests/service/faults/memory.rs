//! Memory budgets for request bodies and responses: counted while the bytes exist, bounded, and visible as metrics.

use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use serde_json::json;

use crate::load::insert;
use crate::overload::{assert_rest_is_busy, metric, metrics, rows, start};
use crate::raw::{Raw, get, head};

const MIB: usize = 1024 * 1024;
const BODIES: &str = "basalt_http_body_bytes_in_flight";
const ANSWERS: &str = "basalt_http_answer_bytes_in_flight";

/// The insert into the gated table, as in `pg_stat_activity`.
const RUNNING: &str = "%INSERT INTO%slow_entries%";

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Creates a table whose writes wait until its gate is open, so that the test decides how long they take.
async fn gated_table(server: &Basalt) {
    server
        .sql(
            "create table public.slow_entries (id bigint primary key);
             create table public.gate (is_open bool); insert into public.gate values (false);
             create function public.dally() returns trigger language plpgsql security definer set search_path = '' as
               $$ begin
                 while not (select is_open from public.gate) loop perform pg_sleep(0.01); end loop;
                 return null;
               end $$;
             create trigger dally after insert on public.slow_entries execute function public.dally();
             grant select, insert on public.slow_entries to service_role",
        )
        .await;
}

#[tokio::test]
async fn body_counts_until_its_write_ends_despite_disconnect() {
    let server = start(&[("server.body_memory", "1MiB"), ("rest.max_body_bytes", "1MiB")]).await;
    gated_table(&server).await;
    let head = head(&server, "POST /rest/v1/slow_entries");
    let json = rows(10_000, 800_000).to_string();
    // CSV is converted to JSON, which replaces the body.
    let list: Vec<String> = (200_000..320_000).map(|id| id.to_string()).collect();
    let csv = format!("id\n{}", list.join("\n"));
    let csv_head = head.replace("application/json", "text/csv");
    for (head, body) in [(&head, &json), (&csv_head, &csv)] {
        server.sql("update public.gate set is_open = false").await;
        let mut client = Raw::connect(&server).await;
        client.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).await;
        until("the write runs", async || server.database().running(RUNNING).await == 1).await;
        drop(client);
        let refused = insert(&server).json(&rows(500_000, 500_000)).send().await;
        assert_rest_is_busy(&refused);
        assert_eq!(server.database().running(RUNNING).await, 1, "the write is still running");
        assert!(metric(&server, BODIES).await >= 800_000.0);
        server.sql("update public.gate set is_open = true").await;
        until("the write ends", async || server.database().running(RUNNING).await == 0).await;
        until("the body's memory is released", async || metric(&server, BODIES).await < 1.0).await;
    }
    let stored = server.database().count("public.slow_entries").await;
    assert_eq!(stored, i64::try_from(rows(10_000, 800_000).as_array().unwrap().len()).unwrap() + 120_000);
    insert(&server).json(&rows(500_000, 500_000)).send().await.expect(201);
}

#[tokio::test]
async fn csv_expansion_is_bounded_and_counted() {
    let server = start(&[("server.body_memory", "8MiB"), ("rest.max_body_bytes", "1MiB")]).await;
    gated_table(&server).await;
    server.sql("update public.gate set is_open = true").await;
    let send = async |csv: String| {
        let request = server.post("/rest/v1/slow_entries").apikey(server.service_key());
        request.header("content-type", "text/csv").body(csv).send().await
    };
    // 60 KB that would become 600 MB with the column's name in each row.
    let long = format!("{}\n{}", "a".repeat(40_000), "1\n".repeat(10_000));
    let refused = send(long).await.expect(413);
    assert!(refused.text().contains("send them in parts"), "{}", refused.text());
    until("its memory is released", async || metric(&server, BODIES).await < 1.0).await;
    // With the budget used up, even small CSV is rejected.
    server.sql("update public.gate set is_open = false").await;
    let mut others = Vec::new();
    // Generate the bodies first: at the gate, a statement has the role's timeout of 8 s.
    let bodies: Vec<String> = (1..=8)
        .map(|number| {
            let body = rows(number * 1_000_000, 500_000).to_string();
            let blanks = " ".repeat(MIB - body.len());
            body + &blanks
        })
        .collect();
    for body in bodies {
        let mut client = Raw::connect(&server).await;
        let head = head(&server, "POST /rest/v1/slow_entries");
        client.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).await;
        others.push(client);
    }
    until("the budget is used up", async || metric(&server, BODIES).await > 8_388_607.0).await;
    assert_rest_is_busy(&send("id\n1\n".to_owned()).await);
    server.sql("update public.gate set is_open = true").await;
    until("the other writes end", async || metric(&server, BODIES).await < 1.0).await;
    send("id\n1\n".to_owned()).await.expect(201);
}

#[tokio::test]
async fn unread_responses_count_toward_the_memory_budget() {
    let server = start(&[("server.answer_memory", "50MiB"), ("database.max_row_bytes", "25MiB")]).await;
    let large = |length: usize| {
        server.get(&format!("/rest/v1/rpc/large?length={length}")).apikey(server.service_key())
    };
    let mut readers = Vec::new();
    for _ in 0..2 {
        let mut reader = Raw::connect_narrow(&server).await;
        reader.send(get(&server, &format!("/rest/v1/rpc/large?length={}", 22 * MIB))).await;
        assert_eq!(reader.head().await.status, 200);
        readers.push(reader);
    }
    assert!(metric(&server, ANSWERS).await >= 44.0 * 1_048_576.0);
    let begun = Instant::now();
    assert_rest_is_busy(&large(22 * MIB).send().await);
    assert_eq!(large(22 * MIB).header("accept-encoding", "gzip").send().await.status, 503);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!((metric(&server, "basalt_http_refused_total{reason=\"answer_memory\"}").await - 2.0).abs() < 0.1);
    // Small responses, fitting ones, and those of writes are still sent.
    large(1000).send().await.expect(200);
    large(3 * MIB).send().await.expect(200);
    let rows: Vec<_> = (100_000..280_000).map(|id| json!({ "id": id })).collect();
    let write = insert(&server).header("prefer", "return=representation").json(&json!(rows));
    assert!(write.send().await.expect(201).body.len() > 6 * MIB);
    drop(readers);
    until("the readers' memory is released", async || metric(&server, ANSWERS).await < 1.0).await;
    assert_eq!(large(22 * MIB).send().await.expect(200).body.len(), 22 * MIB + 2);
}

#[tokio::test]
async fn large_response_stays_within_its_memory_budget() {
    let settings = [
        ("server.answer_memory", "16MiB"),
        ("database.max_row_bytes", "16MiB"),
        ("rest.max_rows", "0"),
        ("database.pool_size", "2"),
    ];
    let server = start(&settings).await;
    server.sql("insert into public.entries select generate_series(1, 100000)").await;
    for encoding in ["identity", "gzip"] {
        let all = server.get("/rest/v1/entries?order=id").apikey(server.service_key());
        let all = all.header("accept-encoding", encoding).send().await.expect(200);
        assert_eq!(all.header("content-range"), "0-99999/*");
        if encoding == "identity" {
            let rows = all.json();
            assert_eq!(rows.as_array().unwrap().len(), 100_000);
            assert_eq!(rows[99_999], json!({ "id": 100_000, "twice": 200_000, "changes": 0 }));
        }
        until("the response's memory is released", async || metric(&server, ANSWERS).await < 1.0).await;
    }
}

/// A field of `/proc/PID/status`, in megabytes.
fn megabytes(server: &Basalt, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// The peak memory during `work`, above the level before.
async fn extra_megabytes(server: &Basalt, work: impl Future<Output = ()>) -> u64 {
    let before = megabytes(server, "VmRSS");
    // Reset the peak.
    std::fs::write(format!("/proc/{}/clear_refs", server.pid().as_raw_nonzero()), "5").unwrap();
    work.await;
    megabytes(server, "VmHWM").saturating_sub(before)
}

#[tokio::test]
#[ignore = "cargo xtask nightly: measures the memory of a server that writes 400 MB"]
async fn large_inserts_are_held_in_memory_once() {
    let server = start(&[("server.body_memory", "104MiB")]).await;
    server
        .sql(
            "create table public.blobs (id int, data text);
             grant select, insert on public.blobs to service_role",
        )
        .await;
    let rows: Vec<_> = (0..48).map(|id| json!({ "id": id, "data": "x".repeat(MIB) })).collect();
    let body = json!(rows).to_string();
    let insert = |query: &str| {
        let path = format!("/rest/v1/blobs{query}");
        server
            .post(&path)
            .apikey(server.service_key())
            .header("content-type", "application/json")
            .body(body.clone())
    };
    insert("?select=id").send().await.expect(201);
    let one = extra_megabytes(&server, async {
        insert("").send().await.expect(201);
        insert("?columns=id,data").send().await.expect(201);
    });
    let one = one.await;
    let four = extra_megabytes(&server, async {
        let writes = (0..4).map(|_| {
            let write = insert("");
            let server = &server;
            // Two fit; the others retry.
            let is_done = |response: &basalt_testkit::Response| response.status == 201;
            async move { server.until(Duration::from_secs(60), &write, is_done).await }
        });
        futures_util::future::join_all(writes).await;
    });
    let four = four.await;
    println!("50 MB: {one} MB for one at a time, {four} MB for four at once");
    assert!(one < 100, "{one} MB for a body of 50");
    assert!(four < 200, "{four} MB, although only two bodies of 50 MB fit");
}

/// Every limit: its setting, the metric for the limit, and the metric for its current use.
#[tokio::test]
async fn every_limit_has_metrics_for_bound_and_use() {
    let settings = [
        ("server.max_requests", "1234"),
        ("server.max_connections", "2345"),
        ("server.body_memory", "60MiB"),
        ("server.answer_memory", "70MiB"),
        ("database.max_row_bytes", "30MiB"),
        ("database.statement_cache", "77"),
        ("database.pool_size", "5"),
    ];
    let server = start(&settings).await;
    for _ in 0..3 {
        server.get("/rest/v1/entries").apikey(server.service_key()).send().await.expect(200);
    }
    let shown = metrics(&server).await;
    let value = |name: &str| -> f64 {
        let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing")).parse().unwrap()
    };
    let mib = 1_048_576.0;
    let limits = [
        ("basalt_http_requests_in_flight_limit", 1234.0),
        ("basalt_http_connections_limit", 2345.0),
        ("basalt_http_body_bytes_in_flight_limit", 60.0 * mib),
        ("basalt_http_answer_bytes_in_flight_limit", 70.0 * mib),
        ("basalt_pool_row_bytes_limit{pool=\"rest\"}", 30.0 * mib),
        ("basalt_pool_statements_limit{pool=\"rest\"}", 77.0),
        ("basalt_pool_connections_limit{pool=\"rest\"}", 5.0),
    ];
    for (name, limit) in limits {
        assert!((value(name) - limit).abs() < 0.5, "{name} is {}", value(name));
    }
    let taken = [
        "basalt_http_requests_in_flight",
        "basalt_http_connections",
        "basalt_http_body_bytes_in_flight",
        "basalt_http_answer_bytes_in_flight",
        "basalt_pool_connections{pool=\"rest\"}",
        "basalt_pool_available{pool=\"rest\"}",
        "basalt_pool_statements{pool=\"rest\"}",
        "basalt_http_refused_total{reason=\"max_requests\"}",
        "basalt_http_refused_total{reason=\"body_memory\"}",
        "basalt_http_refused_total{reason=\"answer_memory\"}",
        "basalt_http_slow_clients_total{what=\"body\"}",
    ];
    for name in taken {
        assert!(value(name) >= 0.0, "{name}");
    }
    assert!(value("basalt_pool_connections{pool=\"rest\"}") >= 1.0);
    assert!(value("basalt_pool_statements{pool=\"rest\"}") >= 1.0);
    assert!(value("basalt_http_connections") >= 1.0);
}
