//! Captchas (auth.md §3.1), with a local service.

use std::time::Duration;

use basalt_testkit::{HttpStub, Reply};

use super::*;

/// A service that accepts the token `good`.
pub(super) async fn service() -> HttpStub {
    HttpStub::start(|request| {
        let form: Vec<(String, String)> =
            url::form_urlencoded::parse(request.body.as_bytes()).into_owned().collect();
        let field = |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let verdict = match (field("secret"), field("response")) {
            (Some("captcha-secret"), Some("good")) => json!({ "success": true }),
            _ => {
                json!({ "success": false, "error-codes": ["invalid-input-response", "timeout-or-duplicate"] })
            }
        };
        Reply::Respond(200, verdict.to_string())
    })
    .await
}

pub(super) fn protected(stub: &HttpStub) -> Builder {
    quick()
        .config("auth.security_captcha_enabled", "true")
        .config("auth.security_captcha_provider", "turnstile")
        .config("auth.security_captcha_secret", "captcha-secret")
        .config("auth.security_captcha_url", &stub.url())
}

fn with_token(mut body: Value, token: &str) -> Value {
    body["gotrue_meta_security"] = json!({ "captcha_token": token });
    body
}

#[tokio::test]
async fn listed_routes_need_a_captcha() {
    let stub = service().await;
    let server = protected(&stub).config("auth.external_anonymous_users_enabled", "true").start().await;
    let login = json!({ "email": "ada@example.org", "password": "secret1" });
    let missing = "captcha protection: request disallowed (no captcha_token found)";
    for (path, body) in [
        ("/signup", login.clone()),
        ("/signup", json!({})),
        ("/token?grant_type=password", login.clone()),
        ("/recover", json!({ "email": "ada@example.org" })),
        ("/resend", json!({ "type": "signup", "email": "ada@example.org" })),
        ("/otp", json!({ "email": "ada@example.org" })),
        ("/magiclink", json!({ "email": "ada@example.org" })),
    ] {
        assert_error(&post(&server, path, &body).await, 400, "captcha_failed", missing);
        let refused = post(&server, path, &with_token(body.clone(), "bad")).await;
        let codes = "captcha protection: request disallowed (invalid-input-response, timeout-or-duplicate)";
        assert_error(&refused, 400, "captcha_failed", codes);
        let accepted = post(&server, path, &with_token(body, "good")).await;
        assert_ne!(accepted.json().get("code"), Some(&json!("captcha_failed")), "{path}");
    }
    // The anonymous sign-up has no address, so this account is from the first row.
    let session = post(&server, "/token?grant_type=password", &with_token(login.clone(), "good")).await;
    let session = session.expect(200).json();
    let _refreshed = refresh(&server, text(&session, "/refresh_token")).await.expect(200);
    let by_admin = client(&server, Method::POST, "/token?grant_type=password").bearer(server.service_key());
    let _session = by_admin.json(&login).send().await.expect(200);
    assert!(server.log().iter().all(|line| !line.raw.contains("captcha-secret")));
}

#[tokio::test]
async fn request_fails_when_the_service_does() {
    let stub = service().await;
    let server = protected(&stub).config("auth.security_captcha_timeout", "1").start().await;
    server.expect_log("captcha verification process failed");
    let body = with_token(json!({ "email": "ada@example.org", "password": "secret1" }), "good");
    for reply in [
        Reply::RespondWith(200, vec![("content-type", "text/html".to_owned())], "<html>".to_owned()),
        Reply::Respond(200, format!("\"{}\"", "x".repeat(10_000_000))),
        Reply::Close,
        Reply::Stall(Duration::from_secs(5)),
    ] {
        stub.reply(move |_request| reply.clone());
        let failed = post(&server, "/signup", &body).await;
        assert_error(&failed, 500, "unexpected_failure", "captcha verification process failed");
    }
}
