//! POST /signup with confirmation by mail (auth.md §3.3): which mail is sent, and the response when the
//! address is taken.

use super::mail_support::*;
use super::*;

fn ada(email: &str) -> Value {
    json!({ "email": email, "password": "secret1", "data": { "name": "Ada" } })
}

#[tokio::test]
async fn sign_up_mails_a_code_and_stores_its_hash() {
    let (server, email) = (confirming().await, fresh("ada"));
    let user = post(&server, "/signup", &ada(&email)).await.expect(200).json();
    assert!(user.get("access_token").is_none() && user.get("email_confirmed_at").is_none(), "{user}");
    assert!(user.get("confirmation_sent_at").is_some(), "{user}");
    assert_eq!(user["identities"].as_array().unwrap().len(), 1);

    let mail = server.mailbox().wait_for(&email).await;
    assert_eq!(mail.subject, "Confirm your email address");
    assert!(mail.link().contains("&type=signup&redirect_to="), "{}", mail.link());
    let row = server
        .sql(&format!(
            "select confirmation_token, encode(sha224('{email}{}'), 'hex'), t.token_hash,
               (select string_agg(payload->>'action', ' ') from auth.audit_log_entries
                where payload->>'actor_id' = u.id::text)
             from auth.users u join auth.one_time_tokens t on t.user_id = u.id where email = '{email}'",
            mail.code()
        ))
        .await;
    let hash = mail.token_hash();
    let expected = [&*hash, &*hash, &*hash, "user_confirmation_requested"];
    assert_eq!(row, [expected.map(|text| Some(text.to_owned()))]);
    let refused = sign_in(&server, &email, "secret1").await;
    assert_error(&refused, 400, "email_not_confirmed", "Email not confirmed");
}

#[tokio::test]
async fn challenge_starts_a_flow() {
    let (server, email) = (confirming().await, fresh("ada"));
    let mut body = ada(&email);
    body["code_challenge"] = CHALLENGE.into();
    body["code_challenge_method"] = "s256".into();
    let user = post(&server, "/signup", &body).await.expect(200).json();
    assert!(server.mailbox().wait_for(&email).await.token_hash().starts_with("pkce_"));
    let flow = server
        .sql(&format!(
            "select authentication_method, code_challenge from auth.flow_state where user_id = '{}'",
            text(&user, "/id")
        ))
        .await;
    assert_eq!(flow, [["email/signup", CHALLENGE].map(|text| Some(text.to_owned()))]);
}

#[tokio::test]
async fn repeated_sign_up_resends_and_changes_nothing() {
    let (server, email) = (confirming().await, fresh("ada"));
    let first = post(&server, "/signup", &ada(&email)).await.expect(200).json();
    let mail = server.mailbox().wait_for(&email).await;
    let soon = post(&server, "/signup", &ada(&email)).await.expect(429);
    assert_eq!(soon.header("x-sb-error-code"), "over_email_send_rate_limit");
    let _rows = server
        .sql(&format!(
            "update auth.users set confirmation_sent_at = now() - interval '61 s' where email = '{email}'"
        ))
        .await;
    let other = json!({ "email": email, "password": "another1", "data": { "name": "Eve" } });
    let again = post(&server, "/signup", &other).await.expect(200).json();
    assert_eq!((&again["id"], &again["user_metadata"]["name"]), (&first["id"], &json!("Ada")));
    assert_eq!(again["identities"].as_array().unwrap().len(), 1);
    assert_ne!(server.mailbox().wait_for(&email).await.token_hash(), mail.token_hash());
    let refused = sign_in(&server, &email, "another1").await;
    assert_error(&refused, 400, "invalid_credentials", "Invalid login credentials");
}

#[tokio::test]
async fn confirmed_account_is_hidden_and_gets_no_mail() {
    let (server, email) = (confirming().await, fresh("ada"));
    let id = member(&server, &email).await;
    let hidden = post(&server, "/signup", &ada(&email.to_uppercase())).await.expect(200).json();
    let truth = post(&server, "/signup", &ada(&fresh("eve"))).await.expect(200).json();
    assert_ne!(hidden["id"], *id);
    assert_eq!(hidden["email"], *email);
    assert_eq!((&hidden["identities"], &hidden["role"]), (&json!([]), &json!("")));
    assert_eq!(hidden["user_metadata"], json!({ "name": "Ada" }));
    assert_eq!(hidden["app_metadata"], truth["app_metadata"]);
    let names = |user: &Value| user.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&hidden), names(&truth));
    assert_eq!(server.mailbox().mails(&email).await.len(), 0);
    let audit = server
        .sql(&format!(
            "select payload->>'action' from auth.audit_log_entries where payload->>'actor_id' = '{id}'"
        ))
        .await;
    assert_eq!(audit.last(), Some(&vec![Some("user_repeated_signup".to_owned())]));
    // The developer who wonders about it finds a hint, without the address.
    server.wait_for_log("made-up user without identities").await;
    let lines = server.log();
    let hint = lines.iter().find(|line| line.message.contains("made-up user")).unwrap();
    assert!(!hint.raw.contains(&email), "{}", hint.raw);
}

#[tokio::test]
async fn failed_sign_up_sends_no_mail() {
    let server = confirm_by_mail()
        .config("auth.rate_limit_email_sent", "1")
        .expect_log("Database error saving new user")
        .start()
        .await;
    let _rows = server
        .sql(
            "create function public.refuse() returns trigger language plpgsql as $$
             begin if new.confirmation_token <> '' and new.email like 'eve%' then raise exception 'no'; end if;
             return new; end $$;
             create trigger t after update on auth.users for each row execute function public.refuse()",
        )
        .await;
    let refused = post(&server, "/signup", &ada("eve@example.org")).await.expect(500).json();
    assert_eq!(refused["message"], "Database error saving new user");
    assert_eq!(server.mailbox().mails("eve@example.org").await.len(), 0);
    assert_eq!(server.sql("select count(*) from auth.users").await, [[Some("0".to_owned())]]);
    // Mails that were not sent do not count.
    let _user = post(&server, "/signup", &ada("ada@example.org")).await.expect(200);
}
