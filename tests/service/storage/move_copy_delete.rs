//! Moving, copying and deleting objects, and uploads to signed URLs.

use basalt_testkit::{Basalt, Part, Request};
use http::Method;
use serde_json::{Value, json};

use super::leftovers::until_no_partial_uploads;
use super::{error, make_bucket, request, service};

const NO_KEY: &str = "400 404 | not_found | Object not found | NoSuchKey";

async fn server() -> Basalt {
    let server = Basalt::builder().only("storage").start().await;
    for bucket in ["b", "c"] {
        make_bucket(&server, &json!({"name": bucket})).await;
    }
    put(&server, "b/k", "hello").await;
    server
}

async fn put(server: &Basalt, path: &str, content: &'static str) {
    let upload = service(server, Method::PUT, &format!("/object/{path}"))
        .header("content-type", "text/plain")
        .header("cache-control", "max-age=60")
        .header("x-metadata", "eyJhIjoxfQ==")
        .body(content);
    upload.send().await.expect(200);
}

fn post(server: &Basalt, path: &str, body: &Value) -> Request {
    service(server, Method::POST, path).json(body)
}

async fn row(server: &Basalt, bucket: &str, name: &str) -> Value {
    let sql =
        format!("select to_jsonb(o) from storage.objects o where bucket_id = '{bucket}' and name = '{name}'");
    serde_json::from_str(&server.database().value(&sql).await).unwrap()
}

#[tokio::test]
async fn move_changes_only_the_name() {
    let server = server().await;
    let before = row(&server, "b", "k").await;
    let two = |from: &str, to: &str| json!({"bucketId": "b", "sourceKey": from, "destinationKey": to});
    let moved = post(&server, "/object/move", &two("k", "dir/l")).send().await.expect(200);
    assert_eq!(moved.text(), r#"{"message":"Successfully moved"}"#);
    let after = row(&server, "b", "dir/l").await;
    for same in ["id", "created_at", "version", "metadata", "user_metadata", "owner"] {
        assert_eq!(after[same], before[same], "{same}");
    }
    let elsewhere =
        json!({"bucketId": "b", "sourceKey": "dir/l", "destinationBucket": "c", "destinationKey": "k"});
    post(&server, "/object/move", &elsewhere).send().await.expect(200);
    assert_eq!(row(&server, "c", "k").await["id"], before["id"]);
    put(&server, "b/k", "another").await;
    let refused = async |body: Value| error(&post(&server, "/object/move", &body).send().await);
    assert_eq!(refused(two("nothing", "x")).await, NO_KEY);
    assert_eq!(refused(two("nothing", "nothing")).await, NO_KEY);
    assert_eq!(refused(two("\0", "x")).await, NO_KEY);
    let nowhere = json!({"bucketId": "nowhere", "sourceKey": "k", "destinationKey": "x"});
    assert_eq!(refused(nowhere).await, NO_KEY);
    let into_nothing =
        json!({"bucketId": "b", "sourceKey": "k", "destinationBucket": "nowhere", "destinationKey": "x"});
    let expected = "400 404 | InvalidRequest | The related resource does not exist | InvalidRequest";
    assert_eq!(refused(into_nothing).await, expected);
    let onto = json!({"bucketId": "b", "sourceKey": "k", "destinationBucket": "c", "destinationKey": "k"});
    let expected = "400 409 | Duplicate | The resource already exists | ResourceAlreadyExists";
    assert_eq!(refused(onto).await, expected);
    assert_eq!(refused(two("k", "a#b")).await, "400 400 | InvalidKey | Invalid key: a#b | InvalidKey");
    let expected = "400 400 | Error | body must have required property 'destinationKey' | InvalidRequest";
    assert_eq!(refused(json!({"bucketId": "b", "sourceKey": "k"})).await, expected);
    let same = row(&server, "b", "k").await;
    post(&server, "/object/move", &two("k", "k")).send().await.expect(200);
    assert_eq!(row(&server, "b", "k").await, same);
    let mover = server.token(&json!({"role": "service_role", "sub": "mover"}));
    post(&server, "/object/move", &two("k", "m")).bearer(&mover).send().await.expect(200);
    assert_eq!(row(&server, "b", "m").await["owner_id"], "mover");
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn copy_is_a_separate_object() {
    let server = server().await;
    let two = |from: &str, to: &str| json!({"bucketId": "b", "sourceKey": from, "destinationKey": to});
    let copied = post(&server, "/object/copy", &two("k", "dir/l")).send().await.expect(200);
    let (source, target) = (row(&server, "b", "k").await, row(&server, "b", "dir/l").await);
    let response = copied.json();
    let names: Vec<&str> = response.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "Key",
        "Id",
        "name",
        "bucket_id",
        "owner",
        "owner_id",
        "version",
        "id",
        "updated_at",
        "created_at",
        "last_accessed_at",
        "metadata",
        "user_metadata",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (&response["Key"], &response["Id"], &response["id"]),
        (&json!("b/dir/l"), &target["id"], &target["id"])
    );
    assert_eq!((&response["owner"], &response["owner_id"]), (&json!(""), &json!("")));
    assert_eq!((&response["version"], &response["metadata"]), (&target["version"], &target["metadata"]));
    assert_ne!(source["version"], target["version"]);
    let (mut of_source, mut of_target) = (source["metadata"].clone(), target["metadata"].clone());
    for metadata in [&mut of_source, &mut of_target] {
        assert!(metadata["lastModified"].take().is_string());
    }
    assert_eq!((of_source, &source["user_metadata"]), (of_target, &target["user_metadata"]));

    let refused = async |body: Value| error(&post(&server, "/object/copy", &body).send().await);
    assert_eq!(refused(two("nothing", "x")).await, NO_KEY);
    assert_eq!(
        refused(json!({"bucketId": "nowhere", "sourceKey": "k", "destinationKey": "x"})).await,
        NO_KEY
    );
    let exists = "400 409 | Duplicate | The resource already exists | KeyAlreadyExists";
    assert_eq!(refused(two("k", "dir/l")).await, exists);
    assert_eq!(refused(two("k", "k")).await, exists);
    assert_eq!(refused(two("k", "..")).await, "400 400 | InvalidKey | Invalid key: .. | InvalidKey");
    let mut bare = two("k", "bare");
    bare["copyMetadata"] = json!(false);
    let words = "400 400 | InvalidRequest | Metadata header is required | InvalidRequest";
    assert_eq!(refused(bare.clone()).await, words);
    bare["metadata"] = json!({"mimetype": "text/x"});
    post(&server, "/object/copy", &bare).send().await.expect(200);
    let target = row(&server, "b", "bare").await;
    let output =
        (&target["metadata"]["mimetype"], &target["metadata"]["cacheControl"], &target["user_metadata"]);
    assert_eq!(output, (&json!("text/x"), &json!("max-age=60"), &Value::Null));
    bare["metadata"] = json!({"cacheControl": "no-store"});
    let again =
        post(&server, "/object/copy", &bare).header("x-upsert", "true").header("x-metadata", "eyJiIjoyfQ==");
    let again = again.send().await.expect(200);
    assert_eq!(again.json()["Id"], target["id"], "an upsert keeps the target's id");
    let target = row(&server, "b", "bare").await;
    let output =
        (&target["metadata"]["mimetype"], &target["metadata"]["cacheControl"], &target["user_metadata"]);
    assert_eq!(output, (&json!("text/plain"), &json!("no-store"), &json!({"b": 2})));
    let elsewhere =
        json!({"bucketId": "b", "sourceKey": "k", "destinationBucket": "c", "destinationKey": "k"});
    let copier = server.token(&json!({"role": "service_role", "sub": "copier"}));
    post(&server, "/object/copy", &elsewhere).bearer(&copier).send().await.expect(200);
    assert_eq!(row(&server, "c", "k").await["owner_id"], "copier");
    // A row inserted by SQL has no blob.
    server.sql("insert into storage.objects (bucket_id, name) values ('b', 'no bytes')").await;
    assert_eq!(refused(two("no bytes", "x")).await, NO_KEY);
    until_no_partial_uploads(&server).await;
}

#[tokio::test]
async fn deletes_one_object() {
    let server = server().await;
    let delete = async |path: &str| service(&server, Method::DELETE, path).send().await;
    let version = row(&server, "b", "k").await["version"].clone();
    let deleted = delete("/object/b/k").await.expect(200);
    assert_eq!(deleted.text(), r#"{"message":"Successfully deleted"}"#);
    assert_eq!(error(&delete("/object/b/k").await), NO_KEY);
    assert_eq!(error(&delete("/object/nowhere/k").await), NO_KEY);
    assert_eq!(error(&delete("/object/b/%00").await), NO_KEY);
    let expected = "400 400 | FastifyError | Body cannot be empty when content-type is set to 'application/json' | InvalidRequest";
    let bodiless = service(&server, Method::DELETE, "/object/b/k").header("content-type", "application/json");
    assert_eq!(error(&bodiless.send().await), expected);
    let garbage = server.database().admin_sql("select blob::text from storage.blob_garbage").await;
    assert_eq!(garbage, [[version.as_str().map(str::to_owned)]]);
}

#[tokio::test]
async fn deletes_many_objects_by_exact_name() {
    let server = server().await;
    let names: Vec<String> = (0..1201).map(|number| format!("many/{number:04}")).collect();
    super::make_objects(&server, "b", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let delete = async |body: &Value| service(&server, Method::DELETE, "/object/b").json(body).send().await;
    let folder = delete(&json!({"prefixes": ["many", "many/", "absent", "\0"]})).await.expect(200);
    assert_eq!(folder.text(), "[]");
    let deleted = delete(&json!({"prefixes": ["k", "k", "many/0000"]})).await.expect(200).json();
    assert_eq!(deleted.as_array().unwrap().len(), 2);
    let members: Vec<&str> = deleted[0].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "name",
        "bucket_id",
        "owner",
        "owner_id",
        "version",
        "id",
        "updated_at",
        "created_at",
        "last_accessed_at",
        "metadata",
        "user_metadata",
    ];
    assert_eq!(members, expected);
    let object = deleted.as_array().unwrap().iter().find(|object| object["name"] == "k").unwrap();
    assert_eq!((&object["owner"], &object["owner_id"]), (&json!(""), &json!("")));
    assert_eq!(object["user_metadata"], json!({"a": 1}));
    let all = delete(&json!({"prefixes": names})).await.expect(200).json();
    assert_eq!(all.as_array().unwrap().len(), 1200);
    assert_eq!(server.database().count("storage.objects").await, 0);
    let nowhere = service(&server, Method::DELETE, "/object/nowhere").json(&json!({"prefixes": ["k"]}));
    assert_eq!(nowhere.send().await.expect(200).text(), "[]");
    let words = "400 400 | Error | body/prefixes must NOT have fewer than 1 items | InvalidRequest";
    assert_eq!(error(&delete(&json!({"prefixes": []})).await), words);
    let words = "400 400 | Error | body must have required property 'prefixes' | InvalidRequest";
    assert_eq!(error(&delete(&json!({})).await), words);
}

#[tokio::test]
async fn upload_to_signed_url() {
    let server = server().await;
    let signer = server.token(&json!({"role": "service_role", "sub": "signer"}));
    let sign = async |path: &str, upsert: &str| {
        let path = format!("/object/upload/sign/{path}");
        let request = service(&server, Method::POST, &path).bearer(&signer).json(&json!({}));
        request.header("x-upsert", upsert).send().await
    };
    let signed = sign("b/dir/a%20b", "false").await.expect(200).json();
    let (url, token) = (signed["url"].as_str().unwrap(), signed["token"].as_str().unwrap());
    assert_eq!(url, format!("/object/upload/sign/b/dir/a b?token={token}"));
    let put = |path: &str| request(&server, Method::PUT, path).header("content-type", "text/plain").body("x");
    let path = url.replace(' ', "%20");
    let stored = put(&path).send().await.expect(200);
    assert_eq!(stored.text(), r#"{"Key":"b/dir/a b"}"#);
    assert_eq!(row(&server, "b", "dir/a b").await["owner_id"], "signer");
    let exists = "400 409 | Duplicate | The resource already exists | KeyAlreadyExists";
    assert_eq!(error(&put(&path).header("x-upsert", "true").send().await), exists);
    assert_eq!(error(&sign("b/k", "false").await), exists);
    let upsert = sign("b/k", "true").await.expect(200).json();
    let path = upsert["url"].as_str().unwrap();
    for _ in 0..2 {
        let form = [Part::file("", "blob", "text/plain", "again")];
        request(&server, Method::PUT, path).multipart(&form).send().await.expect(200);
    }
    let elsewhere = path.replace("/b/k", "/b/l");
    let expected = "400 400 | InvalidSignature | Invalid signature | InvalidSignature";
    assert_eq!(error(&put(&elsewhere).send().await), expected);
    let expected = "400 400 | InvalidJWT | Invalid Compact JWS | InvalidJWT";
    assert_eq!(error(&put("/object/upload/sign/b/k?token=x").send().await), expected);
    let expected = "400 400 | Error | querystring must have required property 'token' | InvalidRequest";
    assert_eq!(error(&put("/object/upload/sign/b/k").send().await), expected);
    let missing = "400 404 | Bucket not found | Bucket not found | NoSuchBucket";
    assert_eq!(error(&sign("nowhere/k", "false").await), missing);
    // The key is checked when it is used.
    let odd = sign("b/%C3%A9", "false").await.expect(200).json();
    let odd = odd["url"].as_str().unwrap().replace('é', "%C3%A9");
    assert_eq!(error(&put(&odd).send().await), "400 400 | InvalidKey | Invalid key: é | InvalidKey");
    until_no_partial_uploads(&server).await;
}
