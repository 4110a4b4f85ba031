//! POST /otp and POST /magiclink (auth.md §3.9).

use super::mail_support::*;
use super::*;

async fn otp(server: &Basalt, email: &str) -> Response {
    post(server, "/otp", &json!({ "email": email })).await
}

#[tokio::test]
async fn confirmed_user_gets_a_magic_link() {
    let (server, email) = (confirming().await, fresh("ada"));
    let id = member(&server, &email).await;
    let body = json!({
        "email": email.to_uppercase(), "create_user": false, "data": { "x": 1 },
        "gotrue_meta_security": { "captcha_token": "ignored" },
        "code_challenge": null, "code_challenge_method": null
    });
    assert_eq!(post(&server, "/otp", &body).await.expect(200).json(), json!({}));
    let mail = server.mailbox().wait_for(&email).await;
    assert_eq!(mail.subject, "Your sign-in link");
    assert!(mail.link().contains("&type=magiclink&"), "{}", mail.link());
    let row = server
        .sql(&format!(
            "select recovery_token, confirmation_token, raw_user_meta_data ? 'x' from auth.users where id = '{id}'"
        ))
        .await;
    assert_eq!(row, [[mail.token_hash(), String::new(), "f".to_owned()].map(Some)]);

    let soon = otp(&server, &email).await.expect(429);
    assert_eq!(soon.header("x-sb-error-code"), "over_email_send_rate_limit");
    // Recovery uses the same column, so the limit is shared.
    let _silent = post(&server, "/recover", &json!({ "email": email })).await.expect(200);
    assert_eq!(server.mailbox().mails(&email).await.len(), 1);
}

#[tokio::test]
async fn unknown_address_is_signed_up_and_confirmed_by_mail() {
    let (server, email) = (confirming().await, fresh("ada"));
    let body = json!({ "email": email, "data": { "name": "Ada" } });
    assert_eq!(post(&server, "/otp", &body).await.expect(200).json(), json!({}));
    let mail = server.mailbox().wait_for(&email).await;
    assert_eq!(mail.subject, "Confirm your email address");
    assert!(mail.link().contains("&type=signup&"), "{}", mail.link());
    let row = server
        .sql(&format!(
            "select u.confirmation_token, u.recovery_token, u.email_confirmed_at, u.raw_user_meta_data->>'name',
               u.encrypted_password like '$argon2id$v=19$m=%', i.identity_data->>'name',
               (select string_agg(payload->>'action', ' ') from auth.audit_log_entries
                where payload->>'actor_id' = u.id::text)
             from auth.users u join auth.identities i on i.user_id = u.id where u.email = '{email}'"
        ))
        .await;
    let hash = mail.token_hash();
    let expected = [
        Some(&*hash),
        Some(""),
        None,
        Some("Ada"),
        Some("t"),
        Some("Ada"),
        Some("user_confirmation_requested"),
    ];
    assert_eq!(row, [expected.map(|text| text.map(str::to_owned))]);
    // The user has no password.
    let _refused = sign_in(&server, &email, "").await.expect(400);

    let soon = otp(&server, &email).await.expect(429);
    assert!(text(&soon.json(), "/message").starts_with("For security purposes, "));
    let _rows = server
        .sql(&format!(
            "update auth.users set confirmation_sent_at = now() - interval '61 s' where email = '{email}'"
        ))
        .await;
    let _sent = otp(&server, &email).await.expect(200);
    assert_eq!(server.mailbox().wait_for(&email).await.subject, "Confirm your email address");
}

#[tokio::test]
async fn autoconfirm_confirms_and_sends_a_magic_link() {
    let (server, email) = (shared().await, fresh("ada"));
    for (expected, path) in [("created", "/otp"), ("known", "/magiclink")] {
        let _rows = server
            .sql(&format!("update auth.users set recovery_sent_at = null where email = '{email}'"))
            .await;
        let _sent = post(&server, path, &json!({ "email": email })).await.expect(200);
        let mail = server.mailbox().wait_for(&email).await;
        assert_eq!(mail.subject, "Your sign-in link", "{expected}");
    }
    let row = server
        .sql(&format!(
            "select email_confirmed_at is not null, last_sign_in_at is null,
               (select count(*) from auth.sessions s where s.user_id = u.id)
             from auth.users u where email = '{email}'"
        ))
        .await;
    assert_eq!(row, [["t", "t", "0"].map(|text| Some(text.to_owned()))]);
}

#[tokio::test]
async fn create_user_false_creates_no_account() {
    let (server, email) = (confirming().await, fresh("nobody"));
    let body = json!({ "email": email, "create_user": false });
    let refused = post(&server, "/otp", &body).await;
    assert_error(&refused, 422, "otp_disabled", "Signups not allowed for otp");
    // The older route always creates.
    let _sent = post(&server, "/magiclink", &body).await.expect(200);
    assert_eq!(server.mailbox().wait_for(&email).await.subject, "Confirm your email address");
}

#[tokio::test]
async fn checks_run_in_the_contract_order() {
    let server = confirming().await;
    let invalid = "validation_failed";
    for (body, message) in [
        (
            json!({ "email": "a@b.org", "phone": "1", "channel": "sms" }),
            "Only an email address or phone number should be provided",
        ),
        (
            json!({ "email": "a@b.org", "channel": "sms", "code_challenge": "x" }),
            "Channel should only be specified with Phone OTP",
        ),
        (
            json!({ "email": "nobody", "code_challenge": "x" }),
            "PKCE flow requires code_challenge_method and code_challenge",
        ),
        (json!({}), "One of email or phone must be set"),
        (json!({ "email": "", "phone": "" }), "One of email or phone must be set"),
        (json!({ "email": "nobody" }), "Unable to validate email address: invalid format"),
    ] {
        assert_error(&post(&server, "/otp", &body).await, 400, invalid, message);
    }
    let phone = json!({ "phone": "+49 151 2345" });
    assert_error(
        &post(&server, "/otp", &phone).await,
        400,
        "phone_provider_disabled",
        "Unsupported phone provider",
    );
    assert_error(
        &post(&server, "/magiclink", &phone).await,
        400,
        invalid,
        "One of email or phone must be set",
    );
}

#[tokio::test]
async fn disabled_methods_return_their_error() {
    let off = quick().config("auth.external_email_enabled", "false").start().await;
    let refused = otp(&off, "ada@example.org").await;
    assert_error(&refused, 422, "email_provider_disabled", "Email logins are disabled");

    let no_links = quick()
        .config("auth.external_email_magic_link_enabled", "false")
        .config("auth.external_phone_enabled", "true")
        .config("auth.sms_provider", "twilio")
        .start()
        .await;
    no_links.expect_log("missing Twilio account SID");
    for path in ["/otp", "/magiclink"] {
        let refused = post(&no_links, path, &json!({ "email": "nobody" })).await;
        assert_error(&refused, 422, "email_provider_disabled", "Login with magic link is disabled");
    }
    for (body, status, code, message) in [
        (json!({ "phone": "x" }), 400, "validation_failed", "Invalid phone number format (E.164 required)"),
        (
            json!({ "phone": "491512345", "create_user": false }),
            422,
            "otp_disabled",
            "Signups not allowed for otp",
        ),
        (
            json!({ "phone": "491512345" }),
            422,
            "sms_send_failed",
            "Error sending confirmation OTP to provider: missing Twilio account SID",
        ),
    ] {
        assert_error(&post(&no_links, "/otp", &body).await, status, code, message);
    }

    let mailbox = quick().config("auth.external_phone_enabled", "true").start().await;
    let refused = post(&mailbox, "/otp", &json!({ "phone": "491512345", "channel": "whatsapp" })).await;
    let message = "Invalid channel, supported values are 'sms' or 'whatsapp'. 'whatsapp' is only supported if Twilio or \
         Twilio Verify is used as the provider.";
    assert_error(&refused, 400, "validation_failed", message);
}

#[tokio::test]
async fn disabled_sign_up_still_admits_existing_users() {
    let server = confirm_by_mail().config("auth.disable_signup", "true").start().await;
    let _id = member(&server, "ada@example.org").await;
    let _sent = otp(&server, "ada@example.org").await.expect(200);
    assert_error(
        &otp(&server, "eve@example.org").await,
        422,
        "signup_disabled",
        "Signups not allowed for this instance",
    );
    assert_eq!(server.sql("select count(*) from auth.users").await, [[Some("1".to_owned())]]);
}

#[tokio::test]
async fn challenge_starts_a_flow_of_the_mail_kind() {
    let (server, known, unknown) = (confirming().await, fresh("ada"), fresh("eve"));
    let _id = member(&server, &known).await;
    for (email, method) in [(known, "magiclink"), (unknown, "email/signup")] {
        let body = json!({ "email": email, "code_challenge": CHALLENGE, "code_challenge_method": "plain" });
        let _sent = post(&server, "/otp", &body).await.expect(200);
        assert!(server.mailbox().wait_for(&email).await.token_hash().starts_with("pkce_"));
        let flow = server
            .sql(&format!(
                "select f.authentication_method, f.code_challenge_method from auth.flow_state f
                 join auth.users u on u.id = f.user_id where u.email = '{email}'"
            ))
            .await;
        assert_eq!(flow, [[method, "plain"].map(|text| Some(text.to_owned()))]);
    }
}

#[tokio::test]
async fn concurrent_requests_create_one_account_and_mail() {
    let (server, email) = (confirming().await, fresh("many"));
    let attempts = (0..8).map(|_| otp(&server, &email));
    let mut statuses: Vec<u16> = futures_util::future::join_all(attempts)
        .await
        .iter()
        .map(|response| response.status.as_u16())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200);
    assert_eq!(statuses[1..], [429; 7]);
    assert_eq!(server.mailbox().mails(&email).await.len(), 1);
}
