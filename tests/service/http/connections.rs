//! TLS to PostgreSQL; HTTP/1.1 and HTTP/2 connections of clients.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers fail a test as the tests do"
)]

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use basalt_core::identity::Identity;
use basalt_pg::database::Database;
use basalt_pg::pool::PoolConfig;
use basalt_pg::replication::{Frame, Replication};
use basalt_pg::session::{Access, Isolation, Scope, SessionError, Sessions, Statement};
use basalt_pg::sql::Sql;
use basalt_testkit::{Basalt, Cluster, TestDatabase};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Version};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// A CA, its certificate for `localhost`, and a second CA.
struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    fn make() -> Self {
        let made = Self { dir: tempfile::tempdir().unwrap() };
        for authority in ["ca", "stranger"] {
            let subject = format!("/CN=a test's {authority}");
            made.openssl(&[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
                "-subj",
                &subject,
                "-keyout",
                &format!("{authority}.key"),
                "-out",
                &format!("{authority}.crt"),
                "-addext",
                "basicConstraints=critical,CA:TRUE",
            ]);
        }
        std::fs::write(made.path("extensions"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
            .unwrap();
        made.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-keyout",
            "server.key",
            "-out",
            "server.csr",
        ]);
        made.openssl(&[
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "extensions",
            "-out",
            "server.crt",
        ]);
        made
    }

    fn openssl(&self, arguments: &[&str]) {
        let output = Command::new("openssl").args(arguments).current_dir(self.dir.path()).output();
        let output = output.expect("the program openssl makes the certificates");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Copies a file to PostgreSQL's data directory, readable only by its user.
    fn give(&self, name: &str, data: &Path) {
        let file = data.join(name);
        drop(std::fs::remove_file(&file));
        std::fs::copy(self.path(name), &file).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let owner = std::fs::metadata(data).unwrap();
        chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
}

/// Turns TLS of PostgreSQL on or off for new connections.
async fn set_tls(database: &TestDatabase, on: bool) {
    let state = if on { "on" } else { "off" };
    database.admin_sql(&format!("alter system set ssl = {state}")).await;
    database.admin_sql("select pg_reload_conf()").await;
    for _ in 0..200 {
        if database.value("show ssl").await == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("PostgreSQL did not turn TLS {state}; see its log");
}

fn scope() -> Scope {
    Scope {
        identity: Identity::SERVER,
        access: Access::ReadOnly,
        isolation: Isolation::ReadCommitted,
        settings: Vec::new(),
        may_prepare: false,
        savepoints: false,
        room_for_values: false,
        deadline: Instant::now() + Duration::from_secs(20),
    }
}

/// Whether a pool connection is encrypted.
async fn is_encrypted(database: Database) -> Result<String, SessionError> {
    let sessions = Sessions::new(database, PoolConfig::new("test", 1), TaskTracker::new());
    let statement: Statement =
        Sql::text("select ssl::text from pg_catalog.pg_stat_ssl where pid = pg_catalog.pg_backend_pid()")
            .into();
    // Twice: the second time with a prepared statement.
    let _first = sessions.run(scope(), vec![statement.clone()]).await?;
    let responses = sessions.run(scope(), vec![statement]).await?;
    Ok(responses.concat().first().and_then(|row| row.text(0)).unwrap_or_default().to_owned())
}

/// Whether a replication connection that has streamed a change is encrypted.
async fn streamed(from: Database, database: &TestDatabase) -> String {
    let mut replication = Replication::connect(&from, 1 << 20).await.unwrap();
    let statement = "select ssl::text from pg_catalog.pg_stat_ssl where pid = pg_catalog.pg_backend_pid()";
    let rows = replication.query(statement).await.unwrap();
    let is_encrypted = rows.first().and_then(|row| row.text(0)).unwrap().to_owned();
    database
        .sql("drop table if exists streamed; create table streamed (id int primary key, text text)")
        .await;
    database.sql("drop publication if exists streamed; create publication streamed for table streamed").await;
    let slot = "CREATE_REPLICATION_SLOT streamed TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT";
    replication.query(slot).await.unwrap();
    let start =
        "START_REPLICATION SLOT streamed LOGICAL 0/0 (proto_version '1', publication_names 'streamed')";
    let mut stream = replication.start(start).await.unwrap();
    // Larger than one TLS record.
    database.sql("insert into streamed values (1, repeat('x', 100000))").await;
    loop {
        if let Frame::Data { payload, .. } = stream.next().await.unwrap()
            && payload.starts_with(b"I")
        {
            assert!(payload.len() > 100_000);
            return is_encrypted;
        }
    }
}

fn refused(result: Result<String, SessionError>) -> String {
    match result {
        Err(SessionError::Unreachable(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// One test with its own cluster, because TLS is a cluster-wide setting.
#[tokio::test(flavor = "multi_thread")]
async fn sslmode_controls_tls_with_postgresql() {
    let database = Cluster::another().await.empty_database().await;
    database
        .sql(
            "create role tls_anon nologin;
             create schema api;
             create function api.link() returns table (ssl bool, version text)
               stable security definer language sql set search_path = '' as
               'select ssl, version from pg_catalog.pg_stat_ssl where pid = pg_catalog.pg_backend_pid()';
             grant usage on schema api to tls_anon",
        )
        .await;
    let url =
        |host: &str, mode: &str| format!("{}?sslmode={mode}", database.url().replace("127.0.0.1", host));
    let at = |host: &str, mode: &str| Database::from_url(&url(host, mode)).unwrap();

    // PostgreSQL without TLS.
    set_tls(&database, false).await;
    assert_eq!(is_encrypted(at("localhost", "prefer")).await.unwrap(), "false");
    let text = refused(is_encrypted(at("localhost", "require")).await);
    assert!(text.contains("does not support TLS"), "{text}");

    let certificates = Certificates::make();
    let data = PathBuf::from(database.value("show data_directory").await);
    certificates.give("server.crt", &data);
    certificates.give("server.key", &data);
    set_tls(&database, true).await;

    assert_eq!(is_encrypted(at("localhost", "disable")).await.unwrap(), "false");
    // Below verify-ca the certificate is not verified; the login is still bound to it (SCRAM-SHA-256-PLUS).
    for mode in ["prefer", "require"] {
        let unverified = at("127.0.0.1", mode).without_certificate_checks();
        assert_eq!(is_encrypted(unverified).await.unwrap(), "true", "{mode}");
    }
    let text = refused(is_encrypted(at("localhost", "require")).await);
    assert!(text.contains("TLS with the database failed") && text.contains("UnknownIssuer"), "{text}");
    assert_eq!(streamed(at("localhost", "require").without_certificate_checks(), &database).await, "true");
    assert_eq!(streamed(at("localhost", "disable"), &database).await, "false");
    assert!(Replication::connect(&at("localhost", "require"), 1 << 20).await.is_err(), "unknown issuer");

    // The operator sets sslmode, and SSL_CERT_FILE sets the trusted CAs.
    let serving = async |host: &str, mode: &str, trusted: &str| {
        let variables = [
            ("PGRST_DB_URI", url(host, mode)),
            ("PGRST_DB_SCHEMAS", "api".to_owned()),
            ("PGRST_DB_ANON_ROLE", "tls_anon".to_owned()),
            ("SSL_CERT_FILE", certificates.path(trusted).display().to_string()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        Basalt::builder().postgrest(variables).start().await
    };
    for (host, mode, trusted) in
        [("localhost", "verify-full", "ca.crt"), ("127.0.0.1", "require", "stranger.crt")]
    {
        let server = serving(host, mode, trusted).await;
        let response = server.get("/rpc/link?select=ssl,version").send().await.expect(200);
        assert_eq!(response.json(), json!([{"ssl": true, "version": "TLSv1.3"}]), "{mode}");
    }

    // Another CA, and another name than the certificate's: the connection is refused with the reason.
    for (host, trusted, reason) in [
        ("localhost", "stranger.crt", "UnknownIssuer"),
        ("127.0.0.1", "ca.crt", "certificate not valid for name"),
    ] {
        let mut command = Basalt::command(certificates.dir.path());
        command.args(["serve", "--only", "rest", "--port", "0"]);
        command.env("PGRST_DB_URI", url(host, "verify-full")).env("PGRST_DB_SCHEMAS", "api");
        command.env("SSL_CERT_FILE", certificates.path(trusted)).env("PGRST_DB_ANON_ROLE", "tls_anon");
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
        let mut log = String::new();
        let mut errors = child.stderr.take().unwrap();
        let output = tokio::time::timeout(Duration::from_secs(60), async {
            let mut piece = [0; 4096];
            let reason = format!("TLS with the database failed: invalid peer certificate: {reason}");
            while !log.contains(&reason) {
                let length = errors.read(&mut piece).await.unwrap();
                assert_ne!(length, 0, "it ended, saying {log}");
                log.push_str(&String::from_utf8_lossy(piece.get(..length).unwrap()));
            }
        });
        assert!(output.await.is_ok(), "{host}, trusting {trusted}: {log}");
        child.kill().await.unwrap();
    }
    set_tls(&database, false).await;
}

/// Keep-alive with pipelined requests.
#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_served_in_order() {
    let server = Basalt::start().await;
    let head = |path: &str, more: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\napikey: {}\r\n{more}\r\n", server.service_key())
    };
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    // An error in between does not close the connection.
    let requests =
        [head("/rest/v1/", ""), head("/rest/v1/nothing", ""), head("/rest/v1/", "connection: close\r\n")];
    stream.write_all(requests.concat().as_bytes()).await.unwrap();
    let mut responses = String::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut responses));
    read.await.unwrap().unwrap();
    let statuses: Vec<&str> =
        responses.match_indices("HTTP/1.1 ").filter_map(|(at, _)| responses.get(at + 9..at + 12)).collect();
    assert_eq!(statuses, ["200", "404", "200"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_with_prior_knowledge_serves_concurrent_requests() {
    let server = Basalt::start().await;
    let stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let ask = async |number: usize| {
        // Some have a body, some fail.
        let (method, path, body, expected) = match number % 3 {
            0 => ("GET", "/rest/v1/", Bytes::new(), 200),
            1 => ("POST", "/rest/v1/rpc/nothing", Bytes::from_static(b"{\"a\":1}"), 404),
            _ => ("GET", "/rest/v1/nothing?select=a->>b", Bytes::new(), 404),
        };
        let request = Request::builder()
            .method(method)
            .uri(server.url(path).replace("->>", "-%3E%3E"))
            .header("apikey", server.service_key())
            .header("content-type", "application/json")
            .body(())
            .unwrap();
        let mut sender = requests.clone().ready().await.unwrap();
        let (response, mut sending) = sender.send_request(request, body.is_empty()).unwrap();
        if !body.is_empty() {
            sending.send_data(body, true).unwrap();
        }
        let response = response.await.unwrap();
        assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, expected), "{path}");
        let announced = response.headers()["content-length"].to_str().unwrap().parse::<usize>().unwrap();
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(data) = body.data().await {
            let data = data.unwrap();
            length += data.len();
            body.flow_control().release_capacity(data.len()).unwrap();
        }
        assert_eq!(length, announced);
    };
    tokio::time::timeout(Duration::from_secs(40), join_all((0..60).map(ask))).await.unwrap();
    drop(requests);
    driver.abort();
}
