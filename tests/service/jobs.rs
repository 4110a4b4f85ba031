//! `pg::jobs` on two kinds of tables: one deletes rows when they are done (storage), one keeps rows with their outcome
//! (Stripe events).

#![expect(clippy::unwrap_used, reason = "helpers fail a test as the tests do")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use basalt_pg::database::Database;
use basalt_pg::jobs::{
    Completion, Done, Failure, Handler, Job, Metrics, Outcome, Policy, Queue, Retention, RetrySelection,
    Table, Worker,
};
use basalt_pg::listen::Event;
use basalt_pg::pool::{PoolConfig, ServicePool};
use basalt_testkit::TestDatabase;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const METRICS: Metrics = Metrics {
    done: "test_done_total",
    failed: "test_failed_total",
    given_up: "test_given_up_total",
    waiting: "test_waiting",
    dead: "test_dead",
};

/// Like blobs to delete.
static GARBAGE: Table = Table {
    name: "garbage",
    table: "garbage",
    channel: None,
    key: "blob",
    key_type: "uuid",
    owner: None,
    kind: "'blob'::text",
    columns: "bucket",
    listed: "bucket",
    order: "next_attempt_at",
    state: "case when given_up_at is null then 'waiting' else 'dead' end",
    waiting: "given_up_at is null",
    dead: "given_up_at is not null",
    finished_at: "given_up_at",
    error: "last_error",
    outcome: None,
    on_claim: "",
    on_done: Completion::Delete,
    on_retry: "",
    on_dead: "given_up_at = now()",
    on_revive: "given_up_at = null",
    failed_message: "could not delete a blob",
    dead_message: "the deletion of a blob was given up",
    metrics: METRICS,
};

/// Like `webhook_events` in functions.md 4.1: a dead letter is `failed` without a next attempt.
static EVENTS: Table = Table {
    name: "events",
    table: "webhook_events",
    channel: Some("events"),
    key: "id",
    key_type: "text",
    owner: Some("source"),
    kind: "event_type",
    columns: "payload",
    listed: "source",
    order: "event_created_at, id",
    state: "status",
    waiting: "status <> 'processed' and next_attempt_at is not null",
    dead: "status = 'failed' and next_attempt_at is null",
    finished_at: "processed_at",
    error: "error_message",
    outcome: Some("outcome"),
    on_claim: "status = 'pending'",
    on_done: Completion::Set("status = 'processed', processed_at = now(), error_message = null"),
    on_retry: "status = 'failed'",
    on_dead: "status = 'failed', next_attempt_at = null",
    on_revive: "status = 'pending'",
    failed_message: "an event was not applied",
    dead_message: "an event was given up",
    metrics: METRICS,
};

const SCHEMA: &str = "
create table garbage (blob uuid primary key default gen_random_uuid(), bucket text not null default 'files',
  attempts int not null default 0, created_at timestamptz not null default now(),
  next_attempt_at timestamptz not null default now(), last_error text, given_up_at timestamptz);
create table webhook_events (id text primary key, source text not null default 'stripe', event_type text not null default 'test',
  status text not null default 'pending', outcome text, payload jsonb not null default '{}', error_message text,
  attempts int not null default 0, next_attempt_at timestamptz default now(), event_created_at timestamptz,
  created_at timestamptz not null default now(), processed_at timestamptz)";

type Answer = Result<Done, Failure>;
type Act = dyn Fn(&Job) -> BoxFuture<'static, Answer> + Send + Sync;

/// A handler given by the test that records its jobs.
struct Scripted {
    act: Box<Act>,
    runs: Arc<Mutex<Vec<(String, u32)>>>,
}

impl Handler for Scripted {
    async fn run(&self, job: &Job) -> Answer {
        self.runs.lock().unwrap().push((job.key.clone(), job.attempt));
        (self.act)(job).await
    }
}

struct Fixture {
    database: TestDatabase,
    pool: ServicePool,
}

/// A running worker.
struct Running {
    worker: Arc<Worker<Scripted>>,
    runs: Arc<Mutex<Vec<(String, u32)>>>,
    wake: broadcast::Sender<Event>,
    shutdown: CancellationToken,
    tracker: TaskTracker,
}

impl Running {
    fn runs(&self) -> Vec<(String, u32)> {
        self.runs.lock().unwrap().clone()
    }

    fn wake(&self) {
        self.wake.send(Event::Reconnected).unwrap();
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.tracker.close();
        timeout(Duration::from_secs(20), self.tracker.wait()).await.unwrap();
    }
}

fn policy() -> Policy {
    Policy {
        concurrency: 4,
        pauses: vec![Duration::from_millis(20); 2],
        time_limit: Duration::from_secs(30),
        retention: Vec::new(),
    }
}

async fn fixture() -> Fixture {
    let database = TestDatabase::create().await;
    database.sql(SCHEMA).await;
    let mut config = database.config();
    config.application_name("worker");
    let pool = ServicePool::new(Database::new(config), PoolConfig::new("test", 8), TaskTracker::new());
    Fixture { database, pool }
}

impl Fixture {
    fn queue(&self, table: &'static Table) -> Queue {
        queue(&self.pool, table)
    }

    fn start<F>(
        &self,
        table: &'static Table,
        policy: Policy,
        act: impl Fn(&Job) -> F + Send + Sync + 'static,
    ) -> Running
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        start(queue(&self.pool, table), policy, act)
    }

    async fn event(&self, id: &str) {
        self.database.sql(&format!("insert into webhook_events (id) values ('{id}')")).await;
    }

    async fn until(&self, what: &str, condition: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.database.value(&format!("select coalesce(({condition}), false)::text")).await != "true" {
            assert!(Instant::now() < deadline, "{what}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn until_event(&self, id: &str, condition: &str) {
        self.until(id, &format!("select {condition} from webhook_events where id = '{id}'")).await;
    }
}

fn queue(pool: &ServicePool, table: &'static Table) -> Queue {
    Queue::new(pool.clone(), table, table.owner.map(|_source| "stripe"))
}

fn start<F>(queue: Queue, policy: Policy, act: impl Fn(&Job) -> F + Send + Sync + 'static) -> Running
where
    F: Future<Output = Answer> + Send + 'static,
{
    let (runs, tracker, shutdown) = (Arc::default(), TaskTracker::new(), CancellationToken::new());
    let handler = Scripted { act: Box::new(move |job| Box::pin(act(job))), runs: Arc::clone(&runs) };
    let worker = Worker::new(queue, handler, policy, tracker.clone());
    let (wake, events) = broadcast::channel(16);
    tracker.spawn(Arc::clone(&worker).run(events, shutdown.clone()));
    Running { worker, runs, wake, shutdown, tracker }
}

fn done(outcome: &str) -> Answer {
    Ok(Done { outcome: Some(outcome.to_owned()), ..Done::default() })
}

#[tokio::test]
async fn two_workers_run_each_job_once() {
    let fixture = fixture().await;
    fixture.database.sql("insert into garbage select from generate_series(1, 200)").await;
    let most = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let start = || {
        let most = Arc::clone(&most);
        fixture.start(&GARBAGE, policy(), move |job| {
            let bucket: String = job.row.get("bucket");
            let most = Arc::clone(&most);
            async move {
                assert_eq!(bucket, "files");
                most.1.fetch_max(most.0.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(2)).await;
                most.0.fetch_sub(1, Ordering::SeqCst);
                Ok(Done::default())
            }
        })
    };
    let (first, second) = (start(), start());
    fixture.until("all done", "select count(*) = 0 from garbage").await;
    let mut keys: Vec<String> = first.runs().into_iter().chain(second.runs()).map(|(key, _)| key).collect();
    assert_eq!(keys.len(), 200);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 200);
    assert!(!first.runs().is_empty() && !second.runs().is_empty());
    assert!(most.1.load(Ordering::SeqCst) <= 8, "{most:?}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn failing_job_is_retried_then_dead() {
    let fixture = fixture().await;
    fixture.event("evt_passing").await;
    fixture.event("evt_lasting").await;
    fixture.event("evt_fine").await;
    fixture.database.sql("insert into webhook_events (id, source) values ('evt_other', 'another')").await;
    let mends = Arc::new(AtomicUsize::new(0));
    let mended = Arc::clone(&mends);
    let running = fixture.start(&EVENTS, policy(), move |job| {
        let response = match job.key.as_str() {
            _ if mended.load(Ordering::SeqCst) > 0 => done("mended"),
            "evt_passing" => Err(Failure::transient("Stripe is away")),
            "evt_lasting" => {
                Err(Failure { detail: "no user 7".to_owned(), ..Failure::permanent("there is no such user") })
            }
            _ => done("applied"),
        };
        async { response }
    });
    fixture
        .until_event("evt_fine", "status = 'processed' and outcome = 'applied' and processed_at is not null")
        .await;
    fixture.until_event("evt_passing", "status = 'failed' and next_attempt_at is null").await;
    fixture.until_event("evt_passing", "attempts = 3 and error_message = 'Stripe is away'").await;
    fixture
        .until_event(
            "evt_lasting",
            "attempts = 1 and next_attempt_at is null and error_message = 'no user 7'",
        )
        .await;

    let queue = fixture.queue(&EVENTS);
    let listed = queue.list(&["failed", "pending"], 1).await.unwrap();
    assert_eq!((listed.jobs.len(), listed.total, listed.of_others), (1, 2, 1));
    let job = listed.jobs.first().unwrap();
    assert_eq!((job.state.as_str(), job.next_attempt_at, job.row.get("source")), ("failed", None, "stripe"));

    let keys = ["evt_passing".to_owned(), "evt_fine".to_owned(), "evt_other".to_owned()];
    let missing = queue.retry(RetrySelection::Keys(&keys)).await.unwrap().unwrap_err();
    assert_eq!(missing, ["evt_fine", "evt_other"]);
    fixture.until_event("evt_passing", "next_attempt_at is null").await;
    mends.fetch_add(1, Ordering::SeqCst);
    let mut revived = queue.retry(RetrySelection::Dead).await.unwrap().unwrap();
    revived.sort();
    assert_eq!(revived, ["evt_lasting", "evt_passing"]);
    running.wake();
    fixture.until_event("evt_passing", "outcome = 'mended' and attempts = 1 and error_message is null").await;
    fixture.until_event("evt_lasting", "outcome = 'mended'").await;
    fixture.until_event("evt_other", "status = 'pending' and attempts = 0").await;
    running.stop().await;
}

#[tokio::test]
async fn job_of_a_dead_server_is_retried_after_its_lease() {
    let fixture = fixture().await;
    fixture.event("evt_1").await;
    let short = || Policy { time_limit: Duration::from_secs(1), ..policy() };
    // Dropping the runtime aborts its tasks, like a killed process.
    let killed = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = {
        let _entered = killed.enter();
        let pool = ServicePool::new(
            Database::new(fixture.database.config()),
            PoolConfig::new("killed", 2),
            TaskTracker::new(),
        );
        start(queue(&pool, &EVENTS), short(), |_job| std::future::pending())
    };
    fixture.until_event("evt_1", "attempts = 1").await;
    killed.shutdown_background();
    assert_eq!(first.runs().len(), 1);

    let second = fixture.start(&EVENTS, short(), |_job| async { done("applied") });
    fixture.until_event("evt_1", "status = 'processed' and attempts = 2").await;
    assert_eq!(second.runs(), [("evt_1".to_owned(), 2)]);
    second.stop().await;
}

#[tokio::test]
async fn job_that_never_finished_is_dead_after_max_attempts() {
    let fixture = fixture().await;
    fixture.event("evt_1").await;
    fixture.database.sql("update webhook_events set attempts = 3").await;
    let running = fixture.start(&EVENTS, policy(), |_job| async { done("applied") });
    fixture.until_event("evt_1", "status = 'failed' and next_attempt_at is null").await;
    fixture.until_event("evt_1", "error_message = 'the last attempt did not come to an end'").await;
    assert!(running.runs().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn attempt_past_its_lease_does_not_update_the_row() {
    for late in [done("late"), Err(Failure::transient("late")), Err(Failure::permanent("late"))] {
        let fixture = fixture().await;
        fixture.event("evt_1").await;
        let go_on = Arc::new(Notify::new());
        let wait = Arc::clone(&go_on);
        let first = fixture.start(&EVENTS, policy(), move |_job| {
            let (wait, late) = (Arc::clone(&wait), late.clone());
            async move {
                wait.notified().await;
                late
            }
        });
        fixture.until_event("evt_1", "attempts = 1").await;
        // As after an operator's retry: the attempt number is the same.
        let keys = ["evt_1".to_owned()];
        fixture.queue(&EVENTS).retry(RetrySelection::Keys(&keys)).await.unwrap().unwrap();
        let held = Arc::new(Notify::new());
        let wait = Arc::clone(&held);
        let second = fixture.start(&EVENTS, policy(), move |_job| {
            let wait = Arc::clone(&wait);
            async move {
                wait.notified().await;
                done("in time")
            }
        });
        fixture
            .until_event("evt_1", "attempts = 1 and next_attempt_at > now() + interval '10 seconds'")
            .await;
        go_on.notify_one();
        first.stop().await;
        fixture.until_event("evt_1", "status = 'pending' and error_message is null").await;
        held.notify_one();
        fixture.until_event("evt_1", "outcome = 'in time'").await;
        second.stop().await;
    }
}

#[tokio::test]
async fn panics_and_timeouts_are_transient_failures() {
    let fixture = fixture().await;
    fixture.event("evt_panics").await;
    fixture.event("evt_endless").await;
    let limited = Policy { time_limit: Duration::from_millis(200), ..policy() };
    let running = fixture.start(&EVENTS, limited, |job| {
        let (key, attempt) = (job.key.clone(), job.attempt);
        async move {
            match (key.as_str(), attempt) {
                ("evt_panics", 1) => panic!("a test's panic"),
                ("evt_endless", 1) => std::future::pending().await,
                _ => done("applied"),
            }
        }
    });
    for id in ["evt_panics", "evt_endless"] {
        fixture.until_event(id, "status = 'processed' and attempts = 2").await;
    }
    running.stop().await;
}

#[tokio::test]
async fn outcome_is_recorded_despite_lost_connections() {
    let fixture = fixture().await;
    fixture.event("evt_1").await;
    let admin = Arc::new(ServicePool::new(
        Database::new(fixture.database.config()),
        PoolConfig::new("admin", 1),
        TaskTracker::new(),
    ));
    let running = fixture.start(&EVENTS, policy(), move |_job| {
        let admin = Arc::clone(&admin);
        async move {
            let tx = admin.autocommit(Instant::now() + Duration::from_secs(10)).await.unwrap();
            let kill = "select pg_terminate_backend(pid, 5000) from pg_stat_activity
                        where datname = current_database() and application_name = 'worker'";
            let killed = tx.query(kill, &[]).await.unwrap();
            assert!(!killed.is_empty());
            done("applied")
        }
    });
    fixture.until_event("evt_1", "outcome = 'applied' and attempts = 1").await;
    assert_eq!(running.runs().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn shutdown_waits_for_attempts_up_to_a_limit() {
    let fixture = fixture().await;
    fixture.event("evt_ends").await;
    fixture.event("evt_never_ends").await;
    let running = fixture.start(&EVENTS, policy(), |job| {
        let ends = job.key == "evt_ends";
        async move {
            if !ends {
                return std::future::pending().await;
            }
            sleep(Duration::from_millis(300)).await;
            done("applied")
        }
    });
    fixture.until("both begun", "select bool_and(attempts = 1) from webhook_events").await;
    let worker = Arc::clone(&running.worker);
    running.stop().await;
    fixture.until_event("evt_ends", "status = 'processed'").await;
    fixture.until_event("evt_never_ends", "status = 'pending' and next_attempt_at > now()").await;
    fixture.event("evt_new").await;
    assert_eq!(worker.run_now("evt_new").await.unwrap(), None);
}

#[tokio::test]
async fn run_now_returns_the_outcome() {
    let fixture = fixture().await;
    let running = fixture.start(&EVENTS, policy(), |job| {
        let fails = job.key == "evt_fails";
        async move { if fails { Err(Failure::permanent("no")) } else { done("applied") } }
    });
    // The worker has just polled and polls again in a few seconds.
    sleep(Duration::from_millis(200)).await;
    fixture.event("evt_1").await;
    let outcome = running.worker.run_now("evt_1").await.unwrap();
    assert_eq!(outcome, Some(Outcome::Done(Done { outcome: Some("applied".to_owned()), ..Done::default() })));
    fixture.until_event("evt_1", "status = 'processed'").await;
    assert_eq!(running.worker.run_now("evt_1").await.unwrap(), None);
    fixture.event("evt_fails").await;
    let outcome = running.worker.run_now("evt_fails").await.unwrap();
    assert_eq!(outcome, Some(Outcome::Dead(Failure::permanent("no"))));
    running.stop().await;
}

#[tokio::test]
async fn run_now_waits_for_a_slot_up_to_its_deadline() {
    let fixture = fixture().await;
    let ends = Arc::new(Notify::new());
    let ending = Arc::clone(&ends);
    let one = Policy { concurrency: 1, ..policy() };
    let running = fixture.start(&EVENTS, one, move |job| {
        let (waits, ending) = (job.key == "evt_waits", Arc::clone(&ending));
        async move {
            if waits {
                ending.notified().await;
            }
            done("applied")
        }
    });
    // The worker has just polled and polls again in a few seconds.
    sleep(Duration::from_millis(200)).await;
    fixture.event("evt_waits").await;
    let worker = Arc::clone(&running.worker);
    let first =
        tokio::spawn(async move { worker.run_in_turn("evt_waits", Duration::from_secs(5)).await.unwrap() });
    fixture.until_event("evt_waits", "attempts = 1").await;
    fixture.event("evt_next").await;
    assert_eq!(running.worker.run_in_turn("evt_next", Duration::from_millis(50)).await.unwrap(), None);
    fixture.until_event("evt_next", "attempts = 0").await;
    let worker = Arc::clone(&running.worker);
    let next =
        tokio::spawn(async move { worker.run_in_turn("evt_next", Duration::from_secs(5)).await.unwrap() });
    ends.notify_one();
    let applied = Outcome::Done(Done { outcome: Some("applied".to_owned()), ..Done::default() });
    assert_eq!(first.await.unwrap(), Some(applied));
    drop(next.await.unwrap());
    fixture.until_event("evt_next", "status = 'processed' and attempts = 1").await;
    running.stop().await;
}

#[tokio::test]
async fn finished_rows_are_deleted_after_their_retention() {
    let fixture = fixture().await;
    fixture
        .database
        .sql(
            "insert into webhook_events (id, source, status, processed_at) values
             ('evt_old', 'stripe', 'processed', now() - interval '3 days'), ('evt_young', 'stripe', 'processed', now()),
             ('evt_other', 'another', 'processed', now() - interval '3 days')",
        )
        .await;
    let keep = Duration::from_secs(24 * 3600);
    let retention = vec![Retention { rows: "status = 'processed'", since: "processed_at", keep }];
    let running = fixture.start(&EVENTS, Policy { retention, ..policy() }, |_job| async { done("") });
    fixture
        .until(
            "old rows are deleted",
            "select string_agg(id, ' ' order by id) = 'evt_other evt_young' from webhook_events",
        )
        .await;
    running.stop().await;
}
