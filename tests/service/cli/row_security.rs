use basalt_testkit::Basalt;
use http::Method;
use serde_json::{Value, json};

use super::basalt;

/// Lists the private bucket as anon.
async fn listed(server: &Basalt) -> Value {
    let list = server.request(Method::POST, "/storage/v1/object/list/private").bearer(server.anon_key());
    list.json(&json!({"prefix": ""})).send().await.expect(200).json()
}

#[tokio::test]
async fn disabled_row_security_is_reported_and_restored() {
    let server = Basalt::start().await;
    server
        .database()
        .admin_sql(
            "insert into storage.buckets (id, name) values ('private', 'private');
             insert into storage.objects (bucket_id, name) values ('private', 'secret.txt');
             alter table storage.objects disable row level security",
        )
        .await;
    assert_eq!(listed(&server).await[0]["name"], "secret.txt", "without row security anon sees the object");

    let doctor = basalt(&server, &["doctor"]);
    assert!(doctor.out.contains("FAIL  row security   disabled on storage.objects,"), "{}", doctor.out);
    let check = basalt(&server, &["policies", "check"]);
    let fault = "storage.objects: belongs to a service and has no row-level security";
    assert!(check.code == 1 && check.out.contains(fault), "{}{}", check.out, check.err);

    let log = "row-level security was disabled on storage.objects";
    let restarted = Basalt::builder().database_url(&server.database().url()).expect_log(log).start().await;
    restarted.wait_for_log(log).await;
    assert_eq!(listed(&server).await, json!([]));
    let doctor = basalt(&server, &["doctor"]);
    assert!(doctor.out.contains("ok    row security"), "{}", doctor.out);
    assert!(!basalt(&server, &["policies", "check"]).out.contains(fault));
}

/// With an empty search path, `text` in a superuser's function would be the caller's domain, whose check runs as the superuser.
#[tokio::test]
async fn types_in_pg_temp_do_not_run_as_the_services() {
    let server = Basalt::start().await;
    let database = server.database();
    database
        .sql("create extension if not exists pg_net; create extension if not exists supabase_vault")
        .await;
    let exposed = "select p.oid::regprocedure::text from pg_proc p join pg_roles r on r.oid = p.proowner
      where p.prosecdef and (r.rolsuper or r.rolname like 'supabase%')
        and not coalesce(array_to_string(p.proconfig, ' ') ~ 'search_path=[^ ].*, pg_temp', false)";
    assert_eq!(database.admin_sql(exposed).await, [] as [Vec<Option<String>>; 0]);
    let attack = "create table public.ran (as_role text);
      create function public.note() returns boolean language plpgsql as $$
        begin insert into public.ran values (current_user); return true; end $$;
      create domain pg_temp.text as pg_catalog.text check (public.note());
      create domain pg_temp.jsonb as pg_catalog.jsonb check (public.note());
      create domain pg_temp.uuid as pg_catalog.uuid check (public.note());
      select net.http_post('http://127.0.0.1:1/'::pg_catalog.text);
      select vault.create_secret('secret'::pg_catalog.text, 'name'::pg_catalog.text)";
    database.sql(attack).await;
    let ran = database.admin_sql("select distinct as_role from public.ran where as_role <> 'postgres'").await;
    assert_eq!(ran, [] as [Vec<Option<String>>; 0]);
}

#[tokio::test]
async fn service_tables_are_out_of_the_projects_reach() {
    let server = Basalt::start().await;
    let database = server.database();
    let failure = "create function failure(statement text) returns text language plpgsql as $f$
      begin execute statement; return 'no error';
      exception when others then return sqlstate || ' ' || sqlerrm; end $f$";
    let _rows = database.sql(failure).await;
    let refused = [
        ("alter table storage.objects disable row level security", "table storage.objects"),
        ("alter table storage.objects owner to postgres", "table storage.objects"),
        ("alter table storage.objects add column mine int", "table storage.objects"),
        ("do $$ begin execute 'drop table storage.' || 'buckets cascade'; end $$", "table storage.buckets"),
        ("drop schema realtime cascade", ""),
        (
            "create or replace function storage.foldername(name text) returns text[] language sql as $$ select null::text[] $$",
            "function storage.foldername",
        ),
        (
            "set local session_replication_role = replica; drop table storage.objects cascade",
            "table storage.objects",
        ),
        (
            "set local role supabase_storage_admin; drop table storage.objects cascade",
            "table storage.objects",
        ),
    ];
    for (statement, object) in refused {
        let found = database.sql(&format!("select failure($s${statement}$s$)")).await[0][0]
            .clone()
            .unwrap_or_default();
        assert!(found.starts_with(&format!("42501 must be owner of {object}")), "{statement}: {found}");
    }
    // What projects do.
    let allowed = "create policy mine on storage.objects for select to anon using (bucket_id = 'x');
      drop policy mine on storage.objects;
      create function touched() returns trigger language plpgsql as $$ begin return new; end $$;
      create trigger mine after insert on storage.objects for each row execute function touched();
      create trigger signed_up after insert on auth.users for each row execute function touched();
      create index mine on storage.objects (name);
      create table storage.own (id int); alter table storage.own add column x int; drop table storage.own";
    let _rows = database.sql(allowed).await;
    let _rows = database.sql("alter table storage.objects enable row level security").await;

    let _rows = database.admin_sql("alter table storage.objects owner to postgres").await;
    let doctor = basalt(&server, &["doctor"]);
    assert!(
        doctor.out.contains("FAIL  table owners   storage.objects belong to another role"),
        "{}",
        doctor.out
    );
    let log = "the table storage.objects of a service belonged to another role";
    // The owner's rights replaced the grants of postgres.
    let grants = "storage.objects lacked a grant of its service";
    let restarted = Basalt::builder().database_url(&database.url()).expect_log(log).expect_log(grants);
    let restarted = restarted.start().await;
    restarted.wait_for_log(log).await;
    let owner = "select tableowner from pg_tables where schemaname = 'storage' and tablename = 'objects'";
    assert_eq!(database.value(owner).await, "supabase_storage_admin");
}
