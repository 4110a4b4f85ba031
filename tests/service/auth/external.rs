//! Sign-in with external providers (auth.md §3.16), with a local OpenID Connect provider and a local GitHub.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::keys::{ApiKeys, KeyMaterial, Keys, generate_es256};
use basalt_testkit::{HttpStub, Reply, StubRequest};
use futures_util::future::join_all;
use parking_lot::Mutex as SyncMutex;
use url::Url;

use super::codes::{CHALLENGE, SITE, VERIFIER, confirmed, pairs, redeeming};
use super::*;

/// An OpenID Connect provider that issues one ID token.
struct Issuer {
    stub: HttpStub,
    keys: Arc<Keys>,
    /// Changes to the claims of the next token.
    claims: Arc<SyncMutex<Value>>,
}

pub(super) fn signing_keys() -> Arc<Keys> {
    let material = KeyMaterial {
        jwks: vec![generate_es256().unwrap()],
        secret: None,
        secret_kid: None,
        strict_kid: true,
        rotates: false,
        api_keys: ApiKeys::default(),
    };
    Arc::new(Keys::new(material).unwrap())
}

fn merged(mut base: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        base[name] = value.clone();
    }
    base
}

impl Issuer {
    async fn start() -> Self {
        let keys = signing_keys();
        let claims = Arc::new(SyncMutex::new(json!({})));
        let stub = HttpStub::start(|_request| Reply::Respond(404, "{}".to_owned())).await;
        let issuer = Self { stub, keys, claims };
        issuer.respond();
        issuer
    }

    /// Responds as a provider should.
    fn respond(&self) {
        let (url, keys, claims) = (self.stub.url(), Arc::clone(&self.keys), Arc::clone(&self.claims));
        self.stub.reply(move |request| respond(request, &url, &keys, &claims.lock()));
    }

    fn token(&self, changes: &Value) -> String {
        self.keys.sign(&merged(id_claims(&self.stub.url()), changes)).unwrap()
    }

    /// A server with this provider as Google.
    fn server(&self) -> Builder {
        redeeming()
            .config("auth.external_google_enabled", "true")
            .config("auth.external_google_client_id", "app,ios")
            .config("auth.external_google_secret", "google-secret")
            .config("auth.external_google_url", &self.stub.url())
    }
}

fn id_claims(issuer: &str) -> Value {
    let now = Clock::system().unix_seconds();
    json!({
        "iss": issuer, "aud": "app", "sub": "google-1", "exp": now + 300, "iat": now,
        "email": "ada@example.org", "email_verified": true, "name": "Ada", "picture": "https://pictures.test/ada.png"
    })
}

fn respond(request: &StubRequest, url: &str, keys: &Keys, changes: &Value) -> Reply {
    let body = match request.head.split(' ').nth(1).unwrap_or_default() {
        "/.well-known/openid-configuration" => json!({
            "issuer": url, "authorization_endpoint": format!("{url}/auth"),
            "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys")
        }),
        "/keys" => keys.jwks(),
        "/token"
            if request.body.contains("code=good") && request.body.contains("client_secret=google-secret") =>
        {
            let token = keys.sign(&merged(id_claims(url), changes)).unwrap();
            json!({ "access_token": "provider-access", "refresh_token": "provider-refresh", "id_token": token })
        }
        "/token" => return Reply::Respond(400, json!({ "error": "invalid_grant" }).to_string()),
        _ => return Reply::Respond(404, "{}".to_owned()),
    };
    Reply::Respond(200, body.to_string())
}

/// A browser on its way to the provider.
pub(super) struct Trip {
    /// Of the provider.
    pub(super) url: Url,
    cookie: String,
}

impl Trip {
    pub(super) async fn begin(server: &Basalt, query: &str) -> Self {
        let begun = server.get(&format!("/auth/v1/authorize?{query}")).send().await.expect(302);
        let cookie = begun.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        Self { url: Url::parse(begun.header("location")).unwrap(), cookie }
    }

    pub(super) fn parameter(&self, name: &str) -> String {
        self.url
            .query_pairs()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
            .unwrap_or_default()
    }

    fn request(&self, server: &Basalt, query: &str) -> Request {
        let path = format!("/auth/v1/callback?state={}&{query}", self.parameter("state"));
        server.get(&path).header("cookie", &self.cookie)
    }

    async fn come_back(&self, server: &Basalt, query: &str) -> Response {
        self.request(server, query).send().await
    }

    /// Comes back with the provider's code; returns where the browser is sent.
    pub(super) async fn finish(&self, server: &Basalt) -> String {
        self.come_back(server, "code=good").await.expect(302).header("location").to_owned()
    }
}

async fn sign_in_with_google(server: &Basalt) -> String {
    Trip::begin(server, "provider=google").await.finish(server).await
}

/// The account of an implicit sign-in.
async fn user(server: &Basalt, location: &str) -> Value {
    let token =
        pairs(location, '#').remove("access_token").unwrap_or_else(|| panic!("no token in {location}"));
    get_user(server, &token).await.expect(200).json()
}

#[track_caller]
fn assert_failed(location: &str, error: &str, code: &str, description: &str) {
    for mark in ['?', '#'] {
        let pairs = pairs(location, mark);
        let pair = |name: &str| pairs.get(name).map(String::as_str);
        assert_eq!(
            (pair("error"), pair("error_code"), pair("error_description")),
            (Some(error), Some(code), Some(description)),
            "{location}"
        );
    }
}

#[tokio::test]
async fn implicit_flow_signs_up_and_signs_in() {
    let issuer = Issuer::start().await;
    let server = issuer.server().start().await;
    let trip = Trip::begin(&server, "provider=google&scopes=calendar&prompt=consent").await;
    assert!(trip.url.as_str().starts_with(&format!("{}/auth?", issuer.stub.url())));
    for (name, value) in [
        ("client_id", "app"),
        ("redirect_uri", &*server.url("/auth/v1/callback")),
        ("scope", "openid email profile calendar"),
        ("prompt", "consent"),
    ] {
        assert_eq!(trip.parameter(name), value, "{name}");
    }
    *issuer.claims.lock() = json!({ "nonce": trip.parameter("nonce") });
    let location = trip.finish(&server).await;
    assert!(location.starts_with(SITE), "{location}");
    let fragment = pairs(&location, '#');
    assert_eq!(fragment["provider_token"], "provider-access");
    assert_eq!(fragment["provider_refresh_token"], "provider-refresh");
    let ada = user(&server, &location).await;
    assert_eq!(ada["app_metadata"], json!({ "provider": "google", "providers": ["google"] }));
    assert_eq!(ada["identities"][0]["id"], "google-1");
    assert!(ada["email_confirmed_at"].is_string());
    assert_eq!(
        (&ada["user_metadata"]["full_name"], &ada["user_metadata"]["avatar_url"]),
        (&json!("Ada"), &json!("https://pictures.test/ada.png"))
    );
    let amr = claims(&fragment["access_token"])["amr"].clone();
    assert_eq!(amr[0]["method"], "oauth");

    // What the user has changed stays; the rest follows the provider.
    let change = json!({ "data": { "full_name": "Countess" } });
    let _changed = put_user(&server, &fragment["access_token"], &change).await.expect(200);
    *issuer.claims.lock() = json!({ "picture": "https://pictures.test/new.png" });
    let again = user(&server, &sign_in_with_google(&server).await).await;
    assert_eq!(again["id"], ada["id"]);
    assert_eq!(
        (&again["user_metadata"]["full_name"], &again["user_metadata"]["picture"]),
        (&json!("Countess"), &json!("https://pictures.test/new.png"))
    );
    let settings = client(&server, Method::GET, "/settings").send().await.expect(200).json();
    assert_eq!(
        (&settings["external"]["google"], &settings["external"]["github"]),
        (&json!(true), &json!(false))
    );
}

#[tokio::test]
async fn pkce_flow_returns_a_code_and_the_provider_tokens_once() {
    let issuer = Issuer::start().await;
    let server = issuer.server().start().await;
    let query = format!("provider=google&code_challenge={CHALLENGE}&code_challenge_method=s256");
    let location = Trip::begin(&server, &query).await.finish(&server).await;
    let code = pairs(&location, '?').remove("code").unwrap();
    assert!(!location.contains("access_token"), "{location}");
    let exchange = async |verifier: &str| {
        let body = json!({ "auth_code": code, "code_verifier": verifier });
        post(&server, "/token?grant_type=pkce", &body).await
    };
    let _wrong = exchange("wrong").await.expect(400);
    let session = exchange(VERIFIER).await.expect(200).json();
    assert_eq!(session["provider_token"], "provider-access");
    assert_eq!(session["provider_refresh_token"], "provider-refresh");
    let _used = exchange(VERIFIER).await.expect(404);
    let refreshed = refresh(&server, text(&session, "/refresh_token")).await.expect(200).json();
    assert!(refreshed.get("provider_token").is_none());
}

#[tokio::test]
async fn state_works_once_and_in_its_browser_only() {
    let issuer = Issuer::start().await;
    let server = issuer.server().start().await;
    let trip = Trip::begin(&server, "provider=google").await;
    let stranger = Trip { url: trip.url.clone(), cookie: "sb-oauth-x=y".to_owned() };
    let location = stranger.come_back(&server, "code=good").await.expect(303);
    let failed = pairs(location.header("location"), '?');
    assert_eq!(failed["error_code"], "bad_oauth_state");
    assert_eq!(failed["error_description"], "OAuth state belongs to another browser");
    // The attempt has used it up.
    let location = trip.come_back(&server, "code=good").await.expect(303);
    assert_eq!(pairs(location.header("location"), '?')["error_code"], "flow_state_already_used");

    let trip = Trip::begin(&server, "provider=google").await;
    let answers = join_all((0..64).map(|_| trip.come_back(&server, "code=good"))).await;
    let signed_in =
        answers.iter().filter(|answer| answer.header("location").contains("access_token")).count();
    assert_eq!(signed_in, 1);

    let trip = Trip::begin(&server, "provider=google").await;
    let _rows = server.sql("update auth.flow_state set created_at = now() - interval '301 s'").await;
    let location = trip.come_back(&server, "code=good").await.expect(303);
    assert_eq!(pairs(location.header("location"), '?')["error_description"], "OAuth state has expired");
}

#[tokio::test]
async fn forged_id_tokens_are_rejected() {
    let issuer = Issuer::start().await;
    let server = issuer.server().expect_log("did not confirm the sign-in").start().await;
    let now = Clock::system().unix_seconds();
    for (changes, description) in [
        (json!({ "aud": "other" }), "Unacceptable audience in id_token: [other]"),
        (json!({ "nonce": "of another flow" }), "Nonces mismatch"),
        (json!({ "iss": "https://evil.test" }), "Bad ID token"),
        (json!({ "exp": now - 60 }), "Bad ID token"),
        (json!({ "sub": "" }), "Unable to exchange external code: google did not confirm the sign-in"),
    ] {
        *issuer.claims.lock() = changes;
        let location = sign_in_with_google(&server).await;
        assert_eq!(pairs(&location, '#')["error_description"], description);
    }
    // Another key.
    let (url, keys) = (issuer.stub.url(), Arc::clone(&issuer.keys));
    let forger = signing_keys();
    issuer.stub.reply(move |request| {
        let signer = if request.head.contains("/token") { &forger } else { &keys };
        respond(request, &url, signer, &json!({}))
    });
    assert_eq!(pairs(&sign_in_with_google(&server).await, '#')["error_description"], "Bad ID token");
    assert_eq!(server.sql("select count(*) from auth.users").await[0][0].as_deref(), Some("0"));
}

#[tokio::test]
async fn failing_provider_is_reported_and_changes_nothing() {
    let issuer = Issuer::start().await;
    let server = issuer.server().expect_log("did not confirm the sign-in").start().await;
    let failed = "Unable to exchange external code: google did not confirm the sign-in";
    let html = "<html>busy</html>".to_owned();
    let huge = format!(r#"{{"id_token":"{}"}}"#, "x".repeat(10_000_000));
    for reply in [
        Reply::Respond(500, "{}".to_owned()),
        Reply::Respond(200, html),
        Reply::Respond(200, huge),
        Reply::Close,
        Reply::Stall(Duration::from_secs(20)),
    ] {
        issuer.respond();
        let trip = Trip::begin(&server, "provider=google").await;
        issuer.stub.reply(move |_request| reply.clone());
        let location = trip.finish(&server).await;
        assert_failed(&location, "server_error", "unexpected_failure", failed);
    }
    issuer.respond();
    let trip = Trip::begin(&server, "provider=google").await;
    let refused =
        trip.come_back(&server, "error=access_denied&error_description=the+user+said+no").await.expect(302);
    assert_failed(refused.header("location"), "access_denied", "bad_oauth_callback", "the user said no");
    let trip = Trip::begin(&server, "provider=google").await;
    let missing = trip.come_back(&server, "x=y").await.expect(302);
    let text = "OAuth callback with missing authorization code missing";
    assert_failed(missing.header("location"), "invalid_request", "bad_oauth_callback", text);
    assert_eq!(server.sql("select count(*) from auth.users").await[0][0].as_deref(), Some("0"));
}

#[tokio::test]
async fn verified_address_links_to_its_account() {
    let issuer = Issuer::start().await;
    let server = issuer.server().start().await;
    let id = confirmed(&server, "ada@example.org").await;
    let ada = user(&server, &sign_in_with_google(&server).await).await;
    assert_eq!(ada["id"], json!(id));
    assert_eq!(ada["app_metadata"]["providers"], json!(["email", "google"]));
    let _password_still_works = sign_in(&server, "ada@example.org", "secret1").await.expect(200);
}

#[tokio::test]
async fn account_prepared_by_somebody_else_is_cleared() {
    let issuer = Issuer::start().await;
    let server = issuer.server().start().await;
    // Eve signs up with Ada's address, which she cannot confirm.
    let body = json!({ "email": "ada@example.org", "password": "eves-password", "data": { "role": "boss" } });
    let _sent = post(&server, "/signup", &body).await.expect(200);
    let ada = user(&server, &sign_in_with_google(&server).await).await;
    assert_eq!(ada["identities"].as_array().unwrap().len(), 1);
    assert!(ada["user_metadata"].get("role").is_none());
    let denied = sign_in(&server, "ada@example.org", "eves-password").await;
    assert_error(&denied, 400, "invalid_credentials", "Invalid login credentials");
    let hash = server.mailbox().wait_for("ada@example.org").await.token_hash();
    let link = post(&server, "/verify", &json!({ "type": "signup", "token_hash": hash })).await;
    assert_eq!(link.status.as_u16(), 403);
}

#[tokio::test]
async fn changed_address_at_the_provider_keeps_the_account() {
    let issuer = Issuer::start().await;
    let server = issuer.server().start().await;
    let first = user(&server, &sign_in_with_google(&server).await).await;
    let max = confirmed(&server, "max@example.org").await;
    for is_verified in [true, false] {
        *issuer.claims.lock() = json!({ "email": "max@example.org", "email_verified": is_verified });
        let again = user(&server, &sign_in_with_google(&server).await).await;
        // The subject identifies the account; the address neither moves it to Max nor replaces its own.
        assert_eq!((&again["id"], &again["email"]), (&first["id"], &json!("ada@example.org")));
        assert_ne!(again["id"], json!(max));
        assert_eq!(again["identities"][0]["identity_data"]["email"], "max@example.org");
    }
}

#[tokio::test]
async fn unverified_address_never_links() {
    let issuer = Issuer::start().await;
    let server = issuer.server().start().await;
    *issuer.claims.lock() = json!({ "email_verified": false });
    let id = confirmed(&server, "ada@example.org").await;
    let other = user(&server, &sign_in_with_google(&server).await).await;
    assert_ne!(other["id"], json!(id));
    assert_eq!(other["email"], "");

    *issuer.claims.lock() = json!({ "email_verified": false, "email": "eve@example.org", "sub": "google-2" });
    let location = sign_in_with_google(&server).await;
    let text = "Unverified email with google. A confirmation email has been sent to your google email";
    assert_failed(&location, "access_denied", "provider_email_needs_verification", text);
    let hash = server.mailbox().wait_for("eve@example.org").await.token_hash();
    let _confirmed =
        post(&server, "/verify", &json!({ "type": "signup", "token_hash": hash })).await.expect(200);
    let eve = user(&server, &sign_in_with_google(&server).await).await;
    assert_eq!(eve["email"], "eve@example.org");
}

#[tokio::test]
async fn autoconfirm_does_not_link_unverified_addresses() {
    let issuer = Issuer::start().await;
    let server = issuer.server().config("auth.mailer_autoconfirm", "true").start().await;
    let ada = server.sign_up("ada@example.org").await;
    *issuer.claims.lock() = json!({ "email_verified": false });
    let other = user(&server, &sign_in_with_google(&server).await).await;
    assert_ne!(other["id"], json!(ada.id));
}

#[tokio::test]
async fn disabled_sign_up_and_bans_are_reported() {
    let issuer = Issuer::start().await;
    let server = issuer.server().config("auth.disable_signup", "true").start().await;
    let text = "Signups not allowed for this instance";
    assert_failed(&sign_in_with_google(&server).await, "access_denied", "signup_disabled", text);
    let id = confirmed(&server, "ada@example.org").await;
    let _signed_in = user(&server, &sign_in_with_google(&server).await).await;
    let ban = format!("update auth.users set banned_until = now() + interval '1 h' where id = '{id}'");
    let _rows = server.sql(&ban).await;
    assert_failed(&sign_in_with_google(&server).await, "access_denied", "user_banned", "User is banned");
    *issuer.claims.lock() = json!({ "email": null, "sub": "google-3" });
    let text = "Error getting user email from external provider";
    server.expect_log(text);
    assert_failed(&sign_in_with_google(&server).await, "server_error", "unexpected_failure", text);
}

#[tokio::test]
async fn id_token_signs_in_and_links() {
    let issuer = Issuer::start().await;
    let server = issuer.server().config("auth.security_manual_linking_enabled", "true").start().await;
    let grant = async |body: Value| post(&server, "/token?grant_type=id_token", &body).await;
    // hex(SHA-256("raw"))
    let nonce = "d7439bee24773bcbfa2d0a97947ee36227b10d1022b1a55847e928965bb6bfde";
    let token = issuer.token(&json!({ "nonce": nonce }));
    let mismatch =
        grant(json!({ "provider": "google", "id_token": token, "nonce": "other" })).await.expect(400);
    assert_eq!(mismatch.json(), json!({ "error": "invalid nonce", "error_description": "Nonces mismatch" }));
    let both = grant(json!({ "provider": "google", "id_token": token })).await.expect(400).json();
    let text = "Passed nonce and nonce in id_token should either both exist or not.";
    assert_eq!(both["error_description"], text);
    let foreign = issuer.token(&json!({ "aud": "other" }));
    let foreign = grant(json!({ "provider": "google", "id_token": foreign })).await.expect(400).json();
    assert_eq!(foreign["error_description"], "Unacceptable audience in id_token: [other]");
    let garbage = grant(json!({ "provider": "google", "id_token": "a.b.c" })).await.expect(400).json();
    assert_eq!(garbage["error_description"], "Bad ID token");

    let hashed = grant(json!({ "provider": "google", "id_token": token, "nonce": "raw" })).await;
    let _signed_in = hashed.expect(200);
    let token = issuer.token(&json!({ "aud": "ios" }));
    let body = json!({ "provider": "google", "id_token": token, "access_token": "of-google" });
    let session = grant(body.clone()).await.expect(200).json();
    assert_eq!(session["provider_token"], "of-google");
    assert_eq!(session["user"]["email"], "ada@example.org");

    let _eve = confirmed(&server, "eve@example.org").await;
    let eve = sign_in(&server, "eve@example.org", "secret1").await.expect(200).json();
    let link = merged(body, &json!({ "link_identity": true }));
    let linked = client(&server, Method::POST, "/token?grant_type=id_token")
        .bearer(self::text(&eve, "/access_token"))
        .json(&link)
        .send()
        .await;
    assert_error(&linked, 422, "identity_already_exists", "Identity is already linked to another user");
    let anonymous = grant(link).await;
    assert_eq!(anonymous.status.as_u16(), 403);
}

#[tokio::test]
async fn identities_are_linked_and_unlinked() {
    let issuer = Issuer::start().await;
    let server = issuer.server().config("auth.security_manual_linking_enabled", "true").start().await;
    let _id = confirmed(&server, "eve@example.org").await;
    let session = sign_in(&server, "eve@example.org", "secret1").await.expect(200).json();
    let token = text(&session, "/access_token");
    let begin = async || {
        let path = "/user/identities/authorize?provider=google&skip_http_redirect=true";
        let begun = client(&server, Method::GET, path).bearer(token).send().await.expect(200).json();
        Trip { url: Url::parse(text(&begun, "/url")).unwrap(), cookie: String::new() }
    };
    let eve = user(&server, &begin().await.finish(&server).await).await;
    assert_eq!(eve["email"], "eve@example.org");
    assert_eq!(eve["app_metadata"]["providers"], json!(["email", "google"]));
    let again = begin().await.finish(&server).await;
    assert_eq!(pairs(&again, '#')["error_description"], "Identity is already linked");
    let identity =
        eve["identities"].as_array().unwrap().iter().find(|one| one["provider"] == "google").unwrap();
    let path = format!("/user/identities/{}", text(identity, "/identity_id"));
    let _unlinked = client(&server, Method::DELETE, &path).bearer(token).send().await.expect(200);
    let ada = user(&server, &sign_in_with_google(&server).await).await;
    assert_ne!(ada["id"], eve["id"]);
}

#[tokio::test]
async fn github_account_is_found_by_its_primary_address() {
    let stub = HttpStub::start(|request| {
        let path = request.head.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = match path.as_str() {
            "/login/oauth/access_token" => json!({ "access_token": "gho_x", "token_type": "bearer" }),
            "/api/v3/user" => {
                json!({ "id": 7, "login": "ada", "name": "Ada", "avatar_url": "https://a.test/7" })
            }
            "/api/v3/user/emails" => json!([
                { "email": "old@example.org", "primary": false, "verified": true },
                { "email": "ada@example.org", "primary": true, "verified": true }
            ]),
            _ => return Reply::Respond(404, "{}".to_owned()),
        };
        Reply::Respond(200, body.to_string())
    });
    let stub = stub.await;
    let server = redeeming()
        .config("auth.external_github_enabled", "true")
        .config("auth.external_github_client_id", "app")
        .config("auth.external_github_secret", "secret")
        .config("auth.external_github_url", &stub.url())
        .start()
        .await;
    let location = Trip::begin(&server, "provider=github").await.finish(&server).await;
    let ada = user(&server, &location).await;
    assert_eq!(
        (&ada["email"], &ada["user_metadata"]["user_name"]),
        (&json!("ada@example.org"), &json!("ada"))
    );
    let asked = stub.requests();
    let read = asked.iter().find(|request| request.head.contains("/api/v3/user ")).unwrap();
    assert_eq!(read.header("authorization"), "Bearer gho_x");
    let token = asked.iter().find(|request| request.head.contains("access_token")).unwrap();
    assert!(token.body.contains("code_verifier="), "{}", token.body);
}

#[tokio::test]
async fn apple_posts_a_form_with_the_name() {
    let issuer = Issuer::start().await;
    let server = redeeming()
        .config("auth.external_apple_enabled", "true")
        .config("auth.external_apple_client_id", "app")
        .config("auth.external_apple_secret", "google-secret")
        .config("auth.external_apple_url", &issuer.stub.url())
        .start()
        .await;
    *issuer.claims.lock() = json!({ "name": null, "email_verified": "true" });
    let trip = Trip::begin(&server, "provider=apple").await;
    assert_eq!(trip.parameter("response_mode"), "form_post");
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("state", &trip.parameter("state"))
        .append_pair("code", "good")
        .append_pair("user", r#"{"name":{"firstName":"Ada","lastName":"Lovelace"}}"#)
        .finish();
    let posted = server
        .post("/auth/v1/callback")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("cookie", &trip.cookie)
        .body(form)
        .send()
        .await
        .expect(302);
    let ada = user(&server, posted.header("location")).await;
    assert_eq!(ada["user_metadata"]["full_name"], "Ada Lovelace");
}

#[tokio::test]
async fn incompletely_configured_provider_is_reported_at_its_use() {
    let server = quick().config("auth.external_google_enabled", "true").start().await;
    let response = client(&server, Method::GET, "/authorize?provider=google").send().await;
    assert_error(&response, 400, "validation_failed", "Unsupported provider: missing OAuth client ID");
}

#[tokio::test]
async fn browser_begins_at_the_public_address() {
    let issuer = Issuer::start().await;
    let server = issuer.server().start().await;
    let begin = async |host: &str, query: &str| {
        let path = format!("/auth/v1/authorize?provider=google{query}");
        server.get(&path).header("host", host).send().await.expect(302)
    };
    let begun = begin("api.example.org", "&scopes=a+b").await;
    let there = server.url("/auth/v1/authorize?provider=google&scopes=a+b&sb_public=1");
    assert_eq!((begun.header("location"), begun.header("set-cookie")), (&*there, ""));
    // A proxy may hide the name that the browser used.
    let begun = begin("api.example.org", "&sb_public=1").await;
    assert!(begun.header("location").starts_with(&issuer.stub.url()), "{}", begun.header("location"));
    let cookie = begun.header("set-cookie");
    assert!(cookie.ends_with("; Path=/; Max-Age=300; HttpOnly; SameSite=Lax"), "{cookie}");
    // Another name of this machine: its cookies would not come back.
    let begun = begin("localhost:8000", "").await;
    let trip = Trip { url: Url::parse(begun.header("location")).unwrap(), cookie: String::new() };
    assert!(trip.finish(&server).await.contains("access_token="));
}
