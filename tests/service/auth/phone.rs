//! Accounts and second factors by phone (auth.md §3.3, §3.7, §3.9, §3.10, §3.15, §3.21).

use basalt_testkit::{HttpStub, Reply};
use futures_util::future::join_all;

use super::codes::verify;
use super::*;

const NO_RATE: [&str; 3] =
    ["auth.rate_limit_sms_sent", "auth.rate_limit_sms_per_number", "auth.rate_limit_verify"];

/// A server with the mailbox as provider, and without limits.
fn phones() -> Builder {
    let builder = quick()
        .config("auth.external_phone_enabled", "true")
        .config("auth.sms_max_frequency", "0")
        .config("auth.mfa_phone_enroll_enabled", "true")
        .config("auth.mfa_phone_verify_enabled", "true")
        .config("auth.mfa_phone_max_frequency", "0");
    NO_RATE.into_iter().fold(builder, |builder, key| builder.config(key, "0"))
}

async fn code(server: &Basalt, phone: &str) -> String {
    let mail = server.mailbox().wait_for(&format!("+{phone}")).await;
    assert!(mail.text.starts_with("Your code is "), "{}", mail.text);
    mail.text.trim().rsplit(' ').next().unwrap_or_default().to_owned()
}

async fn redeem(server: &Basalt, kind: &str, phone: &str, code: &str) -> Response {
    verify(server, &json!({ "type": kind, "phone": phone, "token": code })).await
}

/// A session of a new user with this number.
async fn member(server: &Basalt, phone: &str) -> Value {
    let body = json!({ "phone": phone, "password": "secret1" });
    let _user = post(server, "/signup", &body).await.expect(200);
    redeem(server, "sms", phone, &code(server, phone).await).await.expect(200).json()
}

#[tokio::test]
async fn sign_up_confirms_the_number_and_signs_in() {
    let server = phones().config("auth.mailer_autoconfirm", "false").start().await;
    let body = json!({ "phone": "+49 151 2345", "password": "secret1", "data": { "name": "Ada" } });
    let user = post(&server, "/signup", &body).await.expect(200).json();
    assert_eq!((text(&user, "/phone"), text(&user, "/app_metadata/provider")), ("491512345", "phone"));
    assert!(user.get("phone_confirmed_at").is_none());
    let login = json!({ "phone": "491512345", "password": "secret1" });
    let early = post(&server, "/token?grant_type=password", &login).await;
    assert_error(&early, 400, "phone_not_confirmed", "Phone not confirmed");
    let wrong = redeem(&server, "sms", "491512345", "000000x").await;
    assert_error(&wrong, 403, "otp_expired", "Token has expired or is invalid");
    let code = code(&server, "491512345").await;
    let session = redeem(&server, "sms", "491512345", &code).await.expect(200).json();
    assert_eq!(claims(text(&session, "/access_token"))["amr"][0]["method"], "otp");
    assert!(session["user"]["phone_confirmed_at"].is_string());
    let again = redeem(&server, "sms", "491512345", &code).await;
    assert_error(&again, 403, "otp_expired", "Token has expired or is invalid");
    let _session = post(&server, "/token?grant_type=password", &login).await.expect(200);
    // Somebody else's sign-up with the number reveals nothing and sends nothing.
    let fake = post(&server, "/signup", &json!({ "phone": "491512345", "password": "secret2" })).await;
    assert_eq!(fake.expect(200).json()["identities"], json!([]));
    assert!(server.sql("select 1::text from auth.one_time_tokens").await.is_empty());
}

#[tokio::test]
async fn one_code_succeeds_once() {
    let server = phones().start().await;
    let _sent = post(&server, "/otp", &json!({ "phone": "491512345" })).await.expect(200);
    let code = code(&server, "491512345").await;
    let uses = (0..64).map(|_| redeem(&server, "sms", "491512345", &code));
    let statuses: Vec<_> = join_all(uses).await.iter().map(|used| used.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 403 | 429 | 503)), "{statuses:?}");
}

#[tokio::test]
async fn otp_signs_existing_and_new_users_in() {
    let server = phones().start().await;
    let denied = post(&server, "/otp", &json!({ "phone": "491512345", "create_user": false })).await;
    assert_error(&denied, 422, "otp_disabled", "Signups not allowed for otp");
    for _ in 0..2 {
        let sent = post(&server, "/otp", &json!({ "phone": "491512345", "data": { "a": 1 } })).await;
        assert_eq!(sent.expect(200).json(), json!({}));
        let session = redeem(&server, "sms", "491512345", &code(&server, "491512345").await).await;
        assert_eq!(session.expect(200).json()["user"]["user_metadata"]["a"], 1);
    }
    let rows = server.sql("select count(*)::text from auth.users").await;
    assert_eq!(rows[0][0].as_deref(), Some("1"));
}

#[tokio::test]
async fn new_number_is_confirmed_by_its_code() {
    let server = phones().start().await;
    let session = member(&server, "491512345").await;
    let token = text(&session, "/access_token");
    let user = put_user(&server, token, &json!({ "phone": "4915199" })).await.expect(200).json();
    assert_eq!((text(&user, "/phone"), text(&user, "/new_phone")), ("491512345", "4915199"));
    let old = redeem(&server, "phone_change", "491512345", "123456").await;
    assert_error(&old, 403, "otp_expired", "Token has expired or is invalid");
    let first = code(&server, "4915199").await;
    let resent = post(&server, "/resend", &json!({ "type": "phone_change", "phone": "491512345" })).await;
    let _resent = resent.expect(200);
    let second = code(&server, "4915199").await;
    if first != second {
        let replaced = redeem(&server, "phone_change", "4915199", &first).await;
        assert_error(&replaced, 403, "otp_expired", "Token has expired or is invalid");
    }
    let changed = redeem(&server, "phone_change", "4915199", &second).await.expect(200).json();
    assert_eq!(text(&changed, "/user/phone"), "4915199");
    assert_eq!(changed["user"]["identities"][0]["identity_data"]["phone_verified"], true);
    let other = member(&server, "4915155").await;
    let taken = put_user(&server, text(&other, "/access_token"), &json!({ "phone": "4915199" })).await;
    assert_error(&taken, 422, "phone_exists", "A user with this phone number has already been registered");
}

#[tokio::test]
async fn nonce_by_phone_allows_a_new_password() {
    let server =
        phones().config("auth.security_update_password_require_reauthentication", "true").start().await;
    let session = member(&server, "491512345").await;
    let token = text(&session, "/access_token");
    let _rows = server.sql("update auth.sessions set created_at = now() - interval '2 days'").await;
    let needed = put_user(&server, token, &json!({ "password": "secret2" })).await;
    assert_error(&needed, 400, "reauthentication_needed", "Password update requires reauthentication");
    let _sent = client(&server, Method::GET, "/reauthenticate").bearer(token).send().await.expect(200);
    let nonce = code(&server, "491512345").await;
    let _user = put_user(&server, token, &json!({ "password": "secret2", "nonce": nonce })).await.expect(200);
}

#[tokio::test]
async fn admins_create_users_with_a_number() {
    let server = phones().start().await;
    let admin = |body: Value| {
        client(&server, Method::POST, "/admin/users").bearer(server.service_key()).json(&body).send()
    };
    let body = json!({ "phone": "+491512345", "phone_confirm": true, "password": "secret1" });
    let user = admin(body.clone()).await.expect(200).json();
    assert!(user["phone_confirmed_at"].is_string());
    assert_error(&admin(body).await, 422, "phone_exists", "Phone number already registered by another user");
    let login = json!({ "phone": "491512345", "password": "secret1" });
    let _session = post(&server, "/token?grant_type=password", &login).await.expect(200);
}

#[tokio::test]
async fn test_numbers_have_fixed_codes_and_get_no_message() {
    let server = phones()
        .config("auth.sms_test_otp", "4915100=123456")
        .config("auth.rate_limit_sms_sent", "1")
        .start()
        .await;
    for _ in 0..3 {
        let sent = post(&server, "/otp", &json!({ "phone": "4915100" })).await.expect(200).json();
        assert_eq!(sent, json!({ "message_id": "test-otp" }));
        let _session = redeem(&server, "sms", "4915100", "123456").await.expect(200);
    }
    assert_eq!(server.database().count("basalt.mail_outbox").await, 0);
    let ended = phones()
        .config("auth.sms_test_otp", "4915100=123456")
        .config("auth.sms_test_otp_valid_until", "2020-01-01T00:00:00Z")
        .start()
        .await;
    let sent = post(&ended, "/otp", &json!({ "phone": "4915100" })).await.expect(200).json();
    assert_eq!(sent, json!({}));
}

#[tokio::test]
async fn floods_of_messages_are_limited() {
    let server = phones()
        .config("auth.rate_limit_sms_sent", "6")
        .config("auth.rate_limit_sms_per_country", "4")
        .config("auth.rate_limit_sms_per_number", "2")
        .config("auth.sms_allowed_prefixes", "+49,33,+1")
        .start()
        .await;
    let ask = async |phone: &str| post(&server, "/otp", &json!({ "phone": phone })).await;
    let burst: Vec<_> = join_all((0..20).map(|_| ask("491510"))).await;
    let sent = burst.iter().filter(|answer| answer.status.as_u16() == 200).count();
    assert_eq!(sent, 2, "two to one number");
    let limited = ask("491510").await;
    assert_error(&limited, 429, "over_sms_send_rate_limit", "SMS rate limit exceeded");
    assert!(limited.header("retry-after").parse::<u32>().unwrap() > 600);
    for (phone, status) in
        [("491511", 200), ("491512", 200), ("491513", 429), ("3312345", 200), ("3312346", 200)]
    {
        let answer = ask(phone).await;
        assert_eq!(answer.status.as_u16(), status, "{phone}: {}", answer.text());
    }
    server.expect_log("messages to this country are not allowed");
    let foreign = ask("882123456").await;
    let message = "Error sending confirmation OTP to provider: messages to this country are not allowed";
    assert_error(&foreign, 422, "sms_send_failed", message);
    assert_eq!(ask("14155552671").await.status.as_u16(), 429, "six in total");
    let frequent = phones().config("auth.sms_max_frequency", "60").start().await;
    let _sent = post(&frequent, "/otp", &json!({ "phone": "491510" })).await.expect(200);
    let early = post(&frequent, "/otp", &json!({ "phone": "491510" })).await;
    assert_eq!(early.json()["code"], "over_sms_send_rate_limit");
    assert!(
        text(&early.json(), "/message")
            .starts_with("For security purposes, you can only request this after ")
    );
}

#[tokio::test]
async fn twilio_sends_messages() {
    let twilio = HttpStub::start(|_request| {
        Reply::Respond(201, json!({ "sid": "SM1", "status": "queued" }).to_string())
    })
    .await;
    let server = phones()
        .config("auth.sms_provider", "twilio")
        .config("auth.sms_twilio_url", &twilio.url())
        .config("auth.sms_twilio_account_sid", "AC1")
        .config("auth.sms_twilio_auth_token", "token-of-twilio")
        .config("auth.sms_twilio_message_service_sid", "+15005550006")
        .config("auth.sms_template", "{{ .Code }} is yours")
        .start()
        .await;
    let sent = post(&server, "/otp", &json!({ "phone": "491512345" })).await.expect(200).json();
    assert_eq!(sent, json!({ "message_id": "SM1" }));
    let requests = twilio.requests();
    assert!(requests[0].head.starts_with("POST /2010-04-01/Accounts/AC1/Messages.json HTTP/1.1\r\n"));
    assert_eq!(requests[0].header("authorization"), "Basic QUMxOnRva2VuLW9mLXR3aWxpbw==");
    let form: std::collections::BTreeMap<String, String> =
        url::form_urlencoded::parse(requests[0].body.as_bytes()).into_owned().collect();
    assert_eq!((form["To"].as_str(), form["From"].as_str()), ("+491512345", "+15005550006"));
    let code = form["Body"].strip_suffix(" is yours").unwrap().to_owned();
    let _session = redeem(&server, "sms", "491512345", &code).await.expect(200);
    let whatsapp = json!({ "phone": "491512345", "channel": "whatsapp" });
    let _sent = post(&server, "/otp", &whatsapp).await.expect(200);
    assert!(
        twilio.requests()[1].body.contains("To=whatsapp%3A%2B491512345"),
        "{}",
        twilio.requests()[1].body
    );

    // A failure reaches the client, revokes the code, and leaves no account behind.
    server.expect_log("OTP to provider");
    twilio.reply(|_request| {
        Reply::Respond(400, json!({ "code": 21211, "message": "Invalid 'To' Phone Number" }).to_string())
    });
    let failed = post(&server, "/signup", &json!({ "phone": "4915177", "password": "secret1" })).await;
    let message = "Error sending confirmation OTP to provider: Invalid 'To' Phone Number";
    assert_error(&failed, 422, "sms_send_failed", message);
    let failed = post(&server, "/otp", &json!({ "phone": "491512345" })).await;
    assert_error(&failed, 422, "sms_send_failed", message);
    assert!(server.sql("select 1::text from auth.one_time_tokens").await.is_empty());
    let rows = server.sql("select count(*)::text from auth.users").await;
    assert_eq!(rows[0][0].as_deref(), Some("1"));
    assert!(
        server.log().iter().all(|line| !line.raw.contains("token-of-twilio") && !line.raw.contains(&code))
    );
}

#[tokio::test]
async fn sms_hook_replaces_the_provider() {
    let hook = HttpStub::start(|_request| Reply::Respond(200, "{}".to_owned())).await;
    let server = phones()
        .config("auth.hook_send_sms_enabled", "true")
        .config("auth.hook_send_sms_uri", &hook.url())
        .config("auth.hook_send_sms_secrets", "v1,whsec_c2VjcmV0")
        .start()
        .await;
    let _sent = post(&server, "/otp", &json!({ "phone": "491512345" })).await.expect(200);
    let sent = hook.requests()[0].json();
    assert_eq!((text(&sent, "/user/phone"), text(&sent, "/sms/phone")), ("491512345", "491512345"));
    assert_eq!(text(&sent, "/sms/sms_type"), "confirmation");
    let _session = redeem(&server, "sms", "491512345", text(&sent, "/sms/otp")).await.expect(200);
    hook.reply(|_request| {
        Reply::Respond(200, json!({ "error": { "http_code": 429, "message": "no credit" } }).to_string())
    });
    let refused = post(&server, "/otp", &json!({ "phone": "4915199" })).await;
    assert_error(&refused, 429, "unknown", "no credit");
    let rows = server.sql("select count(*)::text from auth.users").await;
    assert_eq!(rows[0][0].as_deref(), Some("1"), "the account was not kept");
}

async fn send(server: &Basalt, token: &str, path: &str, body: &Value) -> Response {
    client(server, Method::POST, path).bearer(token).json(body).send().await
}

#[tokio::test]
async fn phone_factor_raises_the_session() {
    let server = phones().start().await;
    let ada = server.sign_up("ada@example.org").await;
    let token = &ada.access_token;
    let body = json!({ "factor_type": "phone", "phone": "+4915100", "friendly_name": "mobile" });
    let factor = send(&server, token, "/factors", &body).await.expect(200).json();
    let id = text(&factor, "/id");
    assert_eq!((text(&factor, "/type"), text(&factor, "/phone")), ("phone", "4915100"));
    let missing = send(&server, token, "/factors", &json!({ "factor_type": "phone" })).await;
    assert_error(&missing, 400, "validation_failed", "Phone number required to enroll Phone factor");
    // The same number again replaces the unfinished enrolment.
    let again = send(&server, token, "/factors", &body).await.expect(200).json();
    assert_ne!(text(&again, "/id"), id);
    let id = text(&again, "/id");
    let challenge =
        send(&server, token, &format!("/factors/{id}/challenge"), &json!({ "channel": "sms" })).await;
    let challenge = challenge.expect(200).json();
    assert_eq!(text(&challenge, "/type"), "phone");
    let code = code(&server, "4915100").await;
    let stored = server.sql("select otp_code from auth.mfa_challenges").await;
    assert_ne!(stored[0][0].as_deref(), Some(code.as_str()), "only a hash is stored");
    let answer = |code: &str| json!({ "challenge_id": text(&challenge, "/id"), "code": code });
    let path = format!("/factors/{id}/verify");
    let wrong = send(&server, token, &path, &answer("000000x")).await;
    assert_error(&wrong, 422, "mfa_verification_failed", "Invalid MFA Phone code entered");
    let uses = (0..64).map(|_| async { send(&server, token, &path, &answer(&code)).await });
    let answers = join_all(uses).await;
    let won: Vec<_> = answers.iter().filter(|answer| answer.status.as_u16() == 200).collect();
    assert_eq!(won.len(), 1);
    let raised = won[0].json();
    let raised_claims = claims(text(&raised, "/access_token"));
    assert_eq!(
        (&raised_claims["aal"], &raised_claims["amr"][0]["method"]),
        (&json!("aal2"), &json!("mfa/phone"))
    );
    let other = json!({ "factor_type": "phone", "phone": "4915100", "friendly_name": "other" });
    let taken = send(&server, text(&raised, "/access_token"), "/factors", &other).await;
    let message = "A verified phone factor already exists, unenroll the existing factor to continue";
    assert_error(&taken, 422, "mfa_verified_factor_exists", message);
    let removed =
        client(&server, Method::DELETE, &format!("/factors/{id}")).bearer(text(&raised, "/access_token"));
    let _removed = removed.send().await.expect(200);
    let lowered = refresh(&server, text(&raised, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&lowered, "/access_token"))["aal"], "aal1");
}

#[tokio::test]
async fn phone_challenges_are_limited_and_off_by_default() {
    let server = phones().config("auth.mfa_phone_max_frequency", "60").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let body = json!({ "factor_type": "phone", "phone": "4915100" });
    let factor = send(&server, &ada.access_token, "/factors", &body).await.expect(200).json();
    let path = format!("/factors/{}/challenge", text(&factor, "/id"));
    let _challenge = send(&server, &ada.access_token, &path, &json!({})).await.expect(200);
    let early = send(&server, &ada.access_token, &path, &json!({})).await;
    assert_eq!((early.status.as_u16(), early.header("x-sb-error-code")), (429, "over_sms_send_rate_limit"));
    let off = shared().await;
    let eve = off.sign_up(&fresh("eve")).await;
    let refused = send(&off, &eve.access_token, "/factors", &body).await;
    assert_error(&refused, 422, "mfa_phone_enroll_not_enabled", "MFA enroll is disabled for Phone");
}

#[tokio::test]
async fn mfa_hook_ends_all_sessions_of_a_rejected_attempt() {
    let hook = HttpStub::start(|_request| Reply::Respond(200, r#"{"decision":"continue"}"#.to_owned())).await;
    let server = phones()
        .config("auth.hook_mfa_verification_attempt_enabled", "true")
        .config("auth.hook_mfa_verification_attempt_uri", &hook.url())
        .config("auth.hook_mfa_verification_attempt_secrets", "v1,whsec_c2VjcmV0")
        .start()
        .await;
    let ada = server.sign_up("ada@example.org").await;
    let token = &ada.access_token;
    let body = json!({ "factor_type": "phone", "phone": "4915100" });
    let factor = send(&server, token, "/factors", &body).await.expect(200).json();
    let id = text(&factor, "/id");
    let challenge =
        send(&server, token, &format!("/factors/{id}/challenge"), &json!({})).await.expect(200).json();
    let code = code(&server, "4915100").await;
    let answer = |code: &str| json!({ "challenge_id": text(&challenge, "/id"), "code": code });
    let path = format!("/factors/{id}/verify");
    let wrong = send(&server, token, &path, &answer("1")).await;
    assert_error(&wrong, 422, "mfa_verification_failed", "Invalid MFA Phone code entered");
    let asked = hook.requests()[0].json();
    assert_eq!((&asked["valid"], text(&asked, "/factor_type")), (&json!(false), "phone"));
    assert_eq!((text(&asked, "/factor_id"), text(&asked, "/user_id")), (id, ada.id.as_str()));
    hook.reply(|_request| Reply::Respond(200, r#"{"decision":"reject"}"#.to_owned()));
    let rejected = send(&server, token, &path, &answer(&code)).await;
    let message = "Further MFA verification attempts will be rejected.";
    assert_error(&rejected, 403, "mfa_verification_rejected", message);
    assert_eq!(get_user(&server, token).await.json()["code"], "session_not_found");
}
