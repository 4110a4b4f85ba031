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
