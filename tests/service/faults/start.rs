//! A server that cannot start prints the reason and the remedy, and exits with an error.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Cluster, TestDatabase};

/// The output of the real binary, which must fail.
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
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(stderr.lines().any(|line| line.starts_with("basalt: ")), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn project() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn second_server_on_the_same_data_names_the_first() {
    let server = Basalt::builder().embedded().start().await;
    let data = server.state_dir().to_str().unwrap();
    let output =
        refusal(project().path(), &["--data", data], &[("BASALT_DATABASE_BIN_DIR", &bin_dir().await)]);
    assert!(
        output.contains("another Basalt server")
            && output.contains(&format!("pid {}", server.pid().as_raw_nonzero())),
        "{output}"
    );
    server.get("/ready").send().await.expect(200);
}

#[tokio::test]
async fn taken_port_error_names_the_option() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = refusal(project().path(), &["--port", &port], &[]);
    assert!(output.contains(&port) && output.contains("--port"), "{output}");
    let bin_dir = bin_dir().await;
    let output = refusal(project().path(), &["--db-port", &port], &[("BASALT_DATABASE_BIN_DIR", &bin_dir)]);
    assert!(output.contains(&port) && output.contains("database.port"), "{output}");
}

#[tokio::test]
async fn unreachable_or_rejecting_database_is_named() {
    let refuse = |url: &str| refusal(project().path(), &[], &[("BASALT_DATABASE_URL", url)]);
    let free = free_port();
    let output = refuse(&format!("postgresql://a:b@127.0.0.1:{free}/postgres"));
    assert!(output.contains(&free.to_string()) && output.contains("does not respond"), "{output}");

    let database = TestDatabase::create().await;
    let port = database.cluster().port();
    let output = refuse(&format!("postgresql://supabase_admin:wrong-password@127.0.0.1:{port}/postgres"));
    assert!(output.contains("rejects the login") && !output.contains("wrong-password"), "{output}");
    let output = refuse(&database.url().replace(database.name(), "no_such_database"));
    assert!(output.contains("no_such_database"), "{output}");
}

#[tokio::test]
async fn bin_dir_without_postgres_is_named() {
    let output = refusal(project().path(), &[], &[("BASALT_DATABASE_BIN_DIR", "/nowhere")]);
    assert!(output.contains("database.bin_dir") && output.contains("/nowhere"), "{output}");
}

/// Needs root and the right to mount, which containers may lack.
#[tokio::test]
async fn full_disk_is_named() {
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
    let stderr = refusal(folder.path(), &[], &[("BASALT_DATABASE_BIN_DIR", &bin_dir().await)]);
    drop(unmount);
    assert!(stderr.contains("the disk is full") && stderr.contains("free some space"), "{stderr}");
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
async fn unusable_database_error_names_the_remedy() {
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
        let output = refusal(project().path(), &[], &[("BASALT_DATABASE_URL", &url)]);
        assert!(output.contains(expected) && output.contains("127.0.0.1:"), "{output}");
        assert!(output.matches("SQLSTATE").count() <= 1, "the SQLSTATE is repeated: {output}");
    }
    database.admin_sql(&format!("drop role frail_{name}")).await;
}

#[tokio::test]
async fn database_of_a_newer_release_is_rejected_unchanged() {
    let project = project();
    let cluster = Cluster::get().await;
    let database = cluster.database(project.path()).await;
    let newer = "insert into basalt.system_migrations (service, version, name, checksum)
        values ('auth', 9001, 'from_the_future', 'x'), ('crystal', 1, 'new_service', 'y')";
    database.admin_sql(newer).await;
    // A start of this release would restore these.
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
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {stderr}");
        for expected in ["newer release", "auth/9001_from_the_future", "crystal/0001_new_service", "backup"] {
            assert!(stderr.contains(expected), "{command}: {stderr}");
        }
    }
    assert_eq!(database.value(state).await, before);
}
