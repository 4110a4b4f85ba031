//! `/admin/users` (auth.md §3.13).

use super::*;

fn admin(server: &Basalt, method: Method, path: &str) -> Request {
    client(server, method, path).apikey(server.secret_key())
}

async fn create(server: &Basalt, body: &Value) -> Response {
    admin(server, Method::POST, "/admin/users").json(body).send().await
}

async fn change(server: &Basalt, id: &str, body: &Value) -> Response {
    admin(server, Method::PUT, &format!("/admin/users/{id}")).json(body).send().await
}

async fn delete(server: &Basalt, id: &str, body: &Value) -> Response {
    admin(server, Method::DELETE, &format!("/admin/users/{id}")).json(body).send().await
}

#[tokio::test]
async fn only_admin_roles_may() {
    let server = shared().await;
    let user = server.sign_up(&fresh("ada")).await;
    let as_user = client(&server, Method::GET, "/admin/users").bearer(&user.access_token).send().await;
    assert_error(&as_user, 403, "not_admin", "User not allowed");
    assert_error(
        &client(&server, Method::GET, "/admin/users").send().await,
        403,
        "not_admin",
        "User not allowed",
    );
    // As client test suites make their admin: a token of nobody, without exp.
    let token = server.token(&json!({ "sub": "1234567890", "role": "supabase_admin" }));
    let _list = client(&server, Method::GET, "/admin/users").bearer(&token).send().await.expect(200);
    let dead = server.token(&json!({
        "sub": user.id, "role": "service_role", "session_id": "11111111-2222-4333-8444-555555555555"
    }));
    let refused = client(&server, Method::GET, "/admin/users").bearer(&dead).send().await;
    assert_error(&refused, 403, "session_expired", "Session is no longer valid");
}

#[tokio::test]
async fn lists_come_in_pages_newest_first() {
    let server = quick().start().await;
    let _rows = server
        .sql(
            "insert into auth.users (id, aud, role, email, raw_user_meta_data, created_at, updated_at)
             select gen_random_uuid(), 'authenticated', 'authenticated', 'u' || n || '@example.org',
               jsonb_build_object('full_name', 'User ' || n), timestamptz '2026-01-01' + n * interval '1 day', now()
             from generate_series(1, 7) n",
        )
        .await;
    let list = async |query: &str| {
        admin(&server, Method::GET, &format!("/admin/users{query}")).send().await.expect(200)
    };
    let emails = |response: &Response| -> Vec<String> {
        let body = response.json();
        body["users"]
            .as_array()
            .unwrap()
            .iter()
            .map(|user| user["email"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = list("?page=1&per_page=3").await;
    assert_eq!(emails(&first), ["u7@example.org", "u6@example.org", "u5@example.org"]);
    assert_eq!(first.json()["aud"], "authenticated");
    assert_eq!(first.json()["users"][0]["identities"], json!([]));
    assert_eq!(first.header("x-total-count"), "7");
    assert_eq!(
        first.header("link"),
        "</admin/users?page=2&per_page=3>; rel=\"next\", </admin/users?page=3&per_page=3>; rel=\"last\""
    );
    let beyond = list("?page=9&per_page=3").await;
    assert_eq!(beyond.json()["users"], json!([]));
    assert_eq!(beyond.header("link"), "</admin/users?page=3&per_page=3>; rel=\"last\"");
    assert_eq!(emails(&list("?sort=created_at%20asc&per_page=1").await), ["u1@example.org"]);
    assert_eq!(emails(&list("?filter=u3@example.org").await), ["u3@example.org"]);
    assert_eq!(emails(&list("?filter=user%204").await), ["u4@example.org"]);
    for query in ["?page=x", "?sort=email"] {
        let refused = admin(&server, Method::GET, &format!("/admin/users{query}")).send().await.expect(400);
        assert_eq!(refused.header("x-sb-error-code"), "validation_failed");
    }
}

#[tokio::test]
async fn a_created_user_is_confirmed_only_when_asked() {
    let server = shared().await;
    let body = json!({
        "email": "Created@example.org", "password": "1", "user_metadata": { "name": "Ada" },
        "app_metadata": { "plan": "free" }, "role": "editor"
    });
    let user = create(&server, &body).await.expect(200).json();
    assert_eq!(user["email"], "created@example.org");
    assert_eq!(user["role"], "editor");
    assert_eq!(user["user_metadata"], json!({ "name": "Ada" }));
    assert_eq!(user["app_metadata"], json!({ "provider": "email", "providers": ["email"], "plan": "free" }));
    assert_eq!(user["identities"][0]["provider"], "email");
    assert!(user.get("email_confirmed_at").is_none());
    assert_error(
        &sign_in(&server, "created@example.org", "1").await,
        400,
        "email_not_confirmed",
        "Email not confirmed",
    );
    assert_error(
        &create(&server, &body).await,
        422,
        "email_exists",
        "A user with this email address has already been registered",
    );
    let id = text(&user, "/id");
    let confirmed = change(&server, id, &json!({ "email_confirm": true })).await.expect(200).json();
    assert!(confirmed.get("email_confirmed_at").is_some());
    let session = sign_in(&server, "created@example.org", "1").await.expect(200).json();
    assert_eq!(claims(text(&session, "/access_token"))["role"], "editor");

    let chosen = "22222222-2222-4333-8444-555555555555";
    let imported = json!({
        "id": chosen, "email": "imported@example.org", "email_confirm": true,
        "password_hash": "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
    });
    assert_eq!(create(&server, &imported).await.expect(200).json()["id"], chosen);
    let _session = sign_in(&server, "imported@example.org", "password").await.expect(200);
}

#[tokio::test]
async fn what_cannot_be_created_says_why() {
    let server = shared().await;
    let invalid = "validation_failed";
    for (body, status, code, message) in [
        (json!({}), 400, invalid, "Cannot create a user without either an email or phone"),
        (
            json!({ "email": "a@b.org", "password": "x", "password_hash": "y" }),
            400,
            invalid,
            "Only a password or a password hash should be provided",
        ),
        (json!({ "email": "a@b.org", "id": "x" }), 400, invalid, "ID must conform to the uuid v4 format"),
        (
            json!({ "email": "a@b.org", "id": "00000000-0000-0000-0000-000000000000" }),
            400,
            invalid,
            "ID cannot be a nil uuid",
        ),
        (
            json!({ "email": "a@b.org", "password_hash": "$1$x" }),
            500,
            "unexpected_failure",
            "Error creating user",
        ),
        (
            json!({ "email": "a@b.org", "ban_duration": "1d" }),
            400,
            invalid,
            "invalid format for ban duration: time: invalid duration \"1d\"",
        ),
    ] {
        server.expect_log("Error creating user");
        assert_error(&create(&server, &body).await, status, code, message);
    }
}

#[tokio::test]
async fn changes_take_effect_at_once() {
    let server = shared().await;
    let ada = server.sign_up(&fresh("ada")).await;
    let _eve = server.sign_up("eve-changes@example.org").await;
    assert_error(
        &change(&server, &ada.id, &json!({ "email": "eve-changes@example.org" })).await,
        422,
        "email_exists",
        "A user with this email address has already been registered",
    );
    let user = change(&server, &ada.id, &json!({ "email": "Countess@example.org" })).await.expect(200).json();
    assert_eq!(user["email"], "countess@example.org");
    assert_eq!(user["identities"][0]["email"], "countess@example.org");

    let banned = change(&server, &ada.id, &json!({ "ban_duration": "24h30m" })).await.expect(200).json();
    assert!(banned.get("banned_until").is_some());
    assert_error(&get_user(&server, &ada.access_token).await, 403, "user_banned", "User is banned");
    let free = change(&server, &ada.id, &json!({ "ban_duration": "none" })).await.expect(200).json();
    assert!(free.get("banned_until").is_none());
    let _user = get_user(&server, &ada.access_token).await.expect(200);

    let weak = change(&server, &ada.id, &json!({ "password": "1" })).await.expect(422);
    assert_eq!(weak.header("x-sb-error-code"), "weak_password");
    let _user = change(&server, &ada.id, &json!({ "password": "secret9" })).await.expect(200);
    let _gone = get_user(&server, &ada.access_token).await.expect(403);
    let _session = sign_in(&server, "countess@example.org", "secret9").await.expect(200);
}

#[tokio::test]
async fn users_are_deleted_for_good_or_made_unknown() {
    let server = shared().await;
    let ada = server.sign_up("ada-deleted@example.org").await;
    let eve = server.sign_up("eve-deleted@example.org").await;
    let nobody = "11111111-2222-4333-8444-555555555555";
    assert_error(&delete(&server, nobody, &json!({})).await, 404, "user_not_found", "User not found");
    assert_error(
        &delete(&server, "x", &json!({})).await,
        404,
        "validation_failed",
        "user_id must be an UUID",
    );

    assert_eq!(
        delete(&server, &ada.id, &json!({ "should_soft_delete": true })).await.expect(200).json(),
        json!({})
    );
    let ghost =
        admin(&server, Method::GET, &format!("/admin/users/{}", ada.id)).send().await.expect(200).json();
    assert!(ghost.get("deleted_at").is_some());
    assert_eq!(ghost["user_metadata"], json!({}));
    assert!(!ghost.to_string().contains("ada-deleted@example.org"), "{ghost}");
    let _again = server.sign_up("ada-deleted@example.org").await;

    let _rows = server
        .sql(
            "create table public.notes (user_id uuid references auth.users(id));
             insert into public.notes select id from auth.users where email = 'eve-deleted@example.org'",
        )
        .await;
    server.expect_log("Database error deleting user");
    let held = delete(&server, &eve.id, &json!({})).await.expect(500).json();
    assert_eq!(held["message"], "Database error deleting user");
    let _rows = server.sql("truncate public.notes").await;
    let without_body =
        admin(&server, Method::DELETE, &format!("/admin/users/{}", eve.id)).send().await.expect(200);
    assert_eq!(without_body.json(), json!({}));
    assert_error(
        &get_user(&server, &eve.access_token).await,
        403,
        "user_not_found",
        "User from sub claim in JWT does not exist",
    );
}
