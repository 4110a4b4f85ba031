//! The server's log: one line per event, whatever users send, and no secrets.

use basalt_testkit::{Basalt, Request};
use http::Method;
use serde_json::json;

#[tokio::test]
async fn user_input_cannot_forge_log_lines() {
    const FORGED: &str = "2026-11-22T00:00:00.000000Z ERROR forged";
    for format in ["text", "json"] {
        let builder = Basalt::builder().config("server.log_format", format).expect_log("");
        let server = builder.config("auth.mailer_autoconfirm", "true").start().await;
        server
            .sql(
                "create function public.refuse() returns trigger language plpgsql as $$
                 begin raise exception 'no seat for %', new.raw_user_meta_data->>'name'; end $$;
                 create trigger refuse before insert on auth.users
                   for each row execute function public.refuse();
                 create function public.say(what text) returns int language plpgsql as $$
                 begin raise sqlstate 'PT500' using message = what; end $$;
                 grant execute on function public.say to anon",
            )
            .await;
        let name = format!("a\n{FORGED}");
        let account = json!({ "email": "a@example.org", "password": "lovelace!", "data": { "name": name } });
        let request = server.request(Method::POST, "/auth/v1/signup").apikey(server.anon_key());
        request.json(&account).send().await.expect(500);
        let request = server.request(Method::POST, "/rest/v1/rpc/say").apikey(server.anon_key());
        request.json(&json!({ "what": name })).send().await.expect(500);
        let log: Vec<String> = server.log().into_iter().map(|line| line.raw).collect();
        assert_eq!(log.iter().filter(|line| line.contains("forged")).count(), 2, "{log:#?}");
        assert!(!log.iter().any(|line| line.starts_with(FORGED)), "{log:#?}");
    }
}

#[tokio::test]
async fn missing_grant_is_logged_once_with_its_statement() {
    let server = Basalt::start().await;
    server
        .sql(
            "create table public.notes (id int primary key, body text); create table public.secrets (id int);
             revoke all on public.notes, public.secrets from anon, authenticated, service_role;
             grant select on public.notes to anon",
        )
        .await;
    let anonymous = |request: Request| request.apikey(server.anon_key());
    let note = json!({ "id": 1, "body": "x" });
    for _ in 0..3 {
        anonymous(server.get("/rest/v1/secrets")).send().await.expect(401);
        anonymous(server.post("/rest/v1/notes").json(&note)).send().await.expect(401);
        server.get("/rest/v1/secrets").apikey(server.service_key()).send().await.expect(403);
    }
    let lines: Vec<String> = server
        .log()
        .into_iter()
        .filter(|line| line.raw.contains("GRANT "))
        .map(|line| line.message)
        .collect();
    let expected = [
        ("anon", "GRANT SELECT ON public.secrets TO anon;"),
        ("anon", "GRANT INSERT ON public.notes TO anon;"),
        ("service_role", "GRANT SELECT ON public.secrets TO service_role;"),
    ];
    for (role, grant) in expected {
        let matching: Vec<&String> =
            lines.iter().filter(|line| line.contains(grant) && line.contains(role)).collect();
        assert_eq!(matching.len(), 1, "{grant} in {lines:#?}");
    }
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
}

#[tokio::test]
async fn access_log_names_path_client_and_user_without_secrets() {
    let server = Basalt::builder()
        .config("server.log", "info,basalt::access=info")
        .config("server.trusted_proxies", "127.0.0.1")
        .config("auth.mailer_autoconfirm", "true")
        .start()
        .await;
    let user = server.sign_up("ada@example.org").await;
    let get = |path: &str| server.get(path).header("x-forwarded-for", "203.0.113.7");
    let key = server.publishable_key();
    let marked = "s3cret-Value-42";
    for path in [
        format!("/rest/v1/plans?select=id&title=eq.{marked}&apikey={key}"),
        format!("/auth/v1/verify?token={marked}&type=signup"),
        format!("/storage/v1/object/sign/bucket/file.png?token={marked}"),
        format!("/storage/v1/object/public/bucket/{}/ada%40example.org", user.access_token),
        format!("/functions/v1/hello?{marked}&code={marked}"),
    ] {
        get(&path).apikey(key).bearer(&user.access_token).send().await;
    }
    get("/rest/v1/plans").apikey(key).send().await;
    let forged = server.token(&json!({ "role": "authenticated", "sub": "someone" }));
    get("/rest/v1/forged").apikey(key).bearer(&format!("{forged}x")).send().await;
    server.wait_for_log("/rest/v1/forged").await;
    let lines: Vec<_> =
        server.log().into_iter().filter(|line| line.fields["target"] == "basalt::access").collect();
    let of = |path: &str| {
        let found =
            lines.iter().find(|line| line.fields["path"].as_str().unwrap_or_default().starts_with(path));
        found.unwrap_or_else(|| panic!("no {path} in {lines:#?}")).fields.clone()
    };
    let read = of("/rest/v1/plans?");
    assert_eq!(read["path"], "/rest/v1/plans?select=***&title=***&apikey=***");
    for (field, expected) in [
        ("method", "GET"),
        ("client", "203.0.113.7"),
        ("user", user.id.as_str()),
        ("service", "rest"),
        ("role", "authenticated"),
    ] {
        assert_eq!(read[field], expected, "{field} in {read}");
    }
    assert_eq!(of("/auth/v1/verify")["path"], "/auth/v1/verify?token=***&type=***");
    assert_eq!(of("/storage/v1/object/public")["path"], "/storage/v1/object/public/bucket/***/***");
    assert_eq!(of("/functions/v1/hello")["path"], "/functions/v1/hello?***&code=***");
    assert!(of("/rest/v1/forged").get("user").is_none(), "an invalid token does not set the user");
    let anonymous = lines.iter().find(|line| line.fields["path"] == "/rest/v1/plans").unwrap();
    assert!(anonymous.fields.get("user").is_none());
    assert_eq!(anonymous.fields["role"], "anon", "an API key without a token");
    assert!(anonymous.fields["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{}", anonymous.fields);
    assert!(of("/rest/v1/forged").get("role").is_none(), "an invalid token does not set the role");
    for line in server.log() {
        for secret in [marked, key, &user.access_token, "example.org"] {
            assert!(!line.raw.contains(secret), "{}", line.raw);
        }
    }
}
