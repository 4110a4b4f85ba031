//! Projects in Supabase's layout, applied to a database: order, names, transactions, rights, history, seeds, buckets.

#![allow(clippy::unwrap_used, reason = "helpers fail a test as the test itself does")]

use std::path::Path;

use basalt_pg::system_migrations::{self, Layout};
use basalt_project::supabase::{BucketSettings, SeedPatterns, ServerValues, SupabaseSettings};
use basalt_project::{ProjectError, SupabaseOptions, SupabaseReport};
use tokio_postgres::Client;

use super::support::{self, admin, empty_database, failure, project, values, write};
use basalt_testkit::TestDatabase;

async fn database() -> (TestDatabase, Client) {
    let database = empty_database().await;
    let mut client = admin(&database).await;
    support::apply(&mut client, Layout::Supabase).await;
    (database, client)
}

fn options() -> SupabaseOptions {
    SupabaseOptions {
        settings: SupabaseSettings::default(),
        strict: false,
        seed: true,
        seed_existing: false,
        server: None,
    }
}

async fn apply_with(dir: &Path, client: &mut Client, options: &SupabaseOptions) -> SupabaseReport {
    let project = basalt_project::Project::open(dir).unwrap();
    project.apply_supabase(client, options, |_| {}).await.unwrap()
}

async fn apply(dir: &Path, client: &mut Client) -> SupabaseReport {
    apply_with(dir, client, &options()).await
}

const HISTORY: &str =
    "select version || ' ' || name from supabase_migrations.schema_migrations order by version collate \"C\"";
const IS_SUPERUSER: &str = "select rolsuper from pg_roles where rolname = 'postgres'";

#[tokio::test]
async fn any_name_after_digits_is_applied_in_byte_order() {
    let (_database, mut client) = database().await;
    let (dir, _project) = project(&[
        ("supabase/config.toml", ""),
        (
            "supabase/migrations/001_first.sql",
            "create table public.log (id serial, name text); insert into log (name) values ('001')",
        ),
        ("supabase/migrations/20250101000000_b.sql", "insert into log (name) values ('b');"),
        ("supabase/migrations/20250101000000_c.sql", "insert into log (name) values ('c');"),
        ("supabase/migrations/20250102000000-3f2a-1b.sql", "insert into log (name) values ('hyphen');"),
        ("supabase/migrations/9_last.sql", "insert into log (name) values ('9');"),
        ("supabase/migrations/add_x.sql", "not SQL"),
        ("supabase/migrations/old/1_x.sql", "not SQL"),
    ]);
    let report = apply(dir.path(), &mut client).await;
    assert_eq!(report.applied.len(), 5);
    assert!(report.failed.is_empty());
    let skipped: Vec<&str> = report.skipped.iter().map(|(file, _)| file.as_str()).collect();
    assert_eq!(skipped, ["supabase/migrations/add_x.sql", "supabase/migrations/old/"]);
    assert_eq!(values(&client, "select name from log order by id").await, ["001", "b", "c", "hyphen", "9"]);
    assert_eq!(
        values(&client, HISTORY).await,
        ["001 first", "20250101000000 b", "20250101000000_c c", "20250102000000 3f2a-1b", "9 last"]
    );
    let again = apply(dir.path(), &mut client).await;
    assert_eq!((again.applied.len(), again.up_to_date), (0, 5));

    // A version that another tool recorded counts as applied.
    write(dir.path(), "supabase/migrations/99_pushed.sql", "insert into log (name) values ('pushed');");
    client
        .batch_execute("insert into supabase_migrations.schema_migrations (version) values ('99')")
        .await
        .unwrap();
    // A changed file is reported and not applied again.
    write(dir.path(), "supabase/migrations/9_last.sql", "insert into log (name) values ('nine');");
    let changed = apply(dir.path(), &mut client).await;
    assert_eq!((changed.applied.len(), changed.up_to_date), (0, 6));
    assert_eq!(changed.changed, ["supabase/migrations/9_last.sql"]);
    assert_eq!(values(&client, "select count(*) from log").await, ["5"]);
}

#[tokio::test]
async fn a_failed_file_is_rolled_back_and_the_others_go_on() {
    let (_database, mut client) = database().await;
    let (dir, _project) = project(&[
        ("supabase/migrations/1_a.sql", "create table public.a (id int);"),
        (
            "supabase/migrations/2_broken.sql",
            "create table public.b (id int);\n\ninsert into a values (1);\ncreate tabel x (id int);",
        ),
        ("supabase/migrations/3_c.sql", "create table public.c (id int);"),
        (
            "supabase/migrations/4_deferred.sql",
            "create table public.d (id int primary key, e int references public.d deferrable initially deferred);\ninsert into d values (1, 2);\n",
        ),
        ("supabase/migrations/5_meta.sql", "\\d a\n"),
        ("supabase/migrations/6_copy.sql", "select 1;\ncopy a from stdin;"),
    ]);
    let report = apply(dir.path(), &mut client).await;
    assert_eq!(report.applied, ["supabase/migrations/1_a.sql", "supabase/migrations/3_c.sql"]);
    let failures: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    for (failure, start) in failures.iter().zip([
        "supabase/migrations/2_broken.sql, line 4 (statement 3): syntax error at or near \"tabel\" (SQLSTATE 42601)",
        "supabase/migrations/4_deferred.sql, line 2 (statement 2): insert or update on table \"d\" violates foreign key",
        "supabase/migrations/5_meta.sql, line 1 (statement 1): syntax error at or near \"\\\"",
        "supabase/migrations/6_copy.sql, line 2: COPY from or to the client is not supported",
    ]) {
        assert!(failure.starts_with(start), "{failure}");
    }
    assert_eq!(failures.len(), 4);
    assert_eq!(values(&client, "select to_regclass('b'), to_regclass('d')").await, ["-"]);
    assert_eq!(values(&client, "select count(*) from a").await, ["0"]);
    assert_eq!(values(&client, IS_SUPERUSER).await, ["f"]);

    // Corrected, it is applied at the next start.
    write(dir.path(), "supabase/migrations/2_broken.sql", "create table public.b (id int);");
    let fixed = apply(dir.path(), &mut client).await;
    assert_eq!(fixed.applied, ["supabase/migrations/2_broken.sql"]);

    let strict = SupabaseOptions { strict: true, ..options() };
    let project = basalt_project::Project::open(dir.path()).unwrap();
    let error = project.apply_supabase(&mut client, &strict, |_| {}).await.unwrap_err();
    assert!(matches!(error, ProjectError::Strict { .. }), "{error}");
}

#[tokio::test]
async fn files_have_superuser_rights_that_do_not_outlive_them() {
    let (database, mut client) = database().await;
    let (dir, _project) = project(&[
        (
            "supabase/migrations/1_rights.sql",
            "create extension moddatetime with schema extensions;
             create table public.t (id int); alter schema public owner to pg_database_owner;
             set role anon; reset role; select set_config('search_path', '', false); set statement_timeout = '59s';
             create table public.is_super as select current_setting('is_superuser') as flag, session_user::text as name;",
        ),
        ("supabase/migrations/2_path.sql", "create table p (id uuid default uuid_generate_v4());
             create table public.kept as select current_setting('statement_timeout') as timeout;"),
        (
            "supabase/migrations/3_commit.sql",
            "begin; create table c1 (id int); commit; create table c2 as select current_setting('is_superuser') as flag;",
        ),
        (
            "supabase/migrations/4_concurrently.sql",
            "create index concurrently t_id on t (id); create table c3 (id int); vacuum t; alter system set work_mem = '1GB';",
        ),
        ("supabase/migrations/5_partial.sql", "create table c4 (id int); commit; create table c5 (id int); select 1/0;"),
    ]);
    client
        .batch_execute("create extension if not exists \"uuid-ossp\" with schema extensions")
        .await
        .unwrap();
    let report = apply(dir.path(), &mut client).await;
    let failures: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    assert_eq!(report.applied.len(), 4, "{failures:?}");
    assert!(failures[0].ends_with("statements before the file's last COMMIT stay applied"), "{failures:?}");
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(values(&client, "select flag || ' ' || name from is_super").await, ["on postgres"]);
    assert_ne!(values(&client, "select timeout from kept").await, ["59s"], "settings end with their file");
    assert_eq!(values(&client, "select flag from c2").await, ["on"]);
    assert_eq!(
        values(&client, "select to_regclass('c4') is not null and to_regclass('c5') is null").await,
        ["t"]
    );
    let owners = "select distinct tableowner from pg_tables where schemaname = 'public'";
    assert_eq!(values(&client, owners).await, ["postgres"]);
    assert_eq!(values(&client, IS_SUPERUSER).await, ["f"]);
    assert_eq!(values(&client, "select current_setting('is_superuser'), session_user").await, ["on"]);
    // The layout's default privileges.
    let may = "select has_table_privilege('anon', 't', 'select') and has_table_privilege('service_role', 't', 'insert')";
    assert_eq!(values(&client, may).await, ["t"]);
    drop(database);
}

#[tokio::test]
async fn transactions_of_a_file_have_their_isolation_level() {
    let (_database, mut client) = database().await;
    let table = |name: &str| {
        format!("create table public.{name} as select current_setting('transaction_isolation') as level;")
    };
    let several = format!(
        "{} commit; begin isolation level serializable; {} commit; start transaction isolation level repeatable read; {} commit; {}",
        table("i1"),
        table("i2"),
        table("i3"),
        table("i4")
    );
    let first = format!("begin; set transaction isolation level serializable; {} commit;", table("i5"));
    let late = format!("{} begin isolation level serializable; select 1;", table("i6"));
    let (dir, _project) = project(&[
        ("supabase/migrations/1_several.sql", &several),
        ("supabase/migrations/2_first.sql", &first),
        ("supabase/migrations/3_late.sql", &late),
    ]);
    let report = apply(dir.path(), &mut client).await;
    let failures: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    let levels = "select (select level from i1) || ', ' || (select level from i2) || ', ' || (select level from i3) || ', '
                    || (select level from i4) || ', ' || (select level from i5)";
    assert_eq!(
        values(&client, levels).await,
        ["read committed, serializable, repeatable read, read committed, serializable"],
        "{failures:?}"
    );
    // As upstream: the transaction has begun long before.
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("must be called before any query"), "{failures:?}");
    assert_eq!(values(&client, IS_SUPERUSER).await, ["f"]);
}

#[tokio::test]
async fn seeds_run_once_on_a_new_database() {
    let (_database, mut client) = database().await;
    let (dir, _project) = project(&[
        ("supabase/migrations/1_t.sql", "create table public.t (name text);"),
        ("supabase/seed.sql", "insert into t values ('seed');"),
        ("supabase/seeds/b.sql", "insert into t values ('b');"),
        ("supabase/seeds/a.sql", "insert into t values ('a'); insert into missing values (1);"),
        ("supabase/roles.sql", "create role shop_reader;"),
    ]);
    let patterns = SeedPatterns(["./seed.sql", "./seeds/*.sql", "seed.sql"].map(str::to_owned).to_vec());
    let settings = SupabaseSettings { seeds: patterns, ..SupabaseSettings::default() };
    let options = SupabaseOptions { settings, ..options() };
    let report = apply_with(dir.path(), &mut client, &options).await;
    assert_eq!(report.applied, ["supabase/roles.sql", "supabase/migrations/1_t.sql"]);
    assert_eq!(report.seeds, ["supabase/seed.sql", "supabase/seeds/b.sql"]);
    assert_eq!(report.failed.len(), 1);
    // The seed that failed is tried again; a new seed on a database that is not new is not; a changed seed only gets its new hash.
    write(dir.path(), "supabase/seeds/a.sql", "insert into t values ('a');");
    write(dir.path(), "supabase/seeds/c.sql", "insert into t values ('c');");
    write(dir.path(), "supabase/seed.sql", "insert into t values ('other');");
    let again = apply_with(dir.path(), &mut client, &options).await;
    assert_eq!(again.seeds, ["supabase/seeds/a.sql"]);
    assert_eq!(again.changed, ["supabase/seed.sql"]);
    assert_eq!(values(&client, "select string_agg(name, ' ' order by name) from t").await, ["a b seed"]);
    let asked = SupabaseOptions { seed_existing: true, ..options };
    assert_eq!(apply_with(dir.path(), &mut client, &asked).await.seeds, ["supabase/seeds/c.sql"]);
    assert!(apply_with(dir.path(), &mut client, &asked).await.seeds.is_empty());
    client.batch_execute("drop role shop_reader").await.unwrap();
}

#[tokio::test]
async fn buckets_and_settings_of_the_server_are_stored() {
    let (_database, mut client) = database().await;
    let (dir, _project) = project(&[(
        "supabase/migrations/1_f.sql",
        "create function public.f() returns text language sql as $$ select current_setting('app.settings.supabase_url', true)
           || current_setting('app.settings.service_role_key') || current_setting('app.settings.webhook') $$;",
    )]);
    let bucket = BucketSettings {
        name: "images".to_owned(),
        is_public: true,
        file_size_limit: Some(1 << 20),
        allowed_mime_types: Some(vec!["image/png".to_owned()]),
    };
    let mut options = SupabaseOptions {
        settings: SupabaseSettings { buckets: vec![bucket], ..SupabaseSettings::default() },
        server: Some(ServerValues {
            url: "http://localhost:8000".to_owned(),
            anon_key: "anon".to_owned().into(),
            service_key: "it's".to_owned().into(),
        }),
        ..options()
    };
    let report = apply_with(dir.path(), &mut client, &options).await;
    assert_eq!(report.buckets, ["images"]);
    assert_eq!(report.unset, ["webhook"]);
    let settings =
        "select unnest(setconfig) from pg_db_role_setting s join pg_database d on d.oid = setdatabase
                    where datname = current_database() and setrole = 0 order by 1";
    assert_eq!(
        values(&client, settings).await,
        ["app.settings.service_role_key=it's", "app.settings.supabase_url=http://localhost:8000"]
    );
    let stored = "select public || ' ' || file_size_limit || ' ' || array_to_string(allowed_mime_types, ',')
                  from storage.buckets";
    assert_eq!(values(&client, stored).await, ["true 1048576 image/png"]);
    assert!(apply_with(dir.path(), &mut client, &options).await.buckets.is_empty());
    options.settings.buckets[0].is_public = false;
    assert_eq!(apply_with(dir.path(), &mut client, &options).await.buckets, ["images"]);
    assert_eq!(values(&client, stored).await, ["false 1048576 image/png"]);
}

/// `basalt migrate` is killed at random moments; the next run continues, and each statement has run once.
#[tokio::test]
async fn killed_runs_continue_and_apply_nothing_twice() {
    const KILLS: u32 = 40;
    let (database, mut client) = database().await;
    client.batch_execute("create table public.log (name text)").await.unwrap();
    client.batch_execute("alter table public.log owner to postgres").await.unwrap();
    let files: Vec<(String, String)> = (1..=60)
        .map(|n| {
            let insert = |part: &str| format!("insert into public.log values ('{n}{part}');\n");
            let sql = match n % 3 {
                0 => insert("a") + &format!("create table public.t{n} (id int);\n"),
                1 => {
                    insert("a")
                        + "commit;\n"
                        + &insert("b")
                        + &format!("create table public.t{n} (id int);\n")
                }
                _ => {
                    format!("create table public.t{n} (id int);\n")
                        + &insert("a")
                        + &format!("create index concurrently i{n} on public.t{n} (id);\n")
                        + &insert("b")
                }
            };
            (format!("supabase/migrations/{n:03}_x.sql"), sql)
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, sql)| (path.as_str(), sql.as_str())).collect();
    let (dir, _project) = project(&files);
    let mut kills = 0;
    let mut seed = 0x2545_f491_u32;
    for _ in 0..KILLS {
        // A killed client's connection ends at any statement; the lock goes with it.
        let mut victim = admin(&database).await;
        let pid: i32 = victim.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        let run = async {
            let project = basalt_project::Project::open(dir.path()).unwrap();
            project.apply_supabase(&mut victim, &options(), |_| {}).await
        };
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let moment = std::time::Duration::from_micros(u64::from(seed >> 16) % 12_000);
        let killed = async {
            tokio::time::sleep(moment).await;
            client.batch_execute(&format!("select pg_terminate_backend({pid})")).await.unwrap();
        };
        let (result, ()) = tokio::join!(run, killed);
        kills += u32::from(result.is_err());
    }
    assert!(kills > 5, "only {kills} of {KILLS} runs were killed while they worked");
    let report = apply(dir.path(), &mut client).await;
    let failures: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    assert_eq!(failures, [""; 0]);
    assert_eq!(values(&client, "select count(*) from supabase_migrations.schema_migrations").await, ["60"]);
    assert_eq!(values(&client, "select count(*) || ' ' || count(distinct name) from log").await, ["100 100"]);
    assert_eq!(values(&client, "select count(*) from pg_index where not indisvalid").await, ["0"]);
    assert_eq!(values(&client, "select count(*) from supabase_migrations.unfinished_files").await, ["0"]);
    assert_eq!(values(&client, IS_SUPERUSER).await, ["f"]);
}

#[tokio::test]
async fn seven_hundred_migrations_take_seconds() {
    let (_database, mut client) = database().await;
    let files: Vec<(String, String)> = (1..=700)
        .map(|n| {
            let sql = format!(
                "create table public.t{n} (id int primary key, name text);
                 alter table public.t{n} enable row level security;
                 create policy p on public.t{n} for select using (true);"
            );
            (format!("supabase/migrations/{n:04}_x.sql"), sql)
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, sql)| (path.as_str(), sql.as_str())).collect();
    let (dir, _project) = project(&files);
    let started = std::time::Instant::now();
    let report = apply(dir.path(), &mut client).await;
    assert_eq!(report.applied.len(), 700);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    let again = std::time::Instant::now();
    assert_eq!(apply(dir.path(), &mut client).await.up_to_date, 700);
    assert!(again.elapsed().as_secs() < 2, "{:?}", again.elapsed());
}

#[tokio::test]
async fn two_servers_apply_each_file_once() {
    let (database, mut client) = database().await;
    let files: Vec<(String, String)> = (1..=20)
        .map(|n| (format!("supabase/migrations/{n:03}_x.sql"), format!("create table public.t{n} (id int);")))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, sql)| (path.as_str(), sql.as_str())).collect();
    let (dir, _project) = project(&files);
    let mut other = admin(&database).await;
    let (first, second) = tokio::join!(apply(dir.path(), &mut client), apply(dir.path(), &mut other));
    assert_eq!(first.applied.len() + second.applied.len(), 20);
    assert!(first.failed.is_empty() && second.failed.is_empty());
    let (code, _) = failure(&client, "create table public.t20 (id int)").await;
    assert_eq!(code, "42P07");
}

/// Dumps of newer tools contain psql's `\restrict`; which extensions exist from the start differs between the hosted platform and its
/// local stack, which also has pg_net.
#[tokio::test]
async fn dumps_and_repeated_extensions_are_applied() {
    let (_database, mut client) = database().await;
    let (dir, _project) = project(&[
        (
            "supabase/migrations/1_dump.sql",
            "\\restrict 8sYHm1xk8l0aR4\n\nset check_function_bodies = false;\ncreate table public.t (id int);\n\\unrestrict 8sYHm1xk8l0aR4\n",
        ),
        (
            "supabase/migrations/2_extensions.sql",
            "create extension citext; create extension citext with schema public; create extension \"pg_net\";
             create table public.u (name citext);",
        ),
        ("supabase/migrations/3_net.sql", "select net.http_get('http://127.0.0.1:9/');"),
        ("supabase/migrations/4_psql.sql", "\\d\n"),
    ]);
    let report = apply(dir.path(), &mut client).await;
    let failures: Vec<String> = report.failed.iter().map(ToString::to_string).collect();
    assert_eq!(report.applied.len(), 3, "{failures:?}");
    assert!(failures[0].contains("4_psql.sql, line 1"), "{failures:?}");
    assert_eq!(report.left_out.len(), 2, "{:?}", report.left_out);
    assert!(report.left_out[0].contains("installed already"), "{:?}", report.left_out);
}

/// Starters revoke everything in schema storage from the API roles, which has no effect on Supabase.
#[tokio::test]
async fn revoked_grants_of_the_services_are_restored() {
    let (_database, mut client) = database().await;
    let (dir, _project) = project(&[(
        "supabase/migrations/1_revoke.sql",
        "revoke all privileges on schema storage from anon, authenticated;
         revoke all privileges on all tables in schema storage from anon, authenticated;
         revoke all privileges on all functions in schema storage from anon, authenticated, public;
         grant select on storage.objects to pg_monitor;",
    )]);
    let report = apply(dir.path(), &mut client).await;
    assert_eq!(report.applied.len(), 1, "{:?}", report.failed);
    const MAY: &str = "select has_schema_privilege('anon', 'storage', 'usage')
        and has_table_privilege('authenticated', 'storage.objects', 'insert')
        and has_function_privilege('anon', 'storage.foldername(text)', 'execute')";
    assert_eq!(values(&client, MAY).await, ["f"]);
    let missing = system_migrations::missing_grants(&client).await.unwrap();
    assert!(
        missing
            .iter()
            .any(|grant| grant.object == "storage.objects" && grant.grant == "insert to authenticated")
    );
    let findings = basalt_project::Project::open(dir.path()).unwrap();
    let findings = findings.check_policies(&mut client, &["public".to_owned()]).await.unwrap();
    assert!(findings.iter().any(|finding| finding.rule.name() == "service-object"), "{findings:?}");
    // As after the files, and at each start.
    let restored = support::apply(&mut client, Layout::Supabase).await.granted;
    assert_eq!(restored, missing);
    assert_eq!(values(&client, MAY).await, ["t"]);
    assert!(system_migrations::missing_grants(&client).await.unwrap().is_empty());
    let more = "select has_table_privilege('pg_monitor', 'storage.objects', 'select')";
    assert_eq!(values(&client, more).await, ["t"], "further grants stay");
}
