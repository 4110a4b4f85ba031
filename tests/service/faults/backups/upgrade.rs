//! The upgrade of an embedded database: its backup, and its system migrations.

use basalt_testkit::Request;
use http::Method;

use super::*;

/// Undoes the newest migrations of four services, as a database of an older release lacks them.
const OLDER_RELEASE: &str = "
    drop table basalt.backup_runs, basalt.backup_jobs;
    drop table basalt.hook_mails;
    drop index storage.tus_uploads_unfinished, storage.s3_multipart_uploads_owner;
    alter table storage.tus_uploads drop column client;
    delete from basalt.system_migrations
      where (service, version) in (('backup', 1), ('auth', 9), ('storage', 7), ('realtime', 4));";
/// Number of migrations that it undoes.
const STEPS: i64 = 4;

/// Holds each migration beyond the allowed number before it commits.
const GATE: &str = "
    create table public.gate as select count(*) as allowed from basalt.system_migrations;
    create function public.hold() returns trigger language plpgsql as $$ begin
      if (select count(*) from basalt.system_migrations) > (select allowed from public.gate) then
        perform pg_catalog.pg_sleep(600);
      end if;
      return null;
    end $$;
    create trigger hold after insert on basalt.system_migrations for each row execute function public.hold();";

#[tokio::test]
async fn upgrade_killed_at_each_step_continues() {
    const APPLIED: &str = "select count(*) - (select allowed from public.gate) from basalt.system_migrations";
    const HELD: &str = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
    let mut server = Basalt::builder().embedded().start().await;
    let user = with_content(&server).await;
    let client = superuser(&server).await;
    client.batch_execute(OLDER_RELEASE).await.unwrap();
    client.batch_execute(GATE).await.unwrap();
    drop(client);
    server.stop().await;

    // During the backup, or soon after it.
    let backups = server.state_dir().join("before-upgrade");
    server.begin_start();
    until("the backup begins", async || backups.join("sets").exists()).await;
    let mut killed = server.postgres_pid();
    server.kill();
    for step in 0..STEPS {
        server.begin_start();
        // A PostgreSQL whose server was killed runs until the next start replaces it.
        until("PostgreSQL starts", async || {
            let pid = server.postgres_pid();
            pid.is_some() && pid != killed
        })
        .await;
        let client = superuser(&server).await;
        let number = async |query| client.query_one(query, &[]).await.unwrap().get::<_, i64>(0);
        until("a migration is held", async || number(HELD).await == 1).await;
        assert_eq!(number(APPLIED).await, 0, "migrations after {step}");
        client.batch_execute("update public.gate set allowed = allowed + 1").await.unwrap();
        drop(client);
        killed = server.postgres_pid();
        server.kill();
        if step % 2 == 0 {
            server.kill_postgres();
        }
    }
    server.start_again().await;
    let client = superuser(&server).await;
    assert_eq!(client.query_one(APPLIED, &[]).await.unwrap().get::<_, i64>(0), 0);
    let complete = "select to_regclass('basalt.backup_jobs') is not null and to_regclass('basalt.hook_mails') is not null
        and to_regclass('storage.tus_uploads_unfinished') is not null";
    assert!(client.query_one(complete, &[]).await.unwrap().get::<_, bool>(0));
    drop(client);
    let credentials = json!({ "email": user.email, "password": user.password });
    let sign_in = server.post("/auth/v1/token?grant_type=password").apikey(server.anon_key());
    let _session = sign_in.json(&credentials).send().await.expect(200);
    let object = server.get("/storage/v1/object/files/note.txt").apikey(server.service_key());
    assert_eq!(object.send().await.expect(200).text(), "the content");
    // The first backup, and those of the last two starts that migrated.
    assert_eq!(complete_sets(&backups).len(), 3);
    let _verified = ok(of_server(&server, &["backup", "verify", "--from", shown(&backups)]).await);
}

/// The data folder of release 0.1.0, whose binary made a user, a row and an object. Each release adds its own.
#[tokio::test]
async fn data_folder_of_0_1_0_is_upgraded() {
    const FOLDER: &[u8] = include_bytes!("released/0.1.0.tar.xz");
    let dir = Cluster::get().await.fresh_dir("released");
    tar::Archive::new(lzma_rust2::XzReader::new(FOLDER, true)).unpack(&dir).unwrap();
    // As `tar` would restore it for root: the account of PostgreSQL may have another number here.
    let owner = format!("--reference={}", shown(Cluster::get().await.data_dir()));
    for (program, path) in [("chgrp", ".basalt"), ("chown", ".basalt/postgres"), ("chown", ".basalt/run")] {
        let mut command = Command::new(program);
        if program == "chown" {
            command.arg("--recursive");
        }
        command.current_dir(&dir).args([&owner, path]);
        let _output = ok(run(command).await);
    }
    let mut server = Restored::start(&dir).await;
    let client = server.client().await;
    until("the server is ready", async || {
        let health = Request::new(Method::GET, server.url("/health")).try_send().await;
        health.is_ok_and(|response| response.status == 200)
    })
    .await;
    let body: String = client.query_one("select body from public.notes", &[]).await.unwrap().get(0);
    assert_eq!(body, "written by 0.1.0");
    let keys = ok(elsewhere(&dir, None, &["keys", "--data", ".basalt"]).await);
    let key = keys.lines().find_map(|line| line.strip_prefix("SUPABASE_ANON_KEY=")).unwrap();
    let credentials = json!({ "email": "ada@example.org", "password": "correct horse" });
    let sign_in = Request::new(Method::POST, server.url("/auth/v1/token?grant_type=password")).apikey(key);
    let session = sign_in.json(&credentials).send().await.expect(200).json();
    let object = Request::new(Method::GET, server.url("/storage/v1/object/authenticated/files/a/note.txt"));
    let object = object.apikey(key).bearer(session["access_token"].as_str().unwrap());
    assert_eq!(object.send().await.expect(200).text(), "stored by 0.1.0");
    assert_eq!(complete_sets(&dir.join(".basalt/before-upgrade")).len(), 1);
    drop(client);
    server.stop();
}
