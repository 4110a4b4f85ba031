//! `basalt doctor` against real machines: free and taken ports, whole and broken folders, a PostgreSQL that answers,
//! one that does not, and one behind a transaction pooler.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers fail a test as the tests do")]

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use basalt::config::{CommandLine, Config, Only};
use basalt_testkit::{Cluster, TestDatabase, free_port};
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

/// The line about `subject`.
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
async fn a_new_machine_is_told_what_is_still_to_come() {
    let dir = tempfile::tempdir().unwrap();
    let bin_dir = Cluster::get().await.bin_dir().display().to_string();
    let (passed, report) = doctor(dir.path(), &[("database.bin_dir", &bin_dir)], None).await;
    assert!(passed, "{report}");
    assert!(line(&report, "secrets").starts_with("ok"), "{report}");
    assert!(line(&report, "port").contains("is free"), "{report}");
    assert!(
        line(&report, "app").starts_with("warn") && line(&report, "app").contains("cargo xtask dev"),
        "{report}"
    );
    assert!(line(&report, "postgresql").starts_with("ok"), "{report}");
    assert!(line(&report, "database").contains("not running"), "{report}");
    assert!(!dir.path().join(".basalt").exists(), "the doctor makes nothing");
}

#[tokio::test]
async fn a_taken_port_is_a_failure_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let (passed, report) = doctor(dir.path(), &[("server.port", &port)], None).await;
    assert!(!passed);
    assert!(
        line(&report, "port").starts_with("FAIL") && line(&report, "port").contains("--port"),
        "{report}"
    );
    assert!(report.ends_with("mend the failures first.\n"), "{report}");
}

#[tokio::test]
async fn damaged_secrets_and_open_folders_are_named() {
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
async fn a_postgresql_that_answers_is_looked_into() {
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
async fn an_unreachable_server_and_a_wrong_password_are_one_sentence_each() {
    let (dir, database) = (tempfile::tempdir().unwrap(), database().await);
    let nowhere = format!("postgresql://u:secret-word@127.0.0.1:{}/d", free_port());
    let (passed, report) = doctor(dir.path(), &[("database.url", &nowhere)], None).await;
    assert!(!passed && line(&report, "database").contains("check host and port"), "{report}");
    let wrong =
        format!("postgresql://supabase_admin:secret-word@127.0.0.1:{}/postgres", database.cluster().port());
    let (passed, report) = doctor(dir.path(), &[("database.url", &wrong)], None).await;
    assert!(!passed && line(&report, "database").contains("check user and password"), "{report}");
    assert!(!report.contains("secret-word"), "{report}");
}

#[tokio::test]
async fn a_login_with_few_rights_hears_what_it_lacks() {
    let (dir, database) = (tempfile::tempdir().unwrap(), database().await);
    let name = database.name().to_owned();
    database.admin_sql(&format!("create role weak_{name} login password 'weak'")).await;
    let url = format!("postgresql://weak_{name}:weak@127.0.0.1:{}/{name}", database.cluster().port());
    let (passed, report) = doctor(dir.path(), &[("database.url", &url)], None).await;
    assert!(!passed);
    for wanted in ["lacks CREATEROLE", "lacks BYPASSRLS", "no event trigger", "grant create on database"] {
        assert!(report.contains(wanted), "{wanted}: {report}");
    }
    // Alone, rest wants a weak login, a role to become, and schemas that exist.
    let settings = [
        ("database.url", url.as_str()),
        ("rest.anon_role", "nobody_here"),
        ("rest.schemas", "public,nowhere"),
    ];
    let (passed, report) = doctor(dir.path(), &settings, Some(Only::Rest)).await;
    assert!(!passed && line(&report, "rights").starts_with("ok"), "{report}");
    assert!(report.contains("there is no schema nowhere") && report.contains("rest.anon_role"), "{report}");
    database.admin_sql(&format!("drop role weak_{name}")).await;
}

#[tokio::test]
async fn another_servers_database_and_its_demo_accounts_are_named_in_production() {
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
    assert!(!passed && line(&report, "instance").contains("secrets are not here"), "{report}");
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
    basalt::secrets::print_keys(&config, secrets.api_keys(), &mut listing).unwrap();
    let (_, report) = doctor(dir.path(), &settings, None).await;
    assert!(line(&report, "instance").contains("another master key"), "{report}");
    database
        .admin_sql(&format!("update basalt.instance set fingerprint = '{}'", secrets.fingerprint()))
        .await;
    let (_, report) = doctor(dir.path(), &settings, None).await;
    assert!(line(&report, "instance").starts_with("ok"), "{report}");
}

#[tokio::test]
async fn a_transaction_pooler_is_recognised() {
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

/// A transaction pooler at its smallest: every client's statements run on the one backend, like those of pgbouncer
/// in transaction mode with a pool of one. pgbouncer itself is in no registry we use.
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
        let mut answer = Vec::new();
        for message in backend.simple_query(&query).await.unwrap() {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    let mut body = u16::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
                    for column in columns.iter() {
                        body.extend(column.name().as_bytes());
                        body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0]);
                    }
                    frame(&mut answer, b'T', &body);
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
                    frame(&mut answer, b'D', &body);
                }
                SimpleQueryMessage::CommandComplete(_) => frame(&mut answer, b'C', b"SELECT 1\0"),
                _ => {}
            }
        }
        frame(&mut answer, b'Z', b"I");
        client.write_all(&answer).await?;
    }
    Ok(())
}

fn frame(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    out.extend(u32::try_from(body.len() + 4).unwrap().to_be_bytes());
    out.extend(body);
}

/// A Stripe that answers each request with this status, `off` seconds ahead of this machine; its address.
async fn stripe(status: u16, off: i64) -> String {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            let asked = String::from_utf8_lossy(request.get(..read).unwrap_or_default()).to_lowercase();
            assert!(asked.contains("authorization: bearer sk_test_x"), "{asked}");
            let time = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(off);
            let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap();
            let answer = format!(
                "HTTP/1.1 {status} X\r\nDate: {date}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn stripes_key_and_clock_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let look = async |status: u16, off: i64| {
        let base = stripe(status, off).await;
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
    assert!(line(&report, "payments").contains("double of Stripe"), "{report}");
}
