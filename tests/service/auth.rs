//! `/auth/v1` over HTTP (auth.md): a real server on a real PostgreSQL.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test's helpers fail it by panicking"
)]

mod admin;
mod admin_lists;
mod authenticator;
mod breaches;
mod captcha;
mod cleanup;
mod codes;
mod confirm;
mod custom_providers;
mod email_change;
mod errors;
mod external;
mod factors;
mod generate_link;
mod hooks;
mod hostile_values;
mod identities;
mod invite;
mod limits;
mod mail_limits;
mod mail_support;
mod oauth_server;
mod otp;
mod outage;
mod passkeys;
mod phone;
mod pkce;
mod plan_invitation;
mod reauthenticate;
mod recover;
mod recovery_codes;
mod redirect;
mod refresh;
mod resend;
mod safety;
mod schema;
mod sessions;
mod sign_in;
mod sign_in_times;
mod sign_out;
mod sign_up;
mod switched_off;
mod user;
mod verify;
mod verify_abuse;
mod verify_email_change;
mod webauthn_factors;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use basalt_testkit::{Basalt, Builder, Request, Response};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// A server with cheap hashes and without limits, so that tests run fast.
fn quick() -> Builder {
    Basalt::builder()
        .config("auth.rate_limit_otp", "0")
        .config("auth.rate_limit_token_refresh", "0")
        .config("auth.mfa_rate_limit_challenge_and_verify", "0")
        .config("auth.password_argon2_memory", "64")
        .config("auth.password_argon2_iterations", "1")
}

/// A [`quick`] server that concurrent tests share; each uses its own users. The
/// last test stops it and checks its log.
async fn shared() -> Arc<Basalt> {
    static SHARED: Mutex<Weak<Basalt>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(quick().start().await);
    *shared = Arc::downgrade(&server);
    server
}

/// An address that no other test uses.
fn fresh(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}{}@example.org", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A request as supabase-js sends it: the anon key, and the API version that decides the shape of errors.
fn client(server: &Basalt, method: Method, path: &str) -> Request {
    server
        .request(method, &format!("/auth/v1{path}"))
        .apikey(server.anon_key())
        .header("x-supabase-api-version", "2024-01-01")
}

async fn post(server: &Basalt, path: &str, body: &Value) -> Response {
    client(server, Method::POST, path).json(body).send().await
}

async fn sign_in(server: &Basalt, email: &str, password: &str) -> Response {
    post(server, "/token?grant_type=password", &json!({ "email": email, "password": password })).await
}

async fn refresh(server: &Basalt, token: &str) -> Response {
    post(server, "/token?grant_type=refresh_token", &json!({ "refresh_token": token })).await
}

async fn get_user(server: &Basalt, token: &str) -> Response {
    client(server, Method::GET, "/user").bearer(token).send().await
}

async fn put_user(server: &Basalt, token: &str, body: &Value) -> Response {
    client(server, Method::PUT, "/user").bearer(token).json(body).send().await
}

/// A transaction that has run `statement` and holds its locks until the client commits or drops.
async fn holding(server: &Basalt, statement: &str) -> tokio_postgres::Client {
    let (client, connection) = server.database().config().connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("begin; {statement}")).await.unwrap();
    client
}

/// Asserts status, code and message of an error, and the code header.
#[track_caller]
fn assert_error(response: &Response, status: u16, code: &str, message: &str) {
    let body = response.json();
    assert_eq!(response.status.as_u16(), status, "{body}");
    assert_eq!(body, json!({ "code": code, "message": message }));
    assert_eq!(response.header("x-sb-error-code"), code);
    assert_eq!(response.header("x-supabase-api-version"), "2024-01-01");
}

#[track_caller]
fn text<'a>(body: &'a Value, pointer: &str) -> &'a str {
    body.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer} in {body}"))
}

/// The claims of a token, without verifying it.
fn claims(token: &str) -> Value {
    use base64::Engine;
    let payload = token.split('.').nth(1).unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}
