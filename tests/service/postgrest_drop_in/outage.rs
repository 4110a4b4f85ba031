//! Database outages (rest.md §6): the error codes.

use std::net::Ipv4Addr;

use basalt_testkit::{ChaosProxy, Link};
use http::Method;
use serde_json::json;

use super::server::{Server, database, uri_at};

#[tokio::test]
async fn broken_and_failed_connections_have_different_codes() {
    let database = database().await;
    let proxy = ChaosProxy::start((Ipv4Addr::LOCALHOST, database.cluster().port()).into()).await;
    let uri = uri_at(&database, proxy.port());
    let server = Server::start(
        &[("PGRST_DB_URI", &uri), ("PGRST_DB_SCHEMAS", "api"), ("PGRST_DB_ANON_ROLE", "web_anon")],
        None,
    )
    .await;
    let slow = server.request(Method::POST, "/rpc/slow").json(&json!({}));
    slow.clone().send().await.expect(200);
    let under_way = tokio::spawn(slow.send());
    database.until_asleep("%slow%").await;
    proxy.set(Link::Cut);
    let broke = under_way.await.unwrap().expect(503);
    assert_eq!(broke.json()["code"], "PGRST001");
    assert_eq!(broke.json()["message"], "Database client error. Retrying the connection.");
    assert!(broke.header("retry-after").parse::<u64>().is_ok());
    let closed = server.get("/todos").send().await.expect(503);
    assert_eq!(closed.json()["code"], "PGRST000");
    assert_eq!(closed.json()["message"], "Database connection error.");
    assert!(closed.json()["details"].is_string());
    proxy.set(Link::Up);
    let _again = server.until(&server.get("/todos"), |response| response.status == 200).await;
}

#[tokio::test]
async fn start_waits_for_the_database() {
    let database = database().await;
    let proxy = ChaosProxy::start((Ipv4Addr::LOCALHOST, database.cluster().port()).into()).await;
    proxy.set(Link::Cut);
    let uri = uri_at(&database, proxy.port());
    let port = basalt_testkit::free_port().to_string();
    let variables = [
        ("PGRST_SERVER_HOST", "127.0.0.1"),
        ("PGRST_SERVER_PORT", port.as_str()),
        ("PGRST_DB_URI", &uri),
        ("PGRST_DB_SCHEMAS", "api"),
        ("PGRST_DB_ANON_ROLE", "web_anon"),
    ];
    let server = Server::spawn(&variables, None);
    let waiting = server.until(&server.get("/todos"), |response| response.status == 503).await;
    assert_eq!(waiting.json()["code"], "PGRST002");
    proxy.set(Link::Up);
    let _there = server.until(&server.get("/todos"), |response| response.status == 200).await;
}
