use std::time::Duration;

use basalt_testkit::{Basalt, SmtpServer};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::basalt;

async fn sign_up(server: &Basalt, email: &str) {
    let body = json!({ "email": email, "password": "correct horse 7" });
    server.post("/auth/v1/signup").apikey(server.anon_key()).json(&body).send().await.expect(200);
}

/// Waits for `wanted` mails in these states and returns them.
async fn listed(server: &Basalt, states: &[&str], wanted: usize) -> Vec<Value> {
    let mut arguments = vec!["mail", "list", "--json"];
    arguments.extend(states.iter().flat_map(|state| ["--state", state]));
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let listed = basalt(server, &arguments).ok().json();
        let mails = listed["mails"].as_array().unwrap().clone();
        if mails.len() == wanted {
            assert_eq!(listed["total"], wanted);
            return mails;
        }
        assert!(Instant::now() < deadline, "{mails:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

fn sending(smtp: &SmtpServer) -> basalt_testkit::Builder {
    Basalt::builder()
        .config("auth.password_argon2_memory", "64")
        .config("auth.password_argon2_iterations", "1")
        .config("auth.mailer_autoconfirm", "false")
        .config("mail.smtp_url", &smtp.url())
        .config("mail.from", "app@example.org")
}

#[tokio::test]
async fn dead_mails_are_listed_and_retried() {
    let smtp = SmtpServer::start().await;
    smtp.refuse("RCPT", "550 5.1.1 nobody here", 3);
    let server = sending(&smtp).expect_log("mail delivery abandoned").start().await;
    assert_eq!(listed(&server, &[], 0).await, [] as [Value; 0]);
    for (index, email) in ["ada@example.org", "bob@example.org", "eve@example.org"].into_iter().enumerate() {
        sign_up(&server, email).await;
        listed(&server, &["dead"], index + 1).await;
    }
    let dead = listed(&server, &[], 3).await;
    let (eve, bob) = (&dead[0], &dead[1]);
    assert_eq!(eve["to"], "eve@example.org", "newest first");
    for (field, value) in [("kind", "confirmation"), ("state", "dead")] {
        assert_eq!(eve[field], value);
    }
    assert_eq!((eve["attempts"].as_i64(), &eve["next_attempt_at"]), (Some(1), &Value::Null));
    assert!(eve["last_error"].as_str().unwrap().contains("nobody here"), "{eve}");
    assert!(eve["finished_at"].is_string() && eve["created_at"].is_string(), "{eve}");

    let output = basalt(&server, &["mail", "list", "--limit", "1"]).ok();
    let lines: Vec<&str> = output.out.lines().collect();
    assert!(
        lines[0].starts_with("ID ") && lines[0].contains("ATTEMPTS") && lines.len() == 2,
        "{}",
        output.out
    );
    assert!(lines[1].contains("eve@example.org") && lines[1].contains("nobody here"), "{}", output.out);
    assert!(output.err.contains("1 of 3 mails"), "{}", output.err);
    // The list contains no links or codes.
    let whole = basalt(&server, &["mail", "list", "--json"]).ok().out;
    assert!(!whole.contains("verify?") && !whole.contains("token"), "{whole}");

    let id = bob["id"].to_string();
    basalt(&server, &["mail", "retry", &id, "999999"])
        .failed("no waiting or abandoned mail has the id 999999");
    assert_eq!(listed(&server, &["dead"], 3).await.len(), 3, "all or nothing");
    assert_eq!(basalt(&server, &["mail", "retry", &id]).ok().out, "1 mail queued again\n");
    smtp.wait_for("bob@example.org").await;
    assert_eq!(listed(&server, &["sent"], 1).await[0]["to"], "bob@example.org");
    basalt(&server, &["mail", "retry", &id]).failed("no waiting or abandoned mail");

    assert_eq!(basalt(&server, &["mail", "retry", "--all"]).ok().out, "2 mails queued again\n");
    smtp.wait_for("ada@example.org").await;
    smtp.wait_for("eve@example.org").await;
    listed(&server, &["sent"], 3).await;
    assert_eq!(basalt(&server, &["mail", "retry", "--all"]).ok().out, "0 mails queued again\n");
    assert_eq!(listed(&server, &[], 0).await, [] as [Value; 0]);
    for arguments in
        [["mail", "retry"].as_slice(), &["mail", "retry", "1", "--all"], &["mail", "list", "--state", "x"]]
    {
        let output = basalt(&server, arguments);
        assert_eq!(output.code, 2, "{}{}", output.out, output.err);
    }
}

#[tokio::test]
async fn queued_mail_can_be_retried_immediately() {
    let smtp = SmtpServer::start().await;
    smtp.refuse("RCPT", "451 4.3.0 later", 1);
    let server =
        sending(&smtp).config("mail.retry_pause", "1h").expect_log("mail delivery failed").start().await;
    sign_up(&server, "ada@example.org").await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let mail = loop {
        let mail = listed(&server, &["queued"], 1).await.remove(0);
        if mail["last_error"].is_string() {
            break mail;
        }
        assert!(Instant::now() < deadline, "{mail}");
    };
    assert!(mail["next_attempt_at"].is_string() && mail["finished_at"].is_null(), "{mail}");
    // `--all` includes only dead mails.
    assert_eq!(basalt(&server, &["mail", "retry", "--all"]).ok().out, "0 mails queued again\n");
    basalt(&server, &["mail", "retry", &mail["id"].to_string()]).ok();
    smtp.wait_for("ada@example.org").await;
}
