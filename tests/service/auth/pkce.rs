//! The PKCE flow of mails, from the challenge in the request and the link to `POST /token?grant_type=pkce`
//! (auth.md §3.5, §3.10).

use super::codes::*;
use super::*;

const NOT_FOUND: &str = "invalid flow state, no valid flow state found";

async fn exchange(server: &Basalt, code: &str, verifier: &str) -> Response {
    let body = json!({ "auth_code": code, "code_verifier": verifier });
    post(server, "/token?grant_type=pkce", &body).await
}

/// Requests a mail with a challenge and returns the hash in its link.
async fn mailed_hash(server: &Basalt, path: &str, email: &str, more: &Value) -> String {
    let mut body = json!({ "email": email, "code_challenge": CHALLENGE, "code_challenge_method": "s256" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let _sent = post(server, path, &body).await.expect(200);
    let hash = server.mailbox().wait_for(email).await.token_hash();
    assert!(hash.starts_with("pkce_"), "{hash}");
    hash
}

/// The authorization code in a redirect target's query.
#[track_caller]
fn code_of(response: &Response) -> String {
    let there = location(response);
    let (there, fragment) = there.split_once('#').unwrap_or((&there, ""));
    assert!(!fragment.contains("token"), "{there}#{fragment}");
    pairs(there, '?').get("code").unwrap_or_else(|| panic!("no code in {there}")).clone()
}

#[tokio::test]
async fn exchange_errors_follow_the_contract_order() {
    let (server, email) = (server().await, fresh("ada"));
    let empty = "invalid request: both auth code and code verifier should be non-empty";
    for body in [json!({}), json!({ "auth_code": "x" }), json!({ "auth_code": "", "code_verifier": "x" })] {
        let response = post(&server, "/token?grant_type=pkce", &body).await;
        assert_error(&response, 400, "validation_failed", empty);
    }
    assert_error(&exchange(&server, "x", VERIFIER).await, 404, "flow_state_not_found", NOT_FOUND);

    let id = confirmed(&server, &email).await;
    let hash = mailed_hash(&server, "/recover", &email, &json!({})).await;
    let code = code_of(&open(&server, "recovery", &hash, "").await);
    let issued = |ago: &str| {
        format!(
            "update auth.flow_state set auth_code_issued_at = now() - interval '{ago}' where user_id = '{id}'"
        )
    };
    let _rows = server.sql(&issued("301 s")).await;
    for verifier in [VERIFIER, "wrong"] {
        assert_error(
            &exchange(&server, &code, verifier).await,
            422,
            "flow_state_expired",
            "invalid flow state, flow state has expired",
        );
    }
    let _rows = server.sql(&issued("290 s")).await;
    for verifier in ["wrong", CHALLENGE, &VERIFIER.to_lowercase()] {
        assert_error(
            &exchange(&server, &code, verifier).await,
            400,
            "bad_code_verifier",
            "code challenge does not match previously saved code verifier",
        );
    }
    let _rows =
        server.sql(&format!("update auth.users set banned_until = 'infinity' where id = '{id}'")).await;
    assert_error(&exchange(&server, &code, VERIFIER).await, 400, "user_banned", "User is banned");
    let _rows = server.sql(&format!("update auth.users set banned_until = null where id = '{id}'")).await;
    let _session = exchange(&server, &code, VERIFIER).await.expect(200);
    assert_error(&exchange(&server, &code, VERIFIER).await, 404, "flow_state_not_found", NOT_FOUND);
}

#[tokio::test]
async fn session_records_the_method_of_its_flow() {
    let server = server().await;
    for (path, kind, method, more) in [
        ("/recover", "recovery", "recovery", json!({})),
        ("/otp", "magiclink", "magiclink", json!({})),
        ("/signup", "signup", "email/signup", json!({ "password": "secret1" })),
    ] {
        let email = fresh("ada");
        if path != "/signup" {
            let _id = confirmed(&server, &email).await;
        }
        let path = format!("{path}?redirect_to=https://a.example.org/cb");
        let hash = mailed_hash(&server, &path, &email, &more).await;
        let opened =
            open(&server, kind, &hash, "https://a.example.org/cb?x=1%26sb_flow_id=0a1b%23/route").await;
        let there = location(&opened);
        let code = code_of(&opened);
        assert_eq!(there, format!("https://a.example.org/cb?code={code}&sb_flow_id=0a1b&x=1#/route"));
        let stored = format!("select count(*) from auth.flow_state where auth_code like '%{code}%'");
        assert_eq!(server.database().value(&stored).await, "0", "the code is stored as its hash");
        let body = exchange(&server, &code, VERIFIER).await.expect(200).json();
        assert_eq!(text(&body, "/user/email"), email);
        let claims = claims(text(&body, "/access_token"));
        assert_eq!(claims["amr"][0]["method"], method);
        assert_eq!(claims["aal"], "aal1");
        assert_eq!(body["user"]["user_metadata"]["email_verified"], true);
        let id = text(&body, "/user/id");
        let left = format!("select count(*) from auth.flow_state where user_id = '{id}'");
        assert_eq!(server.database().value(&left).await, "0");
        // The link is used up.
        let again = location(&open(&server, kind, &hash, "").await);
        assert_eq!(pairs(&again, '?')["error_code"], "otp_expired");
        assert_eq!(pairs(&again, '#')["error_code"], "otp_expired");
    }
}

#[tokio::test]
async fn flow_lasts_as_long_as_its_link() {
    let (server, email) = (server().await, fresh("ada"));
    let id = confirmed(&server, &email).await;
    let hash = mailed_hash(&server, "/recover", &email, &json!({})).await;
    let _rows = server
        .sql(&format!(
            "update auth.flow_state set created_at = now() - interval '20 hours' where user_id = '{id}';
             update auth.users set recovery_sent_at = now() - interval '20 hours' where id = '{id}'"
        ))
        .await;
    let code = code_of(&open(&server, "recovery", &hash, "").await);
    let _session = exchange(&server, &code, VERIFIER).await.expect(200);
}

#[tokio::test]
async fn plain_challenge_equals_the_verifier() {
    let (server, email) = (server().await, fresh("ada"));
    let _id = confirmed(&server, &email).await;
    let hash = mailed_hash(&server, "/otp", &email, &json!({ "code_challenge_method": "PLAIN" })).await;
    let code = code_of(&open(&server, "magiclink", &hash, "").await);
    let _refused = exchange(&server, &code, VERIFIER).await.expect(400);
    let _session = exchange(&server, &code, CHALLENGE).await.expect(200);
}

#[tokio::test]
async fn concurrent_exchanges_succeed_once() {
    let (server, email) = (server().await, fresh("ada"));
    let id = confirmed(&server, &email).await;
    let before = session(&server, &email).await;
    let hash = mailed_hash(&server, "/recover", &email, &json!({})).await;
    let code = code_of(&open(&server, "recovery", &hash, "").await);
    let tries = (0..32).map(|_| {
        let (server, code) = (Arc::clone(&server), code.clone());
        tokio::spawn(async move { exchange(&server, &code, VERIFIER).await })
    });
    let mut winners = 0;
    for one in tries.collect::<Vec<_>>() {
        let response = one.await.unwrap();
        if response.status == 200 {
            winners += 1;
        } else {
            assert_error(&response, 404, "flow_state_not_found", NOT_FOUND);
        }
    }
    assert_eq!(winners, 1);
    let sessions = format!("select count(*) from auth.sessions where user_id = '{id}'");
    assert_eq!(server.database().value(&sessions).await, "2");
    let _session = refresh(&server, text(&before, "/refresh_token")).await.expect(200);
}

#[tokio::test]
async fn newest_mail_wins_and_its_code_can_be_typed() {
    let (server, email) = (server().await, fresh("ada"));
    let id = confirmed(&server, &email).await;
    let first = mailed_hash(&server, "/recover", &email, &json!({})).await;
    let other = "a".repeat(64);
    let second = mailed_hash(
        &server,
        "/otp",
        &email,
        &json!({ "code_challenge": other, "code_challenge_method": "plain" }),
    )
    .await;
    let gone = location(&open(&server, "recovery", &first, "").await);
    assert_eq!(pairs(&gone, '?')["error_code"], "otp_expired");
    // Recovery and magic link share a code, so a link of either type continues the newest flow.
    let code = code_of(&open(&server, "recovery", &second, "").await);
    let body = exchange(&server, &code, &other).await.expect(200).json();
    assert_eq!(claims(text(&body, "/access_token"))["amr"][0]["method"], "magiclink");

    // Typing the code or posting the hash signs in without an exchange.
    let hash = mailed_hash(&server, "/otp", &email, &json!({})).await;
    let _session = verify_hash(&server, "magiclink", &hash).await.expect(200);
    let _sent = post(
        &server,
        "/otp",
        &json!({ "email": email, "code_challenge": other, "code_challenge_method": "s256" }),
    )
    .await
    .expect(200);
    let typed = server.mailbox().wait_for(&email).await.code();
    let _session = verify_code(&server, "email", &email, &typed).await.expect(200);

    // The link's flow was cleaned up meanwhile.
    let hash = mailed_hash(&server, "/otp", &email, &json!({})).await;
    let _rows = server.sql(&format!("delete from auth.flow_state where user_id = '{id}'")).await;
    let there = location(&open(&server, "magiclink", &hash, "").await);
    let parameters = pairs(&there, '#');
    assert_eq!(parameters["error_code"], "flow_state_not_found");
    assert!(!parameters.contains_key("error"), "{there}");
}

/// An authorization code must not survive the owner's countermeasures.
#[tokio::test]
async fn opened_link_is_void_after_account_changes() {
    let server = server().await;
    for change in ["password", "address", "account"] {
        let email = fresh("ada");
        let id = confirmed(&server, &email).await;
        let own = session(&server, &email).await;
        let hash = mailed_hash(&server, "/recover", &email, &json!({})).await;
        let code = code_of(&open(&server, "recovery", &hash, "").await);
        let token = text(&own, "/access_token");
        match change {
            "password" => {
                let _set = put_user(&server, token, &json!({ "password": "another1" })).await.expect(200);
            }
            "address" => {
                let new = fresh("new");
                let _sent = put_user(&server, token, &json!({ "email": new })).await.expect(200);
                for address in [&email, &new] {
                    let hash = server.mailbox().wait_for(address).await.token_hash();
                    let _opened = open(&server, "email_change", &hash, "").await;
                }
                let now = format!("select email from auth.users where id = '{id}'");
                assert_eq!(server.database().value(&now).await, new);
            }
            _ => {
                let body = json!({ "should_soft_delete": true });
                let delete = super::admin::admin(&server, Method::DELETE, &format!("/admin/users/{id}"));
                let _deleted = delete.json(&body).send().await.expect(200);
            }
        }
        assert_error(&exchange(&server, &code, VERIFIER).await, 404, "flow_state_not_found", NOT_FOUND);
    }
}
