//! Passkeys (auth.md §3.22), with an authenticator in software.

use basalt_testkit::User;
use futures_util::future::join_all;

use super::authenticator::{Authenticator, USER_PRESENT, USER_VERIFIED};
use super::captcha;
use super::hooks::{define, with_function};
use super::*;

const RP_ID: &str = "app.example.org";
const ORIGIN: &str = "https://app.example.org";

fn with_passkeys() -> Builder {
    add_passkeys(quick())
}

fn add_passkeys(builder: Builder) -> Builder {
    builder
        .config("auth.passkey_enabled", "true")
        .config("auth.rate_limit_passkey", "0")
        .config("auth.site_url", ORIGIN)
}

async fn server() -> Arc<Basalt> {
    static SHARED: Mutex<Weak<Basalt>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(with_passkeys().start().await);
    *shared = Arc::downgrade(&server);
    server
}

async fn send(server: &Basalt, token: &str, method: Method, path: &str, body: &Value) -> Response {
    client(server, method, path).bearer(token).json(body).send().await
}

async fn user(server: &Basalt) -> User {
    server.sign_up(&fresh("passkey")).await
}

fn authenticator() -> Authenticator {
    Authenticator::new(RP_ID, ORIGIN)
}

async fn registration(server: &Basalt, user: &User) -> Value {
    send(server, &user.access_token, Method::POST, "/passkeys/registration/options", &json!({}))
        .await
        .expect(200)
        .json()
}

async fn register(server: &Basalt, user: &User, begun: &Value, credential: &Value) -> Response {
    let body = json!({ "challenge_id": begun["challenge_id"], "credential": credential });
    send(server, &user.access_token, Method::POST, "/passkeys/registration/verify", &body).await
}

/// Registers a passkey and returns its authenticator and id.
async fn registered(server: &Basalt, user: &User) -> (Authenticator, String) {
    let mut authenticator = authenticator();
    let begun = registration(server, user).await;
    let credential = authenticator.create(&begun["options"]);
    let passkey = register(server, user, &begun, &credential).await.expect(200).json();
    let id = text(&passkey, "/id").to_owned();
    (authenticator, id)
}

async fn challenge(server: &Basalt) -> Value {
    post(server, "/passkeys/authentication/options", &json!({})).await.expect(200).json()
}

async fn answer(server: &Basalt, begun: &Value, credential: &Value) -> Response {
    let body = json!({ "challenge_id": begun["challenge_id"], "credential": credential });
    post(server, "/passkeys/authentication/verify", &body).await
}

async fn sign_in_with(server: &Basalt, authenticator: &mut Authenticator) -> Response {
    let begun = challenge(server).await;
    let credential = authenticator.get(&begun["options"]);
    answer(server, &begun, &credential).await
}

/// Changes the next response.
type Forge = fn(&mut Authenticator);

#[track_caller]
fn assert_failed(response: &Response) {
    assert_error(response, 400, "webauthn_verification_failed", "WebAuthn verification failed");
}

#[track_caller]
fn assert_used(response: &Response) {
    assert_error(response, 400, "webauthn_challenge_not_found", "WebAuthn challenge not found");
}

#[tokio::test]
async fn passkey_signs_in_without_user_name() {
    let server = server().await;
    let ada = user(&server).await;
    let begun = registration(&server, &ada).await;
    let options = &begun["options"];
    assert_eq!((&options["rp"]["id"], &options["user"]["name"]), (&json!(RP_ID), &json!(ada.email)));
    assert_eq!(options["authenticatorSelection"]["residentKey"], "required");
    assert_eq!(options["authenticatorSelection"]["userVerification"], "required");
    assert!(begun["expires_at"].as_i64().unwrap() > 0);
    let mut authenticator = authenticator();
    let credential = authenticator.create(options);
    let passkey = register(&server, &ada, &begun, &credential).await.expect(200).json();
    assert!(passkey["created_at"].is_string() && passkey["last_used_at"].is_null(), "{passkey}");

    let begun = challenge(&server).await;
    assert_eq!(
        (&begun["options"]["rpId"], &begun["options"]["allowCredentials"]),
        (&json!(RP_ID), &json!([]))
    );
    let credential = authenticator.get(&begun["options"]);
    let session = answer(&server, &begun, &credential).await.expect(200).json();
    assert_eq!(session["user"]["id"], json!(ada.id));
    let token = claims(text(&session, "/access_token"));
    assert_eq!((&token["amr"][0]["method"], &token["aal"]), (&json!("passkey"), &json!("aal1")));
    let refreshed = refresh(&server, text(&session, "/refresh_token")).await.expect(200).json();
    assert_eq!(refreshed["user"]["id"], json!(ada.id));
    let listed =
        send(&server, &ada.access_token, Method::GET, "/passkeys", &json!({})).await.expect(200).json();
    assert_eq!(listed[0]["id"], passkey["id"]);
    assert!(listed[0]["last_used_at"].is_string());
}

#[tokio::test]
async fn passkeys_are_renamed_and_deleted() {
    let server = server().await;
    let (ada, eve) = (user(&server).await, user(&server).await);
    let (mut authenticator, id) = registered(&server, &ada).await;
    let path = format!("/passkeys/{id}");
    let name = json!({ "friendly_name": "Laptop" });
    let missing = (404, "webauthn_credential_not_found", "WebAuthn credential not found");
    for (method, body) in [(Method::PATCH, &name), (Method::DELETE, &json!({}))] {
        let foreign = send(&server, &eve.access_token, method, &path, body).await;
        assert_error(&foreign, missing.0, missing.1, missing.2);
    }
    let renamed = send(&server, &ada.access_token, Method::PATCH, &path, &name).await.expect(200).json();
    assert_eq!(renamed["friendly_name"], "Laptop");
    let long = json!({ "friendly_name": "x".repeat(121) });
    let refused = send(&server, &ada.access_token, Method::PATCH, &path, &long).await;
    assert_error(&refused, 400, "validation_failed", "friendly_name must have 1 to 120 characters");
    let _deleted = send(&server, &ada.access_token, Method::DELETE, &path, &json!({})).await.expect(204);
    let gone = sign_in_with(&server, &mut authenticator).await;
    assert_error(&gone, missing.0, missing.1, missing.2);
}

#[tokio::test]
async fn admin_lists_and_deletes_passkeys() {
    let server = server().await;
    let ada = user(&server).await;
    let (_authenticator, id) = registered(&server, &ada).await;
    let path = format!("/admin/users/{}/passkeys", ada.id);
    let admin = |method: Method, path: &str| client(&server, method, path).bearer(server.service_key());
    let listed = admin(Method::GET, &path).send().await.expect(200).json();
    assert_eq!(listed[0]["id"], json!(id));
    let refused = client(&server, Method::GET, &path).bearer(&ada.access_token).send().await;
    assert_error(&refused, 403, "not_admin", "User not allowed");
    let _deleted = admin(Method::DELETE, &format!("{path}/{id}")).send().await.expect(204);
    assert_eq!(admin(Method::GET, &path).send().await.expect(200).json(), json!([]));
}

#[tokio::test]
async fn forged_assertions_are_rejected() {
    let server = server().await;
    let (ada, eve) = (user(&server).await, user(&server).await);
    let (mut authenticator, _id) = registered(&server, &ada).await;
    let forgeries: [(&str, Forge); 5] = [
        ("origin", |forged| forged.origin = "https://evil.test".to_owned()),
        ("origin below", |forged| forged.origin = "https://x.app.example.org".to_owned()),
        ("port", |forged| forged.origin = "https://app.example.org:444".to_owned()),
        ("relying party", |forged| forged.rp_id = "evil.test".to_owned()),
        ("not verified", |forged| forged.flags = USER_PRESENT),
    ];
    for (what, forge) in forgeries {
        forge(&mut authenticator);
        let response = sign_in_with(&server, &mut authenticator).await;
        assert_eq!(response.status.as_u16(), 400, "{what}: {}", response.text());
        assert_failed(&response);
        ORIGIN.clone_into(&mut authenticator.origin);
        RP_ID.clone_into(&mut authenticator.rp_id);
        authenticator.flags = USER_PRESENT | USER_VERIFIED;
    }
    for part in ["signature", "authenticatorData", "clientDataJSON"] {
        let begun = challenge(&server).await;
        let mut credential = authenticator.get(&begun["options"]);
        let other = authenticator.get(&challenge(&server).await["options"]);
        credential["response"][part] = other["response"][part].clone();
        assert_failed(&answer(&server, &begun, &credential).await);
    }
    for nonsense in [json!({}), json!("x"), json!({ "id": "a", "rawId": "%", "response": {} })] {
        assert_failed(&answer(&server, &challenge(&server).await, &nonsense).await);
    }
    // Another user's key with Ada's handle, and Ada's key with another handle.
    let (mut stranger, _id) = registered(&server, &eve).await;
    let own_handle = stranger.user_handle.clone();
    stranger.user_handle.clone_from(&authenticator.user_handle);
    let missing = "WebAuthn credential not found";
    let refused = sign_in_with(&server, &mut stranger).await;
    assert_error(&refused, 404, "webauthn_credential_not_found", missing);
    stranger.user_handle = own_handle;
    let id = std::mem::replace(&mut stranger.credential_id, authenticator.credential_id.clone());
    let refused = sign_in_with(&server, &mut stranger).await;
    assert_error(&refused, 404, "webauthn_credential_not_found", missing);
    stranger.credential_id = id;
    // A cloned authenticator has an old counter.
    let _session = sign_in_with(&server, &mut authenticator).await.expect(200);
    authenticator.counter -= 1;
    assert_failed(&sign_in_with(&server, &mut authenticator).await);
    let _session = sign_in_with(&server, &mut stranger).await.expect(200);
}

#[tokio::test]
async fn each_challenge_works_once() {
    let server = server().await;
    let ada = user(&server).await;
    let (mut authenticator, _id) = registered(&server, &ada).await;
    let begun = challenge(&server).await;
    let credential = authenticator.get(&begun["options"]);
    let _session = answer(&server, &begun, &credential).await.expect(200);
    assert_used(&answer(&server, &begun, &credential).await);
    // The same assertion for another challenge, and a second attempt after a failed one.
    let other = challenge(&server).await;
    assert_failed(&answer(&server, &other, &credential).await);
    let valid = authenticator.get(&other["options"]);
    assert_used(&answer(&server, &other, &valid).await);
    let unknown = json!({ "challenge_id": "11111111-2222-4333-8444-555555555555" });
    assert_used(&answer(&server, &unknown, &valid).await);
    // A challenge of a registration is not one of a sign-in.
    let registration = registration(&server, &ada).await;
    let confused = authenticator.get(&registration["options"]);
    assert_used(&answer(&server, &registration, &confused).await);
}

#[tokio::test]
async fn concurrent_uses_of_an_assertion_succeed_once() {
    let server = server().await;
    let ada = user(&server).await;
    let (mut authenticator, _id) = registered(&server, &ada).await;
    let begun = challenge(&server).await;
    let credential = authenticator.get(&begun["options"]);
    let uses = join_all((0..64).map(|_| answer(&server, &begun, &credential))).await;
    assert_eq!(uses.iter().filter(|response| response.status.is_success()).count(), 1);
    for refused in uses.iter().filter(|response| !response.status.is_success()) {
        assert_used(refused);
    }
}

#[tokio::test]
async fn forged_registrations_are_rejected() {
    let server = server().await;
    let (ada, eve) = (user(&server).await, user(&server).await);
    let mut authenticator = authenticator();
    for origin in ["https://evil.test", "http://app.example.org"] {
        origin.clone_into(&mut authenticator.origin);
        let begun = registration(&server, &ada).await;
        let credential = authenticator.create(&begun["options"]);
        assert_failed(&register(&server, &ada, &begun, &credential).await);
    }
    ORIGIN.clone_into(&mut authenticator.origin);
    let begun = registration(&server, &ada).await;
    let credential = authenticator.create(&begun["options"]);
    assert_used(&register(&server, &eve, &begun, &credential).await);
    let _passkey = register(&server, &ada, &begun, &credential).await.expect(200);
    assert_used(&register(&server, &ada, &begun, &credential).await);
    // Another user cannot register the same credential.
    let begun = registration(&server, &eve).await;
    let credential = authenticator.create(&begun["options"]);
    let taken = register(&server, &eve, &begun, &credential).await;
    assert_error(&taken, 422, "webauthn_credential_exists", "WebAuthn credential already exists");
}

#[tokio::test]
async fn banned_and_anonymous_users_are_refused() {
    let server = with_passkeys().config("auth.external_anonymous_users_enabled", "true").start().await;
    let ada = user(&server).await;
    let (mut authenticator, _id) = registered(&server, &ada).await;
    let ban = client(&server, Method::PUT, &format!("/admin/users/{}", ada.id)).bearer(server.service_key());
    let _banned = ban.json(&json!({ "ban_duration": "1h" })).send().await.expect(200);
    let refused = sign_in_with(&server, &mut authenticator).await;
    assert_error(&refused, 400, "user_banned", "User is banned");
    let guest = post(&server, "/signup", &json!({})).await.expect(200).json();
    let path = "/passkeys/registration/options";
    let refused = send(&server, text(&guest, "/access_token"), Method::POST, path, &json!({})).await;
    let message = "Anonymous user not allowed to perform these actions";
    assert_error(&refused, 403, "no_authorization", message);
}

#[tokio::test]
async fn passkeys_of_deleted_users_are_gone() {
    let server = server().await;
    for is_soft in [true, false] {
        let ada = user(&server).await;
        let (mut authenticator, _id) = registered(&server, &ada).await;
        let path = format!("/admin/users/{}", ada.id);
        let request = client(&server, Method::DELETE, &path).bearer(server.service_key());
        let _deleted = request.json(&json!({ "should_soft_delete": is_soft })).send().await.expect(200);
        let gone = sign_in_with(&server, &mut authenticator).await;
        assert_error(&gone, 404, "webauthn_credential_not_found", "WebAuthn credential not found");
    }
}

#[tokio::test]
async fn number_of_passkeys_and_time_are_limited() {
    let server = with_passkeys()
        .config("auth.passkey_max_passkeys_per_user", "1")
        .config("auth.webauthn_challenge_expiry_duration", "1s")
        .start()
        .await;
    let ada = user(&server).await;
    let begun = registration(&server, &ada).await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let mut late = authenticator();
    let credential = late.create(&begun["options"]);
    let expired = register(&server, &ada, &begun, &credential).await;
    assert_error(&expired, 400, "webauthn_challenge_expired", "WebAuthn challenge has expired");
    let (_authenticator, _id) = registered(&server, &ada).await;
    let path = "/passkeys/registration/options";
    let full = send(&server, &ada.access_token, Method::POST, path, &json!({})).await;
    let message = "Maximum number of passkeys reached, delete one to continue";
    assert_error(&full, 422, "too_many_passkeys", message);
}

#[tokio::test]
async fn access_token_hook_runs_at_sign_in() {
    let server = add_passkeys(with_function("custom_access_token")).start().await;
    define(
        &server,
        "return jsonb_build_object('claims', event->'claims' || jsonb_build_object('how', event->'authentication_method'));",
    )
    .await;
    let ada = user(&server).await;
    let (mut authenticator, _id) = registered(&server, &ada).await;
    let session = sign_in_with(&server, &mut authenticator).await.expect(200).json();
    assert_eq!(claims(text(&session, "/access_token"))["how"], "passkey");
    // A hook that rejects the token ends the new session.
    define(&server, "return '{\"error\": {\"http_code\": 403, \"message\": \"no plan\"}}';").await;
    let refused = sign_in_with(&server, &mut authenticator).await;
    assert_error(&refused, 403, "unknown", "no plan");
    let rows = server.sql("select count(*)::text from auth.sessions").await;
    assert_eq!(rows[0][0].as_deref(), Some("2"));
}

#[tokio::test]
async fn sign_in_needs_a_captcha_where_enabled() {
    let stub = captcha::service().await;
    let server = add_passkeys(captcha::protected(&stub)).start().await;
    let path = "/passkeys/authentication/options";
    let missing = "captcha protection: request disallowed (no captcha_token found)";
    assert_error(&post(&server, path, &json!({})).await, 400, "captcha_failed", missing);
    let body = json!({ "gotrue_meta_security": { "captcha_token": "good" } });
    let begun = post(&server, path, &body).await.expect(200).json();
    assert_eq!(begun["options"]["rpId"], RP_ID);
}
