//! Transaction settings (rest.md §3.16), and configuration stored in the database (§4.5).

use std::path::Path;

use basalt_testkit::{Basalt, Builder, Cluster, Request, Response, TestDatabase};
use http::Method;
use serde_json::{Value, json};

use super::{PROJECT, SOON};

pub(crate) const SECRET: &str = "a secret of at least thirty-two characters";

/// A server that runs only REST, at the root, with its own login role: roles are cluster-wide.
pub(crate) async fn alone(login: &str) -> (TestDatabase, Builder) {
    let database = Cluster::get().await.database(Path::new(PROJECT)).await;
    let _made = database
        .admin_sql(&format!(
            "create role {login} login noinherit password 'testkit'; grant anon, authenticated, service_role to {login}"
        ))
        .await;
    let url = database.url().replacen("supabase_admin", login, 1);
    let builder = Basalt::builder()
        .only("rest")
        .database_url(&url)
        .config("jwt.secret", SECRET)
        .config("server.prefix", "")
        .config("server.require_apikey", "false")
        .config("rest.schemas", "meta,public");
    (database, builder)
}

async fn current(server: &Basalt, name: &str) -> Value {
    server.get(&format!("/rpc/current?name={name}")).send().await.expect(200).json()
}

/// A token for the servers of this file.
fn token(claims: &Value) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let message = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#),
        URL_SAFE_NO_PAD.encode(claims.to_string())
    );
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(aws_lc_rs::hmac::sign(&key, message.as_bytes())))
}

#[tokio::test]
async fn request_settings_do_not_outlive_the_transaction() {
    let (_database, builder) = alone("settings_request").await;
    let server = builder
        .config("database.pool_size", "1")
        .config("rest.extra_search_path", "public, extensions")
        .config("rest.app_settings", "greeting=hello world,jwt_exp=3600")
        .start()
        .await;
    let response = server
        .get("/rpc/who_am_i")
        .header("accept-profile", "public")
        .header("cookie", "a=b; c=d=e; flag;  spaced = x ; a=z")
        .header("X-Mixed-Case", "Kept")
        .send()
        .await
        .expect(200)
        .json();
    assert_eq!(response["headers"]["x-mixed-case"], "Kept");
    assert_eq!(response["headers"]["accept-profile"], "public");
    assert!(response["headers"]["cookie"].is_null());
    assert_eq!(response["cookies"], json!({"a": "z", "c": "d=e", "flag": "", "spaced ": " x "}));
    assert_eq!(response["search_path"], r#""public", "public", "extensions""#);
    assert_eq!((&response["method"], &response["path"]), (&json!("GET"), &json!("/rpc/who_am_i")));
    assert_eq!(current(&server, "search_path").await, r#""meta", "public", "extensions""#);
    assert_eq!(current(&server, "app.settings.greeting").await, "hello world");
    assert_eq!(current(&server, "app.settings.jwt_exp").await, "3600");
    assert_eq!(current(&server, "request.cookies").await, "{}");
    assert_eq!(current(&server, "my.own").await, Value::Null, "never set");
    let set = json!({"name": "my.own", "value": "x"});
    assert_eq!(server.post("/rpc/set_in_transaction").json(&set).send().await.expect(200).json(), "x");
    assert_eq!(current(&server, "my.own").await, "", "a setting survived on the connection");
    let decoded = server.get("/rpc/current?name=request.path&").send().await.json();
    assert_eq!(decoded, "/rpc/current", "without the query");
}

#[tokio::test]
async fn only_configured_request_settings_are_set() {
    let (_database, builder) = alone("settings_few").await;
    let server = builder.config("rest.request_settings", "headers, path").start().await;
    assert_eq!(current(&server, "request.path").await, "/rpc/current");
    assert!(current(&server, "request.headers").await.as_str().unwrap().contains("host"));
    assert!(current(&server, "request.jwt.claims").await.as_str().unwrap().contains("anon"));
    assert_eq!(current(&server, "request.method").await, Value::Null);
    assert_eq!(current(&server, "request.cookies").await, Value::Null);
}

#[tokio::test]
async fn role_settings_are_applied_before_set_role() {
    let (database, builder) = alone("settings_role").await;
    let _made = database
        .admin_sql(
            "create role settings_user nologin; grant settings_user to settings_role;
             grant usage on schema meta to settings_user; grant execute on all functions in schema meta to settings_user;
             alter role settings_user set statement_timeout = '9s';
             alter role settings_user set work_mem = '5MB';
             alter role settings_user set default_transaction_isolation = 'repeatable read';
             -- Not for plain users to set, but this one is granted.
             alter role settings_user set track_functions = 'all';
             alter role settings_user set log_min_duration_statement = '7s';
             grant set on parameter log_min_duration_statement to settings_role;
             alter role settings_user set search_path = meta, pg_catalog;
             alter role anon set log_min_messages = 'error'",
        )
        .await;
    let server = builder.start().await;
    let user = token(&json!({"role": "settings_user"}));
    let shown = |name: &'static str| {
        let request = server.get(&format!("/rpc/current?name={name}")).bearer(&user);
        async move { request.send().await.expect(200).json() }
    };
    assert_eq!(shown("statement_timeout").await, "9s");
    assert_eq!(shown("work_mem").await, "5MB");
    assert_eq!(shown("transaction_isolation").await, "repeatable read");
    assert_eq!(shown("track_functions").await, "none");
    assert_eq!(shown("log_min_duration_statement").await, "7s");
    assert_eq!(shown("search_path").await, "meta, pg_catalog", "the role's own setting takes precedence");
    assert_eq!(current(&server, "statement_timeout").await, "3s", "of anon");
    assert_eq!(current(&server, "transaction_isolation").await, "read committed");
    assert_eq!(current(&server, "transaction_read_only").await, "on");
    // The function's isolation level takes precedence over the role's.
    let isolated = server.post("/rpc/isolation").bearer(&user).json(&json!({})).send().await;
    assert_eq!(isolated.expect(200).json(), "serializable");
    // Hoisted settings apply to the transaction, others only to the function; the function sees both.
    let dear = server.get("/rpc/slow_and_dear").send().await.expect(200).json();
    assert_eq!(dear, json!({"timeout": "6s", "mem": "3MB"}));
    let _reset =
        database.admin_sql("alter role anon reset log_min_messages; drop owned by settings_user").await;
}

#[tokio::test]
async fn function_isolation_is_always_hoisted() {
    let (_database, builder) = alone("settings_hoisted").await;
    let server = builder.config("rest.hoisted_tx_settings", "work_mem").start().await;
    let isolated = server.post("/rpc/isolation").json(&json!({})).send().await.expect(200);
    assert_eq!(
        isolated.json(),
        "serializable",
        "rest.md §3.16: isolation goes into BEGIN and is not a listed setting"
    );
}

#[tokio::test]
async fn pre_request_can_change_role_path_and_settings() {
    let (_database, builder) = alone("settings_pre").await;
    let server = builder
        .config("rest.schemas", "meta,reserved")
        .config("rest.pre_request", "meta.changes_everything")
        .config("database.pool_size", "1")
        .start()
        .await;
    let documents = |server: &Basalt| server.get("/documents").header("accept-profile", "reserved");
    // The first use of the statement: as anon, parsing would fail.
    let response = documents(&server).header("x-role", "service_role").send().await;
    assert_eq!(response.expect(200).json(), json!([{"id": 1}]));
    assert_eq!(
        documents(&server).send().await.json()["code"],
        "42501",
        "the next request is anonymous again"
    );
    let response = server.get("/rpc/current?name=role").header("x-role", "authenticated").send().await;
    assert_eq!(response.expect(200).json(), "authenticated");
    let response =
        server.get("/rpc/current?name=search_path").header("x-path", "public, reserved").send().await;
    assert_eq!(response.expect(200).json(), "public, reserved");
    let response = server.get("/rpc/current?name=timezone").header("x-zone", "Asia/Tokyo").send().await;
    assert_eq!(response.expect(200).json(), "Asia/Tokyo");
    let response = server.get("/rpc/current?name=role").header("x-role", "nobody_here").send().await;
    assert_eq!((response.status.as_u16(), &response.json()["code"]), (401, &json!("22023")));
}

/// Stores settings for the login role in this database and triggers a reload.
async fn store(database: &TestDatabase, login: &str, settings: &[(&str, &str)]) {
    let mut statements = format!("alter role {login} in database \"{}\" reset all;", database.name());
    for (name, value) in settings {
        let value = value.replace('\'', "''");
        statements +=
            &format!("alter role {login} in database \"{}\" set pgrst.{name} = '{value}';", database.name());
    }
    let _done = database.admin_sql(&format!("{statements} notify pgrst, 'reload config'")).await;
}

async fn until(server: &Basalt, request: &Request, wanted: impl Fn(&Response) -> bool) -> Response {
    server.until(SOON, request, wanted).await
}

#[tokio::test]
async fn every_stored_setting_applies() {
    const LOGIN: &str = "settings_stored";
    let (database, builder) = alone(LOGIN).await;
    let server = builder.config("rest.anon_role", "anon").start().await;
    let labels = server.get("/labels");
    assert_eq!(labels.clone().send().await.json().as_array().unwrap().len(), 3);
    let key = "another secret of thirty-two characters";
    store(
        &database,
        LOGIN,
        &[
            ("db_schemas", "public, meta, hidden"),
            ("db_extra_search_path", "extensions, meta"),
            ("db_max_rows", "2"),
            ("db_anon_role", "authenticated"),
            ("db_pre_request", "public.gatekeeper"),
            ("db_aggregates_enabled", "true"),
            ("db_plan_enabled", "true"),
            ("db_tx_end", "rollback-allow-override"),
            ("db_hoisted_tx_settings", "statement_timeout"),
            ("db_prepared_statements", "true"),
            ("jwt_secret", key),
            ("jwt_aud", "us"),
            ("jwt_role_claim_key", ".who[0]"),
            ("server_cors_allowed_origins", "https://one.example, https://two.example"),
            ("server_timing_enabled", "true"),
            ("server_trace_header", "X-Trace"),
            ("openapi_mode", "ignore-privileges"),
            ("openapi_server_proxy_uri", "https://api.example.com/base"),
            ("openapi_security_active", "true"),
            ("url_use_legacy_target_names", "false"),
            ("client_error_verbosity", "minimal"),
        ],
    )
    .await;
    let labels = server.get("/labels").header("accept-profile", "meta").header("x-trace", "t1");
    let capped = until(&server, &labels, |response| response.header("content-range") == "0-1/*").await;
    assert_eq!(capped.header("x-seen"), "yes", "db_pre_request");
    assert_eq!(capped.header("x-trace"), "t1");
    assert!(capped.header("server-timing").starts_with("jwt;dur="));
    let current =
        |name: &str| server.get(&format!("/rpc/current?name={name}")).header("accept-profile", "meta").send();
    assert_eq!(current("role").await.json(), "authenticated");
    assert_eq!(current("search_path").await.json(), r#""meta", "extensions", "meta""#);
    let exposed = server.get("/labels").header("accept-profile", "nope").send().await.json();
    assert_eq!(exposed, json!({"code": "PGRST106", "message": "Invalid schema: nope"}), "minimal errors");
    let summed = server.get("/labels?select=id.sum()").header("accept-profile", "meta").send().await;
    assert_eq!(summed.expect(200).json(), json!([{"sum": 6}]));
    let plan = labels.clone().header("accept", "application/vnd.pgrst.plan+json").send().await;
    assert_eq!(plan.status, 200);
    let insert = || server.post("/labels").header("content-profile", "meta").json(&json!({"id": 50}));
    assert_eq!(insert().send().await.status, 201);
    assert_eq!(database.count("meta.labels").await, 3, "rolled back");
    let kept = insert().header("prefer", "tx=commit").send().await;
    assert_eq!((kept.status.as_u16(), database.count("meta.labels").await), (201, 4));
    let origin = |origin: &str| labels.clone().header("origin", origin).send();
    assert_eq!(
        origin("https://two.example").await.header("access-control-allow-origin"),
        "https://two.example"
    );
    assert_eq!(origin("https://three.example").await.header("access-control-allow-origin"), "");
    let old = server.get("/labels").bearer(&token(&json!({"role": "anon"}))).send().await;
    assert_eq!(old.json()["code"], "PGRST301", "the secret has changed");
    let root = server.get("/").header("accept-profile", "meta").send().await.expect(200).json();
    assert_eq!((&root["host"], &root["basePath"]), (&json!("api.example.com:443"), &json!("/base")));
    assert!(root["securityDefinitions"].is_object());
    let legacy = server
        .get("/labels?select=id,s:stickers(id)&stickers.id=eq.1")
        .header("accept-profile", "meta")
        .send()
        .await;
    assert_eq!(legacy.json()["code"], "PGRST108");

    // After a reset the configuration applies again.
    store(&database, LOGIN, &[]).await;
    let _all =
        until(&server, &server.get("/labels"), |response| response.header("content-range") == "0-3/*").await;
    // The request concurrent with the reload may still use the old settings.
    let all = server.get("/labels").send().await;
    assert_eq!(all.header("server-timing"), "");
    assert_eq!(server.get("/labels").bearer(&token(&json!({"role": "anon"}))).send().await.status, 200);
}

#[tokio::test]
async fn stored_settings_override_role_and_configuration() {
    const LOGIN: &str = "settings_order";
    let (database, builder) = alone(LOGIN).await;
    let server =
        builder.config("rest.max_rows", "3").config("rest.pre_config", "meta.pre_config").start().await;
    let rows = |count: usize| {
        move |response: &Response| response.json().as_array().is_some_and(|rows| rows.len() == count)
    };
    let request = server.get("/clients").header("accept-profile", "public");
    let _of_the_function = until(&server, &request, rows(1)).await;
    let _done = database
        .admin_sql(&format!("alter role {LOGIN} set pgrst.db_max_rows = '2'; notify pgrst, 'reload config'"))
        .await;
    let _of_the_role = until(&server, &request, rows(2)).await;
    store(&database, LOGIN, &[("db_max_rows", "1")]).await;
    let _of_the_database = until(&server, &request, rows(1)).await;
    let plan = request.header("accept", "application/vnd.pgrst.plan").send().await;
    assert_eq!(plan.status, 406, "the function's other setting still applies");
}

#[tokio::test]
async fn invalid_stored_setting_is_logged_and_ignored() {
    const LOGIN: &str = "settings_wrong";
    let (database, builder) = alone(LOGIN).await;
    let server = builder.expect_log("in the database").expect_log("does not exist").start().await;
    store(&database, LOGIN, &[("db_max_rows", "2"), ("openapi_mode", "disabled")]).await;
    let labels = server.get("/labels");
    let _capped = until(&server, &labels, |response| response.header("content-range") == "0-1/*").await;
    store(
        &database,
        LOGIN,
        &[
            ("db_max_rows", "many"),
            ("openapi_mode", "secret"),
            ("db_schemas", "pg_catalog"),
            ("jwt_secret", "short"),
            ("db_pool", "3"),
            ("no_such_name", "x"),
            ("db_plan_enabled", "on"),
        ],
    )
    .await;
    let plan = labels.clone().header("accept", "application/vnd.pgrst.plan+json");
    let _the_good_one = until(&server, &plan, |response| response.status == 200).await;
    assert_eq!(labels.clone().send().await.header("content-range"), "0-1/*");
    assert_eq!(server.get("/").send().await.json()["code"], "PGRST126");
    let log: Vec<String> = server.log().into_iter().map(|line| line.message).collect();
    for name in ["db_max_rows", "openapi_mode", "db_schemas", "jwt_secret", "db_pool", "no_such_name"] {
        let output =
            log.iter().filter(|line| line.contains(&format!("pgrst.{name} in the database"))).count();
        assert_eq!(output, 1, "{name}: {log:?}");
    }
    assert!(!log.iter().any(|line| line.contains("short")), "no secret in the log");
    // A missing schema is logged and has no other effect.
    store(&database, LOGIN, &[("db_schemas", "meta, gone")]).await;
    server.wait_for_log("exposed schema \\\"gone\\\" does not exist in the database").await;
    assert_eq!(server.get("/x").header("accept-profile", "gone").send().await.json()["code"], "PGRST205");
}

#[tokio::test]
async fn stored_settings_can_be_disabled() {
    const LOGIN: &str = "settings_unread";
    let (database, builder) = alone(LOGIN).await;
    let server = builder.config("rest.database_settings", "false").start().await;
    store(&database, LOGIN, &[("db_max_rows", "1")]).await;
    let _done =
        database.admin_sql("create table meta.told (id int); grant select on meta.told to anon").await;
    let _loaded = until(&server, &server.get("/told"), |response| response.status == 200).await;
    assert_eq!(server.get("/labels").send().await.header("content-range"), "0-2/*");
}

#[tokio::test]
async fn system_schemas_cannot_be_exposed() {
    for schema in ["pg_catalog", "information_schema"] {
        let output = Basalt::command(Path::new(PROJECT))
            .args(["serve", "--only", "rest", "--port", "1"])
            .env("BASALT_REST_SCHEMAS", format!("public,{schema}"))
            .env("BASALT_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/x")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && stderr.contains(&format!("must not expose {schema}")),
            "{stderr}"
        );
    }
}

#[tokio::test]
async fn method_decides_the_access_mode() {
    let (_database, builder) = alone("settings_access").await;
    let server = builder.start().await;
    let read_only = |method: Method, path: &str| {
        server.request(method, path).json(&json!({"name": "transaction_read_only"}))
    };
    assert_eq!(
        read_only(Method::POST, "/rpc/current").send().await.expect(200).json(),
        "on",
        "a stable function"
    );
    let volatile = json!({"name": "my.own", "value": "x"});
    assert_eq!(server.post("/rpc/set_in_transaction").json(&volatile).send().await.status, 200);
    let written = server.get("/rpc/add_client?id=9").header("accept-profile", "public").send().await;
    assert_eq!((written.status.as_u16(), &written.json()["code"]), (405, &json!("25006")));
}
