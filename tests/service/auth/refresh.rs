//! POST /token?grant_type=refresh_token (auth.md §3.5): rotation, reuse, concurrency.

use super::*;

async fn signed_up(server: &Basalt) -> (String, String) {
    signed_up_as(server, &fresh("ada")).await
}

async fn signed_up_as(server: &Basalt, email: &str) -> (String, String) {
    let body = json!({ "email": email, "password": "secret1" });
    let session = post(server, "/signup", &body).await.expect(200).json();
    (text(&session, "/access_token").to_owned(), text(&session, "/refresh_token").to_owned())
}

async fn next(server: &Basalt, token: &str) -> String {
    text(&refresh(server, token).await.expect(200).json(), "/refresh_token").to_owned()
}

/// Moves the last refresh out of the reuse interval.
async fn an_hour_passes(server: &Basalt) {
    an_hour_passes_for(server, "true").await;
}

/// The same for sessions that match `condition`, on a shared server.
async fn an_hour_passes_for(server: &Basalt, condition: &str) {
    let statements = format!(
        "update auth.sessions set refreshed_at = refreshed_at - interval '1 hour',
           created_at = created_at - interval '1 hour' where {condition};
         update auth.refresh_tokens set updated_at = updated_at - interval '1 hour'"
    );
    let _rows = server.sql(&statements).await;
}

/// `id = '…'` of a token's session.
fn session_of(access_token: &str) -> String {
    format!("id = '{}'", text(&claims(access_token), "/session_id"))
}

#[tokio::test]
async fn refresh_rotates_and_keeps_amr() {
    let server = shared().await;
    let (access, first) = signed_up(&server).await;
    let response = refresh(&server, &first).await.expect(200);
    assert_eq!(response.header("cache-control"), "no-store");
    let session = response.json();
    assert_ne!(text(&session, "/refresh_token"), first);
    assert!(session.get("weak_password").is_none());
    let (before, after) = (claims(&access), claims(text(&session, "/access_token")));
    for same in ["sub", "session_id", "amr", "aal", "role"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    let rows = server
        .sql(&format!(
            "select refresh_token_counter, refreshed_at is not null from auth.sessions where {}",
            session_of(&access)
        ))
        .await;
    assert_eq!(rows, [[Some("1".to_owned()), Some("t".to_owned())]]);
    assert_eq!(server.sql("select count(*) from auth.refresh_tokens").await, [[Some("0".to_owned())]]);
}

#[tokio::test]
async fn previous_token_returns_the_current_one() {
    let server = shared().await;
    let (access, first) = signed_up(&server).await;
    let second = next(&server, &first).await;
    an_hour_passes_for(&server, &session_of(&access)).await;
    assert_eq!(next(&server, &first).await, second);
    let third = next(&server, &second).await;
    // Two steps back, but within the interval.
    assert_eq!(next(&server, &first).await, third);
}

#[tokio::test]
async fn older_token_ends_the_session() {
    let server = shared().await;
    let (access, first) = signed_up(&server).await;
    let second = next(&server, &first).await;
    let third = next(&server, &second).await;
    an_hour_passes_for(&server, &session_of(&access)).await;
    assert_error(
        &refresh(&server, &first).await,
        400,
        "refresh_token_already_used",
        "Invalid Refresh Token: Already Used",
    );
    assert_error(
        &refresh(&server, &third).await,
        400,
        "refresh_token_not_found",
        "Invalid Refresh Token: Refresh Token Not Found",
    );
    assert_error(
        &get_user(&server, &access).await,
        403,
        "session_not_found",
        "Session from session_id claim in JWT does not exist",
    );
}

#[tokio::test]
async fn without_rotation_older_token_keeps_the_session() {
    let server = quick().config("auth.security_refresh_token_rotation_enabled", "false").start().await;
    let (_, first) = signed_up(&server).await;
    let second = next(&server, &first).await;
    let third = next(&server, &second).await;
    an_hour_passes(&server).await;
    let _refused = refresh(&server, &first).await.expect(400);
    let _session = refresh(&server, &third).await.expect(200);
}

#[tokio::test]
async fn concurrent_refreshes_return_one_token() {
    let server = shared().await;
    let (access, first) = signed_up(&server).await;
    let responses = futures_util::future::join_all((0..64).map(|_| next(&server, &first))).await;
    assert!(responses.iter().all(|response| *response == responses[0]));
    assert_eq!(
        server
            .sql(&format!("select refresh_token_counter from auth.sessions where {}", session_of(&access)))
            .await,
        [[Some("1".to_owned())]]
    );
    let _session = refresh(&server, &responses[0]).await.expect(200);
}

#[tokio::test]
async fn malformed_and_unknown_tokens_differ() {
    let server = quick().start().await;
    let (_, token) = signed_up(&server).await;
    for text in ["", "nonsense", "ABEREREiIkMzhERVVVVVVVUAI-IcsaseXEKS7q68JAgmU-80L2N"] {
        assert_error(&refresh(&server, text).await, 400, "validation_failed", "Refresh token is not valid");
    }
    // A v1 token without a session, and the contract's test vector, whose session does not exist here.
    for text in ["wx3k9q2m5a7b", "ABEREREiIkMzhERVVVVVVVUAI-IcsaseXEKS7q68JAgmU-80L2M"] {
        assert_error(
            &refresh(&server, text).await,
            400,
            "refresh_token_not_found",
            "Invalid Refresh Token: Refresh Token Not Found",
        );
    }
    let _rows = server.sql("update auth.sessions set refresh_token_counter = -1").await;
    assert_error(
        &refresh(&server, &token).await,
        400,
        "validation_failed",
        "Invalid Refresh Token: Not Issued By This Server",
    );
    let _rows = server
        .sql(
            "update auth.sessions set refresh_token_hmac_key = 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8'",
        )
        .await;
    assert_error(
        &refresh(&server, &token).await,
        400,
        "refresh_token_not_found",
        "Invalid Refresh Token: Refresh Token Not Found",
    );
}

#[tokio::test]
async fn accepts_the_test_vector_of_the_contract() {
    let server = quick().start().await;
    let _tokens = signed_up(&server).await;
    let _rows = server
        .sql(
            "insert into auth.sessions (id, user_id, created_at, updated_at, aal, refresh_token_hmac_key, refresh_token_counter)
             select '11111111-2222-4333-8444-555555555555', id, now(), now(), 'aal1',
               'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8', 299 from auth.users",
        )
        .await;
    // Counter 299 advances to 300, whose token is in the contract.
    let _rows = server
        .sql("update auth.sessions set refresh_token_counter = 0 where refresh_token_counter = 299")
        .await;
    let _first = refresh(&server, "ABEREREiIkMzhERVVVVVVVUAI-IcsaseXEKS7q68JAgmU-80L2M").await.expect(200);
    let _rows = server.sql("update auth.sessions set refresh_token_counter = 300 where id = '11111111-2222-4333-8444-555555555555'").await;
    let second =
        refresh(&server, "ABEREREiIkMzhERVVVVVVVWsAg7ZC0vLuQzqLzMCy_Bbh8fZrB2g").await.expect(200).json();
    assert_ne!(second["refresh_token"], "");
    let rows = server.sql("select refresh_token_counter from auth.sessions where id = '11111111-2222-4333-8444-555555555555'").await;
    assert_eq!(rows, [[Some("301".to_owned())]]);
}

#[tokio::test]
async fn imported_v1_tokens_are_upgraded() {
    let server = quick().start().await;
    let _tokens = signed_up(&server).await;
    let _rows = server
        .sql(
            "insert into auth.sessions (id, user_id, created_at, updated_at, aal)
             select '11111111-2222-4333-8444-555555555555', id, now() - interval '1 day', now(), 'aal1' from auth.users;
             insert into auth.refresh_tokens (instance_id, token, user_id, revoked, created_at, updated_at, parent, session_id)
             select '00000000-0000-0000-0000-000000000000', 'wx3k9q2m5a7b', id::text, false, now() - interval '1 day',
               now() - interval '1 day', '', '11111111-2222-4333-8444-555555555555' from auth.users;
             insert into auth.refresh_tokens (token, user_id, revoked, created_at, updated_at)
             select 'aaaaaaaaaaaa', id::text, false, now(), now() from auth.users",
        )
        .await;
    let second = next(&server, "wx3k9q2m5a7b").await;
    an_hour_passes(&server).await;
    assert_eq!(next(&server, "wx3k9q2m5a7b").await, second, "a lost response is recovered");
    let _third = next(&server, &second).await;
    an_hour_passes(&server).await;
    assert_error(
        &refresh(&server, "wx3k9q2m5a7b").await,
        400,
        "refresh_token_already_used",
        "Invalid Refresh Token: Already Used",
    );
    assert_error(
        &refresh(&server, "aaaaaaaaaaaa").await,
        400,
        "session_not_found",
        "Invalid Refresh Token: No Valid Session Found",
    );
}

#[tokio::test]
async fn session_limits_apply_at_refresh() {
    let server = quick()
        .config("auth.sessions_timebox", "7200")
        .config("auth.sessions_inactivity_timeout", "1800")
        .start()
        .await;
    let (_, token) = signed_up(&server).await;
    let token = next(&server, &token).await;
    an_hour_passes(&server).await;
    let expired = "session_expired";
    assert_error(
        &refresh(&server, &token).await,
        400,
        expired,
        "Invalid Refresh Token: Session Expired (Inactivity)",
    );
    an_hour_passes(&server).await;
    assert_error(&refresh(&server, &token).await, 400, expired, "Invalid Refresh Token: Session Expired");
    let _rows = server.sql("update auth.users set banned_until = now() + interval '1 hour'").await;
    assert_error(&refresh(&server, &token).await, 400, "user_banned", "Invalid Refresh Token: User Banned");
}

#[tokio::test]
async fn newer_login_can_end_older_sessions() {
    let server = quick().config("auth.sessions_single_per_user", "true").start().await;
    let (_, first) = signed_up_as(&server, "ada@example.org").await;
    let session = sign_in(&server, "ada@example.org", "secret1").await.expect(200).json();
    assert_error(
        &refresh(&server, &first).await,
        400,
        "session_expired",
        "Invalid Refresh Token: Session Expired (Revoked by Newer Login)",
    );
    let _session = refresh(&server, text(&session, "/refresh_token")).await.expect(200);
}
