//! A constant write load that records acknowledged writes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

/// Log lines that are expected while the database is unavailable.
pub(crate) const DATABASE_AWAY: [&str; 5] = [
    "the database is unavailable",
    "the database connection broke",
    "terminating connection due to",
    "no database connection became free in time",
    "could not load the schema cache",
];

/// A project with one table that the service role can write.
pub(crate) fn project() -> tempfile::TempDir {
    project_of(TABLE)
}

/// As [`project`], with a function through which the service role changes the schema.
pub(crate) fn changeable_project() -> tempfile::TempDir {
    project_of(&format!("{TABLE}{ADMINISTER}"))
}

/// As [`project`], with a table that users can subscribe to.
pub(crate) fn watched_project() -> tempfile::TempDir {
    project_of(&format!("{TABLE}{WATCHED}"))
}

fn project_of(migration: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let migrations = dir.path().join("migrations");
    std::fs::create_dir(&migrations).unwrap();
    std::fs::write(migrations.join("0001_entries.sql"), migration).unwrap();
    dir
}

const TABLE: &str = "create table public.entries (
  id bigint primary key, twice bigint generated always as (id * 2) stored, changes int not null default 0
);
alter table public.entries enable row level security;
grant select, insert, update on public.entries to service_role;
";

const WATCHED: &str = "grant select on public.entries to authenticated;
create policy everybody on public.entries for select to authenticated using ((select auth.jwt() ->> 'sub') is not null);
alter publication supabase_realtime add table public.entries;
";

const ADMINISTER: &str = "create function public.administer(statements text) returns void
  language plpgsql security definer set search_path = '' as $$ begin execute statements; end $$;
grant execute on function public.administer(text) to service_role;
create function public.doze() returns void language sql volatile set search_path = '' as 'select pg_sleep(0.1)';
grant execute on function public.doze() to service_role;
";

/// The responses that the writers got.
#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<i64>,
    /// Responses that are neither a success nor allowed by the contract while the database is unavailable.
    wrong: Vec<String>,
    /// Requests without a response: allowed only if the server was killed.
    unanswered: usize,
    refused: usize,
}

/// Writers that run until they are stopped.
pub(crate) struct Load {
    writers: JoinSet<()>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
}

/// The outcome of a load.
pub(crate) struct Outcome {
    pub(crate) acknowledged: BTreeSet<i64>,
    pub(crate) unanswered: usize,
    /// Responses with 503 or 504.
    pub(crate) refused: usize,
    /// Any other responses that are not a success.
    pub(crate) wrong: Vec<String>,
}

impl Load {
    /// Starts `count` writers; ids start at `first`.
    pub(crate) fn start(server: &Basalt, count: usize, first: i64) -> Self {
        let next = Arc::new(AtomicI64::new(first));
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Seen::default())));
        let mut writers = JoinSet::new();
        for _ in 0..count {
            let (next, stop, seen) = (Arc::clone(&next), Arc::clone(&stop), Arc::clone(&seen));
            let request = insert(server);
            writers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // Never send an id twice: a failed write may have been committed.
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let response = request.clone().json(&json!({ "id": id })).try_send().await;
                    let is_away = !matches!(&response, Ok(response) if response.status == 201);
                    seen.lock().unwrap().record(id, response);
                    if is_away {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            });
        }
        Self { writers, stop, seen }
    }

    /// Waits until `count` more writes are acknowledged.
    pub(crate) async fn until_acknowledged(&self, count: usize) {
        let so_far = || self.seen.lock().unwrap().acknowledged.len();
        let wanted = so_far() + count;
        let reached = async {
            while so_far() < wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(60), reached).await.is_err() {
            let seen = self.seen.lock().unwrap();
            panic!("no further writes are acknowledged; {} refused, wrong: {:#?}", seen.refused, seen.wrong);
        }
    }

    /// Stops the writers and checks every response.
    pub(crate) async fn finish(self) -> Outcome {
        let outcome = self.stop().await;
        assert!(outcome.wrong.is_empty(), "{:#?}", outcome.wrong);
        outcome
    }

    /// Stops the writers.
    pub(crate) async fn stop(mut self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(writer) = self.writers.join_next().await {
            writer.unwrap();
        }
        let Seen { acknowledged, wrong, unanswered, refused } =
            std::mem::take(&mut *self.seen.lock().unwrap());
        Outcome { acknowledged, unanswered, refused, wrong }
    }
}

impl Seen {
    fn record(&mut self, id: i64, response: Result<Response, String>) {
        match response {
            Ok(response) if response.status == 201 => {
                self.acknowledged.insert(id);
            }
            Ok(response) if is_refusal(&response) => self.refused += 1,
            Ok(response) => {
                self.wrong.push(format!("{} {:?} {}", response.status, response.headers, response.text()))
            }
            Err(_) => self.unanswered += 1,
        }
    }
}

/// Whether a response is allowed while the database is unavailable: 503 with Retry-After, or 504 (rest.md §3.18).
pub(crate) fn is_refusal(response: &Response) -> bool {
    match response.status.as_u16() {
        503 => response.header("retry-after").parse::<u32>().is_ok(),
        status => status == 504,
    }
}

/// An insert of one row; the caller adds the body.
pub(crate) fn insert(server: &Basalt) -> Request {
    server
        .request(Method::POST, "/rest/v1/entries")
        .apikey(server.service_key())
        .header("prefer", "return=minimal")
}

/// The stored ids, read through the API.
pub(crate) async fn stored(server: &Basalt) -> BTreeSet<i64> {
    let key = server.service_key();
    let mut ids = BTreeSet::new();
    loop {
        // In pages: a response has at most `rest.max_rows` rows.
        let after = ids.last().copied().unwrap_or(i64::MIN);
        let path = format!("/rest/v1/entries?select=id&id=gt.{after}&order=id&limit=1000");
        let rows = server.get(&path).apikey(key).send().await.expect(200).json();
        let rows = rows.as_array().unwrap().clone();
        ids.extend(rows.iter().map(|row| row["id"].as_i64().unwrap()));
        if rows.len() < 1000 {
            return ids;
        }
    }
}
