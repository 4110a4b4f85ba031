//! PostgreSQL rejects work for reasons unrelated to the request: a renamed database, a full disk, a shutdown. Clients get 503
//! with Retry-After, and no restart is needed afterwards. Logins: `logins.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Link, Response};
use serde_json::json;
use tokio_postgres::NoTls;

use crate::load::{DATABASE_AWAY, Load, changeable_project, insert, is_refusal, project, stored};
use crate::overload;
use crate::own::OwnPostgres;
use crate::raw::Raw;
use crate::standby;

/// Time for PostgreSQL to recover, also from a full disk.
const SOON: Duration = Duration::from_secs(120);

/// Status, code and details.
pub(crate) fn status_code_details(response: &Response) -> (u16, String, String) {
    let body = response.json();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (response.status.as_u16(), text("code"), text("details"))
}

#[tokio::test]
async fn renamed_database_causes_503_until_renamed_back() {
    let server = overload::start(&[]).await;
    for text in DATABASE_AWAY {
        server.expect_log(text);
    }
    let name = server.database().name();
    let read = server.get("/rest/v1/entries?limit=1").apikey(server.service_key());
    read.clone().send().await.expect(200);
    // A session cannot rename the database it is in.
    let mut config = server.database().config();
    let (beside, connection) = config.dbname("postgres").connect(NoTls).await.unwrap();
    let _driver = tokio::spawn(connection);
    let run = async |statement: &str| beside.batch_execute(&statement.replace("NAME", name)).await.unwrap();
    run("alter database NAME allow_connections false").await;
    run("select pg_terminate_backend(pid, 1000) from pg_stat_activity where datname = 'NAME'").await;
    let (status, code, details) = status_code_details(&read.clone().send().await);
    assert_eq!((status, code.as_str()), (503, "PGRST000"));
    assert!(details.contains("not currently accepting connections"), "{details}");
    run("alter database NAME rename to NAME_away").await;
    let (status, code, details) = status_code_details(&read.clone().send().await);
    assert_eq!((status, code.as_str()), (503, "PGRST000"));
    assert!(details.contains("does not exist"), "{details}");
    let ready = server.get("/ready");
    server.until(SOON, &ready, |response| response.status == 503).await;
    run("alter database NAME_away rename to NAME").await;
    run("alter database NAME allow_connections true").await;
    server.until(SOON, &ready, |response| response.status == 200).await;
    read.send().await.expect(200);
}

#[tokio::test]
async fn commit_waiting_for_a_standby_ends_at_the_deadline() {
    let project = project();
    let own = OwnPostgres::start().await;
    let server = own.server(project.path(), &[("rest.timeout", "3"), ("database.pool_size", "1")]).await;
    server.expect_log("the deadline passed before the database answered");
    insert(&server).json(&json!({ "id": 1 })).send().await.expect(201);
    own.sql("alter system set synchronous_standby_names = 'nobody'").await;
    own.sql("select pg_reload_conf()").await;
    let waiting = "select 1 from pg_stat_activity where wait_event = 'SyncRep'";
    let until_waiting = async |is_so: bool| {
        let deadline = Instant::now() + SOON;
        while own.sql(waiting).await.is_none() == is_so {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // A write that may not be durable is not acknowledged, although it is visible. The setting takes a while to reach every process.
    let mut id = 1;
    let (response, took) = loop {
        id += 1;
        let begun = Instant::now();
        let response = insert(&server).json(&json!({ "id": id })).send().await;
        if response.status != 201 {
            break (response, begun.elapsed());
        }
        assert!(id < 1000, "no commit waits for a standby");
    };
    assert_eq!((response.status.as_u16(), response.json()["code"].as_str()), (504, Some("57014")));
    assert!(took < Duration::from_secs(60), "{took:?}");
    until_waiting(false).await;
    // A client that disconnects does not keep the connection beyond its request's deadline.
    let mut client = Raw::connect(&server).await;
    let body = json!({ "id": id + 1 }).to_string();
    client
        .send(format!(
            "POST /rest/v1/entries HTTP/1.1\r\nhost: a\r\napikey: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            server.service_key(),
            body.len()
        ))
        .await;
    until_waiting(true).await;
    drop(client);
    let read = server.get("/rest/v1/entries?select=id&order=id").apikey(server.service_key());
    let rows = server.until(SOON, &read, |response| response.status == 200).await;
    let all: Vec<_> = (1..=id + 1).map(|id| json!({ "id": id })).collect();
    assert_eq!(rows.json(), json!(all));
    own.sql("alter system reset synchronous_standby_names").await;
    own.sql("select pg_reload_conf()").await;
    let write = insert(&server).json(&json!({ "id": id + 2 }));
    server.until(SOON, &write, |response| matches!(response.status.as_u16(), 201 | 409)).await;
    drop(server);
    own.stop().await;
}

#[tokio::test]
async fn shutdown_does_not_truncate_responses() {
    let project = project();
    let builder = Basalt::builder().project(project.path()).through_proxy().config("database.pool_size", "1");
    let server = DATABASE_AWAY.iter().fold(builder, |builder, text| builder.expect_log(text)).start().await;
    server.sql("insert into public.entries select generate_series(1, 1000)").await;
    let list = server.get("/rest/v1/entries?order=id").apikey(server.service_key());
    let whole = list.clone().send().await.expect(200);
    let ids: Vec<_> = (2000..2900).map(|id| json!({ "id": id })).collect();
    let write = insert(&server).header("prefer", "return=representation").json(&json!(ids));
    // The database's response is stalled midway when PostgreSQL shuts down.
    for is_read in [true, false] {
        server.proxy().set(Link::StalledAfter(5_000));
        let request = if is_read { list.clone() } else { write.clone() };
        let asking = tokio::spawn(request.send());
        tokio::time::sleep(Duration::from_millis(500)).await;
        let name = server.database().name();
        let end = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}' and usename = 'authenticator'"
        );
        server.database().admin_sql(&end).await;
        server.proxy().set(Link::Up);
        let response = asking.await.unwrap();
        if response.status == 200 {
            assert_eq!(response.body, whole.body);
        } else if response.status == 201 {
            assert_eq!(response.json().as_array().unwrap().len(), 900);
        } else {
            assert!(is_refusal(&response), "{} {}", response.status, response.text());
        }
        let response = server.until(SOON, &list, |response| response.status == 200).await;
        assert!(matches!(response.json().as_array().unwrap().len(), 1000 | 1900));
    }
}

/// Needs root and the right to mount, which containers may lack.
#[tokio::test]
async fn full_disk_returns_503_for_writes_and_serves_reads() {
    let disk = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=100M,mode=777", "tmpfs"]).arg(disk.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        println!("cannot mount a small file system here");
        return;
    }
    let _unmount = Unmount(disk.path());
    let server = overload::start(&[("database.pool_size", "2")]).await;
    for text in DATABASE_AWAY {
        server.expect_log(text);
    }
    let cluster = server.database();
    let space = format!("{}_small", cluster.name());
    own(disk.path(), &server).await;
    cluster.admin_sql(&format!("create tablespace {space} location '{}'", disk.path().display())).await;
    cluster.admin_sql(&format!("alter table public.entries set tablespace {space}")).await;
    server.sql("insert into public.entries values (1)").await;
    let filler = disk.path().join("filler");
    let room = vec![0_u8; 1 << 20];
    let mut file = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &room).is_ok() {}
    drop(file);
    let rows: Vec<_> = (10..20_000).map(|id| json!({ "id": id })).collect();
    let write = insert(&server).json(&json!(rows));
    let response = write.clone().send().await;
    assert_eq!(
        (response.status.as_u16(), response.json()["code"].as_str()),
        (503, Some("53100")),
        "{}",
        response.text()
    );
    assert!(is_refusal(&response), "{:?}", response.headers);
    let read = server.get("/rest/v1/entries?select=id&limit=5").apikey(server.service_key());
    assert_eq!(read.send().await.expect(200).json(), json!([{ "id": 1 }]));
    fs::remove_file(&filler).unwrap();
    write.send().await.expect(201);
    assert_eq!(cluster.count("public.entries").await, 19_991);
    cluster.admin_sql("alter table public.entries set tablespace pg_default").await;
    cluster.admin_sql(&format!("drop tablespace {space}")).await;
}

/// Without space for its WAL, PostgreSQL exits repeatedly until there is some. Needs root and permission to mount.
#[tokio::test]
async fn full_wal_disk_loses_no_acknowledged_write() {
    let project = changeable_project();
    // PostgreSQL logs many lines.
    let mut server = Basalt::builder().embedded().project(project.path()).expect_log("").start().await;
    server.stop().await;
    let disk = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=200M,mode=755", "tmpfs"]).arg(disk.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        println!("cannot mount a small file system here");
        return;
    }
    let _unmount = Unmount(disk.path());
    let (log, moved) = (standby::data_dir(&server).join("pg_wal"), disk.path().join("pg_wal"));
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new("cp").arg("-a").args([&log, &moved]).status().unwrap().success());
    fs::remove_dir_all(&log).unwrap();
    std::os::unix::fs::symlink(&moved, &log).unwrap();
    server.start_again().await;

    let load = Load::start(&server, 8, 0);
    load.until_acknowledged(100).await;
    let filler = disk.path().join("filler");
    let room = vec![0_u8; 1 << 20];
    let mut file = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &room).is_ok() {}
    drop(file);
    let changes = "do $$ begin for i in 1..20 loop
          perform pg_logical_emit_message(true, 'x', repeat('x', 1000000));
        end loop; end $$";
    let write = server.post("/rest/v1/rpc/administer").apikey(server.service_key());
    let write = write.json(&json!({ "statements": changes }));
    let refused = server.until(SOON, &write, |response| response.status != 204).await;
    assert!(is_refusal(&refused), "{} {}", refused.status, refused.text());
    let ready = server.get("/ready");
    server.until(SOON, &ready, |response| response.status == 503).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    fs::remove_file(&filler).unwrap();
    server.until(SOON, &ready, |response| response.status == 200).await;
    load.until_acknowledged(100).await;
    let outcome = load.finish().await;
    println!("{} acknowledged, {} refused", outcome.acknowledged.len(), outcome.refused);
    assert_eq!(outcome.unanswered, 0);
    let stored = stored(&server).await;
    let lost: Vec<_> = outcome.acknowledged.difference(&stored).collect();
    assert!(lost.is_empty(), "acknowledged and not stored: {lost:?}");
    assert!(!server.log().iter().any(|line| line.raw.contains("panicked")));
    // Stop before the disk is unmounted.
    server.stop().await;
}

/// Gives a folder to PostgreSQL's user, with mode 0700.
async fn own(folder: &Path, server: &Basalt) {
    let data = server.database().admin_sql("select current_setting('data_directory')").await;
    assert!(
        Command::new("chown")
            .arg("--reference")
            .arg(data[0][0].as_ref().unwrap())
            .arg(folder)
            .status()
            .unwrap()
            .success()
    );
}

pub(crate) struct Unmount<'a>(pub(crate) &'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        // Lazy unmount: a failed test may have open files.
        assert!(Command::new("umount").arg("-l").arg(self.0).status().unwrap().success());
    }
}
