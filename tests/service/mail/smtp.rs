//! Mail by SMTP to a real server: delivery, and failures of the mail server or of ours.

use std::time::Duration;

use basalt_testkit::{Basalt, Builder, Security, SmtpServer};
use tokio::time::{Instant, sleep};

use crate::mail::{recover, sign_up};

/// A server that sends its mail to `smtp`, with short timeouts.
fn sending(smtp: &SmtpServer) -> Builder {
    Basalt::builder()
        .config("auth.mailer_autoconfirm", "false")
        .config("mail.max_frequency", "0")
        .config("mail.smtp_url", &smtp.url())
        .config("mail.from", "app@example.org")
        .config("mail.timeout", "1s")
        .config("mail.retry_pause", "200ms")
}

/// `state`, `attempts`, `sealed is null` and `last_error` of the only row.
async fn row(server: &Basalt) -> (String, u32, bool, String) {
    let rows = server
        .database()
        .admin_sql("select state, attempts, sealed is null, coalesce(last_error, '') from basalt.mail_outbox")
        .await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    let text = |index: usize| rows[0][index].clone().unwrap_or_default();
    (text(0), text(1).parse().unwrap(), text(2) == "t", text(3))
}

async fn until_state(server: &Basalt, wanted: &str) -> (String, u32, bool, String) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let row = row(server).await;
        if row.0 == wanted {
            return row;
        }
        assert!(Instant::now() < deadline, "still {row:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A metric, summed over all kinds.
async fn metric(server: &Basalt, name: &str) -> f64 {
    let metrics = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    metrics
        .lines()
        .filter(|line| line.starts_with(name))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[tokio::test]
async fn mail_is_sent_at_once_and_its_content_erased() {
    let smtp = SmtpServer::start().await;
    smtp.require_login("app", "p:w/d");
    let url = smtp.url().replace("://", "://app:p%3Aw%2Fd@");
    let server = sending(&smtp)
        .config("mail.smtp_url", &url)
        .config("mail.sender_name", "Grüne App")
        .config("mail.headers", "X-Kind=mail-$messageType")
        .start()
        .await;
    let _user = sign_up(&server, "ada@example.org").await;
    let mail = smtp.wait_for("ada@example.org").await;
    assert_eq!((mail.from.as_str(), mail.login.as_deref()), ("app@example.org", Some("app:p:w/d")));
    for part in [
        "Subject: Confirm your email address\n",
        "To: ada@example.org\n",
        "<app@example.org>\n",
        "X-Kind: mail-confirmation\n",
        "Auto-Submitted: auto-generated\n",
        "Message-ID: <",
        "multipart/alternative",
        "text/plain",
        "text/html",
    ] {
        assert!(mail.data.contains(part), "{part} in {}", mail.data);
    }
    assert!(mail.data.find("text/plain") < mail.data.find("text/html"));

    let (_, attempts, is_erased, error) = until_state(&server, "sent").await;
    assert!(attempts == 1 && is_erased && error.is_empty());
    assert!(metric(&server, "basalt_mail_queued_total").await >= 1.0);
    assert!(metric(&server, "basalt_mail_sent_total").await >= 1.0);

    // The following mails reuse the connection. NOTIFY wakes the worker: polling alone, every 5 s, would take over 25 s.
    let started = Instant::now();
    for count in 2..9 {
        let _recovery = recover(&server, "ada@example.org").await;
        while smtp.mails().len() < count {
            assert!(started.elapsed() < Duration::from_secs(25), "mails wait for the next poll");
            sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(smtp.connections(), 1);
    // A configured mail server disables the mailbox.
    assert_eq!(server.get("/mailbox").send().await.status, 404);
}

#[tokio::test]
async fn transient_error_is_retried() {
    let smtp = SmtpServer::start().await;
    smtp.refuse("RCPT", "451 4.3.0 later, eve@example.org", 1);
    smtp.refuse("DATA.", "452 4.2.2 full", 1);
    let server = sending(&smtp).expect_log("mail delivery failed").start().await;
    let _user = sign_up(&server, "eve@example.org").await;
    let _mail = smtp.wait_for("eve@example.org").await;
    let (_, attempts, is_erased, _) = until_state(&server, "sent").await;
    assert_eq!((attempts, is_erased, smtp.mails().len()), (3, true, 1));
    assert!(metric(&server, "basalt_mail_failed_total").await >= 2.0);
    // The reply is not logged: it contains addresses.
    assert!(server.log().iter().any(|line| line.raw.contains("the server replied with 451")));
    assert!(!server.log().iter().any(|line| line.raw.contains("eve@example.org")));
}

#[tokio::test]
async fn permanent_error_abandons_the_mail_and_keeps_it() {
    let smtp = SmtpServer::start().await;
    smtp.refuse("RCPT", "550 5.1.1 no such user <nobody@example.org>", 1);
    let server = sending(&smtp).expect_log("mail delivery abandoned").start().await;
    let _user = sign_up(&server, "nobody@example.org").await;
    let (_, attempts, is_erased, error) = until_state(&server, "dead").await;
    assert!(attempts == 1 && !is_erased && error.contains("550"), "{error}");
    assert!(metric(&server, "basalt_mail_dead_total").await >= 1.0);
    assert!(!server.log().iter().any(|line| line.raw.contains("nobody@example.org")));
    assert!(smtp.mails().is_empty());
}

#[tokio::test]
async fn rejected_login_does_not_abandon_the_mail() {
    let smtp = SmtpServer::start().await;
    smtp.require_login("app", "right");
    let server = sending(&smtp)
        .config("mail.smtp_url", &smtp.url().replace("://", "://app:wrong@"))
        .expect_log("mail delivery failed")
        .start()
        .await;
    let _user = sign_up(&server, "ada@example.org").await;
    server.wait_for_log("rejected the login with 535").await;
    assert_eq!(row(&server).await.0, "queued");
    smtp.require_login("app", "wrong");
    let _mail = smtp.wait_for("ada@example.org").await;
}

#[tokio::test]
async fn sends_without_login_when_auth_is_unsupported() {
    let smtp = SmtpServer::start().await;
    let server =
        sending(&smtp).config("mail.smtp_url", &smtp.url().replace("://", "://user:password@")).start().await;
    let _user = sign_up(&server, "ada@example.org").await;
    assert_eq!(smtp.wait_for("ada@example.org").await.login, None);
}

#[tokio::test]
async fn mail_is_abandoned_after_the_last_attempt() {
    let mut smtp = SmtpServer::start().await;
    smtp.stop();
    let server = sending(&smtp)
        .config("mail.max_attempts", "3")
        .expect_log("mail delivery failed")
        .expect_log("mail delivery abandoned")
        .start()
        .await;
    let _user = sign_up(&server, "ada@example.org").await;
    let (_, attempts, is_erased, error) = until_state(&server, "dead").await;
    assert!(attempts == 3 && !is_erased && !error.is_empty(), "{error}");
}

#[tokio::test]
async fn queued_mail_is_encrypted_and_survives_a_restart() {
    let mut smtp = SmtpServer::start().await;
    smtp.stop();
    let mut server = sending(&smtp).expect_log("mail delivery failed").start().await;
    let _user = sign_up(&server, "ada@example.org").await;
    server.wait_for_log("mail delivery failed").await;
    let stored = server
        .database()
        .admin_sql("select to_jsonb(m)::text, encode(sealed, 'escape') from basalt.mail_outbox m")
        .await;
    server.kill();

    smtp.start_again().await;
    server.start_again().await;
    let mail = smtp.wait_for("ada@example.org").await;
    let text = mail.text();
    let hash = text.split_once("token=").unwrap().1.split('&').next().unwrap();
    let code =
        text.lines().find(|line| line.len() == 6 && line.bytes().all(|byte| byte.is_ascii_digit())).unwrap();
    assert_eq!(hash.len(), 56, "{hash}");
    for column in stored.iter().flatten().flatten() {
        assert!(!column.contains(hash) && !column.contains(code) && !column.contains("verify"), "{column}");
    }
    // Only the recipient is readable.
    assert!(stored[0][0].as_ref().unwrap().contains("ada@example.org"));
}

#[tokio::test]
async fn killed_server_sends_again_after_restart() {
    let smtp = SmtpServer::start().await;
    smtp.stall_at(Some("DATA."));
    let mut server = sending(&smtp).start().await;
    let _user = sign_up(&server, "ada@example.org").await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while row(&server).await.1 == 0 {
        assert!(Instant::now() < deadline, "no worker claimed the mail");
        sleep(Duration::from_millis(5)).await;
    }
    server.kill();
    smtp.stall_at(None);
    server.start_again().await;
    // The lease has to expire first.
    let _mail = smtp.wait_for("ada@example.org").await;
    assert_eq!(until_state(&server, "sent").await.1, 2);
}

#[tokio::test]
async fn servers_of_a_database_send_each_mail_once() {
    let smtp = SmtpServer::start().await;
    let first = sending(&smtp)
        .config("auth.rate_limit_otp", "0")
        .config("auth.rate_limit_email_sent", "0")
        .start()
        .await;
    let url = first.database().url();
    let second = sending(&smtp).config("mail.from", "second@example.org").database_url(&url).start().await;
    for number in 0..24 {
        let _user = sign_up(&first, &format!("user{number}@example.org")).await;
    }
    for number in 0..24 {
        let _mail = smtp.wait_for(&format!("user{number}@example.org")).await;
    }
    // Once every row is marked as sent, no server will send a mail again.
    let deadline = Instant::now() + Duration::from_secs(60);
    while first.database().count("basalt.mail_outbox where state <> 'sent'").await != 0 {
        assert!(Instant::now() < deadline, "mails are still queued");
        sleep(Duration::from_millis(10)).await;
    }
    let mut to: Vec<String> = smtp.mails().into_iter().map(|mail| mail.to).collect();
    to.sort();
    to.dedup();
    assert_eq!((to.len(), smtp.mails().len()), (24, 24));
    drop(second);
}

#[tokio::test]
async fn tls_is_used_if_offered_and_can_be_required() {
    let authority = SmtpServer::authority().display().to_string();
    for security in [Security::StartTls, Security::Tls] {
        let smtp = SmtpServer::start_with(security).await;
        let server = sending(&smtp).variable("SSL_CERT_FILE", &authority).start().await;
        let _user = sign_up(&server, "ada@example.org").await;
        assert!(smtp.wait_for("ada@example.org").await.encrypted, "{security:?}");
    }

    let plain = SmtpServer::start().await;
    let server = sending(&plain)
        .config("mail.smtp_url", &format!("{}?tls=required", plain.url()))
        .expect_log("mail delivery failed")
        .start()
        .await;
    let _user = sign_up(&server, "ada@example.org").await;
    server.wait_for_log("STARTTLS is not supported").await;
    assert!(plain.mails().is_empty());
    drop(server);

    // The certificate's issuer is unknown.
    let unknown = SmtpServer::start_with(Security::StartTls).await;
    let server = sending(&unknown).expect_log("mail delivery failed").start().await;
    let _user = sign_up(&server, "ada@example.org").await;
    server.wait_for_log("mail delivery failed").await;
    assert!(unknown.mails().is_empty());
}

#[tokio::test]
async fn production_without_smtp_warns_and_logs_no_secret() {
    let smtp = SmtpServer::start().await;
    let production = |builder: Builder| {
        builder
            .config("server.mode", "production")
            .config("server.log", "debug,basalt::access=info")
            .expect_log("links in mails will not work")
    };
    let server = production(sending(&smtp)).start().await;
    let _user = sign_up(&server, "marked-person@example.org").await;
    let mail = smtp.wait_for("marked-person@example.org").await;
    let _sent = until_state(&server, "sent").await;
    let text = mail.text();
    let hash = text.split_once("token=").unwrap().1.split('&').next().unwrap();
    let code =
        text.lines().find(|line| line.len() == 6 && line.bytes().all(|byte| byte.is_ascii_digit())).unwrap();
    for line in server.log() {
        for secret in [hash, code, "marked-person"] {
            assert!(!line.raw.contains(secret), "{}", line.raw);
        }
    }

    let mute = Basalt::builder().expect_log("mail not sent: no mail server is configured");
    let mute = production(mute).start().await;
    let _user = sign_up(&mute, "marked-person@example.org").await;
    mute.wait_for_log("set mail.smtp_url and mail.from").await;
    assert!(mute.database().admin_sql("select from basalt.mail_outbox").await.is_empty());
    assert!(!mute.log().iter().any(|line| line.raw.contains("token=") || line.raw.contains("marked-person")));
}
