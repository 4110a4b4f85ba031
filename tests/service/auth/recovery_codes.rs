//! Recovery codes (auth.md §3.15).

use basalt_testkit::User;
use futures_util::future::join_all;

use super::factors::{App, send};
use super::*;

const PATH: &str = "/factors/recovery-codes";

/// A user with a verified factor, and their aal2 session.
async fn with_factor(server: &Basalt) -> (User, App, Value) {
    let ada = server.sign_up(&fresh("codes")).await;
    let app = App::enroll(server, &ada.access_token, "phone").await;
    let session = app.verify(server, &ada.access_token, 0).await;
    (ada, app, session)
}

async fn generate(server: &Basalt, token: &str) -> Value {
    send(server, token, Method::POST, PATH, &json!({})).await.expect(200).json()
}

fn codes(body: &Value) -> Vec<String> {
    body["codes"].as_array().unwrap().iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

async fn answer(server: &Basalt, token: &str, code: &str) -> Response {
    send(server, token, Method::POST, &format!("{PATH}/verify"), &json!({ "code": code })).await
}

async fn remaining(server: &Basalt, token: &str) -> Value {
    let status = send(server, token, Method::GET, PATH, &json!({})).await.expect(200).json();
    assert_eq!((&status["type"], &status["total"]), (&json!("recovery_code"), &json!(10)));
    status["remaining"].clone()
}

/// A token of a new session, at aal1.
async fn low(server: &Basalt, user: &User) -> String {
    let session = sign_in(server, &user.email, &user.password).await.expect(200).json();
    text(&session, "/access_token").to_owned()
}

#[track_caller]
fn assert_wrong(response: &Response) {
    assert_error(response, 422, "mfa_verification_failed", "Invalid recovery code entered");
}

#[tokio::test]
async fn recovery_code_raises_the_session_once() {
    let server = shared().await;
    let (ada, _app, session) = with_factor(&server).await;
    let generated = generate(&server, text(&session, "/access_token")).await;
    let codes = codes(&generated);
    assert_eq!((codes.len(), &generated["total"]), (10, &json!(10)));
    assert!(codes.iter().all(|code| code.len() == 16 && *code == code.to_lowercase()), "{codes:?}");

    let token = low(&server, &ada).await;
    assert_wrong(&answer(&server, &token, "0000-0000-0000-0000").await);
    // As a person types it.
    let typed: String = codes[0].to_uppercase().chars().flat_map(|c| [c, '-', ' ']).collect();
    let raised = answer(&server, &token, &typed).await.expect(200).json();
    let payload = claims(text(&raised, "/access_token"));
    let method = json!("mfa/recovery_code");
    assert_eq!((&payload["aal"], &payload["amr"][0]["method"]), (&json!("aal2"), &method));
    let types: Vec<_> = raised["user"]["factors"].as_array().unwrap().iter().collect();
    assert!(types.iter().any(|factor| factor["factor_type"] == "recovery_code"), "{types:?}");
    assert_wrong(&answer(&server, &low(&server, &ada).await, &codes[0]).await);
    assert_eq!(remaining(&server, text(&raised, "/access_token")).await, json!(9));
    let refreshed = refresh(&server, text(&raised, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&refreshed, "/access_token"))["aal"], "aal2");
    // Only hashes are stored.
    let stored =
        server.database().admin_sql("select string_agg(code_hash, ' ') from basalt.recovery_codes").await;
    let stored = stored[0][0].clone().unwrap();
    assert!(codes.iter().all(|code| !stored.contains(code)));
}

#[tokio::test]
async fn concurrent_uses_of_a_recovery_code_succeed_once() {
    let server = shared().await;
    let (ada, _app, session) = with_factor(&server).await;
    let codes = codes(&generate(&server, text(&session, "/access_token")).await);
    let tokens = join_all((0..4).map(|_| low(&server, &ada))).await;
    let uses = (0..64).map(|index| answer(&server, &tokens[index % 4], &codes[0]));
    let statuses: Vec<_> = join_all(uses).await.iter().map(|response| response.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    // The success ends the other sessions below aal2.
    assert!(statuses.iter().all(|status| matches!(status, 200 | 403 | 422 | 429)), "{statuses:?}");
}

#[tokio::test]
async fn codes_need_another_factor_and_aal2() {
    let server = shared().await;
    let eve = server.sign_up(&fresh("alone")).await;
    let alone = send(&server, &eve.access_token, Method::POST, PATH, &json!({})).await;
    let message = "Recovery codes require another verified factor";
    assert_error(&alone, 422, "mfa_recovery_codes_sole_factor", message);
    let none = send(&server, &eve.access_token, Method::GET, PATH, &json!({})).await;
    assert_error(&none, 404, "mfa_factor_not_found", "Factor not found");
    assert_wrong(&answer(&server, &eve.access_token, "abc").await);
    let empty = answer(&server, &eve.access_token, "").await;
    assert_error(&empty, 400, "validation_failed", "Code needs to be non-empty");

    let (ada, _app, session) = with_factor(&server).await;
    let token = text(&session, "/access_token");
    let aal1 = low(&server, &ada).await;
    let denied = send(&server, &aal1, Method::POST, PATH, &json!({})).await;
    assert_error(&denied, 403, "insufficient_aal", "AAL2 required to enroll a new factor");
    let missing = send(&server, token, Method::POST, &format!("{PATH}/regenerate"), &json!({})).await;
    assert_error(&missing, 404, "mfa_factor_not_found", "Factor not found");
    let name = json!({ "friendly_name": "phone" });
    let taken = send(&server, token, Method::POST, PATH, &name).await;
    let message = r#"A factor with the friendly name "phone" for this user already exists"#;
    assert_error(&taken, 422, "mfa_factor_name_conflict", message);
    let codes = generate(&server, token).await;
    let again = send(&server, token, Method::POST, PATH, &json!({})).await;
    let message = "Recovery codes already exist, regenerate them to replace the existing codes";
    assert_error(&again, 422, "mfa_verified_factor_exists", message);
    for (method, path, status, code) in [
        (Method::POST, format!("{PATH}/regenerate"), 403, "insufficient_aal"),
        (Method::DELETE, PATH.to_owned(), 422, "insufficient_aal"),
    ] {
        let denied = send(&server, &aal1, method, &path, &json!({})).await;
        assert_eq!((denied.status.as_u16(), &denied.json()["code"]), (status, &json!(code)));
    }
    let removed = send(&server, token, Method::DELETE, PATH, &json!({})).await.expect(200).json();
    assert_eq!(removed, json!({ "id": codes["id"] }));
}

#[tokio::test]
async fn regenerated_codes_replace_the_old_ones() {
    let server = shared().await;
    let (ada, _app, session) = with_factor(&server).await;
    let token = text(&session, "/access_token");
    let body = json!({ "friendly_name": "Backup codes" });
    let first = send(&server, token, Method::POST, PATH, &body).await.expect(200).json();
    let path = format!("{PATH}/regenerate");
    let second = send(&server, token, Method::POST, &path, &json!({})).await.expect(200).json();
    assert_eq!(first["id"], second["id"]);
    assert_eq!(second["friendly_name"], "Backup codes");
    assert_wrong(&answer(&server, &low(&server, &ada).await, &codes(&first)[0]).await);
    let _raised = answer(&server, &low(&server, &ada).await, &codes(&second)[0]).await.expect(200);
}

#[tokio::test]
async fn wrong_codes_lock_the_account_until_new_ones_are_made() {
    let server = quick().config("auth.rate_limit_sign_in_failures", "3").start().await;
    let (ada, _app, session) = with_factor(&server).await;
    let token = text(&session, "/access_token");
    let _codes = generate(&server, token).await;
    let aal1 = low(&server, &ada).await;
    for _ in 0..3 {
        assert_wrong(&answer(&server, &aal1, "wrong").await);
    }
    let locked = answer(&server, &aal1, "wrong").await;
    let message = "Too many failed recovery code attempts, try again later";
    assert_error(&locked, 429, "mfa_recovery_codes_locked", message);
    assert!(locked.header("retry-after").parse::<u64>().unwrap() >= 1);
    let path = format!("{PATH}/regenerate");
    let fresh = send(&server, token, Method::POST, &path, &json!({})).await.expect(200).json();
    let _raised = answer(&server, &aal1, &codes(&fresh)[9]).await.expect(200);
}

#[tokio::test]
async fn codes_go_with_the_last_other_factor() {
    let server = shared().await;
    let (ada, app, session) = with_factor(&server).await;
    let codes = codes(&generate(&server, text(&session, "/access_token")).await);
    // The phone is lost: a code replaces it, and it is removed.
    let raised = answer(&server, &low(&server, &ada).await, &codes[3]).await.expect(200).json();
    let _removed = app.unenroll(&server, text(&raised, "/access_token")).await.expect(200);
    let lowered = refresh(&server, text(&raised, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&lowered, "/access_token"))["aal"], "aal1");
    assert!(lowered["user"].get("factors").is_none_or(|factors| *factors == json!([])), "{lowered}");
    assert_wrong(&answer(&server, text(&lowered, "/access_token"), &codes[4]).await);
    // The account can begin again.
    let app = App::enroll(&server, text(&lowered, "/access_token"), "new phone").await;
    let session = app.verify(&server, text(&lowered, "/access_token"), 0).await;
    let _codes = generate(&server, text(&session, "/access_token")).await;
}

#[tokio::test]
async fn disabled_recovery_codes_are_refused() {
    let server = quick()
        .config("auth.mfa_recovery_codes_enroll_enabled", "false")
        .config("auth.mfa_recovery_codes_verify_enabled", "false")
        .start()
        .await;
    let ada = server.sign_up("ada@example.org").await;
    let off = send(&server, &ada.access_token, Method::POST, PATH, &json!({})).await;
    let message = "MFA enroll is disabled for Recovery Codes";
    assert_error(&off, 422, "mfa_recovery_codes_enroll_not_enabled", message);
    let off = answer(&server, &ada.access_token, "a").await;
    let message = "MFA verification is disabled for Recovery Codes";
    assert_error(&off, 422, "mfa_recovery_codes_verify_not_enabled", message);
}
