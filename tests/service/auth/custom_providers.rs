//! Providers that admins add at run time (auth.md §3.16).

use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_testkit::{HttpStub, Reply, StubRequest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::codes::{pairs, redeeming};
use super::external::{Trip, signing_keys};
use super::*;

/// A server that may use providers on this machine.
async fn lenient() -> Basalt {
    redeeming().config("auth.custom_oauth_allow_private_addresses", "true").start().await
}

fn admin(server: &Basalt, method: Method, path: &str) -> Request {
    client(server, method, &format!("/admin/custom-providers{path}")).bearer(server.service_key())
}

async fn create(server: &Basalt, body: &Value) -> Response {
    admin(server, Method::POST, "").json(body).send().await
}

fn oidc(issuer: &str) -> Value {
    json!({
        "provider_type": "oidc", "identifier": "custom:acme", "name": "Acme", "client_id": "app",
        "client_secret": "acme-secret", "issuer": issuer, "scopes": ["email", "groups"],
        "custom_claims_allowlist": ["groups"], "authorization_params": { "prompt": "login" }
    })
}

fn oauth2(url: &str) -> Value {
    json!({
        "provider_type": "oauth2", "identifier": "custom:forge", "name": "Forge", "client_id": "app",
        "client_secret": "forge-secret", "authorization_url": format!("{url}/auth"),
        "token_url": format!("{url}/token"), "userinfo_url": format!("{url}/me"),
        "attribute_mapping": { "email": "mail", "email_verified": "mail_checked" }
    })
}

/// An OpenID Connect provider whose ID tokens have no address.
async fn provider() -> HttpStub {
    let keys = signing_keys();
    let stub = HttpStub::start(|_request| Reply::Respond(404, "{}".to_owned())).await;
    let url = stub.url();
    let login = format!("Basic {}", STANDARD.encode("app:acme-secret"));
    stub.reply(move |request: &StubRequest| {
        let now = Clock::system().unix_seconds();
        let body = match request.head.split(' ').nth(1).unwrap_or_default() {
            "/.well-known/openid-configuration" => json!({
                "issuer": url, "authorization_endpoint": format!("{url}/auth"),
                "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys"),
                "userinfo_endpoint": format!("{url}/me")
            }),
            "/keys" => keys.jwks(),
            "/token" if request.body.contains("code=good") && request.header("authorization") == login => {
                let token = keys
                    .sign(&json!({
                        "iss": url, "aud": "app", "sub": "acme-1", "exp": now + 300, "iat": now,
                        "groups": ["staff"]
                    }))
                    .unwrap();
                json!({ "access_token": "acme-access", "id_token": token })
            }
            "/me" => {
                json!({ "sub": "acme-1", "email": "ada@example.org", "email_verified": true, "name": "Ada" })
            }
            _ => return Reply::Respond(404, "{}".to_owned()),
        };
        Reply::Respond(200, body.to_string())
    });
    stub
}

/// The account of an implicit sign-in.
async fn signed_in(server: &Basalt, provider: &str) -> Value {
    let trip = Trip::begin(server, &format!("provider={provider}")).await;
    let location = trip.finish(server).await;
    let token = pairs(&location, '#').remove("access_token").unwrap_or_else(|| panic!("{location}"));
    get_user(server, &token).await.expect(200).json()
}

#[tokio::test]
async fn admin_manages_providers() {
    let server = lenient().await;
    let stub = provider().await;
    let created = create(&server, &oidc(&stub.url())).await.expect(201).json();
    assert_eq!(created["discovery_document"]["issuer"], json!(stub.url()));
    assert!(created.get("client_secret").is_none(), "{created}");
    let again = create(&server, &oidc(&stub.url())).await;
    assert_error(&again, 400, "conflict", "A custom OAuth provider with this identifier already exists");
    let _forge = create(&server, &oauth2(&stub.url())).await.expect(201);
    let listed = admin(&server, Method::GET, "?type=oauth2").send().await.expect(200).json();
    let identifiers: Vec<_> =
        listed["providers"].as_array().unwrap().iter().map(|provider| &provider["identifier"]).collect();
    assert_eq!(identifiers, ["custom:forge"]);
    let change = json!({ "name": "Acme 2", "enabled": false, "identifier": "custom:other" });
    let changed = admin(&server, Method::PUT, "/custom:acme").json(&change).send().await.expect(200).json();
    assert_eq!((&changed["name"], &changed["identifier"]), (&json!("Acme 2"), &json!("custom:acme")));
    let off = client(&server, Method::GET, "/authorize?provider=custom:acme").send().await;
    let message = "Unsupported provider: Provider custom:acme could not be found";
    assert_error(&off, 400, "validation_failed", message);
    let _deleted = admin(&server, Method::DELETE, "/custom:acme").send().await.expect(204);
    let missing = admin(&server, Method::GET, "/custom:acme").send().await;
    assert_error(&missing, 404, "custom_provider_not_found", "Custom OAuth provider not found");
}

#[tokio::test]
async fn users_sign_in_with_oidc_and_oauth2() {
    let server = lenient().await;
    let stub = provider().await;
    let _acme = create(&server, &oidc(&stub.url())).await.expect(201);
    let trip = Trip::begin(&server, "provider=custom:acme").await;
    assert!(trip.url.as_str().starts_with(&format!("{}/auth?", stub.url())), "{}", trip.url);
    for (name, value) in
        [("scope", "openid email groups"), ("prompt", "login"), ("code_challenge_method", "S256")]
    {
        assert_eq!(trip.parameter(name), value, "{name}");
    }
    let ada = signed_in(&server, "custom:acme").await;
    assert_eq!(ada["email"], "ada@example.org");
    assert_eq!(ada["app_metadata"]["provider"], "custom:acme");
    assert_eq!(ada["user_metadata"]["custom_claims"], json!({ "groups": ["staff"] }));
    assert_eq!(signed_in(&server, "custom:acme").await["id"], ada["id"]);

    let forge = HttpStub::start(|request| {
        let body = match request.head.split(' ').nth(1).unwrap_or_default() {
            "/token" if request.body.contains("client_secret=forge-secret") => {
                json!({ "access_token": "forge-access" })
            }
            "/me" => json!({ "id": 7, "mail": "bob@example.org", "mail_checked": true, "name": "Bob" }),
            _ => return Reply::Respond(404, "{}".to_owned()),
        };
        Reply::Respond(200, body.to_string())
    })
    .await;
    let _forge = create(&server, &oauth2(&forge.url())).await.expect(201);
    let bob = signed_in(&server, "custom:forge").await;
    assert_eq!((&bob["email"], &bob["identities"][0]["id"]), (&json!("bob@example.org"), &json!("7")));
    assert!(bob["email_confirmed_at"].is_string());
}

#[tokio::test]
async fn bad_discovery_documents_are_reported() {
    let server = lenient().await;
    let replies = [
        (Reply::Respond(200, "<html>".to_owned()), "discovery document cannot be used"),
        (Reply::Respond(404, "{}".to_owned()), "responded with 404"),
        (Reply::Respond(200, "x".repeat(10 * 1024 * 1024)), "more than 262144 bytes"),
        (Reply::Stall(Duration::from_secs(30)), "no answer in time"),
        (Reply::Close, "discovery document cannot be used"),
        (
            Reply::Respond(
                200,
                json!({
                    "issuer": "https://evil.test", "authorization_endpoint": "https://evil.test/a",
                    "token_endpoint": "https://evil.test/t", "jwks_uri": "https://evil.test/k"
                })
                .to_string(),
            ),
            "names another issuer",
        ),
        (
            Reply::RespondWith(302, vec![("location", "http://127.0.0.1:1/".to_owned())], String::new()),
            "responded with 302",
        ),
    ];
    for (reply, reason) in replies {
        let stub = HttpStub::start(move |_request| reply.clone()).await;
        let refused = create(&server, &oidc(&stub.url())).await.expect(400).json();
        assert_eq!(refused["code"], "validation_failed");
        assert!(text(&refused, "/message").contains(reason), "{reason}: {refused}");
    }
    let listed = admin(&server, Method::GET, "").send().await.expect(200).json();
    assert_eq!(listed, json!({ "providers": [] }));
}

#[tokio::test]
async fn private_addresses_are_refused() {
    let server = redeeming().start().await;
    let stub = HttpStub::start(|_request| Reply::Respond(200, "{}".to_owned())).await;
    for url in [
        stub.url(),
        "https://127.0.0.1:8443".to_owned(),
        "https://localhost".to_owned(),
        "https://[::1]".to_owned(),
        "https://10.0.0.1".to_owned(),
        "https://169.254.169.254".to_owned(),
        "https://user@example.org".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let refused = create(&server, &oidc(&url)).await.expect(400).json();
        assert_eq!(refused["code"], "validation_failed", "{url}");
        let mut body = oidc("https://login.acme.test");
        body["discovery_url"] = json!(url);
        let refused = create(&server, &body).await.expect(400).json();
        assert_eq!(refused["code"], "validation_failed", "{url}");
    }
    // OAuth 2 endpoints are reached at the sign-in only.
    let _forge = create(&server, &oauth2("https://127.0.0.1:8443")).await.expect(201);
    let trip = Trip::begin(&server, "provider=custom:forge").await;
    let location = trip.finish(&server).await;
    assert!(location.contains("error=server_error"), "{location}");
    assert!(stub.requests().is_empty());
    server.expect_log("did not confirm the sign-in");
}

#[tokio::test]
async fn limits_and_switch() {
    let server = redeeming()
        .config("auth.custom_oauth_max_providers", "1")
        .config("auth.custom_oauth_allow_private_addresses", "true")
        .start()
        .await;
    let _forge = create(&server, &oauth2("https://forge.test")).await.expect(201);
    let mut second = oauth2("https://forge.test");
    second["identifier"] = json!("custom:second");
    let full = create(&server, &second).await;
    let message = "Maximum number of custom OAuth/OIDC providers reached";
    assert_error(&full, 400, "over_custom_provider_quota", message);
    second["identifier"] = json!("second");
    let bad = create(&server, &second).await;
    let message = "identifier must start with 'custom:' prefix, e.g. 'custom:second'";
    assert_error(&bad, 400, "validation_failed", message);

    let off = redeeming().config("auth.custom_oauth_enabled", "false").start().await;
    let refused = admin(&off, Method::GET, "").send().await;
    assert_error(&refused, 404, "feature_disabled", "Custom OAuth providers are disabled");
}
