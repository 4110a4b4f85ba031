//! `basalt doctor`: ports, directories, secrets, PostgreSQL (reachable, unreachable, behind a transaction pooler), Stripe.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers fail a test as the tests do")]

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use basalt::config::{CommandLine, Config, Only};
use basalt_testkit::{Cluster, HttpStub, Reply, TestDatabase, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

fn config(dir: &Path, settings: &[(&str, &str)], only: Option<Only>) -> Config {
    let environment = settings
        .iter()
        .map(|(name, text)| (format!("BASALT_{}", name.to_ascii_uppercase().replace('.', "_")), text))
        .map(|(name, text)| (OsString::from(name), OsString::from(text)))
        .collect();
    let command_line = CommandLine { only, ..CommandLine::default() };
    Config::from_origin(&command_line, environment, dir.to_path_buf()).unwrap()
}

/// Whether it passed, and the report.
async fn doctor(dir: &Path, settings: &[(&str, &str)], only: Option<Only>) -> (bool, String) {
    let mut out = Vec::new();
    let port = free_port().to_string();
    let mut all = settings.to_vec();
    if !settings.iter().any(|(name, _)| *name == "server.port") {
        all.push(("server.port", &port));
    }
    let passed = basalt::doctor::run(&config(dir, &all, only), &mut out).await.unwrap();
    (passed, String::from_utf8(out).unwrap())
}

/// The report line of `subject`.
fn line<'a>(report: &'a str, subject: &str) -> &'a str {
    let found = report
        .lines()
        .find(|line| line.get(6..).is_some_and(|rest| rest.starts_with(&format!("{subject} "))));
    found.unwrap_or_else(|| panic!("nothing about {subject} in:\n{report}"))
}

async fn database() -> TestDatabase {
    Cluster::get().await.empty_database().await
}

#[tokio::test]
async fn new_machine_passes() {
    let dir = tempfile::tempdir().unwrap();
    let bin_dir = Cluster::get().await.bin_dir().display().to_string();
    let (passed, report) = doctor(dir.path(), &[("database.bin_dir", &bin_dir)], None).await;
    assert!(passed, "{report}");
    assert!(line(&report, "secrets").starts_with("ok"), "{report}");
    assert!(line(&report, "port").contains("is free"), "{report}");
    assert!(
        line(&report, "app").starts_with("ok") && line(&report, "app").contains("cargo xtask dev"),
        "{report}"
    );
    assert!(line(&report, "postgresql").starts_with("ok"), "{report}");
    assert!(line(&report, "database").contains("not running"), "{report}");
    assert!(!dir.path().join(".basalt").exists(), "the doctor created files");
}

#[tokio::test]
async fn taken_port_fails_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let (passed, report) = doctor(dir.path(), &[("server.port", &port)], None).await;
    assert!(!passed);
    assert!(
        line(&report, "port").starts_with("FAIL") && line(&report, "port").contains("--port"),
        "{report}"
    );
    assert!(report.ends_with("fix the failures first.\n"), "{report}");
}

#[tokio::test]
async fn damaged_secrets_and_open_permissions_fail() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join(".basalt");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(state.join("secrets.json"), "{").unwrap();
    let (passed, report) = doctor(dir.path(), &[], None).await;
    assert!(!passed);
    assert!(report.contains("chmod 700") && report.contains("damaged"), "{report}");
    assert_eq!(std::fs::read_to_string(state.join("secrets.json")).unwrap(), "{");
}

#[tokio::test]
async fn reachable_postgresql_is_checked() {
    let (dir, database) = (tempfile::tempdir().unwrap(), database().await);
    let url = database.url();
    let (passed, report) = doctor(dir.path(), &[("database.url", &url)], None).await;
    assert!(passed, "{report}");
    for subject in ["database", "pooler", "rights", "connections", "clock", "instance"] {
        assert!(line(&report, subject).starts_with("ok"), "{report}");
    }
    let (passed, report) =
        doctor(dir.path(), &[("database.url", &url), ("database.pool_size", "1000")], None).await;
    assert!(!passed && line(&report, "connections").contains("database.pool_size"), "{report}");
}

#[tokio::test]
async fn unreachable_server_and_wrong_password_fail() {
    let (dir, database) = (tempfile::tempdir().unwrap(), database().await);
    let nowhere = format!("postgresql://u:secret-word@127.0.0.1:{}/d", free_port());
    let (passed, report) = doctor(dir.path(), &[("database.url", &nowhere)], None).await;
    assert!(!passed && line(&report, "database").contains("check host and port"), "{report}");
    let wrong =
        format!("postgresql://supabase_admin:secret-word@127.0.0.1:{}/postgres", database.cluster().port());
    let (passed, report) = doctor(dir.path(), &[("database.url", &wrong)], None).await;
    assert!(!passed && line(&report, "database").contains("check the user and password"), "{report}");
    assert!(!report.contains("secret-word"), "{report}");
}

#[tokio::test]
async fn login_without_privileges_lists_what_is_missing() {
    let (dir, database) = (tempfile::tempdir().unwrap(), database().await);
    let name = database.name().to_owned();
    database.admin_sql(&format!("create role weak_{name} login password 'weak'")).await;
    let url = format!("postgresql://weak_{name}:weak@127.0.0.1:{}/{name}", database.cluster().port());
    let (passed, report) = doctor(dir.path(), &[("database.url", &url)], None).await;
    assert!(!passed);
    for wanted in [
        "lacks CREATEROLE",
        "lacks BYPASSRLS",
        "event triggers cannot be created",
        "grant create on database",
    ] {
        assert!(report.contains(wanted), "{wanted}: {report}");
    }
    // `--only rest` needs a login that can switch to a role, and existing schemas.
    let settings = [
        ("database.url", url.as_str()),
        ("rest.anon_role", "nobody_here"),
        ("rest.schemas", "public,nowhere"),
    ];
    let (passed, report) = doctor(dir.path(), &settings, Some(Only::Rest)).await;
    assert!(!passed && line(&report, "rights").starts_with("ok"), "{report}");
    assert!(
        report.contains("schema nowhere does not exist") && report.contains("rest.anon_role"),
        "{report}"
    );
    database.admin_sql(&format!("drop role weak_{name}")).await;
}

#[tokio::test]
async fn foreign_database_and_demo_accounts_are_reported() {
    let (dir, database) = (tempfile::tempdir().unwrap(), database().await);
    database
        .admin_sql(
            "create schema basalt; create schema auth; create table auth.users (email varchar(255));
             insert into auth.users values ('demo@basalt.local'), ('real@example.org');
             create table basalt.instance (fingerprint text); insert into basalt.instance values ('master_key:other')",
        )
        .await;
    std::fs::write(
        dir.path().join("seed.sql"),
        "insert into x values ('demo@basalt.local'), ('gone@basalt.local')",
    )
    .unwrap();
    let url = database.url();
    let settings = [("database.url", url.as_str()), ("server.mode", "production"), ("server.app_dir", "")];
    let (passed, report) = doctor(dir.path(), &settings, None).await;
    assert!(
        !passed && line(&report, "instance").contains("server with other secrets, and there are none here"),
        "{report}"
    );
    let demo = line(&report, "demo accounts");
    assert!(
        demo.contains("demo@basalt.local") && !demo.contains("gone@") && !demo.contains("real@"),
        "{report}"
    );
    let state = dir.path().join(".basalt");
    std::fs::create_dir(&state).unwrap();
    let mut listing = Vec::new();
    let config = config(dir.path(), &settings, None);
    let secrets = basalt::secrets::Secrets::load(&config).unwrap();
    basalt::secrets::print_keys(config.server.public_url.as_str(), secrets.api_keys(), &mut listing).unwrap();
    let (_, report) = doctor(dir.path(), &settings, None).await;
    assert!(line(&report, "instance").contains("another master key"), "{report}");
    database
        .admin_sql(&format!("update basalt.instance set fingerprint = '{}'", secrets.fingerprint()))
        .await;
    let (_, report) = doctor(dir.path(), &settings, None).await;
    assert!(line(&report, "instance").starts_with("ok"), "{report}");
}

#[tokio::test]
async fn transaction_pooler_is_detected() {
    let (dir, database) = (tempfile::tempdir().unwrap(), database().await);
    let (backend, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    let pooler = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let SocketAddr::V4(address) = pooler.local_addr().unwrap() else { panic!("an IPv4 address") };
    let backend = Arc::new(backend);
    let serving = tokio::spawn(async move {
        while let Ok((client, _)) = pooler.accept().await {
            tokio::spawn(pool(client, Arc::clone(&backend)));
        }
    });
    let url = format!("postgresql://pooled@127.0.0.1:{}/{}?sslmode=disable", address.port(), database.name());
    let (passed, report) = doctor(dir.path(), &[("database.url", &url)], None).await;
    assert!(!passed && line(&report, "pooler").contains("session mode"), "{report}");
    serving.abort();
    driver.abort();
}

/// A minimal transaction pooler: all clients share one backend, like pgbouncer in transaction mode with a pool of one.
/// pgbouncer itself is not in a registry that we use.
async fn pool(mut client: TcpStream, backend: Arc<Client>) -> std::io::Result<()> {
    let length = client.read_u32().await?;
    let mut startup = vec![0; length as usize - 4];
    client.read_exact(&mut startup).await?;
    // AuthenticationOk, ReadyForQuery.
    client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await?;
    while let Ok(b'Q') = client.read_u8().await {
        let length = client.read_u32().await?;
        let mut query = vec![0; length as usize - 4];
        client.read_exact(&mut query).await?;
        let query = String::from_utf8_lossy(query.strip_suffix(&[0]).unwrap_or(&query)).into_owned();
        let mut response = Vec::new();
        for message in backend.simple_query(&query).await.unwrap() {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    let mut body = u16::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
                    for column in columns.iter() {
                        body.extend(column.name().as_bytes());
                        body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0]);
                    }
                    frame(&mut response, b'T', &body);
                }
                SimpleQueryMessage::Row(row) => {
                    let mut body = u16::try_from(row.len()).unwrap().to_be_bytes().to_vec();
                    for column in 0..row.len() {
                        match row.get(column) {
                            Some(text) => {
                                body.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                                body.extend(text.as_bytes());
                            }
                            None => body.extend([255; 4]),
                        }
                    }
                    frame(&mut response, b'D', &body);
                }
                SimpleQueryMessage::CommandComplete(_) => frame(&mut response, b'C', b"SELECT 1\0"),
                _ => {}
            }
        }
        frame(&mut response, b'Z', b"I");
        client.write_all(&response).await?;
    }
    Ok(())
}

fn frame(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    out.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    out.extend(body);
}

/// Starts a Stripe that returns this status, with a clock `offset` seconds ahead of this machine.
async fn stripe(status: u16, offset: i64) -> HttpStub {
    HttpStub::start(move |request| {
        assert_eq!(request.header("authorization"), "Bearer sk_test_x");
        let time = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(offset);
        let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap();
        Reply::RespondWith(status, vec![("date", date)], "{}".to_owned())
    })
    .await
}

#[tokio::test]
async fn stripe_key_and_clock_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let look = async |status: u16, off: i64| {
        let stripe = stripe(status, off).await;
        let base = stripe.url();
        let settings = [
            ("functions.builtin", "true"),
            ("stripe.secret_key", "sk_test_x"),
            ("stripe.api_base", base.as_str()),
        ];
        let (_, report) = doctor(dir.path(), &settings, Some(Only::Functions)).await;
        let lines = report.lines().filter(|line| line.contains("payments "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let good = look(200, 0).await;
    assert!(good.len() == 2 && good.iter().all(|line| line.starts_with("ok")), "{good:?}");
    let refused = look(401, 0).await;
    assert!(refused[0].starts_with("FAIL") && refused[0].contains("stripe.secret_key"), "{refused:?}");
    assert!(!refused[0].contains("sk_test_x"));
    for (off, word, direction) in
        [(400, "FAIL", "behind"), (-400, "FAIL", "ahead of"), (100, "warn", "behind")]
    {
        let off = look(200, off).await;
        assert!(off[1].starts_with(word) && off[1].contains(direction), "{off:?}");
    }
    let settings = [("functions.builtin", "true")];
    let (_, report) = doctor(dir.path(), &settings, Some(Only::Functions)).await;
    assert!(line(&report, "payments").contains("basalt-stripe-double"), "{report}");
}

#[tokio::test]
async fn missing_app_passes_in_production() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("server.mode", "production"), ("server.public_url", "https://plans.example.org")];
    let (_, report) = doctor(dir.path(), &settings, None).await;
    let app = line(&report, "app");
    assert!(app.starts_with("ok") && app.contains("server.app_dir"), "{report}");
}

#[tokio::test]
async fn data_of_another_postgresql_version_fails() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join(".basalt/postgres");
    std::fs::create_dir_all(&data).unwrap();
    let bin_dir = Cluster::get().await.bin_dir().display().to_string();
    let settings = [("database.bin_dir", bin_dir.as_str())];
    std::fs::write(data.join("PG_VERSION"), "15\n").unwrap();
    let (passed, report) = doctor(dir.path(), &settings, None).await;
    let found = line(&report, "data");
    assert!(!passed && found.starts_with("FAIL"), "{report}");
    for expected in ["PostgreSQL 15", "database.bin_dir", "basalt backup --dump"] {
        assert!(found.contains(expected), "{expected}: {report}");
    }
    std::fs::remove_file(data.join("PG_VERSION")).unwrap();
    std::fs::write(data.join("something"), "").unwrap();
    let (passed, report) = doctor(dir.path(), &settings, None).await;
    assert!(!passed && line(&report, "data").contains("is not empty"), "{report}");
}

#[tokio::test]
async fn newer_releases_database_fails() {
    let dir = tempfile::tempdir().unwrap();
    let database = Cluster::get().await.database(dir.path()).await;
    database
        .admin_sql("insert into basalt.system_migrations (service, version, name, checksum) values ('auth', 9001, 'x', 'y')")
        .await;
    let (passed, report) = doctor(dir.path(), &[("database.url", &database.url())], None).await;
    let found = line(&report, "release");
    assert!(!passed && found.starts_with("FAIL") && found.contains("auth/9001_x"), "{report}");
}

#[tokio::test]
async fn migrations_of_another_tool_fail() {
    let dir = tempfile::tempdir().unwrap();
    let database = Cluster::get().await.database(dir.path()).await;
    let url = database.url();
    let migrations = dir.path().join("migrations");
    std::fs::create_dir(&migrations).unwrap();
    for name in ["0001_plans", "0002_tasks"] {
        std::fs::write(migrations.join(format!("{name}.sql")), format!("create table public.t{name} ()"))
            .unwrap();
    }
    // The history table of `supabase db push`.
    database
        .admin_sql(
            "set role postgres; create schema if not exists supabase_migrations;
             create table supabase_migrations.schema_migrations (version text primary key, statements text[], name text);
             insert into supabase_migrations.schema_migrations values ('0001', '{}', 'plans'), ('0007', '{}', 'other'); reset role",
        )
        .await;
    let settings = [("database.url", url.as_str())];
    let (passed, report) = doctor(dir.path(), &settings, None).await;
    let found = line(&report, "project");
    assert!(!passed && found.starts_with("FAIL"), "{report}");
    for expected in ["migrations/0001_plans.sql", "supabase db push", "basalt migrate --adopt"] {
        assert!(found.contains(expected), "{expected}: {report}");
    }
    assert!(!found.contains("0002"), "{report}");
    // The server's start reports the same, and the remedy works.
    let state = Cluster::get().await.secrets_dir().await;
    let start = |arguments: &[&str]| {
        let mut command = basalt_testkit::Basalt::command(dir.path());
        command
            .arg("migrate")
            .args(arguments)
            .env("BASALT_DATABASE_URL", &url)
            .env("BASALT_SERVER_STATE_DIR", state);
        command.output().unwrap()
    };
    let stderr = String::from_utf8(start(&[]).stderr).unwrap();
    assert!(stderr.contains("migrations/0001_plans.sql") && stderr.contains("supabase db push"), "{stderr}");
    let output = start(&["--adopt"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (_, report) = doctor(dir.path(), &settings, None).await;
    assert!(line(&report, "project").starts_with("ok"), "{report}");
    assert_eq!(database.count("pg_tables where tablename ~ '^t000'").await, 1);
}

#[tokio::test]
async fn second_server_needs_a_bus_and_shared_files() {
    let server = basalt_testkit::Basalt::start().await;
    let url = server.database().url();
    // A running server is visible by its replication slot.
    let slots = "pg_replication_slots where database = current_database() and active";
    while server.database().count(slots).await == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = basalt_testkit::Basalt::command(dir.path());
    let output = command.arg("doctor").env("BASALT_DATABASE_URL", &url).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success(), "{report}");
    for (subject, remedy) in [("servers", "realtime.nats_url"), ("objects", "storage.backend")] {
        let found = report.lines().find(|line| line.starts_with("FAIL") && line.contains(subject));
        assert!(found.is_some_and(|line| line.contains(remedy)), "{subject}: {report}");
    }
    // With only one server, no sharing is needed.
    let output =
        server.same_settings().args(["doctor", "--port", &server.port().to_string()]).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(!report.contains("realtime.nats_url") && !report.contains("storage.backend"), "{report}");
}

#[tokio::test]
async fn untrusted_proxy_fails() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("server.public_url", "https://plans.example.org"), ("server.app_dir", "")];
    let (passed, report) = doctor(dir.path(), &settings, None).await;
    let found = line(&report, "proxy");
    assert!(!passed && found.starts_with("FAIL") && found.contains("server.trusted_proxies"), "{report}");
    let mut settings = settings.to_vec();
    settings.push(("server.trusted_proxies", "10.0.0.1"));
    let (_, report) = doctor(dir.path(), &settings, None).await;
    assert!(line(&report, "proxy").starts_with("ok"), "{report}");

    // A running server got requests from a proxy that is not in the list.
    let server = basalt_testkit::Basalt::builder().expect_log("server.trusted_proxies").start().await;
    let beside = || {
        let mut command = server.same_settings();
        let output = command.args(["doctor", "--port", &server.port().to_string()]).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (_, report) = beside();
    assert!(!report.lines().any(|line| line.contains("proxy ")), "{report}");
    for _ in 0..2 {
        server.get("/auth/v1/health").header("x-forwarded-for", "203.0.113.7").send().await.expect(200);
    }
    let (passed, report) = beside();
    let found = line(&report, "proxy");
    assert!(!passed && found.starts_with("FAIL") && found.contains("127.0.0.1"), "{report}");
    let logged = server.log().into_iter().filter(|line| line.raw.contains("server.trusted_proxies")).count();
    assert_eq!(logged, 1);
}
