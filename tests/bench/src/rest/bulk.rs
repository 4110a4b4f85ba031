//! Measurements in rows and bytes: many inserts, bulk inserts, a long response, a long body.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{SinkExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::Contender;
use super::workload::{self, AcceptEncoding, Workload};
use crate::basalt::Basalt;
use crate::http::{self, Until};
use crate::pgbench;
use crate::process;
use crate::report::{self, median, megabytes, rounded};
use crate::token;

/// Single inserts of one run.
const INSERTS: u32 = 100_000;
/// Of them at a time.
const IN_FLIGHT: u32 = 64;
/// pgbench with only the INSERT, bypassing policies: the minimum cost of the rows on this machine.
const BARE: &str = "pgbench_bare";
/// Rows of a bulk insert.
const BULK_ROWS: u32 = 1_000;
/// Bulk inserts of one run.
const BULKS: u32 = 30;
/// Rows of the long read, as `tests/bench/project` has them.
const READINGS: u32 = 100_000;
/// Long reads of one run.
const LONG_READS: usize = 5;
/// Bytes of the long body.
const LONG_BODY: usize = 50 * 1_000 * 1_000;

/// Measures all of them and prints a line each.
pub(crate) async fn run(
    basalt: &Basalt,
    contenders: &[Contender],
    pgbench: &Path,
    work: &Path,
) -> Result<Value> {
    report::print("\nbulk");
    let database = basalt.database().await?;
    let mut figures = serde_json::Map::new();
    let inserts = single_inserts(basalt, contenders, pgbench, work, &database).await?;
    figures.insert("single_inserts".to_owned(), inserts);
    figures.insert("bulk_insert".to_owned(), bulk_inserts(contenders, &database).await?);
    figures.insert("long_read".to_owned(), long_reads(contenders, &database).await?);
    figures.insert("long_body".to_owned(), long_body(contenders, &database).await?);
    Ok(Value::Object(figures))
}

async fn notes(database: &Client) -> Result<i64> {
    Ok(database.query_one("select count(*) from notes", &[]).await?.try_get(0)?)
}

/// 100,000 rows, one request each; every acknowledged row must be stored.
async fn single_inserts(
    basalt: &Basalt,
    contenders: &[Contender],
    pgbench: &Path,
    work: &Path,
    database: &Client,
) -> Result<Value> {
    let mut seconds = serde_json::Map::new();
    for contender in contenders {
        database.batch_execute("truncate notes").await?;
        let requests = Rc::new(Workload::Insert.requests(contender.prefix, AcceptEncoding::Browser));
        let until = Until::Count(INSERTS.into());
        let load = http::load(contender.port, requests, 201, usize::try_from(IN_FLIGHT)?, until)
            .await
            .with_context(|| format!("inserts of {}", contender.name))?;
        let rows = notes(database).await?;
        ensure!(
            rows == i64::from(INSERTS),
            "{rows} rows of {INSERTS} acknowledged inserts of {}",
            contender.name
        );
        seconds.insert(contender.name.to_owned(), rounded(load.elapsed.as_secs_f64()));
    }
    let (script, bare) = (work.join("rest.pgbench.sql"), work.join("bare.pgbench.sql"));
    pgbench::script(&script, Workload::Insert, pgbench::Shape::Postgrest)?;
    pgbench::bare_insert(&bare)?;
    for (name, script, login) in
        [(super::sample::PGBENCH, &script, pgbench::REQUESTS), (BARE, &bare, pgbench::OWNER)]
    {
        database.batch_execute("truncate notes").await?;
        let each = INSERTS / IN_FLIGHT;
        let took = pgbench::seconds_of(pgbench, script, basalt, login, IN_FLIGHT, each).await?;
        let all = took * f64::from(INSERTS) / f64::from(each * IN_FLIGHT);
        seconds.insert(name.to_owned(), rounded(all));
    }
    let figures = Value::Object(seconds);
    report::print(&format!("{INSERTS} single inserts, {IN_FLIGHT} in flight, seconds: {figures}"));
    Ok(figures)
}

/// An array of as many rows.
fn body(rows: u32) -> String {
    let rows =
        (0..rows).map(|number| format!(r#"{{"body":"Note {number}, of the usual length of a note"}}"#));
    format!("[{}]", rows.collect::<Vec<_>>().join(","))
}

/// 1,000 rows a request, one after the other, beside COPY of the same rows.
async fn bulk_inserts(contenders: &[Contender], database: &Client) -> Result<Value> {
    let mut rates = serde_json::Map::new();
    let body = body(BULK_ROWS);
    let rows = f64::from(BULK_ROWS * BULKS);
    for contender in contenders {
        let request = workload::bulk_insert(contender.prefix, &body);
        let (status, response) = http::once(contender.port, &request).await?;
        if status != 201 {
            // A peer may reject it; Basalt must not.
            ensure!(contender.name != super::sample::BASALT, "bulk insert: status {status}: {response}");
            rates.insert(contender.name.to_owned(), json!({"status": status, "rows_per_second": null}));
            continue;
        }
        database.batch_execute("truncate notes").await?;
        let requests = Rc::new(vec![request]);
        let load = http::load(contender.port, requests, 201, 1, Until::Count(BULKS.into()))
            .await
            .with_context(|| format!("bulk inserts of {}", contender.name))?;
        ensure!(
            notes(database).await? == i64::from(BULK_ROWS * BULKS),
            "rows of {} are missing",
            contender.name
        );
        rates.insert(contender.name.to_owned(), rounded(rows / load.elapsed.as_secs_f64()));
    }
    database.batch_execute("truncate notes").await?;
    let lines: String = (0..BULK_ROWS)
        .map(|number| format!("{}\tNote {number}, of the usual length of a note\n", token::person_id(1)))
        .collect();
    let lines = Bytes::from(lines);
    let start = Instant::now();
    for _ in 0..BULKS {
        let sink = database.copy_in("copy notes (owner_id, body) from stdin").await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(lines.clone()).await?;
        sink.close().await?;
    }
    rates.insert("copy".to_owned(), rounded(rows / start.elapsed().as_secs_f64()));
    let figures = Value::Object(rates);
    report::print(&format!("bulk inserts of {BULK_ROWS} rows, rows per second: {figures}"));
    Ok(figures)
}

/// 100,000 rows in one response, beside COPY of the same rows as JSON.
async fn long_reads(contenders: &[Contender], database: &Client) -> Result<Value> {
    let mut seconds = serde_json::Map::new();
    for contender in contenders {
        let request = workload::long_read(contender.prefix);
        let mut times = Vec::new();
        process::forget_peak(contender.pid);
        let before = process::resident_bytes(contender.pid);
        for _ in 0..LONG_READS {
            let start = Instant::now();
            let (status, response) = http::once(contender.port, &request).await?;
            times.push(start.elapsed().as_secs_f64());
            let rows = response.matches("\"place\":").count();
            ensure!(
                status == 200 && rows == usize::try_from(READINGS)?,
                "{rows} rows with status {status} of {}",
                contender.name
            );
        }
        let extra = process::peak_bytes(contender.pid).saturating_sub(before);
        seconds.insert(
            contender.name.to_owned(),
            json!({"seconds": rounded(median(times)), "extra_mb": rounded(megabytes(extra))}),
        );
    }
    let mut times = Vec::new();
    for _ in 0..LONG_READS {
        let start = Instant::now();
        let rows =
            "copy (select row_to_json(r) from (select id, place, value, taken_at from readings) r) to stdout";
        let stream = database.copy_out(rows).await?;
        let parts: Vec<Bytes> = stream.try_collect().await?;
        ensure!(!parts.is_empty(), "COPY gave nothing");
        times.push(start.elapsed().as_secs_f64());
    }
    seconds.insert("copy".to_owned(), json!({"seconds": rounded(median(times))}));
    let figures = Value::Object(seconds);
    report::print(&format!("read of {READINGS} rows: {figures}"));
    Ok(figures)
}

/// The server's memory for one body of 50 MB.
async fn long_body(contenders: &[Contender], database: &Client) -> Result<Value> {
    let row = format!(r#"{{"body":"{}"}}"#, "0123456789".repeat(99));
    let rows = LONG_BODY / (row.len() + 1);
    let body = format!("[{}]", vec![row; rows].join(","));
    let mut figures = serde_json::Map::new();
    for contender in contenders {
        database.batch_execute("truncate notes").await?;
        let request = workload::bulk_insert(contender.prefix, &body);
        process::forget_peak(contender.pid);
        let before = process::resident_bytes(contender.pid);
        let start = Instant::now();
        let result = tokio::time::timeout(Duration::from_secs(120), http::once(contender.port, &request))
            .await
            .context("the long body took more than two minutes")?;
        let took = start.elapsed().as_secs_f64();
        let extra = process::peak_bytes(contender.pid).saturating_sub(before);
        // A peer may reject it or close the connection; Basalt must not.
        let status = match result {
            Ok((status, response)) => {
                ensure!(
                    status == 201 || contender.name != super::sample::BASALT,
                    "status {status}: {response}"
                );
                Some(status)
            }
            Err(error) if contender.name == super::sample::BASALT => return Err(error),
            Err(_) => None,
        };
        figures.insert(
            contender.name.to_owned(),
            json!({"status": status, "seconds": rounded(took), "extra_mb": rounded(megabytes(extra))}),
        );
    }
    database.batch_execute("truncate notes").await?;
    let figures = Value::Object(figures);
    report::print(&format!("body of {} MB: {figures}", LONG_BODY / 1_000_000));
    Ok(figures)
}
