//! The S3 blob store, against a real S3-compatible server, also when it is unreachable.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::identity::Identity;
use basalt_storage::blobs::sweeper::{Swept, sweep};
use basalt_storage::blobs::{BlobError, BlobId, BlobStore, Written};
use basalt_storage::{Backend, S3Config, StorageConfig};
use basalt_testkit::{Basalt, ChaosProxy, Link, Request, S3Server};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::Method;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::blobs::owner_pool;

const MEBIBYTE: usize = 1024 * 1024;

fn config(port: u16, bucket: &str) -> StorageConfig {
    StorageConfig {
        backend: Backend::S3,
        s3: S3Config {
            endpoint: Some(format!("http://127.0.0.1:{port}").parse().unwrap()),
            bucket: Some(bucket.to_owned()),
            access_key_id: Some("an-id".to_owned()),
            secret_access_key: Some("a-secret".into()),
            ..S3Config::default()
        },
        ..StorageConfig::default()
    }
}

struct Fixture {
    store: BlobStore,
    tracker: TaskTracker,
    bucket: String,
    server: &'static S3Server,
}

async fn fixture() -> Fixture {
    let server = S3Server::get().await;
    let bucket = server.bucket().await;
    let tracker = TaskTracker::new();
    let store = BlobStore::open(&config(server.port(), &bucket), tracker.clone()).await.unwrap();
    Fixture { store, tracker, bucket, server }
}

impl Fixture {
    /// The response to a GET request on the bucket.
    async fn query(&self, query: &str) -> String {
        let url = format!("{}/{}{query}", self.server.url(), self.bucket);
        Request::new(Method::GET, url).send().await.expect(200).text()
    }

    async fn objects(&self) -> usize {
        self.query("?list-type=2").await.matches("<Key>").count()
    }

    async fn uploads(&self) -> usize {
        self.query("?uploads").await.matches("<UploadId>").count()
    }
}

/// Bytes without a repeating pattern.
fn body(length: usize) -> Bytes {
    (0..length).map(|index| (index.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

async fn put(store: &BlobStore, body: &Bytes) -> (BlobId, Written) {
    let id = BlobId::random();
    let mut writer = store.writer(Identity::SERVER, id);
    let mut rest = body.clone();
    while !rest.is_empty() {
        writer.write(rest.split_to(rest.len().min(200_000))).await.unwrap();
    }
    (id, writer.finish().await.unwrap())
}

async fn get(store: &BlobStore, id: BlobId, range: Range<usize>) -> Result<Vec<u8>, BlobError> {
    let chunks: Vec<Bytes> =
        store.read(id, range.start as u64..range.end as u64).await?.try_collect().await?;
    Ok(chunks.concat())
}

#[tokio::test]
async fn reads_back_objects_of_any_size() {
    let fixture = fixture().await;
    let store = &fixture.store;
    store.check().await.unwrap();
    for length in [0, 1, 70_000, 8 * MEBIBYTE, 8 * MEBIBYTE + 1, 33 * MEBIBYTE + 7] {
        let body = body(length);
        let (id, written) = put(store, &body).await;
        assert_eq!(written.size, length as u64);
        assert!(get(store, id, 0..length).await.unwrap() == body, "{length}");
        if length > 1 {
            let range = length / 2 - 1..length / 2 + 1;
            assert!(get(store, id, range.clone()).await.unwrap() == body.slice(range), "{length}");
            assert_eq!(get(store, id, 0..length + 1).await, Err(BlobError::TooShort(id)));
        }
        store.delete(id).await.unwrap();
        store.delete(id).await.unwrap();
        assert_eq!(get(store, id, 0..1).await, Err(BlobError::NotFound(id)));
    }
    assert_eq!((fixture.objects().await, fixture.uploads().await), (0, 0));
}

#[tokio::test]
async fn copies_and_concatenations_survive_source_deletion() {
    let fixture = fixture().await;
    let store = &fixture.store;
    let (large, small) = (body(9 * MEBIBYTE), body(10));
    let ((one, _), (two, _)) = (put(store, &large).await, put(store, &small).await);
    let (copied, joined) = (BlobId::random(), BlobId::random());
    store.copy(one, copied).await.unwrap();
    store.concat(&[two, one, two], joined).await.unwrap();
    store.delete(one).await.unwrap();
    store.delete(two).await.unwrap();
    assert!(get(store, copied, 0..large.len()).await.unwrap() == large);
    let all = [small.clone(), large, small].concat();
    assert!(get(store, joined, 0..all.len()).await.unwrap() == all);
    let missing = BlobId::random();
    assert_eq!(store.copy(missing, BlobId::random()).await, Err(BlobError::NotFound(missing)));
    assert_eq!(store.concat(&[missing], BlobId::random()).await, Err(BlobError::NotFound(missing)));
}

#[tokio::test]
async fn dropped_writer_aborts_its_multipart_upload() {
    let fixture = fixture().await;
    for is_dropped in [true, false] {
        let mut writer = fixture.store.writer(Identity::SERVER, BlobId::random());
        writer.write(body(17 * MEBIBYTE)).await.unwrap();
        assert_eq!(fixture.uploads().await, 1);
        if is_dropped {
            drop(writer)
        } else {
            writer.abort().await
        }
        fixture.tracker.close();
        fixture.tracker.wait().await;
        assert_eq!((fixture.objects().await, fixture.uploads().await), (0, 0));
        let _reopened = fixture.tracker.reopen();
    }
}

#[tokio::test]
async fn sweep_aborts_multipart_uploads_of_dead_writers() {
    let fixture = fixture().await;
    let server = Basalt::builder().only("storage").start().await;
    let (dead, alive) = (BlobId::random(), BlobId::random());
    for id in [dead, alive] {
        let mut writer = fixture.store.writer(Identity::SERVER, id);
        writer.write(body(9 * MEBIBYTE)).await.unwrap();
        // Leak the writer, as a killed server does.
        let _dead = ManuallyDrop::new(writer);
    }
    let foreign = format!("{}/{}/aa/foreign?uploads", fixture.server.url(), fixture.bucket);
    let _begun = Request::new(Method::POST, foreign).send().await.expect(200);
    server.database().admin_sql(&format!("insert into storage.blob_intents (blob) values ('{alive}')")).await;
    let pool = owner_pool(server.database());
    let (clock, hour) = (Clock::system(), Duration::from_secs(3600));
    // The test server reports 2010 as the start of every upload.
    let swept = sweep(&pool, &fixture.store, &clock, hour).await.unwrap();
    assert_eq!(swept, Swept { partial_uploads: 1, ..Swept::default() });
    let left = fixture.query("?uploads").await;
    assert!(left.contains(&alive.to_string()) && left.contains("aa/foreign"), "{left}");
    assert!(!left.contains(&dead.to_string()), "{left}");
}

#[tokio::test]
async fn unreachable_bucket_fails_operations_until_it_returns() {
    let server = S3Server::get().await;
    let bucket = server.bucket().await;
    let proxy = ChaosProxy::start(([127, 0, 0, 1], server.port()).into()).await;
    let store = BlobStore::open(&config(proxy.port(), &bucket), TaskTracker::new()).await.unwrap();
    let body = body(9 * MEBIBYTE);
    let (id, _) = put(&store, &body).await;
    assert!(store.is_reachable().await);

    proxy.set(Link::Stalled);
    // The result is cached for a second; a check on a stalled link ends by its own timeout.
    let until_unreachable = async { while store.is_reachable().await {} };
    tokio::time::timeout(Duration::from_secs(60), until_unreachable).await.unwrap();

    proxy.set(Link::Cut);
    let begun_at = Instant::now();
    let response = get(&store, id, 0..body.len()).await;
    assert!(matches!(response, Err(BlobError::Unavailable(_))), "{response:?}");
    for length in [10, 9 * MEBIBYTE] {
        let mut writer = store.writer(Identity::SERVER, BlobId::random());
        let written = match writer.write(body.slice(..length)).await {
            Ok(()) => writer.finish().await.map(drop),
            Err(error) => Err(error),
        };
        assert!(matches!(written, Err(BlobError::Unavailable(_))), "{written:?}");
    }
    assert!(begun_at.elapsed() < Duration::from_secs(60), "{:?}", begun_at.elapsed());

    proxy.set(Link::Slow(Duration::from_millis(2)));
    assert!(get(&store, id, 0..body.len()).await.unwrap() == body);
    let (slow, _) = put(&store, &body).await;
    assert!(get(&store, slow, 0..body.len()).await.unwrap() == body);
}

#[tokio::test]
async fn missing_bucket_fails_check_and_write() {
    let server = S3Server::get().await;
    let config = config(server.port(), "no-such-bucket");
    let store = BlobStore::open(&config, TaskTracker::new()).await.unwrap();
    store.check().await.unwrap_err();
    let mut writer = store.writer(Identity::SERVER, BlobId::random());
    writer.write("x".into()).await.unwrap();
    let response = writer.finish().await;
    assert!(matches!(response, Err(BlobError::Failed(_))), "{response:?}");
}
