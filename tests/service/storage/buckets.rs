//! `/bucket…`, and the routes for status, version and health (storage.md §3.1 to §3.4, §3.17).

use basalt_testkit::Basalt;
use http::Method;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{OWNER, STRANGER, error, make_bucket, make_objects, request, server, service, shown, token};

#[tokio::test]
async fn creates_reads_updates_and_deletes_a_bucket() {
    let server = server().start().await;
    let send = async |method: Method, path: &str, body: Value| {
        shown(&service(&server, method, path).json(&body).send().await)
    };
    let get = async |path: &str| shown(&service(&server, Method::GET, path).send().await);
    let made = send(Method::POST, "/bucket", json!({"name": "avatars", "unknown": [1]})).await;
    assert_eq!(made, r#"200 {"name":"avatars"}"#);
    assert_snapshot!(get("/bucket/avatars").await, @r#"200 {"id":"avatars","name":"avatars","owner":"","public":false,"file_size_limit":null,"allowed_mime_types":null,"created_at":"TIME","updated_at":"TIME"}"#);
    let settings =
        json!({"public": "true", "file_size_limit": "1.5MB", "allowed_mime_types": ["image/*", ""]});
    assert_eq!(
        send(Method::PUT, "/bucket/avatars", settings).await,
        r#"200 {"message":"Successfully updated"}"#
    );
    assert_snapshot!(get("/bucket").await, @r#"200 [{"id":"avatars","name":"avatars","owner":"","public":true,"file_size_limit":1500000,"allowed_mime_types":["image/*"],"created_at":"TIME","updated_at":"TIME","type":"STANDARD"}]"#);
    assert_eq!(
        server.sql("select updated_at > created_at from storage.buckets").await[0][0].as_deref(),
        Some("t")
    );
    // An absent member leaves the setting unchanged; null and "" clear it.
    send(Method::PUT, "/bucket/avatars", json!({"file_size_limit": ""})).await;
    assert_snapshot!(get("/bucket/avatars").await, @r#"200 {"id":"avatars","name":"avatars","owner":"","public":true,"file_size_limit":null,"allowed_mime_types":["image/*"],"created_at":"TIME","updated_at":"TIME"}"#);
    send(Method::PUT, "/bucket/avatars", json!({"public": null, "allowed_mime_types": null})).await;
    assert_snapshot!(get("/bucket/avatars").await, @r#"200 {"id":"avatars","name":"avatars","owner":"","public":false,"file_size_limit":null,"allowed_mime_types":null,"created_at":"TIME","updated_at":"TIME"}"#);
    let made =
        json!({"id": "an id", "name": "a name", "allowed_mime_types": "image/png", "file_size_limit": 0});
    assert_eq!(send(Method::POST, "/bucket/", made).await, r#"200 {"name":"a name"}"#);
    assert_snapshot!(get("/bucket/an%20id").await, @r#"200 {"id":"an id","name":"a name","owner":"","public":false,"file_size_limit":0,"allowed_mime_types":["image/png"],"created_at":"TIME","updated_at":"TIME"}"#);
    assert_eq!(
        send(Method::DELETE, "/bucket/an%20id", json!({})).await,
        r#"200 {"message":"Successfully deleted"}"#
    );
    let deleted =
        service(&server, Method::DELETE, "/bucket/avatars").header("content-type", "application/json");
    assert_eq!(shown(&deleted.send().await), r#"200 {"message":"Successfully deleted"}"#);
    assert_eq!(get("/bucket").await, "200 []");
    assert_eq!(get("/bucket/").await, "200 []");
}

#[tokio::test]
async fn invalid_bodies_get_specific_errors() {
    let server = server().start().await;
    make_bucket(&server, &json!({"name": "taken"})).await;
    let invalid = |message: &str| format!("400 400 | Error | {message} | InvalidRequest");
    let mime = |mime: &str| {
        format!("400 415 | invalid_mime_type | mime type {mime} is not supported | InvalidMimeType")
    };
    let name = "400 400 | Invalid Input | Bucket name invalid | InvalidBucketName".to_owned();
    let taken = "400 409 | Duplicate | The resource already exists | BucketAlreadyExists".to_owned();
    let large = "400 413 | Payload too large | The object exceeded the maximum allowed size | EntityTooLarge";
    let at = "body/file_size_limit";
    let size = |first: &str| {
        let pattern = r#"must match pattern "^[0-9]+(\.[0-9]+)?(gb|mb|kb|b)$""#;
        invalid(&format!("{at} {first}, {at} {pattern}, {at} must match a schema in anyOf"))
    };
    let long = "a".repeat(101);
    for (body, expected) in [
        (json!([]), invalid("body must be object")),
        (json!({"id": "x"}), invalid("body must have required property 'name'")),
        (json!({"name": {}}), invalid("body/name must be string")),
        (json!({"name": "a", "public": "yes"}), invalid("body/public must be boolean")),
        (json!({"name": "a", "type": "x"}), invalid("body/type must be equal to one of the allowed values")),
        (json!({"name": "a", "file_size_limit": -1}), size("must be >= 0")),
        (json!({"name": "a", "file_size_limit": 1.5}), size("must be integer")),
        (json!({"name": "a", "file_size_limit": "much"}), size("must be integer")),
        (json!({"name": "a", "file_size_limit": "51MiB"}), size("must be integer")),
        (json!({"name": "a", "file_size_limit": "53MB"}), large.to_owned()),
        (json!({"name": "a", "file_size_limit": 52_428_801}), large.to_owned()),
        (json!({"name": "a", "allowed_mime_types": ["image"]}), mime("image")),
        (json!({"name": "a", "allowed_mime_types": {}}), invalid("body/allowed_mime_types must be array")),
        (json!({"name": "a", "allowed_mime_types": [[]]}), invalid("body/allowed_mime_types/0 must be string")),
        (
            json!({"name": "a", "type": "ANALYTICS"}),
            "400 409 | FeatureNotEnabled | The feature iceberg is not enabled for this resource | FeatureNotEnabled"
                .to_owned(),
        ),
        (json!({"name": "taken"}), taken.clone()),
        (json!({"id": "other", "name": "taken"}), taken.clone()),
        (json!({"id": "taken", "name": "other"}), taken),
        (json!({"name": ""}), name.clone()),
        (json!({"name": " a"}), name.clone()),
        (json!({"name": "a/b"}), name.clone()),
        (json!({"name": "."}), name.clone()),
        (json!({"name": "a\u{0}"}), name.clone()),
        (json!({"name": "a--table-s3"}), name.clone()),
        (json!({"name": "good", "id": "b/d"}), name.clone()),
        (json!({"name": "ä"}), name.clone()),
        (json!({"name": "a\"; drop table storage.buckets; --"}), name.clone()),
        (json!({"name": long}), name),
    ] {
        let response = service(&server, Method::POST, "/bucket").json(&body).send().await;
        assert_eq!(error(&response), expected, "{body}");
    }
    for (body, expected) in [
        (
            json!({"name": "x"}),
            "body must have required property 'public', body must have required property 'file_size_limit', \
             body must have required property 'allowed_mime_types', body must match a schema in anyOf",
        ),
        (json!({"public": 2}), "body/public must be boolean"),
    ] {
        let response = service(&server, Method::PUT, "/bucket/taken").json(&body).send().await;
        assert_eq!(error(&response), invalid(expected), "{body}");
    }
    let raw = |content_type: &str, body: &str| {
        let request = service(&server, Method::POST, "/bucket").body(body.to_owned());
        if content_type.is_empty() { request } else { request.header("content-type", content_type) }
    };
    let fastify = |message: &str| format!("400 400 | FastifyError | {message} | InvalidRequest");
    let not_json = fastify("Body is not valid JSON but content-type is set to 'application/json'");
    let empty = fastify("Body cannot be empty when content-type is set to 'application/json'");
    for (content_type, body, expected) in [
        ("application/json", "{", not_json.as_str()),
        ("application/json", "", &empty),
        ("", "", &invalid("body must be object")),
        ("", r#"{"name":"a"}"#, &invalid("body must be object")),
        ("text/plain", r#"{"name":"a"}"#, &invalid("body must be object")),
        ("json", "{}", "400 415 | invalid_mime_type | Invalid Content-Type header | InvalidMimeType"),
        (
            "application/json",
            &format!(r#"{{"name":"{}"}}"#, "a".repeat(1024 * 1024)),
            "413 413 | FastifyError | Request body is too large | EntityTooLarge",
        ),
    ] {
        let response = raw(content_type, body).send().await;
        assert_eq!(error(&response), expected, "{content_type} {:.20}", body);
    }
    assert_eq!(server.sql("select count(*) from storage.buckets").await[0][0].as_deref(), Some("1"));
}

#[tokio::test]
async fn special_characters_in_names_are_literal() {
    let server = server().start().await;
    let names =
        ["it's; select 1", "a$1b", "$_", "x?y", "a+b", "(a)", "a@b=c", "null", "public", "empty", "a\u{a0}b"];
    for name in names {
        let response = service(&server, Method::POST, "/bucket").json(&json!({"name": name})).send().await;
        if !name.is_ascii() {
            assert_eq!(error(&response), "400 400 | Invalid Input | Bucket name invalid | InvalidBucketName");
            continue;
        }
        response.expect(200);
        let path: String =
            name.bytes().fold("/bucket/".to_owned(), |path, byte| format!("{path}%{byte:02x}"));
        let shown = service(&server, Method::GET, &path).send().await.expect(200).json();
        assert_eq!(shown["name"], name);
        service(&server, Method::PUT, &path).json(&json!({"public": true})).send().await.expect(200);
        service(&server, Method::POST, &format!("{path}/empty")).send().await.expect(200);
        service(&server, Method::DELETE, &path).send().await.expect(200);
    }
    for (path, expected) in [
        ("/bucket/%00", "400 404 | Bucket not found | Bucket not found | NoSuchBucket"),
        ("/bucket/a'--", "400 404 | Bucket not found | Bucket not found | NoSuchBucket"),
        ("/bucket/a/b", "404 404 | Not Found | Route GET:/bucket/a/b not found | InvalidRequest"),
        ("/bucket/a/empty", "404 404 | Not Found | Route GET:/bucket/a/empty not found | InvalidRequest"),
    ] {
        assert_eq!(error(&service(&server, Method::GET, path).send().await), expected);
    }
    let broken = service(&server, Method::GET, "/bucket/%zz").send().await;
    assert_eq!(
        shown(&broken),
        r#"400 {"error":"Bad Request","code":"FST_ERR_BAD_URL","message":"'%zz' is not a valid url component","statusCode":400}"#
    );
}

#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let server = server().expect_log("PostgreSQL rejected a statement").start().await;
    let get = |token: Option<&str>| {
        let request = request(&server, Method::GET, "/bucket");
        match token {
            Some(token) => request.header("authorization", token),
            None => request,
        }
    };
    let denied = |message: &str| format!("400 403 | Unauthorized | {message} | AccessDenied");
    let forged = format!("Bearer {}x", server.service_key());
    let expired = format!("Bearer {}", server.token(&json!({"role": "service_role", "exp": 1})));
    let unknown = format!("Bearer {}", server.token_of("nobody_at_all"));
    for (token, expected) in [
        (None, denied("Invalid Compact JWS")),
        (Some("Bearer a.b"), denied("Invalid Compact JWS")),
        (Some(forged.as_str()), denied("signature verification failed")),
        (Some(&expired), denied("\"exp\" claim timestamp check failed")),
        (Some(&unknown), "500 500 | DatabaseError | database error, code: 22023 | DatabaseError".to_owned()),
    ] {
        assert_eq!(error(&get(token).send().await), expected);
    }
    assert_eq!(shown(&get(Some(server.service_key())).send().await), "200 []");
    assert_eq!(shown(&get(Some(&format!("bearer {}", server.anon_key()))).send().await), "200 []");
    let no_role = server.token(&json!({"sub": OWNER, "exp": 4_102_444_800_u32}));
    assert_eq!(shown(&get(Some(&no_role)).send().await), "200 []");
}

/// Sends every bucket operation as one caller and returns the statuses and error codes.
async fn operations(server: &Basalt, token: &str, bucket: &str, new: &str) -> String {
    let mut responses = Vec::new();
    for (method, path, body) in [
        (Method::POST, "/bucket".to_owned(), json!({"name": new})),
        (Method::GET, format!("/bucket/{bucket}"), Value::Null),
        (Method::GET, "/bucket?search=of".to_owned(), Value::Null),
        (Method::PUT, format!("/bucket/{bucket}"), json!({"public": false})),
        (Method::POST, format!("/bucket/{bucket}/empty"), json!({})),
        (Method::DELETE, format!("/bucket/{bucket}"), json!({})),
    ] {
        let mut request = request(server, method, &path).bearer(token);
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = request.send().await;
        let body = response.json();
        let code = match body.as_array() {
            Some(found) => format!("{} found", found.len()),
            None => body["code"].as_str().unwrap_or("done").to_owned(),
        };
        responses.push(format!("{} {code}", response.status.as_u16()));
    }
    responses.join("\n")
}

#[tokio::test]
async fn bucket_operations_follow_policies() {
    let server = server().start().await;
    let owner = token(&server, OWNER);
    let make = json!({"name": "of owner"});
    request(&server, Method::POST, "/bucket").bearer(&owner).json(&make).send().await.expect(200);
    let shown_owner = request(&server, Method::GET, "/bucket/of%20owner").bearer(&owner).send().await.json();
    assert_eq!(shown_owner["owner"], OWNER);
    let bucket = "of%20owner";
    assert_snapshot!(operations(&server, server.anon_key(), bucket, "of visitor").await, @r"
    400 AccessDenied
    400 NoSuchBucket
    200 0 found
    400 NoSuchBucket
    403 AccessDenied
    400 NoSuchBucket
    ");
    let refused =
        request(&server, Method::POST, "/bucket").bearer(server.anon_key()).json(&make).send().await;
    assert_eq!(
        error(&refused),
        "400 403 | Unauthorized | new row violates row-level security policy | AccessDenied"
    );
    let gated = request(&server, Method::POST, "/bucket/of%20owner/empty").bearer(&owner).send().await;
    assert_eq!(error(&gated), "403 403 | Unauthorized | Access denied: Invalid role | AccessDenied");
    // Another user may create a bucket and sees only that one.
    assert_snapshot!(operations(&server, &token(&server, STRANGER), bucket, "of stranger").await, @r"
    200 done
    400 NoSuchBucket
    200 1 found
    400 NoSuchBucket
    403 AccessDenied
    400 NoSuchBucket
    ");
    assert_snapshot!(operations(&server, &owner, bucket, "of owner too").await, @r"
    200 done
    200 done
    200 2 found
    200 done
    403 AccessDenied
    200 done
    ");
    assert_snapshot!(operations(&server, server.service_key(), "of%20owner%20too", "of service").await, @r"
    200 done
    200 done
    200 3 found
    200 done
    200 done
    200 done
    ");
}

#[tokio::test]
async fn policies_can_read_request_headers() {
    let server = server().start().await;
    make_bucket(&server, &json!({"name": "seen"})).await;
    let get =
        |path: &str| request(&server, Method::GET, path).bearer(server.anon_key()).header("X-Mark", "here");
    get("/bucket/seen").send().await.expect(200);
    assert_eq!(shown(&get("/bucket").send().await), "200 []");
    assert_eq!(get("/bucket/seen").without("x-mark").send().await.status, 400);
}

#[tokio::test]
async fn bucket_list_can_be_sorted_paged_and_searched() {
    let server = server().start().await;
    for name in ["b_1", "B*2", "a", "c"] {
        make_bucket(&server, &json!({"name": name})).await;
    }
    let list = async |query: &str| {
        let response = service(&server, Method::GET, &format!("/bucket{query}")).send().await;
        let Some(found) = response.json().as_array().cloned() else { return error(&response) };
        found.iter().map(|bucket| bucket["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    for (query, expected) in [
        ("", "B*2 a b_1 c"),
        ("?sortOrder=desc", "c b_1 a B*2"),
        ("?sortColumn=created_at", "b_1 B*2 a c"),
        ("?sortColumn=name&sortOrder=desc&limit=2", "c b_1"),
        ("?limit=2&offset=1", "a b_1"),
        ("?limit=%222%22", "400 400 | Error | querystring/limit must be integer | InvalidRequest"),
        ("?offset=9", ""),
        ("?search=B", "B*2 b_1"),
        ("?search=*", "B*2"),
        ("?search=%25", ""),
        ("?search=_", "b_1"),
        ("?search='", ""),
        ("?search=%00", ""),
        ("?limit=0", "400 400 | Error | querystring/limit must be >= 1 | InvalidRequest"),
        ("?offset=-1", "400 400 | Error | querystring/offset must be >= 0 | InvalidRequest"),
        (
            "?sortColumn=owner",
            "400 400 | Error | querystring/sortColumn must be equal to one of the allowed values | InvalidRequest",
        ),
        (
            "?sortOrder=up",
            "400 400 | Error | querystring/sortOrder must be equal to one of the allowed values | InvalidRequest",
        ),
    ] {
        assert_eq!(list(query).await, expected, "{query}");
    }
    let old = service(&server, Method::GET, "/bucket?limit=1").header("x-client-info", "supabase-py/2.17.0");
    assert_eq!(old.send().await.json()[0]["type"], Value::Null);
}

#[tokio::test]
async fn bucket_with_objects_cannot_be_deleted() {
    let server = server().start().await;
    let stranger = token(&server, STRANGER);
    request(&server, Method::POST, "/bucket").bearer(&stranger).json(&json!({"name": "full"})).send().await;
    make_objects(&server, "full", &["a"]).await;
    // The policies hide the owner's object from the other user.
    for token in [server.service_key(), &stranger, server.anon_key()] {
        let response = request(&server, Method::DELETE, "/bucket/full").bearer(token).send().await;
        assert_eq!(
            error(&response),
            "400 409 | ResourceNotEmpty | The bucket you tried to delete is not empty | ResourceNotEmpty"
        );
    }
    let missing = service(&server, Method::DELETE, "/bucket/none").send().await;
    assert_eq!(error(&missing), "400 404 | Bucket not found | Bucket not found | NoSuchBucket");
}

#[tokio::test]
async fn bucket_deletion_waits_for_a_concurrent_insert() {
    let server = server().start().await;
    make_bucket(&server, &json!({"name": "busy"})).await;
    let insert = "begin; insert into storage.objects (bucket_id, name) values ('busy', 'a'); select pg_sleep(1); commit";
    let delete = async {
        server.database().until_asleep("begin; insert%").await;
        service(&server, Method::DELETE, "/bucket/busy").send().await
    };
    let (_, deleted) = tokio::join!(server.sql(insert), delete);
    assert_eq!(
        error(&deleted),
        "400 409 | ResourceNotEmpty | The bucket you tried to delete is not empty | ResourceNotEmpty"
    );
}

#[tokio::test]
async fn empty_removes_only_the_objects_of_its_bucket() {
    let server = server().start().await;
    for name in ["full", "other"] {
        make_bucket(&server, &json!({"name": name})).await;
        server
            .sql(&format!(
                "insert into storage.objects (bucket_id, name)
                 select '{name}', 'folder/' || n from generate_series(1, 12000) n"
            ))
            .await;
    }
    let tomorrow = "insert into storage.objects (bucket_id, name, created_at)
                    values ('full', 'later', now() + interval '1 day')";
    server.sql(tomorrow).await;
    let emptied = service(&server, Method::POST, "/bucket/full/empty").json(&json!({})).send().await;
    assert_eq!(
        shown(&emptied),
        r#"200 {"message":"Empty bucket has been queued. Completion may take up to an hour."}"#
    );
    let left =
        server.sql("select bucket_id, count(*)::text from storage.objects group by 1 order by 1").await;
    assert_eq!(format!("{left:?}"), r#"[[Some("full"), Some("1")], [Some("other"), Some("12000")]]"#);
    let missing = service(&server, Method::POST, "/bucket/none/empty").send().await;
    assert_eq!(error(&missing), "400 404 | Bucket not found | Bucket not found | NoSuchBucket");
}

#[tokio::test]
async fn status_version_and_health_respond() {
    let server = server().start().await;
    let get = async |path: &str, token: &str| {
        shown(&request(&server, Method::GET, path).bearer(token).send().await)
    };
    assert_eq!(shown(&request(&server, Method::GET, "/status").send().await), "200 ");
    assert_eq!(
        shown(&request(&server, Method::GET, "/version").send().await),
        format!("200 {}", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(get("/health", server.anon_key()).await, r#"200 {"healthy":true}"#);
    let without = request(&server, Method::GET, "/health").send().await;
    assert_eq!(error(&without), "400 403 | Unauthorized | Invalid Compact JWS | AccessDenied");
    server.database().admin_sql("revoke select on storage.buckets from anon").await;
    assert_eq!(get("/health", server.anon_key()).await, r#"200 {"healthy":false}"#);
    assert_eq!(get("/health", server.service_key()).await, r#"200 {"healthy":true}"#);
    for path in ["/cdn", "/cdn/b", "/cdn/b/folder/a.png?transformations=true"] {
        let purge = |token: &str| request(&server, Method::DELETE, path).bearer(token).json(&json!({}));
        assert_eq!(shown(&purge(server.service_key()).send().await), r#"200 {"message":"success"}"#);
        assert_eq!(
            error(&purge(server.anon_key()).send().await),
            "403 403 | Unauthorized | Access denied: Invalid role | AccessDenied"
        );
    }
    assert_eq!(
        get("/cdn/b", server.service_key()).await,
        r#"404 {"statusCode":"404","error":"Not Found","message":"Route GET:/cdn/b not found","code":"InvalidRequest"}"#
    );
    let head = request(&server, Method::HEAD, "/bucket/none").bearer(server.service_key()).send().await;
    assert_eq!(shown(&head), "400 ");
}
