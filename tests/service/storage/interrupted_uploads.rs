//! Concurrent uploads, and uploads whose client disconnects.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use basalt_testkit::Basalt;
use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use http::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::leftovers::{files, intents, until, until_no_partial_uploads};
use super::{error, make_bucket, service};

async fn server() -> Basalt {
    let server = Basalt::builder().only("storage").start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    server
}

#[tokio::test]
async fn concurrent_uploads_create_one_object() {
    let server = server().await;
    for round in 0..3 {
        let path = format!("/object/b/race-{round}");
        let uploads = (0..64)
            .map(|number| service(&server, Method::POST, &path).body(format!("content {number}")).send());
        let responses = join_all(uploads).await;
        let won: Vec<_> = responses.iter().filter(|response| response.status == 200).collect();
        assert_eq!(won.len(), 1);
        for lost in responses.iter().filter(|response| response.status != 200) {
            let expected = "400 409 | Duplicate | The resource already exists | KeyAlreadyExists";
            assert_eq!(error(lost), expected);
        }
        let row = format!("select id from storage.objects where name = 'race-{round}'");
        assert_eq!(won[0].json()["Id"], server.database().value(&row).await);
    }
    until_no_partial_uploads(&server).await;
    let replaced = (0..32).map(|number| {
        service(&server, Method::PUT, "/object/b/race-0").body(format!("content {number}")).send()
    });
    let ids: HashSet<String> =
        join_all(replaced).await.into_iter().map(|response| response.expect(200).text()).collect();
    assert_eq!(ids.len(), 1, "all uploads write the same row");
    assert_eq!(server.database().count("storage.objects").await, 3);
    until_no_partial_uploads(&server).await;
}

/// 64 KiB pieces, then an error, which closes the connection.
fn broken_off(pieces: usize) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static {
    let pieces = stream::iter((0..pieces).map(|_| Ok(Bytes::from(vec![b'x'; 64 * 1024]))));
    pieces.chain(stream::once(async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Err(io::Error::other("the client leaves"))
    }))
}

#[tokio::test]
async fn disconnected_upload_leaves_no_files() {
    let server = server().await;
    service(&server, Method::POST, "/object/b/kept").body("old").send().await.expect(200);
    let version = "select version from storage.objects";
    let before = server.database().value(version).await;
    let form = "multipart/form-data; boundary=xx";
    let head = "--xx\r\nContent-Disposition: form-data; name=\"\"; filename=\"f\"\r\n\r\n";
    for pieces in [0, 1, 100] {
        let put = || service(&server, Method::PUT, "/object/b/kept");
        let _broken = put().stream(broken_off(pieces)).await.unwrap_err();
        let announced = put().header("content-length", "10000000");
        let _broken = announced.stream(broken_off(pieces)).await.unwrap_err();
        let begun = stream::once(async move { Ok(Bytes::from(head)) }).chain(broken_off(pieces));
        let _broken = put().header("content-type", form).stream(begun).await.unwrap_err();
        until_no_partial_uploads(&server).await;
    }
    assert_eq!(server.database().value(version).await, before);
    assert_eq!(files(&server), [before]);
}

/// Opens a connection and writes `text`.
async fn write_raw(server: &Basalt, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn body_shorter_than_content_length_is_aborted() {
    let server = server().await;
    let head = format!(
        "POST /storage/v1/object/b/k HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 10\r\n\r\n",
        server.service_key()
    );
    let mut stream = write_raw(&server, &format!("{head}12345")).await;
    stream.shutdown().await.unwrap();
    let mut response = String::new();
    let _read = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut response).await;
    // hyper treats a half-closed connection as closed: it may respond or close.
    assert!(response.is_empty() || response.contains("Upload was aborted"), "{response}");
    until_no_partial_uploads(&server).await;
    // The client disconnects while policies are checked, and while bytes are written.
    for body in ["", "123", "123456789"] {
        drop(write_raw(&server, &format!("{head}{body}")).await);
    }
    until_no_partial_uploads(&server).await;
    assert_eq!(server.database().count("storage.objects").await, 0);
}

#[tokio::test]
async fn upload_holds_no_database_connection() {
    let server = Basalt::builder().only("storage").config("database.pool_size", "2").start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    let (senders, uploads): (Vec<_>, Vec<_>) = (0..8)
        .map(|number| {
            let (sender, receiver) = tokio::sync::mpsc::channel::<io::Result<Bytes>>(4);
            let body = stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|piece| (piece, receiver))
            });
            let upload = service(&server, Method::POST, &format!("/object/b/{number}")).stream(body);
            (sender, tokio::spawn(upload))
        })
        .unzip();
    for sender in &senders {
        sender.send(Ok("begun ".into())).await.unwrap();
    }
    until("all uploads have begun", async || intents(&server).await == 8).await;
    service(&server, Method::POST, "/object/b/another").body("x").send().await.expect(200);
    for sender in senders {
        sender.send(Ok("ended".into())).await.unwrap();
    }
    for upload in uploads {
        assert_eq!(upload.await.unwrap().unwrap().whole().await.unwrap().status, 200);
    }
    let sizes = "select count(*) from storage.objects where metadata->>'size' = '11'";
    assert_eq!(server.database().value(sizes).await, "8");
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn locked_object_times_out_after_five_seconds() {
    let server = server().await;
    let held = server
        .database()
        .hold("begin; select pg_advisory_xact_lock(hashtextextended('storage:b/k', 0))")
        .await;
    let started = std::time::Instant::now();
    let response = service(&server, Method::POST, "/object/b/k").body("x").send().await;
    let expected = "400 503 | acquiring_lock_timeout | acquiring lock timeout | LockTimeout";
    assert_eq!(error(&response), expected);
    assert!((4..10).contains(&started.elapsed().as_secs()));
    drop(held);
    service(&server, Method::POST, "/object/b/k").body("x").send().await.expect(200);
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn shutdown_does_not_wait_for_slow_uploads() {
    let server = Basalt::builder().only("storage").config("server.shutdown_timeout", "1s");
    let mut server = server.expect_log("some connections did not finish within 1 s").start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    let endless = stream::once(async { Ok(Bytes::from("begun")) }).chain(stream::pending());
    let upload = tokio::spawn(service(&server, Method::POST, "/object/b/k").stream(endless));
    until("the upload has begun", async || intents(&server).await == 1).await;
    server.stop().await;
    // The connection may already be closed.
    if let Ok(response) = upload.await.unwrap() {
        assert_eq!(response.status, 500);
    }
    server.start_again().await;
    assert_eq!(server.database().count("storage.objects").await, 0);
}
