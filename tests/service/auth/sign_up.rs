//! POST /signup: the stored rows, the response, and the response for a taken address (auth.md §3.3, §3.4).
//! Confirmation by mail: confirm.rs.

use super::*;

#[tokio::test]
async fn sign_up_returns_a_session_and_stores_the_user() {
    let server = quick().start().await;
    let body = json!({
        "email": "Ada@Example.org", "password": "secret1", "data": { "organization_name": "Acme", "sub": "x" }
    });
    let response = post(&server, "/signup", &body).await.expect(200);
    assert_eq!(response.header("cache-control"), "no-store");
    assert_eq!(response.header("x-supabase-api-version"), "");
    let session = response.json();
    let id = text(&session, "/user/id");

    assert_eq!(text(&session, "/token_type"), "bearer");
    assert_eq!(session["expires_in"], 3600);
    assert!(session.get("weak_password").is_none());
    let user = &session["user"];
    assert_eq!(user["email"], "ada@example.org");
    assert_eq!(user["phone"], "");
    assert_eq!(user["aud"], "authenticated");
    assert_eq!(user["role"], "authenticated");
    assert_eq!(user["is_anonymous"], false);
    assert_eq!(user["email_confirmed_at"], user["confirmed_at"]);
    assert_eq!(user["app_metadata"], json!({ "provider": "email", "providers": ["email"] }));
    assert_eq!(
        user["user_metadata"],
        json!({
            "email": "ada@example.org", "email_verified": true, "organization_name": "Acme", "phone_verified": false,
            "sub": id
        })
    );
    let identity = &user["identities"][0];
    assert_eq!(identity["id"], *id);
    assert_eq!(identity["provider"], "email");
    assert_eq!(identity["identity_data"]["email_verified"], false);
    assert_eq!(identity["identity_data"]["organization_name"], "Acme");
    for absent in ["encrypted_password", "banned_until", "new_email", "factors", "deleted_at", "instance_id"]
    {
        assert!(user.get(absent).is_none(), "{absent} in {user}");
    }

    let claims = claims(text(&session, "/access_token"));
    assert_eq!(claims["sub"], *id);
    assert_eq!(claims["aud"], "authenticated");
    assert_eq!(claims["role"], "authenticated");
    assert_eq!(claims["aal"], "aal1");
    assert_eq!(claims["amr"][0]["method"], "password");
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
    assert_eq!(claims["exp"], session["expires_at"]);
    assert!(text(&claims, "/iss").ends_with("/auth/v1"));
    assert_eq!(claims["phone"], "");
    assert_eq!(claims["is_anonymous"], false);

    let stored = server
        .sql(
            "select encrypted_password like '$argon2id$v=19$%', instance_id, confirmation_token, recovery_token,
               is_super_admin, (select count(*) from auth.sessions s join auth.mfa_amr_claims c on c.session_id = s.id
                where s.user_id = u.id), (select count(*) from auth.refresh_tokens)
             from auth.users u",
        )
        .await;
    let zero = "00000000-0000-0000-0000-000000000000";
    let expected = [Some("t"), Some(zero), Some(""), Some(""), None, Some("1"), Some("0")];
    assert_eq!(stored[0], expected.map(|column| column.map(str::to_owned)));
    let audit = server
        .sql("select payload->>'action', payload->'traits'->>'provider' from auth.audit_log_entries order by 1")
        .await;
    let row = |action: &str| vec![Some(action.to_owned()), Some("email".to_owned())];
    assert_eq!(audit, [row("login"), row("user_signedup")]);
}

#[tokio::test]
async fn checks_run_in_the_contract_order() {
    let server = shared().await;
    let invalid = "validation_failed";
    for (body, status, code, message) in [
        (json!({ "email": "a" }), 400, invalid, "Signup requires a valid password"),
        (
            json!({ "email": "a", "password": "x".repeat(73) }),
            400,
            invalid,
            "Password cannot be longer than 72 characters",
        ),
        (
            json!({ "email": "a", "phone": "1", "password": "secret1" }),
            400,
            invalid,
            "Only an email address or phone number should be provided on signup.",
        ),
        (
            json!({ "email": "a", "password": "secret1", "code_challenge": "x" }),
            400,
            invalid,
            "PKCE flow requires code_challenge_method and code_challenge",
        ),
        (
            json!({ "phone": "x", "password": "secret1" }),
            400,
            "phone_provider_disabled",
            "Phone signups are disabled",
        ),
        (
            json!({ "email": "a", "password": "secret1" }),
            400,
            invalid,
            "Unable to validate email address: invalid format",
        ),
        (json!({}), 422, "anonymous_provider_disabled", "Anonymous sign-ins are disabled"),
    ] {
        assert_error(&post(&server, "/signup", &body).await, status, code, message);
    }
    let weak =
        post(&server, "/signup", &json!({ "email": "a", "password": "12345" })).await.expect(422).json();
    assert_eq!(
        weak,
        json!({
            "code": "weak_password",
            "message": "Password should be at least 6 characters.",
            "weak_password": { "reasons": ["length"] }
        })
    );
}

#[tokio::test]
async fn disabled_sign_up_is_checked_first() {
    let server = quick().config("auth.disable_signup", "true").start().await;
    assert_error(
        &post(&server, "/signup", &json!({ "email": "a" })).await,
        422,
        "signup_disabled",
        "Signups not allowed for this instance",
    );
}

#[tokio::test]
async fn failing_trigger_rolls_back_the_sign_up() {
    let server = quick().expect_log("Database error saving new user").start().await;
    server
        .sql(
            "create table public.profiles (id uuid primary key references auth.users(id) on delete cascade, name text);
             create function public.handle_new_user() returns trigger language plpgsql security definer
               set search_path = '' as $$
             begin
               if new.raw_user_meta_data->>'name' = 'Mallory' then
                 raise exception 'no more seats' using hint = 'buy one';
               end if;
               insert into public.profiles values (new.id, new.raw_user_meta_data->>'name');
               update auth.users set raw_app_meta_data = raw_app_meta_data || '{\"plan\": \"free\"}' where id = new.id;
               return new;
             end $$;
             create trigger on_auth_user_created after insert on auth.users
               for each row execute function public.handle_new_user()",
        )
        .await;
    let body = |name: &str| json!({ "email": format!("{name}@example.org"), "password": "secret1", "data": { "name": name } });

    let session = post(&server, "/signup", &body("Ada")).await.expect(200).json();
    assert_eq!(text(&session, "/user/app_metadata/plan"), "free");
    assert_eq!(text(&claims(text(&session, "/access_token")), "/app_metadata/plan"), "free");
    assert_eq!(server.sql("select name from public.profiles").await, [[Some("Ada".to_owned())]]);

    let refused = post(&server, "/signup", &body("Mallory")).await.expect(500).json();
    assert_eq!(refused["code"], "unexpected_failure");
    assert_eq!(refused["message"], "Database error saving new user");
    // Development mode adds the database error.
    assert_eq!(refused["database_error"]["code"], "P0001");

    let old_form =
        client(&server, Method::POST, "/signup").without("x-supabase-api-version").json(&body("Mallory"));
    assert_eq!(
        old_form.send().await.expect(500).json(),
        json!({ "code": "P0001", "message": "no more seats", "hint": "buy one" })
    );
    assert_eq!(server.sql("select count(*) from auth.users").await, [[Some("1".to_owned())]]);
}

#[tokio::test]
async fn autoconfirm_reports_a_taken_address() {
    let server = shared().await;
    let body = json!({ "email": "taken@example.org", "password": "secret1" });
    let _session = post(&server, "/signup", &body).await.expect(200);
    for password in ["secret1", "another1"] {
        let again =
            post(&server, "/signup", &json!({ "email": "TAKEN@example.org", "password": password })).await;
        assert_error(&again, 422, "user_already_exists", "User already registered");
    }
}

#[tokio::test]
async fn unconfirmed_account_requires_its_password() {
    let server = shared().await;
    let body = |password: &str| json!({ "email": "unconfirmed@example.org", "password": password });
    let _session = post(&server, "/signup", &body("secret1")).await.expect(200);
    let _rows = server
        .sql("update auth.users set email_confirmed_at = null where email = 'unconfirmed@example.org'")
        .await;
    let other = post(&server, "/signup", &body("another1")).await;
    assert_error(&other, 422, "user_already_exists", "User already registered");
    let entered = post(&server, "/signup", &body("secret1")).await.expect(200).json();
    assert!(entered.pointer("/user/email_confirmed_at").is_some());
}

#[tokio::test]
async fn concurrent_sign_ups_create_one_account() {
    let server = shared().await;
    let body = json!({ "email": "many@example.org", "password": "secret1" });
    let attempts = (0..12).map(|_| post(&server, "/signup", &body));
    let mut statuses: Vec<u16> = futures_util::future::join_all(attempts)
        .await
        .iter()
        .map(|response| response.status.as_u16())
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200);
    assert_eq!(statuses[1..], [422; 11]);
    assert_eq!(
        server.sql("select count(*) from auth.identities where email = 'many@example.org'").await,
        [[Some("1".to_owned())]]
    );
}

#[tokio::test]
async fn anonymous_user_becomes_permanent() {
    let server = quick().config("auth.external_anonymous_users_enabled", "true").start().await;
    let session = post(&server, "/signup", &json!({ "data": { "theme": "dark" } })).await.expect(200).json();
    let token = text(&session, "/access_token");
    assert_eq!(session["user"]["email"], "");
    assert_eq!(session["user"]["identities"], json!([]));
    assert_eq!(session["user"]["app_metadata"], json!({}));
    assert_eq!(session["user"]["user_metadata"], json!({ "theme": "dark" }));
    assert_eq!(session["user"]["is_anonymous"], true);
    let anonymous = claims(token);
    assert_eq!(anonymous["is_anonymous"], true);
    assert_eq!(anonymous["amr"][0]["method"], "anonymous");

    assert_error(
        &put_user(&server, token, &json!({ "password": "secret1" })).await,
        422,
        "validation_failed",
        "Updating password of an anonymous user without an email or phone is not allowed",
    );
    let user = put_user(&server, token, &json!({ "email": "Ada@example.org", "password": "secret1" }))
        .await
        .expect(200)
        .json();
    assert_eq!(user["email"], "ada@example.org");
    assert_eq!(user["is_anonymous"], false);
    assert_eq!(user["app_metadata"], json!({ "provider": "email", "providers": ["email"] }));
    assert_eq!(user["user_metadata"]["theme"], "dark");
    assert_eq!(user["identities"][0]["identity_data"]["email_verified"], false);
    let again = sign_in(&server, "ada@example.org", "secret1").await.expect(200).json();
    assert_eq!(again["user"]["id"], session["user"]["id"]);
    assert_eq!(claims(text(&again, "/access_token"))["is_anonymous"], false);
}
