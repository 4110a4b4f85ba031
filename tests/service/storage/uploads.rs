//! Uploads: what is stored, and error responses.

use basalt_testkit::{Basalt, Part, Request, Response};
use http::Method;
use serde_json::{Value, json};

use super::leftovers::{files, until_no_partial_uploads};
use super::{error, make_bucket, request, service};

const MD5_OF_HELLO: &str = "5d41402abc4b2a76b9719d911017c592";

async fn server() -> Basalt {
    let server = Basalt::builder().only("storage").start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    server
}

fn post(server: &Basalt, path: &str, body: &str) -> Request {
    service(server, Method::POST, path).header("content-type", "text/plain").body(body.to_owned())
}

/// Version, metadata and user metadata of an object.
async fn stored(server: &Basalt, name: &str) -> (String, Value, Value) {
    let sql = format!("select version, metadata, user_metadata from storage.objects where name = '{name}'");
    let rows = server.sql(&sql).await;
    let text = |column: usize| rows[0][column].clone().unwrap();
    (text(0), serde_json::from_str(&text(1)).unwrap(), serde_json::from_str(&text(2)).unwrap())
}

fn ok(response: Response) -> Value {
    response.expect(200).json()
}

#[tokio::test]
async fn raw_body_is_stored_with_metadata() {
    let server = server().await;
    let upload = post(&server, "/object/b/dir/a%20b.txt", "hello")
        .header("content-type", "text/plain;charset=UTF-8")
        .header("cache-control", "max-age=60, private")
        .header("x-robots-tag", "googlebot: noindex")
        .header("x-metadata", "eyJrIjp7ImEiOjF9fQ==");
    let response = ok(upload.send().await);
    let id = server.sql("select id from storage.objects").await[0][0].clone().unwrap();
    assert_eq!(response, json!({"Key": "b/dir/a b.txt", "Id": id}));
    let (version, mut metadata, user_metadata) = stored(&server, "dir/a b.txt").await;
    assert_eq!(files(&server), [version]);
    let modified = metadata["lastModified"].take();
    let modified = modified.as_str().unwrap();
    assert_eq!((modified.len(), modified.ends_with('Z')), (24, true), "{modified}");
    let expected = json!({
        "eTag": format!("\"{MD5_OF_HELLO}\""), "size": 5, "mimetype": "text/plain;charset=UTF-8",
        "cacheControl": "max-age=60, private", "lastModified": null, "contentLength": 5, "httpStatusCode": 200,
        "xRobotsTag": "googlebot: noindex",
    });
    assert_eq!((metadata, user_metadata), (expected, json!({"k": {"a": 1}})));
    // Defaults.
    let bare = service(&server, Method::POST, "/object/b/bare").body("");
    let _answer = ok(bare.send().await);
    let (_, metadata, user_metadata) = stored(&server, "bare").await;
    let output = (&metadata["mimetype"], &metadata["cacheControl"], &metadata["size"], user_metadata);
    assert_eq!(output, (&json!("application/octet-stream"), &json!("no-cache"), &json!(0), json!({})));
}

#[tokio::test]
async fn multipart_form_is_stored_with_metadata() {
    let server = server().await;
    let file = || Part::file("", "blob", "text/plain", "hello");
    let fields = [Part::field("cacheControl", "3600"), Part::field("metadata", r#"{"k":1}"#)];
    let before = [fields[0].clone(), fields[1].clone(), file(), Part::file("x", "second", "a/b", "ignored")];
    let after = [file(), fields[0].clone(), fields[1].clone()];
    for (name, parts) in [("before", before.as_slice()), ("after", &after)] {
        let _answer =
            ok(service(&server, Method::POST, &format!("/object/b/{name}")).multipart(parts).send().await);
        let (_, metadata, user_metadata) = stored(&server, name).await;
        let output = (&metadata["mimetype"], &metadata["cacheControl"], &metadata["size"], user_metadata);
        assert_eq!(
            output,
            (&json!("text/plain"), &json!("max-age=3600"), &json!(5), json!({"k": 1})),
            "{name}"
        );
    }
    let own_type = [Part::field("contentType", "image/png"), Part::field("metadata", "not JSON"), file()];
    let _answer = ok(service(&server, Method::PUT, "/object/b/own").multipart(&own_type).send().await);
    let (_, metadata, user_metadata) = stored(&server, "own").await;
    let output = (&metadata["mimetype"], &metadata["cacheControl"], user_metadata);
    assert_eq!(output, (&json!("image/png"), &json!("no-cache"), json!({})));

    let refused = async |parts: &[Part]| {
        error(&service(&server, Method::POST, "/object/b/no").multipart(parts).send().await)
    };
    assert_eq!(refused(&fields).await, "400 400 | InvalidRequest | No content provided | InvalidRequest");
    let array = [file(), Part::field("metadata", "[1]")];
    let expected = "400 400 | InvalidParameter | invalid input syntax for type json | InvalidParameter";
    assert_eq!(refused(&array).await, expected);
    let long = [file(), Part::field("metadata", &format!("{{\"a\":\"{}\"}}", "a".repeat(1024 * 1024)))];
    let too_large =
        "400 413 | Payload too large | The object exceeded the maximum allowed size | EntityTooLarge";
    assert_eq!(refused(&long).await, too_large);
    let type_of_another = [file(), Part::field("contentType", "text/html\r\nx: y")];
    assert!(refused(&type_of_another).await.contains("InvalidMimeType"));
    let broken = service(&server, Method::POST, "/object/b/no")
        .header("content-type", "multipart/form-data; boundary=xx")
        .body("--xx\r\ncontent-disposition: form-data; name=\"\"; filename=\"f\"\r\n\r\nhello");
    let expected =
        "400 400 | InvalidRequest | The multipart body ends before its last boundary | InvalidRequest";
    assert_eq!(error(&broken.send().await), expected);
    assert_eq!(server.database().count("storage.objects").await, 3);
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn upsert_keeps_id_creation_time_and_owner() {
    let server = server().await;
    let sub = "0a0a0a0a-0000-4000-8000-000000000001";
    let token = |sub: &str| server.token(&json!({"role": "service_role", "sub": sub}));
    let first = ok(post(&server, "/object/b/k", "one").bearer(&token(sub)).send().await);
    let duplicate = "400 409 | Duplicate | The resource already exists | KeyAlreadyExists";
    for upsert in ["false", "TRUE", "1"] {
        let again = post(&server, "/object/b/k", "two").header("x-upsert", upsert).send().await;
        assert_eq!(error(&again), duplicate, "{upsert}");
    }
    let before = server.sql("select id, created_at, owner, owner_id from storage.objects").await;
    assert_eq!(before[0][2].as_deref(), Some(sub));
    let (old_version, ..) = stored(&server, "k").await;
    for again in [
        post(&server, "/object/b/k", "three").header("x-upsert", "true"),
        service(&server, Method::PUT, "/object/b/k").body("four"),
    ] {
        assert_eq!(ok(again.send().await)["Id"], first["Id"]);
        assert_eq!(server.sql("select id, created_at, owner, owner_id from storage.objects").await, before);
    }
    let (version, ..) = stored(&server, "k").await;
    assert_ne!(version, old_version);
    let _other =
        ok(service(&server, Method::PUT, "/object/b/k").bearer(&token("somebody")).body("").send().await);
    let owner = server.sql("select owner, owner_id from storage.objects").await;
    assert_eq!(owner, [[None, Some("somebody".to_owned())]]);
    let _new = ok(service(&server, Method::PUT, "/object/b/new").body("").send().await);
    let garbage = server.database().admin_sql("select blob::text from storage.blob_garbage").await;
    assert!(garbage.iter().any(|row| row[0].as_deref() == Some(old_version.as_str())));
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn bucket_limits_size_and_type() {
    let server = server().await;
    let rules =
        json!({"name": "strict", "file_size_limit": 5, "allowed_mime_types": ["image/png", "text/*"]});
    make_bucket(&server, &rules).await;
    let too_large =
        "400 413 | Payload too large | The object exceeded the maximum allowed size | EntityTooLarge";
    let _fits = ok(post(&server, "/object/strict/fits", "12345").send().await);
    let response = post(&server, "/object/strict/k", "123456").send().await;
    assert_eq!((error(&response).as_str(), response.header("connection")), (too_large, "close"));
    // Without a content-length.
    let pieces = futures_util::stream::iter(["123", "456"].map(|piece| Ok(piece.into())));
    let chunked = service(&server, Method::POST, "/object/strict/k").header("content-type", "text/plain");
    let response = chunked.stream(pieces).await.unwrap().whole().await.unwrap();
    assert_eq!(error(&response), too_large);
    let form =
        |size: usize| [Part::file("", "f", "image/png", "x".repeat(size)), Part::field("cacheControl", "1")];
    let uploaded =
        |parts: [Part; 2]| service(&server, Method::POST, "/object/strict/form").multipart(&parts).send();
    assert_eq!(error(&uploaded(form(6)).await), too_large);
    let _fits = ok(uploaded(form(5)).await);
    for (mime, is_allowed) in [("image/png", true), ("text/x; a=b", true), ("image/jpeg", false)] {
        let response =
            post(&server, "/object/strict/k", "1").header("content-type", mime).header("x-upsert", "true");
        let response = response.send().await;
        if is_allowed {
            let _stored = ok(response);
        } else {
            let expected =
                format!("400 415 | invalid_mime_type | mime type {mime} is not supported | InvalidMimeType");
            assert_eq!(error(&response), expected);
        }
    }
    let late_type = [Part::file("", "f", "image/png", "x"), Part::field("contentType", "image/gif")];
    let late_type = service(&server, Method::POST, "/object/strict/late").multipart(&late_type).send().await;
    assert!(error(&late_type).contains("mime type image/gif is not supported"));
    let expected = "400 415 | invalid_mime_type | Invalid Content-Type header | InvalidMimeType";
    assert_eq!(
        error(&post(&server, "/object/b/k", "1").header("content-type", "text").send().await),
        expected
    );
    // Dashboards create a placeholder of any type and size 0 to keep an empty folder.
    let folder = |body: &str| post(&server, "/object/strict/dir/.emptyFolderPlaceholder", body);
    assert_eq!(error(&folder("1").send().await), too_large);
    let _made = ok(folder("").header("content-type", "application/octet-stream").send().await);
    let robots = post(&server, "/object/b/k", "1").header("x-robots-tag", "never").send().await;
    let expected = "400 400 | invalid_x_robots_tag | Invalid X-Robots-Tag header: unknown rule \"never\" | InvalidRequest";
    assert_eq!(error(&robots), expected);
    let missing = "400 404 | Bucket not found | Bucket not found | NoSuchBucket";
    assert_eq!(error(&post(&server, "/object/nowhere/k", "1").send().await), missing);
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn server_limits_the_upload_size() {
    let limits = Basalt::builder().only("storage");
    let limits = limits.config("storage.max_file_size", "8").config("storage.max_standard_upload_size", "4");
    let server = limits.start().await;
    make_bucket(&server, &json!({"name": "b", "file_size_limit": 6})).await;
    let _fits = ok(post(&server, "/object/b/k", "1234").send().await);
    assert!(error(&post(&server, "/object/b/l", "12345").send().await).contains("EntityTooLarge"));
}

#[tokio::test]
async fn authentication_is_checked_first() {
    let server = server().await;
    let anonymous = |path: &str| request(&server, Method::POST, path).body("x");
    let expected = "400 400 | Error | headers must have required property 'authorization' | InvalidRequest";
    assert_eq!(error(&anonymous("/object/b%23/k").send().await), expected);
    let expected = "400 403 | Unauthorized | Invalid Compact JWS | AccessDenied";
    assert_eq!(error(&anonymous("/object/nowhere/k").bearer("nonsense").send().await), expected);
    let expected = "400 400 | Invalid Input | Bucket name invalid | InvalidBucketName";
    assert_eq!(error(&post(&server, "/object/b%23/k%23", "x").send().await), expected);
    let refused = post(&server, "/object/b/k", "x").bearer(&server.token(&json!({"role": "anon"})));
    let expected = "400 403 | Unauthorized | new row violates row-level security policy | AccessDenied";
    assert_eq!(error(&refused.send().await), expected);
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn empty_key_is_invalid() {
    let server = server().await;
    for (method, path) in
        [(Method::POST, "/object/b/"), (Method::PUT, "/object/b/"), (Method::POST, "/object/upload/sign/b/")]
    {
        // What the client sends for `upload("/")`.
        let refused = service(&server, method, path).json(&json!({})).send().await;
        assert_eq!(error(&refused), "400 400 | InvalidKey | Invalid key:  | InvalidKey", "{path}");
    }
}

#[tokio::test]
async fn hostile_names_are_rejected_unusual_ones_stored() {
    let server = server().await;
    for (path, shown) in [
        ("..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"),
        ("a/../b", "a/../b"),
        ("a/./b", "a/./b"),
        ("%00", "\0"),
        ("a%0d%0ab", "a\r\nb"),
        ("%C3%A9", "é"),
        ("a%25b", "a%b"),
        ("%23", "#"),
        ("a%5Cb", "a\\b"),
        ("%E2%80%AE", "\u{202e}"),
    ] {
        let response = post(&server, &format!("/object/b/{path}"), "x").send().await;
        let expected = format!("400 400 | InvalidKey | Invalid key: {shown} | InvalidKey");
        assert_eq!(error(&response), expected, "{path}");
    }
    let long = "k".repeat(1025);
    assert!(error(&post(&server, &format!("/object/b/{long}"), "x").send().await).contains("InvalidKey"));
    let endless = "k".repeat(2501);
    post(&server, &format!("/object/b/{endless}"), "x").send().await.expect(404);
    let broken = post(&server, "/object/b/%zz", "x").send().await.expect(400);
    assert_eq!(broken.json()["code"], "FST_ERR_BAD_URL");
    for (path, key) in [
        ("/lead", "/lead"),
        ("a//b", "a//b"),
        ("dir/", "dir/"),
        ("%20a%20", " a "),
        ("a'b;--%22", ""),
        ("x%2Fy", "x/y"),
        ("!_.*'()&$=@;:+,%3F-", "!_.*'()&$=@;:+,?-"),
        ("CON", "CON"),
    ] {
        let response = post(&server, &format!("/object/b/{path}"), "x").send().await;
        if key.is_empty() {
            assert!(error(&response).contains("InvalidKey"));
        } else {
            assert_eq!(ok(response)["Key"], format!("b/{key}"));
        }
    }
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn bucket_named_like_a_route_segment_accepts_uploads() {
    let server = server().await;
    for bucket in ["public", "list", "upload", "sign"] {
        make_bucket(&server, &json!({"name": bucket})).await;
    }
    for path in ["public/logos/l.png", "list/l.png", "sign/a/l.png", "upload/sign/a/l.png", "list/a/l.png"] {
        let response =
            post(&server, &format!("/object/{path}"), "x").header("content-type", "image/png").send().await;
        assert_eq!(ok(response)["Key"], path);
    }
    // `getPublicUrl`, `download`, `info` and `exists` can read such a bucket.
    for (method, path) in [
        (Method::GET, "authenticated/public/logos/l.png"),
        (Method::GET, "public/logos/l.png"),
        (Method::HEAD, "public/logos/l.png"),
        (Method::GET, "info/public/logos/l.png"),
        (Method::GET, "list/l.png"),
        (Method::GET, "sign/a/l.png"),
    ] {
        service(&server, method, &format!("/object/{path}")).send().await.expect(200);
    }
    make_bucket(&server, &json!({"name": "logos"})).await;
    let missing = "400 404 | Bucket not found | Bucket not found | NoSuchBucket";
    assert_eq!(error(&service(&server, Method::GET, "/object/public/logos/l.png").send().await), missing);
    // The route wins while its bucket exists.
    let response =
        service(&server, Method::POST, "/object/list/b").header("content-type", "image/png").body("x");
    assert_eq!(error(&response.send().await), "400 400 | Error | body must be object | InvalidRequest");
}
