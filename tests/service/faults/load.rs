//! A steady load of writes that remembers what was acknowledged.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

/// What a server may log while its database is away: it copes, and says so.
pub(crate) const DATABASE_AWAY: [&str; 5] = [
    "the database is unavailable",
    "the database connection broke",
    "terminating connection due to",
    "no database connection became free in time",
    "the schema cache could not be loaded",
];

/// A project with one table that the service role may write.
pub(crate) fn project() -> tempfile::TempDir {
    project_of(TABLE)
}

/// The same with a function through which the service role changes the schema.
pub(crate) fn changeable_project() -> tempfile::TempDir {
    project_of(&format!("{TABLE}{ADMINISTER}"))
}

/// The same with a table that people may watch.
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

/// What writers of a load saw.
#[derive(Default)]
struct Seen {
    acknowledged: BTreeSet<i64>,
    /// Answers that are neither an acknowledgement nor one the contract allows while the database is away.
    wrong: Vec<String>,
    /// Requests that ended without an answer: allowed only when the server itself was killed.
    unanswered: usize,
    refused: usize,
}

/// Writers that go on until they are stopped.
pub(crate) struct Load {
    writers: JoinSet<()>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
}

/// The outcome of a load.
pub(crate) struct Outcome {
    pub(crate) acknowledged: BTreeSet<i64>,
    pub(crate) unanswered: usize,
    /// Answers of 503 and 504.
    pub(crate) refused: usize,
    /// Answers that are neither that nor an acknowledgement.
    pub(crate) wrong: Vec<String>,
}

impl Load {
    /// Starts `count` writers; ids begin at `first`.
    pub(crate) fn start(server: &Basalt, count: usize, first: i64) -> Self {
        let next = Arc::new(AtomicI64::new(first));
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Seen::default())));
        let mut writers = JoinSet::new();
        for _ in 0..count {
            let (next, stop, seen) = (Arc::clone(&next), Arc::clone(&stop), Arc::clone(&seen));
            let request = insert(server);
            writers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // Never an id twice: a refused write may have happened all the same.
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    let answer = request.clone().json(&json!({ "id": id })).try_send().await;
                    let is_away = !matches!(&answer, Ok(answer) if answer.status == 201);
                    seen.lock().unwrap().record(id, answer);
                    if is_away {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            });
        }
        Self { writers, stop, seen }
    }

    /// Waits until `count` more writes were acknowledged.
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
            panic!("no more writes are acknowledged; {} refused, wrong: {:#?}", seen.refused, seen.wrong);
        }
    }

    /// Stops the writers and checks every answer they got.
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
    fn record(&mut self, id: i64, answer: Result<Response, String>) {
        match answer {
            Ok(answer) if answer.status == 201 => {
                self.acknowledged.insert(id);
            }
            Ok(answer) if is_refusal(&answer) => self.refused += 1,
            Ok(answer) => {
                self.wrong.push(format!("{} {:?} {}", answer.status, answer.headers, answer.text()))
            }
            Err(_) => self.unanswered += 1,
        }
    }
}

/// What a client may get while the database is away: come back later. Only 503 says when (rest.md §3.18).
pub(crate) fn is_refusal(answer: &Response) -> bool {
    match answer.status.as_u16() {
        503 => answer.header("retry-after").parse::<u32>().is_ok(),
        status => status == 504,
    }
}

/// A request that writes one row once it has a body.
pub(crate) fn insert(server: &Basalt) -> Request {
    server
        .request(Method::POST, "/rest/v1/entries")
        .apikey(server.service_key())
        .header("prefer", "return=minimal")
}

/// The ids that are stored, read over the wire.
pub(crate) async fn stored(server: &Basalt) -> BTreeSet<i64> {
    let key = server.service_key();
    let mut ids = BTreeSet::new();
    loop {
        // A page at a time: an answer has at most `rest.max_rows` rows.
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
