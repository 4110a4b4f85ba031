//! POST /token?grant_type=password (auth.md §3.5).

use super::*;

/// A user with the password `secret1` on the shared server.
async fn ada() -> (Arc<Basalt>, String) {
    let (server, email) = (shared().await, fresh("ada"));
    let _session =
        post(&server, "/signup", &json!({ "email": email, "password": "secret1" })).await.expect(200);
    (server, email)
}

/// Inserts a user as seeds do: the password `secret1` as bcrypt, NULL token columns, no identity.
async fn seed_user(server: &Basalt, email: &str) {
    let _rows = server
        .sql(&format!(
            "insert into auth.users (id, aud, role, email, encrypted_password, email_confirmed_at, created_at, updated_at)
             values (gen_random_uuid(), 'authenticated', 'authenticated', '{email}',
               extensions.crypt('secret1', extensions.gen_salt('bf', 6)), now(), now(), now())",
        ))
        .await;
}

#[tokio::test]
async fn correct_password_returns_a_session() {
    let (server, email) = ada().await;
    let response = sign_in(&server, &email.to_uppercase(), "secret1").await.expect(200);
    assert_eq!(response.header("cache-control"), "no-store");
    let session = response.json();
    assert_eq!(session["weak_password"], Value::Null);
    assert!(session.as_object().unwrap().contains_key("weak_password"));
    assert_eq!(text(&session, "/user/email"), email);
    let _user = get_user(&server, text(&session, "/access_token")).await.expect(200);
    let rows = server
        .sql(&format!(
            "select distinct host(ip), user_agent is not null, aal from auth.sessions where user_id = '{}'",
            text(&session, "/user/id")
        ))
        .await;
    assert_eq!(rows, [[Some("127.0.0.1".to_owned()), Some("t".to_owned()), Some("aal1".to_owned())]]);
}

#[tokio::test]
async fn unknown_wrong_and_missing_passwords_look_alike() {
    let (server, email) = ada().await;
    let mut bodies = Vec::new();
    for (email, password) in
        [(email.as_str(), "secret2"), (email.as_str(), ""), ("nobody@example.org", "secret1")]
    {
        let response = sign_in(&server, email, password).await;
        assert_error(&response, 400, "invalid_credentials", "Invalid login credentials");
        bodies.push(response.text());
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1);
    let _rows =
        server.sql(&format!("update auth.users set encrypted_password = null where email = '{email}'")).await;
    assert_error(
        &sign_in(&server, &email, "").await,
        400,
        "invalid_credentials",
        "Invalid login credentials",
    );
}

#[tokio::test]
async fn account_errors_require_the_password() {
    let (server, email) = ada().await;
    let _rows =
        server.sql(&format!("update auth.users set banned_until = 'infinity' where email = '{email}'")).await;
    assert_error(
        &sign_in(&server, &email, "secret2").await,
        400,
        "invalid_credentials",
        "Invalid login credentials",
    );
    assert_error(&sign_in(&server, &email, "secret1").await, 400, "user_banned", "User is banned");
    let _rows = server
        .sql(&format!(
            "update auth.users set banned_until = now() - interval '1 second' where email = '{email}'"
        ))
        .await;
    let _session = sign_in(&server, &email, "secret1").await.expect(200);
}

#[tokio::test]
async fn rejects_zero_or_two_identifiers() {
    let server = quick().config("auth.external_email_enabled", "false").start().await;
    for (path, body, status, code, message) in [
        (
            "/token?grant_type=password",
            json!({ "email": "a", "phone": "1", "password": "x" }),
            400,
            "validation_failed",
            "Only an email address or phone number should be provided on login.",
        ),
        (
            "/token?grant_type=password",
            json!({ "email": "a", "password": "x" }),
            422,
            "email_provider_disabled",
            "Email logins are disabled",
        ),
        (
            "/token?grant_type=password",
            json!({ "phone": "1", "password": "x" }),
            422,
            "phone_provider_disabled",
            "Phone logins are disabled",
        ),
        (
            "/token?grant_type=password",
            json!({ "password": "x" }),
            400,
            "validation_failed",
            "missing email or phone",
        ),
        ("/token", json!({}), 400, "invalid_credentials", "unsupported_grant_type"),
        ("/token?grant_type=magic", json!({}), 400, "invalid_credentials", "unsupported_grant_type"),
    ] {
        assert_error(&post(&server, path, &body).await, status, code, message);
    }
}

#[tokio::test]
async fn seeded_users_are_rehashed_at_sign_in() {
    let server = shared().await;
    seed_user(&server, "Seed@example.org").await;
    let session = sign_in(&server, "seed@example.org", "secret1").await.expect(200).json();
    assert_eq!(session["user"]["user_metadata"], json!({}));
    assert_eq!(session["user"]["app_metadata"], json!({}));
    assert_eq!(session["user"]["identities"], json!([]));
    let rows = server
        .sql("select encrypted_password like '$argon2id$%' from auth.users where email = 'Seed@example.org'")
        .await;
    assert_eq!(rows, [[Some("t".to_owned())]]);
    let _again = sign_in(&server, "seed@example.org", "secret1").await.expect(200);
    assert_error(
        &sign_in(&server, "seed@example.org", "secret2").await,
        400,
        "invalid_credentials",
        "Invalid login credentials",
    );
}

#[tokio::test]
async fn simultaneous_sign_ins_survive_a_rehash() {
    let server = shared().await;
    seed_user(&server, "tabs@example.org").await;
    // Each verifies the seeded hash; the first to finish replaces it.
    let sign_ins = (0..4).map(|_| sign_in(&server, "tabs@example.org", "secret1"));
    for response in futures_util::future::join_all(sign_ins).await {
        let _session = response.expect(200);
    }
}

#[tokio::test]
async fn weak_password_signs_in_with_a_warning() {
    let server = quick().config("auth.password_required_characters", "abc:123").start().await;
    let _session = post(&server, "/signup", &json!({ "email": "ada@example.org", "password": "aaaaa1" }))
        .await
        .expect(200);
    // bcrypt of `zzzzzz`
    let _rows = server
        .sql("update auth.users set encrypted_password = extensions.crypt('zzzzzz', extensions.gen_salt('bf', 4))")
        .await;
    let session = sign_in(&server, "ada@example.org", "zzzzzz").await.expect(200).json();
    assert_eq!(
        session["weak_password"],
        json!({
            "message": "Password should contain at least one character of each: abc, 123.",
            "reasons": ["characters"]
        })
    );
}

#[tokio::test]
async fn burst_is_limited_with_retry_after() {
    let server = Basalt::builder().config("auth.password_argon2_memory", "64").start().await;
    for _ in 0..30 {
        let _refused = post(&server, "/token", &json!({})).await.expect(400);
    }
    let limited = post(&server, "/token", &json!({})).await;
    assert_error(&limited, 429, "over_request_rate_limit", "Request rate limit reached");
    let seconds: u64 = limited.header("retry-after").parse().unwrap();
    assert!((1..=3).contains(&seconds), "{seconds}");
    // Other routes have their own bucket.
    let _refused = post(&server, "/signup", &json!({ "email": "a" })).await.expect(400);
}
