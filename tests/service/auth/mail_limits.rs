//! Limits on mails, and authorised recipients (auth.md §3.19, §3.21).

use super::mail_support::*;
use super::*;

#[tokio::test]
async fn server_limit_counts_sent_mails() {
    let server = confirm_by_mail().config("auth.rate_limit_email_sent", "3/1h").start().await;
    for name in ["ada", "bob"] {
        let _id = member(&server, &format!("{name}@example.org")).await;
    }
    let token = token_of(&server, "ada@example.org").await;
    // A request for an unknown address sends nothing and does not count.
    for _ in 0..5 {
        let body = json!({ "email": "nobody@example.org" });
        let _answer = post(&server, "/recover", &body).await.expect(200);
    }
    let _sent = post(&server, "/recover", &json!({ "email": "ada@example.org" })).await.expect(200);
    // An address change costs two; if the second is over the limit, the first is refunded.
    let _user = put_user(&server, &token, &json!({ "email": "new@example.org" })).await.expect(200);
    let (code, message) = ("over_email_send_rate_limit", "email rate limit exceeded");
    for (path, body) in [
        ("/recover", json!({ "email": "bob@example.org" })),
        ("/recover", json!({ "email": "nobody@example.org" })),
        ("/otp", json!({ "email": "bob@example.org" })),
        ("/magiclink", json!({ "email": "nobody@example.org" })),
        ("/resend", json!({ "email": "nobody@example.org", "type": "signup" })),
        ("/signup", json!({ "email": "eve@example.org", "password": "secret1" })),
        ("/signup", json!({ "email": "ada@example.org", "password": "secret1" })),
    ] {
        let refused = post(&server, path, &body).await;
        assert_error(&refused, 429, code, message);
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=1201).contains(&wait), "{wait}");
    }
    let invited = as_admin(&server, Method::POST, "/invite").json(&json!({ "email": "eve@example.org" }));
    assert_error(&invited.send().await, 429, code, message);
    let nonce = client(&server, Method::GET, "/reauthenticate").bearer(&token).send().await;
    assert_error(&nonce, 429, code, message);
    let link = json!({ "type": "recovery", "email": "bob@example.org" });
    let _link = as_admin(&server, Method::POST, "/admin/generate_link").json(&link).send().await.expect(200);
    assert_eq!(server.sql("select count(*) from auth.users").await, [[Some("2".to_owned())]]);
}

#[tokio::test]
async fn email_change_sends_both_mails_or_none() {
    let server = confirm_by_mail().config("auth.rate_limit_email_sent", "1").start().await;
    let _id = member(&server, "ada@example.org").await;
    let token = token_of(&server, "ada@example.org").await;
    let refused = put_user(&server, &token, &json!({ "email": "new@example.org" })).await;
    assert_error(&refused, 429, "over_email_send_rate_limit", "email rate limit exceeded");
    assert_eq!(server.mailbox().mails("new@example.org").await.len(), 0);
    assert!(get_user(&server, &token).await.expect(200).json().get("new_email").is_none());
    let _sent = post(&server, "/recover", &json!({ "email": "ada@example.org" })).await.expect(200);
}

#[tokio::test]
async fn autoconfirm_lifts_the_mail_limit() {
    let server = quick()
        .config("auth.mailer_autoconfirm", "true")
        .config("auth.rate_limit_email_sent", "1")
        .config("mail.max_frequency", "0")
        .start()
        .await;
    let _id = member(&server, "ada@example.org").await;
    for _ in 0..3 {
        let _sent = post(&server, "/recover", &json!({ "email": "ada@example.org" })).await.expect(200);
    }
    assert_eq!(server.mailbox().mails("ada@example.org").await.len(), 3);
}

#[tokio::test]
async fn only_authorized_addresses_receive_mail() {
    let server = confirm_by_mail()
        .config("auth.external_email_authorized_addresses", "ada@example.org,new@example.org")
        .start()
        .await;
    let _id = member(&server, "eve@example.org").await;
    let refused = |email: &str| {
        (
            "email_address_not_authorized",
            format!("Email address \"{email}\" cannot be used as it is not authorized"),
        )
    };
    for email in ["eve@example.org", "nobody@example.org"] {
        let (code, message) = refused(email);
        for (path, body) in [
            ("/recover", json!({ "email": email })),
            ("/otp", json!({ "email": email })),
            ("/resend", json!({ "email": email, "type": "signup" })),
            ("/signup", json!({ "email": email, "password": "secret1" })),
        ] {
            assert_error(&post(&server, path, &body).await, 400, code, &message);
        }
    }
    let (code, message) = refused("guest@example.org");
    let invited = as_admin(&server, Method::POST, "/invite").json(&json!({ "email": "guest@example.org" }));
    assert_error(&invited.send().await, 400, code, &message);
    // A change sends mail to both addresses.
    let token = token_of(&server, "eve@example.org").await;
    let (code, message) = refused("eve@example.org");
    let change = put_user(&server, &token, &json!({ "email": "new@example.org" })).await;
    assert_error(&change, 400, code, &message);
    assert_eq!(server.sql("select count(*) from auth.users").await, [[Some("1".to_owned())]]);
    let body = json!({ "email": "ada+shop@example.org", "password": "secret1" });
    let _user = post(&server, "/signup", &body).await.expect(200);
    assert_eq!(server.mailbox().wait_for("ada+shop@example.org").await.subject, "Confirm your email address");
}
