//! `net`: requests of one transaction, received by this program. Each must come once; its delay is from the return of the commit.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::basalt::{self, Basalt};
use crate::http;
use crate::options::UnderTest;
use crate::report::{self, rounded};

const PATIENCE: Duration = Duration::from_secs(120);

/// `net.http_post` in one transaction, each request once.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Requests of the transaction.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    requests: i32,
    /// The output file.
    #[arg(long, default_value = "target/bench/net.json")]
    json: PathBuf,
    #[command(flatten)]
    under_test: UnderTest,
}

/// The number in each request received, and when.
type Received = Arc<Mutex<Vec<(i32, Instant)>>>;

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.under_test.server;
    let work = basalt::work_folder(program)?;
    let circumstances = report::circumstances();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://127.0.0.1:{}/", listener.local_addr()?.port());
    let received = Received::default();
    let receiving = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(receive(stream, Arc::clone(&receiving)));
        }
    });
    let private = [("BASALT_EXTENSIONS_NET_PRIVATE_ADDRESSES", "true".to_owned())];
    let mut basalt = Basalt::start_with(program, work, &private).await?;
    let database = basalt.database().await?;
    database
        .batch_execute("create extension if not exists pg_net")
        .await
        .context("cannot prepare the requests")?;
    let mut rounds = Vec::new();
    for _ in 0..options.under_test.rounds {
        received.lock().clear();
        rounds.push(measure(&database, &url, options.requests, &received).await?);
        basalt.running.check()?;
    }
    let row = report::medians(&rounds);
    let figure = |name: &str| row.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
    report::print("requests  commit ms  requests/s   p50 ms   p95 ms   max ms  recorded ms");
    report::print(&format!(
        "{:>8}  {:>9.1}  {:>10.0}  {:>7.1}  {:>7.1}  {:>7.1}  {:>11.1}",
        options.requests,
        figure("commit_ms"),
        figure("per_second"),
        figure("p50_ms"),
        figure("p95_ms"),
        figure("slowest_ms"),
        figure("recorded_ms")
    ));
    let figures = json!({
        "circumstances": circumstances, "rounds": options.under_test.rounds, "postgresql": basalt.database_version, "net": row,
    });
    report::write(&options.json, &figures)
}

async fn measure(
    database: &tokio_postgres::Client,
    url: &str,
    count: i32,
    received: &Received,
) -> Result<Value> {
    database.batch_execute("truncate net._http_response").await?;
    let start = Instant::now();
    let send = "select count(net.http_post(url := $1, body := jsonb_build_object('n', n))) from generate_series(1, $2) n";
    database.query_one(send, &[&url, &count]).await?;
    let committed = Instant::now();
    let responses = "select count(*) filter (where status_code = 200), count(*) from net._http_response";
    loop {
        let row = database.query_one(responses, &[]).await?;
        let (answered, recorded): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        ensure!(answered == recorded, "{} requests failed", recorded - answered);
        if answered >= i64::from(count) {
            break;
        }
        if committed.elapsed() > PATIENCE {
            bail!("{answered} of {count} responses are recorded after {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let recorded = committed.elapsed();
    let received = received.lock();
    let mut numbers: Vec<i32> = received.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    ensure!(
        numbers.iter().copied().eq(1..=count),
        "{} requests were received instead of {count}, each once",
        numbers.len()
    );
    let mut delays = http::histogram()?;
    for (_, at) in received.iter() {
        // The first requests can arrive before the client has received the end of its statement.
        delays.record(u64::try_from(at.saturating_duration_since(committed).as_nanos())?)?;
    }
    let last = http::milliseconds(&delays, 1.0);
    Ok(json!({
        "requests": count, "commit_ms": rounded(committed.duration_since(start).as_secs_f64() * 1e3),
        "per_second": rounded(f64::from(count) * 1e3 / last),
        "p50_ms": rounded(http::milliseconds(&delays, 0.5)), "p95_ms": rounded(http::milliseconds(&delays, 0.95)),
        "slowest_ms": rounded(last), "recorded_ms": rounded(recorded.as_secs_f64() * 1e3),
    }))
}

/// Responds until the server closes the connection.
async fn receive(mut stream: TcpStream, received: Received) {
    let mut bytes = Vec::with_capacity(4096);
    while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
        while let Some(request) = http::complete_request(&bytes) {
            let body = bytes.get(request.body..request.end).unwrap_or_default();
            let number = serde_json::from_slice::<Value>(body).ok().and_then(|body| body.get("n")?.as_i64());
            let number = number.and_then(|number| i32::try_from(number).ok()).unwrap_or_default();
            received.lock().push((number, Instant::now()));
            bytes.drain(..request.end);
            let response =
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
            if stream.write_all(response).await.is_err() {
                return;
            }
        }
    }
}
