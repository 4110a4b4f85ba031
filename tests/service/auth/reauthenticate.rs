//! GET /reauthenticate, and the nonce in PUT /user (auth.md §3.7, §3.8).

use super::mail_support::*;
use super::*;

async fn reauthenticate(server: &Basalt, token: &str) -> Response {
    client(server, Method::GET, "/reauthenticate").bearer(token).send().await
}

#[tokio::test]
async fn nonce_sets_a_password_once() {
    let server = confirm_by_mail()
        .config("auth.security_update_password_require_reauthentication", "true")
        .start()
        .await;
    let _id = member(&server, "ada@example.org").await;
    let token = token_of(&server, "ada@example.org").await;
    let _rows = server.sql("update auth.sessions set created_at = now() - interval '25 hours'").await;
    let change = |password: &str, nonce: &str| json!({ "password": password, "nonce": nonce });
    assert_error(
        &put_user(&server, &token, &change("secret2", "")).await,
        400,
        "reauthentication_needed",
        "Password update requires reauthentication",
    );
    // Only password changes require it.
    let _user = put_user(&server, &token, &json!({ "data": { "a": 1 } })).await.expect(200);
    let (code, message) = ("reauthentication_not_valid", "Nonce has expired or is invalid");
    assert_error(&put_user(&server, &token, &change("secret2", "000000")).await, 422, code, message);

    assert_eq!(reauthenticate(&server, &token).await.expect(200).json(), json!({}));
    let mail = server.mailbox().wait_for("ada@example.org").await;
    let nonce = mail.code();
    assert_eq!(mail.subject, format!("{nonce} is your verification code"));
    let stored = server
        .sql(&format!(
            "select reauthentication_token = encode(sha224('ada@example.org{nonce}'), 'hex') from auth.users"
        ))
        .await;
    assert_eq!(stored, [[Some("t".to_owned())]]);
    let soon = reauthenticate(&server, &token).await.expect(429);
    assert_eq!(soon.header("x-sb-error-code"), "over_email_send_rate_limit");

    // A rejected password does not use up the nonce.
    let same = put_user(&server, &token, &change("secret1", &nonce)).await;
    assert_error(&same, 422, "same_password", "New password should be different from the old password.");
    let _user = put_user(&server, &token, &change("secret2", &nonce)).await.expect(200);
    assert_error(&put_user(&server, &token, &change("secret3", &nonce)).await, 422, code, message);
    let _session = sign_in(&server, "ada@example.org", "secret2").await.expect(200);
    let audit = server
        .sql("select count(*) from auth.audit_log_entries where payload->>'action' = 'user_reauthenticate_requested'")
        .await;
    assert_eq!(audit, [[Some("1".to_owned())]]);
}

#[tokio::test]
async fn concurrent_changes_use_a_nonce_once() {
    let server = confirm_by_mail()
        .config("auth.security_update_password_require_reauthentication", "true")
        .start()
        .await;
    let _id = member(&server, "ada@example.org").await;
    let token = token_of(&server, "ada@example.org").await;
    let _rows = server.sql("update auth.sessions set created_at = now() - interval '25 hours'").await;
    let _sent = reauthenticate(&server, &token).await.expect(200);
    let nonce = server.mailbox().wait_for("ada@example.org").await.code();
    let changes: Vec<Value> =
        (0..8).map(|number| json!({ "password": format!("another{number}"), "nonce": nonce })).collect();
    let responses =
        futures_util::future::join_all(changes.iter().map(|change| put_user(&server, &token, change))).await;
    let mut statuses: Vec<u16> = responses.iter().map(|response| response.status.as_u16()).collect();
    let winner = statuses.iter().position(|status| *status == 200).unwrap();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422, 422, 422, 422, 422, 422, 422]);
    let _session = sign_in(&server, "ada@example.org", &format!("another{winner}")).await.expect(200);
}

#[tokio::test]
async fn expired_nonce_is_rejected() {
    let server = confirm_by_mail()
        .config("auth.security_update_password_require_reauthentication", "true")
        .config("auth.mailer_otp_exp", "60")
        .start()
        .await;
    let _id = member(&server, "ada@example.org").await;
    let token = token_of(&server, "ada@example.org").await;
    let _sent = reauthenticate(&server, &token).await.expect(200);
    let nonce = server.mailbox().wait_for("ada@example.org").await.code();
    let _rows = server
        .sql(
            "update auth.sessions set created_at = now() - interval '25 hours';
             update auth.users set reauthentication_sent_at = now() - interval '61 s'",
        )
        .await;
    assert_error(
        &put_user(&server, &token, &json!({ "password": "secret2", "nonce": nonce })).await,
        422,
        "reauthentication_not_valid",
        "Nonce has expired or is invalid",
    );
}

#[tokio::test]
async fn unconfirmed_address_gets_no_nonce() {
    let server = confirm_by_mail().config("auth.external_anonymous_users_enabled", "true").start().await;
    let _id = member(&server, "ada@example.org").await;
    let token = token_of(&server, "ada@example.org").await;
    let _rows = server.sql("update auth.users set email_confirmed_at = null").await;
    let refused = reauthenticate(&server, &token).await;
    assert_error(&refused, 422, "email_not_confirmed", "Please verify your email first.");
    let _rows = server.sql("update auth.users set email = null, phone = '491512345'").await;
    let refused = reauthenticate(&server, &token).await;
    assert_error(&refused, 422, "phone_not_confirmed", "Please verify your phone first.");
    let anonymous = post(&server, "/signup", &json!({ "data": {} })).await.expect(200).json();
    assert_error(
        &reauthenticate(&server, text(&anonymous, "/access_token")).await,
        400,
        "validation_failed",
        "Reauthentication requires the user to have an email or a phone number",
    );
    let visitor = client(&server, Method::GET, "/reauthenticate").send().await;
    assert_error(&visitor, 403, "bad_jwt", "invalid claim: missing sub claim");
}
