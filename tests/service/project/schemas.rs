//! The schemas `storage`, `realtime` and `extensions` as projects use them, as role `postgres` and as a user.

use super::support::{become_user, database, failure, values};

const USER: &str = "7e570000-0000-4000-8000-000000000001";

#[tokio::test]
async fn projects_can_add_policies_on_objects_and_messages() {
    let (_database, client) = database().await;
    client
        .batch_execute(
            "set role postgres;
             create policy \"own folder\" on storage.objects for all to authenticated
               using (bucket_id = 'files' and (storage.foldername(name))[1] = auth.uid()::text)
               with check (bucket_id = 'files' and (storage.foldername(name))[1] = auth.uid()::text);
             create policy \"owner reads\" on storage.objects for select using (owner_id = (select auth.jwt() ->> 'sub'));
             create policy \"no listing\" on storage.objects for select using (storage.allow_only_operation('object.get_authenticated'));
             create policy \"buckets are visible\" on storage.buckets for select using (true);
             insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types)
               values ('files', 'files', false, 1000, '{image/png}') on conflict (id) do nothing;
             create policy \"members read\" on realtime.messages for select to authenticated
               using (realtime.topic() like 'room:%' and extension in ('broadcast', 'presence'));
             create policy \"members send\" on realtime.messages for insert to authenticated
               with check (realtime.messages.extension = 'broadcast' and realtime.topic() = 'room:1');
             create table public.t (id int primary key);
             alter publication supabase_realtime add table public.t;
             create extension if not exists pgcrypto with schema extensions",
        )
        .await
        .unwrap();

    become_user(&client, USER).await;
    let insert =
        |name: &str| format!("insert into storage.objects (bucket_id, name) values ('files', '{name}')");
    client.batch_execute(&insert(&format!("{USER}/a.txt"))).await.unwrap();
    assert_eq!(failure(&client, &insert("other/a.txt")).await.0, "42501");
    assert_eq!(values(&client, "select count(*) from storage.objects").await, ["1"]);
    assert_eq!(failure(&client, "select * from storage.migrations").await.0, "42501");
    let delete = failure(&client, "delete from storage.objects where false").await;
    assert_eq!(delete.1, "Direct deletion from storage tables is not allowed. Use the Storage API instead.");
    assert_eq!(delete.0, "42501");
    client
        .batch_execute(
            "begin; set local storage.allow_delete_query = 'true'; delete from storage.objects; commit",
        )
        .await
        .unwrap();

    client.batch_execute("select realtime.send('{\"a\":1}', 'e', 'room:1')").await.unwrap();
    // Denied by the policy: a warning, and the transaction continues.
    client
        .batch_execute("begin; select realtime.send('{\"a\":1}', 'e', 'room:2'); select 1; commit")
        .await
        .unwrap();
    client.batch_execute("reset role").await.unwrap();
    let sent = "select event || ' ' || topic || ' ' || private || ' ' || (payload ->> 'id' = id::text) from realtime.messages";
    assert_eq!(values(&client, sent).await, ["e room:1 true true"]);
}

#[tokio::test]
async fn storage_functions_match_upstream() {
    let (_database, client) = database().await;
    for (call, expected) in [
        ("foldername('a/b/c.txt')", "{a,b}"),
        ("foldername('c.txt')", "{}"),
        ("filename('a/b/c.txt')", "c.txt"),
        ("filename('')", "-"),
        ("extension('a.b/c.tar.gz')", "gz"),
        ("extension('a.b/readme')", "readme"),
        ("operation()", "-"),
        ("allow_only_operation('object.list')", "f"),
    ] {
        assert_eq!(values(&client, &format!("select storage.{call}")).await, [expected], "{call}");
    }
    client.batch_execute("set storage.operation = 'storage.object.list'").await.unwrap();
    for (call, expected) in [
        ("operation()", "storage.object.list"),
        ("allow_only_operation('object.list')", "t"),
        ("allow_only_operation('storage.object.list')", "t"),
        ("allow_any_operation('{object.get, object.list}')", "t"),
        ("allow_any_operation('{object.get}')", "f"),
    ] {
        assert_eq!(values(&client, &format!("select storage.{call}")).await, [expected], "{call}");
    }
    client.batch_execute("insert into storage.buckets (id, name) values ('b', 'b')").await.unwrap();
    let probe = failure(&client, "select storage.can_insert_object('b', 'x', null, '{\"size\": 1}')").await;
    assert_eq!(probe, ("PT200".into(), "ROLLBACK".into()));
    client
        .batch_execute(
            "insert into storage.objects (bucket_id, name, metadata) values ('b', 'x/y', '{\"size\": 7}')",
        )
        .await
        .unwrap();
    assert_eq!(values(&client, "select size || bucket_id from storage.get_size_by_bucket()").await, ["7b"]);
    let long = format!("insert into storage.buckets (id, name) values ('l', '{}')", "n".repeat(101));
    assert!(failure(&client, &long).await.1.ends_with("is too long (101 characters). Max is 100."));
}

#[tokio::test]
async fn broadcast_changes_includes_old_and_new() {
    let (_database, client) = database().await;
    client
        .batch_execute(
            "create table public.t (id int, v text);
             create function public.tell() returns trigger language plpgsql as $$ begin
               perform realtime.broadcast_changes('t:' || coalesce(new.id, old.id), tg_op, tg_op, tg_table_name, tg_table_schema, new, old);
               return null; end $$;
             create trigger tell after insert or update or delete on public.t for each row execute function public.tell();
             insert into public.t values (1, 'a'); update public.t set v = 'b'; delete from public.t",
        )
        .await
        .unwrap();
    let events = "select event || ' ' || (payload - 'id') from realtime.messages order by inserted_at";
    assert_eq!(
        values(&client, events).await,
        [
            r#"INSERT {"table": "t", "record": {"v": "a", "id": 1}, "schema": "public", "operation": "INSERT", "old_record": null}"#,
            r#"UPDATE {"table": "t", "record": {"v": "b", "id": 1}, "schema": "public", "operation": "UPDATE", "old_record": {"v": "a", "id": 1}}"#,
            r#"DELETE {"table": "t", "record": null, "schema": "public", "operation": "DELETE", "old_record": {"v": "b", "id": 1}}"#,
        ]
    );
    let wrong = "select realtime.broadcast_changes('t', 'e', 'TRUNCATE', 't', 'public', null, null)";
    assert_eq!(
        failure(&client, wrong).await.1,
        "Failed to process the row: Unexpected operation type: TRUNCATE"
    );
}

#[tokio::test]
async fn message_partitions_are_created_and_dropped_daily() {
    let (_database, client) = database().await;
    let partitions = "select string_agg(to_date(right(inhrelid::regclass::text, 10), 'YYYY_MM_DD') - (now() at time zone 'utc')::date || '', ' ' order by inhrelid::regclass::text)
                      from pg_inherits where inhparent = 'realtime.messages'::regclass";
    assert_eq!(values(&client, partitions).await, ["-1 0 1 2 3"]);
    client
        .batch_execute(
            "do $$ declare day date := (now() at time zone 'utc')::date; begin
               execute format('create table realtime.messages_%s partition of realtime.messages for values from (%L) to (%L)',
                 to_char(day - 9, 'YYYY_MM_DD'), day - 9, day - 8);
               execute format('drop table realtime.messages_%s', to_char(day + 3, 'YYYY_MM_DD'));
             end $$",
        )
        .await
        .unwrap();
    basalt_realtime::partitions::maintain(&client).await.unwrap();
    assert_eq!(values(&client, partitions).await, ["-1 0 1 2 3"]);
    become_user(&client, USER).await;
    assert_eq!(failure(&client, "select realtime.maintain_partitions()").await.0, "42501");
    let unprotected = "select inhrelid::regclass from pg_inherits join pg_class on oid = inhrelid
                       where inhparent = 'realtime.messages'::regclass and not relrowsecurity";
    client.batch_execute("reset role").await.unwrap();
    assert!(values(&client, unprotected).await.is_empty());
}
