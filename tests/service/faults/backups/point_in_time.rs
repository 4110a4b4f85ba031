//! The archived log: restored to a moment, torn, or cut off from its target.

use std::sync::Arc;

use basalt_testkit::{ChaosProxy, Link, S3Server};
use parking_lot::Mutex;

use super::*;

/// A server that archives its log to the returned folder, once the backup that the archive begins with is complete.
async fn archiving_server() -> (Basalt, PathBuf) {
    let server = Basalt::builder()
        .embedded()
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .config("backup.target", "../backups")
        .config("backup.archive_interval", "200ms")
        .start()
        .await;
    let target = server.state_dir().with_file_name("backups");
    until("a backup is complete", async || !complete_sets(&target).is_empty()).await;
    (server, target)
}

/// The folder of the target's only chain.
fn chain(target: &Path) -> PathBuf {
    fs::read_dir(target.join("wal")).unwrap().next().unwrap().unwrap().path()
}

/// The pieces of the archived log, in order.
fn pieces(target: &Path) -> Vec<PathBuf> {
    let entries = |dir: &Path| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let segments = entries(&chain(target)).filter(|path| path.is_dir());
    let mut pieces: Vec<PathBuf> = segments.flat_map(|segment| entries(&segment)).collect();
    pieces.sort();
    pieces
}

/// Up to when the log is archived.
fn reach(target: &Path) -> jiff::Timestamp {
    let reach = fs::read(chain(target).join("reach.json"));
    // The file is written after the first backup.
    let Ok(reach) = reach else { return jiff::Timestamp::UNIX_EPOCH };
    let reach: Value = serde_json::from_slice(&reach).unwrap();
    reach["at"].as_str().unwrap().parse().unwrap()
}

/// Writes a row each ten milliseconds, and PostgreSQL's time after each: the state at that time is known.
async fn write_rows(url: String, moments: Arc<Mutex<Vec<(i64, jiff::Timestamp)>>>) {
    let client = connect(&url).await;
    for number in 1_i64.. {
        if client.execute("insert into counted values ($1)", &[&number]).await.is_err() {
            return;
        }
        let Ok(row) = client.query_one("select clock_timestamp()", &[]).await else { return };
        moments.lock().push((number, row.get(0)));
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn every_moment_before_a_kill_can_be_restored() {
    restore_moments(3).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: restores ten times"]
async fn ten_moments_before_a_kill_can_be_restored() {
    restore_moments(10).await;
}

/// Kills a server that archives its log, and restores the last archived moment and `count - 1` random ones.
async fn restore_moments(count: usize) {
    let (mut server, target) = archiving_server().await;
    server.expect_log("cannot archive the log");
    let url = database_url(&server).await;
    connect(&url).await.batch_execute("create table counted (number bigint primary key)").await.unwrap();
    let moments = Arc::<Mutex<Vec<_>>>::default();
    let writer = tokio::spawn(write_rows(url, Arc::clone(&moments)));
    let archived = |until| moments.lock().iter().filter(|(_, at)| *at <= until).copied().collect::<Vec<_>>();
    until("a hundred rows are archived", async || archived(reach(&target)).len() >= 100).await;
    server.kill();
    server.kill_postgres();
    writer.await.unwrap();

    let machine = Machine::beside(&server, &target);
    let reach = reach(&target);
    let archived = archived(reach);
    let late = reach + jiff::SignedDuration::from_secs(60);
    let (_into, output) = machine.restore("late", Some(PASSPHRASE), &["--at", &late.to_string()]).await;
    refused(&output, "reaches until");
    for index in 0..count {
        let random = usize::from_ne_bytes(basalt_core::random::bytes()) % archived.len();
        let (number, at) = archived[if index == 0 { archived.len() - 1 } else { random }];
        let name = format!("restored{index}");
        let (into, output) = machine.restore(&name, Some(PASSPHRASE), &["--at", &at.to_string()]).await;
        let _restored = ok(output);
        let mut restored = Restored::start(&into).await;
        let client = restored.client().await;
        let row = client.query_one("select count(*), max(number) from counted", &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (number, number), "at {at}");
        drop(client);
        restored.stop();
        fs::remove_dir_all(&into).unwrap();
    }
}

/// Settings of a server whose backups go to `endpoint`.
fn bucket_settings<'a>(target: &'a str, endpoint: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("backup.target", target),
        ("backup.s3.endpoint", endpoint),
        ("backup.s3.access_key_id", "an-id"),
        ("backup.s3.secret_access_key", "a-secret"),
    ]
}

/// The target is a bucket that is unreachable for some time: the log is kept up to the limit, the alarm is raised, and a new chain with its own
/// backup follows. Everything in the archive can be restored.
#[tokio::test]
async fn unreachable_bucket_raises_an_alarm_and_recovers() {
    let s3 = S3Server::get().await;
    let target = format!("s3://{}/shop", s3.bucket().await);
    let proxy = ChaosProxy::start(([127, 0, 0, 1], s3.port()).into()).await;
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let builder = Basalt::builder()
        .embedded()
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .config("backup.archive_interval", "200ms")
        .config("backup.max_kept_log", "64MiB")
        .expect_log("cannot archive the log")
        .expect_log("the log cannot be archived to")
        .expect_log("the log was discarded before it was archived")
        .expect_log("invalidating obsolete replication slot")
        .expect_log("terminating process")
        .expect_log("cannot plan backups");
    let builder = bucket_settings(&target, &endpoint)
        .into_iter()
        .fold(builder, |builder, (key, value)| builder.config(key, value));
    let server = builder.start().await;
    make_bucket(&server).await;
    upload(&server, "note.txt", "the content").await;
    until_complete(&server, 1).await;
    let client = connect(&database_url(&server).await).await;
    client.batch_execute("create table counted (number bigint primary key, filler text)").await.unwrap();

    proxy.set(Link::Cut);
    // More than the limit: PostgreSQL discards the log at a checkpoint.
    for number in 0_i64..6 {
        let insert = "insert into counted select $1::bigint * 100000 + g, repeat('x', 200) from generate_series(1, 60000) g";
        let _rows = client.execute(insert, &[&number]).await.unwrap();
    }
    let superuser = superuser(&server).await;
    superuser.batch_execute("checkpoint").await.unwrap();
    let status = "select wal_status from pg_replication_slots where slot_type = 'physical'";
    let status: String = superuser.query_one(status, &[]).await.unwrap().get(0);
    assert_eq!(status, "lost");
    drop(superuser);
    server.wait_for_log("the log cannot be archived to").await;
    let doctor = of_server(&server, &["doctor"]).await;
    assert!(text(&doctor).contains("FAIL  backup"), "{}", text(&doctor));
    refused(&of_server(&server, &["backup"]).await, "cannot");
    proxy.set(Link::Up);
    let _rows = client.execute("insert into counted values (-1, 'after')", &[]).await.unwrap();
    // A new chain begins with a backup of its own.
    until_complete(&server, 2).await;
    server.wait_for_log("the log was discarded before it was archived").await;
    let deadline = Instant::now() + LIMIT;
    let machine = beside(&server, "machine");
    let secret = [
        ("BASALT_BACKUP_S3_ENDPOINT", endpoint.as_str()),
        ("BASALT_BACKUP_S3_ACCESS_KEY_ID", "an-id"),
        ("BASALT_BACKUP_S3_SECRET_ACCESS_KEY", "a-secret"),
        PASSPHRASE,
    ];
    let mut attempt = 0;
    let found = loop {
        assert!(Instant::now() < deadline, "the last row is not archived");
        sleep(Duration::from_secs(1)).await;
        attempt += 1;
        let into = machine.join(format!("restored{attempt}"));
        let mut command = Basalt::command(&machine);
        let _configured = command
            .env("BASALT_DATABASE_BIN_DIR", Cluster::get().await.bin_dir())
            .envs(secret)
            .args(["restore", &target, shown(&into), "--at", "latest"]);
        let _restored = ok(run(command).await);
        let mut restored = Restored::start(&into).await;
        let client = restored.client().await;
        let count = "select count(*) filter (where number = -1), count(*) from counted";
        let row = client.query_one(count, &[]).await.unwrap();
        let objects = ok(elsewhere(&into, None, &["storage", "check", "--data", ".basalt"]).await);
        assert!(objects.starts_with("1 blobs with rows, 11 bytes"), "{objects}");
        drop(client);
        restored.stop();
        fs::remove_dir_all(&into).unwrap();
        if row.get::<_, i64>(0) == 1 {
            break row.get::<_, i64>(1);
        }
    };
    assert_eq!(found, 360_001);
    let verified = ok(of_server(&server, &["backup", "verify"]).await);
    assert!(verified.contains("1 objects"), "{verified}");
    let pruned = ok(of_server(&server, &["backup", "prune"]).await);
    assert!(pruned.starts_with("0 backups"), "{pruned}");
}

/// A torn piece ends the log: `latest` restores what is before it and says so, a later moment is refused.
#[tokio::test]
async fn torn_log_is_reported() {
    let (server, target) = archiving_server().await;
    let client = connect(&database_url(&server).await).await;
    let now = async || -> jiff::Timestamp {
        client.query_one("select clock_timestamp()", &[]).await.unwrap().get(0)
    };
    // From here on, no piece is part of the backup itself.
    let start = now().await;
    until("the log of the backup is archived", async || reach(&target) > start).await;
    let earlier = pieces(&target);
    client.batch_execute("create table counted (number bigint primary key)").await.unwrap();
    let at = now().await;
    until("the log is archived", async || reach(&target) > at).await;
    let piece = pieces(&target).into_iter().find(|piece| !earlier.contains(piece)).unwrap();
    let copy = beside(&server, "copy");
    let copied = Command::new("cp").arg("-a").arg(target.join(".")).arg(&copy).status().unwrap();
    assert!(copied.success());
    // In the copy, because the server still writes to the target.
    let torn = copy.join(piece.strip_prefix(&target).unwrap());
    let whole = fs::read(&torn).unwrap();
    fs::write(&torn, &whole[..whole.len() / 2]).unwrap();
    let machine = Machine::beside(&server, &copy);
    let (late, output) = machine.restore("late", Some(PASSPHRASE), &["--at", &at.to_string()]).await;
    refused(&output, "is damaged");
    is_not_started(&late, None).await;
    let printed = ok(machine.restore("latest", Some(PASSPHRASE), &["--at", "latest"]).await.1);
    assert!(printed.contains("everything before it was restored"), "{printed}");
}
