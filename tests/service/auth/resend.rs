//! POST /resend (auth.md §3.9).

use super::mail_support::*;
use super::*;

async fn resend(server: &Basalt, kind: &str, email: &str) -> Response {
    post(server, "/resend", &json!({ "type": kind, "email": email })).await
}

#[tokio::test]
async fn resends_a_confirmation() {
    let (server, email) = (confirming().await, fresh("ada"));
    let body = json!({ "email": email, "password": "secret1" });
    let _user = post(&server, "/signup", &body).await.expect(200);
    let first = server.mailbox().wait_for(&email).await;
    let soon = resend(&server, "signup", &email).await.expect(429);
    assert_eq!(soon.header("x-sb-error-code"), "over_email_send_rate_limit");
    let _rows = server
        .sql(&format!(
            "update auth.users set confirmation_sent_at = now() - interval '61 s' where email = '{email}'"
        ))
        .await;
    let body = json!({
        "type": "signup", "email": email.to_uppercase(), "gotrue_meta_security": { "captcha_token": "ignored" }
    });
    assert_eq!(post(&server, "/resend", &body).await.expect(200).json(), json!({}));
    let second = server.mailbox().wait_for(&email).await;
    assert_eq!(second.subject, "Confirm your email address");
    assert_ne!(first.token_hash(), second.token_hash());
    let row = server.sql(&format!("select confirmation_token from auth.users where email = '{email}'")).await;
    assert_eq!(row, [[Some(second.token_hash())]]);
}

#[tokio::test]
async fn email_change_is_found_by_current_address() {
    let (server, email, new_email) = (confirming().await, fresh("ada"), fresh("new"));
    let _id = member(&server, &email).await;
    let token = token_of(&server, &email).await;
    let _user = put_user(&server, &token, &json!({ "email": new_email })).await.expect(200);
    let first = server.mailbox().wait_for(&new_email).await;
    let _soon = resend(&server, "email_change", &email).await.expect(429);
    let _rows = server
        .sql(&format!(
            "update auth.users set email_change_sent_at = now() - interval '61 s' where email = '{email}'"
        ))
        .await;
    // The new address has no account yet.
    let _nothing = resend(&server, "email_change", &new_email).await.expect(200);
    assert_eq!(server.mailbox().mails(&new_email).await.len(), 1);
    let _sent = resend(&server, "email_change", &email).await.expect(200);
    let second = server.mailbox().wait_for(&new_email).await;
    assert_ne!(first.token_hash(), second.token_hash());
    assert_eq!(server.mailbox().mails(&email).await.len(), 2);
}

#[tokio::test]
async fn nothing_pending_gets_the_same_response() {
    let (server, email, nobody) = (confirming().await, fresh("ada"), fresh("nobody"));
    let _id = member(&server, &email).await;
    for address in [&email, &nobody] {
        for kind in ["signup", "email_change", "phone_change"] {
            assert_eq!(resend(&server, kind, address).await.expect(200).json(), json!({}));
        }
        assert_eq!(server.mailbox().mails(address).await.len(), 0);
    }
}

#[tokio::test]
async fn checks_run_in_the_contract_order() {
    let server = confirming().await;
    let types = "Missing one of these types: signup, email_change, sms, phone_change";
    for (body, message) in [
        (json!({}), types),
        (json!({ "type": "recovery", "email": "a@b.org" }), types),
        (json!({ "type": "magiclink" }), types),
        (json!({ "type": "signup", "phone": "1" }), "Type provided requires an email address"),
        (json!({ "type": "sms", "email": "a@b.org" }), "Type provided requires a phone number"),
        (
            json!({ "type": "email_change", "email": "nobody", "phone": "1" }),
            "Only an email address or phone number should be provided.",
        ),
        (json!({ "type": "email_change" }), "Missing email address or phone number"),
        (json!({ "type": "signup", "email": "nobody" }), "Unable to validate email address: invalid format"),
        (
            json!({ "type": "signup", "email": "a@b.org", "code_challenge": "x" }),
            "PKCE flow requires code_challenge_method and code_challenge",
        ),
    ] {
        assert_error(&post(&server, "/resend", &body).await, 400, "validation_failed", message);
    }
    assert_error(
        &post(&server, "/resend", &json!({ "type": "sms", "phone": "491512345" })).await,
        400,
        "phone_provider_disabled",
        "Phone logins are disabled",
    );
}

#[tokio::test]
async fn resends_sms_only_to_unconfirmed_numbers() {
    let server = confirm_by_mail().config("auth.external_phone_enabled", "true").start().await;
    let unknown = json!({ "type": "sms", "phone": "491512345" });
    assert_eq!(post(&server, "/resend", &unknown).await.expect(200).json(), json!({}));
    let admin = json!({ "phone": "491512345" });
    let _user = as_admin(&server, Method::POST, "/admin/users").json(&admin).send().await.expect(200);
    assert_eq!(post(&server, "/resend", &unknown).await.expect(200).json(), json!({}));
    let mail = server.mailbox().wait_for("+491512345").await;
    assert!(mail.text.starts_with("Your code is "), "{}", mail.text);
    let _rows = server.sql("update auth.users set phone_confirmed_at = now()").await;
    assert_eq!(post(&server, "/resend", &unknown).await.expect(200).json(), json!({}));
    assert_eq!(server.database().count("basalt.mail_outbox").await, 1);
}
