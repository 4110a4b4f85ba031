//! PUT /user with a new address (auth.md §3.7), and how a password change affects it. Confirmation is tested in
//! verify_email_change.rs.

use super::mail_support::*;
use super::*;

/// `email_change`, the two tokens and the status.
async fn pending(server: &Basalt, email: &str) -> [String; 4] {
    let rows = server
        .sql(&format!(
            "select email_change, email_change_token_current, email_change_token_new, email_change_confirm_status
             from auth.users where email = '{email}'"
        ))
        .await;
    let row: Vec<String> = rows[0].iter().map(|value| value.clone().unwrap_or_default()).collect();
    row.try_into().unwrap()
}

#[tokio::test]
async fn both_addresses_get_their_own_code() {
    let (server, email, new_email) = (confirming().await, fresh("ada"), fresh("new"));
    let _id = member(&server, &email).await;
    let token = token_of(&server, &email).await;
    let change = json!({ "email": new_email.to_uppercase(), "data": { "a": 1 } });
    let user = put_user(&server, &token, &change).await.expect(200).json();
    assert_eq!((&user["email"], &user["new_email"]), (&json!(email), &json!(new_email)));
    assert_eq!(user["user_metadata"]["a"], 1);
    assert!(user.get("email_change_sent_at").is_some(), "{user}");

    let current = server.mailbox().wait_for(&email).await;
    let new = server.mailbox().wait_for(&new_email).await;
    assert_eq!([&*current.subject, &*new.subject], ["Confirm your new email address"; 2]);
    for mail in [&current, &new] {
        assert!(mail.link().contains("&type=email_change&"), "{}", mail.link());
    }
    let expected = [&*new_email, &current.token_hash(), &new.token_hash(), "0"].map(str::to_owned);
    assert_eq!(pending(&server, &email).await, expected);
    assert_ne!(current.token_hash(), new.token_hash());

    let again = put_user(&server, &token, &json!({ "email": fresh("other"), "data": { "a": 2 } })).await;
    assert_eq!(again.status, 429);
    assert_eq!(again.header("x-sb-error-code"), "over_email_send_rate_limit");
    // The whole change is rejected.
    assert_eq!(get_user(&server, &token).await.expect(200).json()["user_metadata"]["a"], 1);
}

#[tokio::test]
async fn only_new_address_is_asked_without_secure_change() {
    let server = confirm_by_mail().config("auth.mailer_secure_email_change_enabled", "false").start().await;
    let _id = member(&server, "ada@example.org").await;
    let token = token_of(&server, "ada@example.org").await;
    let _user = put_user(&server, &token, &json!({ "email": "new@example.org" })).await.expect(200);
    assert_eq!(server.mailbox().mails("ada@example.org").await.len(), 0);
    let new = server.mailbox().wait_for("new@example.org").await;
    let expected = ["new@example.org", "", &new.token_hash(), "0"].map(str::to_owned);
    assert_eq!(pending(&server, "ada@example.org").await, expected);
}

#[tokio::test]
async fn autoconfirm_still_asks_both_addresses() {
    let (server, email, new_email) = (shared().await, fresh("ada"), fresh("new"));
    let _id = member(&server, &email).await;
    let token = token_of(&server, &email).await;
    let user = put_user(&server, &token, &json!({ "email": new_email })).await.expect(200).json();
    assert_eq!(user["email"], *email);
    for address in [&email, &new_email] {
        assert_eq!(server.mailbox().mails(address).await.len(), 1);
    }
}

#[tokio::test]
async fn anonymous_user_becomes_permanent_by_mail() {
    let server = confirm_by_mail().config("auth.external_anonymous_users_enabled", "true").start().await;
    let session = post(&server, "/signup", &json!({ "data": {} })).await.expect(200).json();
    let token = text(&session, "/access_token");
    let change = json!({ "email": "ada@example.org", "password": "secret1" });
    let user = put_user(&server, token, &change).await.expect(200).json();
    assert_eq!((&user["email"], &user["new_email"]), (&json!(""), &json!("ada@example.org")));
    assert_eq!(user["is_anonymous"], true);
    let mail = server.mailbox().wait_for("ada@example.org").await;
    let row = server.sql("select email_change_token_new, email_change_token_current from auth.users").await;
    assert_eq!(row, [[Some(mail.token_hash()), Some(String::new())]]);
}

#[tokio::test]
async fn challenge_starts_a_flow_unless_invalid() {
    let (server, email, new_email) = (confirming().await, fresh("ada"), fresh("new"));
    let id = member(&server, &email).await;
    let token = token_of(&server, &email).await;
    let bad = json!({ "email": new_email, "password": "12345", "code_challenge": "x" });
    assert_error(
        &put_user(&server, &token, &bad).await,
        400,
        "validation_failed",
        "PKCE flow requires code_challenge_method and code_challenge",
    );
    let change = json!({ "email": new_email, "code_challenge": CHALLENGE, "code_challenge_method": "s256" });
    let _user = put_user(&server, &token, &change).await.expect(200);
    for address in [&email, &new_email] {
        assert!(server.mailbox().wait_for(address).await.token_hash().starts_with("pkce_"));
    }
    let flow = server
        .sql(&format!("select authentication_method from auth.flow_state where user_id = '{id}'"))
        .await;
    assert_eq!(flow, [[Some("email_change".to_owned())]]);
}

#[tokio::test]
async fn new_password_invalidates_pending_codes() {
    let (server, email, new_email) = (confirming().await, fresh("ada"), fresh("new"));
    let id = member(&server, &email).await;
    let token = token_of(&server, &email).await;
    let _user = put_user(&server, &token, &json!({ "email": new_email })).await.expect(200);
    let _sent = post(&server, "/recover", &json!({ "email": email })).await.expect(200);
    let _user = put_user(&server, &token, &json!({ "password": "secret2" })).await.expect(200);
    let left = server
        .sql(&format!(
            "select (select count(*) from auth.one_time_tokens where user_id = u.id), recovery_token,
               email_change_token_current, email_change_token_new
             from auth.users u where id = '{id}'"
        ))
        .await;
    assert_eq!(left, [["0", "", "", ""].map(|text| Some(text.to_owned()))]);
    // A request that changes both keeps the new codes.
    let _rows =
        server.sql(&format!("update auth.users set email_change_sent_at = null where id = '{id}'")).await;
    let both = json!({ "password": "secret3", "email": new_email });
    let _user = put_user(&server, &token, &both).await.expect(200);
    let codes =
        server.sql(&format!("select count(*) from auth.one_time_tokens where user_id = '{id}'")).await;
    assert_eq!(codes, [[Some("2".to_owned())]]);
}

#[tokio::test]
async fn enabled_notifications_are_sent() {
    let on =
        confirm_by_mail().config("auth.mailer_notifications_password_changed_enabled", "true").start().await;
    for (server, mails) in [(&*confirming().await, 0), (&on, 1)] {
        let email = fresh("ada");
        let _id = member(server, &email).await;
        let token = token_of(server, &email).await;
        let _user = put_user(server, &token, &json!({ "password": "secret2" })).await.expect(200);
        let got = server.mailbox().mails(&email).await;
        assert_eq!(got.len(), mails);
        assert!(got.iter().all(|mail| mail.subject == "Your password was changed"));
    }
}

#[tokio::test]
async fn old_address_is_notified_if_enabled() {
    let server = confirm_by_mail()
        .config("auth.mailer_secure_email_change_enabled", "false")
        .config("auth.mailer_notifications_email_changed_enabled", "true")
        .start()
        .await;
    let _id = member(&server, "ada@example.org").await;
    let token = token_of(&server, "ada@example.org").await;
    let _user = put_user(&server, &token, &json!({ "email": "new@example.org" })).await.expect(200);
    assert_eq!(server.mailbox().mails("ada@example.org").await.len(), 0);
    let link = server.mailbox().wait_for("new@example.org").await.link_path();
    let _redirect = server.get(&link).send().await.expect(303);
    let notice = server.mailbox().wait_for("ada@example.org").await;
    assert_eq!(notice.subject, "Your email address was changed");
    assert_eq!(get_user(&server, &token).await.expect(200).json()["email"], "new@example.org");
}
