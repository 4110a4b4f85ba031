//! Startup: required settings, errors, and traces in the database.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use basalt_testkit::{Basalt, TestDatabase};
use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use super::server::{PASSWORD, SECRET, SOON, Server, database, signed, token, uri};

/// A text of everything that a server could create in a database.
async fn catalog(database: &TestDatabase) -> String {
    database
        .value(
            "select string_agg(line, E'\\n' order by line) from (
               select 'schema ' || oid || ' ' || nspname || coalesce(nspacl::text, '') from pg_namespace
                 where nspname !~ '^pg_(toast_)?temp_'
               union all select 'relation ' || oid || ' ' || relname || coalesce(relacl::text, '') from pg_class
                 where relnamespace::regnamespace::text !~ '^pg_(toast_)?temp_'
               union all select 'function ' || oid || ' ' || proname || coalesce(proacl::text, '') from pg_proc
               union all select 'type ' || oid || ' ' || typname from pg_type
                 where typnamespace::regnamespace::text !~ '^pg_(toast_)?temp_'
               union all select 'trigger ' || oid || ' ' || tgname from pg_trigger
               union all select 'event trigger ' || oid || ' ' || evtname from pg_event_trigger
               union all select 'extension ' || oid || ' ' || extname from pg_extension
               union all select 'default privileges ' || oid from pg_default_acl
               union all select 'setting ' || setdatabase || ' ' || setrole || ' ' || setconfig::text from pg_db_role_setting
               union all select 'role ' || oid || ' ' || rolname || rolsuper || rolcreaterole || rolcreatedb || rolinherit from pg_roles
               union all select 'member ' || roleid || ' ' || member from pg_auth_members
             ) everything(line)",
        )
        .await
}

#[tokio::test]
async fn starts_with_pgrst_variables_and_creates_nothing() {
    let database = database().await;
    let before = catalog(&database).await;
    let is_somebody = "select rolsuper or rolcreaterole or rolcreatedb or rolbypassrls from pg_roles where rolname = 'plain_login'";
    assert_eq!(database.value(is_somebody).await, "f");
    let uri = uri(&database);
    let mut server = Server::start(
        &[
            ("PGRST_DB_URI", &uri),
            ("PGRST_DB_SCHEMAS", "api"),
            ("PGRST_DB_ANON_ROLE", "web_anon"),
            ("PGRST_JWT_SECRET", SECRET),
            ("PGRST_DB_PRE_REQUEST", "private.check_request"),
            ("PGRST_APP_SETTINGS_GREETING", "hello"),
        ],
        None,
    )
    .await;

    // No API key is needed, and paths start at the root.
    let todos = server.get("/todos?select=task,makers(name)&order=id&limit=1").send().await.expect(200);
    assert_eq!(todos.json(), json!([{"task": "finish", "makers": {"name": "Ada"}}]));
    assert_eq!(todos.header("content-range"), "0-0/*");
    assert_eq!(todos.header("content-location"), "/todos?limit=1&order=id&select=task%2Cmakers%28name%29");
    // With one schema there is no profile header.
    assert_eq!(todos.header("content-profile"), "");
    let many =
        database.admin_sql("insert into api.makers select n, n::text from generate_series(10, 2000) n").await;
    assert!(many.is_empty());
    assert_eq!(server.get("/makers?select=id").send().await.json().as_array().unwrap().len(), 1993, "no cap");
    let refused = server.request(Method::POST, "/todos").json(&json!({"task": "x"})).send().await.expect(401);
    assert_eq!(refused.json()["code"], "42501");
    assert_eq!(refused.header("www-authenticate"), "Bearer");

    let user = token(&json!({"role": "web_user", "sub": "u1"}));
    let whoami = server.get("/rpc/whoami").bearer(&user).send().await.expect(200).json();
    assert_eq!(
        whoami,
        json!({
            "role": "web_user", "claims": {"role": "web_user", "sub": "u1"}, "path": "\"api\", \"public\"",
            "setting": "hello"
        })
    );
    let made = server.request(Method::POST, "/todos").bearer(&user).header("prefer", "return=representation");
    let made = made.json(&json!({"task": "new", "maker_id": 1})).send().await.expect(201);
    assert_eq!(made.json(), json!([{"id": 100, "task": "new", "done": false, "maker_id": 1}]));
    // Without a filter all rows are changed, as in PostgREST.
    let all = server.request(Method::PATCH, "/todos").bearer(&user).json(&json!({"done": true}));
    assert_eq!(all.send().await.expect(204).header("content-range"), "0-3/*");
    server.request(Method::DELETE, "/todos?id=eq.100").bearer(&user).send().await.expect(204);
    server.get("/open_todos").header("x-blocked", "1").send().await.expect(403);
    let stranger = signed(&json!({"role": "web_user"}), "another secret of at least 32 characters");
    server.get("/todos").bearer(&stranger).send().await.expect(401);
    let root = server.get("/").send().await.expect(200).json();
    assert!(root["paths"]["/todos"].is_object() && root["basePath"] == "/", "{root}");
    // No gateway path hides a table.
    assert_eq!(server.get("/health").send().await.expect(404).json()["code"], "PGRST205");
    server.get("/rest/v1/todos").send().await.expect(404);

    server.stop();
    assert_eq!(server.left_behind(), Vec::<String>::new());
    let after = catalog(&database).await;
    assert!(before == after, "the catalog has changed");
}

#[tokio::test]
async fn without_anon_role_and_secret_access_is_denied() {
    let database = database().await;
    let uri = uri(&database);
    let server = Server::start(&[("PGRST_DB_URI", &uri), ("PGRST_DB_SCHEMAS", "api")], None).await;
    let response = server.get("/todos").send().await.expect(401);
    assert_eq!(response.json()["code"], "PGRST302");
    let token = token(&json!({"role": "web_user"}));
    assert_eq!(server.get("/todos").bearer(&token).send().await.expect(500).json()["code"], "PGRST300");
}

#[tokio::test]
async fn libpq_variables_and_secret_files_are_supported() {
    let database = database().await;
    let port = database.cluster().port().to_string();
    let secrets = tempfile::tempdir().unwrap();
    let secret_file = secrets.path().join("secret");
    fs::write(&secret_file, format!("{SECRET}\n")).unwrap();
    let at_secret = format!("@{}", secret_file.display());
    let server = Server::start(
        &[
            ("PGHOST", "127.0.0.1"),
            ("PGPORT", &port),
            ("PGUSER", "plain_login"),
            ("PGPASSWORD", PASSWORD),
            ("PGDATABASE", database.name()),
            ("PGRST_DB_SCHEMA", "api"),
            ("PGRST_JWT_SECRET", &at_secret),
        ],
        None,
    )
    .await;
    let user = token(&json!({"role": "web_user"}));
    server.get("/todos").bearer(&user).send().await.expect(200);
    let uri_file = secrets.path().join("uri");
    fs::write(&uri_file, format!("{}\n", uri(&database))).unwrap();
    let at_uri = format!("@{}", uri_file.display());
    let variables =
        [("PGRST_DB_URI", at_uri.as_str()), ("PGRST_DB_SCHEMAS", "api"), ("PGRST_DB_ANON_ROLE", "web_anon")];
    Server::start(&variables, None).await.get("/todos").send().await.expect(200);
}

#[tokio::test]
async fn queries_are_logged_without_values_if_enabled() {
    let database = database().await;
    let uri = uri(&database);
    let settings = [
        ("PGRST_DB_URI", uri.as_str()),
        ("PGRST_DB_SCHEMAS", "api"),
        ("PGRST_DB_ANON_ROLE", "web_anon"),
        ("PGRST_LOG_LEVEL", "info"),
    ];
    for (wanted, is_logged) in [("false", false), ("true", true), ("main-query", true)] {
        let mut server = Server::start(&[&settings[..], &[("PGRST_LOG_QUERY", wanted)]].concat(), None).await;
        server.get("/todos?task=eq.marked-value").send().await.expect(200);
        server.stop();
        let log = server.log();
        assert_eq!(log.contains("FROM \"api\".\"todos\""), is_logged, "{wanted}: {log}");
        assert!(
            log.contains("GET rest 200") && !log.contains("marked-value") && !log.contains(PASSWORD),
            "{log}"
        );
    }
}

#[tokio::test]
async fn unix_socket_is_created_with_its_mode() {
    let database = database().await;
    let uri = uri(&database);
    let mut server = Server::spawn(
        &[
            ("PGRST_DB_URI", &uri),
            ("PGRST_DB_SCHEMAS", "api"),
            ("PGRST_DB_ANON_ROLE", "web_anon"),
            ("PGRST_SERVER_UNIX_SOCKET", "pgrst.sock"),
            ("PGRST_SERVER_UNIX_SOCKET_MODE", "640"),
        ],
        None,
    );
    let path = server.dir.path().join("pgrst.sock");
    let deadline = Instant::now() + SOON;
    let response = loop {
        let response = ask(&path).await.unwrap_or_default();
        if response.starts_with("HTTP/1.1 200 ") {
            break response;
        }
        assert!(Instant::now() < deadline, "still {response:?}");
        sleep(std::time::Duration::from_millis(10)).await;
    };
    assert!(response.ends_with("[{\"id\":3}]"), "{response}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    server.stop();
    assert!(!path.exists());
}

async fn ask(path: &std::path::Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path).await?;
    stream
        .write_all(b"GET /todos?select=id&id=eq.3 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .await?;
    let mut response = String::new();
    let _length = stream.read_to_string(&mut response).await?;
    Ok(response)
}

fn run(arguments: &[&str], file: &str, variables: &[(&str, &str)]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("postgrest.conf"), file).unwrap();
    Basalt::command(dir.path()).args(arguments).envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn configuration_errors_state_file_and_line() {
    let file = "db-uri = \"postgres://u@h/d\"\ndb-anon-role = anon\ndb-pool = \"many\"\n";
    let refused =
        run(&["serve", "--only", "rest", "postgrest.conf"], file, &[("PGRST_DB_TX_END", "perhaps")]);
    let output = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{output}");
    for line in [
        "postgrest.conf:2: db-anon-role: put the value in double quotes",
        "postgrest.conf:3: database.pool_size must be a whole number",
        "PGRST_DB_TX_END: rest.tx_end is invalid",
    ] {
        assert!(output.contains(line), "{line} in {output}");
    }
    let refused = run(&["serve", "postgrest.conf"], file, &[]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("requires --only rest"));
}

#[test]
fn config_command_prints_either_format() {
    let file = "db-uri = \"postgres://u:hidden@h/d\"\ndb-schemas = \"v1, v2\"\njwt-secret = \"hidden hidden hidden hidden hidden\"\n";
    let shown = run(&["config", "--postgrest", "postgrest.conf"], file, &[("PGRST_DB_POOL", "3")]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("db-schemas = \"v1,v2\"\n") && text.contains("db-pool = 3\n"), "{text}");
    assert!(text.contains("server-port = 3000\n") && !text.contains("hidden"), "{text}");
    let shown = run(&["config", "--only", "rest", "postgrest.conf"], file, &[("PGRST_DB_POOL", "3")]);
    let text = String::from_utf8(shown.stdout).unwrap();
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(line("pool_size = 3").ends_with("# PGRST_DB_POOL"), "{text}");
    assert!(line("schemas = [\"v1\", \"v2\"]").ends_with("# postgrest.conf:2"), "{text}");
    assert!(line("port = 3000").ends_with("# PostgREST's default"), "{text}");
}
