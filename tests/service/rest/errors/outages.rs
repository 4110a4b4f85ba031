//! The database is unreachable, or all connections are busy.

use std::time::Duration;

use basalt_testkit::Link;
use http::Method;
use serde_json::json;

use super::super::{SOON, anon};
use super::{check, schema_server};

#[tokio::test]
async fn unreachable_database_is_503_with_retry_after() {
    let server = schema_server().through_proxy().expect_log("").start().await;
    assert_eq!(anon(&server, Method::GET, "/owners").send().await.status, 200);
    server.proxy().set(Link::Cut);
    for method in [Method::GET, Method::POST] {
        let request = anon(&server, method.clone(), "/rpc/none").json(&json!({}));
        let response = server.until(SOON, &request, |response| response.status != 200).await;
        let body = response.json();
        let message = match body["code"].as_str() {
            Some("PGRST000") => "Database connection error.",
            Some("PGRST001") => "Database client error. Retrying the connection.",
            other => panic!("{other:?}"),
        };
        assert!(body["details"].is_string(), "the driver's text");
        check(
            &response,
            503,
            [body["code"].clone(), json!(message), body["details"].clone(), json!(null)],
            message,
        );
        let seconds: u64 = response.header("retry-after").parse().unwrap();
        assert!(seconds >= 1);
    }
    // By now all connections are known to be broken, and no new one can be opened.
    let response = anon(&server, Method::GET, "/owners").send().await;
    assert_eq!((response.status.as_u16(), response.json()["code"].as_str()), (503, Some("PGRST000")));
    let headed = anon(&server, Method::HEAD, "/owners").send().await;
    assert!(headed.headers.contains_key("retry-after") && headed.body.is_empty());
    server.proxy().set(Link::Up);
    let request = anon(&server, Method::GET, "/owners");
    let _recovered = server.until(SOON, &request, |response| response.status == 200).await;
}

#[tokio::test]
async fn connection_lost_during_a_write_is_pgrst001() {
    let server = schema_server().through_proxy().expect_log("").start().await;
    let write = anon(&server, Method::POST, "/rpc/wait").json(&json!({"seconds": 2})).send();
    let cut = async {
        let statement = "%wait%";
        while server.database().running(statement).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server.proxy().set(Link::Cut);
    };
    let (response, ()) = tokio::join!(write, cut);
    let details = response.json()["details"].clone();
    assert!(details.is_string());
    let message = json!("Database client error. Retrying the connection.");
    check(&response, 503, [json!("PGRST001"), message, details, json!(null)], "PGRST001");
    server.proxy().set(Link::Up);
    let request = anon(&server, Method::GET, "/owners");
    let _recovered = server.until(SOON, &request, |response| response.status == 200).await;
}

#[tokio::test]
async fn no_free_connection_in_time_is_504() {
    let server = schema_server()
        .config("database.pool_size", "1")
        .config("database.pool_timeout", "1s")
        .expect_log("")
        .start()
        .await;
    // Holds the only connection until it is cancelled; the role has no statement timeout.
    let key = server.service_key();
    let slow = server.post("/rest/v1/rpc/wait").apikey(key).json(&json!({"seconds": 600})).send();
    let second = async {
        while server.database().running("%wait%").await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let response = anon(&server, Method::GET, "/owners").send().await;
        let cancel = "select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() \
                      and state = 'active' and query like '%wait%' and pid <> pg_backend_pid()";
        let _cancelled = server.database().admin_sql(cancel).await;
        response
    };
    let (slow, response) = tokio::join!(slow, second);
    assert_eq!((slow.status.as_u16(), slow.json()["code"].as_str()), (500, Some("57014")));
    let message = json!("Timed out acquiring connection from connection pool.");
    check(&response, 504, [json!("PGRST003"), message, json!(null), json!(null)], "PGRST003");
}
