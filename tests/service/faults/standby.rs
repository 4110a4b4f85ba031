//! A failover as the server sees it: its address answers as a standby, which reads and does not write, and then as the
//! primary; and what `/ready` says while the database is away.

use std::time::Duration;

use basalt_testkit::{Basalt, Link};
use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::load::{DATABASE_AWAY, insert, project};

const SOON: Duration = Duration::from_secs(60);

/// Where the data of the embedded PostgreSQL lies.
pub(crate) fn data_dir(server: &Basalt) -> std::path::PathBuf {
    let moved = std::fs::read_to_string(server.state_dir().join("postgres.location"));
    moved.map_or(server.state_dir().join("postgres"), |home| {
        std::path::Path::new(home.trim()).join("postgres")
    })
}

/// Writes an (empty) file that PostgreSQL looks for.
fn touch(server: &Basalt, name: &str) {
    std::fs::write(data_dir(server).join(name), "").unwrap();
}

#[tokio::test]
async fn a_standby_answers_reads_and_puts_writes_off_until_it_is_promoted() {
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
    let answer = server.until(SOON, &read, |answer| answer.status == 200).await;
    assert_eq!(answer.json(), json!([{ "id": 1 }]));

    let writes = [
        insert(&server).json(&json!({ "id": 2 })),
        // COMMIT is held back for this one, and BEGIN says that it writes.
        insert(&server)
            .json(&json!({ "id": 2 }))
            .header("prefer", "return=representation")
            .header("accept", "application/vnd.pgrst.object+json"),
    ];
    for write in writes {
        let put_off = write.send().await;
        assert_eq!(put_off.status, 503, "{}", put_off.text());
        assert_eq!(put_off.json()["code"], "PGRST000");
        assert_eq!(put_off.json()["details"], "the server is a standby, which takes no writes");
        assert!(put_off.header("retry-after").parse::<u32>().is_ok());
    }
    read.send().await.expect(200);

    // What `pg_ctl promote` does.
    touch(&server, "promote");
    kill_process(server.postgres_pid().unwrap(), Signal::USR1).unwrap();
    let write = insert(&server).json(&json!({ "id": 3 }));
    server.until(SOON, &write, |answer| answer.status == 201).await;
    server.until(SOON, &server.get("/ready"), |answer| answer.status == 200).await;
    assert_eq!(insert(&server).json(&json!({ "id": 1 })).send().await.expect(409).json()["code"], "23505");
}

#[tokio::test]
async fn the_server_is_not_ready_while_its_database_is_away() {
    let project = project();
    let builder = Basalt::builder().project(project.path()).through_proxy();
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    let (ready, health) = (server.get("/ready"), server.get("/health"));
    // Cut is seen at once; a link that goes silent, when the pools are asked whether they reach the database.
    for (link, id, waiting_for) in
        [(Link::Cut, 1, "database connection"), (Link::Stalled, 2, "database connection of")]
    {
        server.proxy().set(link);
        let answer = server.until(SOON, &ready, |answer| answer.status == 503).await;
        let first = answer.json()["waiting_for"][0].clone();
        assert!(first.as_str().unwrap().starts_with(waiting_for), "{first}");
        assert_eq!(answer.header("retry-after"), "1");
        // It lives all the same: there is no reason to restart it.
        health.clone().send().await.expect(200);
        server.proxy().set(Link::Up);
        server.until(SOON, &ready, |answer| answer.status == 200).await;
        let write = insert(&server).json(&json!({ "id": id }));
        server.until(SOON, &write, |answer| matches!(answer.status.as_u16(), 201 | 409)).await;
    }
}
