//! Failover: the database address is first a read-only standby and then the primary; and `/ready` during an outage.

use std::time::Duration;

use basalt_testkit::{Basalt, Link};
use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::load::{DATABASE_AWAY, insert, project};

const SOON: Duration = Duration::from_secs(60);

/// The data directory of the embedded PostgreSQL.
pub(crate) fn data_dir(server: &Basalt) -> std::path::PathBuf {
    let moved = std::fs::read_to_string(server.state_dir().join("postgres.location"));
    moved.map_or(server.state_dir().join("postgres"), |home| {
        std::path::Path::new(home.trim()).join("postgres")
    })
}

/// Creates an empty signal file for PostgreSQL.
fn touch(server: &Basalt, name: &str) {
    std::fs::write(data_dir(server).join(name), "").unwrap();
}

#[tokio::test]
async fn standby_serves_reads_and_503_for_writes() {
    let project = project();
    let builder = Basalt::builder()
        .embedded()
        .project(project.path())
        .expect_log("PostgreSQL ended; restarting it")
        .expect_log("was terminated by signal")
        .expect_log("specified neither");
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    touch(&server, "standby.signal");
    server.kill_postgres();
    server.wait_for_log("PostgreSQL ended; restarting it").await;
    let read = server.get("/rest/v1/entries?select=id").apikey(server.service_key());
    let response = server.until(SOON, &read, |response| response.status == 200).await;
    assert_eq!(response.json(), json!([{ "id": 1 }]));

    let writes = [
        insert(&server).json(&json!({ "id": 2 })),
        // This request defers COMMIT and begins READ WRITE.
        insert(&server)
            .json(&json!({ "id": 2 }))
            .header("prefer", "return=representation")
            .header("accept", "application/vnd.pgrst.object+json"),
    ];
    for write in writes {
        let put_off = write.send().await;
        assert_eq!(put_off.status, 503, "{}", put_off.text());
        assert_eq!(put_off.json()["code"], "PGRST000");
        assert_eq!(put_off.json()["details"], "the server is a standby and accepts no writes");
        assert!(put_off.header("retry-after").parse::<u32>().is_ok());
    }
    read.send().await.expect(200);

    // As `pg_ctl promote` does.
    touch(&server, "promote");
    kill_process(server.postgres_pid().unwrap(), Signal::USR1).unwrap();
    let write = insert(&server).json(&json!({ "id": 3 }));
    server.until(SOON, &write, |response| response.status == 201).await;
    server.until(SOON, &server.get("/ready"), |response| response.status == 200).await;
    assert_eq!(insert(&server).json(&json!({ "id": 1 })).send().await.expect(409).json()["code"], "23505");
}

#[tokio::test]
async fn server_is_not_ready_during_a_database_outage() {
    let project = project();
    let builder = Basalt::builder().project(project.path()).through_proxy();
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    let (ready, health) = (server.get("/ready"), server.get("/health"));
    // A cut link is detected at once, a silent one when the pools check their connections.
    for (link, id, waiting_for) in
        [(Link::Cut, 1, "database connection"), (Link::Stalled, 2, "database connection of")]
    {
        server.proxy().set(link);
        let response = server.until(SOON, &ready, |response| response.status == 503).await;
        let first = response.json()["waiting_for"][0].clone();
        assert!(first.as_str().unwrap().starts_with(waiting_for), "{first}");
        assert_eq!(response.header("retry-after"), "1");
        // It is still healthy: a restart would not help.
        health.clone().send().await.expect(200);
        server.proxy().set(Link::Up);
        server.until(SOON, &ready, |response| response.status == 200).await;
        let write = insert(&server).json(&json!({ "id": id }));
        server.until(SOON, &write, |response| matches!(response.status.as_u16(), 201 | 409)).await;
    }
}
