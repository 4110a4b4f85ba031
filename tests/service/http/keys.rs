//! API keys and signing keys: the API key check, several servers on one database, a database outage, and errors of invalid
//! tokens (auth.md §3.1).

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test's helpers fail it by panicking")]

use std::time::{Duration, Instant};

use basalt_core::clock::Clock;
use basalt_core::keys::{ApiKeyKind, NewApiKey, StoredApiKey, generate};
use basalt_pg::database::Database;
use basalt_pg::key_store::KeyStore;
use basalt_pg::pool::{PoolConfig, ServicePool};
use basalt_testkit::{Basalt, Link, Request, Response, TestDatabase};
use http::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

const CHROME: &str =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";

/// A key store on the server's database, as on another machine with the same secrets.
fn store(server: &Basalt, database: &TestDatabase) -> KeyStore {
    let secrets = std::fs::read(server.state_dir().join("secrets.json")).unwrap();
    let secrets: Value = serde_json::from_slice(&secrets).unwrap();
    let master_key = SecretString::from(secrets["master_key"].as_str().unwrap());
    let pool =
        ServicePool::new(Database::new(database.config()), PoolConfig::new("test", 1), TaskTracker::new());
    KeyStore::new(pool, &master_key)
}

fn secret_key(name: &str) -> NewApiKey {
    NewApiKey {
        kind: ApiKeyKind::Secret,
        name: name.to_owned(),
        description: String::new(),
        role: "service_role".to_owned(),
        expires_at: None,
    }
}

fn text(key: &StoredApiKey) -> &str {
    key.key.as_ref().unwrap().expose_secret()
}

fn with_key(server: &Basalt, key: &str) -> Request {
    server.get("/auth/v1/settings").apikey(key)
}

/// The polling interval that applies without notifications.
const WITHOUT_NOTIFICATION: Duration = Duration::from_secs(5);

async fn until_status(server: &Basalt, key: &str, wanted: u16) {
    server
        .until(Duration::from_secs(60), &with_key(server, key), |response| response.status.as_u16() == wanted)
        .await;
}

#[tokio::test]
async fn key_changes_reach_every_server_immediately() {
    let first = Basalt::start().await;
    let second = Basalt::builder().database_url(&first.database().url()).start().await;
    let store = store(&first, first.database());
    let begun = Instant::now();
    for round in 0..4 {
        let new = secret_key(&format!("shared_{round}"));
        let key = store.create_api_key(&new, Clock::system().now()).await.unwrap();
        for server in [&first, &second] {
            until_status(server, text(&key), 200).await;
        }
        store.revoke_api_key(&key, Clock::system().now()).await.unwrap();
        for server in [&first, &second] {
            until_status(server, text(&key), 401).await;
        }
    }
    // Eight changes in sequence.
    assert!(begun.elapsed() < 4 * WITHOUT_NOTIFICATION, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn known_keys_work_during_an_outage() {
    let server = Basalt::builder().through_proxy().start().await;
    for expected in ["reconnect", "pool", "unreachable", "database"] {
        server.expect_log(expected);
    }
    let store = store(&server, server.database());
    let kept = store.create_api_key(&secret_key("kept"), Clock::system().now()).await.unwrap();
    until_status(&server, text(&kept), 200).await;

    server.proxy().set(Link::Cut);
    with_key(&server, text(&kept)).send().await.expect(200);
    with_key(&server, server.publishable_key()).send().await.expect(200);
    // The notification is lost: no listener is connected.
    store.revoke_api_key(&kept, Clock::system().now()).await.unwrap();
    let missed = store.create_api_key(&secret_key("missed"), Clock::system().now()).await.unwrap();
    with_key(&server, text(&kept)).send().await.expect(200);
    server.proxy().set(Link::Up);
    let known = |response: &Response| response.status.as_u16() == 200;
    server.until(Duration::from_secs(60), &with_key(&server, text(&missed)), known).await;
    with_key(&server, text(&kept)).send().await.expect(401);
}

#[tokio::test]
async fn keys_expire_and_record_their_use() {
    let server = Basalt::start().await;
    let store = store(&server, server.database());
    let now = Clock::system().now();
    let ends = now.checked_add(jiff::SignedDuration::from_secs(6)).unwrap();
    let new = NewApiKey { expires_at: Some(ends), ..secret_key("short") };
    let key = store.create_api_key(&new, now).await.unwrap();
    until_status(&server, text(&key), 200).await;
    let refused = |response: &Response| response.status.as_u16() == 401;
    server.until(Duration::from_secs(60), &with_key(&server, text(&key)), refused).await;
    let a_second = jiff::SignedDuration::from_secs(1);
    assert!(Clock::system().now() >= ends.checked_sub(a_second).unwrap(), "the key expired too early");

    store.note_uses(&[(key.id, now.as_second())]).await.unwrap();
    let stored = store.read().await.unwrap();
    let row = stored.api.iter().find(|row| row.id == key.id).unwrap();
    assert_eq!(row.last_used_at.unwrap().as_second(), now.as_second());
}

#[tokio::test]
async fn keys_are_stored_encrypted_and_unreadable_to_roles() {
    let server = Basalt::start().await;
    let store = store(&server, server.database());
    let now = Clock::system().now();
    let key = store.create_api_key(&secret_key("hidden"), now).await.unwrap();
    let dump = server.database().admin_sql("select to_jsonb(k)::text, convert_from(decode(encode(ciphertext, 'hex'), 'escape'), 'latin1') from basalt.api_keys k").await;
    let dump = format!("{dump:?}");
    assert!(!dump.contains(text(&key).trim_start_matches("sb_secret_")), "{dump}");
    for role in ["anon", "authenticated", "service_role", "authenticator", "supabase_auth_admin", "postgres"]
    {
        let may = format!(
            "select has_table_privilege('{role}', 'basalt.api_keys', 'select'), has_table_privilege('{role}', 'basalt.signing_keys', 'select')"
        );
        let rights = server.database().admin_sql(&may).await;
        assert_eq!(rights, [[Some("f".to_owned()), Some("f".to_owned())]], "{role}");
    }
}

#[tokio::test]
async fn secret_key_from_a_browser_is_rejected_by_default() {
    let server = Basalt::start().await;
    let paths = ["/rest/v1/", "/auth/v1/settings", "/storage/v1/bucket", "/functions/v1/any"];
    for path in paths {
        let from = |agent: &str, key: &str| server.get(path).apikey(key).header("user-agent", agent);
        let refused =
            from(CHROME, server.secret_key()).header("origin", "https://app.example.org").send().await;
        assert_eq!(refused.status.as_u16(), 401, "{path}");
        let message = "Forbidden use of secret API key in browser";
        assert_eq!(refused.json()["message"], message);
        assert_eq!(refused.header("access-control-allow-origin"), "*", "the page can read the error");
        for (agent, key) in [
            (CHROME, server.publishable_key()),
            (CHROME, server.anon_key()),
            ("node", server.secret_key()),
            ("supabase-py/2.0", server.secret_key()),
        ] {
            let response = from(agent, key).send().await;
            assert!(!response.text().contains(message), "{path} {agent}");
        }
    }
    // A page may change the User-Agent; Node sends `Sec-Fetch-Mode`, and SvelteKit on Node sends `Origin`.
    let page =
        |request: Request| request.header("user-agent", "app/1.0").header("sec-fetch-site", "cross-site");
    let node = |request: Request| {
        let request = request.header("user-agent", "node").header("sec-fetch-mode", "cors");
        request.header("origin", "https://app.example.org")
    };
    for path in paths {
        for key in [server.secret_key(), server.service_key()] {
            page(server.get(path).apikey(key)).send().await.expect(401);
            let response = node(server.get(path).apikey(key)).send().await;
            assert!(!response.text().contains("Forbidden use"), "{path}");
        }
        let beside = server.get(path).apikey(server.publishable_key()).bearer(server.service_key());
        page(beside).send().await.expect(401);
    }
    for key in [server.secret_key(), server.service_key()] {
        page(server.get("/metrics").bearer(key)).send().await.expect(401);
        node(server.get("/metrics").bearer(key)).send().await.expect(200);
    }

    let broadcast = json!({ "messages": [{ "topic": "a", "event": "e", "payload": {} }] });
    for key in [server.secret_key(), server.service_key()] {
        let posted =
            |path: &str| server.post(&format!("/realtime/v1/api/{path}")).bearer(key).json(&broadcast);
        for path in ["broadcast", "broadcast/a/events/e"] {
            let refused = page(posted(path)).send().await.expect(401).json();
            assert_eq!(refused["message"], "Forbidden use of secret API key in browser");
            node(posted(path)).send().await.expect(202);
        }
    }

    let lenient = Basalt::builder().config("server.secret_keys_in_browsers", "true").start().await;
    let request = lenient.get("/rest/v1/").apikey(lenient.secret_key()).header("user-agent", CHROME);
    request.send().await.expect(200);
}

#[tokio::test]
async fn only_navigated_routes_need_no_key() {
    let server = Basalt::start().await;
    let response = async |method: &str, path: &str| {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        server.request(method, &format!("/auth/v1{path}")).send().await.status.as_u16()
    };
    let gated = [
        ("POST", "/verify"),
        ("POST", "/authorize"),
        ("POST", "/token?grant_type=password"),
        ("GET", "/settings"),
        ("GET", "/user"),
        ("POST", "/sso"),
        ("POST", "/health"),
        ("POST", "/passkeys/authentication/options"),
    ];
    for (method, path) in gated {
        assert_eq!(response(method, path).await, 401, "{method} {path}");
    }
    let open = [
        ("GET", "/verify"),
        ("HEAD", "/verify"),
        ("GET", "/authorize"),
        ("GET", "/callback"),
        ("POST", "/callback"),
        ("GET", "/health"),
        ("GET", "/.well-known/jwks.json"),
        ("GET", "/.well-known/openid-configuration"),
        ("GET", "/sso/saml/metadata"),
        ("POST", "/sso/saml/acs"),
        ("GET", "/oauth/authorize"),
        ("POST", "/oauth/token"),
        // Its clients have a token and no key.
        ("GET", "/oauth/userinfo"),
        ("POST", "/oauth/clients/register"),
    ];
    for (method, path) in open {
        assert_ne!(response(method, path).await, 401, "{method} {path}");
    }
}

fn hs256(secret: &str, header: Value, claims: &Value) -> String {
    let header: Header = serde_json::from_value(header).unwrap();
    encode(&header, claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

#[tokio::test]
async fn invalid_tokens_get_specific_errors() {
    let server = Basalt::start().await;
    let claims = json!({ "sub": "11111111-2222-4333-8444-555555555555", "role": "authenticated" });
    let secret = server.jwt_secret();
    let error_of = async |token: &str| {
        let request = server.get("/auth/v1/user").apikey(server.anon_key()).bearer(token);
        let response = request.header("x-supabase-api-version", "2024-01-01").send().await;
        let body = response.json();
        assert_eq!(response.header("x-sb-error-code"), body["code"].as_str().unwrap());
        let message = body["message"].as_str().unwrap().to_owned();
        (response.status.as_u16(), body["code"].as_str().unwrap().to_owned(), message)
    };
    let bad = |reason: &str| {
        let message = format!("invalid JWT: unable to parse or verify signature, {reason}");
        (403, "bad_jwt".to_owned(), message)
    };
    // HS256 with an unknown kid, or without one, uses the secret.
    for header in [json!({ "alg": "HS256", "typ": "JWT" }), json!({ "alg": "HS256", "kid": "unknown" })] {
        let accepted = error_of(&hs256(secret, header, &claims)).await;
        assert_eq!(
            accepted,
            (403, "user_not_found".to_owned(), "User from sub claim in JWT does not exist".to_owned())
        );
    }
    let expired = json!({ "sub": claims["sub"], "role": "authenticated", "exp": 1_000_000_000 });
    assert_eq!(
        error_of(&hs256(secret, json!({ "alg": "HS256" }), &expired)).await,
        bad("token has invalid claims: token is expired")
    );
    assert_eq!(
        error_of(&hs256("another secret of at least thirty-two", json!({ "alg": "HS256" }), &claims)).await,
        bad("token signature is invalid: signature is invalid")
    );
    let foreign = |algorithm: &str, kid: &str| {
        let mut key = generate(algorithm).unwrap();
        key["kid"] = json!(kid);
        let material = basalt_core::keys::KeyMaterial {
            jwks: vec![key],
            secret: None,
            secret_kid: None,
            strict_kid: false,
            rotates: false,
            api_keys: basalt_core::keys::ApiKeys::default(),
        };
        basalt_core::keys::Keys::new(material).unwrap().sign(&claims).unwrap()
    };
    assert_eq!(
        error_of(&foreign("ES256", "nobody-knows")).await,
        bad(
            "token is unverifiable: error while executing keyfunc: unrecognized JWT kid nobody-knows for algorithm ES256"
        )
    );
    for algorithm in ["RS256", "EdDSA"] {
        assert_eq!(
            error_of(&foreign(algorithm, "nobody-knows")).await,
            bad(&format!("token signature is invalid: signing method {algorithm} is invalid")),
            "only algorithms of configured keys are accepted"
        );
    }
    assert_eq!(
        error_of("not.a-token").await,
        bad("token is malformed: token contains an invalid number of segments")
    );
    let no_sub = encode(
        &Header::new(Algorithm::HS256),
        &json!({ "role": "authenticated" }),
        &EncodingKey::from_secret(secret.as_bytes()),
    );
    assert_eq!(
        error_of(&no_sub.unwrap()).await,
        (403, "bad_jwt".to_owned(), "invalid claim: missing sub claim".to_owned())
    );
    let wrong_sub = json!({ "sub": "1234567890", "role": "authenticated" });
    assert_eq!(
        error_of(&hs256(secret, json!({ "alg": "HS256" }), &wrong_sub)).await,
        (400, "bad_jwt".to_owned(), "invalid claim: sub claim must be a UUID".to_owned())
    );
    let wrong_session = json!({ "sub": claims["sub"], "role": "authenticated", "session_id": "one" });
    assert_eq!(
        error_of(&hs256(secret, json!({ "alg": "HS256" }), &wrong_session)).await,
        (403, "bad_jwt".to_owned(), "invalid claim: session_id claim must be a UUID".to_owned())
    );
}

#[tokio::test]
async fn audience_is_header_then_token_then_configured() {
    let server = Basalt::builder()
        .config("auth.password_argon2_memory", "64")
        .config("auth.password_argon2_iterations", "1")
        .start()
        .await;
    let admin = |method: Method, path: &str| {
        server.request(method, &format!("/auth/v1{path}")).apikey(server.secret_key())
    };
    let account = json!({ "email": "ada@example.org", "password": "lovelace!", "email_confirm": true });
    admin(Method::POST, "/admin/users")
        .header("x-jwt-aud", "partners")
        .json(&account)
        .send()
        .await
        .expect(200);
    let listed =
        async |request: Request| request.send().await.expect(200).json()["users"].as_array().unwrap().len();
    assert_eq!(listed(admin(Method::GET, "/admin/users").header("x-jwt-aud", "partners")).await, 1);
    assert_eq!(listed(admin(Method::GET, "/admin/users")).await, 0, "an admin's own audience is ignored");
    let sign_in = |audience: Option<&str>| {
        let request =
            server.post("/auth/v1/token?grant_type=password").apikey(server.anon_key()).json(&account);
        match audience {
            Some(audience) => request.header("x-jwt-aud", audience),
            None => request,
        }
    };
    sign_in(None).send().await.expect(400);
    let session = sign_in(Some("partners")).send().await.expect(200).json();
    let token = session["access_token"].as_str().unwrap();
    assert_eq!(session["user"]["aud"], "partners");
    let user = || server.get("/auth/v1/user").apikey(server.anon_key()).bearer(token);
    user().send().await.expect(200);
    let refused = user().header("x-jwt-aud", "authenticated").send().await.expect(400).json();
    assert_eq!(refused["msg"], "Token audience doesn't match request audience");
}
