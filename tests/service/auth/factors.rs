//! Second factors of authenticator apps (auth.md §3.15).

use basalt_core::clock::Clock;
use basalt_testkit::User;
use futures_util::future::join_all;
use totp_rs::{Algorithm, Builder as TotpBuilder, Secret};

use super::*;

const STEP_SECONDS: u64 = 30;

pub(super) async fn send(server: &Basalt, token: &str, method: Method, path: &str, body: &Value) -> Response {
    client(server, method, path).bearer(token).json(body).send().await
}

/// An enrolled factor, and the step in which the test began.
pub(super) struct App {
    id: String,
    secret: String,
    step: u64,
}

impl App {
    pub(super) async fn enroll(server: &Basalt, token: &str, name: &str) -> Self {
        let body = json!({ "factor_type": "totp", "friendly_name": name });
        let factor = send(server, token, Method::POST, "/factors", &body).await.expect(200).json();
        let now = Clock::system().unix_seconds().unsigned_abs();
        Self {
            id: text(&factor, "/id").to_owned(),
            secret: text(&factor, "/totp/secret").to_owned(),
            step: now / STEP_SECONDS,
        }
    }

    /// The code of the first step, or `later` steps after it. A server accepts both 0 and 1 for at least 30 seconds.
    fn code(&self, later: u64) -> String {
        let totp = TotpBuilder::new()
            .with_algorithm(Algorithm::SHA1)
            .with_secret(Secret::try_from_base32(&self.secret).unwrap())
            .build_noncompliant();
        totp.generate((self.step + later) * STEP_SECONDS).to_string()
    }

    async fn challenge(&self, server: &Basalt, token: &str) -> String {
        let path = format!("/factors/{}/challenge", self.id);
        let challenge = send(server, token, Method::POST, &path, &json!({})).await.expect(200).json();
        text(&challenge, "/id").to_owned()
    }

    async fn answer(&self, server: &Basalt, token: &str, challenge: &str, code: &str) -> Response {
        let body = json!({ "challenge_id": challenge, "code": code });
        send(server, token, Method::POST, &format!("/factors/{}/verify", self.id), &body).await
    }

    /// Challenges and answers; returns the aal2 session.
    pub(super) async fn verify(&self, server: &Basalt, token: &str, later: u64) -> Value {
        let challenge = self.challenge(server, token).await;
        self.answer(server, token, &challenge, &self.code(later)).await.expect(200).json()
    }

    pub(super) async fn unenroll(&self, server: &Basalt, token: &str) -> Response {
        send(server, token, Method::DELETE, &format!("/factors/{}", self.id), &json!({})).await
    }
}

async fn ada(server: &Basalt) -> User {
    server.sign_up(&fresh("ada")).await
}

#[tokio::test]
async fn code_raises_the_session_to_aal2() {
    let server = shared().await;
    let ada = ada(&server).await;
    let other = sign_in(&server, &ada.email, &ada.password).await.expect(200).json();
    let app = App::enroll(&server, &ada.access_token, "phone").await;
    let user = get_user(&server, &ada.access_token).await.expect(200).json();
    assert_eq!(user["factors"][0]["status"], "unverified");

    let session = app.verify(&server, &ada.access_token, 0).await;
    let raised = claims(text(&session, "/access_token"));
    assert_eq!((&raised["aal"], &raised["amr"][0]["method"]), (&json!("aal2"), &json!("totp")));
    assert_eq!(raised["amr"][1]["method"], "password");
    assert_eq!(session["user"]["factors"][0]["status"], "verified");

    // Tokens issued at aal1 do not refresh an aal2 session.
    let unknown = "Invalid Refresh Token: Refresh Token Not Found";
    let old = refresh(&server, &ada.refresh_token).await;
    assert_error(&old, 400, "refresh_token_not_found", unknown);
    // The refresh token continues the session, and other sessions without a second factor end.
    let refreshed = refresh(&server, text(&session, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&refreshed, "/access_token"))["aal"], "aal2");
    assert_error(
        &refresh(&server, text(&other, "/refresh_token")).await,
        400,
        "refresh_token_not_found",
        unknown,
    );
}

#[tokio::test]
async fn each_code_and_challenge_works_once() {
    let server = shared().await;
    let ada = ada(&server).await;
    let app = App::enroll(&server, &ada.access_token, "phone").await;
    let token = &ada.access_token;
    let challenge = app.challenge(&server, token).await;
    let wrong = app.answer(&server, token, &challenge, "000000").await;
    assert_error(&wrong, 422, "mfa_verification_failed", "Invalid TOTP code entered");
    let _session = app.answer(&server, token, &challenge, &app.code(0)).await.expect(200);
    let again = app.answer(&server, token, &challenge, &app.code(1)).await;
    assert_error(&again, 422, "mfa_ip_address_mismatch", "Challenge and verify IP addresses mismatch.");
    let replayed = app.challenge(&server, token).await;
    let replayed = app.answer(&server, token, &replayed, &app.code(0)).await;
    assert_error(&replayed, 422, "mfa_verification_failed", "Invalid TOTP code entered");
    let _next_code = app.verify(&server, token, 1).await;
}

#[tokio::test]
async fn concurrent_uses_of_a_code_succeed_once() {
    let server = shared().await;
    let ada = ada(&server).await;
    let app = App::enroll(&server, &ada.access_token, "phone").await;
    let token = &ada.access_token;
    let challenges = join_all((0..16).map(|_| app.challenge(&server, token))).await;
    let code = app.code(0);
    let answers = (0..64).map(|i| app.answer(&server, token, &challenges[i % 16], &code));
    let statuses: Vec<_> = join_all(answers).await.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 422 | 429)), "{statuses:?}");
}

#[tokio::test]
async fn guesses_are_limited_per_factor() {
    let server = quick().config("auth.rate_limit_sign_in_failures", "3").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let app = App::enroll(&server, &ada.access_token, "phone").await;
    let mut last = 0;
    for _ in 0..5 {
        // A new challenge does not reset the count.
        let challenge = app.challenge(&server, &ada.access_token).await;
        last = app.answer(&server, &ada.access_token, &challenge, "000000").await.status.as_u16();
    }
    assert_eq!(last, 429);
}

#[tokio::test]
async fn challenges_belong_to_factor_and_address() {
    let server = shared().await;
    let (ada, eve) = (ada(&server).await, server.sign_up(&fresh("eve")).await);
    let app = App::enroll(&server, &ada.access_token, "phone").await;
    let evil = App::enroll(&server, &eve.access_token, "phone").await;
    let missing = evil.answer(&server, &ada.access_token, &evil.id, &evil.code(0)).await;
    assert_error(&missing, 404, "mfa_factor_not_found", "Factor not found");
    let not_found = "MFA factor with the provided challenge ID not found";
    let foreign = evil.challenge(&server, &eve.access_token).await;
    for challenge in [&foreign, "x"] {
        let answer = app.answer(&server, &ada.access_token, challenge, &app.code(0)).await;
        assert_error(&answer, 422, "mfa_factor_not_found", not_found);
    }
    let challenge = app.challenge(&server, &ada.access_token).await;
    let empty = app.answer(&server, &ada.access_token, &challenge, "").await;
    assert_error(&empty, 400, "validation_failed", "Code needs to be non-empty");
    let old = app.challenge(&server, &ada.access_token).await;
    let age =
        format!("update auth.mfa_challenges set created_at = now() - interval '5 min' where id = '{old}'");
    let _rows = server.sql(&age).await;
    let expired = app.answer(&server, &ada.access_token, &old, &app.code(0)).await;
    let message = format!(
        "MFA challenge {old} has expired, verify against another challenge or create a new challenge."
    );
    assert_error(&expired, 422, "mfa_challenge_expired", &message);
}

#[tokio::test]
async fn challenges_are_bound_to_an_address_only_on_request() {
    for (setting, status) in [("false", 200), ("true", 422)] {
        let server = quick().config("auth.mfa_challenge_same_address", setting).start().await;
        let ada = server.sign_up("ada@example.org").await;
        let app = App::enroll(&server, &ada.access_token, "phone").await;
        let challenge = app.challenge(&server, &ada.access_token).await;
        let _rows = server.sql("update auth.mfa_challenges set ip_address = '192.0.2.1'").await;
        let moved = app.answer(&server, &ada.access_token, &challenge, &app.code(0)).await;
        assert_eq!(moved.status.as_u16(), status, "{setting}");
        if status == 422 {
            let message = "Challenge and verify IP addresses mismatch.";
            assert_error(&moved, 422, "mfa_ip_address_mismatch", message);
        }
    }
}

#[tokio::test]
async fn enrolment_is_checked() {
    let server = quick().config("auth.mfa_max_enrolled_factors", "2").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let token = &ada.access_token;
    let enroll = async |body: Value| send(&server, token, Method::POST, "/factors", &body).await;
    let kinds = "factor_type needs to be totp, phone, or webauthn";
    assert_error(&enroll(json!({ "factor_type": "smoke" })).await, 400, "validation_failed", kinds);
    for (kind, name) in [("phone", "Phone"), ("webauthn", "WebAuthn")] {
        let off = enroll(json!({ "factor_type": kind })).await;
        let (code, message) =
            (format!("mfa_{kind}_enroll_not_enabled"), format!("MFA enroll is disabled for {name}"));
        assert_error(&off, 422, &code, &message);
    }
    let stranger = post(&server, "/factors", &json!({ "factor_type": "totp" })).await;
    assert_error(&stranger, 403, "bad_jwt", "invalid claim: missing sub claim");
    let long = enroll(json!({ "factor_type": "totp", "issuer": "x".repeat(4000) })).await;
    assert_error(&long, 400, "validation_failed", "issuer is too long for a QR code");

    let factor = enroll(json!({ "factor_type": "totp", "issuer": "My App" })).await.expect(200).json();
    let secret = text(&factor, "/totp/secret");
    let uri = format!(
        "otpauth://totp/My%20App:ada@example.org?algorithm=SHA1&digits=6&issuer=My%20App&period=30&secret={secret}"
    );
    assert_eq!((text(&factor, "/type"), text(&factor, "/totp/uri")), ("totp", uri.as_str()));
    assert!(text(&factor, "/totp/qr_code").contains("<svg"));
    let same = enroll(json!({ "factor_type": "totp" })).await;
    let taken = r#"A factor with the friendly name "" for this user already exists"#;
    assert_error(&same, 422, "mfa_factor_name_conflict", taken);
    let app = App::enroll(&server, token, "second").await;
    let full = enroll(json!({ "factor_type": "totp", "friendly_name": "third" })).await;
    let many = "Maximum number of verified factors reached, unenroll to continue";
    assert_error(&full, 422, "too_many_enrolled_mfa_factors", many);

    // Verifying one removes the other enrolment; from then on, aal1 sessions cannot enrol.
    let raised = app.verify(&server, token, 0).await;
    assert_eq!(raised["user"]["factors"].as_array().unwrap().len(), 1);
    let low = sign_in(&server, &ada.email, &ada.password).await.expect(200).json();
    let body = json!({ "factor_type": "totp", "friendly_name": "third" });
    let denied = send(&server, text(&low, "/access_token"), Method::POST, "/factors", &body).await;
    assert_error(&denied, 403, "insufficient_aal", "AAL2 required to enroll a new factor");
    let _third =
        send(&server, text(&raised, "/access_token"), Method::POST, "/factors", &body).await.expect(200);
}

#[tokio::test]
async fn abandoned_enrolments_are_removed() {
    let server = shared().await;
    let ada = ada(&server).await;
    let app = App::enroll(&server, &ada.access_token, "phone").await;
    let age =
        format!("update auth.mfa_factors set created_at = now() - interval '6 min' where id = '{}'", app.id);
    let _rows = server.sql(&age).await;
    // The name is free again.
    let again = App::enroll(&server, &ada.access_token, "phone").await;
    assert_ne!(app.id, again.id);
}

#[tokio::test]
async fn removing_a_verified_factor_needs_aal2() {
    let server = shared().await;
    let ada = ada(&server).await;
    let app = App::enroll(&server, &ada.access_token, "phone").await;
    let raised = app.verify(&server, &ada.access_token, 0).await;
    let low = sign_in(&server, &ada.email, &ada.password).await.expect(200).json();
    let kept = app.unenroll(&server, text(&low, "/access_token")).await;
    assert_error(&kept, 422, "insufficient_aal", "AAL2 required to unenroll verified factor");
    let removed = app.unenroll(&server, text(&raised, "/access_token")).await.expect(200).json();
    assert_eq!(removed, json!({ "id": app.id }));
    let lowered = refresh(&server, text(&raised, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&lowered, "/access_token"))["aal"], "aal1");
    for (method, path) in [(Method::DELETE, ""), (Method::POST, "/challenge"), (Method::POST, "/verify")] {
        let to = async |id: &str| {
            let path = format!("/factors/{id}{path}");
            send(&server, &ada.access_token, method.clone(), &path, &json!({ "code": "1" })).await
        };
        assert_error(&to("one").await, 404, "validation_failed", "factor_id must be an UUID");
        assert_error(&to(&app.id).await, 404, "mfa_factor_not_found", "Factor not found");
    }
}

#[tokio::test]
async fn admins_rename_and_remove_factors() {
    let server = shared().await;
    let ada = ada(&server).await;
    let app = App::enroll(&server, &ada.access_token, "phone").await;
    let raised = app.verify(&server, &ada.access_token, 0).await;
    let path = format!("/admin/users/{}/factors/{}", ada.id, app.id);
    let admin = |method: Method, body: Value| {
        client(&server, method, &path).bearer(server.service_key()).json(&body).send()
    };
    let renamed = admin(Method::PUT, json!({ "friendly_name": "tablet" })).await.expect(200).json();
    assert_eq!((&renamed["friendly_name"], &renamed["status"]), (&json!("tablet"), &json!("verified")));
    let removed = admin(Method::DELETE, json!({})).await.expect(200).json();
    assert_eq!(removed["id"], json!(app.id));
    assert!(removed.get("secret").is_none());
    assert_error(&admin(Method::DELETE, json!({})).await, 404, "mfa_factor_not_found", "Factor not found");
    let lowered = refresh(&server, text(&raised, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&lowered, "/access_token"))["aal"], "aal1");
    let denied = client(&server, Method::DELETE, &path).bearer(&ada.access_token).send().await;
    assert_error(&denied, 403, "not_admin", "User not allowed");
}

#[tokio::test]
async fn disabled_totp_is_refused() {
    let server = quick()
        .config("auth.mfa_totp_enroll_enabled", "false")
        .config("auth.mfa_totp_verify_enabled", "false")
        .start()
        .await;
    let ada = server.sign_up("ada@example.org").await;
    let body = json!({ "factor_type": "totp" });
    let off = send(&server, &ada.access_token, Method::POST, "/factors", &body).await;
    assert_error(&off, 422, "mfa_totp_enroll_not_enabled", "MFA enroll is disabled for TOTP");
    let insert =
        "insert into auth.mfa_factors (id, user_id, factor_type, status, secret, created_at, updated_at)
         select gen_random_uuid(), id, 'totp', 'verified', 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ', now(), now()
         from auth.users returning id";
    let rows = server.sql(insert).await;
    let id = rows[0][0].clone().unwrap();
    let path = format!("/factors/{id}/challenge");
    let verify = send(&server, &ada.access_token, Method::POST, &path, &json!({})).await;
    assert_error(&verify, 422, "mfa_totp_verify_not_enabled", "MFA verification is disabled for TOTP");
}
