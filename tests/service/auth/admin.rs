//! `/admin/users` (auth.md §3.13).

use super::*;

pub(crate) fn admin(server: &Basalt, method: Method, path: &str) -> Request {
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
async fn requires_an_admin_role() {
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
    // Client test suites create such admin tokens: without `sub` and `exp`.
    let token = server.token(&json!({ "sub": "1234567890", "role": "supabase_admin" }));
    let _list = client(&server, Method::GET, "/admin/users").bearer(&token).send().await.expect(200);
    let dead = server.token(&json!({
        "sub": user.id, "role": "service_role", "session_id": "11111111-2222-4333-8444-555555555555"
    }));
    let refused = client(&server, Method::GET, "/admin/users").bearer(&dead).send().await;
    assert_error(&refused, 403, "session_expired", "Session is no longer valid");
}

#[tokio::test]
async fn banned_admin_is_rejected() {
    let server = shared().await;
    let user = server.sign_up(&fresh("ada")).await;
    let session = claims(&user.access_token)["session_id"].clone();
    let token = server.token(&json!({ "sub": user.id, "role": "service_role", "session_id": session }));
    let list = || client(&server, Method::GET, "/admin/users").bearer(&token).send();
    let _list = list().await.expect(200);
    let _banned = change(&server, &user.id, &json!({ "ban_duration": "1h" })).await.expect(200);
    assert_error(&list().await, 403, "user_banned", "User is banned");
}

#[tokio::test]
async fn lists_users_in_pages_newest_first() {
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
async fn created_user_is_confirmed_only_on_request() {
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
async fn explains_why_a_user_cannot_be_created() {
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
        (json!({ "email": "a" }), 400, invalid, "Unable to validate email address: invalid format"),
        (json!({ "phone": "x" }), 400, invalid, "Invalid phone number format (E.164 required)"),
        (
            json!({ "email": "a@b.org", "password": "x".repeat(73) }),
            400,
            invalid,
            "Password cannot be longer than 72 characters",
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
    let _rows = server
        .sql(
            "create function public.refuse() returns trigger language plpgsql as
               $$ begin if new.email like 'refused%' then raise 'no'; end if; return new; end $$;
             create trigger refuse before insert on auth.users for each row execute function public.refuse()",
        )
        .await;
    server.expect_log("Database error creating new user");
    let refused = create(&server, &json!({ "email": "refused@example.org" })).await.expect(500).json();
    assert_eq!(refused["message"], "Database error creating new user");
    let _rows = server.database().admin_sql("drop function public.refuse() cascade").await;
}

#[tokio::test]
async fn checks_run_in_upstream_order() {
    let server = shared().await;
    let taken = fresh("taken");
    let phone = "15551230001";
    let _user = create(&server, &json!({ "email": taken, "phone": phone })).await.expect(200);
    // Each body also fails all later checks.
    let mut body = json!({
        "ban_duration": "x", "id": "x", "password": "p", "password_hash": "$1$x", "phone": "x", "email": "x"
    });
    let messages = [
        ("email", "x", "Unable to validate email address: invalid format"),
        ("email", &taken, "A user with this email address has already been registered"),
        ("email", "free-order@example.org", "Invalid phone number format (E.164 required)"),
        ("phone", phone, "Phone number already registered by another user"),
        ("phone", "15551230002", "Only a password or a password hash should be provided"),
        ("password", "", "Only a password or a password hash should be provided"),
        ("password_hash", "", "ID must conform to the uuid v4 format"),
        ("id", "00000000-0000-0000-0000-000000000000", "ID cannot be a nil uuid"),
        ("id", "", "invalid format for ban duration: time: invalid duration \"x\""),
    ];
    for (field, value, message) in messages {
        body[field] = json!(value);
        let response = create(&server, &body).await;
        assert_eq!(response.json()["message"], message, "{body}");
    }
    body["ban_duration"] = json!("none");
    let user = create(&server, &body).await.expect(200).json();
    assert_eq!(user["phone"], "15551230002");
    assert_eq!(user["app_metadata"], json!({ "provider": "email", "providers": ["email", "phone"] }));
    assert_eq!(user["identities"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn imported_hashes_are_replaced_at_sign_in() {
    let server = shared().await;
    for (name, password, hash) in [
        ("bcrypt", "password", "$2a$06$L6Bc/AlTQHyd9liGgGEZyOFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u"),
        (
            "firebase",
            "user1password",
            "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==",
        ),
        (
            "argon2i",
            "password",
            "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8",
        ),
    ] {
        let email = fresh(name);
        let hash = if name == "bcrypt" {
            // As in typical seeds.
            let made = "select extensions.crypt('password', extensions.gen_salt('bf', 6))";
            server.database().value(made).await
        } else {
            hash.to_owned()
        };
        let body = json!({ "email": email, "email_confirm": true, "password_hash": hash });
        let id = text(&create(&server, &body).await.expect(200).json(), "/id").to_owned();
        let stored = format!("select encrypted_password from auth.users where id = '{id}'");
        assert_eq!(server.database().value(&stored).await, hash);
        let _refused = sign_in(&server, &email, "wrong").await.expect(400);
        assert_eq!(server.database().value(&stored).await, hash, "{name}");
        let _session = sign_in(&server, &email, password).await.expect(200);
        let upgraded = server.database().value(&stored).await;
        assert!(upgraded.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{name}: {upgraded}");
        let _session = sign_in(&server, &email, password).await.expect(200);
    }
}

#[tokio::test]
async fn rejects_unknown_users_and_invalid_bodies() {
    let server = shared().await;
    let nobody = "11111111-2222-4333-8444-555555555555";
    for (method, suffix) in
        [(Method::GET, ""), (Method::PUT, ""), (Method::DELETE, ""), (Method::GET, "/factors")]
    {
        let at =
            |id: &str| admin(&server, method.clone(), &format!("/admin/users/{id}{suffix}")).json(&json!({}));
        assert_error(&at("x").send().await, 404, "validation_failed", "user_id must be an UUID");
        assert_error(&at(nobody).send().await, 404, "user_not_found", "User not found");
    }
    let ada = server.sign_up(&fresh("ada")).await;
    let path = format!("/admin/users/{}", ada.id);
    let factors = admin(&server, Method::GET, &format!("{path}/factors")).send().await.expect(200);
    assert_eq!(factors.json(), json!([]));
    let _rows = server
        .sql(&format!(
            "insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret)
             values (gen_random_uuid(), '{}', 'phone app', 'totp', 'verified', now(), now(), 'hidden')",
            ada.id
        ))
        .await;
    let factors = admin(&server, Method::GET, &format!("{path}/factors")).send().await.expect(200).json();
    assert_eq!((&factors[0]["factor_type"], &factors[0]["status"]), (&json!("totp"), &json!("verified")));
    assert!(!factors.to_string().contains("hidden"));
    for (method, path) in [(Method::POST, "/admin/users"), (Method::PUT, &*path), (Method::DELETE, &*path)] {
        let bad = admin(&server, method, path).body("[").send().await.expect(400).json();
        assert_eq!(bad["code"], "bad_json");
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

    for password in ["1", ""] {
        let weak = change(&server, &ada.id, &json!({ "password": password })).await.expect(422);
        assert_eq!(weak.header("x-sb-error-code"), "weak_password");
    }
    let both = json!({ "password": "secret9", "password_hash": "$1$x" });
    assert_error(
        &change(&server, &ada.id, &both).await,
        400,
        "validation_failed",
        "Only a password or a password hash should be provided",
    );
    let _user = create(&server, &json!({ "phone": "15551230009" })).await.expect(200);
    assert_error(
        &change(&server, &ada.id, &json!({ "phone": "+1 555 123 0009" })).await,
        422,
        "phone_exists",
        "A user with this phone number has already been registered",
    );
    let merged =
        json!({ "user_metadata": { "a": 1, "email_verified": null }, "app_metadata": { "plan": "pro" } });
    let user = change(&server, &ada.id, &merged).await.expect(200).json();
    assert_eq!((&user["user_metadata"]["a"], &user["app_metadata"]["plan"]), (&json!(1), &json!("pro")));
    assert!(user["user_metadata"].get("email_verified").is_none(), "null removes");
    assert_eq!(user["app_metadata"]["provider"], "email", "the rest stays");
    let same = change(&server, &ada.id, &json!({ "email_confirm": false, "role": "editor" }))
        .await
        .expect(200)
        .json();
    assert!(same.get("email_confirmed_at").is_some(), "false does nothing");
    assert_eq!(same["role"], "editor");
    let _user = get_user(&server, &ada.access_token).await.expect(200);
    let _user = change(&server, &ada.id, &json!({ "password": "secret9" })).await.expect(200);
    let _gone = get_user(&server, &ada.access_token).await.expect(403);
    let _session = sign_in(&server, "countess@example.org", "secret9").await.expect(200);
}

#[tokio::test]
async fn deletes_users_hard_or_soft() {
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
    assert_eq!(ghost["identities"][0].get("identity_data"), None, "empty");
    assert_ne!(ghost["identities"][0]["id"], ada.id);
    let traces = server
        .sql(&format!(
            "select coalesce(encrypted_password, '') || (select count(*) from auth.sessions where user_id = u.id)
               || (select count(*) from auth.one_time_tokens where user_id = u.id)
             from auth.users u where id = '{}'",
            ada.id
        ))
        .await;
    assert_eq!(traces, [[Some("00".to_owned())]]);
    assert_error(
        &get_user(&server, &ada.access_token).await,
        403,
        "session_not_found",
        "Session from session_id claim in JWT does not exist",
    );
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
