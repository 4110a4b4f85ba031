//! Migrations, policies and seeds of a project folder.

use std::fs;

use basalt_project::{MigrateOptions, Project, ProjectError, ProjectLayout, Report};
use tokio_postgres::Client;

use super::support::{admin, database, project, values, write};

const SEED: MigrateOptions = MigrateOptions { seed: true, seed_existing: false, adopt: false };

async fn migrate(project: &Project, client: &mut Client) -> Result<Report, ProjectError> {
    project.migrate(client, &SEED, |_| {}).await
}

#[tokio::test]
async fn files_are_applied_once_in_order_as_postgres() {
    let (_database, mut client) = database().await;
    let (dir, project) = project(&[
        ("migrations/README.md", "not SQL"),
        ("migrations/0002_more.sql", "alter table t add name text;"),
        (
            "migrations/0001_t.sql",
            "\u{feff}-- The first.\r\ncreate table t (id int);\r\ncreate type mood as enum ('sad; glad');",
        ),
        (
            "policies/t.sql",
            "alter table t enable row level security; grant select on t to anon; create policy all_rows on t for select to anon using (true);",
        ),
        ("seed.sql", "insert into t values (1);"),
    ]);
    let mut lines = Vec::new();
    let report = project.migrate(&mut client, &SEED, |line| lines.push(line.to_owned())).await.unwrap();
    assert_eq!(report.migrations, ["migrations/0001_t.sql", "migrations/0002_more.sql"]);
    assert!(report.seeded);
    assert_eq!(
        lines,
        [
            "applying migrations/0001_t.sql",
            "applying migrations/0002_more.sql",
            "applying 1 policy files",
            "applying seed.sql"
        ]
    );
    assert_eq!(values(&client, "select tableowner from pg_tables where tablename = 't'").await, ["postgres"]);
    let history = "select version || ' ' || name || ' ' || array_to_string(statements, '|')
                   from supabase_migrations.schema_migrations order by version";
    assert_eq!(
        values(&client, history).await,
        [
            "0001 t create table t (id int)|create type mood as enum ('sad; glad')",
            "0002 more alter table t add name text"
        ]
    );

    assert_eq!(migrate(&project, &mut client).await.unwrap(), Report::default());
    // Line endings depend on the checkout and do not change the checksum.
    write(dir.path(), "migrations/0002_more.sql", "alter table t add name text;");
    write(
        dir.path(),
        "migrations/0001_t.sql",
        "-- The first.\ncreate table t (id int);\ncreate type mood as enum ('sad; glad');",
    );
    assert_eq!(migrate(&project, &mut client).await.unwrap(), Report::default());

    // A policy file is complete: policies removed from it are dropped.
    write(
        dir.path(),
        "policies/t.sql",
        "alter table t enable row level security; create policy renamed on t for select to anon using (false);",
    );
    assert_eq!(migrate(&project, &mut client).await.unwrap().policies, ["policies/t.sql"]);
    assert_eq!(
        values(&client, "select policyname from pg_policies where tablename = 't'").await,
        ["renamed"]
    );
    assert_eq!(values(&client, "select count(*) from t").await, ["1"], "the seed ran again");
}

#[tokio::test]
async fn migration_error_names_its_position_and_rolls_back() {
    let (_database, mut client) = database().await;
    let (dir, project) = project(&[
        ("migrations/0001_good.sql", "create table good (title text);"),
        (
            "migrations/0002_bad.sql",
            "create table half ();\n\n-- Now the mistake.\nselect\n  titel\nfrom good;",
        ),
    ]);
    let error = migrate(&project, &mut client).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "migrations/0002_bad.sql, line 5 (statement 2): column \"titel\" does not exist (SQLSTATE 42703)\n  \
         hint: Perhaps you meant to reference the column \"good.title\"."
    );
    assert_eq!(values(&client, "select to_regclass('half') is null, to_regclass('good')").await, ["t"]);
    assert_eq!(values(&client, "select path from basalt.project_files").await, ["migrations/0001_good.sql"]);

    write(
        dir.path(),
        "migrations/0002_bad.sql",
        "create table half ();\ncreate table dup (id int primary key deferrable initially deferred);\ninsert into dup values (1), (1);\n",
    );
    let error = migrate(&project, &mut client).await.unwrap_err();
    assert!(
        error.to_string().starts_with("migrations/0002_bad.sql, line 3 (statement 3): duplicate key"),
        "{error}"
    );

    write(dir.path(), "migrations/0002_bad.sql", "create table half ();");
    assert_eq!(migrate(&project, &mut client).await.unwrap().migrations, ["migrations/0002_bad.sql"]);
}

#[tokio::test]
async fn out_of_order_and_changed_files_are_rejected() {
    let (_database, mut client) = database().await;
    let (dir, project) = project(&[
        ("migrations/0001_a.sql", "create table a ()"),
        ("migrations/0003_c.sql", "create table c ()"),
    ]);
    migrate(&project, &mut client).await.unwrap();

    let mut expect = async |path: &str, text: &str, message: &str| {
        let before = fs::read_to_string(dir.path().join(path)).ok();
        write(dir.path(), path, text);
        let error = migrate(&project, &mut client).await.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        match before {
            Some(before) => write(dir.path(), path, &before),
            None => fs::remove_file(dir.path().join(path)).unwrap(),
        }
    };
    expect(
        "migrations/0001_a.sql",
        "create table b ()",
        "migrations/0001_a.sql was changed after being applied",
    )
    .await;
    expect("migrations/0002_b.sql", "", "0002_b.sql is new but precedes migrations/0003_c.sql").await;
    expect(
        "migrations/0003_d.sql",
        "",
        "migrations/0003_c.sql and migrations/0003_d.sql have the same number",
    )
    .await;
    expect("migrations/4_d.sql", "", "migrations/4_d.sql: a migration is named NNNN_name.sql").await;
    expect(
        "migrations/0004_d.sql",
        "create table d ();\nCOMMIT;",
        "migrations/0004_d.sql, line 2: the file runs in one transaction",
    )
    .await;

    fs::remove_file(dir.path().join("migrations/0003_c.sql")).unwrap();
    let report = migrate(&project, &mut client).await.unwrap();
    assert_eq!(report.missing, ["migrations/0003_c.sql"], "an older checkout can still start");
}

#[tokio::test]
async fn concurrent_starts_apply_a_project_once() {
    let (database, client) = database().await;
    let (_dir, project) = project(&[
        ("migrations/0001_t.sql", "create table t (id int); select pg_sleep(0.3);"),
        ("policies/t.sql", "alter table t enable row level security"),
        ("seed.sql", "insert into t values (1)"),
    ]);
    let mut servers = Vec::new();
    for _ in 0..3 {
        let (project, mut client) = (project.clone(), admin(&database).await);
        servers.push(tokio::spawn(async move { migrate(&project, &mut client).await.unwrap() }));
    }
    let mut seeded = 0;
    for server in servers {
        seeded += usize::from(server.await.unwrap().seeded);
    }
    assert_eq!(seeded, 1);
    assert_eq!(values(&client, "select count(*) from t").await, ["1"]);
}

#[tokio::test]
async fn session_settings_do_not_leak_between_files() {
    let (_database, mut client) = database().await;
    let (_dir, project) = project(&[
        (
            "migrations/0001_dump.sql",
            "set search_path = ''; set role anon; reset role; create table public.t ();",
        ),
        ("migrations/0002_next.sql", "create table u ();"),
    ]);
    migrate(&project, &mut client).await.unwrap();
    assert_eq!(values(&client, "select tableowner from pg_tables where tablename = 'u'").await, ["postgres"]);
    assert_eq!(
        values(&client, "select current_user || ' ' || current_setting('search_path')").await,
        ["supabase_admin \"$user\", public"]
    );
}

#[tokio::test]
async fn seed_runs_only_on_a_new_database_if_enabled() {
    let (_database, mut client) = database().await;
    let (_dir, project) = project(&[
        ("migrations/0001_t.sql", "create table t (id int)"),
        ("seed.sql", "insert into t values (1)"),
    ]);
    let mut run = async |seed, seed_existing| {
        project
            .migrate(&mut client, &MigrateOptions { seed, seed_existing, adopt: false }, |_| {})
            .await
            .unwrap()
            .seeded
    };
    assert!(!run(false, false).await, "production");
    assert!(!run(true, false).await, "the database is no longer new");
    assert!(run(true, true).await, "migrate --seed");
    assert!(!run(true, true).await, "once");
}

#[test]
fn invalid_project_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("nowhere");
    assert!(Project::open(&missing).unwrap_err().to_string().contains("nowhere is not a folder"));
    let layout = || Project::open(dir.path()).unwrap().layout();
    assert_eq!(layout(), ProjectLayout::Basalt);
    write(dir.path(), "supabase/config.toml", "");
    assert_eq!(layout(), ProjectLayout::Supabase);
    write(dir.path(), "migrations/0001_a.sql", "");
    assert_eq!(layout(), ProjectLayout::Basalt);
}
