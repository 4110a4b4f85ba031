//! The effect of uploads on others: REST during a long upload, and the memory of many.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};

use super::requests;
use crate::basalt::Basalt;
use crate::http::{self, Connection, Until};
use crate::process;
use crate::report::{self, megabytes, rounded};
use crate::rest::workload;

/// Of the long upload.
const LONG: usize = 1_000_000_000;
const BYTES_A_SECOND: usize = 5_000_000;
/// What is written at once, ten times a second.
const PIECE: usize = BYTES_A_SECOND / 10;
/// Clients that upload at once, and bytes that each sends.
const CLIENTS: usize = 20;
const EACH: usize = 200_000_000;

/// Rows of 1 MB by REST, alone and beside 1 GB that comes at 5 MB/s.
pub(super) async fn rest(basalt: &Basalt, time: Duration) -> Result<Value> {
    let body = format!(r#"[{{"body":"{}"}}]"#, "0123456789".repeat(100_000));
    let requests = Rc::new(vec![workload::bulk_insert("/rest/v1", &body)]);
    let post = || http::load(basalt.port, Rc::clone(&requests), 201, 1, Until::Time(time));
    let alone = post().await?;
    // Aborted when the posts are done; the rest of the upload is not measured.
    let (during, sent) = {
        let posts = post();
        tokio::pin!(posts);
        let upload = upload_slowly(basalt.port);
        tokio::pin!(upload);
        tokio::select! {
            during = &mut posts => (during?, true),
            broken = &mut upload => { broken?; (posts.await?, false) }
        }
    };
    ensure!(sent, "the long upload ended before the posts did");
    basalt.database().await?.batch_execute("truncate notes").await?;
    let [alone, during] = [alone, during].map(|load| (load.quantile_ms(0.5), load.quantile_ms(0.99)));
    report::print(&format!(
        "1 MB posts: p50 {:.2} ms, p99 {:.2} ms; beside 1 GB at 5 MB/s: p50 {:.2} ms, p99 {:.2} ms",
        alone.0, alone.1, during.0, during.1
    ));
    let figures = |(p50, p99): (f64, f64)| json!({"p50_ms": rounded(p50), "p99_ms": rounded(p99)});
    Ok(json!({"alone": figures(alone), "beside_upload": figures(during)}))
}

async fn upload_slowly(port: u16) -> Result<()> {
    let mut connection = Connection::open(port).await?;
    connection.send(&requests::upload_head("slow", LONG)).await?;
    let piece = vec![b'a'; PIECE];
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..LONG / PIECE {
        pace.tick().await;
        connection.send(&piece).await?;
    }
    Ok(())
}

/// The most memory that the server holds while 20 clients upload 200 MB each.
pub(super) async fn memory(basalt: &Basalt) -> Result<Value> {
    let server = basalt.running.pid();
    let before = process::resident_bytes(server);
    process::forget_peak(server);
    let piece: Rc<[u8]> = vec![b'a'; 1_000_000].into();
    let start = std::time::Instant::now();
    LocalSet::new()
        .run_until(async {
            let mut clients = JoinSet::new();
            for client in 0..CLIENTS {
                clients.spawn_local(upload(basalt.port, client, Rc::clone(&piece)));
            }
            while let Some(done) = clients.join_next().await {
                done??;
            }
            anyhow::Ok(())
        })
        .await?;
    let seconds = start.elapsed().as_secs_f64();
    let peak = megabytes(process::peak_bytes(server));
    let rate = f64::from(u32::try_from(CLIENTS * EACH / 1_000_000)?) / seconds;
    report::print(&format!(
        "{CLIENTS} clients upload {} MB each: {rate:.0} MB/s, {peak:.0} MB resident at most ({:.0} MB before)",
        EACH / 1_000_000,
        megabytes(before)
    ));
    Ok(json!({
        "peak_mb": rounded(peak), "before_mb": rounded(megabytes(before)), "mb_per_second": rounded(rate)
    }))
}

async fn upload(port: u16, client: usize, piece: Rc<[u8]>) -> Result<()> {
    let mut connection = Connection::open(port).await?;
    connection.send(&requests::upload_head(&format!("large/{client}"), EACH)).await?;
    for _ in 0..EACH / piece.len() {
        connection.send(&piece).await?;
    }
    let status = connection.receive().await?;
    ensure!(status == 200, "a large upload: status {status}: {}", connection.response());
    Ok(())
}
