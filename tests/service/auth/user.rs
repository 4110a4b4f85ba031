//! GET and PUT /user (auth.md §3.7). Addresses: email_change.rs; nonces: reauthenticate.rs.

use super::*;

const EMAIL: &str = "ada@example.org";

async fn ada(server: &Basalt) -> String {
    ada_at(server, EMAIL).await
}

async fn ada_at(server: &Basalt, email: &str) -> String {
    let body = json!({ "email": email, "password": "secret1", "data": { "name": "Ada", "city": "London" } });
    text(&post(server, "/signup", &body).await.expect(200).json(), "/access_token").to_owned()
}

#[tokio::test]
async fn metadata_merges_keys_and_null_removes_them() {
    let (server, email) = (shared().await, fresh("ada"));
    let token = ada_at(&server, &email).await;
    let change = json!({ "data": { "name": null, "city": { "name": "Paris" }, "age": 36 } });
    let user = put_user(&server, &token, &change).await.expect(200).json();
    let metadata = &user["user_metadata"];
    assert_eq!(metadata["city"], json!({ "name": "Paris" }));
    assert_eq!(metadata["age"], 36);
    assert!(metadata.get("name").is_none());
    assert_eq!(metadata["email"], *email);
    assert_eq!(get_user(&server, &token).await.expect(200).json(), user);
}

#[tokio::test]
async fn new_password_ends_other_sessions() {
    let (server, email) = (shared().await, fresh("ada"));
    let token = ada_at(&server, &email).await;
    let other = sign_in(&server, &email, "secret1").await.expect(200).json();
    assert_error(
        &put_user(&server, &token, &json!({ "password": "secret1" })).await,
        422,
        "same_password",
        "New password should be different from the old password.",
    );
    assert_eq!(
        put_user(&server, &token, &json!({ "password": "12345" })).await.expect(422).json()["code"],
        "weak_password"
    );
    let _user = put_user(&server, &token, &json!({ "password": "secret2" })).await.expect(200);
    let _user = get_user(&server, &token).await.expect(200);
    let _gone = get_user(&server, text(&other, "/access_token")).await.expect(403);
    let _gone = refresh(&server, text(&other, "/refresh_token")).await.expect(400);
    let _refused = sign_in(&server, &email, "secret1").await.expect(400);
    let _session = sign_in(&server, &email, "secret2").await.expect(200);
}

#[tokio::test]
async fn current_password_can_be_required() {
    let server =
        quick().config("auth.security_update_password_require_current_password", "true").start().await;
    let token = ada(&server).await;
    let message = "Current password required when setting new password.";
    let change = |current: &str| json!({ "password": "secret2", "current_password": current });
    assert_error(&put_user(&server, &token, &change("")).await, 400, "current_password_required", message);
    assert_error(
        &put_user(&server, &token, &change("wrong")).await,
        400,
        "current_password_invalid",
        message,
    );
    let _user = put_user(&server, &token, &change("secret1")).await.expect(200);
}

#[tokio::test]
async fn rejects_forbidden_changes() {
    let (server, email) = (shared().await, fresh("ada"));
    let token = ada_at(&server, &email).await;
    let other = fresh("eve");
    let body = json!({ "email": other, "password": "secret1" });
    let _session = post(&server, "/signup", &body).await.expect(200);
    for (change, status, code, message) in [
        (
            json!({ "email": "nobody" }),
            400,
            "validation_failed",
            "Unable to validate email address: invalid format",
        ),
        (
            json!({ "app_metadata": { "role": "admin" } }),
            403,
            "not_admin",
            "Updating app_metadata requires admin privileges",
        ),
        (
            json!({ "email": other.to_uppercase() }),
            422,
            "email_exists",
            "A user with this email address has already been registered",
        ),
    ] {
        assert_error(&put_user(&server, &token, &change).await, status, code, message);
    }
    // The current address is not a change.
    let same = put_user(&server, &token, &json!({ "email": email.to_uppercase() })).await.expect(200).json();
    assert!(same.get("new_email").is_none());
    let _rows = server
        .sql(&format!(
            "insert into auth.mfa_factors (id, user_id, factor_type, status, created_at, updated_at)
             select gen_random_uuid(), id, 'totp', 'verified', now(), now() from auth.users where email = '{email}'"
        ))
        .await;
    assert_error(
        &put_user(&server, &token, &json!({ "password": "secret2" })).await,
        401,
        "insufficient_aal",
        "AAL2 session is required to update email or password when MFA is enabled.",
    );
    let user = put_user(&server, &token, &json!({ "data": { "x": 1 } })).await.expect(200).json();
    assert_eq!(user["factors"][0]["status"], "verified");
}

#[tokio::test]
async fn command_line_creates_a_confirmed_user() {
    let server = quick().start().await;
    assert_eq!(server.database().value("select count(*) from auth.users").await, "0");
    // The code behind `basalt user create`, with a login that has no rights of its own on `auth`.
    let database = basalt_pg::database::Database::from_url(&server.database().url()).unwrap();
    let pool = basalt_pg::pool::ServicePool::new(
        database,
        basalt_pg::pool::PoolConfig::new("cli", 1),
        tokio_util::task::TaskTracker::new(),
    );
    let account = basalt_auth::NewAccount { email: "Root@example.org", password: "secret1", is_admin: true };
    let config = basalt_auth::AuthConfig::default();
    let clock = basalt_core::clock::Clock::system();
    let refused = basalt_auth::create_user(&config, &pool, &clock, &account).await.unwrap_err();
    assert!(refused.to_string().contains("public.user_roles"), "{refused}");
    assert_eq!(server.database().value("select count(*) from auth.users").await, "0");
    let _rows = server
        .sql("create table public.user_roles (user_id uuid references auth.users(id), role text)")
        .await;
    let id = basalt_auth::create_user(&config, &pool, &clock, &account).await.unwrap();
    assert_eq!(
        server.sql("select user_id, role from public.user_roles").await,
        [[Some(id.to_string()), Some("admin".to_owned())]]
    );
    let taken = basalt_auth::create_user(&config, &pool, &clock, &account).await.unwrap_err();
    assert_eq!(taken.code(), "user_already_exists");
    pool.close();
    let session = sign_in(&server, "root@example.org", "secret1").await.expect(200).json();
    assert_eq!(text(&session, "/user/id"), id.to_string());
}
