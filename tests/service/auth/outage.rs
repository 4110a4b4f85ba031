//! The database unavailable or blocked: clients get errors they retry, never one that signs them out (auth.md §5.2, §6).

use basalt_testkit::Link;

use super::*;

#[tokio::test]
async fn outage_is_503_and_sessions_survive() {
    let server = quick().through_proxy().config("auth.api_max_request_duration", "2").start().await;
    server.expect_log("database");
    server.expect_log("timed out");
    let user = server.sign_up("ada@example.org").await;

    server.proxy().set(Link::Cut);
    for response in [
        refresh(&server, &user.refresh_token).await,
        sign_in(&server, &user.email, &user.password).await,
        get_user(&server, &user.access_token).await,
    ] {
        assert!(matches!(response.status.as_u16(), 503 | 504), "{} {}", response.status, response.text());
        assert_eq!(response.header("retry-after"), "1");
        assert_eq!(response.header("x-supabase-api-version"), "2024-01-01");
    }
    // A browser that follows a link is redirected to the app with the error.
    let opened = client(&server, Method::GET, "/verify?type=signup&token=x").send().await;
    if opened.status != 504 {
        assert_eq!(opened.status, 303);
        assert!(
            opened.header("location").contains("#error=temporarily_unavailable&error_code="),
            "{opened:?}"
        );
    }
    server.proxy().set(Link::Up);
    let again = client(&server, Method::POST, "/token?grant_type=refresh_token")
        .json(&json!({ "refresh_token": user.refresh_token }));
    let limit = std::time::Duration::from_secs(30);
    let session = server.until(limit, &again, |response| response.status.is_success()).await.json();
    let _user = get_user(&server, text(&session, "/access_token")).await.expect(200);
}

#[tokio::test]
async fn blocked_statement_ends_with_the_request() {
    let server = quick().config("auth.api_max_request_duration", "1").start().await;
    server.expect_log("timed out");
    let user = server.sign_up("ada@example.org").await;
    // Another session locks the user's row, which blocks the sign-in.
    let holder = holding(&server, "select 1 from auth.users for update").await;
    let response = sign_in(&server, &user.email, &user.password).await;
    holder.batch_execute("commit").await.unwrap();
    assert_error(
        &response,
        504,
        "request_timeout",
        "Processing this request timed out, please retry after a moment.",
    );
    let _session = sign_in(&server, &user.email, &user.password).await.expect(200);
}
