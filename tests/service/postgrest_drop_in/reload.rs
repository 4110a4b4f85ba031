//! Signals, notifications, and settings of the database (rest.md §4.4, §4.5).

use std::fs;

use basalt_testkit::{Request, free_port};
use http::Method;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::server::{SECRET, Server, database, signed, token, until, uri};

fn rows(response: &Value) -> usize {
    response.as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn sigusr1_reloads_the_schema_and_sigusr2_the_file() {
    let database = database().await;
    let admin_port = free_port();
    let conf = |max_rows: &str, secret: &str| {
        format!(
            "db-uri = \"{}\"\ndb-schemas = \"api\"\ndb-anon-role = \"web_anon\"\ndb-max-rows = {max_rows}\n\
             jwt-secret = \"{secret}\"\nadmin-server-port = {admin_port}\n# Only signals.\ndb-channel-enabled = false\n",
            uri(&database)
        )
    };
    let mut server = Server::start(&[], Some(&conf("1", SECRET))).await;
    let todos = server.get("/todos");
    assert_eq!(rows(&todos.clone().send().await.expect(200).json()), 1);
    let cache = Request::new(Method::GET, format!("http://127.0.0.1:{admin_port}/schema_cache"));
    let has_later = |text: &str| text.contains("\"later\"");
    assert!(!has_later(&cache.clone().send().await.expect(200).text()));
    let _done = database.admin_sql("create table api.later (id int)").await;
    server.signal(Signal::USR1);
    let _loaded = until(&cache, |response| has_later(&response.text())).await;

    let file = server.dir.path().join("postgrest.conf");
    let user = token(&json!({"role": "web_user"}));
    server.get("/todos").bearer(&user).send().await.expect(200);
    let new_secret = "the next secret of at least 32 characters";
    fs::write(&file, conf("2", new_secret)).unwrap();
    server.signal(Signal::USR2);
    let _two = server.until(&todos, |response| rows(&response.json()) == 2).await;
    server.get("/todos").bearer(&user).send().await.expect(401);
    let next = signed(&json!({"role": "web_user"}), new_secret);
    server.get("/todos").bearer(&next).send().await.expect(200);

    // An invalid file changes nothing.
    fs::write(&file, conf("many", new_secret)).unwrap();
    server.signal(Signal::USR2);
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(rows(&todos.clone().send().await.expect(200).json()), 2);
    fs::write(&file, conf("3", new_secret)).unwrap();
    server.signal(Signal::USR2);
    let _three = server.until(&todos, |response| rows(&response.json()) == 3).await;
    server.stop();
}

#[tokio::test]
async fn stored_settings_override_variables_and_reload() {
    let database = database().await;
    let uri = uri(&database);
    let server = Server::start(
        &[
            ("PGRST_DB_URI", &uri),
            ("PGRST_DB_SCHEMAS", "api"),
            ("PGRST_DB_ANON_ROLE", "web_anon"),
            ("PGRST_DB_MAX_ROWS", "3"),
            ("PGRST_DB_PRE_CONFIG", "conf.before"),
            ("PGRST_DB_CHANNEL", "reloads"),
        ],
        None,
    )
    .await;
    let todos = server.get("/todos");
    assert_eq!(rows(&todos.clone().send().await.expect(200).json()), 1, "the function's");
    let name = database.name();
    let setting = format!("alter role plain_login in database {name} set pgrst.db_max_rows = '2'");
    let _done = database.admin_sql(&format!("{setting}; notify reloads, 'reload config'")).await;
    let _two = server.until(&todos, |response| rows(&response.json()) == 2).await;
    // Another channel, then the configured one.
    let later = "create table api.later (id int); grant select on api.later to web_anon; notify pgrst";
    let _done = database.admin_sql(later).await;
    let _done = database.admin_sql("notify reloads, 'reload schema'").await;
    let _there = server.until(&server.get("/later"), |response| response.status == 200).await;
}

#[tokio::test]
async fn db_config_false_ignores_stored_settings() {
    let database = database().await;
    let name = database.name();
    let _done = database
        .admin_sql(&format!("alter role plain_login in database {name} set pgrst.db_max_rows = '1'"))
        .await;
    let uri = uri(&database);
    let variables = [
        ("PGRST_DB_URI", uri.as_str()),
        ("PGRST_DB_SCHEMAS", "api"),
        ("PGRST_DB_ANON_ROLE", "web_anon"),
        ("PGRST_DB_CONFIG", "false"),
    ];
    let server = Server::start(&variables, None).await;
    assert_eq!(rows(&server.get("/todos").send().await.expect(200).json()), 3);
}
