//! An attacker, a leaked dump and a leaked log reveal nothing useful (auth.md §5.2, §6; STYLE §7.6).

use std::collections::BTreeSet;

use basalt_testkit::LogLine;

use super::admin::admin;
use super::codes::{CHALLENGE, VERIFIER};
use super::*;

/// Password hashes computed so far.
async fn hashes(server: &Basalt) -> u64 {
    let metrics = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("basalt_auth_password_hash_seconds_count "));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test]
async fn sign_in_does_equal_work_for_every_account() {
    let server = quick().start().await;
    server.expect_log("unsupported password hash");
    let _ada = server.sign_up("ada@example.org").await;
    let _rows = server
        .sql(
            "insert into auth.users (id, aud, role, email, encrypted_password, email_confirmed_at) values
             (gen_random_uuid(), 'authenticated', 'authenticated', 'empty@example.org', '', now()),
             (gen_random_uuid(), 'authenticated', 'authenticated', 'none@example.org', null, now()),
             (gen_random_uuid(), 'authenticated', 'authenticated', 'odd@example.org', '$1$odd', now())",
        )
        .await;
    server.database().log_statements().await;
    let mut runs = Vec::new();
    let mut before = server.database().executed().await.len();
    for who in ["ada", "unknown", "empty", "none", "odd"] {
        let computed = hashes(&server).await;
        let refused = sign_in(&server, &format!("{who}@example.org"), "wrong password").await;
        assert_error(&refused, 400, "invalid_credentials", "Invalid login credentials");
        // One comparison, with the stored hash or a dummy of equal cost, in one queue slot.
        assert_eq!(hashes(&server).await - computed, 1, "{who}");
        let executed = server.database().executed().await;
        runs.push(executed[before..].to_vec());
        before = executed.len();
    }
    assert!(runs.iter().all(|statements| *statements == runs[0]), "{runs:#?}");
    // Only the correct password gets a specific error.
    let _rows = server.sql("update auth.users set email_confirmed_at = null").await;
    assert_error(
        &sign_in(&server, "ada@example.org", "wrong password").await,
        400,
        "invalid_credentials",
        "Invalid login credentials",
    );
    assert_error(
        &sign_in(&server, "ada@example.org", "correct horse 7").await,
        400,
        "email_not_confirmed",
        "Email not confirmed",
    );
}

#[tokio::test]
async fn concurrent_refreshes_on_two_servers_succeed() {
    let one = quick().start().await;
    let two = quick().database_url(&one.database().url()).start().await;
    let ada = one.sign_up("ada@example.org").await;
    let mut token = ada.refresh_token.clone();
    for _ in 0..3 {
        let responses = futures_util::future::join_all((0..64).map(|index| {
            let server = if index % 2 == 0 { &one } else { &two };
            refresh(server, &token)
        }))
        .await;
        let mut tokens = BTreeSet::new();
        for response in responses {
            let session = response.expect(200).json();
            let _user = get_user(&one, text(&session, "/access_token")).await.expect(200);
            tokens.insert(text(&session, "/refresh_token").to_owned());
        }
        assert_eq!(tokens.len(), 1, "all of them got the same next token");
        token = tokens.into_iter().next().unwrap();
    }
    let counter = "select refresh_token_counter from auth.sessions";
    assert_eq!(one.sql(counter).await, [[Some("3".to_owned())]]);
    let _user = get_user(&two, &ada.access_token).await.expect(200);
}

/// Every table of both schemas with all rows as text, read by the superuser.
async fn everything(server: &Basalt) -> Vec<(String, String)> {
    let tables =
        "select n.nspname || '.' || c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
                  where n.nspname in ('auth', 'basalt') and c.relkind in ('r', 'p', 'm', 'v') order by 1";
    let mut all = Vec::new();
    for table in server.database().admin_sql(tables).await.into_iter().flatten().flatten() {
        let rows = server.database().admin_sql(&format!("select t::text from {table} t")).await;
        let rows: Vec<String> = rows.into_iter().flatten().flatten().collect();
        all.push((table, rows.join("\n")));
    }
    all
}

#[tokio::test]
async fn issued_secrets_are_stored_hashed_or_encrypted() {
    let server = super::codes::redeeming().config("auth.mailer_otp_length", "10").start().await;
    let (email, password) = ("ada@example.org", "correct horse 7");
    let mut secrets = vec![password.to_owned(), "another horse 8".to_owned()];
    let _user = post(&server, "/signup", &json!({ "email": email, "password": password })).await.expect(200);
    let code = server.mailbox().wait_for(email).await.code();
    secrets.push(code.clone());
    let session = super::codes::verify_code(&server, "signup", email, &code).await.expect(200).json();
    let access = text(&session, "/access_token").to_owned();
    secrets.extend([access.clone(), text(&session, "/refresh_token").to_owned()]);
    let next = refresh(&server, text(&session, "/refresh_token")).await.expect(200).json();
    secrets.extend(["/access_token", "/refresh_token"].map(|name| text(&next, name).to_owned()));
    // One pending code of each kind.
    let challenge = json!({ "email": email, "code_challenge": CHALLENGE, "code_challenge_method": "s256" });
    for (method, path, body) in [
        (Method::POST, "/recover", challenge),
        (Method::GET, "/reauthenticate", json!({})),
        (Method::PUT, "/user", json!({ "email": "countess@example.org" })),
    ] {
        let _ok = client(&server, method, path).bearer(&access).json(&body).send().await.expect(200);
        secrets.push(server.mailbox().wait_for(email).await.code());
    }
    secrets.push(server.mailbox().wait_for("countess@example.org").await.code());
    let link = super::codes::link(&server, "magiclink", email).await;
    secrets.push(text(&link, "/email_otp").to_owned());
    secrets.push(VERIFIER.to_owned());
    let _user = put_user(&server, &access, &json!({ "password": "another horse 8" })).await;
    secrets.extend([server.secret_key(), server.service_key(), server.jwt_secret()].map(str::to_owned));
    assert_eq!(secrets.len(), 16, "{secrets:?}");
    let tables = everything(&server).await;
    assert!(
        tables.iter().any(|(table, rows)| table == "auth.users" && rows.contains(email)),
        "the scan sees"
    );
    assert!(tables.iter().any(|(table, _)| table == "basalt.mail_outbox"));
    for (table, rows) in &tables {
        for secret in &secrets {
            assert!(!rows.contains(secret.as_str()), "{table} holds {secret}");
        }
    }
}

#[tokio::test]
async fn api_roles_cannot_read_our_tables() {
    let server = quick().start().await;
    let _user = server.sign_up("ada@example.org").await;
    // Tested with real statements that are rolled back: a view or function could bypass the grants.
    let _rows = server
        .database()
        .admin_sql(
            "create function public.readable(role_name text) returns setof text language plpgsql as $$
             declare item record;
             begin
               for item in select n.nspname, c.relname from pg_catalog.pg_class c
                 join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                 where n.nspname in ('auth', 'basalt') and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
               loop
                 begin
                   execute format('set local role %I', role_name);
                   execute format('select from %I.%I limit 1', item.nspname, item.relname);
                   return next item.nspname || '.' || item.relname;
                 exception when insufficient_privilege then null;
                 end;
                 reset role;
               end loop;
             end $$",
        )
        .await;
    for role in ["anon", "authenticated", "service_role", "authenticator"] {
        let readable = server.database().admin_sql(&format!("select public.readable('{role}')")).await;
        assert_eq!(readable, [[None::<String>; 1]; 0], "{role}");
    }
    let seen = server.database().admin_sql("select public.readable('supabase_admin')").await;
    assert!(seen.len() > 25, "supabase_admin can read them: {seen:?}");
    for schema in ["auth", "basalt"] {
        for (table, key) in [("users", server.anon_key()), ("api_keys", server.service_key())] {
            let read = server.get(&format!("/rest/v1/{table}")).apikey(key).header("accept-profile", schema);
            assert_eq!(read.send().await.expect(406).json()["code"], "PGRST106");
        }
    }
}

#[tokio::test]
async fn trace_log_contains_no_secrets() {
    let server = super::codes::redeeming().config("server.log", "trace").start().await;
    server.expect_log("");
    let email = "marked-address@example.org";
    let marked = ["marked-Secret-1", "marked-Secret-2", "marked-Secret-3"];
    let mut secrets: Vec<String> = marked.iter().map(|secret| (*secret).to_owned()).collect();
    secrets.push(email.to_owned());
    let body = json!({ "email": email, "password": marked[0], "data": { "note": "marked-note" } });
    let _user = post(&server, "/signup", &body).await.expect(200);
    secrets.push("marked-note".to_owned());
    let mail = server.mailbox().wait_for(email).await;
    secrets.extend([mail.code(), mail.token_hash()]);
    let session = super::codes::verify_code(&server, "signup", email, &mail.code()).await.expect(200).json();
    let (access, token) = (text(&session, "/access_token"), text(&session, "/refresh_token"));
    secrets.extend([access, token].map(str::to_owned));
    let _wrong = sign_in(&server, email, marked[1]).await.expect(400);
    let next = refresh(&server, token).await.expect(200).json();
    secrets.push(text(&next, "/refresh_token").to_owned());
    let _ok = post(&server, "/recover", &json!({ "email": email })).await.expect(200);
    let mail = server.mailbox().wait_for(email).await;
    secrets.extend([mail.code(), mail.token_hash()]);
    let opened = super::codes::open(&server, "recovery", &mail.token_hash(), "").await;
    secrets.push(super::codes::pairs(&super::codes::location(&opened), '#')["access_token"].clone());
    let _bad = super::codes::open(&server, "recovery", "marked-hash", "").await;
    secrets.push("marked-hash".to_owned());
    let _nonce = client(&server, Method::GET, "/reauthenticate").bearer(access).send().await.expect(200);
    secrets.push(server.mailbox().wait_for(email).await.code());
    let change = json!({ "password": marked[1], "nonce": marked[2], "current_password": marked[0] });
    let _user = put_user(&server, access, &change).await.expect(200);
    let created = json!({
        "email": format!("b-{email}"), "password": marked[2],
        "user_metadata": { "note": "marked-note" }
    });
    let user = admin(&server, Method::POST, "/admin/users").json(&created).send().await.expect(200).json();
    let path = format!("/admin/users/{}", text(&user, "/id"));
    let hash = json!({ "password_hash": "$2a$06$markedmarkedmarkedmarkeOyFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u" });
    secrets.push("markedmarked".to_owned());
    let _user = admin(&server, Method::PUT, &path).json(&hash).send().await;
    let link = super::codes::link(&server, "magiclink", email).await;
    secrets.extend(["/email_otp", "/hashed_token"].map(|name| text(&link, name).to_owned()));
    let exchange = json!({ "auth_code": "marked-auth-code", "code_verifier": "marked-verifier" });
    let _refused = post(&server, "/token?grant_type=pkce", &exchange).await;
    secrets.extend(["marked-auth-code", "marked-verifier"].map(str::to_owned));
    let _list = admin(&server, Method::GET, "/admin/users?filter=marked").send().await.expect(200);
    let _none = client(&server, Method::POST, "/logout").bearer(access).send().await.expect(204);
    secrets.extend(
        [server.secret_key(), server.service_key(), server.anon_key(), server.jwt_secret()]
            .map(str::to_owned),
    );

    let log = server.log();
    assert!(log.iter().any(|line| line.level == "TRACE" || line.level == "DEBUG"), "the log is verbose");
    // Only the development mailbox logs recipients (auth.md §3.21).
    let announces = |line: &LogLine| line.message.starts_with("mail delivered to the mailbox at http");
    assert!(log.iter().any(|line| announces(line) && line.raw.contains(email)));
    for line in &log {
        for secret in secrets.iter().filter(|secret| *secret != email || !announces(line)) {
            assert!(!line.raw.contains(secret.as_str()), "{secret} in {}", line.raw);
        }
    }
}

#[tokio::test]
async fn rejected_rows_are_not_logged() {
    let server = super::codes::redeeming().expect_log("Database error saving new user").start().await;
    server
        .database()
        .admin_sql("alter table auth.users add constraint no_mallory check (email not like 'mallory%')")
        .await;
    let body = json!({ "email": "mallory@example.org", "password": "lovelace!" });
    let _refused = post(&server, "/signup", &body).await.expect(500);
    server.wait_for_log("Database error saving new user").await;
    let log = server.log();
    assert!(log.iter().any(|line| line.raw.contains("no_mallory")));
    assert!(
        !log.iter().any(|line| line.raw.contains("$argon2") || line.raw.contains("mallory@")),
        "{log:#?}"
    );
}
