//! POST /admin/generate_link (auth.md §3.12).

use super::mail_support::*;
use super::*;

async fn generate(server: &Basalt, body: &Value) -> Response {
    as_admin(server, Method::POST, "/admin/generate_link").json(body).send().await
}

/// The hash that is stored for a code.
async fn hash_of(server: &Basalt, address: &str, code: &str) -> String {
    let sql = format!("select encode(sha224('{address}{code}'), 'hex')");
    server.sql(&sql).await[0][0].clone().unwrap()
}

async fn column(server: &Basalt, email: &str, column: &str) -> String {
    let sql = format!("select coalesce({column}::text, '') from auth.users where email = '{email}'");
    server.sql(&sql).await[0][0].clone().unwrap()
}

#[tokio::test]
async fn link_comes_with_user_code_and_hash() {
    let (server, email) = (confirming().await, fresh("ada"));
    let id = member(&server, &email).await;
    for kind in ["magiclink", "recovery"] {
        // Mail limits do not apply.
        let body = json!({ "type": kind, "email": email.to_uppercase() });
        let link = generate(&server, &body).await.expect(200).json();
        assert_eq!(link["id"], *id);
        assert_eq!(link["verification_type"], kind);
        assert!(link.get("recovery_sent_at").is_some(), "{link}");
        let hash = hash_of(&server, &email, text(&link, "/email_otp")).await;
        assert_eq!(link["hashed_token"], *hash);
        assert_eq!(column(&server, &email, "recovery_token").await, hash);
        let target = text(&link, "/redirect_to");
        let action = format!("/auth/v1/verify?token={hash}&type={kind}&redirect_to={target}");
        assert!(text(&link, "/action_link").ends_with(&action), "{link}");
        assert!(text(&link, "/action_link").starts_with("http"), "{link}");
    }
    assert_eq!(server.mailbox().mails(&email).await.len(), 0);
}

#[tokio::test]
async fn sign_up_link_creates_or_confirms_an_account() {
    let (server, email) = (confirming().await, fresh("ada"));
    let body = |password: &str, team: &str| json!({ "type": "signup", "email": email, "password": password, "data": { "team": team } });
    assert_error(
        &generate(&server, &body("", "x")).await,
        400,
        "validation_failed",
        "Signup requires a valid password",
    );
    assert_error(
        &generate(&server, &body(&"x".repeat(73), "x")).await,
        400,
        "validation_failed",
        "Password cannot be longer than 72 characters",
    );
    let weak = generate(&server, &body("12345", "x")).await.expect(422);
    assert_eq!(weak.header("x-sb-error-code"), "weak_password");

    let link = generate(&server, &body("secret1", "blue")).await.expect(200).json();
    assert_eq!(link["verification_type"], "signup");
    assert_eq!(link["user_metadata"], json!({ "team": "blue" }));
    assert_eq!(link["identities"].as_array().unwrap().len(), 1);
    assert!(link.get("confirmation_sent_at").is_some() && link.get("email_confirmed_at").is_none(), "{link}");
    let hash = hash_of(&server, &email, text(&link, "/email_otp")).await;
    assert_eq!(link["hashed_token"], *hash);
    assert_eq!(column(&server, &email, "confirmation_token").await, hash);
    let refused = sign_in(&server, &email, "secret1").await;
    assert_error(&refused, 400, "email_not_confirmed", "Email not confirmed");

    let again = generate(&server, &body("", "red")).await.expect(200).json();
    assert_eq!((&again["id"], &again["user_metadata"]), (&link["id"], &json!({ "team": "red" })));
    let _rows = server
        .sql(&format!("update auth.users set email_confirmed_at = now() where email = '{email}'"))
        .await;
    for kind in ["signup", "invite"] {
        let body = json!({ "type": kind, "email": email, "password": "secret1" });
        assert_error(
            &generate(&server, &body).await,
            422,
            "email_exists",
            "A user with this email address has already been registered",
        );
    }
    let _session = sign_in(&server, &email, "secret1").await.expect(200);
}

#[tokio::test]
async fn magic_link_for_unknown_address_signs_up() {
    let server = confirm_by_mail().config("auth.disable_signup", "true").start().await;
    let body = json!({ "type": "magiclink", "email": "ada@example.org", "data": { "a": 1 } });
    let link = generate(&server, &body).await.expect(200).json();
    assert_eq!(link["verification_type"], "signup");
    assert!(text(&link, "/action_link").contains("&type=signup&"), "{link}");
    assert_eq!(link["user_metadata"], json!({ "a": 1 }));
    let hash = column(&server, "ada@example.org", "encrypted_password").await;
    assert!(hash.starts_with("$argon2id$"), "{hash}");
}

#[tokio::test]
async fn returns_the_link_of_an_invitation() {
    let (server, email) = (confirming().await, fresh("ada"));
    let body = json!({ "type": "invite", "email": email, "data": { "team": "blue" } });
    let link = generate(&server, &body).await.expect(200).json();
    assert_eq!(link["verification_type"], "invite");
    assert!(link.get("invited_at").is_some(), "{link}");
    assert_eq!(column(&server, &email, "confirmation_token").await, text(&link, "/hashed_token"));
    assert_eq!(column(&server, &email, "encrypted_password").await, "");
    assert_eq!(server.mailbox().mails(&email).await.len(), 0);
}

#[tokio::test]
async fn email_change_links_verify_their_own_address() {
    let (server, email, new_email) = (confirming().await, fresh("ada"), fresh("new"));
    let _id = member(&server, &email).await;
    let mut hashes = Vec::new();
    for (kind, address, token) in [
        ("email_change_current", &email, "email_change_token_current"),
        ("email_change_new", &new_email, "email_change_token_new"),
    ] {
        let body = json!({ "type": kind, "email": email, "new_email": new_email.to_uppercase() });
        let link = generate(&server, &body).await.expect(200).json();
        assert_eq!(link["verification_type"], kind);
        assert_eq!(link["new_email"], *new_email);
        assert!(text(&link, "/action_link").contains("&type=email_change&"), "{link}");
        let hash = hash_of(&server, address, text(&link, "/email_otp")).await;
        assert_eq!(link["hashed_token"], *hash, "{kind}");
        assert_eq!(column(&server, &email, token).await, hash);
        hashes.push(hash);
    }
    // The second link did not void the first.
    assert_eq!(column(&server, &email, "email_change_token_current").await, hashes[0]);
    // A change to another address voids both.
    let other = json!({ "type": "email_change_new", "email": email, "new_email": fresh("other") });
    let _link = generate(&server, &other).await.expect(200);
    assert_eq!(column(&server, &email, "email_change_token_current").await, "");
}

#[tokio::test]
async fn invalid_requests_get_specific_errors() {
    let (server, email, other) = (confirming().await, fresh("ada"), fresh("eve"));
    let _id = member(&server, &email).await;
    let _id = member(&server, &other).await;
    let nobody = fresh("nobody");
    let (invalid, exists) =
        ("validation_failed", "A user with this email address has already been registered");
    for (body, status, code, message) in [
        (
            json!({ "type": "sms", "email": email }),
            400,
            invalid,
            "Invalid email action link type requested: sms",
        ),
        (json!({ "email": nobody }), 400, invalid, "Invalid email action link type requested: "),
        (json!({ "type": "signup" }), 400, invalid, "An email address is required"),
        (
            json!({ "type": "signup", "email": "nobody" }),
            400,
            invalid,
            "Unable to validate email address: invalid format",
        ),
        (
            json!({ "type": "recovery", "email": nobody }),
            404,
            "user_not_found",
            "User with this email not found",
        ),
        (
            json!({ "type": "email_change_new", "email": nobody, "new_email": email }),
            404,
            "user_not_found",
            "User with this email not found",
        ),
        (
            json!({ "type": "email_change_current", "email": email }),
            400,
            invalid,
            "An email address is required",
        ),
        (
            json!({ "type": "email_change_current", "email": email, "new_email": other }),
            422,
            "email_exists",
            exists,
        ),
    ] {
        assert_error(&generate(&server, &body).await, status, code, message);
    }
    let single = confirm_by_mail().config("auth.mailer_secure_email_change_enabled", "false").start().await;
    let _id = member(&single, "ada@example.org").await;
    let body =
        |kind: &str| json!({ "type": kind, "email": "ada@example.org", "new_email": "new@example.org" });
    assert_error(
        &generate(&single, &body("email_change_current")).await,
        400,
        invalid,
        "Enable secure email change to generate link for current email",
    );
    let _link = generate(&single, &body("email_change_new")).await.expect(200);
}

#[tokio::test]
async fn body_redirect_takes_precedence_over_query() {
    let server = confirm_by_mail()
        .config("auth.site_url", "https://app.example.org")
        .config("auth.uri_allow_list", "https://*.example.net/**")
        .expect_log("using site_url")
        .start()
        .await;
    let _id = member(&server, "ada@example.org").await;
    let path = "/admin/generate_link?redirect_to=https://b.example.net/q";
    for (in_body, given) in [
        ("https://a.example.net/x", "https://a.example.net/x"),
        ("https://evil.example.com/x", "https://b.example.net/q"),
        ("", "https://b.example.net/q"),
    ] {
        let body = json!({ "type": "recovery", "email": "ada@example.org", "redirect_to": in_body });
        let link = as_admin(&server, Method::POST, path).json(&body).send().await.expect(200).json();
        assert_eq!(link["redirect_to"], given);
        assert!(text(&link, "/action_link").ends_with(&format!("&redirect_to={given}")), "{link}");
    }
}
