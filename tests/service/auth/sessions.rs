//! Sessions: listed, ended one by one, and their limits (auth.md §3.23; the routes are ours, docs/decisions/0013).

use super::admin::admin;
use super::*;

const NOBODY: &str = "11111111-2222-4333-8444-555555555555";

fn session_of(access_token: &str) -> String {
    text(&claims(access_token), "/session_id").to_owned()
}

async fn list(server: &Basalt, token: &str) -> Vec<Value> {
    let response = client(server, Method::GET, "/user/sessions").bearer(token).send().await.expect(200);
    response.json()["sessions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn user_lists_and_ends_own_sessions() {
    let server = shared().await;
    let ada = server.sign_up(&fresh("ada")).await;
    let second = client(&server, Method::POST, "/token?grant_type=password")
        .header("user-agent", "a phone")
        .json(&json!({ "email": ada.email, "password": ada.password }))
        .send()
        .await
        .expect(200)
        .json();
    let eve = server.sign_up(&fresh("eve")).await;
    let sessions = list(&server, &ada.access_token).await;
    assert_eq!(sessions.len(), 2);
    let (current, other): (Vec<&Value>, Vec<&Value>) =
        sessions.iter().partition(|session| session["is_current"] == true);
    assert_eq!(current[0]["id"], session_of(&ada.access_token));
    assert_eq!(other[0]["id"], session_of(text(&second, "/access_token")));
    assert_eq!(other[0]["user_agent"], "a phone");
    assert_eq!(other[0]["ip"], "127.0.0.1");
    assert_eq!(other[0]["aal"], "aal1");
    assert_eq!(other[0]["amr"][0]["method"], "password");
    assert_eq!(other[0]["refreshed_at"], Value::Null);

    let delete = async |id: &str, token: &str| {
        client(&server, Method::DELETE, &format!("/user/sessions/{id}")).bearer(token).send().await
    };
    let id = text(other[0], "/id");
    assert_error(&delete(id, &eve.access_token).await, 404, "session_not_found", "Session not found");
    assert_error(&delete(NOBODY, &ada.access_token).await, 404, "session_not_found", "Session not found");
    assert_error(
        &delete("x", &ada.access_token).await,
        404,
        "validation_failed",
        "session_id must be an UUID",
    );
    assert_eq!(delete(id, &ada.access_token).await.expect(204).text(), "");
    assert_eq!(list(&server, &ada.access_token).await.len(), 1);
    assert_error(
        &refresh(&server, text(&second, "/refresh_token")).await,
        400,
        "refresh_token_not_found",
        "Invalid Refresh Token: Refresh Token Not Found",
    );
    // Ending the current session invalidates its token.
    let _none = delete(&session_of(&ada.access_token), &ada.access_token).await.expect(204);
    let gone = client(&server, Method::GET, "/user/sessions").bearer(&ada.access_token).send().await;
    assert_error(&gone, 403, "session_not_found", "Session from session_id claim in JWT does not exist");
    let nobody = client(&server, Method::GET, "/user/sessions").send().await;
    assert_error(&nobody, 403, "bad_jwt", "invalid claim: missing sub claim");
}

#[tokio::test]
async fn admin_lists_and_ends_sessions_of_any_user() {
    let server = shared().await;
    let ada = server.sign_up(&fresh("ada")).await;
    let second = sign_in(&server, &ada.email, &ada.password).await.expect(200).json();
    let at = |path: &str| format!("/admin/users/{}/sessions{path}", ada.id);
    let listed = admin(&server, Method::GET, &at("")).send().await.expect(200).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(listed["sessions"][0]["is_current"], false);
    let id = session_of(text(&second, "/access_token"));
    let _none = admin(&server, Method::DELETE, &at(&format!("/{id}"))).send().await.expect(204);
    let again = admin(&server, Method::DELETE, &at(&format!("/{id}"))).send().await;
    assert_error(&again, 404, "session_not_found", "Session not found");
    let bad = admin(&server, Method::DELETE, &at("/x")).send().await;
    assert_error(&bad, 404, "validation_failed", "session_id must be an UUID");
    let _user = get_user(&server, &ada.access_token).await.expect(200);
    let _none = admin(&server, Method::DELETE, &at("")).send().await.expect(204);
    let _gone = get_user(&server, &ada.access_token).await.expect(403);

    for (path, code, message) in [
        ("/admin/users/x/sessions", "validation_failed", "user_id must be an UUID"),
        (&*format!("/admin/users/{NOBODY}/sessions"), "user_not_found", "User not found"),
    ] {
        for method in [Method::GET, Method::DELETE] {
            assert_error(&admin(&server, method, path).send().await, 404, code, message);
        }
    }
    let eve = server.sign_up(&fresh("eve")).await;
    for (method, path) in
        [(Method::GET, at("")), (Method::DELETE, at("")), (Method::DELETE, at(&format!("/{id}")))]
    {
        let refused = client(&server, method, &path).bearer(&eve.access_token).send().await;
        assert_error(&refused, 403, "not_admin", "User not allowed");
    }
    let revoked = format!(
        "select count(*) from auth.audit_log_entries where payload ->> 'action' = 'token_revoked'
         and payload -> 'traits' ->> 'user_id' = '{}'",
        ada.id
    );
    assert_eq!(server.sql(&revoked).await, [[Some("2".to_owned())]]);
}

#[tokio::test]
async fn session_records_the_client() {
    let server = quick().config("server.trusted_proxies", "127.0.0.1").start().await;
    let sign_in_from = async |address: &str, agent: &str| {
        client(&server, Method::POST, "/token?grant_type=password")
            .header("x-forwarded-for", address)
            .header("user-agent", agent)
            .json(&json!({ "email": "ada@example.org", "password": "correct horse 7" }))
            .send()
            .await
            .expect(200)
            .json()
    };
    let _user = server.sign_up("ada@example.org").await;
    let session = sign_in_from("198.51.100.7, 203.0.113.9", "first").await;
    let row = format!(
        "select host(ip), user_agent from auth.sessions where id = '{}'",
        session_of(text(&session, "/access_token"))
    );
    let cells = |ip: &str, agent: &str| vec![vec![Some(ip.to_owned()), Some(agent.to_owned())]];
    assert_eq!(server.sql(&row).await, cells("203.0.113.9", "first"), "the last untrusted hop");
    let _session = client(&server, Method::POST, "/token?grant_type=refresh_token")
        .header("x-forwarded-for", "2001:db8::5")
        .header("user-agent", "second")
        .json(&json!({ "refresh_token": session["refresh_token"] }))
        .send()
        .await
        .expect(200);
    assert_eq!(server.sql(&row).await, cells("2001:db8::5", "second"), "a refresh brings them up to date");
}

#[tokio::test]
async fn keeps_one_session_per_tag() {
    let server = quick()
        .config("auth.sessions_single_per_user", "true")
        .config("auth.sessions_tags", "web,phone")
        .start()
        .await;
    let web = server.sign_up("ada@example.org").await;
    let phone = sign_in(&server, "ada@example.org", &web.password).await.expect(200).json();
    let tag = format!(
        "update auth.sessions set tag = 'phone' where id = '{}'",
        session_of(text(&phone, "/access_token"))
    );
    let _rows = server.sql(&tag).await;
    let _web = refresh(&server, &web.refresh_token).await.expect(200);
    let _phone = refresh(&server, text(&phone, "/refresh_token")).await.expect(200);
    // An unknown tag counts as the first.
    let other = sign_in(&server, "ada@example.org", &web.password).await.expect(200).json();
    let _rows = server
        .sql(&format!(
            "update auth.sessions set tag = 'fridge' where id = '{}'",
            session_of(text(&other, "/access_token"))
        ))
        .await;
    assert_error(
        &refresh(&server, &web.refresh_token).await,
        400,
        "session_expired",
        "Invalid Refresh Token: Session Expired (Revoked by Newer Login)",
    );
    let _phone = refresh(&server, text(&phone, "/refresh_token")).await.expect(200);
}

#[tokio::test]
async fn not_after_and_missing_factor_end_sessions() {
    let server = quick().config("auth.sessions_allow_low_aal", "60").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let _rows = server
        .sql(
            "insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at)
             select gen_random_uuid(), id, 'phone app', 'totp', 'verified', now(), now() from auth.users",
        )
        .await;
    let token = refresh(&server, &ada.refresh_token).await.expect(200).json();
    let token = text(&token, "/refresh_token");
    let _rows = server.sql("update auth.sessions set created_at = now() - interval '61 s'").await;
    assert_error(
        &refresh(&server, token).await,
        400,
        "session_expired",
        "Invalid Refresh Token: Session Expired (Low AAL: User Needs MFA Verification)",
    );
    let _rows =
        server.sql("update auth.sessions set created_at = now(), not_after = now() - interval '1 s'").await;
    assert_error(
        &refresh(&server, token).await,
        400,
        "session_expired",
        "Invalid Refresh Token: Session Expired",
    );
    let _rows = server.sql("update auth.sessions set not_after = 'infinity'").await;
    let _session = refresh(&server, token).await.expect(200);
    let _rows = server.sql("update auth.sessions set oauth_client_id = null").await;
}

#[tokio::test]
async fn session_limits_apply_to_admin_tokens() {
    let server = quick().config("auth.sessions_timebox", "3600").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let token = server.token(&json!({
        "sub": ada.id, "role": "service_role", "session_id": session_of(&ada.access_token)
    }));
    let list = || client(&server, Method::GET, "/admin/users").bearer(&token).send();
    let _list = list().await.expect(200);
    let _rows = server.sql("update auth.sessions set created_at = now() - interval '2 hours'").await;
    assert_error(&list().await, 403, "session_expired", "Session is no longer valid");
    let _rows = server.sql("delete from auth.sessions").await;
    assert_error(&list().await, 403, "session_expired", "Session is no longer valid");
}
