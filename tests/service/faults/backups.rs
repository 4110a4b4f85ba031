//! Backups of a running server, restored into a new folder: complete, at a moment, and after faults. Nothing half restored starts.

mod backup;
mod dumps;
mod point_in_time;
mod restore;
mod upgrade;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use basalt::config::{CommandLine, Config};
use basalt::secrets::Secrets;
use basalt_testkit::{Basalt, Cluster, User, free_port};
use rustix::process::{Pid, Signal, kill_process};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

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

/// Another machine: it has nothing of the server but the target.
struct Machine {
    dir: PathBuf,
    target: PathBuf,
}

impl Machine {
    fn beside(server: &Basalt, target: &Path) -> Self {
        Self { dir: beside(server, "machine"), target: target.to_path_buf() }
    }

    /// Restores into the folder `name`, which it returns too.
    async fn restore(&self, name: &str, secret: Option<(&str, &str)>, options: &[&str]) -> (PathBuf, Output) {
        let into = self.dir.join(name);
        let arguments = [&["restore", shown(&self.target), shown(&into)], options].concat();
        let output = elsewhere(&self.dir, secret, &arguments).await;
        (into, output)
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A server started on a restored folder.
struct Restored {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Restored {
    async fn start(dir: &Path) -> Self {
        let port = free_port();
        let child = Basalt::command(dir)
            .env("BASALT_DATABASE_BIN_DIR", Cluster::get().await.bin_dir())
            .env("BASALT_SERVER_APP_DIR", "")
            .args(["serve", "--data", ".basalt", "--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.with_extension("log")).unwrap())
            .spawn()
            .unwrap();
        Self { child, dir: dir.to_path_buf(), port }
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

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
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

/// A connection to a running embedded PostgreSQL as superuser, without the help of its server.
async fn superuser(server: &Basalt) -> tokio_postgres::Client {
    let state_dir = server.state_dir();
    let environment = vec![("BASALT_SERVER_STATE_DIR".into(), state_dir.into())];
    let config = Config::from_origin(&CommandLine::default(), environment, state_dir.to_path_buf()).unwrap();
    let password = Secrets::load(&config).unwrap().role_password("supabase_admin");
    let mut connected = None;
    until("PostgreSQL accepts connections", async || {
        let Some(port) = server.postgres_port() else { return false };
        let mut config = tokio_postgres::Config::new();
        let _configured = config.host("127.0.0.1").port(port).dbname("postgres").user("supabase_admin");
        let _secret = config.password(password.expose_secret());
        let Ok((client, connection)) = config.connect(tokio_postgres::NoTls).await else { return false };
        let _driver = tokio::spawn(connection);
        connected = Some(client);
        true
    })
    .await;
    connected.unwrap()
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

/// Gives the server a user and a stored object, which [`has_content`] finds in a restored folder.
async fn with_content(server: &Basalt) -> User {
    let user = server.sign_up("ada@example.org").await;
    make_bucket(server).await;
    upload(server, "note.txt", "the content").await;
    user
}

/// Checks a restored folder whose server runs.
async fn has_content(dir: &Path, user: &User) {
    let users = ok(elsewhere(dir, None, &["user", "list", "--data", ".basalt", "--json"]).await);
    assert!(users.contains(&user.id), "{users}");
    let objects = ok(elsewhere(dir, None, &["storage", "check", "--data", ".basalt"]).await);
    assert!(objects.starts_with("1 blobs with rows, 11 bytes\n0 rows without a blob"), "{objects}");
}

/// A folder with a failed restore does not start.
async fn is_not_started(dir: &Path, secret: Option<(&str, &str)>) {
    refused(&elsewhere(dir, secret, &["serve", "--data", ".basalt"]).await, "did not complete");
}

/// Waits until `condition` holds.
async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition().await {
        assert!(Instant::now() < deadline, "still waiting until {what}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// The complete sets of a target in a folder, oldest first.
fn complete_sets(target: &Path) -> Vec<PathBuf> {
    if !target.join("sets").exists() {
        return Vec::new();
    }
    sets(target).into_iter().filter(|set| set.join("manifest.json").exists()).collect()
}

fn sets(target: &Path) -> Vec<PathBuf> {
    let mut sets: Vec<PathBuf> =
        fs::read_dir(target.join("sets")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sets.sort();
    sets
}

/// The number of complete backups in the configured target.
async fn complete_backups(server: &Basalt) -> usize {
    let listed = ok(of_server(server, &["backup", "list", "--json"]).await);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let backups = listed["backups"].as_array().unwrap();
    backups.iter().filter(|backup| backup["state"] == "complete").count()
}

async fn until_complete(server: &Basalt, count: usize) {
    until("enough backups are made", async || complete_backups(server).await >= count).await;
}
