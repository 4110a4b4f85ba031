//! POST /invite (auth.md §3.12).

use super::mail_support::*;
use super::*;

async fn invite(server: &Basalt, body: &Value) -> Response {
    as_admin(server, Method::POST, "/invite").json(body).send().await
}

#[tokio::test]
async fn invitation_creates_account_without_password() {
    let server = confirm_by_mail().config("auth.disable_signup", "true").start().await;
    let body = json!({ "email": "Ada@Example.org", "data": { "team": "blue", "sub": "x" } });
    let user = invite(&server, &body).await.expect(200).json();
    assert_eq!(user["email"], "ada@example.org");
    assert_eq!(user["user_metadata"], json!({ "team": "blue", "sub": "x" }));
    assert_eq!(user["app_metadata"], json!({ "provider": "email", "providers": ["email"] }));
    assert_eq!(user["identities"][0]["identity_data"]["sub"], user["id"]);
    assert!(user.get("invited_at").is_some() && user.get("confirmation_sent_at").is_some(), "{user}");
    assert!(user.get("email_confirmed_at").is_none(), "{user}");

    let mail = server.mailbox().wait_for("ada@example.org").await;
    assert_eq!(mail.subject, "You've been invited");
    assert!(mail.link().contains("&type=invite&"), "{}", mail.link());
    let row = server
        .sql(
            "select confirmation_token, encrypted_password,
               (select payload->>'action' || ' by ' || (payload->>'actor_username') || ' of ' ||
                  (payload->'traits'->>'user_email') from auth.audit_log_entries)
             from auth.users",
        )
        .await;
    let audit = "user_invited by service_role of ada@example.org".to_owned();
    assert_eq!(row, [[Some(mail.token_hash()), None, Some(audit)]]);

    // Again within the minute: invitations have no frequency limit.
    let again = invite(&server, &json!({ "email": "ada@example.org", "data": { "team": "red" } }))
        .await
        .expect(200)
        .json();
    assert_eq!(again["id"], user["id"]);
    assert_eq!(again["user_metadata"]["team"], "blue");
    assert_ne!(server.mailbox().wait_for("ada@example.org").await.token_hash(), mail.token_hash());
}

#[tokio::test]
async fn sign_up_with_invited_address_hides_the_invitation() {
    let (server, email) = (confirming().await, fresh("ada"));
    let _user = invite(&server, &json!({ "email": email, "data": { "salary": 1 } })).await.expect(200);
    let body = json!({ "email": email, "password": "secret1" });
    let _soon = post(&server, "/signup", &body).await.expect(429);
    let _rows = server
        .sql(&format!("update auth.users set confirmation_sent_at = null where email = '{email}'"))
        .await;
    let user = post(&server, "/signup", &body).await.expect(200).json();
    assert_eq!((&user["user_metadata"], &user["identities"]), (&json!({}), &json!([])));
}

#[tokio::test]
async fn invalid_invitations_get_specific_errors() {
    let (server, email) = (confirming().await, fresh("ada"));
    let _id = member(&server, &email).await;
    for (body, status, code, message) in [
        (
            json!({ "email": email }),
            422,
            "email_exists",
            "A user with this email address has already been registered",
        ),
        (json!({}), 400, "validation_failed", "An email address is required"),
        (
            json!({ "email": "nobody" }),
            400,
            "validation_failed",
            "Unable to validate email address: invalid format",
        ),
    ] {
        assert_error(&invite(&server, &body).await, status, code, message);
    }
    let body = json!({ "email": "eve@example.org" });
    for path in ["/invite", "/admin/generate_link"] {
        let visitor = client(&server, Method::POST, path).bearer(server.anon_key()).json(&body).send().await;
        assert_error(&visitor, 403, "not_admin", "User not allowed");
        let token = token_of(&server, &email).await;
        let user = client(&server, Method::POST, path).bearer(&token).json(&body).send().await;
        assert_error(&user, 403, "not_admin", "User not allowed");
    }
    // Without a bearer, the gateway uses the anon key.
    let unsigned = client(&server, Method::POST, "/invite").bearer("x").json(&body).send().await.expect(403);
    assert_eq!(unsigned.header("x-sb-error-code"), "bad_jwt");
}
