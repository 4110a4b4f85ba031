//! Signed URLs (storage.md §3.12): creating and using them.

use basalt_testkit::Response;
use http::Method;
use serde_json::{Value, json};

use super::downloads::{OWNER, Shelf, outcome};

const NOW: i64 = 1_800_000_000;

/// The address of a signed URL, encoded as the client encodes it.
fn encode_uri(url: &str) -> String {
    let mut encoded = String::new();
    for byte in url.bytes() {
        if byte.is_ascii_alphanumeric() || b";,/?:@&=+$-_.!~*'()#".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

async fn sign(shelf: &Shelf, path: &str, token: &str, body: &Value) -> Response {
    let request = shelf.request(Method::POST, &format!("/object/sign/{path}"));
    request.bearer(token).json(body).send().await
}

async fn signed_url(shelf: &Shelf, path: &str) -> String {
    let response = sign(shelf, path, &shelf.user(OWNER), &json!({"expiresIn": 60})).await.expect(200).json();
    response["signedURL"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn signed_url_needs_no_other_credentials() {
    let shelf = Shelf::new().await;
    for key in ["dir/a b.txt", "q?.txt", "=&@:,+;$!*'().txt"] {
        shelf.put("secret", key, key.to_owned(), json!({})).await;
    }
    for (path, shown) in [
        ("secret/dir/a%20b.txt", "/object/sign/secret/dir/a b.txt?token="),
        ("secret/q%3F.txt", "/object/sign/secret/q%3F.txt?token="),
        ("secret/=&@:,+;$!*'().txt", "/object/sign/secret/=&@:,+;$!*'().txt?token="),
        ("secret/%3D%26%40%3A%2C%2B%3B%24!*'().txt", "/object/sign/secret/=&@:,+;$!*'().txt?token="),
    ] {
        let url = signed_url(&shelf, path).await;
        assert!(url.starts_with(shown), "{url}");
        // Encoded as supabase-js and as browsers do it.
        for address in [encode_uri(&url), url.replace(' ', "%20")] {
            let response = shelf.get(&address).send().await.expect(200);
            let key = shown.strip_prefix("/object/sign/secret/").unwrap().strip_suffix("?token=").unwrap();
            assert_eq!(response.text(), key.replace("%3F", "?"), "{address}");
            assert_eq!(response.header("cache-control"), "", "{address}");
            assert!(response.header("expires").ends_with(" GMT"), "{address}");
        }
    }
    let url = encode_uri(&signed_url(&shelf, "secret/dir/a%20b.txt").await);
    let named =
        shelf.get(&format!("{url}&download=b.txt")).header("range", "bytes=0-2").send().await.expect(206);
    assert_eq!(
        (named.text().as_str(), named.header("content-disposition")),
        ("dir", r#"attachment; filename="b.txt"; filename*=UTF-8''b.txt"#)
    );
    let head = shelf.request(Method::HEAD, &url).send().await.expect(200);
    assert_eq!(head.header("content-length"), "11");
    shelf.get(&url).header("if-none-match", "\"e1\"").send().await.expect(304);
    // The object has been deleted.
    let deletion = "begin; set local storage.allow_delete_query = 'true'; delete from storage.objects where name = 'dir/a b.txt'; commit";
    shelf.server.database().admin_sql(deletion).await;
    assert_eq!(outcome(&shelf.get(&url).send().await), "400 NoSuchKey");
}

#[tokio::test]
async fn signed_token_is_limited_to_its_object() {
    let shelf = Shelf::new().await;
    for key in ["a.txt", "b.txt"] {
        shelf.put("secret", key, key, json!({})).await;
    }
    shelf.put("open", "a.txt", "open", json!({})).await;
    let url = signed_url(&shelf, "secret/a.txt").await;
    let (_, token) = url.split_once("?token=").unwrap();
    let with = async |path: &str, token: &str| {
        let response = shelf.get(&format!("/object/sign/{path}?token={token}")).send().await;
        if response.status == 200 {
            return response.text();
        }
        let body = response.expect(400).json();
        format!("{} {}", body["code"].as_str().unwrap(), body["message"].as_str().unwrap())
    };
    let of = async |claims: Value| with("secret/a.txt", &shelf.token(&claims)).await;
    let (invalid, scoped) =
        ("InvalidSignature Invalid signature", "InvalidSignature Token is not scoped for download");
    let path = "secret/a.txt";
    assert_eq!(with(path, token).await, "a.txt");
    for other in
        ["secret/b.txt", "open/a.txt", "secret//a.txt", "secret/a.txt/", "Secret/a.txt", "secret/a.txt%3F"]
    {
        assert_eq!(with(other, token).await, invalid, "{other}");
    }
    for (claims, expected) in [
        (json!({"url": path, "scope": "download", "exp": NOW * 2}), "a.txt"),
        (json!({"url": path, "scope": "download"}), "a.txt"),
        (json!({"url": path, "exp": NOW * 2}), "a.txt"),
        (json!({"url": path, "scope": "download", "transformations": "", "exp": NOW * 2}), "a.txt"),
        (json!({"url": path, "scope": "download", "transformations": "width:10", "exp": NOW * 2}), invalid),
        (json!({"url": path, "scope": "upload", "upsert": false}), scoped),
        (json!({"url": path, "upsert": true}), scoped),
        (json!({"url": path, "scope": "download", "role": "authenticated"}), invalid),
        (json!({"sub": OWNER, "role": "service_role"}), invalid),
        (
            json!({"url": path, "scope": "download", "exp": 1}),
            "InvalidJWT \"exp\" claim timestamp check failed",
        ),
        (
            json!({"url": path, "scope": "download", "nbf": NOW * 2}),
            "InvalidJWT \"nbf\" claim timestamp check failed",
        ),
    ] {
        assert_eq!(of(claims.clone()).await, expected, "{claims}");
    }
    let forged = jsonwebtoken::encode(
        &jsonwebtoken::Header::default(),
        &json!({"url": path, "scope": "download"}),
        &jsonwebtoken::EncodingKey::from_secret(b"another secret of thirty-two bytes!!"),
    );
    assert_eq!(with(path, &forged.unwrap()).await, "InvalidJWT signature verification failed");
    assert_eq!(with(path, "").await, "InvalidJWT Invalid Compact JWS");
    assert_eq!(with(path, shelf.server.secret_key()).await, "InvalidJWT Invalid Compact JWS");
    assert_eq!(with(path, shelf.server.service_key()).await, invalid);
    let tokenless = shelf.get("/object/sign/secret/a.txt").send().await.expect(400).json();
    let expected = json!({"statusCode": "400", "error": "Error", "message": "querystring must have required property 'token'", "code": "InvalidRequest"});
    assert_eq!(tokenless, expected);
    // A URL token is not an access token.
    for route in ["/object/authenticated/secret/a.txt", "/object/authenticated/open/a.txt"] {
        let response = shelf.get(route).bearer(token).send().await.expect(400).json();
        assert_eq!(response["code"], "AccessDenied");
    }
    assert_eq!(outcome(&shelf.get("/object/secret/a.txt").bearer(token).send().await), "400 NoSuchBucket");
}

#[tokio::test]
async fn signing_requires_read_access() {
    let shelf = Shelf::new().await;
    for (bucket, key) in [("secret", "a.txt"), ("secret", "b/ü.txt"), ("open", "a.txt")] {
        shelf.put(bucket, key, "a", json!({})).await;
    }
    let (owner, stranger) = (shelf.user(OWNER), shelf.user("0c000000-0000-4000-8000-000000000003"));
    let service = shelf.server.service_key();
    let body = json!({"expiresIn": "60"});
    for (path, token, expected) in [
        ("secret/a.txt", owner.as_str(), "200"),
        ("secret/a.txt", service, "200"),
        ("secret/a.txt", &stranger, "400 NoSuchKey"),
        ("secret/a.txt", shelf.server.anon_key(), "400 NoSuchKey"),
        // Signing in a public bucket still requires a policy.
        ("open/a.txt", &stranger, "400 NoSuchKey"),
        ("secret/none", &owner, "400 NoSuchKey"),
        ("none/a.txt", service, "400 NoSuchKey"),
        ("secret/a.txt", "x", "400 AccessDenied"),
        ("sec%23ret/a.txt", &owner, "400 InvalidBucketName"),
    ] {
        assert_eq!(outcome(&sign(&shelf, path, token, &body).await), expected, "{path}");
    }
    let visitor =
        shelf.request(Method::POST, "/object/sign/secret/a.txt").json(&body).send().await.expect(400).json();
    assert_eq!(visitor["message"], "headers must have required property 'authorization'");
    for (body, message) in [
        (json!({}), "body must have required property 'expiresIn'"),
        (json!({"expiresIn": 0}), "body/expiresIn must be >= 1"),
        (json!({"expiresIn": -5}), "body/expiresIn must be >= 1"),
        (json!({"expiresIn": 1.5}), "body/expiresIn must be integer"),
        (json!({"expiresIn": "soon"}), "body/expiresIn must be integer"),
        (json!({"expiresIn": 1e15}), "Invalid Parameter expiresIn"),
        (json!({"expiresIn": 1e300}), "Invalid Parameter expiresIn"),
    ] {
        let refused = sign(&shelf, "secret/a.txt", &owner, &body).await.expect(400).json();
        assert_eq!(refused["message"], message, "{body}");
    }
    let body = json!({"expiresIn": 60, "paths": ["none", "a.txt", "b/ü.txt", "a.txt", "a\0b", ""]});
    let many = sign(&shelf, "secret", &owner, &body).await.expect(200).json();
    let hidden = "Either the object does not exist or you do not have access to it";
    let mut opened = 0;
    for (item, path) in many.as_array().unwrap().iter().zip(["none", "a.txt", "b/ü.txt", "a.txt", "a\0b", ""])
    {
        assert_eq!(item["path"], path);
        let Some(url) = item["signedURL"].as_str() else {
            assert_eq!(item["error"], hidden, "{path:?}");
            continue;
        };
        assert_eq!(item["error"], Value::Null);
        shelf.get(&encode_uri(url)).send().await.expect(200);
        opened += 1;
    }
    assert_eq!((opened, many.as_array().unwrap().len()), (3, 6));
    for (path, token) in [("secret", &stranger), ("none", &owner)] {
        let none = sign(&shelf, path, token, &json!({"expiresIn": 60, "paths": ["a.txt"]})).await.expect(200);
        assert_eq!(none.json(), json!([{"error": hidden, "path": "a.txt", "signedURL": null}]), "{path}");
    }
    for (body, message) in [
        (json!({"expiresIn": 60}), "body must have required property 'paths'"),
        (json!({"expiresIn": 60, "paths": []}), "body/paths must NOT have fewer than 1 items"),
        (json!({"expiresIn": 60, "paths": vec!["a"; 1001]}), "body/paths must NOT have more than 1000 items"),
    ] {
        let refused = sign(&shelf, "secret", &owner, &body).await.expect(400).json();
        assert_eq!(refused["message"], message);
    }
    let most = sign(&shelf, "secret", &owner, &json!({"expiresIn": 60, "paths": vec!["a.txt"; 1000]})).await;
    assert_eq!(most.expect(200).json().as_array().unwrap().len(), 1000);
}
