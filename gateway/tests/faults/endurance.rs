//! Everything at once, for long: reads and writes, changing tables, PostgreSQL restarted, backends ended, clients that leave.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::load::{DATABASE_AWAY, Load, changeable_project, is_refusal, stored};
use crate::overload::metric;

/// Of 64 connections.
const WRITERS: usize = 24;
const READERS: usize = 24;
const UPDATERS: usize = 8;
const LEAVERS: usize = 8;
/// Memory grows to its level at first; from here on it may not grow any more.
const WARM_UP: f64 = 0.3;

/// What the workers share.
struct Shared {
    stop: AtomicBool,
    /// The newest id that is certainly stored.
    newest: AtomicI64,
    answered: AtomicU64,
    refused: AtomicU64,
    /// Answers to requests that ended without one although the server lives, and answers that are wrong.
    wrong: Mutex<Vec<String>>,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn complain(&self, text: String) {
        let mut wrong = self.wrong.lock().unwrap();
        if wrong.len() < 20 {
            wrong.push(text);
        }
    }

    /// Judges an answer; `check` looks at those with `status`.
    async fn judge(
        &self,
        what: &str,
        answer: Result<Response, String>,
        status: u16,
        check: impl Fn(&Response) -> bool,
    ) {
        match answer {
            Ok(answer) if answer.status == status && check(&answer) => {
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(answer) if is_refusal(&answer) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(answer) => self.complain(format!("{what}: {} {}", answer.status, answer.text())),
            Err(error) => self.complain(format!("{what}: {error}")),
        }
    }
}

/// `BASALT_TEST_ENDURANCE_SECONDS=600` runs the long version; from a minute on memory is held to 10 %, too.
#[tokio::test]
async fn under_every_fault_answers_stay_right_and_nothing_is_lost() {
    let seconds: u64 =
        std::env::var("BASALT_TEST_ENDURANCE_SECONDS").map_or(15, |text| text.parse().unwrap());
    let project = changeable_project();
    let builder = Basalt::builder()
        .embedded()
        .project(project.path())
        .expect_log("PostgreSQL ended; starting it again")
        .expect_log("was terminated by signal");
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        newest: AtomicI64::new(0),
        answered: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        wrong: Mutex::default(),
    });
    let load = Load::start(&server, WRITERS, 1);
    load.until_acknowledged(200).await;
    shared.newest.store(100, Ordering::Relaxed);
    let mut workers = JoinSet::new();
    for number in 0..READERS {
        workers.spawn(read(Arc::clone(&shared), requests(&server), number));
    }
    for number in 0..UPDATERS {
        workers.spawn(update(Arc::clone(&shared), requests(&server), number));
    }
    for _ in 0..LEAVERS {
        workers.spawn(leave(Arc::clone(&shared), server.port(), server.service_key().to_owned()));
    }

    let memory = harass(&server, Duration::from_secs(seconds)).await;
    shared.stop.store(true, Ordering::Relaxed);
    let outcome = load.finish().await;
    while let Some(worker) = workers.join_next().await {
        worker.unwrap();
    }

    let wrong = std::mem::take(&mut *shared.wrong.lock().unwrap());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(outcome.unanswered, 0, "a living server answers");
    let stored = stored(&server).await;
    let lost: Vec<_> = outcome.acknowledged.difference(&stored).collect();
    assert!(lost.is_empty(), "acknowledged and not stored: {lost:?}");
    assert_no_connection_is_stuck(&server).await;
    assert_nothing_is_held(&server).await;
    let (settled, last) = level(&memory);
    println!(
        "{seconds} s: {} writes acknowledged, none lost; {} reads and updates right; {} refused; RSS {settled} kB after the warm-up, {last} kB at the end",
        outcome.acknowledged.len(),
        shared.answered.load(Ordering::Relaxed),
        outcome.refused as u64 + shared.refused.load(Ordering::Relaxed),
    );
    if seconds >= 60 {
        assert!(last * 10 <= settled * 11, "memory grew from {settled} kB to {last} kB");
    }
}

/// The requests of a worker, without query and body.
fn requests(server: &Basalt) -> impl Fn(Method, &str) -> Request + Send + 'static {
    let (base, key) = (server.url("/rest/v1"), server.service_key().to_owned());
    move |method, path| Request::new(method, format!("{base}{path}")).apikey(&key)
}

/// Reads the newest rows, all of one row, and a function that comes and goes.
async fn read(shared: Arc<Shared>, request: impl Fn(Method, &str) -> Request, number: usize) {
    let mut turn = number;
    while !shared.is_over() {
        turn += 1;
        match turn % 3 {
            0 => {
                let list = request(Method::GET, "/entries?select=id,twice&order=id.desc&limit=20");
                shared.judge("list", list.try_send().await, 200, |answer| is_list(&answer.json())).await;
            }
            1 => {
                let id = i64::try_from(turn).unwrap() % shared.newest.load(Ordering::Relaxed) + 1;
                let row = request(Method::GET, &format!("/entries?id=eq.{id}"));
                // The columns change under the read: what it gives must be whole, before or after.
                let is_row = |answer: &Response| answer.json()[0]["twice"] == json!(id * 2);
                shared.judge("row", row.try_send().await, 200, is_row).await;
            }
            _ => {
                let call = request(Method::POST, "/rpc/answer").json(&json!({}));
                let answer = call.try_send().await;
                if matches!(&answer, Ok(answer) if answer.status == 404) {
                    // It is not there just now: as the cache knows it, or as PostgreSQL does.
                    let code = answer.unwrap().json()["code"].clone();
                    assert!(code == "PGRST202" || code == "42883", "{code}");
                } else {
                    shared.judge("call", answer, 200, |answer| answer.json() == 42).await;
                }
            }
        }
    }
}

fn is_list(rows: &Value) -> bool {
    let rows = rows.as_array().unwrap();
    let ids: Vec<i64> = rows.iter().map(|row| row["id"].as_i64().unwrap()).collect();
    ids.len() == 20
        && ids.is_sorted_by(|a, b| a > b)
        && rows.iter().all(|row| row["twice"] == row["id"].as_i64().unwrap() * 2)
}

/// Changes rows of its own and reads the change back with the write.
async fn update(shared: Arc<Shared>, request: impl Fn(Method, &str) -> Request, number: usize) {
    let mut changes = 0;
    while !shared.is_over() {
        changes += 1;
        let path = format!("/entries?id=eq.{}&select=id,changes", number + 1);
        let change = request(Method::PATCH, &path).header("prefer", "return=representation");
        let answer = change.json(&json!({ "changes": changes })).try_send().await;
        let expected = json!([{ "id": number + 1, "changes": changes }]);
        shared.judge("update", answer, 200, |answer| answer.json() == expected).await;
    }
}

/// Leaves in the middle: of a request, of its body, or of the answer.
async fn leave(shared: Arc<Shared>, port: u16, key: String) {
    let head = format!("Host: 127.0.0.1\r\napikey: {key}\r\nContent-Type: application/json\r\n");
    let requests = [
        format!("GET /rest/v1/entries?select=id&limit=1000 HTTP/1.1\r\n{head}\r\n"),
        format!("POST /rest/v1/rpc/doze HTTP/1.1\r\n{head}Content-Length: 2\r\n\r\n{{}}"),
        format!("POST /rest/v1/entries HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n[{{"),
        "GET /rest/v1/entr".to_owned(),
    ];
    for request in requests.iter().cycle() {
        if shared.is_over() {
            return;
        }
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
            drop(stream.write_all(request.as_bytes()).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Does what makes servers fall, one thing after the other; the server's memory in kilobytes, sampled.
async fn harass(server: &Basalt, time: Duration) -> Vec<u64> {
    let end = Instant::now() + time;
    let mut memory = Vec::new();
    for round in 0_usize.. {
        if Instant::now() > end {
            break;
        }
        match round % 6 {
            0 => {
                administer(
                    server,
                    "alter table public.entries add column if not exists extra text default 'x'",
                )
                .await
            }
            1 => {
                administer(
                    server,
                    "create or replace function public.answer() returns int language sql stable as 'select 42'; \
                     grant execute on function public.answer() to service_role",
                )
                .await;
            }
            2 => administer(server, "alter table public.entries drop column if exists extra").await,
            // What pg_terminate_backend() does.
            3 => backends(server).iter().for_each(|(pid, _)| {
                // It may have ended by itself.
                let _ended = kill_process(*pid, Signal::TERM);
            }),
            4 => administer(server, "drop function if exists public.answer()").await,
            // Not in every round: while PostgreSQL recovers nothing else can be tried.
            _ if round % 18 == 5 => {
                server.kill_postgres();
                server.wait_for_log("PostgreSQL ended; starting it again").await;
                let ready = server.get("/ready");
                server.until(Duration::from_secs(30), &ready, |answer| answer.status == 200).await;
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        memory.push(resident_kilobytes(server));
    }
    memory
}

/// Changes the schema, as often as it takes: the statements may be repeated.
async fn administer(server: &Basalt, statements: &str) {
    let call = server.post("/rest/v1/rpc/administer").apikey(server.service_key());
    let call = call.json(&json!({ "statements": statements }));
    server
        .until(Duration::from_secs(30), &call, |answer| {
            assert!(answer.status == 204 || is_refusal(answer), "{} {}", answer.status, answer.text());
            answer.status == 204
        })
        .await;
}

/// The backends of request work, with what PostgreSQL says they do.
fn backends(server: &Basalt) -> Vec<(Pid, String)> {
    let Some(postmaster) = server.postgres_pid().map(|pid| pid.as_raw_nonzero()) else { return Vec::new() };
    let children = format!("/proc/{postmaster}/task/{postmaster}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let titled = children.split_whitespace().filter_map(|pid| {
        let title = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        Some((Pid::from_raw(pid.parse().ok()?)?, title.trim_end_matches('\0').to_owned()))
    });
    titled.filter(|(_, title)| title.contains("authenticator")).collect()
}

fn resident_kilobytes(server: &Basalt) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Means of the samples right after the warm-up and of the last ones.
fn level(memory: &[u64]) -> (u64, u64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a small number"
    )]
    let from = (memory.len() as f64 * WARM_UP) as usize;
    let settled = &memory[from..];
    let window = (settled.len() / 5).max(1);
    let mean = |samples: &[u64]| samples.iter().sum::<u64>() / u64::try_from(samples.len()).unwrap();
    (mean(&settled[..window]), mean(&settled[settled.len() - window..]))
}

/// When nobody asks any more, no connection of the pool is in a transaction.
async fn assert_no_connection_is_stuck(server: &Basalt) {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let mut busy = backends(server);
        busy.retain(|(_, title)| !title.trim_end().ends_with("idle"));
        if busy.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "stuck: {busy:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Nothing is counted any more either: requests, and the bytes of bodies and answers.
async fn assert_nothing_is_held(server: &Basalt) {
    let deadline = Instant::now() + Duration::from_secs(15);
    for what in ["requests_in_flight", "body_bytes_in_flight", "answer_bytes_in_flight"] {
        while metric(server, &format!("basalt_http_{what}")).await > 0.0 {
            assert!(Instant::now() < deadline, "{what} are still counted");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
