//! WebAuthn as a second factor (auth.md §3.15), with an authenticator in software.

use basalt_testkit::User;
use futures_util::future::join_all;

use super::authenticator::Authenticator;
use super::hooks::{define, with_function};
use super::*;

const RP_ID: &str = "app.example.org";
const ORIGIN: &str = "https://app.example.org";

fn with_webauthn(builder: Builder) -> Builder {
    builder
        .config("auth.mfa_web_authn_enroll_enabled", "true")
        .config("auth.mfa_web_authn_verify_enabled", "true")
        .config("auth.site_url", ORIGIN)
}

async fn server() -> Arc<Basalt> {
    static SHARED: Mutex<Weak<Basalt>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(with_webauthn(quick()).start().await);
    *shared = Arc::downgrade(&server);
    server
}

async fn send(server: &Basalt, token: &str, method: Method, path: &str, body: &Value) -> Response {
    client(server, method, path).bearer(token).json(body).send().await
}

async fn user(server: &Basalt) -> User {
    server.sign_up(&fresh("key")).await
}

async fn enroll(server: &Basalt, token: &str, name: &str) -> String {
    let body = json!({ "factor_type": "webauthn", "friendly_name": name });
    let factor = send(server, token, Method::POST, "/factors", &body).await.expect(200).json();
    assert_eq!((&factor["type"], &factor["friendly_name"]), (&json!("webauthn"), &json!(name)));
    text(&factor, "/id").to_owned()
}

async fn challenge(server: &Basalt, token: &str, factor: &str) -> Value {
    let body = json!({ "webauthn": { "rpId": RP_ID, "rpOrigins": [ORIGIN] } });
    send(server, token, Method::POST, &format!("/factors/{factor}/challenge"), &body).await.expect(200).json()
}

async fn answer(server: &Basalt, token: &str, factor: &str, begun: &Value, response: &Value) -> Response {
    let body = json!({
        "challenge_id": begun["id"],
        "webauthn": { "rpId": RP_ID, "type": begun["webauthn"]["type"], "credential_response": response }
    });
    send(server, token, Method::POST, &format!("/factors/{factor}/verify"), &body).await
}

fn options(begun: &Value) -> &Value {
    &begun["webauthn"]["credential_options"]["publicKey"]
}

/// A verified factor: its authenticator, its id, and the aal2 session.
async fn verified(server: &Basalt, user: &User) -> (Authenticator, String, Value) {
    let factor = enroll(server, &user.access_token, "key").await;
    let begun = challenge(server, &user.access_token, &factor).await;
    assert_eq!(begun["webauthn"]["type"], "create");
    let mut authenticator = Authenticator::new(RP_ID, ORIGIN);
    let credential = authenticator.create(options(&begun));
    let session = answer(server, &user.access_token, &factor, &begun, &credential).await.expect(200).json();
    (authenticator, factor, session)
}

#[tokio::test]
async fn factor_raises_sessions_to_aal2() {
    let server = server().await;
    let ada = user(&server).await;
    let (mut authenticator, factor, session) = verified(&server, &ada).await;
    let raised = claims(text(&session, "/access_token"));
    assert_eq!((&raised["aal"], &raised["amr"][0]["method"]), (&json!("aal2"), &json!("mfa/webauthn")));
    assert_eq!(session["user"]["factors"][0]["status"], "verified");

    let next = sign_in(&server, &ada.email, &ada.password).await.expect(200).json();
    let token = text(&next, "/access_token");
    assert_eq!(claims(token)["aal"], "aal1");
    let begun = challenge(&server, token, &factor).await;
    assert_eq!(begun["webauthn"]["type"], "request");
    let credential = authenticator.get(options(&begun));
    let session = answer(&server, token, &factor, &begun, &credential).await.expect(200).json();
    let raised = text(&session, "/access_token");
    assert_eq!(claims(raised)["aal"], "aal2");
    // The challenge works once, and removing the factor lowers the session.
    let again = answer(&server, token, &factor, &begun, &credential).await;
    assert_error(&again, 422, "mfa_ip_address_mismatch", "Challenge and verify IP addresses mismatch.");
    let path = format!("/factors/{factor}");
    let _removed = send(&server, raised, Method::DELETE, &path, &json!({})).await.expect(200);
    let lowered = refresh(&server, text(&session, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&lowered, "/access_token"))["aal"], "aal1");
}

#[tokio::test]
async fn forged_responses_are_rejected() {
    let server = server().await;
    let ada = user(&server).await;
    let (mut authenticator, factor, session) = verified(&server, &ada).await;
    let token = text(&session, "/access_token");
    let wrong = |response: &Response| {
        assert_error(response, 422, "mfa_verification_failed", "WebAuthn verification failed");
    };
    let begun = challenge(&server, token, &factor).await;
    "https://evil.test".clone_into(&mut authenticator.origin);
    wrong(&answer(&server, token, &factor, &begun, &authenticator.get(options(&begun))).await);
    ORIGIN.clone_into(&mut authenticator.origin);
    "evil.test".clone_into(&mut authenticator.rp_id);
    wrong(&answer(&server, token, &factor, &begun, &authenticator.get(options(&begun))).await);
    RP_ID.clone_into(&mut authenticator.rp_id);
    let mut stranger = Authenticator::new(RP_ID, ORIGIN);
    stranger.credential_id.clone_from(&authenticator.credential_id);
    wrong(&answer(&server, token, &factor, &begun, &stranger.get(options(&begun))).await);
    let other = challenge(&server, token, &factor).await;
    wrong(&answer(&server, token, &factor, &begun, &authenticator.get(options(&other))).await);
    // A new credential does not replace the verified one.
    wrong(&answer(&server, token, &factor, &begun, &json!({ "id": "a" })).await);
    let body = json!({ "webauthn": { "rpId": "evil.test" } });
    let path = format!("/factors/{factor}/challenge");
    let refused = send(&server, token, Method::POST, &path, &body).await;
    assert_error(&refused, 400, "validation_failed", "webauthn.rpId must be \"app.example.org\"");
    let credential = authenticator.get(options(&begun));
    let _session = answer(&server, token, &factor, &begun, &credential).await.expect(200);
}

#[tokio::test]
async fn concurrent_uses_of_an_assertion_succeed_once() {
    let server = server().await;
    let ada = user(&server).await;
    let (mut authenticator, factor, session) = verified(&server, &ada).await;
    let token = text(&session, "/access_token");
    let begun = challenge(&server, token, &factor).await;
    let credential = authenticator.get(options(&begun));
    let uses = join_all((0..64).map(|_| answer(&server, token, &factor, &begun, &credential))).await;
    assert_eq!(uses.iter().filter(|response| response.status.is_success()).count(), 1);
}

#[tokio::test]
async fn factors_are_off_by_default() {
    let server = shared().await;
    let ada = user(&server).await;
    let body = json!({ "factor_type": "webauthn", "friendly_name": "key" });
    let off = send(&server, &ada.access_token, Method::POST, "/factors", &body).await;
    let message = "MFA enroll is disabled for WebAuthn";
    assert_error(&off, 422, "mfa_webauthn_enroll_not_enabled", message);
}

#[tokio::test]
async fn hook_decides_about_assertions() {
    let server = with_webauthn(with_function("mfa_verification_attempt")).start().await;
    let seen = "create table public.seen (factor_type text, valid bool)";
    let _rows = server.sql(seen).await;
    let _rows = server.sql("grant insert on public.seen to supabase_auth_admin").await;
    let record = "insert into public.seen values (event->>'factor_type', (event->>'valid')::bool);";
    define(&server, &format!("{record} return '{{\"decision\": \"continue\"}}';")).await;
    let ada = user(&server).await;
    let (mut authenticator, factor, session) = verified(&server, &ada).await;
    let token = text(&session, "/access_token");
    let begun = challenge(&server, token, &factor).await;
    "https://evil.test".clone_into(&mut authenticator.origin);
    let forged = authenticator.get(options(&begun));
    let refused = answer(&server, token, &factor, &begun, &forged).await;
    assert_error(&refused, 422, "mfa_verification_failed", "WebAuthn verification failed");
    let rows = server
        .sql("select string_agg(factor_type || ' ' || valid, ', ' order by valid) from public.seen")
        .await;
    assert_eq!(rows[0][0].as_deref(), Some("webauthn false, webauthn true"));
    // A rejection holds although the assertion is valid, and ends all sessions.
    ORIGIN.clone_into(&mut authenticator.origin);
    define(&server, "return '{\"decision\": \"reject\", \"message\": \"not today\"}';").await;
    let begun = challenge(&server, token, &factor).await;
    let valid = authenticator.get(options(&begun));
    let rejected = answer(&server, token, &factor, &begun, &valid).await;
    assert_error(&rejected, 403, "mfa_verification_rejected", "not today");
    assert_eq!(get_user(&server, token).await.json()["code"], "session_not_found");
}
