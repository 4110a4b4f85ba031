//! The admin port (rest.md §4.5).

use basalt_testkit::{Request, free_port};
use http::Method;
use serde_json::json;

use super::server::{SECRET, Server, database, until, uri};

#[tokio::test]
async fn admin_port_matches_postgrest_and_hides_secrets() {
    let database = database().await;
    let _done = database
        .admin_sql(&format!(
            "alter role plain_login in database {} set pgrst.db_max_rows = '2'; \
             alter role plain_login in database {} set pgrst.jwt_secret = 'marked-secret of the database, long'",
            database.name(),
            database.name()
        ))
        .await;
    let uri = uri(&database);
    let admin_port = free_port().to_string();
    let server = Server::start(
        &[
            ("PGRST_DB_URI", &uri),
            ("PGRST_DB_SCHEMAS", "api"),
            ("PGRST_DB_ANON_ROLE", "web_anon"),
            ("PGRST_JWT_SECRET", SECRET),
            ("PGRST_APP_SETTINGS_KEY", "marked-secret"),
            ("PGRST_ADMIN_SERVER_PORT", &admin_port),
        ],
        None,
    )
    .await;
    let admin = |method, path: &str| Request::new(method, format!("http://127.0.0.1:{admin_port}{path}"));
    let get = |path| admin(Method::GET, path);
    get("/live").send().await.expect(200);
    admin(Method::HEAD, "/live").send().await.expect(200);
    let _ready = until(&get("/ready"), |response| response.status == 200).await;
    let metrics = get("/metrics").send().await.expect(200).text();
    assert!(metrics.contains("basalt_http_requests_total"), "{metrics}");

    let config = get("/config").send().await.expect(200);
    let text = config.text();
    // Settings stored in the database apply.
    assert!(text.contains("db-max-rows = 2\n") && text.contains("db-schemas = \"api\"\n"), "{text}");
    assert!(
        text.contains(&format!(
            "db-uri = \"postgresql://plain_login:(set)@127.0.0.1:{}/",
            database.cluster().port()
        )),
        "{text}"
    );
    for secret in ["marked-secret", "drop-in", SECRET] {
        assert!(!text.contains(secret), "{text}");
    }
    let cache = get("/schema_cache").send().await.expect(200).json();
    let named =
        |list: &str, name: &str| cache[list].as_array().unwrap().iter().any(|item| item["name"] == name);
    assert!(named("relations", "todos") && named("routines", "api.add"), "{cache}");
    get("/todos").send().await.expect(404);
    get("/").send().await.expect(404);
    admin(Method::POST, "/config").json(&json!({})).send().await.expect(405);
    // The public port does not serve these paths.
    for path in ["/live", "/ready", "/metrics", "/config", "/schema_cache"] {
        assert_eq!(server.get(path).send().await.expect(404).json()["code"], "PGRST205", "{path}");
    }
}
