//! Realtime subscribers during faults. Like the app, they read everything after joining, apply changes, and rejoin when the server asks them to.
//! In the end their state equals the stored rows, and no change arrives twice within one subscription.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use basalt_testkit::{Basalt, Message, Request, WebSocket};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::load::{DATABASE_AWAY, Load, insert, project, stored, watched_project};
use crate::overload::metric;
use crate::own::OwnPostgres;

const TOPIC: &str = "realtime:entries";
const FAR: u32 = 4_102_444_800;
const SOON: Duration = Duration::from_secs(60);
/// Further expected log lines of realtime while its database is unavailable.
const STREAM_AWAY: [&str; 2] = ["PostgreSQL ended; restarting it", "cannot stream row changes"];

#[derive(Debug, Default)]
struct Known {
    rows: BTreeSet<i64>,
    /// Rows received since the last join.
    received: BTreeSet<i64>,
    /// The number of changes received.
    told_in_all: usize,
    /// The number of successful joins.
    joins: usize,
    wrong: Vec<String>,
}

/// A subscriber that runs until it is dropped.
struct Watcher {
    known: Arc<Mutex<Known>>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Returns once it has joined and read the existing rows.
    async fn start(server: &Arc<Basalt>, name: &str) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let token = server.token(&json!({ "role": "authenticated", "sub": name, "exp": FAR }));
        let read = server.get("/rest/v1/entries?select=id&limit=100000");
        let read = read.apikey(server.publishable_key()).bearer(&token);
        let following = follow(Arc::clone(server), token, read, Arc::clone(&known));
        let watcher = Self { known, task: tokio::spawn(following) };
        watcher.until("the watcher has joined", |known| known.joins > 0).await;
        watcher
    }

    fn ask<T>(&self, ask: impl FnOnce(&Known) -> T) -> T {
        ask(&self.known.lock().unwrap())
    }

    async fn until(&self, what: &str, is_true: impl Fn(&Known) -> bool) {
        let end = Instant::now() + SOON;
        while !self.ask(&is_true) {
            assert!(!self.task.is_finished(), "the watcher has ended");
            assert!(Instant::now() < end, "timed out: {what}; {:?}", self.ask(|known| known.joins));
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until its rows equal the stored ones, and checks the received changes.
    async fn until_synchronised(&self, stored: &BTreeSet<i64>) {
        self.until("the rows equal the stored ones", |known| known.rows == *stored).await;
        let wrong = self.ask(|known| known.wrong.clone());
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[expect(clippy::infinite_loop, reason = "its watcher aborts it")]
async fn follow(server: Arc<Basalt>, token: String, read: Request, known: Arc<Mutex<Known>>) {
    let path = format!("/realtime/v1/websocket?apikey={}&vsn=2.0.0", server.publishable_key());
    loop {
        if let Ok(mut socket) = server.try_websocket(&path).await {
            while join(&mut socket, &token).await {
                known.lock().unwrap().received.clear();
                let Some(rows) = read_all(&read).await else { break };
                {
                    let mut known = known.lock().unwrap();
                    // Changes received from here on are newer than the rows read.
                    known.rows = rows;
                    known.joins += 1;
                }
                if !take_changes(&mut socket, &known).await {
                    break;
                }
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Joins until it succeeds; `false` if the socket has closed.
async fn join(socket: &mut WebSocket, token: &str) -> bool {
    let changes = json!([{ "event": "*", "schema": "public", "table": "entries" }]);
    let payload = json!({ "config": { "postgres_changes": changes }, "access_token": token });
    loop {
        socket.send(json!(["1", "1", TOPIC, "phx_join", payload]).to_string()).await;
        loop {
            let Some(message) = text(socket).await else { return false };
            if message[3] == "phx_reply" && message[4]["status"] == "ok" {
                return true;
            }
            // An error ends a join, too: changes can be missed before its reply.
            if message[3] == "phx_reply" || message[3] == "phx_error" {
                break;
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
}

async fn read_all(read: &Request) -> Option<BTreeSet<i64>> {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        let response = read.clone().send().await;
        if response.status == 200 {
            let rows = response.json();
            return Some(rows.as_array()?.iter().filter_map(|row| row["id"].as_i64()).collect());
        }
        sleep(Duration::from_millis(50)).await;
    }
    None
}

/// Applies changes; `true` if the client must rejoin, `false` if the socket has closed.
async fn take_changes(socket: &mut WebSocket, known: &Mutex<Known>) -> bool {
    loop {
        let message = match timeout(Duration::from_secs(20), text(socket)).await {
            Ok(Some(message)) => message,
            Ok(None) => return false,
            Err(_elapsed) => {
                socket.send(json!([null, "beat", "phoenix", "heartbeat", {}]).to_string()).await;
                continue;
            }
        };
        let mut known = known.lock().unwrap();
        match message[3].as_str() {
            Some("postgres_changes") => {
                let id = message[4]["data"]["record"]["id"].as_i64().unwrap();
                known.told_in_all += 1;
                if !known.received.insert(id) {
                    known.wrong.push(format!("{id} came twice"));
                }
                known.rows.insert(id);
            }
            Some("phx_error") => return true,
            Some("system") if message[4]["status"] == "ok" => {}
            Some("phx_reply") => {}
            _ => known.wrong.push(message.to_string()),
        }
    }
}

/// The next text message; `None` if the socket has closed.
async fn text(socket: &mut WebSocket) -> Option<Value> {
    match socket.next().await {
        Message::Text(text) => Some(serde_json::from_str(&text).unwrap()),
        Message::Binary(_) | Message::Close { .. } | Message::Broken => None,
    }
}

#[tokio::test]
async fn subscribers_resync_after_postgres_is_killed() {
    let project = watched_project();
    let builder = Basalt::builder().embedded().project(project.path()).config("rest.max_rows", "100000");
    let away = DATABASE_AWAY.iter().chain(&STREAM_AWAY);
    let server = Arc::new(away.fold(builder, |builder, text| builder.expect_log(text)).start().await);
    let watchers = [Watcher::start(&server, "ann").await, Watcher::start(&server, "bob").await];
    let load = Load::start(&server, 4, 0);
    for _ in 0..2 {
        load.until_acknowledged(50).await;
        server.kill_postgres();
        server.wait_for_log("PostgreSQL ended; restarting it").await;
        load.until_acknowledged(50).await;
    }
    let outcome = load.finish().await;
    let stored = stored(&server).await;
    assert!(outcome.acknowledged.is_subset(&stored));
    for watcher in &watchers {
        watcher.until_synchronised(&stored).await;
        watcher.until("the watcher rejoined", |known| known.joins > 1).await;
    }
    // Changes are delivered again.
    insert(&server).json(&json!({ "id": -1 })).send().await.expect(201);
    for watcher in &watchers {
        watcher.until("the last change", |known| known.received.contains(&-1)).await;
    }
}

#[tokio::test]
async fn subscribers_resync_after_the_slot_is_lost() {
    let project = watched_project();
    // With 16 MB segments, a slot that retains more than one is invalidated by the next checkpoint.
    let own = OwnPostgres::start_with(&[
        ("max_slot_wal_keep_size", "1MB"),
        ("min_wal_size", "32MB"),
        ("max_wal_size", "48MB"),
    ])
    .await;
    let server = Arc::new(own.server(project.path(), &[("rest.max_rows", "100000")]).await);
    for text in STREAM_AWAY {
        server.expect_log(text);
    }
    server.expect_log("replication slot too far behind");
    let watcher = Watcher::start(&server, "ann").await;
    let load = Load::start(&server, 2, 0);
    load.until_acknowledged(50).await;
    // Terminated by an operator.
    own.sql(
        "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots where active_pid is not null",
    )
    .await;
    watcher.until("the watcher rejoined", |known| known.joins > 1).await;
    load.until_acknowledged(50).await;
    // Invalidated: more WAL is written between two checkpoints than a slot may retain.
    own.sql("create table public.bulk (text text)").await;
    let joins = watcher.ask(|known| known.joins);
    let slot = own.sql("select slot_name from pg_replication_slots where active_pid is not null").await;
    let is_kept = format!(
        "select exists (select from pg_replication_slots where slot_name = '{}' and wal_status <> 'lost')",
        slot.expect("the server reads from a slot")
    );
    let end = Instant::now() + SOON;
    // Only once: a second invalidation could end the stream before the watcher has rejoined.
    while own.sql(&is_kept).await.as_deref() == Some("t") {
        assert!(Instant::now() < end, "the slot was never invalidated");
        own.sql("insert into public.bulk select repeat(md5(n::text), 30) from generate_series(1, 60000) n")
            .await;
        own.sql("checkpoint").await;
        own.sql("truncate public.bulk").await;
    }
    watcher.until("the watcher rejoined", |known| known.joins > joins).await;
    load.until_acknowledged(50).await;
    let outcome = load.stop().await;
    assert!(outcome.wrong.is_empty(), "{:?}", outcome.wrong);
    watcher.until_synchronised(&stored(&server).await).await;
    // The last of the checkpoints may cause one more join, which makes the watcher read instead of receive.
    for id in (i64::MIN..0).rev() {
        let joins = watcher.ask(|known| known.joins);
        insert(&server).json(&json!({ "id": id })).send().await.expect(201);
        watcher.until("the last change", |known| known.received.contains(&id) || known.joins > joins).await;
        if watcher.ask(|known| known.received.contains(&id)) {
            break;
        }
    }
    assert_eq!(
        own.sql("select count(*) from pg_replication_slots").await.unwrap(),
        "1",
        "old slots are dropped"
    );
    drop(watcher);
    drop(server);
    own.stop().await;
}

#[tokio::test]
async fn without_logical_replication_only_row_changes_fail() {
    let project = project();
    let own = OwnPostgres::start_with(&[("wal_level", "replica")]).await;
    let server = Arc::new(own.server(project.path(), &[]).await);
    server.expect_log("cannot stream row changes");
    server.wait_for_log("cannot stream row changes").await;
    let received = server.log().iter().any(|line| line.raw.contains("set wal_level = logical"));
    assert!(received, "the log names the remedy");
    let path = format!("/realtime/v1/websocket?apikey={}&vsn=2.0.0", server.publishable_key());
    let (mut one, mut two) = (server.websocket(&path).await, server.websocket(&path).await);
    let ask = async |socket: &mut WebSocket, topic: &str, event: &str, payload: Value| {
        socket.send(json!(["1", "1", topic, event, payload]).to_string()).await;
        text(socket).await.unwrap()
    };
    let changes = json!([{ "event": "*", "schema": "public", "table": "entries" }]);
    let config = json!({ "config": { "postgres_changes": changes } });
    let refused = ask(&mut one, TOPIC, "phx_join", config).await;
    let reason = refused[4]["response"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("UnableToSubscribeToPostgres: Row changes cannot be streamed"), "{reason}");
    assert!(reason.contains("wal_level = logical"), "{reason}");
    // A client that requests system messages gets no confirmation.
    let config = json!({ "config": { "broadcast": { "replication_ready": true } } });
    assert_eq!(ask(&mut one, "realtime:room", "phx_join", config.clone()).await[4]["status"], "ok");
    assert_eq!(ask(&mut two, "realtime:room", "phx_join", config).await[4]["status"], "ok");
    let message = json!({ "type": "broadcast", "event": "e", "payload": { "n": 1 } });
    one.send(json!(["1", "2", "realtime:room", "broadcast", message]).to_string()).await;
    assert_eq!(text(&mut two).await.unwrap(), json!([null, null, "realtime:room", "broadcast", message]));
    let track = json!({ "type": "presence", "event": "track", "payload": { "n": 1 } });
    assert_eq!(ask(&mut one, "realtime:room", "presence", track).await[3], "presence_state");
    server.get("/ready").send().await.expect(200);
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    drop(server);
    own.stop().await;
}

#[tokio::test]
async fn unresponsive_subscriber_is_closed_others_miss_nothing() {
    let project = watched_project();
    let builder = Basalt::builder().project(project.path()).config("rest.max_rows", "100000");
    let server = Arc::new(builder.start().await);
    let watcher = Watcher::start(&server, "ann").await;
    let path = format!("/realtime/v1/websocket?apikey={}&vsn=2.0.0", server.publishable_key());
    let mut unresponsive = server.websocket(&path).await;
    let token = server.token(&json!({ "role": "authenticated", "sub": "deaf", "exp": FAR }));
    assert!(join(&mut unresponsive, &token).await);
    // Several times the socket's queue and the connection's buffers.
    let mut written = 0;
    let end = Instant::now() + SOON;
    loop {
        server
            .sql(&format!(
                "insert into public.entries (id) select n from generate_series({}, {}) n",
                written + 1,
                written + 5000
            ))
            .await;
        written += 5000;
        watcher.until("all changes", |known| known.told_in_all == written).await;
        let line = r#"basalt_realtime_sockets_closed_total{reason="overflow"}"#;
        if metric(&server, line).await >= 1.0 {
            break;
        }
        assert!(
            Instant::now() < end,
            "the unresponsive subscriber is still connected after {written} changes"
        );
    }
    watcher.until_synchronised(&stored(&server).await).await;
    assert_eq!(watcher.ask(|known| known.joins), 1);
    drop(unresponsive);
    // After reconnecting it reads what it missed.
    Watcher::start(&server, "deaf").await.until_synchronised(&stored(&server).await).await;
}

#[tokio::test]
async fn ten_thousand_joins_each_get_the_next_change_once() {
    const SOCKETS: usize = 100;
    const CHANNELS: usize = 100;
    let project = watched_project();
    let server = Arc::new(Basalt::builder().project(project.path()).start().await);
    let path = format!("/realtime/v1/websocket?apikey={}&vsn=2.0.0", server.publishable_key());
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        sockets.push(server.websocket(&path).await);
    }
    let begun = Instant::now();
    let joining = sockets.into_iter().enumerate().map(|(number, mut socket)| {
        let token =
            server.token(&json!({ "role": "authenticated", "sub": format!("u{number}"), "exp": FAR }));
        async move {
            let changes = json!([{ "event": "INSERT", "schema": "public", "table": "entries" }]);
            let payload = json!({ "config": { "postgres_changes": changes }, "access_token": token });
            for channel in 0..CHANNELS {
                let topic = format!("realtime:{channel}");
                socket.send(json!(["1", "1", topic, "phx_join", payload]).to_string()).await;
            }
            let mut subscribed = 0;
            while subscribed < CHANNELS {
                let message = text(&mut socket).await.unwrap();
                assert!(message[4]["status"] == "ok", "{message}");
                subscribed += usize::from(message[3] == "system");
            }
            socket
        }
    });
    let sockets = futures_util::future::join_all(joining).await;
    println!("{} joins in {:?}", SOCKETS * CHANNELS, begun.elapsed());
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    insert(&server).json(&json!({ "id": 2 })).send().await.expect(201);
    let received = sockets.into_iter().map(|mut socket| async move {
        let mut received = BTreeSet::new();
        for _ in 0..2 * CHANNELS {
            let message = text(&mut socket).await.unwrap();
            assert_eq!(message[3], "postgres_changes", "{message}");
            let id = message[4]["data"]["record"]["id"].as_i64().unwrap();
            assert!(received.insert((message[2].as_str().unwrap().to_owned(), id)), "twice: {message}");
        }
        received.len()
    });
    let received: usize = futures_util::future::join_all(received).await.into_iter().sum();
    assert_eq!(received, 2 * SOCKETS * CHANNELS);
    println!("delivered after {:?}", begun.elapsed());
}

#[tokio::test]
async fn realtime_only_server_delivers_changes_of_others() {
    let project = watched_project();
    let all = Arc::new(Basalt::builder().project(project.path()).start().await);
    let builder = Basalt::builder().only("realtime").project(project.path());
    let alone = builder.database_url(&all.database().url()).start().await;
    let path = format!("/realtime/v1/websocket?apikey={}&vsn=2.0.0", alone.publishable_key());
    let token = alone.token(&json!({ "role": "authenticated", "sub": "ann", "exp": FAR }));
    let mut socket = alone.websocket(&path).await;
    assert!(join(&mut socket, &token).await);
    assert_eq!(text(&mut socket).await.unwrap()[3], "system");
    insert(&all).json(&json!({ "id": 1 })).send().await.expect(201);
    assert_eq!(text(&mut socket).await.unwrap()[4]["data"]["record"]["id"], 1);
    assert_eq!(alone.get("/rest/v1/entries").apikey(alone.service_key()).send().await.status, 404);
}
