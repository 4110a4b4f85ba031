//! Files when the server is killed, the disk is full, or the S3 store is slow or unreachable: acknowledged writes are complete,
//! others are either unchanged or complete, and no partial blobs remain.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use basalt_testkit::{Basalt, ChaosProxy, Link, Request, S3Server};
use bytes::Bytes;
use http::Method;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::refused::Unmount;

const WRITERS: usize = 6;
/// The number of keys per writer.
const KEYS: u64 = 6;

/// The content generated from a number, so that numbers stand for contents.
fn content(number: u64) -> Bytes {
    let length = usize::try_from(number % 400_000).unwrap();
    let seed = number.to_le_bytes();
    (0..length).map(|index| seed[index % 8] ^ (index / 8).to_le_bytes()[0]).collect()
}

fn random() -> u64 {
    u64::try_from(basalt_core::random::uuid().as_u128() & u128::from(u32::MAX)).unwrap()
}

/// A writer's files: content numbers by key; and the alternative if an unanswered request succeeded.
#[derive(Clone, Default, Debug)]
struct Known {
    files: BTreeMap<String, u64>,
    perhaps: Option<BTreeMap<String, u64>>,
}

fn request(server: &Basalt, method: Method, path: &str) -> Request {
    server.request(method, &format!("/storage/v1{path}")).bearer(server.service_key())
}

/// A random step: its request, and the files after it.
fn step(writer: usize, files: &BTreeMap<String, u64>) -> (Method, String, Step, BTreeMap<String, u64>) {
    let key = |number: u64| format!("{writer}/{number}");
    let any = key(random() % KEYS);
    let mut after = files.clone();
    if let Some(held) = files.get(&any).copied() {
        let target = key(KEYS + random() % KEYS);
        let is_free = !files.contains_key(&target);
        let pair = json!({"bucketId": "b", "sourceKey": any, "destinationKey": target});
        match random() % 4 {
            0 => {
                after.remove(&any);
                (Method::DELETE, format!("/object/b/{any}"), Step::Empty, after)
            }
            1 if is_free => {
                after.remove(&any);
                after.insert(target, held);
                (Method::POST, "/object/move".to_owned(), Step::Json(pair), after)
            }
            2 if is_free => {
                after.insert(target, held);
                (Method::POST, "/object/copy".to_owned(), Step::Json(pair), after)
            }
            _ => {
                let number = random();
                after.insert(any.clone(), number);
                (Method::PUT, format!("/object/b/{any}"), Step::Content(number), after)
            }
        }
    } else if let Some(moved) = files.keys().find(|key| !is_first(key)) {
        after.remove(moved);
        (Method::DELETE, format!("/object/b/{moved}"), Step::Empty, after)
    } else {
        let number = random();
        after.insert(any.clone(), number);
        (Method::POST, format!("/object/b/{any}"), Step::Content(number), after)
    }
}

/// Whether the key is for uploads; the others are targets of moves and copies.
fn is_first(key: &str) -> bool {
    key.rsplit('/').next().and_then(|number| number.parse::<u64>().ok()).is_some_and(|number| number < KEYS)
}

enum Step {
    Empty,
    Json(serde_json::Value),
    Content(u64),
}

/// Runs steps until the server is gone or `stop` is set.
async fn write(
    writer: usize,
    mut known: Known,
    make: impl Fn(Method, &str) -> Request,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) -> Known {
    while !stop.load(Ordering::Acquire) {
        let (method, path, step, after) = step(writer, &known.files);
        let what = format!("{method} {path}");
        let request = make(method, &path);
        let request = match step {
            Step::Empty => request,
            Step::Json(body) => request.json(&body),
            Step::Content(number) => request.body(content(number)),
        };
        match request.try_send().await {
            Ok(response) if response.status == 200 => {
                known.files = after;
                done.fetch_add(1, Ordering::AcqRel);
            }
            Ok(response) => panic!("{what}: {} {}", response.status, response.text()),
            Err(_) => {
                known.perhaps = Some(after);
                break;
            }
        }
    }
    known
}

/// A writer's files on the server.
async fn stored(server: &Basalt, writer: usize) -> BTreeMap<String, Bytes> {
    let mut stored = BTreeMap::new();
    let list = json!({"prefix": writer.to_string(), "limit": 1000});
    let listed = request(server, Method::POST, "/object/list/b").json(&list).send().await.expect(200).json();
    for file in listed.as_array().unwrap() {
        let key = format!("{writer}/{}", file["name"].as_str().unwrap());
        let response = request(server, Method::GET, &format!("/object/b/{key}")).send().await.expect(200);
        stored.insert(key, response.body);
    }
    stored
}

fn is_of(stored: &BTreeMap<String, Bytes>, files: &BTreeMap<String, u64>) -> bool {
    stored.len() == files.len()
        && stored
            .iter()
            .zip(files)
            .all(|((key, bytes), (expected, number))| key == expected && *bytes == content(*number))
}

fn command(server: &Basalt, arguments: &[&str]) -> String {
    let done = server.same_settings().args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// `BASALT_TEST_KILL_ROUNDS=50` runs the long version.
#[tokio::test]
async fn killed_server_leaves_no_partial_files() {
    let rounds: u64 = std::env::var("BASALT_TEST_KILL_ROUNDS").map_or(4, |text| text.parse().unwrap());
    let mut server = Basalt::builder().only("storage").start().await;
    request(&server, Method::POST, "/bucket").json(&json!({"name": "b"})).send().await.expect(200);
    let mut known = vec![Known::default(); WRITERS];
    let done = Arc::new(AtomicUsize::new(0));
    let mut cut_off = 0;
    for round in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = JoinSet::new();
        for (writer, known) in std::mem::take(&mut known).into_iter().enumerate() {
            let (url, key) = (server.url("/storage/v1"), server.service_key().to_owned());
            let make = move |method, path: &str| Request::new(method, format!("{url}{path}")).bearer(&key);
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            writers.spawn(async move { (writer, write(writer, known, make, stop, done).await) });
        }
        sleep(Duration::from_millis(300 + random() % 500)).await;
        server.kill();
        stop.store(true, Ordering::Release);
        let mut outcomes: Vec<_> = writers.join_all().await;
        outcomes.sort_by_key(|(writer, _)| *writer);
        server.start_again().await;
        for (writer, mut outcome) in outcomes {
            let stored = stored(&server, writer).await;
            if let Some(perhaps) = outcome.perhaps.take() {
                cut_off += 1;
                if is_of(&stored, &perhaps) {
                    outcome.files = perhaps;
                }
            }
            let names: Vec<_> = stored.iter().map(|(key, bytes)| (key, bytes.len())).collect();
            assert!(is_of(&stored, &outcome.files), "round {round}: {names:?} is not {:?}", outcome.files);
            known.push(outcome);
        }
    }
    println!("{} steps acknowledged, {cut_off} interrupted by {rounds} kills", done.load(Ordering::Acquire));
    assert!(cut_off > 0, "no kill interrupted a request");

    command(&server, &["storage", "gc", "--older-than", "0"]);
    let files: usize = known.iter().map(|known| known.files.len()).sum();
    assert_eq!(findings(&server), (files as u64, 0));
    let left = "select count(*) from storage.blob_intents";
    assert_eq!(server.database().admin_sql(left).await[0][0].as_deref(), Some("0"));
}

/// The findings of `basalt storage check --older-than 0`.
fn findings(server: &Basalt) -> (u64, usize) {
    let found = command(server, &["storage", "check", "--older-than", "0", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["rows_without_blob"], json!([]));
    (found["blobs"].as_u64().unwrap(), found["blobs_without_row"].as_array().unwrap().len())
}

/// Needs root and permission to mount, which containers may lack.
#[tokio::test]
async fn full_disk_rejects_uploads_without_leftovers() {
    let disk = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=24M,mode=777", "tmpfs"]).arg(disk.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        println!("cannot mount a small file system here");
        return;
    }
    let unmount = Unmount(disk.path());
    let server = Basalt::builder()
        .only("storage")
        .config("storage.dir", &disk.path().join("objects").display().to_string())
        .expect_log("could not store an object")
        .start()
        .await;
    request(&server, Method::POST, "/bucket").json(&json!({"name": "b"})).send().await.expect(200);
    let put =
        |key: &str, bytes: Bytes| request(&server, Method::PUT, &format!("/object/b/{key}")).body(bytes);
    let old = Bytes::from(vec![b'o'; 4 << 20]);
    put("k", old.clone()).send().await.expect(200);
    let large = Bytes::from(vec![b'x'; 32 << 20]);
    let raw = put("k", large.clone()).send().await.expect(507).json();
    assert_eq!((&raw["statusCode"], &raw["code"]), (&json!("507"), &json!("InsufficientStorage")));
    let metadata = "bucketName Yg==,objectName dHVz";
    let resumable = request(&server, Method::POST, "/upload/resumable")
        .header("tus-resumable", "1.0.0")
        .header("upload-length", &large.len().to_string())
        .header("upload-metadata", metadata)
        .header("content-type", "application/offset+octet-stream");
    let resumable = resumable.body(large).send().await.expect(507);
    assert_eq!(resumable.text(), "The server has no room for the object\n");

    let kept = request(&server, Method::GET, "/object/b/k").send().await.expect(200);
    assert!(kept.body == old, "the object is unchanged");
    // Rejected uploads have freed their space.
    put("more", Bytes::from(vec![b'm'; 12 << 20])).send().await.expect(200);
    assert_eq!(findings(&server), (2, 0));
    drop(server);
    drop(unmount);
}

#[tokio::test]
async fn unreachable_s3_store_fails_requests_and_loses_nothing() {
    let s3 = S3Server::get().await;
    let bucket = s3.bucket().await;
    let proxy = ChaosProxy::start(([127, 0, 0, 1], s3.port()).into()).await;
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let settings = [
        ("storage.backend", "s3"),
        ("storage.s3.endpoint", &endpoint),
        ("storage.s3.bucket", &bucket),
        ("storage.s3.access_key_id", "an-id"),
        ("storage.s3.secret_access_key", "a-secret"),
    ];
    let builder = Basalt::builder()
        .only("storage")
        .expect_log("cannot read or write")
        .expect_log("cannot store objects")
        .expect_log("blob");
    let builder = settings.into_iter().fold(builder, |builder, (key, value)| builder.config(key, value));
    let server = builder.start().await;
    request(&server, Method::POST, "/bucket").json(&json!({"name": "b"})).send().await.expect(200);
    let put =
        |key: &str, number| request(&server, Method::PUT, &format!("/object/b/{key}")).body(content(number));
    let get = |key: &str| request(&server, Method::GET, &format!("/object/b/{key}"));
    put("k", 300_000).send().await.expect(200);
    put("large", 399_999).send().await.expect(200);

    proxy.set(Link::Cut);
    let begun_at = Instant::now();
    for response in [put("k", 300_001).send().await, put("new", 300_001).send().await, get("k").send().await]
    {
        assert_eq!((response.status.as_u16(), &response.json()["code"]), (503, &json!("SlowDown")));
    }
    assert!(begun_at.elapsed() < Duration::from_secs(60), "{:?}", begun_at.elapsed());
    // Requests that read only rows need no store.
    request(&server, Method::HEAD, "/object/b/k").send().await.expect(200);
    request(&server, Method::DELETE, "/object/b/large").send().await.expect(200);
    assert_eq!(server.get("/ready").send().await.status, 503);

    proxy.set(Link::Slow(Duration::from_millis(5)));
    let kept = server.until(Duration::from_secs(60), &get("k"), |response| response.status == 200).await;
    assert!(kept.body == content(300_000), "an unacknowledged upload has not replaced the object");
    assert_eq!(get("new").send().await.status, 400);
    put("k", 300_001).send().await.expect(200);
    assert!(get("k").send().await.expect(200).body == content(300_001));
    proxy.set(Link::Up);
    command(&server, &["storage", "gc", "--older-than", "0"]);
    assert_eq!(findings(&server), (1, 0));
}
