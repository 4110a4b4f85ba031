//! What one request may take in a backend of the embedded PostgreSQL, whatever it asks for.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use basalt_testkit::Basalt;
use serde_json::json;

/// Rows multiply at each level: 60 members of one plan, whose plan has 60 members.
const MULTIPLYING: &str = "/rest/v1/plans?select=id,plan_members(id,plans(plan_members(id,plans(plan_members(id,plans(plan_members(id,plans(id))))))))";
/// The limit of private memory, and shared buffers that the backend has touched.
const LIMIT_MB: u64 = 512 + 128;

const FUNCTIONS: &str = "
create function public.grow(rows int) returns json language sql stable as
  'select json_agg(json_build_object(''n'', n, ''text'', repeat(''x'', 100))) from generate_series(1, rows) n';
create function public.numbers(rows int) returns table (n int, text text) language sql stable as
  'select n, repeat(''x'', 100) from generate_series(1, rows) n';
grant execute on function public.grow, public.numbers to authenticated;
create table public.notes (id bigint generated always as identity primary key, body text not null, kind text default 'plain');
alter table public.notes enable row level security;
grant insert on public.notes to service_role";

/// What the backends of the embedded PostgreSQL take: the largest resident size of one, shared buffers that it has touched
/// included, in megabytes.
fn largest_backend(server: &Basalt) -> u64 {
    let postmaster = server.postgres_pid().unwrap().as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap();
    let sizes = children.split_whitespace().filter_map(|pid| {
        // One may have ended since.
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let size: u64 = line.split_whitespace().next()?.parse().ok()?;
        command.contains("authenticator").then_some(size / 1024)
    });
    sizes.max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_takes_a_backend_beyond_its_memory_and_others_are_answered() {
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
    let server = Basalt::builder().project(project.path()).embedded().config("database.pool_size", "12");
    let server = Arc::new(server.expect_log("out of memory").start().await);
    let user = server.sign_up("many@example.com").await;
    let plan = server.post("/rest/v1/plans").by(&server, &user).header("prefer", "return=representation");
    let plan = plan.json(&json!({ "title": "Many" })).send().await.expect(201).json();
    let id = plan[0]["id"].as_str().unwrap().to_owned();
    let members: Vec<_> = (0..60)
        .map(|n| json!({ "plan_id": id, "email": format!("m{n}@example.com"), "role": "viewer" }))
        .collect();
    server.post("/rest/v1/plan_members").by(&server, &user).json(&json!(members)).send().await.expect(201);

    let (largest, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watch = {
        let (server, largest, is_over) = (Arc::clone(&server), Arc::clone(&largest), Arc::clone(&is_over));
        tokio::task::spawn_blocking(move || {
            while !is_over.load(Ordering::Relaxed) {
                largest.fetch_max(largest_backend(&server), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    };
    for at_once in [1, 3, 10] {
        let hostile = (0..at_once).map(|_| server.get(MULTIPLYING).by(&server, &user).send());
        let read = async {
            for _ in 0..5 {
                server.get("/rest/v1/plans?select=id").by(&server, &user).send().await.expect(200);
            }
        };
        let (answers, ()) = tokio::join!(futures_util::future::join_all(hostile), read);
        for answer in answers {
            let error = answer.json();
            // On a machine under load the role's eight seconds may be over first.
            if error["code"] == "57014" {
                continue;
            }
            assert_eq!((answer.status.as_u16(), &error["code"]), (503, &json!("53200")), "{error}");
            assert!(error["hint"].as_str().unwrap().contains("less nesting"), "{error}");
        }
        let taken = largest.load(Ordering::Relaxed);
        println!("{at_once} at once: {taken} MB");
        assert!((100..LIMIT_MB).contains(&taken), "{taken} MB with {at_once} at once");
    }
    let call = |path: &str| server.get(&format!("/rest/v1/rpc/{path}")).by(&server, &user).send();
    let grown = call("grow?rows=3000000").await.json();
    assert!(grown["code"] == "53200" || grown["code"] == "57014", "{}", grown["code"]);
    // The largest body goes in, whatever PostgreSQL makes of it.
    let row = json!({ "body": "0123456789".repeat(99) }).to_string();
    let body = format!("[{}]", vec![row; 49_000].join(","));
    for prefer in ["return=minimal", "missing=default"] {
        let insert = server.post("/rest/v1/notes?columns=body,kind").apikey(server.secret_key());
        let insert = insert.header("content-type", "application/json").header("prefer", prefer);
        insert.body(body.clone()).send().await.expect(201);
    }
    // A sort spills to disk; what is cut off for its length is refused as well.
    let sorted = call("numbers?rows=1000000&order=text.desc,n&limit=5").await;
    assert_eq!(sorted.expect(200).json().as_array().unwrap().len(), 5);
    let summed =
        server.get("/rest/v1/plan_members?select=plan_id").by(&server, &user).send().await.expect(200);
    assert_eq!(summed.json().as_array().unwrap().len(), 61);
    // What people ask for goes on, on the same backends.
    let nested = "/rest/v1/plans?select=id,plan_members(id,plans(id,plan_members(id)))";
    for _ in 0..12 {
        let nested = server.get(nested).by(&server, &user).send().await.expect(200).json();
        assert_eq!(nested[0]["plan_members"][0]["plans"]["plan_members"].as_array().unwrap().len(), 61);
    }
    is_over.store(true, Ordering::Relaxed);
    watch.await.unwrap();
    let largest = largest.load(Ordering::Relaxed);
    assert!(largest < LIMIT_MB, "{largest} MB");
    // PostgreSQL lists the memory of a backend, two hundred lines of it; ours has the line that says what happened.
    let told = server.log().iter().filter(|line| line.raw.contains("basalt::postgres")).count();
    assert!(told < 40, "{told} lines");
}
