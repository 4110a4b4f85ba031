//! A server that cannot start says why and what to do, and exits with an error.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Cluster, TestDatabase};

/// Runs the real binary, which has to fail; what it said.
fn refusal(project: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> String {
    let begun = Instant::now();
    let output = Basalt::command(project)
        .arg("serve")
        .args(arguments)
        .env("BASALT_SERVER_STATE_DIR", "state")
        .env("BASALT_SERVER_PORT", free_port().to_string())
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(said.lines().any(|line| line.starts_with("basalt: ")), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn project() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_second_server_on_the_same_data_names_the_first() {
    let server = Basalt::builder().embedded().start().await;
    let data = server.state_dir().to_str().unwrap();
    let said = refusal(project().path(), &["--data", data], &[("BASALT_DATABASE_BIN_DIR", &bin_dir().await)]);
    assert!(
        said.contains("another Basalt server")
            && said.contains(&format!("pid {}", server.pid().as_raw_nonzero())),
        "{said}"
    );
    server.get("/ready").send().await.expect(200);
}

#[tokio::test]
async fn a_taken_port_is_named_with_the_option_that_changes_it() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = refusal(project().path(), &["--port", &port], &[]);
    assert!(said.contains(&port) && said.contains("--port"), "{said}");
    let bin_dir = bin_dir().await;
    let said = refusal(project().path(), &["--db-port", &port], &[("BASALT_DATABASE_BIN_DIR", &bin_dir)]);
    assert!(said.contains(&port) && said.contains("database.port"), "{said}");
}

#[tokio::test]
async fn a_database_that_does_not_answer_or_refuses_is_named() {
    let refuse = |url: &str| refusal(project().path(), &[], &[("BASALT_DATABASE_URL", url)]);
    let nobody = free_port();
    let said = refuse(&format!("postgresql://a:b@127.0.0.1:{nobody}/postgres"));
    assert!(said.contains(&nobody.to_string()) && said.contains("does not respond"), "{said}");

    let database = TestDatabase::create().await;
    let port = database.cluster().port();
    let said = refuse(&format!("postgresql://supabase_admin:wrong-password@127.0.0.1:{port}/postgres"));
    assert!(said.contains("rejects the login") && !said.contains("wrong-password"), "{said}");
    let said = refuse(&database.url().replace(database.name(), "no_such_database"));
    assert!(said.contains("no_such_database"), "{said}");
}

#[tokio::test]
async fn a_bin_dir_without_postgres_is_named() {
    let said = refusal(project().path(), &[], &[("BASALT_DATABASE_BIN_DIR", "/nowhere")]);
    assert!(said.contains("database.bin_dir") && said.contains("/nowhere"), "{said}");
}

/// Needs root and the right to mount, which containers may lack.
#[tokio::test]
async fn a_full_disk_is_named() {
    let folder = project();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=12M,mode=755", "tmpfs"]).arg(&state).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("cannot mount a small file system here");
        return;
    }
    let unmount = Unmount(&state);
    let said = refusal(folder.path(), &[], &[("BASALT_DATABASE_BIN_DIR", &bin_dir().await)]);
    drop(unmount);
    assert!(said.contains("the disk is full") && said.contains("free some space"), "{said}");
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        assert!(Command::new("umount").arg(self.0).status().unwrap().success());
    }
}

async fn bin_dir() -> String {
    Cluster::get().await.bin_dir().display().to_string()
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_named_with_what_to_do() {
    let database = TestDatabase::create().await;
    let (name, port) = (database.name().to_owned(), database.cluster().port());
    database.admin_sql(&format!("create role frail_{name} login password 'frail'")).await;
    let url = |login: &str, port: u16| format!("postgresql://{login}@127.0.0.1:{port}/{name}");
    for (url, expected) in [
        (url(&format!("frail_{name}:frail"), port), "`basalt doctor` with the same settings"),
        (url(&format!("frail_{name}:wrong"), port), "check the user and password"),
        (url(&format!("frail_{name}"), port), "requires a password, and the URL has none"),
        (url("a:b", free_port()), "check host and port"),
    ] {
        let said = refusal(project().path(), &[], &[("BASALT_DATABASE_URL", &url)]);
        assert!(said.contains(expected) && said.contains("127.0.0.1:"), "{said}");
        assert!(said.matches("SQLSTATE").count() <= 1, "told once: {said}");
    }
    database.admin_sql(&format!("drop role frail_{name}")).await;
}

#[tokio::test]
async fn database_of_a_newer_release_is_refused_unchanged() {
    let project = project();
    let cluster = Cluster::get().await;
    let database = cluster.database(project.path()).await;
    let newer = "insert into basalt.system_migrations (service, version, name, checksum)
        values ('auth', 9001, 'from_the_future', 'x'), ('crystal', 1, 'new_service', 'y')";
    database.admin_sql(newer).await;
    // A start of this release would set these again.
    database.admin_sql("update basalt.system_migrations set checksum = 'old' where version = 0").await;
    database.admin_sql("drop event trigger pgrst_ddl_watch").await;
    let state = "select md5(string_agg(m::text, ',' order by service, version)) || (select count(*) from pg_event_trigger)
        from basalt.system_migrations m";
    let before = database.value(state).await;
    for command in ["serve", "migrate"] {
        let output = Basalt::command(project.path())
            .arg(command)
            .env("BASALT_SERVER_STATE_DIR", cluster.secrets_dir().await)
            .env("BASALT_SERVER_PORT", free_port().to_string())
            .env("BASALT_DATABASE_URL", database.url())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        for expected in ["newer release", "auth/9001_from_the_future", "crystal/0001_new_service", "backup"] {
            assert!(said.contains(expected), "{command}: {said}");
        }
    }
    assert_eq!(database.value(state).await, before);
}
