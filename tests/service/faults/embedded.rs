//! The embedded PostgreSQL: initialisation, ownership, crashes, moved data and lost secrets.
//!
//! Tests that kill a server run this executable as a child process, with the ignored test `child_server`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test functions may panic, and long runs are configured by environment variables"
)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use basalt_postgres::{Embedded, EmbeddedConfig, EmbeddedError, State};
use basalt_testkit::{Basalt, Cluster, free_port};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::NoTls;

const STATE_DIR_VARIABLE: &str = "BASALT_TEST_EMBEDDED_STATE_DIR";

/// A state directory that PostgreSQL's user can enter; removed on drop.
struct Folder(PathBuf);

impl Folder {
    /// Next to the test cluster, in memory if that is: on a busy disk a start takes a minute.
    async fn new(name: &str) -> Self {
        Self::made(Cluster::get().await.fresh_dir(name))
    }

    /// Below `target/`: `/dev/shm` may be mounted noexec.
    fn on_disk(name: &str) -> Self {
        Self::made(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())))
    }

    fn made(dir: PathBuf) -> Self {
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        Self(dir)
    }

    fn config(&self) -> EmbeddedConfig {
        config(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

fn config(state_dir: &Path) -> EmbeddedConfig {
    let mut config = EmbeddedConfig::new(state_dir, "the first 'password".into());
    config.project_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    config.bin_dir = std::env::var_os("BASALT_TEST_POSTGRES_BIN").map(PathBuf::from);
    config.fallback_dir = state_dir.with_extension("fallback");
    config.durable = false;
    config
}

async fn start(config: EmbeddedConfig) -> Result<Embedded, EmbeddedError> {
    Embedded::start(config, |step| println!("{step}")).await
}

async fn ask(embedded: &Embedded, sql: &str) -> Result<String, tokio_postgres::Error> {
    let (client, connection) = embedded.connect_config().connect(NoTls).await?;
    let connection = tokio::spawn(connection);
    let response = client.query_one(sql, &[]).await?.get(0);
    drop(client);
    connection.await.unwrap()?;
    Ok(response)
}

fn postmaster_pid(data_dir: &Path) -> Option<Pid> {
    let text = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    Pid::from_raw(text.lines().next()?.parse().ok()?)
}

fn is_alive(pid: Pid) -> bool {
    Path::new(&format!("/proc/{}/exe", pid.as_raw_nonzero())).read_link().is_ok()
}

/// The number of PostgreSQL processes in `data_dir`.
fn servers_on(data_dir: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|entry| {
            fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim() == "postgres")
        })
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == data_dir))
        .filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(b"/")))
        // A new child has its postmaster's command line until it sets its title.
        .filter(|entry| !is_child_of_postgres(&entry.path()))
        .count()
}

fn is_child_of_postgres(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap_or_default().trim();
    fs::read_to_string(Path::new("/proc").join(parent).join("comm"))
        .is_ok_and(|comm| comm.trim() == "postgres")
}

/// A child process that runs the embedded PostgreSQL in `state_dir` until it is killed.
struct ChildServer(Child);

impl ChildServer {
    fn spawn(state_dir: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "embedded::child_server", "--ignored", "--nocapture"])
            .env(STATE_DIR_VARIABLE, state_dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Reads its output up to a line that contains `text`.
    fn wait_for(&mut self, text: &str) {
        let output = self.0.stdout.take().unwrap();
        let mut lines = BufReader::new(output).lines();
        let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains(text));
        assert!(found, "the child exited before it printed {text:?}");
        self.0.stdout = None;
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
#[ignore = "not a test: the child process of tests that kill a server"]
fn child_server() {
    let Some(state_dir) = std::env::var_os(STATE_DIR_VARIABLE) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let embedded = start(config(Path::new(&state_dir))).await.unwrap();
        println!("READY {}", embedded.port());
        std::future::pending::<()>().await;
    });
}

#[tokio::test]
async fn new_cluster_has_expected_settings_and_passwords() {
    let folder = Folder::new("new").await;
    let mut config = folder.config();
    config.durable = true;
    let mut steps = Vec::new();
    let embedded = Embedded::start(config, |step| steps.push(step.to_owned())).await.unwrap();
    assert!(embedded.is_new());
    assert!(steps.iter().any(|step| step.starts_with("initialising PostgreSQL")), "{steps:?}");
    let setting =
        async |name: &str| ask(&embedded, &format!("select current_setting('{name}')")).await.unwrap();
    assert_eq!(setting("server_encoding").await, "UTF8");
    assert_eq!(setting("wal_level").await, "logical");
    assert_eq!(setting("max_slot_wal_keep_size").await, "1GB");
    assert_eq!((setting("fsync").await, setting("synchronous_commit").await), ("on".into(), "on".into()));
    assert_eq!(setting("timezone").await, "UTC");
    assert_eq!(setting("listen_addresses").await, "127.0.0.1");
    assert_eq!(ask(&embedded, "select current_user::text").await.unwrap(), "supabase_admin");
    let locale = ask(
        &embedded,
        "select datcollate || ' ' || datlocprovider::text from pg_database where datname = 'template1'",
    );
    let expected = if embedded.version() >= "17" { "C.UTF-8 b" } else { "C.UTF-8 c" };
    assert_eq!(locale.await.unwrap(), expected);
    if embedded.version() >= "18" {
        let extensions = embedded.extensions_dir().to_str().unwrap();
        assert_eq!(setting("extension_control_path").await, format!("{extensions}:$system"));
    }

    let mut wrong = embedded.connect_config();
    wrong.password("wrong");
    assert!(wrong.connect(NoTls).await.is_err(), "the socket requires the password");
    let url = embedded.connection_string("supabase_admin", embedded.superuser_password(), "postgres");
    let by_url: tokio_postgres::Config = secrecy::ExposeSecret::expose_secret(&url).parse().unwrap();
    assert!(by_url.connect(NoTls).await.is_ok());

    let pid = postmaster_pid(embedded.data_dir()).unwrap();
    embedded.stop().await;
    assert_eq!(*embedded.state().borrow(), State::Stopped);
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn second_start_keeps_data_and_skips_initialisation() {
    let folder = Folder::new("again").await;
    let begun = Instant::now();
    let first = start(folder.config()).await.unwrap();
    let initialised = begun.elapsed();
    ask(&first, "with made as (select set_config('x.y', 'z', false)) select * from made").await.unwrap();
    first.stop().await;
    drop(first);
    let begun = Instant::now();
    let second = start(folder.config()).await.unwrap();
    let started = begun.elapsed();
    assert!(!second.is_new());
    assert!(started < initialised, "second start took {started:?}, the first {initialised:?}");
    second.stop().await;
}

#[tokio::test]
async fn second_owner_is_rejected_with_the_first_ones_pid() {
    let folder = Folder::new("owner").await;
    let first = start(folder.config()).await.unwrap();
    let refusal = start(folder.config()).await.unwrap_err();
    assert!(matches!(&refusal, EmbeddedError::InUse { .. }), "{refusal}");
    assert!(refusal.to_string().contains(&format!("pid {}", std::process::id())), "{refusal}");
    assert_eq!(ask(&first, "select 'unharmed'").await.unwrap(), "unharmed");
    let seen = Embedded::running(&folder.config())
        .expect("the running server is found, as `basalt user create` needs");
    assert!(seen.connect(NoTls).await.is_ok());
    first.stop().await;
    drop(first);
    assert!(Embedded::running(&folder.config()).is_none());
}

#[tokio::test]
async fn killed_postgres_is_restarted() {
    let folder = Folder::new("killed").await;
    let embedded = start(folder.config()).await.unwrap();
    let mut state = embedded.state();
    for _ in 0..3 {
        let killed = postmaster_pid(embedded.data_dir()).unwrap();
        kill_process(killed, Signal::KILL).unwrap();
        let restarting = state.wait_for(|state| matches!(state, State::Restarting { .. }));
        tokio::time::timeout(Duration::from_secs(30), restarting).await.unwrap().unwrap();
        let ready = state.wait_for(|state| *state == State::Ready);
        tokio::time::timeout(Duration::from_secs(30), ready).await.unwrap().unwrap();
        assert_ne!(postmaster_pid(embedded.data_dir()), Some(killed));
        assert_eq!(ask(&embedded, "select 'back'").await.unwrap(), "back");
    }
    embedded.stop().await;
    assert_eq!(servers_on(embedded.data_dir()), 0);
}

#[tokio::test]
async fn taken_port_does_not_prevent_a_restart() {
    let folder = Folder::new("porttaken").await;
    let embedded = start(folder.config()).await.unwrap();
    let mut state = embedded.state();
    kill_process(postmaster_pid(embedded.data_dir()).unwrap(), Signal::KILL).unwrap();
    state.wait_for(|state| matches!(state, State::Restarting { .. })).await.unwrap();
    // Take the port during the pause before the restart.
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, embedded.port()));
    let ready = state.wait_for(|state| *state == State::Ready);
    tokio::time::timeout(Duration::from_secs(30), ready).await.unwrap().unwrap();
    assert_eq!(ask(&embedded, "select 'by socket'").await.unwrap(), "by socket");
    let listens = ask(&embedded, "select current_setting('listen_addresses')").await.unwrap();
    assert_eq!(listens.is_empty(), taken.is_ok());
    embedded.stop().await;
}

#[tokio::test]
async fn orphaned_postgres_is_replaced() {
    let folder = Folder::new("orphan").await;
    let mut server = ChildServer::spawn(&folder.0);
    server.wait_for("READY");
    server.kill();
    let data_dir = fs::read_to_string(folder.0.join("postgres.location"))
        .map_or(folder.0.join("postgres"), |home| Path::new(home.trim()).join("postgres"));
    let orphan = postmaster_pid(&data_dir).unwrap();
    assert!(is_alive(orphan), "the test needs an orphaned PostgreSQL");
    let embedded = start(folder.config()).await.unwrap();
    assert!(!is_alive(orphan));
    assert_eq!(servers_on(embedded.data_dir()), 1);
    // Also when both processes were killed.
    kill_process(postmaster_pid(embedded.data_dir()).unwrap(), Signal::KILL).unwrap();
    embedded.stop().await;
    drop(embedded);
    let embedded = start(folder.config()).await.unwrap();
    assert_eq!(ask(&embedded, "select 'here'").await.unwrap(), "here");
    embedded.stop().await;
}

#[tokio::test]
async fn kill_during_the_first_start_needs_no_repair() {
    let rounds: u32 = std::env::var("BASALT_TEST_KILL_ROUNDS").map_or(4, |text| text.parse().unwrap());
    let folder = Folder::new("moments").await;
    for round in 0..rounds {
        let state_dir = folder.0.join(format!("round-{round}"));
        let mut server = ChildServer::spawn(&state_dir);
        // The kills are spread over a first start, including initdb; the exact moments do not matter.
        tokio::time::sleep(Duration::from_millis(150 + u64::from(round * 443 % 2_000))).await;
        server.kill();
        let embedded = start(config(&state_dir)).await.unwrap();
        assert_eq!(ask(&embedded, "select 'whole'").await.unwrap(), "whole", "round {round}");
        assert_eq!(servers_on(embedded.data_dir()), 1);
        assert!(!embedded.data_dir().with_extension("new").exists());
        embedded.stop().await;
    }
}

#[tokio::test]
async fn stop_during_the_start_waits_for_postgresql() {
    let folder = Folder::new("stopped").await;
    let state_dir = folder.0.join("state");
    let mut server = Basalt::command(&folder.0)
        .env("BASALT_DATABASE_BIN_DIR", Cluster::get().await.bin_dir())
        .env("BASALT_SERVER_APP_DIR", "")
        .args(["serve", "--data", state_dir.to_str().unwrap(), "--port", &free_port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let data_dir = state_dir.join("postgres");
    let begun = Instant::now();
    while servers_on(&data_dir) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "PostgreSQL was not started");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    kill_process(Pid::from_raw(server.id().try_into().unwrap()).unwrap(), Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(servers_on(&data_dir), 0);
}

#[tokio::test]
async fn taken_port_is_an_error_only_if_configured() {
    let folder = Folder::new("port").await;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut config = folder.config();
    config.port = Some(taken.local_addr().unwrap().port());
    let error = start(config).await.unwrap_err().to_string();
    assert!(error.contains("is in use") && error.contains("database.port"), "{error}");
    let embedded = start(folder.config()).await.unwrap();
    assert!(embedded.port() >= 54_322);
    embedded.stop().await;
}

#[tokio::test]
async fn wrong_password_is_rejected_until_reset() {
    let folder = Folder::new("secrets").await;
    start(folder.config()).await.unwrap().stop().await;
    let mut config = folder.config();
    config.password = "another' password".into();
    let error = start(config.clone()).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::OtherPassword { .. }), "{error}");
    assert!(error.to_string().contains("`basalt secrets reset`"), "{error}");
    start(folder.config()).await.expect("the failed start changed nothing").stop().await;

    Embedded::reset_password(config.clone(), |_| {}).await.unwrap();
    let embedded = start(config.clone()).await.unwrap();
    assert_eq!(ask(&embedded, "select 'mine again'").await.unwrap(), "mine again");
    let error = Embedded::reset_password(config, |_| {}).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::InUse { .. }), "{error}");
    embedded.stop().await;
    drop(embedded);
    let error = start(folder.config()).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::OtherPassword { .. }), "{error}");
}

#[tokio::test]
async fn data_of_another_version_names_the_needed_version() {
    let folder = Folder::new("version").await;
    let data = folder.0.join("postgres");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("PG_VERSION"), "11\n").unwrap();
    let error = start(folder.config()).await.unwrap_err().to_string();
    assert!(error.contains("created by PostgreSQL 11"), "{error}");

    fs::write(data.join("PG_VERSION"), "").unwrap();
    fs::rename(data.join("PG_VERSION"), data.join("holiday.jpg")).unwrap();
    let error = start(folder.config()).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::NotACluster { .. }), "{error}");
    assert!(data.join("holiday.jpg").exists(), "foreign files are not deleted");
}

#[tokio::test]
async fn bin_dir_without_programs_is_rejected() {
    let folder = Folder::new("nobin").await;
    let mut config = folder.config();
    config.bin_dir = Some(folder.0.clone());
    let error = start(config).await.unwrap_err().to_string();
    assert!(error.contains("database.bin_dir"), "{error}");
}

/// `/root` is 0700 on most systems: data and programs must be moved to where PostgreSQL's user can enter.
#[tokio::test]
async fn as_root_data_leaves_an_inaccessible_folder() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = Folder::on_disk("closed");
    let closed = folder.0.join("closed");
    let project = closed.join("project");
    fs::create_dir_all(&project).unwrap();
    let found = start(folder.config()).await.unwrap();
    let prefix = found.bin_dir().parent().unwrap().to_path_buf();
    found.stop().await;
    let copied = Command::new("cp").arg("-a").arg(&prefix).arg(closed.join("native")).status().unwrap();
    assert!(copied.success());
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();

    let mut config = config(&project.join(".basalt"));
    config.bin_dir = Some(closed.join("native/bin"));
    config.fallback_dir = folder.0.join("var");
    let embedded = start(config.clone()).await.unwrap();
    assert!(embedded.data_dir().starts_with(folder.0.join("var")));
    let notices = embedded.notices().join("\n");
    assert!(notices.contains("the data is in") && notices.contains("cannot enter"), "{notices}");
    if !prefix.starts_with("/usr") {
        assert!(embedded.bin_dir().starts_with(folder.0.join("var")), "{}", embedded.bin_dir().display());
    }
    assert_ne!(fs::metadata(embedded.data_dir()).unwrap().uid(), 0);
    assert_eq!(ask(&embedded, "select 'moved'").await.unwrap(), "moved");
    embedded.stop().await;
    drop(embedded);
    let again = start(config).await.unwrap();
    assert!(!again.is_new(), "the next start uses the moved data");
    again.stop().await;
}

/// A state directory with mode 0700 is opened only to PostgreSQL's group.
#[tokio::test]
async fn as_root_state_folder_is_opened_to_postgres_group() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: not root");
        return;
    }
    let folder = Folder::new("state").await;
    let state_dir = folder.0.join(".basalt");
    fs::create_dir(&state_dir).unwrap();
    fs::set_permissions(&state_dir, fs::Permissions::from_mode(0o700)).unwrap();
    let embedded = start(config(&state_dir)).await.unwrap();
    assert_eq!(fs::metadata(&state_dir).unwrap().mode() & 0o777, 0o710);
    assert!(embedded.data_dir().starts_with(&state_dir));
    embedded.stop().await;
}
