//! POST /logout (auth.md §3.6).

use super::*;

/// Three sessions of one user: their access tokens.
async fn three_sessions(server: &Basalt) -> [String; 3] {
    let email = fresh("ada");
    let body = json!({ "email": email, "password": "secret1" });
    let first = post(server, "/signup", &body).await.expect(200).json();
    let second = sign_in(server, &email, "secret1").await.expect(200).json();
    let third = sign_in(server, &email, "secret1").await.expect(200).json();
    [first, second, third].map(|session| text(&session, "/access_token").to_owned())
}

async fn alive(server: &Basalt, tokens: &[String; 3]) -> Vec<bool> {
    let mut alive = Vec::new();
    for token in tokens {
        alive.push(get_user(server, token).await.status.is_success());
    }
    alive
}

async fn log_out(server: &Basalt, query: &str, token: &str) -> Response {
    client(server, Method::POST, &format!("/logout{query}")).bearer(token).send().await
}

#[tokio::test]
async fn each_scope_ends_its_sessions() {
    for (query, left) in [
        ("", [false, false, false]),
        ("?scope=global", [false, false, false]),
        ("?scope=local", [false, true, true]),
        ("?scope=others", [true, false, false]),
    ] {
        let server = shared().await;
        let tokens = three_sessions(&server).await;
        let response = log_out(&server, query, &tokens[0]).await.expect(204);
        assert_eq!(response.text(), "");
        assert_eq!(alive(&server, &tokens).await, left, "{query}");
        let gone = log_out(&server, query, &tokens[0]).await;
        assert_eq!(gone.status.is_success(), left[0], "{query}");
    }
}

#[tokio::test]
async fn unknown_scope_ends_no_session() {
    let server = shared().await;
    let tokens = three_sessions(&server).await;
    let refused = log_out(&server, "?scope=all", &tokens[0]).await;
    assert_error(&refused, 400, "validation_failed", "Unsupported logout scope \"all\"");
    assert_eq!(alive(&server, &tokens).await, [true, true, true]);
}

#[tokio::test]
async fn refresh_token_of_ended_session_is_unknown() {
    let server = shared().await;
    let email = fresh("ada");
    let body = json!({ "email": email, "password": "secret1" });
    let session = post(&server, "/signup", &body).await.expect(200).json();
    let _done = log_out(&server, "", text(&session, "/access_token")).await.expect(204);
    assert_error(
        &refresh(&server, text(&session, "/refresh_token")).await,
        400,
        "refresh_token_not_found",
        "Invalid Refresh Token: Refresh Token Not Found",
    );
    let left = format!(
        "select count(*) from auth.mfa_amr_claims where session_id = '{}'",
        text(&claims(text(&session, "/access_token")), "/session_id")
    );
    assert_eq!(server.database().value(&left).await, "0");
}
