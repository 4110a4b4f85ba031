//! Auth hooks (auth.md §3.20): PostgreSQL functions of the project, and HTTP endpoints.

use std::time::Duration;

use aws_lc_rs::hmac;
use basalt_testkit::{HttpStub, Reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

const SECRET: &str = "c2VjcmV0IG9mIGEgaG9vaw==";

/// Creates the function `public.hook(event jsonb)`; `body` is its PL/pgSQL.
pub(super) async fn define(server: &Basalt, body: &str) {
    let sql = format!(
        "create or replace function public.hook(event jsonb) returns jsonb language plpgsql as $hook$ begin {body} end $hook$;
         grant usage on schema public to supabase_auth_admin;
         grant execute on function public.hook to supabase_auth_admin;
         revoke execute on function public.hook from authenticated, anon, public;"
    );
    let (client, connection) = server.database().config().connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&sql).await.unwrap();
}

pub(super) fn with_function(hook: &str) -> Builder {
    quick()
        .config(&format!("auth.hook_{hook}_enabled"), "true")
        .config(&format!("auth.hook_{hook}_uri"), "pg-functions://postgres/public/hook")
}

fn with_endpoint(hook: &str, stub: &HttpStub) -> Builder {
    quick()
        .config(&format!("auth.hook_{hook}_enabled"), "true")
        .config(&format!("auth.hook_{hook}_uri"), &format!("{}/hook", stub.url()))
        .config(&format!("auth.hook_{hook}_secrets"), &format!("v1,whsec_{SECRET}"))
}

async fn sign_up(server: &Basalt, email: &str) -> Response {
    post(server, "/signup", &json!({ "email": email, "password": "secret1", "data": { "team": "red" } }))
        .await
}

#[tokio::test]
async fn access_token_hook_changes_claims_at_every_issue() {
    let server = with_function("custom_access_token").start().await;
    define(
        &server,
        "return jsonb_build_object('claims', event->'claims'
           || jsonb_build_object('plan', 'gold', 'how', event->'authentication_method', 'hook', event#>'{metadata,name}'));",
    )
    .await;
    let session = sign_up(&server, "ada@example.org").await.expect(200).json();
    let first = claims(text(&session, "/access_token"));
    assert_eq!(
        (&first["plan"], &first["how"], &first["hook"]),
        (&json!("gold"), &json!("password"), &json!("customize-access-token"))
    );
    let refreshed = refresh(&server, text(&session, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&refreshed, "/access_token"))["how"], "token_refresh");
    let _user = get_user(&server, text(&refreshed, "/access_token")).await.expect(200);
}

#[tokio::test]
async fn nonsense_of_an_access_token_hook_is_an_error() {
    let server = with_function("custom_access_token").start().await;
    server.expect_log("a hook failed");
    define(&server, "return event;").await;
    let session = sign_up(&server, "ada@example.org").await.expect(200).json();
    for (body, status, code, message) in [
        (
            "return jsonb_build_object('claims', (event->'claims') - 'role');",
            500,
            "unexpected_failure",
            "schema: \n- role: role is required",
        ),
        (
            "return jsonb_build_object('claims', event->'claims' || '{\"exp\": \"x\"}');",
            500,
            "unexpected_failure",
            "exp: exp has another type",
        ),
        ("return '{}';", 500, "unexpected_failure", "output claims field is missing"),
        ("return null;", 500, "unexpected_failure", "output claims field is missing"),
        ("return '[1]';", 500, "unexpected_failure", "Error unmarshaling JSON output."),
        (
            "raise 'no such plan';",
            500,
            "unexpected_failure",
            "Error running hook URI: pg-functions://postgres/public/hook",
        ),
        (
            "perform pg_sleep(30); return '{}';",
            422,
            "hook_timeout",
            "within maximum time of 2.000000 seconds",
        ),
        (
            "return jsonb_build_object('x', repeat('a', 300000));",
            422,
            "hook_payload_over_size_limit",
            "size limit of 204800 bytes",
        ),
        ("return '{\"error\": {\"http_code\": 403, \"message\": \"no plan\"}}';", 403, "unknown", "no plan"),
    ] {
        define(&server, body).await;
        let failed = sign_in(&server, "ada@example.org", "secret1").await;
        let found = failed.json();
        assert_eq!((failed.status.as_u16(), text(&found, "/code")), (status, code), "{body}: {found}");
        assert!(text(&found, "/message").contains(message), "{body}: {found}");
    }
    // The sessions of failed sign-ins are gone, and an older one goes on.
    let rows = server.sql("select count(*)::text from auth.sessions").await;
    assert_eq!(rows[0][0].as_deref(), Some("1"));
    define(&server, "return event;").await;
    let _refreshed = refresh(&server, text(&session, "/refresh_token")).await.expect(200);
}

#[tokio::test]
async fn http_hook_gets_a_signed_request() {
    let stub = HttpStub::start(|request| {
        let claims = request.json()["claims"].clone();
        Reply::Respond(200, json!({ "claims": claims }).to_string())
    })
    .await;
    let server = with_endpoint("custom_access_token", &stub).start().await;
    let _session = sign_up(&server, "ada@example.org").await.expect(200);
    let requests = stub.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert!(request.head.starts_with("POST /hook HTTP/1.1\r\n"), "{}", request.head);
    let (id, time) = (request.header("webhook-id"), request.header("webhook-timestamp"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(SECRET).unwrap());
    let tag = hmac::sign(&key, format!("{id}.{time}.{}", request.body).as_bytes());
    assert_eq!(request.header("webhook-signature"), format!("v1,{}", STANDARD.encode(tag)));
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.json()["metadata"]["name"], "customize-access-token");
}

#[tokio::test]
async fn answers_of_http_hooks_have_the_contracts_results() {
    let stub = HttpStub::start(|_request| Reply::Respond(200, "{}".to_owned())).await;
    let server = with_endpoint("before_user_created", &stub).start().await;
    server.expect_log("a hook failed");
    server.expect_log("broken");
    let html = |status: u16| {
        Reply::RespondWith(status, vec![("content-type", "text/html".to_owned())], "<p>".to_owned())
    };
    let json_answer = |status: u16, body: &str| Reply::Respond(status, body.to_owned());
    let retry = || Reply::RespondWith(503, vec![("retry-after", "1".to_owned())], String::new());
    let unavailable = "Service currently unavailable due to hook";
    for (reply, status, code, message, calls) in [
        (
            json_answer(200, r#"{"error":{"http_code":403,"message":"go away"}}"#),
            403,
            "unknown",
            "go away",
            1,
        ),
        (json_answer(200, r#"{"error":{"message":"broken"}}"#), 500, "unexpected_failure", "broken", 1),
        (json_answer(200, "{"), 500, "unexpected_failure", "Error unmarshaling JSON output.", 1),
        (
            html(200),
            400,
            "hook_payload_invalid_content_type",
            "Invalid JSON response. Received content-type: text/html",
            1,
        ),
        (json_answer(400, "{}"), 500, "unexpected_failure", "Invalid payload sent to hook", 1),
        (json_answer(401, "{}"), 500, "unexpected_failure", "Hook requires authorization token", 1),
        (
            json_answer(418, "{}"),
            500,
            "unexpected_failure",
            "Unexpected status code returned from hook: 418",
            1,
        ),
        (json_answer(429, "{}"), 500, "unexpected_failure", unavailable, 1),
        (retry(), 500, "unexpected_failure", unavailable, 3),
        (
            json_answer(200, &format!("\"{}\"", "x".repeat(10_000_000))),
            422,
            "hook_payload_over_size_limit",
            "Payload size exceeded size limit of 204800 bytes",
            1,
        ),
        (
            Reply::Stall(Duration::from_secs(8)),
            422,
            "hook_timeout",
            "Failed to reach hook within maximum time of 5.000000 seconds",
            1,
        ),
        (Reply::Close, 422, "hook_timeout_after_retry", "Failed to reach hook after maximum retries", 3),
    ] {
        let before = stub.requests().len();
        stub.reply(move |_request| reply.clone());
        let failed = sign_up(&server, "ada@example.org").await;
        assert_error(&failed, status, code, message);
        assert_eq!(stub.requests().len() - before, calls, "{message}");
    }
    let rows = server.sql("select count(*)::text from auth.users").await;
    assert_eq!(rows[0][0].as_deref(), Some("0"), "no rejected user was created");
    for accepted in [
        Reply::RespondWith(204, Vec::new(), String::new()),
        json_answer(202, "{}"),
        json_answer(200, r#"{"error":{"http_code":403}}"#),
    ] {
        stub.reply(move |_request| accepted.clone());
        let _session = sign_up(&server, &fresh("accepted")).await.expect(200);
    }
}

#[tokio::test]
async fn new_users_are_shown_before_they_are_created() {
    let server = with_function("before_user_created")
        .config("auth.external_anonymous_users_enabled", "true")
        .config("auth.mailer_autoconfirm", "false")
        .config("auth.rate_limit_email_sent", "0")
        .start()
        .await;
    define(
        &server,
        "if exists (select from auth.users) then raise 'created too early'; end if;
         return jsonb_build_object('error', jsonb_build_object('http_code', 403, 'message',
           concat_ws(' ', event#>>'{user,email}', event#>>'{user,app_metadata,provider}',
             event#>>'{user,user_metadata,team}', event#>>'{user,is_anonymous}')));",
    )
    .await;
    let refused = sign_up(&server, "ada@example.org").await;
    assert_error(&refused, 403, "unknown", "ada@example.org email red false");
    let refused = post(&server, "/otp", &json!({ "email": "eve@example.org" })).await;
    assert_error(&refused, 403, "unknown", "eve@example.org email false");
    let refused = post(&server, "/signup", &json!({})).await;
    assert_error(&refused, 403, "unknown", " true");
    let invite = client(&server, Method::POST, "/invite").bearer(server.service_key());
    let refused = invite.json(&json!({ "email": "kim@example.org" })).send().await;
    assert_error(&refused, 403, "unknown", "kim@example.org email false");
    define(&server, "return '{}';").await;
    let ada = sign_up(&server, "ada@example.org").await.expect(200).json();
    // An existing user is not new.
    define(&server, "raise 'asked again';").await;
    let again = sign_up(&server, "ada@example.org").await;
    assert_error(&again, 429, "over_email_send_rate_limit", text(&again.json(), "/message"));
    assert!(text(&ada, "/id").len() == 36);
}

#[tokio::test]
async fn new_users_are_reported_after_they_are_created() {
    let server = with_function("after_user_created")
        .config("auth.external_anonymous_users_enabled", "true")
        .config("auth.rate_limit_email_sent", "0")
        .start()
        .await;
    let _rows = server.sql("create table public.reported (id uuid, email text, hook text)").await;
    let _rows = server.sql("grant insert on public.reported to supabase_auth_admin").await;
    define(
        &server,
        "insert into public.reported select u.id, event#>>'{user,email}', event#>>'{metadata,name}'
           from auth.users u where u.id = (event#>>'{user,id}')::uuid;
         return '{}';",
    )
    .await;
    // Autoconfirmed, which upstream forgets; by link; by an admin, in three ways; anonymous.
    let _ada = sign_up(&server, "ada@example.org").await.expect(200);
    let _eve = post(&server, "/otp", &json!({ "email": "eve@example.org" })).await.expect(200);
    let admin = |path: &str, body: Value| {
        client(&server, Method::POST, path).bearer(server.service_key()).json(&body).send()
    };
    let _kim = admin("/invite", json!({ "email": "kim@example.org" })).await.expect(200);
    let _max = admin("/admin/users", json!({ "email": "max@example.org" })).await.expect(200);
    let link = json!({ "type": "signup", "email": "zoe@example.org", "password": "secret1" });
    let _zoe = admin("/admin/generate_link", link).await.expect(200);
    let _guest = post(&server, "/signup", &json!({})).await.expect(200);
    // Existing users are not reported again.
    let _session = sign_in(&server, "ada@example.org", "secret1").await.expect(200);
    let _again = post(&server, "/otp", &json!({ "email": "eve@example.org" })).await;
    let rows = server
        .sql(
            "select string_agg(coalesce(split_part(email, '@', 1), '') || ' ' || hook, ', ' order by email)
             from public.reported",
        )
        .await;
    let all = ["", "ada", "eve", "kim", "max", "zoe"].map(|name| format!("{name} after-user-created"));
    assert_eq!(rows[0][0].as_deref(), Some(all.join(", ").as_str()));
    // The user remains when the hook fails.
    server.expect_log("a hook failed");
    define(&server, "raise 'no room';").await;
    let failed = sign_up(&server, "tom@example.org").await;
    assert_eq!(failed.status.as_u16(), 500);
    define(&server, "return '{}';").await;
    let _session = sign_in(&server, "tom@example.org", "secret1").await.expect(200);
}

#[tokio::test]
async fn password_hook_rejects_attempts() {
    let server = with_function("password_verification_attempt").start().await;
    define(&server, "return '{\"decision\": \"continue\"}';").await;
    let ada = server.sign_up("ada@example.org").await;
    let _session = sign_in(&server, "ada@example.org", &ada.password).await.expect(200);
    define(
        &server,
        "return case when (event->>'valid')::bool then '{}'
           else '{\"decision\": \"reject\", \"message\": \"too many\", \"should_logout_user\": true}' end;",
    )
    .await;
    let wrong = sign_in(&server, "ada@example.org", "wrong").await;
    assert_error(&wrong, 400, "invalid_credentials", "too many");
    let gone = get_user(&server, &ada.access_token).await;
    assert_eq!(gone.json()["code"], "session_not_found");
    let _session = sign_in(&server, "ada@example.org", &ada.password).await.expect(200);
    // A user who does not exist has no id to report.
    let unknown = sign_in(&server, "eve@example.org", "wrong").await;
    assert_error(&unknown, 400, "invalid_credentials", "Invalid login credentials");
    define(&server, "return '{\"decision\": \"reject\"}';").await;
    let right = sign_in(&server, "ada@example.org", &ada.password).await;
    assert_error(
        &right,
        400,
        "invalid_credentials",
        "Further password verification attempts will be rejected.",
    );
    server.expect_log("a hook failed");
    define(&server, "return '{\"decision\": \"rejct\"}';").await;
    let misspelt = sign_in(&server, "ada@example.org", &ada.password).await;
    assert_eq!(misspelt.status.as_u16(), 500);
}

#[tokio::test]
async fn email_hook_gets_the_codes_instead_of_the_mail_server() {
    let stub = HttpStub::start(|_request| Reply::Respond(200, "{}".to_owned())).await;
    let server = with_endpoint("send_email", &stub)
        .config("auth.mailer_autoconfirm", "false")
        .config("auth.rate_limit_email_sent", "0")
        .config("mail.max_frequency", "60")
        .start()
        .await;
    let _user = sign_up(&server, "ada@example.org").await.expect(200);
    let sent = stub.requests()[0].json();
    assert_eq!(text(&sent, "/email_data/email_action_type"), "signup");
    assert_eq!(text(&sent, "/user/email"), "ada@example.org");
    let verified = post(
        &server,
        "/verify",
        &json!({ "type": "signup", "email": "ada@example.org", "token": text(&sent, "/email_data/token") }),
    )
    .await
    .expect(200)
    .json();
    // Of an address change: `token` and `token_hash_new` belong to the current address.
    let token = text(&verified, "/access_token");
    let _user = put_user(&server, token, &json!({ "email": "ada@example.net" })).await.expect(200);
    let sent = stub.requests()[1].json();
    assert_eq!(text(&sent, "/email_data/old_email"), "ada@example.org");
    for (hash, outcome) in [("token_hash", "code"), ("token_hash_new", "access_token")] {
        let body = json!({ "type": "email_change", "token_hash": sent["email_data"][hash] });
        let redeemed = post(&server, "/verify", &body).await.expect(200).json();
        assert!(redeemed.get(outcome).is_some(), "{redeemed}");
    }
    // A failure reaches the client, and the next request is not too early.
    server.expect_log("a hook failed");
    stub.reply(|_request| Reply::Respond(400, "{}".to_owned()));
    for _ in 0..2 {
        let failed = post(&server, "/recover", &json!({ "email": "ada@example.net" })).await;
        assert_error(&failed, 500, "unexpected_failure", "Invalid payload sent to hook");
    }
    let rows = server.sql("select count(*)::text from auth.one_time_tokens").await;
    assert_eq!(rows[0][0].as_deref(), Some("0"));
    assert_eq!(server.database().count("basalt.mail_outbox").await, 0, "no mail was queued");
}

#[tokio::test]
async fn email_hook_gets_notifications_of_changes() {
    let stub = HttpStub::start(|_request| Reply::Respond(400, "{}".to_owned())).await;
    let server = with_endpoint("send_email", &stub)
        .config("auth.mailer_notifications_password_changed_enabled", "true")
        .config("auth.mailer_notifications_mfa_factor_enrolled_enabled", "true")
        .start()
        .await;
    server.expect_log("did not take a notification");
    let ada = server.sign_up("ada@example.org").await;
    let token = &ada.access_token;
    // The hook fails, and the change is made nevertheless.
    let _user = put_user(&server, token, &json!({ "password": "another secret 1" })).await.expect(200);
    let _user = sign_in(&server, "ada@example.org", "another secret 1").await.expect(200);
    server.wait_for_log("did not take a notification").await;
    // It gets the notification again once it works.
    stub.reply(|_request| Reply::Respond(200, "{}".to_owned()));
    until_waiting(&server, 0).await;
    let requests = stub.requests();
    assert!(requests.len() >= 2, "{} requests", requests.len());
    let last = requests.last().unwrap();
    assert!(!last.header("webhook-signature").is_empty(), "{}", last.head);
    let sent = last.json();
    assert_eq!(text(&sent, "/email_data/email_action_type"), "password_changed_notification");
    assert_eq!((text(&sent, "/user/email"), text(&sent, "/email_data/token")), ("ada@example.org", ""));
    assert_eq!(text(&sent, "/metadata/ip_address"), "127.0.0.1");
    // A notification that is disabled, or whose change is rolled back, is none.
    let _user = put_user(&server, token, &json!({ "email": "ada@example.net" })).await.expect(200);
    let same = put_user(&server, token, &json!({ "password": "another secret 1" })).await;
    assert_eq!(same.status.as_u16(), 422);
    assert_eq!(server.database().count("basalt.hook_mails").await, 0);
    assert_eq!(server.database().count("basalt.mail_outbox").await, 0, "no mail was queued");
}

/// Waits until so many notifications are queued.
async fn until_waiting(server: &Basalt, count: i64) {
    let started = std::time::Instant::now();
    while server.database().count("basalt.hook_mails").await != count {
        assert!(started.elapsed() < Duration::from_secs(60), "the notifications were not taken");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn hook_input_and_secrets_are_not_logged() {
    let stub = HttpStub::start(|_request| Reply::Respond(400, "{}".to_owned())).await;
    let server = with_endpoint("send_sms", &stub).config("auth.external_phone_enabled", "true").start().await;
    server.expect_log("a hook failed");
    let _failed = post(&server, "/otp", &json!({ "phone": "491512345" })).await;
    let code = text(&stub.requests()[0].json(), "/sms/otp").to_owned();
    assert!(server.log().iter().all(|line| !line.raw.contains(SECRET) && !line.raw.contains(&code)));
}
