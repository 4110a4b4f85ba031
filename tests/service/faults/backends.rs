//! The memory limit of one request in a backend of the embedded PostgreSQL.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use basalt_testkit::{Basalt, Request, Response, User};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Rows multiply at each level: 60 members of one plan, each with the plan and its 60 members.
const MULTIPLYING: &str = "GET /plans?select=id,plan_members(id,plans(plan_members(id,plans(plan_members(id,plans(plan_members(id,plans(id))))))))";
/// The limit of a request, in megabytes.
const LIMIT_MB: u64 = 256;
/// The limit of a request with a large body.
const LARGE_LIMIT_MB: u64 = 640 + 64;
/// The data size limit of backends without a large body, in bytes.
const USUAL_LIMIT: &str = "201326592";

const FUNCTIONS: &str = "
create function public.grow(rows int, filler text default '') returns json language sql stable as
  'select json_agg(json_build_object(''n'', n, ''text'', repeat(''x'', 100))) from generate_series(1, rows) n';
create function public.numbers(rows int) returns table (n int, text text) language sql stable as
  'select n, repeat(''x'', 100) from generate_series(1, rows) n';
grant execute on function public.grow, public.numbers to authenticated;
create table public.notes (id bigint generated always as identity primary key, body text not null, kind text default 'plain',
  plan_id uuid references public.plans);
alter table public.notes enable row level security;
create policy everyone on public.notes to authenticated using (true) with check (true);
grant insert on public.notes to service_role;
grant select, insert on public.notes to authenticated";

/// The pids of the backends that run requests.
fn backends(server: &Basalt) -> Vec<String> {
    let postmaster = server.postgres_pid().unwrap().as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap();
    let of_requests = |pid: &&str| {
        // The process may have ended meanwhile.
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.contains("authenticator")
    };
    children.split_whitespace().filter(of_requests).map(str::to_owned).collect()
}

/// The largest private memory of a backend, in megabytes: resident, without shared buffers.
fn largest_backend(server: &Basalt) -> u64 {
    let sizes = backends(server).into_iter().filter_map(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let kilobytes = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        Some((kilobytes("VmRSS:")? - kilobytes("RssShmem:")?) / 1024)
    });
    sizes.max().unwrap_or(0)
}

/// Waits until every backend has the usual limit: backends of large bodies are terminated.
async fn until_limited(server: &Basalt) {
    let is_usual = |pid: &String| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max data size"));
        line.is_none_or(|line| line.split_whitespace().next() == Some(USUAL_LIMIT))
    };
    for _ in 0..500 {
        if backends(server).iter().all(is_usual) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a backend still has a raised limit");
}

#[derive(Clone, Copy)]
enum Caller {
    User,
    ServiceKey,
}
use Caller::{ServiceKey, User as AsUser};

#[derive(Clone, Copy)]
enum Body {
    None,
    /// Rows for `notes`, 49,000 of 1 kB.
    LargeInsert,
    /// One row of 8 MB for `notes`, which refers to the plan.
    LargeNote,
    /// Arguments of `grow`, with a filler of 20 MB.
    LargeArguments,
}
use Body::{LargeArguments, LargeInsert, LargeNote};

#[derive(Clone, Copy, Debug)]
enum Expected {
    Created,
    /// 200 with this number of rows.
    Rows(usize),
    /// 200 with 61 members at the second level.
    NestedRows,
    /// 503 with SQLSTATE 53200; on a busy machine the role's statement timeout (57014) may come first.
    OutOfMemory,
}
use Expected::{Created, NestedRows, OutOfMemory, Rows};

/// Caller, call, body, number of concurrent calls, response, and the limits of the peak memory in megabytes since the last call
/// with a body.
type Case = (Caller, &'static str, Body, usize, Expected, std::ops::Range<u64>);

const INSERT: &str = "POST /notes?columns=body,kind";
const EMBEDDED_INSERT: &str = "POST /notes?select=id,plans(id,plan_members(id,plans(plan_members(id,plans(plan_members(id,plans(plan_members(id,plans(id)))))))))";

/// A minimum shows that the call comes near the limit.
#[rustfmt::skip]
fn cases() -> [Case; 11] {
    [
        // caller      call                                                     body            at once  response     peak memory
        (ServiceKey, INSERT,                                                    LargeInsert,    1,       Created,     LIMIT_MB..LARGE_LIMIT_MB),
        (AsUser,     MULTIPLYING,                                               Body::None,     1,       OutOfMemory, 100..LIMIT_MB),
        (AsUser,     MULTIPLYING,                                               Body::None,     3,       OutOfMemory, 100..LIMIT_MB),
        (AsUser,     MULTIPLYING,                                               Body::None,     10,      OutOfMemory, 100..LIMIT_MB),
        (AsUser,     "GET /rpc/grow?rows=3000000",                              Body::None,     1,       OutOfMemory, 0..LIMIT_MB),
        // A sort spills to disk.
        (AsUser,     "GET /rpc/numbers?rows=1000000&order=text.desc,n&limit=5", Body::None,     1,       Rows(5),     0..LIMIT_MB),
        (AsUser,     "GET /plan_members?select=plan_id",                        Body::None,     1,       Rows(61),    0..LIMIT_MB),
        // The same backends still serve ordinary requests.
        (AsUser,     "GET /plans?select=id,plan_members(id,plans(id,plan_members(id)))", Body::None, 12, NestedRows,  100..LIMIT_MB),
        (ServiceKey, INSERT,                                                    LargeInsert,    1,       Created,     LIMIT_MB..LARGE_LIMIT_MB),
        // A large body does not raise the limit of an embed in the response.
        (AsUser,     EMBEDDED_INSERT,                                           LargeNote,      1,       OutOfMemory, 0..LIMIT_MB),
        // A request with a large body is limited too, whatever it returns.
        (AsUser,     "POST /rpc/grow",                                          LargeArguments, 1,       OutOfMemory, 0..LARGE_LIMIT_MB),
    ]
}

struct Fixture {
    server: Basalt,
    user: User,
    plan: String,
    large_insert: String,
}

async fn fixture() -> Fixture {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let project = tempfile::tempdir().unwrap();
    for folder in ["migrations", "policies"] {
        fs::create_dir(project.path().join(folder)).unwrap();
        for file in fs::read_dir(checkout.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "sql") {
                fs::copy(&path, project.path().join(folder).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    fs::write(project.path().join("migrations/9999_functions.sql"), FUNCTIONS).unwrap();
    // One user gets at most two thirds of the pool: 12 connections.
    let server = Basalt::builder().project(project.path()).embedded().config("database.pool_size", "18");
    let server = server.expect_log("out of memory").start().await;
    let user = server.sign_up("many@example.com").await;
    let plan = server.post("/rest/v1/plans").by(&server, &user).header("prefer", "return=representation");
    let plan = plan.json(&json!({ "title": "Many" })).send().await.expect(201).json();
    let plan = plan[0]["id"].as_str().unwrap().to_owned();
    let members: Vec<_> = (0..60)
        .map(|n| json!({ "plan_id": plan, "email": format!("m{n}@example.com"), "role": "viewer" }))
        .collect();
    server.post("/rest/v1/plan_members").by(&server, &user).json(&json!(members)).send().await.expect(201);
    let row = json!({ "body": "0123456789".repeat(99) }).to_string();
    let large_insert = format!("[{}]", vec![row; 49_000].join(","));
    Fixture { server, user, plan, large_insert }
}

impl Fixture {
    fn request(&self, caller: Caller, call: &str, body: Body, prefer: &str) -> Request {
        let (method, path) = call.split_once(' ').unwrap();
        let request = self.server.request(method.parse().unwrap(), &format!("/rest/v1{path}"));
        let request = match caller {
            AsUser => request.by(&self.server, &self.user),
            ServiceKey => request.apikey(self.server.secret_key()),
        };
        match body {
            Body::None => request,
            LargeInsert => request
                .header("content-type", "application/json")
                .header("prefer", prefer)
                .body(self.large_insert.clone()),
            LargeNote => request
                .header("prefer", "return=representation")
                .json(&json!([{ "body": "x".repeat(8 << 20), "plan_id": self.plan }])),
            LargeArguments => request.json(&json!({ "rows": 6_000_000, "filler": "x".repeat(20 << 20) })),
        }
    }
}

/// Checks a response; returns whether the statement timeout came before the memory limit.
fn check(response: &Response, expected: Expected, call: &str) -> bool {
    let (status, body) = (response.status.as_u16(), response.text());
    let json = || serde_json::from_str::<Value>(&body).unwrap();
    match expected {
        Created => assert_eq!(status, 201, "{call}: {body}"),
        Rows(count) => assert_eq!((status, json().as_array().map(Vec::len)), (200, Some(count)), "{call}"),
        NestedRows => {
            let members = json()[0]["plan_members"][0]["plans"]["plan_members"].as_array().map(Vec::len);
            assert_eq!((status, members), (200, Some(61)), "{call}");
        }
        OutOfMemory => {
            let error = json();
            if error["code"] == "57014" {
                return true;
            }
            assert_eq!((status, &error["code"]), (503, &json!("53200")), "{call}: {error}");
            assert!(error["hint"].as_str().unwrap().contains("less nesting"), "{call}: {error}");
        }
    }
    false
}

/// Samples the largest backend every 5 ms until it is dropped.
struct PeakMemory {
    megabytes: Arc<AtomicU64>,
    _stop: DropGuard,
}

impl PeakMemory {
    fn watch(server: &Arc<Fixture>) -> Self {
        let (megabytes, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (fixture, peak, stopped) = (Arc::clone(server), Arc::clone(&megabytes), stop.clone());
        tokio::task::spawn_blocking(move || {
            while !stopped.is_cancelled() {
                peak.fetch_max(largest_backend(&fixture.server), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { megabytes, _stop: stop.drop_guard() }
    }

    fn megabytes(&self) -> u64 {
        self.megabytes.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.megabytes.store(0, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_stay_within_the_backend_memory_limit() {
    let fixture = Arc::new(fixture().await);
    let peak = PeakMemory::watch(&fixture);
    until_limited(&fixture.server).await;
    peak.reset();
    for (caller, call, body, at_once, expected, mut limits) in cases() {
        let is_large = matches!(body, LargeInsert);
        let prefers: &[&str] = if is_large { &["return=minimal", "missing=default"] } else { &[""] };
        if !matches!(body, Body::None) {
            peak.reset();
        }
        for prefer in prefers {
            let calls = (0..at_once).map(|_| fixture.request(caller, call, body, prefer).send());
            // Other requests of the same user succeed meanwhile.
            let others = async {
                for _ in 0..5 {
                    fixture.request(AsUser, "GET /plans?select=id", Body::None, "").send().await.expect(200);
                }
            };
            let (responses, ()) = tokio::join!(join_all(calls), others);
            for response in responses {
                if check(&response, expected, call) {
                    limits.start = 0;
                }
            }
        }
        let megabytes = peak.megabytes();
        println!("{at_once} at once, {megabytes} MB: {call}");
        assert!(limits.contains(&megabytes), "{megabytes} MB, {at_once} at once: {call}");
        if is_large {
            until_limited(&fixture.server).await;
            peak.reset();
        }
    }
    // PostgreSQL logs 200 lines about the memory of a backend; the server logs only the relevant line.
    let lines = fixture.server.log().iter().filter(|line| line.raw.contains("basalt::postgres")).count();
    assert!(lines < 40, "{lines} lines");
}
