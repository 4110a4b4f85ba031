//! `invite-member` and `test-email`: content, permissions, limits, and delivery to the mailbox, SMTP and Resend.

use std::time::Duration;

use basalt_testkit::{Basalt, HttpStub, Reply, SmtpServer, User};
use serde_json::{Value, json};

use super::{app, call, failure, shown, sign_up_admin};

/// Creates a plan owned by `owner` and returns its id.
pub(super) async fn make_plan(server: &Basalt, owner: &User, title: &str) -> String {
    let plan = server
        .post("/rest/v1/plans")
        .by(server, owner)
        .header("prefer", "return=representation")
        .json(&json!({"title": title}))
        .send()
        .await
        .expect(201);
    plan.json()[0]["id"].as_str().unwrap().to_owned()
}

/// Inserts the row that the app writes before it calls `invite-member`.
pub(super) async fn invite(server: &Basalt, by: &User, plan: &str, email: &str, role: &str) -> u16 {
    let body = json!({"plan_id": plan, "email": email, "role": role, "invite_accepted": false});
    server.post("/rest/v1/plan_members").by(server, by).json(&body).send().await.status.as_u16()
}

fn body(email: &str, plan: &str) -> Value {
    json!({
        "email": email, "planId": plan, "role": "owner", "inviterEmail": "forged@example.org",
        "planTitle": "Forged", "inviteUrl": "https://evil.example/invite?token=forged",
    })
}

/// Marks the user's address as confirmed by mail.
pub(super) async fn prove_address(server: &Basalt, user: &User) {
    let proven = format!(
        "update auth.identities set identity_data = identity_data || '{{\"email_verified\": true}}' where user_id = '{}'",
        user.id
    );
    let _rows = server.database().admin_sql(&proven).await;
}

/// The first link in a mail.
fn link_in(text: &str) -> String {
    text.split_whitespace().find(|word| word.starts_with("http")).unwrap().to_owned()
}

/// The token in an invitation's link.
fn token_in(link: &str) -> String {
    link.split_once("token=").unwrap().1.split('&').next().unwrap().to_owned()
}

/// The states of the plan's invitation mails, as its owner sees them.
async fn states(server: &Basalt, user: &User, plan: &str) -> Vec<String> {
    let rows = server.post("/rest/v1/rpc/get_invitation_mails").by(server, user).json(&json!({"plan": plan}));
    let rows = rows.send().await.expect(200).json();
    rows.as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
}

async fn ask(server: &Basalt, user: &User, email: &str, plan: &str) -> (u16, Value) {
    shown(&call(server, "invite-member", Some(user), &body(email, plan)).send().await)
}

pub(super) async fn set_resend(server: &Basalt, key: &str) {
    let value = json!({"apiKey": key, "fromEmail": "plans@example.org", "fromName": "Plans"});
    server
        .sql(&format!(
            "insert into public.app_settings (key, value) values ('email_resend', '{value}')
             on conflict (key) do update set value = excluded.value"
        ))
        .await;
}

#[tokio::test]
async fn invitation_uses_stored_texts_and_our_link() {
    let server = app().start().await;
    let owner = server.sign_up("ada@example.org").await;
    let plan = make_plan(&server, &owner, "Growth <b>2027</b>").await;
    assert_eq!(invite(&server, &owner, &plan, "Bob@example.org", "viewer").await, 201);
    let (status, response) = ask(&server, &owner, "bob@example.org", &plan).await;
    assert_eq!((status, &response["success"]), (200, &json!(true)), "{response}");
    assert!(response["id"].is_string(), "{response}");
    let mail = server.mailbox().wait_for("bob@example.org").await;
    assert_eq!(mail.subject, "You've been invited to collaborate on Growth <b>2027</b>");
    let token = server
        .database()
        .value("select invite_token::text from public.plan_members where not invite_accepted")
        .await;
    // The mail's token differs from the one that inviters can copy, and the database has only its hash.
    assert!(!mail.html.contains(&token), "{}", mail.html);
    let link = link_in(&mail.text);
    assert!(
        link.starts_with(&server.url("/invite?token=")) && link.ends_with(&format!("&plan={plan}")),
        "{link}"
    );
    let hashes = "select count(*)::text from app_private.invitation_mails where encode(token_hash, 'hex') = encode(sha256(convert_to('{}', 'UTF8')), 'hex')";
    assert_eq!(server.database().value(&hashes.replace("{}", &token_in(&link))).await, "1");
    assert!(mail.text.contains("ada@example.org invited you."), "{}", mail.text);
    assert!(mail.text.contains("is for Bob@example.org only and expires in 14 days."), "{}", mail.text);
    assert!(mail.html.contains("Growth &lt;b&gt;2027&lt;/b&gt;"), "{}", mail.html);
    for forged in ["evil", "forged", "Forged"] {
        assert!(!mail.html.contains(forged), "{}", mail.html);
    }
    // A custom template is read for each mail.
    server
        .sql("update public.app_settings set value = '{\"subject\":\"Join {{planTitle}}\",\"body\":\"<i>{{role}}</i> {{inviteUrl}}\"}' where key = 'invite_email_template'")
        .await;
    let (status, _) = ask(&server, &owner, "BOB@example.org", &plan).await;
    assert_eq!(status, 200);
    let mail = server.mailbox().wait_for("bob@example.org").await;
    assert_eq!(
        (mail.subject.as_str(), mail.html.contains("<i>viewer</i> http")),
        ("Join Growth <b>2027</b>", true)
    );
}

#[tokio::test]
async fn rejected_invitations_state_the_reason() {
    let server = app().start().await;
    let owner = server.sign_up("ada@example.org").await;
    let plan = make_plan(&server, &owner, "Growth").await;
    let (stranger, member) =
        (server.sign_up("eve@example.org").await, server.sign_up("bob@example.org").await);
    let join = |user: &User, role: &str| {
        format!(
            "insert into public.plan_members (plan_id, user_id, email, role, invite_accepted, invite_token)
             values ('{plan}', '{}', '{}', '{role}', true, null)
             on conflict (plan_id, user_id) do update set role = excluded.role",
            user.id, user.email
        )
    };
    let missing = failure("Could not find the specified plan. It may have been deleted.");
    assert_eq!(ask(&server, &stranger, "x@example.org", &plan).await, (404, missing.clone()));
    assert_eq!(
        ask(&server, &owner, "x@example.org", "0a0a0a0a-0000-4000-8000-000000000001").await,
        (404, missing)
    );
    let nobody = failure("No pending invitation for this address");
    assert_eq!(ask(&server, &owner, "x@example.org", &plan).await, (404, nobody.clone()));
    assert_eq!(
        ask(&server, &owner, "no address", &plan).await,
        (400, failure("Please enter a valid email address"))
    );
    assert_eq!(ask(&server, &owner, "x@example.org", "1").await, (400, failure("Invalid planId")));
    server.sql(&join(&member, "viewer")).await;
    let refused = failure("Only owners and managers can invite members");
    assert_eq!(ask(&server, &member, "x@example.org", &plan).await, (403, refused));
    server.sql(&join(&member, "manager")).await;
    assert_eq!(invite(&server, &owner, &plan, "cleo@example.org", "owner").await, 201);
    // Only owners see invitations of owners.
    assert_eq!(ask(&server, &member, "cleo@example.org", &plan).await, (404, nobody.clone()));
    // Accepted invitations are not pending.
    assert_eq!(ask(&server, &owner, "bob@example.org", &plan).await, (404, nobody));
    assert!(server.mailbox().mails("cleo@example.org").await.is_empty());
}

#[tokio::test]
async fn invitations_are_limited_per_mailbox() {
    let server = app().start().await;
    let senders = [server.sign_up("ada@example.org").await, server.sign_up("eve@example.org").await];
    let mut responses = Vec::new();
    for (number, email) in ["bob@example.org", "Bob@example.org", "bob+plans@example.org", "bob@example.org"]
        .into_iter()
        .enumerate()
    {
        let sender = &senders[number % 2];
        let plan = make_plan(&server, sender, "Growth").await;
        assert_eq!(invite(&server, sender, &plan, email, "viewer").await, 201);
        responses.push(call(&server, "invite-member", Some(sender), &body(email, &plan)).send().await);
    }
    let fourth = responses.pop().unwrap();
    assert_eq!(
        responses.iter().map(|response| response.status.as_u16()).collect::<Vec<_>>(),
        [200, 200, 200]
    );
    assert_eq!(shown(&fourth), (429, failure("Too many requests. Try again later.")));
    assert!(fourth.header("retry-after").parse::<u64>().unwrap() > 3600);
}

#[tokio::test]
async fn unconfirmed_account_cannot_invite() {
    let server = app().start().await;
    let owner = server.sign_up("ada@example.org").await;
    let plan = make_plan(&server, &owner, "Growth").await;
    assert_eq!(invite(&server, &owner, &plan, "bob@example.org", "viewer").await, 201);
    let unconfirmed = "update auth.users set email_confirmed_at = null, phone_confirmed_at = null";
    let _rows = server.database().admin_sql(unconfirmed).await;
    let refused = (403, failure("Confirm your e-mail address first"));
    assert_eq!(ask(&server, &owner, "bob@example.org", &plan).await, refused);
    assert!(server.mailbox().mails("bob@example.org").await.is_empty());
}

#[tokio::test]
async fn invitation_shows_whether_its_mail_was_delivered() {
    let resend = HttpStub::start(|_| {
        Reply::Respond(
            401,
            r#"{"statusCode":401,"name":"validation_error","message":"API key is invalid"}"#.to_owned(),
        )
    })
    .await;
    let server = app().config("mail.resend_url", &resend.url()).expect_log("mail delivery").start().await;
    let owner = server.sign_up("ada@example.org").await;
    prove_address(&server, &owner).await;
    let plan = make_plan(&server, &owner, "Growth").await;
    assert_eq!(invite(&server, &owner, &plan, "bob@example.org", "viewer").await, 201);
    assert_eq!(states(&server, &owner, &plan).await, [] as [&str; 0]);
    set_resend(&server, "re_wrong").await;
    assert_eq!(ask(&server, &owner, "bob@example.org", &plan).await.0, 502);
    assert_eq!(states(&server, &owner, &plan).await, ["failed"]);
    // Sent again, with another link and idempotency key.
    resend.reply(|_| Reply::Respond(200, r#"{"id":"1"}"#.to_owned()));
    assert_eq!(ask(&server, &owner, "bob@example.org", &plan).await.0, 200);
    assert_eq!(states(&server, &owner, &plan).await, ["sent"]);
    let requests = resend.requests();
    let keys: Vec<String> = requests.iter().map(|request| request.header("idempotency-key")).collect();
    assert_ne!(keys[0], keys[1]);
    assert_eq!(requests[1].json()["reply_to"], "ada@example.org");
    assert_eq!(requests[1].json()["from"], "\"ada@example.org via Plans\" <plans@example.org>");
    // Strangers and viewers learn nothing.
    let stranger = server.sign_up("eve@example.org").await;
    assert_eq!(states(&server, &stranger, &plan).await, [] as [&str; 0]);
}

#[tokio::test]
async fn key_is_tested_before_it_is_saved() {
    let resend = HttpStub::start(|_| {
        Reply::Respond(200, r#"{"data":[{"name":"example.org","status":"verified"}]}"#.to_owned())
    })
    .await;
    let server = app().config("mail.resend_url", &resend.url()).start().await;
    let admin = sign_up_admin(&server, "ada@example.org").await;
    let test = async |key: &str, from: &str| {
        let body = json!({"apiKey": key, "fromEmail": from});
        shown(&call(&server, "test-mail-key", Some(&admin), &body).send().await)
    };
    assert_eq!(test("re_right", "plans@example.org").await, (200, json!({"success": true})));
    let received = resend.requests().pop().unwrap();
    assert!(received.head.starts_with("GET /domains HTTP/1.1"), "{}", received.head);
    assert_eq!(received.header("authorization"), "Bearer re_right");
    let other = test("re_right", "plans@elsewhere.org").await;
    assert_eq!((other.0, &other.1["code"]), (400, &json!("from_email")));

    let invalid = r#"{"statusCode":401,"name":"validation_error","message":"API key is invalid"}"#;
    resend.reply(move |_| Reply::Respond(401, invalid.to_owned()));
    let refused = json!({"error": "Resend rejects this key: API key is invalid", "code": "api_key"});
    assert_eq!(test("re_wrong", "plans@example.org").await, (400, refused.clone()));
    // The mask of a saved key stands for the key.
    set_resend(&server, "re_a_secret_key_of_resend").await;
    assert_eq!(test("••••••••send", "plans@example.org").await, (400, refused));
    assert_eq!(resend.requests().pop().unwrap().header("authorization"), "Bearer re_a_secret_key_of_resend");
    resend.reply(|_| Reply::Respond(503, "{}".to_owned()));
    let (status, body) = test("re_right", "plans@example.org").await;
    assert_eq!(status, 502, "{body}");
    assert!(body["error"].as_str().unwrap().contains("could not be tested, and nothing was saved"), "{body}");
    // A provider that does not answer is given ten seconds.
    resend.reply(|_| Reply::After(Duration::from_secs(60), Box::new(Reply::Respond(200, "{}".to_owned()))));
    let (status, body) = test("re_right", "plans@example.org").await;
    assert_eq!(status, 502, "{body}");
    let user = server.sign_up("eve@example.org").await;
    let body = json!({"apiKey": "re_x", "fromEmail": "a@example.org"});
    assert_eq!(call(&server, "test-mail-key", Some(&user), &body).send().await.status, 403);
}

#[tokio::test]
async fn removed_key_hands_waiting_mail_to_the_own_server() {
    let resend =
        HttpStub::start(|_| Reply::Respond(500, r#"{"name":"application_error","message":"x"}"#.to_owned()))
            .await;
    let smtp = SmtpServer::start().await;
    let server = app()
        .config("mail.resend_url", &resend.url())
        .config("mail.smtp_url", &smtp.url())
        .config("mail.from", "app@example.org")
        .config("auth.mailer_autoconfirm", "true")
        .config("mail.retry_pause", "10m")
        .expect_log("mail delivery")
        .start()
        .await;
    let admin = sign_up_admin(&server, "ada@example.org").await;
    prove_address(&server, &admin).await;
    set_resend(&server, "re_wrong").await;
    let plan = make_plan(&server, &admin, "Growth").await;
    for email in ["bob@example.org", "cleo@example.org"] {
        assert_eq!(invite(&server, &admin, &plan, email, "viewer").await, 201);
    }
    // One waits for its next attempt; the other is abandoned.
    let queued = ask(&server, &admin, "bob@example.org", &plan).await;
    assert_eq!(queued, (200, json!({"success": true, "queued": true})));
    resend.reply(|_| Reply::Respond(403, r#"{"name":"invalid_api_key","message":"No such key"}"#.to_owned()));
    assert_eq!(ask(&server, &admin, "cleo@example.org", &plan).await.0, 502);
    let health = async || {
        let answer =
            server.post("/rest/v1/rpc/admin_health").by(&server, &admin).json(&json!({})).send().await;
        answer.expect(200).json()["mail"].clone()
    };
    let none_waits = async || {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while health().await["waiting"] != 0 {
            assert!(tokio::time::Instant::now() < deadline, "mail still waits");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let figures = health().await;
    assert_eq!((&figures["waiting"], &figures["abandoned"]), (&json!(1), &json!(1)), "{figures}");
    assert_eq!(figures["last_error"], "No such key");
    assert!(states(&server, &admin, &plan).await.contains(&"waiting".to_owned()));

    server
        .sql(
            "update public.app_settings set value = value || '{\"apiKey\": \"\"}' where key = 'email_resend'",
        )
        .await;
    let retry = async |abandoned: bool| {
        let body = json!({"abandoned": abandoned});
        call(&server, "retry-mails", Some(&admin), &body).send().await.expect(200).json()["retried"].clone()
    };
    assert_eq!(retry(false).await, 1);
    assert!(smtp.wait_for("bob@example.org").await.data.contains("invited"));
    none_waits().await;
    assert_eq!(retry(true).await, 1);
    assert!(smtp.wait_for("cleo@example.org").await.data.contains("invited"));
    none_waits().await;
    assert_eq!(states(&server, &admin, &plan).await, ["sent", "sent"]);
    let user = server.sign_up("eve@example.org").await;
    assert_eq!(call(&server, "retry-mails", Some(&user), &json!({})).send().await.status, 403);
}

#[tokio::test]
async fn removed_key_hands_waiting_mail_to_the_mailbox() {
    let resend =
        HttpStub::start(|_| Reply::Respond(500, r#"{"name":"application_error","message":"x"}"#.to_owned()))
            .await;
    let server = app()
        .config("mail.resend_url", &resend.url())
        .config("mail.retry_pause", "10m")
        .expect_log("mail delivery")
        .start()
        .await;
    let admin = sign_up_admin(&server, "ada@example.org").await;
    prove_address(&server, &admin).await;
    set_resend(&server, "re_wrong").await;
    let plan = make_plan(&server, &admin, "Growth").await;
    assert_eq!(invite(&server, &admin, &plan, "bob@example.org", "viewer").await, 201);
    assert_eq!(ask(&server, &admin, "bob@example.org", &plan).await.0, 200);
    server
        .sql(
            "update public.app_settings set value = value || '{\"apiKey\": \"\"}' where key = 'email_resend'",
        )
        .await;
    let _retried = call(&server, "retry-mails", Some(&admin), &json!({})).send().await.expect(200);
    assert!(server.mailbox().wait_for("bob@example.org").await.text.contains("invited you"));
}

#[tokio::test]
async fn refused_mail_marks_the_invitation() {
    let server = app().start().await;
    let owner = server.sign_up("ada@example.org").await;
    let plan = make_plan(&server, &owner, "Growth").await;
    assert_eq!(invite(&server, &owner, &plan, "bob@example.org", "viewer").await, 201);
    let unconfirmed = "update auth.users set email_confirmed_at = null, phone_confirmed_at = null";
    let _rows = server.database().admin_sql(unconfirmed).await;
    assert_eq!(ask(&server, &owner, "bob@example.org", &plan).await.0, 403);
    let aged = "update app_private.invitation_mails set created_at = now() - interval '2 minutes'";
    let _rows = server.database().admin_sql(aged).await;
    assert_eq!(states(&server, &owner, &plan).await, ["failed"]);
}

/// What the holder of a link sees.
async fn invitation(server: &Basalt, token: &str, plan: &str) -> Value {
    let body = json!({"token": token, "plan": plan});
    let rows = server.post("/rest/v1/rpc/get_invitation").apikey(server.anon_key()).json(&body);
    rows.send().await.expect(200).json()[0].clone()
}

async fn accept(server: &Basalt, user: &User, token: &str, plan: &str) -> (u16, Value) {
    let body = json!({"token": token, "plan": plan});
    let answer = server.post("/rest/v1/rpc/accept_invitation").by(server, user).json(&body).send().await;
    (answer.status.as_u16(), answer.json())
}

/// Signs up with the token of an invitation, as the app does.
async fn sign_up_invited(server: &Basalt, email: &str, token: &str) -> Value {
    let data = json!({"organization_name": "Trust", "invitation_token": token});
    let body = json!({"email": email, "password": "correct horse", "data": data});
    server.post("/auth/v1/signup").apikey(server.anon_key()).json(&body).send().await.expect(200).json()
}

/// Signs in with the password of [`sign_up_invited`].
async fn sign_in(server: &Basalt, email: &str) -> User {
    let body = json!({"email": email, "password": "correct horse"});
    let session = server.post("/auth/v1/token?grant_type=password").apikey(server.anon_key()).json(&body);
    let session = session.send().await.expect(200).json();
    let text = |path: &str| session.pointer(path).and_then(Value::as_str).unwrap().to_owned();
    User {
        id: text("/user/id"),
        email: email.to_owned(),
        password: "correct horse".to_owned(),
        access_token: text("/access_token"),
        refresh_token: text("/refresh_token"),
    }
}

/// An account that an administrator confirmed.
async fn sign_up_confirmed(server: &Basalt, email: &str) -> User {
    let body = json!({"email": email, "password": "correct horse", "email_confirm": true});
    let key = server.secret_key();
    let _made =
        server.post("/auth/v1/admin/users").apikey(key).bearer(key).json(&body).send().await.expect(200);
    sign_in(server, email).await
}

/// A server that requires confirmed addresses, a plan, and the tokens of its invitation of `bob@example.org`: of the mail, and of "Copy link".
async fn invited() -> (Basalt, User, String, String, String) {
    let server = app().config("auth.mailer_autoconfirm", "false").start().await;
    let owner = sign_up_confirmed(&server, "ada@example.org").await;
    let plan = make_plan(&server, &owner, "Growth").await;
    assert_eq!(invite(&server, &owner, &plan, "bob@example.org", "viewer").await, 201);
    assert_eq!(ask(&server, &owner, "bob@example.org", &plan).await.0, 200);
    let mail = server.mailbox().wait_for("bob@example.org").await;
    let copied = server
        .database()
        .value("select invite_token::text from public.plan_members where not invite_accepted")
        .await;
    (server, owner, plan, token_in(&link_in(&mail.text)), copied)
}

#[tokio::test]
async fn mailed_token_confirms_a_new_account() {
    let (server, _owner, plan, mailed, copied) = invited().await;
    let shown = invitation(&server, &mailed, &plan).await;
    assert_eq!(
        (&shown["plan_title"], &shown["inviter"], &shown["is_proof"], &shown["has_account"]),
        (&json!("Growth"), &json!("ada@example.org"), &json!(true), &json!(false))
    );
    // The link to copy shows the same, and not whether the address has an account.
    let shown = invitation(&server, &copied, &plan).await;
    assert_eq!((&shown["is_proof"], &shown["has_account"]), (&json!(false), &Value::Null));

    let session = sign_up_invited(&server, "bob@example.org", &mailed).await;
    assert!(session["access_token"].is_string(), "{session}");
    assert_eq!(server.mailbox().mails("bob@example.org").await.len(), 1, "no confirmation is mailed");
    let kept = "select count(*)::text from auth.users u join auth.identities i on i.user_id = u.id
        where (to_jsonb(u) || to_jsonb(i))::text like '%invitation_token%'";
    assert_eq!(server.database().value(kept).await, "0");
    let bob = sign_in(&server, "bob@example.org").await;
    assert_eq!(accept(&server, &bob, &mailed, &plan).await, (200, json!("viewer")));
    // Used: by the same account, and by another.
    assert_eq!(accept(&server, &bob, &mailed, &plan).await.0, 404);
    let eve = sign_up_confirmed(&server, "eve@example.org").await;
    assert_eq!(accept(&server, &eve, &mailed, &plan).await.0, 404);
    assert_eq!(invitation(&server, &mailed, &plan).await, Value::Null);
}

#[tokio::test]
async fn expired_invitation_is_renewed_when_mailed_again() {
    let (server, owner, plan, mailed, copied) = invited().await;
    server
        .sql("update public.plan_members set created_at = now() - interval '15 days' where not invite_accepted")
        .await;
    for token in [&mailed, &copied] {
        assert_eq!(invitation(&server, token, &plan).await, Value::Null);
    }
    assert_eq!(ask(&server, &owner, "bob@example.org", &plan).await.0, 200);
    let mails = server.mailbox().mails("bob@example.org").await;
    let links: Vec<String> = mails.iter().map(|mail| token_in(&link_in(&mail.text))).collect();
    let renewed = links.iter().find(|token| **token != mailed).unwrap();
    assert!(mails.iter().all(|mail| mail.text.contains("expires in 14 days")));
    // The former links stay dead.
    for token in [&mailed, &copied] {
        assert_eq!(invitation(&server, token, &plan).await, Value::Null);
    }
    let bob = sign_up_confirmed(&server, "bob@example.org").await;
    assert_eq!(accept(&server, &bob, renewed, &plan).await, (200, json!("viewer")));
}

#[tokio::test]
async fn copied_token_and_other_addresses_confirm_nothing() {
    let (server, _owner, plan, mailed, copied) = invited().await;
    for (email, token) in
        [("bob@example.org", &copied), ("eve@example.org", &mailed), ("mal@example.org", &"x".to_owned())]
    {
        let answer = sign_up_invited(&server, email, token).await;
        assert!(answer["access_token"].is_null(), "{email}: {answer}");
        assert!(answer["confirmed_at"].is_null(), "{email}: {answer}");
    }
    // Nor does the mail's token after two weeks.
    let aged =
        "update public.plan_members set created_at = now() - interval '15 days' where not invite_accepted";
    server.sql(aged).await;
    let _gone = server.database().admin_sql("delete from auth.users where email = 'bob@example.org'").await;
    let answer = sign_up_invited(&server, "bob@example.org", &mailed).await;
    assert!(answer["access_token"].is_null(), "{answer}");
    let bob = sign_up_confirmed(&server, "bob2@example.org").await;
    assert_eq!(accept(&server, &bob, &mailed, &plan).await.0, 404);
}

#[tokio::test]
async fn mailed_token_proves_the_address_of_an_autoconfirmed_account() {
    let server = app().config("auth.mailer_autoconfirm", "true").start().await;
    let owner = server.sign_up("ada@example.org").await;
    let plan = make_plan(&server, &owner, "Growth").await;
    assert_eq!(invite(&server, &owner, &plan, "bob@example.org", "manager").await, 201);
    assert_eq!(ask(&server, &owner, "bob@example.org", &plan).await.0, 200);
    let mailed = token_in(&link_in(&server.mailbox().wait_for("bob@example.org").await.text));
    let copied = "select invite_token::text from public.plan_members where not invite_accepted";
    let copied = server.database().value(copied).await;
    let (bob, eve) = (server.sign_up("bob@example.org").await, server.sign_up("eve@example.org").await);
    let unproven = accept(&server, &bob, &copied, &plan).await;
    assert_eq!((unproven.0, &unproven.1["message"]), (403, &json!("Confirm your e-mail address first")));
    let other = accept(&server, &eve, &mailed, &plan).await;
    assert_eq!(
        (other.0, &other.1["message"]),
        (403, &json!("This invitation is for another e-mail address"))
    );
    assert_eq!(accept(&server, &bob, &mailed, &plan).await, (200, json!("manager")));
    let proven = format!("select functions.has_proven_address('{}')::text", bob.id);
    assert_eq!(server.database().value(&proven).await, "true");
}

#[tokio::test]
async fn resend_key_routes_mail_to_resend() {
    let resend = HttpStub::start(|_| Reply::Respond(200, r#"{"id":"49a3999c"}"#.to_owned())).await;
    let server =
        app().config("mail.resend_url", &resend.url()).config("mail.retry_pause", "200ms").start().await;
    let admin = sign_up_admin(&server, "ada@example.org").await;
    prove_address(&server, &admin).await;
    set_resend(&server, "re_a_secret_key_of_resend").await;
    let test = json!({"to": "bob@example.org", "subject": "Grüße", "message": "a <b>\nsecond line"});
    let sent = call(&server, "test-email", Some(&admin), &test).send().await;
    assert_eq!(shown(&sent), (200, json!({"success": true, "message": "Test email sent", "id": "49a3999c"})));
    let received = resend.requests().pop().unwrap();
    assert!(received.head.starts_with("POST /emails HTTP/1.1"), "{}", received.head);
    assert_eq!(received.header("authorization"), "Bearer re_a_secret_key_of_resend");
    assert!(!received.header("user-agent").is_empty());
    assert_eq!(
        received.json(),
        json!({
            "from": "Plans <plans@example.org>", "to": ["bob@example.org"], "subject": "Grüße",
            "html": "<p>a &lt;b&gt;<br>\nsecond line</p>", "text": "a <b>\nsecond line",
            "tags": [{"name": "kind", "value": "test"}],
        })
    );
    // The administrator sees the provider's error; the log does not contain it.
    server.expect_log("mail delivery");
    resend.reply(|_| Reply::Respond(403, r#"{"statusCode":403,"name":"validation_error","message":"The example.org domain is not verified"}"#.to_owned()));
    let refused = call(&server, "test-email", Some(&admin), &test).send().await;
    assert_eq!(shown(&refused), (502, failure("The example.org domain is not verified")));

    let plan = make_plan(&server, &admin, "Growth").await;
    assert_eq!(invite(&server, &admin, &plan, "bob@example.org", "viewer").await, 201);
    let (status, response) = ask(&server, &admin, "bob@example.org", &plan).await;
    assert_eq!(
        (status, response),
        (
            502,
            failure(
                "The e-mail could not be sent: Resend returned 403 (validation_error): check the key and the domain in the e-mail settings"
            )
        )
    );
    // A transient failure stays in the outbox and is retried with the same idempotency key.
    resend.reply(|_| {
        Reply::Respond(500, r#"{"statusCode":500,"name":"application_error","message":"x"}"#.to_owned())
    });
    assert_eq!(
        ask(&server, &admin, "bob@example.org", &plan).await,
        (200, json!({"success": true, "queued": true}))
    );
    resend.reply(|_| Reply::Respond(200, r#"{"id":"second"}"#.to_owned()));
    let row = "select count(*) from basalt.mail_outbox where state = 'sent'";
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while server.database().admin_sql(row).await[0][0].as_deref() != Some("1") {
        assert!(tokio::time::Instant::now() < deadline, "the mail was not sent again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let member =
        server.database().value("select id::text from public.plan_members where not invite_accepted").await;
    let received = resend.requests();
    let keys: Vec<String> =
        received.iter().rev().take(2).map(|request| request.header("idempotency-key")).collect();
    assert!(keys[0].starts_with(&format!("invite/{member}/20")) && keys[0] == keys[1], "{keys:?}");
    // Without the key, mail goes to the mailbox again.
    server.sql("delete from public.app_settings where key = 'email_resend'").await;
    let sent = call(&server, "test-email", Some(&admin), &test).send().await.expect(200);
    assert_eq!(server.mailbox().wait_for("bob@example.org").await.text, "a <b>\nsecond line");
    drop(sent);
    assert!(
        !server
            .log()
            .iter()
            .any(|line| line.raw.contains("re_a_secret") || line.raw.contains("not verified"))
    );
    let audit = server.database().value("select string_agg(distinct action || ' ' || subject, ',') from public.audit_log where action = 'test_email'").await;
    assert_eq!(audit, "test_email app_settings");
}

#[tokio::test]
async fn without_resend_key_mail_goes_through_smtp() {
    let smtp = SmtpServer::start().await;
    let server = app()
        .config("mail.smtp_url", &smtp.url())
        .config("mail.from", "app@example.org")
        .config("auth.mailer_autoconfirm", "true")
        .start()
        .await;
    let admin = sign_up_admin(&server, "ada@example.org").await;
    let test = json!({"to": "bob@example.org", "subject": "Hello", "message": "Hi"});
    let sent = call(&server, "test-email", Some(&admin), &test).send().await.expect(200).json();
    assert!(sent["id"].as_str().unwrap().ends_with("@example.org>"), "{sent}");
    assert!(smtp.wait_for("bob@example.org").await.data.contains("Subject: Hello"));
    let plan = make_plan(&server, &admin, "Growth").await;
    assert_eq!(invite(&server, &admin, &plan, "cleo@example.org", "viewer").await, 201);
    // Autoconfirmed sign-ups do not prove the address.
    let refused = (403, failure("Confirm your e-mail address first"));
    assert_eq!(ask(&server, &admin, "cleo@example.org", &plan).await, refused);
    prove_address(&server, &admin).await;
    assert_eq!(ask(&server, &admin, "cleo@example.org", &plan).await.0, 200);
    assert!(smtp.wait_for("cleo@example.org").await.data.contains("invited"));
}

#[tokio::test]
async fn test_mail_validates_each_field() {
    let server = app().start().await;
    let admin = sign_up_admin(&server, "ada@example.org").await;
    let full = json!({"to": "bob@example.org", "subject": "Hello", "message": "Hi"});
    let with = |name: &str, value: Value| {
        let mut body = full.clone();
        body[name] = value;
        body
    };
    for (body, message) in [
        (with("to", json!("bob")), "Must be a valid email address"),
        (with("to", json!("bob@example.org, eve@example.org")), "Must be a valid email address"),
        (with("subject", json!(" ")), "Subject is required"),
        (with("message", json!(null)), "Message is required"),
        (
            with("subject", json!("a\nBcc: eve@example.org")),
            "Subject must be one line of 200 characters at most",
        ),
        (with("message", json!("x".repeat(10_001))), "Message must have 10,000 characters at most"),
    ] {
        let response = call(&server, "test-email", Some(&admin), &body).send().await;
        assert_eq!(shown(&response), (400, failure(message)), "{body}");
    }
}

#[tokio::test]
async fn without_mail_provider_mail_is_503() {
    let server = app().config("server.mode", "production").expect_log("production").start().await;
    let email = "ada@example.org";
    let exists = format!(
        "insert into auth.users (id, aud, role, email, email_confirmed_at) values ('0a0a0a0a-0000-4000-8000-000000000001', 'authenticated', 'authenticated', '{email}', now());
         insert into public.user_roles (user_id, role) values ('0a0a0a0a-0000-4000-8000-000000000001', 'admin')"
    );
    server.database().admin_sql(&exists).await;
    let token = server.token(&json!({"role": "authenticated", "sub": "0a0a0a0a-0000-4000-8000-000000000001", "exp": 4_102_444_800_u32}));
    let test = json!({"to": "bob@example.org", "subject": "Hello", "message": "Hi"});
    let response = call(&server, "test-email", None, &test).bearer(&token).send().await;
    assert_eq!(shown(&response), (503, failure("E-mail sending is not configured")));
}
