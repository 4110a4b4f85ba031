//! POST /recover: the recovery mail, and that responses do not reveal accounts (auth.md §3.9).

use std::time::{Duration, Instant};

use super::mail_support::*;
use super::*;

async fn recover(server: &Basalt, email: &str) -> Response {
    let body = json!({ "email": email, "gotrue_meta_security": { "captcha_token": "ignored" } });
    post(server, "/recover", &body).await
}

#[tokio::test]
async fn recovery_mails_a_code_and_stores_its_hash() {
    let (server, email) = (confirming().await, fresh("ada"));
    let _id = member(&server, &email).await;
    let response = recover(&server, &email.to_uppercase()).await.expect(200);
    assert_eq!(response.json(), json!({}));

    let mail = server.mailbox().wait_for(&email).await;
    assert_eq!(mail.subject, "Reset your password");
    assert!(mail.link().contains("/auth/v1/verify?token="), "{}", mail.link());
    assert!(mail.link().contains("&type=recovery&redirect_to="), "{}", mail.link());
    let row = server
        .sql(&format!(
            "select u.recovery_token, t.token_hash, encode(sha224('{email}{}'), 'hex'), t.relates_to,
               u.recovery_sent_at > now() - interval '1 minute',
               (select payload->>'action' from auth.audit_log_entries where payload->>'actor_id' = u.id::text
                order by created_at desc limit 1)
             from auth.users u join auth.one_time_tokens t on t.user_id = u.id and t.token_type = 'recovery_token'
             where u.email = '{email}'",
            mail.code()
        ))
        .await;
    let hash = mail.token_hash();
    let expected = [&*hash, &*hash, &*hash, &*email, "t", "user_recovery_requested"];
    assert_eq!(row, [expected.map(|text| Some(text.to_owned()))]);
}

#[tokio::test]
async fn checks_run_in_the_contract_order() {
    let server = confirming().await;
    let pkce = "PKCE flow requires code_challenge_method and code_challenge";
    for (body, message) in [
        (json!({}), "Password recovery requires an email"),
        (json!({ "email": "", "code_challenge": "x" }), "Password recovery requires an email"),
        (json!({ "email": "nobody" }), "Unable to validate email address: invalid format"),
        (json!({ "email": format!("{}@b.org", "a".repeat(255)) }), "An email address is too long"),
        (json!({ "email": "a@b.org", "code_challenge": CHALLENGE }), pkce),
        (json!({ "email": "a@b.org", "code_challenge_method": "s256" }), pkce),
        (
            json!({ "email": "a@b.org", "code_challenge_method": "s256", "code_challenge": "short" }),
            "code challenge has to be between 43 and 128 characters",
        ),
        (
            json!({ "email": "a@b.org", "code_challenge_method": "s256", "code_challenge": "!".repeat(43) }),
            "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes",
        ),
    ] {
        assert_error(&post(&server, "/recover", &body).await, 400, "validation_failed", message);
    }
    let empty = client(&server, Method::POST, "/recover").send().await.expect(400);
    assert_eq!(empty.header("x-sb-error-code"), "bad_json");

    let off = quick().config("auth.external_email_enabled", "false").start().await;
    for path in ["/recover", "/resend"] {
        let body = json!({ "type": "signup", "email": "nobody" });
        let response = post(&off, path, &body).await;
        assert_error(&response, 400, "email_provider_disabled", "Email logins are disabled");
    }
}

#[tokio::test]
async fn frequent_requests_send_one_mail_same_response() {
    let (server, email, nobody) = (confirming().await, fresh("ada"), fresh("nobody"));
    let _id = member(&server, &email).await;
    for _ in 0..3 {
        for address in [&email, &nobody] {
            let response = recover(&server, address).await.expect(200);
            assert_eq!((response.text(), response.header("retry-after")), ("{}".to_owned(), ""));
        }
    }
    assert_eq!(server.mailbox().mails(&email).await.len(), 1);
    assert_eq!(server.mailbox().mails(&nobody).await.len(), 0);
    let first = server.mailbox().wait_for(&email).await.token_hash();
    let _rows = server
        .sql(&format!(
            "update auth.users set recovery_sent_at = now() - interval '61 s' where email = '{email}'"
        ))
        .await;
    let _sent = recover(&server, &email).await.expect(200);
    let second = server.mailbox().wait_for(&email).await.token_hash();
    assert_ne!(first, second);
    let pending = server
        .sql(&format!(
            "select token_hash from auth.one_time_tokens where relates_to = '{email}' and token_type = 'recovery_token'"
        ))
        .await;
    assert_eq!(pending, [[Some(second)]]);
}

#[tokio::test]
async fn frequency_error_can_be_enabled() {
    let server = confirm_by_mail().config("auth.mailer_recovery_tells_frequency", "true").start().await;
    let _id = member(&server, "ada@example.org").await;
    let _sent = recover(&server, "ada@example.org").await.expect(200);
    let soon = recover(&server, "ada@example.org").await.expect(429);
    assert_eq!(soon.header("x-sb-error-code"), "over_email_send_rate_limit");
    let body = soon.json();
    let seconds = text(&body, "/message")
        .strip_prefix("For security purposes, you can only request this after ")
        .and_then(|rest| rest.strip_suffix(" seconds."))
        .and_then(|seconds| seconds.parse::<u64>().ok())
        .unwrap();
    assert!((50..=60).contains(&seconds), "{seconds}");
    assert_eq!(soon.header("retry-after"), seconds.to_string());
}

#[tokio::test]
async fn concurrent_requests_send_one_mail() {
    let (server, email) = (confirming().await, fresh("ada"));
    let _id = member(&server, &email).await;
    let requests = (0..12).map(|_| recover(&server, &email));
    for response in futures_util::future::join_all(requests).await {
        assert_eq!(response.expect(200).json(), json!({}));
    }
    assert_eq!(server.mailbox().mails(&email).await.len(), 1);
}

#[tokio::test]
async fn account_without_password_can_recover() {
    let (server, email) = (confirming().await, fresh("ada"));
    let _id = member(&server, &email).await;
    let _rows = server
        .sql(&format!(
            "update auth.users set encrypted_password = null, email_confirmed_at = null where email = '{email}'"
        ))
        .await;
    let _sent = recover(&server, &email).await.expect(200);
    assert_eq!(server.mailbox().wait_for(&email).await.subject, "Reset your password");
}

#[tokio::test]
async fn challenge_starts_a_flow() {
    let (server, email) = (confirming().await, fresh("ada"));
    let id = member(&server, &email).await;
    let body = json!({ "email": email, "code_challenge": CHALLENGE, "code_challenge_method": "S256" });
    let _sent = post(&server, "/recover", &body).await.expect(200);
    let mail = server.mailbox().wait_for(&email).await;
    assert!(mail.token_hash().starts_with("pkce_"), "{}", mail.link());
    let flow = server
        .sql(&format!(
            "select code_challenge, code_challenge_method, authentication_method, auth_code
             from auth.flow_state where user_id = '{id}'"
        ))
        .await;
    let expected = [Some(CHALLENGE), Some("s256"), Some("recovery"), None];
    assert_eq!(flow, [expected.map(|text| text.map(str::to_owned))]);
}

#[tokio::test]
async fn link_uses_an_allowed_redirect() {
    let server = confirm_by_mail()
        .config("auth.site_url", "https://app.example.org")
        .config("auth.uri_allow_list", "https://*.example.net/**")
        .expect_log("using site_url")
        .start()
        .await;
    let _id = member(&server, "ada@example.org").await;
    for (requested, used) in [
        ("https://a.example.net/reset", "https://a.example.net/reset"),
        ("https://evil.example.com/reset", "https://app.example.org"),
        ("", "https://app.example.org"),
    ] {
        let _rows = server.sql("update auth.users set recovery_sent_at = null").await;
        let path = format!("/recover?redirect_to={requested}");
        let _sent = post(&server, &path, &json!({ "email": "ada@example.org" })).await.expect(200);
        let link = server.mailbox().wait_for("ada@example.org").await.link();
        assert!(link.ends_with(&format!("&redirect_to={used}")), "{requested}: {link}");
    }
}

#[tokio::test]
async fn link_uses_the_allowed_forwarded_host() {
    let server = confirm_by_mail().config("auth.mailer_external_hosts", "auth.example.org").start().await;
    let _id = member(&server, "ada@example.org").await;
    for (host, base) in [
        ("auth.example.org", "https://auth.example.org/auth/v1/verify?".to_owned()),
        ("evil.example.com", server.url("/auth/v1/verify?")),
    ] {
        let _rows = server.sql("update auth.users set recovery_sent_at = null").await;
        let request = client(&server, Method::POST, "/recover").header("x-forwarded-host", host);
        let _sent = request.json(&json!({ "email": "ada@example.org" })).send().await.expect(200);
        let link = server.mailbox().wait_for("ada@example.org").await.link();
        assert!(link.starts_with(&base), "{link}");
    }
}

#[tokio::test]
async fn response_time_does_not_reveal_accounts() {
    let (server, email) = (confirming().await, fresh("ada"));
    let _id = member(&server, &email).await;
    let mut quickest = [Duration::MAX; 2];
    for round in 0.. {
        let _rows = server
            .sql(&format!("update auth.users set recovery_sent_at = null where email = '{email}'"))
            .await;
        for (address, quickest) in [email.clone(), fresh("nobody")].iter().zip(&mut quickest) {
            let started = Instant::now();
            let _answer = recover(&server, address).await.expect(200);
            *quickest = started.elapsed().min(*quickest);
        }
        // Work for an existing account takes milliseconds and fits into the padding of every response; a busy machine
        // may need a few rounds to show it.
        let [known, unknown] = quickest;
        assert!(known.min(unknown) >= Duration::from_millis(50), "{known:?} {unknown:?}");
        if round >= 7 && known.abs_diff(unknown) < Duration::from_millis(30) {
            break;
        }
        assert!(round < 60, "{known:?} {unknown:?}");
    }
}
