//! Downloads: access, headers, ranges (storage.md §3.6, §3.7, §4.6, §5.1).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::PathBuf;

use basalt_core::identity::Identity;
use basalt_storage::StorageConfig;
use basalt_storage::blobs::{BlobId, BlobStore};
use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

pub(super) const OWNER: &str = "0a000000-0000-4000-8000-000000000001";
const STRANGER: &str = "0b000000-0000-4000-8000-000000000002";
const BUCKETS: &str = "insert into storage.buckets (id, name, public) values
  ('secret', 'secret', false), ('open', 'open', true);
create policy owners on storage.objects for select to authenticated
  using (owner_id = (select auth.jwt()->>'sub'))";

/// A server whose objects were stored directly, without uploads.
pub(super) struct Shelf {
    pub(super) server: Basalt,
    store: BlobStore,
}

impl Shelf {
    pub(super) async fn new() -> Self {
        Self::for_server(Basalt::builder().only("storage").start().await).await
    }

    async fn for_server(server: Basalt) -> Self {
        server.database().sql(BUCKETS).await;
        let config = StorageConfig { dir: dir(&server), ..StorageConfig::default() };
        let store = BlobStore::open(&config, TaskTracker::new()).await.unwrap();
        Self { server, store }
    }

    /// Stores an object of the owner's, with `more` in its metadata.
    pub(super) async fn put(
        &self,
        bucket: &str,
        key: &str,
        bytes: impl Into<bytes::Bytes>,
        more: Value,
    ) -> BlobId {
        let id = BlobId::random();
        let mut writer = self.store.writer(Identity::SERVER, id);
        writer.write(bytes.into()).await.unwrap();
        let size = writer.finish().await.unwrap().size;
        let mut metadata = json!({
            "eTag": "\"e1\"", "size": size, "mimetype": "text/plain", "cacheControl": "max-age=3600",
            "lastModified": "2026-11-20T09:30:55.714Z", "contentLength": size, "httpStatusCode": 200,
        });
        for (name, value) in more.as_object().unwrap() {
            metadata[name] = value.clone();
        }
        self.row(bucket, key, &id.to_string(), &metadata).await;
        id
    }

    async fn row(&self, bucket: &str, key: &str, version: &str, metadata: &Value) {
        let [bucket, key, metadata] =
            [bucket, key, &metadata.to_string()].map(|text| text.replace('\'', "''"));
        let statement = format!(
            "insert into storage.objects (bucket_id, name, version, metadata, owner_id, user_metadata, created_at, updated_at)
             values ('{bucket}', '{key}', '{version}', '{metadata}', '{OWNER}', '{{\"k\": 1}}',
               '2026-11-20T09:34:05.615999Z', '2026-11-20T09:34:05.615999Z')
             on conflict (bucket_id, name) do update set version = excluded.version, metadata = excluded.metadata"
        );
        self.server.database().sql(&statement).await;
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        token(&self.server, claims)
    }

    pub(super) fn user(&self, subject: &str) -> String {
        self.token(&json!({"sub": subject, "role": "authenticated"}))
    }

    pub(super) fn get(&self, path: &str) -> Request {
        self.request(Method::GET, path)
    }

    pub(super) fn request(&self, method: Method, path: &str) -> Request {
        // Without an API key, like an image in a web page.
        Request::new(method, self.server.url(&format!("/storage/v1{path}")))
    }
}

fn dir(server: &Basalt) -> PathBuf {
    server.state_dir().join("storage")
}

fn file(server: &Basalt, id: BlobId) -> PathBuf {
    let name = id.to_string();
    dir(server).join(name.split_at(2).0).join(name)
}

fn token(server: &Basalt, claims: &Value) -> String {
    encode(&Header::default(), claims, &EncodingKey::from_secret(server.jwt_secret().as_bytes())).unwrap()
}

/// The status, and the code of an error.
pub(super) fn outcome(response: &Response) -> String {
    let status = response.status.as_u16();
    if status < 400 {
        return status.to_string();
    }
    assert_eq!(response.header("content-type"), "application/json", "{}", response.text());
    format!("{status} {}", response.json()["code"].as_str().unwrap())
}

#[tokio::test]
async fn private_bucket_applies_policies_public_one_does_not() {
    let shelf = Shelf::new().await;
    for bucket in ["secret", "open"] {
        shelf.put(bucket, "a.txt", "0123456789", json!({})).await;
    }
    let callers = [
        ("visitor", None),
        ("forged", Some("eyJhbGciOiJIUzI1NiJ9.e30.AAAA".to_owned())),
        ("stranger", Some(shelf.user(STRANGER))),
        ("owner", Some(shelf.user(OWNER))),
        ("service", Some(shelf.server.service_key().to_owned())),
    ];
    let mut seen = BTreeMap::new();
    for door in ["", "authenticated/", "public/", "info/", "info/authenticated/", "info/public/"] {
        for key in ["secret/a.txt", "open/a.txt", "secret/no", "open/no", "no/a.txt"] {
            let path = format!("/object/{door}{key}");
            let mut outcomes = Vec::new();
            for (_, token) in &callers {
                let with =
                    |request: Request| token.iter().fold(request, |request, token| request.bearer(token));
                let response = with(shelf.get(&path)).send().await;
                let head = with(shelf.request(Method::HEAD, &path)).send().await;
                assert_eq!((head.status, head.body.len()), (response.status, 0), "{path}");
                if response.status.is_success() && !door.starts_with("info") {
                    assert_eq!(response.text(), "0123456789", "{path}");
                }
                outcomes.push(outcome(&response));
            }
            let before: &mut Vec<Vec<String>> = seen.entry(key).or_default();
            before.push(outcomes);
        }
    }
    let row = |expected: [&str; 5]| expected.map(str::to_owned).to_vec();
    let (no_bucket, no_key) = ("400 NoSuchBucket", "400 NoSuchKey");
    let (no_token, bad_token) = ("400 InvalidRequest", "400 AccessDenied");
    for (key, either, authenticated, public) in [
        (
            "secret/a.txt",
            row([no_bucket, no_bucket, no_key, "200", "200"]),
            row([no_token, bad_token, no_key, "200", "200"]),
            row([no_bucket; 5]),
        ),
        ("open/a.txt", row(["200"; 5]), row([no_token, bad_token, "200", "200", "200"]), row(["200"; 5])),
        (
            "secret/no",
            row([no_bucket, no_bucket, no_key, no_key, no_key]),
            row([no_token, bad_token, no_key, no_key, no_key]),
            row([no_bucket; 5]),
        ),
        ("open/no", row([no_key; 5]), row([no_token, bad_token, no_key, no_key, no_key]), row([no_key; 5])),
        (
            "no/a.txt",
            row([no_bucket, no_bucket, no_key, no_key, no_key]),
            row([no_token, bad_token, no_key, no_key, no_key]),
            row([no_bucket; 5]),
        ),
    ] {
        let once = [either, authenticated, public];
        assert_eq!(seen[key], [once.clone(), once].concat(), "{key}");
    }
}

#[tokio::test]
async fn public_bucket_does_not_evaluate_policies() {
    let shelf = Shelf::new().await;
    for bucket in ["secret", "open"] {
        shelf.put(bucket, "a.txt", "a", json!({})).await;
    }
    shelf.server.expect_log("PostgreSQL rejected a statement");
    let unknown = shelf.token(&json!({"sub": OWNER, "role": "nobody_knows"}));
    let of = async |path: &str, token: &str| outcome(&shelf.get(path).bearer(token).send().await);
    assert_eq!(of("/object/open/a.txt", &unknown).await, "200");
    let refused = shelf.get("/object/secret/a.txt").bearer(&unknown).send().await.expect(500).json();
    assert_eq!(refused["message"], "database error, code: 22023");
    shelf
        .server
        .database()
        .sql(
            "drop policy owners on storage.objects;
             create policy broken on storage.objects for select using (1 / (length(name) - 5) = 0)",
        )
        .await;
    assert_eq!(of("/object/open/a.txt", &shelf.user(OWNER)).await, "200");
    assert_eq!(of("/object/secret/a.txt", &shelf.user(OWNER)).await, "500 DatabaseError");
    // The settings that policies read are set.
    shelf
        .server
        .database()
        .sql(
            "drop policy broken on storage.objects;
             create policy told on storage.objects for select to authenticated using (
               storage.allow_only_operation('object.get_authenticated') and auth.uid() = owner_id::uuid
               and current_setting('request.path') = '/object/secret/a.txt'
               and current_setting('request.method') = 'GET'
               and current_setting('request.headers')::json->>'x-wanted' = 'yes')",
        )
        .await;
    let request = shelf.get("/object/secret/a.txt").bearer(&shelf.user(OWNER)).header("x-wanted", "yes");
    request.clone().send().await.expect(200);
    assert_eq!(outcome(&request.without("x-wanted").send().await), "400 NoSuchKey");
    assert_eq!(of("/object/info/secret/a.txt", &shelf.user(OWNER)).await, "400 NoSuchKey");
}

#[tokio::test]
async fn download_headers_come_from_the_row() {
    let shelf = Shelf::new().await;
    shelf.put("open", "a.txt", "0123456789", json!({"xRobotsTag": "noindex"})).await;
    shelf
        .put("open", "page", "<script>alert(1)</script>", json!({"mimetype": "text/html; charset=utf-8"}))
        .await;
    shelf.put("open", "a.svg", "<svg/>", json!({"mimetype": "image/svg+xml"})).await;
    shelf
        .put(
            "open",
            "empty",
            "",
            json!({"mimetype": null, "cacheControl": null, "eTag": null, "lastModified": null}),
        )
        .await;
    let whole = shelf.get("/object/public/open/a.txt").send().await.expect(200);
    let of = |response: &Response| {
        let names = [
            "content-type",
            "content-length",
            "accept-ranges",
            "etag",
            "last-modified",
            "cache-control",
            "x-robots-tag",
            "content-disposition",
            "expires",
            "content-range",
            "x-content-type-options",
            "content-security-policy",
        ];
        names.map(|name| response.header(name).to_owned())
    };
    let expected = [
        "text/plain",
        "10",
        "bytes",
        "\"e1\"",
        "Fri, 20 Nov 2026 09:30:55 GMT",
        "max-age=3600",
        "noindex",
        "",
        "",
        "",
        "nosniff",
        "",
    ];
    assert_eq!(of(&whole), expected);
    let head = shelf.request(Method::HEAD, "/object/public/open/a.txt").header("range", "bytes=0-3");
    let head = head.header("if-none-match", "*").send().await.expect(200);
    assert_eq!(of(&head), expected, "HEAD ignores ranges and conditions");

    // HTML is served as text; other active content is sandboxed from the API's origin.
    let page = shelf.get("/object/public/open/page").send().await.expect(200);
    assert_eq!(
        (page.header("content-type"), page.header("x-content-type-options")),
        ("text/plain", "nosniff")
    );
    let svg = shelf.get("/object/public/open/a.svg").send().await.expect(200);
    assert_eq!(
        (svg.header("content-type"), svg.header("content-security-policy")),
        ("image/svg+xml", "sandbox")
    );
    assert_eq!(svg.header("x-content-type-options"), "nosniff");

    let empty = shelf.get("/object/public/open/empty").send().await.expect(200);
    let bare = [
        "application/octet-stream",
        "0",
        "bytes",
        "",
        "Fri, 20 Nov 2026 09:34:05 GMT",
        "no-cache",
        "none",
        "",
        "",
        "",
        "nosniff",
        "",
    ];
    assert_eq!((of(&empty), empty.body.len()), (bare.map(str::to_owned), 0));

    for (query, expected) in [
        ("?download", "attachment;"),
        ("?download=", "attachment;"),
        (
            "?cacheNonce=1&download=a%20%22b%22%0d%0a.txt",
            r#"attachment; filename="a \"b\"__.txt"; filename*=UTF-8''a%20%22b%22%0D%0A.txt"#,
        ),
        ("?other", ""),
    ] {
        let response = shelf.get(&format!("/object/public/open/a.txt{query}")).send().await.expect(200);
        assert_eq!(response.header("content-disposition"), expected, "{query}");
    }
}

#[tokio::test]
async fn conditional_and_range_requests_are_honoured() {
    let shelf = Shelf::new().await;
    shelf.put("open", "a.txt", "0123456789", json!({})).await;
    shelf.put("open", "empty", "", json!({})).await;
    let of = async |headers: &[(&str, &str)]| {
        let request = shelf.get("/object/public/open/a.txt");
        headers.iter().fold(request, |request, (name, value)| request.header(name, value)).send().await
    };
    let (date, earlier) = ("Fri, 20 Nov 2026 09:30:55 GMT", "Fri, 20 Nov 2026 09:30:54 GMT");
    for (headers, status) in [
        (vec![("if-none-match", "\"e1\"")], 304),
        (vec![("if-none-match", "W/\"e1\"")], 304),
        (vec![("if-none-match", "\"e0\", \"e1\"")], 304),
        (vec![("if-none-match", "*")], 304),
        (vec![("if-none-match", "\"e0\"")], 200),
        (vec![("if-modified-since", date)], 304),
        (vec![("if-modified-since", earlier)], 200),
        (vec![("if-none-match", "\"e0\""), ("if-modified-since", date)], 200),
        (vec![("if-none-match", "\"e1\""), ("if-modified-since", earlier)], 304),
        (vec![("if-none-match", "\"e1\""), ("range", "bytes=0-3")], 304),
        (vec![("if-none-match", "\"e0\""), ("range", "bytes=0-3")], 206),
        (vec![("if-match", "\"e0\"")], 200),
        (vec![("if-unmodified-since", earlier)], 200),
        (vec![("range", "bytes=0-3"), ("if-range", "\"e1\"")], 206),
        (vec![("range", "bytes=0-3"), ("if-range", "\"e0\"")], 200),
        (vec![("range", "bytes=0-3"), ("if-range", date)], 206),
    ] {
        let response = of(&headers).await.expect(status);
        let length = match status {
            304 => 0,
            206 => 4,
            _ => 10,
        };
        assert_eq!(response.body.len(), length, "{headers:?}");
        assert_eq!(
            (response.header("etag"), response.header("last-modified")),
            ("\"e1\"", date),
            "{headers:?}"
        );
        assert_eq!(response.header("cache-control"), "max-age=3600", "{headers:?}");
    }
    for (range, text, content_range) in [
        ("bytes=0-3", "0123", "bytes 0-3/10"),
        ("bytes=0-9", "0123456789", "bytes 0-9/10"),
        ("bytes=8-100", "89", "bytes 8-9/10"),
        ("bytes=9-", "9", "bytes 9-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=-30", "0123456789", "bytes 0-9/10"),
    ] {
        let response = of(&[("range", range)]).await.expect(206);
        assert_eq!(
            (response.text().as_str(), response.header("content-range")),
            (text, content_range),
            "{range}"
        );
        assert_eq!(response.header("content-length"), text.len().to_string(), "{range}");
    }
    for range in ["bytes=10-", "bytes=5-4", "bytes=-0", "bytes=0-1,3-4", "lines=1-2", "bytes=a", ""] {
        let response = of(&[("range", range)]).await.expect(416);
        assert_eq!(response.header("content-range"), "bytes */10", "{range}");
        let body = json!({"statusCode": "416", "error": "invalid_range", "message": "invalid range provided", "code": "InvalidRange"});
        assert_eq!(response.json(), body);
        assert_eq!((response.header("etag"), response.header("cache-control")), ("", ""), "{range}");
    }
    let empty = shelf.get("/object/public/open/empty").header("range", "bytes=0-").send().await.expect(416);
    assert_eq!(empty.header("content-range"), "bytes */0");
}

#[tokio::test]
async fn info_returns_the_row_and_metadata() {
    let shelf = Shelf::new().await;
    shelf.put("secret", "dir/a.txt", "0123456789", json!({})).await;
    let response =
        shelf.get("/object/info/secret/dir/a.txt").bearer(&shelf.user(OWNER)).send().await.expect(200);
    let mut body = response.json();
    for name in ["id", "version"] {
        assert_eq!(body[name].as_str().map(str::len), Some(36), "{name}");
        body[name] = json!("…");
    }
    let expected = r#"{"id":"…","name":"dir/a.txt","version":"…","bucket_id":"secret","size":10,"content_type":"text/plain","cache_control":"max-age=3600","etag":"\"e1\"","metadata":{"k":1},"last_modified":"2026-11-20T09:34:05.615Z","created_at":"2026-11-20T09:34:05.615Z"}"#;
    assert_eq!(body.to_string(), expected);
    assert_eq!(
        ["etag", "last-modified", "cache-control"].map(|name| response.header(name)),
        ["\"e1\"", "Fri, 20 Nov 2026 09:30:55 GMT", "max-age=3600"]
    );
    let head = shelf.request(Method::HEAD, "/object/info/secret/dir/a.txt").bearer(&shelf.user(OWNER));
    assert_eq!(head.send().await.expect(200).header("content-length"), "10");
}

/// The app has a bucket named like a route segment (storage.md §5.1).
#[tokio::test]
async fn bucket_named_like_a_route_segment_is_readable() {
    let shelf = Shelf::new().await;
    let words = "insert into storage.buckets (id, name, public) values
        ('public', 'public', false), ('info', 'info', true), ('logos', 'logos', true)";
    shelf.server.database().sql(words).await;
    for (bucket, key) in [
        ("public", "l.png"),
        ("public", "shop/l.png"),
        ("public", "logos/l.png"),
        ("logos", "l.png"),
        ("info", "shop/l.png"),
    ] {
        shelf.put(bucket, key, format!("{bucket}: {key}"), json!({})).await;
    }
    let owner = shelf.user(OWNER);
    for (path, token, expected) in [
        // The route wins.
        ("/object/public/logos/l.png", None, "logos: l.png"),
        ("/object/public/logos/l.png", Some(&owner), "logos: l.png"),
        ("/object/public/public/l.png", None, "400 NoSuchBucket"),
        ("/object/authenticated/public/l.png", Some(&owner), "public: l.png"),
        ("/object/authenticated/public/shop/l.png", Some(&owner), "public: shop/l.png"),
        ("/object/public/info/shop/l.png", None, "info: shop/l.png"),
        // The route's bucket does not exist: the bucket named like the segment, with its own access rules.
        ("/object/public/shop/l.png", Some(&owner), "public: shop/l.png"),
        ("/object/public/shop/l.png", None, "400 NoSuchBucket"),
        ("/object/public/l.png", Some(&owner), "public: l.png"),
        ("/object/public/l.png", None, "400 NoSuchBucket"),
        ("/object/info/shop/l.png", None, "info: shop/l.png"),
        // Neither bucket exists.
        ("/object/public/none/l.png", None, "400 NoSuchBucket"),
        ("/object/authenticated/none/l.png", Some(&owner), "400 NoSuchKey"),
    ] {
        let request = token.iter().fold(shelf.get(path), |request, token| request.bearer(token));
        let response = request.send().await;
        let found = if response.status == 200 { response.text() } else { outcome(&response) };
        assert_eq!(found, expected, "{path} {}", token.is_some());
    }
    let info = shelf.get("/object/info/public/shop/l.png").bearer(&owner).send().await.expect(200).json();
    assert_eq!((info["bucket_id"].as_str(), info["name"].as_str()), (Some("public"), Some("shop/l.png")));
}

#[tokio::test]
async fn hostile_names_match_only_their_own_object() {
    let shelf = Shelf::new().await;
    std::fs::write(shelf.server.state_dir().join("storage").join("plain.txt"), "not an object").unwrap();
    shelf.put("open", "a b/ü%'\"\\.txt", "odd", json!({})).await;
    shelf.put("open", "a//b/", "slashes", json!({})).await;
    shelf.put("open", "a%2Fb", "literal", json!({})).await;
    for (path, expected) in [
        ("open/a%20b/%C3%BC%25'%22%5C.txt", "odd"),
        ("open/a//b/", "slashes"),
        ("open/a%2F%2Fb%2F", "slashes"),
        ("open/a%252Fb", "literal"),
        ("open/a%2Fb", "400 NoSuchKey"),
        ("open/a//b", "400 NoSuchKey"),
        ("open/A//b/", "400 NoSuchKey"),
        ("open/%", "400 FST_ERR_BAD_URL"),
        ("open/%zz", "400 FST_ERR_BAD_URL"),
        ("open/%ff%fe", "400 FST_ERR_BAD_URL"),
        ("open/a%00b", "400 NoSuchKey"),
        ("op%00en/a", "400 InvalidBucketName"),
        ("op%2Fen/a", "400 InvalidBucketName"),
        ("..%2fopen/a", "400 InvalidBucketName"),
        ("%2e%2e/a", "400 InvalidBucketName"),
        ("open/..%2f..%2fplain.txt", "400 NoSuchKey"),
        ("open/%2e%2e/%2e%2e/plain.txt", "400 NoSuchKey"),
        ("open/../plain.txt", "400 NoSuchKey"),
        ("open//etc/passwd", "400 NoSuchKey"),
        ("open/a_%25", "400 NoSuchKey"),
        ("open/'%20or%20true--", "400 NoSuchKey"),
        ("open%20/a", "400 InvalidBucketName"),
        ("%E2%80%AEopen/a", "400 InvalidBucketName"),
    ] {
        let response = shelf.get(&format!("/object/public/{path}")).send().await;
        let found = if response.status == 200 { response.text() } else { outcome(&response) };
        assert_eq!(found, expected, "{path}");
    }
    let long = shelf.get(&format!("/object/public/open/{}", "a".repeat(2501))).send().await;
    assert_eq!(outcome(&long), "404 InvalidRequest");
    let long = shelf.get(&format!("/object/public/open/{}", "%20".repeat(833))).send().await;
    assert_eq!(outcome(&long), "400 NoSuchKey");
}

#[tokio::test]
async fn row_with_wrong_size_or_no_blob_fails_cleanly() {
    let shelf = Shelf::new().await;
    let size = json!({"size": 10});
    shelf.row("open", "never stored", "v1", &size).await;
    shelf.row("open", "null", "v1", &Value::Null).await;
    shelf.row("open", "odd", "v1", &json!(["size", 10])).await;
    for key in ["never%20stored", "null", "odd"] {
        assert_eq!(
            outcome(&shelf.get(&format!("/object/public/open/{key}")).send().await),
            "400 NoSuchKey",
            "{key}"
        );
        let head =
            shelf.request(Method::HEAD, &format!("/object/public/open/{key}")).send().await.expect(200);
        assert_eq!(head.header("content-length"), if key == "never%20stored" { "10" } else { "0" }, "{key}");
        shelf.get(&format!("/object/info/open/{key}")).send().await.expect(200);
    }
    let gone = shelf.put("open", "gone", "0123456789", json!({})).await;
    std::fs::remove_file(file(&shelf.server, gone)).unwrap();
    shelf.server.expect_log("the blob of a row is missing");
    assert_eq!(outcome(&shelf.get("/object/public/open/gone").send().await), "400 NoSuchKey");
    let cut = shelf.put("open", "cut", "0123456789", json!({})).await;
    OpenOptions::new().write(true).open(file(&shelf.server, cut)).unwrap().set_len(9).unwrap();
    shelf.server.expect_log("is shorter than its row states");
    assert_eq!(outcome(&shelf.get("/object/public/open/cut").send().await), "500 InternalError");
    let start = shelf.get("/object/public/open/cut").header("range", "bytes=0-3").send().await.expect(206);
    assert_eq!(start.text(), "0123");
}

#[tokio::test]
async fn download_retries_when_the_object_is_overwritten() {
    let shelf = Shelf::new().await;
    let old = shelf.put("secret", "a.txt", "old", json!({})).await;
    // The policy sleeps, so that the lookup returns the row from before the overwrite.
    let slow = "create function slow() returns boolean language plpgsql as $$ begin perform pg_sleep(2); return true; end $$;
        grant execute on function slow() to authenticated;
        drop policy owners on storage.objects;
        create policy slow on storage.objects for select to authenticated using (slow())";
    shelf.server.database().sql(slow).await;
    let request = shelf.get("/object/secret/a.txt").bearer(&shelf.user(OWNER));
    let reading = tokio::spawn(request.send());
    shelf.server.database().until_asleep("%storage.objects%").await;
    shelf.put("secret", "a.txt", "new bytes", json!({"eTag": "\"e2\""})).await;
    std::fs::remove_file(file(&shelf.server, old)).unwrap();
    let response = reading.await.unwrap().expect(200);
    assert_eq!(
        (response.text().as_str(), response.header("etag"), response.header("content-length")),
        ("new bytes", "\"e2\"", "9")
    );
}

#[tokio::test]
async fn download_holds_no_database_connection() {
    let builder = Basalt::builder().only("storage").config("database.pool_size", "1");
    let shelf = Shelf::for_server(builder.start().await).await;
    let bytes: Vec<u8> = (0..20 * 1024 * 1024_u32).map(|at| (at / 7).to_le_bytes()[0]).collect();
    shelf.put("open", "large", bytes.clone(), json!({})).await;
    let mut readers = Vec::new();
    for _ in 0..4 {
        let mut reader = shelf.get("/object/public/open/large").open().await.unwrap();
        assert!(reader.chunk().await.unwrap().is_some());
        readers.push(reader);
    }
    shelf.get("/object/public/open/large").header("range", "bytes=0-0").send().await.expect(206);
    let part = shelf
        .get("/object/public/open/large")
        .header("range", "bytes=300000-9999999")
        .send()
        .await
        .expect(206);
    assert!(part.body == bytes[300_000..10_000_000]);
    let whole = shelf.get("/object/public/open/large").send().await.expect(200);
    assert!(whole.body == bytes);
}
