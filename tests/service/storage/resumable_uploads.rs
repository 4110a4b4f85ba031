//! Resumable uploads (storage.md §3.15): responses, interrupted uploads and access.

use std::io;
use std::time::Duration;

use basalt_testkit::{Basalt, Request, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Method;
use serde_json::json;

use super::leftovers::{intents, until, until_no_partial_uploads};
use super::{OWNER, STRANGER, make_bucket, request, server, service, token};

const BODY_TYPE: &str = "application/offset+octet-stream";
const ROOT: &str = "/upload/resumable";

/// Encodes `Upload-Metadata`.
fn metadata(pairs: &[(&str, &str)]) -> String {
    let encoded = pairs.iter().map(|(key, value)| format!("{key} {}", STANDARD.encode(value)));
    encoded.collect::<Vec<_>>().join(",")
}

fn tus(request: Request) -> Request {
    request.header("tus-resumable", "1.0.0")
}

fn create(server: &Basalt, token: &str, key: &str, length: usize) -> Request {
    tus(request(server, Method::POST, ROOT).bearer(token))
        .header("upload-length", &length.to_string())
        .header("upload-metadata", &metadata(&[("bucketName", "b"), ("objectName", key)]))
}

/// The path of an upload within the service, from its `Location`.
fn path(server: &Basalt, created: &Response) -> String {
    let location = created.header("location");
    location.strip_prefix(&server.url("/storage/v1")).unwrap().to_owned()
}

fn head(server: &Basalt, token: &str, path: &str) -> Request {
    tus(request(server, Method::HEAD, path).bearer(token))
}

fn patch(server: &Basalt, token: &str, path: &str, offset: usize, bytes: impl Into<Bytes>) -> Request {
    let request = tus(request(server, Method::PATCH, path).bearer(token));
    request.header("content-type", BODY_TYPE).header("upload-offset", &offset.to_string()).body(bytes)
}

fn shown(response: &Response) -> String {
    format!("{} {}", response.status.as_u16(), response.text().trim_end())
}

async fn with_bucket() -> Basalt {
    let server = server().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    server
}

async fn content(server: &Basalt, key: &str) -> Bytes {
    service(server, Method::GET, &format!("/object/b/{key}")).send().await.expect(200).body
}

#[tokio::test]
async fn pieces_become_one_object() {
    let server = with_bucket().await;
    let owner = token(&server, OWNER);
    let given = [
        ("bucketName", "b"),
        ("objectName", "dir/a b.txt"),
        ("contentType", "text/plain"),
        ("cacheControl", "60"),
        ("metadata", r#"{"a":1}"#),
    ];
    let created = tus(request(&server, Method::POST, ROOT).bearer(&owner))
        .header("upload-length", "11")
        .header("upload-metadata", &metadata(&given))
        .send()
        .await
        .expect(201);
    assert_eq!(created.header("tus-resumable"), "1.0.0");
    assert!(created.header("upload-expires").ends_with(" GMT"));
    let path = path(&server, &created);
    let upload = head(&server, &owner, &path).send().await.expect(200);
    assert_eq!(upload.header("upload-offset"), "0");
    assert_eq!(upload.header("upload-length"), "11");
    assert_eq!(upload.header("cache-control"), "no-store");
    let echoed = metadata(&given).replace(&STANDARD.encode("60"), &STANDARD.encode("max-age=60"));
    assert_eq!(upload.header("upload-metadata"), echoed);

    for (offset, piece) in [(0, "hello"), (5, " "), (6, "wor")] {
        let taken = patch(&server, &owner, &path, offset, piece).send().await.expect(204);
        assert_eq!(taken.header("upload-offset"), (offset + piece.len()).to_string());
        assert_eq!(taken.header("tus-complete"), "");
        assert_ne!(taken.header("upload-expires"), "");
    }
    let conflict = patch(&server, &owner, &path, 3, "x").send().await;
    assert_eq!(shown(&conflict), "409 Upload-Offset conflict");
    let last = patch(&server, &owner, &path, 9, "ld").send().await.expect(204);
    assert_eq!(last.header("upload-offset"), "11");
    assert_eq!(last.header("tus-complete"), "1");

    let response = service(&server, Method::GET, "/object/b/dir/a%20b.txt").send().await.expect(200);
    assert_eq!(response.text(), "hello world");
    assert_eq!(response.header("content-type"), "text/plain");
    assert_eq!(response.header("cache-control"), "max-age=60");
    assert!(response.header("etag").ends_with("-4\""), "{}", response.header("etag"));
    let row = "select owner_id || ' ' || user_metadata::text from storage.objects";
    assert_eq!(server.database().value(row).await, format!("{OWNER} {{\"a\": 1}}"));
    // A client that missed the last response can repeat the request.
    let upload = head(&server, &owner, &path).send().await.expect(200);
    assert_eq!(upload.header("upload-offset"), "11");
    let ended = tus(request(&server, Method::DELETE, &path).bearer(&owner)).header("x-upsert", "true");
    assert_eq!(shown(&ended.send().await), "400 Cannot terminate an already completed upload");
    assert_eq!(server.database().count("storage.tus_upload_parts").await, 0);
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn post_accepts_first_bytes_and_a_deferred_length() {
    let server = with_bucket().await;
    let owner = token(&server, OWNER);
    let whole = create(&server, &owner, "whole", 5).header("content-type", BODY_TYPE).body("12345");
    let whole = whole.send().await.expect(201);
    assert_eq!((whole.header("upload-offset"), whole.header("tus-complete")), ("5", "1"));
    assert_eq!(content(&server, "whole").await, "12345");

    let begun = create(&server, &owner, "begun", 5).header("content-type", BODY_TYPE).body("12");
    let begun = begun.send().await.expect(201);
    assert_eq!((begun.header("upload-offset"), begun.header("tus-complete")), ("2", ""));

    let empty = create(&server, &owner, "empty", 0).send().await.expect(201);
    assert_eq!(empty.header("tus-complete"), "1");
    assert_eq!(content(&server, "empty").await, "");

    let deferred = create(&server, &owner, "deferred", 0).without("upload-length");
    let deferred = deferred.header("upload-defer-length", "1").send().await.expect(201);
    let path = path(&server, &deferred);
    let response = head(&server, &owner, &path).send().await.expect(200);
    assert_eq!((response.header("upload-defer-length"), response.header("upload-length")), ("1", ""));
    patch(&server, &owner, &path, 0, "123").send().await.expect(204);
    let short = patch(&server, &owner, &path, 3, "").header("upload-length", "2").send().await;
    assert_eq!(shown(&short), "400 Invalid upload-length");
    let last = patch(&server, &owner, &path, 3, "45").header("upload-length", "5").send().await.expect(204);
    assert_eq!(last.header("tus-complete"), "1");
    assert_eq!(content(&server, "deferred").await, "12345");
}

#[tokio::test]
async fn bytes_received_before_a_disconnect_are_kept() {
    let server = with_bucket().await;
    let owner = token(&server, OWNER);
    let piece = Bytes::from(vec![b'x'; 64 * 1024]);
    let length = piece.len() * 3;
    let path = path(&server, &create(&server, &owner, "k", length).send().await.expect(201));
    let leaves = {
        let piece = piece.clone();
        stream::iter([Ok::<_, io::Error>(piece.clone()), Ok(piece)]).chain(stream::once(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Err(io::Error::other("the client leaves"))
        }))
    };
    let _broken = patch(&server, &owner, &path, 0, "").stream(leaves).await.unwrap_err();
    let mut offset = 0;
    until("the received bytes are kept", async || {
        let response = head(&server, &owner, &path).send().await.expect(200);
        response.header("upload-offset").parse::<usize>().unwrap() == piece.len() * 2
    })
    .await;
    offset += piece.len() * 2;
    let last = patch(&server, &owner, &path, offset, piece).send().await.expect(204);
    assert_eq!(last.header("tus-complete"), "1");
    assert_eq!(content(&server, "k").await, vec![b'x'; length]);
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn new_request_takes_over_from_a_stalled_one() {
    let server = with_bucket().await;
    let owner = token(&server, OWNER);
    let begun = Bytes::from(vec![b'x'; 64 * 1024]);
    let path = path(&server, &create(&server, &owner, "k", 2 * begun.len()).send().await.expect(201));
    let hanging = stream::iter([Ok::<_, io::Error>(begun.clone())]).chain(stream::pending());
    let hanging = tokio::spawn(patch(&server, &owner, &path, 0, "").stream(hanging));
    until("the first request writes", async || intents(&server).await == 1).await;
    let response = head(&server, &owner, &path).send().await.expect(200);
    let stopped = hanging.await.unwrap().unwrap().whole().await.unwrap();
    assert_eq!(shown(&stopped), "400 Request aborted due to lock acquired");
    // The number of bytes received by then.
    let offset: usize = response.header("upload-offset").parse().unwrap();
    assert!(offset <= begun.len(), "{offset}");
    let rest = vec![b'x'; 2 * begun.len() - offset];
    patch(&server, &owner, &path, offset, rest).send().await.expect(204);
    assert_eq!(content(&server, "k").await, vec![b'x'; 2 * begun.len()]);
}

#[tokio::test]
async fn upload_survives_a_restart_and_expires() {
    let mut server = with_bucket().await;
    let owner = token(&server, OWNER);
    let kept = path(&server, &create(&server, &owner, "k", 10).send().await.expect(201));
    patch(&server, &owner, &kept, 0, "12345").send().await.expect(204);
    server.kill();
    server.start_again().await;
    let response = head(&server, &owner, &kept).send().await.expect(200);
    assert_eq!(response.header("upload-offset"), "5");
    patch(&server, &owner, &kept, 5, "67890").send().await.expect(204);
    assert_eq!(content(&server, "k").await, "1234567890");

    let given_up = path(&server, &create(&server, &owner, "g", 10).send().await.expect(201));
    patch(&server, &owner, &given_up, 0, "12345").send().await.expect(204);
    tus(request(&server, Method::DELETE, &given_up).bearer(&owner)).send().await.expect(204);
    let gone = head(&server, &owner, &given_up).send().await;
    assert_eq!(gone.status, 404);

    let expired = path(&server, &create(&server, &owner, "e", 10).send().await.expect(201));
    patch(&server, &owner, &expired, 0, "12345").send().await.expect(204);
    let past = "update storage.tus_uploads set expires_at = now() - interval '1 second' where key = 'e'";
    server.database().admin_sql(past).await;
    let late = patch(&server, &owner, &expired, 5, "67890").send().await;
    assert_eq!(shown(&late), "410 The file for this url no longer exists");
    // The sweep at startup removes its row and bytes.
    server.kill();
    server.start_again().await;
    until("the expired upload is swept", async || {
        let left = "select count(*) from storage.tus_uploads where key = 'e'";
        server.database().admin_sql(left).await[0][0].as_deref() == Some("0")
    })
    .await;
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn invalid_requests_get_specific_errors() {
    let server = with_bucket().await;
    make_bucket(
        &server,
        &json!({"name": "small", "file_size_limit": 4, "allowed_mime_types": ["text/plain"]}),
    )
    .await;
    let owner = token(&server, OWNER);
    let at = |bucket, key| metadata(&[("bucketName", bucket), ("objectName", key)]);
    let post = || create(&server, &owner, "k", 5);
    let text = metadata(&[("bucketName", "small"), ("objectName", "k"), ("contentType", "text/plain")]);
    let too_long = metadata(&[("bucketName", "b"), ("objectName", &"k".repeat(2000))]);
    for (request, expected) in [
        (post().without("tus-resumable"), "412 Tus-Resumable Required"),
        (post().without("tus-resumable").header("tus-resumable", "0.2.2"), "400 Invalid tus-resumable"),
        (post().without("upload-length"), "400 Upload-Length or Upload-Defer-Length header required"),
        (post().header("upload-defer-length", "1"), "400 Invalid upload-defer-length"),
        (post().without("upload-length").header("upload-length", "-1"), "400 Invalid upload-length"),
        (post().header("content-type", "text/plain"), "400 Invalid content-type"),
        (
            post().header("upload-concat", "partial"),
            "501 Concatenation extension is not (yet) supported. Disable parallel uploads in the tus client.",
        ),
        (post().without("upload-metadata"), "400 Bucket name invalid"),
        (
            post().without("upload-metadata").header("upload-metadata", "bucketName !!"),
            "400 Invalid upload-metadata",
        ),
        (
            post().without("upload-metadata").header("upload-metadata", &at("b", "a{b")),
            "400 Invalid key: a{b",
        ),
        (post().without("upload-metadata").header("upload-metadata", &at("no", "k")), "404 Bucket not found"),
        (
            post().without("upload-metadata").header("upload-metadata", &at("small", "k")),
            "415 mime type application/octet-stream is not supported",
        ),
        (post().without("upload-metadata").header("upload-metadata", &text), "413 Maximum size exceeded"),
        (
            post().without("upload-length").header("upload-length", "9000000000000"),
            "413 Maximum size exceeded",
        ),
    ] {
        assert_eq!(shown(&request.send().await), expected);
    }
    let long = post().without("upload-metadata").header("upload-metadata", &too_long).send().await;
    assert_eq!(long.status, 400, "{}", long.text());
    assert_eq!(server.database().count("storage.tus_uploads").await, 0);

    let path = path(&server, &post().send().await.expect(201));
    let piece = || patch(&server, &owner, &path, 0, "123");
    for (request, expected) in [
        (piece().without("tus-resumable"), "412 Tus-Resumable Required"),
        (piece().without("content-type"), "400 Invalid content-type"),
        (piece().without("upload-offset"), "403 Upload-Offset header required"),
        (piece().without("upload-offset").header("upload-offset", "1"), "409 Upload-Offset conflict"),
        (piece().body("123456"), "413 upload's size exceeded"),
        (patch(&server, &owner, &format!("{ROOT}/nope"), 0, "1"), "404 The file for this url was not found"),
    ] {
        assert_eq!(shown(&request.send().await), expected);
    }
    let response = head(&server, &owner, &path).send().await.expect(200);
    assert_eq!(response.header("upload-offset"), "0", "a rejected piece stores nothing");
    // Token errors come before the protocol, as JSON.
    let stale = create(&server, "no.token.here", "k", 5).send().await.expect(400);
    assert_eq!(stale.json()["error"], "Unauthorized");
    let get = tus(request(&server, Method::GET, &path).bearer(&owner)).send().await;
    assert_eq!(get.status, 404);
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn each_request_checks_policies_and_existing_object() {
    let server = with_bucket().await;
    let (owner, stranger) = (token(&server, OWNER), token(&server, STRANGER));
    let visitor = create(&server, server.publishable_key(), "k", 5).send().await;
    assert_eq!(visitor.status, 400, "a publishable key is not a token: {}", visitor.text());
    let path = path(&server, &create(&server, &owner, "k", 5).send().await.expect(201));
    // The object is created meanwhile; only a request with x-upsert continues.
    service(&server, Method::POST, "/object/b/k").body("old").send().await.expect(200);
    let duplicate = patch(&server, &owner, &path, 0, "12345").send().await;
    assert_eq!(shown(&duplicate), "409 The resource already exists");
    let own = create(&server, &owner, "own", 3).header("content-type", BODY_TYPE).body("old");
    own.send().await.expect(201);
    let others = create(&server, &stranger, "own", 3).header("x-upsert", "true").send().await;
    assert_eq!(shown(&others), "403 new row violates row-level security policy");
    let again = create(&server, &owner, "own", 3).header("x-upsert", "true").send().await.expect(201);
    let path = self::path(&server, &again);
    let refused = patch(&server, &owner, &path, 0, "new").send().await;
    assert_eq!(shown(&refused), "409 The resource already exists", "x-upsert is required on each request");
    patch(&server, &owner, &path, 0, "new").header("x-upsert", "true").send().await.expect(204);
    assert_eq!(content(&server, "own").await, "new");
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn signed_upload_url_is_limited_to_its_path() {
    let server = with_bucket().await;
    let owner = token(&server, OWNER);
    let sign = request(&server, Method::POST, "/object/upload/sign/b/k").bearer(&owner).send().await;
    let signature = sign.expect(200).json()["token"].as_str().unwrap().to_owned();
    let post = |key: &str| {
        tus(request(&server, Method::POST, "/upload/resumable/sign"))
            .header("upload-length", "4")
            .header("upload-metadata", &metadata(&[("bucketName", "b"), ("objectName", key)]))
    };
    assert_eq!(shown(&post("k").send().await), "400 Missing x-signature header");
    let other = post("other").header("x-signature", &signature).send().await;
    assert_eq!(shown(&other), "400 Invalid signature");
    let forged = post("k").header("x-signature", &signature.replace('.', ".x")).send().await;
    assert_eq!(forged.status, 400);
    let created = post("k").header("x-signature", &signature).send().await.expect(201);
    let path = path(&server, &created);
    assert!(path.starts_with("/upload/resumable/sign/"), "{path}");
    let piece = tus(request(&server, Method::PATCH, &path))
        .header("content-type", BODY_TYPE)
        .header("upload-offset", "0")
        .body("1234");
    assert_eq!(shown(&piece.send().await), "400 Missing x-signature header");
    let piece = tus(request(&server, Method::PATCH, &path))
        .header("content-type", BODY_TYPE)
        .header("upload-offset", "0")
        .header("x-signature", &signature)
        .body("1234");
    piece.send().await.expect(204);
    assert_eq!(content(&server, "k").await, "1234");
    let by = "select owner_id from storage.objects";
    assert_eq!(server.database().value(by).await, OWNER);
}

#[tokio::test]
async fn upload_can_be_continued_only_by_its_user() {
    let server = with_bucket().await;
    let (owner, stranger) = (token(&server, OWNER), token(&server, STRANGER));
    // Both may create any object of the bucket, so that the policies refuse neither.
    let anyone =
        "create policy anyone on storage.objects for insert to authenticated with check (bucket_id = 'b')";
    server.sql(anyone).await;
    let deferred =
        create(&server, &owner, "k", 0).without("upload-length").header("upload-defer-length", "1");
    let path = path(&server, &deferred.send().await.expect(201));
    patch(&server, &owner, &path, 0, "12").send().await.expect(204);

    let refused = "403 new row violates row-level security policy";
    let with_length = |offset| patch(&server, &stranger, &path, offset, "x").header("upload-length", "3");
    let delete = tus(request(&server, Method::DELETE, &path).bearer(&stranger));
    for request in [with_length(2), with_length(7), patch(&server, &stranger, &path, 2, "x"), delete] {
        assert_eq!(shown(&request.send().await), refused);
    }
    let response = head(&server, &stranger, &path).send().await.expect(403);
    assert_eq!((response.header("upload-offset"), response.header("upload-metadata")), ("", ""));
    let response = head(&server, server.anon_key(), &path).send().await.expect(403);
    assert_eq!(response.header("upload-offset"), "");

    // A new token of the same user, as after a refresh.
    let refreshed = server.token(&json!({"role": "authenticated", "sub": OWNER, "exp": 4_102_444_801_u32}));
    let response = head(&server, &refreshed, &path).send().await.expect(200);
    assert_eq!((response.header("upload-offset"), response.header("upload-defer-length")), ("2", "1"));
    patch(&server, &refreshed, &path, 2, "3").header("upload-length", "4").send().await.expect(204);
    // A user who may no longer create the object cannot continue the upload either.
    server.sql("drop policy anyone on storage.objects; drop policy owners on storage.objects").await;
    head(&server, &refreshed, &path).send().await.expect(403);
    assert_eq!(shown(&patch(&server, &refreshed, &path, 9, "4").send().await), refused);
    head(&server, server.service_key(), &path).send().await.expect(200);
    server.sql(anyone).await;
    patch(&server, &refreshed, &path, 3, "4").send().await.expect(204);
    assert_eq!(content(&server, "k").await, "1234");
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn unfinished_uploads_are_limited_per_user() {
    const MOST: usize = 64;
    let server = with_bucket().await;
    let (owner, stranger) = (token(&server, OWNER), token(&server, STRANGER));
    let begun: Vec<_> =
        (0..MOST + 16).map(|key| tokio::spawn(create(&server, &owner, &key.to_string(), 5).send())).collect();
    let (mut paths, mut refused) = (Vec::new(), 0);
    for response in begun {
        let response = response.await.unwrap();
        if response.status == 201 {
            paths.push(path(&server, &response));
        } else {
            let expected = "429 Too many unfinished uploads: finish or delete one, or wait until one expires";
            assert_eq!(shown(&response), expected);
            refused += 1;
        }
    }
    assert_eq!((paths.len(), refused), (MOST, 16));
    create(&server, &stranger, "theirs", 5).send().await.expect(201);
    create(&server, server.service_key(), "trusted", 5).send().await.expect(201);
    // A finished or deleted upload frees a slot.
    patch(&server, &owner, &paths[0], 0, "12345").send().await.expect(204);
    tus(request(&server, Method::DELETE, &paths[1]).bearer(&owner)).send().await.expect(204);
    for (key, status) in [("one", 201), ("two", 201), ("three", 429)] {
        create(&server, &owner, key, 5).send().await.expect(status);
    }
}

#[tokio::test]
async fn signed_url_continues_only_its_users_uploads() {
    let server = with_bucket().await;
    server.sql("create policy anyone on storage.objects for insert to authenticated with check (true)").await;
    let mut signatures = Vec::new();
    for user in [OWNER, OWNER, STRANGER] {
        let sign = request(&server, Method::POST, "/object/upload/sign/b/k").bearer(&token(&server, user));
        signatures.push(sign.send().await.expect(200).json()["token"].as_str().unwrap().to_owned());
    }
    let created = tus(request(&server, Method::POST, "/upload/resumable/sign"))
        .header("upload-length", "2")
        .header("upload-metadata", &metadata(&[("bucketName", "b"), ("objectName", "k")]))
        .header("x-signature", &signatures[0]);
    let path = path(&server, &created.send().await.expect(201));
    let piece = |signature: &str| {
        let piece = tus(request(&server, Method::PATCH, &path)).header("upload-offset", "0").body("12");
        piece.header("content-type", BODY_TYPE).header("x-signature", signature)
    };
    let response =
        tus(request(&server, Method::HEAD, &path)).header("x-signature", &signatures[2]).send().await;
    assert_eq!((response.status.as_u16(), response.header("upload-offset")), (403, ""));
    assert_eq!(shown(&piece(&signatures[2]).send().await), "403 new row violates row-level security policy");
    piece(&signatures[1]).send().await.expect(204);
    assert_eq!(content(&server, "k").await, "12");
}

#[tokio::test]
async fn options_works_and_location_uses_the_public_url() {
    let server =
        Basalt::builder().variable("BASALT_SERVER_PUBLIC_URL", "https://files.example.org").start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    let created = create(&server, server.service_key(), "k", 1).send().await.expect(201);
    let location = created.header("location");
    assert!(location.starts_with("https://files.example.org/storage/v1/upload/resumable/"), "{location}");
    let upload = request(&server, Method::OPTIONS, ROOT).send().await.expect(204);
    assert_eq!(upload.header("tus-version"), "1.0.0");
    assert_eq!(
        upload.header("tus-extension"),
        "creation,creation-with-upload,creation-defer-length,termination,expiration"
    );
    assert_ne!(upload.header("tus-max-size"), "");
    let preflight = request(&server, Method::OPTIONS, ROOT)
        .header("origin", "https://app.example.org")
        .header("access-control-request-method", "PATCH")
        .header(
            "access-control-request-headers",
            "authorization,upload-offset,tus-resumable,x-signature,x-client-info",
        );
    let preflight = preflight.send().await;
    assert_eq!(preflight.header("access-control-allow-origin"), "*");
    assert!(preflight.header("access-control-allow-methods").contains("PATCH"));
    let allowed = preflight.header("access-control-allow-headers").to_lowercase();
    for name in ["authorization", "upload-offset", "tus-resumable", "x-signature", "x-client-info"] {
        assert!(allowed == "*" || allowed.contains(name), "{name}: {allowed}");
    }
    let response = create(&server, server.service_key(), "k", 1).header("origin", "https://app.example.org");
    let exposed = response.send().await.header("access-control-expose-headers").to_lowercase();
    for name in ["location", "upload-offset", "upload-expires", "tus-resumable", "upload-length"] {
        assert!(exposed.contains(name), "{name}: {exposed}");
    }
}
