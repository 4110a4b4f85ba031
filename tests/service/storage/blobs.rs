//! Blobs and their rows: garbage collection, and cleaning up after writers that died.

use std::path::PathBuf;
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::identity::Identity;
use basalt_pg::database::Database;
use basalt_pg::pool::{PoolConfig, ServicePool};
use basalt_storage::StorageConfig;
use basalt_storage::blobs::intents::{Intents, begin_step, commit_step};
use basalt_storage::blobs::sweeper::{Swept, sweep};
use basalt_storage::blobs::{BlobId, BlobStore};
use basalt_testkit::{Basalt, TestDatabase};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const ROWS: &str = "
insert into storage.buckets (id, name) values ('b', 'b');
insert into storage.objects (bucket_id, name, version) values
  ('b', 'deleted', '00000000-0000-4000-8000-000000000001'),
  ('b', 'replaced', '00000000-0000-4000-8000-000000000002'),
  ('b', 'moved', '00000000-0000-4000-8000-000000000003'),
  ('b', 'one of two', '00000000-0000-4000-8000-000000000004'),
  ('b', 'two of two', '00000000-0000-4000-8000-000000000004'),
  ('b', 'foreign', 'v1'),
  ('b', 'upper case', '00000000-0000-4000-8000-00000000000A'),
  ('b', 'nothing', null);
insert into storage.s3_multipart_uploads (id, upload_signature, bucket_id, key, version) values ('u', '', 'b', 'k', '1');
insert into storage.s3_multipart_uploads_parts (upload_id, part_number, bucket_id, key, etag, version) values
  ('u', 1, 'b', 'k', '', '00000000-0000-4000-8000-000000000005')";

/// The last digits of the blob ids in `blob_garbage`.
async fn garbage(database: &TestDatabase) -> Vec<i64> {
    let rows =
        database.admin_sql("select right(blob::text, 12) from storage.blob_garbage order by blob").await;
    rows.into_iter().map(|row| i64::from_str_radix(row[0].as_deref().unwrap(), 16).unwrap()).collect()
}

async fn server() -> Basalt {
    let server = Basalt::builder().only("storage").start().await;
    server.database().admin_sql(ROWS).await;
    server
}

pub(super) fn owner_pool(database: &TestDatabase) -> ServicePool {
    let login = Database::new(database.config()).acting_as("supabase_storage_admin", "storage");
    ServicePool::new(login, PoolConfig::new("test", 2), TaskTracker::new())
}

fn dir(server: &Basalt) -> PathBuf {
    server.state_dir().join("storage")
}

async fn store(server: &Basalt) -> BlobStore {
    let config = StorageConfig { dir: dir(server), ..StorageConfig::default() };
    BlobStore::open(&config, TaskTracker::new()).await.unwrap()
}

async fn put(store: &BlobStore, id: BlobId) {
    let mut writer = store.writer(Identity::SERVER, id);
    writer.write("some bytes".into()).await.unwrap();
    let _written = writer.finish().await.unwrap();
}

fn path(server: &Basalt, id: BlobId) -> PathBuf {
    let name = id.to_string();
    dir(server).join(name.split_at(2).0).join(name)
}

#[tokio::test]
async fn removed_row_marks_its_blob_as_garbage() {
    let server = server().await;
    let database = server.database();
    let refused = "do $$ begin delete from storage.objects; raise 'it may'; exception when insufficient_privilege then end $$";
    database.sql(refused).await;
    assert_eq!(garbage(database).await, [] as [i64; 0], "a denied deletion creates no garbage");
    database
        .admin_sql(
            "begin; set local storage.allow_delete_query = 'true';
             delete from storage.objects where name in ('deleted', 'one of two', 'foreign', 'upper case', 'nothing'); commit;
             update storage.objects set version = '00000000-0000-4000-8000-000000000009' where name = 'replaced';
             update storage.objects set name = 'elsewhere', metadata = '{}', version = version where name = 'moved'",
        )
        .await;
    assert_eq!(garbage(database).await, [1, 2, 4]);
    database
        .admin_sql("begin; update storage.objects set version = '1' where name = 'elsewhere'; rollback")
        .await;
    assert_eq!(garbage(database).await, [1, 2, 4], "a rolled-back probe creates no garbage");
    database.admin_sql("delete from storage.s3_multipart_uploads").await;
    assert_eq!(garbage(database).await, [1, 2, 4, 5], "a cascading delete creates garbage");
    database.admin_sql("truncate storage.buckets cascade").await;
    assert_eq!(garbage(database).await, [1, 2, 3, 4, 5, 9], "TRUNCATE creates garbage");
    let early =
        "select count(*) from storage.blob_garbage where next_attempt_at < now() + interval '4 minutes'";
    assert_eq!(database.value(early).await, "0", "the blob outlives running downloads");
}

#[tokio::test]
async fn api_roles_cannot_read_blob_tables() {
    let server = server().await;
    let database = server.database();
    database.sql("create policy p on storage.objects for all to authenticated using (true)").await;
    let delete = "begin; set local role authenticated; set local storage.allow_delete_query = 'true';
        delete from storage.objects where name = 'deleted'; commit";
    database.sql(delete).await;
    assert_eq!(garbage(database).await, [1]);
    for role in ["anon", "authenticated"] {
        for privilege in ["select", "insert", "update", "delete", "truncate"] {
            for table in ["blob_intents", "blob_garbage", "blob_references"] {
                let may = format!("select has_table_privilege('{role}', 'storage.{table}', '{privilege}')");
                assert_eq!(database.value(&may).await, "f", "{role} {privilege} {table}");
            }
        }
    }
    let theirs = "select count(*) from pg_proc p, unnest(array['public', 'anon', 'authenticated', 'service_role']) role
        where pronamespace = 'storage'::regnamespace and (proname like '%blob%' or proname like 'discard%')
          and has_function_privilege(role, p.oid, 'execute')";
    assert_eq!(database.value(theirs).await, "0");
    let secured = "select count(*) from pg_class where relnamespace = 'storage'::regnamespace
        and relname in ('blob_intents', 'blob_garbage') and relrowsecurity";
    assert_eq!(database.value(secured).await, "2");
    for (table, privileges) in [("blob_intents", "select, insert, delete"), ("blob_garbage", "")] {
        let held = format!(
            "select coalesce(string_agg(lower(p), ', ' order by n), '') from
             unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) with ordinality as t (p, n)
             where has_table_privilege('service_role', 'storage.{table}', p)"
        );
        assert_eq!(database.value(&held).await, privileges, "{table}");
    }
}

#[tokio::test]
async fn due_garbage_is_deleted_unless_a_row_references_it() {
    let server = server().await;
    let (database, store) = (server.database(), store(&server).await);
    let (gone, shared, unfinished) = (BlobId::random(), BlobId::random(), BlobId::random());
    for id in [gone, shared, unfinished] {
        put(&store, id).await;
    }
    let staged = path(&server, unfinished).with_file_name(format!("{unfinished}#1"));
    std::fs::write(&staged, "half").unwrap();
    database
        .admin_sql(&format!(
            "insert into storage.objects (bucket_id, name, version) values ('b', 'shared', '{shared}');
             insert into storage.blob_garbage (blob, kind, next_attempt_at)
             values ('{gone}', 'row', now()), ('{shared}', 'row', now()), ('{unfinished}', 'intent', now());
             insert into storage.blob_garbage (blob, kind) values ('00000000-0000-4000-8000-000000000042', 'row')"
        ))
        .await;
    let deadline = Instant::now() + Duration::from_secs(60);
    while garbage(database).await != [0x42] {
        assert!(Instant::now() < deadline, "{:?}", garbage(database).await);
        sleep(Duration::from_millis(50)).await;
    }
    assert!(!path(&server, gone).exists() && !path(&server, unfinished).exists() && !staged.exists());
    assert!(path(&server, shared).exists());
}

#[tokio::test]
async fn sweep_removes_only_files_of_dead_writers() {
    let server = server().await;
    let (database, store) = (server.database(), store(&server).await);
    let (dead, alive, unknown) = (BlobId::random(), BlobId::random(), BlobId::random());
    database
        .admin_sql(&format!(
            "insert into storage.blob_intents (blob, heartbeat_at)
             values ('{dead}', now() - interval '2 hours'), ('{alive}', now())"
        ))
        .await;
    let staged = |id: BlobId| path(&server, id).with_file_name(format!("{id}#1"));
    for id in [dead, alive, unknown] {
        std::fs::write(staged(id), "half").unwrap();
    }
    let pool = owner_pool(database);
    let clock = Clock::fixed(Clock::system().unix_seconds());
    let hour = Duration::from_secs(3600);
    assert_eq!(sweep(&pool, &store, &clock, hour).await.unwrap(), Swept { intents: 1, ..Swept::default() });
    assert_eq!(
        database.value("select blob from storage.blob_garbage where kind = 'intent'").await,
        dead.to_string()
    );
    clock.advance(3600);
    assert_eq!(
        sweep(&pool, &store, &clock, hour).await.unwrap(),
        Swept { partial_uploads: 2, ..Swept::default() }
    );
    assert!(!staged(dead).exists() && staged(alive).exists() && !staged(unknown).exists());
    assert_eq!(database.value("select blob from storage.blob_intents").await, alive.to_string());
}

#[tokio::test]
async fn unwritable_blob_directory_fails_readiness() {
    let server = Basalt::builder().only("storage").expect_log("cannot store objects").start().await;
    server.get("/ready").send().await.expect(200);
    let (dir, aside) = (dir(&server), server.state_dir().join("aside"));
    std::fs::rename(&dir, &aside).unwrap();
    let ready = server.get("/ready");
    let response = server.until(Duration::from_secs(60), &ready, |response| response.status == 503).await;
    assert_eq!(response.json()["waiting_for"], serde_json::json!(["store of objects"]));
    std::fs::rename(&aside, &dir).unwrap();
    server.until(Duration::from_secs(60), &ready, |response| response.status == 200).await;
}

#[tokio::test]
async fn live_intent_is_renewed_and_dropped_one_is_garbage() {
    let server = server().await;
    let database = server.database();
    let intents = Intents::new(owner_pool(database));
    let (alive, done, given_up) = (BlobId::random(), BlobId::random(), BlobId::random());
    let held = [alive, done, given_up].map(|blob| intents.keep(blob));
    for blob in [alive, done, given_up] {
        let step = begin_step(blob);
        database.admin_sql(&step.text.replace("$1", &format!("'{blob}'"))).await;
    }
    database.admin_sql("update storage.blob_intents set heartbeat_at = now() - interval '2 hours'").await;
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(intents.run(shutdown.clone()));
    let old = "select count(*) from storage.blob_intents where heartbeat_at < now() - interval '1 minute'";
    let deadline = Instant::now() + Duration::from_secs(30);
    while database.value(old).await != "0" {
        assert!(Instant::now() < deadline, "intents are not renewed");
        sleep(Duration::from_millis(20)).await;
    }
    let commit = |blob: BlobId| commit_step(blob).text.replace("$1", &format!("'{blob}'"));
    let [held_alive, held_done, held_given_up] = held;
    assert_eq!(database.admin_sql(&commit(done)).await.len(), 1, "the commit deletes the intent");
    held_done.done();
    drop(held_given_up);
    while database.count("storage.blob_intents").await != 1 {
        assert!(Instant::now() < deadline, "the dropped intent still exists");
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        database.admin_sql(&commit(given_up)).await.len(),
        0,
        "a commit after the writer gave up finds no intent"
    );
    assert_eq!(database.value("select blob from storage.blob_garbage").await, given_up.to_string());
    assert_eq!(database.value("select blob from storage.blob_intents").await, alive.to_string());
    drop(held_alive);
    shutdown.cancel();
    running.await.unwrap();
    assert_eq!(database.count("storage.blob_intents").await, 0, "shutdown discards the remaining intents");
}
