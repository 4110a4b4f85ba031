//! Backups of a running server, restored into a new folder: complete, at a moment, and after faults. Nothing half restored starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use basalt_testkit::{Basalt, Cluster, free_port};
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

/// `BASALT_TEST_MOMENTS=10` restores that many.
#[tokio::test]
async fn every_moment_before_a_kill_can_be_restored() {
    let count: usize = std::env::var("BASALT_TEST_MOMENTS").map_or(3, |text| text.parse().unwrap());
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
        // Spread over the time, the last archived one included.
        let (number, at) = archived[(archived.len() - 1) * (index + 1) / count];
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

/// Kills a part during each backup. `BASALT_TEST_BACKUP_ROUNDS=200` runs the long version.
#[tokio::test]
async fn every_backup_that_says_complete_restores() {
    let rounds: u32 = std::env::var("BASALT_TEST_BACKUP_ROUNDS").map_or(3, |text| text.parse().unwrap());
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
    assert!(!complete.is_empty());
    for set in complete {
        let name = set.file_name().unwrap().to_str().unwrap().to_owned();
        let verified = of_server(&server, &["backup", "verify", &name, "--from", shown(&target)]).await;
        let _verified = ok(verified);
    }
}
